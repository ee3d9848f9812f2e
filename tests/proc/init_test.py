# SPDX-License-Identifier: Apache-2.0
"""What the other ranks get when one dies, or runs out of descriptors, in the middle of the initialisation: in every
phase an error that names it, soon. usage: init_test.py INIT_RANK STORE_HOST"""

import concurrent.futures
import os
import re
import sys
import time
import unittest

from container import MORTAL, why_not
from init_support import ABORTED, OK, OUT_OF_RESOURCES, REMOTE, TIMEOUT, Ranks, StoreHost, outcome

STORE_HOST = sys.argv.pop()
PROGRAM = sys.argv.pop()
NOTICED_S = 2.0  # the promise of docs/simulation-tests.md
TOO_LATE_S = NOTICED_S + 1  # of a rank that came when the store, which waits a second for such, was gone
SOON_S = 6.0  # with the start of the processes
UCX_ASSERTION = re.compile(r"\.c:\d+ +Assertion `.*' failed")  # of 1.13, where a peer dies as it connects
PATIENT_S = 100  # a timeout that has no part in how soon something is noticed


def came_to_no_store(said, rank):
    """The rank was told that rank 0's process, which had run the store, was gone, and so not why."""
    _, status, peer, message = outcome(said[rank])
    return rank != 0 and status == REMOTE and peer == -1 and f"process {said[0][0][2]}, which made" in message


class Death(unittest.TestCase):
    wrappers, own = {}, {}  # of all ranks of a life

    def sweep(self, victim, step=1):
        """Kills `victim` before each `step`th of its system calls in turn, until it lives through all."""
        late = []
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            struck = True
            at = 1
            while struck:
                strikes = range(at, at + 12 * step, step)
                lives = [pool.submit(self.live, victim, strike) for strike in strikes]
                results = [life.result() for life in lives]
                late += [strike for strike, (_, seconds) in zip(strikes, results) if seconds > NOTICED_S]
                struck = all(happened for happened, _ in results)
                at += 12 * step
                self.assertLess(at, 2000)
        self.assertGreater(at, 24 * step, "hardly any system call was counted: the sweep shows nothing")
        for strike in late:  # a busy machine may make one late: again, alone
            seconds = min(self.live(victim, strike)[1] for _ in range(3))
            self.assertLess(seconds, NOTICED_S, f"strike {strike}")

    def live(self, victim, strike):
        """(whether it struck, how long the slowest other rank took to notice)."""
        nap = "100" if victim == 0 else "0"  # where it runs the store, the others are to have come to it
        own = {rank: dict(self.own) for rank in range(3)}
        own[victim].update(RONDO_TEST_STRIKE=str(strike), RONDO_TEST_NAP=nap)
        ranks = Ranks(PROGRAM, 3, own, wrappers=self.wrappers)
        said = ranks.end()
        strikes = [line for line in said[victim] if line[0] == "strike"]
        if not strikes:
            for lines in said.values():
                self.assertEqual(outcome(lines)[1], OK, said)
            return False, 0.0
        if any(UCX_ASSERTION.search(" ".join(line)) for lines in said.values() for line in lines):
            print(f"strike {strike}: UCX ended another rank by an assertion of its own (docs/transports.md)")
            return True, 0.0
        struck, sent_count = int(strikes[0][1]) * 1e-9, int(strikes[0][2])
        slowest = 0.0
        for rank in set(said) - {victim}:
            seconds, status, peer, message = outcome(said[rank])
            joined = int(said[rank][0][1]) * 1e-9
            context = f"strike {strike} after {sent_count} sends, rank {rank}: {message}; it said {said[rank]}"
            if victim != 0 and sent_count < 2:
                # Nobody knows that it was there: it had not said its rank yet, in its second message to the store.
                self.assertIn(status, (TIMEOUT, REMOTE), context)
                self.assertRegex(message, rf"rank {victim}\b", context)
                continue
            self.assertEqual(status, REMOTE, context)
            if victim != 0 and came_to_no_store(said, rank):
                slowest = max(slowest, TOO_LATE_S)  # again, alone
                continue
            # Before rank 0 has joined, its process is known, and not which rank it will be.
            pid = said[victim][0][2]
            known = peer == victim or (victim == 0 and peer == -1 and f"process {pid}, which made" in message)
            self.assertTrue(known, f"{context}: peer {peer}, process {pid}")
            slowest = max(slowest, seconds - max(struck, joined))
        return True, slowest

    def test_a_rank_that_dies_in_any_phase_is_named_by_all(self):
        self.sweep(victim=1)

    def test_the_rank_that_runs_the_store_dies_in_any_phase_and_is_named_by_all(self):
        self.sweep(victim=0)

    def test_a_rank_that_dies_as_it_greets_a_busy_store_again_is_missed_by_all(self):
        self.own = dict(self.own, RONDO_TEST_SLOW_ACCEPT="900")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for life in [pool.submit(self.live, 1, strike) for strike in range(9, 13)]:
                life.result()


