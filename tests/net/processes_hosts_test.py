# SPDX-License-Identifier: Apache-2.0
"""Tests ranks on several hosts, which are network namespaces. Processes have too few descriptors, or forked
children, or lose only their control connection. Every rank must soon get an error that names the rank. usage:
processes_hosts_test.py RANK_PROGRAM"""

import os
import re
import shutil
import subprocess
import sys
import time
import unittest

import hosts as net
from hosts_job import HostsTest, Job

PROGRAM = os.path.abspath(sys.argv.pop(1))


class Processes(HostsTest):
    @unittest.skipIf("RONDO_TEST_SANITIZED" in os.environ, "a sanitizer needs descriptors of its own")
    def test_too_few_descriptors_while_hosts_are_joined_are_that_ranks_affair_on_all(self):
        limited = ["sh", "-c", f'ulimit -n ${{RONDO_TEST_DESCRIPTORS:-1024}}; exec "{PROGRAM}" sum 3 1000']
        failed = 0
        with net.Hosts(2) as hosts:
            for victim, least in ((0, 13), (3, 9)):  # rank 0 also runs the store
                for most in range(least, 24):
                    own = [{} for _ in range(4)]
                    own[victim]["RONDO_TEST_DESCRIPTORS"] = str(most)
                    job = Job(hosts, [0, 0, 1, 1], limited, {"RONDO_INIT_TIMEOUT": "30"}, own).finish(120)
                    with self.subTest(victim=victim, most=most):
                        wanted = job.last(victim).status
                        self.assertIn(wanted, ("ok", "out of resources"), job.output)
                        self.expect(job, range(4), wanted)
                        if wanted != "ok":
                            failed += 1
                            named = rf"rank {victim}\b|the process that runs the store"
                            self.expect(job, set(range(4)) - {victim}, wanted, named, {victim})
        self.assertGreater(failed, 4, "descriptors never ran out: the test shows nothing")

    @unittest.skipIf("RONDO_TEST_SANITIZED" in os.environ, "a sanitizer needs descriptors of its own")
    def test_the_limit_of_descriptors_that_the_error_names_is_enough(self):
        limited = ["sh", "-c", f'ulimit -n ${{RONDO_TEST_DESCRIPTORS:-1024}}; exec "{PROGRAM}" sum 3 1000']
        with net.Hosts(2) as hosts:
            def run(most):
                own = [{}, {"RONDO_TEST_DESCRIPTORS": str(most)}]
                return Job(hosts, [0, 1], limited, {"RONDO_INIT_TIMEOUT": "30"}, own).finish(120)
            for most in range(40, 8, -1):
                named = re.search(r"raise that limit to at least (\d+) \(ulimit -n\)", "".join(run(most).output))
                if named:
                    break
            self.assertIsNotNone(named, "no limit was named: the test shows nothing")
            self.assertGreater(int(named.group(1)), most)
            self.expect(run(int(named.group(1))), range(2), "ok")

    def test_a_killed_rank_is_named_although_a_process_that_it_forked_lives_on(self):
        for kind in ("fork", "double", "exec"):
            with net.Hosts(3) as hosts:
                job = Job(hosts, [0, 1, 2], [PROGRAM, "orphan", kind, "2", "7"]).finish(60)  # far below 300 s
                with self.subTest(kind=kind):
                    self.expect(job, {0, 1}, "remote rank failed", r"rank 2 \(host h2", {2})

    def sockets(self, hosts, *words):
        """Returns the fields that ss prints of each established connection of host 1: its timer, and both ends."""
        said = subprocess.run(hosts.command(1, ["ss", "-tnHo", *words, "state", "established"]), capture_output=True,
                              text=True, timeout=120, check=True).stdout
        return [line.split() for line in said.splitlines()]

    @unittest.skipIf(shutil.which("ss") is None, "no ss")
    def test_a_control_connection_that_is_reset_alone_is_told_as_that(self):
        with net.Hosts(2) as hosts:
            # Meanwhile no rank waits for another one, so links and deadlines report nothing.
            job = Job(hosts, [0, 1], [PROGRAM, "quiet", "300"]).begun()
            killed = []
            deadline = time.monotonic() + 60
            while not killed and time.monotonic() < deadline:  # at times, ss shows another timer
                # Connections for data have no keepalive, so this finds only the control connection.
                killed = [fields for fields in self.sockets(hosts) if "keepalive" in fields[-1]
                          and not any(end.endswith(f":{job.port}") for end in fields[2:4])]
            self.assertTrue(killed, "no timer of the control connection was seen")
            address, port = killed[0][2].rsplit(":", 1)
            subprocess.run(hosts.command(1, ["ss", "-K", "-tn", "src", address, "sport", "=", f":{port}"]), check=True,
                           capture_output=True, timeout=120)
            if any(fields[2] == killed[0][2] for fields in self.sockets(hosts)):
                self.skipTest("the kernel ends no connections for ss -K")
            job.finish(120)
            for rank in range(2):
                self.expect(job, [rank], "remote rank failed",
                            r"(control connection .*was reset|this system closed its control connection)", {1 - rank})


if __name__ == "__main__":
    unittest.main(verbosity=2)
