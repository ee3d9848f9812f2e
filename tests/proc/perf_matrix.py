# SPDX-License-Identifier: Apache-2.0
"""Runs every collective, algorithm and protocol among 1 to 8 processes by `rondo perf`, and fails if a result is wrong.
The tests run up to 256K. Up to 64M takes some minutes.

usage: perf_matrix.py RONDO [--max 64M] [--ranks 1,2,...]"""

import argparse
import os
import subprocess
import sys
import time

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")
ALGORITHMS = ("ring", "tree", "halving_doubling", "one_shot", "two_shot")
PROTOCOLS = ("simple", "ll")


def can(rondo, collective, algorithm):
    """Returns false if the algorithm does not support the collective, which perf reports at once."""
    done = subprocess.run([rondo, "perf", collective, "--ranks", "2", "-b", "4", "-e", "4", "-n", "1", "-w", "0",
                           "--algorithm", algorithm], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 0:
        return True
    assert "cannot do" in done.stderr, done.stderr
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rondo")
    parser.add_argument("--max", default="64K")
    sanitized = "RONDO_TEST_SANITIZED" in os.environ  # with it, each of hundreds of processes takes seconds to start
    parser.add_argument("--ranks", default="3" if sanitized else "1,2,3,4,5,7,8")
    parser.add_argument("--buffers", default="private", help="private, alloc, registered or moved")
    options = parser.parse_args()
    failed = run_count = 0
    begin = time.monotonic()
    cases = [(c, a, p) for c in COLLECTIVES for a in ALGORITHMS if can(options.rondo, c, a) for p in PROTOCOLS]
    # auto includes one_shot
    cases += [("all_reduce", algorithm, "load_store") for algorithm in ("ring", "two_shot", "auto")]
    for ranks in options.ranks.split(","):
        for collective, algorithm, protocol in cases:
            command = [options.rondo, "run", "-n", ranks, "--", options.rondo, "perf", collective, "-b", "4", "-e",
                       options.max, "-c", "1", "-n", "1", "-w", "0", "--algorithm", algorithm,
                       "--kernel" if protocol == "load_store" else "--protocol", protocol,
                       "--root", str(int(ranks) // 2), "--buffers", options.buffers]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            run_count += 1
            if done.returncode != 0 or "# Out of bounds values : 0 OK" not in done.stdout:
                failed += 1
                print("FAILED:", " ".join(command), done.stdout[-2000:], done.stderr[-2000:], sep="\n")
    print(f"{run_count} runs of {len(cases)} collectives by algorithm and protocol up to {options.max} bytes, "
          f"{failed} failed, {time.monotonic() - begin:.0f} s on {os.cpu_count()} processors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
