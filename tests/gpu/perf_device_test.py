# SPDX-License-Identifier: Apache-2.0
"""`rondo perf --device cuda` with ranks as threads and as processes, on one device and on two, plain and as graphs.
Other tests cover the floor, another library beside it, and errors.
usage: perf_device_test.py RONDO LIBRARY"""

import csv
import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
from perf_support import COLLECTIVES, EXCHANGES, PerfCase, call  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import SANITIZED, quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

RONDO, OTHER = [os.path.abspath(path) for path in sys.argv[1:3]]
del sys.argv[1:5]
FEW_RUNS = ("-n", "2", "-w", "1", "-m", "2")


class DevicePerf(PerfCase):
    rondo = RONDO

    def perf(self, *arguments, **more):
        report, out = super().perf(*arguments, **more)
        self.assertEqual(report["device"], "cuda")
        return report, out

    def test_threads_each_collective_is_right_plain_and_as_a_graph(self):
        for collective in COLLECTIVES:
            for more in ((), ("--graph",), ("--graph", "--no-rewrite")):
                with self.subTest(collective=collective, more=more):
                    report, _ = self.perf(collective, "--ranks", 3, "--device", "cuda", "-b", 24, "-e", 117600,
                                          "-f", 70, "--root", 1, *FEW_RUNS, *more)
                    self.assertEqual((report["ranks"], report["graph"]), (3, bool(more)))
                    self.assertEqual([each["kernel"] for each in report["results"]], ["load_store"] * 3)

    def test_threads_each_collective_by_copies_is_right_as_a_graph(self):
        for collective in COLLECTIVES:
            with self.subTest(collective=collective):
                self.perf(collective, "--ranks", 3, "--device", "cuda", "-b", 8, "-e", "100K", "-f", 50, "--root", 1,
                          *FEW_RUNS, "--graph", RONDO_DEVICE_EXECUTOR="copy")

    def test_threads_each_exchange_by_either_executor_is_right_plain_and_as_a_graph(self):
        for collective in EXCHANGES:
            for executor in ("kernel", "copy"):
                for more in ((), ("--graph",)):
                    with self.subTest(collective=collective, executor=executor, more=more):
                        report, _ = self.perf(collective, "--ranks", 4, "--device", "cuda", "-b", 32, "-e", "128K",
                                              "-f", 64, "--root", 1, *FEW_RUNS, *more, RONDO_DEVICE_EXECUTOR=executor)
                        algorithm = "none" if collective in ("sendrecv", "hypercube") else "one_shot"
                        self.assertEqual({row["algorithm"] for row in report["results"]}, {algorithm})

    def test_processes_each_exchange_by_either_executor_is_right(self):
        for collective in EXCHANGES:
            for executor in ("kernel", "copy"):
                with self.subTest(collective=collective, executor=executor):
                    self.perf(collective, "--device", "cuda", "-b", 32, "-e", "128K", "-f", 4096, "--root", 1,
                              *FEW_RUNS, launcher=(RONDO, "run", "-n", 2, "--"), RONDO_DEVICE_EXECUTOR=executor)

    def test_threads_types_operations_and_protocols_are_right(self):
        for more in (("-d", "bfloat16", "-o", "avg"), ("-d", "int8", "-o", "max"), ("--protocol", "ll"),
                     ("--kernel", "load_store"), ("-d", "float16", "--kernel", "load_store", "--algorithm", "two_shot"),
                     ("--protocol", "simple", "--algorithm", "tree", "--channels", 2)):
            with self.subTest(more=more):
                self.perf("all_reduce", "--ranks", 4, "--device", "cuda:0", "-b", 30, "-e", "70K", "-f", 300, *FEW_RUNS,
                          *more)

    def test_threads_sums_of_multiplied_operands_by_either_executor_are_right_plain_and_as_a_graph(self):
        for executor in ("kernel", "copy"):
            for more in ((), ("--graph",)):
                with self.subTest(executor=executor, more=more):
                    self.perf("all_reduce", "--ranks", 3, "--device", "cuda", "-b", 30, "-e", 9000, "-f", 300,
                              "-d", "bfloat16", "-o", "mulsum", *FEW_RUNS, *more, RONDO_DEVICE_EXECUTOR=executor)

    def test_threads_with_a_device_each_are_right_by_ll(self):
        for more in (("--protocol", "ll"), ("-d", "float64", "--protocol", "ll", "--algorithm", "tree")):
            with self.subTest(more=more):
                self.perf("all_reduce", "--ranks", 4, "--device", "cuda", "-b", 30, "-e", "70K", "-f", 300, *FEW_RUNS,
                          *more, SOFT_CUDA_DEVICES="4")

    def test_streams_that_begin_together_are_right_and_none_waits_for_a_rank_that_failed(self):
        for executor in ("kernel", "copy"):
            with self.subTest(executor=executor):
                report, _ = self.perf("all_reduce", "--ranks", 3, "--device", "cuda:0", "-b", 8, "-e", "32K", "-f", 64,
                                      *FEW_RUNS, "--graph", "--together", RONDO_DEVICE_EXECUTOR=executor)
                self.assertTrue(report["together"])
                self.assertNotIn("host_us", report["results"][0]["in_place"])
        # A rank that cannot enqueue its run releases the streams of all others. So the run ends, and reports the cause.
        done, out, err = call(RONDO, "perf", "all_reduce", "-t", 3, "--device", "cuda:0", "-b", 8, "-e", 8, *FEW_RUNS,
                              "--graph", "--together", "-T", 60, SOFT_CUDA_FAULTS="cuGraphLaunch#4=2")
        self.assertEqual(done, 3, out + err)
        self.assertIn("cuGraphLaunch", err)

    def test_the_calls_of_all_ranks_in_one_graph_are_right_by_one_kernel(self):
        for more in ((), ("--together",)):
            with self.subTest(more=more):
                report, _ = self.perf("all_gather", "--ranks", 3, "--device", "cuda:0", "-b", 24, "-e", 117600,
                                      "-f", 70, *FEW_RUNS, "--graph", "--one-graph", *more,
                                      RONDO_DEVICE_LAUNCH="shared")
                self.assertTrue(report["one_graph"])
        one = ("-t", 3, "--device", "cuda:0", "-b", 8, "-e", 8, *FEW_RUNS, "--graph", "--one-graph", "-T", 60)
        done, out, err = call(RONDO, "perf", "all_reduce", *one, RONDO_DEVICE_LAUNCH="own")
        self.assertEqual(done, 2, out + err)
        self.assertIn("--one-graph wants RONDO_DEVICE_LAUNCH=shared", err)
        for ranks, devices, said in ((9, "cuda:0", "up to 8 ranks"), (2, "cuda:0,1", "share a device")):
            done, out, err = call(RONDO, "perf", "all_reduce", "-t", ranks, "--device", devices, "-b", 8, "-e", 8,
                                  "--graph", "--one-graph", RONDO_DEVICE_LAUNCH="shared", SOFT_CUDA_DEVICES="2")
            self.assertEqual(done, 2, out + err)
            self.assertIn(said, err)
        for fault in ("cuGraphLaunch#2=2", "cuStreamWaitEvent#5=2"):  # of rank 0; of a rank that joins its capture
            done, out, err = call(RONDO, "perf", "all_reduce", *one, RONDO_DEVICE_LAUNCH="shared",
                                  SOFT_CUDA_FAULTS=fault)
            self.assertEqual(done, 3, out + err)
            self.assertIn(fault.partition("#")[0], err)

    def test_what_cannot_begin_together_is_refused(self):
        for options in (("--ranks", 2), ("--graph",)):
            done, out, err = call(RONDO, "perf", "all_reduce", *options, "--device", "cuda:0", "--together", "-b", 8)
            self.assertEqual(done, 2, out + err)
            self.assertIn("--together is for graphs", err)

    def test_the_floor_is_what_must_move_over_the_bandwidth_of_copies(self):
        report, out = self.perf("all_reduce", "--ranks", 4, "--device", "cuda", "-b", "64K", "-e", "64K", *FEW_RUNS)
        (device,) = report["devices"]
        self.assertEqual((device["ordinal"], device["ranks"]), (0, [0, 1, 2, 3]))
        self.assertRegex(device["uuid"], r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")
        self.assertGreater(device["copy_GBps"], 0)
        expected_us = 2 * 4 * 65536 / device["copy_GBps"] / 1e3
        for placement in ("out_of_place", "in_place"):
            self.assertAlmostEqual(report["results"][0][placement]["floor_us"] / expected_us, 1)
            # The call is without a graph, so the report has the host's time as well.
            self.assertGreater(report["results"][0][placement]["host_us"], 0)
        self.assertIn("Copies on device cuda:0 (", out)

    def test_ranks_are_spread_over_the_devices(self):
        for option, ranks in (("cuda", [[0, 2], [1, 3]]), ("cuda:1,0", [[0, 2], [1, 3]]), ("cuda:1", [[0, 1, 2, 3]])):
            with self.subTest(option=option):
                report, _ = self.perf("all_reduce", "--ranks", 4, "--device", option, "-b", 8, "-e", "32K", "-f", 64,
                                      *FEW_RUNS, SOFT_CUDA_DEVICES="2")
                self.assertEqual([device["ranks"] for device in report["devices"]], ranks)
                self.assertEqual(report["devices"][0]["ordinal"], 0 if option == "cuda" else 1)

    def test_processes_are_right_plain_and_as_a_graph(self):
        # The copy-engine executor is chosen by default.
        for more, executor in (((), "auto"), ((), "kernel"), (("--graph",), "auto"), (("--graph",), "kernel")):
            with self.subTest(more=more, executor=executor):
                report, out = self.perf("all_reduce", "--device", "cuda", "-b", 8, "-e", "64K", "-f", 64, *FEW_RUNS,
                                        *more, launcher=(RONDO, "run", "-n", 2, "--"), RONDO_DEVICE_EXECUTOR=executor)
                self.assertEqual([device["ranks"] for device in report["devices"]], [[0, 1]])
                self.assertEqual(out.count("# Out of bounds values"), 1, "only rank 0 prints")

    def test_processes_each_collective_by_either_executor_is_right_as_a_graph(self):
        for collective, ranks in zip(COLLECTIVES, (4, 3, 2, 4, 3)):
            for executor in ("copy", "kernel"):
                with self.subTest(collective=collective, ranks=ranks, executor=executor):
                    self.perf(collective, "--device", "cuda", "-b", 8, "-e", "100K", "-f", 50, "--root", 1, *FEW_RUNS,
                              "--graph", launcher=(RONDO, "run", "-n", ranks, "--"), RONDO_DEVICE_EXECUTOR=executor)

    def test_processes_each_collective_is_right_in_what_they_register(self):
        for collective in COLLECTIVES:
            for devices in ("1", "2"):
                with self.subTest(collective=collective, devices=devices):
                    report, _ = self.perf(collective, "--device", "cuda", "--buffers", "registered", "-b", 8,
                                          "-e", "1M", "-f", 131072, *FEW_RUNS, "--graph",
                                          launcher=(RONDO, "run", "-n", 2, "--"),
                                          SOFT_CUDA_DEVICES=devices, SOFT_CUDA_MPS="on" if devices == "1" else "off")
                    self.assertEqual(report["results"][-1]["kernel"], "load_store")

    def test_processes_take_the_devices_in_turn(self):
        for executor in ("copy", "kernel"):
            for handles in ("ipc", "vmm"):
                with self.subTest(executor=executor, handles=handles):
                    report, _ = self.perf("all_gather", "--device", "cuda", "-b", 64, "-e", "4K", "-f", 64, *FEW_RUNS,
                                          launcher=(RONDO, "run", "-n", 3, "--"), SOFT_CUDA_DEVICES="2",
                                          RONDO_DEVICE_EXECUTOR=executor, RONDO_DEVICE_HANDLES=handles)
                    self.assertEqual([device["ranks"] for device in report["devices"]], [[0, 2], [1]])

    def test_a_budget_limits_the_blocks_and_lets_ranks_fit(self):
        for channels, budget, expected in ((4, 2, 2), (1, 4, 1), (0, 1, 1)):
            report, _ = self.perf("all_reduce", "--ranks", 2, "--device", "cuda", "-b", "1M", "-e", "1M", *FEW_RUNS,
                                  "--channels", channels, "--max-ctas", budget)
            self.assertEqual(report["results"][0]["channels"], expected)
        self.refuse(3, "8 blocks", "4 that can be resident", "RONDO_MAX_CTAS", SOFT_CUDA_RESIDENT_BLOCKS="4",
                    RONDO_CHANNELS="4")
        self.refuse(3, "2 blocks", "1 that can be resident", SOFT_CUDA_RESIDENT_BLOCKS="1")
        self.perf("all_reduce", "--ranks", 2, "--device", "cuda", "-b", "64K", "-e", "64K", *FEW_RUNS,
                  SOFT_CUDA_RESIDENT_BLOCKS="4")

    def test_fewer_hardware_queues_than_ranks_are_warned_of(self):
        # The application's streams need hardware queues, too, so from 2 ranks on, less than 32 is too few. One
        # kernel for all ranks needs one queue. If each rank captures its calls, its graph has its own kernel.
        for ranks, launch, queues, options, warned in (
                (2, "own", 2, (), 1), (2, "own", 31, (), 1), (2, "own", 32, (), 0), (1, "own", 2, (), 0),
                (2, "shared", 2, (), 0), (2, "shared", 2, ("--graph",), 1), (2, "shared", 32, ("--graph",), 0),
                (2, "shared", 2, ("--graph", "--one-graph"), 0)):
            with self.subTest(ranks=ranks, launch=launch, queues=queues, options=options):
                done, out, err = call(RONDO, "perf", "all_reduce", "-t", ranks, "--device", "cuda", "-b", 8, "-e", 8,
                                      *FEW_RUNS, *options, CUDA_DEVICE_MAX_CONNECTIONS=str(queues),
                                      RONDO_DEVICE_LAUNCH=launch)
                self.assertEqual(done, 0, out + err)
                self.assertEqual(err.count("hardware queues"), warned, err)
                self.assertEqual(err.count("captured calls"), warned if options else 0, err)

    def against(self, *options, status=0, ranks=2, sizes=("-b", 64, "-e", "4K", "-f", 64), **environment):
        path = self.folder / "against.json"
        done, out, err = call(RONDO, "perf", "all_reduce", "--ranks", ranks, "--device", "cuda", "--against", OTHER,
                              *sizes, *FEW_RUNS, "--json", path, *options,
                              SOFT_CUDA_DEVICES="2", **environment)
        self.assertEqual(done, status, out + err)
        self.assertNotIn("destroyed while there is a graph", out + err)
        return out + err, json.loads(path.read_text(encoding="utf-8")) if status < 2 else None

    def test_another_library_is_timed_and_verified_beside_rondo(self):
        for options in ((), ("--graph",), ("-d", "bfloat16", "-o", "max"), ("-d", "int64", "-o", "min")):
            with self.subTest(options=options):
                out, report = self.against(*options)
                self.assertEqual(report["against"], {"library": OTHER, "version": "2.21.5"})
                self.assertEqual(out.count(" against "), 2)
                self.assertIn("# Of the other library : 0\n", out)
                for row in report["results"]:
                    for placement in ("out_of_place", "in_place"):
                        self.assertEqual(row["against"][placement]["wrong"], 0)
                        self.assertGreater(row["against"][placement]["time_us"]["min"], 0)

    def test_another_library_that_takes_two_ranks_on_a_device_is_timed_with_them(self):
        for options in ((), ("--graph",)):
            with self.subTest(options=options):
                out, report = self.against(*options, ranks=4, NCCL_MULTI_RANK_GPU_ENABLE="1")
                self.assertIn("# Of the other library : 0\n", out)
                self.assertEqual(report["results"][0]["against"]["in_place"]["wrong"], 0)

    def test_another_library_is_timed_among_processes(self):
        done, out, err = call(RONDO, "run", "-n", 2, "--", RONDO, "perf", "all_gather", "--device", "cuda", "--against",
                              OTHER, "-b", 64, "-e", 64, *FEW_RUNS, SOFT_CUDA_DEVICES="2")
        self.assertEqual(done, 0, out + err)
        self.assertIn("# Of the other library : 0\n", out)

    def test_what_goes_wrong_in_another_library_is_told(self):
        out, report = self.against(status=1, FAKE_NCCL="wrong")
        self.assertGreater(report["results"][0]["against"]["out_of_place"]["wrong"], 0)
        self.assertEqual(report["results"][0]["out_of_place"]["wrong"], 0)
        self.assertIn("internal error (3)", self.against(status=3, FAKE_NCCL="fails")[0])
        hangs = ("-T", 20 if SANITIZED else 6)
        for options in ((), ("--graph",)):
            self.assertIn("in time", self.against(*hangs, *options, status=3, FAKE_NCCL="hangs")[0])
        self.assertIn("same one", self.against(status=2, ranks=3)[0])
        self.assertIn("takes 2 ranks on a device",
                      self.against(status=2, ranks=5, NCCL_MULTI_RANK_GPU_ENABLE="1")[0])
        self.refuse(2, "--device cuda", options=("--against", OTHER))
        self.refuse(2, "libno_such.so", options=("--device", "cuda", "--against", "libno_such.so"))
        self.refuse(2, "lacks nccl", options=("--device", "cuda", "--against", os.environ["RONDO_CUDA_LIBRARY"]))

    def test_vectors_of_several_chunks_are_right_and_each_of_their_elements_is_looked_at(self):
        size = 3_500_001  # larger than the chunks of 1 MiB by which inputs and results are copied
        for collective, *more in (("all_reduce", "-d", "int8"), ("all_gather", "-d", "float16"),
                                  ("reduce_scatter", "-d", "float64")):
            with self.subTest(collective=collective):
                self.perf(collective, "--ranks", 2, "--device", "cuda:0", "-b", size, "-e", size, *FEW_RUNS, *more,
                          RONDO_DEVICE_EXECUTOR="copy")
        _, report = self.against(status=1, sizes=("-b", size, "-e", size), FAKE_NCCL="wrong")  # it moves nothing
        for row in report["results"]:
            self.assertEqual(row["against"]["out_of_place"]["wrong"], 2 * row["count"])

    def test_csv_and_picture_are_written(self):
        table, picture = self.folder / "t.csv", self.folder / "p.svg"
        self.perf("all_reduce", "-t", 2, "--device", "cuda", "-b", 8, "-e", 512, "-f", 64, *FEW_RUNS, "--csv", table,
                  "--plot", picture)
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["device"] for row in rows}, {"cuda"})
        for column in ("in_place_floor_us", "out_of_place_host_us"):
            self.assertTrue(all(float(row[column]) > 0 for row in rows), column)
        self.assertTrue(picture.stat().st_size > 0)

    def refuse(self, status, *words, options=("--device", "cuda"), most=64, **environment):
        done, out, err = call(RONDO, "perf", "all_reduce", "--ranks", 2, *options, "-b", 8, "-e", most, "-T", 60,
                              **environment)
        self.assertEqual(done, status, out + err)
        for word in words:
            self.assertIn(word, err)

    def test_where_there_is_no_driver_or_device_it_says_so(self):
        self.refuse(2, "libno_such.so", "RONDO_CUDA_LIBRARY", RONDO_CUDA_LIBRARY="libno_such.so")
        self.refuse(2, "--device cuda", SOFT_CUDA_DEVICES="0")
        self.refuse(2, "sees 1 CUDA devices", options=("--device", "cuda:1"))
        self.refuse(2, "cuda:ORDINAL", options=("--device", "cuda:x"))
        self.refuse(2, "--device cuda", options=("--graph",))
        self.refuse(2, "--buffers alloc", options=("--device", "cuda", "--buffers", "alloc"))

    def test_memory_that_does_not_suffice_is_told_with_what_to_do(self):
        self.refuse(2, "lower --maxbytes", most="200M", SOFT_CUDA_MEMORY="300000000")

    def test_an_error_of_the_driver_ends_all_ranks(self):
        for fault in ("cuMemcpyHtoDAsync#40", "cuGraphLaunch#2", "cuEventRecord#9", "cuStreamEndCapture#1"):
            with self.subTest(fault=fault):
                self.refuse(3, "CUDA_ERROR", options=("--device", "cuda", "--graph"), SOFT_CUDA_FAULTS=fault + "=999")


if __name__ == "__main__":
    unittest.main(verbosity=2)
