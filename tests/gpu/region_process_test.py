# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes share the memory that they register, each on a device of its own or several on one, with the
default kernel. What kernels move shows whether a sum went in the ranks' buffers or through their places. The driver is
the one in software."""

import tempfile
import unittest

from region_job import DEVICES, ELEMENTS, RegionCase, moved, plans_in
from sanitized import SANITIZED, quarter_of_cases, some_of

load_tests = quarter_of_cases

# This fault hits the first kernel of load_store, which is loaded after the kernels of every communicator.
LOADING_FAULT = "cuLibraryGetKernel#31=2"
TIMEOUT, REMOTE, ABORTED = 8, 9, 11  # of rondo_status_t
# The timeout of steps that wait for a busy device. A step that ends earlier has not waited, because only a later step
# releases the device. Under a sanitizer, even a step that does not wait may take 6 s.
SHORT_S = 20 if SANITIZED else 6
SHORT = {"REGION_RANK_TIMEOUT_MS": str(SHORT_S * 1000)}


class Regions(RegionCase):
    def check_plan(self, ranks, kernel):
        for rank in ranks.values():
            self.assertEqual([chosen for _, chosen in plans_in(rank)], [kernel], rank.output)

    def test_what_all_ranks_have_registered_is_read_and_written_in_place_and_the_sum_is_the_same(self):
        cases = [(handles, *case) for handles in ("ipc", "vmm") for case in ((2, 2), (4, 4), (4, 2), (3, 1))]
        few = [("ipc", 2, 2), ("vmm", 4, 2), ("ipc", 3, 1)]
        for handles, size, devices in some_of(cases, few, "sums in registered buffers"):
            with self.subTest(handles=handles, size=size, devices=devices):
                ranks = self.job(size, ["sum=before", "register", "shared", "sum=in_place"],
                                 {"RONDO_DEVICE_HANDLES": handles}, devices)
                self.check_apart(ranks, "before")
                self.check_shared(ranks, "in_place")

    def test_ranks_that_are_threads_of_several_processes_share_what_they_register(self):
        # Two processes have two ranks each, with two devices for both processes, or with one device for each rank.
        for devices in (2, 4):
            with tempfile.TemporaryDirectory() as folder:
                steps = ["sum=before", "register", "shared", "sum=in_place", "deregister", "sum=after"]
                threads = {"SOFT_CUDA_MPS": "on", "REGION_RANK_THREADS": "2", "REGION_RANK_ID": f"{folder}/id"}
                processes = self.job(2, steps, threads, devices)
                for process in processes.values():
                    self.assertEqual([told.status for told in process.reports()], ["ok", "ok"], process.output)
                for label, least, most in (("before", 4, 5.1), ("in_place", 1.9, 2.1), ("after", 4, 5.1)):
                    total = moved(processes, label)
                    memory = sum(total[device][device] for device in range(DEVICES)) / 4
                    self.assertTrue(least <= memory <= most, (label, total))

    def check_budget(self, size, devices, total, memory_max, what):
        """Checks how many bytes a rank moves in its device's memory and over links, on the average of each device."""
        here = size // devices
        link_max = 1.02 * 2 * (size - 1) / size
        link_min = 0.95 * 2 * (size - here) / size
        for device in range(devices):
            memory = total[device][device] / here
            sent = sum(total[device][peer] for peer in range(DEVICES) if peer != device) / here
            received = sum(total[peer][device] for peer in range(DEVICES) if peer != device) / here
            print(f"all_reduce, {size} processes on {devices} devices, {what}: device {device}: memory {memory:.3f} "
                  f"(budget {memory_max:.3f}), sent {sent:.3f}, received {received:.3f} (budget {link_max:.3f})")
            self.assertTrue(1.9 <= memory <= memory_max, total)
            self.assertTrue(link_min <= sent <= link_max, total)
            self.assertTrue(link_min <= received <= link_max, total)

    def test_an_all_reduce_in_registered_buffers_costs_no_more_than_its_budget(self):
        sizes = ((2, 2, 1), (4, 4, 1), (4, 2, 1), (2, 1, 1), (4, 1, 1), (2, 2, 8))
        cases = [(*case, handles) for case in sizes for handles in ("ipc", "vmm")]
        few = [(2, 2, 1, "vmm"), (4, 2, 1, "ipc")]
        for size, devices, mebibytes, handles in some_of(cases, few, "budgets of registered buffers"):
            ranks = self.job(size, ["register", "shared", "sum=in_place"], {
                "RONDO_DEVICE_HANDLES": handles, "REGION_RANK_COUNT": str(mebibytes * ELEMENTS)}, devices)
            self.check_budget(size, devices, moved(ranks, "in_place"), 2.1, f"{mebibytes} MiB, {handles}")

    def test_what_is_not_registered_costs_no_more_than_its_budget_which_is_less_than_by_the_interpreter(self):
        count = {"REGION_RANK_COUNT": "300001"}
        cases = [(2, 2), (2, 1), (3, 3), (3, 1), (4, 4), (4, 1)]
        for size, devices in some_of(cases, [(2, 2), (3, 1)], "budgets of what is not registered"):
            pushes = devices > 1  # then each result is written into the places of all readers
            budget = 1.02 * (6 - 4 / size if pushes else 5 - 2 / size)
            total = moved(self.job(size, ["sum=apart"], count, devices), "apart")
            self.check_budget(size, devices, total, budget, "in places")
            ranks = self.job(size, ["sum=apart"], count | {"RONDO_KERNEL": "interpreter"}, devices)
            interpreted = self.memory_of_a_rank(ranks, "apart")
            print(f"all_reduce, {size} processes on {devices} devices, by the interpreter: memory {interpreted:.3f}")
            self.assertGreater(interpreted, budget)  # so the interpreter is not the default

    def test_what_is_asked_for_is_had(self):
        for environment, small, large in (
                ({}, ("one_shot", "load_store"), ("two_shot", "load_store")),
                ({"RONDO_KERNEL": "load_store"}, ("one_shot", "load_store"), ("two_shot", "load_store")),
                ({"RONDO_KERNEL": "interpreter"}, ("one_shot", "interpreter"), ("two_shot", "interpreter")),
                ({"RONDO_PROTOCOL": "simple"}, ("one_shot", "interpreter"), ("two_shot", "interpreter")),
                ({"RONDO_ALGORITHM": "ring"}, ("ring", "interpreter"), ("ring", "interpreter"))):
            with self.subTest(environment=environment):
                ranks = self.job(2, ["plan", "register", "sum=apart", "sum=again", "count=8192", "plan", "sum=small",
                                     "sum=small_again"],
                                 environment | {"REGION_RANK_COUNT": "8193"})
                for rank in ranks.values():
                    self.assertEqual(plans_in(rank), [large, small], rank.output)

    def test_by_the_interpreter_nothing_is_shared(self):
        ranks = self.job(2, ["register", "sum=apart", "deregister", "sum=later"], {"RONDO_KERNEL": "interpreter"})
        for label in ("apart", "later"):
            self.check_apart(ranks, label)

    def test_one_rank_that_has_not_registered_sends_all_through_places_until_it_has(self):
        ranks = self.job(3, ["0:register", "2:register", "sum=without_one", "1:register", "shared", "sum=with_all"])
        self.check_apart(ranks, "without_one")
        self.check_shared(ranks, "with_all")

    def test_memory_that_was_deregistered_may_be_freed_and_other_memory_registered_in_its_place(self):
        again = []
        for number in range(4):
            again += ["deregister", f"sum=apart{number}", "replace", "register", "shared", f"sum=shared{number}"]
        ranks = self.job(2, ["register", "shared"] + again)
        for number in range(4):
            self.check_apart(ranks, f"apart{number}")
            self.check_shared(ranks, f"shared{number}")

    def test_one_rank_alone_may_deregister(self):
        # The others deregister before the next sum: a peer that is already in that sum could not close their memory.
        ranks = self.job(3, ["register", "shared", "1:deregister", "sum=without_one", "0:deregister", "2:deregister",
                             "sum=another", "replace", "register", "shared", "sum=with_all"])
        self.check_apart(ranks, "without_one")
        self.check_shared(ranks, "with_all")

    def test_captured_sums_are_replayed_in_registered_buffers_among_other_calls(self):
        ranks = self.job(2, ["register", "shared", "capture", "replay=first", "sum=between", "replay=second"])
        for label in ("first", "between", "second"):
            self.check_shared(ranks, label)

    def test_a_graph_that_was_captured_with_memory_which_is_deregistered_since_fails_and_touches_none(self):
        # The graph must not find memory that is registered later, even if the size is the same.
        for later in ([], ["register", "shared"]):
            ranks = self.job(2, ["register", "shared", "capture", "deregister", "sum=apart", "sum=another", "replace",
                                 *later, "replay=stale"], ok=False)
            for rank in ranks.values():
                self.assertEqual(rank.last().status, "ranks disagree", rank.output)
                self.assertIn("capture it again", rank.output)

    def test_a_suspended_rank_closes_the_memory_of_a_rank_that_destroys_its_communicator(self):
        for handles in ("ipc", "vmm"):
            ranks = self.job(2, ["register", "shared", "suspend", "1:destroy", "1:post=destroyed", "0:await=destroyed"],
                             {"RONDO_DEVICE_HANDLES": handles})
            self.assertNotIn("must not be freed yet", ranks[1].output)

    def test_a_graph_with_memory_that_a_suspended_rank_has_closed_touches_none(self):
        # Rank 1 can close the memory only when it is suspended. Until then it has another collective in flight.
        ranks = self.job(2, ["register", "shared", "capture", "other", "1:other_start", "1:not_quiet", "1:post=running",
                             "0:await=running", "0:hold", "suspend", "0:other_start", "other_end", "sleep",
                             "resume", "replay=stale"], ok=False)
        self.assertIn("deregister: not ready", ranks[0].output)
        for rank in ranks.values():
            self.assertEqual(rank.last().status, "ranks disagree", rank.output)

    def test_deregistering_while_a_peer_waits_for_this_rank_is_to_be_repeated_when_that_has_ended(self):
        ranks = self.job(2, ["register", "shared", "1:start", "1:not_quiet", "1:post=running", "0:await=running",
                             "0:hold", "0:start", "end", "deregister", "sum=apart", "replace", "register", "shared",
                             "sum=again"])
        self.check_shared(ranks, "again")
        self.assertIn("deregister: not ready", ranks[0].output)
        self.check_apart(ranks, "apart")

    def test_a_replay_that_has_not_begun_when_a_buffer_is_closed_ends_when_its_time_is_up(self):
        # Closing waits for the device, and so for the replay, which the other rank never launches.
        ranks = self.job(2, ["register", "shared", "capture", "0:behind", "0:post=behind", "1:await=behind",
                             "1:deregister", "0:failing_end", "0:post=failed", "1:await=failed"], SHORT)
        self.assertEqual(self.failing_in(ranks[0])[0], TIMEOUT, ranks[0].output)

    def busy_job(self, ahead, steps, environment=None, ok=True):
        """Runs a job in which rank 1 registers while rank 0's device is busy, so rank 0's process waits before it can
        open that memory."""
        return self.job(2, ["sum=first", "0:busy", "0:post=busy", "1:await=busy", "1:register", "0:not_quiet", *ahead,
                            *steps], environment, ok=ok)

    def failing_in(self, rank):
        """Returns results of the step `failing`: the number of the status, the seconds, "busy" or "idle" (the device
        at the end), and the message."""
        (line,) = (line for line in rank.output.splitlines() if line.startswith("failing "))
        _, status, seconds, device, message = line.split(" ", 4)
        return int(status), float(seconds), device, message

    def test_a_call_that_finds_news_while_its_device_is_busy_returns_at_its_timeout_and_names_what_it_waited_for(self):
        # Rank 1 calls later, so its timeout is not the first. The device is idle again while rank 0 destroys.
        ranks = self.busy_job(["0:failing", "0:post=failed", "1:await=failed", "1:failing"],
                              ["0:idle", "again", "register", "shared", "sum=again"], SHORT)
        _, seconds, device, _ = self.failing_in(ranks[0])
        self.assertGreaterEqual(seconds, SHORT_S, ranks[0].output)
        self.assertEqual(device, "busy", ranks[0].output)
        for rank in ranks.values():
            status, _, _, message = self.failing_in(rank)
            self.assertEqual(status, TIMEOUT, rank.output)
            self.assertRegex(message, f"rank 0 waited longer than its timeout of {SHORT_S} s .* opened or closed ")
            self.assertIn("CUDA device 0", message)
        self.check_shared(ranks, "again")

    def test_an_abort_ends_a_call_that_waits_for_memory_to_be_opened(self):
        ranks = self.busy_job(["0:abort_behind=calls", "0:failing=calls", "1:failing"],
                              ["0:idle", "again", "register", "shared", "sum=again"])
        for rank in ranks.values():
            self.assertEqual(self.failing_in(rank)[0], ABORTED, rank.output)
        _, seconds, device, _ = self.failing_in(ranks[0])
        self.assertGreaterEqual(seconds, 1, ranks[0].output)  # the abort is a second after the call's beginning
        self.assertEqual(device, "busy", ranks[0].output)
        self.check_shared(ranks, "again")

    def test_a_peer_that_is_killed_while_a_call_waits_for_memory_to_be_opened_ends_that_call_and_is_named(self):
        # When rank 1 is killed, the call has waited for a second. Without the kill, its timeout would end it.
        ranks = self.busy_job(["0:failing=calls"], ["1:await=calls", "1:sleep", "1:kill"], ok=False)
        self.assertEqual(ranks[1].process.returncode, -9)
        status, seconds, device, message = self.failing_in(ranks[0])
        self.assertEqual((status, device), (REMOTE, "busy"), ranks[0].output)
        self.assertGreaterEqual(seconds, 1, ranks[0].output)
        self.assertRegex(message, r"rank 1 \(")
        self.assertEqual(ranks[0].last().status, "ok", ranks[0].output)

    def test_a_peer_that_leaves_while_a_call_waits_for_memory_to_be_opened_ends_that_call_and_is_named(self):
        # Rank 0's call waits for rank 1's memory when rank 2 leaves. No other rank notices that, because rank 1 does
        # not call.
        for leave in ("destroy", "return"):
            with self.subTest(leave=leave):
                ranks = self.job(3, ["sum=first", "0:busy", "0:post=busy", "1:await=busy", "1:register", "0:not_quiet",
                                     "0:failing=calls", "2:await=calls", *["2:nap"] * 2, f"2:{leave}",
                                     "0:post=failed", "1:await=failed"], ok=False)
                self.assertEqual(ranks[2].process.returncode, 0, ranks[2].output)
                status, _, device, message = self.failing_in(ranks[0])
                self.assertEqual((status, device), (REMOTE, "busy"), ranks[0].output)
                self.assertRegex(message, r"rank 2 \(")
                for rank in (ranks[0], ranks[1]):
                    self.assertEqual(rank.last().status, "ok", rank.output)

    def test_a_buffer_is_not_given_back_while_a_replay_of_a_peer_uses_it_and_that_fails_on_all_ranks(self):
        # Rank 0's replay runs and waits for rank 1, which deregisters its buffer before it launches its own replay.
        ranks = self.job(2, ["register", "shared", "capture", "sum=between", "0:launch", "0:not_quiet",
                             "0:post=running", "1:await=running", "1:hold", "1:launch", "end"], ok=False)
        self.assertIn("deregister: not ready", ranks[1].output)
        for rank in ranks.values():
            self.assertEqual(rank.last().status, "ranks disagree", rank.output)
            self.assertIn("capture it again", rank.output)
            self.assertIn("at the end, deregister: ok\n", rank.output)

    def test_a_communicator_can_be_destroyed_while_the_driver_opens_memory_of_peers_and_leaves_what_that_uses(self):
        # Opening begins at once and waits for the device, which is busy.
        self.check_left_behind(self.busy_job([], ["0:destroy", "0:idle", "0:post=left", "1:await=left"])[0])

    def test_a_communicator_can_be_destroyed_while_the_driver_closes_memory_of_peers_and_leaves_what_that_uses(self):
        # Closing waits for the device, which is busy. Rank 1 leaves when the device continues.
        ranks = self.job(2, ["register", "shared", "0:busy", "0:destroy", "0:idle", "0:post=left", "1:await=left"])
        self.check_left_behind(ranks[0])
        self.assertNotIn("must not be freed", ranks[0].output + ranks[1].output)

    def check_left_behind(self, rank):
        """Checks that `rank` has destroyed its communicator before the driver ended its call."""
        (line,) = (line for line in rank.output.splitlines() if line.startswith("destroyed "))
        seconds, device, claimed_blocks = line.split()[1:]
        self.assertGreaterEqual(float(seconds), 4, rank.output)
        self.assertEqual(device, "busy", rank.output)
        self.assertEqual(claimed_blocks, "0", rank.output)  # another communicator may claim the blocks
        self.assertRegex(rank.output,
                         r"work on CUDA device 0 .*has not ended\. Opening or closing memory that other ranks")

    def test_a_call_that_waits_for_memory_to_be_opened_is_right_when_the_device_goes_on(self):
        ranks = self.busy_job(["0:register", "0:idle"], ["sum=behind", "shared", "sum=in_place"])
        self.check_shared(ranks, "in_place")

    def test_a_killed_rank_is_named_and_buffers_can_be_deregistered_and_freed_without_it(self):
        ranks = self.job(3, ["register", "shared", "1:kill", "sum=never"], ok=False)
        self.assertEqual(ranks[1].process.returncode, -9)
        for number in (0, 2):
            told = ranks[number].last()
            self.assertEqual((told.status, told.peer), ("remote rank failed", 1), ranks[number].output)
            self.assertIn("at the end, deregister: ok\n", ranks[number].output)
            self.assertNotIn("must not be freed", ranks[number].output)

    def test_when_a_device_has_failed_buffers_can_be_deregistered_on_all_ranks(self):
        ranks = self.job(2, ["register", "shared", *["sum=again"] * 30], ok=False,
                         own_environment={1: {"SOFT_CUDA_FAULTS": "work#61=719"}})
        for rank in ranks.values():
            self.assertNotIn(rank.last().status, ("ok", "the driver failed"), rank.output)
            self.assertIn("at the end, deregister: ok\n", rank.output)
            self.assertNotIn("must not be freed", rank.output)

    def test_a_rank_is_told_of_a_buffer_that_a_busy_peer_has_open_and_busy_ranks_close_theirs_in_the_end(self):
        # Rank 2 makes the others wait in another communicator, for longer than they wait for a quiet moment.
        begun = [f"{rank}:{step}" for rank in (0, 1) for step in ("other_start", "not_quiet", f"post=busy{rank}")]
        ranks = self.job(3, ["other", "register", "shared", *begun, "2:await=busy0", "2:await=busy1", "destroy",
                             "2:other_start", "other_end"])
        for number in (0, 1):
            self.assertNotIn("must not be freed", ranks[number].output)
        self.assertRegex(ranks[2].output, r"must not be freed yet: rank [01].* still has it open, .*; free it after")

    def test_devices_without_atomics_between_them_share_nothing_and_go_through_places_where_that_is_asked_for(self):
        for environment, kernel in (({}, "interpreter"), ({"RONDO_KERNEL": "load_store"}, "load_store")):
            ranks = self.job(2, ["register", "plan", "sum=apart"], {"SOFT_CUDA_NVLINK": "off"} | environment)
            self.check_plan(ranks, kernel)
            self.check_apart(ranks, "apart")

    def test_if_one_rank_cannot_share_what_it_registers_all_choose_the_interpreter(self):
        kernels = {"RONDO_DEVICE_EXECUTOR": "kernel", "RONDO_LOG": "info"}
        for own_environment, size, devices, said in (
                ({1: {"SOFT_CUDA_NVLINK": "off"}}, 3, 3, "device 1 cannot perform atomics"),
                ({1: {"SOFT_CUDA_MPS": "off"}}, 2, 1, ""),
                ({2: {"SOFT_CUDA_MPS": "off"}}, 3, 2, ""),
                ({1: {"SOFT_CUDA_FAULTS": LOADING_FAULT}}, 3, 3, "go on without load_store")):
            with self.subTest(own_environment=own_environment):
                ranks = self.job(size, ["register", "plan", "sum=apart"], kernels, devices,
                                 own_environment=own_environment)
                self.check_plan(ranks, "interpreter")
                self.check_apart(ranks, "apart")
                (odd,) = own_environment
                self.assertIn(said, ranks[odd].output)

    def test_kernels_that_would_not_be_used_are_not_loaded(self):
        ranks = self.job(2, ["plan"], {"SOFT_CUDA_NVLINK": "off", "SOFT_CUDA_FAULTS": LOADING_FAULT,
                                       "RONDO_LOG": "info"})
        self.check_plan(ranks, "interpreter")
        for rank in ranks.values():
            self.assertIn("cannot perform atomics", rank.output)
            self.assertNotIn("go on without load_store", rank.output)

    def test_kernels_that_cannot_be_loaded_are_an_error_where_they_are_asked_for(self):
        ranks = self.job(2, ["plan"], {"RONDO_KERNEL": "load_store"}, ok=False,
                         own_environment={1: {"SOFT_CUDA_FAULTS": LOADING_FAULT}})
        self.assertEqual(ranks[1].last().status, "out of resources", ranks[1].output)
        self.assertNotEqual(ranks[0].last().status, "ok", ranks[0].output)

    def test_more_than_16_ranks_share_what_they_register_only_where_that_is_asked_for(self):
        # The time limit is long because many processes start on few cores.
        few_blocks = {"RONDO_MAX_CTAS": "1", "SOFT_CUDA_THREADS": "1", "RONDO_INIT_TIMEOUT": "200"}
        cases = [(16, "auto", "load_store"), (17, "auto", "interpreter"), (17, "load_store", "load_store")]
        for size, asked, kernel in some_of(cases, cases[2:], "more than 16 ranks"):
            with self.subTest(size=size, asked=asked):
                self.check_plan(self.job(size, ["plan"], few_blocks | {"RONDO_KERNEL": asked}, 4, seconds=240), kernel)

    def test_a_graph_that_begins_behind_the_abort_of_a_peer_that_closes_its_buffers_ends(self):
        ranks = self.job(2, ["register", "shared", "capture", "0:behind", "0:post=behind", "1:await=behind", "1:abort",
                             "1:destroy", "0:end"], ok=False)
        told = ranks[0].last()
        self.assertEqual((told.status, told.peer), ("aborted", 1), ranks[0].output)
        self.assertIn("at the end, deregister: ok\n", ranks[0].output)

    def test_memory_that_a_peer_cannot_open_goes_through_places(self):
        ranks = self.job(2, ["register", "sum=apart", "deregister", "sum=later", "replace"],
                         {"RONDO_DEVICE_HANDLES": "vmm"},
                         own_environment={1: {"SOFT_CUDA_FAULTS": "cuIpcOpenMemHandle#1=201"}})
        self.check_apart(ranks, "apart")


if __name__ == "__main__":
    unittest.main(verbosity=2)
