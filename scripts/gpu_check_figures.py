# SPDX-License-Identifier: Apache-2.0
"""Turns reports of `rondo perf` and `rondo train` into figures for scripts/gpu-check. It also has the bars that the
figures should meet."""

import json
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
FLOOR_BAR = 1.12       # times the floor: 2 and 8 ranks as threads, float32 sum, 256 MiB
LATENCY_BAR_BYTES = 4 << 10  # the largest size with a bar
TURNS_BAR = 2.0        # times the floor, and the measured hand-overs, of processes that share the device
BESIDE_BAR = 0.03      # a large matrix product slows by so much beside a copy-engine all-gather
COVERED_MIN = 0.9      # of the product's time, for that to say anything
FOLLOWS_BAR = 1e-3     # by which share a loss on the device may differ from the host's


@dataclass
class Figure:
    name: str
    value: str
    bar: str = ""
    met: object = None  # True, False, or None: there is no bar


def size_name(size):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def results_of_both(report):
    """Yields the name, the bytes and the result of each measurement, and the result of the library of --against."""
    for row in report["results"]:
        for placement in ("out_of_place", "in_place"):
            if row[placement] is not None:
                name = f"{report['collective']}, {report['ranks']} ranks, {size_name(row['bytes'])}"
                yield (f"{name}, {placement.replace('_', ' ')}", row["bytes"], row[placement],
                       row.get("against", {}).get(placement))


def results(report):
    """Yields (name, bytes, result) of each result that was measured."""
    for name, size, result, _ in results_of_both(report):
        yield name, size, result


def against_floor(bar):
    """Returns a judge of each result as a multiple of its floor; `bar` may be None."""
    def judge(report):
        for name, _, result in results(report):
            median, floor = result["time_us"]["median"], result["floor_us"]
            ratio = median / floor if floor > 0 else float("inf")
            yield Figure(name, f"{median:.1f} us = {ratio:.2f} x floor {floor:.1f} us",
                         f"at most {bar} x floor" if bar else "", ratio <= bar if bar else None)
    return judge


def latency_bar_us(ranks):
    """Returns the bar of a replayed all-reduce of 8 B to 4 KiB."""
    return 3.0 if ranks <= 2 else 4.0


def latency(report):
    bar = latency_bar_us(report["ranks"])
    for name, size, result in results(report):
        median = result["time_us"]["median"]
        has_bar = size <= LATENCY_BAR_BYTES
        yield Figure(f"{name}, replayed", f"{median:.2f} us", f"at most {bar} us" if has_bar else "",
                     median <= bar if has_bar else None)


def times(report):
    """Yields times without a bar."""
    for name, _, result in results(report):
        yield Figure(name, f"{result['time_us']['median']:.2f} us")


def against_other(report):
    """Yields each time beside that of the other library (`rondo perf --against`), which is the bar."""
    other = f"{Path(report['against']['library']).name} {report['against']['version']}"
    for name, _, result, theirs in results_of_both(report):
        ours_us, theirs_us = result["time_us"]["median"], theirs["time_us"]["median"]
        yield Figure(f"{name}, beside {other}", f"{ours_us:.2f} us, {theirs_us:.2f} us",
                     "no slower than the other library", ours_us <= theirs_us)


def setup(report):
    """Yields the time in which the communicator was made."""
    yield Figure(f"a communicator of {report['ranks']} ranks made", f"{report['setup_ms']:.1f} ms")


def against_floor_and_turns(report):
    """Yields, for processes that share a device, the floor, and how many hand-overs the plan has in a row."""
    told = [device["hand_over_us"] for device in report["devices"] if "hand_over_us" in device]
    if not told:  # the device cannot wait for words
        yield from against_floor(None)(report)
        return
    hand_over = max(told)
    yield Figure(f"the device handed over among {report['ranks']} processes", f"{hand_over:.1f} us")
    counts = {row["bytes"]: row.get("hand_overs", 0) for row in report["results"]}
    for name, size, result in results(report):
        median, floor = result["time_us"]["median"], result["floor_us"]
        most = TURNS_BAR * floor + counts[size] * hand_over
        yield Figure(f"{name}, processes that take turns",
                     f"{median:.1f} us; floor {floor:.1f} us, {counts[size]} hand-overs of {hand_over:.1f} us",
                     f"at most {TURNS_BAR} x floor + hand-overs = {most:.1f} us", median <= most)


def beside_product(bar):
    """Returns a judge of both slow-downs. `bar`, which may be None, is for the product's slow-down."""
    def judge(report):
        for name, _, result in results(report):
            beside = result["beside"]
            slow, covered = beside["slowdown"]["product"], beside["covered"]["product"]
            yield Figure(f"a product of {report['product']['size']} rows beside {name}", slowed(beside, "product"),
                         f"at most {bar:.0%} slower, {COVERED_MIN:.0%} covered" if bar else "",
                         slow <= bar and covered >= COVERED_MIN if bar else None)
            yield Figure(f"{name}, beside that product", slowed(beside, "call"))
    return judge


def slowed(beside, which):
    alone, with_other = (beside[f"{which}_us"][when]["median"] for when in ("alone", "beside"))
    return (f"{alone:.1f} us alone, {with_other:.1f} us beside: {beside['slowdown'][which]:+.1%}, "
            f"{beside['covered'][which]:.0%} covered")


def follows(host_report):
    """Returns a judge of the largest relative difference of any loss from the host's."""
    def judge(report):
        host = json.loads(host_report.read_text(encoding="utf-8"))
        pairs = zip(report["loss"]["train"], host["loss"]["train"], strict=True)
        most = max(abs(mine - other) / other for (_, mine), (_, other) in pairs)
        yield Figure(f"losses of {len(host['loss']['train'])} steps on the device beside the host's",
                     f"differ by {most:.1e} at most", f"at most {FOLLOWS_BAR:.0e}", most <= FOLLOWS_BAR)
    return judge


def overlap(label):
    """Returns a judge of how well communication and computation overlap, as the trainer reports it."""
    def judge(report):
        times, of = report["time_us"], f"{report['model']}, {report['ranks']} ranks ({label})"
        parts = ", ".join(f"{name} {times[name] / 1e3:.1f}" for name in ("forward", "backward", "optimizer", "waiting",
                                                                        "communication", "exposed"))
        yield Figure(f"a step of {of}", f"{times['step'] / 1e3:.1f} ms: {parts}")
        yield Figure(f"computation of {of}", (report["rate"] or {}).get("headline") or "not measured")
        told = report["overlap"] or {}
        yield Figure(f"overlap of {of}", told.get("headline") or "not measured")
        yield Figure(f"overlap efficiency of {of}", told.get("efficiency_text") or "not measured")
        yield Figure(f"computation beside communication over the same alone, {of}",
                     told.get("slowdown_text") or "not measured")
    return judge


def torch_step(report):
    yield Figure(f"a step of the same model by PyTorch {report['torch']}, one rank", f"{report['step_ms']:.1f} ms")


def labelled(judge, label):
    """Returns a judge whose figures have the label, if there is one."""
    def judged(report):
        for figure in judge(report):
            figure.name += f" ({label})" if label else ""
            yield figure
    return judged
