# SPDX-License-Identifier: Apache-2.0
"""Tests ranks on devices of several hosts. It covers collectives, replayed graphs, ends of ranks, and refusals.
usage: device_hosts_test.py DEVICE_RANK DEVICE_PROGRAMS RONDO"""

import os
import sys
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job, takes_cuda_memory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import quarter_of_cases_in_every_build  # noqa: E402

# In each quarter, ranks exchange data by kernels and by copies, over TCP and UCX, and some fail or are refused.
load_tests = quarter_of_cases_in_every_build

PROGRAM, RANDOM, RONDO = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
UCX = {"RONDO_NETWORK": "ucx", "UCX_TLS": "tcp,self"}
IN_DEVICES = UCX | {"UCX_RNDV_THRESH": "1K", "RONDO_NETWORK_DEVICE_SLOTS": "on", "SOFT_CUDA_GPUDIRECT": "flush",
                    "SOFT_CUDA_HOST_READS": "on"}
WHERE_CAN_BE = IN_DEVICES | {"RONDO_NETWORK_DEVICE_SLOTS": "auto", "RONDO_LOG": "transport=info"}
# With these settings, no schedule joins some of ten ranks of two hosts. Their blocks need a buffer of this count.
UNJOINED = {"RONDO_ALGORITHM": "ring", "SOFT_CUDA_THREADS": "1", "DEVICE_RANK_COUNT": "200000"}
COPY = {"RONDO_DEVICE_EXECUTOR": "copy"}
APART = {"SOFT_CUDA_DEVICES": "2", "DEVICE_RANK_DEVICES": "2", "SOFT_CUDA_PEERS": "off"}
ONE_CANNOT = [{"SOFT_CUDA_GPUDIRECT": "flush"}, {"SOFT_CUDA_GPUDIRECT": "off"}]
IN_DEVICE = "slots of links to other hosts are in memory of the device"


def by_executor(environment):
    """Returns a pattern of the text that each rank prints in the end: the name of its executor."""
    return f"^{(environment or {}).get('RONDO_DEVICE_EXECUTOR', 'kernel')}$"


def in_host(why):
    return f"slots of links to other hosts are in memory of the host: .*{why}"


