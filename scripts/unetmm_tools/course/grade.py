# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests the submissions of a class.

A submission is an entry of one folder: a folder, or a tar file, with the files that a student has
changed, named from the root of the tree.  Files that the lab does not ask for are refused: the
tests are those of this tree.
"""

import os
import shutil
import tarfile
import tempfile
import time

from unetmm_tools.course import labs

MOST_BYTES = 1 << 20            # of a file
MOST_FILES = 1000               # of a submission
TAR = ".tar"


class Refused(Exception):
    """The submission cannot be tested; a sentence."""


def folder_files(path):
    """{name: bytes} of a folder."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            full = os.path.join(folder, name)
            inside = os.path.relpath(full, path)
            if os.path.islink(full) or not os.path.isfile(full):
                raise Refused(f"{inside} is not a plain file")
            if len(found) == MOST_FILES:
                raise Refused(f"there are more than {MOST_FILES} files")
            with open(full, "rb") as file:
                found[inside] = file.read(MOST_BYTES + 1)
    return found


def tar_files(path):
    """{name: bytes} of a tar file."""
    found = {}
    try:
        with tarfile.open(path, "r:") as file:
            for member in file:
                if member.isdir():
                    continue
                if not member.isfile():
                    raise Refused(f"{member.name} is not a plain file")
                if len(found) == MOST_FILES:
                    raise Refused(f"there are more than {MOST_FILES} files")
                found[os.path.normpath(member.name)] = file.extractfile(member).read(
                    MOST_BYTES + 1)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Refused(f"the tar file cannot be read: {error}") from error
    return found


def submission(path):
    """{name: bytes} of a student's files, which are checked."""
    files = folder_files(path) if os.path.isdir(path) else tar_files(path)
    for name, data in files.items():
        if not any(labs.may_change(lab, name) for lab in labs.LABS) or ".." in name.split("/"):
            raise Refused(f"{name} is no file that a lab asks for")
        if len(data) > MOST_BYTES:
            raise Refused(f"{name} has more than {MOST_BYTES} bytes")
    return files


def test(files, name, guest):
    """(None or the reason, the test's output) of a lab with a student's files."""
    own = {path: data for path, data in files.items() if labs.may_change(name, path)}
    if not own:
        return "not handed in", ""
    with tempfile.TemporaryDirectory() as work:
        base = labs.copy(work)
        for path, data in own.items():
            full = os.path.join(base, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(data)
        more = {"guest": guest} if labs.LABS[name].guest else {}
        try:
            return labs.silent(name, base, work, **more)
        except labs.LabError as error:
            return str(error), ""


def grade(place, names, guest, say):
    """A row for each student and lab: student, lab, passed, reason, output, seconds."""
    try:
        entries = sorted(os.listdir(place))
    except OSError as error:
        raise labs.LabError(f"{place}: {error.strerror}") from error
    students = [(entry.removesuffix(TAR), os.path.join(place, entry)) for entry in entries
                if entry.endswith(TAR) or os.path.isdir(os.path.join(place, entry))]
    if not students:
        raise labs.LabError(f"{place} has no submission: a folder or a tar file for each student")
    rows = []
    for student, path in students:
        try:
            files, refused = submission(path), None
        except Refused as error:
            files, refused = {}, str(error)
        for name in names:
            say(f"{student}: {name}")
            begun = time.monotonic()
            wrong, said = (refused, "") if refused else test(files, name, guest)
            rows.append({"student": student, "lab": name, "passed": wrong is None,
                         "reason": wrong, "output": said,
                         "seconds": round(time.monotonic() - begun, 1)})
    return rows


def table(rows, names):
    """The rows as text: a line for each student, and the reasons below."""
    students = list(dict.fromkeys(row["student"] for row in rows))
    width = max(len(student) for student in students + ["student"])
    lines = ["  ".join([f"{'student':{width}}", *(f"{name:>8}" for name in names), "passed"])]
    for student in students:
        own = [row for row in rows if row["student"] == student]
        marks = ["passed" if row["passed"] else
                 "-" if row["reason"] == "not handed in" else "not yet" for row in own]
        lines.append("  ".join([f"{student:{width}}", *(f"{mark:>8}" for mark in marks),
                                f"{sum(row['passed'] for row in own)} of {len(own)}"]))
    reasons = [f"{row['student']}, {row['lab']}: {row['reason'].splitlines()[0]}" for row in rows
               if row["reason"] and row["reason"] != "not handed in"]
    columns = shutil.get_terminal_size().columns
    return "\n".join(lines + ([""] + [line[:max(columns, 80)] for line in reasons]
                              if reasons else []))
