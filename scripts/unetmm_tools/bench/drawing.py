# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures as SVG files, without other programs: shapes, and a chart of lines."""

import html
import math

# (fill, stroke) of a system, the same in all figures
COLOURS = {
    "common": ("#f4f5f7", "#5a6472"),
    "unetmm": ("#dcebfb", "#1f6fb5"),
    "vmmc": ("#ddf3e0", "#2f8a43"),
    "netvm": ("#fdecd2", "#c77a0a"),
    "npf": ("#eee0f8", "#7d3fb0"),
}

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" \
height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" \
font-size="12">
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- made by {maker} -->
<title>{title}</title>
<rect width="{width}" height="{height}" fill="#ffffff"/>
"""


class Drawing:
    """The elements of one SVG file; all lengths are pixels."""

    def __init__(self, title, width, height, maker="scripts/figures"):
        self.out = [HEAD.format(title=html.escape(title), width=width,
                                height=height, maker=maker)]
        self.markers = set()

    def text(self, place, words, anchor="middle", **style):
        """One line of text; place is (x, y of the base line)."""
        style = "".join(f' {key.replace("_", "-")}="{value}"'
                        for key, value in style.items())
        self.out.append(f'<text x="{place[0]}" y="{place[1]}" '
                        f'text-anchor="{anchor}"{style}>{html.escape(words)}'
                        "</text>\n")

    def box(self, corner, size, colour, lines=()):
        """A rectangle with lines of text in its middle, the first one bold."""
        fill, stroke = COLOURS[colour]
        self.out.append(f'<rect x="{corner[0]}" y="{corner[1]}" '
                        f'width="{size[0]}" height="{size[1]}" rx="5" '
                        f'fill="{fill}" stroke="{stroke}"/>\n')
        first = corner[1] + size[1] / 2 + 4 - 8 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text((corner[0] + size[0] / 2, first + 16 * number), line,
                      font_weight="normal" if number else "bold")

    def arrow(self, start, end, colour):
        """A straight line with a head at its end."""
        stroke = COLOURS[colour][1]
        if colour not in self.markers:
            self.markers.add(colour)
            self.out.append(
                f'<defs><marker id="{colour}" viewBox="0 0 8 8" refX="7" '
                'refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                f'<path d="M0,0 L8,4 L0,8 z" fill="{stroke}"/></marker>'
                "</defs>\n")
        self.out.append(f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" '
                        f'y2="{end[1]}" stroke="{stroke}" stroke-width="1.6" '
                        f'marker-end="url(#{colour})"/>\n')

    def bar(self, corner, size, fill, stroke):
        """A rectangle of a chart."""
        self.out.append(f'<rect x="{corner[0]:.1f}" y="{corner[1]:.1f}" '
                        f'width="{size[0]:.1f}" height="{size[1]:.1f}" '
                        f'fill="{fill}" stroke="{stroke}"/>\n')

    def line(self, start, end):
        """A thin grey line."""
        self.out.append(f'<line x1="{start[0]}" y1="{start[1]:.1f}" '
                        f'x2="{end[0]}" y2="{end[1]:.1f}" stroke="#c5cad1"/>\n')

    def path(self, points, colour, dashes="none"):
        """A line from point to point."""
        dashed = "" if dashes == "none" else f'stroke-dasharray="{dashes}" '
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.out.append(f'<polyline points="{text}" fill="none" {dashed}'
                        f'stroke="{COLOURS[colour][1]}" '
                        'stroke-width="1.6"/>\n')

    def dot(self, place, colour):
        """A point of a curve."""
        self.out.append(f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" '
                        f'r="3.5" fill="{COLOURS[colour][1]}"/>\n')

    def svg(self):
        """The whole file."""
        return "".join(self.out) + "</svg>\n"


# ---- A chart of lines ----------------------------------------------------------

DASHES = ("none", "7 3", "2 3")
# As many lines differ in colour or dashes.
MOST_LINES = len(COLOURS) * len(DASHES)
LEFT, TOP, HIGH, STEP, ROW = 64, 74, 230, 84, 18


def scale_of(most):
    """(step, number of steps) of a value axis that begins at 0: 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(most / 5)) if most > 0 else 1
    step = next(n * power for n in (1, 2, 5, 10) if 5 * n * power >= most)
    return step, max(math.ceil(most / step), 1)


def draw_axes(drawing, width, names, xs, scale):
    """Draws both axes with their names, and a thin line for each step of the values."""
    step, count = scale
    for number in range(count + 1):
        y = TOP + HIGH - HIGH * number / count
        drawing.line((LEFT, y), (width - 20, y))
        drawing.text((LEFT - 6, round(y + 4, 1)), f"{number * step:g}", "end")
    for number, x in enumerate(xs):
        drawing.text((LEFT + STEP * (number + 0.5), TOP + HIGH + 18), f"{x}")
    drawing.text((LEFT, TOP - 10), names[1], "start", font_size=11)
    drawing.text((LEFT + STEP * len(xs) / 2, TOP + HIGH + 36), names[0], font_size=11)


def draw_lines(title, note, names, curves, maker):
    """The text of a chart.

    note    a line below the title, for all that is the same in each curve
    names   of the axis below, and of the axis of values, with its unit
    curves  {name: {x: value}}, of MOST_LINES at most; all x are evenly spaced
    """
    xs = sorted({x for of in curves.values() for x in of})
    scale = scale_of(max(value for of in curves.values() for value in of.values()))
    width = max(LEFT + STEP * len(xs) + 30, 40 + 7 * max(map(len, (title, note, *curves))))
    drawing = Drawing(title, width, TOP + HIGH + 50 + ROW * len(curves), maker)
    drawing.text((12, 20), title, "start", font_weight="bold", font_size=13)
    drawing.text((12, 40), note, "start", font_size=11)
    draw_axes(drawing, width, names, xs, scale)
    for number, (name, of) in enumerate(curves.items()):
        colour = list(COLOURS)[number % len(COLOURS)]
        dashes = DASHES[number // len(COLOURS)]
        points = [(LEFT + STEP * (xs.index(x) + 0.5),
                   TOP + HIGH - HIGH * of[x] / (scale[0] * scale[1])) for x in xs if x in of]
        y = TOP + HIGH + 56 + ROW * number
        drawing.path(points, colour, dashes)
        drawing.path([(LEFT, y - 4), (LEFT + 36, y - 4)], colour, dashes)
        for point in (*points, (LEFT + 18, y - 4)):
            drawing.dot(point, colour)
        drawing.text((LEFT + 44, y), name, "start")
    return drawing.svg()
