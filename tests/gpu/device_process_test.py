# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes, mostly on one device: sums, moves, a rank that is killed, and a rank that does not
start. RONDO_DEVICE_EXECUTOR sets the executor. auto means copies, unless processes share the device by MPS."""

import functools
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
import job  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

run_job = functools.partial(job.run_job, seconds=180)  # some jobs have a timeout of 60 s
PROGRAM = sys.argv.pop(1)
IN_SOFTWARE = "softcuda" in os.environ.get("RONDO_CUDA_LIBRARY", "")
needs_software = unittest.skipUnless(IN_SOFTWARE, "needs what only the driver in software can be told to do")
BY_LL = {"RONDO_DEVICE_EXECUTOR": "kernel", "RONDO_PROTOCOL": "ll"}
ON_TWO_DEVICES = {"SOFT_CUDA_DEVICES": "2", "DEVICE_RANK_DEVICES": "2"}
EXECUTOR = os.environ.get("RONDO_DEVICE_EXECUTOR", "auto")


class DeviceProcesses(unittest.TestCase):
    def test_processes_sum_through_memory_that_they_open_from_each_other(self):
        self.check("sums", "copy" if EXECUTOR == "auto" else EXECUTOR)

    def test_processes_move_what_they_have_through_such_memory(self):
        self.check("moves", "copy" if EXECUTOR == "auto" else EXECUTOR)

    def test_processes_exchange_messages_by_kernels(self):
        for handles in ("ipc", "vmm"):
            self.check("messages", "kernel", {"RONDO_DEVICE_EXECUTOR": "kernel", "RONDO_DEVICE_HANDLES": handles})

    def test_processes_exchange_messages_by_copies(self):
        for handles in ("ipc", "vmm"):
            self.check("messages", "copy", {"RONDO_DEVICE_EXECUTOR": "copy", "RONDO_DEVICE_HANDLES": handles})

    def test_processes_put_into_windows(self):
        for executor in ("kernel", "copy"):
            self.check("windows", executor, {"RONDO_DEVICE_EXECUTOR": executor})

    def test_a_rank_that_is_killed_among_puts_is_named(self):
        ranks = run_job(PROGRAM, 3, ["windows_kill"], {"RONDO_DEVICE_EXECUTOR": "copy"})
        self.assertEqual(ranks[1].process.returncode, -9)
        for number in (0, 2):
            told = ranks[number].last()
            self.assertEqual((told.status, told.peer), ("remote rank failed", 1), ranks[number].output)
            self.assertRegex(told.message, r"^rank 1 \(host \S+, process \d+\) has ended")

    def test_processes_exchange_blocks(self):
        for executor in ("kernel", "copy"):
            self.check("blocks", executor, {"RONDO_DEVICE_EXECUTOR": executor})

    @needs_software
    def test_no_stream_of_messages_by_copies_waits_for_another_rank(self):
        # The caller's waiting stream blocks one of two hardware queues, so all streams of the message share the other.
        self.check("messages", "copy", {"RONDO_DEVICE_EXECUTOR": "copy", "SOFT_CUDA_QUEUES": "2",
                                        "DEVICE_RANK_COUNT": "3000000"})

    def test_a_rank_that_is_killed_during_messages_is_named(self):
        for executor in ("kernel", "copy"):
            ranks = run_job(PROGRAM, 3, ["messages_kill"], {"RONDO_DEVICE_EXECUTOR": executor})
            self.assertEqual(ranks[1].process.returncode, -9)
            for number in (0, 2):
                told = ranks[number].last()
                self.assertEqual((told.status, told.peer), ("remote rank failed", 1), ranks[number].output)
                # Different checks may notice the death first, and the rest of the message depends on the check.
                self.assertRegex(told.message, r"^rank 1 \(host \S+, process \d+\) has ended")

    def test_processes_replay_graphs_between_calls(self):
        self.check("sums", "copy" if EXECUTOR == "auto" else EXECUTOR, replayed=True)

    @needs_software
    def test_kernels_run_where_processes_share_the_device_by_mps(self):
        self.check("sums", "kernel" if EXECUTOR == "auto" else EXECUTOR, {"SOFT_CUDA_MPS": "on"})

    @needs_software
    def test_kernels_of_processes_that_take_turns_wait_for_whole_turns_and_copies_do_not(self):
        # A kernel that waits for its peer uses its whole turn. By one channel the sums take some twenty turns, and a
        # limit of four turns did not always end them. So the limit is less than a turn. Copies may take a hundred times
        # as long as they need, since tests run concurrently, and longer under a sanitizer.
        copy_ms = 12000 * job.PATIENCE
        for executor, turn_ms, timeout_ms, status in (("kernel", 3000, 2000, "timeout"), ("copy", 3000, copy_ms, "ok"),
                                                      ("kernel", 100, 60000, "ok")):
            with tempfile.TemporaryDirectory() as folder:
                ranks = run_job(PROGRAM, 2, ["sums"], {"SOFT_CUDA_TURNS": f"{turn_ms}:{folder}/turns",
                                                       "RONDO_DEVICE_EXECUTOR": executor, "RONDO_CHANNELS": "1",
                                                       "DEVICE_RANK_TIMEOUT": str(timeout_ms)})
            for rank in ranks.values():
                told = rank.last()
                self.assertEqual(told.status, status, f"{executor}, {timeout_ms} ms: {rank.output}")

    @needs_software
    def test_processes_whose_blocks_do_not_all_fit_are_told_what_to_do(self):
        ranks = run_job(PROGRAM, 3, ["sums"], {"SOFT_CUDA_MPS": "on", "SOFT_CUDA_RESIDENT_BLOCKS": "4",
                                               "RONDO_DEVICE_EXECUTOR": "kernel", "RONDO_CHANNELS": "2"})
        for rank in ranks.values():
            told = rank.last()
            self.assertEqual(told.status, "out of resources", rank.output)
            self.assertIn("RONDO_MAX_CTAS", told.message)

    def check(self, scenario, executor, environment=None, replayed=False):
        for size in (2, 4):
            ranks = run_job(PROGRAM, size, [scenario, "replayed"] if replayed else [scenario], environment)
            for rank in ranks.values():
                self.assertEqual(rank.process.returncode, 0, rank.output)
                told = rank.last()
                self.assertEqual((told.status, told.message), ("ok", executor or told.message), rank.output)

    @needs_software
    def test_finalize_goes_by_links_where_memory_ends_with_its_owner(self):
        for handles, kernel in (("ipc", "ll"), ("vmm", "load_store")):
            ranks = run_job(PROGRAM, 2, ["sums"],
                            {"RONDO_DEVICE_EXECUTOR": "kernel", "RONDO_DEVICE_HANDLES": handles, "SOFT_CUDA_MPS": "on",
                             "RONDO_LOG": "plan=debug"})
            for rank in ranks.values():
                self.assertEqual(rank.last().status, "ok", rank.output)
                self.assertIn(f"rondo_comm_finalize: one_shot, {kernel},", rank.output)

    @needs_software
    def test_processes_with_a_device_each_sum_by_ll(self):
        for handles in ("ipc", "vmm"):
            ranks = run_job(PROGRAM, 2, ["sums"], BY_LL | ON_TWO_DEVICES | {"RONDO_DEVICE_HANDLES": handles})
            for rank in ranks.values():
                told = rank.last()
                self.assertEqual((told.status, told.message), ("ok", "kernel"), rank.output)

    def test_processes_sum_directly_from_the_places_of_all(self):
        for algorithm in ("one_shot", "two_shot"):
            for handles in ("ipc", "vmm"):
                for more in ((), ("replayed",)):
                    ranks = run_job(PROGRAM, 3, ["sums", *more], {
                        "RONDO_DEVICE_EXECUTOR": "kernel", "RONDO_KERNEL": "load_store", "RONDO_ALGORITHM": algorithm,
                        "RONDO_DEVICE_HANDLES": handles, "DEVICE_RANK_COUNT": "16001"})
                    for rank in ranks.values():
                        told = rank.last()
                        self.assertEqual((told.status, told.message), ("ok", "kernel"), rank.output)

    def test_processes_sum_through_either_kind_of_memory(self):
        for handles in ("ipc", "vmm"):
            self.check("sums", None, {"RONDO_DEVICE_HANDLES": handles})

    @needs_software
    def test_memory_is_handed_over_as_asked_for_and_by_descriptors_where_nobody_asks(self):
        fault = "cuIpcGetMemHandle#1=201;cuIpcOpenMemHandle#1=201"
        self.check("sums", None, {"RONDO_DEVICE_HANDLES": "vmm", "SOFT_CUDA_FAULTS": fault})
        self.check("sums", None, {"RONDO_DEVICE_HANDLES": "auto", "SOFT_CUDA_FAULTS": fault})
        fault = "cuMemCreate#1=2;cuMemImportFromShareableHandle#1=201"
        self.check("sums", None, {"RONDO_DEVICE_HANDLES": "ipc", "SOFT_CUDA_FAULTS": fault})
        self.check("sums", None, {"SOFT_CUDA_VMM": "off", "SOFT_CUDA_FAULTS": fault})

    @needs_software
    def test_descriptors_that_a_device_has_not_are_refused_and_its_rank_named(self):
        ranks = run_job(PROGRAM, 2, ["sums"], {"RONDO_DEVICE_HANDLES": "vmm"},
                        own_environment={1: {"SOFT_CUDA_VMM": "off"}})
        for rank in ranks.values():
            told = rank.last()
            self.assertEqual(told.status, "unsupported", rank.output)
            self.assertIn("the device of rank 1 cannot share memory", told.message)

    @needs_software
    def test_a_rank_that_cannot_open_such_memory_is_named(self):
        self.check_who_cannot_open({})

    @needs_software
    def test_such_a_rank_is_named_to_those_too_that_the_store_answers_after_its_own_process_is_done(self):
        self.check_who_cannot_open({"DEVICE_RANK_SLOW_SENDS": "20"})

    def check_who_cannot_open(self, environment):
        ranks = run_job(PROGRAM, 3, ["sums"], {"RONDO_DEVICE_HANDLES": "vmm"} | environment,
                        own_environment={2: {"SOFT_CUDA_FAULTS": "cuMemImportFromShareableHandle#2=304"}})
        self.assertIn("opening the memory of rank 1", ranks[2].last().message, ranks[2].output)
        self.assertEqual(ranks[2].last().peer, 1)
        for number in (0, 1):
            told = ranks[number].last()
            self.assertEqual(told.peer, 2, ranks[number].output)
            self.assertIn("rank 2 failed: opening the memory of rank 1", told.message)

    def test_a_killed_rank_is_named_and_no_kernel_waits_for_it(self):
        for more in ((), ("replayed",)):
            ranks = run_job(PROGRAM, 3, ["kill", *more])
            self.assertEqual(ranks[1].process.returncode, -9)
            for number in (0, 2):
                told = ranks[number].last()
                self.assertEqual((told.status, told.peer), ("remote rank failed", 1), ranks[number].output)
                self.assertIn("rank 1", told.message)

    def test_a_rank_that_does_not_come_is_named_when_the_time_is_up(self):
        ranks = run_job(PROGRAM, 2, ["silent"])
        told = ranks[0].last()
        self.assertEqual((told.status, told.peer), ("timeout", 1), ranks[0].output)

    def test_a_replay_that_waits_for_a_rank_which_does_not_come_ends_when_the_time_is_up(self):
        told = run_job(PROGRAM, 2, ["silent", "replayed"])[0].last()
        self.assertEqual(told.status, "timeout", told)
        self.assertIn("replayed graph", told.message)


if __name__ == "__main__":
    # Without MPS, a device serves one process at a time. Jobs side by side would miss their deadlines there.
    side_by_side.main(3 if IN_SOFTWARE else 1)
