#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the examples of the manual as functions (see man_scene.h).

usage: man_examples.py OUTPUT PAGE...
"""
import os
import re
import sys


def example(page):
    """The text of a page's example as its reader sees it, or None."""
    with open(page, encoding="utf-8") as file:
        match = re.search(r"^\.SH EXAMPLE$.*?^\.EX\n(.*?)^\.EE$", file.read(),
                          flags=re.M | re.S)
    if not match:
        return None
    text = match[1]
    for roff, plain in ((r"\-", "-"), (r"\(aq", "'"), (r"\&", ""),
                        (r"\e", "\\")):
        text = text.replace(roff, plain)
    return text


def main():
    output, pages = sys.argv[1], sys.argv[2:]
    names = []
    with open(output, "w", encoding="utf-8") as file:
        for page in sorted(pages):
            text = example(page)
            if text is None:
                sys.exit(f"{page}: it has no example")
            name = re.sub(r"\W", "_", os.path.basename(page))
            names.append(name)
            file.write(f"static int example_{name}(SCENE)\n{{\n    int ret;\n\n"
                       + re.sub(r"^(?=.)", "    ", text, flags=re.M)
                       + "    return ret;\n}\n\n")
        file.write("static const struct example examples[] = {\n"
                   + "".join(f'    {{ "{name}", example_{name} }},\n'
                             for name in names) + "};\n")


main()
