# SPDX-License-Identifier: Apache-2.0
"""Compares our declarations of NCCL's interface with NVIDIA's header: layout_test.py OWN TOOLKIT."""

import subprocess
import sys


def numbers(program):
    return subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


own, toolkit = map(numbers, sys.argv[1:3])
assert len(own) > 40, own
assert own == toolkit, [pair for pair in zip(own, toolkit) if pair[0] != pair[1]]
