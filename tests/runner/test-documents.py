#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""unetmm_tools/check/documents.py: a page with a name of each kind, right and wrong."""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
from unetmm_tools.check import documents  # noqa: E402  (of this checkout)

# (check, a text that is right, one that is wrong).  This file is a source, too: ~ keeps
# wrong names out of it.
CASES = (
    (documents.check_names, "``test_tlb.test_victims_are_fifo``",
     "``test_tlb.test_no_such_test``"),
    (documents.check_names, "``forged.for-what-it-has``", "``forged.no-such-test``"),
    (documents.check_names, "``dma.iommu.above-4-gib``", "``dma.iommu.above``"),
    (documents.check_names, "``xlat/miss.c: unetmm_miss_want()``",
     "``xlat/miss.c: no_such_function()``"),
    (documents.check_names, "`fuzz-rings`", "`fuzz-nothing`"),
    (documents.check_names, "``policy/skip.c``", "``policy/no-such.c``"),
    (documents.check_words, "``UNETMM_MAX_SEGS``", "``UNETMM_NUM~_POLICIES``"),
    (documents.check_words, "UNETMM_ST_* and UNETMM_C_", "UNETMM_NOTHI~NG_*"),
    (documents.check_words, "``FI_UNETMM_TIMEOUT_US``", "``FI_UNETMM_NO~THING``"),
    (documents.check_words, "the function ``tx_gather()``", "``tx_gather_~none()``"),
    (documents.check_words, "  #0  tx_gather (...)\n", "  #0  tx_gather_~none (...)\n"),
    (documents.check_words, "see scripts/fuzz", "see scripts/no-such-script"),
    (documents.check_words, "in send/send.c: tx_gather()", "at send/send.c:208"),
    (documents.check_options, "  scripts/fuzz --seconds 60 rings",
     "  scripts/fuzz --no-such-option rings"),
    (documents.check_options, "  scripts/vm -- --no-such-option  # of QEMU",
     "  unetmm-bw \\-\\-no-such-option"),
)


def main():
    """TAP."""
    failed, text = 0, ""
    read = documents.read
    documents.read = lambda path: text if path == "page" else read(path)
    print(f"1..{len(CASES)}")
    for number, (check, right, wrong) in enumerate(CASES, 1):
        wrong = wrong.replace("~", "")
        text = right
        errors = list(check("page"))
        text = wrong
        good = not errors and len(list(check("page"))) == 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {right.strip()}, not "
              f"{wrong.strip()}".replace("#", ""))
        if not good:
            print(f"# {errors}, {list(check('page'))}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
