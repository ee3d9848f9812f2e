# SPDX-License-Identifier: Apache-2.0
"""`rondo tune --device` measures, and writes a table. Ranks on devices follow such a table, by where their buffers are.
usage: tune_device_test.py RONDO"""

import json
import os
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "proc"), str(Path(__file__).resolve().parents[1])]
from perf_support import PerfCase, call  # noqa: E402
from sanitized import SANITIZED, quarter_of_cases, some_of  # noqa: E402

load_tests = quarter_of_cases

RONDO = os.path.abspath(sys.argv.pop(1))
LIMIT_SECONDS = 500 * (4 if SANITIZED else 1)  # less than the 600 that Meson allows
# Other tests run at the same time, and would disturb all runs of some kernels.
QUICK = ("--quick", "--rounds", 1, "--ranks", 2, "--keep-disturbed")
FEW_RUNS = ("-n", "2", "-w", "1", "-m", "2", "-b", 4096, "-e", 4096)


def row(buffers, algorithm, kernel="interpreter", channels=1):
    return {"collective": "all_reduce", "ranks": 2, "oversubscribed": False, "bytes_max": "any", "algorithm": algorithm,
            "protocol": "simple" if kernel == "interpreter" else "auto", "channels": channels, "chunk_bytes": 1024,
            "kernel": kernel, "buffers": buffers}


