#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an all-reduce costs as ranks are added (docs/scaling.md): ring, tree and hierarchical beside the plain way, a
reduce to one root and a broadcast from it.

  scaling.py inside    measured: 2, 4 and 8 ranks of this machine
  scaling.py between   measured: hosts that are network namespaces with a limited link (needs root), and the bytes that
                       each host sends, counted by its interface
  scaling.py simulate  simulated: 2 to 16,384 ranks

Each prints a Markdown table; --svg FILE draws it.
"""

import argparse
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
from predict_hosts import Ranks
from settings import format_size, parse_size

ROOT = "reduce + broadcast"
ALL_REDUCES = {"ring": "ring", "tree": "tree", "hierarchical": "hierarchical"}


def calls_of(name):
    """(collective, algorithm) of each call; every rank sends to the root, and the root to every rank."""
    return [("reduce", "one_shot"), ("broadcast", "one_shot")] if name == ROOT else [("all_reduce", ALL_REDUCES[name])]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("inside", "between", "simulate"))
    parser.add_argument("--build", default="build", help="a build of Rondo (build)")
    parser.add_argument("--bytes", default="4M", help="of the vector of float32 (4M)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", default="200mbit", help="of each host's sending (200mbit)")
    parser.add_argument("--svg", type=Path, help="draw the times")
    parser.add_argument("--json", type=Path, help="write the numbers")
    return parser.parse_args()


def perf(rondo, collective, algorithm, size, runs, report):
    return [rondo, "perf", collective, "-b", size, "-e", size, "-n", str(runs), "-w", "1", "-c", "0", "--pause", "20",
            "--out-of-place-only", "--algorithm", algorithm, "--protocol", "simple", "--json", str(report)]


def median_us(report):
    return json.loads(report.read_text())["results"][0]["out_of_place"]["time_us"]["median"]


def spread(values):
    values = sorted(values)
    return statistics.median(values), values[0], values[-1]


def inside(args, rondo, folder):
    """{name: {ranks: (median, least, greatest) us}}, rounds over all of it."""
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
    """As inside(), by (hosts, ranks a host); and what the busiest host sends in a call, in parts of the vector."""
    found, sent, report, runs = {}, {}, folder / "perf.json", 4
    for host_count, each in ((2, 1), (2, 2), (4, 1), (4, 2)):
        with hosts.Hosts(host_count) as made:
            made.limit(args.rate)
            ranks = Ranks(made, each)
            for _ in range(args.rounds):
                for name in (*ALL_REDUCES, ROOT):
                    total, bytes_before = 0, [made.sent_bytes(host) for host in range(host_count)]
                    for collective, algorithm in calls_of(name):
                        ranks.run(perf(rondo, collective, algorithm, args.bytes, runs, report))
                        total += median_us(report)
                    most = max(made.sent_bytes(host) - bytes_before[host] for host in range(host_count))
                    case = (host_count, each)
                    found.setdefault(name, {}).setdefault(case, []).append(total)
                    # One call more than is timed: the warm-up.
                    sent.setdefault(name, {}).setdefault(case, []).append(most / (runs + 1) / parse_size(args.bytes))
    return ({name: {case: spread(times) for case, times in by.items()} for name, by in found.items()},
            {name: {case: statistics.median(parts) for case, parts in by.items()} for name, by in sent.items()})


def simulated_us(rondo, collective, algorithm, ranks, size):
    """None where the algorithm cannot have so many ranks."""
    done = subprocess.run([rondo, "sim", "--collective", collective, "--algorithm", algorithm, "--ranks", str(ranks),
                           "--bytes", size, "--protocol", "simple", "--alone", "--json", "-"], capture_output=True,
                          text=True, timeout=600, check=False)
    return json.loads(done.stdout)["time_us"] if done.returncode == 0 else None


def simulate(args, rondo, _):
    found = {}
    for ranks in (2, 4, 8, 16, 32, 64, 128, 512, 2048, 16384):
        for name in (*ALL_REDUCES, ROOT):
            # Among more, one root's schedule has more links than are simulated in minutes; the table says so.
            times = [simulated_us(rondo, *call, ranks, args.bytes) if name != ROOT or ranks <= 128 else None
                     for call in calls_of(name)]
            if None not in times:
                found.setdefault(name, {})[ranks] = (sum(times),) * 3
    return found, {}


def show_case(case):
    return f"{case[0]} hosts x {case[1]}" if isinstance(case, tuple) else f"{case:,}"


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


def rank_count(case):
    return case[0] * case[1] if isinstance(case, tuple) else case


def draw(found, caption):
    """One panel: time by number of ranks; of two cases with as many ranks the one with more hosts."""
    panel = plot.Panel(plot.LEFT, plot.TOP, 560, 320)
    lines = {name: sorted({rank_count(case): by[case] for case in sorted(by)}.items()) for name, by in found.items()}
    ranks = sorted({x for points in lines.values() for x, _ in points})
    axes = panel.axes(ranks, [value for points in lines.values() for _, cell in points for value in cell])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{plot.TOP + 380}" font-family="sans-serif" '
             'font-size="12"><rect width="100%" height="100%" fill="white"/>',
             *panel.frame(*axes, [], (1,), caption)]
    for x in ranks:
        parts.append(plot.text(axes[0].at(x), panel.top + panel.height + 16, f"{x:g}", 'text-anchor="middle"'))
    below = panel.top + panel.height + 36
    parts.append(plot.text(panel.left + panel.width / 2, below, "ranks", 'text-anchor="middle"'))
    for index, (name, points) in enumerate(lines.items()):
        colour = (*plot.OURS, *plot.PEERS)[index]
        for x, (_, least, greatest) in points:
            parts.append(plot.rule(axes[0].at(x), axes[1].at(least), axes[0].at(x), axes[1].at(greatest),
                                   f'stroke="{colour}"'))
        parts.append(plot.curve(plot.at(*axes, [(x, cell[0], True) for x, cell in points]), colour, True))
        parts.append(plot.text(panel.left + panel.width + 20, panel.top + 20 + 20 * index, name, f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts that were made go in any case
    rondo = os.path.abspath(Path(args.build, "src/cli/rondo"))
    if args.what == "between" and hosts.why_not() is not None:
        raise SystemExit(f"no hosts here: {hosts.why_not()}")
    with tempfile.TemporaryDirectory() as folder:
        found, sent = {"inside": inside, "between": between, "simulate": simulate}[args.what](args, rondo, Path(folder))
    print(table(found, sent))
    if args.svg:
        args.svg.write_text(draw(found, f"all-reduce of {format_size(parse_size(args.bytes))}, time in us"))
    if args.json:
        args.json.write_text(json.dumps({name: {show_case(case): cell for case, cell in by.items()}
                                         for name, by in found.items()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
