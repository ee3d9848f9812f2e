# SPDX-License-Identifier: Apache-2.0
"""Tests every collective on 2 and 4 hosts of 1 and 2 ranks, over TCP and UCX, in host memory and on devices in
software. Element types and operations take turns. The gate's quarter selects two exchanges for each layout of hosts
and ranks and, on devices and under a sanitizer, one layout for each network. With RONDO_TEST_ALL=1, all of them run.

usage: collectives_hosts_test.py RONDO"""

import itertools
import os
import sys
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "proc")]
from perf_support import COLLECTIVES, EXCHANGES  # noqa: E402
from sanitized import SANITIZED, quarter_of  # noqa: E402

RONDO = os.path.abspath(sys.argv.pop(1))
REDUCTIONS = (("float32", "sum"), ("bfloat16", "avg"), ("int64", "min"), ("float16", "sum"), ("uint8", "max"),
              ("float64", "prod"), ("int32", "mulsum"))
ALL_SHAPES = tuple(itertools.product((2, 4), (1, 2)))
ALL = "RONDO_TEST_ALL" in os.environ
QUARTER = int(os.environ.get("RONDO_TEST_QUARTER", "0"))
NETWORKS = {"tcp": {"RONDO_NETWORK": "tcp"}, "ucx": {"RONDO_NETWORK": "ucx", "UCX_TLS": "tcp,self"}}


class CollectivesOfSeveralHosts(HostsTest):
    def expect_right(self, network, memory, shapes):
        if network == "ucx":
            self.need_ucx(RONDO)
        sampled = itertools.islice(itertools.cycle(REDUCTIONS), 2 * QUARTER + (1 if memory else 0), None)
        exchanges = itertools.islice(itertools.cycle(EXCHANGES), QUARTER + (2 if network == "ucx" else 0), None)
        for host_count, per_host in shapes:
            layout = [rank // per_host for rank in range(host_count * per_host)]
            with net.Hosts(host_count) as hosts:
                for collective in COLLECTIVES + (EXCHANGES if ALL else (next(exchanges), next(exchanges))):
                    kind, operation = next(sampled) if collective in COLLECTIVES else ("float32", "sum")
                    command = [RONDO, "perf", collective, "-b", "1K", "-e", "256K", "-f", "256", "-n", "1", "-w", "0",
                               "-d", kind, *memory]
                    if collective in ("all_reduce", "reduce_scatter", "reduce"):
                        command += ["-o", operation]
                    environment = dict(NETWORKS[network])
                    if memory and len(layout) > 4:  # with two threads a block, the network would get no core
                        environment["SOFT_CUDA_THREADS"] = "1"
                    job = Job(hosts, layout, command, environment).finish(240)
                    with self.subTest(layout=layout, collective=collective, kind=kind, operation=operation):
                        self.assertEqual([each.returncode for each in job.processes], [0] * len(layout), job.output)
                        self.assertIn("# Out of bounds values : 0 OK", job.output[0])

    def test_over_tcp(self):
        self.expect_right("tcp", [], quarter_of(ALL_SHAPES, "layouts over TCP"))

    def test_over_ucx(self):
        self.expect_right("ucx", [], quarter_of(ALL_SHAPES, "layouts over UCX"))

    def expect_right_on_devices(self, network, shape):
        if SANITIZED:
            self.skipTest("a sanitized emulated device keeps all cores from the network for a second: taken for a cut")
        shapes = ALL_SHAPES if ALL else [ALL_SHAPES[shape % len(ALL_SHAPES)]]
        self.expect_right(network, ["--device", "cuda"], shapes)

    def test_over_tcp_on_devices(self):
        self.expect_right_on_devices("tcp", QUARTER)

    def test_over_ucx_on_devices(self):
        self.expect_right_on_devices("ucx", QUARTER + 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
