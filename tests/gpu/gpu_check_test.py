# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-bundle and scripts/gpu-check, on the CUDA driver in software: a bundle is packed, unpacked elsewhere and
run; what fails, hangs, or is cut off is in the record.   usage: gpu_check_test.py BUILD_FOLDER"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = sys.argv.pop(1)
BUNDLE_BYTES_MOST = 20_000_000


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        archive = Path(cls.folder.name) / "bundle.tar.xz"
        subprocess.run([ROOT / "scripts/gpu-bundle", "--build", BUILD, "--output", archive], check=True, timeout=300,
                       stdout=subprocess.DEVNULL)
        cls.bytes = archive.stat().st_size
        with tarfile.open(archive) as tar:
            tar.extractall(cls.folder.name)
        cls.bundle = Path(cls.folder.name) / "rondo-gpu-check"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = Path(folder.name) / "results"
        # As on the machine with the GPU: nothing but the bundle.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("RONDO_", "SOFT_CUDA_", "LD_LIBRARY_PATH"))}

    def command(self, *options, bundle=None):
        return [(bundle or self.bundle) / "gpu-check", "--soft", "--quick", "--output", self.output, *options]

    def check(self, *options, status=0, bundle=None):
        done = subprocess.run(self.command(*options, bundle=bundle), capture_output=True, text=True, timeout=300,
                              env=self.environment, cwd="/", check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        results = json.loads((self.output / "results.json").read_text(encoding="utf-8"))
        record = (self.output / "record.md").read_text(encoding="utf-8")
        self.assertTrue(done.stdout.endswith(record + "\n"), "it ends with the record")
        return results, record

    def broken_bundle(self, program, text):
        """A copy in which a program is something else."""
        copy = self.output.parent / "bundle"
        shutil.copytree(self.bundle, copy)
        (copy / "bin" / program).write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
        return copy

    def test_the_bundle_is_small(self):
        self.assertLess(self.bytes, BUNDLE_BYTES_MOST)

    def test_all_stages_pass_and_end_with_a_record(self):
        results, record = self.check()
        self.assertEqual({test["stage"] for test in results["tests"]},
                         {"correctness", "bench", "faults", "sanitizer"})
        for test in results["tests"]:
            self.assertEqual(test["result"], "skipped" if test["stage"] == "sanitizer" else "passed", test)
        bars = [figure["bar"] for figure in results["figures"]]
        self.assertIn("at most 1.3 x floor", bars)
        self.assertIn("at most 5.0 us", bars)
        self.assertEqual({figure["verdict"] for figure in results["figures"] if figure["bar"]}, {"not judged"})
        self.assertIn("at most 3% slower, 90% covered", bars)
        self.assertTrue(any(bar.startswith("at most 2.0 x floor + hand-overs = ") for bar in bars), bars)
        names = [figure["figure"] for figure in results["figures"]]
        for name in ("a communicator of 8 ranks made", "the device handed over among 2 processes",
                     *(f"a communicator of 3 ranks made ({ranks}, {executor})"
                       for ranks in ("threads", "processes") for executor in ("kernel", "copy")),
                     "a product of 64 rows beside all_gather, 4 ranks, 32 KiB (by copies)",
                     *(f"all_reduce, 4 ranks, 32 KiB, beside that product (at most {blocks} blocks)"
                       for blocks in (1, 2, 4, 8))):
            self.assertIn(name, names)
        self.assertIn("ran to its end", record)
        self.assertIn("says nothing of a GPU", record)
        self.assertIn("libfake_cublas.so, 13.0.2", record)
        self.assertIn("commit: ", record)

    def test_ll128_is_skipped_where_it_is_refused_and_nothing_else_is(self):
        says = ("case \"$*\" in *ll128*) echo \"the protocol 'll128' that was asked for cannot be: of old\";; esac\n"
                "exit 3")
        results, _ = self.check("--only", "bench", status=1, bundle=self.broken_bundle("rondo", says))
        self.assertEqual({test["result"] for test in results["tests"] if "ll128" in test["test"]}, {"skipped"})
        self.assertEqual({test["result"] for test in results["tests"] if "ll128" not in test["test"]}, {"failed"})

    def test_a_stage_alone_and_a_program_that_fails(self):
        bundle = self.broken_bundle("device_seeds", "echo it is broken; exit 3")
        results, record = self.check("--only", "faults", status=1, bundle=bundle)
        self.assertEqual([test["result"] for test in results["tests"]], ["failed", "passed"])
        self.assertIn("exit status 3: it is broken", record)

    def test_what_hangs_is_ended_and_what_is_left_then_is_left_out(self):
        bundle = self.broken_bundle("device_seeds", "sleep 300")
        results, record = self.check("--only", "faults", "--limit", "8", status=1, bundle=bundle)
        self.assertEqual([test["result"] for test in results["tests"]], ["failed", "left out"])
        self.assertIn("was ended", record)

    def test_what_was_cut_off_keeps_what_it_has(self):
        bundle = self.broken_bundle("gpu_device", "sleep 300")
        self.output.mkdir()
        child = subprocess.Popen(self.command("--only", "correctness", bundle=bundle), env=self.environment,
                                 stdout=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:  # until gpu_device sleeps
                if (self.output / "device-ranks-as-threads.log").exists():
                    break
                time.sleep(0.05)
            child.send_signal(signal.SIGTERM)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
            child.wait()
        self.assertEqual(child.returncode, 1)
        results = json.loads((self.output / "results.json").read_text(encoding="utf-8"))
        self.assertEqual([test["result"] for test in results["tests"]], ["passed", "passed", "cut off"])
        self.assertIn("the check was cut off: 2 passed", out)

    def test_without_a_bundle_it_says_how_to_make_one(self):
        done = subprocess.run([ROOT / "scripts/gpu-check"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("scripts/gpu-bundle", done.stderr)


if __name__ == "__main__":
    if "RONDO_TEST_SANITIZED" in os.environ:
        print("skipped: gpu check: a bundle of sanitized programs is too large")
        sys.exit(77)
    unittest.main(verbosity=2)
