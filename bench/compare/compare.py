#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Rondo beside Open MPI, MPICH, Gloo and any other MPI; writes a table and a picture. See --help."""

import argparse
import math
import os
import platform
import signal
import sys
from dataclasses import replace
from pathlib import Path

import between
import keeper
import peers
import plot
import report
import results
import runs
import settings

DESCRIPTION = """\
Runs Rondo beside its peers, one size and one contender at a time, in rounds; keeps every run in a file to which later
calls append; and writes tables (Markdown) and a picture (SVG) of all that the file holds. Peers that are not installed
are named, with the packages that have them. docs/performance.md tells the rules and how to read the tables.
"""
EXAMPLES = """\
examples:
  bench/compare/compare.py --quick
        a minute: does everything work here?
  bench/compare/compare.py --rounds 5 --mpi intel=/opt/intel/oneapi/mpi/latest --report table.md --plot picture.svg
        the whole comparison; hours. Rounds can be spread: every call adds to the raw file.
  bench/compare/compare.py --rounds 50 --fill 5
        what is missing from five runs in each state that comes up
  bench/compare/compare.py --rounds 50 --fill 5 --state far
        what is missing from five runs in that state
  bench/compare/compare.py --setting private-in-place --sizes 64K,1M --rounds 3
        a part of it
  bench/compare/compare.py --report-only --plot picture.svg
        tables and picture again, from the raw file

exit status:
  0    done; a missed bar or a peer that failed is told in the report
  1    a run of Rondo failed or gave a wrong result
  2    wrong use, or something that is needed is missing
  130  interrupted; what was measured until then is kept
"""


def named_prefix(text):
    name, equals, prefix = text.partition("=")
    if not equals or not name.isidentifier() or name in ("openmpi", "mpich", "gloo") or name.startswith("rondo"):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=PREFIX, with a name that no contender has yet")
    return name, prefix


def size_list(text):
    try:
        return sorted({settings.parse_size(word) for word in text.split(",")})
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive(kind):
    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if value <= 0:
            raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
        return value
    return convert


def bar(text):
    name, _, most = text.partition("=")
    return name, positive(float)(most)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="compare.py", description=DESCRIPTION, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [setting.name for setting in settings.SETTINGS]
    add = parser.add_argument
    add("--build", metavar="DIR", default=peers.ROOT / "build", help="build folder that has librondo.so (build)")
    add("--drivers", metavar="DIR", help="where drivers are built, anew each time (build/compare-drivers)")
    add("--raw", metavar="FILE", help="where runs are kept (build/compare.jsonl)")
    add("--report", metavar="FILE.md", help="write the tables there instead of to standard output")
    add("--plot", metavar="FILE.svg", help="draw the ratios at a glance, then time and ratio by size (by matplotlib)")
    add("--report-only", action="store_true", help="measure nothing: report what the raw file holds")
    add("--rounds", metavar="N", type=positive(int), default=5, help="measure everything N times (5)")
    add("--fill", metavar="N", type=positive(int),
        help="skip a size of a setting while each of its contenders has N quiet runs in the state that the machine is "
             "in just then (of Rondo: of this build)")
    add("--state", choices=sorted(keeper.READINGS_US),
        help="bring the machine into this state and keep it there: nap until it has come, then keep both cores busy at "
             "idle priority")
    add("--seek", metavar="S", type=positive(float), default=30, help="seconds to wait for that state (30)")
    add("--hosts", action="store_true",
        help="measure the settings of several hosts, which are network namespaces (root); without it the others")
    add("--setting", metavar="NAME", action="append", choices=names,
        help="only this one; repeatable: " + ", ".join(names))
    add("--sizes", metavar="LIST", type=size_list, help="such as 8,64K,1M (8 B, then 16 B to 256M by 4)")
    add("--mpi", metavar="NAME=PREFIX", type=named_prefix, action="append", default=[],
        help="another MPI, with PREFIX/bin/mpicc and mpirun; repeatable")
    add("--without", metavar="NAME", action="append", default=[], help="leave a contender out; repeatable")
    add("--bar", metavar="SETTING=N", type=bar, action="append", default=[],
        help="the most that the ratio may be at each size (for `create`: the time in us) in place of the setting's")
    add("--runs-min", metavar="N", type=positive(int), default=5, help="runs that a verdict needs (5)")
    add("--seconds", metavar="S", type=positive(float), default=0.12, help="length of a loop of timed calls (0.12)")
    add("--tries", metavar="N", type=positive(int), default=3, help="repeat a disturbed run up to N times in all (3)")
    add("--patience", metavar="S", type=float, default=20, help="seconds to wait for a quiet machine before a try (20)")
    add("--deadline", metavar="S", type=positive(int), default=120, help="end a run that takes longer (120)")
    add("--with-disturbed", action="store_true", help="report disturbed runs, too")
    add("--quick", action="store_true",
        help="a smoke test: three sizes, one round, short loops, disturbed runs reported; a raw file of its own")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes = options.sizes or size_list("8,16K,1M")
        options.rounds, options.runs_min, options.tries, options.patience, options.seconds = 1, 1, 1, 0, 0.02
        options.with_disturbed = True
    options.sizes = options.sizes or settings.SIZES_BYTES
    if options.quick and options.raw is None:
        options.raw = Path(options.build) / "compare-quick.jsonl"
        options.raw.unlink(missing_ok=True)  # a smoke test does not continue an earlier one
    options.raw = Path(options.raw or Path(options.build) / "compare.jsonl")
    options.settings = chosen_settings(parser, options)
    return options


