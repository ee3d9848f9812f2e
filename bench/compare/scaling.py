#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of an all-reduce as ranks are added (docs/lab/scaling.md). It compares ring, tree and hierarchical
with the plain way, a reduce to one root and a broadcast from it.

    scaling.py inside    measures 2, 4 and 8 ranks of this machine
    scaling.py between   measures hosts that are network namespaces with a limited link (needs root), and the bytes that
                         each host sends, counted by its interface; with several sizes (--bytes 1M,4M,16M), by size
    scaling.py simulate  simulates 2 to 16,384 ranks

Each prints a Markdown table; --svg FILE draws it.
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import plot
from between import hosts
from host_ranks import Ranks
from settings import format_size, parse_size

ROOT = "reduce + broadcast"
ALL_REDUCES = {"ring": "ring", "tree": "tree", "hierarchical": "hierarchical"}


def calls_of(name):
    """Returns (collective, algorithm) of each call. With ROOT every rank sends to the root, and the root sends to every
    rank."""
    return [("reduce", "one_shot"), ("broadcast", "one_shot")] if name == ROOT else [("all_reduce", ALL_REDUCES[name])]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("inside", "between", "simulate"))
    parser.add_argument("--build", default="build", help="a build of Rondo (build)")
    parser.add_argument("--bytes", default="4M", help="of the vector of float32 (4M); between: one or several")
    parser.add_argument("--hosts", default="2x1,2x2,4x1,4x2", help="between: hosts x ranks of each (2x1,2x2,4x1,4x2)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", default="200mbit", help="of each host's sending (200mbit)")
    parser.add_argument("--svg", type=Path, help="draw the times")
    parser.add_argument("--json", type=Path, help="write the numbers")
    args = parser.parse_args()
    if args.what != "between" and "," in args.bytes:
        parser.error("several sizes are for between")
    return args


def perf(rondo, collective, algorithm, size, runs, report):
    return [rondo, "perf", collective, "-b", size, "-e", size, "-n", str(runs), "-w", "1", "-c", "0", "--pause", "20",
            "--out-of-place-only", "--algorithm", algorithm, "--protocol", "simple", "--json", str(report)]


def median_us(report):
    return json.loads(report.read_text())["results"][0]["out_of_place"]["time_us"]["median"]


def spread(values):
    values = sorted(values)
    return statistics.median(values), values[0], values[-1]


def inside(args, rondo, folder):
    """Returns the median, the least and the greatest time in us, by name and number of ranks, from several rounds."""
    names, found, report = ("ring", "tree", ROOT), {}, folder / "perf.json"
    for _ in range(args.rounds):
        for ranks in (2, 4, 8):
            for name in names:
                total = 0
                for collective, algorithm in calls_of(name):
                    command = perf(rondo, collective, algorithm, args.bytes, 7, report)
                    subprocess.run([rondo, "run", "-n", str(ranks), "--", *command], stdout=subprocess.DEVNULL,
                                   timeout=300, check=True)
                    total += median_us(report)
                found.setdefault(name, {}).setdefault(ranks, []).append(total)
    return {name: {ranks: spread(times) for ranks, times in by.items()} for name, by in found.items()}, {}


def between(args, rondo, folder):
    """Returns the same as inside(), by (hosts, ranks a host), or with several sizes by (hosts, ranks a host, bytes).
    Also returns what the busiest host sends in a call, in parts of the vector."""
    found, sent, report, runs, sizes = {}, {}, folder / "perf.json", 4, args.bytes.split(",")
    for layout in args.hosts.split(","):
        host_count, each = map(int, layout.split("x"))
        with hosts.Hosts(host_count) as made:
            made.limit(args.rate)
            ranks = Ranks(made, each)
            for _, size, name in itertools.product(range(args.rounds), sizes, (*ALL_REDUCES, ROOT)):
                total, bytes_before = 0, [made.sent_bytes(host) for host in range(host_count)]
                for collective, algorithm in calls_of(name):
                    ranks.run(perf(rondo, collective, algorithm, size, runs, report))
                    total += median_us(report)
                most = max(made.sent_bytes(host) - bytes_before[host] for host in range(host_count))
                case = (host_count, each, parse_size(size)) if len(sizes) > 1 else (host_count, each)
                found.setdefault(name, {}).setdefault(case, []).append(total)
                # One call more than is timed: the warm-up.
                sent.setdefault(name, {}).setdefault(case, []).append(most / (runs + 1) / parse_size(size))
    return ({name: {case: spread(times) for case, times in by.items()} for name, by in found.items()},
            {name: {case: statistics.median(parts) for case, parts in by.items()} for name, by in sent.items()})


