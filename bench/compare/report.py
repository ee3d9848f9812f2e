# SPDX-License-Identifier: Apache-2.0
"""The report: a Markdown table for each setting and state, and what was left out and why."""

from collections import Counter

from results import geometric_mean, judge, judge_mean, lines_of, verdict
from runs import FOREIGN_PERCENT_MAX
from settings import format_size


def number(value):
    """Returns a number with three digits: 0.0713, 3.65, 142, 10915."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def cell_text(cell):
    if cell is None:
        return "-"
    low, high = cell.spread
    few = "" if cell.enough else f" [{len(cell.values)}]"
    return f"{number(cell.median)} ({number(low)}-{number(high)}){few}"


def table(setting, lines, labels):
    ours, against = labels
    several = len(ours) > 1
    head = ["bytes", *(f"{label}" for label in ours), *against]
    if against:
        head += ["best", *(f"{label} / best" if several else "ratio" for label in ours)]
    if not setting.create:
        head[1:1] = ["floor"]
        head += [f"{label} / floor" if several else "/ floor" for label in ours]
    judged = setting.bar_ratio is not None or setting.bar_us is not None
    head += ["bar"] if judged else []
    rows = []
    for line in lines:
        row = ["-" if setting.create else format_size(line.size)]
        row += [] if setting.create else [number(line.floor_us)]
        row += [cell_text(cell) for cell in (*line.ours, *line.against)]
        if against:
            row.append(against[line.best] if line.best is not None else "-")
            row += [number(ratio) for ratio in line.ratios]
        if not setting.create:
            row += [number(line.to_floor(index)) for index in range(len(ours))]
        row += [", ".join(kind or "-" for kind in judge(setting, line))] if judged else []
        rows.append(row)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def from_size(least):
    return f" from {format_size(least)} up" if least else ""


def mean_over(values, wanted_count):
    """Returns the mean, and how many of the requested sizes it includes."""
    return f"{number(geometric_mean(values) if values else None)} over {len(values)} of {wanted_count} sizes"


def tally(verdicts, wanted_count):
    """Counts the verdicts. A size that was not measured has too few runs."""
    kinds = Counter(kind for kind in verdicts if kind)
    kinds["too few runs"] += wanted_count - kinds.total()
    return ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds) if kinds[kind])


class Series:
    """The summary of one of our contenders in a setting and state, printed below the table."""

    def __init__(self, setting, lines, index, sizes):
        self.setting, self.lines, self.index, self.sizes = setting, lines, index, setting.sizes(sizes)
        self.sure = [line for line in lines if line.sure[index]]

    def count(self, least):
        return sum(size >= least for size in self.sizes)

    def ratios(self, least=0):
        return [line.ratios[self.index] for line in self.sure if line.size >= least]

    def means(self):
        bar, least = self.setting.bar_mean, self.setting.bar_mean_from
        plain = f"geometric mean of the ratios {mean_over(self.ratios(), self.count(0))}"
        if bar is None or least:
            yield plain
        if bar is not None and self.count(least):
            ratios, count = self.ratios(least), self.count(least)
            yield (f"geometric mean of the ratios{from_size(least)} {mean_over(ratios, count)}: bar {bar:g}, "
                   f"{judge_mean(ratios, count, bar)}")

    def floors(self):
        bar, least, most = self.setting.bar_floor, self.setting.bar_floor_from, self.setting.bar_floor_to
        distances = [line.to_floor(self.index) for line in self.sure if line.floor_us]
        yield f"times the floor {mean_over(distances, self.count(0))}"
        if bar is not None and self.count(least):
            verdicts = [verdict(line.to_floor(self.index), bar, line.sure[self.index]) for line in self.lines
                        if line.size >= least and (most is None or line.size <= most)]
            wanted = sum(least <= size and (most is None or size <= most) for size in self.sizes)
            to = f" to {format_size(most)}" if most is not None else ""
            yield f"times the floor{from_size(least)}{to}, bar {bar:.3g}: {tally(verdicts, wanted)}"

    def each_size(self):
        ratio, us = self.setting.bar_ratio, self.setting.bar_us
        if ratio is not None or us is not None:
            bar = f"{ratio:g}" if us is None else f"{number(us)} us"
            verdicts = [judge(self.setting, line)[self.index] for line in self.lines]
            yield f"each size, bar {bar}: {tally(verdicts, self.count(0))}"

    def noise(self):
        spreads = [line.ours[self.index].spread for line in self.sure]
        if spreads:
            yield f"noise: 90th by 10th percentile of the runs {number(geometric_mean([b / a for a, b in spreads]))}"


def summary(setting, lines, labels, sizes):
    """Returns geometric means over the sizes with enough runs, the results against the bars, and the spread of runs."""
    told = []
    for index, label in enumerate(labels[0]):
        series = Series(setting, lines, index, sizes)
        texts = [*(series.means() if labels[1] else ()), *(() if setting.create else series.floors()),
                 *series.each_size(), *series.noise()]
        told += [f"- {label}: {text}" for text in texts]
    return "\n".join(told)


def sections(results, settings, peers, sizes, core_count):
    """Yields (setting, state, lines) of everything that was measured."""
    for setting in settings:
        for state in results.states:
            shown = [peer for peer in peers
                     if any(run.contender == peer and run.ranks == setting.ranks and
                            run.in_place == setting.in_place and state == where and not run.create and
                            (run.hosts, run.rate) == (setting.hosts, setting.rate)
                            for where, run in results.samples)]
            lines = list(lines_of(results, setting, state, shown, sizes, core_count))
            if any(any(line.ours) for line in lines):
                yield setting, state, lines, tuple(tuple(each.label for each in side)
                                                   for side in setting.series(shown))


def describe_host(results):
    told = []
    for session in results.sessions:
        versions = ", ".join(f"{name} {version}" for name, version in session.get("versions", {}).items())
        control = session.get("congestion_control")  # older files lack it
        text = (f"- {session['cpu']}, {session['cores']} processors, Linux {session['kernel']}"
                f"{f', TCP with {control}' if control else ''}; Rondo {session['rondo']} (build {session['build']}); "
                f"{versions}")
        if text not in told:
            told.append(text)
    return "\n".join(told)


def left_out(results):
    told = [f"Runs in which other processes or the hypervisor took over {FOREIGN_PERCENT_MAX:g} % of the processors: "
            f"{results.disturbed_count}, {'shown all the same' if results.with_disturbed else 'left out'}. Runs in "
            f"which the machine's state changed or was not known: {results.mixed_count}, left out. "
            f"Runs of older builds of Rondo: {results.older_count}, left out."]
    for what, errors in results.failures.items():
        run = (f"{what[0]}, {format_size(what[1])}" if isinstance(what, tuple) else
               f"{what.contender}, {what.ranks} ranks, " + ("create" if what.create else
               f"{what.type}, {'in' if what.in_place else 'out of'} place, {format_size(what.bytes)}"))
        told.append(f"- failed {len(errors)} times: {run}: {errors[-1]}")
    return "\n".join(told)


def markdown(results, settings, peers, sizes, core_count):
    parts = ["# Comparison", describe_host(results),
             "Times in microseconds: the median over runs (10th to 90th percentile of the runs); [n]: only n runs, too "
             f"few for a verdict, which needs {results.runs_min}. A ratio is Rondo's time by that of the best peer in "
             "the same state: below 1, Rondo is faster."]
    empty = True
    for setting, state, lines, labels in sections(results, settings, peers, sizes, core_count):
        empty = False
        name = setting.title if state == "any" else f"{setting.title} ({state})"
        parts += [f"## {name}", table(setting, lines, labels), summary(setting, lines, labels, sizes)]
    if empty:
        parts.append("Nothing that counts was measured yet.")
    return "\n\n".join(part for part in (*parts, left_out(results)) if part) + "\n"
