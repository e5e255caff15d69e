# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors of the points, their reasons, and tables of text."""



LIMIT = 0.15                    # of a held-out point's error, unexplained


def held_out(points):
    """Points whose errors count."""
    return [p for p in points if p["class"] == "held-out"]


def unexplained(points):
    """Held-out points that are too far off and have no explanation."""
    return [p for p in held_out(points)
            if abs(p["error"]) > LIMIT and not p["explained"]]


def needless(points):
    """Held-out points that have an explanation and need none."""
    return [p for p in held_out(points)
            if abs(p["error"]) <= LIMIT and p["explained"]]


def number(value):
    """Four digits that count."""
    if value is None:
        return "–"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def percent(error):
    """With its sign."""
    return "–" if error is None else f"{100 * error:+.1f} %"


def summary(points):
    """Three sentences."""
    held = held_out(points)
    errors = [abs(p["error"]) for p in held]
    within = sum(e <= LIMIT for e in errors)
    far = len(by_cost(points))
    return (f"{len(held)} held-out points: mean error "
            f"{100 * sum(errors) / len(errors):.1f} %, largest "
            f"{100 * max(errors):.1f} %; {within} within "
            f"{100 * LIMIT:.0f} %, {len(held) - within} further off, by {far} "
            "missing costs.")


def table(points):
    """The table of all points, as lines of text."""
    rows = [("id", "x", "expected", "got", "unit", "error", "class",
             "inputs")]
    rows += [(p["id"], p["x"], number(p["expected"]), number(p["got"]),
              p["unit"], percent(p["error"]), p["class"], p["inputs"])
             for p in points]
    return columns(rows)


def columns(rows):
    """Lines of text, from rows of cells."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths))
            .rstrip() for row in rows]


def rst_rows(rows):
    """The lines of a list-table."""
    return [(("   * -" if i == 0 else "     -") + " " + cell).rstrip()
            for row in rows for i, cell in enumerate(row)]


def firsts(points):
    """For each point the first one of its figure."""
    first = {}
    return [first.setdefault(p["id"], p) for p in points]


def by_cost(points):
    """{cost: "R1 40, N10M 2^-9 2^-10"}"""
    costs = {}
    for p in held_out(points):
        if p["explained"]:
            costs.setdefault(p["explained"], []).append(
                f"{p['id']} {p['x']}")
    return {cost: ", ".join(of) for cost, of in costs.items()}
