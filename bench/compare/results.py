# SPDX-License-Identifier: Apache-2.0
"""The raw file has a line of JSON for each session, run and floor, appended when it ends. The figures are computed from
it.

Only runs of one state are compared with each other, and of Rondo only runs of the newest build in the file. Runs in
which the state changed ("mixed"), disturbed runs and failed runs are counted, but are in no figure."""

import json
import math
import statistics
from dataclasses import asdict, dataclass, replace

from settings import RAW, TIE_RATIO, Run

FIELDS = ("contender", "ranks", "in_place", "bytes", "type", "create")
LATER_FIELDS = ("hosts", "rate")  # older files lack them


class BadFile(Exception):
    """The raw file cannot be read; the text says where and why."""


def session_row(host):
    return {"kind": "session", **host}


def run_row(round_number, run, outcome):
    return {"kind": "run", "round": round_number, **asdict(run), **outcome}


def floor_row(round_number, size, outcome):
    return {"kind": "floor", "round": round_number, "bytes": size, **outcome}


def append(path, row):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def load(path):
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                if row["kind"] not in ("session", "run", "floor"):
                    raise ValueError(f"kind {row['kind']!r}")
            except (ValueError, KeyError, TypeError) as error:
                raise BadFile(f"{path}:{number} is no row of a comparison ({error}); remove the line, or name another "
                              "file with --raw") from None
            rows.append(row)
    return rows


def last_round(rows):
    return max((row["round"] for row in rows if row["kind"] != "session"), default=0)


def run_of(row):
    later = {field: row[field] for field in LATER_FIELDS if field in row}
    return Run(**{field: row[field] for field in FIELDS}, **later)


def quantile(values, part):
    """Returns a value between the two nearest values, interpolated at `part`."""
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


@dataclass(frozen=True)
class Cell:
    """A contender at one size in one state."""
    values: tuple
    enough: bool  # whether there are enough for a verdict

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def spread(self):
        return quantile(self.values, 0.1), quantile(self.values, 0.9)


class Results:
    def __init__(self, rows, runs_min, with_disturbed=False):
        self.runs_min, self.with_disturbed = runs_min, with_disturbed
        self.sessions = [row for row in rows if row["kind"] == "session"]
        self.build = self.sessions[-1]["build"] if self.sessions else None
        self.failures, self.mixed_count, self.disturbed_count, self.older_count = {}, 0, 0, 0
        self.samples, self.floors = {}, {}  # (state, run) -> rows; (state, bytes) -> rows
        for row in rows:
            if row["kind"] != "session":
                self.file(row)

    def file(self, row):
        if row.get("build", self.build) != self.build:
            self.older_count += 1
            return
        if "error" in row:
            what = run_of(row) if row["kind"] == "run" else ("floor", row["bytes"])
            self.failures.setdefault(what, []).append(row["error"])
            return
        if row["state"] in ("mixed", "unknown"):
            self.mixed_count += 1
            return
        self.disturbed_count += not row["quiet"]
        if not row["quiet"] and not self.with_disturbed:
            return
        if row["kind"] == "run":
            self.samples.setdefault((row["state"], run_of(row)), []).append(row)
        else:
            self.floors.setdefault((row["state"], row["bytes"]), []).append(row)

    @property
    def states(self):
        return sorted({state for state, _ in self.samples}, key=lambda state: (state != "near", state))

    @property
    def contenders(self):
        return {run.contender for _, run in self.samples}

    def count(self, state, run):
        return len(self.samples.get((state, run), ()))

    def cell(self, state, run, metric):
        rows = self.samples.get((state, run))
        return Cell(tuple(row[metric] for row in rows), len(rows) >= self.runs_min) if rows else None

    def floor_us(self, state, run, core_count):
        """Returns the least time that such an all-reduce can take, or None if its parts were not measured in this
        state. Between hosts it is the time of a raw exchange."""
        if run.hosts > 1:
            raw = self.samples.get((state, replace(run, contender=RAW, in_place=False)))
            return statistics.median(row["median_us"] for row in raw) if raw and run.ranks == run.hosts else None
        rows = self.floors.get((state, run.bytes))
        if not rows or run.create:
            return None
        part = {name: min(row[name] for row in rows)
                for name in ("line_us", "copy_us", "copy_streaming_us", "update_us", "read_us", "yield_us")}
        memory_us = part["update_us"] if run.in_place else min(part["copy_us"], part["copy_streaming_us"])
        share = run.ranks / core_count  # ranks that share a core
        if share <= 1:
            return max(part["line_us"], memory_us, part["read_us"] / 2)
        return max((share - 1) * part["yield_us"], share * memory_us, part["read_us"] / 2)


@dataclass(frozen=True)
class Line:
    """A size of a setting in one state: what the table's row and the plot's points show."""
    size: int
    floor_us: float | None
    ours: tuple       # Cell or None, in the order of Setting.ours
    against: tuple    # Cell or None, in the order of the peers
    best: int | None  # index of the best cell in `against`
    ratios: tuple     # ours / best, or None
    sure: tuple       # whether both have enough runs

    def to_floor(self, index):
        cell = self.ours[index]
        return cell.median / self.floor_us if cell and self.floor_us else None


def lines_of(results, setting, state, peers, sizes, core_count):
    ours, against = setting.series(peers)
    for size in setting.sizes(sizes):
        def cells(series):
            return tuple(results.cell(state, setting.run(each, size), setting.metric) for each in series)
        mine, theirs = cells(ours), cells(against)
        if not any(mine) and not any(theirs):
            continue
        # Otherwise a contender with few runs could be the best by luck.
        candidates = [cell for cell in theirs if cell and cell.enough] or [cell for cell in theirs if cell]
        best_cell = min(candidates, key=lambda cell: cell.median, default=None)
        ratios = tuple(cell.median / best_cell.median if cell and best_cell else None for cell in mine)
        comparable = best_cell.enough if best_cell else not (setting.against_peers or setting.reference)
        sure = tuple(cell is not None and cell.enough and comparable for cell in mine)
        yield Line(size, results.floor_us(state, setting.run(ours[0], size), core_count), mine, theirs,
                   theirs.index(best_cell) if best_cell else None, ratios, sure)


def verdict(value, bar, sure=True):
    """Returns 'met', 'missed' or 'too few runs'. Returns '' without a bar or a value."""
    if bar is None or value is None:
        return ""
    if not sure:
        return "too few runs"
    return "met" if value <= bar else "missed"


def judge(setting, line):
    """Returns a verdict on each contender of ours at this size: a result of verdict(), or 'tie'."""
    if setting.bar_us is not None:
        return [verdict(cell and cell.median, setting.bar_us, sure) for cell, sure in zip(line.ours, line.sure)]
    verdicts = [verdict(ratio, setting.bar_ratio, sure) for ratio, sure in zip(line.ratios, line.sure)]
    return ["tie" if kind == "met" and 1 < ratio <= TIE_RATIO else kind for kind, ratio in zip(verdicts, line.ratios)]


def judge_mean(values, wanted_count, bar):
    """Returns a verdict on the geometric mean over the sizes that have enough runs."""
    if not values:
        return "too few runs"
    return verdict(geometric_mean(values), bar) + (" so far" if len(values) < wanted_count else "")
