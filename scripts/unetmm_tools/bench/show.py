# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables and plots of scripts/bench."""

import os
import subprocess

from unetmm_tools.bench.common import POLICIES, SOURCES, BenchError
from unetmm_tools.bench.goals import goals


def show_rows(rows):
    """The table."""
    print(f"{'peer':22} {'mode':30} {'metric':12} {'bytes':>6} {'frame':>6}"
          f" {'median':>9} {'p99':>9} unit")
    for r in rows:
        p99 = f"{r['p99']:9.1f}" if r["p99"] is not None else " " * 9
        extra = "".join(f"  {key} {r[key]}" for key in
                        ("endpoints", "channels", "mib", "tlb_misses", "spread",
                         "requests", "interrupts", "commands", "histogram")
                        if key in r)
        print(f"{r['peer']:22} {r['mode']:30} {r['metric']:12} {r['bytes']:6}"
              f" {r['frame']:6} {r['median']:9.1f} {p99} {r['unit']}{extra}")


def show_matrix(rows):
    """Sources by policies, for each kind of message."""
    cells = {(r["cell_way"], r["cell_source"], r["cell_policy"]): r
             for r in rows if r["metric"] == "cell"}
    for way in sorted({way for way, _, _ in cells}):
        print(f"\n{way + ', one page, us':30}"
              + "".join(f"{policy:>12}" for policy in POLICIES))
        for source in SOURCES:
            line = ""
            for policy in POLICIES:
                r = cells.get((way, source, policy))
                line += (f"{'':>12}" if r is None else f"{'refused':>12}"
                         if r["refused"] else f"{r['median']:12.1f}")
            if line.strip():
                print(f"  {source:28}{line}")


def show_goals(rows):
    """Ratios inside this run."""
    if not goals(rows):
        return
    print(f"\n{'what':44} {'measured':>10} {'aim':>7}")
    for what, value, wanted, reached in goals(rows):
        if wanted is None:
            print(f"{what:44} {value:10.2f}")
        else:
            print(f"{what:44} {value:10.2f} {wanted:7.2f} "
                  f"{'reached' if reached else 'not reached'}")


def plot_lines(path, title, axes, series):
    """An SVG of (label, [(x, y)]) by gnuplot, logarithmic in x."""
    series = [(label, sorted(points)) for label, points in series if points]
    if not series:
        return
    commands = ["set terminal svg size 760,460 background '#ffffff'",
                f"set output '{path}'", f"set title '{title}'",
                f"set xlabel '{axes[0]}'", f"set ylabel '{axes[1]}'",
                "set logscale x 2", "set logscale y", "set grid",
                "set key outside right"]
    commands.append("plot " + ", ".join(
        f"'-' with linespoints title '{label}'" for label, _ in series))
    for _, points in series:
        commands += [f"{x} {y}" for x, y in points] + ["e"]
    done = subprocess.run(["gnuplot"], input="\n".join(commands) + "\n",
                          text=True, check=False, stderr=subprocess.PIPE)
    if done.returncode:
        raise BenchError(f"gnuplot: {done.stderr.strip()}")


def plots(rows, directory):
    """latency.svg, endpoints.svg and memory.svg."""
    os.makedirs(directory, exist_ok=True)
    modes = sorted({r["mode"] for r in rows if r["peer"] == "unetmm"})
    plot_lines(os.path.join(directory, "latency.svg"),
               "One way between two guests", ("bytes", "microseconds"),
               [(f"unetmm, {mode}", [(r["bytes"], r["median"]) for r in rows
                 if r["peer"] == "unetmm" and r["mode"] == mode and
                 r["metric"] == "latency"]) for mode in modes])
    for key, title in (("endpoints", "endpoints in turn"),
                       ("mib", "MiB of buffers")):
        found = [r for r in rows if key in r and r["metric"] == "latency"]
        plot_lines(os.path.join(directory, f"{key}.svg"),
                   "One message on one card", (title, "microseconds"),
                   [(mode, [(r[key], r["median"]) for r in found
                            if r["mode"] == mode])
                    for mode in sorted({r["mode"] for r in found})])
