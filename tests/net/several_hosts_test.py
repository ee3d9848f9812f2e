# SPDX-License-Identifier: Apache-2.0
"""Tests ranks on several hosts, which are network namespaces. Every collective must be right. After a killed rank, a
lost host, a cut cable or a disagreement, every rank gets an error that names the other rank in time. A rank that
is only stopped does not count as dead. usage: several_hosts_test.py RANK_PROGRAM RONDO"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import hosts as net
from hosts_job import HostsTest, Job, why_no_ucx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402
from sanitized import SANITIZED, quarter_of, quarter_of_cases  # noqa: E402

load_tests = quarter_of_cases

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")
PROGRAM, RONDO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))


def quarter_of_runs(runs, what):
    """Returns a quarter of the runs of a case at the gate. Under a sanitizer, a quarter of the cases has all runs."""
    return runs if SANITIZED else quarter_of(runs, what, in_every_build=True)


def expect_cuts_told(case, environment=None):
    for cut in ("cut", "cut_one_way"):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 0, 1], [PROGRAM, "busy", "1000", "1000"], environment).begun()
            getattr(hosts, cut)(1)
            job.finish(60)
            with case.subTest(cut=cut):
                case.expect(job, [0, 1], "remote rank failed",
                            r"rank 2 \(host h1.*(gave no answer|cannot be reached)", {2})
                case.expect(job, [2], "remote rank failed",
                            r"rank [01] \(host h0.*(gave no answer|cannot be reached)",
                            {0, 1})


def expect_right(case, hosts, layout, collective, environment=None, more=()):
    command = [RONDO, "perf", collective, "-b", "4", "-e", "1M", "-f", "64", "-n", "2", "-w", "1", *more]
    job = Job(hosts, layout, command, environment).finish(240)
    with case.subTest(layout=layout, collective=collective, environment=environment):
        case.assertEqual([each.returncode for each in job.processes], [0] * len(layout), job.output)
        case.assertIn("# Out of bounds values : 0 OK", job.output[0])


def expect_collectives(case, layouts, environment=None):
    """Runs every collective in every layout, or a quarter of these runs at the gate."""
    cases = [(layout, collective) for layout in layouts for collective in COLLECTIVES]
    with net.Hosts(2) as hosts:
        for layout, collective in quarter_of_runs(cases, "layouts and collectives"):
            expect_right(case, hosts, layout, collective, environment)


class SeveralHosts(HostsTest):
    def test_every_collective_is_right(self):
        expect_collectives(self, ([0, 1], [0, 0, 1, 1], [0, 1, 1, 0, 1]))

    def test_element_types_and_algorithms(self):
        with net.Hosts(2) as hosts:
            perf = [RONDO, "perf", "all_reduce", "-b", "1K", "-e", "256K", "-f", "16", "-n", "2", "-w", "1"]
            for kind, operation in (("bfloat16", "avg"), ("float64", "prod"), ("uint8", "max")):
                job = Job(hosts, [0, 0, 1], [*perf, "-d", kind, "-o", operation]).finish(120)
                self.assertIn("# Out of bounds values : 0 OK", job.output[0], job.output)
            for algorithm in ("ring", "tree", "halving_doubling", "two_shot"):
                job = Job(hosts, [0, 1, 1, 0], [PROGRAM, "sum", "20", "30000"], {"RONDO_ALGORITHM": algorithm})
                job.finish(120)
                self.expect(job, range(4), "ok")

    def test_each_rank_counts_the_ranks_of_its_host(self):
        with net.Hosts(2) as hosts:
            layout = [0, 1, 0]
            job = Job(hosts, layout, [PROGRAM, "buffers", "alloc", "30000"]).finish(120)
            self.expect(job, range(3), "ok")
            for rank, host in enumerate(layout):
                self.assertIn(f"local ranks {layout.count(host)}\n", job.output[rank])

    def test_ranks_that_sleep_while_they_wait(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 0, 1], [PROGRAM, "sum", "50", "30000"], {"RONDO_WAIT": "sleep"}).finish(120)
            self.expect(job, range(4), "ok")

    def test_ranks_that_leave_at_once_strand_nobody_on_a_slow_network(self):
        # The peers' last credits arrive while the kernel of a rank that has returned still has to send much of a slot.
        with net.Hosts(2) as hosts:
            hosts.limit("50mbit")
            for _ in range(10):
                job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "sum", "1", str(1 << 18)],
                          {"RONDO_ALGORITHM": "ring", "RONDO_TIMEOUT": "40"}).finish(60)
                self.expect(job, range(4), "ok")

    def sent_for_sums(self, hosts, rounds, count, environment):
        """Returns how many bytes each host sends in all, including those sent while the communicator is made."""
        before = [hosts.sent_payload(host) for host in range(hosts.count)]
        job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "sum", str(rounds), str(count)], environment).finish(120)
        self.expect(job, range(4), "ok")
        return [hosts.sent_payload(host) - before[host] for host in range(hosts.count)]

    def test_each_byte_of_an_all_reduce_crosses_a_slow_network_once_in_each_direction(self):
        rounds, count = 4, 1 << 20
        whole = rounds * count * 4
        with net.Hosts(2) as hosts:
            hosts.limit("200mbit")
            # A ring sends 2 (n - 1) / n of the vector. What the network loses, TCP sends again and Rondo does not.
            for algorithm, share, lost in (({}, 1.0, 0), ({"RONDO_ALGORITHM": "ring"}, 1.5, 0), ({}, 1.0, 1)):
                if lost and net.NFT is None:
                    continue
                if lost:
                    hosts.lose(lost)
                few, many = (self.sent_for_sums(hosts, each, count, algorithm) for each in (1, 1 + rounds))
                for host in range(2):
                    with self.subTest(algorithm=algorithm, host=host, lost=lost):
                        self.assertAlmostEqual((many[host] - few[host]) / whole, share, delta=0.01 * share)

    def sent_by_calls(self, hosts, layout, collective, size, calls, environment):
        before = [hosts.sent_payload(host) for host in range(hosts.count)]
        command = [RONDO, "perf", collective, "-b", str(size), "-e", str(size), "-n", str(calls), "-w", "0", "-c", "0",
                   "--out-of-place-only"]
        job = Job(hosts, layout, command, environment).finish(120)
        self.assertEqual([each.returncode for each in job.processes], [0] * len(layout), job.output)
        return [hosts.sent_payload(host) - before[host] for host in range(hosts.count)]

    def test_bytes_cross_the_network_as_seldom_as_they_can_in_every_collective(self):
        calls, size = 4, 8 << 20
        # These are the fractions of the vector that host 0 and host 1 send: first with the tuner's choice, then with a
        # ring in the order of hosts.
        chosen = {"reduce_scatter": (0.5, 0.5), "all_gather": (0.5, 0.5), "broadcast": (1, 0), "reduce": (0, 1)}
        ring = {"all_reduce": (1.5, 1.5), "reduce_scatter": (0.75, 0.75), "all_gather": (0.75, 0.75)}
        cases = [(layout, environment, collective, shares)
                 for layout, expected, environment in (([0, 0, 1, 1], chosen, {}), ([0, 1, 1, 0], chosen, {}),
                                                       ([0, 1, 0, 1], ring, {"RONDO_ALGORITHM": "ring"}))
                 for collective, shares in sorted(expected.items(), reverse=layout == [0, 1, 1, 0])]
        with net.Hosts(2) as hosts:
            for layout, environment, collective, shares in quarter_of_runs(cases, "layouts and collectives"):
                few, many = (self.sent_by_calls(hosts, layout, collective, size, each, environment)
                             for each in (1, 1 + calls))
                for host, share in enumerate(shares):
                    with self.subTest(layout=layout, collective=collective, host=host, environment=environment):
                        # Hosts also send credits back.
                        self.assertAlmostEqual((many[host] - few[host]) / (calls * size), share, delta=0.01)

    def test_ranks_on_several_hosts_go_by_the_rows_of_a_table_for_several_hosts(self):
        row = {"collective": "all_reduce", "ranks": 4, "oversubscribed": False, "bytes_max": "any",
               "algorithm": "halving_doubling", "protocol": "simple", "channels": 1, "chunk_bytes": 65536,
               "several_hosts": True}  # the built-in tables would not choose this
        rows = [row, {**row, "oversubscribed": True}]
        with net.Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "hosts.json")
            with open(path, "w", encoding="ascii") as file:
                json.dump({"format": "rondo tuning table", "version": 1, "rows": rows}, file)
            report = os.path.join(folder, "perf.json")
            command = [RONDO, "perf", "all_reduce", "-b", "4M", "-e", "4M", "-n", "1", "-w", "0", "--json", report]
            job = Job(hosts, [0, 0, 1, 1], command, {"RONDO_TUNING_FILE": path}).finish(120)
            self.assertEqual([each.returncode for each in job.processes], [0] * 4, job.output)
            with open(report, encoding="ascii") as file:
                self.assertEqual(json.load(file)["results"][0]["algorithm"], "halving_doubling")

    def test_every_algorithm_by_its_name(self):
        with net.Hosts(2) as hosts:
            cases = [(algorithm, collective) for algorithm in ("hierarchical", "hierarchical_tree", "ring")
                     for collective in COLLECTIVES
                     if algorithm != "hierarchical_tree" or collective not in ("reduce_scatter", "all_gather")]
            for algorithm, collective in quarter_of_runs(cases, "algorithms and collectives"):
                root = ("-r", "3") if collective in ("broadcast", "reduce") else ()
                expect_right(self, hosts, [0, 1, 0, 0, 1], collective, {"RONDO_ALGORITHM": algorithm}, root)

    def test_a_killed_rank_is_named_on_every_other(self):
        with net.Hosts(2) as hosts:
            for victim in (0, 3):
                job = Job(hosts, [0, 0, 1, 1],
                          [PROGRAM, "signal", str(int(signal.SIGKILL)), str(victim), "7", "1000"]).finish(60)
                self.expect(job, set(range(4)) - {victim}, "remote rank failed", f"rank {victim} \\(host h", {victim})

    def test_an_exit_between_operations_fails_only_who_needs_the_rank(self):
        for layout, victim in (([0, 0, 1], 2), ([0, 1, 1], 1)):  # a host ends; a host stays
            with net.Hosts(2) as hosts:
                job = Job(hosts, layout, [PROGRAM, "exits", str(victim)]).finish(60)
                self.expect(job, set(range(3)) - {victim}, "remote rank failed", f"rank {victim} \\(host h", {victim})
                self.assertIn("rank 0: no failure yet", job.output[0])

    def test_links_use_the_interface_by_which_the_store_is_reached(self):
        with net.Hosts(2, rails=2) as hosts:
            hosts.cut(0, rail=0)  # the rail whose addresses come first
            job = Job(hosts, [0, 1, 1], [PROGRAM, "sum", "5", "300000"], {"MASTER_ADDR": hosts.address(0, rail=1)})
            self.expect(job.finish(60), range(3), "ok")

    def test_two_hosts_have_one_connection_for_control_however_many_ranks(self):
        look = ["sh", "-c", "cat /proc/net/tcp"]
        with net.Hosts(2) as hosts:
            for layout in ([0, 1], [0, 0, 0, 1, 1]):
                seen = f"{hosts.folder}/seen{len(layout)}"
                job = Job(hosts, layout, [PROGRAM, "quiet", seen]).begun()
                rows = [line.split() for line in hosts.start(0, look).communicate(timeout=60)[0].splitlines()[1:]]
                Path(seen).touch()
                job.finish(60)
                self.expect(job, range(len(layout)), "ok")
                other = "".join(f"{int(part):02X}" for part in reversed(hosts.address(1).split(".")))
                between = [row for row in rows if row[3] == "01" and row[2].startswith(other)]
                data = layout.count(0) * layout.count(1)
                with self.subTest(layout=layout):
                    self.assertEqual(len(between), data + 1, between)

    def test_a_host_that_goes_is_named(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "busy", "1000", "1000"]).begun()
            hosts.kill(1)
            job.finish(60, skip={1, 2})  # far below the operation's 300 s
            self.expect(job, [0], "remote rank failed", r"rank [12] \(host h1", {1, 2})

    def test_a_cut_cable_is_told_on_both_sides_as_no_answer(self):
        expect_cuts_told(self)

    def test_an_outage_within_the_patience_that_is_set_does_no_harm_and_a_cut_is_told_with_it(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 0, 1], [PROGRAM, "busy", "8", "1000"], {"RONDO_NETWORK_TIMEOUT": "60"}).begun()
            hosts.cut(1)
            time.sleep(2.5)  # without the setting, the job would end after 1.4 s
            hosts.heal(1)
            job.finish(120)
            self.expect(job, range(3), "ok")
            job = Job(hosts, [0, 1], [PROGRAM, "busy", "1000", "1000"], {"RONDO_NETWORK_TIMEOUT": "2"}).begun()
            hosts.cut(1)
            job.finish(120)
            self.expect(job, range(2), "remote rank failed", "gave no answer for 2.0 s")

    def test_a_stopped_rank_is_late_not_dead(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "signal", str(int(signal.SIGSTOP)), "1", "5", "1000"],
                      {"RONDO_TIMEOUT": "4"}).finish(60, skip={1})
            self.expect(job, [0], "timeout", r"rank 1 \(host h1", {1})

    def test_a_stopped_host_is_late_until_its_cable_is_cut(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 1], [PROGRAM, "busy", "1000", "1000"]).begun()
            for rank in (1, 2):
                os.kill(net.innermost(job.processes[rank].pid), signal.SIGSTOP)
            deadline, sent = time.monotonic() + 60, 1_000
            while sent >= 1_000 and time.monotonic() < deadline:  # until it receives only probes
                before = hosts.sent_bytes(0)
                time.sleep(1)
                sent = hosts.sent_bytes(0) - before
            self.assertLess(sent, 1_000)
            time.sleep(7)  # longer than the kernel's own limit
            self.assertIsNone(job.processes[0].poll(), job.output[0])
            hosts.cut(1)
            job.finish(60, skip={1, 2})
            self.expect(job, [0], "remote rank failed", r"rank [12] \(host h1.*gave no answer", {1, 2})

    def test_ranks_that_disagree_are_told_both_calls(self):
        with net.Hosts(2) as hosts:
            for layout in ([0, 1], [0, 0, 1]):
                job = Job(hosts, layout, [PROGRAM, "disagree", "count", str(len(layout) - 1)]).finish(60)
                self.expect(job, range(len(layout)), "ranks disagree", r"called all_reduce of .* called all_reduce of ")

    @unittest.skipIf(net.NFT is None, "no nft")
    def test_where_frames_have_tags_a_changed_packet_is_an_error_and_no_wrong_sum(self):
        for tags, sums in (("off", "WRONG SUM"), ("on", "a frame has a wrong tag")):
            with net.Hosts(2) as hosts, self.subTest(tags=tags):
                job = Job(hosts, [0, 1], [PROGRAM, "busy", "1000", "1000"], {"RONDO_FRAME_TAGS": tags}).begun()
                if not hosts.change_packets(0):
                    self.skipTest("neither nft nor the kernel can change a packet's payload here")
                job.finish(60)
                self.assertIn(sums, job.output[1])
                for output in job.output:
                    self.assertTrue(tags == "off" or "WRONG SUM" not in output, output)

    def test_tags_are_for_every_socket_and_for_tcp_alone(self):
        with net.Hosts(2) as hosts:
            for sockets in ("1", "3"):
                job = Job(hosts, [0, 1, 1], [PROGRAM, "sum", "50", "100000"],
                          {"RONDO_FRAME_TAGS": "on", "RONDO_SOCKETS": sockets}).finish(60)
                self.expect(job, range(3), "ok")
            script = f'if [ $RANK = 1 ]; then export RONDO_FRAME_TAGS=on; fi; exec "{PROGRAM}" sum 5 1000'
            job = Job(hosts, [0, 1], ["sh", "-c", script]).finish(60)
            self.expect(job, range(2), "ranks disagree", "differ in RONDO_FRAME_TAGS")
            job = Job(hosts, [0, 1], [PROGRAM, "sum", "5", "1000"],
                      {"RONDO_FRAME_TAGS": "on", "RONDO_NETWORK": "ucx"}).finish(60)
            for output in job.output:
                self.assertIn("RONDO_FRAME_TAGS=on is for TCP, and RONDO_NETWORK is ucx", output)

    def congestion_controls(self, hosts, environment):
        """Returns the congestion controls of the links between two ranks on two hosts."""
        seen = Path(hosts.folder, "seen")
        seen.unlink(missing_ok=True)
        job = Job(hosts, [0, 1], [PROGRAM, "quiet", str(seen)], environment).begun()
        looks = [hosts.start(host, ["ss", "-Htin", "state", "established"]) for host in range(2)]
        found = set()
        for look in looks:
            lines = re.sub(r"\n\s+", " ", look.communicate(timeout=60)[0]).splitlines()  # one for each connection
            links = [line for line in lines if f":{job.port} " not in line]  # the store's keep the system's control
            self.assertNotEqual(links, [])
            found |= {re.search(r" (bbr|cubic|reno) ", line).group(1) for line in links}
        seen.touch()
        self.expect(job.finish(60), range(2), "ok")
        return found

    def test_the_congestion_control_is_cubic_in_place_of_bbr_or_what_is_asked_for(self):
        with net.Hosts(2) as hosts:
            for system, asked, expected in (("cubic", "reno", "reno"), ("reno", "auto", "reno"),
                                            ("bbr", "auto", "cubic"), ("bbr", "system", "bbr")):
                choose = ["sh", "-c", f"echo {system} > /proc/sys/net/ipv4/tcp_congestion_control"]
                told = [hosts.start(host, choose).communicate(timeout=60)[0] for host in range(2)]
                with self.subTest(system=system, asked=asked):
                    if told != ["", ""]:
                        self.skipTest(f"{system} cannot be chosen in a namespace here: {told}")
                    self.assertEqual(self.congestion_controls(hosts, {"RONDO_TCP_CONGESTION": asked}), {expected})
            for host in range(2):  # the route has its own choice
                hosts.start(host, ["ip", "route", "replace", f"{hosts.address(host)[:-1]}0/24", "dev", "eth0",
                                   "congctl", "reno"]).communicate(timeout=60)
            self.assertEqual(self.congestion_controls(hosts, {"RONDO_TCP_CONGESTION": "cubic"}), {"reno"})

    def test_a_congestion_control_that_one_host_does_not_know_is_told_to_all(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1], [PROGRAM, "sum", "5", "1000"], None,
                      [{}, {"RONDO_TCP_CONGESTION": "no_such"}]).finish(60)
            for output in job.output:
                self.assertIn("RONDO_TCP_CONGESTION=no_such is unknown to this kernel", output)
            self.assertIn("rank 1 failed", job.output[0])

    def test_strangers_at_the_ports_change_nothing(self):
        with net.Hosts(2) as hosts:
            # A stranger on host 1 connects to every listening port of host 0, and sends nothing or nonsense.
            stranger = ("import socket, time, sys\n"
                        "end = time.monotonic() + 4\n"
                        "held = []\n"
                        "while time.monotonic() < end:\n"
                        "    rows = [line.split() for line in open('/proc/net/tcp').readlines()[1:]]\n"
                        "    ports = [int(row[1].split(':')[1], 16) for row in rows if row[3] == '0A']\n"
                        "    for port in ports:\n"
                        "        s = socket.socket(); s.settimeout(0.2)\n"
                        "        try:\n"
                        f"            s.connect(('{hosts.address(0)}', port)); s.send(b'RONDO'); held.append(s)\n"
                        "        except OSError: pass\n"
                        "    held = held[-300:]\n")
            attacker = hosts.start(0, [sys.executable, "-c", stranger])
            for _ in range(3):
                job = Job(hosts, [0, 0, 1, 1], [PROGRAM, "sum", "50", "1000"]).finish(60)
                self.expect(job, range(4), "ok")
            attacker.wait(120)
            attacker.stdout.close()


class SeveralHostsOverUcx(HostsTest):
    UCX = {"RONDO_NETWORK": "ucx", "UCX_TLS": "tcp,self"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        why = why_no_ucx(RONDO)
        if why is not None:
            print(f"skipped: several hosts over UCX: {why}")
            raise unittest.SkipTest(why)

    def test_every_collective_is_right(self):
        # The sizes are below and above the size from which UCX fetches payloads itself (rendezvous).
        expect_collectives(self, ([0, 1], [0, 0, 1, 1]), self.UCX)

    def test_data_goes_over_ucx(self):
        with net.Hosts(2) as hosts:
            # If UCX may use no network at all, the communicator is refused, with advice.
            job = Job(hosts, [0, 1], [PROGRAM, "sum", "5", "1000"], dict(self.UCX, UCX_TLS="self")).finish(60)
            for output in job.output:
                self.assertRegex(output, r"over UCX: .*(UCX_TLS|RONDO_NETWORK=tcp)")

    def test_ranks_that_sleep_while_they_wait(self):
        with net.Hosts(2) as hosts:
            job = Job(hosts, [0, 1, 0, 1], [PROGRAM, "sum", "50", "30000"], dict(self.UCX, RONDO_WAIT="sleep"))
            job.finish(120)
            self.expect(job, range(4), "ok")

    def test_a_killed_rank_is_named_on_every_other(self):
        with net.Hosts(2) as hosts:
            for victim in (0, 3):
                job = Job(hosts, [0, 0, 1, 1],
                          [PROGRAM, "signal", str(int(signal.SIGKILL)), str(victim), "7", "1000"], self.UCX).finish(60)
                self.expect(job, set(range(4)) - {victim}, "remote rank failed", f"rank {victim} \\(host h", {victim})

    def test_a_cut_cable_is_told_on_both_sides_as_no_answer(self):
        expect_cuts_told(self, self.UCX)

    def test_ranks_must_agree_on_the_network(self):
        with net.Hosts(2) as hosts:
            command = ["sh", "-c", f'if [ $RANK = 1 ]; then export RONDO_NETWORK=tcp; fi; exec "{PROGRAM}" sum 5 1000']
            job = Job(hosts, [0, 1], command, self.UCX).finish(60)
            for output in job.output:
                self.assertIn("differ in RONDO_NETWORK", output)


if __name__ == "__main__":
    side_by_side.main(4)
