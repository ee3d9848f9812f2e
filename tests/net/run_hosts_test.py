# SPDX-License-Identifier: Apache-2.0
"""`rondo run --hosts` over a real sshd on each of several hosts, which are network namespaces. The tests cover ranks,
output, exit status, signals, and errors if a host cannot take part. usage: run_hosts_test.py RANK_PROGRAM RONDO"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import ssh_hosts

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

PROGRAM, RONDO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
DEADLINE_S = 90


class HostsWithLogins(unittest.TestCase):
    """Each class has its own hosts, and all classes run concurrently."""

    @classmethod
    def setUpClass(cls):
        why = ssh_hosts.why_not()
        if "RONDO_TEST_SANITIZED" in os.environ:
            why = "logins and limits of time are not for a sanitizer; done without one"
        if why is not None:
            print(f"skipped: rondo run on several hosts: {why}")
            raise unittest.SkipTest(why)
        cls.hosts = ssh_hosts.SshHosts(2)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)

    def setUp(self):
        # All hosts see this folder and the files in it under the same name.
        self.folder = tempfile.mkdtemp(prefix="rondo-run-hosts-")
        self.addCleanup(shutil.rmtree, self.folder)

    def launch(self, *arguments, hosts="h0:2,h1:2", on=0, environment=None, ssh=None):
        command = [RONDO, "run", "--hosts", hosts, "--ssh", ssh or self.hosts.ssh, *arguments]
        process = self.hosts.start(on, command, env={**os.environ, **(environment or {})})
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def finish(self, process):
        output = process.communicate(timeout=DEADLINE_S)[0]
        return process.returncode, output

    def run_job(self, *arguments, **options):
        return self.finish(self.launch(*arguments, **options))

    def shell(self, script, **options):
        return self.run_job("--tag-output", "--", "sh", "-c", script, **options)

    def wait_for_file(self, name):
        path = os.path.join(self.folder, name)
        deadline = time.monotonic() + DEADLINE_S
        while not os.path.exists(path):
            self.assertLess(time.monotonic(), deadline, f"{name} was not written")
            time.sleep(0.01)

    def inside(self, host, script):
        subprocess.run(self.hosts.command(host, ["sh", "-ec", script]), check=True, capture_output=True, timeout=120)

    def processes(self, host, mark):
        """Returns the host's processes whose command line holds `mark`."""
        # This pattern does not match the searching processes. A zero byte, which a dot matches, is between words.
        pattern = f"{mark[0]}[{mark[1]}]{mark[2:]}".replace(" ", ".")
        probe = self.hosts.start(host, ["sh", "-c", f"cd /proc && LC_ALL=C grep -als '{pattern}' [0-9]*/cmdline"])
        return [path.partition("/")[0] for path in probe.communicate(timeout=120)[0].split()]

    def assert_gone(self, mark, hosts=(0, 1)):
        deadline = time.monotonic() + DEADLINE_S
        for host in hosts:
            while left := self.processes(host, mark):
                self.assertLess(time.monotonic(), deadline, f"left behind on host {host}: {left}")
                time.sleep(0.1)


