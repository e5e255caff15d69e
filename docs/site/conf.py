# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx's configuration of the site; scripts/setup docs runs it.

The pages are those of docs/, as they are: they can be read in an editor and on the site.  So a
link between them names a file, and this file makes links of the site from it.
"""
import json
import os
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

project = "unetmm"
author = "the authors of unetmm"
copyright = "the authors of unetmm; GPL-2.0-or-later"      # pylint: disable=redefined-builtin
extensions = ["myst_parser"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
root_doc = "index"
exclude_patterns = ["site"]
html_theme = "furo"
html_title = "unetmm"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
myst_heading_anchors = 3
highlight_language = "none"
suppress_warnings = ["myst.header"]


# Pages of files that are not in docs/
AT_TOP = {"README.md": "start", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changes"}


def page_of(env, text, here):
    """The page that a file's name means, on page `here`; None: none."""
    name, _, anchor = text.partition("#")
    stem, ending = os.path.splitext(name)
    if name.startswith("docs/") and not ending:
        stem += "/index"
    elif ending not in (".rst", ".md") or ":" in name:
        return None
    near = os.path.normpath(os.path.join(os.path.dirname(here), stem))
    far = stem[len("docs/"):] if stem.startswith("docs/") else stem
    for page in (near, far, AT_TOP.get(name, "")):
        if page in env.found_docs:
            return page, anchor
    return None


def manual_of(names, text):
    """(page, text) for the name of a manual page: NAME, NAME(), NAME.3 or NAME(3); None: none."""
    match = re.fullmatch(r"([\w-]+)(?:\.(\d)|\((\d)\)|\(\))?", text)
    page, section = names.get(match[1] if match else "", ("", ""))
    wanted = match and (match[2] or match[3])
    if not page or wanted not in (None, section) or (section != "3" and text.endswith("()")):
        return None
    return "manual/" + page, f"{match[1]}({section})" if wanted else text


class FileLinks(SphinxPostTransform):
    """Names of files of docs/ become links to their pages, with the page's title; names of
    functions and tools, links to their manual pages; and a figure leads to its own file."""

    default_priority = 5

    def run(self, **_options):
        here = self.env.docname
        with open(os.path.join(self.app.srcdir, "manual", "names.json"),
                  encoding="utf-8") as file:
            names = json.load(file)
        for node in list(self.document.findall(nodes.reference)):
            self.turn(node, here)
        # Markdown's own links, which another transform resolves
        for node in list(self.document.findall(addnodes.pending_xref)):
            found = page_of(self.env, node.astext(), here)
            if found:
                node.children = [self.title(found[0])]
        for node in list(self.document.findall(nodes.literal)):
            if not isinstance(node.parent, (nodes.reference, nodes.title)):
                self.turn_literal(node, here, names)
        for node in list(self.document.findall(nodes.image)):
            if not isinstance(node.parent, nodes.reference):
                self.open_large(node, here)

    def turn(self, node, here):
        """Puts a link of the site in the place of one to a file."""
        found = page_of(self.env, node.get("refuri", ""), here)
        if found:
            shown = node.children
            if page_of(self.env, node.astext(), here):
                shown = [self.title(found[0])]
            node.replace_self(self.link(found, here, *shown))

    def turn_literal(self, node, here, names):
        """Puts a link in the place of a literal that names a page."""
        found = page_of(self.env, node.astext(), here)
        manual = manual_of(names, node.astext())
        if found and found[0] != here:
            node.replace_self(self.link(found, here, self.title(found[0])))
        elif manual and manual[0] != here:
            node.replace_self(self.link((manual[0], ""), here, nodes.literal("", manual[1])))

    def title(self, page):
        """The title of a page, as the text of a link."""
        return nodes.inline("", self.env.titles[page].astext())

    def link(self, found, here, *children):
        """A reference to a page that the builder resolves."""
        page, anchor = found
        uri = self.app.builder.get_relative_uri(here, page)
        return nodes.reference("", "", *children, internal=True,
                               refuri=uri + ("#" + anchor if anchor else ""))

    def open_large(self, node, here):
        """Makes a figure a link to its file, which a browser shows in its own size."""
        _, name = self.env.images[node["candidates"].get("*", node["uri"])]
        uri = relative_uri(self.app.builder.get_target_uri(here), "_images/" + name)
        link = nodes.reference("", "", internal=True, refuri=uri, classes=node["classes"])
        node.replace_self(link)
        link += node


def setup(app):
    """Sphinx calls this."""
    app.add_post_transform(FileLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
