# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx's configuration of the site; scripts/setup docs runs it.

The pages are those of docs/, as they are: they can be read in an editor and on the site.  So a
link between them names a file, and this file makes links of the site from it.
"""
import os

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

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


def page_of(env, text, here):
    """The page that a file's name means, on page `here`; None: none."""
    name, _, anchor = text.partition("#")
    stem, ending = os.path.splitext(name)
    if ending not in (".rst", ".md") or ":" in name:
        return None
    near = os.path.normpath(os.path.join(os.path.dirname(here), stem))
    far = stem[len("docs/"):] if stem.startswith("docs/") else stem
    for page in (near, far, "start" if name == "README.md" else ""):
        if page in env.found_docs:
            return page, anchor
    return None


class FileLinks(SphinxPostTransform):
    """Names of files of docs/, as links and in literals, become links to their pages."""

    default_priority = 5

    def run(self, **_options):
        here = self.env.docname
        for node in list(self.document.findall(nodes.reference)):
            if self.turn(node, node.get("refuri", ""), here):
                del node["refuri"]
        for node in list(self.document.findall(nodes.literal)):
            found = page_of(self.env, node.astext(), here)
            if found and found[0] != here and \
                    not isinstance(node.parent, (nodes.reference, nodes.title)):
                node.replace_self(self.link(found, here, node.deepcopy()))

    def turn(self, node, target, here):
        """Puts a link of the site in the place of one to a file."""
        found = page_of(self.env, target, here)
        if found:
            node.replace_self(self.link(found, here, *node.children))
        return False

    def link(self, found, here, *children):
        """A reference to a page that the builder resolves."""
        page, anchor = found
        uri = self.app.builder.get_relative_uri(here, page)
        return nodes.reference("", "", *children, internal=True,
                               refuri=uri + ("#" + anchor if anchor else ""))


def setup(app):
    """Sphinx calls this."""
    app.add_post_transform(FileLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
