# SPDX-License-Identifier: Apache-2.0
"""Tests rondo_comm_shrink() and rondo_comm_revoke() between processes of this host. Ranks die, and the survivors
continue. usage: shrink_test.py SHRINK_RANKS"""

import os
import random
import signal
import sys
import unittest
from pathlib import Path

from job import JobTest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

PROGRAM = sys.argv.pop(1)
SEEDS = range(1, 101 if "RONDO_TEST_ALL" in os.environ else 26)


def shape_of(seed):
    """Returns the ranks and the deaths of a seed. At least one rank is left."""
    draw = random.Random(seed)
    rank_count = draw.randint(2, 5)
    return rank_count, draw.randint(1, min(rank_count - 1, 3))


class Shrink(JobTest):
    program = PROGRAM
    seconds = 120

    def dead(self, ranks, count):
        dead = {number for number, rank in ranks.items() if rank.process.returncode == -signal.SIGKILL}
        self.assertEqual(len(dead), count)
        return dead

    def test_ranks_that_are_left_go_on(self):
        for rank_count, victims in ((3, [1]), (3, [0]), (2, [0]), (5, [4, 0, 1])):
            ranks = self.job(rank_count, "survive", *victims)
            self.expect(ranks, "ok", skip=self.dead(ranks, len(victims)))

    def test_ranks_die_at_any_time(self):
        for seed in SEEDS:
            rank_count, deaths = shape_of(seed)
            with self.subTest(seed=seed, ranks=rank_count, deaths=deaths):
                ranks = self.job(rank_count, "chaos", seed, deaths)
                self.expect(ranks, "ok", skip=self.dead(ranks, deaths))

    def test_a_second_death_is_named_and_the_next_call_goes_on(self):
        for first, second in ((1, 0), (1, 2), (0, 3), (0, 1)):
            with self.subTest(first=first, second=second):
                ranks = self.job(4, "strike", first, second)
                self.expect(ranks, "remote rank failed", skip=self.dead(ranks, 2), peer=second)
                for number in set(range(4)) - {first, second}:
                    self.assertEqual(ranks[number].process.returncode, 0)

    def test_ranks_that_exclude_different_ranks_are_told_both_lists(self):
        ranks = self.job(4, "differ", 2)
        for number in (0, 2, 3):
            with self.subTest(rank=number):
                last = ranks[number].last()
                self.assertEqual(last.status, "ranks disagree", last.message)
        for number in (0, 2):
            self.assertRegex(ranks[number].last().message, r"rank \d .* excludes \{1(, 3)?\}, rank \d .* excludes \{1")
            self.assertIn("{1, 3}", ranks[number].last().message)

    def test_a_shrink_without_a_failure_leaves_the_parent_alone(self):
        for rank_count in (2, 3, 5):
            self.expect(self.job(rank_count, "healthy"), "ok")

    def test_a_revoked_communicator_fails_on_all_ranks_and_can_be_shrunk(self):
        for victim in (0, 2):
            ranks = self.job(3, "revoke", victim)
            self.expect(ranks, "revoked", text=f"rank {victim} revoked the communicator", peer=victim)
            for rank in ranks.values():
                self.assertEqual(rank.process.returncode, 0)


if __name__ == "__main__":
    side_by_side.main(3)
