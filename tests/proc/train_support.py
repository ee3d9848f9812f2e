# SPDX-License-Identifier: Apache-2.0
"""Helpers that the tests of `rondo train` share: a small model on a small text, so that a run takes a second."""

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

from job import HeldPort

WORDS = "the ring sends each block to its right and adds what comes from its left until every rank has the sum".split()
SMALL = ("--width", 32, "--layers", 2, "--heads", 2, "--context", 32, "--batch", 4)


def text(seed=1, words=30_000):
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words))


class TrainCase(unittest.TestCase):
    rondo = None  # the command, which the module sets
    maxDiff = 2000

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.corpus = self.folder / "corpus.txt"
        self.corpus.write_text(text(), encoding="utf-8")

    def command(self, ranks, *arguments, model=SMALL):
        launcher = () if ranks == 1 else (self.rondo, "run", "-n", ranks, "--")
        corpus = () if "--corpus" in arguments else ("--corpus", self.corpus)
        return [str(word) for word in (*launcher, self.rondo, "train", *model, *corpus, *arguments)]

    def call(self, ranks, *arguments, model=SMALL, seconds=240, **options):
        """Returns (exit status, standard output, standard error)."""
        done = subprocess.run(self.command(ranks, *arguments, model=model), capture_output=True, text=True,
                              timeout=seconds, check=False, **options)
        return done.returncode, done.stdout, done.stderr

    def train(self, ranks, *arguments, report="report", model=SMALL, **environment):
        """Returns the report of a run that must succeed."""
        folder = self.folder / report
        if "--measure" not in arguments:
            arguments += ("--measure", 1)
        status, out, err = self.call(ranks, *arguments, "--report", folder, model=model,
                                     env=dict(os.environ, **environment))
        self.assertEqual((status, err), (0, ""), out)
        return json.loads((folder / "report.json").read_text(encoding="utf-8"))

    def start_ranks(self, ranks, *arguments, model=SMALL):
        """Starts ranks as torchrun would. No launcher ends the others if one fails. Returns their processes."""
        port = HeldPort()
        self.addCleanup(port.socket.close)
        processes = []
        for rank in range(ranks):
            words = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port.number}
            processes.append(subprocess.Popen(self.command(1, *arguments, model=model), stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, text=True,
                                              env=os.environ | {name: str(value) for name, value in words.items()}))
            self.addCleanup(processes[-1].wait)
            self.addCleanup(processes[-1].kill)
        return processes

    def losses(self, report):
        return [loss for _, loss in report["loss"]["train"]], [point["loss"] for point in report["loss"]["validation"]]

    def refused(self, words, *arguments, ranks=1, status=2, model=SMALL, **options):
        """Checks that the run ends with `status` and an error that contains all of `words`."""
        found, out, err = self.call(ranks, *arguments, model=model, **options)
        self.assertEqual(found, status, out + err)
        for word in words:
            self.assertIn(word, err)
        self.assertNotIn("step 1/", out)  # nothing began


def process_exists(pid):
    return os.path.exists(f"/proc/{pid}")
