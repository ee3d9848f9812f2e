#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator with ranks on several hosts: network namespaces with a limited link (needs root).

`rondo tune --hosts` measures the links among the very ranks, and `rondo sim --table` simulates on what it found. Right
after it `rondo perf` measures each algorithm, size by size. Each run follows a pause, so that the limiter's bucket is
full as it is in the simulation. Rounds go over all of it. The result is the median over the rounds of simulated by
measured. Prints a Markdown table, and exits with 1 if an error is above --error-max.
"""

import argparse
import json
import math
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from between import hosts

PORTS = iter(range(28_500, 29_500))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="a build of Rondo (build)")
    parser.add_argument("--hosts", default="2,4", help="numbers of hosts (2,4)")
    parser.add_argument("--ranks-a-host", type=int, default=2)
    parser.add_argument("--rate", default="200mbit", help="of each host's sending (200mbit)")
    parser.add_argument("--sizes", default="1M,4M,16M", help="of an all-reduce of float32")
    parser.add_argument("--algorithms", default="ring,tree,hierarchical")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5, help="of each size in a round (5)")
    parser.add_argument("--error-max", type=float, default=0.15, help="|simulated / measured - 1| (0.15)")
    return parser.parse_args()


class Ranks:
    """Ranks of a job on several hosts. They fill one host after another."""

    def __init__(self, made, ranks_a_host):
        self.made, self.layout = made, [host for host in range(made.count) for _ in range(ranks_a_host)]

    def run(self, command, timeout=300):
        base = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
        base.update(WORLD_SIZE=str(len(self.layout)), MASTER_ADDR=self.made.address(0), MASTER_PORT=str(next(PORTS)),
                    RONDO_SECRET=secrets.token_hex(32))
        ranks = [self.made.start(host, command, env=dict(base, RANK=str(rank)))
                 for rank, host in enumerate(self.layout)]
        said = []
        try:
            for rank in ranks:
                said.append(rank.communicate(timeout=timeout)[0])
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait()
        if any(rank.returncode != 0 for rank in ranks):
            raise SystemExit(f"{' '.join(command)} failed:\n{''.join(said)}")
        return said[0]


def measure(ranks, rondo, algorithm, size, runs, path):
    """Returns the plan and its median time."""
    ranks.run([rondo, "perf", "all_reduce", "-b", size, "-e", size, "-n", str(runs), "-w", "1", "-c", "0", "--pause",
               "50", "--out-of-place-only", "--algorithm", algorithm, "--json", str(path)])
    return json.loads(path.read_text())["results"][0]


def simulate(rondo, table, rank_count, result):
    told = subprocess.run([rondo, "sim", "--table", table, "--ranks", str(rank_count), "--bytes", str(result["bytes"]),
                           "--algorithm", result["algorithm"], "--channels", str(result["channels"]), "--alone",
                           "--json", "-"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          check=True)
    return json.loads(told.stdout)["time_us"]


def one_round(args, made, rondo, folder, found):
    ranks = Ranks(made, args.ranks_a_host)
    table, report = folder / "hosts.json", folder / "perf.json"
    print(ranks.run([rondo, "tune", "--hosts", "--sizes", "1M", "-o", str(table)]), file=sys.stderr)
    for size in args.sizes.split(","):
        for algorithm in args.algorithms.split(","):
            result = measure(ranks, rondo, algorithm, size, args.runs, report)
            pair = (simulate(rondo, table, len(ranks.layout), result), result["out_of_place"]["time_us"]["median"])
            found.setdefault((made.count, size, algorithm), []).append(pair)


def main():
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts that were made go in any case
    why = hosts.why_not()
    if why is not None:
        raise SystemExit(f"no hosts here: {why}")
    rondo, found = os.path.abspath(Path(args.build, "src/cli/rondo")), {}
    for count in map(int, args.hosts.split(",")):
        with hosts.Hosts(count) as made, tempfile.TemporaryDirectory() as folder:
            made.limit(args.rate)
            for number in range(args.rounds):
                one_round(args, made, rondo, Path(folder), found)
                print(f"{count} hosts, round {number + 1} of {args.rounds}", file=sys.stderr)
    algorithms = args.algorithms.split(",")
    print("| hosts | size | " + " | ".join(algorithms) + " |\n" + "|---" * (2 + len(algorithms)) + "|")
    ratios = []
    for count, size in dict.fromkeys(key[:2] for key in found):
        cells = []
        for algorithm in algorithms:
            pairs = sorted((simulated / measured, simulated, measured)
                           for simulated, measured in found[count, size, algorithm])
            ratio, simulated, measured = pairs[len(pairs) // 2]
            ratios.append(ratio)
            cells.append(f"{simulated / 1000:.1f} / {measured / 1000:.1f} = {ratio:.2f} "
                         f"({pairs[0][0]:.2f}-{pairs[-1][0]:.2f})")
        print(f"| {count} | {size} | " + " | ".join(cells) + " |")
    within = sum(abs(ratio - 1) <= args.error_max for ratio in ratios)
    middle = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"\n{within} of {len(ratios)} within {args.error_max:.0%}, {min(ratios):.2f} to {max(ratios):.2f}, "
          f"geometric mean {middle:.2f}.")
    return 0 if within == len(ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
