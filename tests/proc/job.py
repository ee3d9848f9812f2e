# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a job as plain processes, with torchrun's environment, so that a test can affect each rank.
Collects their output, and ends the ranks that remain by process id. JobTest is a test of such jobs."""

import ctypes
import os
import re
import secrets
import signal
import socket
import subprocess
import time
import unittest

# Under a sanitizer, limits are longer.
PATIENCE = 4 if "RONDO_TEST_SANITIZED" in os.environ else 1
LINE = re.compile(r"^rank (\d+): (.*?) peer (-?\d+) operation (\d+): (.*)$", re.MULTILINE)


class Report:
    """The line that one rank printed at its end."""

    def __init__(self, match):
        self.status, self.peer, self.operation = match[2], int(match[3]), int(match[4])
        self.message = match[5]


class Rank:
    def __init__(self, process):
        self.process = process
        self.output = ""
        self.seconds = None

    def reports(self):
        return [Report(match) for match in LINE.finditer(self.output)]

    def last(self):
        found = self.reports()
        assert found, f"no report in: {self.output!r}"
        return found[-1]


class HeldPort:
    """A port of this machine. Only a program that requests it by number gets it, as a store does."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a store has it, too; this one never listens
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]

    def __enter__(self):
        return self.number

    def __exit__(self, *_):
        self.socket.close()


def refuse_pidfd_open():
    """Makes pidfd_open() fail with ENOSYS in this process (for preexec_fn), as on a kernel before 5.3 or in a container
    that filters it."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = (ctypes.c_uint64 * 4)(  # struct sock_filter: u16 code, u8 jt, u8 jf, u32 k
        0x20,                           # load the call's number
        0x15 | 1 << 24 | 434 << 32,     # if it is not pidfd_open's, which is 434 everywhere, skip one
        0x06 | (0x50000 | 38) << 32,    # return ERRNO, ENOSYS
        0x06 | 0x7FFF0000 << 32)        # return ALLOW
    filters = (ctypes.c_uint64 * 2)(len(program), ctypes.addressof(program))  # struct sock_fprog
    done = [libc.prctl(38, 1, 0, 0, 0), libc.prctl(22, 2, ctypes.byref(filters), 0, 0)]  # NO_NEW_PRIVS; SECCOMP, FILTER
    if any(done):
        raise OSError(ctypes.get_errno(), "seccomp")


def run_job(program, rank_count, arguments, environment=None, absent=(), seconds=60, own_environment=None,
            unreaped=(), preexec_fn=None):
    """Runs all ranks except the absent ones to their end. Ranks that outlive `seconds` (under a sanitizer, four
    times as long) are killed and fail the test. A rank that stopped itself is left alone until the others have
    ended. Until then, ranks in `unreaped` stay zombies."""
    seconds *= PATIENCE
    port = HeldPort()
    base = dict(os.environ, WORLD_SIZE=str(rank_count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port.number),
                RONDO_SECRET=secrets.token_hex(32), **(environment or {}))
    for name in ("RONDO_RANK", "RONDO_SIZE", "RONDO_STORE"):
        base.pop(name, None)
    start = time.monotonic()
    ranks = {}
    for rank in range(rank_count):
        if rank not in absent:
            own = dict(base, RANK=str(rank), **(own_environment or {}).get(rank, {}))
            ranks[rank] = Rank(subprocess.Popen([program, *arguments], env=own,
                                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                                preexec_fn=preexec_fn))
    stopped = set(unreaped)
    deadline = start + seconds
    try:
        waiting = set(ranks)
        while waiting - stopped and time.monotonic() < deadline:
            for rank in list(waiting - set(unreaped)):
                pid, status = os.waitpid(ranks[rank].process.pid, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    continue
                if os.WIFSTOPPED(status):
                    stopped.add(rank)
                    continue
                ranks[rank].process.returncode = os.waitstatus_to_exitcode(status)
                ranks[rank].seconds = time.monotonic() - start
                waiting.discard(rank)
            time.sleep(0.01)
        late = waiting - stopped
        assert not late, f"ranks {sorted(late)} were still running after {seconds} s: {arguments}"
    finally:
        for rank in ranks.values():
            if rank.process.returncode is None:
                rank.process.send_signal(signal.SIGKILL)
                rank.process.wait()
            rank.output = rank.process.stdout.read()
            rank.process.stdout.close()
        port.socket.close()
    return ranks


class JobTest(unittest.TestCase):
    """A test whose cases run jobs of one program. `program` is its path, and `seconds` the limit of a job."""

    program = None
    seconds = 60

    def job(self, rank_count, *arguments, **options):
        """Runs a job, and returns its ranks. No rank may have had a wrong result."""
        ranks = run_job(self.program, rank_count, [str(argument) for argument in arguments],
                        **{"seconds": self.seconds} | options)
        for rank in ranks.values():
            self.assertNotIn("WRONG", rank.output)
        return ranks

    def expect(self, ranks, status, skip=(), text="", peer=None):
        """Checks what each rank reported last, except the ranks in `skip`."""
        for number, rank in ranks.items():
            if number in skip:
                continue
            with self.subTest(rank=number):
                last = rank.last()
                self.assertEqual(last.status, status, last.message)
                self.assertIn(text, last.message)
                if peer is not None:
                    self.assertEqual(last.peer, peer, last.message)
