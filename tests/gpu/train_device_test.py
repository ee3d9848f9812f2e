# SPDX-License-Identifier: Apache-2.0
"""Runs `rondo train --device cuda` on the CUDA driver in software. Its losses must follow the host's. Its
collectives must overlap, and its checkpoints must resume on host and device.   usage: train_device_test.py RONDO"""

import json
import os
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "proc"), str(Path(__file__).resolve().parents[1])]
from sanitized import quarter_of_cases_in_every_build  # noqa: E402
from train_support import TrainCase  # noqa: E402

load_tests = quarter_of_cases_in_every_build

TrainCase.rondo = os.path.abspath(sys.argv.pop(1))
LIBRARY = os.environ["RONDO_TEST_CUBLAS_LT"]
CUDA = ("--device", "cuda", "--product-library", LIBRARY)
# Few blocks of one thread each, because the kernels' own tests check how the threads of a block work together.
os.environ.setdefault("SOFT_CUDA_THREADS", "1")
os.environ.setdefault("SOFT_CUDA_RESIDENT_BLOCKS", "8")
STEPS = ("--steps", 6, "--validate-every", 3)


class OnDevice(TrainCase):
    def follows(self, cuda, host, most=1e-4):
        """Checks that the losses of each step and validation differ by a small share at most."""
        for mine, other in zip(self.losses(cuda), self.losses(host)):
            self.assertEqual(len(mine), len(other))
            for one, another in zip(mine, other):
                self.assertLess(abs(one - another), most * another, (mine, other))
        self.assertLess(self.losses(cuda)[0][-1], self.losses(cuda)[0][0] - 0.1)

    def test_a_rank_on_a_device_follows_the_host(self):
        cuda = self.train(1, *STEPS, *CUDA, report="cuda")
        self.follows(cuda, self.train(1, *STEPS, report="host"))
        self.assertEqual(cuda["settings"]["device"], "cuda")
        again = self.train(1, *STEPS, *CUDA, report="again")
        self.assertEqual(self.losses(cuda), self.losses(again))

    def test_two_ranks_on_a_device_follow_the_host_with_either_executor_and_overlap(self):
        host = self.train(2, *STEPS, "--bucket-mb", 0.02, report="host")
        losses = []
        for executor in ("kernel", "copy"):
            cuda = self.train(2, *STEPS, *CUDA, "--bucket-mb", 0.02, report=executor, RONDO_DEVICE_EXECUTOR=executor)
            self.follows(cuda, host)
            self.assertEqual(cuda["buckets"], host["buckets"])
            losses.append(self.losses(cuda))
            self.assertGreater(self.early(executor), 0)
        self.assertEqual(*losses)
        plain = self.train(2, *STEPS, *CUDA, "--bucket-mb", 0.02, "--no-overlap", report="plain")
        self.assertEqual(self.losses(plain), losses[0])
        self.assertEqual(self.early("plain"), 0)

    def early(self, name):
        """Returns the buckets whose collective was enqueued during the backward pass."""
        events = json.loads((self.folder / name / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
        spans = [event for event in events if event["ph"] == "X" and event["pid"] == 0]
        ends = {span["args"]["step"]: span["ts"] + span["dur"] for span in spans if span["name"] == "backward"}
        buckets = [span for span in spans if span["name"].startswith("bucket")]
        self.assertGreater(len(buckets), 8)
        self.assertTrue(all(span["dur"] >= 0 and span["ts"] >= span["args"]["ready"] - 1 for span in buckets))
        return sum(span["args"]["ready"] < ends[span["args"]["step"]] for span in buckets)

    def test_products_beside_collectives_leave_multiprocessors_only_in_steps_with_overlap(self):
        # The driver in software has 8 multiprocessors. A pass has 39 batches of products, of which 26 are backward.
        for words, limits, beside in (((), {"RONDO_MAX_CTAS": "3"}, 5), (("--no-overlap",), {"RONDO_MAX_CTAS": "3"}, 0),
                                      ((), {}, 0)):
            log = self.folder / "log"
            self.train(2, "--steps", 2, *CUDA, *words, "--measure", 0, FAKE_CUBLAS_LT_LOG=str(log), **limits)
            limited = [int(line.split()[1]) for line in log.read_text(encoding="utf-8").splitlines()]
            log.unlink()
            self.assertEqual(set(limited), {0, beside})
            self.assertEqual(limited.count(beside), 2 * 2 * 26 if beside else len(limited))

    def test_work_that_begins_late_changes_no_bit(self):
        words = ("--steps", 4, *CUDA, "--bucket-mb", 0.02, "--wire", "bfloat16", "--zero", 1)
        late = self.train(2, *words, report="late", SOFT_CUDA_FAULTS="seed=7;delay=0.05:2000")
        self.assertEqual(self.losses(late), self.losses(self.train(2, *words, report="prompt")))

    def test_narrow_gradients_shares_and_several_passes_follow_the_host(self):
        for number, words in enumerate((("--wire", "bfloat16"), ("--wire", "float16", "--zero", 1),
                                        ("--accumulate", 2, "--recompute", "--zero", 1))):
            cuda = self.train(2, *STEPS, *CUDA, *words, report=f"cuda{number}")
            self.follows(cuda, self.train(2, *STEPS, *words, report=f"host{number}"), most=1e-3)

    def test_products_of_narrow_factors_stay_near(self):
        host = self.train(1, *STEPS, report="host")
        near = self.train(1, *STEPS, *CUDA, "--precision", "bfloat16", report="bfloat16")
        self.follows(near, host, most=0.01)
        again = self.train(1, *STEPS, *CUDA, "--precision", "bfloat16", report="again")
        self.assertEqual(self.losses(near), self.losses(again))
        self.assertNotEqual(self.losses(near), self.losses(self.train(1, *STEPS, *CUDA, report="float32")))

    def test_products_of_narrow_factors_stay_near_on_two_ranks_with_all_ways_to_divide_the_work(self):
        for number, words in enumerate(((), ("--zero", 1, "--wire", "bfloat16"), ("--accumulate", 2, "--recompute"))):
            host = self.train(2, *STEPS, *words, report=f"host{number}")
            words = (*words, *CUDA, "--precision", "bfloat16", "--bucket-mb", 0.02)
            near = self.train(2, *STEPS, *words, report=f"near{number}")
            self.follows(near, host, most=0.01)
            plain = self.train(2, *STEPS, *words, "--no-overlap", report=f"plain{number}")
            self.assertEqual(self.losses(near), self.losses(plain))

    def test_a_checkpoint_of_a_device_goes_on_there_bit_for_bit_and_on_the_host(self):
        file = self.folder / "run.ckpt"
        whole = self.train(2, "--steps", 6, *CUDA, "--zero", 1, report="whole")
        status, _, err = self.call(2, "--steps", 3, *CUDA, "--zero", 1, "--warmup", 10, "--checkpoint", file)
        self.assertEqual((status, err), (0, ""))
        rest = self.train(2, "--steps", 6, *CUDA, "--zero", 1, "--resume", file, report="rest")
        host = self.train(2, "--steps", 6, "--resume", file, report="host")
        self.assertEqual(len(self.losses(rest)[0]), 6)
        self.assertEqual(self.losses(rest), self.losses(whole))
        self.follows(rest, host)
        self.assertEqual(len(self.losses(rest)[0]), 6)

    def test_a_spoiled_parameter_is_found_and_the_rank_named(self):
        status, _, err = self.call(2, "--steps", 4, *CUDA, "--check-every", 1, "--flip-bit", "1:2")
        self.assertEqual(status, 1, err)
        self.assertIn("after step 2 the parameters are no longer the same", err)

    def test_what_is_missing_is_told_before_anything_starts(self):
        self.refused(["cannot be opened", "/nonexistent", "--product-library"], "--device", "cuda",
                     "--product-library", "/nonexistent")
        self.refused(["libsoftcuda", "cublasLtMatmul", "lacks"], "--device", "cuda", "--product-library",
                     os.environ["RONDO_CUDA_LIBRARY"])
        self.refused(["cannot be used", "RONDO_CUDA_LIBRARY"], *CUDA,
                     env=dict(os.environ, RONDO_CUDA_LIBRARY="/nonexistent"))
        self.refused(["sees 1 CUDA devices"], "--device", "cuda:3", "--product-library", LIBRARY)
        # A build without nvcc has no kernels. A build with nvcc has a real device's, which this driver cannot load.
        status, _, err = self.call(1, *CUDA, env=dict(os.environ, SOFT_CUDA_KERNELS=""))
        self.assertEqual(status, 2, err)
        self.assertRegex(err, r"no CUDA kernels.*nvcc|of the kernels: CUDA_ERROR_NO_BINARY_FOR_GPU")
        self.refused(["unknown --device 'gpu'", "cuda:ORDINAL"], "--device", "gpu")
        self.refused(["unknown --precision 'int8'"], *CUDA, "--precision", "int8")
        self.refused(["add --device cuda"], "--precision", "tf32")
        for words in (("--tensor-parallel", 2), ("--mode", "local-sgd"), ("--compress", "int8")):
            self.refused(["--device cuda goes with"], *CUDA, *words)

    def test_a_product_or_a_kernel_that_fails_ends_the_run_and_is_named(self):
        self.refused(["cublasLtMatmul", "EXECUTION_FAILED"], *CUDA, status=3,
                     env=dict(os.environ, FAKE_CUBLAS_LT="fails"))
        self.refused(["CUDA_ERROR_LAUNCH_FAILED"], *CUDA, status=3,
                     env=dict(os.environ, SOFT_CUDA_FAULTS="work#100=719"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
