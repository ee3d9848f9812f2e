# SPDX-License-Identifier: Apache-2.0
"""Tests ranks that start as in real jobs. Variables differ between hosts, two jobs use one port, programs run one after
another, or the description of a job is incomplete.

usage: meet_test.py RONDO RANK_PROGRAM"""

import os
import secrets
import subprocess
import sys
import unittest
from pathlib import Path

from job import PATIENCE, HeldPort

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

PROGRAM, RONDO = os.path.abspath(sys.argv.pop()), os.path.abspath(sys.argv.pop())
PERF = [RONDO, "perf", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "1"]
HANG_S = 180
PATIENT_S = "60"  # for ranks that must end long before
ALONE_S = str(10 * PATIENCE)  # for a rank that waits in vain; meanwhile another one must come and be turned away
TWO_JOBS = "two jobs meet at this address and port"


def clean(**more):
    """Returns the environment without the variables of a job, and with `more`."""
    starts = ("RONDO_", "OMPI_", "PMI", "SLURM_", "FLUX_", "TORCHELASTIC_")
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    base = {name: value for name, value in os.environ.items() if not name.startswith(starts) and name not in names}
    return {**base, "RONDO_INIT_TIMEOUT": PATIENT_S, "RONDO_TIMEOUT": PATIENT_S, **more}


class Meet(unittest.TestCase):
    def start(self, command, **environment):
        process = subprocess.Popen(command, env=clean(**environment), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process

    def rank(self, rank, port, command=None, size=2, **environment):
        """Starts a rank whose job is described by plain variables such as RANK."""
        variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return self.start(command or PERF, **{**variables, **environment})

    def finish(self, *processes):
        """Waits for the processes. Returns (status, output) of each."""
        said = [process.communicate(timeout=HANG_S)[0] for process in processes]
        return [(process.returncode, each) for process, each in zip(processes, said)]

    def expect_met(self, *processes):
        ended = self.finish(*processes)
        for status, said in ended:
            self.assertEqual(status, 0, said)
        self.assertIn(f"all_reduce  {len(processes)} ranks", "".join(said for _, said in ended))

    def begun(self, process):
        said = ""
        while "begun" not in said:
            line = process.stdout.readline()
            self.assertNotEqual(line, "", said)
            said += line

    def test_ranks_meet_though_launchers_describe_the_job_differently(self):
        with HeldPort() as port:
            self.expect_met(*[self.rank(rank, port, TORCHELASTIC_RUN_ID="j", TORCHELASTIC_RESTART_COUNT=str(rank),
                                        MASTER_ADDR=("127.0.0.1", "localhost")[rank]) for rank in range(2)])

    def test_an_ipv6_address_may_stand_in_brackets(self):
        if not os.path.exists("/proc/net/if_inet6"):
            self.skipTest("no IPv6")
        with HeldPort() as port:
            self.expect_met(self.rank(0, port, MASTER_ADDR="[::1]"), self.rank(1, port, MASTER_ADDR="::1"))

    def expect_turned_away(self, name, values):
        """Returns the output of both ranks, whose secrets differ by this variable."""
        with HeldPort() as port:
            ranks = [self.rank(rank, port, RONDO_INIT_TIMEOUT=ALONE_S, **{name: values[rank]}) for rank in range(2)]
            (zero, said_zero), (one, said_one) = self.finish(*ranks)
        self.assertNotIn(0, (zero, one))
        self.assertRegex(said_one, "authentication failed")
        self.assertRegex(said_zero, rf"warning: .*another secret.*{name}")
        self.assertRegex(said_zero, rf"timeout: .*1 client was turned away for another secret.*{name}")
        return said_zero, said_one

    def test_ranks_with_different_identifiers_of_a_run_are_told_so(self):
        name = "TORCHELASTIC_RUN_ID"
        self.assertIn(name, self.expect_turned_away(name, ("one", "other"))[1])

    def test_ranks_with_different_secrets_are_told_so_and_no_secret_is_printed(self):
        name, values = "RONDO_SECRET", (secrets.token_hex(32), secrets.token_hex(32))
        said = self.expect_turned_away(name, values)
        self.assertIn(f"here it is from {name}", said[1])
        for value in values:
            self.assertNotIn(value, "".join(said))

    def test_ranks_that_disagree_about_their_number_are_told(self):
        with HeldPort() as port:
            for status, said in self.finish(self.rank(0, port), self.rank(1, port, size=3)):
                self.assertNotEqual(status, 0)
                self.assertIn("3 ranks; others say 2", said.replace("2 ranks; others say 3", "3 ranks; others say 2"))

    def test_a_second_job_at_the_port_of_one_that_waits_is_told_and_so_is_the_first(self):
        with HeldPort() as port:
            first = self.rank(0, port, ["sh", "-c", 'exec "$@"', "-", *PERF])
            second = self.rank(0, port)
            for status, said in self.finish(first, second):
                self.assertNotEqual(status, 0)
                self.assertIn(TWO_JOBS, said)

    def test_a_rank_of_a_second_job_that_got_into_the_first_does_not_stay_there_unseen(self):
        busy = [PROGRAM, "busy", "1000", "1000"]
        with HeldPort() as port:
            first, stray = self.rank(0, port, busy), self.rank(1, port, busy)
            for each in (first, stray):
                self.begun(each)
            second = self.rank(0, port, busy)
            for status, said in self.finish(second, first, stray):
                self.assertNotEqual(status, 0)
                self.assertIn(TWO_JOBS, said)

    def test_programs_one_after_another_in_one_job_each_meet(self):
        thrice = ["sh", "-c", '"$@" && "$@" && exec "$@"', "-", *PERF]
        said = self.finish(self.start([RONDO, "run", "-n", "3", *thrice]))
        self.assertEqual(said[0][0], 0, said)
        self.assertEqual(said[0][1].count("Out of bounds values : 0 OK"), 3, said)
        with HeldPort() as port:
            # Rank 1 starts its second program before rank 0 has ended its first one.
            slow = ["sh", "-c", '"$@" && sleep 2 && exec "$@"', "-", *PERF]
            twice = ["sh", "-c", '"$@" && exec "$@"', "-", *PERF]
            self.expect_met(self.rank(0, port, slow), self.rank(1, port, twice))

    def test_a_process_that_is_one_rank_of_a_job_it_does_not_know_says_so(self):
        for name, more in (("RANK", "WORLD_SIZE is not set"), ("WORLD_SIZE", "RANK is not set"),
                           ("PMIX_RANK", "PMIx started this process"), ("PALS_RANKID", "PALS started this process")):
            with self.subTest(name=name):
                (status, said), = self.finish(self.start(PERF, **{name: "3"}))
                self.assertNotEqual(status, 0)
                self.assertIn(f"{name} is '3'", said)
                self.assertIn(more, said)

    def test_ranks_of_flux_meet_by_a_file(self):
        job = {"FLUX_JOB_SIZE": "2", "FLUX_JOB_ID": f"f{os.getpid()}", "FLUX_JOB_NNODES": "1"}
        self.expect_met(*[self.start(PERF, FLUX_TASK_RANK=str(rank), **job) for rank in range(2)])

    def test_an_address_of_no_interface_is_refused_at_once(self):
        (status, said), = self.finish(self.rank(0, 29_903, MASTER_ADDR="192.0.2.7"))
        self.assertNotEqual(status, 0)
        self.assertRegex(said, "invalid argument: .*MASTER_ADDR: '192.0.2.7' is not an address of this host")
        self.assertNotIn("RONDO_PORT", said)


if __name__ == "__main__":
    side_by_side.main(6)
