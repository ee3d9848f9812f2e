#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How near the simulator comes to this machine: rondo sim --table FILE beside rondo perf, for each algorithm.

A round goes over all numbers of ranks and all sizes: at each, `rondo tune` makes a table, and right after it
`rondo perf` measures every algorithm, with the protocol simple and the plan that the tuner gives it; so a simulated
time is held against one that was measured within the same minute. What counts is the median over the rounds of
simulated by measured. With more ranks than cores calls go back to back, as many as `rondo tune` makes. Prints a
Markdown table, and exits with 1 where an error is above --error-max.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from settings import MIB, parse_size

ALGORITHMS = ("ring", "tree", "halving_doubling", "one_shot", "two_shot")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", default="build/src/cli/rondo", help="the command (build/src/cli/rondo)")
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks (2,4,8)")
    parser.add_argument("--sizes", default="64K,256K,1M,4M,16M,64M", help="of an all-reduce of float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tune-rounds", type=int, default=3, help="of each table (3)")
    parser.add_argument("--error-max", type=float, default=0.25, help="|simulated / measured - 1| (0.25)")
    return parser.parse_args()


def calls_in_a_run(ranks, size):
    if ranks <= len(os.sched_getaffinity(0)):
        return 1
    return min(max(16 * MIB // parse_size(size), 4), 20)


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}


def tune(rondo, ranks, size, rounds, table):
    """Its exit status 1 says that the table's choice is not the best, which is not asked here."""
    done = subprocess.run([rondo, "tune", "--ranks", str(ranks), "--sizes", size, "--rounds", str(rounds), "-o", table],
                          env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=900, check=False)
    if done.returncode not in (0, 1) or not table.exists():
        raise SystemExit(f"rondo tune failed:\n{done.stderr}")


def measure(rondo, ranks, size, algorithm, path):
    """What rondo perf says of one size: the plan and its time."""
    subprocess.run([rondo, "run", "-n", str(ranks), "--", rondo, "perf", "all_reduce", "-b", size, "-e", size,
                    "-c", "0", "-m", str(calls_in_a_run(ranks, size)), "--out-of-place-only",
                    "--algorithm", algorithm, "--protocol", "simple", "--json", path], env=clean_environment(),
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300, check=True)
    return json.loads(path.read_text())["results"][0]


def simulate(rondo, table, ranks, result):
    told = subprocess.run([rondo, "sim", "--table", table, "--ranks", str(ranks), "--bytes", str(result["bytes"]),
                           "--algorithm", result["algorithm"], "--protocol", result["protocol"], "--alone",
                           "--channels", str(result["channels"]), "--json", "-"], env=clean_environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(told.stdout)["time_us"]


def one_round(args, cases):
    """For each case and algorithm (simulated, measured), in microseconds."""
    pairs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for ranks, size in cases:
            table = folder / f"{ranks}-{size}.json"
            tune(args.rondo, ranks, size, args.tune_rounds, table)
            for algorithm in ALGORITHMS:
                result = measure(args.rondo, ranks, size, algorithm, folder / "perf.json")
                pairs[ranks, size, algorithm] = (simulate(args.rondo, table, ranks, result),
                                                 result["out_of_place"]["time_us"]["median"])
    return pairs


def main():
    args = parse_arguments()
    cases = [(int(ranks), size) for ranks in args.ranks.split(",") for size in args.sizes.split(",")]
    rounds = []
    for number in range(args.rounds):
        rounds.append(one_round(args, cases))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    print("| ranks | size | " + " | ".join(ALGORITHMS) + " |\n" + "|---" * (2 + len(ALGORITHMS)) + "|")
    ratios = []
    for ranks, size in cases:
        cells = []
        for algorithm in ALGORITHMS:
            found = sorted((simulated / measured, simulated, measured)
                           for simulated, measured in (pairs[ranks, size, algorithm] for pairs in rounds))
            ratio, simulated, measured = found[len(found) // 2]
            ratios.append(ratio)
            cells.append(f"{simulated:.0f} / {measured:.0f} = {ratio:.2f} ({found[0][0]:.2f}-{found[-1][0]:.2f})")
        print(f"| {ranks} | {size} | " + " | ".join(cells) + " |")
    within = sum(abs(ratio - 1) <= args.error_max for ratio in ratios)
    middle = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"\n{within} of {len(ratios)} within {args.error_max:.0%}, "
          f"{min(ratios):.2f} to {max(ratios):.2f}, geometric mean {middle:.2f}.")
    return 0 if within == len(ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
