# SPDX-License-Identifier: Apache-2.0
"""Tests the clocks of two hosts. One host is in a time namespace whose CLOCK_MONOTONIC is a million seconds ahead. The
ranks measure this, and rondo trace puts both recordings on one clock. usage: clock_test.py RANK_PROGRAM RONDO"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

PROGRAM, RONDO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
AHEAD_S = 1_000_000


class Clocks(HostsTest):
    def test_a_difference_is_measured_and_taken_out(self):
        ahead = ["unshare", "-T", "--monotonic", str(AHEAD_S), "--fork", "--kill-child"]
        if subprocess.run([*ahead, "true"], capture_output=True, timeout=120, check=False).returncode != 0:
            print("skipped: clocks: no namespaces of times here")
            raise unittest.SkipTest("no namespaces of times")
        with net.Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            start = hosts.start
            hosts.start = lambda host, command, **more: start(host, (ahead if host == 1 else []) + command, **more)
            # A recording has the last 1,024 operations. Both ranks stop after a few, and then the test reads the
            # recordings.
            job = Job(hosts, [0, 1], [PROGRAM, "quiet", "1000"]).begun()
            dumps = [Path(folder) / f"h{host}" for host in range(2)]
            for host, path in enumerate(dumps):
                look = start(host, ["nsenter", "-T", "-t", str(self.number_on_host(job.processes[host])), "--",
                                    RONDO, "status", "--job", "--dump", str(path)])
                output = look.communicate(timeout=60)[0]
                self.assertEqual(look.returncode, 0, output)
            begins, ends = self.traced(dumps)
            both = [key for key in begins if len(begins[key]) == 2]
            for process in job.processes:
                process.kill()
            job.finish(60, skip=(0, 1))
            heads = [json.loads(path.read_text().splitlines()[0]) for path in dumps]
            self.assertEqual(heads[0]["clock"]["offset_ns"], 0)
            uncertainty = heads[1]["clock"]["uncertainty_ns"]
            self.assertLess(abs(heads[1]["clock"]["offset_ns"] + AHEAD_S * 10**9), uncertainty + 1)
            self.assertLess(uncertainty, 10**9)
            self.assertGreater(len(both), 10)
            for key in both:  # no rank ends an all-reduce before every rank has begun it
                self.assertLessEqual(max(begins[key]), min(ends[key]) + 2 * uncertainty / 1000 + 1, key)

    def traced(self, dumps):
        """Returns, for each rank, the begin and end of each all-reduce that has ended, by its number."""
        done = subprocess.run([RONDO, "trace", *map(str, dumps)], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        begins, ends = {}, {}
        for event in json.loads(done.stdout)["traceEvents"]:
            if (event["ph"] == "X" and event["cat"] == "collective" and event["args"]["state"] == "completed" and
                    event["name"].startswith("all_reduce")):
                key = event["args"]["operation"]
                begins.setdefault(key, []).append(event["ts"])
                ends.setdefault(key, []).append(event["ts"] + event["dur"])
        return begins, ends

    @staticmethod
    def number_on_host(process):
        """Returns the rank's process id in its namespace of processes."""
        with open(f"/proc/{net.innermost(process.pid)}/status") as file:
            return int(next(line for line in file if line.startswith("NSpid:")).split()[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
