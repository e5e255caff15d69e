# SPDX-License-Identifier: GPL-2.0-or-later
"""Rings, registers and entries of queues, read from the card's headers and from the
specification's table of rings: scripts/figures draws them.
"""

import os
import re

from unetmm_tools import REPO

SPEC = "docs/specs/unetmm.rst"
SIZES = {"unetmm_u8": 1, "unetmm_le16": 2, "unetmm_le32": 4, "unetmm_le64": 8}
MEMBER = re.compile(r"\s*(struct )?(unetmm_\w+) (\w+)(?:\[(\w+)\])?;")


def read(path):
    """A file of the repository."""
    with open(os.path.join(REPO, path), encoding="utf-8") as file:
        return file.read()


def headers():
    """The text of the card's two headers, without comments."""
    text = "".join(read(f"hw/net/unetmm/abi/{name}")
                   for name in ("unetmm_user.h", "unetmm_hw.h"))
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def number(name):
    """The value of a constant of the headers; of a macro with an argument, for 0."""
    match = re.search(rf"^#define UNETMM_{name}(?:\(\w\))?[ \t]+\(?(0x[0-9a-f]+|\d+)",
                      headers(), re.M)
    if not match:
        raise ValueError(f"the headers have no number UNETMM_{name}")
    return int(match[1], 0)


def size_of(kind, count):
    """The bytes of a member or of an array."""
    each = SIZES.get(kind) or sum(size for _, size in members(kind))
    if not count:
        return each
    return each * (int(count) if count.isdigit() else
                   number(count.removeprefix("UNETMM_")))


def members(struct):
    """[(name, bytes)] of a structure in the order of memory; a union's names are joined."""
    body = re.search(rf"^struct {struct} {{\n(.*?)^}};", headers(), re.M | re.DOTALL)[1]
    found, union = [], None
    for line in body.splitlines():
        member = MEMBER.match(line)
        if "union {" in line:
            union = []
        elif member:
            entry = (member[3], size_of(member[2], member[4]))
            (found if union is None else union).append(entry)
        elif union is not None and "};" in line:
            found.append((" or ".join(name for name, _ in union),
                          max(size for _, size in union)))
            union = None
    return found


def rings():
    """[(name, bytes of an entry, producer)] of the card's rings."""
    found = re.findall(r"^ +([A-Z]+) +\d +struct unetmm_\w+ +(\d+) +(driver|card) ",
                       read(SPEC), re.M)
    if len(found) != 5:
        raise ValueError(f"{SPEC}: the table of the card's rings has {len(found)} lines")
    return [(name, int(size), producer) for name, size, producer in found]
