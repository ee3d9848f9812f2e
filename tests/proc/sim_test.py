# SPDX-License-Identifier: Apache-2.0
"""Tests rondo sim: its text, JSON and drawing, a topology file, and errors for bad input."""

import json
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from terminal import watched

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import SANITIZED, quarter_of_cases_in_every_build  # noqa: E402

load_tests = quarter_of_cases_in_every_build

RONDO = sys.argv.pop(1)
SVG = "{http://www.w3.org/2000/svg}"


def sim(*options, **popen):
    return subprocess.run([RONDO, "sim", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=250, check=False, **popen)


class Sim(unittest.TestCase):
    def told(self, *options):
        done = sim(*options, "--json", "-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_json_has_time_steps_and_bytes_of_a_large_ring(self):
        ranks = 1024 if SANITIZED else 16384
        bytes_ = ranks << 16
        told = self.told("--ranks", str(ranks), "--algorithm", "ring", "--bytes", str(bytes_), "--alone")
        self.assertEqual((told["ranks"], told["algorithm"], told["bytes"], told["steps"]),
                         (ranks, "ring", bytes_, 2 * ranks - 1))
        self.assertEqual(sum(told["bytes_per_link"].values()), 2 * (ranks - 1) * bytes_)
        self.assertEqual(told["bytes_per_link"]["inter_node"], 2 * (ranks - 1) * bytes_ // 8)
        # One after another, 2(n-1) messages of 64 KiB are sent. One hop in eight goes over the slower links.
        least = 2 * (ranks - 1) * (2 + 65536 / 300e3)
        self.assertGreater(told["time_us"], least)
        self.assertTrue(told["exact"])

    @unittest.skipIf(SANITIZED, "its limit is not for a sanitizer; done without one")
    def test_a_tree_of_16384_ranks_takes_less_than_2_gigabytes(self):
        # docs/performance.md has the time. The test does not check it, since a slow machine is no fault.
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, 2 * 10**9))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tree.json"
            done = sim("--ranks", "16384", "--algorithm", "tree", "--bytes", "1G", "--nodes", "2048", "--gpus", "8",
                       "--json", str(path), preexec_fn=limit)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            told = json.loads(path.read_text())
        self.assertEqual((told["ranks"], told["algorithm"], told["bytes"]), (16384, "tree", 1 << 30))
        links = told["bytes_per_link"]
        self.assertEqual(set(links), {"self", "intra_node", "inter_node", "inter_rack"})
        self.assertEqual(sum(links.values()), 2 * 16383 * (1 << 30))
        self.assertEqual((told["channels"], told["protocol"]), (2, "simple"))
        # The first tile goes up and down 14 levels, of which 12 are between nodes. After that, tiles of both trees
        # follow as fast as the busiest port sends them. Rank 16 is a leaf of one tree. In the other tree its parent and
        # both children are in other nodes.
        self.assertEqual(told["steps"], 2 * 14 + 1)
        chunk, tiles = told["chunk_bytes"], (1 << 30) // (2 * told["chunk_bytes"])
        within, between, reduce = 2 + chunk / 300e3, 5 + chunk / 50e3, chunk / 1000e3
        expected = 2 * (2 * within + 12 * between) + (2 * 14 - 1) * reduce + (tiles - 1) * 3 * chunk / 50e3
        self.assertAlmostEqual(told["time_us"], expected, delta=expected / 100)

    def test_algorithms_cross_where_closed_forms_meet(self):
        ranks, rate = 8, 10e3  # bytes a microsecond
        for alpha in (3, 5.5, 8):
            with self.subTest(alpha=alpha), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "net.json"
                path.write_text(json.dumps({"nodes": [{"ranks": 1, "count": ranks}], "reduce_GBps": 0,
                                            "links": {"inter_node": {"alpha_us": alpha, "bandwidth_GBps": rate / 1e3,
                                                                     "sharing": "pair"}}}))
                fastest = self.told("--topology", str(path), "--bytes", "4K")["fastest"]
                self.assertEqual(fastest[0]["algorithm"], "one_shot")
                # The times are equal where alpha + b / rate = 2 alpha + parts b / ranks / rate. Among hosts of one rank
                # each, hierarchical is a two_shot on two channels: the first half returns while the second is sent.
                parts = {"two_shot": 2, "hierarchical": 1.5}[fastest[1]["algorithm"]]
                crossing = alpha * rate / (1 - parts / ranks)
                self.assertAlmostEqual(fastest[1]["from_bytes"], crossing, delta=crossing / 100)

    def test_short_cuts_change_nothing(self):
        for algorithm in ("ring", "tree", "halving_doubling", "one_shot", "two_shot"):
            size = "2M" if SANITIZED else "16M"
            options = ("--ranks", "32", "--algorithm", algorithm, "--bytes", size, "--alone")
            short, every = self.told(*options), self.told(*options, "--every")
            for key in ("time_us", "steps", "bytes_per_link"):
                self.assertEqual(short[key], every[key], (algorithm, key))

    @unittest.skipIf(SANITIZED, "a comparison of so many ranks takes a minute under a sanitizer; done without one")
    def test_algorithms_are_compared_and_those_left_out_named(self):
        done = sim("--ranks", "512", "--algorithm", "tree", "--bytes", "1M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("fastest    ", done.stdout)
        self.assertIn("one_shot: compared among at most 256 ranks", done.stdout)

    def test_a_topology_file_is_used(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.json"
            path.write_text(json.dumps({"nodes": [{"ranks": 1, "count": 4}],
                                        "links": {"inter_node": {"alpha_us": 10, "bandwidth_GBps": 1}},
                                        "reduce_GBps": 0}))
            told = self.told("--topology", str(path), "--algorithm", "ring", "--protocol", "simple", "--bytes", "4K",
                             "--alone")
            self.assertAlmostEqual(told["time_us"], 6 * (10 + 1.024), places=3)
            path.write_text('{"nodes": [{"gpus": 8}]}')
            done = sim("--topology", str(path))
            self.assertEqual(done.returncode, 2)
            self.assertIn("unknown key 'gpus'; known are: count, nics, rack, ranks", done.stderr)

    @unittest.skipIf(SANITIZED, "a sweep takes a minute under a sanitizer; done without one")
    def test_a_sweep_is_a_drawing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sweep.svg"
            status, shown = watched([RONDO, "sim", "--ranks", "16", "--bytes", "2K", "--plot", path])
            self.assertEqual(status, 0, shown)
            # A long simulation shows its progress on a terminal, and removes that line at the end.
            self.assertRegex(shown, r"\rrondo sim: \d+ %, about \d+ (s|min) left\x1b\[K")
            self.assertTrue(shown.endswith("\r\x1b[K"), shown[-60:])
            drawing = ElementTree.parse(path)
            labels = {it.text: it.get("x") for it in drawing.iter(SVG + "text")}
            lines = [[point.split(",")[0] for point in it.get("points").split()]
                     for it in drawing.iter(SVG + "polyline")]
            for word in ("ring", "tree", "halving_doubling", "message size", "ranks"):
                self.assertIn(word, labels)
            # The tree has points from 2 to 131072 ranks, doubled each time. No other curve reaches that number.
            to_the_end = [line for line in lines if line[-1] == labels["131072"]]
            self.assertEqual([(len(line), line[0]) for line in to_the_end], [(17, labels["2"])])

    def test_blocks_are_compared_with_nothing(self):
        ranks = 16 if SANITIZED else 64
        told = self.told("--collective", "alltoall", "--ranks", str(ranks), "--bytes", "64M")
        self.assertEqual((told["collective"], told["algorithm"], told["channels"]), ("all_to_all", "one_shot", 1))
        self.assertEqual(sum(told["bytes_per_link"].values()), (ranks - 1) << 26)
        self.assertEqual({it["algorithm"] for it in told["fastest"]}, {"one_shot"})

    def test_with_load_store_the_comparison_is_of_load_store(self):
        gpus, size = (2, 2 << 20) if SANITIZED else (4, 1 << 20)  # the comparison has this size
        options = ("--kernel", "load_store", "--nodes", "1", "--gpus", str(gpus), "--bytes", str(size))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sweep.svg"
            told = self.told(*options, "--plot", str(path))
            labels = {it.text for it in ElementTree.parse(path).iter(SVG + "text")}
        self.assertEqual(told["kernel"], "load_store")
        self.assertEqual(set(told["by_size"]), {"ring", "one_shot", "two_shot"})
        self.assertLessEqual({it["algorithm"] for it in told["fastest"]}, {"ring", "one_shot", "two_shot"})
        left_out = " ".join(told["left_out"])
        for algorithm in ("tree", "halving_doubling"):
            self.assertIn(f"{algorithm}: the kernel 'load_store' that was asked for is for all_reduce", left_out)
        times = {it["bytes"]: it["time_us"] for it in told["by_size"][told["algorithm"]]}
        self.assertEqual(times[size], told["time_us"])
        self.assertLessEqual({"ring", "one_shot", "two_shot"}, labels)
        self.assertFalse({"tree", "halving_doubling", "hierarchical"} & labels)

    def test_bad_input_is_answered_and_fails(self):
        load_store = ("--kernel", "load_store", "--nodes", "1", "--gpus", "4")
        for options, part in [
                (["--algorithm", "rung"], "unknown algorithm 'rung'"), (["--bytes", "1X"], "not a size"),
                (["--ranks", "0"], "--ranks"), (["--ranks", "1025", "--algorithm", "one_shot"], "these can: ring"),
                (["--ranks", "131072", "--algorithm", "ring"], "these can: tree"),
                (["--ranks", "9", "--nodes", "1", "--gpus", "8"], "9 ranks do not fit"),
                (["--topology", "/nowhere/net.json"], "cannot read the topology file"),
                (["--table", "/nowhere/tuning.json"], "cannot read the table '/nowhere/tuning.json'"),
                (["--table", "t.json", "--nodes", "2"], "leave --topology, --nodes"),
                (["--collective", "broadcast", "--root", "99"], "root 99 is not one of 16"),
                (["--collective", "all_to_all", "--chunk-bytes", "4K"], "in all_to_all, each block goes directly from"),
                (["--collective", "gather", "--algorithm", "ring"], "in gather, each block goes directly from"),
                ([*load_store, "--protocol", "ll"], "has no protocol, but 'll' was asked for, too"),
                ([*load_store, "--channels", "2"], "on one channel"),
                ([*load_store, "--collective", "all_gather"], "is for all_reduce of"),
                ([*load_store, "--bytes", "1024G"], "more than 4000000 steps"),
                (["--kernel", "load_store", "--ranks", "64"], "name `--nodes 1 --gpus 64`"),
                (["--kernel", "load_store", "--nodes", "1", "--gpus", "65"],
                 "is for 2 to 64 ranks that are all on one host")]:
            with self.subTest(options=options):
                done = sim(*options)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertTrue(done.stderr.startswith("rondo sim: "), done.stderr)
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
