# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes on one device: sums, moves, a rank that is killed, one that does not come. The executor is
that of RONDO_DEVICE_EXECUTOR; auto is copies, unless the device says that processes share it by MPS."""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
from job import run_job  # noqa: E402

PROGRAM = sys.argv.pop(1)
EXECUTOR = os.environ.get("RONDO_DEVICE_EXECUTOR", "auto")


class DeviceProcesses(unittest.TestCase):
    def test_processes_sum_through_memory_that_they_open_from_each_other(self):
        self.check("sums", "copy" if EXECUTOR == "auto" else EXECUTOR)

    def test_processes_move_what_they_have_through_such_memory(self):
        self.check("moves", "copy" if EXECUTOR == "auto" else EXECUTOR)

    def test_kernels_run_where_processes_share_the_device_by_mps(self):
        self.check("sums", "kernel" if EXECUTOR == "auto" else EXECUTOR, {"SOFT_CUDA_MPS": "on"})

    def check(self, scenario, executor, environment=None):
        for size in (2, 4):
            ranks = run_job(PROGRAM, size, [scenario], environment)
            for rank in ranks.values():
                self.assertEqual(rank.process.returncode, 0, rank.output)
                told = rank.last()
                self.assertEqual((told.status, told.message), ("ok", executor), rank.output)

    def test_a_killed_rank_is_named_and_no_kernel_waits_for_it(self):
        ranks = run_job(PROGRAM, 3, ["kill"])
        self.assertEqual(ranks[1].process.returncode, -9)
        for number in (0, 2):
            told = ranks[number].last()
            self.assertEqual((told.status, told.peer), ("remote rank failed", 1), ranks[number].output)
            self.assertIn("rank 1", told.message)

    def test_a_rank_that_does_not_come_is_named_when_the_time_is_up(self):
        ranks = run_job(PROGRAM, 2, ["silent"])
        told = ranks[0].last()
        self.assertEqual((told.status, told.peer), ("timeout", 1), ranks[0].output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
