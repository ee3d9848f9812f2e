# SPDX-License-Identifier: Apache-2.0
"""Runs a job of ranks on hosts that are network namespaces, as torchrun would start it, and reads its results."""

import functools
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import unittest

import hosts as net

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "proc"))
from job import LINE, PATIENCE, Report  # noqa: E402

RETURNED = re.compile(r"^rank \d+ returned (\d+)$", re.MULTILINE)
PORTS = iter(range(29_500, 30_500))


class Job:
    """A job. `layout` has the host of each rank: [0, 0, 1] puts ranks 0 and 1 on host 0."""

    def __init__(self, hosts, layout, command, environment=None, own_environment=None):
        self.hosts, self.layout, self.port = hosts, layout, next(PORTS)
        base = dict(os.environ, WORLD_SIZE=str(len(layout)), MASTER_ADDR=hosts.address(layout[0]),
                    MASTER_PORT=str(self.port), RONDO_SECRET=secrets.token_hex(32)) | (environment or {})
        for name in ("RONDO_RANK", "RONDO_SIZE", "RONDO_STORE"):
            base.pop(name, None)
        own = own_environment or [{}] * len(layout)
        self.processes = [hosts.start(host, command, env=dict(base, RANK=str(rank), **own[rank]))
                          for rank, host in enumerate(layout)]
        self.output = [""] * len(layout)

    def line(self, rank, text, seconds=60):
        """Reads the rank's output until a line contains `text`. Under a sanitizer, the limit is four times as long."""
        deadline = time.monotonic() + seconds * PATIENCE
        while time.monotonic() < deadline:
            said = self.processes[rank].stdout.readline()
            self.output[rank] += said
            if text in said:
                return said
            if said == "":
                break
        raise AssertionError(f"rank {rank} did not say {text!r}: {self.output[rank]!r}")

    def begun(self):
        """Waits until all ranks of a lasting scenario have done their first sum."""
        for rank in range(len(self.layout)):
            self.line(rank, "begun")
        return self

    def finish(self, seconds=60, skip=()):
        """Waits for all ranks except `skip`. Ranks that outlive `seconds` are killed and fail the test. Under a
        sanitizer, the limit is four times as long."""
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        late = []
        for rank, process in enumerate(self.processes):
            try:
                process.wait(0.01 if rank in skip else max(0.01, deadline - time.monotonic()))
            except Exception:  # the time is over
                try:
                    os.kill(net.innermost(process.pid), signal.SIGKILL)  # this process holds the pipe
                except (FileNotFoundError, ProcessLookupError):
                    pass
                process.kill()
                process.wait()
                if rank not in skip:
                    late.append(rank)
            self.output[rank] += process.stdout.read() if rank not in skip else ""
            process.stdout.close()
        if late:
            raise AssertionError(f"ranks {late} were still running after {seconds} s: {self.output}")
        return self

    def last(self, rank):
        found = [Report(match) for match in LINE.finditer(self.output[rank])]
        assert found, f"no report of rank {rank} in {self.output[rank]!r}"
        return found[-1]

    def returned(self, ranks):
        """Returns when the last call of these ranks returned, by time.monotonic(). The ranks' program must print
        that. The end of the processes is not included."""
        times = [RETURNED.findall(self.output[rank]) for rank in ranks]
        assert times and all(times), self.output
        return max(int(each[-1]) for each in times) / 1e6


@functools.cache
def ucx_of(rondo):
    said = subprocess.run([rondo, "info", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout
    return json.loads(said)["ucx"]


def why_no_ucx(rondo):
    """Returns None if ranks can use UCX, otherwise the reason."""
    return ucx_of(rondo)["why_not"] or None


def takes_cuda_memory(rondo):
    return ucx_of(rondo)["takes_cuda_memory"]


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = net.why_not()
        if why is not None:
            print(f"skipped: several hosts: {why}")
            raise unittest.SkipTest(why)

    def seconds_until_told(self, job, harm, *expected):
        """Calls harm() when a job has begun. Returns the seconds until the last of the expected ranks got its error.
        `expected` has ranks, the error that each of them gets, and the ranks that it may name."""
        begun = time.monotonic()
        harm()
        job.finish(60, skip=set(range(len(job.layout))) - {rank for ranks, _, _ in expected for rank in ranks})
        for ranks, text, peers in expected:
            self.expect(job, ranks, "remote rank failed", text, peers)
        return job.returned([rank for ranks, _, _ in expected for rank in ranks]) - begun

    def need_ucx(self, rondo):
        why = why_no_ucx(rondo)
        if why is not None:
            self.skipTest(why)

    def expect(self, job, ranks, status, text=None, peer=None):
        for rank in ranks:
            with self.subTest(rank=rank):
                last = job.last(rank)
                self.assertEqual(last.status, status, last.message)
                if text is not None:
                    self.assertRegex(last.message, text)
                if peer is not None:
                    self.assertIn(last.peer, peer, last.message)
