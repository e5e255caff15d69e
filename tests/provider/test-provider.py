#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The provider in the stock libfabric, on a machine without a card.

usage: test-provider.py SOURCE-ROOT FI_INFO PROVIDER-FOLDER LIBRARY-FOLDER
"""
import os
import re
import subprocess
import sys

ROOT, FI_INFO, FOLDER, LIBRARY = sys.argv[1:5]
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from unetmm_tools.check import taptests  # noqa: E402  (of this checkout)
NO_CARD = "/nonexistent/unetmm0"


def fi_info(*arguments, **variables):
    """(status, output) of fi_info with the provider."""
    done = subprocess.run(
        [FI_INFO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False, timeout=60, env={
            **os.environ, "FI_PROVIDER_PATH": FOLDER, "LD_LIBRARY_PATH": LIBRARY,
            "FI_UNETMM_DEVICE": NO_CARD, **variables})
    return done.returncode, done.stdout.decode(errors="replace")


def names():
    """The provider's variables, as libfabric lists them."""
    return set(re.findall(r"FI_UNETMM_\w+(?=: )", fi_info("--env")[1]))


def variables_are_listed():
    assert len(names()) >= 4, names()


def variables_are_documented():
    for path in ("guest-lib/man/fi_unetmm.7", "docs/provider.rst"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        assert names() == set(re.findall(r"FI_UNETMM_\w+", text)), path


def without_a_card_there_is_nothing():
    status, output = fi_info("-p", "unetmm", FI_LOG_LEVEL="info",
                             FI_LOG_PROV="unetmm")
    assert status, output
    assert NO_CARD in output, output


def wrong_values_are_named():
    output = fi_info("-p", "unetmm", FI_LOG_LEVEL="warn",
                     FI_UNETMM_SOURCE="nfp", FI_UNETMM_CLOSE_MS="-3")[1]
    assert 'source "nfp" is unknown' in output, output
    assert "close_ms is -3" in output, output


def whole_needs_odp():
    for source, wrong in (("odp", False), ("shadow", True), ("pinned", True)):
        output = fi_info("-p", "unetmm", FI_LOG_LEVEL="warn", FI_UNETMM_WHOLE="1",
                         FI_UNETMM_SOURCE=source)[1]
        assert ("whole needs source odp" in output) == wrong, output


def right_values_are_not():
    for source in ("odp", "shadow", "tlb", "utlb", "pinned"):
        output = fi_info("-p", "unetmm", FI_LOG_LEVEL="warn",
                         FI_UNETMM_SOURCE=source)[1]
        assert "unknown" not in output, output


sys.exit(taptests.plain([
    variables_are_listed, variables_are_documented, without_a_card_there_is_nothing,
    wrong_values_are_named, whole_needs_odp, right_values_are_not]))
