# SPDX-License-Identifier: Apache-2.0
"""Tests what `rondo info` prints about CUDA with a driver, without a driver, and without kernels. usage:
info_device_test.py RONDO"""

import json
import os
import subprocess
import sys
import unittest

RONDO = os.path.abspath(sys.argv.pop(1))


def info(*options, **variables):
    done = subprocess.run([RONDO, "info", *options], env=os.environ | variables, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cuda(*options, **variables):
    return json.loads(info("--json", *options, **variables))["cuda"]


class InfoDevice(unittest.TestCase):
    def test_devices_and_kernels_are_told_alike_in_text_and_json(self):
        told, text = cuda(SOFT_CUDA_DEVICES="2"), info(SOFT_CUDA_DEVICES="2")
        self.assertIsNone(told["error"])
        self.assertEqual([device["ordinal"] for device in told["devices"]], [0, 1])
        self.assertIn(f"CUDA {told['driver']}\n", text)
        for device in told["devices"]:
            self.assertRegex(device["uuid"], r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")
            self.assertRegex(device["compute_capability"], r"^\d+\.\d$")
            self.assertGreater(device["multiprocessors"], 0)
            for word in (device["name"], device["uuid"], device["pci_bus_id"], device["compute_capability"]):
                self.assertIn(word, text)
            kernels = {kernel["name"]: kernel for kernel in device["kernels"]}
            for name in ("rondo_run_simple_copy", "rondo_run_ll_float32", "rondo_run_simple_bfloat16",
                         "rondo_run_ll_int8", "rondo_run_load_store_float16_sum", "rondo_run_joint_float32",
                         "rondo_run_one_shot_float16", "rondo_reduce_float64"):
                self.assertGreater(kernels[name]["registers"], 0)
                self.assertEqual(kernels[name]["local_bytes"], 0)
                self.assertGreaterEqual(kernels[name]["block_threads_max"], 512)
        self.assertIn("rondo_run_simple_copy", text)

    def test_whether_networks_may_have_slots_in_a_device(self):
        for kind, flushed in (("ordered", False), ("flush", True)):
            (device,) = cuda(SOFT_CUDA_GPUDIRECT=kind, SOFT_CUDA_DMABUF="on")["devices"]
            self.assertEqual(device["gpu_direct"],
                             {"available": True, "why_not": None, "flushed_by_host": flushed, "dmabuf": True})
            self.assertEqual("which the host flushes" in info(SOFT_CUDA_GPUDIRECT=kind), flushed)
        for kind, why in (("off", "does not support GPUDirect RDMA"), ("unordered", "does not order")):
            (device,) = cuda(SOFT_CUDA_GPUDIRECT=kind)["devices"]
            self.assertFalse(device["gpu_direct"]["available"])
            self.assertIn(why, device["gpu_direct"]["why_not"])
            self.assertIn(why, info(SOFT_CUDA_GPUDIRECT=kind))

    def test_which_devices_reach_each_other(self):
        machine = {"SOFT_CUDA_DEVICES": "3", "SOFT_CUDA_PEERS": "0-1"}
        for nvlink, words in (("on", "with atomics"), ("off", "without atomics")):
            first, _, last = cuda(SOFT_CUDA_NVLINK=nvlink, **machine)["devices"]
            self.assertEqual(first["peers"], [{"ordinal": 1, "access": True, "atomics": nvlink == "on"},
                                              {"ordinal": 2, "access": False, "atomics": False}])
            self.assertEqual([peer["access"] for peer in last["peers"]], [False, False])
            text = info(SOFT_CUDA_NVLINK=nvlink, **machine)
            self.assertIn(f"reaches the memory of 1, {words}", text)
            self.assertIn("does not reach the memory of 0, 1: data to and from them goes through host memory", text)
        self.assertNotIn("reach", info(SOFT_CUDA_DEVICES="1"))

    def test_the_image_is_that_of_the_build(self):
        image = cuda()["image"]
        self.assertEqual(image["bytes"] > 0, bool(image["architectures"]))
        self.assertIn(f"{image['bytes']} bytes, for" if image["bytes"] else "none in this build", info())

    def test_the_budget_says_how_many_ranks_fit(self):
        for variables, per_rank, ranks in (({}, 4, 64), ({"RONDO_MAX_CTAS": "2"}, 2, 64),
                                           ({"RONDO_CHANNELS": "8"}, 8, 8),
                                           ({"RONDO_CHANNELS": "8", "RONDO_MAX_CTAS": "1"}, 1, 64)):
            (device,) = cuda(SOFT_CUDA_RESIDENT_BLOCKS="64", **variables)["devices"]
            budget = device["budget"]
            self.assertEqual((budget["blocks"], budget["blocks_per_rank"], budget["ranks"]), (64, per_rank, ranks))
            self.assertEqual(budget["slot_memory_bytes"], 64 << 20)
        self.assertIn("64 blocks of 256 threads", info(SOFT_CUDA_RESIDENT_BLOCKS="64"))
        self.assertLessEqual(cuda()["devices"][0]["budget"]["block_shared_bytes"], 48 << 10)

    def test_the_memory_of_a_rank_is_shown_by_kind_before_it_is_allocated(self):
        mib = 1 << 20
        for ranks, most in ((2, 6), (8, 16)):
            (device,) = cuda("--ranks", str(ranks), SOFT_CUDA_RESIDENT_BLOCKS="264",
                             SOFT_CUDA_BLOCKS_PER_MULTIPROCESSOR="2")["devices"]
            for where in ("one_device", "several_devices"):
                memory = device["memory"][where]
                self.assertLessEqual(memory["all"], most * mib)
                self.assertLessEqual(sum(size for kind, size in memory.items() if kind != "all"), memory["all"])
        self.assertRegex(info("--ranks", "2"), r"for 2 ranks here, each takes 4\.\d+ MiB of its memory by kernels: "
                                             r"connections 2\.\d+ MiB")

    def test_where_there_is_no_driver_it_says_why(self):
        told = cuda(RONDO_CUDA_LIBRARY="libno_such.so")
        self.assertEqual((told["driver"], told["devices"]), (None, []))
        self.assertIn("libno_such.so", told["error"])
        self.assertIn("driver                    none\n", info(RONDO_CUDA_LIBRARY="libno_such.so"))
        self.assertIn("no device", cuda(SOFT_CUDA_DEVICES="0")["error"])

    def test_a_device_without_kernels_says_why(self):
        (device,) = cuda(SOFT_CUDA_KERNELS="")["devices"]
        self.assertIn("CUDA_ERROR", device["error"])
        self.assertNotIn("kernels", device)
        self.assertIn("CUDA_ERROR", info(SOFT_CUDA_KERNELS=""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
