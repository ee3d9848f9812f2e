# SPDX-License-Identifier: Apache-2.0
"""Runs the ranks of a communicator as threads of a test, and jobs of processes under `rondo run`."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import rondo

PACKAGE = str(Path(rondo.__file__).resolve().parents[1])
LIMIT_S = 120  # only detects hangs

try:
    import numpy
except ImportError:
    numpy = None
    print("skipped: tests of arrays of NumPy: python3-numpy is not installed")


def as_threads(size, body, **options):
    """Calls body(comm) in one thread for each rank. Returns the results, or raises the first exception."""
    comms = rondo.init_all(size, **{"timeout": 60, **options})
    results, failures = [None] * size, [None] * size

    def run(rank):
        try:
            results[rank] = body(comms[rank])
        except BaseException as error:  # pylint: disable=broad-except
            failures[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), f"a rank hangs; the ranks failed with {failures}"
    for comm in comms:
        comm.destroy()
    for failure in failures:
        if failure is not None:
            raise failure
    return results


def as_processes(command, size, program, *arguments, **variables):
    """Runs a program of Python under `rondo run`. Returns the finished process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
    environment.update({"PYTHONPATH": PACKAGE, "PYTHONUNBUFFERED": "", "RONDO_INTERFACE": "lo"}, **variables)
    return subprocess.run([command, "run", "-n", str(size), "--", sys.executable, "-B", str(program), *arguments],
                          env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
