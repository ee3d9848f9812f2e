# SPDX-License-Identifier: Apache-2.0
"""Tests the error of every rank when one rank is killed, stops, leaves, never calls or disagrees. The error must name
that rank, and come within the timeout. No rank may hang or get a wrong sum.

usage: failure_test.py RANK_PROGRAM"""

import signal
import sys
from pathlib import Path

from job import PATIENCE, JobTest, refuse_pidfd_open, run_job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

PROGRAM = sys.argv.pop(1)
# Operations that must miss the first timeout end by it. All others must miss no timeout, even on a busy machine.
TIMEOUT, NO_TIMEOUT = {"RONDO_TIMEOUT": str(5 * PATIENCE)}, {"RONDO_TIMEOUT": str(20 * PATIENCE)}


class Failure(JobTest):
    program = PROGRAM

    def test_without_a_fault_everything_is_right(self):
        self.expect(self.job(4, "sum", 200, 1000), "ok")

    def test_a_killed_rank_is_named_on_every_other(self):
        for rank_count, victim, count in ((2, 1, 10), (4, 0, 100_000), (5, 3, 1)):
            ranks = self.job(rank_count, "signal", int(signal.SIGKILL), victim, 7, count)
            self.expect(ranks, "remote rank failed", skip={victim}, text=f"rank {victim} (host", peer=victim)
            self.assertEqual(ranks[victim].process.returncode, -signal.SIGKILL)

    def test_a_killed_rank_is_named_where_there_are_no_process_handles_and_its_parent_does_not_reap_it(self):
        for unreaped in ((), {1}):
            ranks = self.job(3, "signal", int(signal.SIGKILL), 1, 7, 10, preexec_fn=refuse_pidfd_open,
                             unreaped=unreaped, environment=NO_TIMEOUT)
            self.expect(ranks, "remote rank failed", skip={1}, text="rank 1 (host", peer=1)

    def test_a_rank_that_becomes_another_program_is_named(self):
        for preexec_fn in (None, refuse_pidfd_open):
            ranks = self.job(3, "exec", 1, 4, environment=NO_TIMEOUT, unreaped={1}, preexec_fn=preexec_fn)
            self.expect(ranks, "remote rank failed", skip={1}, text="rank 1 (host", peer=1)

    def test_a_rank_that_closes_descriptors_which_are_not_its_own_is_not_taken_for_dead(self):
        self.expect(self.job(3, "close", 1), "ok")

    def test_a_stopped_rank_is_named_after_the_timeout(self):
        ranks = self.job(4, "signal", int(signal.SIGSTOP), 2, 5, 1000, environment=TIMEOUT)
        self.expect(ranks, "timeout", skip={2}, text="rank 2 (host", peer=2)

    def test_a_rank_that_does_not_call_is_named_with_its_latest_operation(self):
        ranks = self.job(3, "missing", 1, environment=TIMEOUT)
        self.expect(ranks, "timeout", skip={1}, text="which is at operation 1", peer=1)

    def test_two_missing_ranks_are_named_each_with_its_latest_operation(self):
        # Along the ring, a broadcast of rank 0 reaches rank 2 before rank 3.
        ranks = self.job(4, "gone", environment=TIMEOUT | {"RONDO_ALGORITHM": "ring"})
        self.expect(ranks, "timeout", peer=2)
        for rank in ranks.values():
            self.assertRegex(rank.last().message, r"not arrived: rank 2 \(host [^)]*\) which is at operation 2, "
                                                  r"rank 3 \(host [^)]*\) which is at operation 1;")
            self.assertEqual(rank.last().operation, 3)

    def test_a_rank_that_never_comes_is_listed_at_initialisation(self):
        # This timeout also limits the start of the other ranks, and is far longer than the start takes.
        ranks = self.job(4, "sum", 1, 1, absent={2}, environment={"RONDO_INIT_TIMEOUT": str(15 * PATIENCE)})
        # Rank 0 runs the store. Other ranks reach their own deadline, or learn from rank 0 that it gave up.
        for rank in ranks.values():
            self.assertIn(rank.last().status, ("timeout", "remote rank failed"), rank.output)
            self.assertIn("rank 2 (1 of 4)", rank.last().message)

    def test_a_rank_that_leaves_is_named(self):
        ranks = self.job(3, "leave", 1, 4)
        self.expect(ranks, "remote rank failed", skip={1}, text="rank 1 (host", peer=1)

    def test_a_rank_that_finalizes_one_call_early_is_named_on_all(self):
        for count in (10, 100_000):
            ranks = self.job(3, "early", 2, 4, count, environment=NO_TIMEOUT)
            self.expect(ranks, "remote rank failed", text="rank 2 (host", peer=2)
            self.expect(ranks, "remote rank failed", text="rondo_comm_finalize")

    def test_ranks_that_disagree_get_both_calls(self):
        for what, text in (("count", "999"), ("type", "float32"), ("op", "max"), ("collective", "broadcast"),
                           ("order", "barrier"), ("root", "to rank 0"), ("zero", "of 0 int32")):
            with self.subTest(what=what):
                ranks = self.job(4, "disagree", what, 2, environment=NO_TIMEOUT)
                for rank in ranks.values():
                    last = rank.last()
                    self.assertEqual(last.status, "ranks disagree", last.message)
                    self.assertIn(text, last.message)
                    self.assertIn("operation 4", last.message)

    def test_settings_that_differ_are_refused_at_initialisation(self):
        ranks = run_job(PROGRAM, 1, ["sum", "1", "1"], environment={"RONDO_ALGORITHM": "quick"})
        self.assertIn("known are: auto, ring, tree", ranks[0].output)

    def test_ranks_with_different_settings_are_refused_at_initialisation(self):
        for name, value, text in (("RONDO_ALGORITHM", "tree", "algorithm"), ("RONDO_CHANNELS", "3", "channels"),
                                  ("RONDO_SLOT_COUNT", "8", "RONDO_SLOT_COUNT"), ("RONDO_WAIT", "yield", "RONDO_WAIT"),
                                  ("RONDO_MAX_CTAS", "2", "RONDO_MAX_CTAS")):
            with self.subTest(name=name):
                ranks = self.job(3, "sum", 1, 1, own_environment={2: {name: value}})
                self.expect(ranks, "ranks disagree", text=text)

    def test_a_killed_rank_that_lent_its_buffer_is_named(self):
        for kind in ("registered", "alloc"):
            for round_number in (3, 6):
                ranks = self.job(3, "exports", kind, 1, round_number)
                self.expect(ranks, "remote rank failed", skip={1}, text="rank 1 (host", peer=1)

    def test_a_rank_that_has_no_descriptor_for_a_peers_buffer_is_named_itself(self):
        for kernel in ("load_store", "interpreter"):
            ranks = self.job(3, "starved", 1, environment={"RONDO_KERNEL": kernel})
            self.expect(ranks, "out of resources", text="rank 1 (host", peer=1)
            self.expect(ranks, "out of resources", text="ulimit -n")

    def test_a_lent_region_that_the_program_replaces_is_an_error_and_no_wrong_sum(self):
        for what, text in (("descriptor", "closed or replaced"), ("memory", "other memory mapped at its address")):
            for kind in ("alloc", "moved"):
                for count, rank in ((1 << 17, 0), (1 << 21, 1)):
                    with self.subTest(what=what, kind=kind, count=count):
                        ranks = self.job(3, "replace", what, kind, count, rank)
                        self.expect(ranks, "system error", text=text)
        # Without moved pages, peers read the present memory at the address.
        self.expect(self.job(3, "replace", "memory", "registered", 1 << 17, 1), "ok")

    def test_a_death_is_noticed_with_nothing_in_flight(self):
        self.expect(self.job(3, "idle", 2), "remote rank failed", skip={2}, text="rank 2 (host", peer=2)

    def test_an_exit_between_operations_fails_only_who_needs_the_rank(self):
        ranks = self.job(3, "exits", 1)
        self.expect(ranks, "remote rank failed", skip={1}, text="rank 1 (host", peer=1)
        self.assertIn("rank 0: no failure yet", ranks[0].output)

    def test_a_rank_that_aborts_after_its_last_call_lets_the_others_finish_it(self):
        ranks = self.job(3, "aborts", 0)
        self.expect(ranks, "aborted", skip={0}, text="rank 0 (host", peer=0)
        for rank in (ranks[1], ranks[2]):
            self.assertIn("got 7", rank.output)

    def test_abort_ends_the_wait_of_all(self):
        self.expect(self.job(4, "abort", 1), "aborted", text="has called rondo_comm_abort", peer=1)


