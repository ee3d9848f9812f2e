# SPDX-License-Identifier: Apache-2.0
"""Tests the tables and the picture that bench/compare makes of recorded runs.

usage: compare_report_test.py"""

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

from compare_support import SETTING, floor, line, row  # finds the modules below, too
import compare
import peers
import plot
import report
import results
import settings


class Report(unittest.TestCase):
    def test_ratios_are_taken_within_one_state_only(self):
        rows = [row("rondo", 2.0), row("rondo", 6.0, "far"), row("fast", 4.0), row("fast", 1.0, "far"),
                row("slow", 5.0), row("rondo", 9.0, size=256), row("fast", 3.0, "far", size=256)]
        self.assertEqual(line(rows).ratios, (0.5,))
        self.assertEqual(line(rows, "far").ratios, (6.0,))
        self.assertEqual(line(rows, size=256).ratios, (None,))  # the peer was only measured on far cores

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
        text = self.told(setting, rows[:6], sizes)  # no rows of the last size, and no floor
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
        _, curves, _ = self.picture(found, [SETTING], ["fast", "slow"], [64, 256, 1024])
        # One curve is in the summary. Each state has three contenders and a ratio. The state "near" also has a floor.
        self.assertEqual(len(curves), 1 + (3 + 1 + 1) + (3 + 1))
        self.assertTrue(all(len(each.get_xdata()) == 3 for each in curves))

    def picture(self, found, chosen, contenders, sizes):
        """Returns the panel of the summary or None, the curves, and how many of their points are hollow."""
        try:
            plot.require()
        except peers.Missing as why:
            print(f"skipped: compare report: {why}")
            self.skipTest(str(why))
        parts = list(report.sections(found, chosen, contenders, sizes, 2))
        panels = plot.picture(parts, sizes).axes
        lines = [each for panel in panels for each in panel.get_lines()]
        return (next((panel for panel in panels if panel.get_gid() == "summary"), None), self.curves(lines),
                sum(len(each.get_xdata()) for each in lines if each.get_label() == plot.HOLLOW))

    @staticmethod
    def curves(lines):
        """Returns the lines that are neither a level nor hollow points."""
        return [each for each in lines if each.get_label()[0] != "_" and not each.get_label().startswith("bar ")]

    def test_the_summary_has_a_line_for_each_setting_in_the_state_with_the_most_ratios_and_of_sure_ones_only(self):
        chosen = [self.named(name) for name in ("private-in-place", "mapped-in-place", "half", "create")]
        sizes = [64, 1 << 16, 1 << 18]
        rows = [row(name, us, "far", size) for size, count in ((64, 2), (1 << 16, 2), (1 << 18, 1))
                for name, us in (("rondo", 2.0), ("rondo-alloc", 1.0), ("rondo-registered", 3.0), ("fast", 4.0))
                for _ in range(count)]
        rows += [row(name, 1.0) for name in ("rondo", "fast") for _ in range(2)]
        rows += [row("rondo", 1.0, "far", 1 << 16, chosen[2], name) for name in ("bfloat16", "float16")] * 2
        summary, _, hollow = self.picture(results.Results(rows, 2), chosen, ["fast"], sizes)
        self.assertEqual(summary.get_title("left"), "Rondo's time by that of the best peer: far")
        # If there are several kinds of buffers, the slower kind counts.
        self.assertEqual([each.get_label() for each in self.curves(summary.get_lines())],
                         ["0.50  private-in-place, 2 of 3 sizes", "0.75  mapped-in-place, 2 of 3 sizes"])
        self.assertEqual([each for each in summary.get_lines() if each.get_label() == plot.HOLLOW], [])
        # These points are at the last size. The first setting has the times of Rondo and of the peer, and a ratio. The
        # second setting has the same for two kinds of mapped buffers. The third has the time of float32 and of half.
        self.assertEqual(hollow, (2 + 1) + (3 + 2) + 1)

    def test_without_a_size_that_has_enough_runs_there_is_no_summary_and_all_points_are_hollow(self):
        found = results.Results([row("rondo", 1.0), row("fast", 4.0)], 2)
        summary, _, hollow = self.picture(found, [SETTING], ["fast"], [64])
        self.assertIsNone(summary)
        self.assertEqual(hollow, 3)

    def test_a_state_in_which_no_peer_was_measured_has_no_ratio_and_no_verdict(self):
        mapped = self.named("mapped-in-place")
        rows = [row(name, 1.0, "far", setting=mapped) for name in ("rondo-alloc", "rondo-registered")]
        rows += [row("fast", 1.0, "near", setting=mapped)]
        found = results.Results(rows, 1)
        alone = line(rows, "far", setting=mapped, known=())
        self.assertEqual((alone.ratios, alone.sure), ((None, None), (False, False)))
        self.assertIn("1 too few runs", report.markdown(found, [mapped], ["fast"], [64], 2))
        self.assertIsNone(self.picture(found, [mapped], ["fast"], [64])[0])

    def test_a_picture_is_an_svg_that_is_the_same_each_time(self):
        rows = [row(name, us, size=size) for size in (64, 256) for name, us in (("rondo", 1.0), ("fast", 4.0))]
        found = results.Results(rows, 1)
        self.picture(found, [SETTING], ["fast"], [64, 256])
        parts = list(report.sections(found, [SETTING], ["fast"], [64, 256], 2))
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("one.svg", "two.svg")]
            for path in paths:
                plot.save(plot.picture(parts, [64, 256]), path)
            texts = [path.read_text(encoding="utf-8") for path in paths]
        self.assertEqual(texts[0], texts[1])
        self.assertIn("ratio to the best", texts[0])

    def test_without_matplotlib_a_picture_is_refused_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("importlib.util.find_spec", return_value=None), \
                mock.patch.object(compare, "say") as say, mock.patch.object(compare, "measure") as measure:
            self.assertEqual(compare.main(["--plot", f"{folder}/x.svg"]), 2)
        measure.assert_not_called()
        self.assertIn("python3-matplotlib", say.call_args.args[0])

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
