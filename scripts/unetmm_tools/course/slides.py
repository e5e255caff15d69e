# SPDX-License-Identifier: GPL-2.0-or-later
"""Slides of a lab: one HTML file, which needs no other file and no network.

docs/labs/LAB/slides.txt is reStructuredText: its title is the first slide, each section another.
Debian's docutils makes the HTML.
"""

import os
import re

from unetmm_tools.course import labs

DOCUTILS = ["/usr/bin/python3", "-m", "docutils", "--writer=html5", "--stylesheet=",
            "--image-loading=embed", "--no-file-insertion"]

STYLE = """
body { margin: 0; font: 2.2vw/1.5 sans-serif; color: #222; background: #fff; }
.slide { display: none; box-sizing: border-box; padding: 6vh 8vw 2vh; }
h2 + img, h2 + svg { max-height: 72vh; }
.slide.shown { display: block; }
h1 { font-size: 4.4vw; margin: 28vh 0 0; } h2 { font-size: 3.3vw; margin: 0 0 4vh; }
img, svg { max-width: 100%; max-height: 44vh; } li { margin: 1.2vh 0; }
code, .literal { font-family: monospace; background: #eef; padding: 0 .2em; }
#at { position: fixed; right: 2vw; bottom: 2vh; color: #888; font-size: 1.4vw; }
@media print { .slide { display: block; page-break-after: always; } #at { display: none; } }
"""

SCRIPT = """
const slides = [...document.querySelectorAll(".slide")];
let at = 0;
function show(n) {
  at = Math.max(0, Math.min(slides.length - 1, n));
  slides.forEach((slide, i) => slide.classList.toggle("shown", i === at));
  document.getElementById("at").textContent = (at + 1) + " / " + slides.length;
  history.replaceState(null, "", "#" + (at + 1));
}
addEventListener("keydown", event => {
  const step = {ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1}[event.key];
  if (step) { show(at + step); event.preventDefault(); }
  if (event.key === "Home") show(0);
  if (event.key === "End") show(slides.length - 1);
});
addEventListener("click", event => show(at + (event.clientX < innerWidth / 4 ? -1 : 1)));
show((parseInt(location.hash.slice(1)) || 1) - 1);
"""


def page(name):
    """The HTML of a lab's slides."""
    path = os.path.join(labs.FOLDER, name, "slides.txt")
    status, html = labs.ran([*DOCUTILS, os.path.basename(path)], cwd=os.path.dirname(path))
    title = re.search(r"<title>(.*?)</title>", html)
    sections = re.findall(r"<section [^>]*>\s*(<h2>.*?)</section>", html, re.S)
    if status or not title or not sections:
        raise labs.LabError(f"docutils could not read {path}: {html[:300]}")
    parts = [f"<h1>{title[1]}</h1>", *sections]
    slides = "\n".join(f'<div class="slide">{part}</div>' for part in parts)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>{title[1]}</title><style>{STYLE}</style></head><body>\n{slides}\n"
            f'<div id="at"></div><script>{SCRIPT}</script></body></html>\n')


def write(names, place):
    """Writes the slides of these labs into a folder; a sentence."""
    os.makedirs(place, exist_ok=True)
    for name in names:
        with open(os.path.join(place, f"{name}.html"), "w", encoding="utf-8") as file:
            file.write(page(name))
    return f"{place}: slides of {', '.join(names)}; the arrow keys turn them"
