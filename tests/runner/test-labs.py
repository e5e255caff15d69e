#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/labs/run: hand-outs, submissions and their grades; lab miss needs no compiler."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
ANSWERS = "docs/labs/miss/answers.txt"


def run(*words, cwd=REPO):
    """(exit status, standard output, standard error) of docs/labs/run."""
    done = subprocess.run([os.path.join(REPO, "docs", "labs", "run"), *words], cwd=cwd,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


def right_answers():
    """The text of answers.txt that solves lab miss."""
    with open(os.path.join(REPO, "docs/labs/miss/solution.patch"), encoding="utf-8") as file:
        return "".join(line[1:] for line in file if re.match(r"\+\w", line))


def put(folder, name, text):
    """Writes a file of a submission."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def packed(path, members):
    """Writes a tar file."""
    with tarfile.open(path, "w") as file:
        for name, text in members:
            info = tarfile.TarInfo(name)
            info.size = len(text)
            file.addfile(info, io.BytesIO(text.encode()))


def test_grades(place):
    """Each kind of submission has its row."""
    right = right_answers()
    put(place, f"ann/{ANSWERS}", right)
    # bob writes the same numbers to another base.
    put(place, f"bob/{ANSWERS}", re.sub(r"= (\d+)$", lambda n: f"= {int(n[1]):#x}", right,
                                        flags=re.M))
    put(place, f"cyd/{ANSWERS}", right.replace("owner = ", "owner = no "))
    os.mkdir(os.path.join(place, "dan"))
    put(place, "eve/docs/labs/pin/test.c", "int main(void) { return 0; }")
    packed(os.path.join(place, "fay.tar"), [(ANSWERS, right)])
    packed(os.path.join(place, "gus.tar"), [("hw/net/unetmm/tlb/../../../../x", "no")])
    put(place, "hal.tar", "this is no tar file")
    packed(os.path.join(place, "ivy.tar"), [(ANSWERS, "x" * (1 << 20) + "x")])
    os.symlink("/etc/passwd", os.path.join(place, "dan", "link"))
    status, out, _ = run("--grade", place, "miss", "--json")
    rows = {row["student"]: row for row in json.loads(out)}
    assert status == 1, out
    assert [name for name, row in rows.items() if row["passed"]] == ["ann", "bob", "fay"], rows
    for name, reason in (("cyd", "not right: owner$"), ("dan", "link is not a plain file"),
                         ("eve", "docs/labs/pin/test.c is no file"), ("gus", "is no file"),
                         ("hal", "cannot be read"), ("ivy", "more than 1048576 bytes")):
        assert re.search(reason, rows[name]["reason"]), rows[name]
    _, out, _ = run("--grade", place, "miss")
    assert re.search(r"^ann +passed +1 of 1$", out, re.M), out
    assert re.search(r"^eve +not yet +0 of 1$", out, re.M), out


def test_a_missing_lab(place):
    """A lab that was not handed in is not one that failed."""
    put(place, f"ann/{ANSWERS}", right_answers())
    status, out, _ = run("--grade", place, "miss", "mailbox")
    assert status == 1 and re.search(r"^ann +passed +- +1 of 2$", out, re.M), out


def test_pack(place):
    """A packed lab is a submission."""
    status, out, _ = run("evict", "--pack", os.path.join(place, "ann.tar"))
    assert status == 0, out
    with tarfile.open(os.path.join(place, "ann.tar")) as file:
        names = file.getnames()
    assert "hw/net/unetmm/sources.txt" in names, names
    assert "hw/net/unetmm/tlb/replace_lru.c" in names, names


def test_export(place):
    """A hand-out has the starting points, and no solution."""
    if not os.path.exists(os.path.join(REPO, ".git")):
        return
    out = os.path.join(place, "handout")
    status, said, wrong = run("--export", out)
    assert status == 0, wrong
    names = [os.path.join(folder, name) for folder, _, files in os.walk(out) for name in files]
    assert not [name for name in names if name.endswith(("solution.patch", "teacher.rst"))], said
    assert os.path.exists(os.path.join(out, "docs/labs/policy/policy.c"))
    assert os.access(os.path.join(out, "docs/labs/run"), os.X_OK)
    status, _, wrong = run("--export", out)
    assert status == 2 and "is not empty" in wrong, wrong


def test_slides(place):
    """Slides of a lab are one file that names no other."""
    if subprocess.run(["/usr/bin/python3", "-c", "import docutils"], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        return
    status, _, wrong = run("--slides", place)
    assert status == 0, wrong
    for name in ("miss", "pin", "evict", "fault", "policy", "mailbox"):
        with open(os.path.join(place, f"{name}.html"), encoding="utf-8") as file:
            html = file.read()
        assert html.count('<div class="slide">') >= 5, name
        assert f"docs/labs/run {name}" in html, name
        assert not re.search(r'(src|href)="(?!data:)', html), name


def test_wrong_calls(place):
    """A sentence, and the status 2."""
    for words, reason in ((("bad",), "no lab bad: there are miss,"),
                          ((), "name one lab"), (("miss", "pin"), "name one lab"),
                          (("evict", "--gdb"), "has no part for gdb"),
                          (("--grade", place), "has no submission"),
                          (("--grade", place + "/no"), "No such file"),
                          (("--export", "x", "pin"), "takes no lab"),
                          (("pin", "--pack", place + "/no/x.tar"), "No such file")):
        status, _, wrong = run(*words)
        assert status == 2 and reason in wrong and "Traceback" not in wrong, (words, wrong)


def main():
    """TAP."""
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    failed = 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as place:
            try:
                test(place)
                wrong = None
            except AssertionError as error:
                wrong = str(error)
        failed += wrong is not None
        if wrong is not None:
            print("# " + wrong.replace("\n", "\n# "))
        print(f"{'ok' if wrong is None else 'not ok'} {number} - {test.__doc__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
