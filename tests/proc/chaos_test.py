#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lives of communicators with real processes. Each seed has 2-8 ranks. One of them is killed, stopped, crashes, exits,
falls silent, disagrees or aborts at some instant, or its launcher is killed. Every other rank must get the outcome
that docs/tests.md promises, with the right rank named. A second communicator and another job must not notice.
Nothing may stay: descriptors, threads, mappings, processes, files. With --timed, the median time of each kind must
also be as promised (tests/timed.py).

usage: chaos_test.py RONDO CHAOS_RANK [--seeds N] [--seed N] [--jobs N] [--timed]"""

import argparse
import collections
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from chaos_life import HANG_S, KINDS, Broken, Life, check, processes_with

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import SANITIZED, quarter_of  # noqa: E402
from timed import bounds_hold, is_within  # noqa: E402

LIVES = 60 if SANITIZED else 240  # the gate runs a quarter of them
FAILED_SEEDS = ()  # all seeds of lives that once failed


def live(seed, options):
    """Returns the life, and the broken promise or None."""
    life = Life(seed, options.rondo, options.program)
    folder = tempfile.mkdtemp(prefix="rondo-chaos-")
    try:
        life.run(folder)
        life.judge()
        life.judge_recording(folder)
        check(not processes_with(life.token), "processes stayed behind")
        # The program writes the ids of both communicators to files, and may be struck while it writes them.
        left = {path.name for path in Path(folder).iterdir()} - {f"out-{rank}" for rank in range(life.size)} - {
            "out-launcher", "a", "b", "a.new", "b.new", "gone", "recordings"}
        check(not left, "files stayed behind:", sorted(left))
        return life, None
    except Broken as broken:
        told = "".join(f"    {line.rank} {line.event} {line.seconds:.6f} {line.words}\n" for line in
                       sorted(life.lines, key=lambda line: line.seconds))
        return life, (f"NOT AS PROMISED: seed {seed}: {broken}\n  {life}\n{told}"
                      f"  again: {sys.argv[0]} {options.rondo} {options.program} --seed {seed}")
    finally:
        shutil.rmtree(folder)


class Tally:
    """Counts broken promises, and collects times."""

    def __init__(self):
        self.kinds, self.bad, self.unseen = collections.Counter(), 0, 0
        self.times = {}  # what -> (its limit, the seconds of each life)

    def add(self, life, broken):
        self.kinds[life.kind] += 1
        self.unseen += life.too_early
        if broken:
            self.bad += 1
            if self.bad <= 5:
                print(broken, flush=True)
        for what, seconds, limit in life.times:
            self.times.setdefault(what, (limit, []))[1].append(seconds)

    def is_in_time(self):
        return all([is_within(what, limit, seconds) for what, (limit, seconds) in self.times.items()])

    def tell(self, count):
        print(f"{count} lives, {self.bad} not as promised:", ", ".join(f"{kind} {self.kinds[kind]}" for kind in KINDS))
        print(f"timed out before anything happened: {self.unseen}; the longest times:",
              ", ".join(f"{what} {max(seconds):.3f} of {limit} s" for what, (limit, seconds) in self.times.items()))


def shared_files():
    """Lists shared files that Rondo could have made. Rondo must make none. Folders may be of other programs."""
    return {path.name for path in Path("/dev/shm").iterdir() if "rondo" in path.name and path.is_file()}


class Bystander:
    """Another job, which sums during all lives."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="rondo-bystander-")
        self.ranks = [subprocess.Popen([program, "bystander", "0", "0", "5000", "private", self.folder],
                                       env=dict(os.environ, RONDO_CHAOS_RANK=str(rank), RONDO_CHAOS_SIZE="2"),
                                       stdout=subprocess.PIPE, text=True) for rank in range(2)]

    def end(self):
        """Ends the job. Returns "", or its output if it failed."""
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
    parser.add_argument("--seeds", type=int, default=LIVES)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--timed", action="store_true")
    options = parser.parse_args()
    if options.timed and not bounds_hold():
        options.seeds //= 24  # times are only reported
    all_seeds = range(1, options.seeds + 1)
    drawn_seeds = all_seeds if options.timed else quarter_of(all_seeds, "lives", in_every_build=True)
    seeds = sorted({*drawn_seeds, *FAILED_SEEDS}) if options.seed is None else [options.seed]
    shared_before = shared_files()
    bystander = Bystander(options.program)
    tally = Tally()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for life, broken in pool.map(lambda seed: live(seed, options), seeds):
            tally.add(life, broken)
    disturbed = bystander.end()
    if disturbed:
        print("another job was disturbed:", disturbed)
    shared = shared_files() - shared_before
    if shared:
        print("left in /dev/shm:", sorted(shared))
    tally.tell(len(seeds))
    missing = [kind for kind in KINDS if tally.kinds[kind] == 0] if len(seeds) >= 100 else []
    if missing:
        print("never happened:", missing)
    late = options.timed and not tally.is_in_time()
    return 1 if tally.bad or disturbed or shared or missing or late else 0


if __name__ == "__main__":
    sys.exit(main())
