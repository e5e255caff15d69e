# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells the user of a program which step is going on."""

import sys
import time


class Progress:
    """A line on a terminal that changes, and a line for the end of a step anywhere."""

    def __init__(self):
        self._shown = sys.stderr.isatty()
        self._begun = time.monotonic()

    def say(self, text):
        """The step that is going on."""
        if self._shown:
            print(f"\r\033[K  {text} ... {time.monotonic() - self._begun:.0f} s",
                  end="", file=sys.stderr, flush=True)

    def clear(self):
        """Removes the line."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def end(self, text):
        """All steps are done."""
        self.clear()
        print(f"  {text} ({time.monotonic() - self._begun:.1f} s)",
              file=sys.stderr, flush=True)
