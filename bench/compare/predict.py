#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How near the simulator comes to this machine: rondo sim --table FILE beside rondo perf, for each algorithm.

The table is one of `rondo tune`, made before. Each algorithm runs with the protocol simple and the plan that the tuner
gives it; rounds go over all sizes and algorithms in turn, and the median over the rounds is held against the
simulated time. With more ranks than cores calls go back to back, as many as `rondo tune` makes. Prints a Markdown
table, and exits with 1 where an error is above --error-max.
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
    parser.add_argument("--table", required=True, help="made by rondo tune")
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks (2,4,8)")
    parser.add_argument("--sizes", default="64K,256K,1M,4M,16M,64M", help="of an all-reduce of float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--error-max", type=float, default=0.25, help="|simulated / measured - 1| (0.25)")
    return parser.parse_args()


def calls_in_a_run(ranks, size):
    if ranks <= len(os.sched_getaffinity(0)):
        return 1
    return min(max(16 * MIB // parse_size(size), 1), 20)


def measure(rondo, ranks, size, algorithm):
    """Microseconds of a call, and the plan."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "perf.json"
        subprocess.run([rondo, "run", "-n", str(ranks), "--", rondo, "perf", "all_reduce", "-b", size, "-e", size,
                        "-c", "0", "-m", str(calls_in_a_run(ranks, size)), "--out-of-place-only",
                        "--algorithm", algorithm, "--protocol", "simple", "--json", path], env=environment,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300, check=True)
        return json.loads(path.read_text())["results"][0]


def simulate(rondo, table, ranks, result):
    told = subprocess.run([rondo, "sim", "--table", table, "--ranks", str(ranks), "--bytes", str(result["bytes"]),
                           "--algorithm", result["algorithm"], "--protocol", result["protocol"], "--alone",
                           "--channels", str(result["channels"]), "--json", "-"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(told.stdout)["time_us"]


def main():
    args = parse_arguments()
    cases = [(int(ranks), size, algorithm) for ranks in args.ranks.split(",") for size in args.sizes.split(",")
             for algorithm in ALGORITHMS]
    times, plans = {case: [] for case in cases}, {}
    for number in range(args.rounds):
        for case in cases:
            plans[case] = measure(args.rondo, *case)
            times[case].append(plans[case]["out_of_place"]["time_us"]["median"])
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    print("| ranks | size | " + " | ".join(ALGORITHMS) + " |\n" + "|---" * (2 + len(ALGORITHMS)) + "|")
    ratios = []
    for ranks, size in dict.fromkeys(case[:2] for case in cases):
        cells = []
        for algorithm in ALGORITHMS:
            case = (ranks, size, algorithm)
            measured, simulated = statistics.median(times[case]), simulate(args.rondo, args.table, ranks, plans[case])
            ratios.append(simulated / measured)
            cells.append(f"{simulated:.0f} / {measured:.0f} = {ratios[-1]:.2f}")
        print(f"| {ranks} | {size} | " + " | ".join(cells) + " |")
    within = sum(abs(ratio - 1) <= args.error_max for ratio in ratios)
    middle = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"\n{within} of {len(ratios)} within {args.error_max:.0%}, "
          f"{min(ratios):.2f} to {max(ratios):.2f}, geometric mean {middle:.2f}.")
    return 0 if within == len(ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
