# SPDX-License-Identifier: Apache-2.0
"""Runs a real Slurm on the hosts of hosts.py: munged and slurmctld on host 0, and slurmd on each host. Slurm's files
are in the test's own folder. Nothing outside of the hosts' namespaces is touched."""

import os
import shutil
import subprocess
import time

import hosts as net

SEARCH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")


def why_not():
    """Returns None if such hosts can be made here, otherwise what is missing."""
    why = net.why_not()
    if why is not None:
        return why
    missing = [program for program in PROGRAMS if shutil.which(program, path=SEARCH) is None]
    return "no " + ", no ".join(missing) if missing else None


class SlurmHosts(net.Hosts):
    def __enter__(self):
        super().__enter__()
        self.servers = []
        try:
            self._configure()
            self._serve(0, ["munged", "-F", "-f", f"--key-file={self.folder}/key", f"--socket={self.folder}/munge",
                            f"--pid-file={self.folder}/munge.pid", f"--log-file={self.folder}/munge.log",
                            f"--seed-file={self.folder}/munge.seed"])
            self._await(lambda: os.path.exists(f"{self.folder}/munge"), "munged")
            self._serve(0, ["slurmctld", "-D", "-f", f"{self.folder}/slurm.conf"])
            for host in range(self.count):
                self._serve(host, ["slurmd", "-D", "-N", f"h{host}", "-f", f"{self.folder}/slurm.conf"])
            self._await(self._idle, "Slurm")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *what):
        for server in self.servers:
            server.kill()
        super().__exit__(*what)
        for server in self.servers:
            server.wait()
            server.stdout.close()

    def _configure(self):
        os.chmod(self.folder, 0o755)
        with open(f"{self.folder}/key", "wb") as file:
            file.write(os.urandom(128))
        os.chmod(f"{self.folder}/key", 0o600)
        of_hosts = [f"{kind}-h{host}" for kind in ("spool", "tmp") for host in range(self.count)]
        for name in ["state", *of_hosts]:
            os.mkdir(f"{self.folder}/{name}")
        nodes = "".join(f"NodeName=h{host} NodeAddr={self.address(host)} CPUs=4 State=UNKNOWN\n"
                        for host in range(self.count))
        with open(f"{self.folder}/cgroup.conf", "w") as file:
            file.write("CgroupPlugin=cgroup/v1\n")
        with open(f"{self.folder}/slurm.conf", "w") as file:
            file.write(f"ClusterName=rondo\nSlurmctldHost=h0({self.address(0)})\nSlurmUser=root\nSlurmdUser=root\n"
                       f"AuthType=auth/munge\nAuthInfo=socket={self.folder}/munge\nMpiDefault=none\n"
                       "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n"
                       "SchedulerType=sched/builtin\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n"
                       "JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n"
                       "ReturnToService=2\nKillWait=1\nSlurmdParameters=config_overrides\n"
                       f"SlurmctldPidFile={self.folder}/slurmctld.pid\nSlurmdPidFile={self.folder}/slurmd-%n.pid\n"
                       f"TmpFS={self.folder}/tmp-%n\n"  # PMIx of two nodes must not meet there
                       f"SlurmdSpoolDir={self.folder}/spool-%n\nStateSaveLocation={self.folder}/state\n"
                       f"{nodes}PartitionName=p Nodes=ALL Default=YES State=UP\n")
        self.environment = dict(os.environ, SLURM_CONF=f"{self.folder}/slurm.conf", PATH=SEARCH)

    def _serve(self, host, command):
        self.servers.append(self.start(host, command, env=self.environment))

    def _await(self, ready, what):
        deadline = time.monotonic() + 120
        while not ready():
            ended = [server for server in self.servers if server.poll() is not None]
            if ended or time.monotonic() > deadline:
                said = "".join(server.stdout.read() for server in ended)
                raise RuntimeError(f"{what} cannot be used: {said[-2000:] or 'it is not ready after 30 s'}")
            time.sleep(0.1)

    def _idle(self):
        probe = self.start(0, ["sinfo", "-h", "-o", "%t %D"], env=self.environment)
        return f"idle {self.count}" in probe.communicate(timeout=120)[0]
