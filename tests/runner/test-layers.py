#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/layers: each of its rules, broken once in a small tree of its own."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
LAYERS = os.path.join(HERE, "..", "..", "scripts", "layers")

# Every arrow goes down: reliable/ is above ep/, and ep/ above base/.
CLEAN = {
    "base/base.h": "int unetmm_low(int a);\n"
                   "static inline int unetmm_low_twice(int a)\n"
                   "{\n    return 2 * unetmm_low(a);\n}\n",
    "base/low.c": '#include "base.h"\n'
                  "int unetmm_low(int a)\n{\n    return a;\n}\n",
    "ep/ep.h": "int unetmm_middle(int a);\n"
               "extern const int unetmm_middle_table[2];\n",
    "ep/middle.c": '#include "../base/base.h"\n#include "ep.h"\n'
                   "const int unetmm_middle_table[2] = { 1, 2 };\n"
                   "int unetmm_middle(int a)\n"
                   "{\n    return unetmm_low(a) + unetmm_low_twice(a);\n}\n",
    "reliable/reliable.h": "int unetmm_high(int a);\n"
                 "static inline int unetmm_high_twice(int a)\n"
                 "{\n    return 2 * unetmm_high(a);\n}\n",
    "reliable/high.c": '#include "../ep/ep.h"\n#include "reliable.h"\n'
                  "const int unetmm_high_table[1] = { 3 };\n"
                  "int unetmm_high(int a)\n"
                  "{\n    return unetmm_middle(a) + "
                  "unetmm_middle_table[0];\n}\n",
    # One header for each contract
    "abi/one.h": "#define ONE 1\n",
    "abi/two.h": "#define TWO 2\n",
}

BELOW = "int unetmm_other(int a)\n{\n    return %s;\n}\n"

OBJECT = ("/*\n * Only the functions of object.c write the members.\n */\n"
          "typedef struct Object {\n    int bits;\n    int many[3];\n} Object;\n")

