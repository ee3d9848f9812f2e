# SPDX-License-Identifier: Apache-2.0
"""The picture: for each setting and state, time by size beside ratio by size, both logarithmic."""

import math
from html import escape

from settings import format_size

WIDTH, PANEL_WIDTH, PANEL_HEIGHT = 1080, 420, 240
LEFT, BETWEEN, TOP, SECTION_HEIGHT = 80, 540, 70, 380
OURS = ("#d0342c", "#e8833a")
PEERS = ("#1f6fb4", "#2c9a4b", "#7a4fb0", "#1a9ba8", "#8a6d3b", "#4d4d4d", "#b3399a")
FLOOR = "#9a9a9a"


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
        """Round values on the axis: `steps` of each power of ten."""
        first, last = math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10))
        for power in range(first, last + 1):
            for step in steps:
                if self.low - 1e-9 <= math.log(step * 10.0 ** power) <= self.high + 1e-9:
                    yield step * 10.0 ** power


def text(x, y, what, attributes=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(what)}</text>'


def rule(x1, y1, x2, y2, attributes):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def curve(points, colour, wide, dashed=False):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = f'stroke="{colour}" stroke-width="{2.6 if wide else 1.4}"' + (' stroke-dasharray="5 4"' if dashed else "")
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 if wide else 2}" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" {style}/>' + ("" if dashed else dots)


def frame(left, top, x_axis, y_axis, sizes, y_steps, caption):
    """A panel without its curves."""
    bottom = top + PANEL_HEIGHT
    parts = [text(left, top - 10, caption, 'font-weight="bold"')]
    for size in sizes[::max(1, len(sizes) // 8)]:
        x = x_axis.at(size)
        parts += [rule(x, top, x, bottom, 'stroke="#eee"'),
                  text(x, bottom + 16, format_size(size), 'text-anchor="middle"')]
    for value in y_axis.decades(y_steps):
        y = y_axis.at(value)
        parts += [rule(left, y, left + PANEL_WIDTH, y, 'stroke="#eee"'),
                  text(left - 6, y + 4, f"{value:g}", 'text-anchor="end"')]
    size = f'width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}"'
    parts.append(f'<rect x="{left}" y="{top}" {size} fill="none" stroke="#888"/>')
    return parts


def curves_of(lines, labels):
    """(label, colour, is ours, [(size, us)]) of every contender and the floor."""
    found = []
    for side, colours in ((0, OURS), (1, PEERS)):
        for index, label in enumerate(labels[side]):
            cells = [((line.ours, line.against)[side][index], line.size) for line in lines]
            points = [(size, cell.median) for cell, size in cells if cell]
            found.append((label, colours[index % len(colours)], side == 0, points))
    found.append(("floor", FLOOR, False, [(line.size, line.floor_us) for line in lines if line.floor_us]))
    return [each for each in found if each[3]]


def time_panel(top, lines, curves):
    sizes = [line.size for line in lines]
    x_axis = Axis(sizes, LEFT, LEFT + PANEL_WIDTH)
    y_axis = Axis([us for *_, points in curves for _, us in points], top + PANEL_HEIGHT - 6, top + 6)
    parts = frame(LEFT, top, x_axis, y_axis, sizes, (1,), "time, us")
    for label, colour, ours, points in reversed(curves):  # ours on top
        parts.append(curve([(x_axis.at(size), y_axis.at(us)) for size, us in points], colour, ours, label == "floor"))
    return parts


def ratio_panel(top, setting, lines, labels):
    series = [[(line.size, line.ratios[index]) for line in lines if line.ratios[index]]
              for index in range(len(labels[0]))]
    values = [ratio for points in series for _, ratio in points]
    if not values:
        return []
    bar = setting.bar_ratio
    sizes, left = [line.size for line in lines], LEFT + BETWEEN
    x_axis = Axis(sizes, left, left + PANEL_WIDTH)
    y_axis = Axis([*values, 0.5, 2.0, *([bar] if bar else [])], top + PANEL_HEIGHT - 6, top + 6)
    parts = frame(left, top, x_axis, y_axis, sizes, (1, 2, 5), "ratio to the best; below 1 Rondo is faster")
    level = y_axis.at(1.0)
    parts.append(rule(left, level, left + PANEL_WIDTH, level, 'stroke="#333" stroke-width="1.2"'))
    if bar and bar != 1.0:
        level = y_axis.at(bar)
        parts += [rule(left, level, left + PANEL_WIDTH, level, 'stroke="#2c9a4b" stroke-dasharray="6 3"'),
                  text(left + PANEL_WIDTH - 4, level - 4, f"bar {bar:g}", 'text-anchor="end" fill="#2c9a4b"')]
    for index, points in enumerate(series):
        if points:
            parts.append(curve([(x_axis.at(size), y_axis.at(ratio)) for size, ratio in points], OURS[index % 2], True))
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


def svg(sections):
    """`sections` as of report.sections(); a setting without sizes is no curve and is left out."""
    shown = [section for section in sections if not section[0].create]
    height = max(1, len(shown)) * SECTION_HEIGHT + 20
    size = f'width="{WIDTH}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {size} '
             'font-family="sans-serif" font-size="12">', f'<rect {size} fill="white"/>']
    if not shown:
        parts.append(text(LEFT, 40, "Nothing that counts was measured yet."))
    for index, (setting, state, lines, labels) in enumerate(shown):
        top = index * SECTION_HEIGHT
        curves = curves_of(lines, labels)
        title = setting.title if state == "any" else f"{setting.title}: {state}"
        parts += [text(LEFT - 50, top + 26, title, 'font-size="16" font-weight="bold"')]
        parts += time_panel(top + TOP, lines, curves) + ratio_panel(top + TOP, setting, lines, labels)
        parts += legend(top + TOP + PANEL_HEIGHT + 40, curves)
    return "\n".join([*parts, "</svg>"]) + "\n"
