# SPDX-License-Identifier: Apache-2.0
"""Brings the machine into one of its states, and keeps it there while programs are measured."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import peers

NEAR_BELOW_US = 1.6  # the state is near if reading 64 KiB that the other core has just written takes less
READINGS_US = {"near": (0, NEAR_BELOW_US), "far": (NEAR_BELOW_US, 1e9)}
END_WITHIN_S = 20
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def state_of(reading_us):
    return "near" if reading_us < NEAR_BELOW_US else "far"


@contextlib.contextmanager
def keeping(state, floor, patience_s):
    """Yields a keeper that has reached the state, until the block ends, or None if no state was requested."""
    if state is None:
        yield None
        return
    if floor is None:
        raise peers.Missing(f"--state {state}: states cannot be told without the floor's program")
    if AUTOGROUP.exists() and AUTOGROUP.read_text(encoding="ascii").strip() != "0":
        raise peers.Missing(f"--state {state}: this kernel shares the processors among sessions, and idle priority "
                            "yields only within its own; as root: sysctl kernel.sched_autogroup_enabled=0, and 1 "
                            "afterwards")
    keeper = Keeper(floor, state, patience_s)
    try:
        if not keeper.seek():
            raise peers.Missing(f"--state {state}: it did not come within {patience_s:g} s; --seek S waits longer")
        yield keeper
    finally:
        keeper.end()


class Keeper:
    """The program `floor keep`. It sleeps until the state is reached, and then spins on both cores at idle priority,
    which yields to every other process. So the hypervisor finds no idle processor to move."""

    def __init__(self, floor, state, patience_s):
        low_us, high_us = READINGS_US[state]
        self.command = [str(floor), "keep", f"{low_us:g}", f"{high_us:g}", f"{patience_s:g}"]
        self.state, self.process = state, None

    def seek(self):
        """Returns whether the state was reached."""
        self.end()
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, preexec_fn=os.setpgrp)
        return self.process.stdout.readline() != ""  # bounded by the program's own patience and alarm

    @property
    def group(self):
        """Returns the process group that a driver stops while it times calls. It is no session, because the kernel ends
        the processes of a stopped group that becomes orphaned."""
        return self.process.pid

    def resume(self):
        """Continues the keeper. A driver that was killed has not done so."""
        os.killpg(self.group, signal.SIGCONT)

    def busy_seconds(self):
        """Returns how much processor time the keeper has used so far. After the keeper's end it returns 0, because that
        time then counts for this process's children."""
        if self.process is None:
            return 0.0
        ticks = 0
        for rank in children_of(self.process.pid):
            try:
                fields = Path(f"/proc/{rank}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
            except OSError:
                continue
            ticks += sum(int(word) for word in fields.split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def end(self):
        if self.process is None:
            return
        self.resume()
        try:
            self.process.communicate(timeout=END_WITHIN_S)  # closes its standard input
        except subprocess.TimeoutExpired:
            self.process.kill()  # its ranks end with it
            self.process.communicate()
        self.process = None


def children_of(pid):
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
