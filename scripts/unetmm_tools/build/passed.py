# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that have passed, so that scripts/test does not repeat one whose inputs
are the same as then.

For checkers whose result depends on files and a command alone; each check that
passed is an empty file in the cache, whose name is a hash of its inputs.
"""
import hashlib
import os
import time

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or
                     os.path.expanduser("~/.cache"), "unetmm", "passed")
# Seconds; a check that is looked up lives on.
LIFE = 30 * 86400


def key_of(words, files, root):
    """The name of a check: of the words of its command, and its files' contents.
    Names of files are relative to root: all clones have the same keys."""
    state = hashlib.sha256()
    for word in words:
        state.update(f"{word}\0".encode())
    for path in sorted(files):
        with open(os.path.join(root, path), "rb") as file:
            data = file.read()
        state.update(f"{path}\0{len(data)}\0".encode() + data)
    return state.hexdigest()


def has(key):
    """Has the check passed?"""
    try:
        os.utime(os.path.join(CACHE, key))
    except FileNotFoundError:
        return False
    return True


def add(key):
    """Notes that the check with this key has passed."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, key), "wb"):
        pass


def tidy():
    """Forgets checks that nobody has looked up for long."""
    if not os.path.isdir(CACHE):
        return
    for entry in os.scandir(CACHE):
        try:
            if time.time() - entry.stat().st_mtime > LIFE:
                os.unlink(entry.path)
        except FileNotFoundError:
            pass    # by another run
