# SPDX-License-Identifier: Apache-2.0
"""Hosts that are network namespaces with control connections as in a ring, which begins above 4 hosts here: a rank or a
host that is killed, a cable that is cut, one way or both, and a partition are told on every host within the promised
time. usage: ring_hosts_test.py RING_RANK"""

import os
import signal
import sys
import time
import unittest

import hosts as net
from hosts_job import HostsTest, Job

PROGRAM = os.path.abspath(sys.argv.pop(1))
PROMISED_S = 2.0 * (4 if "RONDO_TEST_SANITIZED" in os.environ else 1)
BUSY_S = 2.0  # for a machine with other work: each rank ends, and is looked at


class RingOfHosts(HostsTest):
    def job(self, hosts, layout):
        return Job(hosts, layout, [PROGRAM, "4"]).begun()

    def finish_soon(self, job, skip=()):
        begun = time.monotonic()
        job.finish(60, skip)
        self.assertLess(time.monotonic() - begun, PROMISED_S + BUSY_S)

    def test_a_killed_rank_is_named_on_all_hosts(self):
        with net.Hosts(6) as hosts:
            job = self.job(hosts, [0, 1, 2, 3, 3, 4, 5])
            os.kill(net.innermost(job.processes[4].pid), signal.SIGKILL)
            self.finish_soon(job)
            self.expect(job, [0, 1, 2, 3, 5, 6], "remote rank failed", r"rank 4 \(host h3.* has ended", {4})

    def test_a_killed_host_is_named_on_all_hosts(self):
        with net.Hosts(8) as hosts:
            job = self.job(hosts, [0, 1, 2, 3, 4, 5, 6, 6, 7])
            hosts.kill(6)
            self.finish_soon(job)
            self.expect(job, [0, 1, 2, 3, 4, 5, 8], "remote rank failed", r"rank [67] \(host h6.* has ended", {6, 7})

    def test_a_cable_that_is_cut_is_told_on_both_sides(self):
        for cut in ("cut", "cut_one_way"):
            with net.Hosts(6) as hosts, self.subTest(cut=cut):
                job = self.job(hosts, range(6))
                getattr(hosts, cut)(2)
                self.finish_soon(job)
                self.expect(job, [0, 1, 3, 4, 5], "remote rank failed",
                            r"rank 2 \(host h2.*(gave no answer|cannot be reached)", {2})
                self.expect(job, [2], "remote rank failed", r"(gave no answer|cannot be reached)", {0, 1, 3, 4, 5})

    def test_after_a_partition_each_side_names_a_rank_of_the_other(self):
        with net.Hosts(6) as hosts:
            job = self.job(hosts, range(6))
            hosts.part({3, 4, 5})
            self.finish_soon(job)
            self.expect(job, [0, 1, 2], "remote rank failed", r"(gave no answer|cannot be reached)", {3, 4, 5})
            self.expect(job, [3, 4, 5], "remote rank failed", r"(gave no answer|cannot be reached)", {0, 1, 2})


if __name__ == "__main__":
    unittest.main()
