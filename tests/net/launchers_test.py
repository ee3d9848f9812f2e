# SPDX-License-Identifier: Apache-2.0
"""Runs each real launcher over two hosts that are network namespaces: Open MPI and MPICH over ssh, Slurm with and
without PMI, torchrun. The ranks' sums must be right. usage: launchers_test.py RANK_PROGRAM"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import slurm_hosts
import ssh_hosts

PROGRAM = os.path.abspath(sys.argv.pop(1))
DEADLINE_S = 90


def flavour(name):
    """Returns the implementation of a program of that name, or "" if it does not exist."""
    path = shutil.which(name)
    if path is None:
        return ""
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
    return "Open MPI" if re.search("Open MPI|OpenRTE", said) else "HYDRA" if "HYDRA" in said else ""


def find(names, wanted):
    return next((name for name in names if flavour(name) == wanted), None)


class Launchers(unittest.TestCase):
    def require(self, what, why):
        if why is not None:
            print(f"skipped: {what} over several hosts: {why}")
            self.skipTest(why)

    def setUp(self):
        self.shared = tempfile.mkdtemp(prefix="rondo-launchers-")
        self.addCleanup(shutil.rmtree, self.shared)
        self.said = None

    def ranks(self, then=""):
        """Returns the command of a rank, followed by the shell's command `then`. Each rank writes its output to a
        file, because on a busy machine MPICH's mpiexec loses lines."""
        self.said = tempfile.mkdtemp(prefix="rondo-launchers-said-")
        self.addCleanup(shutil.rmtree, self.said)
        run = f'"$@" && {then}' if then else 'exec "$@"'
        return ["sh", "-c", f'exec >"$(mktemp "$0/XXXXXX")" 2>&1; {run}', self.said, PROGRAM, "sum", "20", "30000"]

    def expect_each_rank(self, launcher_said, statuses, end="ok"):
        """Checks that all ranks ended well, each with its sums. A launcher reports the end of one rank at most,
        perhaps of a rank that the launcher killed itself. So the test's message also has the ranks' output."""
        said = "".join(path.read_text() for path in Path(self.said).iterdir())
        told = f"the launcher said:\n{launcher_said}\nthe ranks said:\n{said}"
        self.assertEqual(set(statuses), {0}, told)
        for rank in range(4):
            self.assertIn(f"rank {rank}: {end}", said, told)

    def expect_sums(self, hosts, command, environment=None, then="", end="ok"):
        given = dict(environment or os.environ, RONDO_RENDEZVOUS_DIR=self.shared)
        process = hosts.start(0, command + self.ranks(then), env=given)
        try:
            output = process.communicate(timeout=DEADLINE_S)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.expect_each_rank(output, [process.returncode], end)

    def test_open_mpi(self):
        mpirun = find(["mpirun.openmpi", "mpirun"], "Open MPI")
        self.require("Open MPI", ssh_hosts.why_not() or (None if mpirun else "no mpirun of Open MPI"))
        with ssh_hosts.SshHosts(2) as hosts:
            self.expect_sums(hosts, [mpirun, "--allow-run-as-root", "--host", "h0:2,h1:2", "-np", "4", "--bind-to",
                                     "none", "--mca", "plm_rsh_agent", hosts.launcher_agent, "--mca",
                                     "oob_tcp_if_include", "eth0", "-x", "RONDO_RENDEZVOUS_DIR"])

    def test_mpich(self):
        mpiexec = find(["mpiexec.hydra", "mpirun.mpich", "mpiexec"], "HYDRA")
        self.require("MPICH", ssh_hosts.why_not() or (None if mpiexec else "no mpiexec of MPICH"))
        with ssh_hosts.SshHosts(2) as hosts:
            command = [mpiexec, "-launcher", "ssh", "-launcher-exec", hosts.launcher_agent, "-iface", "eth0", "-hosts",
                       "h0:2,h1:2", "-n", "4"]
            self.expect_sums(hosts, command)
            # If a process has used PMI and ends without finalizing PMI, Hydra kills its neighbours.
            self.expect_sums(hosts, command, then='sleep $((4 - PMI_RANK)) && echo "rank $PMI_RANK: was left alone"',
                             end="was left alone")

    def test_slurm(self):
        self.require("Slurm", slurm_hosts.why_not())
        with slurm_hosts.SlurmHosts(2) as hosts:
            listed = hosts.start(0, ["srun", "--mpi=list"], env=hosts.environment).communicate(timeout=60)[0]
            for kind in ("none", "pmi2", "pmix"):
                with self.subTest(mpi=kind):
                    self.require(f"srun --mpi={kind}", None if kind in listed else f"this Slurm has no {kind}")
                    self.expect_sums(hosts, ["srun", "-N", "2", "-n", "4", "--ntasks-per-node=2", f"--mpi={kind}"],
                                     hosts.environment)

    def test_torchrun(self):
        torchrun = shutil.which("torchrun")
        works = torchrun is not None and subprocess.run([torchrun, "--help"], capture_output=True,
                                                        timeout=120).returncode == 0
        self.require("torchrun", ssh_hosts.net.why_not() or
                     (None if works else "no torchrun (the environment that it makes is in several_hosts_test.py)"))
        ranks = self.ranks()
        with ssh_hosts.net.Hosts(2) as hosts:
            agents = [hosts.start(host, [torchrun, "--nnodes=2", f"--node_rank={host}", "--nproc_per_node=2",
                                         f"--master_addr={hosts.address(0)}", "--master_port=29400", "--no_python",
                                         *ranks]) for host in range(2)]
            output = "".join(agent.communicate(timeout=DEADLINE_S)[0] for agent in agents)
            self.expect_each_rank(output, [agent.returncode for agent in agents])


if __name__ == "__main__":
    unittest.main(verbosity=2)
