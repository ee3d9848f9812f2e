# SPDX-License-Identifier: Apache-2.0
"""Tests how soon all other ranks get an error when one dies while another sends to it, or is about to send.

usage: timed_messages_test.py RANK_PROGRAM"""

import signal
import sys
import unittest
from pathlib import Path

from job import JobTest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402


class Death(JobTest):
    program = sys.argv.pop(1)

    def test_a_rank_that_dies_is_noticed_within_a_second(self):
        def measure():
            ranks = self.job(3, "unanswered", int(signal.SIGKILL))
            self.expect(ranks, "remote rank failed", skip=[1], peer=1)
            return max(ranks[rank].seconds for rank in (0, 2)) - ranks[1].seconds
        check_timed(self, "death of a rank to which another one sends", 1.0, measure)


if __name__ == "__main__":
    unittest.main(verbosity=2)
