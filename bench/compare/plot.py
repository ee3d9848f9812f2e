# SPDX-License-Identifier: Apache-2.0
"""Draws the picture. A panel with the ratios of all settings is first. For each setting and state, time by size follows
beside ratio by size. All axes are logarithmic. A hollow point has too few runs."""

import math
from collections import Counter
from dataclasses import dataclass
from html import escape

from results import geometric_mean
from settings import PRIVATE, format_size

WIDTH, LEFT, RIGHT_PANEL, PANEL_WIDTH, PANEL_HEIGHT = 1080, 80, 620, 420, 240
TOP, SECTION_HEIGHT = 70, 380  # of a section: where its panels begin, and all of it
SUMMARY_WIDTH, SUMMARY_HEIGHT, SUMMARY_SECTION_HEIGHT = 560, 400, 580
LABEL_DISTANCE = 40            # between sizes on the axis
OURS = ("#d0342c", "#e8833a")
PEERS = ("#1f6fb4", "#2c9a4b", "#7a4fb0", "#1a9ba8", "#8a6d3b", "#4d4d4d", "#b3399a")
OUTLINES = OURS[:1] + PEERS
FLOOR, GREY = "#9a9a9a", "#666"


class Axis:
    """Logarithms of values onto pixels."""

    def __init__(self, values, begin, end):
        self.low, self.high = math.log(min(values)), math.log(max(values))
        if self.high - self.low < 1e-9:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.begin, self.end = begin, end

    def at(self, value):
        return self.begin + (math.log(value) - self.low) / (self.high - self.low) * (self.end - self.begin)

    def decades(self, steps):
        """Yields round values on the axis: `steps` of each power of ten."""
        first, last = math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10))
        for power in range(first, last + 1):
            for step in steps:
                if self.low - 1e-9 <= math.log(step * 10.0 ** power) <= self.high + 1e-9:
                    yield step * 10.0 ** power


def text(x, y, what, attributes=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(what)}</text>'


def rule(x1, y1, x2, y2, attributes):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def curve(points, colour, wide, dashed=False, dots=True):
    """Draws `points`, which are (x, y, sure)."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    style = f'stroke="{colour}" stroke-width="{2.6 if wide else 1.4}"' + (' stroke-dasharray="5 4"' if dashed else "")
    parts = [f'<polyline points="{path}" fill="none" {style}/>']
    for x, y, sure in points if dots else ():
        fill = f'fill="{colour}"' if sure else f'fill="white" stroke="{colour}" stroke-width="1.4"'
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 if wide else 2}" {fill}/>')
    return "".join(parts)


@dataclass(frozen=True)
class Panel:
    left: int
    top: int
    width: int = PANEL_WIDTH
    height: int = PANEL_HEIGHT

    def axes(self, sizes, values):
        """Returns both axes, with room for the points at the ends."""
        return (Axis(sizes, self.left + 8, self.left + self.width - 8),
                Axis(values, self.top + self.height - 8, self.top + 8))

    def level(self, y, attributes):
        return rule(self.left, y, self.left + self.width, y, attributes)

    def frame(self, x_axis, y_axis, sizes, y_steps, caption):
        """Draws a panel without its curves."""
        bottom, labelled = self.top + self.height, -math.inf
        parts = [text(self.left, self.top - 10, caption, 'font-weight="bold"')]
        for size in sizes:
            x = x_axis.at(size)
            parts.append(rule(x, self.top, x, bottom, 'stroke="#eee"'))
            if x - labelled >= LABEL_DISTANCE:
                parts.append(text(x, bottom + 16, format_size(size), 'text-anchor="middle"'))
                labelled = x
        for value in y_axis.decades(y_steps):
            y = y_axis.at(value)
            parts += [self.level(y, 'stroke="#eee"'), text(self.left - 6, y + 4, f"{value:g}", 'text-anchor="end"')]
        size = f'width="{self.width}" height="{self.height}"'
        parts.append(f'<rect x="{self.left}" y="{self.top}" {size} fill="none" stroke="#888"/>')
        return parts


def at(x_axis, y_axis, points):
    return [(x_axis.at(size), y_axis.at(value), sure) for size, value, sure in points]


def curves_of(lines, labels):
    """Returns (label, colour, is ours, [(size, us, sure)]) of every contender and the floor."""
    found = []
    for side, colours in ((0, OURS), (1, PEERS)):
        for index, label in enumerate(labels[side]):
            cells = [((line.ours, line.against)[side][index], line.size) for line in lines]
            points = [(size, cell.median, cell.enough) for cell, size in cells if cell]
            found.append((label, colours[index % len(colours)], side == 0, points))
    found.append(("floor", FLOOR, False, [(line.size, line.floor_us, True) for line in lines if line.floor_us]))
    return [each for each in found if each[3]]


def time_panel(top, lines, curves):
    panel, sizes = Panel(LEFT, top), [line.size for line in lines]
    axes = panel.axes(sizes, [us for *_, points in curves for _, us, _ in points])
    parts = panel.frame(*axes, sizes, (1,), "time, us")
    for label, colour, ours, points in reversed(curves):  # ours on top
        parts.append(curve(at(*axes, points), colour, ours, label == "floor", label != "floor"))
    return parts


def ratio_panel(top, setting, lines, labels):
    series = [[(line.size, line.ratios[index], line.sure[index]) for line in lines if line.ratios[index]]
              for index in range(len(labels[0]))]
    values = [ratio for points in series for _, ratio, _ in points]
    if not values:
        return []
    bar, panel, sizes = setting.bar_ratio, Panel(RIGHT_PANEL, top), [line.size for line in lines]
    axes = panel.axes(sizes, [*values, 0.5, 2.0, *([bar] if bar else [])])
    caption = "ratio to the best; below 1 Rondo is faster" if setting.against_peers else f"ratio to {labels[1][0]}"
    parts = panel.frame(*axes, sizes, (1, 2, 5), caption)
    parts.append(panel.level(axes[1].at(1.0), 'stroke="#333" stroke-width="1.2"'))
    if bar and bar != 1.0:
        y = axes[1].at(bar)
        parts += [panel.level(y, 'stroke="#2c9a4b" stroke-dasharray="6 3"'),
                  text(panel.left + panel.width - 4, y - 4, f"bar {bar:g}", 'text-anchor="end" fill="#2c9a4b"')]
    for index, points in enumerate(series):
        if points:
            parts.append(curve(at(*axes, points), OURS[index % 2], True))
    return parts


@dataclass(frozen=True)
class Outline:
    """A setting in the summary: the ratio at each size that has enough runs, of several of ours the greatest."""
    setting: object
    colour: str
    dashed: bool
    size_count: int
    points: list


def outlines(sections, sizes):
    """Returns (state, outlines) of the state that has the most ratios with enough runs; a setting without peers has
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


