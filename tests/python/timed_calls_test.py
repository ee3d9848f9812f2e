# SPDX-License-Identifier: Apache-2.0
"""Compares the cost of a call from Python with that of the same call from C: timed_calls_test.py CC.

The call of 8 B runs on one rank, so it waits for no other rank. Its processor time is the time of the package, ctypes
and the library. Other programs disturb processor time less than elapsed time. A loop in C, which this test compiles,
makes the same call from C in the same process."""

import array
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import ranks  # noqa: F401
import rondo
from rondo._library import C

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402

COMPILER = sys.argv.pop(1).split()
CALLS = 2000
EXTRA_US, EXTRA_SHARE = 3.0, 1.05  # docs/python.md


LOOP = """#include <stddef.h>
int loop(int (*call)(const void *, void *, size_t, int, int, void *, void *), void *x, void *comm, long times) {
  int status = 0;
  for (long i = 0; i < times; ++i) status = call(x, x, 2, %d, %d, comm, NULL);
  return status;
}
""" % (rondo.Type.FLOAT32, rondo.Op.SUM)


def us_per_call(call, calls, clock=time.perf_counter):
    begun = clock()
    for _ in range(calls):
        call()
    return (clock() - begun) / calls * 1e6


def loop_in_c():
    """Returns a function of C that makes a call of C many times, and returns the last status."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "loop.c", Path(folder) / "loop.so"
        source.write_text(LOOP, encoding="utf-8")
        subprocess.run([*COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], timeout=60, check=True)
        loop = ctypes.CDLL(str(library)).loop
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    return loop


class Calls(unittest.TestCase):
    def test_a_call_of_8_bytes(self):
        loop, call = loop_in_c(), ctypes.cast(C.rondo_all_reduce, ctypes.c_void_p)
        with rondo.init() as comm:
            def beyond_c(x):
                address = rondo.Buffer(x).address
                in_python = us_per_call(lambda: comm.all_reduce(x), CALLS, time.thread_time)
                in_c = us_per_call(lambda: self.assertEqual(loop(call, address, comm._handle, CALLS), 0), 1,
                                   time.thread_time) / CALLS
                return in_python - in_c
            for kind, x in kinds().items():
                check_timed(self, f"all_reduce of 8 B, {kind}, beyond C", EXTRA_US, lambda x=x: beyond_c(x), unit="us")

    def test_a_call_of_64_mib_among_two_ranks(self):
        def body(comm):
            x = array.array("f", bytes(64 << 20))
            address, handle = rondo.Buffer(x).address, comm._handle

            def share():
                times = [], []
                for _ in range(3):  # in turn, so that other load affects both
                    times[0].append(us_per_call(lambda: comm.all_reduce(x), 1))
                    times[1].append(us_per_call(lambda: C.rondo_all_reduce(
                        address, address, 16 << 20, rondo.Type.FLOAT32, rondo.Op.SUM, handle, None), 1))
                return statistics.median(times[0]) / statistics.median(times[1])
            return [share() for _ in range(5)]
        shares = ranks.as_threads(2, body)[0]
        check_timed(self, "all_reduce of 64 MiB, by the time of C", EXTRA_SHARE, shares.pop, unit="")


def kinds():
    """Returns a buffer of 8 B of each kind."""
    found = {"array.array": array.array("f", [1, 2]), "rondo.Buffer": rondo.Buffer(array.array("f", [1, 2]))}
    if ranks.numpy is not None:
        found["NumPy"] = ranks.numpy.ones(2, "f4")
    return found


if __name__ == "__main__":
    unittest.main(verbosity=2)
