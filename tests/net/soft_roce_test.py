# SPDX-License-Identifier: Apache-2.0
"""The transport over verbs on a real RDMA device in software, in virtual machines (soft_roce.py). The tests are the
suite of networks, every collective, a port that goes down, and a path that dies between two machines. Two ranks of one
machine count as ranks of two hosts, because each has its own namespace of processes.

usage: soft_roce_test.py FOLDER RANK_PROGRAM RONDO NETWORK_TEST VERBS_TEST"""

import os
import re
import secrets
import shutil
import sys
import unittest

import soft_roce

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "proc"))
from job import LINE, Report  # noqa: E402

FOLDER = sys.argv.pop(1)
PROGRAM, RONDO, *SUITES = [os.path.abspath(sys.argv.pop(1)) for _ in range(4)]
ENVIRONMENT = f"""
export RONDO_NETWORK=verbs RONDO_INIT_TIMEOUT=90 WORLD_SIZE=2 RONDO_SECRET={secrets.token_hex(32)}
begun() {{
  for rank in "$@"; do
    for look in $(seq 500); do grep -q begun /run/rank$rank && break; sleep 0.2; done
  done
}}
"""
ONE_MACHINE = ENVIRONMENT + f"""
export RONDO_INTERFACE=lo MASTER_ADDR=127.0.0.1
start_ranks() {{
  port=$((${{port:-29500}} + 1))
  for rank in 0 1; do
    RANK=$rank MASTER_PORT=$port timeout 200 {soft_roce.OWN_HOST} "{PROGRAM}" "$@" > /run/rank$rank 2>&1 &
  done
}}
"""
TWO_RAILS = ONE_MACHINE + """
tool rdma link add rxe1 type rxe netdev eth1 || exit 97
export RONDO_IB_HCA=rxe0,rxe1
"""
TWO_MACHINES = ENVIRONMENT + f"""
export RONDO_INTERFACE=eth1 MASTER_ADDR=$(address 0 eth1) MASTER_PORT=29500 RANK=$NODE
"""

# The promise is 5 s from the fall of a port, or the death of a path, until the error. The allowance is for the guest.
# Its emulated processor takes ten times as long, and its clock also runs while that processor waits for a core. The
# measured time includes the end of a rank's last process.
PROMISED_MS, ALLOWANCE_MS = 5_000, 5_000


