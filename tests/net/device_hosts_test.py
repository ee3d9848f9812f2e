# SPDX-License-Identifier: Apache-2.0
"""Ranks on devices of several hosts: collectives, replayed graphs, what ends a rank and what is refused.
usage: device_hosts_test.py DEVICE_RANK RONDO"""

import os
import sys
import unittest

import hosts as net
from hosts_job import HostsTest, Job, why_no_ucx

PROGRAM, RONDO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
UCX = {"RONDO_NETWORK": "ucx", "UCX_TLS": "tcp,self"}


class DevicesOfSeveralHosts(HostsTest):
    def expect_right(self, layout, arguments, environment=None):
        with net.Hosts(2) as hosts:
            job = Job(hosts, layout, [PROGRAM, *arguments], environment).finish(120)
            self.expect(job, range(len(layout)), "ok", "^kernel$")

    def test_sums_and_moves(self):
        for layout in ([0, 1], [0, 1, 1, 0]):
            for scenario in ("sums", "moves"):
                with self.subTest(layout=layout, scenario=scenario):
                    self.expect_right(layout, [scenario])

    def test_graphs_are_replayed_between_calls(self):
        self.expect_right([0, 0, 1], ["sums", "replayed"])

    def test_sums_over_ucx(self):
        why = why_no_ucx(RONDO)
        if why is not None:
            self.skipTest(why)
        self.expect_right([0, 1, 1], ["sums"], UCX)

    def test_every_collective_is_right(self):
        if "RONDO_TEST_SANITIZED" in os.environ:
            self.skipTest("a sanitized emulated device keeps all cores from the network for a second: taken for a cut")
        with net.Hosts(2) as hosts:
            for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"):
                command = [RONDO, "perf", collective, "--device", "cuda", "-b", "4", "-e", "1M", "-f", "64", "-n", "2",
                           "-w", "1"]
                job = Job(hosts, [0, 1, 0], command).finish(240)
                with self.subTest(collective=collective):
                    self.assertEqual([each.returncode for each in job.processes], [0] * 3, job.output)
                    self.assertIn("# Out of bounds values : 0 OK", job.output[0])

    def test_a_killed_rank_is_named_on_every_other(self):
        with net.Hosts(2) as hosts:
            for layout in ([0, 1], [0, 1, 1]):
                job = Job(hosts, layout, [PROGRAM, "kill"]).finish(60)
                self.expect(job, set(range(len(layout))) - {1}, "remote rank failed", r"rank 1 \(host h1", {1})

    def test_a_rank_that_does_not_come_is_named(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "silent"]).finish(60)
            self.expect(job, [0], "timeout", r"rank 1 \(host h1", {1})

    def test_what_moves_inside_of_a_host_alone_is_refused_on_every_rank(self):
        with net.Hosts(2) as hosts:
            for environment, text in (({"RONDO_DEVICE_EXECUTOR": "copy"}, "RONDO_DEVICE_EXECUTOR=kernel or auto"),
                                      ({"RONDO_PROTOCOL": "ll128"}, "for ranks of one host"),
                                      ({"RONDO_PROTOCOL": "ll"}, "'ll' that was asked for is not available here"),
                                      ({"RONDO_KERNEL": "load_store"}, "ranks of one host")):
                job = Job(hosts, [0, 1], [PROGRAM, "sums"], environment).finish(60)
                self.expect(job, range(2), "unsupported", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
