# SPDX-License-Identifier: Apache-2.0
"""Tests six to eight hosts, which are network namespaces. Every host must learn that a rank or a host was killed. It
must also learn of a cut cable (one way or both), and of a partition. timed_hosts_test.py checks that this is
soon. usage: six_hosts_test.py RANK_PROGRAM"""

import os
import signal
import sys
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

PROGRAM = os.path.abspath(sys.argv.pop(1))
NO_ANSWER = r"(gave no answer|cannot be reached)"
# The control plane reports the end. If the reporting rank is late, the error names a link that ended a second before.
ENDED = r"(has ended|closed the connection)"


class SixHosts(HostsTest):
    def expect_told(self, host_count, layout, harm, *expected):
        """Checks that a job learns of harm(hosts, job). `expected` has ranks, the error that each of them gets, and the
        ranks that it may name."""
        with net.Hosts(host_count) as hosts:
            job = Job(hosts, layout, [PROGRAM, "busy", "1000", "1000"]).begun()
            seconds = self.seconds_until_told(job, lambda: harm(hosts, job), *expected)
        print(f"{self.id().split('.')[-1]}: told after {seconds:.2f} s", flush=True)

    def test_a_killed_rank_is_named_on_all_hosts(self):
        self.expect_told(6, [0, 1, 2, 3, 3, 4, 5],
                         lambda _, job: os.kill(net.innermost(job.processes[4].pid), signal.SIGKILL),
                         ([0, 1, 2, 3, 5, 6], r"rank 4 \(host h3.*" + ENDED, {4}))

    def test_a_killed_host_is_named_on_all_hosts(self):
        self.expect_told(8, [0, 1, 2, 3, 4, 5, 6, 6, 7], lambda hosts, _: hosts.kill(6),
                         ([0, 1, 2, 3, 4, 5, 8], r"rank [67] \(host h6.*" + ENDED, {6, 7}))

    def test_a_cable_that_is_cut_is_told_on_both_sides(self):
        for cut in ("cut", "cut_one_way"):
            with self.subTest(cut=cut):
                self.expect_told(6, range(6), lambda hosts, _, cut=cut: getattr(hosts, cut)(2),
                                 ([0, 1, 3, 4, 5], r"rank 2 \(host h2.*" + NO_ANSWER, {2}),
                                 ([2], NO_ANSWER, {0, 1, 3, 4, 5}))

    def test_after_a_partition_each_side_names_a_rank_of_the_other(self):
        self.expect_told(6, range(6), lambda hosts, _: hosts.part({3, 4, 5}),
                         ([0, 1, 2], NO_ANSWER, {3, 4, 5}), ([3, 4, 5], NO_ANSWER, {0, 1, 2}))


if __name__ == "__main__":
    unittest.main()