class RunOnHosts(HostsWithLogins):
    def test_ranks_of_all_hosts_are_one_job(self):
        status, output = self.run_job(PROGRAM, "sum", "20", "30000")
        self.assertEqual(status, 0, output)
        for rank in range(4):
            self.assertIn(f"rank {rank}: ok", output)

    def test_a_bridge_that_all_hosts_have_is_not_where_ranks_meet(self):
        for host in range(2):
            self.inside(host, "ip link add docker0 index 2 type bridge; ip addr add 172.17.0.1/16 dev docker0; "
                              "ip link set docker0 up; ip link add port0 type veth peer name port1; "
                              "ip link set port0 master docker0 up; ip link set port1 up")
            self.addCleanup(self.inside, host, "ip link del docker0; ip link del port0")
        status, output = self.run_job(PROGRAM, "sum", "20", "30000", environment={"RONDO_INIT_TIMEOUT": "30"})
        self.assertEqual(status, 0, output)
        for rank in range(4):
            self.assertIn(f"rank {rank}: ok", output)

    def test_an_address_that_all_hosts_have_is_passed_over_for_that_of_the_network_that_joins_them(self):
        # A virtual machine has such an address on the internal network of its host, which leads to other networks.
        for host in range(2):
            self.inside(host, "ip link add nat0 type veth peer name nat1; ip addr add 10.0.2.15/24 dev nat0; "
                              "ip link set nat0 up; ip link set nat1 up; ip route add default via 10.0.2.2")
            self.addCleanup(self.inside, host, "ip link del nat0")
        status, output = self.run_job(PROGRAM, "sum", "20", "30000", environment={"RONDO_INIT_TIMEOUT": "60"})
        self.assertEqual(status, 0, output)
        for rank in range(4):
            self.assertIn(f"rank {rank}: ok", output)

    def test_each_rank_finds_its_numbers_its_folder_and_the_settings(self):
        status, output = self.shell('echo "$RONDO_RANK $RONDO_LOCAL_RANK $RONDO_SIZE $(hostname) $RONDO_LOG $PWD"',
                                    hosts="h0:1,h1:2", environment={"RONDO_LOG": "warning"})
        self.assertEqual(status, 0, output)
        place = os.getcwd()
        self.assertEqual(sorted(output.splitlines()), [f"[0] 0 0 3 h0 warning {place}", f"[1] 1 0 3 h1 warning {place}",
                                                       f"[2] 2 1 3 h1 warning {place}"])

    def test_output_comes_whole_in_lines_with_their_rank(self):
        status, output = self.shell("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; printf end")
        self.assertEqual(status, 0)
        for rank in range(4):
            own = [line for line in output.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"[{rank}] line {number}" for number in range(500)] + [f"[{rank}] end"])
        self.assertEqual(len(output.splitlines()), 4 * 501)

    def test_the_first_failure_is_the_jobs_and_ends_the_others(self):
        status, output = self.shell("[ $RONDO_RANK = 3 ] && exit 7; sleep 611")
        self.assertEqual(status, 7, output)
        self.assertRegex(output, r"rank 3 \(host h1, pid \d+\) exited with status 7; ending the other ranks")
        self.assert_gone("sleep 611")
        status, output = self.shell("[ $RONDO_RANK = 2 ] && kill -9 $$; sleep 611")
        self.assertEqual(status, 137, output)
        self.assertRegex(output, r"rank 2 \(host h1, pid \d+\) was killed by signal 9")
        self.assert_gone("sleep 611")

    def test_a_rank_that_ends_before_it_came_is_told_to_those_that_wait_for_it(self):
        status, output = self.run_job("--grace", "20", "--", "sh", "-c",
                                      f"[ $RONDO_RANK = 3 ] && exit 5; trap '' TERM; {PROGRAM} sum 1 10; true")
        self.assertEqual(status, 5, output)
        self.assertIn("rank 3", output)

    def test_hosts_that_cannot_take_part_are_named_before_anything_starts(self):
        began = os.path.join(self.folder, "began")
        touch = ["touch", began]
        with open(self.hosts.config) as file:
            config = file.read()
        other = os.path.join(self.folder, "ssh")
        with open(other, "w") as file:  # h8 has no server, and h9 does not exist
            file.write(f"Host h8\n  HostName {self.hosts.address(1)}\n  Port 2\n"
                       f"Host h9\n  HostName {self.hosts.address(77)}\n" + config)
        status, output = self.run_job(*touch, hosts="h0:1,h8:1,h9:1", ssh=f"ssh -F {other}")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"host h8: ssh cannot reach it: .*Connection refused")
        self.assertRegex(output, r"host h9: ssh cannot reach it: .*(No route to host|timed out)")
        status, output = self.run_job("--remote-rondo", "/nowhere/rondo", *touch, hosts="h1")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"host h1: there is no rondo at /nowhere/rondo.*--remote-rondo")
        self.assertFalse(os.path.exists(began))

    def test_a_host_that_lacks_the_program_is_named_before_anything_starts(self):
        began = os.path.join(self.folder, "began")
        programs = os.path.join(self.folder, "programs")
        os.mkdir(programs)
        program = os.path.join(programs, "work")
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\necho > {began}\n")
        os.chmod(program, 0o755)
        # This makes the folder empty in the host's namespace of mounts, in which sshd runs.
        hide = self.hosts.start(1, ["mount", "-t", "tmpfs", "none", programs])
        self.assertEqual(hide.communicate(timeout=120)[0], "")
        try:
            status, output = self.run_job(program)
            self.assertEqual(status, 127, output)
            self.assertIn(f"host h1: program not found: {program}", output)
            self.assertNotIn("host h0:", output)
            self.assertFalse(os.path.exists(began))
        finally:
            self.hosts.start(1, ["umount", programs]).communicate(timeout=120)

    def test_a_login_that_hangs_ends_with_a_message(self):
        hanging = os.path.join(self.folder, "hanging")
        with open(hanging, "w") as file:
            file.write("#!/bin/sh\nexec sleep 612\n")
        os.chmod(hanging, 0o755)
        status, output = self.run_job("--timeout", "2", "true", ssh=hanging)
        self.assertEqual(status, 124, output)
        self.assertIn("these hosts were not ready in time: h0, h1; nothing was started", output)
        self.assert_gone("sleep 612")

    def test_signals_reach_the_ranks_of_all_hosts(self):
        script = (f"trap 'echo usr1; echo > {self.folder}/got$RONDO_RANK' USR1; trap 'echo term; exit 0' TERM; "
                  f"echo > {self.folder}/up$RONDO_RANK; while :; do sleep 0.05; done")
        process = self.launch("--tag-output", "--", "sh", "-c", script)
        for rank in range(4):
            self.wait_for_file(f"up{rank}")
        self.signal_launcher(process, signal.SIGUSR1)
        for rank in range(4):
            self.wait_for_file(f"got{rank}")
        self.signal_launcher(process, signal.SIGTERM)
        status, output = self.finish(process)
        self.assertEqual(status, 0, output)
        for rank in range(4):
            self.assertIn(f"[{rank}] usr1", output)
            self.assertIn(f"[{rank}] term", output)

    def launcher(self, process):
        """Returns the launcher's process. It is the child of `process`, which entered the host."""
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            children = file.read().split()
        return int(children[0]) if children else process.pid

    def signal_launcher(self, process, number):
        os.kill(self.launcher(process), number)

    def wait_until_taken(self, process, number):
        """Waits until the launcher has received the signal. A second pending signal of this number would be lost."""
        def waits():
            with open(f"/proc/{self.launcher(process)}/status") as file:
                told = dict(line.split(":", 1) for line in file)
            return any(int(told[name], 16) >> (number - 1) & 1 for name in ("SigPnd", "ShdPnd"))
        deadline = time.monotonic() + DEADLINE_S
        while waits():
            self.assertLess(time.monotonic(), deadline, "the launcher does not take its signal")
            time.sleep(0.01)

    def test_a_second_signal_ends_ranks_that_do_not_heed_the_first(self):
        process = self.launch("--grace", "0.2", "--", "sh", "-c",
                              f"trap '' TERM INT; echo > {self.folder}/up$RONDO_RANK; sleep 613; sleep 613")
        for rank in range(4):
            self.wait_for_file(f"up{rank}")
        self.signal_launcher(process, signal.SIGINT)
        self.wait_until_taken(process, signal.SIGINT)
        self.signal_launcher(process, signal.SIGINT)
        status, output = self.finish(process)
        self.assertEqual(status, 130, output)
        self.assert_gone("sleep 613")

    def test_nothing_stays_behind_a_killed_launcher(self):
        process = self.launch("--", "sh", "-c", f"echo > {self.folder}/up$RONDO_RANK; sleep 615")
        for rank in range(4):
            self.wait_for_file(f"up{rank}")
        self.assertEqual([len(self.processes(host, "sleep 615")) > 0 for host in range(2)], [True, True])
        self.signal_launcher(process, signal.SIGKILL)
        self.finish(process)
        self.assert_gone("sleep 615")
        self.assert_gone("run --agent")

    def test_a_killed_agent_takes_its_ranks_along_and_is_told(self):
        process = self.launch("--", "sh", "-c", f"echo > {self.folder}/up$RONDO_RANK; sleep 616")
        for rank in range(4):
            self.wait_for_file(f"up{rank}")
        for pid in self.processes(1, "rondo run --agent"):
            name = self.hosts.start(1, ["cat", f"/proc/{pid}/comm"]).communicate(timeout=120)[0]
            if name.strip() != "rondo-guard":  # the agent's death wakes the guard, which ends the ranks
                self.hosts.start(1, ["kill", "-9", pid]).communicate(timeout=120)
        status, output = self.finish(process)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, "host h1: the connection to it has ended")
        self.assert_gone("sleep 616")


