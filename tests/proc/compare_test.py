# SPDX-License-Identifier: Apache-2.0
"""bench/compare: what the report makes of recorded runs; that the harness notices wrong sums, deaths and hangs; and a
short real run of Rondo and the peers that are here.
usage: compare_test.py BUILD_FOLDER FAULTY_CONTENDER [SANITIZERS]"""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

BUILD, FAULTY = Path(sys.argv.pop(1)), sys.argv.pop(1)
SANITIZERS = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1][:1] != "-" else "none"
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/compare"))
import compare  # noqa: E402
import peers  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import runs  # noqa: E402
import settings  # noqa: E402

SETTING = replace(settings.SETTINGS[0], bar_ratio=0.5)
PARTS = ("line_us", "copy_us", "copy_streaming_us", "update_us", "read_us", "yield_us")


def row(contender, us, state="near", size=64, setting=SETTING, type_name="float32", **changes):
    run = setting.run(settings.Series(contender, contender, type_name), size)
    outcome = {"state": state, "quiet": True, "median_us": us, "back_to_back_us": us}
    return {**results.run_row(1, run, outcome), **changes}


def floor(state, size, *parts, quiet=True):
    return results.floor_row(1, size, {"state": state, "quiet": quiet, **dict(zip(PARTS, parts))})


def line(rows, state="near", size=64, setting=SETTING, known=("fast", "slow"), runs_min=1):
    found = results.Results(rows, runs_min)
    lines = list(results.lines_of(found, setting, state, known, [size], 2))
    return lines[0] if lines else None