class SoftRoce(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            if "RONDO_TEST_SANITIZED" in os.environ:
                raise soft_roce.Missing("an emulated processor is too slow for sanitized programs")
            if shutil.which(soft_roce.QEMU) is None and "RONDO_TEST_SOFT_ROCE" not in os.environ:
                raise soft_roce.Missing(f"no {soft_roce.QEMU}; RONDO_TEST_SOFT_ROCE=1 fetches it from the packages")
            cls.image = soft_roce.Image(FOLDER)
        except soft_roce.Missing as why:
            print(f"skipped: verbs on Soft-RoCE: {why}")
            raise unittest.SkipTest(str(why)) from None

    def run_in_machines(self, job, **options):
        outcomes = soft_roce.run(self.image, job, **options)
        for outcome in outcomes:
            self.assertEqual(outcome.status, 0, outcome)
        return [outcome.output for outcome in outcomes]

    def expect_loss(self, output, reports, text):
        last = {int(match[1]): Report(match) for match in LINE.finditer(output)}
        self.assertEqual(len(last), reports, output)
        for rank, report in last.items():
            with self.subTest(rank=rank):
                self.assertEqual(report.status, "remote rank failed", report.message)
                self.assertRegex(report.message, text)

    def expect_soon(self, output):
        told = re.search(r"told after (\d+) ms", output)
        print(told[0])
        self.assertLess(int(told[1]), PROMISED_MS + ALLOWANCE_MS, output)

    def test_the_suites_of_networks_and_of_verbs(self):
        for suite in SUITES:
            with self.subTest(suite=suite):
                output, = self.run_in_machines(f'RONDO_NETWORK_SEEDS=10 timeout 350 "{suite}" -d yes\n')
                self.assertIn("All tests passed", output)
                self.assertNotRegex(output, "skipped: .*verbs")

    def test_every_collective_is_right_and_goes_over_the_device(self):
        perf = f'"{RONDO}" run -n 2 -- {soft_roce.OWN_HOST} "{RONDO}" perf $collective -b 4 -e 1M -f 64 -n 2 -w 1 -c 1'
        job = ONE_MACHINE + f"""
unset WORLD_SIZE MASTER_ADDR RONDO_SECRET
packets() {{ cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }}
before=$(packets)
for collective in all_reduce reduce_scatter all_gather broadcast reduce; do
  {perf} || exit 1
done
{perf.replace("$collective", "all_reduce -d bfloat16 -o avg")} || exit 1
RONDO_WAIT=sleep {perf.replace("$collective", "all_reduce")} || exit 1
echo "sent $(($(packets) - before)) packets"
"""
        output, = self.run_in_machines(job)
        self.assertEqual(output.count("# Out of bounds values : 0 OK"), 7, output)
        self.assertGreater(int(re.search(r"sent (\d+) packets", output)[1]), 10_000, output)

    def test_a_user_who_may_lock_8_mib_can_use_it(self):
        perf = f'"{RONDO}" run -n 2 -- {soft_roce.OWN_HOST} "{RONDO}" perf all_reduce -b 64K -e 64K -n 2 -w 1'
        job = ONE_MACHINE + f"""
unset WORLD_SIZE MASTER_ADDR RONDO_SECRET
ulimit -l 8192
setpriv --bounding-set -ipc_lock {perf} || exit 1
RONDO_SLOT_COUNT=4 setpriv --bounding-set -ipc_lock {perf}
true
"""
        output, = self.run_in_machines(job)
        self.assertEqual(output.count("# Out of bounds values : 0 OK"), 1, output)
        self.assertRegex(output, r"RDMA \(is the limit of locked memory, ulimit -l, too low\?\)")  # in the second run

    def test_sums_are_right_with_slots_in_memory_of_devices_in_software(self):
        names = ("RONDO_CUDA_LIBRARY", "SOFT_CUDA_KERNELS", "SOFT_CUDA_QUEUES", "CUDA_DEVICE_MAX_CONNECTIONS")
        exports = "".join(f"export {name}='{os.environ[name]}'\n" for name in names)
        job = ONE_MACHINE + exports + f"""
unset WORLD_SIZE MASTER_ADDR RONDO_SECRET
export RONDO_NETWORK_DEVICE_SLOTS=on SOFT_CUDA_GPUDIRECT=flush SOFT_CUDA_DMABUF=on RONDO_LOG=transport=info
"{RONDO}" run -n 2 -- {soft_roce.OWN_HOST} "{RONDO}" perf all_reduce --device cuda -b 4 -e 64K -f 16 -n 2 -w 1 -c 1
"""
        output, = self.run_in_machines(job)
        self.assertIn("# Out of bounds values : 0 OK", output)
        self.assertEqual(output.count("slots of links to other hosts are in memory of the device"), 2, output)

    def test_a_port_that_goes_down_is_named(self):
        for scenario, reports in (("busy 1000 20000", 2), ("quiet 1000", 2)):
            with self.subTest(scenario=scenario):
                job = ONE_MACHINE + f"""
start_ranks {scenario}
begun 0 1
tool ip link set eth0 down
went_down=$(date +%s%3N)
wait
echo "told after $(($(date +%s%3N) - went_down)) ms"
cat /run/rank0 /run/rank1
"""
                output, = self.run_in_machines(job)
                self.expect_soon(output)
                self.expect_loss(output, reports,
                                 r"rank [01] \(host vm0.*port 1 of the network device rxe0 of this host has gone down.*"
                                 r"from rxe0 port 1 \(GID 1, RoCE v2, 10\.202\.18\.1\)")

    def test_each_rail_carries_half(self):
        job = TWO_RAILS + f"""
packets() {{ cat /sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts; }}
for sockets in 1 2; do
  export RONDO_SOCKETS=$sockets
  before0=$(packets rxe0) before1=$(packets rxe1)
  start_ranks sum 4 1048576
  wait
  cat /run/rank0 /run/rank1
  echo "rails sent $(($(packets rxe0) - before0)) and $(($(packets rxe1) - before1)) packets"
done
"{RONDO}" run -n 2 -- {soft_roce.OWN_HOST} "{RONDO}" perf all_gather -b 4 -e 256K -f 64 -n 2 -w 1 -c 1
"""
        output, = self.run_in_machines(job)
        sent = re.findall(r"rails sent (\d+) and (\d+) packets", output)
        self.assertEqual(len(sent), 2, output)
        for packets in sent:
            by_rail = [int(each) for each in packets]
            self.assertGreater(sum(by_rail), 10_000, output)
            self.assertAlmostEqual(by_rail[0] / sum(by_rail), 0.5, delta=0.02, msg=output)
        self.assertEqual(len([each for each in LINE.finditer(output) if Report(each).status == "ok"]), 4, output)
        self.assertIn("# Out of bounds values : 0 OK", output)

    def test_a_rail_whose_port_goes_down_is_named(self):
        job = TWO_RAILS + """
start_ranks busy 1000 20000
begun 0 1
tool ip link set eth1 down
went_down=$(date +%s%3N)
wait
echo "told after $(($(date +%s%3N) - went_down)) ms"
cat /run/rank0 /run/rank1
"""
        output, = self.run_in_machines(job)
        self.expect_soon(output)
        self.expect_loss(output, 2, r"rank [01] \(host vm0.*port 1 of the network device rxe1 of this host has gone "
                                    r"down.*from rxe1 port 1 \(GID 1, RoCE v2, 10\.202\.19\.1\) to rxe1 port 1")

    def test_a_port_that_comes_back_at_once_is_no_loss(self):
        job = ONE_MACHINE + """
start_ranks quiet 1000
begun 0 1
tool ip link set eth0 down; tool ip link set eth0 up
sleep 2
grep -c "remote rank failed" /run/rank0 /run/rank1
true
"""
        output, = self.run_in_machines(job)
        self.assertIn("/run/rank0:0\n/run/rank1:0\n", output)

    def test_two_machines(self):
        job = TWO_MACHINES + f"""
"{RONDO}" perf all_reduce -b 4 -e 256K -f 64 -n 2 -w 1 -c 1 || exit 1
MASTER_PORT=29501 timeout 200 "{PROGRAM}" busy 1000 20000 > /run/rank$NODE 2>&1 &
begun $NODE
[ $NODE = 0 ] || tool tc qdisc add dev eth0 root netem loss 100%
went_dead=$(date +%s%3N)
wait
echo "told after $(($(date +%s%3N) - went_dead)) ms"
cat /run/rank$NODE
"""
        outputs = self.run_in_machines(job, machines=2, processors=1)
        self.assertIn("# Out of bounds values : 0 OK", outputs[0])
        for node, output in enumerate(outputs):
            self.expect_soon(output)
            # The rank that had something to send learns of the loss first, and informs the other rank.
            self.expect_loss(output, 1, r"rank [01] \(host vm[01].*does not acknowledge.*retry counter exceeded.*"
                                        r"from rxe0 port 1 .* to rxe0 port 1 ")

    def test_sums_are_right_where_packets_and_acknowledgements_are_lost(self):
        job = TWO_MACHINES + f"""
tool tc qdisc add dev eth0 root netem loss 0.3% || exit 1
for collective in all_reduce broadcast; do
  "{RONDO}" perf $collective -b 64K -e 1M -f 16 -n 20 -w 1 -c 5 || exit 1
  MASTER_PORT=$((MASTER_PORT + 1))
done
echo "again: $(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/duplicate_request)"
"""
        outputs = self.run_in_machines(job, machines=2, processors=1)
        self.assertEqual(outputs[0].count("# Out of bounds values : 0 OK"), 2, outputs)
        self.assertGreater(sum(int(re.search(r"again: (\d+)", output)[1]) for output in outputs), 0, outputs)

    def test_what_keeps_two_machines_apart_is_told_by_both(self):
        to_rdma = "match ip protocol 17 0xff match ip dport 4791 0xffff"
        no_way = (r"rank [01] \(host vm[01].* cannot reach rank [01] \(host vm[01].*over verbs, from rxe0 port 1 .* to "
                  r"rxe0 port 1 .*RONDO_IB_GID_INDEX, the firewalls \(RoCE v2 is UDP to port 4791\) and the MTU "
                  r"between the hosts")
        # A full packet of this device has 1024 bytes and headers. An acknowledgement and a small write have less.
        in_the_way = (
            ("a firewall", f"drop '{to_rdma}'", no_way),
            ("a network that large packets do not pass", f"drop '{to_rdma} match u16 0x0400 0x0400 at 2'", no_way),
            ("a GID that the other machine has no way to", "export RONDO_IB_GID_INDEX=0",
             r"rank [01] \(host vm[01].* has rxe0 port 1 \(GID [01], .*, this rank rxe0 port 1 \(GID [01], .*could not "
             r"be connected: .*; choose by RONDO_IB_HCA and RONDO_IB_GID_INDEX"))
        job = TWO_MACHINES + """
tool tc qdisc add dev eth0 ingress || exit 1
drop() { tool tc filter add dev eth0 parent ffff: protocol ip u32 $1 action drop || exit 1; }
"""
        for number, (_, before, _) in enumerate(in_the_way):
            job += f"""
[ $NODE = 0 ] || {before}
MASTER_PORT={29510 + number} timeout 100 "{PROGRAM}" sum 1 1 2>&1
tool tc filter del dev eth0 parent ffff:
echo "end of case"
"""
        for node, output in enumerate(self.run_in_machines(job, machines=2, processors=1)):
            cases = output.split("end of case")
            self.assertEqual(len(cases), len(in_the_way) + 1, output)
            for (what, _, expected), told in zip(in_the_way, cases):
                with self.subTest(node=node, what=what):
                    self.assertRegex(told, expected)
                    self.assertNotIn("init_timeout_ms", told)

    def test_what_cannot_work_is_told_by_every_rank(self):
        wrong = (("RONDO_IB_HCA", "mlx9_0", "and no port has that name; ports: rxe0 port 1 .active"),
                 ("RONDO_IB_HCA", "rxe0,mlx9_0", "and no port has that name; ports: rxe0 port 1 .active"),
                 ("RONDO_IB_GID_INDEX", "77", "which no active port has; ports: rxe0 port 1"))
        job = ONE_MACHINE
        for variable, value, _ in wrong:
            job += (f"export {variable}={value}\nstart_ranks sum 1 1\nwait\ncat /run/rank0 /run/rank1\n"
                    f"unset {variable}\n")
        output, = self.run_in_machines(job)
        for variable, value, message in wrong:
            same = [each for each in wrong if each[1].split(",")[-1] == value.split(",")[-1]]
            said = rf"rank 0 \(host vm0, process 1\): .*{variable} is {value.split(',')[-1]}, {message}"
            self.assertEqual(len(re.findall(said, output)), 2 * len(same), output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
