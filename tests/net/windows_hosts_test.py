# SPDX-License-Identifier: Apache-2.0
"""Processes on several hosts, which are network namespaces, write into each other's windows. They run random programs
over each network. A rank is killed or stopped right after its last put.

usage: windows_hosts_test.py RANK_PROGRAM RONDO"""

import os
import signal
import sys
import unittest

import hosts as net
from hosts_job import HostsTest, Job

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

    def test_the_puts_of_a_killed_rank_have_arrived_and_its_death_is_told(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "last_put", str(int(signal.SIGKILL))]).finish(120, skip={1})
            self.assertIn("received", job.output[0])
            self.expect(job, [0, 2], "remote rank failed", r"rank 1 \(host h1", {1})

    def test_a_put_to_a_stopped_rank_ends_at_the_deadline(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "last_put", str(int(signal.SIGSTOP))], {"RONDO_TIMEOUT": "3"})
            job.finish(120, skip={1})
            self.assertIn("received", job.output[0])
            self.expect(job, [0], "timeout", "rank 0 puts 8 bytes into the window of rank 1, and the process of that "
                        "rank on another host has not taken all of it in time", {1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
