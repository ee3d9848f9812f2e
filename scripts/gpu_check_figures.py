# SPDX-License-Identifier: Apache-2.0
"""Turns the reports of `rondo perf` into figures for scripts/gpu-check, and holds the bars that they are to meet."""

from dataclasses import dataclass

MIB = 1 << 20
FLOOR_BAR = 1.2        # times the floor: 2 and 8 ranks as threads, float32 sum, 256 MiB
LATENCY_BAR_US = 4.0   # 8 B to 32 KiB, 8 ranks, replayed
TURNS_BAR = 2.0        # times the floor, and the measured hand-overs, of processes that share the device
BESIDE_BAR = 0.03      # a large matrix product slows by so much beside a copy-engine all-gather
COVERED_MIN = 0.9    # of the product's time, for that to say anything


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


def times(report):
    """Yields (bytes, placement, median us, floor us) of each result."""
    for row in report["results"]:
        for placement in ("out_of_place", "in_place"):
            if row[placement] is not None:
                yield row["bytes"], placement, row[placement]["time_us"]["median"], row[placement]["floor_us"]


def against_floor(bar):
    """Returns a judge of each result as a multiple of its floor; `bar` may be None."""
    def judge(report):
        for size, placement, median, floor in times(report):
            ratio = median / floor if floor > 0 else float("inf")
            yield Figure(f"{report['collective']}, {report['ranks']} ranks, {size_name(size)}, "
                         f"{placement.replace('_', ' ')}",
                         f"{median:.1f} us = {ratio:.2f} x floor {floor:.1f} us",
                         f"at most {bar} x floor" if bar else "", ratio <= bar if bar else None)
    return judge


def latency(report):
    for size, placement, median, _ in times(report):
        yield Figure(f"{report['collective']}, {report['ranks']} ranks, {size_name(size)}, "
                     f"{placement.replace('_', ' ')}, replayed", f"{median:.2f} us",
                     f"at most {LATENCY_BAR_US} us", median <= LATENCY_BAR_US)


def setup(report):
    """Yields the time in which the communicator was made."""
    yield Figure(f"a communicator of {report['ranks']} ranks made", f"{report['setup_ms']:.1f} ms")


def and_setup(judge):
    def judged(report):
        yield from setup(report)
        yield from judge(report)
    return judged


def against_floor_and_turns(report):
    """Yields for processes that share a device the floor, and the hand-overs that the plan has in a row."""
    told = [device["hand_over_us"] for device in report["devices"] if "hand_over_us" in device]
    if not told:  # the device cannot wait for words
        yield from against_floor(None)(report)
        return
    hand_over = max(told)
    yield Figure(f"the device handed over among {report['ranks']} processes", f"{hand_over:.1f} us")
    counts = {row["bytes"]: row.get("hand_overs", 0) for row in report["results"]}
    for size, placement, median, floor in times(report):
        most = TURNS_BAR * floor + counts[size] * hand_over
        yield Figure(f"{report['collective']}, {report['ranks']} processes that take turns, {size_name(size)}, "
                     f"{placement.replace('_', ' ')}",
                     f"{median:.1f} us; floor {floor:.1f} us, {counts[size]} hand-overs of {hand_over:.1f} us",
                     f"at most {TURNS_BAR} x floor + hand-overs = {most:.1f} us", median <= most)


def beside_product(bar):
    """Returns a judge of both slow-downs; `bar`, which may be None, is the product's."""
    def judge(report):
        product = report["product"]
        for row in report["results"]:
            for placement in ("out_of_place", "in_place"):
                if row[placement] is None:
                    continue
                beside = row[placement]["beside"]
                what = f"{report['collective']}, {report['ranks']} ranks, {size_name(row['bytes'])}"
                slow, covered = beside["slowdown"]["product"], beside["covered"]["product"]
                yield Figure(f"a product of {product['size']} rows beside {what}", slowed(beside, "product"),
                             f"at most {bar:.0%} slower, {COVERED_MIN:.0%} covered" if bar else "",
                             slow <= bar and covered >= COVERED_MIN if bar else None)
                yield Figure(f"{what}, beside that product", slowed(beside, "call"))
    return judge


def slowed(beside, which):
    alone, with_other = (beside[f"{which}_us"][when]["median"] for when in ("alone", "beside"))
    return (f"{alone:.1f} us alone, {with_other:.1f} us beside: {beside['slowdown'][which]:+.1%}, "
            f"{beside['covered'][which]:.0%} covered")


def labelled(judge, label):
    def judged(report):
        for figure in judge(report):
            figure.name += f" ({label})"
            yield figure
    return judged
