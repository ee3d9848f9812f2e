# SPDX-License-Identifier: Apache-2.0
"""Runs jobs of region_rank, whose ranks are processes that share registered memory, and reads how much their kernels
have moved. The driver is the one in software."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "proc"), str(Path(__file__).resolve().parents[1])]
from job import run_job  # noqa: E402
from sanitized import SANITIZED  # noqa: E402

PROGRAM = sys.argv.pop(1)
DEVICES = 8  # the most devices that a rank reports
ELEMENTS = 1 << 18  # of float32, in a MiB


def moved(ranks, label):
    """Returns how many bytes all ranks' kernels have moved from each device to each device, for each byte of the
    vector, in the sum with that label. The entry of a device and itself is for its own memory."""
    total = [[0.0] * DEVICES for _ in range(DEVICES)]
    for rank in ranks.values():
        lines = [line.split() for line in rank.output.splitlines() if line.startswith(f"moved {label} ")]
        assert len(lines) == 1, (label, rank.output)
        for index, figure in enumerate(lines[0][2:]):
            total[index // DEVICES][index % DEVICES] += float(figure)
    return total


def plans_in(rank):
    """Returns the algorithm and kernel that each step `plan` has printed."""
    return [tuple(line.split()[1:]) for line in rank.output.splitlines() if line.startswith("plan ")]


class RegionCase(unittest.TestCase):
    def job(self, size, steps, environment=None, devices=None, ok=True, own_environment=None, seconds=120):
        with tempfile.TemporaryDirectory() as folder:
            ranks = run_job(PROGRAM, size, steps, {
                "SOFT_CUDA_MPS": "on" if (devices or size) < size else "off", "SOFT_CUDA_DEVICES": str(devices or size),
                "REGION_RANK_DEVICES": str(devices or size), "REGION_RANK_COUNT": "100001" if SANITIZED else "300001",
                "REGION_RANK_FOLDER": folder
            } | (environment or {}), own_environment=own_environment, seconds=seconds)
        for rank in ranks.values():
            if ok:
                self.assertEqual(rank.last().status, "ok", rank.output)
        return ranks

    def memory_of_a_rank(self, ranks, label):
        total = moved(ranks, label)
        return sum(total[device][device] for device in range(DEVICES)) / len(ranks)

    def check_shared(self, ranks, label):
        self.assertLess(self.memory_of_a_rank(ranks, label), 2.1, label)

    def check_apart(self, ranks, label):
        self.assertGreater(self.memory_of_a_rank(ranks, label), 3, label)  # through places, 2 ranks move 4
