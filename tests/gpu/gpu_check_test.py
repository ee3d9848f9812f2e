# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/gpu-bundle and scripts/gpu-check on the CUDA driver in software. A bundle is packed, unpacked elsewhere
and run. The record names steps that fail, hang, or are cut off, and the archive has all logs. usage: gpu_check_test.py
BUILD_FOLDER"""

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
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check_figures import latency  # noqa: E402
from gpu_check_steps import CALL_SECONDS, FULL, Steps, soft_environment  # noqa: E402
sys.path.insert(0, str(ROOT / "tests"))
import side_by_side  # noqa: E402
from sanitized import quarter_of  # noqa: E402
BUILD = sys.argv.pop(1)
BUNDLE_BYTES_MAX = 24_000_000


MATRIX = [f"device matrix of {ranks} ranks, bit-equal to the host (tiny)" for ranks in (2, 3)]
PACKED = "RONDO_TEST_PACKED"  # the folder with the bundle, which all processes of side_by_side have in common
ARCHIVE = "bundle.tar.xz"


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
    path.chmod(0o755)


def pack(folder):
    """Packs a bundle and unpacks it. Neither needs the program xz, which a machine may lack."""
    write_program(folder / "broken/xz", "exit 1")
    subprocess.run([ROOT / "scripts/gpu-bundle", "--build", BUILD, "--output", folder / ARCHIVE], check=True,
                   timeout=900, stdout=subprocess.DEVNULL,
                   env=os.environ | {"PATH": f"{folder / 'broken'}:{os.environ['PATH']}"})
    with tarfile.open(folder / ARCHIVE) as tar:
        tar.extractall(folder)


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = Path(os.environ.get(PACKED, ""))
        if PACKED not in os.environ:  # a case that the command line names
            temporary = tempfile.TemporaryDirectory()
            cls.addClassCleanup(temporary.cleanup)
            folder = Path(temporary.name)
            pack(folder)
        cls.bytes = (folder / ARCHIVE).stat().st_size
        cls.bundle = folder / "rondo-gpu-check"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = Path(folder.name) / "results"
        # This environment is like that of the machine with the GPU, which has only the bundle.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("RONDO_", "SOFT_CUDA_", "LD_LIBRARY_PATH"))}

    def command(self, *options, bundle=None):
        return [(bundle or self.bundle) / "gpu-check", "--soft", "--quick", "--output", self.output, *options]

    def check(self, *options, status=0, bundle=None):
        done = subprocess.run(self.command(*options, bundle=bundle), capture_output=True, text=True, timeout=900,
                              env=self.environment, cwd="/", check=False)
        self.assertEqual(done.returncode, status, self.what_failed(done))
        self.assertEqual(sorted(path.name for path in self.output.iterdir()),
                         ["logs.tar.gz", "record.md", "results.json"])
        results = json.loads((self.output / "results.json").read_text(encoding="utf-8"))
        record = (self.output / "record.md").read_text(encoding="utf-8")
        self.assertTrue(done.stdout.endswith(record + "\n"), "it ends with the record")
        return results, record

    def what_failed(self, done):
        """Returns only the lines of the steps that failed, and what these steps wrote. After the whole record, they
        might be missing in a log of which only the end is kept."""
        lines = [line for line in done.stdout.splitlines() if line.startswith("failed ")]
        written = [self.log(line.rpartition("see ")[2]) for line in lines if "; see " in line]
        return "\n".join([done.stderr, *written, *lines]) if lines else done.stdout + done.stderr

    def log(self, name):
        with tarfile.open(self.output / "logs.tar.gz") as archive:
            return archive.extractfile(f"logs/{name}").read().decode()

    def broken_bundle(self, **programs):
        """Returns a copy of the bundle in which these programs are replaced."""
        copy = self.output.parent / "bundle"
        shutil.copytree(self.bundle, copy, copy_function=os.link)
        for program, text in programs.items():
            (copy / "bin" / program).unlink()
            write_program(copy / "bin" / program, text)
        return copy

    def outcomes(self, results):
        return [test["result"] for test in results["tests"]]

    def test_the_bundle_is_small(self):
        self.assertLess(self.bytes, BUNDLE_BYTES_MAX)

    def test_all_steps_pass_and_end_with_a_record(self):
        results, record = self.check("--limit", "900")
        priorities = [test["priority"] for test in results["tests"]]
        self.assertEqual((priorities, set(priorities)), (sorted(priorities), {1, 2, 3, 4}))
        for test in results["tests"]:
            skipped = "check of" in test["test"] or ("PyTorch" in test["test"] and not find_spec("torch"))
            self.assertEqual(test["result"], "skipped" if skipped else "passed", test)
        names = [test["test"] for test in results["tests"]]
        for name in (*MATRIX, "load_store as if on several devices", "memcheck of load_store",
                     "kernels that want unlike carve-outs wait for no one", "memcheck of messages and blocks",
                     *(f"smoke of {way}" for way in ("simple", "ll", "load_store", "copies")),
                     *(f"smoke of processes by {executor}, {handles}" for executor in ("copies", "kernels")
                       for handles in ("ipc", "vmm"))):
            self.assertIn(name, names)
        self.assertIn("ran to its end", record)
        self.assertRegex(self.log("driver-conformance.log"), r"(?m)^ *[\d.]+ s: capture: a stream that is not joined")
        self.assertIn("says nothing of a GPU", record)
        self.assertIn("commit: ", record)
        self.check_costs(results, record)
        self.check_figures(results)

    def check_costs(self, results, record):
        costs = {cost["cost"]: cost for cost in results["costs"]}
        for name in ("release to the system, nothing pending", "release to the system, a host store pending",
                     "load of host memory", "load of device memory, from the L2 cache",
                     "an empty kernel after another in a graph", "copy by 1 blocks", "copy by 32 blocks",
                     "a kernel in graphs of 1 stream, empty",
                     "a kernel in graphs of 8 streams, posts a word and looks at all",
                     "a kernel in graphs of 8 streams, posts a word and looks at all, launched early",
                     "reduction of 8 into 8 by 32 blocks"):
            self.assertIn(name, costs)
            self.assertIn(f"| {name} |", record)
        self.assertGreater(costs["copy by 32 blocks"]["value"], 0)
        self.assertIn("multiprocessors 32", record)

    def check_figures(self, results):
        bars = [figure["bar"] for figure in results["figures"]]
        self.assertEqual({figure["verdict"] for figure in results["figures"] if figure["bar"]}, {"not judged"})
        for bar in ("at most 1.12 x floor", "at most 3.0 us", "at most 4.0 us", "no slower than the other library",
                    "at most 3% slower, 90% covered"):
            self.assertIn(bar, bars)
        self.assertTrue(any(bar.startswith("at most 2.0 x floor + hand-overs = ") for bar in bars), bars)
        names = [figure["figure"] for figure in results["figures"]]
        for name in ("the device handed over among 2 processes",
                     "all_reduce, 3 ranks, 8 B, in place, replayed",
                     "all_reduce, 3 ranks, 8 B, in place (as if on several devices)",
                     *(f"{collective}, 2 ranks, 8 B, in place, beside libfake_nccl.so 2.21.5 ({way})"
                       for collective in ("all_reduce", "all_gather", "reduce_scatter")
                       for way in ("called", "replayed")),
                     *(f"a communicator of 3 ranks made ({ranks}, {executor})"
                       for ranks in ("threads", "processes") for executor in ("kernel", "copy")),
                     "a product of 16 rows beside all_gather, 4 ranks, 16 KiB, in place (copies)",
                     *(f"all_reduce, 4 ranks, 16 KiB, in place, beside that product (at most {blocks} blocks)"
                       for blocks in (1, 2, 4, 8)),
                     "losses of 4 steps on the device beside the host's",
                     *(f"{what} of custom, 2 ranks ({label})" for what in ("computation", "overlap efficiency")
                       for label in ("copies", "kernels, at most 2 blocks"))):
            self.assertIn(name, names)

    def test_a_test_case_that_takes_too_long_ends_its_program_and_is_named(self):
        program = self.bundle / "bin/driver_conformance"
        for seconds, status in (("1", 1), ("100", 0)):
            environment = self.environment | soft_environment(self.bundle) | {"RONDO_TEST_CASE_SECONDS": seconds}
            case = "conformance: a case that sleeps for five seconds"
            done = subprocess.run([program, case], env=environment, capture_output=True, text=True, timeout=300,
                                  check=False)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertEqual("driver_kernel_test.cpp:" in done.stdout, status == 1, done.stdout)

    def test_the_test_of_processes_finds_what_it_imports(self):
        # With --quick no step runs device_process_test.py.
        done = subprocess.run([sys.executable, "-B", self.bundle / "tests/gpu/device_process_test.py",
                               self.bundle / "bin/device_rank", "DeviceProcesses.test_processes_exchange_blocks"],
                              env=self.environment | soft_environment(self.bundle), capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_program_that_fails_is_told_with_what_it_and_the_kernel_say(self):
        flag = self.output.parent / "failed"
        bundle = self.broken_bundle(device_seeds=f"touch {flag}; echo it is broken >&2; exit 3")
        old, new = "NVRM: loading", "NVRM: Xid (PCI:0000:01:00): 31, MMU fault"
        write_program(self.output.parent / "bin/dmesg",
                      f"echo '{old}'; echo unrelated; if [ -e {flag} ]; then echo '{new}'; fi")
        self.environment["PATH"] = f"{self.output.parent}/bin:{self.environment['PATH']}"
        results, record = self.check("--only", "seeds|racecheck", status=1, bundle=bundle)
        self.assertEqual(self.outcomes(results), ["failed", "passed", "skipped"])
        self.assertIn(f"exit status 3: it is broken; the kernel says: {new}", record)
        self.assertEqual(self.log("2-seeds-a-rank-aborts-stays-away-or-disagrees.log"), "it is broken\n")

    def test_costs_are_kept_though_what_measures_them_fails_later(self):
        costs = {"costs": [{"cost": "a step", "value": 2, "unit": "us"}], "attributes": {"mps": 1}}
        bundle = self.broken_bundle(device_costs=f"for path; do :; done; echo '{json.dumps(costs)}' > $path; exit 3")
        results, _ = self.check("--only", "device costs", status=1, bundle=bundle)
        self.assertEqual(self.outcomes(results), ["failed"])
        self.assertEqual(results["costs"], costs["costs"])
        self.assertEqual(results["machine"]["attributes"], "mps 1")

    def test_a_report_that_cannot_be_read_fails_its_step_and_no_other(self):
        says = (f"if [ $1 = info ]; then exec {self.bundle}/bin/rondo \"$@\"; fi\n"
                "for path; do :; done; echo '{}' > $path")
        results, record = self.check("--only", "[23] threads, replayed$", status=1,
                                     bundle=self.broken_bundle(rondo=says))
        self.assertEqual(self.outcomes(results), ["failed"] * 2)
        self.assertIn("KeyError", record)

    def test_without_a_device_that_rondo_can_use_nothing_begins(self):
        results, record = self.check(status=1, bundle=self.broken_bundle(rondo="exit 3"))
        self.assertEqual(results["tests"], [])
        self.assertIn("did not begin, as Rondo cannot use this device: rondo info failed", record)

    def test_a_step_whose_log_lacks_what_it_must_say_has_failed(self):
        bundle = self.broken_bundle(region_rank="echo plan two_shot interpreter")
        results, record = self.check("--only", "registered buffers of 2", status=1, bundle=bundle)
        self.assertEqual(self.outcomes(results), ["failed"])
        self.assertIn('its log has no "plan two_shot load_store"', record)

    def test_ranks_of_a_launcher_that_was_killed_are_awaited(self):
        rank = self.output.parent / "bundle/bin/rank"
        bundle = self.broken_bundle(device_seeds=f"setsid {rank} 8 & sleep 300")  # it sleeps 8 s, but the limit is 6 s
        shutil.copy("/bin/sleep", rank)
        self.check("--only", "aborts, stays", "--limit", "6", status=1, bundle=bundle)
        running = subprocess.run(["readlink", *Path("/proc").glob("[0-9]*/exe")], capture_output=True, text=True,
                                 timeout=60, check=False).stdout
        self.assertNotIn(str(rank), running)

    def test_every_measurement_for_a_gpu_can_be_asked_for(self):
        small = {"-b": "8", "-e": "8", "-m": "1", "-n": "1", "-w": "0", "--beside-product": "16"}
        environment = self.environment | soft_environment(self.bundle) | {"SOFT_CUDA_RESIDENT_BLOCKS": "264"}
        work = self.output.parent / "work"
        work.mkdir()
        steps = [step for step in Steps(self.bundle, work, True, FULL).all()
                 if "perf" in step.command and step.judge is not None]
        for step in quarter_of(steps, "measurements", in_every_build=True):
            words = [small.get(before, word) for before, word in zip(["", *step.command], step.command)]
            done = subprocess.run(words, env=environment | step.environment, capture_output=True, text=True,
                                  timeout=120, check=False)
            with self.subTest(step=step.name):
                self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")

    def test_what_hangs_is_ended_and_what_does_not_begin_in_time_is_left_out(self):
        bundle = self.broken_bundle(device_seeds="sleep 300")
        results, record = self.check("--only", "seeds", "--limit", "10", status=1, bundle=bundle)
        self.assertEqual(self.outcomes(results), ["failed", "left out"])
        self.assertIn("was ended", record)

    def test_what_an_earlier_run_has_done_is_left_out(self):
        first, _ = self.check("--only", "first calls|smoke of ll")
        self.assertEqual(self.outcomes(first), ["passed", "passed"])
        done = self.output.parent / "done.json"
        shutil.move(self.output / "results.json", done)
        second, _ = self.check("--only", "first calls|smoke of ll|smoke of simple", "--done", done)
        self.assertEqual([test["test"] for test in second["tests"]], ["smoke of simple"])

    def test_what_was_cut_off_keeps_what_it_has(self):
        flag = self.output.parent / "begun"
        bundle = self.broken_bundle(device_matrix="echo done", gpu_device=f"touch {flag}; sleep 300")
        child = subprocess.Popen(self.command("--only", "device matrix|device, ranks", bundle=bundle),
                                 env=self.environment, stdout=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and not flag.exists():  # until gpu_device sleeps
                time.sleep(0.05)
            child.send_signal(signal.SIGTERM)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
            child.wait()
        self.assertEqual(child.returncode, 1)
        results = json.loads((self.output / "results.json").read_text(encoding="utf-8"))
        outcomes = self.outcomes(results)
        self.assertEqual(set(outcomes[:-1]), {"passed"})
        self.assertEqual(outcomes[-1], "cut off")
        self.assertIn(f"the check was cut off: {len(outcomes) - 1} passed", out)
        self.assertEqual(self.log("device-matrix-of-2-ranks-bit-equal-to-the-host-tiny-.log"), "done\n")

    def test_two_calls_suffice_for_all_steps_but_those_of_the_last_priority(self):
        steps = Steps(self.bundle, self.output.parent, False, FULL, Path("libnccl.so.2")).all()
        for call, priorities in (("first", (1, 2)), ("second", (3,))):
            seconds = sum(step.seconds for step in steps if step.priority in priorities)
            print(f"the {call} call takes about {seconds} s", flush=True)
            self.assertLessEqual(seconds, CALL_SECONDS)
        listed = subprocess.run(self.command("--list"), capture_output=True, text=True, timeout=60, check=True,
                                env=self.environment).stdout
        self.assertRegex(listed, r"(?m)^1 +2 s +2 s  smoke of simple$")
        self.assertFalse(self.output.exists())

    def test_small_sizes_have_a_bar_by_the_number_of_ranks(self):
        rows = [{"bytes": size, "out_of_place": None, "in_place": {"time_us": {"median": 3.5}}}
                for size in (4096, 8192)]
        for ranks, bar, met in ((2, "at most 3.0 us", False), (8, "at most 4.0 us", True)):
            small, large = latency({"collective": "all_reduce", "ranks": ranks, "results": rows})
            self.assertEqual((small.bar, small.met, large.bar, large.met), (bar, met, "", None))

    def test_without_a_library_to_compare_with_its_steps_are_skipped(self):
        steps = Steps(self.bundle, self.output.parent, False, FULL).all()
        missing = {step.missing for step in steps if "beside NCCL" in step.name}
        self.assertEqual(missing, {"no --nccl FILE names libnccl.so.2 of NCCL 2.30 or newer"})

    def test_pytorch_is_measured_beside_the_trainer_if_it_is_installed(self):
        bundle = self.broken_bundle()
        peer = bundle / "bench/compare/ddp.py"
        peer.unlink()
        peer.write_text("import pathlib, sys\nassert '--corpus' in sys.argv\n"
                        "pathlib.Path(sys.argv[-1]).write_text('{\"torch\": \"9.9\", \"step_ms\": 22.4}')\n",
                        encoding="utf-8")
        modules = self.output.parent / "modules"
        (modules / "torch").mkdir(parents=True)
        self.environment["PYTHONPATH"] = str(modules)
        results, _ = self.check("--only", "PyTorch", bundle=bundle)
        self.assertEqual(self.outcomes(results), ["passed"])
        self.assertEqual([(figure["figure"], figure["value"]) for figure in results["figures"]],
                         [("a step of the same model by PyTorch 9.9, one rank", "22.4 ms")])

    def through_mps(self, control, *command, served="on"):
        """Runs gpu_check_mps.py. In place of MPS's daemon it starts a program that leaves traces beside the results."""
        write_program(self.output / "nvidia-cuda-mps-control", control)
        driver = {"RONDO_CUDA_LIBRARY": str(self.bundle / "lib/libsoftcuda.so"), "SOFT_CUDA_MPS": served,
                  "PATH": f"{self.output}:{os.environ['PATH']}"}
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts/gpu_check_mps.py", *command], capture_output=True,
                              text=True, timeout=60, cwd=self.output, check=False, env=self.environment | driver)
        return done.returncode, done.stdout + done.stderr

    DAEMON = """if [ "$1" = -f ]; then
            echo log > $CUDA_MPS_LOG_DIRECTORY/of_it; touch $CUDA_MPS_PIPE_DIRECTORY/control
            while ! [ -e quit ]; do sleep 0.05; done
            touch ended
        else
            read word; touch $word
        fi"""

    def test_a_daemon_of_mps_lives_as_long_as_its_command(self):
        inside = "test -e $CUDA_MPS_PIPE_DIRECTORY/control && ! [ -e quit ] && exit 7"
        status, out = self.through_mps(self.DAEMON, "sh", "-c", inside)
        self.assertEqual(status, 7, out)
        self.assertIn("of_it: log\n", out)
        self.assertTrue((self.output / "ended").exists())

    def test_where_mps_does_not_work_the_command_is_skipped_and_its_log_says_why(self):
        for control, served, why in (("exit 3", "on", "nvidia-cuda-mps-control -f does not listen"),
                                     (self.DAEMON, "off", "the driver goes on without it")):
            status, out = self.through_mps(control, "touch", "ran", served=served)
            self.assertEqual(status, 77, out)
            self.assertTrue(out.endswith(f"MPS does not work here: {why}\n"), out)
            self.assertFalse((self.output / "ran").exists())

    def test_without_a_bundle_it_says_how_to_make_one(self):
        done = subprocess.run([ROOT / "scripts/gpu-check"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("scripts/gpu-bundle", done.stderr)


if __name__ == "__main__":
    if "RONDO_TEST_SANITIZED" in os.environ:
        print("skipped: gpu check: a bundle of sanitized programs is too large")
        sys.exit(77)
    if side_by_side.CASE in os.environ or len(sys.argv) > 1:
        side_by_side.main(1)
    with tempfile.TemporaryDirectory() as packed:
        pack(Path(packed))
        os.environ[PACKED] = packed
        side_by_side.main(3)
