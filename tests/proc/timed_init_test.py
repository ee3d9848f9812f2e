# SPDX-License-Identifier: Apache-2.0
"""Tests how soon the other ranks get an error when one dies in the middle of the initialisation.

usage: timed_init_test.py INIT_RANK STORE_HOST"""

import itertools
import sys
import unittest
from pathlib import Path

import init_test

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402

NOTICED_S = 2.0  # docs/tests.md


class Death(unittest.TestCase):
    def test_a_rank_that_dies_is_noticed_soon(self):
        for victim in (1, 0):
            strikes = itertools.count(6, 3)

            def measure(victim=victim, strikes=strikes):
                for strike in strikes:  # until all others have named the victim in one life
                    struck, seconds = init_test.Death("live").live(victim, strike)
                    self.assertTrue(struck, strike)
                    if seconds is not None:
                        return seconds
            check_timed(self, f"death of rank {victim} in the initialisation", NOTICED_S, measure)


if __name__ == "__main__":
    unittest.main(verbosity=2)