class Paths(JobTest):
    """Tests the ways by which processes access each other's buffers."""

    program = PROGRAM

    def job(self, rank_count, *arguments, **options):
        ranks = super().job(rank_count, *arguments, **options)
        self.expect(ranks, "ok")
        return ranks

    def test_every_kind_of_buffer_gives_the_right_sum(self):
        for kind in ("private", "alloc", "registered", "moved"):
            for count in (10_000, 100_003, 1_000_003):
                self.job(3, "buffers", kind, count)

    def test_every_kind_of_buffer_without_mapping_and_cross_memory(self):
        for kind in ("alloc", "registered", "moved"):
            ranks = self.job(2, "buffers", kind, 100_003,
                             environment={"RONDO_MAPPING": "off", "RONDO_CROSS_MEMORY": "off"})
            self.assertIn("mapped 0 cross 0", ranks[0].output)

    def test_every_way_of_waiting_gives_the_right_sum_and_keeps_the_deadline(self):
        for wait in ("spin", "yield", "sleep"):
            with self.subTest(wait=wait):
                self.job(3, "sum", 100, 1000, environment={"RONDO_WAIT": wait})
                ranks = run_job(PROGRAM, 3, ["missing", "1"], environment=TIMEOUT | {"RONDO_WAIT": wait})
                self.assertEqual({ranks[0].last().status, ranks[2].last().status}, {"timeout"})

    def test_ranks_as_threads_of_several_processes(self):
        self.job(2, "mixed", 3)

    def test_several_communicators_of_which_one_is_aborted(self):
        self.job(3, "several", 4)


if __name__ == "__main__":
    side_by_side.main(5)
