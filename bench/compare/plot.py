# SPDX-License-Identifier: Apache-2.0
"""Draws the picture by matplotlib. The first panel has the ratios of all settings. For each setting and state, a panel
of time by size and a panel of ratio by size follow. All axes are logarithmic. A hollow point has too few runs."""

import importlib.util
from collections import Counter
from dataclasses import dataclass

from peers import Missing
from results import geometric_mean
from settings import PRIVATE, format_size

OURS = ("#d0342c", "#e8833a")
PEERS = ("#1f6fb4", "#2c9a4b", "#7a4fb0", "#1a9ba8", "#8a6d3b", "#4d4d4d", "#b3399a")
OUTLINES = OURS[:1] + PEERS
FLOOR = "#9a9a9a"
HOLLOW = "_hollow"  # label of a curve's points that have too few runs; a legend leaves it out


def require():
    """Fails with Missing if there is no matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Missing("a picture is drawn by matplotlib, which is not installed: apt-get install python3-matplotlib")


def new_figure(rows=1):
    from matplotlib.figure import Figure
    return Figure(figsize=(12, 4.5 * rows), layout="constrained")


def save(figure, path):
    """Writes an SVG. The same picture always gives the same file."""
    import matplotlib
    with matplotlib.rc_context({"svg.hashsalt": "rondo", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def frame(panel, sizes, caption, steps=(1,)):
    """Sets up a panel with `steps` labels for each power of ten."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter
    panel.set(xscale="log", yscale="log")
    panel.yaxis.set_major_locator(LogLocator(subs=steps))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.set_title(caption, loc="left", fontsize="medium")
    panel.set_xticks(sizes, [format_size(size) for size in sizes], fontsize="small")
    panel.minorticks_off()
    panel.grid(color="#eee")


def curve(panel, points, **style):
    """Draws `points`, which are (x, y, sure)."""
    sure = [index for index, point in enumerate(points) if point[2]]
    panel.plot([x for x, *_ in points], [y for _, y, _ in points], marker="o", markersize=4, markevery=sure, **style)
    hollow = [point for point in points if not point[2]]
    if hollow:
        panel.plot([x for x, *_ in hollow], [y for _, y, _ in hollow], "o", markersize=4, markerfacecolor="white",
                   color=style["color"], label=HOLLOW)


def time_panel(panel, lines, labels):
    frame(panel, [line.size for line in lines], "time, us")
    for side, colours in ((0, OURS), (1, PEERS)):
        for index, label in enumerate(labels[side]):
            cells = [((line.ours, line.against)[side][index], line.size) for line in lines]
            points = [(size, cell.median, cell.enough) for cell, size in cells if cell]
            if points:
                curve(panel, points, label=label, color=colours[index % len(colours)], linewidth=2.4 - side)
    floor = [(line.size, line.floor_us) for line in lines if line.floor_us]
    if floor:
        panel.plot(*zip(*floor), "--", label="floor", color=FLOOR)
    panel.legend(fontsize="small")


def ratio_panel(panel, setting, lines, labels):
    best = "the best; below 1 Rondo is faster" if setting.against_peers else labels[1][0]
    frame(panel, [line.size for line in lines], f"ratio to {best}", (1, 2, 5))
    panel.axhline(1.0, color="#333")
    if setting.bar_ratio and setting.bar_ratio != 1.0:
        panel.axhline(setting.bar_ratio, color="#2c9a4b", linestyle="--", label=f"bar {setting.bar_ratio:g}")
    for index, label in enumerate(labels[0]):
        points = [(line.size, line.ratios[index], line.sure[index]) for line in lines if line.ratios[index]]
        if points:
            curve(panel, points, label=label, color=OURS[index % 2], linewidth=2.4)
    panel.legend(fontsize="small")


@dataclass(frozen=True)
class Outline:
    """A setting in the summary: the ratio at each size with enough runs, or the greatest ratio if there are several."""
    setting: object
    colour: str
    dashed: bool
    size_count: int
    points: list

    def label(self):
        mean = geometric_mean([ratio for _, ratio, _ in self.points])
        return f"{mean:.2f}  {self.setting.name}, {len(self.points)} of {self.size_count} sizes"


def outlines(sections, sizes):
    """Returns (state, outlines) for the state with the most ratios that have enough runs. A setting without peers has
    none."""
    sections = [section for section in sections if section[0].against_peers]
    counts = Counter()
    for _, state, lines, _ in sections:
        counts[state] += sum(sum(line.sure) for line in lines)
    if not counts.total():
        return None, []
    state, found, colours = counts.most_common(1)[0][0], [], {}
    for setting, where, lines, _ in sections:
        points = [(line.size, max(ratio for ratio, sure in zip(line.ratios, line.sure) if sure), True)
                  for line in lines if any(line.sure)]
        if where == state and points:
            colour = colours.setdefault((setting.ranks, setting.in_place), OUTLINES[len(colours) % len(OUTLINES)])
            found.append(Outline(setting, colour, setting.ours != PRIVATE, len(setting.sizes(sizes)), points))
    return state, found


def summary(panel, state, shown):
    """Draws the panel that summarises all settings. A dashed line is for buffers that peers can map. It shows the
    slower one of the two kinds of such buffers."""
    title = "Rondo's time by that of the best peer" + ("" if state == "any" else f": {state}")
    frame(panel, sorted({size for each in shown for size, *_ in each.points}), title, (1, 1.5, 2, 3, 5))
    panel.set_gid("summary")
    panel.axhline(1.0, color="#333", linewidth=1.8)
    for each in shown:
        curve(panel, each.points, label=each.label(), color=each.colour, linestyle="--" if each.dashed else "-")
    panel.legend(title="geometric mean; below 1 Rondo is faster", fontsize="small")


def picture(sections, sizes):
    """Draws `sections`, the result of report.sections(). A setting without sizes has no curve and is left out."""
    shown = [section for section in sections if not section[0].create]
    state, outlined = outlines(shown, sizes)
    first = 1 if outlined else 0
    rows = max(1, first + len(shown))
    made = new_figure(rows)
    grid = made.add_gridspec(rows, 2)
    if not shown:
        made.text(0.05, 0.5, "Nothing that counts was measured yet.")
    if outlined:
        summary(made.add_subplot(grid[0, :]), state, outlined)
    for row, (setting, state, lines, labels) in enumerate(shown, first):
        left, right = (made.add_subplot(grid[row, column]) for column in (0, 1))
        time_panel(left, lines, labels)
        ratio_panel(right, setting, lines, labels)
        title = setting.title if state == "any" else f"{setting.title}: {state}"
        left.set_title(f"{title}\ntime, us", loc="left", fontsize="medium", fontweight="bold")
    return made
