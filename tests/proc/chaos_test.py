#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lives of communicators with real processes: from each seed 2-8 ranks, one of which is killed, stopped, crashes,
exits, falls silent, disagrees or aborts at some instant, or whose launcher is killed. Every other rank must get the
outcome that docs/simulation-tests.md promises, with the right rank named; a second communicator and another job must
not notice; and nothing may stay: descriptors, threads, mappings, processes, files.

usage: chaos_test.py RONDO CHAOS_RANK [--seeds N] [--seed N] [--jobs N]"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REMOTE, TIMEOUT, MISMATCH, ABORTED = "remote", "timeout", "mismatch", "aborted"
TIMEOUT_S = 2.0  # a busy machine must not run into it by itself
INIT_TIMEOUT_S = 3.0
HANG_S = 60.0  # the deadline of a whole life
SLACK_S = 10.0  # for a machine that is busy with something else

# What happens -> how many of a hundred lives, what the others get, and by when after it.
KINDS = {
    "kill": (24, REMOTE, 2.0),
    "crash": (8, REMOTE, 2.0),
    "exit": (8, REMOTE, 2.0),    # _exit() on another thread, in the middle of an operation
    "leave": (6, REMOTE, 2.0),   # exit() between two operations
    "stop": (14, TIMEOUT, TIMEOUT_S + 1.0),
    "silent": (8, TIMEOUT, TIMEOUT_S + 1.0),
    "disagree": (8, MISMATCH, 1.0),
    "abort": (10, ABORTED, 0.1),
    "early": (8, None, INIT_TIMEOUT_S + 3.0),  # killed during initialisation, or soon after
    "launcher": (6, None, 2.0),
}


