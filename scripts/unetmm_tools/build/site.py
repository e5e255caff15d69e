#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the site of the documents: scripts/setup docs calls this.

usage: site.py ROOT OUTPUT

The pages of docs/, the README and the manual pages, by Sphinx, into OUTPUT/html.  Every
warning is an error.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

# Debian's Sphinx belongs to Debian's Python, which may not be the first one of PATH.
SPHINX = ["/usr/bin/python3", "-m", "sphinx"]
SPDX = ".. SPDX-License-Identifier: GPL-2.0-or-later\n\n"


def write(path, text):
    """A file, and its directory."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def read(path):
    """A file's text."""
    with open(path, encoding="utf-8") as f:
        return f.read()


def name_section(path):
    """(the names, the description) of a manual page's section NAME."""
    found = re.search(r'^\.SH "?NAME"?\n(.*?)^\.SH', read(path), re.M | re.S)
    if not found:
        sys.exit(f"{path}: there is no section NAME")
    names, _, words = " ".join(found.group(1).replace("\\-", "-").split()
                               ).partition(" - ")
    return [name.strip() for name in names.split(",")], words


def linked(html, pages):
    """Links from the names of other manual pages, as man(7) writes them."""
    def link(match):
        page = pages.get((match.group(1), match.group(2)))
        return f'<a href="{page}.html">{match.group(0)}</a>' if page else match.group(0)
    return re.sub(r"<b>(\w[\w-]*)</b>\((\d)\)", link, html)


def manual_pages(root, out):
    """A page for each manual page, a list of them, and names.json for conf.py's links."""
    entries = []
    paths = sorted(glob.glob(os.path.join(root, "guest-lib/man/*.[1-8]")),
                   key=lambda p: (p[-1] != "7", p[-1], p))
    pages = {(name, path[-1]): os.path.basename(path)
             for path in paths for name in name_section(path)[0]}
    for path in paths:
        name, section = os.path.basename(path).rsplit(".", 1)
        html = subprocess.run(["mandoc", "-Thtml", "-Ofragment", path], check=True,
                              capture_output=True, text=True).stdout
        html = "\n".join("   " + line for line in linked(html, pages).splitlines())
        title = f"{name}({section})"
        write(os.path.join(out, f"{name}.{section}.rst"),
              f"{SPDX}{title}\n{'=' * len(title)}\n\n.. raw:: html\n\n"
              f"   <div class=\"manual\">\n{html}\n   </div>\n")
        entries.append((f"{name}.{section}", title, name_section(path)[1]))
    write(os.path.join(out, "names.json"),
          json.dumps({name: [page, section] for (name, section), page in pages.items()}))
    lines = [SPDX, "Manual pages\n============\n\n.. toctree::\n   :hidden:\n\n"]
    lines += [f"   {page}\n" for page, _, _ in entries]
    lines += ["\n.. list-table::\n\n"]
    for page, title, words in entries:
        lines.append(f"   * - :doc:`{title} <{page}>`\n     - {words}\n")
    write(os.path.join(out, "index.rst"), "".join(lines))


def assemble(root, source):
    """The tree that Sphinx reads."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(os.path.join(root, "docs"), source)
    for name in ("conf.py", "index.rst"):
        shutil.move(os.path.join(source, "site", name), os.path.join(source, name))
    for name, page in (("README", "start"), ("CONTRIBUTING", "contributing"),
                       ("CHANGELOG", "changes")):
        text = read(os.path.join(root, name + ".md"))
        for old, new in (("](docs/", "]("), ("](CONTRIBUTING.md", "](contributing.md")):
            text = text.replace(old, new)
        write(os.path.join(source, page + ".md"), text)
    manual_pages(root, os.path.join(source, "manual"))


def main():
    """The whole of it."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    root, output = sys.argv[1:]
    source = os.path.join(output, "source")
    assemble(root, source)
    html = os.path.join(output, "html")
    made = subprocess.run([*SPHINX, "-b", "html", "-W", "--keep-going", "-q", "-j", "2",
                           "-d", os.path.join(output, "doctrees"), source, html],
                          check=False)
    if made.returncode:
        sys.exit("the site was not built: mend the warnings above")


main()
