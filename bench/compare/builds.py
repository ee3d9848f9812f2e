#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures two builds of Rondo in turns, to see that a change made nothing slower. It runs all-reduces of float32 on
host memory, each rank in a process, each build with the driver of its own source tree. It prints a line for each cell:
both medians, and the new one divided by the old one. A cell that is slower by more than the bar is measured again. The
exit status is 1 if a cell was slower both times."""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import peers
import runs
from settings import parse_size

RUN_DEADLINE_S = 180


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: git worktree add ../old v0.1; (cd ../old; meson setup build && ninja -C "
        "build); ninja -C build; bench/compare/builds.py --old ../old --old-build ../old/build --build build")
    parser.add_argument("--old", required=True, type=Path, metavar="TREE", help="source tree of the older build")
    parser.add_argument("--old-build", required=True, type=Path, metavar="DIR", help="its build folder")
    parser.add_argument("--build", default="build", type=Path, metavar="DIR", help="build folder of this tree (build)")
    parser.add_argument("--ranks", default="2,4", metavar="LIST", help="numbers of ranks (2,4)")
    parser.add_argument("--sizes", default="8,4K,64K,1M,64M", metavar="LIST", help="sizes (8,4K,64K,1M,64M)")
    parser.add_argument("--buffers", default="private,alloc", metavar="LIST", help="kinds of buffers (private,alloc)")
    parser.add_argument("--runs", default=9, type=int, metavar="N", help="runs of each build a cell, medians of (9)")
    parser.add_argument("--bar", default=1.05, type=float, metavar="X", help="the most that new by old may be (1.05)")
    return parser.parse_args()


def driver(workshop, tree, build, output):
    folder = tree.resolve() / "bench" / "compare"
    sources = [folder / name for name in ("rondo.c", *peers.HARNESS)]
    command = [*workshop.cc, "-std=c11", f"-I{tree.resolve()}", f"-I{tree.resolve() / 'include'}", *peers.FLAGS,
               *sources, f"-L{build.resolve()}", "-lrondo", f"-Wl,-rpath,{build.resolve()}", "-o", output]
    workshop.compile(f"the driver of {tree}", command, cwd=tree)
    return output


def run(program, options):
    told, error = runs.result_of(runs.run_once([program, *options], {}, RUN_DEADLINE_S))
    if error is None and told["wrong"]:
        error = "a wrong result"
    if error is not None:
        raise SystemExit(f"{program} {' '.join(options)}: {error}")
    return told["median_us"]


def measure(old, new, options, run_count):
    """Returns the medians of both builds, measured in turns. Each turn begins with the other build."""
    times = {old: [], new: []}
    for index in range(run_count):
        for program in (old, new) if index % 2 == 0 else (new, old):
            times[program].append(run(program, options))
    return statistics.median(times[old]), statistics.median(times[new])


def main():
    args = arguments()
    slower = []
    with tempfile.TemporaryDirectory() as folder:
        workshop = peers.Workshop(folder, args.build)
        old = driver(workshop, args.old, args.old_build, Path(folder, "old"))
        new = driver(workshop, peers.ROOT, args.build, Path(folder, "new"))
        cells = [(ranks, size, buffers, place) for ranks in args.ranks.split(",") for size in args.sizes.split(",")
                 for buffers in args.buffers.split(",") for place in ("in", "out of")]
        for ranks, size, buffers, place in cells:
            options = ["--ranks", ranks, "--bytes", str(parse_size(size)), "--buffers", buffers,
                       *(["--in-place"] if place == "in" else []), *(["--pin"] if ranks == "2" else [])]
            for attempt in range(2):
                before, after = measure(old, new, options, args.runs)
                print(f"{ranks} ranks, {size:>4}, {buffers:10} {place:>6} place: old {before:10.2f} us, new "
                      f"{after:10.2f} us, {after / before:.3f}", flush=True)
                if after <= args.bar * before:
                    break
                if attempt == 1:
                    slower.append((ranks, size, buffers, place))
    print(f"{len(cells) - len(slower)} of {len(cells)} cells within {args.bar}" +
          "".join(f"; slower twice: {' ranks, '.join(cell[:2])}, {cell[2]}, {cell[3]} place" for cell in slower))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
