#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The interfaces of driver and card as compilers see them: test-uapi.py REPOSITORY.

The driver's structures have the published layout for x86-64, i386 and arm64; no structure
of driver, card and verbs has holes; the driver's header has the card's constants that the library uses; and a constant that is not the
card's does not compile.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LAYOUT = os.path.join(HERE, "uapi_layout.c")
UAPI = "guest-driver/uapi/linux/unetmm.h"
OTHERS = ["hw/net/unetmm/abi/unetmm_hw.h", "guest-driver/uapi/linux/unetmm_verbs.h"]
USER = "hw/net/unetmm/abi/unetmm_user.h"
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wpadded", "-Werror",
         "-fsyntax-only"]
# The headers of Linux are the same for all; asm/ is the host's.
ASM = ["-idirafter", "/usr/include/x86_64-linux-gnu"]
MACHINES = [("x86-64", ["gcc", "-m64"]), ("i386", ["gcc", "-m32", *ASM]),
            ("arm64", ["clang", "--target=aarch64-linux-gnu", *ASM])]
DEFINED = re.compile(r"^#define\s+(UNETMM_\w+)\s", re.MULTILINE)


def read(path):
    """A file of the repository."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def compile_for(command, source, *flags):
    """The compiler's complaints; nothing if there are none."""
    done = subprocess.run([*command, *FLAGS, "-Iguest-driver/uapi", *flags,
                           source], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout if done.returncode else ""


def layout(command):
    """The published layout is the header's, for one machine."""
    return compile_for(command, LAYOUT)


def others(command):
    """The structures of the other headers have no holes, for one machine."""
    with tempfile.TemporaryDirectory() as directory:
        source, stubs = os.path.join(directory, "all.c"), os.path.join(directory, "gnu", "stubs.h")
        with open(source, "w", encoding="utf-8") as file:
            file.write("".join(f'#include "{os.path.abspath(header)}"\n' for header in OTHERS))
        # The host's C library has its list of missing functions for its own machines alone.
        os.mkdir(os.path.dirname(stubs))
        with open(stubs, "w", encoding="utf-8"):
            pass
        return compile_for(command, source, "-isystem", directory)


def holes_are_found(command):
    """A structure whose members do not fill it does not pass."""
    source = "#include <linux/unetmm.h>\n" \
        "struct hole { __u32 a; __u64 b; } one;\n"
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(source)
        file.flush()
        return "" if "padding" in compile_for(command, file.name) else \
            "a hole was not found"


def all_members():
    """Each member of each structure has its line."""
    text, table = read(UAPI), read(LAYOUT)
    found = re.findall(r"^struct unetmm_(\w+) \{\n(.*?)\n\};", text,
                       re.DOTALL | re.MULTILINE)
    missing = [] if len(found) > 20 else ["structures"]
    for name, body in found:
        if f"SIZE({name}, " not in table:
            missing.append(name)
        missing += [f"{name}.{member}"
                    for member in re.findall(r" (\w+)(?:\[\w+\])?;", body)
                    if f"AT({name}, {member}, " not in table]
    return f"not in {LAYOUT}: {', '.join(missing)}" if missing else ""


def constants():
    """The library and its programs use no constant of the card's header alone."""
    own = set(DEFINED.findall(read(UAPI)))
    card = set(DEFINED.findall(read(USER)))
    missing = set()
    for top, _, files in os.walk("guest-lib"):
        for name in files:
            if name.endswith((".c", ".h")):
                text = re.sub(r"/\*.*?\*/", "", read(os.path.join(top, name)),
                              flags=re.DOTALL)
                missing |= set(re.findall(r"\bUNETMM_\w+", text)) & card - own
    # The list of counters is no constant; observers alone ask for it.
    return f"not in {UAPI}: {', '.join(sorted(missing))}" if missing else ""


def differences():
    """Names that the card has no more are refused, the others are not."""
    both = ["-Wno-padded", "-include", "linux/unetmm.h", "-x", "c"]
    said = compile_for(["gcc"], USER, *both)
    if said:
        return said
    names = set(DEFINED.findall(read(UAPI))) & set(DEFINED.findall(read(USER)))
    names.discard("UNETMM_USER_H")
    with tempfile.TemporaryDirectory() as directory:
        changed = os.path.join(directory, "unetmm_user.h")
        for name in ("UNETMM_POLICY_DROP", "UNETMM_ST_REVOKED"):
            text = re.sub(rf"^(#define {name}\s+)\w+", r"\g<1>77", read(USER),
                          flags=re.MULTILINE)
            with open(changed, "w", encoding="utf-8") as file:
                file.write(text)
            if name not in names or "redefined" not in \
                    compile_for(["gcc"], changed, *both):
                return f"{name} may differ"
    return ""


def main():
    """Prints TAP."""
    os.chdir(sys.argv[1])
    tests = [(f"layout for {name}", layout, command)
             for name, command in MACHINES]
    tests += [(f"no holes in card and verbs for {name}", others, command)
              for name, command in MACHINES if name != "i386"]
    tests += [(f"holes are found for {name}", holes_are_found, command)
              for name, command in MACHINES[:1]]
    tests += [("each member has a line", all_members, None),
              ("the constants that the library uses", constants, None),
              ("a constant that differs is refused", differences, None)]
    print(f"1..{len(tests)}")
    failed = False
    for number, (name, function, command) in enumerate(tests, 1):
        if command and not shutil.which(command[0]):
            print(f"ok {number} - {name} # SKIP no {command[0]}")
            continue
        said = function(command) if command else function()
        for line in said.splitlines():
            print(f"# {line}")
        print(f"{'not ok' if said else 'ok'} {number} - {name}")
        failed = failed or bool(said)
    sys.exit(failed)


if __name__ == "__main__":
    main()
