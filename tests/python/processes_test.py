# SPDX-License-Identifier: Apache-2.0
"""Tests the Python package in jobs of several processes: processes_test.py RONDO."""

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ranks
import rondo

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
import job  # noqa: E402

PROGRAM = Path(__file__).resolve().parent / "rank_program.py"
SCRIPT = "import rondo; print(rondo.__version__)"


def join(name, rank, pipe):
    with rondo.Communicator(name, rank=rank, size=2, timeout=60) as comm:
        pipe.send(bytes(comm.all_gather(bytes([rank + 1]))))


def join_by_ids(pipe):
    pipe.send(rondo.unique_id())
    with rondo.Communicator(pipe.recv(), rank=0, size=2, timeout=60) as comm:
        pipe.send(bytes(comm.all_gather(b"a")))


class Processes(unittest.TestCase):
    command = ""

    def test_collectives_and_messages(self):
        done = ranks.as_processes(self.command, 2, PROGRAM, "sums")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {rank}: ([3.0, 3.0, 1], b'abc')" for rank in (0, 1)])

    def test_sums_with_factors_of_arrays_that_peers_cannot_read(self):
        for size in (2, 3):
            done = ranks.as_processes(self.command, size, PROGRAM, "factors")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count(f": {[True] * 9}"), size, done.stdout)

    def test_a_rank_that_is_killed_is_named(self):
        # The ranks are started without `rondo run`, which would end the other ranks.
        ended = job.run_job(sys.executable, 3, ["-B", str(PROGRAM), "death"])
        for rank in (0, 2):
            self.assertEqual(ended[rank].output, f"rank {rank}: ('RemoteError', 1, 2, True, 'RemoteError')\n")

    def test_messages_of_a_rank_that_has_ended_are_received(self):
        ended = job.run_job(sys.executable, 2, ["-B", str(PROGRAM), "departed"])
        self.assertEqual(ended[1].output, f"rank 1: ({list(range(10))}, 'RemoteError')\n")

    def test_a_rank_that_is_killed_while_suspended_is_named(self):
        for victim, mode in ((0, "asleep_first"), (2, "asleep_last")):
            ended = job.run_job(sys.executable, 3, ["-B", str(PROGRAM), mode])
            for rank in {0, 1, 2} - {victim}:
                self.assertEqual(ended[rank].output, f"rank {rank}: ({victim}, True, 'RemoteError')\n")

    def test_a_process_may_end_without_destroying_its_communicator(self):
        done = ranks.as_processes(self.command, 2, PROGRAM, "left")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.splitlines()), ["rank 0: 2", "rank 1: 2"])

    def test_an_id_that_the_program_hands_out(self):
        context = multiprocessing.get_context("spawn")
        name, mine, others = rondo.unique_id(), *context.Pipe()
        process = context.Process(target=join, args=(name, 1, others))
        process.start()
        join(name, 0, others)
        self.assertEqual([mine.recv(), mine.recv()], [b"\1\2"] * 2)
        process.join(ranks.LIMIT_S)
        self.assertEqual(process.exitcode, 0)

    def test_each_process_makes_an_id_and_the_first_one_is_used(self):
        context = multiprocessing.get_context("spawn")
        own, others = context.Pipe()
        process = context.Process(target=join_by_ids, args=(others,))
        process.start()
        ids = [own.recv(), rondo.unique_id()]
        own.send(ids)
        with rondo.Communicator(ids, rank=1, size=2, timeout=60) as comm:
            self.assertEqual(bytes(comm.all_gather(b"b")), b"ab")
        with self.assertRaisesRegex(rondo.RemoteError, "has ended"):  # nobody listens for the other id any more
            rondo.Communicator(ids[1], rank=0, size=1)
        self.assertEqual(own.recv(), b"ab")
        process.join(ranks.LIMIT_S)
        self.assertEqual(process.exitcode, 0)


class Loading(unittest.TestCase):
    """Tests that the package finds the library that was installed with it, and otherwise reports the fault."""

    def imported(self, location, change=str, cwd=None, script=SCRIPT, **variables):
        """Imports a copy of the package with another path of its library, and a changed interface."""
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "rondo"
            package.mkdir()
            for source in Path(rondo.__file__).parent.iterdir():
                if source.suffix == ".py":
                    (package / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
            (package / "_location.py").write_text(f"LIBRARY = {location!r}\n", encoding="utf-8")
            text = (package / "_interface.py").read_text(encoding="utf-8")
            (package / "_interface.py").write_text(change(text), encoding="utf-8")
            environment = {**os.environ, "LD_LIBRARY_PATH": "", "PYTHONPATH": folder, **variables}
            look = [sys.executable, "-B", "-c", script]
            return subprocess.run(look, text=True, env=environment, capture_output=True, timeout=60, check=False,
                                  cwd=cwd)

    def test_the_library_is_found_by_its_place_or_by_the_linker(self):
        library = (Path(ranks.PACKAGE) / "../../librondo.so.0").resolve()
        for location, path in ((str(library), ""), ("../none", str(library.parent))):
            done = self.imported(location, LD_LIBRARY_PATH=path)
            self.assertEqual(done.stdout, f"{rondo.__version__}\n", done.stderr)

    def test_a_library_that_is_not_there(self):
        done = self.imported("../none/librondo.so.0", LD_LIBRARY_PATH="/nowhere")
        if done.returncode == 0:
            self.skipTest("the dynamic linker finds an installed librondo.so.0")
        self.assertRegex(done.stderr, "ImportError: librondo.so.0 cannot be loaded.*LD_LIBRARY_PATH")

    def test_a_library_that_needs_another_one_which_is_not_there(self):
        library = (Path(ranks.PACKAGE) / "../../librondo.so.0").resolve()
        with tempfile.TemporaryDirectory() as folder:
            changed = Path(folder) / "librondo.so.0"
            changed.write_bytes(library.read_bytes().replace(b"libhwloc.so.", b"libnone3.so."))
            done = self.imported(str(changed))
        self.assertRegex(done.stderr, f"ImportError: {changed} needs .*, which this system lacks.*libsodium23")

    def test_only_absolute_folders_for_packages_are_searched(self):
        with tempfile.TemporaryDirectory() as folder:
            for place in ("none", "x-packages/none", "others/none"):
                (Path(folder) / place).mkdir(parents=True)
                (Path(folder) / place / "librondo.so.0").write_text("no library", encoding="utf-8")
            script = f"import sys; sys.path += [None, 'x-packages', '{folder}/others'{{}}]; import rondo"
            for more, opened in (("", False), (f", '{folder}/x-packages/'", True)):
                done = self.imported("../none/librondo.so.0", cwd=folder, script=script.format(more),
                                     LD_LIBRARY_PATH="/nowhere")
                self.assertEqual(folder in done.stderr, opened, done.stderr)
                self.assertNotIn(": none/librondo", done.stderr)

    def test_a_library_that_is_older(self):
        library = (Path(ranks.PACKAGE) / "../../librondo.so.0").resolve()
        done = self.imported(str(library), lambda text: re.sub(r"VERSION = \(0, \d+", "VERSION = (0, 99", text))
        self.assertRegex(done.stderr, r"ImportError: .*librondo.so.* is Rondo [\d.]+, but this package needs 0\.99")
        done = self.imported(str(library), lambda text: text.replace('"rondo_barrier"', '"rondo_later"'))
        self.assertRegex(done.stderr, "ImportError: .*librondo.so.* has no rondo_later: it is older than this package")


if __name__ == "__main__":
    Processes.command = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
