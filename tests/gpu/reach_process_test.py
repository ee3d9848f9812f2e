# SPDX-License-Identifier: Apache-2.0
"""Tests processes on devices that cannot access each other's memory, and processes that see only some devices. It
runs every collective, and checks the plan and where the data goes. The driver and NVML are those in software."""

import tempfile
import unittest

from region_job import DEVICES, RegionCase, moved

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "gather", "scatter")
STEPS = [step for collective in COLLECTIVES
         for step in (f"collective={collective}", f"sum={collective}")]
LABELS = [step[4:] for step in STEPS if step.startswith("sum=")]
PARTLY = "0-1 2-3"
SOME_OF_EIGHT = "0-1 1-2 4-5 4-6 5-6"
COUNT = {"REGION_RANK_COUNT": "40001", "RONDO_LOG": "info"}
TOLD = "goes through host memory"


def only_itself(size):
    """Returns environments by rank, in each of which a process sees only the device of its rank."""
    return {rank: {"SOFT_CUDA_VISIBLE": str(rank)} for rank in range(size)}


class ReachCase(RegionCase):
    def check_links(self, ranks, connected, labels=LABELS):
        """Checks that kernels have moved data from one device to another exactly where `connected` has the pair."""
        for label in labels:
            total = moved(ranks, label)
            for one in range(min(len(ranks), DEVICES)):
                for other in range(one + 1, min(len(ranks), DEVICES)):
                    if not connected(one, other):
                        self.assertEqual((total[one][other], total[other][one]), (0, 0), label)
        total = moved(ranks, "all_reduce")
        self.assertEqual([(one, other) for one in range(DEVICES) for other in range(one + 1, DEVICES)
                          if total[one][other] + total[other][one] > 0],
                         [(one, other) for one in range(DEVICES) for other in range(one + 1, DEVICES)
                          if max(one, other) < len(ranks) and connected(one, other)])

    def check_plan(self, ranks, kernel):
        for rank in ranks.values():
            self.assertIn(f" {kernel}\n", rank.output)

    def hidden(self, size, steps, environment=None):
        return self.job(size, steps, COUNT | {"SOFT_NVML_DEVICES": str(size), "SOFT_CUDA_DEVICES": str(size),
                                              "REGION_RANK_DEVICES": "1"} | (environment or {}),
                        own_environment=only_itself(size))


