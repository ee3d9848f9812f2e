# SPDX-License-Identifier: Apache-2.0
"""Tests `rondo train`: how close the counts of the trainer and of the library are in one run.

usage: timed_train_test.py RONDO"""

import sys
import unittest
from pathlib import Path

from train_support import TrainCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402

TrainCase.rondo = sys.argv.pop(1)
APART_PERCENT = 2.0


class Report(TrainCase):
    def test_the_library_and_the_trainer_count_the_same_time(self):
        def measure():
            # Rank 0 waits for rank 1 in each step, so the time that one of the counts leaves out is a small share.
            report = self.train(2, "--steps", 8, "--delay", "1:400")
            times, library = report["time_us"], report["library"]
            return 100 * max(abs(library["exposed_us"] / times["waiting"] - 1),
                             abs(library["in_flight_us"] / times["in_flight"] - 1))
        check_timed(self, "counts of the library and of the trainer apart", APART_PERCENT, measure, 3, "%")


if __name__ == "__main__":
    unittest.main()
