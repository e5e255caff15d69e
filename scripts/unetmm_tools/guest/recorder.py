# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/cluster --timeline: the events of all cards while a command runs.

Guests of the host's time write QEMU's trace, whose events are switched on by QMP; the
links of guests in one virtual time write a line for each frame.  timeline.py turns
either into one document.
"""

import json
import os

from unetmm_tools.guest import timeline

# A job can go on for hours; a viewer wants less.
MOST_BYTES = 64 << 20


def write(path, document):
    """Writes a timeline; returns a sentence about it."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
        file.write("\n")
    count = sum(event["ph"] != "M" for event in document["traceEvents"])
    return f"{path}: {count} events; https://ui.perfetto.dev shows them"


class Recorder:
    """Traces of a cluster's cards, a file each.

    directory  of the files
    """

    def __init__(self, directory):
        self._directory = directory
        self._full = False

    def _path(self, name):
        return os.path.join(self._directory, f"{name}.trace")

    def arguments(self, name):
        """QEMU's arguments for a guest."""
        return ["-msg", "timestamp=on", "-D", self._path(name)]

    @staticmethod
    def _switch(guests, on):
        for guest in guests:
            for event in timeline.CARD_EVENTS:
                guest.qmp("trace-event-set-state", name=f"unetmm_{event}",
                          enable=on)

    def begin(self, guests):
        """From here on events are written."""
        self._switch(guests, True)

    def look(self, guests):
        """Ends a trace that has become too long; to be called now and then."""
        if not self._full and sum(os.path.getsize(self._path(guest.name))
                                  for guest in guests) > MOST_BYTES:
            self._full = True
            self._switch(guests, False)

    def end(self, guests, path):
        """Writes the timeline; returns a sentence about it."""
        if not self._full:
            self._switch(guests, False)
        cards = {}
        for guest in guests:
            try:
                cards[guest.name] = timeline.read_card(
                    timeline.lines_of(self._path(guest.name)))
            except timeline.EmptyTrace:
                pass
        if not cards:
            raise timeline.TraceError(
                "no card has done anything: the command used none")
        said = write(path, timeline.build_cards(cards))
        return said + (f"; they end after {MOST_BYTES >> 20} MiB of traces"
                       if self._full else "")


def of_links(directory, names, path):
    """Writes the timeline of guests in one virtual time, from their links' logs.

    names  {the guest's name in the document: its file}
    """
    return write(path, timeline.build_frames(
        {name: timeline.lines_of(os.path.join(directory, file))
         for name, file in names.items()}))