def chosen_settings(parser, options):
    bars = dict(options.bar)
    for name in bars:
        if name not in {setting.name for setting in settings.SETTINGS}:
            parser.error(f"--bar {name}: there is no such setting")
    chosen = []
    for setting in settings.SETTINGS:
        if options.setting and setting.name not in options.setting:
            continue
        if (setting.hosts > 1) != options.hosts and not (options.report_only or options.setting):
            continue
        if setting.name in bars:
            field = "bar_us" if setting.create else "bar_ratio"
            setting = replace(setting, **{field: bars[setting.name]})
        chosen.append(setting)
    return chosen


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def plan(options, contenders, core_count):
    """Returns the cells by (ranks, size), so that contenders alternate. A cell has the runs that one setting shows at
    one size."""
    order = [name for name in contenders if not contenders[name].ours and name != settings.RAW]
    by_size = {}
    for setting in options.settings:
        ours, against = setting.series(order)
        for size in setting.sizes(options.sizes):
            raw = [settings.Series(settings.RAW, settings.RAW)] if setting.hosts == setting.ranks else []
            shown = [(series.contender, setting.run(series, size)) for series in (*raw, *ours, *against)]
            by_size.setdefault((setting.hosts, setting.rate, setting.ranks, size), []).append(
                [run for name, run in shown if name in contenders and contenders[name].takes(run, core_count)])
    return by_size


def wanting(cells, found, state, count):
    """Returns all runs of the cells in which a run has fewer than `count` samples in this state. So contenders are
    measured together or not at all. Each run appears once, even if several settings show it."""
    return list(dict.fromkeys(run for cell in cells if any(found.count(state, run) < count for run in cell)
                              for run in cell))


def host(contenders):
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    header = (peers.ROOT / "include/rondo/rondo.h").read_text(encoding="utf-8")
    version = ".".join(line.split()[2] for part in ("MAJOR", "MINOR", "PATCH") for line in header.splitlines()
                       if line.startswith(f"#define RONDO_VERSION_{part} "))
    return {"cpu": models[0] if models else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "kernel": ".".join(platform.release().split(".")[:2]), "rondo": version,
            "congestion_control": Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip(),
            "build": contenders["rondo"].version,
            "versions": {name: each.version for name, each in contenders.items() if each.version and not each.ours}}