def is_stopped(pid):
    """By a signal; not by a tracer."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].startswith("T")
    except OSError:
        return False


class Line:
    """RANK EVENT TIME_NS WORDS..."""

    def __init__(self, text):
        words = text.split(" ", 3)
        self.rank, self.event, self.seconds = int(words[0]), words[1], int(words[2]) * 1e-9
        self.words = words[3].rstrip("\n") if len(words) > 3 else ""

    def error(self):
        """(status, peer, operation, message)"""
        status, peer, operation, message = self.words.split(" ", 3)
        return int(status), int(peer), int(operation), message


class Broken(Exception):
    """The promise that was broken."""


def check(condition, *what):
    if not condition:
        raise Broken(" ".join(str(word) for word in what))


def statuses():
    """The numbers of the statuses, from the public header."""
    names = {"RONDO_ERROR_REMOTE": REMOTE, "RONDO_ERROR_TIMEOUT": TIMEOUT, "RONDO_ERROR_MISMATCH": MISMATCH,
             "RONDO_ERROR_ABORTED": ABORTED}
    header = Path(__file__).resolve().parents[2] / "include" / "rondo" / "rondo.h"
    found = {}
    for line in header.read_text(encoding="utf-8").splitlines():
        words = line.replace(",", " ").split()
        if len(words) >= 3 and words[1] == "=" and words[0] in names:
            found[int(words[2])] = names[words[0]]
    assert len(found) == len(names), found
    return found


STATUS = statuses()


def processes_with(token):
    """The processes whose environment has `token`; the dead that nobody has reaped yet have none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if token.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class Life:
    """What one seed says, and how it is carried out."""

    def __init__(self, seed, rondo, program):
        draw = random.Random(seed)
        self.seed, self.rondo, self.program = seed, rondo, program
        self.kind = draw.choices(list(KINDS), [KINDS[kind][0] for kind in KINDS])[0]
        self.size = draw.choice((2, 2, 3, 3, 4, 4, 5, 6, 7, 8))
        self.victim = draw.randrange(self.size)
        self.delay_us = int(10 ** draw.uniform(0, 5 if self.kind != "early" else 5.3))
        self.count = draw.choice((1, 10, 1000, 5000, 20_000, 100_000))
        self.buffers = draw.choice(("private", "alloc", "registered"))
        self.environment = {
            "RONDO_WAIT": draw.choice(("auto", "auto", "sleep", "yield")),
            "RONDO_ALGORITHM": draw.choice(("auto", "auto", "ring", "tree", "one_shot", "two_shot",
                                            "halving_doubling")),
            "RONDO_PROTOCOL": draw.choice(("auto", "simple", "ll")),
            "RONDO_MAPPING": draw.choice(("auto", "off")),
            "RONDO_CROSS_MEMORY": draw.choice(("auto", "off")),
            # Only where something is to be waited for in vain may the deadline come first.
            "RONDO_TIMEOUT": str(TIMEOUT_S if KINDS[self.kind][1] == TIMEOUT else 100),
            "RONDO_INIT_TIMEOUT": str(INIT_TIMEOUT_S if self.kind == "early" else 60),
        }
        self.token = f"RONDO_CHAOS_TOKEN={os.getpid()}-{seed}"
        self.lines = []
        self.statuses = {}

    def __str__(self):
        settings = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return (f"{self.kind}: rank {self.victim} of {self.size} after {self.delay_us} us, {self.count} int32 in "
                f"{self.buffers} buffers; {settings}")

    def command(self, folder):
        return [self.program, self.kind, str(self.victim), str(self.delay_us), str(self.count), self.buffers, folder]

    def start(self, folder):
        """rank (or "launcher") -> process; their output goes to files, so that nobody waits for a reader."""
        name, value = self.token.split("=")
        base = dict(os.environ, **self.environment, TMPDIR=folder, **{name: value})
        for unwanted in ("RONDO_RANK", "RONDO_SIZE", "RONDO_STORE"):
            base.pop(unwanted, None)

        def open_process(who, command, **own):
            with open(f"{folder}/out-{who}", "wb") as out:
                return subprocess.Popen(command, env=dict(base, **own), stdout=out, stderr=subprocess.STDOUT)
        if self.kind == "launcher":
            return {"launcher": open_process("launcher", [self.rondo, "run", "-n", str(self.size), "--",
                                                          *self.command(folder)])}
        return {rank: open_process(rank, self.command(folder), RONDO_CHAOS_RANK=str(rank),
                                   RONDO_CHAOS_SIZE=str(self.size)) for rank in range(self.size)}

    def read(self, folder):
        self.lines = []
        for path in Path(folder).glob("out-*"):
            text = path.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                check(line[:1].isdigit(), "unexpected output:", line)
                self.lines.append(Line(line))

    def events(self, event, rank=None):
        return [line for line in self.lines if line.event == event and rank in (None, line.rank)]

    def run(self, folder):
        """Until all have ended. A stopped victim goes on when the others have."""
        processes = self.start(folder)
        deadline = time.monotonic() + HANG_S
        try:
            if self.kind == "launcher":
                self.kill_launcher(folder, processes["launcher"])
            while time.monotonic() < deadline:
                running = [who for who, process in processes.items() if process.poll() is None]
                # Once: a leak check at its end stops its own threads, which more of these signals would set going.
                if self.kind == "stop" and running == [self.victim] and is_stopped(processes[self.victim].pid):
                    processes[self.victim].send_signal(signal.SIGCONT)
                if not running:
                    break
                time.sleep(0.01)
            late = [who for who, process in processes.items() if process.poll() is None]
            check(not late, "still running after", HANG_S, "s:", late)
        finally:
            for process in processes.values():
                if process.poll() is None:
                    process.kill()
                process.wait()
        self.statuses = {who: process.returncode for who, process in processes.items()}
        self.read(folder)

    def kill_launcher(self, folder, launcher):
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline and launcher.poll() is None:
            self.read(folder)
            if len(self.events("ready")) == self.size:
                break
            time.sleep(0.005)
        check(len(self.events("ready")) == self.size, "not all ranks came to life")
        time.sleep(self.delay_us * 1e-6)
        launcher.kill()
        launcher.wait()
        struck = time.monotonic()
        while time.monotonic() < deadline and processes_with(self.token):
            time.sleep(0.01)
        left = processes_with(self.token)
        for process in left:
            os.kill(process, signal.SIGKILL)
        check(not left, "the launcher's death left", len(left), "processes")
        check(time.monotonic() - struck < KINDS["launcher"][2] + SLACK_S, "the ranks outlived the launcher")

    def judge(self):
        check(not self.events("wrong"), "rank", *[f"{line.rank}: {line.words}" for line in self.events("wrong")])
        check(not self.events("disturbed"), "another communicator was disturbed:",
              *[f"{line.rank}: {line.words}" for line in self.events("disturbed")])
        if self.kind == "launcher":
            return
        strikes = self.events("strike")
        check(len(strikes) == 1, "the victim did not strike")
        expected = {"kill": -signal.SIGKILL, "early": -signal.SIGKILL, "crash": -signal.SIGABRT}
        for rank, status in self.statuses.items():
            wanted = expected.get(self.kind, 0) if rank == self.victim else 0
            allowed = (0, 1) if self.kind == "early" and rank != self.victim else (wanted,)
            check(status in allowed, "rank", rank, "ended with", status)
        survives = self.kind in ("stop", "silent", "disagree", "abort")
        for rank in range(self.size):
            if rank != self.victim or survives:
                self.judge_rank(rank, strikes[0].seconds)

    def judge_rank(self, rank, struck):
        if self.kind == "early":
            self.judge_early(rank)
        else:
            failed = self.events("failed", rank)
            check(len(failed) == 1, "rank", rank, "did not get a failure")
            status, peer, operation, message = failed[0].error()
            _, wanted, limit = KINDS[self.kind]
            check(STATUS.get(status) == wanted, "rank", rank, "got status", status, message)
            check(operation >= 1, "rank", rank, "was told of operation", operation)
            named = peer if self.kind != "disagree" or rank != self.victim else self.victim
            if self.kind == "stop":  # it may have arrived, and others may be where it holds them up
                named = self.victim if f"rank {self.victim} (host" in message else None
            if self.kind == "disagree":
                check(f"of {self.count} int32 (sum)" in message and f"of {self.count + 1} int32 (max)" in message,
                      "rank", rank, "does not see both calls:", message)
                named = self.victim if f"rank {self.victim} " in message else None
            check(named == self.victim, "rank", rank, "names the wrong rank:", peer, message)
            if self.kind not in ("abort", "disagree"):
                pid = self.events("begins", self.victim)[0].words.split()[-1]
                check(f"rank {self.victim} (host" in message and f"process {pid})" in message,
                      "rank", rank, "does not name the process:", message)
            late = failed[0].seconds - struck
            check(rank == self.victim or late < limit + SLACK_S, "rank", rank, "was told after", late, "s")
            check(rank == self.victim or self.events("undisturbed", rank), "rank", rank, "lost the other communicator")
        begins, ends = self.events("begins", rank), self.events("ends", rank)
        if self.events("no_id", rank):
            return
        check(len(ends) == 1, "rank", rank, "did not come to its end")
        before, after = begins[0].words.split()[:3], ends[0].words.split()
        check(before == after, "rank", rank, "left behind (descriptors, threads, mappings):", before, "->", after)

    def judge_early(self, rank):
        """It was killed before, while or after all met."""
        outcomes = [line for line in self.lines
                    if line.rank == rank and line.event in ("failed", "no_init", "no_id")]
        check(len(outcomes) == 1, "rank", rank, "had no outcome")
        line = outcomes[0]
        if line.event == "no_id":
            return check(self.victim == 0, "rank", rank, "got no id, but rank 0 lives")
        status, peer, _, message = line.error()
        check(STATUS.get(status) in (REMOTE, TIMEOUT), "rank", rank, "got status", status, message)
        # Rank 0 runs the store: without it nobody can say who is missing.
        if line.event == "failed":
            check(peer == self.victim, "rank", rank, "names the wrong rank:", message)
        elif self.victim != 0:
            listed = re.search(rf"\branks? (\d+, )*{self.victim}\b", message)
            check(listed or peer == self.victim, "rank", rank, "does not name the missing rank:", message)


