# SPDX-License-Identifier: Apache-2.0
"""Processes on several hosts, which are network namespaces, write into each other's windows. They run random programs
over each network. A rank is killed or stopped right after its last put.

usage: windows_hosts_test.py RANK_PROGRAM RONDO"""

import os
import signal
import sys
import time
import unittest
from pathlib import Path

import hosts as net
from hosts_job import PATIENCE, HostsTest, Job

PROGRAM = os.path.abspath(sys.argv.pop(1))
RONDO = os.path.abspath(sys.argv.pop(1))


class Windows(HostsTest):
    def programs(self, layout, variables, last="12"):
        with net.Hosts(max(layout) + 1) as hosts:
            job = Job(hosts, layout, [PROGRAM, "windows", "1", last], variables).finish(240)
            self.expect(job, range(len(layout)), "ok")

    def test_random_programs_on_two_hosts(self):
        self.programs([0, 0, 1, 1], {})

    def test_random_programs_on_three_hosts_over_several_sockets_with_tags(self):
        self.programs([0, 1, 2, 0, 1], {"RONDO_SOCKETS": "2", "RONDO_FRAME_TAGS": "on"})

    def test_random_programs_over_ucx(self):
        self.need_ucx(RONDO)
        self.programs([0, 0, 1], {"RONDO_NETWORK": "ucx"})

    def last_put(self, hosts, layout, number, variables):
        """Runs a job whose rank 1 sends itself a signal after its last put. Rank 0 goes on when that has happened."""
        over = Path(hosts.folder, "over")
        job = Job(hosts, layout, [PROGRAM, "last_put", str(int(number)), str(over)], variables)
        entered = job.processes[1]  # the program that entered the host; it ends and stops with the rank

        def is_over():
            state = Path(f"/proc/{entered.pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0]
            return state in "TZ"
        deadline = time.monotonic() + 60 * PATIENCE
        while not is_over() and time.monotonic() < deadline:
            time.sleep(0.01)
        over.touch()
        return job.finish(120, skip={1})

    def test_the_puts_of_a_killed_rank_have_arrived_and_its_death_is_told(self):
        with net.Hosts(2) as hosts:
            job = self.last_put(hosts, [0, 1, 1], signal.SIGKILL, {})
            self.assertIn("received", job.output[0])
            self.expect(job, [0, 2], "remote rank failed", r"rank 1 \(host h1", {1})

    def test_a_put_to_a_stopped_rank_ends_at_the_deadline(self):
        with net.Hosts(2) as hosts:
            job = self.last_put(hosts, [0, 1], signal.SIGSTOP, {"RONDO_TIMEOUT": str(5 * PATIENCE)})
            self.assertIn("received", job.output[0])
            self.expect(job, [0], "timeout", "rank 0 puts 8 bytes into the window of rank 1, and the process of that "
                        "rank on another host has not taken all of it in time", {1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
