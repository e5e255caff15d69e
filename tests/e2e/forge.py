# SPDX-License-Identifier: GPL-2.0-or-later
"""The other end of a card's wire, as a program that forges frames.

The card sends no frame with another station's address and none of its own
EtherType that a process has made, so a hostile station's frames come from
here.  The frames are made as docs/specs/unetmm.rst has them, not by the card's code.
"""

import functools
import os
import random
import socket
import struct
import threading
import time

ETHERTYPE = 0x88b5
VERSION, CONTROL, PAYLOAD_CRC = 1, 2, 1
PROBE, PROBE_ACK, CONNECT, CONNECT_ACK, CLOSE = 1, 2, 3, 4, 5
PEERS, PEER, CLOSE_ACK = 8, 9, 10
ALL = b"\xff" * 6
HEADER = struct.Struct("<6s6s2sBBHHHHIIIIQIII")
MESSAGE = struct.Struct("<BBHHHHBBIQQII")
MTU = 1024
# A driver's answers in a second, whatever it is asked: the least that one
# gives.
MOST_ANSWERS = 1000
# How long stations are silent whose host is busy.
BUSY = 3.0
# Seconds until a message has to have come: longer than a driver repeats a CLOSE.
PATIENCE = 15.0
# Questions for listeners that a driver answers in a second, at most.
MOST_QUESTIONS = 8
# Stations that may all share one limit: it is chosen anew each second.
SHARING = 8
# Stations that accept every request, the first of them and how many there are, and
# their half of such a channel.
LISTENER, LISTENERS, LISTENS_AT = 0xfffff0, 8, (7, 9)
# The endpoint that stations ask for.
ASKS_AT = 1


TABLE = [functools.reduce(lambda crc, _: crc >> 1 ^ (0x82f63b78 if crc & 1 else 0), range(8), byte)
         for byte in range(256)]


def crc32c(data):
    """By its definition, a byte at a time: the driver waits some times 50 ms for an answer."""
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def station(number):
    """The address of a station that nobody has."""
    return bytes((0x02, 0xf0, 0x0d, number >> 16 & 0xff, number >> 8 & 0xff,
                  number & 0xff))


