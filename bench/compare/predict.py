#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator with this machine: rondo sim --table FILE beside rondo perf, for each algorithm.

A round goes over all numbers of ranks and all sizes. At each, `rondo tune` makes a table, and right after it `rondo
perf` measures every algorithm with the plan that the tuner gives it. It measures by the interpreter with the protocol
simple, and by the kernel load_store if it has the algorithm. So a simulated time is compared with one that was measured
within the same minute. The machine's state (README.md) must be the same before and after each program. A measurement in
another state than the table's is repeated, and in the end left out of the round. From 16 MiB on, memory decides the
time, and the state does not matter. The result is the simulated time divided by the measured one, as the median over
the rounds. With more ranks than cores, calls go back to back, as many as `rondo tune` makes. Prints a Markdown table,
and exits with 1 if an error is above --error-max or a cell was not measured.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
import runs
from settings import MIB, parse_size

STATE_MATTERS_BELOW = 16 * MIB
SCHEDULES = ("ring", "tree", "halving_doubling", "one_shot", "two_shot")
LOAD_STORE = ("ring by load_store", "one_shot by load_store", "two_shot by load_store")
ALGORITHMS = SCHEDULES + LOAD_STORE
ONE_SHOT_BYTES_MAX = 64 * 1024  # the most for one_shot by load_store, among at most 16 ranks


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="a build of Rondo (build)")
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks (2,4,8)")
    parser.add_argument("--sizes", default="64K,256K,1M,4M,16M,64M", help="of an all-reduce of float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tune-rounds", type=int, default=3, help="of each table (3)")
    parser.add_argument("--tries", type=int, default=6, help="until the state is the same (6)")
    parser.add_argument("--error-max", type=float, default=0.25, help="|simulated / measured - 1| (0.25)")
    return parser.parse_args()


def calls_in_a_run(ranks, size):
    if ranks <= len(os.sched_getaffinity(0)):
        return 1
    return min(max(16 * MIB // parse_size(size), 4), 20)


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}


def tune(rondo, ranks, size, rounds, table):
    """Makes a table. Exit status 1 means that the table's choice is not the best, which does not matter here."""
    table.unlink(missing_ok=True)
    done = subprocess.run([rondo, "tune", "--ranks", str(ranks), "--sizes", size, "--rounds", str(rounds), "-o", table],
                          env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=900, check=False)
    if done.returncode not in (0, 1) or not table.exists():
        raise SystemExit(f"rondo tune failed:\n{done.stderr}")


def way(algorithm):
    """Returns the options by which `rondo perf` runs the algorithm."""
    name, _, kernel = algorithm.partition(" by ")
    return ["--algorithm", name, *(("--kernel", kernel) if kernel else ("--protocol", "simple"))]


def measure(rondo, ranks, size, algorithm, path):
    """Returns the report of rondo perf for one size: the plan and its time."""
    subprocess.run([rondo, "run", "-n", str(ranks), "--", rondo, "perf", "all_reduce", "-b", size, "-e", size,
                    "-c", "0", "-m", str(calls_in_a_run(ranks, size)), "--out-of-place-only",
                    *way(algorithm), "--json", path], env=clean_environment(),
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300, check=True)
    return json.loads(path.read_text())["results"][0]


def simulate(rondo, table, ranks, result):
    told = subprocess.run([rondo, "sim", "--table", table, "--ranks", str(ranks), "--bytes", str(result["bytes"]),
                           "--algorithm", result["algorithm"], "--protocol", result["protocol"],
                           "--kernel", result["kernel"], "--alone",
                           "--channels", str(result["channels"]), "--json", "-"], env=clean_environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(told.stdout)["time_us"]


def can(algorithm, size):
    return algorithm != "one_shot by load_store" or parse_size(size) <= ONE_SHOT_BYTES_MAX


class Job:
    """One cell: a number of ranks and a size."""

    def __init__(self, args, machine, folder, ranks, size):
        self.args, self.machine, self.ranks, self.size = args, machine, ranks, size
        self.rondo = str(Path(args.build, "src/cli/rondo"))
        self.table, self.report = folder / f"{ranks}-{size}.json", folder / "perf.json"

    def state(self):
        return self.machine.state()[0] if parse_size(self.size) < STATE_MATTERS_BELOW else runs.ONE_STATE

    def in_one_state(self, work, wanted=None):
        """Returns the result of work() and the state. Returns None if no try was in the state `wanted` all the time."""
        for _ in range(self.args.tries):
            before = self.state()
            if wanted not in (None, before):
                time.sleep(1)
                continue
            done = work()
            if self.state() == before:
                return done, before
        return None

    def pairs(self):
        """Yields (algorithm, simulated, measured) in microseconds for each algorithm that was measured in the table's
        state."""
        tuned = self.in_one_state(lambda: tune(self.rondo, self.ranks, self.size, self.args.tune_rounds, self.table))
        for algorithm in ALGORITHMS if tuned is not None else ():
            if not can(algorithm, self.size):
                continue
            measured = self.in_one_state(lambda: measure(self.rondo, self.ranks, self.size, algorithm, self.report),
                                         wanted=tuned[1])
            if measured is not None:
                result = measured[0]
                yield (algorithm, simulate(self.rondo, self.table, self.ranks, result),
                       result["out_of_place"]["time_us"]["median"])


def one_round(args, machine, cases):
    """Returns (simulated, measured) by (ranks, size, algorithm)."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for ranks, size in cases:
            for algorithm, *pair in Job(args, machine, Path(name), ranks, size).pairs():
                found[ranks, size, algorithm] = pair
    return found


def machine_of(build, folder):
    """Makes the machine. The harness's floor shows its states, if it can measure them here."""
    try:
        workshop = peers.Workshop(folder, build)
        floor = workshop.floor(workshop.harness())
    except peers.Missing as missing:
        print(missing, file=sys.stderr)
        floor = None
    return runs.Machine(floor, len(os.sched_getaffinity(0)), tries=1, patience_s=0, deadline_s=60, seconds=0)


def main():
    args = parse_arguments()
    cases = [(int(ranks), size) for ranks in args.ranks.split(",") for size in args.sizes.split(",")]
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        machine = machine_of(args.build, folder)
        for number in range(args.rounds):
            rounds.append(one_round(args, machine, cases))
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    print("| ranks | size | " + " | ".join(ALGORITHMS) + " |\n" + "|---" * (2 + len(ALGORITHMS)) + "|")
    ratios = []
    for ranks, size in cases:
        cells = []
        for algorithm in ALGORITHMS:
            found = sorted((simulated / measured, simulated, measured) for simulated, measured in (
                pairs[ranks, size, algorithm] for pairs in rounds if (ranks, size, algorithm) in pairs))
            if not found:
                cells.append("not measured" if can(algorithm, size) else "-")
                continue
            ratio, simulated, measured = found[len(found) // 2]
            ratios.append(ratio)
            cells.append(f"{simulated:.0f} / {measured:.0f} = {ratio:.2f} ({found[0][0]:.2f}-{found[-1][0]:.2f}, "
                         f"{len(found)})")
        print(f"| {ranks} | {size} | " + " | ".join(cells) + " |")
    if not ratios:
        raise SystemExit("nothing was measured: in no try the machine's state stayed")
    within = sum(abs(ratio - 1) <= args.error_max for ratio in ratios)
    wanted = sum(can(algorithm, size) for _, size in cases for algorithm in ALGORITHMS)
    middle = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"\n{within} of {wanted} within {args.error_max:.0%}, "
          f"{min(ratios):.2f} to {max(ratios):.2f}, geometric mean {middle:.2f}.")
    return 0 if within == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
