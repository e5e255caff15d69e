#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends a line to a peer (hello.py MAC), or answers one (hello.py)."""
import sys

import unetmm

SERVICE = 100


def until(ep, wanted):
    """The next completion of a type; the others are passed over."""
    for [completion] in iter(lambda: ep.wait(timeout=60, most=1), []):
        if completion.type == wanted:
            return completion
    sys.exit("the peer says nothing")


with unetmm.Context() as card, card.endpoint() as ep:
    ep.post_recv(bytearray(4096))
    if len(sys.argv) > 1:
        channel = ep.connect(sys.argv[1], SERVICE, timeout=60)
        channel.send(b"hello, out of ordinary memory")
    else:
        ep.listen(SERVICE)
        channel = ep.accept()
    print(bytes(until(ep, unetmm.Type.RECEIVED).check().data).decode())
    if len(sys.argv) == 1:
        channel.send(b"well received")
        channel.shutdown(timeout=60)
    else:
        # The peer's card waits for the acknowledgement of its message.
        until(ep, unetmm.Type.CLOSED)