class Report(unittest.TestCase):
    def test_ratios_are_taken_within_one_state_only(self):
        rows = [row("rondo", 2.0), row("rondo", 6.0, "far"), row("fast", 4.0), row("fast", 1.0, "far"),
                row("slow", 5.0), row("rondo", 9.0, size=256), row("fast", 3.0, "far", size=256)]
        self.assertEqual(line(rows).ratios, (0.5,))
        self.assertEqual(line(rows, "far").ratios, (6.0,))
        self.assertEqual(line(rows, size=256).ratios, (None,))  # here the peer was only seen far

    def test_what_was_mixed_disturbed_or_failed_enters_no_figure_and_is_counted(self):
        rows = [row("rondo", 2.0), row("rondo", 100.0, "mixed"), row("rondo", 100.0, "unknown"),
                row("rondo", 100.0, quiet=False), row("rondo", 100.0, error="it died"), row("fast", 4.0)]
        self.assertEqual(line(rows).ours[0].values, (2.0,))
        found = results.Results(rows, 1)
        self.assertEqual((found.mixed_count, found.disturbed_count), (2, 1))
        self.assertIn("failed 1 times: rondo, 2 ranks, float32, in place, 64: it died", report.left_out(found))
        shown = results.Results(rows, 1, with_disturbed=True)
        self.assertEqual(sorted(shown.cell("near", results.run_of(rows[0]), "median_us").values), [2.0, 100.0])

    def test_runs_of_an_older_build_of_rondo_are_left_out_and_those_of_peers_stay(self):
        rows = [{"kind": "session", "build": "old"}, row("rondo", 9.0, build="old"), row("fast", 4.0),
                {"kind": "session", "build": "new"}, row("rondo", 2.0, build="new")]
        self.assertEqual(line(rows).ours[0].values, (2.0,))
        self.assertEqual(line(rows).against[0].values, (4.0,))
        self.assertEqual(results.Results(rows, 1).older_count, 1)

    def test_medians_and_spread_are_those_of_the_runs(self):
        cell = line([row("rondo", us) for us in (5.0, 1.0, 3.0, 2.0, 4.0, 60.0)]).ours[0]
        self.assertEqual(cell.median, 3.5)
        self.assertEqual(tuple(round(value, 9) for value in cell.spread), (1.5, 32.5))
        self.assertAlmostEqual(results.geometric_mean([0.5, 2.0, 8.0]), 2.0)

    def test_a_bar_is_met_at_its_value_and_missed_beyond(self):
        for us, verdict in ((2.0, "met"), (2.000001, "missed")):
            self.assertEqual(results.judge(SETTING, line([row("rondo", us), row("fast", 4.0)])), [verdict])
        self.assertEqual(results.judge(replace(SETTING, bar_ratio=None), line([row("rondo", 2.0), row("fast", 4.0)])),
                         [""])
        create = next(setting for setting in settings.SETTINGS if setting.create)
        for us, verdict in ((100e3, "met"), (100001.0, "missed")):
            made = line([row("rondo", us, setting=create, size=0)], setting=create, size=0)
            self.assertEqual(results.judge(create, made), [verdict])

    def named(self, name):
        return next(setting for setting in settings.SETTINGS if setting.name == name)

    def test_with_two_ranks_a_tie_is_within_the_bar_and_told_and_with_more_it_is_missed(self):
        for name, verdicts in (("private-in-place", ["met", "tie", "tie", "missed"]),
                               ("ranks-4", ["met", "missed", "missed", "missed"]),
                               ("half", ["met", "missed", "missed", "missed"])):
            setting = self.named(name)
            ours, theirs = ("bfloat16", "float32") if name == "half" else ("float32", "float32")
            found = [results.judge(setting, line(
                [row("rondo", us, size=1 << 20, setting=setting, type_name=ours),
                 row("fast" if setting.against_peers else "rondo", 100.0, size=1 << 20, setting=setting,
                     type_name=theirs)], size=1 << 20, setting=setting))[0] for us in (100.0, 100.1, 110.0, 110.1)]
            self.assertEqual(found, verdicts, name)

    def told(self, setting, rows, sizes):
        return report.markdown(results.Results(rows, 1), [setting], ["fast"], sizes, 2)

    def test_a_mean_is_judged_by_its_bar_and_so_far_where_sizes_are_missing(self):
        setting = self.named("private-in-place")
        for us, kind in ((3.0, "met"), (3.01, "missed")):
            rows = [row(name, size * value, size=size) for size in (64, 256) for name, value in (("rondo", us),
                                                                                              ("fast", 4.0))]
            mean = f"rondo: geometric mean of the ratios {report.number(us / 4)} over 2 of"
            self.assertIn(f"{mean} 2 sizes: bar 0.75, {kind}\n", self.told(setting, rows, [64, 256]))
            self.assertIn(f"{mean} 3 sizes: bar 0.75, {kind} so far\n", self.told(setting, rows, [64, 256, 1024]))

    def test_bars_that_begin_at_a_size_leave_smaller_ones_out(self):
        setting, sizes = self.named("mapped-out-of-place"), [64, 1 << 18, 1 << 20, 1 << 22]
        rows = [row(name, us, size=size, setting=setting) for size, ours in zip(sizes, (300.0, 200.0, 150.0, 151.0))
                for name, us in (("rondo-alloc", ours), ("fast", 400.0))]
        rows += [floor("near", size, *[100.0] * 6) for size in sizes]
        text = self.told(setting, rows, sizes)
        self.assertIn("- rondo alloc: geometric mean of the ratios 0.48 over 4 of 4 sizes\n", text)
        self.assertIn("- rondo alloc: geometric mean of the ratios from 256K up 0.414 over 3 of 3 sizes: bar 0.5, met",
                      text)
        self.assertIn("- rondo alloc: times the floor from 1M up, bar 1.5: 1 met, 1 missed\n", text)
        text = self.told(setting, rows[:6], sizes)  # of the last size nothing, and of all no floor
        self.assertIn("over 2 of 3 sizes: bar 0.5, met so far", text)
        self.assertIn("- rondo alloc: times the floor from 1M up, bar 1.5: 2 too few runs\n", text)
        self.assertNotIn("from 1M up", self.told(setting, rows, sizes[:2]))

    def test_a_bar_of_the_command_line_takes_the_place_of_the_setting_s(self):
        options = compare.parse(["--bar", "private-in-place=1", "--bar", "half=1.2", "--bar", "create=50"])
        bars = {setting.name: (setting.bar_ratio, setting.bar_us) for setting in options.settings}
        self.assertEqual([bars[name] for name in ("private-in-place", "private-out-of-place", "half", "create")],
                         [(1.0, None), (settings.TIE_RATIO, None), (1.2, None), (None, 50.0)])
        slower = line([row("rondo", 4.1), row("fast", 4.0)])
        self.assertEqual(results.judge(options.settings[0], slower), ["missed"])

    def test_a_verdict_needs_enough_runs_of_both(self):
        def verdict(ours, theirs):
            rows = [row("rondo", 1.0)] * ours + [row("fast", 4.0)] * theirs
            return results.judge(SETTING, line(rows, runs_min=5))
        self.assertEqual([verdict(5, 5), verdict(4, 5), verdict(5, 4)], [["met"], ["too few runs"], ["too few runs"]])

    def test_the_best_peer_is_one_with_enough_runs_where_there_is_one(self):
        rows = [row("rondo", 3.0)] * 5 + [row("fast", 4.0)] * 4 + [row("slow", 6.0)] * 5
        self.assertEqual(line(rows, runs_min=5).ratios, (0.5,))
        self.assertEqual(line(rows, runs_min=4).ratios, (0.75,))

    def test_half_width_types_are_held_against_float32_for_as_many_bytes(self):
        half = next(setting for setting in settings.SETTINGS if setting.name == "half")
        rows = [row("rondo", us, size=1 << 16, setting=half, type_name=name)
                for name, us in (("float32", 10.0), ("bfloat16", 8.0), ("float16", 12.0))]
        self.assertEqual(line(rows, size=1 << 16, setting=half).ratios, (0.8, 1.2))

    def test_the_floor_is_the_largest_part_that_cannot_be_avoided(self):
        def of(setting, *parts):
            found = results.Results([floor("near", 64, *parts), floor("far", 64, *[99] * 6),
                                     floor("near", 64, *[0] * 6, quiet=False)], 1)
            return found.floor_us("near", setting.run(SETTING.ours[0], 64), 2)
        away = replace(SETTING, in_place=False)
        self.assertEqual(of(SETTING, 9, 1, 1, 1, 1, 1), 9)      # a line must cross
        self.assertEqual(of(SETTING, 1, 50, 60, 7, 8, 1), 7)    # in place: read and written
        self.assertEqual(of(away, 1, 5, 6, 70, 8, 1), 5)        # out of place: the better way to copy
        self.assertEqual(of(away, 1, 6, 5, 70, 8, 1), 5)
        self.assertEqual(of(SETTING, 1, 2, 3, 4, 40, 1), 20)    # half of the input is fresh in the peer's cache
        eight = replace(SETTING, ranks=8)
        self.assertEqual(of(eight, 50, 9, 9, 2, 1, 1), 8)       # four ranks share a core's memory
        self.assertEqual(of(eight, 50, 9, 9, 0.1, 1, 3), 9)     # and hand it over three times

    def test_the_whole_report_tells_sizes_ratios_and_bars_and_the_picture_draws_them(self):
        rows = [results.session_row({"cpu": "a processor", "cores": 2, "kernel": "6", "rondo": "0", "build": "b",
                                     "versions": {}})]
        rows += [row(name, us * size, state, size) for state in ("near", "far") for size in (64, 256, 1024)
                 for name, us in (("rondo", 1.0), ("fast", 4.0), ("slow", 8.0))]
        rows += [floor("near", size, *[0.1] * 6) for size in (64, 256, 1024)]
        found = results.Results(rows, 1)
        text = report.markdown(found, [SETTING], ["fast", "slow"], [64, 256, 1024], 2)
        self.assertIn("| 1K | 0.1 | 1024 (1024-1024) | 4096 (4096-4096) | 8192 (8192-8192) | fast | 0.25 |", text)
        self.assertIn("geometric mean of the ratios 0.25 over 3 of 3 sizes", text)
        self.assertEqual(text.count("bar 0.5: 3 met"), 2)
        parts = list(report.sections(found, [SETTING], ["fast", "slow"], [64, 256, 1024], 2))
        picture = ElementTree.fromstring(plot.svg(parts))
        lines = [element for element in picture.iter() if element.tag.endswith("polyline")]
        self.assertEqual(len(lines), (3 + 1 + 1) + (3 + 1))  # near has a floor; each state has a ratio
        self.assertTrue(all(len(each.get("points").split()) == 3 for each in lines))

    def test_means_are_over_sizes_with_enough_runs_of_all_that_were_asked_for(self):
        rows = [row(name, us * factor, size=size) for size, factor, count in ((64, 1, 5), (256, 9, 4), (1024, 1, 5))
                for name, us in (("rondo", 1.0), ("fast", factor * factor * 4.0)) for _ in range(count)]
        rows += [floor("near", size, *[part] * 6) for size, part in ((64, 0.5), (256, 0.01), (1024, 0.5))]
        text = report.markdown(results.Results(rows, 5), [SETTING], ["fast"], [16, 64, 256, 1024], 2)
        self.assertIn("geometric mean of the ratios 0.25 over 2 of 4 sizes", text)
        self.assertIn("times the floor 2 over 2 of 4 sizes", text)
        self.assertIn("each size, bar 0.5: 2 met, 2 too few runs", text)
        text = report.markdown(results.Results(rows, 6), [SETTING], ["fast"], [64, 256], 2)
        self.assertIn("geometric mean of the ratios - over 0 of 2 sizes", text)

    def test_an_empty_file_and_a_broken_one_are_told_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "raw.jsonl"
            path.write_text("", encoding="utf-8")
            self.assertIn("Nothing", report.markdown(results.Results(results.load(path), 1), [SETTING], [], [64], 2))
            results.append(path, row("rondo", 1.0))
            with open(path, "a", encoding="utf-8") as file:
                file.write('{"kind": "run", "roun')
            with self.assertRaisesRegex(results.BadFile, "raw.jsonl:2 is no row"):
                results.load(path)


