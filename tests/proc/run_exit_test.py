#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the exit status and messages of `rondo run`, the environment of its ranks, and time limits."""
import collections
import os
import pathlib
import re
import stat
import sys
import tempfile
from unittest import mock

import run_support
from run_support import RunTest

RANK_PROGRAM = sys.argv.pop()  # run_store_rank
PRINT_JOB = 'echo "$RONDO_RANK/$RONDO_SIZE local $RONDO_LOCAL_RANK store ${RONDO_STORE} secret ${#RONDO_SECRET}"'


class ExitTest(RunTest):
    def test_all_ranks_succeed_and_so_does_the_job(self):
        status, out, err = self.run_job("-n", 4, "sh", "-c", PRINT_JOB)
        self.assertEqual((status, err), (0, ""))
        lines = sorted(out.splitlines())
        self.assertEqual([line.split(" ")[0] for line in lines], ["0/4", "1/4", "2/4", "3/4"])
        for rank, line in enumerate(lines):
            self.assertRegex(line, rf"^{rank}/4 local {rank} store 127\.0\.0\.1:\d+ secret 64$")
        self.assertEqual(len({line.split(" ")[4] for line in lines}), 1, "one store for all")

    def test_the_secret_differs_from_job_to_job(self):
        secrets = [self.run_job("-n", 1, "sh", "-c", "echo $RONDO_SECRET")[1] for _ in range(3)]
        self.assertEqual(len(set(secrets)), 3)

    def test_ranks_meet_at_the_launchers_store(self):
        status, out, err = self.run_job("-n", 8, RANK_PROGRAM)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(set(out.splitlines()), {" ".join(f"rondo run/{rank}/{rank}" for rank in range(8))})
        self.assertEqual(out.count("\n"), 8)

    def test_the_first_failure_decides_and_ends_the_rest(self):
        script = 'if [ "$RONDO_RANK" = 2 ]; then exit 7; fi; exec sleep 1000'
        status, _, err = self.run_job("-n", 4, "sh", "-c", script)
        self.assertEqual(status, 7)
        self.assertRegex(err, r"^rondo run: rank 2 \(pid \d+\) exited with status 7; ending the other ranks\n$")

    def test_a_later_failure_does_not_replace_the_first(self):
        script = 'if [ "$RONDO_RANK" = 0 ]; then exit 3; fi; trap "exit 9" TERM; while :; do sleep 0.05; done'
        status, _, err = self.run_job("-n", 2, "sh", "-c", script)
        self.assertEqual(status, 3)
        self.assertEqual(err.count("rondo run:"), 1, err)

    def test_a_rank_killed_by_a_signal_gives_128_and_its_number(self):
        status, _, err = self.run_job("-n", 2, "sh", "-c", '[ "$RONDO_RANK" = 1 ] && kill -SEGV $$; exec sleep 1000')
        self.assertEqual(status, 128 + 11)
        self.assertIn("was killed by signal 11 (Segmentation fault)", err)

    def test_ranks_that_ignore_sigterm_are_killed_after_the_grace(self):
        script = '[ "$RONDO_RANK" = 0 ] && exit 5; trap "" TERM; while :; do sleep 1; done'
        status, _, _ = self.run_job("-n", 3, "--grace", "0.2", "sh", "-c", script)
        self.assertEqual(status, 5)

    def test_ranks_may_clean_up_within_the_grace(self):
        with tempfile.TemporaryDirectory() as folder:
            script = ('[ "$RONDO_RANK" = 0 ] && { while [ ! -e "$READY" ]; do sleep 0.01; done; exit 5; }; '
                      'trap "touch $DONE; exit 0" TERM; touch $READY; while :; do sleep 0.02; done')
            done = pathlib.Path(folder, "done")
            status, _, _ = self.run_job("-n", 2, "--grace", run_support.DEADLINE_S, "--env", f"DONE={done}",
                                        "--env", f"READY={folder}/ready", "sh", "-c", script)
            self.assertEqual(status, 5)
            self.assertTrue(done.exists())

    def test_the_time_limit_ends_all_with_124(self):
        status, _, err = self.run_job("-n", 3, "--timeout", "0.3", "sleep", 1000)
        self.assertEqual(status, 124)
        self.assertEqual(err, "rondo run: the job did not end within 0.3 s; ending all ranks\n")

    def test_a_job_that_ends_in_time_is_not_touched(self):
        self.assertEqual(self.run_job("-n", 2, "--timeout", 1000, "true")[0], 0)

    def test_sixty_four_ranks(self):
        status, out, _ = self.run_job("-n", 64, "sh", "-c", "echo $RONDO_RANK")
        self.assertEqual(status, 0)
        self.assertEqual(sorted(map(int, out.split())), list(range(64)))

    def test_what_the_ranks_leave_running_is_ended(self):
        # SIGTERM must be enough, because the grace is longer than the test's limit.
        status, _, _ = self.run_job("-n", 2, "--grace", 1000, "sh", "-c", "setsid sleep 1000 & exit 0")
        self.assertEqual(status, 0)  # run_job has checked that nothing is left