class DeathBetweenContainers(Death):
    """The same where networks join the ranks: these connect, try their links and greet each other, too."""
    own = {"RONDO_INTERFACE": "127.0.0.1"}
    wrappers = {1: MORTAL, 2: MORTAL}

    def setUp(self):
        if (why := why_not()) is not None:
            print(f"skipped: death in the initialisation of ranks in containers: {why}")
            self.skipTest(why)

    def test_a_rank_that_dies_in_any_phase_is_named_by_all(self):
        self.sweep(victim=1, step=7)

    def test_a_rank_that_dies_in_any_phase_over_ucx_is_named_by_all(self):
        self.own = dict(self.own, RONDO_NETWORK="ucx")
        alive = Ranks(PROGRAM, 3, {rank: self.own for rank in range(3)}, wrappers=self.wrappers)
        _, status, _, message = outcome(alive.end()[0])
        if "UCX cannot be used" in message:
            print(f"skipped: death in the initialisation over UCX: {message}")
            self.skipTest(message)
        self.assertEqual(status, OK, message)
        self.sweep(victim=1, step=7)

    def test_the_rank_that_runs_the_store_dies_in_any_phase_and_is_named_by_all(self):
        self.sweep(victim=0, step=7)

    def test_a_process_that_exits_while_networks_meet_ends_the_attempt_of_all(self):
        seen = set()
        for leave_ms in (1 << step for step in range(14)):
            if leave_ms > 1024 and ABORTED in seen:
                break  # a busy machine needs more
            own = {rank: dict(self.own) for rank in range(3)}
            own[1].update(RONDO_TEST_LEAVE=str(leave_ms), RONDO_TEST_NAP="300")
            said = Ranks(PROGRAM, 3, own, wrappers=self.wrappers, timeout_s=5 if leave_ms <= 1024 else 20).end()
            for rank in (0, 2):  # it was ready, and the barrier fails; or it was not
                seconds, status, _, message = outcome(said[rank])
                context = f"left after {leave_ms} ms, rank {rank}: {message}"
                seen.add(status)
                if status == TIMEOUT:  # it had not come to the store yet
                    self.assertIn("rank 1", message, context)
                    continue
                self.assertIn(status, (ABORTED, REMOTE), context)
                self.assertLess(seconds - int(said[1][-1][1]) * 1e-9, SOON_S, context)
        self.assertIn(ABORTED, seen)


