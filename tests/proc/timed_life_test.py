# SPDX-License-Identifier: Apache-2.0
"""Tests how long processes take to split a communicator, and to shrink it after a death.

usage: timed_life_test.py SHRINK_RANKS SPLIT_RANKS"""

import itertools
import re
import sys
import unittest
from pathlib import Path

import shrink_test
import split_test

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402

SPLIT_MS = 10.0
SHRINK_S = 2.0


class Life(unittest.TestCase):
    def test_a_split_of_eight_processes(self):
        def measure():
            split = split_test.Split("job")
            ranks = split.job(8, "time", 20)
            split.expect(ranks, "ok")
            return float(re.search(r"median ([\d.]+),", ranks[0].output)[1])
        check_timed(self, "split of 8 processes", SPLIT_MS, measure, unit="ms")

    def test_a_shrink_after_a_death(self):
        seeds = itertools.count(1)

        def measure():
            seed = next(seeds)
            rank_count, deaths = shrink_test.shape_of(seed)
            shrink = shrink_test.Shrink("job")
            ranks = shrink.job(rank_count, "chaos", seed, deaths)
            shrink.expect(ranks, "ok", skip=shrink.dead(ranks, deaths))
            took = [float(ms) for rank in ranks.values() for ms in re.findall(r"ranks in ([\d.]+) ms", rank.output)]
            return max(took) * 1e-3
        check_timed(self, "shrink after deaths", SHRINK_S, measure, repetitions=20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
