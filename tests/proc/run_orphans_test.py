#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No process of `rondo run` may stay, whether launcher, guard or ranks are killed, and however deep processes hide."""
import os
import signal
import sys

import run_support
from run_support import FAMILY, RunTest, children, is_gone, wait_until

ROUNDS = 20

class OrphanTest(RunTest):
    def test_kill_of_the_launcher_leaves_nothing(self):
        for _ in range(ROUNDS):
            job = self.start_family(2)
            os.kill(job.pid, signal.SIGKILL)
            self.assert_gone(job)

    def test_kill_of_the_launcher_while_it_starts_leaves_nothing(self):
        for turn in range(ROUNDS):
            job = self.start("-n", 8, "sh", "-c", FAMILY)
            # Each turn kills the launcher at another point of the start: when 1 + `turn` processes of the job exist.
            wait_until(lambda: len(job.members()) >= 1 + turn, "some of the job has started")
            os.kill(job.pid, signal.SIGKILL)
            self.assert_gone(job)

    def test_kill_of_the_guard_ends_the_job(self):
        for _ in range(ROUNDS):
            job = self.start_family(2)
            os.kill(job.guard(), signal.SIGKILL)
            status, _, err = job.finish()
            self.assertEqual(status, 128 + 9)
            self.assertIn("the guard process was killed by signal 9 (Killed); killing all ranks", err)
            self.assertEqual(job.members(), [])

    def test_kill_of_both_at_once_leaves_no_rank(self):
        for _ in range(ROUNDS):
            job = self.start("-n", 4, "sh", "-c", "echo up; exec sleep 1000")
            self.assertEqual([job.process.stdout.readline() for _ in range(4)], [b"up\n"] * 4)
            guard = job.guard()
            os.kill(job.pid, signal.SIGSTOP)  # so that it cannot do the guard's work
            os.kill(guard, signal.SIGKILL)
            os.kill(job.pid, signal.SIGKILL)
            self.assert_gone(job)

    def test_a_stopped_guard_is_continued(self):
        job = self.start_family(1)
        os.kill(job.guard(), signal.SIGSTOP)
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.finish()[0], 128 + 15)
        self.assertEqual(job.members(), [])

    def test_a_stopped_guard_wakes_when_the_launcher_is_killed(self):
        job = self.start_family(1)
        os.kill(job.pid, signal.SIGSTOP)
        os.kill(job.guard(), signal.SIGSTOP)
        os.kill(job.pid, signal.SIGKILL)
        self.assert_gone(job)

    def test_a_killed_rank_takes_its_family_with_it(self):
        job = self.start_family(2, "--grace", "0.1")
        os.kill(children(job.guard())[0], signal.SIGKILL)
        self.assertEqual(job.finish()[0], 128 + 9)
        self.assertEqual(job.members(), [])

    def test_the_time_limit_reaches_the_whole_family(self):
        job = self.start("-n", 2, "--timeout", "0.3", "--grace", "0.1", "sh", "-c", FAMILY)
        self.assertEqual(job.finish()[0], 124)
        self.assertEqual(job.members(), [])

    def test_a_job_within_a_job_goes_too(self):
        rondo = run_support.RONDO
        job = self.start("-n", 2, "--", rondo, "run", "-n", 2, "sh", "-c", "echo up; exec sleep 1000")
        self.assertEqual([job.process.stdout.readline() for _ in range(4)], [b"up\n"] * 4)
        os.kill(job.pid, signal.SIGKILL)
        self.assert_gone(job)

    def test_processes_that_multiply_are_caught(self):
        # In a chain, each process starts the next one in a new session, and ends.
        chain = "import os, time\nwhile True:\n  time.sleep(0.002)\n  if os.fork(): os._exit(0)\n  os.setsid()\n"
        rank = f"{sys.executable} -c '{chain}' & echo up; sleep 1000"
        for _ in range(3):
            job = self.start("-n", 2, "--grace", "0.1", "sh", "-c", rank)
            self.assertEqual([job.process.stdout.readline() for _ in range(2)], [b"up\n"] * 2)
            count = 2 + 2 * 3  # launcher and guard; sh, sleep and a chain's process for each rank
            wait_until(lambda: len(job.members()) >= count, "the chains run")
            os.kill(job.pid, signal.SIGKILL)
            self.assert_gone(job)

    def test_the_guard_is_deaf_to_what_is_meant_for_the_job(self):
        job = self.start("-n", 1, "sh", "-c", "echo up; exec sleep 1000")
        self.assertEqual(job.process.stdout.readline(), b"up\n")
        guard = job.guard()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
            os.kill(guard, number)
        self.assertFalse(is_gone(guard))
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.finish()[0], 128 + 15)


if __name__ == "__main__":
    run_support.main()
