# SPDX-License-Identifier: Apache-2.0
"""Compares calls through nccl.h with the same calls through rondo.h: timed_calls_test.py PROGRAM. The program measures
both in turns, on the driver in software, and returns the extra time."""

import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import REPETITIONS, bounds_hold, is_within  # noqa: E402

PROGRAM = sys.argv.pop(1)
# docs/nccl.md says "about 0.1 us". The bounds leave room for noise, because this test only has to find regressions.
EXTRA_US, EXTRA_SHARE = 0.2, 1.06
PAIRS = 151 if bounds_hold() else 3


def measure():
    """Returns the extra microseconds of a call of 8 B, and how many times as long a call of 1 MiB takes."""
    output = subprocess.run([PROGRAM, str(PAIRS)], capture_output=True, text=True, timeout=120, check=True).stdout
    print(output, end="", flush=True)
    extra_us, share = map(float, output.splitlines()[-1].split())
    return extra_us, share


class Calls(unittest.TestCase):
    def test_calls_through_nccl_h_take_little_more_time(self):
        small, large = zip(*(measure() for _ in range(REPETITIONS if bounds_hold() else 1)))
        self.assertTrue(is_within("extra time of 8 B through nccl.h", EXTRA_US, small, "us"), small)
        self.assertTrue(is_within("1 MiB through nccl.h, compared with rondo.h", EXTRA_SHARE, large, "times"), large)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
