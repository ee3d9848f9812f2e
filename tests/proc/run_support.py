# SPDX-License-Identifier: Apache-2.0
"""Helpers that the tests of `rondo run` share: a job under test, its processes, and waiting with a deadline.

Every process of a job has a mark in its environment, so a process that is left is found even in another session. Only
processes with this test's own mark are ever signalled.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import uuid

from job import PATIENCE

RONDO = sys.argv.pop(1) if len(sys.argv) > 1 else "rondo"
DEADLINE_S = 60 * PATIENCE  # far longer than any step takes, also on a busy machine


def wait_until(condition, what):
    """Polls until `condition()` is true and returns its value."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"not within {DEADLINE_S} s: {what}")


def children(pid):
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in path.read_text().split()]
        except OSError:
            pass
    return found


def state(pid):
    """Returns R, S, T, Z etc., or None if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return None


def is_gone(pid):
    return state(pid) in (None, "Z", "X")


def heed_all_signals():
    """Restores all signals. Under nohup or a profiler, tests ignore some signals, and a job must not inherit that."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)


class Job:
    """A `rondo run`, or any command, whose processes are distinguishable from all others."""

    def __init__(self, *args, command=None, environment=None, **popen):
        self.mark = f"RONDO_TEST_MARK={uuid.uuid4()}"
        name, value = self.mark.split("=")
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("preexec_fn", heed_all_signals)
        self.process = subprocess.Popen(command or [RONDO, "run", *map(str, args)],
                                        env={**os.environ, **(environment or {}), name: value}, **popen)
        self.pid = self.process.pid

    def finish(self, data=None):
        """Returns exit status, output and error output."""
        try:
            out, err = self.process.communicate(data, timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.clean_up()
            raise
        return self.process.returncode, (out or b"").decode(), (err or b"").decode()

    def members(self):
        found = []
        # The newest process is read first, because it may start another process and end soon.
        for pid in sorted((int(entry) for entry in os.listdir("/proc") if entry.isdigit()), reverse=True):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read()
            except OSError:
                continue
            if self.mark.encode() in environment.split(b"\0") and not is_gone(pid):
                found.append(pid)
        return found

    def guard(self):
        """Returns the guard's process, once it exists."""
        def named():
            for pid in children(self.pid):
                try:
                    if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "rondo-guard":
                        return pid
                except OSError:
                    pass
            return None
        return wait_until(named, "the guard process is there")

    def clean_up(self):
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        for pid in self.members():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(timeout=DEADLINE_S)


# A rank with a child, an orphaned grandchild in a session of its own, and a process that ignores all possible signals.
FAMILY = """
sleep 1001 &
setsid sh -c 'trap "" TERM HUP INT; (setsid sleep 1002 & ) ; echo up; while :; do sleep 1003; done' &
wait
"""
MEMBERS_OF_FAMILY = 5  # sh, sleep 1001, sh in its session, sleep 1002, sleep 1003


class RunTest(unittest.TestCase):
    """Starts jobs and checks, after each test, that none of their processes is left."""

    def start(self, *args, **options):
        job = Job(*args, **options)
        self.addCleanup(job.clean_up)
        return job

    def run_job(self, *args, data=None, **options):
        if data is not None:
            options["stdin"] = subprocess.PIPE
        job = self.start(*args, **options)
        result = job.finish(data)
        self.assertEqual(job.members(), [], "processes were left behind")
        return result

    def start_family(self, ranks, *options):
        job = self.start("-n", ranks, *options, "sh", "-c", FAMILY)
        for _ in range(ranks):
            self.assertEqual(job.process.stdout.readline(), b"up\n")
        count = 2 + ranks * MEMBERS_OF_FAMILY
        wait_until(lambda: len(job.members()) >= count, f"all {count} processes of the job are there")
        return job

    def assert_gone(self, job):
        """Waits until no process of the job exists. Returns how many seconds this took."""
        begin = time.monotonic()
        wait_until(lambda: not job.members(), "all processes of the job are gone")
        return time.monotonic() - begin


def main():
    unittest.main(verbosity=2)
