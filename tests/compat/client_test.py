# SPDX-License-Identifier: Apache-2.0
"""Tests programs for nccl.h over libnccl.so.2: client_test.py CLIENT. Each scenario is one process or several."""

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import SANITIZED, quarter_of, quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

CLIENT = ""
# At the gate, each scenario that does every collective has a quarter of the types, and together they have all types.
# Under a sanitizer, the program itself takes few types.
QUARTERS = [0] if SANITIZED else quarter_of(range(4), "types of a scenario", in_every_build=True)
quarters = itertools.count(QUARTERS[0])
SECONDS = 300  # for all processes of a scenario; only a hang takes as long


def start(arguments, environment):
    return subprocess.Popen([CLIENT, *arguments], env=os.environ | environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def types_of(scenario):
    """Returns the environment that selects the scenario's types."""
    if SANITIZED or len(QUARTERS) > 1 or scenario not in ("process", "threads", "group", "messages"):
        return {}
    return {"CLIENT_TYPES": str(next(quarters) % 4)}


class Programs(unittest.TestCase):
    def finish(self, processes, killed=()):
        """Waits for all processes and returns their output. A killed process is not a failure."""
        outputs = []
        try:
            for process in processes:
                outputs.append(process.communicate(timeout=SECONDS)[0])
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for number, (process, output) in enumerate(zip(processes, outputs)):
            wanted = (-9, []) if number in killed else (0, ["done"])
            self.assertEqual((process.returncode, output.splitlines()[-1:]), wanted, output)
        return outputs

    def check(self, scenario, **environment):
        return self.finish([start([scenario], environment | types_of(scenario))])[0]

    def check_processes(self, count, scenario="process", killed=(), **environment):
        environment |= types_of(scenario)
        with tempfile.TemporaryDirectory() as folder:
            self.finish([start([scenario, str(Path(folder) / "id")],
                               environment | {"RANK": str(rank), "WORLD_SIZE": str(count)})
                         for rank in range(count)], killed)

    def test_two_processes_do_every_collective_type_and_operation(self):
        self.check_processes(2)

    def test_two_processes_do_so_by_kernels(self):
        self.check_processes(2, RONDO_DEVICE_EXECUTOR="kernel", SOFT_CUDA_MPS="on")

    def test_two_processes_on_a_device_each_do_so(self):
        self.check_processes(2, CLIENT_DEVICES="2")

    def test_two_threads_do_so(self):
        self.check("threads")

    def test_four_threads_on_a_device_each_do_so(self):
        self.check("threads", CLIENT_RANKS="4", CLIENT_DEVICES="4")

    def test_two_ranks_of_one_thread_do_so_in_groups(self):
        self.check("group")

    def test_two_ranks_of_one_thread_do_so_by_copies(self):
        self.check("group", RONDO_DEVICE_EXECUTOR="copy")

    def test_four_ranks_of_one_thread_on_two_devices_do_so_in_groups(self):
        self.check("group", CLIENT_RANKS="4", CLIENT_DEVICES="2")

    def test_a_killed_rank_is_a_remote_error_that_names_it(self):
        self.check_processes(2, "die", killed=[1])

    def test_a_rank_that_does_not_call_is_a_timeout_where_the_release_knows_that(self):
        self.check("timeout", RONDO_TIMEOUT="2", CLIENT_RESULT="8")
        self.check("timeout", RONDO_TIMEOUT="2", CLIENT_RESULT="6", RONDO_NCCL_VERSION="2.28.9")

    def test_variables_of_nccl_that_have_a_counterpart_count_unless_rondos_are_set(self):
        self.check("blocking", NCCL_COMM_BLOCKING="0")
        names = [name for _, name in socket.if_nameindex()]
        others = ",".join(name for name in names if name != "lo") or "none"
        prefix = "lo" if any(name.startswith("l") for name in names if name != "lo") else "l"
        for environment, words in (({"NCCL_SOCKET_IFNAME": "=lo"}, "interface lo"),
                                   ({"NCCL_SOCKET_IFNAME": "=none,lo"}, "interface lo"),
                                   ({"NCCL_SOCKET_IFNAME": "lo"}, "interface lo"),
                                   ({"NCCL_SOCKET_IFNAME": f"none,{prefix}:4711"}, "interface lo"),
                                   ({"NCCL_SOCKET_IFNAME": "^" + others}, "interface lo"),
                                   ({"NCCL_SOCKET_IFNAME": "^=" + others}, "interface lo"),
                                   ({"NCCL_SOCKET_IFNAME": "^lo", "RONDO_INTERFACE": "lo"}, "interface lo"),
                                   ({"NCCL_MAX_CTAS": "1"}, "load_store, 1 channel"),
                                   ({"NCCL_MAX_CTAS": "1", "RONDO_MAX_CTAS": "2"}, "load_store, 2 channels")):
            said = self.check("sum", RONDO_LOG="debug", **environment)
            self.assertIn(words, said)

    def test_interfaces_that_do_not_exist_are_refused(self):
        for value, words in (("none", 'NCCL_SOCKET_IFNAME is "none", which selects no network interface'),
                             ("=l", 'NCCL_SOCKET_IFNAME is "=l", which selects no network interface'),
                             ("^" + ",".join(name for _, name in socket.if_nameindex()), "it has "),
                             (",", "selects no network interface of this host"),
                             ("l*", "^ and = may only be its beginning"), ("lo,^lo", "^ and = may only be its")):
            self.check("refused interfaces", NCCL_SOCKET_IFNAME=value, CLIENT_WORDS=words)

    def test_nccl_debug_sets_the_level_and_lists_what_has_no_effect(self):
        ignored = {"NCCL_P2P_DISABLE": "1", "NCCL_ALGO": "Ring", "NCCL_MAX_CTAS": "4"}
        line = "rondo: warning: these variables of NCCL have no effect: NCCL_ALGO, NCCL_P2P_DISABLE\n"
        said = self.check("sum", NCCL_DEBUG="info", **ignored)
        self.assertEqual(said.count(line), 1, said)
        self.assertIn(" info: ", said.replace(line, ""))
        said = self.check("sum", NCCL_DEBUG="WARN", **ignored)
        self.assertNotIn(" info: ", said.replace(line, "", 1))
        self.assertIn(" debug: ", self.check("sum", NCCL_DEBUG="TRACE"))
        for quiet in ({}, {"NCCL_DEBUG": "VERSION"}, {"NCCL_DEBUG": "nonsense"}):
            self.assertNotIn("info: ", self.check("sum", **ignored, **quiet))
        said = self.check("sum", NCCL_DEBUG="INFO", RONDO_LOG="error", **ignored)
        self.assertNotRegex(said, " info: | no effect")

    def test_nccl_debug_file_takes_the_messages(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.check("sum", NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=f"{folder}/%h-100%-%%-%p.log")
            self.assertNotIn(" info: ", said)
            [file] = Path(folder).iterdir()
            self.assertRegex(file.name, r"^.+-100%-%-\d+\.log$")
            self.assertIn(" info: ", file.read_text())
        for name in ("stdout", "stderr", "/no such folder/file"):
            said = self.check("sum", NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=name)
            self.assertIn(" info: ", said)
            self.assertEqual("cannot write /no such folder/file" in said, "/" in name, said)

    def test_wrong_arguments_are_refused_and_named(self):
        self.check("arguments")

    def test_groups_hold_calls_and_inits_back_until_their_end_and_tell_the_first_error(self):
        self.check("groups")

    def test_a_group_may_have_more_calls_than_a_launch_queue_takes(self):
        for executor in ("kernel", "copy"):
            self.check("large groups", RONDO_DEVICE_EXECUTOR=executor, SOFT_CUDA_LAUNCH_QUEUE="16", RONDO_TIMEOUT="60")

    def test_communicators_are_made_without_waiting_and_ended_at_any_time(self):
        self.check("life")

    def test_shrink_and_revoke(self):
        self.check("shrink")

    def test_a_communicator_takes_in_new_ranks(self):
        self.check("grow")
        self.check("grow", RONDO_DEVICE_EXECUTOR="copy")

    def test_two_ranks_of_one_thread_suspend_and_resume_in_groups(self):
        for executor in ("kernel", "copy"):
            self.check("suspend", RONDO_DEVICE_EXECUTOR=executor, RONDO_DEVICE_HANDLES="vmm")

    def test_messages_and_exchanges_of_blocks_by_kernels(self):
        self.check("messages")

    def test_windows(self):
        for executor in ("kernel", "copy"):
            self.check("windows", RONDO_DEVICE_EXECUTOR=executor)

    def test_a_window_is_null_where_devices_cannot_reach_each_other(self):
        self.check("null windows", SOFT_CUDA_PEERS="off")

    def test_messages_and_exchanges_of_blocks_by_copies(self):
        self.check("messages", RONDO_DEVICE_EXECUTOR="copy")

    def test_collectives_with_a_configuration_of_their_own(self):
        self.check("configured")
        self.check("configured", RONDO_DEVICE_EXECUTOR="copy")

    def test_parameters_are_the_variables_that_count(self):
        self.check("parameters", NCCL_MAX_CTAS="300", NCCL_SOCKET_IFNAME="lo")

    def test_properties_of_a_communicator_as_each_release_knows_them(self):
        self.check("properties")

    def test_details_on_which_programs_depend(self):
        self.check("details")

    def test_memory_of_the_host_that_devices_reach_is_a_buffer(self):
        for executor in ("kernel", "copy"):
            for devices in ("1", "2"):
                self.check("buffers", RONDO_DEVICE_EXECUTOR=executor, CLIENT_DEVICES=devices)

    def test_children_of_fork_use_ids_of_their_parent(self):
        if "RONDO_TEST_SANITIZED" in os.environ:
            self.skipTest("a fork may copy a locked allocator of AddressSanitizer, and ThreadSanitizer refuses threads")
        self.check("fork")

    def test_timeouts_are_half_an_hour_unless_rondos_variables_are_set(self):
        self.check("timeouts", CLIENT_TIMEOUTS="1800000")
        self.check("timeouts", CLIENT_TIMEOUTS="0", RONDO_TIMEOUT="7", RONDO_INIT_TIMEOUT="60")

    def test_handles_of_inits_that_failed_in_a_group_stay_valid(self):
        self.check("failed inits", RONDO_INIT_TIMEOUT="1")

    def test_memory_of_the_library_is_device_memory_and_registrations_are_hints(self):
        self.check("memory")

    def test_a_group_is_captured_and_replayed(self):
        self.check("graphs")

    def test_all_streams_of_a_communicator_in_a_group_are_joined(self):
        for executor in ("kernel", "copy"):
            self.check("group streams", RONDO_DEVICE_EXECUTOR=executor)

    def test_operations_with_a_factor_by_kernels_and_by_copies(self):
        self.check("ops")
        self.check("ops", RONDO_DEVICE_EXECUTOR="copy")

    def test_what_is_not_supported_says_so(self):
        self.check("unsupported")

    def test_the_version_is_the_one_that_is_asked_for(self):
        self.check("version")
        for asked, told in (("2.28.9", "22809"), ("22907", "22907"), ("2.30", "refused"), ("2.28.9.1", "refused"),
                            ("newest", "refused"), ("2.28.900", "refused"), ("1", "refused"), ("", "23007")):
            self.check("version", RONDO_NCCL_VERSION=asked, CLIENT_VERSION=told)


if __name__ == "__main__":
    CLIENT = sys.argv[1]
    if "RONDO_TEST_SANITIZED" in os.environ:
        print("skipped: programs for nccl.h: 8 of 12 types: take long under a sanitizer; done without one", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
