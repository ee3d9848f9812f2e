# SPDX-License-Identifier: Apache-2.0
"""Tests how soon all processes of a `rondo run` have ended after its launcher was killed.

usage: timed_run_test.py RONDO"""
import os
import signal
import sys
from pathlib import Path

import run_support
from run_support import RunTest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402

GONE_S = 2.0  # docs/tests.md


class OrphanTest(RunTest):
    def test_kill_of_the_launcher_ends_every_rank_in_time(self):
        def measure():
            job = self.start_family(4)
            os.kill(job.pid, signal.SIGKILL)
            return self.assert_gone(job)
        check_timed(self, "end of a job whose launcher is killed", GONE_S, measure)


if __name__ == "__main__":
    run_support.main()
