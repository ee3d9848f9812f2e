# SPDX-License-Identifier: Apache-2.0
"""Tests the scripts: their shell can read them, and the final sums of scripts/test are right."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import source_tree as tree

sys.path.insert(0, str(tree.ROOT / "scripts"))
import select_tests  # noqa: E402
import summary  # noqa: E402


def shell_of(path):
    first = tree.read(path).splitlines()[0]
    return "bash" if "bash" in first or "shell=bash" in tree.read(path) else "sh"


class Scripts(unittest.TestCase):
    def test_every_script_parses(self):
        scripts = [path for path in tree.all_files() if tree.is_shell(path)]
        self.assertGreater(len(scripts), 3)
        for path in scripts:
            done = subprocess.run([shell_of(path), "-n", str(tree.ROOT / path)], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), str(path))

    def test_every_script_tells_what_it_is_for(self):
        for path in (tree.ROOT / "scripts").iterdir():
            if path.suffix or not path.is_file():
                continue
            done = subprocess.run([str(path), "--help"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, path.name)
            self.assertTrue(done.stdout.startswith(f"scripts/{path.name}"), done.stdout)

    def test_the_dockerfile_calls_scripts_that_there_are_and_ends_with_the_demo(self):
        lines = [line for line in tree.read("packaging/Dockerfile").splitlines() if line and not line.startswith("#")]
        self.assertEqual(lines[0], "FROM debian:12")
        self.assertIn("COPY . /rondo", lines)
        calls = [line.removeprefix("RUN ").split() for line in lines if line.startswith("RUN ")]
        calls.append(json.loads(lines[-1].removeprefix("CMD ")))
        self.assertEqual(calls[-1], ["scripts/demo"])
        self.assertEqual(calls[0][0], "scripts/setup")
        for script, *options in calls:
            self.assertTrue(os.access(tree.ROOT / script, os.X_OK), script)
            for option in options:
                self.assertIn(option, tree.read(script))
        # The image leaves out the files that git ignores, and git's own.
        ignored = set(tree.read("packaging/Dockerfile.dockerignore").split())
        self.assertEqual(ignored, {"/build*/", "/.cache/", "**/__pycache__/", "/.git/"})

    def test_the_demo_builds_the_programs_that_it_runs(self):
        demo = tree.read("scripts/demo")
        built = " ".join(re.findall(r"targets\+?=\((.*?)\)", demo)).split()
        for program, run in {"src/cli/rondo": '"$rondo" run', "src/cli/rondo-train": '"$rondo" train',
                             "examples/word_count": "build-test/examples/word_count"}.items():
            self.assertIn(run, demo)
            self.assertIn(program, built)

    def test_an_unknown_option_is_refused(self):
        for path in (tree.ROOT / "scripts").iterdir():
            if path.suffix or not path.is_file():
                continue
            done = subprocess.run([str(path), "--no-such-option"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, path.name)


    def test_a_users_build_compiles_no_tests_and_the_scripts_ask_for_them(self):
        done = subprocess.run(["meson", "introspect", "--buildoptions", tree.ROOT / "meson.build"], capture_output=True,
                              text=True, timeout=60, check=True)
        defaults = {option["name"]: option["value"] for option in json.loads(done.stdout)}
        self.assertIs(defaults["tests"], False)
        for name in ("demo", "lib.sh", "gpu-bundle", "test"):
            text = tree.read(f"scripts/{name}")
            asked = re.findall(r"^ *configure (?:.|\\\n)*$", text, re.M)
            self.assertTrue(asked, name)
            for call in asked:
                self.assertTrue("-Dtests=true" in call or '"${sanitized[@]}"' in call, f"{name}: {call}")
        self.assertIn("\nconfigure_asan\n", tree.read("scripts/fuzz"))
        self.assertRegex(tree.read("scripts/lib.sh"), r"(?s)sanitized=\([^)]*-Dtests=true")


class Summary(unittest.TestCase):
    def tally(self, tests, fuzz=""):
        tally = summary.Tally()
        with tempfile.TemporaryDirectory() as folder:
            log, results = Path(folder) / "testlog.json", Path(folder) / "results.txt"
            log.write_text("".join(json.dumps(test) + "\n" for test in tests), encoding="utf-8")
            results.write_text(fuzz, encoding="utf-8")
            summary.read(tally, str(log))
            summary.read(tally, str(results))
        return tally.passed, len(tally.failed), len(tally.skipped)

    def test_cases_of_catch_are_counted(self):
        passed = {"name": "a", "result": "OK", "stdout": "===\nAll tests passed (12 assertions in 3 test cases)\n"}
        mixed = {"name": "b", "result": "FAIL", "stdout": "test cases:  5 |  3 passed |  2 failed\nassertions: 9 | \n"}
        self.assertEqual(self.tally([passed]), (3, 0, 0))
        self.assertEqual(self.tally([passed, mixed]), (6, 2, 0))
        beside = dict(mixed, stdout=passed["stdout"] + mixed["stdout"])  # the output of two processes
        self.assertEqual(self.tally([beside]), (6, 2, 0))
        said = dict(passed, stdout="skipped: several hosts: no mpirun\n" + passed["stdout"])
        self.assertEqual(self.tally([said]), (2, 0, 1))

    def test_cases_of_unittest_are_counted(self):
        text = "test_x (t.A.test_x) ... skipped 'no mpirun'\nRan 4 tests in 0.1s\n\nOK (skipped=1)\n"
        self.assertEqual(self.tally([{"name": "a", "result": "OK", "stderr": text}]), (3, 0, 1))
        said = {"name": "a", "result": "OK", "stdout": "skipped: Open MPI: it is not installed\n", "stderr": text}
        self.assertEqual(self.tally([said]), (2, 0, 2))
        text = "Ran 4 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n"
        self.assertEqual(self.tally([{"name": "a", "result": "FAIL", "stderr": text}]), (2, 2, 0))

    def test_a_program_that_dies_or_hangs_has_failed_however_it_looked(self):
        looked_well = "All tests passed (12 assertions in 3 test cases)\n"
        for result in ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT"):
            self.assertEqual(self.tally([{"name": "a", "result": result, "stdout": ""}]), (0, 1, 0))
            self.assertEqual(self.tally([{"name": "a", "result": result, "stdout": looked_well}])[1], 1)

    def test_other_programs_and_fuzzers_count_as_one(self):
        tests = [{"name": "a", "result": "OK"}, {"name": "b", "result": "SKIP", "stdout": "no sudo\n"}]
        self.assertEqual(self.tally(tests, "pass fuzz_x\nfail fuzz_y\n"), (2, 1, 1))



def tests_of(*names, suites=("proc",), python=False):
    return [select_tests.Test(name, set(suites), python, []) for name in names]


MESON = r"""#!/bin/sh
case "$1 $*" in
  setup*) mkdir -p "$2"; echo >"$2/build.ninja" ;;
  introspect*--targets) echo '[{"id": "p", "filename": ["'$PWD/$2/a'"]}]' ;;
  introspect*) echo '[{"name": "one", "suite": ["r:unit", "r:threads"], "cmd": ["a"], "depends": ["p"]},
                      {"name": "meet", "suite": ["r:proc"], "cmd": ["a"], "depends": ["p"]},
                      {"name": "three", "suite": ["r:net"], "cmd": ["a"], "depends": ["p"], "is_parallel": false},
                      {"name": "two", "suite": ["r:timed"], "cmd": ["a"], "depends": ["p"], "is_parallel": false}]' ;;
  test*) mkdir -p "$3/meson-logs"; for name; do [ "$before" = --logbase ] && log=$name; before=$name; done
    echo '{"name": "r:unit / '$name'", "result": "'${RESULT:-OK}'", "duration": 1}' >"$3/meson-logs/$log.json"
    [ "${RESULT:-OK}" = OK ] ;;
