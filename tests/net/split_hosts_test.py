# SPDX-License-Identifier: Apache-2.0
"""Tests rondo_comm_split() between hosts, which are network namespaces. Parts lie on one host or on several. Errors
name a rank that dies, calls something else, or has another configuration. usage: split_hosts_test.py SPLIT_RANKS"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1))


class SplitHosts(HostsTest):
    def test_parts_have_the_ranks_and_the_sums_that_they_must_have(self):
        for layout in ([0, 1], [0, 0, 1, 1], [0, 1, 1, 0, 1], [0, 1, 2, 0]):
            for waits in ("1", "0"):
                with net.Hosts(max(layout) + 1) as hosts, self.subTest(layout=layout, waits=waits):
                    job = Job(hosts, layout, [PROGRAM, "parts", waits]).finish(120)
                    self.expect(job, range(len(layout)), "ok")

    def test_link_local_addresses_count_on_the_interface_of_each_host(self):
        with net.Hosts(2) as hosts:
            for host in range(2):
                name = f"lan{host}"
                script = (f"ip link set eth0 down; ip link set eth0 name {name}; ip addr flush dev {name}; "
                          f"ip link set {name} addrgenmode none; ip link set {name} up; "
                          f"ip addr add fe80::{host + 1}/64 dev {name} nodad")
                subprocess.run(hosts.command(host, ["sh", "-ec", script]), check=True, capture_output=True, timeout=120)
            layout = [0, 0, 1, 1]
            own = [{"MASTER_ADDR": f"fe80::1%lan{host}"} for host in layout]
            job = Job(hosts, layout, [PROGRAM, "parts", "1"], own_environment=own).finish(120)
            self.expect(job, range(4), "ok")

    def test_many_splits_leave_nothing_behind(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "many", "30"]).finish(240)
            self.expect(job, range(4), "ok")

    def test_a_rank_that_died_is_named(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "dead", "3"])
            job.finish(120)
            self.expect(job, range(3), "remote rank failed", r"rank 3 \(host h1", {3})

    def test_a_rank_that_calls_something_else_is_told_both_calls(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "other", "2"]).finish(120)
            self.expect(job, range(3), "ranks disagree", r"rondo_comm_split with color 4 and key -2")

    def test_a_part_whose_ranks_differ_in_configuration_fails_and_the_parent_goes_on(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "config", "1"]).finish(120)
            self.expect(job, range(3), "ranks disagree",
                        r"rondo_comm_split with color 0 \(0, 1, 2 of the parent\).*4K and 8K")

    def test_a_rank_that_dies_between_the_agreement_and_its_part_is_named(self):
        for victim in (0, 2):
            with net.Hosts(2) as hosts, self.subTest(victim=victim):
                job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "strike", str(victim), "2"]).finish(120)
                self.expect(job, [1, 3], "ok")
                self.expect(job, [2 - victim], "remote rank failed", None, {victim})


if __name__ == "__main__":
    side_by_side.main(2)
