# SPDX-License-Identifier: Apache-2.0
"""Checks that every architecture has all of the trainer's compiled kernels, and that none spills registers.
usage: train_image_test.py REPORT_OF_PTXAS ARCHITECTURES"""

import re
import sys
import unittest
from pathlib import Path

REPORT, ARCHITECTURES = Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2]
del sys.argv[1:3]
LIST = Path(__file__).resolve().parents[2] / "bench/trainer/cuda/kernels/list.h"


class Image(unittest.TestCase):
    def test_every_kernel_is_compiled_for_every_architecture_and_keeps_to_its_registers(self):
        wanted = set(re.findall(r"X\((rondo_train_\w+),", LIST.read_text(encoding="utf-8")))
        self.assertGreater(len(wanted), 20)
        for name in ARCHITECTURES.split(","):
            target = f"sm_{name.partition('+')[0]}"
            found = re.findall(rf"Compiling entry function '(\w+)' for '{target}'", REPORT)
            self.assertEqual(sorted(found), sorted(wanted), target)
        spills = [int(number) for number in re.findall(r"(\d+) bytes spill stores", REPORT)]
        self.assertEqual((len(spills), sum(spills)), (len(wanted) * len(ARCHITECTURES.split(",")), 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
