# SPDX-License-Identifier: Apache-2.0
"""`rondo train --checkpoint` and `--resume` must continue a killed run bit for bit, and refuse damaged files."""

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from train_support import TrainCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

TrainCase.rondo = sys.argv.pop(1)
SEED = int(os.environ.get("RONDO_SEED", random.SystemRandom().randrange(1 << 30)))
STEPS = 90
KILLS = int(os.environ.get("RONDO_TEST_KILLS", 2))
SLOWLY = ("--delay", "1:150")  # ms a step, so half of the steps take longer than the kill


def children(pid):
    """Returns the processes whose parent is `pid`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split() if entry.name.isdigit() else None
        except OSError:
            continue
        if fields and int(fields[1]) == pid:
            found.append(int(entry.name))
    return found


def ranks_of(launcher):
    """Returns the process ids of a launcher's ranks. Another process may be between the launcher and a rank."""
    found, level = [], [launcher]
    for _ in range(3):
        level = [child for pid in level for child in children(pid)]
        found += level
    named = []
    for pid in found:
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/rondo-train"):
                named.append(pid)
        except OSError:
            pass
    return named


class Resume(TrainCase):
    def saved_step(self):
        """Returns the step of the checkpoint that exists, or 0 if there is none."""
        try:
            content = self.checkpoint.read_bytes()
        except FileNotFoundError:
            return 0
        length = int.from_bytes(content[8:16], "little")
        return json.loads(content[16:16 + length])["step"]

    def kill_one_rank(self, arguments, step):
        """Starts two ranks, waits for a checkpoint of `step`, and kills one rank. Returns how the run ended."""
        running = subprocess.Popen(self.command(2, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        deadline = time.monotonic() + 120
        while self.saved_step() < step and time.monotonic() < deadline and running.poll() is None:
            time.sleep(0.001)
        ranks = []
        while not ranks and running.poll() is None:
            ranks = ranks_of(running.pid)
        for pid in ranks[-1:]:
            os.kill(pid, signal.SIGKILL)
        out, _ = running.communicate(timeout=120)
        return running.returncode, out

    def setUp(self):
        super().setUp()
        self.checkpoint = self.folder / "run.ckpt"

    def test_a_run_whose_rank_was_killed_goes_on_bit_for_bit(self):
        draw = random.Random(SEED)
        print(f"RONDO_SEED={SEED}")
        whole = self.train(2, "--steps", STEPS, "--validate-every", 30, report="whole")
        saving = ("--steps", STEPS, "--validate-every", 30, "--checkpoint", self.checkpoint, "--checkpoint-every", 5)
        for kill in range(KILLS):
            self.checkpoint.unlink(missing_ok=True)
            status, out = self.kill_one_rank((*saving, *SLOWLY), draw.randrange(3, STEPS // 2))
            self.assertNotEqual(status, 0, out)
            self.assertRegex(out, r"rank \d")
            resumed = self.train(2, *saving, "--resume", self.checkpoint, report=f"resumed{kill}")
            self.assertLess(len(resumed["steps"]), STEPS)
            self.assertEqual(self.losses(resumed), self.losses(whole))

    def test_one_rank_that_accumulates_continues_what_two_ranks_began(self):
        whole = self.train(2, "--steps", STEPS, report="whole")
        saving = ("--steps", STEPS, "--checkpoint", self.checkpoint, "--checkpoint-every", 2)
        status, out = self.kill_one_rank((*saving, *SLOWLY), 4)
        self.assertNotEqual(status, 0, out)
        self.assertTrue(self.checkpoint.exists(), out)
        resumed = self.train(1, "--steps", STEPS, "--accumulate", 2, "--resume", self.checkpoint, report="resumed")
        self.assertEqual(self.losses(resumed)[0], self.losses(whole)[0])

    def saved(self, *arguments):
        status, out, err = self.call(1, "--steps", 4, "--checkpoint", self.checkpoint, *arguments)
        self.assertEqual((status, err), (0, ""), out)
        return self.checkpoint.read_bytes()

    def test_damaged_truncated_and_foreign_checkpoints_are_refused(self):
        whole = self.saved()
        resume = ("--steps", 8, "--resume", self.checkpoint)
        for size in (0, 5, 12, 100, len(whole) // 2, len(whole) - 1):
            self.checkpoint.write_bytes(whole[:size])
            self.refused(("cannot resume from", "truncated" if size > 8 else "no checkpoint"), *resume)
        for at in (300, len(whole) // 2, len(whole) - 1):
            damaged = bytearray(whole)
            damaged[at] ^= 16
            self.checkpoint.write_bytes(damaged)
            self.refused(("cannot resume from",), *resume)
        for content in (whole + b"x", whole[:8] + b"\xff" * 8 + whole[16:]):
            self.checkpoint.write_bytes(content)
            self.refused(("damaged", "earlier checkpoint"), *resume)
        self.checkpoint.write_bytes(self.corpus.read_bytes())
        self.refused(("no checkpoint of this version",), *resume)
        self.checkpoint.unlink()
        self.refused(("No such file",), *resume)

    def test_a_checkpoint_of_another_run_is_refused_and_the_difference_named(self):
        self.saved()
        for words, arguments in {("layers is 2 there and 3 here",): ("--layers", 3),
                                 ("seed is 1 there and 9 here",): ("--seed", 9),
                                 ("compress is", "bfloat16"): ("--wire", "bfloat16"),
                                 ("ranks x accumulate is 1 there and 2 here",): ("--accumulate", 2)}.items():
            self.refused(words, "--steps", 8, "--resume", self.checkpoint, *arguments,
                         model=("--width", 32, "--heads", 2, "--context", 32, "--batch", 4) +
                         (() if "--layers" in arguments else ("--layers", 2)))
        self.refused(("it is of step 4", "give more steps"), "--steps", 4, "--resume", self.checkpoint)
        self.refused(("rank 0", "cannot resume"), "--steps", 8, "--resume", self.folder / "none", ranks=2)

    def test_a_full_disk_leaves_the_last_good_checkpoint(self):
        model = ("--width", 128, "--layers", 4, "--heads", 2, "--context", 32, "--batch", 4)
        self.assertEqual(self.call(1, "--steps", 4, "--checkpoint", self.checkpoint, model=model)[0], 0)
        good = self.checkpoint.read_bytes()

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing fails as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(good) // 2, len(good) // 2))
        status, out, err = self.call(1, "--steps", 8, "--checkpoint", self.checkpoint, "--checkpoint-every", 2,
                                     model=model, preexec_fn=small_files)
        self.assertEqual(status, 2, out + err)
        self.assertIn("cannot save the checkpoint", err)
        self.assertIn("an earlier checkpoint there is unchanged", err)
        self.assertEqual(self.checkpoint.read_bytes(), good)
        self.assertEqual([path.name for path in self.folder.iterdir() if re.search("partial", path.name)], [])

    def test_a_place_that_cannot_be_written_is_refused_before_the_run(self):
        self.refused(("cannot save the checkpoint", "nowhere"), "--steps", 8, "--checkpoint",
                     self.folder / "nowhere" / "run.ckpt")
        self.refused(("cannot save the checkpoint", "there is a folder"), "--steps", 8, "--checkpoint", self.folder)
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.refused(("cannot save the checkpoint", "there is a FIFO or pipe"), "--steps", 8, "--checkpoint", fifo)
        self.refused(("cannot resume", "it is a FIFO or pipe, no regular file"), "--steps", 8, "--resume", fifo)

    def test_a_corpus_that_becomes_shorter_ends_the_run_with_a_word(self):
        running = subprocess.Popen(self.command(2, "--steps", 1_000_000), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        try:
            begun = next((line for line in running.stdout if "step" in line), None)
            self.assertIsNotNone(begun)
            os.truncate(self.corpus, 100)
            out, _ = running.communicate(timeout=240)
        finally:
            running.kill()
            running.wait()
        self.assertEqual(running.returncode, 2, out)
        self.assertIn(f"{self.corpus} became shorter", out)

    def test_numbers_that_are_none_or_out_of_range_are_refused(self):
        status, text, _ = self.call(1, "--help")
        self.assertEqual(status, 0)
        options = re.findall(r"(--[a-z-]+) (N|X|S|0\|1)\b", text.partition("OPTIONS")[2] or text)
        self.assertGreater(len(options), 20)
        refusal = r"not in range|[Cc]ould not convert"
        for option, kind in options:
            values = ["nan", "-nan", "inf", "NAN(1)", "-1", "1e400", "9" * 23, "-18446744073709551615"]
            for value in values if kind == "X" else [*values, "1.5", "18446744073709551615"]:
                with self.subTest(option=option, value=value):
                    status, out, err = self.call(1, "--checkpoint", self.checkpoint, f"{option}={value}", model=())
                    self.assertEqual(status, 2, out + err)
                    self.assertRegex(err, f"{option}.*({refusal})|({refusal}).*{option}")
        for option, value in (("--delay", "-1:5"), ("--delay", "1:86400001"), ("--flip-bit", "-1:5"),
                              ("--flip-bit", "1:99999999999"), ("--compress", "topk:nan"), ("--compress", "topk:inf"),
                              ("--compress", "powersgd:-1"), ("--compress", "powersgd:" + "9" * 23)):
            with self.subTest(option=option, value=value):
                self.refused((option, value), f"{option}={value}")

    def test_a_link_to_a_checkpoint_stays_one(self):
        target = self.folder / "target.ckpt"
        self.checkpoint.symlink_to(target.name)
        self.saved()
        self.assertTrue(self.checkpoint.is_symlink())
        self.assertGreater(target.stat().st_size, 0)

    def test_a_run_does_not_go_on_with_another_corpus_of_the_same_length(self):
        corpus = self.folder / "corpus"
        text = random.Random(1).randbytes(200_000)
        corpus.write_bytes(text)
        self.saved("--corpus", corpus)
        corpus.write_bytes(text[:100_000] + b"x" + text[100_001:])
        self.refused(("to another run: checksum of the corpus is",), "--steps", 8, "--corpus", corpus, "--resume",
                     self.checkpoint)


if __name__ == "__main__":
    unittest.main(verbosity=2)
