# SPDX-License-Identifier: Apache-2.0
"""Tests promises about time, on hosts that are network namespaces. Ranks on other hosts must learn of a loss
soon."""

import os
import signal
import sys
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1))
NO_ANSWER = r"(gave no answer|cannot be reached)"
LOSS_S = 2.0  # of a rank or a host (docs/transports.md)
RAIL_LOSS_S = 5.0


def rank_killed(_, job):
    os.kill(net.innermost(job.processes[4].pid), signal.SIGKILL)


class SixHosts(HostsTest):
    def expect_in_time(self, name, layout, harm, *expected):
        def measure():
            with net.Hosts(6) as hosts:
                job = Job(hosts, layout, [PROGRAM, "busy", "1000", "1000"]).begun()
                return self.seconds_until_told(job, lambda: harm(hosts, job), *expected)
        check_timed(self, f"6 hosts: {name}", LOSS_S, measure)

    def test_a_killed_rank(self):
        self.expect_in_time("a killed rank", [0, 1, 2, 3, 3, 4, 5], rank_killed,
                            ([0, 1, 2, 3, 5, 6], r"rank 4 \(host h3.* has ended", {4}))

    def test_a_cut_cable(self):
        self.expect_in_time("a cut cable", range(6), lambda hosts, _: hosts.cut(2),
                            ([0, 1, 3, 4, 5], r"rank 2 \(host h2.*" + NO_ANSWER, {2}),
                            ([2], NO_ANSWER, {0, 1, 3, 4, 5}))


class Rails(HostsTest):
    def test_a_rail_that_is_cut_or_taken_down(self):
        for what in ("cut", "take_down"):
            def measure(what=what):
                with net.Hosts(2, rails=2) as hosts:
                    job = Job(hosts, [0, 1], [PROGRAM, "busy", "1000", str(1 << 20)],
                              {"RONDO_INTERFACE": "eth0,eth1"}).begun()
                    return self.seconds_until_told(job, lambda: getattr(hosts, what)(1, rail=1),
                                                   (range(2), r"rail 1, from", None))
            check_timed(self, f"a rail: {what}", RAIL_LOSS_S, measure, 3)


if __name__ == "__main__":
    unittest.main()