class LimitedJob(HostsWithLogins):
    def test_the_time_limit_ends_the_job_on_all_hosts(self):
        # The limit includes the start of the hosts, and is twenty times as long as the start takes.
        status, output = self.run_job("--timeout", "20", "--", "sleep", "614")
        self.assertEqual(status, 124, output)
        self.assertIn("the job did not end within 20 s", output)
        self.assert_gone("sleep 614")


class CutHost(HostsWithLogins):
    def test_a_host_that_is_cut_off_is_told_and_its_ranks_end(self):
        process = self.launch("--", "sh", "-c", "echo up; exec sleep 617", hosts="h0,h1")
        begun = [process.stdout.readline() for _ in range(2)]  # the launcher ends by itself if a host is not ready
        self.assertTrue(all("up" in line for line in begun), begun)
        self.hosts.cut(1)
        output = process.communicate(timeout=DEADLINE_S)[0]
        self.assertEqual(process.returncode, 1, output)
        self.assertRegex(output, "host h1: no answer for 15 s")


class TuneHosts(HostsWithLogins):
    def test_candidates_are_measured_on_all_hosts_and_the_table_is_for_several(self):
        agent = Path(self.folder, "ssh")  # rondo tune has no option for the agent of rondo run
        agent.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.hosts.config} "$@"\n', encoding="ascii")
        agent.chmod(0o755)
        table = Path(self.folder, "hosts.json")
        process = self.hosts.start(0, [RONDO, "tune", "--hosts", "h0,h1", "--quick", "--rounds", "1", "--sizes", "64K",
                                       "--collectives", "broadcast", "--keep-disturbed", "-o", str(table)],
                                   env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        output = process.communicate(timeout=4 * DEADLINE_S)[0]  # nine jobs, each at most twice
        self.assertIn(process.returncode, (0, 1), output)  # 1 means that a choice was not the best
        self.assertIn("broadcast, 2 ranks on several hosts:", output)
        written = json.loads(table.read_text(encoding="utf-8"))
        self.assertTrue(all(row["several_hosts"] and row["ranks"] == 2 for row in written["rows"]), written["rows"])
        algorithms = {each["algorithm"] for each in written["measurements"][0]["series"]}
        self.assertLess({"ring"}, algorithms)


if __name__ == "__main__":
    side_by_side.main(3, whole_classes=True)