esac
"""
NINJA = r"""#!/bin/sh
case "$*" in *" -n"*) echo "[1/1] a" ;; *--quiet*) [ "${BUILDS:-yes}" = yes ] || exit 1 ;; esac
"""


class TestScript(unittest.TestCase):
    """scripts/test from its beginning to its end, with a build system that does nothing."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copytree(tree.ROOT / "scripts", self.root / "scripts")
        programs = self.root / "bin"
        programs.mkdir()
        for name, text in (("meson", MESON), ("ninja", NINJA)):
            (programs / name).write_text(text, encoding="utf-8")
            (programs / name).chmod(0o755)
        git = ["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a"]
        for command in (["init", "-q"], ["add", "scripts"], ["commit", "-qm", "a"]):
            if shutil.which("git"):  # the script works without git
                subprocess.run([*git, *command], check=True, capture_output=True)

    def run_script(self, *options, **environment):
        environment = os.environ | {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"} | environment
        done = subprocess.run(["scripts/test", *options], cwd=self.root, env=environment, capture_output=True,
                              text=True, timeout=600)
        return done.returncode, done.stdout + done.stderr

    def test_what_passes_what_fails_and_what_is_not_built(self):
        status, said = self.run_script("--only", "tests", "--only", "timed", "--quarter", "0")
        self.assertEqual((status, said.splitlines()[-1]), (0, "4 passed, 0 failed, 0 skipped"), said)
        status, said = self.run_script("--only", "tests", RESULT="FAIL")
        self.assertEqual((status, said.splitlines()[-1]), (1, "0 passed, 3 failed, 0 skipped"), said)
        for stages in (["tests"], ["tests", "timed"]):
            options = [word for stage in stages for word in ("--only", stage)]
            status, said = self.run_script(*options, "--quarter", "0", BUILDS="no")
            self.assertEqual(status, 1, said)
            self.assertIn("FAILED: tests (its build)", said)
        status, said = self.run_script("--only", "nothing")
        self.assertEqual(status, 1, said)


class Selection(unittest.TestCase):
    """Which tests the gate runs (scripts/select_tests.py)."""

    EVERY = (tests_of("matrix", "steady", suites=("unit",)) + tests_of("init", "stream", suites=("unit", "threads")) +
             tests_of("failure", "preflight", "gpu check", "lives self-test", "clocks", "rails", python=True) +
             tests_of("device seeds, devices", "device seeds, load_store", suites=("gpu", "threads")) +
             tests_of("lint docs", suites=("lint",), python=True) +
             tests_of("a, timed", "b, timed", "c, timed", "d, timed", "init, timed", suites=("timed",)))

    @staticmethod
    def names(*args):
        return [test.name for test in select_tests.select(Selection.EVERY, *args)]

    def test_four_quarters_run_every_test_and_each_runs_what_is_not_occasional(self):
        for stage in ("tests", "asan", "tsan", "timed"):
            quarters = [self.names(stage, False, quarter, []) for quarter in range(4)]
            everything = self.names(stage, True, 0, [])
            self.assertEqual(set().union(*quarters), set(everything), stage)
            often = [name for name in everything if all(name in quarter for quarter in quarters)]
            self.assertTrue(all(len(quarter) > len(often) for quarter in quarters) or stage == "tsan", stage)
            self.assertEqual(len(set().union(*quarters) - set(often)), sum(len(it) - len(often) for it in quarters))

    def test_a_stage_has_its_own_tests(self):
        self.assertEqual(self.names("timed", False, 0, []), ["a, timed", "init, timed"])
        self.assertEqual(len(self.names("timed", True, 0, [])), 5)
        self.assertNotIn("init, timed", self.names("tests", True, 0, []))
        self.assertNotIn("lint docs", self.names("asan", True, 0, []))
        self.assertEqual(self.names("tsan", True, 0, []), ["init", "stream", "device seeds, devices",
                                                           "device seeds, load_store"])
        always = set.intersection(*(set(self.names("asan", False, quarter, [])) for quarter in range(4)))
        self.assertEqual(always, {"matrix", "steady", "init", "stream"})

    def test_a_test_that_must_be_alone_is_in_no_other_lane(self):
        waiting, alone, busy = tests_of(select_tests.WAITING[0], select_tests.WAITING[0], "matrix")
        alone.alone = True
        self.assertEqual([select_tests.lane_of(test) for test in (waiting, alone, busy)], ["waiting", "alone", "busy"])

    def test_a_tool_is_tested_when_its_files_change(self):
        for quarter in range(4):
            self.assertIn("gpu check", self.names("tests", False, quarter, ["scripts/gpu_check_steps.py"]))
        self.assertEqual(sum("gpu check" in self.names("tests", False, quarter, ["src/a.cpp"])
                             for quarter in range(4)), 1)

    def test_every_name_is_that_of_a_test(self):
        builds = "".join(tree.read(path) for path in tree.all_files() if path.name == "meson.build")
        names = [*select_tests.OCCASIONAL, *select_tests.OCCASIONAL_SANITIZED, *select_tests.OCCASIONAL_TSAN,
                 *select_tests.TOOL_FILES, *select_tests.WAITING, *select_tests.SECONDS, *select_tests.LONG_REASONS,
                 *(name for names in select_tests.SANITIZED_SECONDS.values() for name in names)]
        for name in names:
            literal = re.split(r"[*\[]", name)[0].rstrip(", ")
            head, _, tail = literal.partition(", ")  # of a loop over what follows the comma
            joined = "'" + literal.rpartition(" ")[0] + " ' +"  # of a loop over the last word
            around = [f"'{piece}'" in builds for piece in re.split(r"\d+", literal)]  # of loops over numbers
            self.assertTrue("'" + literal in builds or joined in builds or all(around) or
                            ("'" + head in builds and (f"'{tail}'" in builds or f"', {tail}'" in builds)), name)
        files = [str(path) for path in tree.all_files()]
        for name, patterns in select_tests.TOOL_FILES.items():
            for pattern in patterns:
                self.assertTrue(select_tests.fnmatch.filter(files, pattern), f"{name}: {pattern}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
