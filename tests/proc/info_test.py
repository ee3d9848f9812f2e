# SPDX-License-Identifier: Apache-2.0
"""Tests rondo info. Text, JSON and communicators must report the same. Text and JSON show settings and an injected
machine, and bad input is refused.

usage: info_test.py RONDO RANK_PROGRAM"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from job import refuse_pidfd_open, run_job

RONDO = sys.argv.pop(1)
PROGRAM = sys.argv.pop(1)
TWO_SOCKETS = Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "topology" / "two_sockets.xml"


def info(*options, preexec_fn=None, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
    return subprocess.run([RONDO, "info", *options], env=environment | variables, capture_output=True, text=True,
                          timeout=60, check=False, preexec_fn=preexec_fn)


def document(*options, preexec_fn=None, **variables):
    done = info("--json", *options, preexec_fn=preexec_fn, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Info(unittest.TestCase):
    def test_text_and_json_tell_the_same(self):
        told = document("--ranks", "5")
        text = info("--ranks", "5").stdout
        self.assertIn(f"rondo {told['version']}\n", text)
        self.assertIn(told["host"]["id"], text)
        for entry in told["configuration"]:
            row = [line.split(None, 1) for line in text.splitlines() if line.startswith(f"  {entry['variable']} ")]
            unset = "any" if entry["variable"] in ("RONDO_INTERFACE", "RONDO_IB_HCA") else "none"
            self.assertEqual(row, [[entry["variable"], f"{entry['value'] or unset} ({entry['source']})"]])
        rows = [line.split() for line in text.split("Plans for 5 rank")[1].splitlines()[2:]]
        shown = [[row[0], row[2], row[3], row[4]] for row in rows]
        chosen = [[it["collective"], it["algorithm"], it["protocol"] if it["kernel"] == "interpreter" else it["kernel"],
                   str(it["channels"])]
                  for it in told["plans"]["choices"]]
        self.assertEqual(shown, chosen)
        self.assertGreater(len(chosen), 30)
        self.assertIn("Shared memory of 5 ranks\n", text)

    def test_it_tells_by_what_a_death_is_noticed(self):
        for refuse, expected in ((None, "pidfd_open"), (refuse_pidfd_open, "/proc/PID/stat")):
            self.assertEqual(document(preexec_fn=refuse)["capabilities"]["death_noticed_by"], expected)
            self.assertRegex(info(preexec_fn=refuse).stdout, rf"death noticed by +{expected}\n")

    def test_plans_for_ranks_on_several_hosts_are_those_between_hosts(self):
        def plan(collective, size, *options):
            return next(it for it in document("--ranks", "4", *options)["plans"]["choices"]
                        if it["collective"] == collective and it["bytes"] == size)
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"):
            self.assertEqual(plan(collective, 1 << 20, "--hosts", "2")["algorithm"], "hierarchical")
            self.assertNotEqual(plan(collective, 1 << 20)["algorithm"], "hierarchical")
            small = plan(collective, 8, "--hosts", "2")
            self.assertEqual((small["kernel"], small["protocol"]), ("interpreter", "simple"))
        self.assertIn("Plans for 4 ranks on 2 hosts", info("--ranks", "4", "--hosts", "2").stdout)
        refused = subprocess.run([RONDO, "info", "--ranks", "2", "--hosts", "3"], capture_output=True, text=True,
                                 timeout=60, check=False)
        self.assertIn("2 ranks cannot be on 3 hosts", refused.stderr)

    def test_eight_ranks_share_at_most_16_mebibytes(self):
        self.assertLessEqual(document("--ranks", "8")["plans"]["shared_bytes"], 16 << 20)

    def test_communicators_of_eight_processes_and_of_eight_threads_have_reserved_what_it_says(self):
        expected = document("--ranks", "8")["plans"]["shared_bytes"]
        for processes, threads in ((8, 1), (1, 8)):
            with self.subTest(processes=processes, threads=threads):
                ranks = run_job(PROGRAM, processes, ["memory", str(threads)])
                told = [line.split()[1:] for rank in ranks.values() for line in rank.output.splitlines()
                        if line.startswith("memory ")]
                self.assertEqual([int(reserved) for reserved, _ in told], [expected] * 8)
                for _, used in told:
                    self.assertGreater(int(used), 0)
                    self.assertLessEqual(int(used), expected)

    def test_links_of_a_device_with_more_channels_have_those_of_host_memory(self):
        told = {channels: document("--ranks", "2", RONDO_CHANNELS=channels)["plans"] for channels in ("8", "9", "128")}
        for sizes in ("shared_bytes", "memory_bytes", "slot_bytes"):
            self.assertEqual({plans[sizes] for plans in told.values()}, {told["8"][sizes]}, sizes)

    def test_it_reserves_what_the_limit_of_memory_counts(self):
        for options in (["--ranks", "5"], ["--ranks", "5", "--hosts", "2"]):
            usual = document(*options)["plans"]
            self.assertGreater(usual["memory_bytes"], usual["shared_bytes"])
            exactly = document(*options, RONDO_MAX_MEMORY_BYTES=str(usual["memory_bytes"]))["plans"]
            self.assertEqual(exactly, usual)
            less = document(*options, RONDO_MAX_MEMORY_BYTES=str(usual["memory_bytes"] - 1))["plans"]
            self.assertEqual(less["memory_refusal"], "")
            self.assertLess(less["memory_bytes"], usual["memory_bytes"])
            refused = document(*options, RONDO_MAX_MEMORY_BYTES="64K")["plans"]
            self.assertIn("is 64 KiB, and this communicator needs ", refused["memory_refusal"])
            self.assertEqual((refused["memory_bytes"], refused["shared_bytes"]), (0, 0))
            text = info(*options, RONDO_MAX_MEMORY_BYTES="64K").stdout
            self.assertRegex(text, r"\n  refused +max_memory_bytes ")
            self.assertNotRegex(text, r"\n  reserved ")
        # A rank that is alone on its host shares no slots with others.
        alone = document("--ranks", "2", "--hosts", "2")["plans"]
        self.assertLess(alone["shared_bytes"], document("--ranks", "2")["plans"]["shared_bytes"])
        self.assertRegex(info("--ranks", "2", "--hosts", "2").stdout, r"\n  reserved +\S+ \w+ on a host; pages ")

    def test_it_counts_the_processors_that_this_process_may_use(self):
        allowed = sorted(os.sched_getaffinity(0))
        topology = document()["topology"]
        self.assertEqual(topology["allowed"], allowed)
        first = {allowed[0]}
        done = subprocess.run([RONDO, "info", "--json"], capture_output=True, text=True, timeout=60, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, first))
        bound = json.loads(done.stdout)
        self.assertEqual(bound["topology"]["allowed"], list(first))
        self.assertEqual(bound["topology"]["usable_cores"], 1)
        self.assertEqual(bound["plans"]["ranks"], 1)

    def test_a_setting_is_in_force_and_says_where_it_came_from(self):
        told = document("--ranks", "4", RONDO_ALGORITHM="ring", RONDO_CHANNELS="3", RONDO_TIMEOUT="")
        entries = {it["variable"]: (it["value"], it["source"]) for it in told["configuration"]}
        self.assertEqual(entries["RONDO_ALGORITHM"], ("ring", "environment"))
        self.assertEqual(entries["RONDO_PROTOCOL"], ("auto", "default"))
        self.assertEqual(entries["RONDO_KERNEL"], ("auto", "default"))
        self.assertEqual(entries["RONDO_TIMEOUT"], ("300", "default"))
        for choice in told["plans"]["choices"]:
            self.assertEqual((choice["algorithm"], choice["channels"]), ("ring", 3))

    def test_the_reducers_use_the_instructions_asked_for_in_any_case_and_the_best_by_default(self):
        best = document()["simd"]
        for asked, used in (("auto", best), ("Auto", best), (best.upper(), best), ("Plain", "plain")):
            done = info("--json", RONDO_SIMD=asked)
            self.assertEqual((json.loads(done.stdout)["simd"], done.stderr), (used, ""))

    def test_an_algorithm_that_cannot_do_a_collective_is_shown_as_the_error_that_it_will_be(self):
        told = document("--ranks", "4", RONDO_ALGORITHM="tree")
        errors = {it["collective"] for it in told["plans"]["choices"] if "error" in it}
        self.assertEqual(errors, {"reduce_scatter", "all_gather"})
        self.assertIn("these can: ring", info("--ranks", "4", RONDO_ALGORITHM="tree").stdout)

    def test_an_injected_machine_takes_the_place_of_this_one(self):
        told = document(RONDO_TOPOLOGY_FILE=str(TWO_SOCKETS))
        self.assertEqual(told["topology"]["source"], "injected")
        self.assertEqual(told["topology"]["usable_cores"], 4)
        self.assertEqual(told["topology"]["numa_nodes"][1]["processing_units"], [2, 6, 3, 7])
        self.assertEqual(told["plans"]["ranks"], 4)
        self.assertFalse(told["plans"]["oversubscribed"])
        self.assertTrue(document("--ranks", "5", RONDO_TOPOLOGY_FILE=str(TWO_SOCKETS))["plans"]["oversubscribed"])

    def test_an_exported_topology_can_be_injected(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "here.xml")
            self.assertEqual(info("--topology-xml", path).returncode, 0)
            here, again = document()["topology"], document(RONDO_TOPOLOGY_FILE=path)["topology"]
            for key in ("processor", "packages", "cores", "processing_units", "memory_bytes", "caches", "numa_nodes"):
                self.assertEqual(here[key], again[key], key)
            self.assertEqual(info("--topology-xml", "-").stdout.count("</topology>"), 1)

    def test_bad_input_is_answered_and_fails(self):
        for options, variables, status, part in [
                (["--ranks", "0"], {}, 2, "--ranks"), (["--rank"], {}, 2, "--help"),
                ([], {"RONDO_PROTOCOL": "quick"}, 2,
                 "'quick' is not a known protocol; known are: auto, simple, ll"),
                ([], {"RONDO_PROTOCOL": "direct"}, 2, "'direct' is not a known protocol"),
                ([], {"RONDO_TOPOLOGY_FILE": RONDO}, 2, "RONDO_TOPOLOGY_FILE"),
                (["--topology-xml", "/nonexistent/x.xml"], {}, 2, "/nonexistent/x.xml")]:
            done = info(*options, **variables)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
