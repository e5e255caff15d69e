# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the labs sound: does each test fail at the starting point, and pass with the solution?"""

import os
import tempfile

from unetmm_tools.course import labs


def check_lab(name, long, work):
    """A sentence for a fault of the lab, or None."""
    base, lab = labs.copy(work), labs.LABS[name]
    more = {"guest": long} if lab.guest else {}
    # Without a guest the start of `mailbox` cannot fail: it only compiles.
    if name != "mailbox" or long:
        reason, said = labs.silent(name, base, work, **more)
        if lab.start not in (reason or ""):
            return ("the starting point does not fail as it should: "
                    f"{said}{reason or 'it passes'}")
    status, text = labs.ran(["patch", "-p1", "--fuzz=0", "-i", os.path.join(
        labs.FOLDER, name, "solution.patch")], cwd=base)
    if status:
        return f"the solution does not apply:\n{text}"
    changed = [line.split()[2] for line in text.splitlines() if line.startswith("patching file")]
    if not all(labs.may_change(name, path) for path in changed):
        return f"the solution changes files that are not the lab's: {', '.join(changed)}"
    wrong, said = labs.silent(name, base, work, **more)
    return wrong and f"the test fails with the solution:\n{said}{wrong}"


def check(names, long):
    """TAP of all labs; returns the exit status."""
    failed = 0
    print(f"1..{len(names)}")
    for number, name in enumerate(names, 1):
        with tempfile.TemporaryDirectory() as work:
            wrong = check_lab(name, long, work)
        failed += wrong is not None
        if wrong:
            print("# " + wrong.rstrip().replace("\n", "\n# "))
        part = "" if long or not labs.LABS[name].guest else " (--long: in a guest)"
        print(f"{'not ok' if wrong else 'ok'} {number} - lab {name}: the start "
              f"fails, the solution passes{part}", flush=True)
    return 1 if failed else 0