# (the case, files that are other than in the clean tree, the broken rules)
CASES = (
    ("nothing is wrong with a clean tree", {}, []),
    ("a function of a higher room is called",
     {"base/other.c": BELOW % "unetmm_high(a)"},
     [("call", "base/other.c:3")]),
    ("an inline function of a higher room is called",
     {"base/other.c": BELOW % "unetmm_high_twice(a)"},
     [("call", "base/other.c:3")]),
    ("a table of a higher room is named",
     {"ep/other.c": BELOW % "unetmm_high_table[a]"},
     [("call", "ep/other.c:3")]),
    ("a comment and a string call nothing",
     {"base/other.c": "/* unetmm_high(1),\n * unetmm_middle(2) */\n" +
                      BELOW % 'a + !"unetmm_high(3)" // unetmm_high(4)\n'},
     []),
    ("a header of a higher room is included",
     {"base/other.c": '\n#include "../ep/ep.h"\n' + BELOW % "a"},
     [("include", "base/other.c:2")]),
    ("a header of a higher room is included by its place in the tree",
     {"base/other.c": '\n#include "ep/ep.h"\n' + BELOW % "a"},
     [("include", "base/other.c:2")]),
    ("the tag of an enumeration may be called like a function",
     {"base/other.c": BELOW % "(enum unetmm_high)a"}, []),
    ("a header includes one of a higher room",
     {"ep/ep.h": '#include "../reliable/reliable.h"\n' + CLEAN["ep/ep.h"]},
     [("include", "ep/ep.h:1")]),
    ("a room has two headers, one of its name",
     {"ep/more.h": "#define MORE 1\n"}, []),
    ("a room has two headers, none of its name",
     {"card/one.h": "#define ONE 1\n", "card/two.h": "#define TWO 2\n"},
     [("header", "card/")]),
    ("a header of another room is included that has not its name",
     {"base/more.h": "#define MORE 1\n",
      "ep/other.c": '#include "../base/more.h"\n' + BELOW % "a"},
     [("private", "ep/other.c:1")]),
    ("a header has 251 lines",
     {"ep/ep.h": CLEAN["ep/ep.h"] + "\n" * 249}, [("header", "ep/ep.h")]),
    ("a header has 250 lines",
     {"ep/ep.h": CLEAN["ep/ep.h"] + "\n" * 248}, []),
    ("a file writes a member that another file alone may write",
     {"ep/ep.h": CLEAN["ep/ep.h"] + "typedef struct Ep {\n    Object tx;\n} Ep;\n",
      "ep/object.h": OBJECT,
      "ep/object.c": "void unetmm_set(Object *o)\n{\n    o->bits |= 1;\n}\n",
      "ep/other.c": "void unetmm_f(Ep *e, const Object *o)\n{\n"
                    "    e->tx.bits |= o->bits == 1;\n"
                    "    e->tx.many[2] = 1;\n    ++e->tx.bits;\n"
                    "    if (e->tx.bits == 2) {\n    }\n}\n",
      "reliable/other.c": "void unetmm_g(Object *o)\n{\n}\n"},
     [("writer", "ep/other.c:3"), ("writer", "ep/other.c:4"),
      ("writer", "ep/other.c:5"), ("writer", "reliable/other.c:1")]),
    ("a header does not name the writers of its window",
     {"reliable/send_window.h": "typedef struct Window {\n    int bits;\n} Window;\n"},
     [("writer", "reliable/send_window.h")]),
    ("a header declares functions below the headings of their files, or below none",
     {"ep/ep.h": CLEAN["ep/ep.h"] + "static inline int unetmm_more(int a, int b)\n{\n}\n"
                 "/* ep/more.c, middle.c; others call it */\n" +
                 CLEAN["ep/ep.h"] + "int unetmm_more(int a,\n                int b);\n",
      "ep/more.c": "int unetmm_more(int a,\n                int b)\n{\n    return a;\n}\n"}, []),
    ("a header declares a function and a table below the heading of another file",
     {"ep/ep.h": "/* ep/more.c */\nint unetmm_more(int a);\n"
                 "/* More: ep/middle.c has it */\n" + CLEAN["ep/ep.h"] +
                 "/* ---- middle.c: the middle ---- */\nint unetmm_more(int a);\n",
      "ep/more.c": "int unetmm_more(int a)\n{\n    return a;\n}\n"},
     [("heading", "ep/ep.h:4"), ("heading", "ep/ep.h:5"), ("heading", "ep/ep.h:7")]),
    ("a heading names a file that does not exist",
     {"ep/ep.h": "\n/*\n * ep/gone.c: nothing\n */\n" + CLEAN["ep/ep.h"]},
     [("heading", "ep/ep.h:3"), ("heading", "ep/ep.h:5"), ("heading", "ep/ep.h:6")]),
    ("files of a room without circles call each other",
     {"reliable/a.c": "int unetmm_a(int a)\n{\n    return unetmm_b(a);\n}\n",
      "reliable/op/b.c": "int unetmm_b(int a)\n{\n    return unetmm_c(a);\n}\n",
      "reliable/c.c": "int unetmm_c(int a)\n{\n    return unetmm_a(a);\n}\n",
      "reliable/d.c": "int unetmm_d(int a)\n{\n    return unetmm_a(a);\n}\n"},
     [("circle", "reliable/a.c"), ("circle", "reliable/c.c"),
      ("circle", "reliable/op/b.c")]),
    ("the tag of a structure may be called like a function of the room",
     {"reliable/a.c": "int unetmm_a(int a)\n{\n    return unetmm_b(a);\n}\n",
      "reliable/b.c": "int unetmm_b(int a)\n{\n"
                      "    return sizeof(struct unetmm_a);\n}\n"}, []),
    ("files of another room do, and files call down",
     {"ep/a.c": "int unetmm_a(int a)\n{\n    return unetmm_b(a);\n}\n",
      "ep/b.c": "int unetmm_b(int a)\n{\n    return unetmm_a(a);\n}\n",
      "reliable/d.c": "int unetmm_d(int a)\n{\n    return unetmm_high(a);\n}\n"},
     []),
    ("a source file stands beside the rooms",
     {"lost.c": BELOW % "a"}, [("stray", "lost.c")]),
    ("a source file stands in a folder that is no room",
     {"attic/lost.h": "#define LOST 1\n"}, [("stray", "attic/lost.h")]),
    ("each place is told",
     {"base/other.c": '#include "../ep/ep.h"\n' +
                      BELOW % "unetmm_middle(a) + unetmm_high(a)",
      "lost.c": BELOW % "a"},
     [("stray", "lost.c"), ("call", "base/other.c:4"),
      ("call", "base/other.c:4"), ("include", "base/other.c:1")]),
)

MODULES = {
    "__init__.py": "",
    "__main__.py": "import sys\nsys.path[0] = '/'\n",
    "build/passed.py": "KEPT = 1\n",
    "guest/vm.py": "import os\nfrom unetmm_tools.build import passed\n",
    "guest/pair.py": "from unetmm_tools.guest import vm\nfrom unetmm_tools.guest.vm import os\n",
    "bench/paper/__init__.py": "",
    "bench/paper/pages.py": "from unetmm_tools.build.passed import KEPT\n",
}

# The same of modules
MODULE_CASES = (
    ("modules import downwards", {}, []),
    ("a module of a higher room is imported",
     {"build/other.py": "import os\nfrom unetmm_tools.guest import vm as guests\n"},
     [("import", "build/other.py:2")]),
    ("a name is imported from a module of a higher room, in a function",
     {"build/other.py": "def f():\n    from unetmm_tools.guest.vm import run\n"},
     [("import", "build/other.py:2")]),
    ("a module of a folder in a higher room is imported",
     {"guest/other.py": "import unetmm_tools.bench.paper.pages\n"},
     [("import", "guest/other.py:1")]),
    ("modules import each other in a circle",
     {"guest/vm.py": "from unetmm_tools.guest import other\n",
      "guest/other.py": "from unetmm_tools.guest.pair import Pair\n"},
     [("circle", "guest/other.py"), ("circle", "guest/pair.py"),
      ("circle", "guest/vm.py")]),
    ("a module changes sys.path",
     {"guest/other.py": "import sys\nsys.path.insert(0, '/')\n"},
     [("path", "guest/other.py")]),
    ("a module stands in no room", {"lost.py": ""}, [("stray", "lost.py")]),
)


