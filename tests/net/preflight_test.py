# SPDX-License-Identifier: Apache-2.0
"""If hosts cannot exchange data, making the communicator fails. The error names both ends and what to
change. Cases are a firewall, a network that large packets do not pass, and an interface that the others cannot reach.
Hosts are network namespaces, and nft drops packets for real. usage: preflight_test.py RANK_PROGRAM"""

import os
import secrets
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import hosts as net

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1))
PORT = 29_400
DEADLINE_S = 50  # less than init_timeout_ms, which is 60 s


class Preflight(unittest.TestCase):
    def setUp(self):
        why = net.why_not() or (None if net.NFT else "no nft (nftables)")
        if why is not None:
            print(f"skipped: preflight: {why}")
            self.skipTest(why)
        self.hosts = net.Hosts(2, rails=2)
        self.hosts.__enter__()
        self.addCleanup(self.hosts.__exit__)

    def on(self, host, *command):
        process = self.hosts.start(host, list(command))
        said = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 0, said)

    def drop(self, host, rule):
        """Drops the packets to the host that match `rule`. The store's port stays open, so that the ranks meet."""
        # These are two rules, because nft joins "sport != A dport != B" into one comparison with another meaning.
        self.on(host, net.NFT, "add table ip t; add chain ip t in { type filter hook input priority 0; }; "
                               f"add rule ip t in tcp sport {PORT} accept; add rule ip t in tcp dport {PORT} accept; "
                               f"add rule ip t in {rule} drop")

    def ranks(self, own=None, layout=(0, 1), environment=None):
        """Returns the output by rank. `own` has variables by rank."""
        base = dict(os.environ, WORLD_SIZE=str(len(layout)), MASTER_ADDR=self.hosts.address(0), MASTER_PORT=str(PORT),
                    RONDO_SECRET=secrets.token_hex(32), **(environment or {}))
        processes = [self.hosts.start(host, [PROGRAM, "sum", "3", "300000"],
                                      env=dict(base, RANK=str(rank), **(own or {}).get(rank, {})))
                     for rank, host in enumerate(layout)]
        try:
            return [process.communicate(timeout=DEADLINE_S)[0] for process in processes]
        except subprocess.TimeoutExpired:
            for process in processes:
                process.kill()
            raise AssertionError("the ranks hang") from None

    def test_nothing_in_the_way(self):
        for rank, output in enumerate(self.ranks(layout=(0, 1, 1))):
            self.assertIn(f"rank {rank}: ok", output)

    def test_a_network_that_large_packets_do_not_pass(self):
        for host in range(2):
            with self.subTest(deaf=host):
                self.drop(host, "ip length > 1000")
                for output in self.ranks():
                    self.assertRegex(output, r"rank 0 \(host h0, process \d+\) at 10\.201\.17\.1")
                    self.assertRegex(output, r"rank 1 \(host h1, process \d+\) at 10\.201\.17\.2")
                    self.assertRegex(output, r"small packets, but a slot of \d+ bytes does not pass: .*ip link set dev "
                                             r"NAME mtu N|the other end has closed the connection|Connection reset")
                self.on(host, net.NFT, "delete table ip t")

    def test_what_large_packets_do_not_pass_is_told_to_ranks_that_are_not_concerned(self):
        self.drop(1, "ip length > 1000")
        outputs = self.ranks(layout=(0, 0, 1))
        told = [output for output in outputs if "small packets, but a slot of" in output]
        self.assertGreaterEqual(len(told), 2, outputs)

    def test_the_rail_that_large_packets_do_not_pass_is_named(self):
        self.drop(1, "iifname eth1 ip length > 1000")
        outputs = self.ranks(environment={"RONDO_INTERFACE": "eth0,eth1"})
        for output in outputs:
            self.assertRegex(output, r"by rail 1, from 10\.201\.18\.\d to 10\.201\.18\.\d")
        self.assertTrue(any("small packets, but a slot of" in output for output in outputs), outputs)

    def test_a_pair_does_not_take_a_rank_that_still_connects_to_another_for_stalled(self):
        with net.Hosts(3) as self.hosts:
            self.drop(0, f"ip saddr {self.hosts.address(2)} tcp flags syn")
            # The delay is longer than a connection may make no progress, and shorter than a rank tries to connect.
            healing = threading.Timer(7, self.on, (0, net.NFT, "delete table ip t"))
            healing.start()
            outputs = self.ranks(layout=(0, 1, 2))
            healing.join()
        for rank, output in enumerate(outputs):
            self.assertIn(f"rank {rank}: ok", output)

    def test_a_firewall(self):
        self.drop(0, "tcp flags syn")
        outputs = self.ranks()
        for output in outputs:  # this limit did not end the wait
            self.assertNotIn("init_timeout_ms", output)
        self.assertRegex(outputs[1], r"rank 1 \(host h1, process \d+\) at 10\.201\.17\.2 cannot connect to rank 0 "
                                     r"\(host h0, process \d+\) at 10\.201\.17\.1:\d+: it did not answer in time; "
                                     r"check the firewalls between the hosts, or choose the network with "
                                     r"RONDO_INTERFACE")
        self.assertRegex(outputs[0], r"no connection arrived in time at 10\.201\.17\.1:\d+ from rank 1 \(host h1|"
                                     r"cannot connect to rank 0")

    def test_an_interface_that_the_others_cannot_reach(self):
        self.on(0, "ip", "addr", "add", "10.99.0.2/32", "dev", "lo")
        outputs = self.ranks(own={0: {"RONDO_INTERFACE": "10.99.0.2"}})
        self.assertRegex(outputs[1], r"rank 1 \(host h1, .* cannot connect to rank 0 \(host h0, .* at "
                                     r"10\.99\.0\.2:\d+: Network is unreachable; .*RONDO_INTERFACE")

    def test_over_ucx_the_same(self):
        self.drop(1, "ip length > 1000")
        outputs = self.ranks_over_ucx()
        self.assertTrue(any("small packets, but a slot of" in output for output in outputs), outputs)

    def test_the_network_of_ucx_that_large_packets_do_not_pass(self):
        # The control plane has a connection of its own, which works.
        self.drop(1, "iifname eth0 ip length > 1000")
        outputs = self.ranks_over_ucx(RONDO_INTERFACE="eth1", UCX_NET_DEVICES="eth0", RONDO_INIT_TIMEOUT="15")
        for output in outputs:
            self.assertRegex(output, r"cannot reach rank \d \(host h\d, .* over UCX: .*and the MTU")

    def ranks_over_ucx(self, **environment):
        outputs = self.ranks(environment=dict({"RONDO_NETWORK": "ucx", "UCX_TLS": "tcp,self"}, **environment))
        if any("UCX" in output and "libucp" in output for output in outputs):
            print("skipped: preflight over UCX: no UCX")
            self.skipTest("no UCX")
        return outputs


if __name__ == "__main__":
    side_by_side.main(12)
