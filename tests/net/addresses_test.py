# SPDX-License-Identifier: Apache-2.0
"""Ranks on two hosts, which are network namespaces, find each other with addresses as on real sites. There a host's
name may be loopback, or all hosts may have a bridge with one address. usage: addresses_test.py RANK_PROGRAM"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import hosts as net
from hosts_job import HostsTest, Job

PROGRAM = os.path.abspath(sys.argv.pop(1))
SUM = [PROGRAM, "sum", "20", "30000"]


class Addresses(HostsTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="rondo-addresses-")
        self.addCleanup(shutil.rmtree, self.folder)

    def inside(self, hosts, host, script):
        subprocess.run(hosts.command(host, ["sh", "-ec", script]), check=True, capture_output=True, timeout=120)

    def name_hosts(self, hosts, host, text):
        """Sets the content of the host's own /etc/hosts, which is in its namespace of mounts."""
        path = os.path.join(self.folder, f"hosts{host}")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        self.inside(hosts, host, f"mount --bind {path} /etc/hosts")

    def test_a_name_that_is_loopback_on_its_own_host_is_reached_from_others(self):
        with net.Hosts(2) as hosts:
            self.name_hosts(hosts, 0, "127.0.0.1 localhost\n127.0.1.1 h0\n")
            self.name_hosts(hosts, 1, f"127.0.0.1 localhost\n{hosts.address(0)} h0\n")
            job = Job(hosts, [0, 0, 1], SUM, {"MASTER_ADDR": "h0"}).finish(120)
            self.expect(job, range(3), "ok")

    def test_a_name_that_resolves_later_is_waited_for(self):
        with net.Hosts(2) as hosts:
            self.name_hosts(hosts, 1, "127.0.0.1 localhost\n")
            job = Job(hosts, [0, 1], SUM, own_environment=[{}, {"MASTER_ADDR": "h0.pods"}])
            job.line(1, "h0.pods")  # the warning of rank 1
            with open(os.path.join(self.folder, "hosts1"), "a", encoding="ascii") as file:
                file.write(f"{hosts.address(0)} h0.pods\n")
            job.finish(120)
            self.expect(job, range(2), "ok")

    def test_a_bridge_that_all_hosts_have_is_not_where_ranks_meet(self):
        with net.Hosts(2) as hosts:
            for host in range(2):
                self.inside(hosts, host,
                            "ip link add docker0 index 2 type bridge; ip addr add 172.17.0.1/16 dev docker0; "
                            "ip link set docker0 up; ip link add port0 type veth peer name port1; "
                            "ip link set port0 master docker0 up; ip link set port1 up")
            own = [{"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "bridged",
                    "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "RONDO_RENDEZVOUS_DIR": self.folder, "WORLD_SIZE": "",
                    "RONDO_INIT_TIMEOUT": "30"} for rank in range(2)]
            job = Job(hosts, [0, 1], SUM, own_environment=own).finish(120)
            self.expect(job, range(2), "ok")

    def give_all_the_same(self, hosts):
        """Gives the first interface of each host a default route, and the same address on all hosts. Virtual machines
        have such an address on the network to their host. The second interface joins the hosts."""
        for host in range(hosts.count):
            self.inside(hosts, host, "ip addr flush dev eth0; ip addr add 10.0.2.15/24 dev eth0; "
                                     "ip route add default via 10.0.2.2")

    def test_an_address_that_all_hosts_have_is_passed_over_for_that_of_the_network_that_joins_them(self):
        with net.Hosts(2, rails=2) as hosts:
            self.give_all_the_same(hosts)
            own = [{"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": "same",
                    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "RONDO_RENDEZVOUS_DIR": self.folder, "WORLD_SIZE": "",
                    "RONDO_INIT_TIMEOUT": "60"} for rank in range(3)]
            job = Job(hosts, [0, 0, 1], SUM, own_environment=own).finish(120)
            self.expect(job, range(3), "ok")

    def test_an_earlier_rank_0_that_was_killed_on_another_host_does_not_mislead_ranks(self):
        with net.Hosts(2) as hosts:
            def own(rank):
                return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "requeued",
                        "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "RONDO_RENDEZVOUS_DIR": self.folder, "WORLD_SIZE": "",
                        "RONDO_LOG": "bootstrap=debug", "RONDO_INIT_TIMEOUT": "60"}
            killed = hosts.start(0, SUM, env={**os.environ, **own(0)})
            self.addCleanup(killed.stdout.close)
            while "meets the other ranks" not in (said := killed.stdout.readline()):
                self.assertNotEqual(said, "")
            # The rank is the child of the program that entered the host.
            os.kill(net.innermost(killed.pid), 9)
            killed.wait(120)
            job = Job(hosts, [1], SUM, own_environment=[own(1)])  # rank 1 starts first
            job.line(0, "meets the other ranks at")
            job.line(0, "meets the other ranks at")  # it has read the file again
            second = hosts.start(0, SUM, env={**os.environ, **own(0)})
            self.assertIn("rank 0: ok", second.communicate(timeout=120)[0])
            job.finish(120)
            self.assertIn("rank 1: ok", job.output[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
