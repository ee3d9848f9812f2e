# SPDX-License-Identifier: Apache-2.0
"""Tests `rondo perf` and the examples as users run them: ranks as threads, under `rondo run`, and under the mpirun of
Open MPI and MPICH. Every result is verified, and the exit status reports errors.

usage: perf_test.py RONDO WORD_COUNT ALL_REDUCE"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from job import run_job
from perf_support import COLLECTIVES, EXCHANGES, PerfCase, call
from terminal import watched

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import SANITIZED, quarter_of_cases, some_of  # noqa: E402

load_tests = quarter_of_cases

RONDO, WORD_COUNT, ALL_REDUCE = [os.path.abspath(path) for path in sys.argv[1:4]]
del sys.argv[1:4]
FEW_RUNS = ("-n", "2", "-w", "1", "-c", "1")
TEXT = Path("/usr/share/common-licenses/GPL-3")


class Perf(PerfCase):
    rondo = RONDO

    def test_threads_each_collective_is_right(self):
        cases = [(collective, ranks) for collective in COLLECTIVES + EXCHANGES
                 for ranks in ((1, 2, 4) if collective == "hypercube" else (1, 3, 4))]
        few = [("all_reduce", 1), *(case for case in cases if case[1] == (4 if case[0] == "hypercube" else 3))]
        for collective, ranks in some_of(cases, few, "collectives of threads"):
            with self.subTest(collective=collective, ranks=ranks):
                report, _ = self.perf(collective, "-t", ranks, "-b", 4, "-e", "256K", "-f", 16, "--root", ranks - 1,
                                      *FEW_RUNS)
                self.assertEqual((report["collective"], report["ranks"]), (collective, ranks))

    def test_sendrecv_in_every_form_of_output(self):
        table, plot = self.folder / "table.csv", self.folder / "plot.svg"
        report, out = self.perf("sendrecv", "-t", 2, "-b", 8, "-e", "32K", "-f", 64, "--stream", 1, "-m", 3, *FEW_RUNS,
                                "--csv", table, "--plot", plot)
        self.assertIn("sendrecv", out)
        self.assertEqual((report["collective"], report["op"], report["root"]), ("sendrecv", "none", None))
        with table.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["bytes"] for row in rows], ["8", "512", "32768"])
        for row, result in zip(rows, report["results"]):
            self.assertEqual((row["collective"], row["algorithm"], row["in_place_wrong"]), ("sendrecv", "none", ""))
            rates = result["out_of_place"]
            self.assertEqual(rates["busbw_GBps"], rates["algbw_GBps"])
        self.assertIn("sendrecv, 2 ranks", "".join(ElementTree.parse(plot).getroot().itertext()))

    def test_hypercube_wants_a_power_of_two_and_has_the_bandwidth_of_an_all_gather(self):
        report, _ = self.perf("hypercube", "-t", 4, "-b", "64K", "-e", "64K", *FEW_RUNS)
        for placement in ("out_of_place", "in_place"):
            rates = report["results"][0][placement]
            self.assertAlmostEqual(rates["busbw_GBps"] / rates["algbw_GBps"], 3 / 4, places=3)
        for launcher, threads in (((), ("-t", 3)), ((RONDO, "run", "-n", 3, "--"), ())):
            status, out, err = call(*launcher, RONDO, "perf", "hypercube", *threads, "-b", 8, "-e", 8)
            self.assertEqual(status, 2, out + err)
            self.assertIn("hypercube takes a number of ranks that is a power of two", err)

    def test_threads_all_types_and_operations_are_right(self):
        report, _ = self.perf("all_reduce", "-t", 3, "-b", 2056, "-e", 2056, "-d", "all", "-o", "all", "-n", 1, "-w", 0)
        self.assertEqual(len(report), 12 * 5)
        report, _ = self.perf("all_reduce", "-t", 3, "-b", 2056, "-e", 2056, "-d", "all", "-o", "mulsum", *FEW_RUNS)
        self.assertEqual([series["op"] for series in report], ["mulsum"] * 12)

    def test_threads_buffers_streams_and_aggregation_are_right(self):
        for options in (("--buffers", "alloc"), ("--buffers", "registered"), ("--buffers", "moved"),
                        ("--stream", 1, "-m", 5), ("--no-rewrite",), ("--algorithm", "tree", "--protocol", "simple")):
            with self.subTest(options=options):
                self.perf("all_reduce", "--ranks", 2, "-b", 40, "-e", "200K", "-f", 64, *options, *FEW_RUNS)

    def test_rondo_run_each_collective_is_right(self):
        few = ("all_reduce", "reduce", "gather", "hypercube")  # ranks as threads run the others
        for collective in some_of(COLLECTIVES + EXCHANGES, few, "collectives of processes"):
            ranks = 4 if collective == "hypercube" else 3
            with self.subTest(collective=collective):
                report, out = self.perf(collective, "-b", 4, "-e", "64K", "-f", 16, *FEW_RUNS,
                                        launcher=(RONDO, "run", "-n", ranks, "--"))
                self.assertEqual(report["ranks"], ranks)
                self.assertEqual(out.count("# Out of bounds values"), 1, "only rank 0 prints")

    def under(self, *launcher):
        if shutil.which(launcher[0]) is None:
            print(f"skipped: all_reduce under {launcher[0]}: it is not installed", flush=True)
            return
        # On a busy machine, MPICH's mpiexec loses lines of its ranks.
        said = self.folder / "said"
        said.mkdir()
        report, _ = self.perf("all_reduce", "-b", 8, "-e", "64K", "-f", 16, *FEW_RUNS, said=said, launcher=(
            *launcher, "sh", "-c", 'exec "$@" >"$(mktemp "$0/XXXXXX")"', said))
        self.assertEqual(report["ranks"], 4)

    def test_open_mpi_starts_the_ranks(self):
        self.under("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", 4)

    def test_mpich_starts_the_ranks(self):
        self.under("mpiexec.hydra", "-n", 4)

    def test_csv_and_picture_are_written(self):
        table, picture = self.folder / "t.csv", self.folder / "p.svg"
        self.perf("all_reduce", "--ranks", 2, "-b", 8, "-e", 512, "-f", 8, "--csv", table, "--plot", picture, *FEW_RUNS)
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["bytes"] for row in rows], ["8", "64", "512"])
        self.assertEqual({row["out_of_place_wrong"] for row in rows}, {"0"})
        self.assertEqual(ElementTree.parse(picture).getroot().tag, "{http://www.w3.org/2000/svg}svg")

    def test_json_tells_which_rondo_ran_where_and_how(self):
        report, _ = self.perf("all_reduce", "-b", 8, "-e", 100, "-f", 4, *FEW_RUNS,
                              launcher=(RONDO, "run", "-np", 2, "--"), RONDO_PROTOCOL="Simple", RONDO_CHANNELS="1")
        self.assertEqual([row["bytes"] for row in report["results"]], [8, 32, 100])
        self.assertRegex(report["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(report["commit"], r"^([0-9a-f]{7,}|unknown)$")
        self.assertRegex(report["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(report["arguments"][:3], ["all_reduce", "-b", "8"])
        self.assertEqual(report["environment"]["RONDO_PROTOCOL"], "Simple")
        self.assertNotIn("RONDO_SECRET", report["environment"])
        self.assertEqual([(host["name"], host["ranks"]) for host in report["hosts"]], [(os.uname().nodename, [0, 1])])
        self.assertEqual((report["configuration"]["local_ranks"], report["configuration"]["threads"]), (2, False))

    def test_standard_output_can_be_the_json_and_the_table_goes_elsewhere(self):
        for option in (("--json",), ("--json", "-"), ("-J", "-")):
            status, out, err = call(RONDO, "perf", "all_reduce", "-t", 2, "-b", 8, "-e", 8, *FEW_RUNS, *option)
            self.assertEqual(status, 0, err)
            self.assertEqual(json.loads(out)["ranks"], 2)
            self.assertIn("# Out of bounds values : 0 OK", err)

    def test_a_terminal_shows_how_far_it_is_and_the_line_is_gone_at_the_end(self):
        status, shown = watched((RONDO, "perf", "all_reduce", "-t", 2, "-b", 8, "-e", 512, "-f", 8, *FEW_RUNS))
        self.assertEqual(status, 0, shown)
        parts = re.findall(r"\r\x1b\[K(\d+), (out of place|in place): (\d+) %, (?:about )?\d+ s (?:left|so far)",
                           shown)
        self.assertEqual([part[:2] for part in parts], [(size, where) for size in ("8", "64", "512")
                                                        for where in ("out of place", "in place")])
        self.assertEqual([int(part[2]) for part in parts], [0, 0, 33, 33, 66, 66])
        self.assertTrue(shown.endswith("\r\x1b[K"), shown[-60:])

    def test_what_an_algorithm_cannot_do_is_told_by_each_rank_though_others_may_have_gone(self):
        for _ in range(4):
            for rank in run_job(RONDO, 4, ["perf", "all_gather", "--algorithm", "two_shot"]).values():
                self.assertEqual(rank.process.returncode, 2, rank.output)
                self.assertIn("these can: ring", rank.output)

    def test_without_a_check_it_says_so(self):
        status, out, err = call(RONDO, "perf", "all_reduce", "-t", 2, "-b", 8, "-e", 8, "-n", 2, "-c", 0)
        self.assertEqual(status, 0, err)
        self.assertIn("# Out of bounds values : not checked\n", out)

    def test_every_root_in_turn(self):
        report, _ = self.perf("broadcast", "-t", 3, "-r", "all", "-b", 64, "-e", 64, *FEW_RUNS)
        self.assertEqual([series["root"] for series in report], [0, 1, 2])

    def test_rows_are_marked_where_other_programs_have_the_processors(self):
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                 for _ in range(2 * len(os.sched_getaffinity(0)))]
        try:
            for launcher, threads in (((RONDO, "run", "-n", 2, "--"), ()), ((), ("-t", 2))):
                report, out = self.perf("all_reduce", *threads, "-b", "1M", "-e", "1M", "-n", 20 if SANITIZED else 50,
                                        launcher=launcher)
                self.assertTrue(report["results"][0]["disturbed"], report["results"][0]["load"])
                self.assertRegex(out, r"1048576 .* !\n")
                self.assertIn("# Disturbed rows (!)   : 1 of 1;", out)
                self.assertIn("rondo run --bind core", out)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()

    def test_exit_status_tells_bad_options_from_failed_communication(self):
        status, _, err = call(RONDO, "perf", "all_reduce", "-d", "int7")
        self.assertEqual(status, 2)
        self.assertIn("known are", err)
        status, _, err = call(RONDO, "perf", "reduce", "--root", "1")
        self.assertEqual(status, 2, err)
        status, _, err = call(RONDO, "perf", "all_reduce", "--ranks", 2, "-b", "1G", "-e", "65536G", "-f", 65536)
        self.assertEqual(status, 2)
        self.assertIn("lower --maxbytes", err)
        status, _, err = call(RONDO, "perf", "all_reduce", RONDO_RANK="0", RONDO_SIZE="2", RONDO_SECRET="0" * 64,
                              RONDO_STORE="127.0.0.1:1", RONDO_INIT_TIMEOUT="1")
        self.assertEqual(status, 3, err)
        self.assertIn("rondo perf:", err)


class Examples(unittest.TestCase):
    def test_word_count_agrees_with_a_serial_count(self):
        text = TEXT.read_bytes()
        total = f"total: {len(text)} bytes, {len(text.split())} words"
        for ranks in (1, 4):
            status, out, err = call(RONDO, "run", "-n", ranks, "--", WORD_COUNT, TEXT)
            self.assertEqual(status, 0, err)
            self.assertIn(total, out)
        self.assertEqual(call(WORD_COUNT, "--serial", TEXT)[1].strip(), total.removeprefix("total: "))

    def test_word_count_cuts_no_word_in_two(self):
        with tempfile.NamedTemporaryFile() as file:
            for text, words in ((b"", 0), (b"a", 1), (b" a b", 2), (b"one_long_word_over_all_borders", 1),
                                (b"a b c d e f g h", 8), (b"\n\n\t  \n", 0)):
                file.truncate(0)
                file.seek(0)
                file.write(text)
                file.flush()
                status, out, err = call(RONDO, "run", "-n", 3, "--", WORD_COUNT, file.name)
                self.assertEqual(status, 0, out + err)
                self.assertIn(f"total: {len(text)} bytes, {words} words", out)

    def test_word_count_refuses_what_it_cannot_read(self):
        self.assertEqual(call(WORD_COUNT)[0], 2)
        self.assertEqual(call(WORD_COUNT, "/no/such/file")[0], 3)

    def test_the_example_of_the_readme_runs_and_is_the_one_that_is_built(self):
        status, out, err = call(RONDO, "run", "-n", 3, "--", ALL_REDUCE)
        self.assertEqual(status, 0, err)
        self.assertEqual(sorted(out.splitlines()), [f"rank {rank} of 3: the sum is 6" for rank in range(3)])
        root = Path(__file__).resolve().parents[2]
        code = (root / "README.md").read_text(encoding="utf-8").split("```c\n", 1)[1].split("```", 1)[0]
        self.assertTrue((root / "examples/all_reduce.c").read_text(encoding="utf-8").endswith(code))


if __name__ == "__main__":
    unittest.main(verbosity=2)
