# SPDX-License-Identifier: Apache-2.0
"""Starts programs of ranks on several hosts, which are network namespaces of this machine (tests/net/hosts.py). It
needs root. Run as a program, it starts one rank on each host:

    between.py PID... -- DRIVER [OPTION...]

Without a PID it runs one program, and waits for all processes that the program leaves behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "net"))
import hosts  # noqa: E402

INTERFACE = "eth0"
INSIDE = ("-n", "-u", "-i", "-p", "-m")
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
ORPHANS_S = 20


class Network:
    """`with Network(folder) as network:` makes hosts when the first run asks for them."""

    def __init__(self, folder):
        self.folder, self.made, self.rate = Path(folder), None, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.made:
            self.made.__exit__()
            self.made = None

    @staticmethod
    def why_not():
        return hosts.why_not()

    def prepare(self, count, rate):
        if self.made is None or self.made.count != count:
            self.__exit__()
            self.made, self.rate = hosts.Hosts(count).__enter__(), None
            self._write_agent()
        if rate != self.rate:
            self.made.limit(rate)
            self.rate = rate

    def _pid(self, host):
        return self.made.inner[1 + host]

    def _write_agent(self):
        """Writes the program that a launcher of MPI uses as its ssh: [OPTION...] ADDRESS COMMAND..."""
        cases = "".join(f"  {self.made.address(host)}) pid={self._pid(host)};;\n" for host in range(self.made.count))
        text = ('#!/bin/sh\nwhile case "$1" in -*) true;; *) false;; esac; do shift; done\n'
                f'case "$1" in\n{cases}  *) echo "no host $1" >&2; exit 1;;\nesac\nshift\n'
                f'exec nsenter -t "$pid" {" ".join(INSIDE)} --wd="$PWD" -- sh -c "$*"\n')
        self.agent = self.folder / "agent"
        self.agent.write_text(text, encoding="ascii")
        self.agent.chmod(0o755)

    def launch(self, contender, ranks):
        """Returns the words before the driver. Ranks fill one host after another: of 4 ranks on 2 hosts, ranks 0 and 1
        are on the first host."""
        addresses = [self.made.address(host) for host in range(self.made.count)]
        each = ranks // self.made.count
        pids = [str(self._pid(rank // each)) for rank in range(ranks)]
        if contender.family is None:
            return [sys.executable, "-B", __file__, *pids, "--"]
        # The launcher sees the processes of this machine, and the first host's network.
        inside = ["nsenter", "-t", pids[0], "-n", "-u", "--", contender.launcher]
        if contender.family == "openmpi":
            where = ",".join(f"{address}:{each}" for address in addresses)
            return [sys.executable, "-B", __file__, "--", *inside, "-np", str(ranks), "--host", where,
                    "--mca", "plm_rsh_agent", str(self.agent), "--mca", "oob_tcp_if_include", INTERFACE,
                    "--mca", "btl_tcp_if_include", INTERFACE, "--bind-to", "none",
                    # Otherwise Open MPI's daemons would belong to the first process of their host, and not to this run.
                    "--mca", "orte_leave_session_attached", "1",
                    "-x", "MALLOC_MMAP_THRESHOLD_", "-x", "MALLOC_TRIM_THRESHOLD_"]
        binding = ["-genv", "I_MPI_PIN", "0"] if contender.family == "intel" else ["-bind-to", "none"]
        return [*inside, "-launcher", "ssh", "-launcher-exec", str(self.agent), "-iface", INTERFACE, *binding, "-hosts",
                ",".join(addresses), "-ppn", str(each), "-np", str(ranks)]


def start_ranks(pids, driver):
    """Starts one rank for each process id, in the namespaces of that process. The first rank that fails ends the
    others."""
    ranks = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for rank, pid in enumerate(pids):
            ranks.append(subprocess.Popen(["nsenter", "-t", pid, *INSIDE, f"--wd={os.getcwd()}", "--", *driver,
                                           "--rank", str(rank)]))
        left = len(ranks)
        while left:  # ends by the alarms that the drivers set for themselves
            ended, status = os.wait()
            for rank in ranks:
                if rank.pid == ended:
                    rank.returncode = os.waitstatus_to_exitcode(status)
            left -= 1
            if status != 0:
                return 1
        return 0
    finally:
        for rank in ranks:
            if rank.returncode is None:
                rank.kill()
                rank.wait()


def run_and_wait_for_all(command):
    """Runs a command and waits for its orphans, too. Open MPI's daemon on the other host outlives its parent. If nobody
    waited, the time of the daemon's rank would count as other work on the machine."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no child subreaper")
    started = []
    signal.signal(signal.SIGTERM, lambda *_: started[0].terminate() if started else sys.exit(143))
    started.append(subprocess.Popen(command))
    status = started[0].wait()
    deadline = time.monotonic() + ORPHANS_S
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                if time.monotonic() >= deadline:
                    print(f"what {command[-1]} left behind had not ended after {ORPHANS_S} s", file=sys.stderr)
                    return 1
                time.sleep(0.01)
        except ChildProcessError:
            return 128 - status if status < 0 else status


if __name__ == "__main__":
    split = sys.argv.index("--")
    driver = sys.argv[split + 1:]
    sys.exit(start_ranks(sys.argv[1:split], driver) if split > 1 else run_and_wait_for_all(driver))
