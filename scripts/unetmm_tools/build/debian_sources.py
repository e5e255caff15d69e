#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a private apt source list out of the sources that the machine has.

Usage: debian_sources.py RELEASE ARCHITECTURE [SUITE] < targets

The standard input holds `apt-get indextargets` lines "origin|label|release|uri".
Only entries whose Release file says Debian are used; mirrors, keyrings and
options are theirs, the suites are those that the build needs:

- from the archive: bookworm (kernels), trixie (QEMU's source), and
  bookworm-backports on bookworm (build tools);
- from the security archive: the same releases' security suites.

With a SUITE: that one's packages alone, of both archives; with SUITE/ARCHITECTURE those of
another machine than ARCHITECTURE, and with SUITE-source the sources
of the archive alone.
"""

import glob
import os
import sys

CONFIG = os.environ.get("UNETMM_APT_CONFIG", "/etc/apt")

# Fields that select repositories; all others (keyring, options) are kept.
SELECTING = {"types", "uris", "suites", "components", "enabled",
             "architectures", "arch", "lang", "target", "description", "x-repolib-name", "targets",
             "pdiffs", "languages"}


def read_deb822(path):
    """Yields each stanza of a .sources file as a dict of raw field texts."""
    stanza, field = {}, None
    with open(path, encoding="utf-8") as lines:
        for line in list(lines) + ["\n"]:
            if line.startswith("#"):
                continue
            if not line.strip():
                if stanza:
                    yield stanza
                stanza, field = {}, None
            elif line[0] in " \t" and field:
                stanza[field] += "\n" + line.rstrip()
            elif ":" in line:
                field, value = line.split(":", 1)
                field = field.strip().lower()
                stanza[field] = value.strip()


def read_one_line(path):
    """Yields each entry of a .list file in the form of read_deb822()."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split("#", 1)[0].strip()
            if not words.startswith(("deb ", "deb-src ")):
                continue
            stanza = {"types": words.split(None, 1)[0]}
            rest = words.split(None, 1)[1].strip()
            if rest.startswith("["):
                options, rest = rest[1:].split("]", 1)
                for option in options.split():
                    key, _, value = option.partition("=")
                    stanza[key.lower()] = value.replace(",", " ")
            rest = rest.split()
            if len(rest) >= 2:
                stanza["uris"], stanza["suites"] = rest[0], rest[1]
                yield stanza


def configured_entries():
    """All apt sources of this machine, in both formats."""
    for path in ([f"{CONFIG}/sources.list"] +
                 sorted(glob.glob(f"{CONFIG}/sources.list.d/*.list"))):
        if os.path.exists(path):
            yield from read_one_line(path)
    for path in sorted(glob.glob(f"{CONFIG}/sources.list.d/*.sources")):
        for stanza in read_deb822(path):
            if stanza.get("enabled", "yes").lower() not in ("no", "false", "0"):
                yield stanza


def normal(uri):
    """The form in which apt names a repository."""
    return uri.rstrip("/") + "/"


def stanza_text(entry, uri, types, suites, arch):
    """One stanza of the private list."""
    lines = [f"Types: {types}", f"URIs: {uri}", f"Suites: {suites}",
             "Components: main", f"Architectures: {arch}"]
    for key, value in entry.items():
        if key not in SELECTING and not key.startswith("languages"):
            lines.append(f"{key.title()}: {value}")
    return "\n".join(lines) + "\n"


def wanted_suites(kind, release, only=None):
    """[(types, suites)] to read from an archive of this kind."""
    if only and only.endswith("-source"):
        return [] if kind == "security" else [("deb-src", only.removesuffix("-source"))]
    if only and kind == "security":
        # Backports have no security suite: their newest version is the mended one.
        return [] if only.endswith("-backports") else [("deb", only + "-security")]
    if only:
        return [("deb", only)]
    if kind == "security":
        suites = "bookworm-security"
        if release != "bookworm":
            suites += " trixie-security"
        return [("deb", suites), ("deb-src", "trixie-security")]
    if release == "bookworm":
        return [("deb", "bookworm bookworm-backports"), ("deb-src", "trixie")]
    return [("deb", "bookworm trixie"), ("deb-src", "trixie")]


def main():
    """Prints the list; fails when the machine has no Debian archive."""
    release, host, suite = [*sys.argv[1:], ""][:3]
    only, _, arch = suite.partition("/")
    kinds = {}
    for line in sys.stdin:
        origin, label, suite, uri = line.strip().split("|")
        if origin == "Debian" and label in ("Debian", "Debian-Security"):
            kind = "security" if label == "Debian-Security" else "archive"
            if kind == "security" or "backports" not in suite:
                kinds[normal(uri)] = kind
    done = set()
    for entry in configured_entries():
        for uri in entry.get("uris", "").split():
            kind = kinds.get(normal(uri))
            # One mirror of each kind is enough.
            if kind is None or kind in done:
                continue
            done.add(kind)
            # Kernels are in the archive of security; of these only libraries are wanted.
            if kind == "security" and arch in ("riscv64", "s390x"):
                continue
            for types, suites in wanted_suites(kind, release, only):
                print(stanza_text(entry, uri, types, suites, arch or host))
    return 0 if "archive" in done else 1


if __name__ == "__main__":
    sys.exit(main())
