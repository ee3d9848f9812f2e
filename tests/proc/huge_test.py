# SPDX-License-Identifier: Apache-2.0
"""Tests a sum of more bytes than 32 bits can count.

usage: huge_test.py RANK_PROGRAM"""

import os
import sys
import unittest

from job import JobTest

PROGRAM = sys.argv.pop(1)
NEEDED_GIB = 12


class Huge(JobTest):
    program = PROGRAM

    def test_more_bytes_than_32_bits_count(self):
        self.expect(self.job(2, "huge", seconds=600), "ok")


if __name__ == "__main__":
    if "RONDO_TEST_SANITIZED" in os.environ:
        print("skipped: huge sum: takes many minutes under a sanitizer; done without one")
        sys.exit(77)
    with open("/proc/meminfo", encoding="ascii") as info:
        available_kib = next(int(line.split()[1]) for line in info if line.startswith("MemAvailable"))
    if available_kib < NEEDED_GIB << 20:
        print(f"skipped: huge sum: needs {NEEDED_GIB} GiB of free memory")
        sys.exit(77)
    unittest.main(verbosity=2)
