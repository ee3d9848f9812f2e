# SPDX-License-Identifier: Apache-2.0
"""Tests rondo status and the flight recorder. They show for which ranks others wait, and the last calls of a killed
rank. Neither garbage nor an unreadable process may make the command fail.

usage: status_test.py RONDO RANK_PROGRAM"""

import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from job import PATIENCE, run_job
from run_support import RONDO, RunTest, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402
from sanitized import SANITIZED, quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

PROGRAM = sys.argv.pop(1)
NOBODY = 65534
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
RECORDS_MAX = 1024
MAGIC = 0x726F6E646F00000A  # the first word of a segment: segment_magic in transports/shm/segment.cpp


def status(*arguments, **popen):
    return subprocess.run([RONDO, "status", *map(str, arguments)], capture_output=True, text=True, timeout=600,
                          check=False, **popen)


def alone():
    """Returns a lock, which the caller must close. Cases run at the same time. With the lock, a case that lists the
    communicators of all processes does not find the large segments of another case, which take long to show."""
    lock = open(__file__, encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def idle_process(**popen):
    """Starts a process that lives until it is killed, or until this process ends."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, **popen)


def looks(*arguments):
    """Returns the communicators that `rondo status` reports, or an empty list."""
    done = status("--json", *arguments)
    assert done.returncode in (0, 1), done
    document = json.loads(done.stdout) if done.returncode == 0 else {"format": 2, "communicators": []}
    assert document["format"] == 2, document["format"]
    return document["communicators"]


def read_recording(text):
    """Returns the communicator's line, and the lines of ranks and operations by rank."""
    lines = [json.loads(line) for line in text.splitlines()]
    head = lines[0]
    assert [line["record"] for line in lines].count("communicator") == 1, "one communicator was expected"
    ranks = {line["rank"]: line for line in lines if line["record"] == "rank"}
    operations = {rank: [line for line in lines if line["record"] == "operation" and line["rank"] == rank]
                  for rank in ranks}
    return head, ranks, operations


class Running(RunTest):
    def stopped_job(self, rank_count, victim, operation):
        """Starts a job that waits for a rank which has stopped itself. Returns the job and its reported state."""
        job = self.start("-n", rank_count, "--", PROGRAM, "signal", int(signal.SIGSTOP), victim, operation, 1000)

        def waiting():
            found = looks("--job", job.pid)
            ready = found and found[0]["wait"] and len(found[0]["wait"]["waiting"]) == rank_count - 1
            return found if ready and found[0]["ranks"][victim]["process_state"] == "stopped" else None
        return job, wait_until(waiting, "all others wait for the stopped rank")

    def test_a_stopped_rank_is_the_one_that_is_waited_for(self):
        job, found = self.stopped_job(4, 2, 7)
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0]["wait"], {"operation": 7, "waiting": [0, 1, 3], "waited_for": [2]})
        self.assertIsNone(found[0]["failure"])
        for number, rank in enumerate(found[0]["ranks"]):
            self.assertEqual(rank["rank"], number)
            self.assertEqual(rank["state"], "between_calls" if number == 2 else "in_call")
            self.assertEqual(rank["latest"]["operation"], 6 if number == 2 else 7)
            self.assertEqual((rank["latest"]["collective"], rank["latest"]["type"], rank["latest"]["count"]),
                             ("all_reduce", "int32", 1000))
            self.assertGreater(rank["for_ns"], 0)
        victim = found[0]["ranks"][2]["process"]
        text = status("--job", job.pid).stdout
        self.assertIn(f"operation 7 waits for rank 2 (process {victim}, stopped, at operation 6)", text)
        self.assertIn("7: all_reduce of 1000 int32 (sum) by ", text)
        # Every rank of the job shows the same, also the stopped one.
        for rank in found[0]["ranks"]:
            self.assertEqual(looks(rank["process"])[0]["communicator"], found[0]["communicator"])
        with alone():
            mine = [it["communicator"] for it in looks("--job")]
        self.assertEqual(mine.count(found[0]["communicator"]), 1)

    def test_a_rank_in_a_message_shows_it_with_peer_number_and_bytes(self):
        job = self.start("-n", 2, "--", PROGRAM, "unanswered", int(signal.SIGSTOP))

        def waiting():
            found = looks("--job", job.pid)
            if not found or found[0]["ranks"][1]["process_state"] != "stopped":
                return None
            message = found[0]["ranks"][0]["message"]
            return found if message and message["message"] == 2 else None
        found = wait_until(waiting, "rank 0 waits in its second message, and rank 1 has stopped itself")
        message = found[0]["ranks"][0]["message"]
        self.assertEqual({name: message[name] for name in ("direction", "peer", "message", "batch", "state", "bytes")},
                         {"direction": "send", "peer": 1, "message": 2, "batch": 2, "state": "running",
                          "bytes": 32 << 20})
        self.assertIsNone(found[0]["ranks"][1]["message"])
        self.assertEqual([rank["batches_completed"] for rank in found[0]["ranks"]], [1, 1])
        text = status("--job", job.pid).stdout
        self.assertIn("no collective waits; ranks below are in messages", text)
        self.assertRegex(text, r"\n  0 +\d+ +in call for .* send 2 to rank 1: 33554432 bytes of int32\n")
        self.assertRegex(text, r"\n  1 +\d+ +between calls.*, stopped +none yet\n")

    def test_a_running_job_is_not_disturbed(self):
        operations, seen = 5000, 0
        while not seen:  # a fast machine ends some operations before the first query
            self.assertLess(operations, 10**8, "no look came while a job ran")
            job = self.start("-n", 3, "--", PROGRAM, "sum", operations, 100)
            while job.process.poll() is None:
                seen += len(looks("--job", job.pid))
            code, out, _ = job.finish()
            self.assertEqual((code, out.count(": ok peer")), (0, 3), out)
            operations *= 4

    def test_a_recording_on_request_wraps_after_1024_operations(self):
        job, _ = self.stopped_job(3, 1, RECORDS_MAX + 300)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "recording"
            done = status("--job", job.pid, "--dump", path)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            self.assertEqual(os.listdir(folder), ["recording"])
            head, ranks, operations = read_recording(path.read_text())
        self.assertEqual((head["format"], head["rank_count"], head["wait"]["waited_for"]), (2, 3, [1]))
        self.assertEqual(len(ranks), 3)
        for rank, lines in operations.items():
            latest = RECORDS_MAX + (299 if rank == 1 else 300)
            self.assertEqual([line["operation"] for line in lines], list(range(latest - RECORDS_MAX + 1, latest + 1)))
            for line in lines:
                running = line["operation"] == RECORDS_MAX + 300
                self.assertEqual(line["state"], "running" if running else "completed")
                self.assertEqual(line["arrived_ns"] is None, running or line["operation"] < 301, line)
                if not running:
                    self.assertLessEqual(line["entered_ns"], line["ended_ns"])
        done = status("--job", job.pid, "--dump", "-")
        self.assertEqual(read_recording(done.stdout)[0]["communicator"], head["communicator"])

    def test_the_launcher_records_what_a_killed_rank_did_last(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = self.run_job("-n", 4, "--env", f"RONDO_RECORDER_DIR={folder}", "--", PROGRAM, "signal",
                                        int(signal.SIGKILL), 2, 1300, 10)
            self.assertEqual(code, 128 + signal.SIGKILL)
            names = os.listdir(folder)
            self.assertEqual(len(names), 1, names)
            self.assertIn(names[0], err)
            _, ranks, operations = read_recording((Path(folder) / names[0]).read_text())
        self.assertEqual((ranks[2]["state"], ranks[2]["process_state"]), ("dead", "gone"))
        self.assertEqual((operations[2][-1]["operation"], operations[2][-1]["state"]), (1299, "completed"))
        self.assertEqual(len(operations[2]), RECORDS_MAX)

    def test_a_folder_that_is_not_there_is_told_and_changes_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            missing = f"{folder}/missing"
            code, out, err = self.run_job("-n", 2, "--env", f"RONDO_RECORDER_DIR={missing}", "--", PROGRAM, "abort", 1)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(code, 1)
        self.assertIn("aborted", out)
        self.assertIn(f"no flight recording: cannot make {missing}/", err)


class Failed(unittest.TestCase):
    """Tests ranks without `rondo run`, so that only ranks can write recordings."""

    def recording(self, rank_count, *arguments, **environment):
        with tempfile.TemporaryDirectory() as folder:
            ranks = run_job(PROGRAM, rank_count, [str(argument) for argument in arguments],
                            environment={"RONDO_RECORDER_DIR": folder, **environment})
            names = os.listdir(folder)
            self.assertEqual(len(names), 1, names)
            self.assertEqual((Path(folder) / names[0]).stat().st_mode & 0o777, 0o600)
            told = [rank.output.count(names[0]) for rank in ranks.values()]
            self.assertGreaterEqual(sum(told), 1, "a rank says where it is")
            return read_recording((Path(folder) / names[0]).read_text())

    def test_the_others_record_what_a_killed_rank_did_last(self):
        head, ranks, operations = self.recording(4, "signal", int(signal.SIGKILL), 1, 40, 100_000)
        self.assertEqual((head["failure"]["status"], head["failure"]["peer"]), ("remote rank failed", 1))
        self.assertIn(1, head["wait"]["waited_for"])
        self.assertEqual((ranks[1]["state"], ranks[1]["entered"], ranks[1]["completed"]), ("dead", 39, 39))
        self.assertEqual(operations[1][-1]["operation"], 39)
        self.assertIn("failed", [ranks[rank]["state"] for rank in (0, 2, 3)])
        self.assertIn("failed", [operations[rank][-1]["state"] for rank in (0, 2, 3)])

    def test_a_rank_killed_inside_of_an_operation_is_recorded_in_it(self):
        _, ranks, operations = self.recording(3, "exports", "alloc", 1, 3)
        self.assertEqual(ranks[1]["state"], "dead")
        self.assertIn(operations[1][-1]["state"], ("running", "completed"))

    def test_a_stopped_rank_is_recorded_as_such(self):
        head, ranks, _ = self.recording(3, "signal", int(signal.SIGSTOP), 2, 5, 1000, RONDO_TIMEOUT=str(5 * PATIENCE))
        self.assertEqual(head["failure"]["status"], "timeout")
        self.assertEqual((ranks[2]["process_state"], head["wait"]["waited_for"]), ("stopped", [2]))

    def test_a_death_that_only_a_query_finds_is_recorded(self):
        head, ranks, _ = self.recording(3, "idle", 2)
        self.assertEqual((head["failure"]["peer"], ranks[2]["state"]), (2, "dead"))

    def test_processes_that_exit_as_soon_as_they_are_told_of_an_abort_leave_a_whole_recording(self):
        head, _, operations = self.recording(8, "hasty", 3)
        self.assertEqual((head["failure"]["status"], head["failure"]["peer"]), ("aborted", 3))
        self.assertEqual([len(lines) for lines in operations.values()], [RECORDS_MAX] * 8)

    def test_nothing_is_written_without_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            run_job(PROGRAM, 3, ["sum", "20", "100"], environment={"RONDO_RECORDER_DIR": folder})
            self.assertEqual(os.listdir(folder), [])


class Refused(unittest.TestCase):
    def check(self, part, *arguments, code=1, **popen):
        done = status(*arguments, **popen)
        self.assertEqual(done.returncode, code, done)
        self.assertIn(part, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_what_cannot_be_shown_is_answered(self):
        self.check("name a process", code=2)
        self.check("see rondo status --help", "0", code=2)
        self.check("see rondo status --help", "--job", "x", code=2)
        self.check("see rondo status --help", "--json", "--dump", "f", os.getpid(), code=2)
        self.check("there is no process 2147483647", "2147483647")
        self.check("there is no process 2147483647", "--job", "2147483647")
        self.check(f"process {os.getpid()} has no communicator", os.getpid())
        self.check(f"no process below {os.getpid()} has a communicator", "--job", os.getpid())

    def test_a_process_of_another_user_is_answered(self):
        if os.geteuid() != 0:
            self.check("run this as the user whose process it is", 1)
            return
        sleeper = idle_process()
        try:
            # The command is started by its descriptor, because the user nobody may have no access to its path.
            command = os.open(RONDO, os.O_RDONLY)
            done = subprocess.run([f"/proc/self/fd/{command}", "status", str(sleeper.pid)], capture_output=True,
                                  text=True, timeout=600, check=False, pass_fds=[command], user=NOBODY, group=NOBODY)
            os.close(command)
        finally:
            sleeper.kill()
            sleeper.wait()
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertIn("run this as the user whose process it is, or as root", done.stderr)

    def segment(self, data, seals=F_SEAL_SHRINK):
        descriptor = os.memfd_create("rondo-segment", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, descriptor)
        os.pwrite(descriptor, data, 0)
        if seals:
            fcntl.fcntl(descriptor, F_ADD_SEALS, seals)
        return descriptor

    def test_garbage_in_the_place_of_a_segment_is_refused_with_the_reason(self):
        magic = 0x726F6E646F000000
        for part, data, seals in (("too short", b"x" * 8, F_SEAL_SHRINK), ("not sealed", b"x" * 65536, 0),
                                  ("does not begin as one", b"x" * 65536, F_SEAL_SHRINK),
                                  ("has layout 99", struct.pack("<Q", magic + 99) + b"x" * 65536, F_SEAL_SHRINK),
                                  ("ranks and has", struct.pack("<Q", MAGIC) + b"x" * 65536, F_SEAL_SHRINK)):
            with self.subTest(part=part):
                descriptor = self.segment(data, seals)
                self.check(part, os.getpid())
                os.ftruncate(descriptor, len(data) if seals else 0)

    def sparse_segment(self, rank_count, communicator=1):
        """Makes a segment without records, which claims to have this many ranks, each in operation 2^60."""
        boards, board = 1088, (3 + 16 + 1024 + 6 * 6) * 64  # its words, counters of 16 collectives, records, notes
        messages = (1 + 256 + 305) * 64  # a rank's words about messages, their records, and those of its device
        descriptor = self.segment(struct.pack("<QQQQ", MAGIC, 0, communicator, rank_count))
        os.ftruncate(descriptor, boards + rank_count * (board + messages) + (1 << 20))
        for rank in range(0, rank_count, 8):
            os.pwrite(descriptor, struct.pack("<Q", 1 << 60), boards + rank * board)
        return descriptor

    def test_a_look_at_a_sparse_segment_takes_no_memory(self):
        self.addCleanup(alone().close)
        descriptor = self.sparse_segment(4096)
        before = os.fstat(descriptor).st_blocks
        for arguments in (["--json"], [], ["--dump", "-"]):
            done = status(os.getpid(), *arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
            self.assertEqual(os.fstat(descriptor).st_blocks, before, arguments)

    def test_more_ranks_than_any_host_has_are_refused(self):
        descriptor = self.sparse_segment(4097)
        before = os.fstat(descriptor).st_blocks
        self.check("it says 4097 ranks", os.getpid())
        self.assertEqual(os.fstat(descriptor).st_blocks, before)

    def test_of_many_communicators_not_all_are_shown(self):
        self.addCleanup(alone().close)
        for number in range(18):
            self.sparse_segment(4000, number)
        # Text is enough under a sanitizer, where the JSON of 64,000 ranks takes a minute.
        done = status(os.getpid(), *([] if SANITIZED else ["--json"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = re.findall(r"^communicator ", done.stdout, re.M) if SANITIZED else json.loads(
            done.stdout)["communicators"]
        self.assertEqual(len(shown), 16)
        self.assertIn("not all are shown", done.stderr)

    def test_root_looks_at_other_users_processes_only_where_it_is_asked_to(self):
        if os.geteuid() != 0:
            self.skipTest("not root")
        descriptor = self.sparse_segment(2, 0xABCDEF)
        sleeper = idle_process(user=NOBODY, group=NOBODY, pass_fds=[descriptor])
        try:
            # This process's own descriptor must not be found.
            os.dup2(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), descriptor, inheritable=False)
            with alone():
                seen = [any(it["communicator"].endswith("abcdef") for it in looks("--job", *more))
                        for more in ([], ["--all-users"])]
        finally:
            sleeper.kill()
            sleeper.wait()
        self.assertEqual(seen, [False, True])
        self.check("see rondo status --help", "--all-users", code=2)
        self.check("see rondo status --help", "--job", os.getpid(), "--all-users", code=2)

    def test_random_bytes_behind_a_right_beginning_are_shown_without_a_crash(self):
        seed = int(os.environ.get("RONDO_SEED", random.randrange(1 << 32)))
        print(f"seed {seed}", flush=True)
        generator = random.Random(seed)
        for _ in range(5):
            head = struct.pack("<QQQQ", MAGIC, 1, 2, 4) + generator.randbytes(96)
            self.segment(head + generator.randbytes(4 * 107000))
            for arguments in (["--json"], [], ["--dump", "-"]):
                done = status(os.getpid(), *arguments)
                self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
                self.assertTrue(done.stdout.isascii())


if __name__ == "__main__":
    side_by_side.main(4)
