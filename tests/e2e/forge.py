# SPDX-License-Identifier: GPL-2.0-or-later
"""The other end of a card's wire, as a program that forges frames.

The card sends no frame with another station's address and none of its own
EtherType that a process has made, so what a hostile station sends comes from
here.  The frames are made as docs/specs/unetmm.rst has them, not by the card's code.
"""

import os
import random
import socket
import struct
import threading

ETHERTYPE = 0x88b5
VERSION, CONTROL, PAYLOAD_CRC = 1, 2, 1
PROBE, PROBE_ACK, CONNECT = 1, 2, 3
HEADER = struct.Struct("<6s6s2sBBHHHHIIIIQIII")
MESSAGE = struct.Struct("<BBHHHHBBIQQII")
MTU = 1024


def crc32c(data):
    """By its definition."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def station(number):
    """The address of a station that nobody has."""
    return bytes((0x02, 0xf0, 0x0d, number >> 16 & 0xff, number >> 8 & 0xff,
                  number & 0xff))


def frame(to, source, message):
    """A control message from endpoint 0 to endpoint 0."""
    head = HEADER.pack(to, source, struct.pack(">H", ETHERTYPE), VERSION,
                       CONTROL, 0, 0, 0, 0, len(message), PAYLOAD_CRC, 0, 0, 0,
                       0, 0, crc32c(message))
    return head + struct.pack("<I", crc32c(head)) + message


class Forger:
    """A wire of datagrams, one a frame, with stations that answer or do not."""

    def __init__(self, directory, card):
        self._ends = [os.path.join(directory, name)
                      for name in ("wire-card", "wire-host")]
        self._card = bytes.fromhex(card.replace(":", ""))
        self._alive = set()
        self._next = 0
        self._nonce = random.Random(1)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._ends[1])
        threading.Thread(target=self._answer, daemon=True).start()

    def options(self):
        """Of scripts/vm."""
        card, host = (end.replace(",", ",,") for end in self._ends)
        return ["--netdev", f"dgram,local.type=unix,local.path={card},"
                f"remote.type=unix,remote.path={host}"]

    @staticmethod
    def qemu():
        """Of QEMU's."""
        return []

    @staticmethod
    def exports():
        """What the guest's script is told."""
        return ""

    def obey(self, words):
        """connect STATIONS NUMBER SERVICE TYPE: each of so many new stations asks
        so often; with `alive` before it they answer when they are asked."""
        alive = words[0] == "alive"
        name, stations, number, service, kind = words[alive:]
        if name != "connect":
            raise ValueError(f"what is {name}?")
        for _ in range(int(stations)):
            self._next += 1
            if alive:
                self._alive.add(station(self._next))
            for channel in range(int(number)):
                self._connect(station(self._next), channel, int(service),
                              int(kind))

    def _connect(self, source, channel, service, kind):
        message = MESSAGE.pack(CONNECT, 0, 1, channel, 0, 0, kind, 0, MTU,
                               service, self._nonce.getrandbits(64) | 1, 0, 0)
        self._socket.sendto(frame(self._card, source, message), self._ends[0])

    def _answer(self):
        while True:
            try:
                data = self._socket.recv(1 << 17)
            except OSError:
                return
            if len(data) < HEADER.size + 4 + MESSAGE.size:
                continue
            to, _, kind, _, opcode, *_ = HEADER.unpack_from(data)
            said = MESSAGE.unpack_from(data, HEADER.size + 4)
            if kind == struct.pack(">H", ETHERTYPE) and opcode == CONTROL and \
                    said[0] == PROBE and to in self._alive:
                answer = MESSAGE.pack(PROBE_ACK, 0, 0, 0, 0, 0, 0, 0, MTU, 0,
                                      said[10], 0, 0)
                try:
                    self._socket.sendto(frame(self._card, to, answer),
                                        self._ends[0])
                except OSError:
                    return      # the guest has gone

    def close(self):
        """No more."""
        self._socket.close()
