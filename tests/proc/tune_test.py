# SPDX-License-Identifier: Apache-2.0
"""Tests that rondo tune makes a table, that RONDO_TUNING_FILE loads it, and that plans follow it. Every rank must
refuse broken, missing and differing files by name. No test here judges a time."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from functools import partial
from pathlib import Path

from job import run_job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

RONDO, RANK = sys.argv.pop(1), sys.argv.pop(1)

ROW = {"collective": "all_reduce", "ranks": 2, "oversubscribed": False, "bytes_max": "any", "algorithm": "ring",
       "protocol": "simple", "channels": 2, "chunk_bytes": 4096}


def rondo(*words, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
    return subprocess.run([RONDO, *map(str, words)], env=environment | variables, capture_output=True, text=True,
                          timeout=300, check=False)


def table(*rows):
    return json.dumps({"format": "rondo tuning table", "version": 1, "rows": rows})


def both_ways(**fields):
    """Returns a row for two ranks, whether or not this machine has two cores."""
    return [{**ROW, **fields, "oversubscribed": oversubscribed} for oversubscribed in (False, True)]


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def test_a_run_works_if_signals_of_ended_children_are_ignored(self):
        done = subprocess.run([RONDO, "tune", "--quick", "--rounds", "1", "--ranks", "2", "--collectives", "all_reduce",
                               "--sizes", "64", "-o", self.folder / "tuning.json"], capture_output=True, text=True,
                              timeout=300, check=False,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertIn("all_reduce", (self.folder / "tuning.json").read_text())

    def test_a_quick_run_makes_a_table_that_info_shows_and_ranks_use(self):
        path = self.folder / "tuning.json"
        done = rondo("tune", "--quick", "--ranks", 2, "--collectives", "all_reduce,reduce", "--sizes", "64,8K",
                     "--keep-disturbed", "-o", path, TMPDIR=str(self.folder))
        self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: a choice was not the best on a busy machine
        self.assertEqual(os.listdir(self.folder), ["tuning.json"])  # nothing else is left
        self.assertIn("The worst choice takes", done.stdout)
        parts = [int(part) for part in re.findall(r" \((\d+) %, about \d+ (?:s|min) left\)", done.stderr)]
        self.assertGreater(len(parts), 2 * 10)  # candidates of two collectives
        self.assertEqual((parts, parts[-1]), (sorted(parts), 100))
        told = json.loads(path.read_text())
        self.assertEqual({row["collective"] for row in told["rows"]}, {"all_reduce", "reduce"})
        for group in told["measurements"]:
            by_algorithm = {(it["algorithm"], it["protocol"]) for it in group["series"] if it["bytes"] == 64}
            self.assertLessEqual({("ring", "simple"), ("ring", "ll"), ("one_shot", "ll"), ("tree", "simple")},
                                 by_algorithm, by_algorithm)
            self.assertEqual({it["bytes"] for it in group["series"]}, {64, 8192})
            self.assertTrue(all(0 < it["min_us"] <= it["median_us"] <= it["max_us"] for it in group["series"]))
        self.assertGreater(told["costs"]["handover_us"], 0)
        for rates in told["costs"]["rates"]:
            self.assertGreater(min(rates["copy_GBps"], *rates["reduce_GBps"].values()), 0)
        self.assertEqual({(it["collective"], it["ranks"], it["bytes"]) for it in told["networks"]},
                         {(name, 2, size) for name in ("all_reduce", "reduce") for size in (64, 8192)})
        simulated = rondo("sim", "--table", path, "--ranks", 2, "--bytes", "2K", "--algorithm", "ring", "--json", "-")
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        self.assertGreater(json.loads(simulated.stdout)["time_us"], 0)
        self.assertGreater(len(told["fits"]), 5)
        info = json.loads(rondo("info", "--json", "--ranks", 2, RONDO_TUNING_FILE=str(path)).stdout)
        self.assertEqual(info["tuning"]["table"], str(path))
        self.assertEqual(info["tuning"]["rows"], len(told["rows"]))
        oversubscribed = info["plans"]["oversubscribed"]
        small = next(it for it in info["plans"]["choices"] if it["collective"] == "all_reduce")
        row = next(it for it in told["rows"]
                   if it["collective"] == "all_reduce" and it["oversubscribed"] == oversubscribed)
        self.assertEqual([small[key] for key in ("algorithm", "protocol", "channels")],
                         [row[key] for key in ("algorithm", "protocol", "channels")])
        self.assertEqual(rondo("run", "-n", 2, "--", RONDO, "perf", "all_reduce", "-e", "8K",
                               RONDO_TUNING_FILE=str(path)).returncode, 0)

    def test_times_that_other_programs_disturbed_choose_nothing(self):
        path = self.folder / "tuning.json"
        spin = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
        busy = [subprocess.Popen([sys.executable, "-c", spin]) for _ in os.sched_getaffinity(0)]
        self.addCleanup(lambda: [(process.kill(), process.wait()) for process in busy])
        # A run of this size is much longer than the ticks of 10 ms by which the kernel counts time.
        done = rondo("tune", "--ranks", 2, "--collectives", "broadcast", "--sizes", "16M", "--rounds", 1, "-o", path,
                     TMPDIR=str(self.folder))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"\b16M  is left out of the table: other programs disturbed every run")
        self.assertIn("no table is written", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_run_that_is_ended_leaves_nothing_behind(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            running = subprocess.Popen([RONDO, "tune", "--quick", "--ranks", "2", "-o", self.folder / "tuning.json"],
                                       env={**os.environ, "TMPDIR": str(self.folder)},
                                       preexec_fn=partial(signal.signal, number, signal.SIG_DFL),
                                       stderr=subprocess.PIPE, text=True)
            for line in running.stderr:
                if "auto (" in line:  # the first candidate was measured
                    break
            running.send_signal(number)
            told = running.communicate(timeout=60)[1]
            self.assertEqual(running.returncode, 1)
            self.assertIn("rondo perf ended with status", told)
            self.assertEqual(os.listdir(self.folder), [])

    def perf(self, table_path, *words):
        """Returns the algorithms that two ranks used for 1 KiB and for 4 KiB. Their results are verified."""
        results = self.folder / "perf.json"
        done = rondo("run", "-n", 2, "--", RONDO, "perf", "all_reduce", "-b", "1K", "-e", "4K", "--json", results,
                     *words, RONDO_TUNING_FILE=table_path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [row["algorithm"] for row in json.loads(results.read_text())["results"]]

    def test_ranks_take_the_plan_of_the_table_and_results_stay_right(self):
        for algorithm in ("ring", "tree", "halving_doubling"):  # without a table, at most one of them would be chosen
            path = self.write("table.json", table(*both_ways(algorithm=algorithm, channels=1)))
            self.assertEqual(self.perf(path), [algorithm] * 2)
            self.assertEqual(self.perf(path, "--algorithm", "two_shot"), ["two_shot"] * 2)

    def test_a_file_that_cannot_be_used_fails_every_rank_with_file_and_place(self):
        unknown = json.loads(table(ROW))
        unknown["rows"][0]["algorithm"] = "star"
        for path, part in [(self.write("a", "{"), "this is not JSON from byte"),
                           (self.write("b", table(ROW).replace('"version": 1', '"version": 9')), "version: is 9"),
                           (self.write("c", json.dumps(unknown)), "rows[0]: algorithm: 'star' is unknown"),
                           (self.write("d", table(ROW, ROW)), "rows[1]: out of order"),
                           (str(self.folder / "none"), "cannot be opened")]:
            ranks = run_job(RANK, 2, ["sum", "1", "8"], environment={"RONDO_TUNING_FILE": path})
            for rank in ranks.values():
                self.assertIn(path, rank.output)
                self.assertIn(part, rank.output)
                self.assertIn("rondo tune -o FILE", rank.output)
                self.assertNotEqual(rank.process.returncode, 0)
            done = rondo("info", RONDO_TUNING_FILE=path)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(part, done.stderr)

    def test_ranks_with_different_tables_are_refused_by_name(self):
        one, other = self.write("one", table(*both_ways())), self.write("other", table(*both_ways(channels=1)))
        same = self.write("same", json.dumps(json.loads(table(*both_ways())) | {"created": "another day"}))
        for mine, fits in [({"RONDO_TUNING_FILE": other}, False), ({}, False), ({"RONDO_TUNING_FILE": same}, True)]:
            ranks = run_job(RANK, 2, ["sum", "1", "8"],
                            own_environment={0: {"RONDO_TUNING_FILE": one}, 1: mine})
            for rank in ranks.values():
                self.assertEqual(rank.process.returncode == 0, fits, rank.output)
                if not fits:
                    self.assertIn("ranks 0 and 1 differ in the tuning table (RONDO_TUNING_FILE", rank.output)

    def test_what_cannot_be_measured_is_answered_before_anything_is(self):
        for words, variables, status, part in [
                (["--ranks", "1"], {}, 2, "--ranks"), (["--sizes", "x"], {}, 2, "--sizes"),
                (["-o", "/nonexistent/t.json"], {}, 2, "/nonexistent/t.json"),
                (["--json", "/nonexistent/t.json"], {}, 2, "/nonexistent/t.json"),
                (["--json", "-o", "t.json"], {}, 2, "name the same file"),
                (["--hosts", "-o", "t.json"], {}, 2, "such as --hosts a:4,b:4"),
                ([], {"RONDO_TOPOLOGY_FILE": "/tmp/x.xml"}, 2, "RONDO_TOPOLOGY_FILE"),
                ([], {"RONDO_WAIT": "never"}, 2, "RONDO_WAIT: 'never'"),
                (["--quick", "--ranks", "2", "-o", str(self.folder / "t")], {"TMPDIR": "/nonexistent"}, 1, "TMPDIR")]:
            done = rondo("tune", *words, **variables)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(part, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_the_table_goes_to_standard_output_and_what_is_for_people_elsewhere(self):
        done = rondo("tune", "--quick", "--ranks", 2, "--sizes", 64, "--keep-disturbed", "--json",
                     TMPDIR=str(self.folder))
        self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: a choice was not the best on a busy machine
        self.assertEqual({row["collective"] for row in json.loads(done.stdout)["rows"]}, {"all_reduce"})
        self.assertIn("The worst choice takes", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_ranks_that_fail_fail_the_measurement(self):
        path = self.folder / "t.json"
        words = ("tune", "--quick", "--ranks", 2, "--sizes", 64, "-o", path)
        wrong = rondo(*words, RONDO_INTERFACE="192.0.2.1")
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("rondo perf: rondo_comm_init_env: invalid argument: RONDO_INTERFACE", wrong.stderr)
        done = rondo(*words, RONDO_INIT_TIMEOUT="0.001")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("rondo perf ended with status", done.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if "partial" in name], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