def live(seed, options):
    """None, or what was broken."""
    life = Life(seed, options.rondo, options.program)
    folder = tempfile.mkdtemp(prefix="rondo-chaos-")
    try:
        life.run(folder)
        life.judge()
        check(not processes_with(life.token), "processes stayed behind")
        # The ids of the two communicators are the program's own files: a rank may be struck while it writes one.
        left = {path.name for path in Path(folder).iterdir()} - {f"out-{rank}" for rank in range(life.size)} - {
            "out-launcher", "a", "b", "a.new", "b.new"}
        check(not left, "files stayed behind:", sorted(left))
        return life.kind, None
    except Broken as broken:
        told = "".join(f"    {line.rank} {line.event} {line.seconds:.6f} {line.words}\n" for line in
                       sorted(life.lines, key=lambda line: line.seconds))
        return life.kind, (f"NOT AS PROMISED: seed {seed}: {broken}\n  {life}\n{told}"
                           f"  again: {sys.argv[0]} {options.rondo} {options.program} --seed {seed}")
    finally:
        shutil.rmtree(folder)


def shared_files():
    """Rondo makes none; whoever else is at work here makes folders."""
    return {path.name for path in Path("/dev/shm").iterdir() if "rondo" in path.name and path.is_file()}


class Bystander:
    """Another job, which sums all the while."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="rondo-bystander-")
        self.ranks = [subprocess.Popen([program, "bystander", "0", "0", "5000", "private", self.folder],
                                       env=dict(os.environ, RONDO_CHAOS_RANK=str(rank), RONDO_CHAOS_SIZE="2"),
                                       stdout=subprocess.PIPE, text=True) for rank in range(2)]

    def end(self):
        """Empty, or what it said."""
        Path(self.folder, "over").touch()
        said = ""
        for rank in self.ranks:
            try:
                out, _ = rank.communicate(timeout=HANG_S)
            except subprocess.TimeoutExpired:
                rank.kill()
                out, _ = rank.communicate()
            said += out
        shutil.rmtree(self.folder)
        good = all(rank.returncode == 0 for rank in self.ranks) and said.count(" undisturbed ") == 2
        return "" if good and " wrong " not in said else said or "it hung"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rondo")
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=60 if "RONDO_TEST_SANITIZED" in os.environ else 300)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    if "RONDO_TEST_SANITIZED" in os.environ:
        print("skipped: 240 of the lives: take long under a sanitizer; done without one", flush=True)
    seeds = range(1, options.seeds + 1) if options.seed is None else [options.seed]
    shared_before = shared_files()
    bystander = Bystander(options.program)
    kinds, bad = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for kind, broken in pool.map(lambda seed: live(seed, options), seeds):
            kinds[kind] += 1
            bad += broken is not None
            if broken and bad <= 5:
                print(broken, flush=True)
    disturbed = bystander.end()
    if disturbed:
        print("another job was disturbed:", disturbed)
    shared = shared_files() - shared_before
    if shared:
        print("left in /dev/shm:", sorted(shared))
    print(f"{len(seeds)} lives, {bad} not as promised:", ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS))
    missing = [kind for kind in KINDS if kinds[kind] == 0] if len(seeds) >= 100 else []
    if missing:
        print("never happened:", missing)
    return 1 if bad or disturbed or shared or missing else 0


if __name__ == "__main__":
    sys.exit(main())
