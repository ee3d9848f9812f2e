# SPDX-License-Identifier: Apache-2.0
"""Tests every collective among ranks that are processes, in registered memory and through places. It checks the
results, and compares how much the kernels move with the interpreter. The driver is the one in software."""

import unittest

from region_job import DEVICES, RegionCase, moved
from sanitized import some_of

COLLECTIVES = ("reduce_scatter", "all_gather", "broadcast", "reduce")
EXCHANGES = ("all_to_all", "gather", "scatter")
COUNT = {"REGION_RANK_COUNT": "300001"}  # blocks of no multiple of 16 bytes


def in_buffers(size):
    """Returns how often a rank's device reads or writes each byte of the vector, on the average."""
    return 1 + 1 / size


def in_places(collective, size, devices):
    others = (size - 1) / size
    pushes = devices > 1  # then a rank passes its part on to each reader, otherwise once for all
    passed_on = others if pushes else 1 / size
    return {
        "reduce_scatter": 2 * others + 1 + 1 / size,  # contributes to others; reads all of its part, and writes it
        "all_gather": 2 / size + passed_on + 2 * others,  # reads its block, has it and passes it on; gathers
        # The root contributes its vector and copies it. The other ranks gather it, and the root does not.
        "broadcast": (3 * others + 2 + size * passed_on - (others if pushes else 0) + (size - 1) * 2 * others) / size,
        "reduce": 2 * others + 1 + 1 / size + 2 * others / size,
    }[collective]


class Collectives(RegionCase):
    def check_moved(self, ranks, label, expected):
        memory = self.memory_of_a_rank(ranks, label)
        self.assertTrue(0.99 * expected <= memory <= 1.02 * expected, (label, memory, expected))

    def fullest_link(self, ranks, label):
        """Returns the most that moves from one device to another, for each byte of the vector."""
        total = moved(ranks, label)
        return max(total[one][other] for one in range(DEVICES) for other in range(DEVICES) if one != other)

    def test_results_and_what_is_moved_in_buffers_and_through_places(self):
        cases = [(collective, *arrangement) for collective in COLLECTIVES
                 for arrangement in ((2, 2), (4, 4), (4, 2), (3, 1), (8, 8), (7, 5))]
        few = [(collective, 3, 1) for collective in COLLECTIVES]
        for collective, size, devices in some_of(cases, few, "collectives of processes"):
            with self.subTest(collective=collective, size=size, devices=devices):
                steps = [f"collective={collective}", "sum=before", "register", "shared", "sum=in_buffers", "capture",
                         "replay=as_graph", "deregister", "sum=after"]
                ranks = self.job(size, steps, COUNT, devices)
                buffers, places = in_buffers(size), in_places(collective, size, devices)
                for label in ("in_buffers", "as_graph"):
                    self.check_moved(ranks, label, buffers)
                for label in ("before", "after"):
                    self.check_moved(ranks, label, places)
                print(f"{collective}, {size} processes on {devices} devices: memory {buffers:.3f} in buffers, "
                      f"{places:.3f} through places; the fullest link {self.fullest_link(ranks, 'in_buffers'):.3f}, "
                      f"{self.fullest_link(ranks, 'before'):.3f}", flush=True)

    def test_blocks_are_exchanged_by_processes_with_a_device_each_or_with_several_on_one(self):
        steps = [step for exchange in EXCHANGES
                 for step in (f"collective={exchange}", f"sum={exchange}", "capture", f"replay={exchange}_replayed")]
        cases = [(2, 2), (3, 1), (5, 5), (6, 6), (8, 8), (7, 5)]
        for size, devices in some_of(cases, [(3, 1)], "exchanges of processes"):
            with self.subTest(size=size, devices=devices):
                ranks = self.job(size, steps, COUNT, devices)
                for exchange in EXCHANGES:
                    self.assertEqual(moved(ranks, exchange), moved(ranks, f"{exchange}_replayed"))

    def test_what_no_peer_touches_need_not_be_registered(self):
        for collective, register in (("reduce_scatter", "register_send"), ("all_gather", "register_recv")):
            with self.subTest(collective=collective):
                ranks = self.job(2, [f"collective={collective}", register, "shared", "sum=one"], COUNT)
                self.check_moved(ranks, "one", in_buffers(2))

    def test_blocks_through_places_move_no_more_than_by_the_interpreter(self):
        cases = [(collective, *arrangement) for collective in COLLECTIVES[:2]
                 for arrangement in ((2, 2), (4, 4), (3, 1))]
        few = [(collective, 3, 1) for collective in COLLECTIVES[:2]]
        for collective, size, devices in some_of(cases, few, "collectives by the interpreter"):
            with self.subTest(collective=collective, size=size, devices=devices):
                ranks = self.job(size, [f"collective={collective}", "sum=it"],
                                 COUNT | {"RONDO_KERNEL": "interpreter"}, devices)
                interpreted = self.memory_of_a_rank(ranks, "it")
                print(f"{collective}, {size} processes on {devices} devices, by the interpreter: {interpreted:.3f}")
                self.assertLessEqual(in_places(collective, size, devices), 1.01 * interpreted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
