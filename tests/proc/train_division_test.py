# SPDX-License-Identifier: Apache-2.0
"""Tests how ranks of `rondo train` divide the work and the memory, and what they send each other. Each option must have
a visible effect."""

import sys
import unittest
from pathlib import Path

from train_support import SMALL, TrainCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import SANITIZED, quarter_of_cases_in_every_build, some_of  # noqa: E402

load_tests = quarter_of_cases_in_every_build

TrainCase.rondo = sys.argv.pop(1)

# The model is large enough for its arrays to be most of the process's memory.
LARGE = ("--width", 192, "--layers", 4, "--heads", 4, "--context", 128, "--batch", 8)


# This model has a layer for each of four stages.
DEEP = ("--width", 32, "--layers", 4, "--heads", 2, "--context", 32, "--batch", 4)


class Division(TrainCase):
    def near(self, one, other, share):
        for mine, its in zip(self.losses(one)[0] + self.losses(one)[1], self.losses(other)[0] + self.losses(other)[1]):
            self.assertLess(abs(mine - its), share * its)

    def test_ranks_that_update_shares_learn_the_same_and_have_fewer_moments(self):
        cases = [(ranks, words) for ranks in (2, 3) for words in ((), ("--wire", "bfloat16"), ("--wire", "float16"))]
        for ranks, words in some_of(cases, [(2, ()), (3, ("--wire", "float16"))], "types of gradients and ranks"):
            # Without clipping, no norm depends on the order of sums, and a sum of two ranks has only one order.
            arguments = ("--steps", 12, "--clip", 0, "--bucket-mb", 0.02, *words)
            plain = self.train(ranks, *arguments, report="plain")
            zero = self.train(ranks, *arguments, "--zero", 1, report="zero")
            with self.subTest(ranks=ranks, words=words):
                if ranks == 2:
                    self.assertEqual(self.losses(zero), self.losses(plain))
                self.near(zero, plain, 0.01)
                self.assertLess(zero["memory_bytes"]["optimizer"] * ranks, plain["memory_bytes"]["optimizer"] * 1.05)
                self.assertEqual(zero["memory_bytes"]["parameters"], plain["memory_bytes"]["parameters"])
        clipped = [self.train(2, "--steps", 12, "--clip", 0.1, *words, report=f"clip{at}")
                   for at, words in enumerate(((), ("--zero", 1)))]
        self.near(*clipped, 1e-4)
        for one, other in zip(*(run["steps"] for run in clipped)):
            self.assertAlmostEqual(one["gradient_norm"], other["gradient_norm"], places=4)

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory is the larger part")
    def test_memory_is_what_the_process_has_and_options_make_it_less(self):
        runs = {}
        for name, words in {"plain": (), "recompute": ("--recompute",), "zero": ("--zero", 1),
                            "accumulate": ("--accumulate", 2), "tensor": ("--tensor-parallel", 2),
                            "int8": ("--compress", "int8")}.items():
            # MALLOC_PERTURB_ would make the allocator write to memory that the trainer allocates and never uses.
            report = self.train(2, "--steps", 2, "--measure", 0, "--validation-batches", 1, *words, report=name,
                                model=LARGE, MALLOC_PERTURB_="0")
            memory = runs[name] = report["memory_bytes"]
            with self.subTest(name=name, memory=memory):
                parts = ("parameters", "gradients", "optimizer", "activations", "communication", "computation")
                self.assertEqual(memory["accounted"], sum(memory[part] for part in parts))
                self.assertLess(abs(memory["accounted"] - memory["measured"]), 0.03 * memory["measured"])
        less = {name: runs["plain"]["measured"] - memory["measured"] for name, memory in runs.items()}
        plain = runs["plain"]
        self.assertGreater(less["recompute"], 0.5 * plain["activations"])
        self.assertGreater(less["zero"], 0.4 * plain["optimizer"])
        self.assertGreater(less["tensor"], 0.3 * plain["activations"])
        self.assertLess(less["accumulate"], -0.9 * plain["parameters"])  # a second array of gradients
        self.assertLess(less["int8"], -0.9 * plain["parameters"])  # the remainder of the compression

    def test_activations_that_are_computed_again_change_no_bit(self):
        kept = self.train(2, "--steps", 8, report="kept")
        again = self.train(2, "--steps", 8, "--recompute", report="again")
        self.assertEqual(self.losses(kept), self.losses(again))
        self.assertLess(again["memory_bytes"]["activations"], 0.8 * kept["memory_bytes"]["activations"])

    def test_ranks_that_share_a_model_learn_what_one_rank_does(self):
        model = (*SMALL[:-4], "--context", 32, "--batch", 4)
        whole = self.train(1, "--steps", 15, "--validate-every", 5, report="whole", model=model)
        two = self.train(2, "--steps", 15, "--validate-every", 5, "--tensor-parallel", 2, report="two", model=model)
        self.near(two, whole, 1e-3)
        self.assertGreater(min(step["time_us"]["joint"] for step in two["steps"]), 0)
        self.assertEqual((two["parameters"], two["ranks"]), (whole["parameters"], 2))
        self.assertLess(two["memory_bytes"]["parameters"], whole["memory_bytes"]["parameters"])
        four = self.train(4, "--steps", 15, "--validate-every", 5, "--tensor-parallel", 2, "--zero", 1, report="four",
                          model=model)
        data = self.train(2, "--steps", 15, "--validate-every", 5, report="data", model=model)
        self.near(four, data, 1e-3)
        self.assertNotEqual(self.losses(two), self.losses(data))

    def test_stages_of_a_pipeline_learn_what_one_rank_does(self):
        cases = [(2, 1, 1), (2, 1, 4), (2, 2, 3), (4, 1, 4), (4, 2, 2)]
        for stages, copies, passes in some_of(cases, [(2, 2, 3), (4, 1, 4)], "numbers of stages, copies and passes"):
            rest = ("--steps", 12, "--validate-every", 4, "--accumulate", passes)
            whole = self.train(copies, *rest, report="whole", model=DEEP)
            pipe = self.train(stages * copies, *rest, "--pipeline-parallel", stages, report="pipe", model=DEEP)
            with self.subTest(stages=stages, copies=copies, passes=passes):
                self.near(pipe, whole, 1e-6)
                for one, other in zip(pipe["steps"], whole["steps"]):
                    self.assertAlmostEqual(one["gradient_norm"], other["gradient_norm"], places=3)
                self.assertEqual((pipe["parameters"], pipe["ranks"]), (whole["parameters"], stages * copies))
                self.assertLess(pipe["memory_bytes"]["parameters"], whole["memory_bytes"]["parameters"])
                ideal = (stages - 1) / (passes + stages - 1)
                self.assertAlmostEqual(pipe["pipeline"]["ideal_idle_share"], ideal)
                self.assertRegex(pipe["pipeline"]["headline"], rf"ideally (idle )?{100 * ideal:.0f} %")
                self.assertIsNone(whole["pipeline"])
                self.assertGreater(min(step["time_us"]["stage_wait"] for step in pipe["steps"]), 0)

    def test_a_pipeline_goes_with_what_saves_memory_and_bytes(self):
        rest = ("--steps", 8, "--accumulate", 2)
        plain = self.train(2, *rest, report="plain", model=DEEP)
        for words, share in ((("--recompute",), 1e-4), (("--zero", 1), 1e-4), (("--wire", "bfloat16"), 1e-2),
                             (("--wire", "float16"), 1e-2), (("--no-overlap",), 1e-4)):
            pipe = self.train(4, *rest, "--pipeline-parallel", 2, *words, report="pipe", model=DEEP)
            with self.subTest(words=words):
                self.near(pipe, plain, share)

    def test_three_copies_of_a_pipeline_keep_one_token_embedding(self):
        # The order in which three ranks add depends on an element's place in its bucket, and places differ in stages.
        rest = ("--steps", 6, "--accumulate", 2, "--check-every", 1, "--bucket-mb", 1, "--measure", 0)
        whole = self.train(3, *rest, report="whole", model=DEEP)
        cases = [(), ("--zero", 1), ("--wire", "bfloat16"), ("--wire", "float16")]
        for words in some_of(cases, [("--zero", 1), ("--wire", "float16")], "types of gradients of three copies"):
            pipe = self.train(6, *rest, "--pipeline-parallel", 2, *words, report="pipe", model=DEEP)
            with self.subTest(words=words):
                self.near(pipe, whole, 1e-2 if "--wire" in words else 1e-6)
                for one, other in zip(pipe["steps"], whole["steps"]):
                    self.assertAlmostEqual(one["gradient_norm"], other["gradient_norm"],
                                           places=1 if "--wire" in words else 3)

    def test_a_run_goes_on_with_and_without_a_pipeline(self):
        checkpoint = self.folder / "run.ckpt"
        rest = ("--accumulate", 2, "--learning-rate", 1e-2, "--warmup", 100)
        whole = self.train(1, "--steps", 8, *rest, report="whole", model=DEEP)
        for begun, resumed in ((2, 4), (4, 1), (1, 2)):
            self.train(begun, "--steps", 4, *rest, "--pipeline-parallel", begun, "--checkpoint", checkpoint,
                       report="begun", model=DEEP)
            rested = self.train(resumed, "--steps", 8, *rest, "--pipeline-parallel", resumed, "--resume", checkpoint,
                                report="resumed", model=DEEP)
            self.assertEqual(len(rested["steps"]), 4)
            self.near(rested, whole, 1e-4)

    def test_a_stage_that_dies_is_named_by_its_number_in_the_run(self):
        ranks = self.start_ranks(4, "--steps", 1_000_000, "--pipeline-parallel", 2, "--accumulate", 2)
        self.assertIn("step 1/", ranks[0].stdout.readline())
        ranks[3].kill()
        _, err = ranks[2].communicate(timeout=240)
        self.assertEqual(ranks[2].returncode, 3, err)
        # For a sum over the stages, the last words of the line name the rank in the whole run.
        self.assertRegex(err, r"rank 2: rondo_\w+: .*\brank 3\b")
        for rank in (0, 1):
            _, err = ranks[rank].communicate(timeout=240)
            self.assertEqual(ranks[rank].returncode, 3, err)

    def test_ranks_that_divide_experts_learn_what_one_rank_does(self):
        for ranks, experts in some_of([(2, 2), (2, 4), (4, 2), (4, 4)], [(2, 4), (4, 2)], "ranks and experts"):
            rest = ("--steps", 10, "--validate-every", 5, "--validation-batches", 5, "--experts", experts)
            whole = self.train(1, *rest, "--accumulate", ranks, report="whole")
            split = self.train(ranks, *rest, report="split")
            with self.subTest(ranks=ranks, experts=experts):
                self.near(split, whole, 1e-4)  # rounding may change a choice
                self.assertEqual(split["parameters"], whole["parameters"])
                self.assertLess(split["memory_bytes"]["parameters"], whole["memory_bytes"]["parameters"])
                self.assertEqual(split["experts"]["ranks"], min(ranks, experts))
                self.assertGreater(split["experts"]["bytes_sent"], 0)
                self.assertEqual(whole["experts"]["bytes_sent"], 0)

    def test_a_rank_that_diverges_is_named_among_those_that_share_models(self):
        status, out, err = self.call(4, "--steps", 8, "--check-every", 1, "--tensor-parallel", 2, "--flip-bit", "3:4")
        self.assertEqual(status, 1, out + err)
        self.assertRegex(err, "after step 4 .*: rank [13]")

    def test_compressed_gradients_are_fewer_bytes_and_still_learn(self):
        plain = self.train(2, "--steps", 40, "--bucket-mb", 0.02, report="plain")
        first, last = plain["loss"]["train"][0][1], plain["loss"]["validation"][-1]["loss"]
        self.assertEqual(plain["bytes_saved"], 0)
        for name, share in {"bf16": 0.501, "fp16": 0.501, "int8": 0.28, "topk:0.2": 0.42, "powersgd:2": 0.35}.items():
            narrow = self.train(2, "--steps", 40, "--bucket-mb", 0.02, "--compress", name, report=name)
            loss = narrow["loss"]["validation"][-1]["loss"]
            with self.subTest(name=name, loss=loss, plain=last):
                self.assertLess(narrow["bytes_on_wire"], share * plain["bytes_on_wire"])
                self.assertEqual(narrow["bytes_saved"], plain["bytes_received"] - narrow["bytes_received"])
                self.assertNotEqual(loss, last)
                self.assertLess(loss - last, 0.25 * (first - last))

    def test_compression_has_the_same_bits_with_and_without_overlap(self):
        for name in ("int8", "topk:0.05", "powersgd:2"):
            overlap, plain = (self.train(2, "--steps", 8, "--bucket-mb", 0.02, "--compress", name, flag)
                              for flag in ("--overlap", "--no-overlap"))
            self.assertEqual(self.losses(overlap), self.losses(plain))

    def test_a_run_goes_on_bit_for_bit_however_it_is_divided(self):
        for at, (ranks, words) in enumerate(((2, ("--zero", 1)), (2, ("--tensor-parallel", 2)),
                                             (4, ("--tensor-parallel", 2, "--zero", 1)), (2, ("--compress", "int8")),
                                             (4, ("--pipeline-parallel", 2, "--zero", 1, "--accumulate", 3)),
                                             (4, ("--experts", 2)),
                                             (3, ("--compress", "powersgd:2")), (2, ("--compress", "topk:0.1")))):
            checkpoint = self.folder / f"run{at}.ckpt"
            rest = ("--validation-batches", 2, "--measure", 0, *words)
            whole = self.train(ranks, "--steps", 8, *rest, "--learning-rate", 1e-2, "--warmup", 100, report="whole")
            begun = self.train(ranks, "--steps", 5, *rest, "--learning-rate", 1e-2, "--warmup", 100, "--checkpoint",
                               checkpoint, report="begun")
            self.assertEqual(self.losses(begun)[0], self.losses(whole)[0][:5])
            resumed = self.train(ranks, "--steps", 8, *rest, "--learning-rate", 1e-2, "--warmup", 100, "--resume",
                                 checkpoint, report="resumed")
            self.assertEqual(len(resumed["steps"]), 3)
            self.assertEqual(self.losses(resumed)[0], self.losses(whole)[0], words)

    def test_a_checkpoint_does_not_depend_on_how_the_ranks_divided_the_model(self):
        checkpoint = self.folder / "run.ckpt"
        self.train(4, "--steps", 4, "--tensor-parallel", 2, "--zero", 1, "--checkpoint", checkpoint)
        one = self.train(2, "--steps", 8, "--resume", checkpoint, report="one")
        other = self.train(2, "--steps", 8, "--resume", checkpoint, "--zero", 1, report="other")
        self.near(one, other, 1e-4)

    def test_what_cannot_be_divided_is_refused(self):
        for words, ranks, arguments in (
                (("2 layers", "3 stages", "--pipeline-parallel"), 1, ("--pipeline-parallel", 3)),
                (("number of ranks, 3,", "multiple of the 2 of --pipeline-parallel"), 3, ("--pipeline-parallel", 2)),
                (("--pipeline-parallel", "leave out"), 1, ("--pipeline-parallel", 2, "--tensor-parallel", 2)),
                (("--pipeline-parallel", "int8"), 1, ("--pipeline-parallel", 2, "--compress", "int8")),
                (("--experts", "leave these out"), 1, ("--experts", 2, "--pipeline-parallel", 2)),
                (("--experts", "leave these out"), 1, ("--experts", 2, "--recompute")),
                (("--mode sync only",), 1, ("--experts", 2, "--mode", "local-sgd")),
                (("--device cuda goes with",), 1, ("--experts", 2, "--device", "cuda")),
                (("2 heads", "--tensor-parallel"), 1, ("--tensor-parallel", 4)),
                (("number of ranks, 3,", "multiple of the 2 of --tensor-parallel"), 3, ("--tensor-parallel", 2)),
                (("--zero 1", "int8", "leave one"), 1, ("--zero", 1, "--compress", "int8")),
                (("unknown --compress 'int4'", "powersgd:RANK"), 1, ("--compress", "int4")),
                (("--compress", "--wire"), 1, ("--compress", "int8", "--wire", "float16")),
                (("--zero",), 1, ("--zero", 3))):
            with self.subTest(arguments=arguments):
                self.refused(words, *arguments, ranks=ranks)

    def test_what_was_left_out_is_of_the_ranks_that_left_it_out(self):
        checkpoint = self.folder / "run.ckpt"
        self.train(2, "--steps", 2, "--compress", "int8", "--checkpoint", checkpoint)
        self.refused(("ranks is 2 there and 1 here",), "--steps", 4, "--compress", "int8", "--accumulate", 2,
                     "--resume", checkpoint)


if __name__ == "__main__":
    unittest.main(verbosity=2)
