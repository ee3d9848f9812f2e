# SPDX-License-Identifier: Apache-2.0
"""Tests rondo schedule: text, JSON, Graphviz and the picture of a schedule, and errors for bad input."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

RONDO = sys.argv.pop(1)
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "ring-5.svg"
RING_5 = ("--algorithm", "ring", "--ranks", "5")
SVG = "{http://www.w3.org/2000/svg}"


def schedule(*options):
    return subprocess.run([RONDO, "schedule", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)


def ring_of_5():
    """Returns the ring all-reduce of five ranks, as a list of (chunk, received from, sent to) for each rank."""
    ranks = {}
    for rank in range(5):
        before, after = [(rank - 1) % 5], [(rank + 1) % 5]
        ranks[rank] = [((rank - 1 - step) % 5, before if step > 0 else [], after if step < 8 else [])
                       for step in range(9)]
    return ranks


class Schedule(unittest.TestCase):
    def printed(self, *options):
        done = schedule(*options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_json_has_the_ranks_and_steps_of_the_ring(self):
        told = json.loads(self.printed(*RING_5, "--json"))
        head = {key: told[key] for key in ("algorithm", "collective", "ranks", "chunks", "in_place")}
        self.assertEqual(head, {"algorithm": "ring", "collective": "all_reduce", "ranks": 5, "chunks": 5,
                                "in_place": False})
        steps = {}
        for entry in told["schedules"]:
            self.assertEqual(len(entry["lanes"]), 1)
            steps[entry["rank"]] = [(it["chunk"], it.get("recv", []), it.get("send", [])) for it in entry["lanes"][0]]
            self.assertEqual([it["phase"] for it in entry["lanes"][0]],
                             ["send"] + 3 * ["reduce"] + ["finish"] + 4 * ["move"])
        self.assertEqual(steps, ring_of_5())

    def test_text_tells_the_same_steps(self):
        steps, rank = {}, None
        lines = self.printed(*RING_5).splitlines()
        for word in ("acc", "src", "recv", "dst", "send", "finish"):
            self.assertRegex(" ".join(lines[1:3]), rf"\b{word}\b")
        for line in lines[3:]:
            if match := re.fullmatch(r"rank (\d)", line):
                rank = int(match[1])
                steps[rank] = []
                continue
            number, chunk, what = re.fullmatch(r" +(\d+) +chunk (\d) +(.*)", line).groups()
            self.assertEqual(int(number), len(steps[rank]))
            steps[rank].append((int(chunk), [int(peer) for peer in re.findall(r"recv\((\d)\)", what)],
                                [int(peer) for peer in re.findall(r"send\((\d)\)", what)]))
        self.assertEqual(steps, ring_of_5())

    def test_dot_is_a_graph_of_every_step_and_message(self):
        text = self.printed(*RING_5, "--dot")
        self.assertTrue(text.startswith("digraph schedule {\n"))
        self.assertTrue(text.endswith("}\n"))
        self.assertEqual(len(re.findall(r"^  r\d_0_\d \[label=\"rank", text, re.M)), 5 * 9)
        messages = re.findall(r"^  r(\d)_0_(\d) -> r(\d)_0_(\d) \[label=", text, re.M)
        wanted = {(r, s, (r + 1) % 5, s + 1) for r in range(5) for s in range(8)}
        self.assertEqual({tuple(int(part) for part in message) for message in messages}, wanted)

    def test_svg_is_xml_and_the_picture_of_the_readme(self):
        text = self.printed(*RING_5, "--svg")
        drawing = ElementTree.fromstring(text)
        self.assertEqual(drawing.tag, SVG + "svg")
        words = [it.text for it in drawing.iter(SVG + "text")]
        self.assertTrue({f"rank {rank}" for rank in range(5)} <= set(words), words)
        self.assertEqual(text.encode(), PICTURE.read_bytes(),
                         f"make it again: rondo schedule {' '.join(RING_5)} --svg > {PICTURE}")

    def test_a_drawing_in_a_file_takes_the_place_of_the_text(self):
        with tempfile.TemporaryDirectory() as folder:
            picture, data = f"{folder}/ring.svg", f"{folder}/ring.json"
            self.assertEqual(self.printed(*RING_5, "--plot", picture), f"{picture} written\n")
            self.assertEqual(Path(picture).read_bytes(), PICTURE.read_bytes())
            self.assertEqual(self.printed(*RING_5, "--json", data), self.printed(*RING_5))
            self.assertEqual(json.loads(self.printed(*RING_5, "--plot", picture, "--json")),
                             json.loads(Path(data).read_text(encoding="utf-8")))

    def test_blocks_go_from_rank_to_rank_in_lanes_of_their_own(self):
        blocks = ("--algorithm", "one_shot", "--ranks", "4", "--json", "--collective")
        told = json.loads(self.printed(*blocks, "all_to_all"))["schedules"]
        lanes = {entry["rank"]: entry["lanes"] for entry in told}
        for rank in range(4):
            peers = [(rank + distance) % 4 for distance in (1, -1, 2, -2, 3, -3)]
            told = [lane[0].get("send", []) + lane[0].get("recv", []) for lane in lanes[rank]]
            self.assertEqual(told, [[peer] for peer in peers] + [[]])
            self.assertEqual([lane[0]["chunk"] for lane in lanes[rank]], [1, 1, 2, 2, 3, 3, 0])
            self.assertEqual({len(lane) for lane in lanes[rank]}, {1})
        in_place = json.loads(self.printed(*blocks, "alltoall", "--in-place"))["schedules"]
        self.assertEqual([[step["flags"] for step in lane] for lane in in_place[0]["lanes"]],
                         3 * [[["src", "send"], ["recv", "dst"]]])
        for collective, word in (("gather", "recv"), ("scatter", "send")):
            steps = [[lane[0] for lane in entry["lanes"] if lane] for entry in
                     json.loads(self.printed(*blocks, collective, "--root", "2"))["schedules"]]
            self.assertEqual(sorted(step[word][0] for step in steps[2] if word in step), [0, 1, 3])
            self.assertEqual([len(each) for each in steps], [1, 1, 4, 1])
        shown = ("--algorithm", "one_shot", "--ranks", "3", "--collective", "all_to_all")
        drawing = ElementTree.fromstring(self.printed(*shown, "--svg"))
        words = {it.text for it in drawing.iter(SVG + "text")}
        self.assertLessEqual({"rank 0 to 1", "rank 0 from 2", "rank 0 own", "rank 2 from 0"}, words)
        self.assertIn("Chunk D is the block", self.printed(*shown))

    def test_every_algorithm_can_be_drawn(self):
        for algorithm in ("ring", "tree", "halving_doubling", "one_shot", "two_shot", "hierarchical",
                          "hierarchical_tree"):
            ElementTree.fromstring(self.printed("--algorithm", algorithm, "--ranks", "6", "--svg"))

    def test_the_collective_may_be_spelt_as_other_libraries_do(self):
        for name, same in (("allgather", "all_gather"), ("Bcast", "broadcast")):
            self.assertEqual(self.printed("--algorithm", "ring", "--collective", name),
                             self.printed("--algorithm", "ring", "--collective", same))

    def test_bad_input_is_answered_and_fails(self):
        for options, part in [
                (["--algorithm", "rung"], "no algorithm 'rung' to print; known are: ring, tree, halving_doubling, "
                                          "one_shot, two_shot, hierarchical, hierarchical_tree; did you mean ring?"),
                (["--algorithm", "ring", "--collective", "scatter"], "ring has no scatter; name one of one_shot\n"),
                (["--algorithm", "ring", "--collective", "all"], "unknown collective 'all'; known are: all_reduce"),
                (["--algorithm", "auto"], "no algorithm 'auto' to print; known are: ring, tree, halving_doubling"),
                (["--algorithm", "auto", "--collective", "all_gather"], "known are: ring, one_shot, hierarchical\n"),
                (["--algorithm", "tree", "--collective", "all_gather"], "name one of ring, one_shot, hierarchical\n"),
                ([], "--algorithm is required"),
                (["--algorithm", "ring", "--ranks", "65", "--svg"], "at most 64 ranks, not 65"),
                (["--algorithm", "ring", "--ranks", "0"], "--ranks"),
                ([*RING_5, "--svg", "--json"], "cannot share standard output"),
                ([*RING_5, "--plot", "x.png"], "does not end in .svg"),
                ([*RING_5, "--plot", "x.svg", "--svg"], "exclude each other"),
                (["--algorithm", "tree", "--collective", "all_gather"],
                 "tree has no all_gather; name one of ring, one_shot, hierarchical\n"),
                ([*RING_5, "--collective", "broadcast", "--root", "5"], "root 5 is not one of 5")]:
            with self.subTest(options=options):
                done = schedule(*options)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertTrue(done.stderr.startswith("rondo schedule: "), done.stderr)
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
