#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every example of every --help and manual page: its options exist and take the
values that it gives them, the card's properties that it names exist, and the
C code compiles.  Nothing is started: behind an example's options stands one that no
program has, and that one must be the first to be complained of.

usage: test-examples.py SOURCE-ROOT BUILD-DIRECTORY

(test-tools.py runs those of the tools that need nothing but a card; tests/tools/run
has QEMU take those that boot a guest.)
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = (os.path.realpath(path) for path in sys.argv[1:])
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from unetmm_tools.check import taptests  # noqa: E402  (of this checkout)
SCRIPTS = os.path.join(ROOT, "scripts")
TOOLS = os.path.join(BUILD, "guest-lib", "tools")
MAN = os.path.join(ROOT, "guest-lib", "man")
NONE = "--no-program-has-this"
WORD = r"(?:'[^']*'|\"[^\"]*\"|[^\s|>;&'\"])+"
COMMAND = re.compile(r"^[ \t]*(?:\$ )?((?:[A-Z_]+=\S+ )*)"
                     r"((?:scripts/|tests/e2e/)[\w-]+|unetmm-[a-z]+)((?:[ \t]+" +
                     WORD + r")*)(?=[ \t]*(?:$|[|>;&]))", re.M)


def ended(command, **env):
    """(exit status, both outputs) of words that a shell splits."""
    done = subprocess.run(["sh", "-c", command], cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100,
                          env={**os.environ, "UNETMM_SKIP_PACKAGES": "1",
                               "PYTHONDONTWRITEBYTECODE": "1", **env},
                          check=False)
    return done.returncode, done.stdout


def scripts():
    """Those that people call."""
    return sorted(name for name in os.listdir(SCRIPTS) if os.path.isfile(
        os.path.join(SCRIPTS, name))) + ["../tests/e2e/run"]


def tools():
    """The names of the tools."""
    return sorted(name for name in os.listdir(TOOLS)
                  if re.fullmatch(r"unetmm-[a-z]+", name))


def help_of(program):
    """The text of --help."""
    status, text = ended(f"{program} --help")
    assert status == 0 and len(text) > 200, (program, status, text)
    return text


def examples_in(text):
    """The part that begins with 'Example', up to the next line at the margin."""
    found = re.search(r"^(?:Examples?|EXAMPLES?)\b.*", text,
                      flags=re.M | re.S | re.I)
    return re.split(r"\n(?=options:|Options)", found[0])[0] if found else ""


def rendered(text):
    """A manual's source without its formatter's words."""
    text = re.sub(r"^\.[A-Za-z]+ ?", "", text, flags=re.M)
    for escape, plain in ((r"\-", "-"), (r"\(aq", "'"), (r"\e", "\\"),
                          (r"\&", "")):
        text = text.replace(escape, plain)
    return text


def manuals():
    """{page: text}"""
    pages = {}
    for name in sorted(os.listdir(MAN)):
        if re.search(r"\.[137]$", name):
            with open(os.path.join(MAN, name), encoding="utf-8") as file:
                pages[name] = file.read()
    return pages


def manual_section(text, name):
    """The text below a heading."""
    found = re.search(rf"^\.SH {name}\S*\n(.*?)(?=^\.SH|\Z)", text,
                      flags=re.M | re.S)
    return found[1] if found else ""


def commands_in(text):
    """(variables, program, arguments) of each command."""
    return [(m[1], m[2], m[3])
            for m in COMMAND.finditer(text.replace("\\\n", " "))]


# A peer that does not read stops the guest.  Between machines there is nothing else
# without root, and docs/cluster.rst says so.
WIRE_THAT_WAITS = r"-(?:netdev|with-e1000e) (?:unix:|stream\b(?!.*addr\.type=inet))"


