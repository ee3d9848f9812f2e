#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rondo run` passes standard input to rank 0, and passes output on in whole tagged lines."""
import fcntl
import hashlib
import os
import pathlib
import pty
import signal
import subprocess
import tempfile
import termios

import run_support
from run_support import RunTest, wait_until

LARGE_BYTES = 50_000_000


def large_input():
    block = bytes(range(256)) * 4096
    return (block * (LARGE_BYTES // len(block) + 1))[:LARGE_BYTES]


class InputTest(RunTest):
    def test_input_goes_to_rank_0_and_the_others_have_none(self):
        status, out, _ = self.run_job("-n", 3, "sh", "-c", 'echo "$RONDO_RANK $(wc -c)"', data=b"hello\n")
        self.assertEqual((status, sorted(out.split("\n"))), (0, ["", "0 6", "1 0", "2 0"]))

    def test_large_input_arrives_whole(self):
        data = large_input()
        script = '[ "$RONDO_RANK" = 0 ] || exit 0; sha256sum'
        for options in ([], ["--tag-output"]):
            status, out, _ = self.run_job("-n", 2, *options, "sh", "-c", script, data=data)
            self.assertEqual(status, 0)
            self.assertIn(hashlib.sha256(data).hexdigest(), out)

    def test_a_slow_reader_holds_the_writer_back(self):
        job = self.start("-n", 2, "sh", "-c", '[ "$RONDO_RANK" = 0 ] && read line; wc -c', stdin=subprocess.PIPE)
        rank_pipe_limit = 1 << 20  # the largest pipe of an ordinary user, which is the only buffer
        os.set_blocking(job.process.stdin.fileno(), False)
        sent = 0
        try:
            while sent < 4 * rank_pipe_limit:
                sent += os.write(job.process.stdin.fileno(), b"x" * 65536)
        except BlockingIOError:
            pass
        self.assertLess(sent, 4 * rank_pipe_limit, "somewhere input is swallowed without bound")
        os.set_blocking(job.process.stdin.fileno(), True)
        job.process.stdin.write(b"\n")
        self.assertEqual(job.finish()[0], 0)

    def test_the_writer_learns_that_rank_0_has_closed_its_input(self):
        job = self.start("-n", 2, "sh", "-c", "exec <&-; sleep 1000", stdin=subprocess.PIPE)
        with self.assertRaises(BrokenPipeError):  # while the job runs, so only its processes could hold it open
            while True:
                os.write(job.process.stdin.fileno(), b"x" * 65536)
        self.assertIsNone(job.process.poll())
        job.process.terminate()
        self.assertEqual(job.process.wait(run_support.DEADLINE_S), 128 + 15)

    def test_input_that_nobody_reads_is_left_for_the_next(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"one\ntwo\n")
            file.seek(0)
            self.assertEqual(self.run_job("-n", 2, "true", stdin=file)[0], 0)
            self.assertEqual(file.read(), b"one\ntwo\n")


class TerminalTest(RunTest):
    def start_on_terminal(self, *args):
        """Starts a job with a new terminal as its controlling terminal and standard input. Returns the job and the
        terminal's other side."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        job = self.start(*args, stdin=theirs, preexec_fn=take_terminal)
        os.close(theirs)
        return job, ours

    def test_lines_from_a_terminal_reach_rank_0_and_so_does_their_end(self):
        job, terminal = self.start_on_terminal("-n", 2, "--tag-output", "sh", "-c",
                                               'while read line; do echo "got $line"; done; echo end')
        self.assertEqual(job.process.stdout.readline(), b"[1] end\n")
        for text in (b"first", b"second"):
            os.write(terminal, text + b"\n")
            self.assertEqual(job.process.stdout.readline(), b"[0] got " + text + b"\n")
        os.write(terminal, b"\x04")  # Ctrl-D
        self.assertEqual(job.finish()[:2], (0, "[0] end\n"))

    def test_the_terminals_interrupt_reaches_each_rank_once(self):
        job, terminal = self.start_on_terminal(
            "-n", 2, "sh", "-c", 'trap "echo caught; exit 4" INT; echo ready; while :; do sleep 0.02; done')
        self.assertEqual([job.process.stdout.readline() for _ in range(2)], [b"ready\n"] * 2)
        os.write(terminal, b"\x03")  # Ctrl-C
        status, out, _ = job.finish()
        self.assertEqual(status, 4)
        self.assertIn(out, ("caught\n", "caught\ncaught\n"))  # one rank's failure may end the other first

    def test_rank_0_may_close_its_input_while_the_terminal_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            go = pathlib.Path(folder, "go")
            os.mkfifo(go)
            job, terminal = self.start_on_terminal("-n", 1, "--env", f"GO={go}", "sh", "-c",
                                                   "exec <&-; echo closed; read x < $GO; exit 5")
            self.assertEqual(job.process.stdout.readline(), b"closed\n")
            os.write(terminal, b"nobody reads this\n")
            go.write_text("x\n")
            self.assertEqual(job.finish()[0], 5)


class OutputTest(RunTest):
    def test_partial_lines_of_several_ranks_are_never_mixed(self):
        script = ('i=0; while [ $i -lt 40 ]; do printf "a$RONDO_RANK"; sleep 0.001; printf "b$RONDO_RANK\\n"; '
                  'printf "e$RONDO_RANK" >&2; printf "f$RONDO_RANK\\n" >&2; i=$((i+1)); done; printf "last$RONDO_RANK"')
        job = self.start("-n", 4, "--tag-output", "sh", "-c", script, stderr=subprocess.STDOUT)
        status, out, _ = job.finish()
        self.assertEqual(status, 0)
        self.assertTrue(out.endswith("\n"))
        expected = sorted([f"[{r}] a{r}b{r}" for r in range(4)] * 40 + [f"[{r}] e{r}f{r}" for r in range(4)] * 40 +
                          [f"[{r}] last{r}" for r in range(4)])
        self.assertEqual(sorted(out.splitlines()), expected)

    def test_output_and_errors_keep_to_their_own_streams(self):
        status, out, err = self.run_job("-n", 2, "--tag-output", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual((status, sorted(out.split("\n")), sorted(err.split("\n"))),
                         (0, ["", "[0] out", "[1] out"], ["", "[0] err", "[1] err"]))

    def test_without_tags_the_bytes_are_the_programs_own(self):
        status, out, err = self.run_job("-n", 1, "sh", "-c", "printf 'no newline'; printf 'err' >&2")
        self.assertEqual((status, out, err), (0, "no newline", "err"))

    def test_much_tagged_output_arrives_whole_through_a_slow_reader(self):
        job = self.start("-n", 3, "--tag-output", "sh", "-c", "seq 200000")
        wait_until(lambda: job.members(), "the job has started")
        status, out, _ = job.finish()
        self.assertEqual(status, 0)
        numbers = {rank: [] for rank in "012"}
        for line in out.splitlines():
            numbers[line[1]].append(line[4:])
        self.assertEqual(numbers, {rank: [str(i) for i in range(1, 200001)] for rank in "012"})

    def test_a_rank_may_close_its_output_early(self):
        script = '[ "$RONDO_RANK" = 1 ] && exec sleep 1000; echo x; exec >&- 2>&-; exit 6'
        status, out, _ = self.run_job("-n", 2, "--tag-output", "sh", "-c", script)
        self.assertEqual((status, out), (6, "[0] x\n"))

    def test_ranks_learn_that_the_reader_of_the_output_is_gone(self):
        job = self.start("-n", 2, "--tag-output", "yes", stderr=subprocess.DEVNULL)
        self.assertTrue(job.process.stdout.read(1000))
        job.process.stdout.close()
        self.assertEqual(job.process.wait(run_support.DEADLINE_S), 128 + signal.SIGPIPE)
        self.assertEqual(job.members(), [])

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "wb") as full:
            status, _, err = self.run_job("-n", 2, "--tag-output", "echo", "text", stdout=full)
        self.assertEqual(status, 1)
        self.assertIn("the output cannot be written: No space left on device", err)

    def test_a_failure_is_told_after_what_the_rank_said(self):
        status, _, err = self.run_job("-n", 1, "--tag-output", "sh", "-c", "echo why >&2; exit 3")
        self.assertEqual(status, 3)
        self.assertRegex(err, r"^\[0\] why\nrondo run: rank 0 \(pid \d+\) exited with status 3\n$")

    def test_closed_standard_descriptors_are_no_trouble(self):
        rondo = run_support.RONDO
        job = self.start(command=["sh", "-c", f"exec '{rondo}' run -n 2 --tag-output echo x <&- 2>&-"])
        status, out, _ = job.finish()
        self.assertEqual((status, sorted(out.splitlines())), (0, ["[0] x", "[1] x"]))


if __name__ == "__main__":
    run_support.main()