LISTENING = frozenset(station(LISTENER + i) for i in range(LISTENERS))


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
        self._halves = set()    # (station, its number) of channels it asked for
        self._second, self._answers = 0.0, 0
        self._heard = threading.Condition()
        self._refusals, self._acks = 0, set()
        self._named = {}        # the answers to each question for listeners
        self._lies = 0
        self._lost = 0          # of the CLOSEs of each channel, the first ones
        self._closes = {}       # by the channel's nonce: how many have come
        self._asked = None      # the last request for a channel
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
        """Options of QEMU."""
        return []

    @staticmethod
    def exports():
        """Variables for the guest's script."""
        return ""

    def obey(self, words):
        """connect STATIONS NUMBER SERVICE TYPE: each of so many new stations asks
        so often; with `alive` before it they answer when they are asked, with
        `busy` some seconds later; with `other` they have not asked for these
        channels, and say so by silence.  `again` instead: the last station asks.
        refused SERVICE: asks until the driver refuses no more in this second,
        and whether it is there.
        named EP CHANNEL: asks whether the driver has these halves of channels to
        the station that listens, and some that it does not have.
        asks LISTENERS SERVICE: a new station asks all cards for listeners, and
        must hear of so many; then it asks too often.
        shares LISTENERS: two new stations ask all cards twice, in turn: each
        hears of so many different ones in both answers together.
        loses NUMBER: from now on so many CLOSEs of each channel are lost.
        closed CHANNELS NUMBER: waits until so many CLOSEs of each of so many channels
        of stations that listen have come since the last `loses`.
        closes: the last station that has asked for a channel ends it, twice, and
        one that it does not have.
        lies NUMBER: from now on a station answers each such question with so
        many listeners, and with messages that are wrong."""
        if words[0] == "refused":
            self._use_up(int(words[1]))
            return
        if words[0] == "named":
            self._name(int(words[1]), int(words[2]))
            return
        if words[0] == "asks":
            self._ask_for_listeners(int(words[1]), int(words[2]))
            return
        if words[0] == "shares":
            self._share(int(words[1]))
            return
        if words[0] == "lies":
            self._lies = int(words[1])
            return
        if words[0] == "loses":
            self._lose(int(words[1]))
            return
        if words[0] == "closed":
            self._await_closes(int(words[1]), int(words[2]))
            return
        if words[0] == "closes":
            self._end_channel()
            return
        how = words[0] if words[0] in ("alive", "busy", "other") else ""
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
                if how != "other":
                    self._halves.add((station(self._next), self._channel))
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
        if not self._is_answered(source):
            raise ValueError("after its refusals the driver does not answer")

    def _ask(self, source, ours=(0, 0), theirs=(0, 0)):
        """Sends a PROBE, for a channel if both halves are named."""
        nonce = self._nonce.getrandbits(64) | 1
        probe = MESSAGE.pack(PROBE, 0, *ours, *theirs, 0, 0, MTU, 0, nonce, 0, 0)
        self._socket.sendto(frame(self._card, source, probe), self._ends[0])
        return nonce

    def _is_answered(self, source, ours=(0, 0), theirs=(0, 0)):
        """Frames keep their order: with the answer to a later PROBE there is
        none to the one before."""
        with self._heard:
            for _ in range(100):
                nonce = self._ask(source, ours, theirs)
                later = self._ask(source)
                if self._heard.wait_for(lambda: nonce in self._acks or
                                        later in self._acks, 0.1):
                    return nonce in self._acks
        raise ValueError("the driver does not answer at all")

    def _question(self, source, service, wrong=0, nonce=0):
        """A new one, or one more of the call that has the nonce."""
        nonce = nonce or self._nonce.getrandbits(64) | 1
        with self._heard:
            self._named.setdefault(nonce, [])
        message = MESSAGE.pack(PEERS, 0, 0, 0, 0, 0, 0, 0, wrong, service, nonce,
                               0, 0)
        self._socket.sendto(frame(ALL, source, message), self._ends[0])
        return nonce

    def _asks(self, service):
        """The answers to a new station: the listeners of its first question and of a
        wrong one, how many of many more were answered, and in how many seconds."""
        self._next += 1
        source, begin = station(self._next), time.monotonic()
        first = self._question(source, service)
        wrong = self._question(source, service, 1)
        nonces = [self._question(source, service)
                  for _ in range(4 * MOST_QUESTIONS)]
        self._is_answered(source)
        with self._heard:
            return (self._named[first], self._named[wrong],
                    sum(bool(self._named[nonce]) for nonce in nonces),
                    time.monotonic() - begin)

    def _lose(self, number):
        with self._heard:
            self._lost, self._closes = number, {}

    def _await_closes(self, channels, number):
        with self._heard:
            if not self._heard.wait_for(
                    lambda: sum(count >= number for count in
                                self._closes.values()) >= channels, PATIENCE):
                raise ValueError(f"CLOSEs of channels: {self._closes}")

    def _end_channel(self):
        """Each is answered; the answer to the first may be lost."""
        source, channel, nonce = self._asked
        for said in (nonce, nonce, nonce ^ 1 << 63):
            with self._heard:
                self._acks.discard(said)
                for _ in range(100):
                    message = MESSAGE.pack(CLOSE, 0, ASKS_AT, channel, 0, 0, 0, 0,
                                           0, 0, said, 0, 0)
                    self._socket.sendto(frame(self._card, source, message),
                                        self._ends[0])
                    if self._heard.wait_for(lambda: said in self._acks, 0.1):
                        break
                else:
                    raise ValueError("a CLOSE is not answered")

    def _ask_for_listeners(self, listeners, service):
        """The station may share its limit with the one before: then another asks."""
        for _ in range(SHARING):
            heard, wrong, more, seconds = self._asks(service)
            if heard or not listeners:
                break
        if len(heard) != listeners or wrong:
            raise ValueError(f"{heard}, not {listeners} listeners")
        if any(said[9] != service or not said[2] for said in heard) or \
                more > MOST_QUESTIONS * (seconds + 2) or \
                bool(more) != bool(listeners):
            raise ValueError(f"{heard}, and {more} answers in {seconds} s")

    def _share(self, listeners):
        """Stations may share their limit with others: then other ones ask."""
        for _ in range(SHARING):
            self._next += 2
            asking = [station(self._next - 1), station(self._next)]
            nonces = [0, 0]
            # One after another: the driver has room for some answers only.
            for i in (0, 1, 0, 1):
                nonces[i] = self._question(asking[i], 0, nonce=nonces[i])
                self._is_answered(asking[i])
            with self._heard:
                heard = [len({said[2] for said in self._named[nonce]})
                         for nonce in nonces]
            if heard == [listeners] * 2:
                return
        raise ValueError(f"{heard}, not {listeners} listeners each")

    def _lie(self, nonce):
        """Text that does not end and controls a terminal; then other errors."""
        name = b"\x1b[31m\x07" + b"\xff" * 10
        source = station(LISTENER)
        good = [PEER, 0, 1, 0, 0, 0, 0, 2, MTU, 5, nonce, 0, 0]
        for number in range(1, self._lies + 1):
            good[2] = number
            self._socket.sendto(frame(self._card, source,
                                      MESSAGE.pack(*good) + name),
                                self._ends[0])
        for at, value in ((1, 1), (2, 0), (3, 1), (7, 0), (7, 0x80), (8, 1),
                          (9, 0), (11, 1), (12, 1)):
            bad = good[:at] + [value] + good[at + 1:]
            self._socket.sendto(frame(self._card, source,
                                      MESSAGE.pack(*bad) + name),
                                self._ends[0])
        for data in (MESSAGE.pack(*good), MESSAGE.pack(*good) + name + b"x"):
            self._socket.sendto(frame(self._card, source, data), self._ends[0])

    def _name(self, endpoint, channel):
        """Only the half that the driver has asked for is there for its peer."""
        peer, half = station(LISTENER), (endpoint, channel)
        other = (LISTENS_AT[0], LISTENS_AT[1] + 1)
        for good, source, ours, theirs in (
                (True, peer, LISTENS_AT, half),
                (False, peer, other, half),
                (False, peer, LISTENS_AT, (endpoint, channel + 1)),
                (False, peer, LISTENS_AT, (0, 0)),
                (False, station(LISTENER + LISTENERS), LISTENS_AT, half)):
            if self._is_answered(source, ours, theirs) != good:
                raise ValueError(f"{source.hex()} names {ours} and {theirs}: "
                                 f"{'no' if good else 'an'} answer")

    def _connect(self, source, channel, service, kind):
        nonce = self._nonce.getrandbits(64) | 1
        self._asked = (source, channel, nonce)
        message = MESSAGE.pack(CONNECT, 0, ASKS_AT, channel, 0, 0, kind, 0, MTU,
                               service, nonce, 0, 0)
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
            if said[0] == PROBE_ACK or (said[0] == CLOSE_ACK and
                                        said[4] == ASKS_AT):
                self._acks.add(said[10])
            if said[0] == CLOSE and to >= station(LISTENER):
                self._closes[said[10]] = self._closes.get(said[10], 0) + 1
            if said[0] == PEER and said[10] in self._named:
                self._named[said[10]].append(said)
            self._heard.notify_all()
        if said[0] == CLOSE and (to in self._alive or to in LISTENING) and \
                self._closes.get(said[10], self._lost + 1) > self._lost:
            answer = MESSAGE.pack(CLOSE_ACK, 0, *said[4:6], *said[2:4], 0, 0, 0, 0,
                                  said[10], 0, 0)
            self._socket.sendto(frame(self._card, to, answer), self._ends[0])
        if said[0] == CONNECT and to in LISTENING:
            answer = MESSAGE.pack(CONNECT_ACK, 0, *LISTENS_AT, said[2], said[3],
                                  said[6], 0, MTU, *said[9:11], 0, 0)
            self._socket.sendto(frame(self._card, to, answer), self._ends[0])
        if said[0] == PEERS and to == ALL and self._lies:
            self._lie(said[10])
        if said[0] == PROBE and to in self._alive and self._has(to, said) and \
                self._may_answer(to):
            answer = MESSAGE.pack(PROBE_ACK, 0, 0, 0, 0, 0, 0, 0, MTU, 0,
                                  said[10], 0, 0)
            self._socket.sendto(frame(self._card, to, answer), self._ends[0])

    def _has(self, to, said):
        """If a PROBE names a channel: the half that the station has asked for."""
        return not said[2] or (said[4] == ASKS_AT and
                               (to, said[5]) in self._halves)

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