class DevicesOfSeveralHosts(HostsTest):
    def expect_right(self, layout, arguments, environment=None):
        with net.Hosts(2) as hosts:
            job = Job(hosts, layout, [PROGRAM, *arguments], environment).finish(120)
            self.expect(job, range(len(layout)), "ok", by_executor(environment))

    def expect_programs(self, layout, environment, count):
        self.need_cores()
        with net.Hosts(2) as hosts:
            job = Job(hosts, layout, [RANDOM, "[.job]"], environment | {"DEVICE_PROGRAMS": str(count)}).finish(240)
            self.expect(job, range(len(layout)), "ok", by_executor(environment))

    def test_sums_and_moves(self):
        for layout in ([0, 1], [0, 1, 1, 0]):
            for scenario in ("sums", "moves"):
                with self.subTest(layout=layout, scenario=scenario):
                    self.expect_right(layout, [scenario])

    def test_devices_of_a_host_that_do_not_reach_each_other(self):
        # One host, or both hosts, have ranks on both devices.
        for layout in ([0, 1, 1], [1, 0, 0, 1, 1]):
            for scenario in ("sums", "moves"):
                with self.subTest(layout=layout, scenario=scenario):
                    self.expect_right(layout, [scenario], APART)

    def test_graphs_are_replayed_between_calls(self):
        self.expect_right([0, 0, 1], ["sums", "replayed"])

    def test_sums_over_ucx(self):
        self.need_ucx(RONDO)
        self.expect_right([0, 1, 1], ["sums"], UCX)

    def test_graphs_are_replayed_with_slots_in_the_devices(self):
        self.need_ucx(RONDO)
        self.expect_right([0, 1, 1], ["sums", "replayed"], IN_DEVICES)

    def need_cores(self):
        if "RONDO_TEST_SANITIZED" in os.environ:
            self.skipTest("a sanitized emulated device keeps all cores from the network for a second: taken for a cut")

    def expect_collectives(self, environment, text=""):
        self.need_cores()
        with net.Hosts(2) as hosts:
            for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"):
                # The largest vector fills several slots.
                command = [RONDO, "perf", collective, "--device", "cuda", "-b", "4", "-e", "256K", "-f", "256", "-n",
                           "2", "-w", "1"]
                job = Job(hosts, [0, 1, 0], command, {"RONDO_SLOT_BYTES": "65536"} | environment).finish(240)
                with self.subTest(collective=collective):
                    self.assertEqual([each.returncode for each in job.processes], [0] * 3, job.output)
                    self.assertIn("# Out of bounds values : 0 OK", job.output[0])
                    for output in job.output:
                        self.assertIn(text, output)

    def test_every_collective_is_right(self):
        self.expect_collectives({})

    def test_every_collective_is_right_with_slots_in_the_devices(self):
        self.need_ucx(RONDO)
        self.expect_collectives(IN_DEVICES | {"RONDO_LOG": "transport=info"}, IN_DEVICE)

    def test_what_a_network_brought_into_a_device_is_flushed_or_the_ranks_fail(self):
        self.need_ucx(RONDO)
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "sums"], IN_DEVICES,
                      [{}, {"SOFT_CUDA_FAULTS": "cuFlushGPUDirectRDMAWrites#3=999"}]).finish(60)
            self.expect(job, range(2), "system error", r"rank 1 \(host h1.*cuFlushGPUDirectRDMAWrites", {1})

    def test_slots_in_devices_are_refused_or_left_out_where_they_cannot_be(self):
        self.need_ucx(RONDO)
        cases = [({"RONDO_NETWORK": "tcp"}, "tcp copies payloads by the host"),
                 ({"RONDO_NETWORK": "tcp", "SOFT_CUDA_GPUDIRECT": "off"}, "tcp copies payloads by the host"),
                 ({"SOFT_CUDA_GPUDIRECT": "off"}, "does not support GPUDirect RDMA"),
                 ({"SOFT_CUDA_GPUDIRECT": "unordered"}, "does not order what network cards write")]
        if not takes_cuda_memory(RONDO):
            cases.append(({"SOFT_CUDA_HOST_READS": "off"}, "takes no memory of CUDA devices"))
        with net.Hosts(2) as hosts:
            for environment, text in cases:
                with self.subTest(environment=environment):
                    job = Job(hosts, [0, 1], [PROGRAM, "sums"], IN_DEVICES | environment).finish(60)
                    self.expect(job, range(2), "unsupported", rf"rank 0 \(host h0, process \d+\): .*{text}", {0})
                    job = Job(hosts, [0, 1], [PROGRAM, "sums"], WHERE_CAN_BE | environment).finish(60)
                    self.expect_slots(job, [in_host(text)] * 2)
            job = Job(hosts, [0, 1], [PROGRAM, "sums"], IN_DEVICES, ONE_CANNOT).finish(60)
            self.expect(job, range(2), "unsupported",
                        r"rank 1 \(host h1, process \d+\): .*does not support GPUDirect RDMA", {1})

    def expect_slots(self, job, where):
        """Checks that the ranks' sums are right, and that each rank reports the place of its slots."""
        self.expect(job, range(len(where)), "ok", "^kernel$")
        for output, text in zip(job.output, where):
            self.assertRegex(output, text)

    def test_auto_takes_slots_in_the_devices_of_those_ranks_that_can(self):
        self.need_ucx(RONDO)
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "sums"], WHERE_CAN_BE).finish(60)
            self.expect_slots(job, [IN_DEVICE] * 2)
            job = Job(hosts, [0, 1], [PROGRAM, "sums"], WHERE_CAN_BE, ONE_CANNOT).finish(60)
            self.expect_slots(job, [IN_DEVICE, in_host("does not support GPUDirect RDMA")])

    def test_messages(self):
        for layout in ([0, 1], [0, 1, 1, 0]):
            with self.subTest(layout=layout):
                self.expect_right(layout, ["messages"])

    def test_messages_with_slots_in_the_devices(self):
        self.need_ucx(RONDO)
        self.expect_right([0, 1, 1], ["messages"], IN_DEVICES)

    def test_messages_that_fail_are_named_on_every_rank(self):
        self.expect_failures({})

    def expect_failures(self, environment):
        circle = "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 0"
        sizes = "rank 1 receives message 1 from rank 0 as 4000 bytes .*, rank 0 sent 3996 bytes"
        with net.Hosts(2) as hosts:
            for scenario, text, layout, count in (
                    ("messages_differ", sizes, [0, 1], 2000),
                    ("messages_lost", "which received [0-9]+ of them", [0, 1, 0], 2000),
                    ("messages_cross", circle, [0, 1], 4_000_000)):
                with self.subTest(scenario=scenario):
                    job = Job(hosts, layout, [PROGRAM, scenario], environment | {"DEVICE_RANK_COUNT": str(count)})
                    job.finish(60)
                    self.expect(job, range(len(layout)), "ranks disagree", text)
            job = Job(hosts, [0, 1, 1], [PROGRAM, "blocks_differ"], environment).finish(60)
            self.expect(job, range(3), "ranks disagree", "rank 0 sends rank 1 6000 elements, rank 1 expects 6001")
            job = Job(hosts, [0, 1, 1], [PROGRAM, "messages_kill"], environment).finish(60)
            self.expect(job, [0, 2], "remote rank failed", r"rank 1 \(host h1", {1})
            job = Job(hosts, [0, 1], [PROGRAM, "last_words"], environment).finish(60)
            self.assertIn("received", job.output[0])
            self.expect(job, [0], "remote rank failed", r"rank 1 \(host h1", {1})

    def test_random_programs(self):
        self.expect_programs([0, 1, 1], {}, 20)

    def test_random_programs_by_copies(self):
        # With slots of 4 KiB most messages take many slots.
        for layout, own in (([0, 1], {}), ([0, 1, 1, 0], {"RONDO_SLOT_BYTES": "4096"})):
            with self.subTest(layout=layout):
                self.expect_programs(layout, COPY | own, 50)

    def test_sums_moves_messages_and_blocks_by_copies(self):
        for layout, own in (([0, 1], {"RONDO_CHANNELS": "2"}), ([0, 1, 1, 0], {}), ([0, 1, 1], APART)):
            for scenario in ("sums", "moves", "messages", "blocks"):
                with self.subTest(layout=layout, scenario=scenario):
                    self.expect_right(layout, [scenario], COPY | own)
        self.expect_right([0, 0, 1], ["sums", "replayed"], COPY)

    def test_every_collective_is_right_by_copies(self):
        self.expect_collectives(COPY)

    def test_copies_use_slots_in_the_devices(self):
        self.need_ucx(RONDO)
        for scenario in ("sums", "messages"):
            self.expect_right([0, 1, 1], [scenario], COPY | IN_DEVICES)

    def test_what_fails_by_copies_is_named_on_every_rank(self):
        self.expect_failures(COPY)
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "kill"], COPY).finish(60)
            self.expect(job, [0, 2], "remote rank failed", r"rank 1 \(host h1", {1})
            job = Job(hosts, [0, 1], [PROGRAM, "messages_silent"], COPY | {"DEVICE_RANK_TIMEOUT": "3000"}).finish(60)
            self.expect(job, [0], "timeout", r"rank 1 \(host h1", {1})

    def test_blocks(self):
        for layout in ([0, 1], [0, 1, 1, 0]):
            with self.subTest(layout=layout):
                self.expect_right(layout, ["blocks"])

    def test_blocks_between_ranks_that_no_schedule_joins(self):
        for environment in (UNJOINED, UNJOINED | COPY):
            with self.subTest(environment=environment):
                self.expect_right([0] * 5 + [1] * 5, ["blocks"], environment)

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
            for environment, text in (({"RONDO_PROTOCOL": "ll"}, "'ll' that was asked for is not available here"),
                                      ({"RONDO_KERNEL": "load_store"}, "ranks of one host")):
                job = Job(hosts, [0, 1], [PROGRAM, "sums"], environment).finish(60)
                self.expect(job, range(2), "unsupported", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
