# SPDX-License-Identifier: GPL-2.0-or-later
"""Cards that are a table, for the tests of scripts/top and scripts/watch."""

import contextlib
import os
import tempfile
import threading
import time

from unetmm_tools.guest import live, pair, watch


class FakeCard:
    """Answers as QEMU does; `tlb` is {slot: page}, all of space 1."""

    def __init__(self):
        self.tlb = {0: 0x10, 5: 0x20}
        self.commands = []
        self.counters = dict.fromkeys(live.RATES, 0)
        self.gone = False
        self.delay = 0                      # seconds of a command
        self.turned = threading.Event()     # a "stop" has come

    def qmp(self, name, /, **arguments):
        """A command."""
        if self.gone:
            raise pair.GuestError("QEMU closed its control socket")
        time.sleep(self.delay)
        self.commands += [name] if name in ("stop", "cont") else []
        if name == "stop":
            self.turned.set()
        if name == "query-status":
            return {"status": "paused" if self.commands[-1:] == ["stop"] else "running"}
        return self._get(arguments["property"]) if name == "qom-get" else {}

    def _get(self, name):
        sizes = {"tlb-sets": 64, "tlb-ways": 1, "tlb-victims": 16}
        if name in sizes:
            return sizes[name]
        if name == "counters":
            self.counters["sends_done"] += 100
            return dict(self.counters)
        if name == "tlb":
            return [{"slot": slot, "space": 1, "vaddr": page << 12, "busy": slot == 5,
                     "victim": slot >= 64, "writable": 1} for slot, page in self.tlb.items()]
        return [{"id": 3, "space": 1, "sq-prod": 2, "sq-cons": 0xfffffffe, "fq-prod": 7, "fq-cons": 0,
                 "cq-prod": 1, "cq-cons": 1, "stopped": 0, "send-blocked-on": 9}]


class Found:
    """Two fake cards; the first has a trace with a miss that is not answered."""

    def __init__(self, directory):
        self.fakes = [FakeCard(), FakeCard()]
        self.trace = os.path.join(directory, "a.trace")
        with open(self.trace, "w", encoding="ascii") as file:
            file.write("1@1.000000:unetmm_tlb_insert space 1 vpn 0x10 pte 0x7 tag 1 result 0\n"
                       "1@1.000001:unetmm_miss ep 3 id 0x40 vaddr 0x30000 npages 1 flags 0x0\n"
                       "1@1.000002:unetmm_miss ep 3 id 0x41 vaddr 0x31000 npages 1 flags 0x0\n"
                       "1@1.000003:unetmm_reply id 0x41 status 0 vaddr 0x31000 npages 1\n"
                       "unetmm_miss garbage \x01 ep\n")
        self.live = live.Live([live.Card("a", self.fakes[0].qmp, self.trace),
                               live.Card("b", self.fakes[1].qmp)])

    @staticmethod
    def ends():
        """The command of b has ended."""
        return {"b": (0, "done <b>")}


@contextlib.contextmanager
def served():
    """(server, fake cards) of scripts/watch."""
    with tempfile.TemporaryDirectory() as directory:
        found = Found(directory)
        hub = watch.Hub(found, 0.05)
        server = watch.Server(0)
        server.hub = hub
        threads = [threading.Thread(target=work, daemon=True)
                   for work in (hub.work, server.serve_forever)]
        for thread in threads:
            thread.start()
        try:
            yield server, found.fakes
        finally:
            hub.close()
            server.shutdown()
            server.server_close()
            threads[0].join(10)
