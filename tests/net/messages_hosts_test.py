# SPDX-License-Identifier: Apache-2.0
"""Processes on several hosts, which are network namespaces, exchange messages. They run random programs over each
network. A rank is killed after its last message, and the ends of a message have different sizes.

usage: messages_hosts_test.py RANK_PROGRAM RONDO"""

import os
import sys
import unittest

import hosts as net
from hosts_job import HostsTest, Job

PROGRAM = os.path.abspath(sys.argv.pop(1))
RONDO = os.path.abspath(sys.argv.pop(1))


class Messages(HostsTest):
    def programs(self, layout, variables, last="12"):
        with net.Hosts(max(layout) + 1) as hosts:
            job = Job(hosts, layout, [PROGRAM, "programs", "1", last], variables).finish(240)
            self.expect(job, range(len(layout)), "ok")

    def test_random_programs_on_two_hosts(self):
        self.programs([0, 0, 1, 1], {})

    def test_random_programs_on_three_hosts_over_several_sockets_with_tags(self):
        self.programs([0, 1, 2, 0, 1], {"RONDO_SOCKETS": "2", "RONDO_FRAME_TAGS": "on"})

    def test_random_programs_over_ucx(self):
        self.need_ucx(RONDO)
        self.programs([0, 0, 1], {"RONDO_NETWORK": "ucx"})

    def test_what_a_rank_sent_before_it_was_killed_is_received(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "last_words"]).finish(120, skip={1})
            self.assertIn("received", job.output[0])
            self.expect(job, [0, 2], "remote rank failed", r"rank 1 \(host h1", {1})

    def test_both_sizes_are_told_on_all_hosts(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "other_size"]).finish(120)
            self.expect(job, range(3), "ranks disagree",
                        r"receives message 1 from rank 1 as 12 bytes \(float32\), rank 1 sent 16 bytes \(float32\)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
