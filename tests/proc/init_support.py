# SPDX-License-Identifier: Apache-2.0
"""Runs ranks that only initialise, and a process with their store, for tests of failures during the initialisation."""

import os
import re
import secrets
import subprocess
import tempfile
import time
from pathlib import Path

from job import PATIENCE

OK, OUT_OF_RESOURCES, TIMEOUT, REMOTE, MISMATCH, ABORTED, NOT_READY = 0, 5, 8, 9, 10, 11, 1
# This is far longer than a death may take to be noticed, and shorter than the life of a dead rank's child.
INIT_TIMEOUT_S = 24 if PATIENCE > 1 else 12
HANG_S = 180 * PATIENCE


class Ranks:
    """The ranks of one initialisation as processes. `own` maps a rank to variables of that rank alone. `wrappers` maps
    a rank to the words of a command that starts it."""

    def __init__(self, program, size, own, environment=None, present=None, timeout_s=INIT_TIMEOUT_S, wrappers=None):
        base = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
        base.update(environment or {}, RONDO_INIT_TIMEOUT=str(timeout_s), RONDO_TIMEOUT="60")
        self.folder = tempfile.mkdtemp(prefix="rondo-init-")
        how = ["env"] if environment else ["id", self.folder]
        self.processes = {}
        for rank in range(size) if present is None else present:
            mine = dict(base, RONDO_TEST_RANK=str(rank), RONDO_TEST_SIZE=str(size), **own.get(rank, {}))
            if environment:
                mine.update(RONDO_RANK=str(rank), RONDO_SIZE=str(size))
            command = [*(wrappers or {}).get(rank, []), program, *how]
            self.processes[rank] = subprocess.Popen(command, env=mine, stdout=subprocess.PIPE,
                                                    stderr=subprocess.STDOUT, text=True)

    def end(self):
        """Returns the lines of each rank, each as words. A rank that still runs is killed and fails the test."""
        deadline = time.monotonic() + HANG_S
        said, hung = {}, []
        for rank, process in self.processes.items():
            try:
                out, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                out, _ = process.communicate()
                hung.append(rank)
            said[rank] = [line.split(" ", 4) for line in out.splitlines()]
        for path in Path(self.folder).iterdir():
            path.unlink()
        os.rmdir(self.folder)
        assert not hung, f"ranks {hung} were still running after {HANG_S} s: {said}"
        return said


def outcome(lines):
    """Returns (seconds, status, peer, message) of the rank's last result, which is not a line of UCX's own log."""
    last = [line for line in lines if not (line[0].startswith("[") and "UCX" in " ".join(line))][-1]
    assert last[0] in ("init", "barrier", "id"), lines
    return int(last[1]) * 1e-9, int(last[2]), int(last[3]), last[4] if len(last) > 4 else ""


class StoreHost:
    """A process that runs a store. It may have `descriptors` descriptors; 0 means the system's limit."""

    def __init__(self, program, descriptors=0):
        secret = secrets.token_hex(32)
        self.process = subprocess.Popen([program, str(descriptors)], env=dict(os.environ, RONDO_SECRET=secret),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        endpoint = self.process.stdout.readline().strip()
        assert re.match(r"^127\.0\.0\.1:\d+$", endpoint), endpoint
        self.port = int(endpoint.rpartition(":")[2])
        self.environment = {"RONDO_STORE": endpoint, "RONDO_SECRET": secret}

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
