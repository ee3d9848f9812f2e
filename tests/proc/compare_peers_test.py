# SPDX-License-Identifier: Apache-2.0
"""Tests bench/compare with real contenders. It runs Rondo and the installed peers for a short time, and an MPI that is
no usable peer.

usage: compare_peers_test.py BUILD_FOLDER SANITIZERS"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from compare_support import ROOT  # finds the modules below, too
import peers
import results

BUILD, SANITIZERS = Path(sys.argv.pop(1)), sys.argv.pop(1)

# This replaces MPICH's launcher. It starts one process without the variables of a launcher.
NO_LAUNCHER = """#!/bin/sh
if [ "$1" = --version ]; then echo HYDRA; exit; fi
while [ "${1#/}" = "$1" ]; do shift; done
exec "$@"
"""


class Real(unittest.TestCase):
    def test_rondo_and_the_peers_that_are_here_are_measured_and_right(self):
        if SANITIZERS != "none":
            print(f"skipped: bench/compare with real contenders: its drivers are not built with {SANITIZERS}")
            return
        with tempfile.TemporaryDirectory() as folder:
            raw, picture, table = (Path(folder) / name for name in ("raw.jsonl", "picture.svg", "table.md"))
            draws = ["--plot", picture] if importlib.util.find_spec("matplotlib") else []
            command = [sys.executable, "-B", ROOT / "bench/compare/compare.py", "--quick", "--build", BUILD,
                       "--drivers", folder, "--raw", raw, *draws, "--report", table, "--sizes", "64K",
                       "--setting", "mapped-out-of-place", "--setting", "half", "--setting", "create", "--deadline",
                       "60"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            for reported in done.stderr.splitlines():
                if "missing: " in reported:
                    print("skipped: bench/compare:" + reported.partition("missing:")[2])
            contenders = done.stderr.partition("contenders: ")[2].partition(";")[0].split(", ")
            rows = [each for each in results.load(raw) if each["kind"] == "run"]
            self.assertEqual([each["error"] for each in rows if "error" in each], [])
            measured = {(each["contender"], each["bytes"]) for each in rows}
            for name in contenders:
                if name != "rondo":
                    self.assertIn((name, 1 << 16), measured)
            self.assertIn(("rondo", 0), measured)  # a communicator made and destroyed
            self.assertTrue(all(each["wrong"] == 0 and each["median_us"] > 0 for each in rows))
            if draws:
                self.assertTrue(ElementTree.parse(picture).getroot().tag.endswith("svg"))
            else:
                print("skipped: bench/compare: its picture: no matplotlib")
            self.assertIn("# Comparison", table.read_text(encoding="utf-8"))

    def test_an_mpi_whose_processes_do_not_find_their_launcher_is_missing(self):
        compiler = shutil.which("mpicc.mpich")
        if compiler is None:
            print("skipped: bench/compare: an MPI without its launcher: no mpicc.mpich")
            return
        with tempfile.TemporaryDirectory() as folder:
            launcher = Path(folder) / "mpirun"
            launcher.write_text(NO_LAUNCHER, encoding="ascii")
            launcher.chmod(0o755)
            workshop = peers.Workshop(folder, BUILD)
            with self.assertRaisesRegex(peers.Missing, "^mpich: .* a job of its own"):
                workshop.mpi(workshop.harness(), "mpich", compiler, str(launcher))


if __name__ == "__main__":
    unittest.main(verbosity=2)