def check(where, variables, program, arguments, files):
    """One command, with files of its own where it names some in /tmp."""
    if program.startswith("unetmm-"):
        path = os.path.join(TOOLS, program)
        # The scripts, by their names in a package
        if program in ("unetmm-vm", "unetmm-cluster", "unetmm-run"):
            path = os.path.join(SCRIPTS, program.removeprefix("unetmm-"))
        assert os.path.exists(path), f"{where}: there is no {program}"
    else:
        path = os.path.join(ROOT, program)
    command = f"{variables}{program}{arguments}"
    assert not re.search(WIRE_THAT_WAITS, command), \
        f"{where}: {command}: one end may wait for the other, with all of its " \
        "machine: use wire:PATH,1 and ,2"
    for name in re.findall(r"(?<![\w:])/tmp/\w+", arguments):
        with open(os.path.join(files, os.path.basename(name)), "w",
                  encoding="utf-8"):
            pass
    arguments = re.sub(r"(?<![\w:])/tmp/", files + "/", arguments)
    # Whatever goes wrong, nothing of this machine's is touched.
    arguments = arguments.replace("/dev/", "/nowhere/")
    assert "\n" not in arguments, (where, command)
    before, dashes, behind = arguments.partition(" -- ")
    status, text = ended(f"{variables}{path} {before} {NONE} {dashes}{behind}")
    # Of nothing else, and before anything else.
    assert status != 0 and re.search(
        rf"(?:unrecognized arguments:|(?:unknown|unrecognized) option) "
        rf"'?{NONE}'?(?: \(.*)?$", text, flags=re.M), \
        f"{where}: {command}: {text}"


def check_text(where, text):
    """All commands of a text; returns how many."""
    found = commands_in(text)
    with tempfile.TemporaryDirectory(prefix="unetmm-") as files:
        for variables, program, arguments in found:
            check(where, variables, program, arguments, files)
    return len(found)


def scripts_take_their_own_examples():
    number = 0
    for name in scripts():
        text = examples_in(help_of(os.path.join(SCRIPTS, name)))
        found = check_text(name, text)
        assert found or "xample" not in text, f"{name}: no command in {text}"
        number += found
    assert number > 25, number


def tools_take_their_own_examples():
    for name in tools():
        text = examples_in(help_of(os.path.join(TOOLS, name)))
        assert check_text(name, text), f"{name} --help: no example in {text}"


def tools_take_their_manuals_examples():
    for name in tools():
        section = manual_section(manuals()[f"{name}.1"], "EXAMPLE")
        blocks = re.findall(r"^\.EX\n(.*?)^\.EE", section, flags=re.M | re.S)
        assert check_text(f"{name}.1", rendered("".join(blocks))), \
            f"{name}.1 has no example"


def documents_commands_are_taken():
    """Those of code blocks in README.md and docs."""
    number = 0
    paths = [os.path.join(ROOT, "README.md")]
    for directory, _, names in os.walk(os.path.join(ROOT, "docs")):
        paths += [os.path.join(directory, name) for name in names
                  if name.endswith(".rst")]
    for path in sorted(paths):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        blocks = re.findall(r"^```\n(.*?)^```", text, flags=re.M | re.S) \
            if path.endswith(".md") else \
            re.findall(r"::\n\n((?:[ ]{2,}.*\n|\n)+)", text)
        for block in blocks:
            assert not re.search(WIRE_THAT_WAITS, block), f"{path}: {block}"
            block = re.sub(r"^(.*?)\s+#.*$", r"\1", block, flags=re.M)
            number += check_text(os.path.basename(path), "".join(
                line + "\n" for line in block.splitlines()
                if not re.search(r"\b[A-Z]{3,}\b(?!=)|<|\.\.\.", line)))
    assert number > 30, number


# ---- Properties of the card -----------------------------------------------------


def properties():
    """The names in the card's table of explanations (a qtest compares that
    with QEMU's list), and in that of its knobs."""
    with open(os.path.join(ROOT, "hw", "net", "unetmm", "shell/qom.c"),
              encoding="utf-8") as file:
        names = set(re.findall(r'(?:^    \{ |KNOB\w*\(|_property_add\(class, )'
                               r'"([a-z][a-z-]+)"', file.read(), flags=re.M))
    assert len(names) > 40 and "tlb-sets" in names and "x-lie" in names, names
    return names | {"id", "bus", "addr", "help", "K"}


