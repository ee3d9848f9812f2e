# SPDX-License-Identifier: Apache-2.0
"""Tests rondo_comm_shrink() between hosts, which are network namespaces. Ranks die, and the survivors continue. usage:
shrink_hosts_test.py SHRINK_RANKS"""

import os
import random
import sys
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1))
SEEDS = range(1, 31 if "RONDO_TEST_ALL" in os.environ else 9)


def shape_of(seed):
    """Returns the layout of a seed, and how many ranks die. At least one rank is left."""
    draw = random.Random(seed)
    layout = sorted([0, 1] + [draw.randint(0, 1) for _ in range(draw.randint(0, 3))])
    return layout, draw.randint(1, min(len(layout) - 1, 2))


class ShrinkHosts(HostsTest):
    def survivors(self, job, deaths):
        """Returns the ranks that have reported. Exactly `deaths` ranks may be missing."""
        left = [rank for rank in range(len(job.layout)) if " peer " in job.output[rank]]
        self.assertEqual(len(left), len(job.layout) - deaths, job.output)
        for rank in left:
            self.assertNotIn("WRONG", job.output[rank])
        return left

    def test_ranks_that_are_left_go_on(self):
        for layout, victims in (([0, 1, 1], ["0"]), ([0, 1, 1], ["1"]), ([0, 0, 1], ["2"]), ([0, 1, 2], ["1", "0"])):
            with net.Hosts(max(layout) + 1) as hosts, self.subTest(layout=layout, victims=victims):
                job = Job(hosts, layout, [PROGRAM, "survive", *victims]).finish(120)
                self.expect(job, self.survivors(job, len(victims)), "ok")

    def test_ranks_die_at_any_time(self):
        for seed in SEEDS:
            layout, deaths = shape_of(seed)
            with net.Hosts(2) as hosts, self.subTest(seed=seed, layout=layout, deaths=deaths):
                job = Job(hosts, layout, [PROGRAM, "chaos", str(seed), str(deaths)]).finish(120)
                self.expect(job, self.survivors(job, deaths), "ok")

    def test_a_second_death_is_named_and_the_next_call_goes_on(self):
        for first, second in ((1, 0), (0, 3)):
            with net.Hosts(2) as hosts, self.subTest(first=first, second=second):
                job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "strike", str(first), str(second)]).finish(120)
                self.expect(job, self.survivors(job, 2), "remote rank failed", None, {second})
                for rank in set(range(4)) - {first, second}:
                    self.assertEqual(job.processes[rank].returncode, 0, job.output[rank])

    def test_ranks_that_exclude_different_ranks_are_told_both_lists(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "differ", "2"]).finish(120)
            self.expect(job, [0, 2, 3], "ranks disagree")
            self.expect(job, [0, 2], "ranks disagree", r"excludes \{1.*excludes \{1")

    def test_a_shrink_without_a_failure_leaves_the_parent_alone(self):
        with net.Hosts(3) as hosts:
            job = Job(hosts, [0, 1, 1, 2], [PROGRAM, "healthy"]).finish(120)
            self.expect(job, range(4), "ok")

    def test_a_revoked_communicator_fails_on_all_ranks_and_can_be_shrunk(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "revoke", "2"]).finish(120)
            self.expect(job, range(3), "revoked", r"rank 2 revoked the communicator", {2})


if __name__ == "__main__":
    side_by_side.main(2)
