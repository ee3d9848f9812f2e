# SPDX-License-Identifier: Apache-2.0
"""Tests rondo_comm_grow() between hosts, which are network namespaces. New ranks are on hosts of the parent and on
others. usage: grow_hosts_test.py GROW_RANKS"""

import os
import sys
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1))


class GrowHosts(HostsTest):
    def test_new_ranks_join_from_every_host(self):
        for layout, new_count, maker in (([0, 1], 1, 0), ([0, 1, 2], 1, 1), ([0, 0, 1, 0], 2, 1)):
            with net.Hosts(max(layout) + 1) as hosts, self.subTest(layout=layout, new=new_count, maker=maker):
                job = Job(hosts, layout, [PROGRAM, "grow", str(new_count), str(maker)]).finish(120)
                self.expect(job, range(len(layout)), "ok")

    def test_ranks_that_die_or_do_not_come_are_named(self):
        with net.Hosts(3) as hosts:
            job = Job(hosts, [0, 1, 1, 2], [PROGRAM, "wait", "2", "1", "2", hosts.folder]).finish(120)
            self.expect(job, [0, 1], "remote rank failed", None, {2})
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1, 0], [PROGRAM, "strike", "1", "0", "2", hosts.folder]).finish(120)
            self.expect(job, [0, 1, 3], "remote rank failed", None, {2})
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "absent", "1", "1"]).finish(120)
            self.expect(job, [0, 1], "timeout", "2")


if __name__ == "__main__":
    side_by_side.main(2)