class Rounds(unittest.TestCase):
    def test_a_run_that_several_settings_show_is_measured_once_a_round(self):
        options = compare.parse(["--setting", "private-in-place", "--setting", "mapped-in-place", "--sizes", "8,64K"])
        names = ("rondo", "rondo-alloc", "rondo-registered", "fast")
        there = {name: peers.Contender(name, Path(name), ours=name != "fast") for name in names}
        planned = compare.plan(options, there, 2)
        self.assertEqual(list(planned), [(2, 8), (2, 1 << 16)])  # by size, all contenders of one before the next
        for cells in planned.values():
            wanted = compare.wanting(cells, results.Results([], 1), "near", 1)
            self.assertEqual(sorted(run.contender for run in wanted), sorted(names))

    def measured(self, arguments, rows, states, names=("rondo", "fast", "slow")):
        """What a call measures, as '<contender> <bytes>', on a machine that is asked for its state before each size."""
        states, done = list(states), []

        class Machine:
            floor, core_count, now = None, 2, "near"

            def state(self):
                self.now = states.pop(0)
                return self.now, None

            def measure(self, contender, run):
                done.append(f"{contender.name} {run.bytes}")
                return {"state": self.now, "quiet": True, "median_us": 1.0, "back_to_back_us": 1.0}

        there = {name: peers.Contender(name, Path(name), version="new", ours=name[:5] == "rondo") for name in names}
        with tempfile.TemporaryDirectory() as folder:
            options = compare.parse(["--raw", f"{folder}/raw", "--setting", "private-in-place", *arguments])
            found = results.Results([*rows, {"kind": "session", "build": "new"}], 1)
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertTrue(compare.measure_rounds(options, Machine(), there, found, 2))
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
        self.assertEqual(measured(1, 1, 1, error="it died")[0], 1)  # a failure is no matter of noise

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

    def test_a_program_that_hangs_is_ended_at_its_deadline_with_all_its_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            note = Path(folder) / "pid"
            ended = runs.run_once(["sh", "-c", f"sleep 300 & echo $! > {note}; wait"], {}, 0.1)
            self.assertIn("not ready within 0.1 s", ended.error)
            child = Path(f"/proc/{note.read_text(encoding='ascii').strip()}/stat")
            end = time.monotonic() + 30
            while child.exists() and child.read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z":
                self.assertLess(time.monotonic(), end, "a process was left behind")
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

    def test_a_contender_that_is_right_passes(self):
        for placement in ([], ["--in-place"]):
            status, out, err = self.driver("none", *placement)
            self.assertEqual((status, err), (0, ""))
            result = json.loads(out)
            self.assertEqual(result["wrong"], 0)
            self.assertTrue(0 < result["min_us"] <= result["p10_us"] <= result["median_us"] <= result["p90_us"], out)

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


class Real(unittest.TestCase):
    def test_rondo_and_the_peers_that_are_here_are_measured_and_right(self):
        if SANITIZERS != "none":
            print(f"skipped: bench/compare with real contenders: its drivers are not built with {SANITIZERS}")
            return
        with tempfile.TemporaryDirectory() as folder:
            raw, picture, table = (Path(folder) / name for name in ("raw.jsonl", "picture.svg", "table.md"))
            command = [sys.executable, "-B", ROOT / "bench/compare/compare.py", "--quick", "--build", BUILD,
                       "--drivers", folder, "--raw", raw, "--plot", picture, "--report", table, "--sizes", "64K",
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
            self.assertTrue(ElementTree.parse(picture).getroot().tag.endswith("svg"))
            self.assertIn("# Comparison", table.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
