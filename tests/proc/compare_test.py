# SPDX-License-Identifier: Apache-2.0
"""Tests which runs bench/compare makes and keeps, and that the harness notices wrong sums, deaths and hangs.

usage: compare_test.py BUILD_FOLDER FAULTY_CONTENDER"""

import contextlib
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from compare_support import ROOT, floor, row  # finds the modules below, too
import compare
import keeper
import peers
import results
import runs

BUILD, FAULTY = Path(sys.argv.pop(1)), sys.argv.pop(1)


def state_of(pid):
    """Returns the state as R, S, T, Z and so on, or "" for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""

# This process prints "r" when it is ready, and "c" at each SIGCONT.
KEEPING = """import os, signal
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'c'))
os.write(1, b'r')
while True: signal.pause()
"""


class Rounds(unittest.TestCase):
    def test_a_run_that_several_settings_show_is_measured_once_a_round(self):
        options = compare.parse(["--setting", "private-in-place", "--setting", "mapped-in-place", "--sizes", "8,64K"])
        names = ("rondo", "rondo-alloc", "rondo-registered", "fast")
        there = {name: peers.Contender(name, Path(name), ours=name != "fast") for name in names}
        planned = compare.plan(options, there, 2)
        # All contenders run at one size before the next.
        self.assertEqual([key[2:] for key in planned], [(2, 8), (2, 1 << 16)])
        for cells in planned.values():
            wanted = compare.wanting(cells, results.Results([], 1), "near", 1)
            self.assertEqual(sorted(run.contender for run in wanted), sorted(names))

    def test_settings_of_several_hosts_are_measured_where_they_are_asked_for_beside_a_raw_exchange(self):
        for arguments, hosts in (([], {1}), (["--hosts"], {2})):
            self.assertEqual({setting.hosts for setting in compare.parse(arguments).settings}, hosts)
        options = compare.parse(["--setting", "hosts-2", "--setting", "hosts-2x2-200mbit", "--sizes", "4M"])
        there = {name: peers.Contender(name, Path(name), ours=name[:5] == "rondo", hosts_options=options_there,
                                       one_host=one_host)
                 for name, options_there, one_host in (("rondo", (), True), ("rondo-ring", (), False),
                                                       ("raw", (), False), ("fast", (), True), ("local", None, True))}
        runs_of = {key[:3]: [(run.contender, run.in_place) for cell in cells for run in cell]
                   for key, cells in compare.plan(options, there, 2).items()}
        self.assertEqual(runs_of, {(2, None, 2): [("raw", False), ("rondo", True), ("fast", True)],
                                   (2, "200mbit", 4): [("rondo", True), ("rondo-ring", True)]})
        one = compare.parse(["--setting", "private-in-place", "--sizes", "8"])
        self.assertEqual([run.contender for cells in compare.plan(one, there, 2).values() for run in cells[0]],
                         ["rondo", "fast", "local"])

    def measured(self, arguments, rows, states, names=("rondo", "fast", "slow"), floor_here=False):
        """Returns what a call measures, as '<contender> <bytes>'. Before each size, the machine is asked for its
        state."""
        states, done = list(states), []

        class Machine:
            floor, core_count, now = floor_here, 2, "near"

            def settled_state(self):
                self.now = states.pop(0)
                return self.now, None

            def measure_floor(self, size):
                done.append(f"floor {size}")
                return {"state": self.now, "quiet": True}

            def measure(self, contender, run):
                done.append(f"{contender.name} {run.bytes}")
                return {"state": self.now, "quiet": True, "median_us": 1.0, "back_to_back_us": 1.0}

        there = {name: peers.Contender(name, Path(name), version="new", ours=name[:5] == "rondo") for name in names}
        with tempfile.TemporaryDirectory() as folder:
            options = compare.parse(["--raw", f"{folder}/raw", "--setting", "private-in-place", *arguments])
            found = results.Results([*rows, {"kind": "session", "build": "new"}], 1)
            with contextlib.redirect_stderr(io.StringIO()):
                planned = compare.plan(options, there, Machine.core_count)
                self.assertTrue(compare.measure_rounds(options, Machine(), there, planned, found, 2))
        self.assertEqual(states, [])
        return done

    def test_fill_skips_a_size_when_all_contenders_have_their_runs_in_the_state_of_now(self):
        arguments = ["--sizes", "64", "--rounds", "1", "--fill", "2"]
        full = [row(name, 1.0) for name in ("rondo", "fast", "slow")] * 2
        everyone = ["fast 64", "rondo 64", "slow 64"]
        self.assertEqual(self.measured(arguments, full, ["near"]), [])
        self.assertEqual(sorted(self.measured(arguments, full, ["far"])), everyone)
        self.assertEqual(sorted(self.measured(arguments, full, ["unknown"])), everyone)
        self.assertEqual(sorted(self.measured(arguments, full[1:], ["near"])), everyone)  # together or not at all
        for useless in ({"quiet": False}, {"state": "mixed"}, {"error": "it died"}):
            self.assertEqual(sorted(self.measured(arguments, [*full[:5], row("slow", 1.0, **useless)], ["near"])),
                             everyone)

    def test_fill_counts_runs_of_peers_beside_any_build_and_runs_of_rondo_of_this_one(self):
        arguments = ["--sizes", "64", "--rounds", "1", "--fill", "1"]
        older = [{"kind": "session", "build": "old"}, row("rondo", 1.0, build="old"), row("fast", 1.0)]
        newer = [*older, {"kind": "session", "build": "new"}, row("rondo", 1.0, build="new")]
        self.assertEqual(sorted(self.measured(arguments, older, ["near"], ("rondo", "fast"))), ["fast 64", "rondo 64"])
        self.assertEqual(self.measured(arguments, newer, ["near"], ("rondo", "fast")), [])

    def test_fill_counts_the_runs_of_its_own_rounds_and_without_it_all_is_measured(self):
        done = self.measured(["--sizes", "64,256", "--rounds", "3", "--fill", "2"],
                             [row(name, 1.0, size=256) for name in ("rondo", "fast")] * 2, ["near"] * 6,
                             ("rondo", "fast"))
        self.assertEqual(sorted(done), ["fast 64"] * 2 + ["rondo 64"] * 2)
        self.assertEqual(len(self.measured(["--sizes", "64", "--rounds", "2"], [row("rondo", 1.0)] * 9, [])), 6)

    def test_fill_measures_a_floor_that_this_state_lacks_although_all_contenders_have_their_runs(self):
        arguments, full = ["--sizes", "64", "--rounds", "2", "--fill", "1"], [row("rondo", 1.0), row("fast", 1.0)]
        names = ("rondo", "fast")
        self.assertEqual(self.measured(arguments, full, ["near"] * 2, names, floor_here=True), ["floor 64"])
        full.append(floor("far", 64, *[1.0] * 6))
        self.assertEqual(self.measured(arguments, full, ["near"] * 2, names, floor_here=True), ["floor 64"])
        full.append(floor("near", 64, *[1.0] * 6))
        self.assertEqual(self.measured(arguments, full, ["near"] * 2, names, floor_here=True), [])

    def test_fill_leaves_a_setting_out_that_is_full_beside_one_that_is_not(self):
        names = ("rondo", "rondo-alloc", "rondo-registered", "fast")
        done = self.measured(["--setting", "mapped-in-place", "--sizes", "64", "--rounds", "1", "--fill", "1"],
                             [row(name, 1.0) for name in ("rondo", "rondo-alloc", "fast")], ["near"], names)
        self.assertEqual(sorted(done), ["fast 64", "rondo-alloc 64", "rondo-registered 64"])

    def test_a_disturbed_run_is_repeated_and_the_quietest_kept(self):
        def measured(*foreign_percents, error=None):
            left = list(foreign_percents)

            def start(*_):
                return runs.Ended('{"median_us": %d}' % len(left), error, left.pop(0), 0.0)
            outcome = runs.Machine(None, 2, 3, 0, 1, 0.1, start).quietly([], {})
            return outcome["try"], outcome["quiet"], outcome.get("median_us"), len(left)
        self.assertEqual(measured(10, 4.01, 4.0), (3, True, 1, 0))
        self.assertEqual(measured(4.0, 1, 1), (1, True, 3, 2))
        self.assertEqual(measured(10, 5, 6), (2, False, 2, 0))
        self.assertEqual(measured(1, 1, 1, error="it died")[0], 1)  # a failure does not depend on noise

    def test_a_result_that_was_written_counts_like_one_that_was_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            written, left = Path(folder) / "result", [(9.0, "first"), (0.0, "second")]

            def start(*_):
                foreign_percent, words = left.pop(0)
                written.write_text(json.dumps({"median_us": 1.0, "run": words}), encoding="ascii")
                return runs.Ended("", None, foreign_percent, 0.0)
            outcome = runs.Machine(None, 2, 3, 0, 1, 0.1, start).quietly([], {}, written=written)
            self.assertEqual((outcome["run"], outcome["try"], written.exists()), ("second", 2, False))

    def test_what_the_hypervisor_takes_disturbs_like_what_others_take(self):
        left = [(1.0, 30.0), (2.0, 2.0), (0.0, 0.0)]
        outcome = runs.Machine(None, 2, 3, 0, 1, 0.1,
                               lambda *_: runs.Ended('{"median_us": 1.0}', None, *left.pop(0))).quietly([], {})
        self.assertEqual((outcome["try"], outcome["quiet"], outcome["steal_percent"]), (2, True, 2.0))

    def test_a_run_whose_state_changes_is_mixed(self):
        def state_of(*readings):
            left = list(readings)

            def start(command, *_):
                result = {"read_64K_us": left.pop(0)} if command[-1] == "state" else {"median_us": 1.0}
                return runs.Ended(json.dumps(result), None, 0.0, 0.0)
            return runs.Machine("floor", 2, 1, 0, 1, 0.1, start).quietly(["driver"], {})["state"]
        self.assertEqual([state_of(0.9, 1.59), state_of(1.6, 2.4), state_of(0.9, 2.4)], ["near", "far", "mixed"])

    def test_a_run_whose_state_changes_is_repeated_like_a_disturbed_one(self):
        def kept(*readings, foreign_percents):
            readings, left = list(readings), list(foreign_percents)

            def start(command, *_):
                if command[-1] == "state":
                    return runs.Ended(json.dumps({"read_64K_us": readings.pop(0)}), None, 0.0, 0.0)
                return runs.Ended('{"median_us": 1.0}', None, left.pop(0), 0.0)
            outcome = runs.Machine("floor", 2, 3, 0, 1, 0.1, start).quietly(["driver"], {})
            return outcome["try"], outcome["state"], len(left)
        self.assertEqual(kept(0.9, 2.4, 2.4, 2.4, foreign_percents=[0, 1, 2]), (2, "far", 1))
        self.assertEqual(kept(0.9, 2.4, 2.4, 2.4, 2.4, 0.9, foreign_percents=[0, 9, 5]), (2, "far", 0))
        self.assertEqual(kept(0.9, 2.4, 2.4, 0.9, 0.9, 2.4, foreign_percents=[2, 0, 1]), (2, "mixed", 0))

    def test_a_state_that_is_asked_for_is_sought_before_each_try_that_would_begin_in_another(self):
        class Kept:
            state, sought, group, resumed = "far", 0, 7, 0

            def seek(self):
                self.sought += 1

            def resume(self):
                self.resumed += 1

            def busy_seconds(self):
                return 0.0

        def measured(*readings):
            left, kept, commands = list(readings), Kept(), []

            def start(command, *_, **__):
                if command[-1] != "state":
                    commands.append(command)
                result = {"read_64K_us": left.pop(0)} if command[-1] == "state" else {"median_us": 1.0}
                return runs.Ended(json.dumps(result), None, 0.0, 0.0)
            row = runs.Machine("floor", 2, 3, 0, 1, 0.1, start, kept).quietly(["driver"], {}, stops_keeper=True)
            self.assertEqual((kept.resumed, commands), (row["try"], [["driver", "--keeper", "7"]] * row["try"]))
            return row["state"], row["kept"], row["try"], kept.sought, left
        self.assertEqual(measured(2.4, 2.4), ("far", "far", 1, 0, []))
        self.assertEqual(measured(0.9, 2.4, 2.4), ("far", "far", 1, 1, []))
        self.assertEqual(measured(2.4, 0.9, 0.9, 2.4, 2.4), ("far", "far", 2, 1, []))
        self.assertEqual(measured(0.9, 0.9, 0.9), ("near", "far", 1, 1, []))  # the state is told as it was

    def test_what_the_keeper_of_a_state_uses_is_not_what_others_take(self):
        def foreign_percent(*keeping_seconds):
            ticks, left = os.sysconf("SC_CLK_TCK"), list(keeping_seconds)
            with mock.patch.object(runs, "processor_times", side_effect=[(0, 0, 0), (ticks, 0, 4 * ticks)]), \
                    mock.patch.object(runs, "own_seconds", return_value=0.0):
                return runs.run_once(["true"], {}, 60, lambda: left.pop(0)).foreign_percent
        self.assertEqual([foreign_percent(3.0, 3.0), foreign_percent(3.0, 3.5), foreign_percent(3.0, 4.0)],
                         [25.0, 12.5, 0.0])

    def test_a_program_that_hangs_is_ended_at_its_deadline_with_all_its_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            note = Path(folder) / "pid"
            communicate, deadlines = subprocess.Popen.communicate, [7 + runs.GRACE_S]

            def pass_deadline(process, *words, timeout=None):
                """Lets the deadline pass once the program hangs. The signal that ends it has its own time limit."""
                if timeout not in deadlines:
                    return communicate(process, *words, timeout=timeout)
                deadlines.clear()
                self.wait_for_file(note)
                raise subprocess.TimeoutExpired(process.args, timeout)

            with mock.patch.object(subprocess.Popen, "communicate", pass_deadline):
                ended = runs.run_once(["sh", "-c", f"sleep 300 & echo $! > {note}.new; mv {note}.new {note}; wait"],
                                      {}, 7)
            self.assertIn("not ready within 7 s", ended.error)
            self.assertEqual(deadlines, [])
            child = note.read_text(encoding="ascii").strip()
            end = time.monotonic() + 200
            while state_of(child) not in ("", "Z"):
                self.assertLess(time.monotonic(), end, "a process was left behind")
                time.sleep(0.01)

    def wait_for_file(self, path):
        end = time.monotonic() + 200
        while not path.exists():
            self.assertLess(time.monotonic(), end, f"{path.name} was not written")
            time.sleep(0.01)

    def test_wrong_use_is_refused_with_a_reason(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for arguments, reason in ((["--sizes", "7"], "multiple of 4"), (["--mpi", "openmpi=/x"], "NAME=PREFIX"),
                                  (["--bar", "nothing=1"], "no such setting"), (["--rounds", "0"], "above 0"),
                                  (["--build", folder.name], "librondo.so")):
            done = subprocess.run([sys.executable, "-B", str(ROOT / "bench/compare/compare.py"), *arguments],
                                  capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(reason, done.stderr)


class Harness(unittest.TestCase):
    def driver(self, fault, *arguments):
        done = subprocess.run([FAULTY, "--ranks", "3", "--bytes", "4096", "--seconds", "0.005", *arguments],
                              env={"FAULT": fault}, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_ranks_that_are_started_one_by_one_find_each_other(self):
        for where in ([], ["--result"]):  # a launcher cannot lose a result in a file
            with tempfile.TemporaryDirectory() as folder:
                result = Path(folder) / "result"
                control = ["--control", f"{folder}/control", *where, *([result] if where else []), "--rank"]
                pipes = {"env": {"FAULT": "none"}, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
                ranks = [subprocess.Popen([FAULTY, "--ranks", "3", "--seconds", "0.005", *control, str(rank)], **pipes)
                         for rank in range(3)]
                said = [rank.communicate(timeout=120) for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0], said)
                if where:
                    said.insert(0, (result.read_text(encoding="ascii"), ""))
            self.assertEqual(json.loads(said[0][0])["wrong"], 0)
            self.assertEqual({out for out, _ in said[1:]}, {""})

    def test_a_contender_that_is_right_passes(self):
        for placement in ([], ["--in-place"]):
            status, out, err = self.driver("none", *placement)
            self.assertEqual((status, err), (0, ""))
            result = json.loads(out)
            self.assertEqual(result["wrong"], 0)
            self.assertTrue(0 < result["min_us"] <= result["p10_us"] <= result["median_us"] <= result["p90_us"], out)

    def test_a_keeper_is_stopped_while_ranks_that_share_cores_go_back_to_back(self):
        cases = ((["--pin"], False), ([], True)) if len(os.sched_getaffinity(0)) >= 2 else (([], True),)
        for pin, stopped in cases:
            # A process receives SIGCONT even if the SIGCONT cancelled a SIGSTOP that was not delivered yet.
            keeping = subprocess.Popen([sys.executable, "-c", KEEPING], stdout=subprocess.PIPE, bufsize=0,
                                       preexec_fn=os.setpgrp)
            self.addCleanup(keeping.wait)
            self.addCleanup(keeping.kill)
            self.addCleanup(keeping.stdout.close)
            self.assertEqual(keeping.stdout.read(1), b"r")
            status, _, err = self.driver("slow", "--ranks", "2", *pin, "--keeper", str(keeping.pid))
            self.assertEqual((status, err), (0, ""))
            if stopped:
                self.assertTrue(select.select([keeping.stdout], [], [], 60)[0], "it was not told to go on")
            else:
                keeping.kill()
                self.assertEqual(keeping.stdout.read(), b"")

    def test_one_wrong_element_on_one_rank_is_found(self):
        for fault in ("sum", "input"):
            status, out, err = self.driver(fault)
            self.assertEqual((status, json.loads(out)["wrong"]), (1, 1), err)
            self.assertIn("1 elements are wrong", err)

    def test_a_rank_that_dies_or_hangs_ends_the_run_and_is_named(self):
        self.assertIn("ended by signal 6", self.driver("death")[2])
        status, out, err = self.driver("hang", "--deadline", "1")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("its deadline has passed", err)


class Keeping(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        try:
            workshop = peers.Workshop(folder.name, BUILD)
            self.floor = workshop.floor(workshop.harness())
        except peers.Missing as missing:
            print(f"skipped: bench/compare: keeping a state: {missing}")
            self.skipTest(str(missing))

    def keeping(self, low_us, high_us, patience_s, autogroup=None, floor_here=True):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        setting = Path(self.folder) / "autogroup"
        if autogroup is not None:
            setting.write_text(autogroup, encoding="ascii")
        stack.enter_context(mock.patch.object(keeper, "AUTOGROUP", setting))
        stack.enter_context(mock.patch.dict(keeper.READINGS_US, far=(low_us, high_us)))
        return stack.enter_context(keeper.keeping("far", self.floor if floor_here else None, patience_s)), stack.close

    def wait_for(self, ready, otherwise):
        """Waits with a long limit, since processes of idle priority rarely run."""
        end = time.monotonic() + 200
        while not ready():
            self.assertLess(time.monotonic(), end, otherwise)
            time.sleep(0.01)

    def test_both_cores_are_kept_busy_at_idle_priority_until_the_end(self):
        kept, end_it = self.keeping(0, 1e9, 60, autogroup="0\n")
        ranks = keeper.children_of(kept.process.pid)
        self.assertEqual(len(ranks), 2)
        self.assertEqual({os.sched_getscheduler(int(rank)) for rank in ranks}, {os.SCHED_IDLE})
        self.assertEqual(len({tuple(os.sched_getaffinity(int(rank))) for rank in ranks}), 2)
        used = kept.busy_seconds()
        self.wait_for(lambda: kept.busy_seconds() >= used + 0.05, "it does not keep the cores busy")
        os.killpg(kept.group, signal.SIGSTOP)  # a driver stops the keeper, and may end before it continues the keeper
        self.wait_for(lambda: {state_of(rank) for rank in ranks} == {"T"}, "it cannot be stopped")
        kept.resume()
        self.wait_for(lambda: "T" not in {state_of(rank) for rank in ranks}, "it does not go on")
        end_it()
        self.wait_for(lambda: not any(Path(f"/proc/{rank}").exists() for rank in ranks), "a rank was left behind")
        self.assertEqual(kept.busy_seconds(), 0.0)

    def test_a_state_that_cannot_be_kept_is_refused_with_a_reason(self):
        for reason, arguments in (("did not come within 0.05 s", {}), ("without the floor", {"floor_here": False}),
                                  ("sysctl kernel.sched_autogroup_enabled=0", {"autogroup": "1\n"})):
            with self.assertRaises(peers.Missing) as caught:
                self.keeping(1e8, 1e9, 0.05, **arguments)
            self.assertIn(reason, str(caught.exception))

    def test_without_a_state_nothing_is_kept(self):
        with keeper.keeping(None, self.floor, 1) as kept:
            self.assertIsNone(kept)


if __name__ == "__main__":
    unittest.main(verbosity=2)
