# SPDX-License-Identifier: Apache-2.0
"""Tests a rank and a command with few resources. There are no standard streams, file sizes are limited, a log has no
reader, or FIFOs and devices are used as files. No signal may end them, and nothing may wait for ever.

usage: limits_test.py RONDO RANK_PROGRAM"""

import fcntl
import json
import os
import resource
import secrets
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

from job import PATIENCE, HeldPort, run_job

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

RONDO, PROGRAM = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
HANG_S = 120 * PATIENCE
CLOSED = "<&- >&- 2>&-"


def limit_file_size(size):
    """Limits file sizes (for preexec_fn). Python ignores SIGXFSZ, and its children would inherit that."""
    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return apply


def default_sigpipe():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rondo-limits-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def fifo(self):
        path = self.path("fifo")
        os.mkfifo(path)
        return path

    def run_command(self, *words, **options):
        """Runs a command. One that hangs fails the test."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | options
        return subprocess.run([RONDO, *words], text=True, timeout=HANG_S, **options)

    def refused(self, told, *texts):
        self.assertNotEqual(told.returncode, 0, told)
        self.assertGreater(told.returncode, 0, f"ended by a signal: {told}")
        for text in texts:
            self.assertIn(text, told.stderr)


class ClosedStreams(Case):
    def test_a_program_without_standard_streams_finds_none_of_the_librarys_descriptors_there(self):
        environment = {"RONDO_LOG": "debug", "RONDO_LOG_FILE": self.path("log-%p")}
        shell = ["-c", f'exec "{PROGRAM}" closed 200 {CLOSED}']
        for rank in run_job("sh", 3, shell, environment).values():
            self.assertEqual(rank.process.returncode, 0, rank.output)

    def test_commands_do_their_work_without_standard_streams(self):
        script = f'RONDO_LOG=debug exec "{RONDO}" perf all_reduce -b 8 -e 1M -n 2 --json "{self.path("out")}" {CLOSED}'
        told = self.run_command("run", "-n", "2", "sh", "-c", script)
        self.assertEqual(told.returncode, 0, told)
        with open(self.path("out")) as file:
            self.assertIn("results", json.load(file))


class FileSize(Case):
    def test_shared_memory_beyond_the_limit_is_out_of_resources_and_says_so(self):
        ranks = run_job(PROGRAM, 2, ["sum", "3", "1000"], preexec_fn=limit_file_size(100_000))
        for rank in ranks.values():
            last = rank.last()
            self.assertEqual(last.status, "out of resources", last.message)
        self.assertTrue(any("ulimit -f" in rank.last().message for rank in ranks.values()),
                        [rank.output for rank in ranks.values()])

    def test_a_log_at_the_limit_loses_lines_and_not_the_rank(self):
        log = self.path("log")
        with open(log, "w") as file:
            file.truncate(64 << 20)
        environment = {"RONDO_LOG": "debug", "RONDO_LOG_FILE": log}
        for rank in run_job(PROGRAM, 2, ["sum", "3", "1000"], environment,
                            preexec_fn=limit_file_size(64 << 20)).values():
            self.assertEqual(rank.last().status, "ok", rank.output)
            self.assertIn("lines are lost", rank.output)

    def test_a_commands_output_at_the_limit_is_an_error(self):
        told = self.run_command("schedule", "--algorithm", "ring", "--ranks", "64", "--json", self.path("out"),
                                preexec_fn=limit_file_size(4096))
        self.refused(told, "ulimit -f")


class Log(Case):
    def test_a_fifo_whose_reader_leaves_loses_lines_and_not_the_rank(self):
        fifo = self.fifo()
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # reads only the first byte
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # so the rank cannot write all its lines before the reader leaves
        ended = threading.Event()
        thread = threading.Thread(target=self.leave_after_a_byte, args=(reader, ended))
        thread.start()
        try:
            ranks = run_job(PROGRAM, 2, ["several", "20"], {"RONDO_LOG": "debug"},
                            own_environment={0: {"RONDO_LOG_FILE": fifo}}, preexec_fn=default_sigpipe)
        finally:
            ended.set()
            thread.join()
        for rank in ranks.values():
            self.assertEqual(rank.process.returncode, 0, rank.output)
        self.assertIn("lines are lost", ranks[0].output)

    @staticmethod
    def leave_after_a_byte(descriptor, ended):
        got = False
        while not got and not ended.wait(0.001):
            try:
                got = bool(os.read(descriptor, 1))
            except BlockingIOError:
                pass
        os.close(descriptor)

    def test_a_fifo_that_nobody_reads_is_refused_at_once(self):
        ranks = run_job(PROGRAM, 1, ["sum", "1", "1"], {"RONDO_LOG_FILE": self.fifo()})
        self.assertIn("a FIFO that no program reads", ranks[0].last().message)

    def test_a_socket_is_refused_as_one(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(folder, "socket")
            listener.bind(path)
            ranks = run_job(PROGRAM, 1, ["sum", "1", "1"], {"RONDO_LOG_FILE": path})
            self.assertIn("it is a socket, which cannot be opened as a file", ranks[0].last().message)


class SpecialFiles(Case):
    def test_a_fifo_that_a_variable_names_is_refused(self):
        for name in ("RONDO_TOPOLOGY_FILE", "RONDO_TUNING_FILE"):
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                fifo = os.path.join(folder, "fifo")
                os.mkfifo(fifo)
                ranks = run_job(PROGRAM, 1, ["sum", "1", "1"], {name: fifo})
                self.assertIn(name, ranks[0].last().message)
                self.assertIn("a FIFO or pipe, no regular file", ranks[0].last().message)

    def test_a_fifo_or_device_that_a_command_is_to_read_is_refused(self):
        fifo = self.fifo()
        for words in (["sim", "--topology", "FILE"], ["sim", "--ranks", "4", "--table", "FILE"], ["trace", "FILE"]):
            for path, kind in ((fifo, "a FIFO or pipe"), ("/dev/zero", "a device"), (self.folder, "a folder")):
                with self.subTest(words=words, path=path):
                    told = self.run_command(*[path if word == "FILE" else word for word in words])
                    self.refused(told, f"it is {kind}, no regular file")


class Outputs(Case):
    """Commands that write each kind of output, with outputs as small as possible."""
    WRITERS = (["schedule", "--algorithm", "ring", "--json"], ["sim", "--ranks", "4", "--alone", "--json"],
               ["info", "--topology-xml"])

    def test_a_link_stays_a_link_and_its_target_is_written(self):
        for words in self.WRITERS:
            for there in (True, False):
                with self.subTest(words=words, there=there), tempfile.TemporaryDirectory() as folder:
                    target, link = os.path.join(folder, "target"), os.path.join(folder, "link")
                    if there:
                        open(target, "w").close()
                    os.symlink("target", link)
                    told = self.run_command(*words, link)
                    self.assertEqual(told.returncode, 0, told)
                    self.assertTrue(os.path.islink(link))
                    self.assertGreater(os.path.getsize(target), 0)

    def test_a_fifo_gets_what_is_written(self):
        fifo = self.fifo()
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            told = self.run_command("schedule", "--algorithm", "ring", "--json", fifo)
            self.assertEqual(told.returncode, 0, told)
            self.assertEqual(len(json.loads(os.read(reader, 1 << 16))["schedules"]), 4)
        finally:
            os.close(reader)

    def test_a_fifo_that_nobody_reads_is_refused(self):
        self.refused(self.run_command("schedule", "--algorithm", "ring", "--json", self.fifo()), "no program reads")

    @unittest.skipIf(os.geteuid() != 0, "only root makes devices")
    def test_a_device_stays_a_device(self):
        device = self.path("null")
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
            os.close(os.open(device, os.O_WRONLY))
        except OSError as error:
            self.skipTest(f"no devices here: {error}")
        tune = ["tune", "--quick", "--ranks", "2", "--sizes", "8", "--collectives", "all_reduce", "-o"]
        for words in (tune, *self.WRITERS):
            with self.subTest(words=words):
                told = self.run_command(*words, device)
                self.assertIn(told.returncode, (0, 1) if words is tune else (0,), told)
                self.assertTrue(stat.S_ISCHR(os.stat(device).st_mode), told)
        self.assertEqual(os.listdir(self.folder), ["null"])

    def test_output_that_is_lost_is_an_error(self):
        perf = ["perf", "all_reduce", "--ranks", "2", "-b", "8", "-e", "8", "-n", "1"]
        for words in (perf, ["run", "-n", "2", RONDO, *perf[:2], *perf[4:]], ["--help"], ["--version"],
                      ["perf", "--help"], ["info"], ["schedule", "--algorithm", "ring"],
                      ["sim", "--ranks", "4", "--alone"], ["train", "--help"], ["help", "run"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                told = self.run_command(*words, stdout=full)
                self.refused(told, "cannot write standard output" if words[0] != "run" else "standard output")


class Timeouts(Case):
    @unittest.skipIf("RONDO_CUDA_LIBRARY" not in os.environ, "no CUDA driver in software")
    def test_perf_on_devices_waits_on_host_memory_as_long_as_asked_for(self):
        with HeldPort() as port:
            base = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                        RONDO_SECRET=secrets.token_hex(32))
            silent = subprocess.Popen([PROGRAM, "signal", str(int(signal.SIGSTOP)), "1", "1", "1"],
                                      env=dict(base, RANK="1", RONDO_KERNEL="interpreter", RONDO_PROTOCOL="simple",
                                               RONDO_CHANNELS="1"))
            try:
                told = self.run_command("perf", "all_reduce", "--device", "cuda", "-T", "2", "-b", "8", "-e", "8",
                                        env=dict(base, RANK="0"))
            finally:
                silent.kill()
                silent.wait()
        self.refused(told)
        # The time may exceed the limit on a busy machine, and is reported. The default limit would be 300 s.
        self.assertRegex(told.stderr, r"timed out after \d\d?\.")


if __name__ == "__main__":
    unittest.main(verbosity=2)
