# SPDX-License-Identifier: Apache-2.0
"""Tests what Rondo prints on standard error or into a file: RONDO_LOG, RONDO_LOG_FILE, variables that are misspelt, and
an initialisation that ran out of time.

usage: messages_test.py RONDO RANK_PROGRAM"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from job import PATIENCE, HeldPort

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

RONDO = sys.argv.pop(1)
PROGRAM = sys.argv.pop(1)
PERF = ["all_reduce", "-b", "1K", "-e", "1K", "-n", "2", "-w", "1"]
LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (?P<host>\S+):(?P<process>\d+) rank (?P<rank>\d+|-) rondo: "
                  r"(?P<level>debug|info|warning|error): (?P<subsystem>[a-z]+): (?P<message>\S.*)$")
HOST = os.uname().nodename


def run(*command, timeout=60 * PATIENCE, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
    return subprocess.run([RONDO, *command], env=environment | variables, capture_output=True, text=True,
                          timeout=timeout, check=False)


def lines_of(text):
    found = [LINE.match(line) for line in text.splitlines()]
    assert all(found), text
    return [match.groupdict() for match in found]


class Log(unittest.TestCase):
    def test_debug_tells_of_the_life_of_a_communicator(self):
        done = run("run", "-n", "2", "--", RONDO, "perf", *PERF, "--buffers", "registered", RONDO_LOG="debug")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = lines_of(done.stderr)
        self.assertEqual({line["host"] for line in lines}, {HOST})
        processes = {line["process"] for line in lines}
        self.assertEqual(len(processes), 2)
        for rank in ("0", "1"):
            mine = [(line["subsystem"], line["message"]) for line in lines if line["rank"] == rank]
            for subsystem, what in (("config", "RONDO_LOG=debug"), ("bootstrap", f"rank {rank} of 2 as rondo run says"),
                                    ("bootstrap", "meets the other ranks at 127.0.0.1:"),
                                    ("bootstrap", "found on host 1 of 1: ranks 0, 1"), ("topology", " core"),
                                    ("transport", f"to rank {1 - int(rank)} by shared memory"),
                                    ("plan", "all_reduce of 256 float32 (sum): "),
                                    ("memory", "registered a buffer of "),
                                    ("bootstrap", "the communicator of 2 ranks is made")):
                self.assertTrue(any(each == subsystem and what in message for each, message in mine),
                                f"rank {rank}: no '{what}' of {subsystem} in:\n{done.stderr}")
            # A choice is logged when it is first made, and never again.
            choices = [message for _, message in mine if "256 float32 (sum): " in message]
            self.assertEqual(len(choices), 1, choices)

    def test_the_interface_is_told_where_one_is_chosen(self):
        done = run("perf", *PERF, "--ranks", "2", RONDO_LOG="bootstrap=debug")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"uses the address 127\.0\.0\.1, interface lo; there are: ")

    def test_a_subsystem_alone(self):
        done = run("perf", *PERF, "--ranks", "2", RONDO_LOG="PLAN=Debug")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({line["subsystem"] for line in lines_of(done.stderr)}, {"plan"})

    def test_info_has_one_line_for_a_communicator(self):
        done = run("run", "-n", "2", "--", RONDO, "perf", *PERF, RONDO_LOG="info")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = lines_of(done.stderr)
        self.assertEqual([(line["rank"], line["subsystem"]) for line in lines], [("0", "bootstrap")])
        self.assertRegex(lines[0]["message"], r"^rondo \d+\.\d+\.\d+: a communicator of 2 ranks on 1 host, joined by "
                                              r"shared memory; runs on host memory; tuning table: built in$")

    def test_nothing_is_told_by_default(self):
        self.assertEqual(run("perf", *PERF, "--ranks", "2").stderr, "")

    def test_a_file_for_each_process(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("run", "-n", "2", "--", RONDO, "perf", *PERF, RONDO_LOG="debug",
                       RONDO_LOG_FILE=f"{folder}/%h-%p.log")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            ranks = {}
            for path in Path(folder).iterdir():
                lines = lines_of(path.read_text())
                if not lines:
                    continue  # the launcher logs nothing
                self.assertEqual({(line["host"], line["process"]) for line in lines},
                                 {tuple(path.stem.rsplit("-", 1))})
                ranks[path.name] = {line["rank"] for line in lines}
            self.assertEqual(sorted(map(sorted, ranks.values())), [["0"], ["1"]])

    def test_a_failure_is_told_by_each_rank_that_sees_it(self):
        done = run("run", "-n", "2", "--", PROGRAM, "abort", "1", RONDO_LOG="failure=info", RONDO_TIMEOUT="20")
        told = [line for line in lines_of("\n".join(line for line in done.stderr.splitlines() if " rondo: " in line))
                if line["subsystem"] == "failure"]
        self.assertTrue(told, done.stderr)
        self.assertRegex(told[0]["message"],
                         r"the communicator failed \(aborted\): rank 1 .* has called rondo_comm_abort")


class Refusals(unittest.TestCase):
    def test_a_log_that_cannot_be_written_is_refused_before_anything_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            missing = f"{folder}/none/there.log"
            for command in (["info"], ["perf", *PERF, "--ranks", "2"], ["run", "-n", "2", "--", "true"]):
                done = run(*command, RONDO_LOG_FILE=missing)
                self.assertEqual((done.returncode, done.stdout), (2, ""), command)
                self.assertRegex(done.stderr, rf"RONDO_LOG_FILE: the file '{re.escape(missing)}' cannot be written "
                                              r"\(No such file or directory\); name one in a folder that exists")
            self.assertEqual(os.listdir(folder), [])

    def test_a_bad_value_is_refused_before_a_rank_starts(self):
        for variables, said in (({"RONDO_ALGORITHM": "sun"}, "known are: auto, ring"),
                                ({"RONDO_LOG": "plan=loud"}, "'loud' is not a known level"),
                                ({"RONDO_LOG_FILE": "/tmp/%q"}, "%h (host), %p (process)")):
            done = run("run", "-n", "2", "--", "sh", "-c", "echo started", **variables)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(said, done.stderr)


class Misspelt(unittest.TestCase):
    def test_a_variable_that_nothing_knows_gives_one_warning_in_a_job(self):
        for command in (["run", "-n", "3", "--", RONDO, "perf", *PERF], ["perf", *PERF, "--ranks", "3"],
                        ["run", "-n", "3", "--", PROGRAM, "sum", "2", "100"]):
            done = run(*command, RONDO_TIMOUT="3")
            warnings = [line for line in lines_of(done.stderr) if line["subsystem"] == "config"]
            self.assertEqual([line["message"] for line in warnings],
                             ["the environment has 'RONDO_TIMOUT', which Rondo does not know; did you mean "
                              "RONDO_TIMEOUT?"], command)

    def test_it_is_found_where_the_launcher_was_given_it(self):
        done = run("run", "-n", "2", "--env", "RONDO_LOGG=debug", "--", RONDO, "perf", *PERF)
        self.assertEqual(len(lines_of(done.stderr)), 1)
        self.assertIn("did you mean RONDO_LOG?", done.stderr)


class Timeout(unittest.TestCase):
    def test_an_initialisation_that_runs_out_of_time_says_what_to_do(self):
        # The timeout also limits how long this rank takes to reach its own store, and is far longer than that.
        with HeldPort() as port:
            done = run("perf", *PERF, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                       RONDO_INIT_TIMEOUT="14.5", timeout=120)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"rank 0 of 2 could not initialise its communicator: launched by "
                                      r"torchrun; store at 127\.0\.0\.1:\d+: not arrived at the step 'join': "
                                      r"rank 1 \(1 of 2\); it took longer than the "
                                      r"14\.5 s of init_timeout_ms \(RONDO_INIT_TIMEOUT\)\. "
                                      r"Check that all 2 ranks were started")


if __name__ == "__main__":
    side_by_side.main(4)
