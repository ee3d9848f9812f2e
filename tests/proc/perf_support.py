# SPDX-License-Identifier: Apache-2.0
"""Helpers that the tests of `rondo perf` share."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")
EXCHANGES = ("all_to_all", "gather", "scatter", "sendrecv", "hypercube")
NO_IN_PLACE = ("sendrecv",)


def call(*command, seconds=240, **environment):
    """Returns (exit status, standard output, standard error)."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds,
                          env=dict(os.environ, **environment), check=False)
    return done.returncode, done.stdout, done.stderr


class PerfCase(unittest.TestCase):
    rondo = None  # the command, which the module sets

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def perf(self, *arguments, launcher=(), said=None, **environment):
        """Returns the report of a correct run, and its table. With `said`, the launcher also lets ranks write to
        files of that folder."""
        path = self.folder / "report.json"
        status, out, err = call(*launcher, self.rondo, "perf", *arguments, "--json", path, **environment)
        if said is not None:
            out += "".join(file.read_text(encoding="utf-8") for file in said.iterdir())
        self.assertEqual(status, 0, out + err)
        self.assertIn("# Out of bounds values : 0 OK", out)
        report = json.loads(path.read_text(encoding="utf-8"))
        for series in report if isinstance(report, list) else [report]:
            self.assertGreater(series["setup_ms"], 0)
            self.assertTrue(series["results"])
            one_way = series["collective"] in NO_IN_PLACE
            for row in series["results"]:
                self.assertEqual(row["in_place"] is None, one_way)
                for placement in ("out_of_place",) if one_way else ("out_of_place", "in_place"):
                    self.assertEqual(row[placement]["wrong"], 0, row)
                    times = row[placement]["time_us"]
                    self.assertTrue(0 < times["min"] <= times["median"] <= times["max"], times)
        return report, out