class Store(unittest.TestCase):
    def soon(self, seconds_of):
        """A busy machine may make it late: measured again, best of three."""
        taken = []
        while len(taken) < 3 and min(taken, default=SOON_S) >= SOON_S:
            taken.append(seconds_of())
        self.assertLess(min(taken), SOON_S, taken)

    def test_the_store_process_dies_and_all_who_wait_for_it_say_so(self):
        def seconds_of():
            host = StoreHost(STORE_HOST)
            ranks = Ranks(PROGRAM, 3, {}, environment=host.environment, present=(0, 2), timeout_s=PATIENT_S)
            time.sleep(0.5)  # both have come, or are about to
            killed = time.monotonic()
            host.kill()
            latest = 0.0
            for lines in ranks.end().values():
                seconds, status, peer, message = outcome(lines)
                self.assertEqual((status, peer), (REMOTE, -1), message)
                self.assertIn("rondo run", message)
                latest = max(latest, seconds - killed)
            return latest
        self.soon(seconds_of)

    def test_a_rank_that_comes_when_the_store_is_gone_does_not_wait_for_it(self):
        def seconds_of():
            host = StoreHost(STORE_HOST)
            host.kill()
            started = time.monotonic()
            ranks = Ranks(PROGRAM, 2, {}, environment=host.environment, present=(1,), timeout_s=PATIENT_S)
            seconds, status, peer, message = outcome(ranks.end()[1])
            self.assertEqual((status, peer), (REMOTE, -1), message)
            return seconds - started
        self.soon(seconds_of)


class DeathBesideAChild(Death):
    """The child of a fork() must not hold the dead rank's sockets open."""
    own = {"RONDO_TEST_CHILD": "1"}

    def test_a_rank_that_dies_in_any_phase_is_named_by_all(self):
        self.sweep(victim=1, step=2)

    def test_the_rank_that_runs_the_store_dies_in_any_phase_and_is_named_by_all(self):
        self.sweep(victim=0, step=2)

    def test_a_rank_that_dies_as_it_greets_a_busy_store_again_is_missed_by_all(self):
        self.skipTest("the child makes no difference to what is measured there")


class Exit(unittest.TestCase):
    def test_a_process_that_exits_while_it_is_made_ends_the_attempt_of_all(self):
        leave_ms, status = 150, None
        while status != ABORTED and leave_ms < 10_000:  # on a busy machine the other one comes when the store is gone
            leave_ms *= 2
            ranks = Ranks(PROGRAM, 3, {0: {"RONDO_TEST_LEAVE": str(leave_ms)}}, present=(0, 1), timeout_s=PATIENT_S)
            said = ranks.end()
            self.assertEqual(said[0][-1][0], "leaves", said)
            self.assertEqual(ranks.processes[0].returncode, 0)
            seconds, status, _, message = outcome(said[1])
            self.assertIn(status, (ABORTED, REMOTE), message)
            self.assertLess(seconds - int(said[0][-1][1]) * 1e-9, SOON_S, message)
        self.assertEqual(status, ABORTED, message)


class Resources(unittest.TestCase):
    @unittest.skipIf("RONDO_TEST_SANITIZED" in os.environ,
                     "a sanitizer looks at memory through a pipe: without descriptors each object is a bad one to it")
    def test_too_few_descriptors_are_out_of_resources_on_every_rank(self):
        failed = 0
        for victim in (0, 1):
            for most in range(6, 24):
                with self.subTest(victim=victim, most=most):
                    for _ in range(3):  # a busy machine may make a rank come when all is over
                        ranks = Ranks(PROGRAM, 3, {victim: {"RONDO_TEST_DESCRIPTORS": str(most)}}, timeout_s=10)
                        said = ranks.end()
                        if victim == 0 or not came_to_no_store(said, 2):
                            break
                    if said[victim][-1][0] == "id" or not said[victim]:
                        continue  # there were none for the id itself
                    got = {rank: outcome(lines)[1:] for rank, lines in said.items()}
                    wanted = got[victim][0]
                    self.assertIn(wanted, (OK, OUT_OF_RESOURCES), got)
                    failed += wanted == OUT_OF_RESOURCES
                    for rank in set(got) - {victim}:
                        status, peer, message = got[rank]
                        if status == REMOTE and victim == 0 and wanted == OUT_OF_RESOURCES:
                            # It came when the store was gone.
                            self.assertIn(f"process {said[0][0][2]}, which made", message)
                            continue
                        self.assertEqual(status, wanted, got)
                        if status != OK:
                            self.assertEqual(peer, victim, message)
        self.assertGreater(failed, 4, "descriptors never ran out: the test shows nothing")


if __name__ == "__main__":
    unittest.main(verbosity=2)