class Reach(ReachCase):
    def test_every_collective_where_no_device_reaches_another(self):
        for size, environment in ((2, {"RONDO_DEVICE_HANDLES": "ipc"}), (4, {}), (4, {"RONDO_PROTOCOL": "ll"}),
                                  (3, {"RONDO_DEVICE_EXECUTOR": "copy"})):
            with self.subTest(size=size, environment=environment):
                ranks = self.job(size, ["plan", *STEPS], COUNT | {"SOFT_CUDA_PEERS": "off"} | environment)
                self.check_plan(ranks, "interpreter")
                self.check_links(ranks, lambda one, other: False)
                self.assertIn("the devices of ranks 0 and 1 do not reach each other's memory", ranks[0].output)
                self.assertEqual([TOLD in rank.output for rank in ranks.values()], [True] + [False] * (size - 1))

    def test_eight_processes_sum_in_the_order_of_ranks(self):
        ranks = self.job(8, ["plan", "sum=all_reduce"],
                         COUNT | {"SOFT_CUDA_PEERS": "off", "RONDO_ALGORITHM": "two_shot"})
        self.check_plan(ranks, "interpreter")
        self.check_links(ranks, lambda one, other: False, ["all_reduce"])

    def test_every_collective_where_devices_reach_some_others(self):
        for environment in ({}, {"RONDO_DEVICE_HANDLES": "ipc"}, {"RONDO_DEVICE_EXECUTOR": "copy"}):
            with self.subTest(environment=environment):
                ranks = self.job(4, ["plan", *STEPS], COUNT | {"SOFT_CUDA_PEERS": PARTLY} | environment)
                self.check_plan(ranks, "interpreter")
                if "RONDO_DEVICE_EXECUTOR" not in environment:  # copies between devices are not counted
                    self.check_links(ranks, lambda one, other: (one, other) in ((0, 1), (2, 3)))
                self.assertIn("of 3 more pairs", ranks[0].output)

    def test_threads_of_several_processes(self):
        for peers in ("off", PARTLY):
            with self.subTest(peers=peers), tempfile.TemporaryDirectory() as folder:
                ranks = self.job(2, ["plan", *STEPS], COUNT | {"SOFT_CUDA_PEERS": peers, "REGION_RANK_THREADS": "2",
                                                               "REGION_RANK_ID": f"{folder}/id"}, 4)
                self.check_plan(ranks, "interpreter")

    def test_a_graph_is_replayed(self):
        for executor in ("kernel", "copy"):
            self.job(2, ["capture", "replay=first", "sum=between", "replay=last"],
                     COUNT | {"SOFT_CUDA_PEERS": "off", "RONDO_DEVICE_EXECUTOR": executor})

    def test_load_store_is_refused_where_it_is_asked_for(self):
        ranks = self.job(4, ["plan"], {"SOFT_CUDA_PEERS": PARTLY, "RONDO_KERNEL": "load_store"}, ok=False)
        for rank in ranks.values():
            self.assertEqual(rank.last().status, "unsupported", rank.output)
            self.assertIn("those of ranks 0 and 2 do not", rank.last().message)

    def test_processes_that_see_their_own_device_alone_have_the_plan_of_those_that_see_all(self):
        for size in (2, 4):
            with self.subTest(size=size):
                ranks = self.hidden(size, ["register", "shared", "sum=shared", "plan", *STEPS])
                self.check_plan(ranks, "load_store")
                self.check_shared(ranks, "shared")
                self.check_links(ranks, lambda one, other: True)

    def test_hidden_devices_without_atomics_or_peer_access(self):
        ranks = self.hidden(2, ["plan", *STEPS], {"SOFT_CUDA_NVLINK": "off"})
        self.check_plan(ranks, "interpreter")
        self.check_links(ranks, lambda one, other: True)
        ranks = self.hidden(4, ["plan", *STEPS], {"SOFT_CUDA_PEERS": PARTLY})
        self.check_plan(ranks, "interpreter")
        self.check_links(ranks, lambda one, other: (one, other) in ((0, 1), (2, 3)))

    def test_where_nobody_knows_about_hidden_devices_data_goes_through_the_host_and_a_warning_says_why(self):
        ranks = self.hidden(2, ["plan", *STEPS],
                            {"SOFT_NVML_FAULTS": "nvmlDeviceGetP2PStatus=3", "RONDO_LOG": "warning"})
        self.check_plan(ranks, "interpreter")
        self.check_links(ranks, lambda one, other: False)
        for rank in ranks.values():
            self.assertIn("CUDA_VISIBLE_DEVICES", rank.output)
        # If one rank sees both devices, both ranks know whether the devices reach each other.
        ranks = self.job(2, ["plan", *STEPS], COUNT, own_environment={
            1: {"SOFT_CUDA_VISIBLE": "1,0", "REGION_RANK_DEVICES": "1"}, 0: {"SOFT_CUDA_VISIBLE": "0"}})
        self.check_plan(ranks, "load_store")


class FiveToEightDevices(ReachCase):
    def test_where_no_device_reaches_another(self):
        for size in (5, 6, 7, 8):
            with self.subTest(size=size):
                ranks = self.job(size, ["plan", *STEPS], COUNT | {"SOFT_CUDA_PEERS": "off"})
                self.check_plan(ranks, "interpreter")
                self.check_links(ranks, lambda one, other: False)

    def test_where_devices_reach_some_others(self):
        connected = [tuple(map(int, pair.split("-"))) for pair in SOME_OF_EIGHT.split()]
        for size in (5, 6, 7, 8):
            with self.subTest(size=size):
                ranks = self.job(size, ["plan", *STEPS], COUNT | {"SOFT_CUDA_PEERS": SOME_OF_EIGHT})
                self.check_plan(ranks, "interpreter")
                self.check_links(ranks, lambda one, other: (one, other) in connected)

    def test_where_processes_share_such_devices(self):
        for peers in ("on", "off", SOME_OF_EIGHT):
            with self.subTest(peers=peers):
                self.job(8, STEPS, COUNT | {"SOFT_CUDA_PEERS": peers}, 5)

    def test_where_each_process_sees_its_own_device_alone(self):
        for size in (5, 6, 7, 8):
            with self.subTest(size=size):
                ranks = self.hidden(size, ["register", "shared", "sum=shared", "plan", *STEPS])
                self.check_plan(ranks, "load_store")
                self.check_shared(ranks, "shared")
                self.check_links(ranks, lambda one, other: True)
        ranks = self.hidden(8, ["plan", *STEPS], {"SOFT_CUDA_PEERS": SOME_OF_EIGHT})
        self.check_plan(ranks, "interpreter")


if __name__ == "__main__":
    unittest.main(verbosity=2)