def summary_legend(left, top, shown):
    parts = [text(left, top - 10, "geometric mean", 'font-weight="bold"')]
    for index, each in enumerate(shown):
        y = top + 22 + 44 * index
        mean = f"{geometric_mean([ratio for _, ratio, _ in each.points]):.2f}"
        over = f"{each.setting.name}, {len(each.points)} of {each.size_count} sizes"
        swatch = [(left + step, y - 4, True) for step in (0, 15, 30)]
        parts += [curve(swatch, each.colour, not each.dashed, each.dashed),
                  text(left + 42, y, mean, f'font-size="15" font-weight="bold" fill="{each.colour}"'),
                  text(left + 86, y, over),
                  text(left + 42, y + 17, each.setting.title, f'fill="{GREY}" font-size="11"')]
    return parts


def summary(sections, wanted):
    """Returns the panel that summarises all; empty if no ratio has enough runs."""
    state, shown = outlines(sections, wanted)
    if not shown:
        return []
    panel = Panel(LEFT, TOP, SUMMARY_WIDTH, SUMMARY_HEIGHT)
    sizes = sorted({size for each in shown for size, *_ in each.points})
    axes = panel.axes(sizes, [1.5, 0.5, *(ratio for each in shown for _, ratio, _ in each.points)])
    title = "Rondo's time by that of the best peer" + ("" if state == "any" else f": {state}")
    below = panel.top + panel.height + 40
    parts = ['<g id="summary">', text(LEFT - 50, 26, title, 'font-size="18" font-weight="bold"'),
             *panel.frame(*axes, sizes, (1, 1.5, 2, 3, 4, 5, 7), "below 1 Rondo is faster"),
             panel.level(axes[1].at(1.0), 'stroke="#333" stroke-width="1.8"')]
    parts += [curve(at(*axes, each.points), each.colour, not each.dashed, each.dashed) for each in shown]
    parts += summary_legend(panel.left + panel.width + 30, panel.top, shown)
    notes = ("Dashed: buffers that peers can map, allocated or registered, whichever is slower. Only sizes with enough "
             "runs.", "Further down: each setting and state; hollow points have too few runs.")
    parts += [text(LEFT, below + 18 * index, note, f'fill="{GREY}"') for index, note in enumerate(notes)]
    parts.append("</g>")
    return parts


def legend(top, curves):
    parts, x, y = [], LEFT, top
    for label, colour, ours, _ in curves:
        width = 44 + 7 * len(label)
        if x + width > WIDTH - 20:
            x, y = LEFT, y + 18
        dash = ' stroke-dasharray="5 4"' if label == "floor" else ""
        parts += [rule(x, y - 4, x + 22, y - 4, f'stroke="{colour}" stroke-width="{3 if ours else 2}"{dash}'),
                  text(x + 28, y, label)]
        x += width
    return parts


def svg(sections, sizes):
    """`sections` as of report.sections(); a setting without sizes is no curve and is left out."""
    shown = [section for section in sections if not section[0].create]
    first = summary(shown, sizes)
    begin = SUMMARY_SECTION_HEIGHT if first else 0
    height = begin + max(1, len(shown)) * SECTION_HEIGHT + 20
    size = f'width="{WIDTH}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {size} '
             'font-family="sans-serif" font-size="12">', f'<rect {size} fill="white"/>', *first]
    if not shown:
        parts.append(text(LEFT, 40, "Nothing that counts was measured yet."))
    for index, (setting, state, lines, labels) in enumerate(shown):
        top = begin + index * SECTION_HEIGHT
        curves = curves_of(lines, labels)
        title = setting.title if state == "any" else f"{setting.title}: {state}"
        parts += [text(LEFT - 50, top + 26, title, 'font-size="16" font-weight="bold"')]
        parts += time_panel(top + TOP, lines, curves) + ratio_panel(top + TOP, setting, lines, labels)
        parts += legend(top + TOP + PANEL_HEIGHT + 40, curves)
    return "\n".join([*parts, "</svg>"]) + "\n"
