# SPDX-License-Identifier: Apache-2.0
"""One run at a time: started when nothing else computes, ended at its deadline, labelled with the machine's state."""

import functools
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import keeper
from peers import KEEP_MEMORY, result_file

FOREIGN_PERCENT_MAX = 4.0
GRACE_S = 5.0
ONE_STATE = "any"    # the only state if states cannot be told apart


@dataclass
class Ended:
    output: str
    error: str | None  # None: it ended well
    foreign_percent: float
    steal_percent: float


def processor_times():
    """Returns (busy, stolen, all) of all processors since boot, in clock ticks. Interrupts are not counted. They belong
    to no process, and a contender's own traffic on loopback causes some."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[0] + ticks[1] + ticks[2], ticks[7], sum(ticks)


def own_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def end_group(process):
    """Ends a group. It sends SIGTERM first, so that a launcher can end its ranks, which also have their own alarms."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)  # the leader is not reaped yet, so the number is still its own
        except ProcessLookupError:
            pass
        try:
            return process.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    return "", ""


def run_once(command, environment, deadline_s, keeping_seconds=lambda: 0.0):
    """Runs a command once. `keeping_seconds` returns how much time a keeper of the state has used so far. That time
    disturbs no process."""
    busy, stolen, total = processor_times()
    own = own_seconds() + keeping_seconds()
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    error = None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               text=True, errors="replace", start_new_session=True,
                               env={**os.environ, **KEEP_MEMORY, **environment})
    try:
        output, errors = process.communicate(timeout=deadline_s + GRACE_S)
        if process.returncode != 0:
            error = f"exit status {process.returncode}: " + (last_words(errors) or "without a word")
    except subprocess.TimeoutExpired:
        output, errors = end_group(process)
        error = f"not ready within {deadline_s:g} s; ended"
    except BaseException:  # an interrupt reaches this process alone: the run has a session of its own
        end_group(process)
        raise
    busy_after, stolen_after, total_after = processor_times()
    elapsed = max(1, total_after - total)
    foreign = busy_after - busy - (own_seconds() + keeping_seconds() - own) * ticks_per_second
    return Ended(output, error, 100 * max(0.0, foreign) / elapsed, 100 * (stolen_after - stolen) / elapsed)


def last_words(errors):
    """Returns the driver's message, instead of what its launcher made from it."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    ours = [line for line in lines if ": rank " in line or "a rank was ended" in line]
    return (ours or lines or [""])[0][:400]


def result_of(ended):
    """Returns the driver's line of JSON, or an error."""
    if ended.error is not None:
        return None, ended.error
    for line in reversed(ended.output.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line), None
            except ValueError:
                break
    return None, f"printed no result: {ended.output[-200:]!r}"


def doubt(row):
    """Returns how doubtful a try is. The least doubtful try is the best."""
    return row["state"] == "mixed", row["foreign_percent"] + row["steal_percent"]


class Machine:
    """Runs programs on this machine as quietly as possible, and in one state if a keeper produces it."""

    def __init__(self, floor, core_count, tries, patience_s, deadline_s, seconds, start=run_once, kept=None,
                 network=None):
        self.floor, self.core_count, self.kept, self.network = floor, core_count, kept, network
        self.start = start if kept is None else functools.partial(start, keeping_seconds=kept.busy_seconds)
        self.tries, self.patience_s, self.deadline_s, self.seconds = tries, patience_s, deadline_s, seconds

    def wait_until_quiet(self):
        def taken():
            busy, stolen, total = processor_times()
            return busy + stolen - (self.kept.busy_seconds() * os.sysconf("SC_CLK_TCK") if self.kept else 0), total
        end = time.monotonic() + self.patience_s
        while time.monotonic() < end:
            before, total = taken()
            time.sleep(0.3)
            after, total_after = taken()
            if after - before <= 2 * FOREIGN_PERCENT_MAX / 100 * (total_after - total):
                return
            time.sleep(1)

    def state(self):
        """Returns the state and its reading. For an unknown state, returns the error in place of the reading."""
        if self.floor is None:
            return ONE_STATE, None
        result, error = result_of(self.start([str(self.floor), "state"], {}, self.deadline_s))
        if error is not None:
            return "unknown", error
        return keeper.state_of(result["read_64K_us"]), result["read_64K_us"]

    def settled_state(self):
        """Returns the same as state(). If a state is wanted and is not there, it first tries to reach that state."""
        told = self.state()
        if self.kept is None or told[0] == self.kept.state:
            return told
        self.kept.seek()
        return self.state()

    def quietly(self, command, environment, stops_keeper=False, written=None):
        """Returns the best of a few tries, as a row: the result or the error, the state, and how quiet it was. A try in
        which the state changed is the worst. With `stops_keeper` the program takes the option --keeper. `written` is
        the file that has the result if it was not printed."""
        best = None
        for attempt in range(1, self.tries + 1):
            self.wait_until_quiet()
            before, reading_before = self.settled_state()
            keeper_option = ["--keeper", str(self.kept.group)] if self.kept and stops_keeper else []
            ended = self.start(command + keeper_option, environment, self.deadline_s)
            if written is not None and written.exists():
                ended = replace(ended, output=written.read_text(encoding="utf-8"))
                written.unlink()
            if self.kept:
                self.kept.resume()
            after, reading_after = self.state()
            result, error = result_of(ended)
            row = {"state": before if before == after else "mixed", "probe": [reading_before, reading_after],
                   "foreign_percent": round(ended.foreign_percent, 2), "steal_percent": round(ended.steal_percent, 2),
                   "quiet": ended.foreign_percent + ended.steal_percent <= FOREIGN_PERCENT_MAX, "try": attempt,
                   "time": round(time.time(), 1)}
            row |= {"kept": self.kept.state} if self.kept else {}
            row |= {"error": error} if error is not None else result
            if best is None or doubt(row) < doubt(best):
                best = row
            if error is not None or (row["quiet"] and row["state"] != "mixed"):
                return row
        return best

    def measure(self, contender, run):
        pin = run.ranks <= self.core_count
        control = Path(tempfile.mkdtemp(prefix="rondo-compare-", dir=shared_folder())) / "control"
        try:
            if run.hosts > 1:
                self.network.prepare(run.hosts, run.rate)
            command = contender.command(run, pin, control, self.seconds, self.deadline_s, self.network)
            return self.quietly(command, contender.environment, True, result_file(control))
        finally:
            for path in (control, control.with_suffix(".more"), result_file(control)):
                path.unlink(missing_ok=True)
            control.parent.rmdir()

    def measure_floor(self, size):
        return self.quietly([str(self.floor), str(size)], {})


def shared_folder():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