class TuneDevice(PerfCase):
    rondo = RONDO

    def used(self, rows, *words, executor="auto", devices=1):
        table = self.folder / "table.json"
        table.write_text(json.dumps({"format": "rondo tuning table", "version": 1, "rows": rows}), encoding="ascii")
        ranks = ("--ranks", 2) if "--ranks" in words else ()
        result = self.folder / "used.json"
        command = [RONDO, "perf", "all_reduce", "--device", "cuda", *FEW_RUNS, *ranks, "--json", result]
        if not ranks:
            command = [RONDO, "run", "-n", 2, *command]
        status, out, err = call(*command, RONDO_TUNING_FILE=str(table), RONDO_DEVICE_EXECUTOR=executor,
                                SOFT_CUDA_DEVICES=str(devices))
        self.assertEqual(status, 0, out + err)
        found = json.loads(result.read_text(encoding="utf-8"))["results"][0]
        return found["algorithm"], found["kernel"], found["channels"], found["chunk_bytes"]

    def test_a_table_counts_where_the_buffers_are(self):
        rows = [row("host", "two_shot"), row("device", "tree"), row("shared_device", "ring")]
        # Copies use their own chunk size, but the row's number of channels.
        self.assertEqual(self.used(rows), ("tree", "interpreter", 1, 1024))
        self.assertEqual(self.used(rows, "--ranks")[:2], ("ring", "interpreter"))
        # A row for hosts does not apply to devices.
        self.assertEqual(self.used(rows[:1], "--ranks")[1], "load_store")
        # Processes use the kernels of load_store if a row requests them.
        self.assertEqual(self.used([row("device", "one_shot", "load_store", 2)], executor="kernel")[:3],
                         ("one_shot", "load_store", 2))
        # On devices that reach each other, processes use load_store without a row, and rows for threads do not apply.
        self.assertEqual(self.used([row("peer_devices", "ring")], devices=2)[1], "load_store")
        self.assertEqual(self.used([row("device", "tree"), row("peer_devices", "ring")], devices=2)[:2],
                         ("tree", "interpreter"))
        self.assertEqual(self.used([row("shared_device", "two_shot", "load_store", 3)], "--ranks")[:3],
                         ("two_shot", "load_store", 3))

    def test_it_measures_processes_and_threads_and_its_table_is_followed(self):
        table = self.folder / "devices.json"
        status, out, err = call(RONDO, "tune", "--device", "cuda:0", *QUICK, "--sizes", "64-4K/64", "-o", table,
                                seconds=LIMIT_SECONDS)
        self.assertEqual(status, 0, out + err)
        # Processes that share a device use copies, which have neither ll nor load_store. Threads leave out nothing.
        processes, threads = err.split("as threads")
        self.assertRegex(processes, "left out: ring/ll 16K: rondo perf ended with status 2: .*'ll' that was asked for")
        self.assertNotIn("left out", threads)
        self.assertIn("all_reduce, 2 ranks as processes, on devices", out)
        self.assertIn("all_reduce, 2 ranks as threads of a process, on one device", out)
        written = json.loads(table.read_text(encoding="utf-8"))
        self.assertEqual([each["buffers"] for each in written["measurements"]], ["device", "shared_device"])
        for measured in written["measurements"]:
            self.assertEqual({each["bytes"] for each in measured["series"]}, {64, 4096})
            kernels = {each["kernel"] for each in measured["series"]}
            self.assertEqual(kernels, {"interpreter", "load_store"} if measured["buffers"] == "shared_device" else
                             {"interpreter"})
        for place, words in (("device", ()), ("shared_device", ("--ranks",))):
            rows = [each for each in written["rows"] if each["buffers"] == place]
            chosen = next(each for each in rows if each["bytes_max"] == "any" or each["bytes_max"] >= 4096)
            self.assertEqual(self.used(written["rows"], *words),
                             tuple(chosen[key] for key in ("algorithm", "kernel", "channels", "chunk_bytes")))

    def test_the_other_collectives_of_threads_have_load_store_too(self):
        for collective in some_of(["all_gather", "broadcast"], ["broadcast"], "collectives"):
            table = self.folder / f"{collective}.json"
            status, out, err = call(RONDO, "tune", "--device", "cuda:0", *QUICK, "--collectives", collective, "--sizes",
                                    "16K", "-o", table, seconds=LIMIT_SECONDS)
            self.assertEqual(status, 0, out + err)
            threads = json.loads(table.read_text(encoding="utf-8"))["measurements"][1]
            self.assertEqual(threads["buffers"], "shared_device")
            # Without a row, the library chooses another kernel for this size.
            self.assertIn("load_store", {each["kernel"] for each in threads["series"]})

    def test_threads_share_buffers_on_one_device_and_on_those_that_reach_each_other_where_settings_let_them(self):
        # The devices do not depend on the collective, and a broadcast has half as many candidates as a sum.
        words = ("--device", "cuda", *QUICK, "--sizes", "4K", "--collectives", "broadcast")
        table = self.folder / "two.json"
        status, out, err = call(RONDO, "tune", *words, "-o", table, seconds=LIMIT_SECONDS, SOFT_CUDA_DEVICES="2")
        self.assertEqual(status, 0, out + err)
        measured = json.loads(table.read_text(encoding="utf-8"))["measurements"]
        self.assertEqual([each["buffers"] for each in measured], ["device", "shared_device", "peer_devices"])
        for threads in measured[1:]:
            self.assertIn("load_store", {each["kernel"] for each in threads["series"]})
        self.assertIn("2 ranks as threads of a process, on devices that reach each other", out)
        # Such a row applies to devices that reach each other, and not to one device.
        rows = [row("peer_devices", "ring")]
        self.assertEqual(self.used(rows, "--ranks", devices=2)[:2], ("ring", "interpreter"))
        self.assertEqual(self.used(rows, "--ranks")[1], "load_store")
        # Devices that do not reach each other get no rows.
        status, out, err = call(RONDO, "tune", *words, "-o", table, seconds=LIMIT_SECONDS, SOFT_CUDA_DEVICES="2",
                                SOFT_CUDA_NVLINK="off")
        self.assertEqual(status, 0, out + err)
        measured = json.loads(table.read_text(encoding="utf-8"))["measurements"]
        self.assertEqual([each["buffers"] for each in measured], ["device", "shared_device"])
        status, out, err = call(RONDO, "tune", *words, "-o", table, seconds=LIMIT_SECONDS,
                                RONDO_DEVICE_EXECUTOR="copy")
        self.assertEqual(status, 0, out + err)
        self.assertIn("no ranks as threads", err)
        rows = json.loads(table.read_text(encoding="utf-8"))["rows"]
        self.assertEqual({each["buffers"] for each in rows}, {"device"})

    def test_a_candidate_that_fails_ends_it_all(self):
        status, out, err = call(RONDO, "tune", "--device", "cuda:0", "--quick", "--rounds", 1, "--ranks", 2, "--sizes",
                                "4K", "-o", self.folder / "none.json", seconds=LIMIT_SECONDS,
                                SOFT_CUDA_FAULTS="cuGraphLaunch#3=2")
        self.assertEqual(status, 1, out + err)
        self.assertIn("auto: rondo perf ended with status 3: rondo perf:", err)
        self.assertFalse((self.folder / "none.json").exists())

    def test_what_cannot_be_is_refused(self):
        for words, said in ((("--device", "cuda:7", "--ranks", 2), "cuda:7"),
                            (("--device", "cuda", "--hosts", "a:1,b:1"), "--hosts")):
            status, out, err = call(RONDO, "tune", *words, "-o", self.folder / "none.json")
            self.assertNotEqual(status, 0, out + err)
            self.assertIn(said, err)
        self.assertFalse((self.folder / "none.json").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
