# SPDX-License-Identifier: Apache-2.0
"""Tests rondo_comm_split() between processes of this host. A hundred splits leave nothing behind. If a rank dies, does
not call, or calls something else, every other rank names it. usage: split_test.py SPLIT_RANKS"""

import json
import signal
import sys
import tempfile
from pathlib import Path

from job import PATIENCE, JobTest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402


class Split(JobTest):
    program = sys.argv.pop(1)
    seconds = 120

    def test_parts_have_the_ranks_and_the_sums_that_they_must_have(self):
        for rank_count in (2, 4, 8):
            for waits in (1, 0):
                self.expect(self.job(rank_count, "parts", waits), "ok")

    def test_a_hundred_splits_leave_nothing_behind(self):
        self.expect(self.job(4, "many", 100), "ok")

    def test_a_rank_that_died_is_named(self):
        for victim in (0, 2):
            ranks = self.job(4, "dead", victim)
            self.expect(ranks, "remote rank failed", skip={victim}, text=f"rank {victim} (host", peer=victim)

    def test_a_rank_that_does_not_call_is_named_after_the_deadline(self):
        ranks = self.job(3, "late", 1, environment={"RONDO_TIMEOUT": str(5 * PATIENCE)})
        self.expect(ranks, "timeout", skip={1}, text="rondo_comm_split with color 0 and key 0) on rank", peer=1)
        self.expect(ranks, "timeout", skip={1}, text="not arrived: rank 1 (host")

    def test_a_rank_that_calls_something_else_is_told_both_calls(self):
        ranks = self.job(3, "other", 2)
        self.expect(ranks, "ranks disagree", text="rondo_comm_split with color 4 and key -2")
        self.expect(ranks, "ranks disagree", text="all_reduce of 1 int32 (sum)")

    def test_the_flight_recorder_shows_a_split_as_a_barrier(self):
        with tempfile.TemporaryDirectory() as folder:
            self.job(3, "other", 2, environment={"RONDO_RECORDER_DIR": folder})
            lines = [json.loads(line) for path in Path(folder).iterdir() for line in path.read_text().splitlines()]
        splits = [line for line in lines if line.get("record") == "operation" and line["rank"] != 2]
        self.assertTrue(splits)  # at least one rank had entered its split
        for line in splits:
            self.assertEqual([line[name] for name in ("collective", "op", "root", "count", "uneven_blocks")],
                             ["barrier", "sum", 0, 1, False])

    def test_a_part_whose_ranks_differ_in_configuration_fails_and_the_parent_goes_on(self):
        ranks = self.job(3, "config", 1)
        self.expect(ranks, "ranks disagree", text="rondo_config_t.chunk_bytes: 4K and 8K")
        self.expect(ranks, "ranks disagree", text="rondo_comm_split with color 0 (0, 1, 2 of the parent)")

    def test_a_rank_that_dies_between_the_agreement_and_its_part_is_named_on_the_ranks_of_its_color_alone(self):
        for victim in (0, 3):  # rank 0 runs the store of its part
            with self.subTest(victim=victim):
                ranks = self.job(6, "strike", victim, 3)
                self.assertEqual(ranks[victim].process.returncode, -signal.SIGKILL)
                same = {victim, (victim + 3) % 6}
                self.expect(ranks, "ok", skip=same)
                self.expect(ranks, "remote rank failed", skip=set(range(6)) - same | {victim}, peer=victim)


if __name__ == "__main__":
    side_by_side.main(3)