class StartTest(RunTest):
    def test_a_missing_program_is_told_once(self):
        for name in ("no-such-program-at-all", "./no-such-file", "/no/such/folder/program"):
            status, out, err = self.run_job("-n", 8, name)
            self.assertEqual((status, out), (127, ""))
            self.assertRegex(err, rf"^rondo run: program not found: {re.escape(name)}[^\n]*\n$")

    def test_what_cannot_be_executed_gives_126_once(self):
        with tempfile.TemporaryDirectory() as folder:
            plain = pathlib.Path(folder, "plain")
            plain.write_text("not a program\n")
            status, _, err = self.run_job("-n", 4, plain)
            self.assertEqual((status, err), (126, f"rondo run: cannot execute {plain}: Permission denied\n"))
            status, _, err = self.run_job("-n", 4, folder)
            self.assertEqual((status, err), (126, f"rondo run: cannot execute {folder}: Is a directory\n"))
            plain.chmod(stat.S_IRWXU)
            status, _, err = self.run_job("-n", 4, plain)
            self.assertEqual(status, 126)
            self.assertRegex(err, r"^rondo run: rank \d could not be started: cannot execute [^\n]*: Exec format error"
                                  r"[^\n]*\n$")
            plain.write_text("#!/no/such/interpreter\n")
            status, _, err = self.run_job("-n", 4, plain)
            self.assertEqual(status, 127)
            self.assertEqual(err.count("\n"), 1, err)

    def test_wrong_options_give_2_and_start_nothing(self):
        for args in ([], ["-n", 2], ["-n", 0, "true"], ["-n", "x", "true"], ["-n", 2, "--bogus", "true"], ["true"],
                     ["-n", 1, "--env", "novalue", "true"], ["-n", 1, "--env", "RONDO_RANK=5", "true"],
                     ["-n", 1, "--bind", "socket", "true"], ["-n", 1, "--timeout", "-1", "true"]):
            status, out, err = self.run_job(*args)
            self.assertEqual((status, out), (2, ""), args)
            self.assertRegex(err, r"^rondo run: [^\n]+\n$")

    def test_options_of_the_program_are_left_alone(self):
        status, out, _ = self.run_job("-n", 1, "--", "echo", "-n", "5", "--timeout", "--", "x")
        self.assertEqual((status, out), (0, "5 --timeout -- x"))  # this -n is an argument of echo
        status, out, _ = self.run_job("-n", 1, "printf", "%s|", "--tag-output", "a b", "")
        self.assertEqual((status, out), (0, "--tag-output|a b||"))

    def test_variables_are_passed_on(self):
        status, out, _ = self.run_job("-n", 1, "sh", "-c", 'echo "$CUDA_DEVICE_MAX_CONNECTIONS"',
                                      environment={"CUDA_DEVICE_MAX_CONNECTIONS": "5"})
        self.assertEqual((status, out), (0, "5\n"))
        with mock.patch.dict(os.environ):
            os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
            status, out, _ = self.run_job("-n", 1, "sh", "-c", 'echo "$CUDA_DEVICE_MAX_CONNECTIONS"')
        self.assertEqual((status, out), (0, "32\n"))  # without a given number of ranks
        status, out, _ = self.run_job("-n", 2, "--env", "A=1=2", "--env", "B=", "sh", "-c", 'echo "$A,${B-unset}"')
        self.assertEqual((status, out), (0, "1=2,\n" * 2))

    def test_the_secret_is_on_no_command_line(self):
        job = self.start("-n", 3, "sh", "-c", "echo $RONDO_SECRET; exec sleep 1000")
        secret = job.process.stdout.readline().strip()
        self.assertEqual(len(secret), 64)
        seen = 0
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.assertNotIn(secret, path.read_bytes(), path)
                seen += 1
            except OSError:
                pass
        self.assertGreater(seen, 4)
        job.process.terminate()
        self.assertEqual(job.finish()[0], 128 + 15)

    def test_binding_gives_the_ranks_the_allowed_cores_in_turn(self):
        show = 'echo "$RONDO_RANK $(taskset -cp $$ | cut -d: -f2)"'
        allowed = os.sched_getaffinity(0)
        status, out, err = self.run_job("-n", 2 * len(allowed), "--bind", "core", "sh", "-c", show)
        self.assertEqual((status, err), (0, ""))
        bound = dict(line.split(maxsplit=1) for line in out.splitlines())
        uses = collections.Counter(bound.values())
        self.assertEqual(set(uses.values()), {uses[bound["0"]]}, f"each core equally often: {bound}")
        cores = len(uses)
        for rank in range(2 * len(allowed)):
            self.assertEqual(bound[str(rank)], bound[str(rank % cores)])

    def test_ranks_share_the_allowed_cores_unless_they_are_too_many(self):
        show = ["sh", "-c", "taskset -cp $$ | cut -d: -f2"]
        allowed = len(os.sched_getaffinity(0))
        whole = self.run_job("-n", 1, "--bind", "none", *show)[1]
        self.assertEqual(self.run_job("-n", 1, *show)[1], whole)
        self.assertEqual(set(self.run_job("-n", allowed + 1, *show)[1].splitlines()), {whole.strip("\n")})
        cores = len(set(self.run_job("-n", allowed, "--bind", "core", *show)[1].splitlines()))
        if cores < 2:
            self.skipTest("binding needs two cores")
        for name in ("share", "SHARE"):
            shares = self.run_job("-n", 2, "--bind", name, *show)[1].splitlines()
            self.assertEqual(len(set(shares)), 2, shares)
            self.assertNotIn(whole.strip("\n"), shares)

    def test_ranks_have_the_signals_and_limits_that_the_launcher_was_given(self):
        show = ["sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status; ulimit -n; ls /proc/self/fd | wc -l"]
        status, out, _ = self.run_job("-n", 1, *show)
        plain = self.start(command=show)
        self.assertEqual((status, out), plain.finish()[:2])


if __name__ == "__main__":
    run_support.main()
