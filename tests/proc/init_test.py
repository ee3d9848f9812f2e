# SPDX-License-Identifier: Apache-2.0
"""Tests the error of the other ranks when a rank dies, or runs out of descriptors, in the middle of the initialisation.
In every phase the error must name that rank. timed_init_test.py checks how soon it comes.

usage: init_test.py INIT_RANK STORE_HOST"""

import concurrent.futures
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

from container import MORTAL, why_not
from init_support import ABORTED, NOT_READY, OK, OUT_OF_RESOURCES, REMOTE, TIMEOUT, Ranks, StoreHost, outcome

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402
from sanitized import quarter_of  # noqa: E402

STORE_HOST = sys.argv.pop()
PROGRAM = sys.argv.pop()
UCX_ASSERTION = re.compile(r"\.c:\d+ +Assertion `.*' failed")  # UCX 1.13 prints it if a peer dies as it connects
PATIENT_S = 100  # a timeout that does not affect how soon a rank notices
AT_A_TIME = 6  # lives, most of which wait


def came_to_no_store(said, rank):
    """Returns whether the rank's error says only that the process of rank 0, which ran the store, had
    gone."""
    _, status, peer, message = outcome(said[rank])
    return rank != 0 and status == REMOTE and peer == -1 and f"process {said[0][0][2]}, which made" in message


class Death(unittest.TestCase):
    wrappers, own = {}, {}  # for all ranks of a life

    def sweep(self, victim, step=1):
        """Kills `victim` in each life before a system call, `step` calls later each time, until it survives a life. The
        gate has every fourth of these lives, and another fourth each time."""
        first, *others = quarter_of(range(4), "lives that begin", in_every_build=True)
        stride = step if others else 4 * step
        struck_count = naming = 0  # lives in which it was killed, and lives in which all other ranks named it
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            struck = True
            at = 1 + first * step
            while struck:
                strikes = range(at, at + AT_A_TIME * stride, stride)
                lives = [pool.submit(self.live, victim, strike) for strike in strikes]
                results = [life.result() for life in lives]
                naming += sum(seconds is not None for _, seconds in results)
                struck_count += sum(happened for happened, _ in results)
                struck = all(happened for happened, _ in results)
                at += AT_A_TIME * stride
                self.assertLess(at, 2000)
        self.assertGreater(struck_count * stride, 12 * step, "hardly a call was counted: the sweep shows nothing")
        self.assertGreater(naming, 0)

    def live(self, victim, strike):
        """Returns whether the victim died, and the time until the slowest other rank named it, or None if not all of
        them named it."""
        nap = "100" if victim == 0 else "0"  # if it runs the store, the others enter first
        own = {rank: dict(self.own) for rank in range(3)}
        own[victim].update(RONDO_TEST_STRIKE=str(strike), RONDO_TEST_NAP=nap)
        ranks = Ranks(PROGRAM, 3, own, wrappers=self.wrappers)
        said = ranks.end()
        strikes = [line for line in said[victim] if line[0] == "strike"]
        if not strikes:
            for lines in said.values():
                self.assertEqual(outcome(lines)[1], OK, said)
            return False, None
        if any(UCX_ASSERTION.search(" ".join(line)) for lines in said.values() for line in lines):
            print(f"strike {strike}: UCX ended another rank by an assertion of its own (docs/transports.md)")
            return True, None
        struck, sent_count = int(strikes[0][1]) * 1e-9, int(strikes[0][2])
        slowest = []
        for rank in set(said) - {victim}:
            seconds, status, peer, message = outcome(said[rank])
            joined = int(said[rank][0][1]) * 1e-9
            context = f"strike {strike} after {sent_count} sends, rank {rank}: {message}; it said {said[rank]}"
            if victim != 0 and sent_count < 2:
                # No rank knows that the victim was there: only its second message to the store has its rank.
                self.assertIn(status, (TIMEOUT, REMOTE), context)
                self.assertRegex(message, rf"\branks? (\d+, )*{victim}\b", context)
                continue
            self.assertEqual(status, REMOTE, context)
            if victim != 0 and came_to_no_store(said, rank):
                continue  # rank 0 had named the victim, and had ended
            # Before rank 0 has joined, the others know its process, but not its rank.
            pid = said[victim][0][2]
            known = peer == victim or (victim == 0 and peer == -1 and f"process {pid}, which made" in message)
            self.assertTrue(known, f"{context}: peer {peer}, process {pid}")
            slowest.append(seconds - max(struck, joined))
        return True, max(slowest) if len(slowest) == len(said) - 1 else None

    def test_a_rank_that_dies_in_any_phase_is_named_by_all(self):
        self.sweep(victim=1)

    def test_the_rank_that_runs_the_store_dies_in_any_phase_and_is_named_by_all(self):
        self.sweep(victim=0)

    def test_a_rank_that_dies_as_it_greets_a_busy_store_again_is_missed_by_all(self):
        self.own = dict(self.own, RONDO_TEST_SLOW_ACCEPT="900")
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            for life in [pool.submit(self.live, 1, strike) for strike in range(9, 13)]:
                life.result()


