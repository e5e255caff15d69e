# SPDX-License-Identifier: GPL-2.0-or-later
"""Files for the students of a class: the tree without solutions; a solution as a file."""

import fnmatch
import os
import subprocess
import tarfile

from unetmm_tools import REPO
from unetmm_tools.course import labs

# A hand-out does not have these.
TEACHERS = ("docs/labs/*/solution.patch", "docs/labs/*/slides.txt", "docs/labs/teacher.rst")


def export(place):
    """Copies the files of the tree that git knows, without those of teachers; a sentence."""
    if os.path.exists(place) and os.listdir(place):
        raise labs.LabError(f"{place} is not empty: name a new folder")
    found = subprocess.run(["git", "-C", REPO, "ls-files", "-z"], stdout=subprocess.PIPE,
                           text=True, check=False)
    if found.returncode:
        raise labs.LabError(f"{REPO} is not a clone with git: a hand-out is made from one")
    names = [name for name in found.stdout.split("\0") if name and not any(
        fnmatch.fnmatchcase(name, pattern) for pattern in TEACHERS)]
    os.makedirs(place, exist_ok=True)
    with subprocess.Popen(["cpio", "-p", "-0", "-d", "-m", "--quiet", os.path.realpath(place)],
                          stdin=subprocess.PIPE, cwd=REPO, text=True) as copying:
        copying.communicate("\0".join(names))
    if copying.returncode:
        raise labs.LabError(f"not all files could be copied to {place}")
    return f"{place}: {len(names)} files, without solutions and teachers' notes"


def pack(name, path):
    """Writes the files of the lab that a student may change, as they are; a sentence."""
    members = []
    for place in labs.LABS[name].files:
        full = os.path.join(REPO, place)
        members += [os.path.join(place, entry) for entry in sorted(os.listdir(full))] \
            if place.endswith("/") else [place]
    try:
        with tarfile.open(path, "w") as file:
            for member in members:
                file.add(os.path.join(REPO, member), member, recursive=False)
    except OSError as error:
        raise labs.LabError(f"{path}: {error.strerror}") from error
    return f"{path}: {len(members)} files of lab {name}"
