# SPDX-License-Identifier: Apache-2.0
"""Tests rondo_comm_grow() between processes of this host. New ranks join, and errors name ranks that die or do not
call. usage: grow_test.py GROW_RANKS"""

import signal
import sys
import tempfile
from pathlib import Path

from job import JobTest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402


class Grow(JobTest):
    program = sys.argv.pop(1)
    seconds = 120

    def job(self, rank_count, *arguments, **options):
        with tempfile.TemporaryDirectory() as folder:
            return super().job(rank_count, *arguments, *([folder] if len(arguments) > 3 else []), **options)

    def test_new_ranks_join_and_the_parent_goes_on(self):
        for rank_count, new_count, maker in ((2, 1, 0), (5, 2, 2), (4, 3, 0)):
            self.expect(self.job(rank_count, "grow", new_count, maker), "ok")

    def test_a_new_rank_that_dies_is_named(self):
        ranks = self.job(5, "wait", 2, 0, 3)
        self.assertEqual(ranks[3].process.returncode, -signal.SIGKILL)
        self.expect(ranks, "remote rank failed", skip={3, 4}, peer=3)

    def test_an_old_rank_that_dies_is_named(self):
        for victim in (0, 2):  # rank 0 serves the store
            with self.subTest(victim=victim):
                ranks = self.job(4, "strike", 1, 0, victim)
                self.assertEqual(ranks[victim].process.returncode, -signal.SIGKILL)
                self.expect(ranks, "remote rank failed", skip={victim})
                # If the maker dies, new rank 3 knows only the maker's process.
                self.expect(ranks, "remote rank failed", skip={victim, 3} if victim == 0 else {victim}, peer=victim)

    def test_a_new_rank_that_does_not_come_is_named_after_the_deadline(self):
        ranks = self.job(4, "absent", 2, 1)
        self.expect(ranks, "timeout", skip={3}, text="3")
        for number in (0, 1, 2):
            self.assertEqual(ranks[number].process.returncode, 0, ranks[number].output)


if __name__ == "__main__":
    side_by_side.main(3)
