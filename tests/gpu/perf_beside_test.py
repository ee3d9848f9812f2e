# SPDX-License-Identifier: Apache-2.0
"""`rondo perf --beside-product` with a library that makes real products in the order of its stream. Processes that
share a device hand it over.   usage: perf_beside_test.py RONDO LIBRARY"""

import os
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "proc"), str(Path(__file__).resolve().parents[1])]
from perf_support import PerfCase, call  # noqa: E402
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

RONDO, LIBRARY = [os.path.abspath(path) for path in sys.argv[1:3]]
del sys.argv[1:3]
SIZE = 48
BESIDE = ("--device", "cuda", "--beside-product", SIZE, "--product-library", LIBRARY)
FEW_RUNS = ("-n", "2", "-w", "1", "-m", "2")
PLACEMENTS = ("out_of_place", "in_place")


class BesideProduct(PerfCase):
    rondo = RONDO

    def beside(self, collective, *arguments, **more):
        report, out = self.perf(collective, *BESIDE, *FEW_RUNS, *arguments, **more)
        self.assertEqual(report["product"], {"library": LIBRARY, "version": "13.0.2", "size": SIZE, "wrong": 0})
        self.assertIn("# Of the products      : 0\n", out)
        for row in report["results"]:
            for placement in PLACEMENTS:
                self.check_times(row[placement]["beside"])
        self.assertEqual(out.count("# beside, "), 2 * len(report["results"]))
        return report

    def check_times(self, beside):
        for what in ("call", "product"):
            times = beside[f"{what}_us"]
            for each in times.values():
                self.assertTrue(0 < each["min"] <= each["median"] <= each["max"], beside)
            self.assertAlmostEqual(beside["slowdown"][what],
                                   times["beside"]["median"] / times["alone"]["median"] - 1, places=6)
            self.assertTrue(0 <= beside["covered"][what] <= 1, beside)

    def test_threads_are_told_both_slow_downs_for_each_executor_plain_and_as_a_graph(self):
        for executor in ("kernel", "copy"):
            for more in ((), ("--graph",)):
                with self.subTest(executor=executor, more=more):
                    self.beside("all_gather", "--ranks", 3, "-b", "1K", "-e", "64K", "-f", 64, *more,
                                RONDO_DEVICE_EXECUTOR=executor)

    def test_a_budget_of_blocks_beside_a_product(self):
        for blocks in (1, 2):
            report = self.beside("all_reduce", "--ranks", 2, "-b", "64K", "-e", "64K", "--channels", 2,
                                 RONDO_MAX_CTAS=str(blocks), RONDO_DEVICE_EXECUTOR="kernel")
            self.assertEqual(report["results"][0]["channels"], blocks)

    def test_each_device_has_a_product(self):
        self.beside("all_reduce", "--ranks", 3, "-b", "4K", "-e", "4K", SOFT_CUDA_DEVICES="2")

    def test_processes_on_a_device_have_one_product_together(self):
        self.beside("all_gather", "-b", "4K", "-e", "4K", launcher=(RONDO, "run", "-n", 2, "--"))

    def refuse(self, status, *words, library=LIBRARY, **environment):
        done, out, err = call(RONDO, "perf", "all_reduce", "--ranks", 2, "--device", "cuda", "--beside-product", SIZE,
                              "--product-library", library, "-b", 64, "-e", 64, "-T", 60, *FEW_RUNS, **environment)
        self.assertEqual(done, status, out + err)
        for word in words:
            self.assertIn(word, out + err)

    def test_what_goes_wrong_in_the_library_is_told(self):
        self.refuse(1, "# Of the products      : 256\n", FAKE_CUBLAS="wrong")
        self.refuse(3, LIBRARY, "cublasGemmEx", "CUBLAS_STATUS_EXECUTION_FAILED (13)", FAKE_CUBLAS="fails")
        self.refuse(3, "CUBLAS_STATUS_EXECUTION_FAILED (13)", FAKE_CUBLAS="once")

    def test_a_library_that_cannot_be_used_is_told(self):
        self.refuse(2, "needs cuBLAS", "libno_such.so", "--product-library", library="libno_such.so")
        self.refuse(2, "lacks cublasCreate_v2", library=os.environ["RONDO_CUDA_LIBRARY"])


class Turns(PerfCase):
    rondo = RONDO

    def hand_over_us(self, *arguments, ranks=2, **environment):
        report, out = self.perf("all_reduce", "--device", "cuda", "-b", "64K", "-e", "64K", "-n", 1, "-w", 1, "-m", 1,
                                *arguments, launcher=(RONDO, "run", "-n", ranks, "--"), **environment)
        device = report["devices"][0]
        if "hand_over_us" in device:
            self.assertIn("# Processes hand device cuda:0 (", out)
            self.assertGreater(report["results"][0]["hand_overs"], 0)
        return device.get("hand_over_us")

    def test_processes_that_share_a_device_hand_it_over(self):
        for ranks in (2, 3):
            self.assertGreater(self.hand_over_us(ranks=ranks), 0)

    def test_a_device_that_is_late_to_begin_hands_over_late(self):
        # Each entry of a stream begins up to 2 ms late, and the next process waits for two entries.
        self.assertGreater(self.hand_over_us(SOFT_CUDA_FAULTS="seed=5;delay=1:2000"), 500)

    def test_where_each_process_has_a_device_nothing_is_handed_over(self):
        self.assertIsNone(self.hand_over_us(SOFT_CUDA_DEVICES="2"))

    def test_threads_have_a_device_for_themselves(self):
        report, out = self.perf("all_reduce", "--ranks", 2, "--device", "cuda", "-b", 64, "-e", 64, *FEW_RUNS)
        self.assertNotIn("hand_over_us", report["devices"][0])
        self.assertNotIn("hand_overs", report["results"][0])
        self.assertNotIn("# Processes hand", out)

    def test_an_error_of_the_driver_ends_the_relay(self):
        for fault in ("cuMemsetD32Async#70=999", "cuMemHostRegister#1=999"):
            with self.subTest(fault=fault):
                done, out, err = call(RONDO, "run", "-n", 2, "--", RONDO, "perf", "all_reduce", "--device", "cuda",
                                      "-b", 64, "-e", 64, *FEW_RUNS, RONDO_DEVICE_EXECUTOR="kernel",
                                      SOFT_CUDA_FAULTS=fault)
                self.assertNotEqual(done, 0, out + err)
                self.assertIn("CUDA_ERROR", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
