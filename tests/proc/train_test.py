# SPDX-License-Identifier: Apache-2.0
"""Tests the results of the ranks of `rondo train`, and its report."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

from terminal import watched
from train_support import SMALL, TrainCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import quarter_of_cases_in_every_build  # noqa: E402

load_tests = quarter_of_cases_in_every_build

TrainCase.rondo = sys.argv.pop(1)


class Ranks(TrainCase):
    def test_two_ranks_learn_what_one_rank_with_the_same_batch_learns_bit_for_bit(self):
        two = self.train(2, "--steps", 12, "--validate-every", 4, report="two")
        one = self.train(1, "--steps", 12, "--validate-every", 4, "--accumulate", 2, report="one")
        self.assertEqual(self.losses(two), self.losses(one))
        self.assertEqual((len(self.losses(two)[0]), len(self.losses(two)[1])), (12, 3))
        self.assertLess(two["loss"]["train"][-1][1], two["loss"]["train"][0][1] - 0.3)

    def test_four_ranks_stay_within_a_percent_of_one(self):
        four = self.train(4, "--steps", 12, "--validate-every", 4, report="four")
        one = self.train(1, "--steps", 12, "--validate-every", 4, "--accumulate", 4, report="one")
        for mine, other in zip(self.losses(four)[1], self.losses(one)[1]):
            self.assertLess(abs(mine - other), 0.01 * other)

    def test_the_mean_is_over_all_samples_however_they_are_dealt_out(self):
        runs = [self.train(ranks, *words, "--steps", 3, "--learning-rate", 1e-9, report=f"run{at}", model=SMALL[:-2])
                for at, (ranks, words) in enumerate({1: ("--batch", 8), 2: ("--batch", 4), 4: ("--batch", 2)}.items())]
        for step in range(3):
            for name in ("loss", "gradient_norm"):
                one, two, four = (run["steps"][step][name] for run in runs)
                self.assertLess(abs(one - two) + abs(one - four), 1e-3 * one, name)

    def test_overlap_and_bucket_size_change_no_bit(self):
        runs = {name: self.train(2, "--steps", 8, *words, report=name) for name, words in {
            "overlap": ["--bucket-mb", 0.02], "no-overlap": ["--bucket-mb", 0.02, "--no-overlap"],
            "one-bucket": ["--bucket-mb", 25]}.items()}
        self.assertEqual(self.losses(runs["overlap"]), self.losses(runs["no-overlap"]))
        self.assertEqual(self.losses(runs["overlap"]), self.losses(runs["one-bucket"]))
        self.assertGreater(runs["overlap"]["buckets"], 4)
        self.assertEqual(runs["one-bucket"]["buckets"], 1)
        self.assertEqual([runs[name]["settings"]["overlap"] for name in runs], [True, False, True])

    def test_overlap_enqueues_buckets_during_the_backward_pass_and_no_overlap_after_it(self):
        def early(name):
            events = json.loads((self.folder / name / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
            spans = [event for event in events if event["ph"] == "X" and event["pid"] == 0]
            ends = {span["args"]["step"]: span["ts"] + span["dur"] for span in spans if span["name"] == "backward"}
            ready = [(span["args"]["ready"], ends[span["args"]["step"]])
                     for span in spans if span["name"].startswith("bucket")]
            self.assertTrue(all(span["ts"] >= span["args"].get("ready", 0) for span in spans))
            return sum(when < end for when, end in ready), len(ready)
        self.train(2, "--steps", 8, "--bucket-mb", 0.02, report="overlap")
        self.train(2, "--steps", 8, "--bucket-mb", 0.02, "--no-overlap", report="plain")
        (during, count), (plain_during, plain_count) = early("overlap"), early("plain")
        self.assertEqual((during, plain_during), (count, 0))
        self.assertEqual(count, plain_count)
        self.assertGreater(count, 16)

    def test_the_seed_decides_everything(self):
        first, again, other = (self.losses(self.train(2, "--steps", 5, "--seed", seed, report=f"run{at}"))
                               for at, seed in enumerate((7, 7, 8)))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_narrow_gradients_halve_the_bytes_and_stay_near(self):
        plain = self.train(2, "--steps", 20, report="plain")
        for wire in ("bfloat16", "float16"):
            narrow = self.train(2, "--steps", 20, "--wire", wire, report=wire)
            self.assertEqual(narrow["bytes_on_wire"] * 2, plain["bytes_on_wire"])
            mine, other = narrow["loss"]["validation"][-1]["loss"], plain["loss"]["validation"][-1]["loss"]
            self.assertNotEqual(mine, other)
            self.assertLess(abs(mine - other), 0.03 * other)

    def test_float16_gradients_beyond_its_range_are_left_out_and_the_scale_falls(self):
        # The scale begins at 65,536, so a gradient of 1 is out of range. This high learning rate causes such gradients.
        report = self.train(2, "--steps", 8, "--wire", "float16", "--learning-rate", 1, "--clip", 0)
        skipped = [step["step"] for step in report["steps"] if step.get("skipped")]
        self.assertTrue(skipped)
        self.assertLess(len(skipped), 8)

    def test_a_rank_that_diverges_is_named(self):
        status, out, err = self.call(3, "--steps", 20, "--check-every", 2, "--flip-bit", "1:5")
        self.assertEqual(status, 1, out + err)
        self.assertIn("after step 6 the parameters are no longer the same on all ranks: rank 1 differs", err)


class Progress(TrainCase):
    def test_lines_say_how_long_it_still_takes_and_a_terminal_shows_every_step(self):
        waiting = r"waiting for communication [\d.]+ ms"
        left = waiting + r", about \d+ (?:s|min) left"
        status, out, err = self.call(2, "--steps", 20, "--measure", 1, "--report", self.folder / "report")
        self.assertEqual(status, 0, err)
        steps = re.findall(r"^step (\d+)/20: .*" + left + "$", out, re.MULTILINE)
        self.assertEqual(steps, [str(step) for step in (1, *range(2, 20, 2))])
        self.assertRegex(out, r"(?m)^measuring overlap: rounds: 1, about \d+ s left$")
        status, shown = watched(self.command(1, "--steps", 20, "--validate-every", 10), output=True)
        self.assertEqual(status, 0, shown)
        lines = [line.partition("\n")[0] for line in shown.split("\r\x1b[K")]
        steps = [match[1] for line in lines if (match := re.match(r"step (\d+)/20: .*" + left + "$", line))]
        self.assertEqual(steps, [str(step) for step in range(1, 20)])
        self.assertRegex(lines[-2], rf"^step 20/20: .*{waiting}\r?$")
        self.assertEqual([line.split(":")[0] for line in lines if "validation" in line],
                         ["validation after step 10", "validation after step 20"])


class Report(TrainCase):
    def test_the_library_and_the_trainer_count_the_same_time(self):
        # Rank 0 waits for rank 1 in each step. timed_train_test.py checks how close the counts are.
        report = self.train(2, "--steps", 8, "--delay", "1:400")
        for count in (report["time_us"]["waiting"], report["time_us"]["in_flight"],
                      report["library"]["exposed_us"], report["library"]["in_flight_us"]):
            self.assertGreater(count, 300_000)

    def test_the_wait_for_a_late_rank_is_no_communication(self):
        for words in (), ("--zero", 1), ("--mode", "local-sgd", "--local-steps", 1):
            with self.subTest(words=words):
                report = self.train(2, "--steps", 8, "--delay", "1:400", *words)
                self.assertGreater(report["time_us"]["skew"], 200_000)
                for step in report["steps"]:
                    time = step["time_us"]
                    self.assertAlmostEqual(time["skew"] + time["communication"], time["in_flight"], places=2)
                    self.assertLessEqual(time["exposed"], time["communication"])
                    self.assertLessEqual(time["exposed"], time["waiting"])

    def test_the_report_has_its_fields_and_they_agree(self):
        report = self.train(2, "--steps", 10, "--bucket-mb", 0.02, "--measure", 3)
        self.assertEqual((report["model"], report["ranks"], report["mode"]), ("custom", 2, "sync"))
        self.assertEqual(report["bytes_on_wire"], 4 * report["parameters"])
        # One all-reduce is not of a bucket: it sums the losses of two batches.
        library = report["library"]
        self.assertEqual((library["operations"], library["bytes"]),
                         (report["buckets"] + 1, report["bytes_on_wire"] + 2 * 8))
        self.assertLessEqual(library["exposed_us"], library["in_flight_us"])
        self.assertEqual(len(report["steps"]), 10)
        self.assertGreater(report["samples_per_second"], 0)
        self.assertGreater(report["speedup"], 0)
        parts = ("forward", "backward", "optimizer", "data_wait", "waiting", "in_flight", "skew", "communication",
                 "exposed", "joint", "stage_wait", "step")
        for step in report["steps"]:
            time = step["time_us"]
            self.assertEqual(set(time), set(parts))
            self.assertLessEqual(sum(time[part] for part in ("forward", "backward", "optimizer", "data_wait",
                                                             "waiting")), time["step"])
            self.assertAlmostEqual(time["skew"] + time["communication"], time["in_flight"], places=2)
            self.assertLessEqual(time["exposed"], min(time["communication"], time["waiting"]))
            self.assertGreater(time["communication"], 0)
        self.assertLessEqual(report["time_us"]["exposed"], report["time_us"]["communication"])
        for values in report["measurement"].values():
            self.assertTrue(values["min"] <= values["median"] <= values["max"], values)
        self.assertIsNone(report["overlap"]["efficiency"])  # three rounds are too few
        self.assertIn("too few rounds to tell", report["overlap"]["headline"])
        memory = report["memory_bytes"]
        self.assertEqual(memory["parameters"], 4 * report["parameters"])
        self.assertEqual(memory["optimizer"], 8 * report["parameters"])
        self.assertLessEqual(sum(memory[part] for part in ("parameters", "gradients", "optimizer", "activations")),
                             memory["process_peak"])

    def test_the_timeline_has_both_lanes_of_every_rank(self):
        self.train(3, "--steps", 6)
        events = json.loads((self.folder / "report" / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
        lanes = {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"}
        self.assertEqual(lanes, {(rank, lane) for rank in range(3) for lane in range(2)})
        self.assertTrue(all(event["dur"] >= 0 for event in events if event["ph"] == "X"))

    def test_the_page_stands_alone(self):
        self.train(2, "--steps", 6)
        page = (self.folder / "report" / "report.html").read_text(encoding="utf-8")
        for word in ("http://", "https://", "<link", "src="):
            self.assertNotIn(word, page)
        self.assertIn("const report = {", page)
        self.assertTrue(page.endswith("</html>\n"))

    def test_text_report_and_page_have_the_same_figures_and_the_page_explains_each(self):
        for ranks, words, told, efficient in (
                (2, ("--measure", 6), r" with overlap, .* without: (too small to tell|[\d.]+ % (less|more)) \(", True),
                (2, ("--measure", 2, "--no-overlap"), r" without overlap \(.* to .*\)$", False),
                (1, ("--measure", 2), r"; one rank has nothing to overlap$", False)):
            with self.subTest(ranks=ranks, words=words):
                folder = self.folder / f"{ranks}{len(words)}"
                status, out, err = self.call(ranks, "--steps", 4, *words, "--report", folder)
                self.assertEqual((status, err), (0, ""), out)
                report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
                overlap, rate = report["overlap"], report["rate"]
                self.assertRegex(overlap["headline"], r"^a step takes [\d.]+ (us|ms)" + told)
                self.assertIn(f"\noverlap: {overlap['headline']}\n", out)
                self.assertIn(f"\ncomputation: {rate['headline']}\n", out)
                self.assertGreater(min(rate["tflops"]["median"], rate["product_tflops"]["median"]), 0)
                page = (folder / "report.html").read_text(encoding="utf-8")
                tiles = json.loads(re.search(r"^const tiles = (\[.*\]);$", page, re.MULTILINE)[1])
                self.assertEqual(tiles[0][0], overlap["headline"])
                self.assertTrue(all(len(meaning) > 40 for _, _, meaning in tiles), tiles)
                shown = {name: figure for figure, name, _ in tiles}.get("overlap efficiency")
                self.assertEqual(shown, overlap["efficiency_text"])
                self.assertEqual(shown is not None, efficient)
                self.assertEqual(f"\noverlap efficiency: {shown}\n" in out, efficient)
                self.assertEqual("overlap efficiency" in out, efficient)

    def test_the_report_alone_goes_to_standard_output_or_a_file_and_lines_for_people_elsewhere(self):
        status, out, err = self.call(1, "--steps", 2, "--measure", 0, "--json")
        self.assertEqual(status, 0, err)
        self.assertEqual((json.loads(out)["ranks"], len(json.loads(out)["steps"])), (1, 2))
        self.assertIn("step 2/2", err)
        status, out, err = self.call(1, "--steps", 2, "--measure", 0, "--json", self.folder / "r.json")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("step 2/2", out)
        self.assertEqual(json.loads((self.folder / "r.json").read_text(encoding="utf-8"))["ranks"], 1)

    def test_the_named_models_have_their_sizes_and_the_default_corpus_is_there(self):
        report = self.train(1, "--model", "Nano", "--steps", 1, "--batch", 2, "--validation-batches", 1, "--measure", 0,
                            "--corpus", self.corpus, model=())
        self.assertEqual((report["model"], report["parameters"]), ("nano", 224_640))
        status, out, err = self.call(1, "--steps", 1, "--report", self.folder / "default", "--corpus",
                                     "/usr/share/common-licenses", model=SMALL)
        self.assertEqual((status, err), (0, ""), out)


class Refusals(TrainCase):
    def test_bad_options_are_named_before_anything_starts(self):
        for words, arguments in {
            ("unknown model 'huge'", "nano, tiny, small, gpt2"): ("--model", "huge"),
            ("multiples of 16", "40"): ("--width", 40),
            ("cannot be divided among 3 heads",): ("--heads", 3),
            ("--layers is 0", "1 to 256"): ("--layers", 0),
            ("unknown --wire 'int8'", "float32, bfloat16, float16"): ("--wire", "int8"),
            ("--checkpoint FILE",): ("--checkpoint-every", 5),
            ("--steps",): ("--steps", 0),
            ("--batch",): ("--batch", -1),
            ("--nonsense", "--help"): ("--nonsense",),
            ("RANK:STEP",): ("--flip-bit", "3"),
            ("cannot write", "name a file in a folder that exists"): ("--json", self.folder / "none" / "r.json"),
        }.items():
            with self.subTest(arguments=arguments):
                rest = [pair for pair in zip(SMALL[::2], SMALL[1::2]) if pair[0] not in arguments]
                self.refused(words, *arguments, model=[word for pair in rest for word in pair])

    def test_ranks_whose_options_differ_are_refused(self):
        for option, values in {
            "--learning-rate": ("1e-7", "4e-7"), "--weight-decay": (0.1, 0.2), "--warmup": (10, 11),
            "--checkpoint-every": (2, 3), "--clip": (1, 2), "--zero": (0, 1),
        }.items():
            with self.subTest(option=option):
                command = self.command(1, "--steps", 4, "--checkpoint", self.folder / "c", option, "$value")
                words = " ".join(command).replace("$value", '"$value"')
                script = f"if [ $RONDO_RANK = 0 ]; then value={values[0]}; else value={values[1]}; fi; exec {words}"
                done = subprocess.run([self.rondo, "run", "-n", "2", "--", "sh", "-c", script], capture_output=True,
                                      text=True, timeout=240, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("rank 1 has other options or another corpus than rank 0", done.stderr)

    def test_a_corpus_that_cannot_serve_is_named(self):
        empty, short, locked = (self.folder / name for name in ("empty", "short", "locked"))
        empty.write_bytes(b"")
        short.write_bytes(b"x" * 100)
        locked.symlink_to(locked)  # even root cannot resolve this path
        self.refused(("no-such-file", "--corpus"), "--corpus", self.folder / "no-such-file")
        self.refused(("are empty", "--corpus"), "--corpus", empty)
        self.refused(("100 bytes are too few", "smaller --batch"), "--corpus", short)
        self.refused(("cannot read", "locked"), "--corpus", locked)
        self.refused(("cannot read", "/dev/null"), "--corpus", "/dev/null")

    def test_a_report_folder_that_cannot_be_made_is_named(self):
        self.refused(("cannot make the folder", "--report"), "--report", self.corpus / "below")

    def test_too_few_samples_for_all_ranks_are_refused(self):
        short = self.folder / "short"
        short.write_bytes(b"abcd" * 200)  # it has samples for three ranks, not for eight
        self.refused(("too few", "a step takes 32"), "--corpus", short, ranks=8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