# The library: rooms in a folder of a folder, and names without a prefix
LIBRARY = {
    "include/public.h": "int unetmm_public(int a);\n",
    "src/sys/sys.h": "static inline int sys_open(int a)\n{\n    return a;\n}\n",
    "src/base/base.h": '#include "../sys/sys.h"\n',
    "src/queue/queue.h": '#include "../base/base.h"\n',
    "src/queue/wait.c": '#include "queue.h"\n'
                        "int unetmm_wait(int a)\n{\n    return sys_open(a);\n}\n",
    "tools/common.c": "int time_left(int a)\n{\n    return a;\n}\n",
    "stream/stream.c": '#include "../src/sys/sys.h"\n'
                       "static int time_left(int a)\n{\n    return a;\n}\n"
                       "int stream_wait(int a)\n"
                       "{\n    return time_left(unetmm_wait(a.time_left));\n}\n",
}
LIBRARY_CASES = (
    ("a static function may be called like one of a higher room", {}, []),
    ("a room in a folder calls a higher one beside it",
     {"src/base/other.c": BELOW % "unetmm_wait(a)"},
     [("call", "src/base/other.c:3")]),
    ("a name without the prefix is of a higher room",
     {"src/queue/other.c": BELOW % "stream_wait(a)"},
     [("call", "src/queue/other.c:3")]),
    ("a private header of a room in a folder is included",
     {"src/queue/more.h": "", "src/sync/home.c": '#include "../queue/more.h"\n'},
     [("private", "src/sync/home.c:1")]),
    ("files of the provider call each other in a circle",
     {"provider/a.c": "int umfi_a(int a)\n{\n    return umfi_b(a);\n}\n",
      "provider/b.c": "int umfi_b(int a)\n{\n    return umfi_a(a);\n}\n"},
     [("circle", "provider/a.c"), ("circle", "provider/b.c")]),
    ("a file stands beside the rooms of a folder", {"src/lost.c": BELOW % "a"},
     [("stray", "src/lost.c")]),
)


def layers(base, *options):
    """(exit status, output)"""
    done = subprocess.run([sys.executable, LAYERS, "--base", base, *options],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    return done.returncode, done.stdout


def tree(base, files):
    """Writes them below a folder."""
    for name, text in files.items():
        path = os.path.join(base, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def wrong(base, expected, *options):
    """The difference from the expected result, or nothing."""
    status, output = layers(base, *options, "--json")
    if status != bool(expected):
        return f"exit status {status}: {output}"
    broken = sorted((item["rule"], item["place"])
                    for item in json.loads(output)["broken"])
    if broken != sorted(expected):
        return f"{broken} instead of {sorted(expected)}"
    status, output = layers(base, *options)
    lines = output.splitlines()
    if status != bool(expected) or \
            lines[-1] != f"{len(expected)} places break a rule":
        return f"exit status {status}: {output}"
    missing = [place for _, place in expected if not any(
        line.startswith(place + ": ") for line in lines)]
    return f"not printed: {missing}" if missing else None


def arrows():
    """The matrix of the clean tree."""
    with tempfile.TemporaryDirectory() as base:
        tree(base, CLEAN)
        status, output = layers(base, "--json")
        uses, looked = (json.loads(output)[key] for key in ("uses", "subjects"))
        if status or uses != {"ep base": 2, "reliable ep": 2}:
            return f"the rooms use {uses}"
        if looked["call"] != 4 or looked["writer"]:
            return f"the rules looked at {looked}"
        status, output = layers(base, "--calls", "reliable", "ep")
        if status or output != (
                "reliable/high.c:6: unetmm_middle of ep/middle.c\n"
                "reliable/high.c:6: unetmm_middle_table of ep/middle.c\n"):
            return f"reliable/ uses of ep/: {output}"
    with tempfile.TemporaryDirectory() as base:
        return wrong(base, [("stray", "the rule")])


def main():
    """TAP."""
    cases = [(case, CLEAN, ()) for case in CASES] + [
        (case, MODULES, ("--tree", "scripts")) for case in MODULE_CASES] + [
        (case, LIBRARY, ("--tree", "library")) for case in LIBRARY_CASES]
    print(f"1..{len(cases) + 1}")
    bad = False
    for number, ((name, files, expected), clean, options) in enumerate(cases, 1):
        with tempfile.TemporaryDirectory() as base:
            tree(base, {**clean, **files})
            said = wrong(base, expected, *options)
        bad = bad or bool(said)
        print(f"{'not ok' if said else 'ok'} {number} - {name}")
        if said:
            print("# " + said.rstrip().replace("\n", "\n# "))
    said = arrows()
    print(f"{'not ok' if said else 'ok'} {len(cases) + 1} - the uses of a room "
          "of another is counted and listed")
    if said:
        print("# " + said.rstrip().replace("\n", "\n# "))
    return 1 if bad or said else 0


if __name__ == "__main__":
    sys.exit(main())
