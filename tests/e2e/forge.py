# SPDX-License-Identifier: GPL-2.0-or-later
"""The other end of a card's wire, as a program that forges frames.

The card sends no frame with another station's address and none of its own
EtherType that a process has made, so a hostile station's frames come from
here.  The frames are made as docs/specs/unetmm.rst has them, not by the card's code.
"""

import os
import random
import socket
import struct
import threading
import time

ETHERTYPE = 0x88b5
VERSION, CONTROL, PAYLOAD_CRC = 1, 2, 1
PROBE, PROBE_ACK, CONNECT, CONNECT_ACK = 1, 2, 3, 4
HEADER = struct.Struct("<6s6s2sBBHHHHIIIIQIII")
MESSAGE = struct.Struct("<BBHHHHBBIQQII")
MTU = 1024
# What a driver answers in a second, whatever it is asked: the least that one does.
MOST_ANSWERS = 1000
# How long stations are silent whose host is busy.
BUSY = 3.0


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
        self._alive = {}        # and when each has heard the first question
        self._busy = set()
        self._second, self._answers = 0.0, 0
        self._heard = threading.Condition()
        self._refusals, self._acks = 0, set()
        self._next = 0
        self._channel = 0
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
        so often; with `alive` before it they answer when they are asked, with
        `busy` some seconds later.  `again` instead: the last station asks.
        refused SERVICE: asks until the driver refuses no more in this second,
        and whether it is there."""
        if words[0] == "refused":
            self._use_up(int(words[1]))
            return
        how = words[0] if words[0] in ("alive", "busy") else ""
        name, stations, number, service, kind = words[bool(how):]
        if name not in ("connect", "again"):
            raise ValueError(f"what is {name}?")
        for _ in range(int(stations)):
            self._next += name == "connect"
            if how:
                self._alive.setdefault(station(self._next), 0.0)
            if how == "busy":
                self._busy.add(station(self._next))
            for _ in range(int(number)):
                self._channel = (self._channel + 1) % (1 << 16)
                self._connect(station(self._next), self._channel, int(service),
                              int(kind))

    def _use_up(self, service):
        source = station(0)
        for _ in range(200):
            with self._heard:
                before = self._refusals
                for channel in range(20):
                    self._connect(source, channel, service, 0)
                if not self._heard.wait_for(lambda: self._refusals > before,
                                            0.05):
                    break
        nonce = self._nonce.getrandbits(64) | 1
        probe = MESSAGE.pack(PROBE, 0, 0, 0, 0, 0, 0, 0, MTU, 0, nonce, 0, 0)
        with self._heard:
            for _ in range(5):
                self._socket.sendto(frame(self._card, source, probe),
                                    self._ends[0])
                if self._heard.wait_for(lambda: nonce in self._acks, 0.02):
                    return
        raise ValueError("after its refusals the driver does not answer")

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
            if kind != struct.pack(">H", ETHERTYPE) or opcode != CONTROL:
                continue
            said = MESSAGE.unpack_from(data, HEADER.size + 4)
            try:
                self._hear(to, said)
            except OSError:
                return      # the guest has gone

    def _hear(self, to, said):
        with self._heard:
            self._refusals += said[0] == CONNECT_ACK and said[1] != 0
            if said[0] == PROBE_ACK:
                self._acks.add(said[10])
            self._heard.notify_all()
        if said[0] == PROBE and to in self._alive and self._may_answer(to):
            answer = MESSAGE.pack(PROBE_ACK, 0, 0, 0, 0, 0, 0, 0, MTU, 0,
                                  said[10], 0, 0)
            self._socket.sendto(frame(self._card, to, answer), self._ends[0])

    def _may_answer(self, to):
        """As a driver with one limit for all, or not yet."""
        now = time.monotonic()
        self._alive[to] = self._alive[to] or now
        if to in self._busy and now - self._alive[to] < BUSY:
            return False
        if now - self._second >= 1:
            self._second, self._answers = now, 0
        self._answers += 1
        return self._answers <= MOST_ANSWERS

    def close(self):
        """No more."""
        self._socket.close()
