# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# codespell of one release of Debian: each has a dictionary of its own, and a text that
# passes one does not pass another.

CODESPELL_SUITE=trixie

codespell_dir() { echo "$CACHE/codespell/$CODESPELL_SUITE"; }

make_codespell() { fetch_suite "$1" "$CODESPELL_SUITE" codespell; }

# codespell_command: makes it, and prints the words that call it, one a line.
codespell_command() {
    product codespell "getting codespell of Debian $CODESPELL_SUITE" \
        "$(codespell_dir)" make_codespell
    printf '%s\n' env "PYTHONPATH=$(codespell_dir)/usr/lib/python3/dist-packages" \
        "$(system_python)" -m codespell_lib
}
