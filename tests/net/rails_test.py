# SPDX-License-Identifier: Apache-2.0
"""Tests hosts with two interfaces, each of which carries half of the bytes. If an interface goes down, or its cable
is cut, the error names it. Rails that do not fit are refused. usage: rails_test.py RANK_PROGRAM RONDO"""

import os
import signal
import sys
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402
from sanitized import quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

PROGRAM, RONDO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
RAILS = {"RONDO_INTERFACE": "eth0,eth1"}


class Rails(HostsTest):
    def sent(self, hosts):
        return [[hosts.sent_bytes(host, rail) for rail in range(2)] for host in range(hosts.count)]

    def test_each_rail_carries_half(self):
        with net.Hosts(2, rails=2) as hosts:
            for layout, environment in (([0, 1], RAILS), ([0, 0, 1, 1], RAILS),
                                        ([0, 1], dict(RAILS, RONDO_SOCKETS="3"))):
                before = self.sent(hosts)
                job = Job(hosts, layout, [PROGRAM, "sum", "6", str(4 << 20)], environment).finish(120)
                self.expect(job, range(len(layout)), "ok")
                for host, (then, now) in enumerate(zip(before, self.sent(hosts))):
                    by_rail = [after - earlier for earlier, after in zip(then, now)]
                    with self.subTest(layout=layout, environment=environment, host=host):
                        self.assertAlmostEqual(by_rail[0] / sum(by_rail), 0.5, delta=0.02)
                        self.assertGreater(sum(by_rail), 6 * (16 << 20) // 2)

    def test_several_sockets_on_one_rail(self):
        with net.Hosts(2) as hosts:
            for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"):
                command = [RONDO, "perf", collective, "-b", "4", "-e", "4M", "-f", "64", "-n", "2", "-w", "1"]
                job = Job(hosts, [0, 1, 1], command, {"RONDO_SOCKETS": "4"}).finish(240)
                with self.subTest(collective=collective):
                    self.assertEqual([each.returncode for each in job.processes], [0] * 3, job.output)
                    self.assertIn("# Out of bounds values : 0 OK", job.output[0])

    def test_a_rail_that_is_lost_is_named(self):
        for what in ("cut", "take_down"):
            with self.subTest(what=what), net.Hosts(2, rails=2) as hosts:
                job = Job(hosts, [0, 1], [PROGRAM, "busy", "1000", str(1 << 20)], RAILS).begun()
                getattr(hosts, what)(1, rail=1)
                job.finish(60)  # far below the operation's 300 s
                self.expect(job, range(2), "remote rank failed", r"rail 1, from 10\.201\.18\.\d to 10\.201\.18\.\d")

    def test_the_first_rail_carries_the_control_plane_and_its_loss_is_that_of_the_host(self):
        with net.Hosts(2, rails=2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "busy", "1000", "1000"], RAILS).begun()
            hosts.cut(1)
            job.finish(60)
            for rank in range(2):
                self.expect(job, [rank], "remote rank failed", rf"rank {1 - rank} \(host h{1 - rank}", {1 - rank})

    def test_a_stopped_rank_is_late_not_dead(self):
        # The stopped rank receives nothing more, so the connections to it fill. That must not make a rail count as cut.
        with net.Hosts(2, rails=2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "signal", str(int(signal.SIGSTOP)), "1", "3", str(4 << 20)],
                      dict(RAILS, RONDO_TIMEOUT="8")).finish(60, skip={1})
            self.expect(job, [0], "timeout", r"rank 1 \(host h1", {1})

    def test_rails_that_do_not_fit_are_refused(self):
        with net.Hosts(2, rails=2) as hosts:
            for variable, environments, text in (
                    ("RONDO_INTERFACE", ("eth0,eth1", "eth0"), "the number of rails"),
                    ("RONDO_IB_HCA", ("rxe0", "rxe0,rxe1"), "the number of rails"),
                    ("RONDO_INTERFACE", ("eth0,eth0", "eth0,eth0"), "twice"),
                    ("RONDO_INTERFACE", ("eth0,", "eth0,"), "empty entry"),
                    ("RONDO_INTERFACE", ("eth0,eth7", "eth0,eth7"), "'eth7' does not exist")):
                network = "verbs" if variable == "RONDO_IB_HCA" else "tcp"
                # Rank 0 runs the store. If rank 0 refuses its own setting at once, rank 1 waits for a store in vain.
                patience = {"RONDO_INIT_TIMEOUT": "3"} if text == "empty entry" else {}
                job = Job(hosts, [0, 1], [PROGRAM, "sum", "5", "1000"], patience, [
                    {variable: each, "RONDO_NETWORK": network} for each in environments]).finish(60)
                with self.subTest(environments=environments):
                    self.assertEqual([each.returncode == 0 for each in job.processes], [False] * 2, job.output)
                    self.assertIn(text, " ".join(job.output))


if __name__ == "__main__":
    side_by_side.main(3)
