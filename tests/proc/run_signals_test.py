#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests which signals `rondo run` passes to the ranks, and how a user ends a job."""
import os
import signal
import threading

import run_support
from run_support import RunTest, children, is_gone, state, wait_until

# Each rank prints when it is ready, and then the signals that arrived.
LISTEN = """
import os, signal, sys, time
rank = os.environ["RONDO_RANK"]
def caught(number, frame):
    os.write(1, f"{rank} {signal.Signals(number).name}\\n".encode())
    if number == signal.SIGTERM and os.environ.get("STUBBORN") != "1": sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, caught)
os.write(1, f"{rank} ready\\n".encode())
while True: time.sleep(0.01)  # and not pause(), which a signal that came just before it would not end
"""


class SignalTest(RunTest):
    def listeners(self, count, *options, **popen):
        job = self.start("-n", count, *options, "python3", "-c", LISTEN, **popen)
        self.expect(job, {f"{rank} ready" for rank in range(count)})
        return job

    def expect(self, job, lines):
        """Reads as many lines as are expected, and checks that no other line is among them."""
        deadline = threading.Timer(run_support.DEADLINE_S, job.process.kill)  # this ends the loop over lines
        deadline.start()
        try:
            self.assertEqual({job.process.stdout.readline().decode().strip() for _ in lines}, lines)
        finally:
            deadline.cancel()

    def test_signals_reach_every_rank_once(self):
        job = self.listeners(3)
        for name in ("SIGUSR1", "SIGUSR2", "SIGINT", "SIGUSR1"):
            os.kill(job.pid, getattr(signal, name))
            self.expect(job, {f"{rank} {name}" for rank in range(3)})
        os.kill(job.pid, signal.SIGTERM)  # the second signal that ends the job
        self.assertEqual(job.finish()[0], 128 + 15)
        self.assertEqual(job.members(), [])

    def test_a_rank_that_ends_well_at_sigterm_ends_the_job_well(self):
        job = self.listeners(2)
        os.kill(job.pid, signal.SIGTERM)
        status, out, err = job.finish()
        self.assertEqual((status, sorted(out.splitlines()), err), (0, ["0 SIGTERM", "1 SIGTERM"], ""))

    def test_an_unhandled_signal_decides_the_status(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            job = self.start("-n", 2, "sh", "-c", "echo up; exec sleep 1000")
            self.expect(job, {"up"})
            os.kill(job.pid, number)
            status, _, err = job.finish()
            self.assertEqual(status, 128 + number)
            self.assertIn(f"was killed by signal {int(number)}", err)

    def test_the_second_asks_and_the_third_kills(self):
        job = self.listeners(2, "--grace", 1000, "--env", "STUBBORN=1")
        os.kill(job.pid, signal.SIGINT)
        self.expect(job, {"0 SIGINT", "1 SIGINT"})
        os.kill(job.pid, signal.SIGINT)
        self.expect(job, {"0 SIGTERM", "1 SIGTERM"})
        os.kill(job.pid, signal.SIGINT)
        status, _, err = job.finish()
        self.assertEqual(status, 128 + 2)
        self.assertEqual(err, "rondo run: Interrupt again: ending all ranks\nrondo run: Interrupt: killing all ranks\n")
        self.assertEqual(job.members(), [])

    def test_the_whole_process_group_of_a_rank_gets_the_signal(self):
        job = self.start("-n", 1, "sh", "-c", "sleep 1000 & echo up; wait")
        self.expect(job, {"up"})
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.finish()[0], 128 + 15)
        self.assertEqual(job.members(), [])

    def test_what_the_launcher_was_told_to_ignore_stays_ignored(self):
        job = self.listeners(1, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        os.kill(job.pid, signal.SIGHUP)  # as under nohup
        os.kill(job.pid, signal.SIGUSR1)
        self.expect(job, {"0 SIGUSR1"})
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.finish()[0], 0)

    def test_stop_and_continue(self):
        job = self.listeners(2, "--timeout", 1000)
        ranks = children(job.guard())
        self.assertEqual(len(ranks), 2)
        os.kill(job.pid, signal.SIGTSTP)
        wait_until(lambda: [state(pid) for pid in [job.pid, *ranks]] == ["T"] * 3, "launcher and ranks are stopped")
        os.kill(job.pid, signal.SIGCONT)
        wait_until(lambda: "T" not in [state(pid) for pid in [job.pid, *ranks]], "all go on")
        os.kill(job.pid, signal.SIGUSR1)
        self.expect(job, {"0 SIGUSR1", "1 SIGUSR1"})
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.finish()[0], 0)

    def test_stopped_ranks_can_be_ended(self):
        job = self.listeners(2)
        rank = children(job.guard())[0]  # rank 0: children are listed in the order of their start
        os.kill(rank, signal.SIGSTOP)
        wait_until(lambda: state(rank) == "T", "a rank is stopped")
        os.kill(job.pid, signal.SIGTERM)
        self.expect(job, {"1 SIGTERM"})  # otherwise both signals would count as one
        os.kill(job.pid, signal.SIGTERM)
        self.assertIn(job.finish()[0], (0, 128 + 15))
        self.assertTrue(is_gone(rank))


if __name__ == "__main__":
    run_support.main()