class DeathBetweenContainers(Death):
    """Deaths of ranks that a network joins. Such ranks also connect, try their links and greet each other."""
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

    def leave_at(self, call):
        """Returns the other ranks' statuses if rank 1 exits at that system call, or None if all had met by then."""
        own = {rank: dict(self.own) for rank in range(3)}
        own[1].update(RONDO_TEST_LEAVE=str(call), RONDO_TEST_NAP="300")
        said = Ranks(PROGRAM, 3, own, wrappers=self.wrappers).end()
        seen = set()
        for rank in (0, 2):  # if the rank was ready, its barrier fails
            _, status, _, message = outcome(said[rank])
            context = f"left at call {call}, rank {rank}: {message}"
            seen.add(status)
            if status == TIMEOUT:  # rank 1 had not reached the store
                self.assertIn("rank 1", message, context)
            else:
                self.assertIn(status, (ABORTED, REMOTE), context)
        return seen if int(said[1][-1][1]) == NOT_READY else None

    def test_a_process_that_exits_while_networks_meet_ends_the_attempt_of_all(self):
        seen, left, call = set(), [set()], 1
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            while None not in left:
                left = list(pool.map(self.leave_at, range(call, call + 90, 30)))
                seen |= set().union(*(each for each in left if each is not None))
                call += 90
                self.assertLess(call, 2000)
        self.assertIn(ABORTED, seen)


class Store(unittest.TestCase):
    """A waiting rank must get its error long before its timeout, whose error would be RONDO_ERROR_TIMEOUT."""

    def test_the_store_process_dies_and_all_who_wait_for_it_say_so(self):
        host = StoreHost(STORE_HOST)
        ranks = Ranks(PROGRAM, 3, {}, environment=host.environment, present=(0, 2), timeout_s=PATIENT_S)
        time.sleep(0.5)  # both have entered, or will soon
        host.kill()
        for lines in ranks.end().values():
            _, status, peer, message = outcome(lines)
            self.assertEqual((status, peer), (REMOTE, -1), message)
            self.assertIn("rondo run", message)

    def test_a_rank_that_comes_when_the_store_is_gone_does_not_wait_for_it(self):
        host = StoreHost(STORE_HOST)
        host.kill()
        ranks = Ranks(PROGRAM, 2, {}, environment=host.environment, present=(1,), timeout_s=PATIENT_S)
        _, status, peer, message = outcome(ranks.end()[1])
        self.assertEqual((status, peer), (REMOTE, -1), message)


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
        with tempfile.TemporaryDirectory() as folder:
            came = f"{folder}/came"
            own = {0: {"RONDO_TEST_LEAVE": came}, 1: {"RONDO_TEST_CAME": came}}
            ranks = Ranks(PROGRAM, 3, own, present=(0, 1), timeout_s=PATIENT_S)
            said = ranks.end()
        self.assertEqual(said[0][-1], ["leaves", str(NOT_READY)], said)
        self.assertEqual(ranks.processes[0].returncode, 0)
        _, status, _, message = outcome(said[1])
        self.assertEqual(status, ABORTED, message)


class Resources(unittest.TestCase):
    @staticmethod
    def live_with(limit):
        """Returns the output of the ranks of a life whose rank `victim` may have `most` descriptors."""
        victim, most = limit
        return Ranks(PROGRAM, 3, {victim: {"RONDO_TEST_DESCRIPTORS": str(most)}}, timeout_s=PATIENT_S).end()

    def check_told(self, victim, said):
        """Checks that all ranks get the victim's error. Returns whether the victim had too few descriptors."""
        if said[victim][-1][0] == "id" or not said[victim]:
            return False  # not even the id could be made
        got = {rank: outcome(lines)[1:] for rank, lines in said.items()}
        wanted = got[victim][0]
        self.assertIn(wanted, (OK, OUT_OF_RESOURCES), got)
        for rank in set(got) - {victim}:
            if victim != 0 and wanted != OK and came_to_no_store(said, rank):
                continue  # it entered after the store had ended
            status, peer, message = got[rank]
            if status == REMOTE and victim == 0 and wanted == OUT_OF_RESOURCES:
                # It tried to enter when the store had ended.
                self.assertIn(f"process {said[0][0][2]}, which made", message)
                continue
            self.assertEqual(status, wanted, got)
            if status != OK:
                self.assertEqual(peer, victim, message)
        return wanted == OUT_OF_RESOURCES

    @unittest.skipIf("RONDO_TEST_SANITIZED" in os.environ,
                     "a sanitizer looks at memory through a pipe: without descriptors each object is a bad one to it")
    def test_too_few_descriptors_are_out_of_resources_on_every_rank(self):
        failed = 0
        limits = [(victim, most) for victim in (0, 1) for most in range(6, 24)]
        with concurrent.futures.ThreadPoolExecutor(len(limits)) as pool:
            lives = pool.map(self.live_with, limits)
            for (victim, most), said in zip(limits, lives):
                with self.subTest(victim=victim, most=most):
                    failed += self.check_told(victim, said)
        self.assertGreater(failed, 4, "descriptors never ran out: the test shows nothing")


if __name__ == "__main__":
    side_by_side.main(4)