def card_words(text):
    """The properties that a text gives the card."""
    for words in re.findall(r"-device unetmm,([\w.,=:*-]+)|"
                            r"--device-opts\s+([\w.,=:-]+)", text):
        for word in (words[0] or words[1]).strip(".,").split(","):
            if word.partition("=")[0]:
                yield word.partition("=")[0]


def properties_of_examples_exist():
    known, number = properties(), 0
    texts = {name: help_of(os.path.join(SCRIPTS, name)) for name in scripts()}
    texts.update((name, rendered(text)) for name, text in manuals().items())
    for directory in (ROOT, os.path.join(ROOT, "docs"),
                      os.path.join(ROOT, "docs", "system"),
                      os.path.join(ROOT, "docs", "specs"),
                      os.path.join(ROOT, "docs", "tours")):
        for name in os.listdir(directory):
            if name.endswith((".md", ".rst")) and name != "CHANGELOG.md":
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as file:
                    texts[os.path.relpath(path, ROOT)] = file.read()
    for where, text in texts.items():
        for word in card_words(text):
            assert word in known, f"{where}: the card has no property {word}"
            number += 1
    assert number >= 8, number


# ---- C ----------------------------------------------------------------------------


def compiles(where, source):
    """A C file, with all warnings as errors."""
    done = subprocess.run(
        ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-but-set-variable", "-Wno-unused-function",
         "-Wno-unused-parameter",
         "-Wno-missing-field-initializers",
         "-fsyntax-only", "-I" + os.path.join(ROOT, "guest-lib",
                                              "include"),
         "-I" + os.path.join(ROOT, "hw", "net", "unetmm",
                             "abi"),
         "-I" + os.path.join(ROOT, "guest-driver", "uapi"),
         "-x", "c", "-"], input=source, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, f"{where}: {done.stdout}\n{source}"


def programs_of_the_readme_compile():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        programs = re.findall(r"^```c\n(.*?)^```", file.read(),
                              flags=re.M | re.S)
    assert programs, "README.md has no program"
    for program in programs:
        compiles("README.md", program)


SHORT = ["hello", "ping-pong", "fd-loop", "vmmc-hello", "notification", "counter",
         "redirect", "utlb-policy", "raw-frames"]


def short_programs_compile_in_c_and_c_plus_plus():
    """Each of less than 60 lines; readers find each by the README and the manual."""
    flags = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
             "-Wsign-conversion", "-Werror", "-fsyntax-only"]
    flags += ["-I" + os.path.join(ROOT, path) for path in (
        "guest-lib/include", "hw/net/unetmm/abi", "guest-driver/uapi")]
    indexes = {}
    for index in ("README.md", "docs/library.rst", "guest-lib/man/libunetmm.7"):
        with open(os.path.join(ROOT, index), encoding="utf-8") as file:
            indexes[index] = file.read().replace("\\-", "-")
    for name in SHORT:
        path = os.path.join(ROOT, "guest-lib", "examples", f"{name}.c")
        with open(path, encoding="utf-8") as file:
            lines = file.read().count("\n")
        assert lines < 60, f"{path}: {lines} lines"
        for index, text in indexes.items():
            assert re.search(rf"\b{name}\b", text), f"{index} lacks {name}"
        for language in (["gcc", "-std=c11", "-x", "c"],
                         ["g++", "-std=c++17", "-x", "c++"]):
            done = subprocess.run([*language, *flags, path], text=True,
                                  capture_output=True, check=False)
            assert done.returncode == 0, done.stderr


TESTS = [scripts_take_their_own_examples, tools_take_their_own_examples,
         tools_take_their_manuals_examples, documents_commands_are_taken,
         properties_of_examples_exist, programs_of_the_readme_compile,
         short_programs_compile_in_c_and_c_plus_plus]

sys.exit(taptests.plain(TESTS))
