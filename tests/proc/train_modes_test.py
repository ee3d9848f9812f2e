# SPDX-License-Identifier: Apache-2.0
"""Compares modes of `rondo train` with synchronous training: local SGD, and a server with bounded staleness."""

import sys
import unittest
from pathlib import Path

from train_support import TrainCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

TrainCase.rondo = sys.argv.pop(1)


class Modes(TrainCase):
    def test_ranks_that_take_the_mean_after_some_steps_learn_too_and_tell_each_other_less(self):
        sync = self.train(2, "--steps", 40, report="sync")
        runs = {steps: self.train(2, "--steps", 40, "--mode", "local-sgd", "--local-steps", steps, report=str(steps))
                for steps in (1, 4, 7)}
        first, last = sync["loss"]["train"][0][1], sync["loss"]["validation"][-1]["loss"]
        for steps, run in runs.items():
            with self.subTest(steps=steps):
                communicating = [step["step"] for step in run["steps"] if step["time_us"]["communication"] > 0]
                self.assertEqual(communicating, sorted({*range(steps, 41, steps), 40}))
                self.assertEqual(run["mode"], "local-sgd")
                self.assertGreater(run["speedup"], 0)
                self.assertIsNone(run["overlap"])
                self.assertLess(run["loss"]["validation"][-1]["loss"] - last, 0.25 * (first - last))
                # In the first step all modes have the same parameters, and the loss is the mean over the same samples.
                self.assertAlmostEqual(run["loss"]["train"][0][1], first, places=9)
        self.assertEqual(len({str(self.losses(run)[0]) for run in (sync, *runs.values())}), 4)

    def test_one_rank_alone_learns_in_all_ways_the_same(self):
        sync = self.train(1, "--steps", 10, report="sync")
        local = self.train(1, "--steps", 10, "--mode", "local-sgd", "--local-steps", 3, report="local")
        worker = self.train(2, "--steps", 10, "--mode", "async-ps", report="worker")
        self.assertEqual(self.losses(local), self.losses(sync))
        self.assertEqual(self.losses(worker), self.losses(sync))
        self.assertEqual(worker["staleness"]["max"], 0)

    def test_local_sgd_goes_on_from_a_checkpoint_bit_for_bit(self):
        checkpoint = self.folder / "run.ckpt"
        arguments = ("--mode", "local-sgd", "--local-steps", 3, "--learning-rate", 1e-2, "--warmup", 100,
                     "--checkpoint", checkpoint, "--checkpoint-every", 4, "--check-every", 1)
        whole = self.train(2, "--steps", 12, *arguments, report="whole")
        self.train(2, "--steps", 6, *arguments, report="begun")
        resumed = self.train(2, "--steps", 12, *arguments, "--resume", checkpoint, report="resumed")
        self.assertEqual(len(resumed["steps"]), 6)
        self.assertEqual(self.losses(resumed)[0], self.losses(whole)[0])
        rest = ("--steps", 20, "--resume", checkpoint, "--learning-rate", 1e-2, "--warmup", 100)
        self.refused(('mode is "local-sgd" there and "sync" here',), *rest, ranks=2)
        self.refused(("local-steps is 3 there and 4 here",), *rest, "--mode", "local-sgd", "--local-steps", 4, ranks=2)

    def test_a_parameter_server_learns_and_bounds_how_far_a_worker_may_be_ahead(self):
        sync = self.train(2, "--steps", 40, report="sync")
        first, last = sync["loss"]["train"][0][1], sync["loss"]["validation"][-1]["loss"]
        for bound in (0, 5):
            # Even on a busy machine, the other worker is faster than the delayed one.
            run = self.train(3, "--steps", 40, "--mode", "async-ps", "--staleness", bound, "--delay", "1:150",
                             report=f"{bound}")
            with self.subTest(bound=bound, staleness=run["staleness"]):
                self.assertEqual(run["staleness"]["lead_max"], bound)  # the worker without a delay reaches the bound
                self.assertEqual(run["settings"]["samples_a_step"], 8)
                self.assertLess(run["loss"]["validation"][-1]["loss"] - last, 0.25 * (first - last))
                self.assertEqual(len(run["loss"]["train"]), 40)
                if bound:
                    self.assertGreater(run["staleness"]["max"], 2)

    def test_a_worker_that_is_killed_ends_the_server_and_the_other_workers(self):
        ranks = self.start_ranks(3, "--steps", 1_000_000, "--mode", "async-ps")
        self.assertIn("step 1/", ranks[1].stdout.readline())
        ranks[2].kill()
        for rank in (0, 1):
            _, err = ranks[rank].communicate(timeout=240)
            self.assertEqual(ranks[rank].returncode, 3, err)
            self.assertRegex(err, rf"rank {rank}: rondo_(recv|send): ")
            self.assertIn(f"these ranks are the ranks 0, {2 - rank} of the run", err)
            self.assertIn(f"it is about rank {2 - 2 * rank} of the run", err)  # rank 1 learns of the server's end

    def test_what_a_mode_does_not_go_with_is_refused(self):
        for words, arguments in {("unknown --mode 'gossip'", "local-sgd"): ("--mode", "gossip"),
                                 ("--mode sync only",): ("--mode", "local-sgd", "--zero", 1),
                                 ("no --checkpoint",): ("--mode", "async-ps", "--checkpoint", self.folder / "x"),
                                 ("at least one worker",): ("--mode", "async-ps"),
                                 ("--delay", "RANK:MS"): ("--delay", "x")}.items():
            with self.subTest(arguments=arguments):
                self.refused(words, *arguments)


if __name__ == "__main__":
    unittest.main(verbosity=2)
