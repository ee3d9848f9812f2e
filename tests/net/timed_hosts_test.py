# SPDX-License-Identifier: Apache-2.0
"""Promises about time, on hosts that are network namespaces. Ranks on other hosts learn of a loss soon, and what `rondo
tune` measures of links is right. usage: timed_hosts_test.py RING_RANK RANK_PROGRAM RONDO"""

import json
import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import check_timed  # noqa: E402

RONDO, PROGRAM, RING_RANK = (os.path.abspath(sys.argv.pop()) for _ in range(3))
NO_ANSWER = r"(gave no answer|cannot be reached)"
LOSS_S = 2.0  # of a rank or a host (docs/control-plane.md)
RAIL_LOSS_S = 5.0
LIMIT_GBPS = 0.0125  # 100 Mbit/s


def rank_killed(_, job):
    os.kill(net.innermost(job.processes[4].pid), signal.SIGKILL)


class RingOfHosts(HostsTest):
    def expect_in_time(self, name, layout, harm, *expected):
        def measure():
            with net.Hosts(6) as hosts:
                job = Job(hosts, layout, [RING_RANK, "4"]).begun()
                return self.seconds_until_told(job, lambda: harm(hosts, job), *expected)
        check_timed(self, f"ring of 6 hosts: {name}", LOSS_S, measure)

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


class Links(HostsTest):
    def test_the_rate_of_a_limited_link_is_no_more_than_its_limit(self):
        def measure():
            with net.Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
                hosts.limit("100mbit")
                path = Path(folder) / "hosts.json"
                job = Job(hosts, [0, 0, 1, 1], [RONDO, "tune", "--hosts", "--sizes", "64K,4M", "-o", str(path)])
                job.finish(240)
                self.assertEqual([each.returncode for each in job.processes], [0] * 4, job.output)
                links = json.loads(path.read_text(encoding="ascii"))["networks"][0]["network"]["links"]
            return max(links["inter_node"]["bandwidth_GBps"],
                       LIMIT_GBPS * links["inter_node"]["bandwidth_GBps"] / links["intra_node"]["bandwidth_GBps"])
        check_timed(self, "rate of a link of 100 Mbit/s", LIMIT_GBPS, measure, 3, "GB/s")


if __name__ == "__main__":
    unittest.main()
