# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures as SVG files, without other programs: shapes, and a chart of lines, that one as PDF, too."""

import html
import math
import textwrap

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

    file = svg


# The widths of Helvetica's characters from the space on, in thousandths of the size of the letters
WIDTHS = (278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, *[556] * 10,
          278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667,
          556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278,
          469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
          556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584)
CURVE = 0.5523                  # of a radius: the control points of a quarter of a circle


class Pdf:
    """The elements of a chart in a PDF file of one page, with the calls of Drawing."""

    def __init__(self, title, width, height, maker):
        self.names = title, maker
        self.size = width, height
        self.out = [f"1 0 0 -1 0 {height} cm 1 1 1 rg 0 0 {width} {height} re f"]

    @staticmethod
    def colour(text):
        """#5a6472 as PDF has it."""
        return " ".join(f"{int(text[at:at + 2], 16) / 255:.3f}" for at in (1, 3, 5))

    @staticmethod
    def string(words):
        """A string of PDF, in Latin-1."""
        return "(" + "".join("\\" + letter if letter in "()\\" else letter for letter in
                             words.encode("latin-1", "replace").decode("latin-1")) + ")"

    def text(self, place, words, anchor="middle", **style):
        """One line of text; place is (x, y of the base line)."""
        size = style.get("font_size", 12)
        wide = size * sum(WIDTHS[ord(letter) - 32] if " " <= letter <= "~" else 556
                          for letter in words) / 1000
        x = place[0] - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        font = "/B" if style.get("font_weight") == "bold" else "/F"
        self.out.append(f"0 0 0 rg BT {font} {size} Tf 1 0 0 -1 {x:.1f} {place[1]:.1f} Tm "
                        f"{self.string(words)} Tj ET")

    def line(self, start, end):
        """A thin grey line."""
        self.out.append(f"{self.colour('#c5cad1')} RG 1 w [] 0 d {start[0]} {start[1]:.1f} m "
                        f"{end[0]} {end[1]:.1f} l S")

    def path(self, points, colour, dashes="none"):
        """A line from point to point."""
        dashed = "" if dashes == "none" else dashes
        way = " ".join(f"{x:.1f} {y:.1f} {'l' if number else 'm'}"
                       for number, (x, y) in enumerate(points))
        self.out.append(f"{self.colour(COLOURS[colour][1])} RG 1.6 w [{dashed}] 0 d {way} S")

    def dot(self, place, colour):
        """A point of a curve."""
        x, y = place
        r, c = 3.5, 3.5 * CURVE
        self.out.append(
            f"{self.colour(COLOURS[colour][1])} rg {x + r:.1f} {y:.1f} m " + " ".join(
                f"{x + a * r + b * c:.2f} {y + b * r - a * c:.2f} "
                f"{x + a * c + b * r:.2f} {y + b * c - a * r:.2f} "
                f"{x + b * r:.2f} {y - a * r:.2f} c" for a, b in ((1, 0), (0, -1), (-1, 0), (0, 1))) +
            " f")

    def file(self):
        """The whole file."""
        stream = "\n".join(self.out).encode("latin-1")
        width, height = self.size
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /{} /Encoding /WinAnsiEncoding >>"
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R "
            "/Resources << /Font << /F 5 0 R /B 6 0 R >> >> >>".encode(),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
            font.format("Helvetica").encode(), font.format("Helvetica-Bold").encode(),
            f"<< /Title {self.string(self.names[0])} /Creator {self.string(self.names[1])} >>"
            .encode("latin-1")]
        out, places = b"%PDF-1.4\n", []
        for number, content in enumerate(objects, 1):
            places.append(len(out))
            out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
        rows = "".join(f"{place:010} 00000 n \n" for place in places)
        return out + (f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}trailer\n<< /Size "
                      f"{len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n"
                      f"{len(out)}\n%%EOF\n").encode()


# ---- A chart of lines ----------------------------------------------------------

DASHES = ("none", "7 3", "2 3")
# As many lines differ in colour or dashes.
MOST_LINES = len(COLOURS) * len(DASHES)
LEFT, TOP, HIGH, STEP, ROW = 64, 74, 230, 84, 18
LONG = 88                       # letters of a line of the note


def scale_of(most):
    """(step, number of steps) of a value axis that begins at 0: 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(most / 5)) if most > 0 else 1
    step = next(n * power for n in (1, 2, 5, 10) if 5 * n * power >= most)
    return step, max(math.ceil(most / step), 1)


def draw_axes(drawing, place, names, xs, scale):
    """Draws both axes with their names, and a thin line for each step of the values.

    place  (width, y of the top)
    xs     {x: its place}
    """
    width, top = place
    step, count = scale
    for number in range(count + 1):
        y = top + HIGH - HIGH * number / count
        drawing.line((LEFT, y), (width - 20, y))
        drawing.text((LEFT - 6, round(y + 4, 1)), f"{number * step:g}", "end")
    for x, at in xs.items():
        drawing.text((at, top + HIGH + 18), f"{x}")
    drawing.text((LEFT, top - 10), names[1], "start", font_size=11)
    drawing.text(((min(xs.values()) + max(xs.values())) / 2, top + HIGH + 36), names[0],
                 font_size=11)


def places_of(xs, wide, logarithmic):
    """{x: its place}: all x evenly spaced, or by their logarithms."""
    apart = wide // len(xs)
    first, last = LEFT + apart * 0.5, LEFT + apart * (len(xs) - 0.5)
    if not logarithmic or len(xs) < 2:
        return {x: LEFT + apart * (number + 0.5) for number, x in enumerate(xs)}
    whole = math.log(xs[-1] / xs[0])
    return {x: round(first + (last - first) * math.log(x / xs[0]) / whole, 1) for x in xs}


def draw_lines(title, note, names, curves, maker, kind=Drawing, logarithmic=False):
    """The file of a chart: the text of an SVG file, or with kind=Pdf the bytes of a PDF file.

    note    lines below the title, for all that is the same in each curve
    names   of the axis below, and of the axis of values, with its unit
    curves  {name: {x: value}}, of MOST_LINES at most; all x are evenly spaced, or
            logarithmic: by their logarithms
    """
    xs = sorted({x for of in curves.values() for x in of})
    scale = scale_of(max(value for of in curves.values() for value in of.values()))
    notes = textwrap.wrap(note, LONG)
    width = max(LEFT + STEP * len(xs) + 30, 40 + 7 * max(map(len, (title, *notes, *curves))))
    top = TOP + ROW * (len(notes) - 1)
    places = places_of(xs, width - LEFT - 30, logarithmic)
    drawing = kind(title, width, top + HIGH + 50 + ROW * len(curves), maker)
    drawing.text((12, 20), title, "start", font_weight="bold", font_size=13)
    for number, line in enumerate(notes):
        drawing.text((12, 40 + ROW * number), line, "start", font_size=11)
    draw_axes(drawing, (width, top), names, places, scale)
    for number, (name, of) in enumerate(curves.items()):
        colour = list(COLOURS)[number % len(COLOURS)]
        dashes = DASHES[number // len(COLOURS)]
        points = [(places[x], top + HIGH - HIGH * of[x] / (scale[0] * scale[1]))
                  for x in xs if x in of]
        y = top + HIGH + 56 + ROW * number
        drawing.path(points, colour, dashes)
        drawing.path([(LEFT, y - 4), (LEFT + 36, y - 4)], colour, dashes)
        for point in (*points, (LEFT + 18, y - 4)):
            drawing.dot(point, colour)
        drawing.text((LEFT + 44, y), name, "start")
    return drawing.file()