def simulated_us(rondo, collective, algorithm, ranks, size):
    """Returns the simulated time, or None if the algorithm does not support this many ranks."""
    done = subprocess.run([rondo, "sim", "--collective", collective, "--algorithm", algorithm, "--ranks", str(ranks),
                           "--bytes", size, "--protocol", "simple", "--alone", "--json", "-"], capture_output=True,
                          text=True, timeout=600, check=False)
    return json.loads(done.stdout)["time_us"] if done.returncode == 0 else None


def simulate(args, rondo, _):
    found = {}
    for ranks in (2, 4, 8, 16, 32, 64, 128, 512, 2048, 16384):
        for name in (*ALL_REDUCES, ROOT):
            # Among more ranks, one root's schedule has more links than are simulated in minutes; the table says so.
            times = [simulated_us(rondo, *call, ranks, args.bytes) if name != ROOT or ranks <= 128 else None
                     for call in calls_of(name)]
            if None not in times:
                found.setdefault(name, {})[ranks] = (sum(times),) * 3
    return found, {}


def show_case(case):
    if not isinstance(case, tuple):
        return f"{case:,}"
    return f"{case[0]} hosts x {case[1]}" + (f", {format_size(case[2])}" if len(case) > 2 else "")


def show_cell(cell):
    if cell is None:
        return ""
    middle, least, greatest = (value / 1000 for value in cell)
    return f"{middle:.3g}" if least == greatest else f"{middle:.3g} ({least:.3g}-{greatest:.3g})"


def table(found, sent):
    cases = sorted({case for by in found.values() for case in by})
    lines = ["| ranks | " + " | ".join(found) + " |", "|---" * (1 + len(found)) + "|"]
    for case in cases:
        lines.append(f"| {show_case(case)} | " + " | ".join(show_cell(by.get(case)) for by in found.values()) + " |")
    if sent:
        lines += ["", "| the busiest host sends, of the vector | " + " | ".join(sent) + " |",
                  "|---" * (1 + len(sent)) + "|"]
        for case in cases:
            lines.append(f"| {show_case(case)} | " + " | ".join(f"{by[case]:.2f}" for by in sent.values()) + " |")
    return "\n".join(lines)


def place(case):
    """Returns (x, line) of a case. By size, each layout of hosts has a line; otherwise x is the number of ranks."""
    if not isinstance(case, tuple):
        return case, None
    return (case[2], case[:2]) if len(case) > 2 else (case[0] * case[1], None)


def draw(found, caption):
    """Draws one panel of times by number of ranks, or by size. Of two cases with equally many ranks it takes the one
    with more hosts."""
    made = plot.new_figure()
    panel = made.add_subplot()
    lines = {}
    for name, by in found.items():
        for case in sorted(by):
            x, layout = place(case)
            lines.setdefault((name, layout), {})[x] = by[case]
    layouts = list(dict.fromkeys(layout for _, layout in lines))
    by_size = layouts[-1] is not None
    plot.frame(panel, sorted({x for points in lines.values() for x in points}), caption)
    if not by_size:
        panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.set_xlabel("bytes" if by_size else "ranks")
    colours = dict(zip(found, plot.OURS + plot.PEERS))
    for (name, layout), points in lines.items():
        x = sorted(points)
        middle, least, greatest = zip(*(points[each] for each in x))
        spreads = [[median - end for median, end in zip(middle, least)],
                   [end - median for median, end in zip(middle, greatest)]]
        panel.errorbar(x, middle, spreads, marker="o", markersize=4, color=colours[name],
                       linestyle="-" if layout == layouts[-1] else "--",
                       label=f"{name}, {show_case(layout)}" if by_size else name)
    panel.legend(fontsize="small")
    return made


def main():
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts that were made are removed
    if args.svg:
        plot.require()
    rondo = os.path.abspath(Path(args.build, "src/cli/rondo"))
    if args.what == "between" and hosts.why_not() is not None:
        raise SystemExit(f"no hosts here: {hosts.why_not()}")
    with tempfile.TemporaryDirectory() as folder:
        found, sent = {"inside": inside, "between": between, "simulate": simulate}[args.what](args, rondo, Path(folder))
    print(table(found, sent))
    if args.svg:
        plot.save(draw(found, f"all-reduce of {args.bytes.replace(',', ', ')}, time in us"), args.svg)
    if args.json:
        args.json.write_text(json.dumps({name: {show_case(case): cell for case, cell in by.items()}
                                         for name, by in found.items()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
