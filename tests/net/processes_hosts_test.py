# SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts, which are network namespaces, whose processes have children that they forked: every rank
hears which rank has ended. usage: processes_hosts_test.py RANK_PROGRAM"""

import os
import sys
import unittest

import hosts as net
from hosts_job import HostsTest, Job

PROGRAM = os.path.abspath(sys.argv.pop(1))


class Processes(HostsTest):
    def test_a_killed_rank_is_named_although_a_process_that_it_forked_lives_on(self):
        for kind in ("fork", "double", "exec"):
            with net.Hosts(3) as hosts:
                job = Job(hosts, [0, 1, 2], [PROGRAM, "orphan", kind, "2", "7"]).finish(60)  # far from 300 s
                with self.subTest(kind=kind):
                    self.expect(job, {0, 1}, "remote rank failed", r"rank 2 \(host h2", {2})


if __name__ == "__main__":
    unittest.main(verbosity=2)
