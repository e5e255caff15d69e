#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The manual, the symbol map and the library against the header; the tools'
manual against the schemas of their output.

usage: test-man.py SOURCE-ROOT LIBRARY MAN-DIRECTORY...
"""
import json
import os
import re
import shutil
import subprocess
import sys

ROOT, LIBRARY, PAGES = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from unetmm_tools.check import taptests  # noqa: E402  (of this checkout)


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def functions():
    """The public functions, and those of them that inline.h has too."""
    headers = ["libunetmm.h"] + ["libunetmm/" + name + ".h" for name in
                                 ("vmmc", "key", "window", "counter", "sync", "frame")]
    text = "".join(read("guest-lib", "include", name) for name in headers)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    public = set(re.findall(r"^[a-z][\w ]*?[ *]+(unetmm_\w+)\(", text,
                            flags=re.M))
    assert "{" not in re.sub(r"(struct|enum|extern)[^;{]*\{|"
                             r"#define.*(\\\n.*)*|\{ sizeof.*", "", text)
    inline = "".join(read("guest-lib", "include", "libunetmm", name)
                     for name in ("inline.h", "inline_remote.h",
                                  "inline_key.h", "inline_frame.h"))
    return public, set(re.findall(r"^UNETMM_FAST_ [\w ]+?[ *]+(unetmm_\w+)\(",
                                  inline, flags=re.M))


def find_page(name, section="3"):
    for directory in PAGES:
        path = os.path.join(directory, f"{name}.{section}")
        if os.path.exists(path):
            return path
    return None


def every_function_has_a_page():
    public, inline = functions()
    assert len(public) > 80 and len(inline) > 20, (public, inline)
    assert inline <= public, inline - public
    for name in public:
        assert not name.endswith("_"), f"{name} is private"
        path = find_page(name)
        assert path, f"no page for {name}"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        link = re.match(r"\.so man3/(\w+)\.3", text)
        if link:
            with open(find_page(link[1]), encoding="utf-8") as file:
                text = file.read()
        assert re.search(rf"\b{name}\(", text), f"{name}: not in {path}"
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE",
                        "SEE ALSO"]:
            assert f".SH {section}\n" in text, f"{path}: no {section}"


def map_nodes():
    """Of each version node of the symbol map, its names."""
    return {node: set(re.findall(r"^    (unetmm_\w+);", text, flags=re.M))
            for node, text in
            re.findall(r"^(UNETMM_[\w.]+) \{(.*?)^\}",
                       read("guest-lib", "src", "libunetmm.map"),
                       flags=re.M | re.S)}


def map_is_what_the_header_exports():
    nodes = map_nodes()
    inline = nodes.pop("UNETMM_INLINE_1")
    assert inline == {"unetmm_inline_1_"}, inline
    in_map = set().union(*nodes.values())
    public, _ = functions()
    assert in_map == public, in_map ^ public


def library_exports_what_the_map_says():
    wanted = {f"{name}@@{node}" for node, names in map_nodes().items()
              for name in names}
    run = subprocess.run(["nm", "-D", "--defined-only", LIBRARY],
                         capture_output=True, text=True, check=True)
    found = {line.split()[2] for line in run.stdout.splitlines()
             if " A " not in line}
    assert len(found) > 20 and found == wanted, found ^ wanted


# Of two tools' rows: the schema, and the part of it that is the other tool's.
SHARED = {"bw": ("results", "then"), "pingpong": ("results", "else")}


def members_of(schema):
    """The members of all objects in a part of a schema."""
    if isinstance(schema, list):
        return set().union(*map(members_of, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", ())).union(
        *map(members_of, schema.values()))


def json_members_are_in_the_manual():
    for tool in ["block", "bw", "cp", "frames", "info", "kv", "pingpong", "stat"]:
        page = read("guest-lib", "man", f"unetmm-{tool}.1")
        name, other = SHARED.get(tool, (tool, ""))
        schema = json.loads(read("guest-lib", "tools", f"{name}.schema.json"))
        members = members_of({part: value for part, value in schema.items()
                              if part != other})
        missing = {name for name in members
                   if not re.search(rf"\b{name}\b", page)}
        assert len(members) > 5 and not missing, (tool, members, missing)


def pages_are_well_formed():
    if not shutil.which("groff"):
        return
    for directory in PAGES:
        for name in sorted(os.listdir(directory)):
            if not re.search(r"\.[137]$", name):
                continue
            with open(os.path.join(directory, name), "rb") as file:
                if file.read(4) == b".so ":
                    continue
            run = subprocess.run(
                ["groff", "-ww", "-man", "-Tascii", "-z",
                 os.path.join(directory, name)],
                capture_output=True, text=True, check=False)
            assert not run.stderr, run.stderr


def streams_have_their_page_and_map():
    header = re.sub(r"/\*.*?\*/", "", read("guest-lib", "include", "libunetmm",
                                           "stream.h"), flags=re.S)
    declared = set(re.findall(r"\b(unetmm_stream_\w+)\(", header))
    in_map = set(re.findall(r"^    (unetmm_stream_\w+);",
                            read("guest-lib", "stream",
                                 "libunetmm-stream.map"), flags=re.M))
    page = read("guest-lib", "man", "unetmm_stream.3")
    on_page = set(re.findall(r"(unetmm_stream_\w+)\(", page))
    assert len(declared) > 10 and declared == in_map == on_page, \
        (declared ^ in_map, declared ^ on_page)
    for name in declared:
        assert find_page(name), f"no page for {name}"


def other_processors_are_refused():
    """Barriers towards a device are right on x86-64 only: elsewhere nothing builds."""
    compiler = [*os.environ.get("CC", "cc").split(), "-fsyntax-only", "-x", "c"]
    include = os.path.join(ROOT, "guest-lib", "include")
    compiler.append("-I" + include)
    header = os.path.join(include, "libunetmm", "barrier.h")
    for options, builds in ([], True), (["-U__x86_64__"], False):
        run = subprocess.run([*compiler, *options, header], text=True,
                             capture_output=True, check=False)
        assert (run.returncode == 0) == builds, run.stderr
        assert builds or "libunetmm is for x86-64" in run.stderr, run.stderr


TESTS = [every_function_has_a_page, map_is_what_the_header_exports,
         library_exports_what_the_map_says,
         json_members_are_in_the_manual, streams_have_their_page_and_map,
         pages_are_well_formed, other_processors_are_refused]

sys.exit(taptests.plain(TESTS))