def measure_rounds(options, machine, contenders, planned, found, first_round):
    """Returns whether no run of Rondo failed. `found` has the contents of the raw file, and new runs are added to it.
    """
    def keep(row):
        results.append(options.raw, row)
        found.file(row)

    sound = True
    for round_number in range(first_round, first_round + options.rounds):
        measured_floors, full_count = set(), 0
        for (hosts, _, ranks, size), cells in planned.items():
            state = machine.settled_state()[0] if options.fill else None
            wanted = wanting(cells, found, state, options.fill or math.inf)
            wants_floor = wanted or (state, size) not in found.floors
            if machine.floor and size and hosts == 1 and wants_floor and size not in measured_floors:
                measured_floors.add(size)
                keep(results.floor_row(round_number, size, machine.measure_floor(size)))
            if not wanted:
                full_count += 1
                continue
            turn = round_number % len(wanted)  # so that no contender is always first
            for run in wanted[turn:] + wanted[:turn]:
                contender = contenders[run.contender]
                outcome = machine.measure(contender, run) | ({"build": contender.version} if contender.ours else {})
                keep(results.run_row(round_number, run, outcome))
                if "error" in outcome:
                    say(f"{run.contender}, {ranks} ranks, {settings.format_size(size)}: {outcome['error']}")
                    sound = sound and not contender.ours
        full = f"; {full_count} of {len(planned)} sizes had their runs" if options.fill else ""
        say(f"round {round_number} is done{full}")
    return sound


def measure(options):
    drivers = Path(options.drivers or Path(options.build) / "compare-drivers").resolve()
    workshop = peers.Workshop(drivers, options.build)
    contenders, floor = peers.build_all(workshop, options.mpi, say)
    machine_facts = host(contenders)
    for name in options.without:
        if contenders.pop(name, None) is None:
            say(f"--without {name}: there is no such contender here; there are: {', '.join(contenders)}")
    core_count = len(os.sched_getaffinity(0))
    if any(setting.hosts > 1 for setting in options.settings) and (why := between.Network.why_not()):
        raise peers.Missing(f"several hosts cannot be made here: {why}")
    with keeper.keeping(options.state, floor, options.seek) as kept, between.Network(drivers) as network:
        machine = runs.Machine(floor, core_count, options.tries, options.patience, options.deadline, options.seconds,
                               kept=kept, network=network)
        rows = results.load(options.raw) if options.raw.exists() else []
        planned = plan(options, contenders, core_count)
        taking_part = {run.contender for cells in planned.values() for cell in cells for run in cell}
        named = ", ".join(name for name in contenders if name in taking_part)
        say(f"contenders: {named}; runs are kept in {options.raw}")
        session = results.session_row(machine_facts)
        results.append(options.raw, session)
        found = results.Results([*rows, session], options.runs_min)
        return measure_rounds(options, machine, contenders, planned, found, results.last_round(rows) + 1)


def write_report(options):
    rows = results.load(options.raw)
    found = results.Results(rows, options.runs_min, options.with_disturbed)
    core_count = next((session["cores"] for session in reversed(found.sessions)), 1)
    order = [name for name in sorted(found.contenders)
             if not name.startswith("rondo") and name not in (settings.RAW, *options.without)]
    text = report.markdown(found, options.settings, order, options.sizes, core_count)
    if options.report:
        Path(options.report).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    if options.plot:
        parts = list(report.sections(found, options.settings, order, options.sizes, core_count))
        plot.save(plot.picture(parts, options.sizes), options.plot)


def main(arguments):
    options = parse(arguments)
    try:
        if options.plot:
            plot.require()
        sound = True if options.report_only else measure(options)
        write_report(options)
    except (peers.Missing, results.BadFile, OSError) as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say(f"interrupted; what was measured is in {options.raw}")
        return 130
    return 0 if sound else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the code that ends a run and tidies up
    sys.exit(main(sys.argv[1:]))
