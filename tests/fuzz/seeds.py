#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the seeds of the fuzz targets; the build calls this.

usage: seeds.py DIRECTORY

An input is a program for one target (see fuzz-NAME.c): a byte that chooses the
card, then operations.  A seed shows the fuzzer a way through that chance would
take long to find: a message that arrives, a miss that is answered, a page that
is invalidated while it moves.
"""
import os
import shutil
import struct
import sys

# The first byte (fuzz_params()): sets, ways, victims, LRU or random, page time
CARDS = {"roomy": 0x00, "direct": 0x01, "cramped": 0x05, "two-ways": 0x13, "slow": 0x40,
         "slow-tiny": 0x41, "slow-cramped": 0x47, "starved": 0xc5, "random": 0x27}


def u16(value):
    return struct.pack("<H", value)


def u32(value):
    return struct.pack("<I", value)


def vaddr(offset):
    """fuzz_vaddr(): an offset in the process's memory."""
    return b"\x00" + u16(offset)


def length(n):
    """fuzz_len()."""
    return b"\x10" + u16(n)


# ---- fuzz_world_op(): operations that all targets have ----------------------

def world(endpoint, which, *rest):
    return bytes([endpoint, which]) + b"".join(rest)


def wire(which, value=0):
    return world(0, 0, bytes([which, value]))


def knobs(which, rate):
    return world(0, 1, bytes([which, rate]))


def poll(endpoint):
    return world(endpoint, 2)


def time(ns):
    return world(0, 3, u16(ns))


def driver(what, space=0, page=0, *rest):
    return world(0, 5, bytes([space, page, what]), *rest)


SERVE = driver(4)

# ---- fuzz_ud.c ----------------------------------------------------------------

QUIET, WITH_IMM, ANY_LENGTH = 0x02, 0x20, 0x80
# Of fuzz_ud_send(): a station of the wire, then the rule that is broken
OUT, (BAD_QKEY, OWN_QKEY, GROUP, NO_UD, NOT_INLINE, NO_IMM, PLAIN) = 8, range(
    0x10, 0x80, 0x10)


def ud_send(to, *segments, how=0, size=0):
    """The body of fuzz_ud_send()."""
    return bytes([how | len(segments) << 2, to, size]) + b"".join(
        vaddr(at) + u16(n) for at, n in segments)


# ---- fuzz-rings.c -----------------------------------------------------------


def ring_op(op, endpoint, bell, body=b""):
    return bytes([op | (0x20 if bell else 0) | endpoint << 6]) + body


def send(endpoint, channel, segments, bell=True, flags=0):
    body = bytes([flags, channel, 7, len(segments)])
    for at, n in segments[:2]:
        body += vaddr(at) + length(n)
    return ring_op(0, endpoint, bell, body)


def more_segments(endpoint, segments, bell=True):
    segments = (segments + [(0, 0)] * 4)[:4]
    return ring_op(3, endpoint, bell,
                   b"".join(vaddr(a) + length(n) for a, n in segments))


def send_inline(endpoint, channel, n):
    return ring_op(0, endpoint, True, bytes([1, channel, 9, n]))


def post(endpoint, at, n):
    return ring_op(5, endpoint, True, vaddr(at) + length(n) + b"\x05")


def ring_world(body):
    return ring_op(11, 0, False, body)


# ---- fuzz_ops.c ---------------------------------------------------------------

WRITE, READ, ADD, SWAP, FENCE = range(5)
NEIGHBOUR, VICTIM, WRONG_KEY, TOO_LONG = range(4)
NOTIFY = 4
IMM = 4
# Of post_by_key(): the victim's region, or that of an odd endpoint.
BY_KEY, BAD_KEY, OUTSIDE, NEIGHBOURS = 0x01, 0x21, 0x41, 0x82


def ops_post(op, what, at, source=None, n=0, flags=0, key=None):
    """Without a source: inline, or nothing."""
    return (bytes([0, op, what | flags << 4 | (8 if key is not None else 0)]) +
            u16(at) + (vaddr(source) + u16(n) if source is not None else b"") +
            (bytes([key]) if key is not None else b""))


def ops_store(page, word, n):
    return bytes([3, n - 1 | page << 4, word]) + bytes(range(1, 9))


def ops_start(to, source, n):
    """The store, then the load, of pages that follow each other."""
    return bytes([5, 0x90]) + u16(to) + bytes([n, source])


def ops_driver(what, rest=b""):
    return bytes([7, what]) + rest


def ops_victim(rights):
    """Its region taken back; rights: and exported again."""
    return ops_driver(0xc0 | rights if rights else 0x80)


def ops_ud(*args, **more):
    return bytes([180]) + ud_send(*args, **more)


OPS_UD_SET, OPS_UD_FLUSH = ops_driver(0x70), ops_driver(0x71)
OPS_REOPEN = b"\x08\x70"
OPS_TAKE = b"\x09"


def ring_ops(endpoint, *bodies):
    return b"".join(ring_op(14, endpoint, False, body) for body in bodies)


def ring_one_sided():
    """Programs for fuzz-rings.c: a peer's memory."""
    serve = ring_world(SERVE)
    late = ring_world(time(60000))
    write = ops_post(WRITE, VICTIM, 30, 100, 2500, NOTIFY)
    yield "write", "roomy", (
        ring_ops(0, write) + serve * 3 + ring_ops(0, OPS_TAKE, write) + serve)
    yield "write-slow", "slow", (
        ring_ops(0, write) + (serve + ring_world(time(350))) * 7 +
        ring_ops(0, ops_victim(0)) + ring_world(time(700)) * 4 + serve +
        ring_ops(0, write, ops_victim(2), write) + late + serve)
    yield "read", "two-ways", (
        ring_ops(0, ops_post(READ, VICTIM, 0, 50, 4000)) + serve * 4 +
        ring_ops(1, ops_post(READ, NEIGHBOUR, 0, 50, 4000)) + serve * 4)
    yield "atomics", "roomy", (
        ring_ops(0, ops_post(ADD, VICTIM, 96), ops_post(SWAP, VICTIM, 104),
                 ops_post(FENCE, VICTIM, 0)) + serve * 3 +
        ring_ops(2, ops_post(ADD, NEIGHBOUR, 8)) + serve * 2)
    # 0x84: an atomic with a segment for the result
    yield "results", "roomy", (
        ring_ops(0, *[bytes([0, 0x84, what]) + u16(96) + vaddr(100) for what in (1, 0)]) +
        ring_op(0, 0, True, b"\x29\x03\x07\x08") + serve * 4)
    yield "lies", "slow-cramped", (
        ring_ops(0, ops_post(WRITE, WRONG_KEY, 0, 0, 10),
                 ops_post(WRITE, TOO_LONG, 4990, 0, 20),
                 ops_post(READ, TOO_LONG, 5990, 0, 20),
                 ops_post(ADD, TOO_LONG, 5000)) + serve * 2 + late * 3 +
        ring_ops(0, write) + serve * 3)
    yield "keyed", "roomy", (
        ring_ops(0, ops_post(WRITE, VICTIM, 30, 100, 2500, NOTIFY, BY_KEY),
                 ops_post(READ, VICTIM, 0, 50, 3000, key=BY_KEY),
                 ops_post(ADD, VICTIM, 96, key=BY_KEY),
                 ops_post(WRITE, VICTIM, 0, 50, 10, key=OUTSIDE)) + serve * 4 +
        ring_ops(0, ops_post(WRITE, NEIGHBOUR, 30, 100, 900,
                             key=NEIGHBOURS)) + serve * 2)
    yield "keyed-guesses", "slow", (
        ring_ops(0, *[ops_post(WRITE, VICTIM, 30, 100, 50, key=BAD_KEY | n << 1)
                      for n in range(9)]) + serve * 3 + late * 2 +
        ring_ops(0, OPS_REOPEN, ops_victim(0),
                 ops_post(WRITE, VICTIM, 30, 100, 50, key=BY_KEY)) + serve * 2)
    yield "immediates", "two-ways", (
        post(1, 0, 4000) + post(1, 8192, 100) + serve +
        ring_ops(0, ops_post(WRITE, NEIGHBOUR | IMM, 30, 100, 900),
                 ops_post(WRITE, NEIGHBOUR | IMM, 30, 100, 90, key=NEIGHBOURS),
                 ops_post(WRITE, NEIGHBOUR | IMM, 5, 100, 20)) + serve * 3 +
        late * 2 + post(1, 0, 4000) + serve)
    yield "stores", "roomy", (
        ring_ops(0, ops_store(0, 1, 8), ops_store(0, 2, 8), ops_store(0, 9, 3),
                 ops_store(1, 4, 8), ops_store(3, 0, 1)) + serve * 3 + late)
    yield "starts", "slow", (
        ring_ops(0, ops_start(64, 8, 200), ops_start(4000, 8, 90)) + serve * 3 +
        ring_world(time(700)) * 2 + ring_ops(0, b"\x05\x30\x00") + serve)
    yield "bad-wire", "random", (
        ring_world(knobs(15, 60)) +
        (ring_ops(0, write, ops_post(ADD, VICTIM, 96),
                  ops_post(READ, VICTIM, 0, 50, 3000), ops_store(0, 1, 8)) +
         serve * 2 + late + ring_ops(0, OPS_TAKE)) * 5 + late * 9)
    yield "reopened", "roomy", (
        ring_ops(0, write) + ring_op(8, 0, True, b"\x00" + u32(1000)) +
        ring_op(9, 0, False) + ring_ops(0, write, OPS_REOPEN, write) +
        serve * 3 + ring_ops(1, OPS_REOPEN) + ring_ops(0, write) + serve * 3)
    yield "pages-change", "roomy", (
        ring_ops(0, ops_driver(1, b"\x00\x00\x03\x00"), ops_store(0, 1, 8),
                 ops_driver(0, b"\x00\x00\x03\x08"), ops_store(0, 1, 8),
                 ops_driver(3, b"\x08\x01\x00"), ops_start(64, 8, 200),
                 ops_driver(2, b"\x00\x01\x03\x00"),
                 ops_driver(2, b"\x41\x02\x00"), ops_start(64, 8, 200),
                 ops_driver(5, b"\x01"), ops_driver(4, b"\x01"), write) +
        serve * 3)


def ring_ud():
    """Programs for fuzz-rings.c: UD channels."""
    serve = ring_world(SERVE)
    moves = (serve + ring_world(time(700))) * 4
    buffers = post(1, 0, 4136) + post(1, 8192, 4136) + serve
    message = ops_ud(2, (4000, 2000), (100, 50))
    yield "ud", "roomy", (
        buffers + ring_ops(0, message, ops_ud(2, how=WITH_IMM, size=9),
                           ops_ud(OUT | 1, (0, 2400), (9000, 2400), how=QUIET)) +
        serve * 3)
    yield "ud-wrong", "roomy", buffers + b"".join(
        ring_ops(0, ops_ud(2 | rule, size=size), OPS_TAKE) + ring_world(poll(0)) + serve
        for rule in (*range(0x10, 0x80, 0x10), 3, 4, 7) for size in (0, 185)) + (
            ring_op(0, 0, True, b"\x81\x00\x07\x28") + ring_op(0, 0, True, b"\x80\x00\x07\x01") +
            serve)
    yield "ud-long", "roomy", post(2, 0, 60) + serve + ring_ops(
        3, ops_ud(3, (0, 2400), (0, 2400)), ops_ud(3), ops_ud(3, (0, 60))) + serve * 3
    for card in ("slow", "slow-cramped"):
        yield "ud-" + card, card, (
            buffers + moves + ring_ops(0, message, message, message) + serve +
            ring_ops(0, OPS_UD_FLUSH) + moves + ring_ops(0, message) + moves +
            ring_ops(1, ops_ud(1)) + ring_ops(0, OPS_UD_SET, message) + moves * 2)
    yield "ud-flushed", "roomy", (
        buffers + ring_ops(0, message, message, OPS_UD_FLUSH) + serve * 2 +
        ring_world(poll(0)) + ring_ops(1, OPS_UD_FLUSH) + ring_ops(0, OPS_UD_SET, message) +
        serve * 3)
    yield "ud-full-wire", "random", (
        ring_world(wire(0, 1)) + ring_ops(0, *[ops_ud(OUT, (0, 90))] * 3) + serve * 2 +
        ring_ops(0, OPS_UD_FLUSH) + ring_world(wire(1, 1)) * 2)


def rings():
    """Programs for fuzz-rings.c."""
    yield from ring_one_sided()
    yield from ring_ud()
    serve = ring_world(SERVE)
    exchange = (post(1, 0, 4096) + serve + send(0, 1, [(100, 600)]) + serve +
                ring_world(poll(1)) + ring_world(poll(0)))
    yield "exchange", "roomy", exchange
    yield "exchange-slow", "slow", exchange + ring_world(time(5000)) * 4
    yield "wide", "cramped", (
        post(1, 4000, 5000) + serve + send(0, 1, [(4090, 4800)]) + serve * 3)
    yield "gather", "two-ways", (
        post(1, 0, 9000) + serve + send(0, 1, [(0, 100), (5000, 200)] +
                                        [(0, 0)] * 3, bell=False) +
        more_segments(0, [(9000, 300), (12000, 4000), (1, 1)]) + serve * 2)
    yield "inline", "roomy", send_inline(2, 2, 200) + send_inline(0, 1, 32)
    yield "invalidate", "slow-cramped", (
        post(1, 0, 8000) + serve + send(0, 1, [(0, 7000)]) + serve +
        ring_world(driver(0, 0, 1, b"\x02")) + ring_world(time(700)) * 6)
    yield "gifts", "slow-tiny", (
        post(1, 100, 500) + serve + send(0, 1, [(5000, 80)]) + serve +
        ring_world(time(700)) + ring_world(driver(1, 0, 4, b"\x03")) +
        serve + ring_world(time(3000)) + serve)
    yield "deferred", "starved", (
        ring_world(driver(2, 0, 0)) + send(0, 1, [(0, 500)]) + serve +
        ring_world(driver(2, 0, 0)) + post(0, 100, 100))
    yield "forged", "roomy", (
        ring_op(8, 0, True, b"\x00" + u32(1000)) + ring_op(9, 0, False) +
        exchange)
    yield "bad-address", "roomy", (
        ring_op(0, 0, True, b"\x00\x01\x07\x01\xc0" + u16(5) + b"\x0f") +
        ring_op(5, 0, True, b"\xe0" + b"\xff" * 8 + b"\x0f\x01") + serve)
    yield "full-wire", "random", (
        ring_world(wire(0, 1)) + send(0, 2, [(0, 50)]) * 3 + serve +
        ring_world(wire(1, 1)) * 3 + ring_world(wire(2, 0)))
    yield "misbehave", "random", (
        ring_world(knobs(63, 200)) + exchange * 3 + ring_world(time(60000)))


# ---- fuzz-frames.c ----------------------------------------------------------


def frame(endpoint, how, n, rest=b""):
    return bytes([endpoint << 6, how]) + u16(n) + rest


def frame_world(body):
    return b"\x0b" + body


def packet(endpoint, psn, more, where, n=None, flags=0):
    """A WIRE_SEND of n bytes (None: the MTU) at `where` MTUs."""
    how = 32 | flags | (2 if n is None else 0)
    return (bytes([endpoint << 6 | 13, how]) + (b"" if n is None else u16(n)) +
            bytes([psn, where]) + more)


def acked(endpoint, psn, bits, what=0):
    return bytes([endpoint << 6 | 13, 1, psn]) + bits + bytes([what, 50])


def rel_send(endpoint, at, n):
    return bytes([endpoint << 6 | 12]) + vaddr(at) + u16(n)


def one_sided(endpoint, what, more):
    return bytes([endpoint << 6 | 15, what]) + more


def ack_write(endpoint, psn, acked_psn):
    """A WRITE of 64 bytes with an acknowledgement, both from the first number on."""
    return one_sided(endpoint, 3, b"\x00" + u16(64) + bytes([psn]) + b"\x03" +
                     u16(0) + b"\x00" + bytes([acked_psn]))


BY_ITS_KEY, IMMEDIATE, KEYED_IMM = 80, 160, 240


def keyed(endpoint, how, psn, shape, size=b"", kind=BY_ITS_KEY):
    """0 = WRITE, 1 = READ, 2 = ATOMIC; its number; for shape_one_sided()."""
    return one_sided(endpoint, 3, bytes([how]) + size + bytes([psn + kind]) +
                     shape)


def frames():
    """Programs for fuzz-frames.c."""
    good = frame(0, 0, 3000) + frame(1, 0, 40) + frame(3, 0, 5000)
    serve = frame_world(SERVE)
    yield "good", "roomy", good * 2
    yield "good-slow", "slow", good + frame_world(time(3000)) + good
    yield "checksum", "roomy", frame(0, 6, 500) + frame(0, 2, 500)
    yield "damaged", "roomy", (
        b"".join(frame(0, 5, 100, bytes([1, at, 1])) for at in range(0, 60, 3)))
    yield "damaged-crc", "roomy", frame(1, 9, 100, b"\x02\x10\xff\x1c\x80")
    yield "short", "roomy", b"".join(frame(0, 16, 100, u16(n))
                                     for n in (0, 13, 14, 63, 64, 163))
    yield "raw", "roomy", b"\x06\x40" + bytes(range(64)) + b"\x06\x05hello"
    yield "control", "roomy", b"".join(
        b"\x07\x20" + bytes([how]) for how in range(4))
    yield "absent", "cramped", (
        frame_world(driver(2, 0, 0)) + good + serve + good)
    yield "too-long", "two-ways", (
        b"\x08" + vaddr(0) + length(50) + b"\x01" + serve + good * 2)
    yield "under-landing", "slow-cramped", (
        frame(0, 0, 4000) + frame_world(driver(0, 0, 0, b"\x01")) +
        frame(1, 0, 9000) + frame_world(time(700)) * 3)
    yield "reliable", "roomy", (
        packet(0, 0, b"", 0, 300) + packet(1, 2, b"\x01\x00", 0, flags=8) +
        packet(1, 3, b"", 1) + packet(0, 1, b"", 0, 20) + serve)
    yield "reliable-early", "slow", (
        packet(0, 2, b"", 0, 9) + packet(0, 1, b"", 0, 200) + serve +
        packet(0, 0, b"", 0, 9) + frame_world(time(3000)) * 2)
    yield "reliable-acks", "cramped", (
        rel_send(0, 0, 5000) + serve + acked(0, 2, b"\x05") + serve +
        frame_world(time(65000)) * 90 + serve + acked(0, 2, b"\x00", 1) +
        acked(0, 5, b"\x00") + acked(0, 200, b"\xff") +
        rel_send(0, 0, 900) + acked(0, 5, b"\x00", 2))
    yield "one-sided", "roomy", (
        one_sided(0, 5, b"\x06" + u16(300) + b"\x00\x40\x03") +
        one_sided(0, 4, b"\x0d\x02\x00\x02") + serve +
        one_sided(0, 3, b"\x01\x00\x00\x03" + u16(300)) + serve)
    yield "one-sided-early", "slow", (
        one_sided(1, 5, b"\x0c" + u16(900) + b"\x02\x00\x03") * 2 + serve +
        one_sided(1, 5, b"\x0c" + u16(900) + b"\x00\x00\x03") +
        one_sided(1, 2, b"\x05" + u16(900)) + frame_world(time(3000)) * 3)
    yield "one-sided-sends", "cramped", (
        one_sided(0, 0, b"\x01\x00" + u16(64) + vaddr(0) + u16(2500)) + serve +
        one_sided(0, 1, b"\x02\x00" + u16(64)) + serve +
        one_sided(0, 3, b"\x09" + u16(500) + b"\x00") + serve +
        one_sided(0, 3, b"\x0b\x01\x03") + serve)
    yield "keyed", "roomy", (
        keyed(0, 0, 0, b"\x40\x03", u16(300)) +
        keyed(0, 1, 1, b"\x00\x02" + u16(300)) + serve +
        keyed(0, 2, 2, b"\x00\x06") + keyed(0, 0, 3, b"\x0c\x00", u16(64)) +
        serve + keyed(1, 0, 1, b"\x00\x03", u16(200), KEYED_IMM) +
        keyed(1, 0, 0, b"\x00\x03", u16(200), KEYED_IMM) + serve)
    yield "keyed-guesses", "slow", (
        b"".join(keyed(0, 0, psn, b"\x0c\x00", u16(64))
                 for psn in (*range(7), 0, 7)) + serve +
        one_sided(0, 2, b"\x04" + u16(900)) + keyed(0, 0, 8, b"\x00\x00", u16(9)))
    yield "ack-along", "roomy", (
        rel_send(0, 0, 30) + serve + packet(0, 0, b"", 0, 33, flags=128) +
        rel_send(0, 0, 20) + packet(0, 1, b"", 0, 35, flags=128) +
        packet(0, 2, b"", 0, 3, flags=128) + frame_world(time(60000)) + serve)
    yield "ack-write", "roomy", (
        rel_send(0, 0, 30) + serve + ack_write(0, 0, 1) + rel_send(0, 0, 20) +
        ack_write(0, 0, 1) + ack_write(0, 1, 2) + ack_write(0, 2, 15) +
        frame_world(time(60000)) + serve)
    yield "immediate", "cramped", (
        packet(0, 0, b"", 0, 300, flags=128) + serve +
        packet(0, 1, b"", 0, 20, flags=128) +
        keyed(0, 0, 2, b"\x00\x03", u16(300), IMMEDIATE) + serve)
    yield "own-send", "starved", b"\x0a" + vaddr(10) + u16(900) + serve + good
    for card in ("roomy", "slow", "cramped"):
        yield "ud-" + card, card, b"".join(
            frame(ep, how, n, bytes([what])) + (serve if ep & 1 else b"")
            for ep, how, n in ((0, 0xc0, 3000), (1, 0xc0, 40), (2, 0xc6, 900),
                               (3, 0xc2, 4000), (0, 0xc0, 39), (0, 0xc0, 4200))
            for what in (0, 0x19, 0x20, 0x30, 0x40, 0x50, 0x81)) + (
                frame_world(time(3000)) * 2)


# ---- fuzz-commands.c --------------------------------------------------------

(NOP, SPACE, SPACE_END, EP, EP_END, CHANNEL, CHANNEL_END, REPLY, REGION,
 REGION_END, IMPORT, IMPORT_END, WINDOW, WINDOW_END, PROXY,
 PROXY_END) = range(16)
REDIRECT_PART, COUNTERS, COUNTER_ARM, SYSBUF = range(16, 20)
MODIFY = 26


def command(opcode, space, endpoint, body=b""):
    return bytes([0, opcode, space, endpoint]) + body


def raw_command(opcode, space, endpoint, body=b""):
    return bytes([3, opcode, 0, 0, 0]) + u16(space) + u16(endpoint) + body.ljust(56, b"\0")


def traffic(endpoint, what, body=b""):
    return bytes([4, endpoint, what]) + body


def command_world(body):
    return b"\x07" + body


def command_refusals():
    """Programs for fuzz-commands.c: no such object, no such value."""
    for opcode in range(MODIFY + 2):
        yield f"refused-{opcode}", "roomy", b"".join(
            raw_command(opcode, number, number, fill * 56)
            for number in (0xffff, 1, 0) for fill in (b"\0", b"\xff", b"\x01")) + b"\x06"
    yield "refused-parts", "roomy", b"".join(
        command(REDIRECT_PART, 1, 0, bytes([region, what]) + length(100) + length(200) +
                vaddr(0) + b"\x00")
        for region in (0, 9) for what in range(6)) + b"\x06"
    yield "refused-counters", "roomy", b"".join(
        command(COUNTERS, space, 0, b"\x01") + command(
            COUNTER_ARM, space, 0, u16(number) + b"\x01\x01")
        for space in (0, 1, 8) for number in (0, 511, 512)) + b"\x06"
    # Busy; after the victim's end: not to be read, of odd addresses, good.
    yield "system-buffer", "roomy", (
        command(SYSBUF, 0, 0, b"\x00\x02") + command(SYSBUF, 0, 0, b"\x00\xff") +
        command(EP_END, 0, 5, b"\0") + command(SYSBUF, 0, 0, b"\xff" + b"\xf0" * 8 + b"\x02") +
        command(REPLY, 1, 0, bytes([2]) + vaddr(0) + bytes([0, 0, 3, 4]) + b"\x01\x00") +
        command(SYSBUF, 0, 0, b"\x80\x02") + command(SYSBUF, 0, 0, b"\x20\x02") + b"\x06")


def command_verbs():
    """Programs for fuzz-commands.c: commands that a driver for verbs needs."""
    change = command(MODIFY, 0, 1, b"\x01" + u16(0xff) + bytes([1, 3, 7, 1, 5, 6, 7]))
    for state in (0x10, 0x20):
        yield f"modify-{state >> 4}", "roomy", (
            command(CHANNEL, 0, 1, b"\x01\x01" + length(900) + bytes([state | 1])) + change +
            command(MODIFY, 0, 1, b"\x01" + u16(0x3f) + bytes([0, 3, 2, 1, 5, 6, 7])) +
            change + command(MODIFY, 0, 1, b"\x01" + u16(0x10) + bytes(7)) +
            traffic(0, 0, b"\x00" + vaddr(0) + u16(700)) + b"\x06")
    lkey = command(REGION_END, 1, 0, b"\x00" + vaddr(0) + length(5000) + b"\x07\x00") + (
        command(REGION, 1, 0, b"\x00" + vaddr(0) + length(5000) + b"\x07\x30"))
    yield "keys", "roomy", (
        command(EP_END, 0, 1, b"\0") + command(EP, 1, 1, b"\x00\x0a") + lkey +
        command(CHANNEL, 0, 1, b"\x02\x01" + length(9000) + b"\x01") + b"".join(
            traffic(0, 1, vaddr(at) + length(n) + b"\x02") + traffic(0, 5, u16(90)) +
            traffic(0, 0, b"\x01" + vaddr(at) + u16(n))
            for at, n in ((0, 4000), (9000, 700), (4990, 11), (0, 0))) + b"\x06")


def commands():
    """Programs for fuzz-commands.c."""
    yield from command_refusals()
    yield from command_verbs()
    sends = traffic(0, 0, b"\x00" + vaddr(0) + u16(700))
    pages = (traffic(0, 3, ops_store(0, 1, 8)) +
             traffic(0, 3, ops_start(64, 8, 200)) +
             traffic(0, 3, ops_post(WRITE, VICTIM, 30, 100, 500)))
    give = command(REPLY, 1, 0, bytes([2]) + vaddr(0) + bytes([0, 0]) +
                   bytes([3, 4]) + b"\x01\x00")
    take = b"\x06"
    yield "each", "roomy", b"".join(command(n, 1, 1) for n in range(8)) + take
    yield "space", "roomy", (
        command(SPACE, 5, 0, b"\x02\x00") + command(EP, 5, 7, b"\x00\x80") +
        command(CHANNEL, 0, 7, b"\x01\x01" + length(9000) + b"\x00") +
        command(EP_END, 0, 7) + command(SPACE_END, 5, 0) + take)
    yield "table", "roomy", (
        command(SPACE, 6, 0, b"\x01\x03\x82") + command(EP, 6, 6, b"\x01\x80") +
        traffic(3, 1, vaddr(0) + length(5000) + b"\x02") + take)
    yield "driver-endpoint", "roomy", (
        command(SPACE, 0, 0, b"\x00\x00") + command(EP, 0, 0, b"\x02\x80") +
        traffic(0, 5, u16(50)) + take)
    many = command(REPLY, 1, 0, b"\xff" + u16(513) + vaddr(0) +
                   bytes([0, 0, 0]))
    yield "long-list", "roomy", many + sends + many + take
    yield "answer", "cramped", sends + give + take + sends + give
    yield "answer-slow", "slow-cramped", (
        sends + give + command(EP_END, 1, 1) + take +
        command_world(time(3000)) + command(EP, 1, 1, b"\x00\x80") + sends)
    yield "close-all", "starved", (
        sends + b"".join(command(EP_END, 0, n) for n in range(5)) +
        command(SPACE_END, 1, 0) + command(SPACE_END, 2, 0) + take)
    yield "raw", "random", b"\x03" + bytes(range(64)) + take
    yield "full-ring", "roomy", command(NOP, 0, 0) * 80 + take * 2
    yield "pages", "roomy", (
        pages + command(WINDOW, 0, 1, b"\x01\x00\x03\x40") + pages +
        command(WINDOW_END, 0, 1, b"\x00\x00\x03\x00") + pages +
        command(WINDOW, 0, 1, b"\x08\x01\x03\x10") + pages +
        command(PROXY_END, 0, 1, b"\x08\x01\x00") + pages +
        command(PROXY, 0, 1, b"\x00\x01\x03\x00") +
        command(PROXY, 0, 1, b"\x41\x02\x00") + pages + take)
    yield "imports-end", "slow", (
        pages + command(IMPORT_END, 0, 1, b"\x03") + pages +
        command(IMPORT, 0, 1, b"\x03") + pages +
        command(CHANNEL_END, 0, 1, b"\x05\x05" + length(900) + b"\x00") +
        pages + command(EP_END, 0, 1) + pages + take)
    yield "verbs", "roomy", (
        command(CHANNEL, 0, 1, b"\x05\x05" + length(900) + b"\x50") + pages +
        command(MODIFY, 0, 1, b"\x05\x41\x00\x00\x00\x00\x00\x00\x00\x07") + pages +
        command(CHANNEL_END, 0, 1, b"\x05\x05" + length(900) + b"\x80") +
        pages + command(CHANNEL_END, 0, 1, b"\x05\x05" + length(900) + b"\x00") +
        command(EP, 1, 7, b"\x00\xc0\x04") +
        command(REGION, 1, 0, b"\x01" + vaddr(3) + length(5000) + b"\x07\x0c") +
        pages + take)
    qkey = bytes([222, 1]) + length(4136)
    messages = traffic(1, 1, vaddr(0) + length(4000) + b"\x02") + traffic(
        0, 3, ops_ud(2, (0, 900))) + traffic(1, 5, u16(0xc800) + b"\x50")
    for card in ("roomy", "slow"):
        yield "ud-" + card, card, (
            messages + command(CHANNEL_END, 0, 1, qkey + b"\x80") + messages +
            command(CHANNEL, 0, 1, qkey + b"\x80") + messages +
            command(CHANNEL, 0, 1, bytes([222, 1]) + length(100) + b"\x00") +
            command(CHANNEL_END, 0, 1, qkey + b"\x00") + messages +
            command(EP, 1, 7, b"\x00\x8e\x05") + command(CHANNEL, 0, 7, qkey + b"\x00") +
            messages + take)
    yield "overlap", "roomy", (
        command(EP_END, 0, 1) + command(EP, 1, 1, b"\x00\x30\x80\x81") + sends)


# ---- fuzz-registers.c -------------------------------------------------------


def read(offset):
    return b"\x00" + u16(0xc000 | offset)


def write(offset, value):
    return b"\x04" + u16(0xc000 | offset) + b"\xff" + u32(value)


def each_register():
    """All registers, at their place."""
    for first in (0, 0x100, 0x200, 0x300):
        yield f"write-{first:x}", "roomy", b"".join(
            b"\x04" + u16(0xc000 | at) + bytes([value])
            for at in range(first, first + 0x100, 4) for value in (1, 0x3f, 0))
        yield f"read-{first:x}", "roomy", b"".join(
            b"\x00" + u16(0xc000 | at) for at in range(first, first + 0x100, 4))


def registers():
    """Programs for fuzz-registers.c."""
    again = b"\x09\x03"
    sends = b"\x0b" + vaddr(0) + u16(300) + b"\x01"
    posts = b"\x0c" + vaddr(0) + u16(3000)
    opens = (b"\x0a\x01\x01\x00" + b"\x0a\x03\x01\x01\x00")
    yield "identity", "roomy", b"".join(read(n) for n in range(0, 0x9c, 4))
    yield from each_register()
    yield "counters", "roomy", b"".join(
        read(n) for n in (0x1000, 0x1004, 0x1100, 0x2000, 0x2004, 0x2ffc))
    yield "widths", "roomy", b"".join(
        bytes([op | width << 4]) + u32(0x10) + u32(1)
        for op in (3, 8) for width in range(4))
    yield "reset", "roomy", sends + write(0x10, 2) + again + opens + sends
    yield "reset-slow", "slow", sends + posts + write(0x10, 2) + again + opens
    yield "rings", "cramped", b"".join(
        write(0x100 + 0x20 * ring + reg, 3)
        for ring in range(4) for reg in range(0, 0x1c, 4)) + again + sends
    yield "invalidate", "slow-cramped", (
        sends + write(0x200, 1) + write(0x204, 0) + write(0x20c, 0xffffffff) +
        write(0x210, 0xffffffff) + write(0x214, 1) + read(0x214))
    yield "test-dma", "roomy", (
        b"\x04" + u16(0xc088) + b"\x40" + write(0x8c, 0x70) +
        write(0x90, 64) + write(0x94, 1) + write(0x94, 2) + read(0x98))
    yield "moderated", "starved", write(0x118, 5000) + sends + posts + sends
    yield "off", "two-ways", write(0x10, 0) + sends + write(0x10, 1) + posts


# ---- fuzz-streams.c ---------------------------------------------------------

LOAD, MOVE, ANSWER, SERVED, INVALIDATE, CLOSE = 5, 6, 7, 8, 9, 10
GIVEN = 13


def stream_process(endpoint, what, at, n):
    """0 sends on the card, 2 to the wire, 1 posts."""
    return bytes([endpoint << 6 | what]) + vaddr(at) + u16(n)


def stream_arrives(endpoint, n):
    return bytes([endpoint << 6 | 4]) + u16(n)


def stream_load(*changes):
    return bytes([LOAD, len(changes)]) + b"".join(changes)


def stream_set(at, value):
    return b"\x83" + u16(at) + b"\x80" + u32(value)


def stream_last(n, value):
    """The n-th value from the end."""
    return b"\x43" + u16(n) + b"\x80" + u32(value)


def stream_packet(n, value):
    """The n-th value of a packet that is being sent."""
    return b"\x23" + u16(n) + b"\x80" + u32(value)


def stream_world(body):
    return b"\x0c" + body


def stream_read(offset, at, n):
    """From the giver's memory, n bytes from an offset on."""
    return bytes([GIVEN]) + u16(offset) + vaddr(at) + u16(n)


def stream_ops(endpoint, *bodies):
    return b"".join(bytes([endpoint << 6 | 14]) + body for body in bodies)


def streams():
    """Programs for fuzz-streams.c."""
    serve = bytes([SERVED])
    work = (stream_process(1, 1, 0, 8192) + serve + serve +
            stream_process(0, 0, 100, 6000) + serve +
            stream_process(0, 2, 4096, 9000) + stream_process(2, 3, 0, 3000) +
            stream_process(3, 0, 8192, 500))
    after = (bytes([ANSWER, 0, 0x80, ANSWER, 0, 0x82, SERVED, 1, 1]) +
             stream_world(time(700)) + stream_arrives(1, 4000) +
             bytes([INVALIDATE, 1]) + stream_world(time(3000)) +
             bytes([0x40 | CLOSE, MOVE]) + stream_process(0, 0, 0, 700))
    for card in ("roomy", "slow", "slow-cramped", "starved", "random"):
        yield "whole-" + card, card, work + stream_load() + after
    yield "late", "slow-cramped", (
        stream_world(knobs(64, 255)) + work + stream_load() + after)
    yield "held", "random", (
        stream_world(knobs(4, 255)) + work + stream_load() + after)
    yield "refused", "roomy", work + stream_load(stream_set(0, 5)) + after
    yield "short", "slow", (
        work + stream_load(b"\x87" + u16(900) + b"\x40") + after)
    yield "longer", "slow", (
        work + stream_load(b"\x87" + u16(900) + b"\x07") + after)
    yield "spliced", "slow", (
        work + stream_load() + after +
        stream_load(b"\x86" + u16(2000) + u16(9000)) + after)
    yield "damaged", "slow-tiny", (
        work + b"".join(stream_load(b"\x02" + u16(at)) + after[:9]
                        for at in range(100, 1500, 150)) + after)
    ops = (stream_ops(0, ops_post(WRITE, VICTIM, 30, 100, 2500, NOTIFY),
                      ops_post(ADD, VICTIM, 96), ops_store(0, 1, 8),
                      ops_post(READ, VICTIM, 0, 50, 3000)) +
           stream_ops(2, ops_store(2, 1, 8), ops_post(WRITE, NEIGHBOUR, 0, 0, 90)) +
           stream_ops(0, b"\x05\x80\x00\x00\x40"))
    for card in ("roomy", "slow", "random"):
        yield "ops-" + card, card, (
            (stream_world(knobs(4, 255)) if card == "random" else b"") + ops +
            serve * 3 + stream_load() + ops + serve * 3 + after)
    for value in (1, 64, 5000):
        yield f"ops-{value}", "slow", (
            ops + serve * 2 + b"".join(stream_load(stream_last(n, value)) + ops
                                       for n in range(20, 60, 5)))
    answer = stream_read(100, 0, 20000)
    for card in ("roomy", "slow", "slow-cramped"):
        yield "answer-" + card, card, (
            serve + answer + stream_load() + stream_world(time(500)) + serve +
            answer + stream_load() + after)
    for value in (0, 1, 5000, 81920):
        yield f"answer-{value}", "slow", (
            serve + b"".join(
                answer + stream_load(stream_packet(n, value)) +
                stream_world(time(60000)) for n in range(24)))
    landing = (stream_process(1, 1, 0, 8192) + serve + serve +
               stream_arrives(1, 6000))
    yield "landing", "slow", landing + stream_load() + after
    for value in (1, 4096, 8192):
        yield f"landing-{value}", "slow", (
            landing + b"".join(stream_load(stream_last(n, value))
                               for n in range(2, 14)) + after)
    yield "last", "slow-cramped", (
        work + b"".join(stream_load(stream_last(n, 1)) for n in range(2, 14)) +
        after)
    ud = (stream_process(1, 1, 0, 8192) + serve * 2 + stream_ops(
        0, ops_ud(2, (4000, 2000), (0, 9), how=WITH_IMM)))
    for card in ("roomy", "slow", "slow-cramped"):
        yield "ud-" + card, card, (
            ud + stream_load() + serve * 2 + stream_world(time(700)) * 2 + ud +
            stream_load() + after)
    for value in (0, 1, 5000):
        yield f"ud-{value}", "roomy", stream_world(wire(0, 1)) + b"".join(
            stream_ops(0, ops_ud(OUT, (0, 90))) * 2 + serve * 2 +
            stream_load(stream_packet(n, value)) for n in range(24))
        yield f"ud-landing-{value}", "slow", (
            stream_process(1, 1, 0, 8192) + serve * 2 + b"".join(
                stream_arrives(1, 0xc800) + b"\x50" + stream_load(stream_last(n, value))
                for n in range(2, 40)) + after)
    # Found: the answer to a READ, into two pages of a set of one way.
    yield "pages-of-one-set", "direct", bytes.fromhex(
        "007ffff22f8f9dfa07000000404100000000200808000064007017080200"
        "0010282383000000b80b0bc000002001f40501820801010c0003bc0244a0"
        "0f09010c00030b4a060000000000bc02")


# ---- fuzz-slots.c -----------------------------------------------------------


def slots():
    """Programs for fuzz-slots.c."""
    def give(n, raw=0):
        return bytes([raw << 4]) + u16(n)

    def post(at, n, raw=0):
        return bytes([3 | raw << 4]) + vaddr(at) + u16(n)

    def answer(n):
        return bytes([10, n])

    def page(n, there):
        return bytes([13, n << 1 | there])

    def tail(slot):
        return bytes([0x29, slot])

    poll, again, bell = b"\x88", b"\x0f\x01", b"\x8e\x00\x04"
    two = post(0, 2000) + post(4096, 2000)
    yield "order", "roomy", (
        two + page(1, 1) + give(100) + give(101) + answer(0) + poll)
    yield "backwards", "two-ways", (
        two + post(8192, 300) + give(5) + give(6) + give(7) + answer(2) +
        answer(1) + page(0, 0) + answer(0) + poll)
    yield "beyond", "cramped", (
        two + give(9) * 7 + tail(2) + answer(0) * 2 + poll + two + bell +
        answer(0) * 5 + poll)
    yield "landing", "slow-cramped", (
        two + page(1, 1) + give(60) + give(1500) + answer(0) +
        b"\x0e" + time(2000) + page(1, 0) + poll)
    yield "forged", "random", (
        two + give(40) * 2 + b"\x0c\x00\x01\x00" + b"\x0c\x01\x01\x00" +
        b"\x0c\x05\x00\x00" + poll)
    yield "garbage", "roomy", (
        b"\x06" + bytes(32) + b"\x87\x01\x03" + give(50) * 3 + answer(0) +
        again + give(50))
    yield "raw", "roomy", (
        post(0, 2000, 1) + give(70, 1) + SLOT_WORLD + give(71, 1) +
        b"\x18" + post(4096, 50, 1) + give(300, 1))
    yield "closed", "slow", two + page(0, 1) + give(90) * 3 + again + answer(0)


SLOT_WORLD = b"\x0e" + SERVE

# ---- fuzz-misses.c ----------------------------------------------------------

# Endpoints: 0 to 3 with source tlb, then odp and shadow.
ODP, SHADOW = 4, 5
RESOLVED, DEFERRED, ERROR, RETRY = range(4)


def miss_send(endpoint, at, n, wire=True):
    return bytes([0, endpoint << 4 | 2 | (8 if wire else 0)]) + vaddr(at) + u16(n)


def miss_post(endpoint, at, n):
    return bytes([0, endpoint << 4]) + vaddr(at) + length(n) + b"\x05"


def miss_arrives(endpoint, n):
    return bytes([0, endpoint << 4 | 3]) + u16(n)


def miss_ops(endpoint, body):
    return bytes([0, endpoint << 4 | 5]) + body


def miss_driver(what, body=b""):
    return bytes([4, what]) + body


def miss_reply(record, status, pages=(), lies=0, body=b""):
    """To a record; with these pages of these spaces: [(space, page), ...]."""
    how = status | (max(len(pages), 1) - 1) << 2
    return miss_driver(9, bytes([record, lies, how]) + body + b"".join(
        bytes([0x80 | page << 3 | space - 1]) for space, page in pages))


def misses():
    """Programs for fuzz-misses.c."""
    read, later = miss_driver(0xf0), bytes([3]) + time(3000)
    both = [(1, 0), (1, 1)]
    sends = miss_send(0, 100, 6000) + read
    holes = miss_post(0, 8192, 3000) + miss_arrives(0, 2500) + read
    tables = (miss_send(ODP, 100, 6000) + miss_post(SHADOW, 0, 5000) +
              miss_arrives(SHADOW, 4500) + read)
    yield "answered", "roomy", sends + miss_reply(0, RESOLVED, both) + holes
    yield "twice", "two-ways", (
        sends + miss_reply(0, RESOLVED, both) * 2 + sends +
        miss_reply(0, DEFERRED) * 2 + miss_reply(0, RESOLVED, both) * 2)
    yield "each-status", "slow", b"".join(
        sends + holes + miss_reply(record, status, lies=lies)
        for status in range(4) for record in range(2) for lies in (0, 2, 4))
    yield "lies", "roomy", b"".join(
        sends + miss_reply(0, RESOLVED, both[:n], 1 << lie, b"\x01" * (
            4 if lie == 0 else 3 if lie == 2 else 2 if lie in (3, 4, 6) else 1))
        for lie in range(7) for n in (1, 2))
    yield "others-pages", "cramped", (
        sends + miss_reply(0, RESOLVED, [(2, 0), (3, 1)]) + holes +
        miss_reply(1, RESOLVED, [(1, 3), (1, 3), (1, 3)]))
    yield "retry", "starved", (
        sends + (miss_reply(0, RETRY) + read) * 5 + miss_reply(0, ERROR))
    yield "deferred-and-closed", "slow", (
        sends + holes + miss_reply(0, DEFERRED) + miss_driver(5, b"\x02") +
        miss_reply(0, RESOLVED, both) + miss_driver(5, b"\x00") + sends)
    yield "tables", "roomy", (
        tables + b"".join(miss_reply(n, RESOLVED) for n in range(3)) + tables)
    yield "entries-change", "slow", (
        tables + b"".join(miss_driver(3, bytes([n & 1, page, 0, bit])) + later
                          for n, page, bit in ((0, 0, 0), (1, 0, 3), (1, 1, 4),
                                               (0, 1, 2))) +
        b"".join(miss_reply(n, RESOLVED) for n in range(4)))
    yield "invalidated", "slow-cramped", (
        sends + miss_reply(0, RESOLVED, both) + miss_driver(0x14, vaddr(0) +
                                                            length(9000)) +
        miss_driver(6) + tables + miss_driver(0x44, vaddr(0) + length(60000)) +
        miss_reply(0, RESOLVED) + miss_driver(6) + sends)
    yield "moved", "slow", (
        sends + holes + miss_driver(7) + miss_reply(0, DEFERRED) +
        miss_driver(7) + tables + miss_driver(7) + miss_reply(1, RESOLVED) +
        miss_driver(7))
    yield "unread", "starved", (
        sends[:-2] + b"".join(miss_send(n, 4096 * n, 5000) for n in range(6)) * 3 +
        miss_driver(0) * 3 + miss_reply(0, RESOLVED, both))
    yield "ops", "roomy", (
        miss_ops(0, ops_post(WRITE, VICTIM, 30, 100, 2500, NOTIFY)) +
        miss_ops(0, ops_post(READ, VICTIM, 0, 50, 3000)) + read +
        b"".join(miss_reply(n, RESOLVED, both) for n in range(4)) + read +
        b"".join(miss_reply(n, ERROR) for n in range(8)))
    yield "late", "slow", (
        bytes([3]) + knobs(0xc0, 255) + sends + holes + miss_reply(0, RESOLVED, both) +
        miss_reply(1, RESOLVED, both) + later + miss_driver(5, b"\x02") + later)


# ---- fuzz-unplug.c ----------------------------------------------------------


def unplug():
    """Programs for fuzz-unplug.c."""
    def inside(after, what, at=0x10, value=b"\x02"):
        return bytes([0, 5, after, what]) + u16(0xc000 | at) + value

    reset, pause, run, again = b"\x00\x00", b"\x00\x09", b"\x00\x01", b"\x00\x03"
    load = b"\x00\x04\x05"
    sends = b"\x05\x04" + vaddr(0) + u16(700) + b"\x01"
    posts = b"\x05\x01" + vaddr(0) + length(3000) + b"\x05\x01"
    arrives = b"\x05\x02" + u16(900) + b"\x01"
    later = b"\x06" + time(3000)
    work = sends + posts + arrives + later
    yield "reset", "roomy", work + reset + work + load + work
    yield "paused", "slow", work + pause + work + run + work + later
    yield "again", "slow", work + again + work + load + work + reset + again
    for what in range(8):
        yield f"inside-{what}", "slow" if what & 1 else "roomy", (
            b"".join(inside(after, what) + work + load
                     for after in (0, 1, 3, 8, 20)))
    yield "off-inside", "cramped", (
        inside(2, 2, 0x10, b"\x00") + work + load + work +
        inside(5, 2, 0x214, b"\x01") + work)
    yield "commands", "starved", (
        b"".join(b"\x04" + bytes([n, 1, 1, 0]) for n in range(16)) + reset +
        b"".join(b"\x04" + bytes([n, 1, 1, 0]) for n in range(16)) + load)

# ---- fuzz-provider.c --------------------------------------------------------

# Endpoints of the card: of the SRX, of the PEP, and those that come later
SHARED, LISTENER, OWN, ACTIVE = range(4)
REQUEST, ACCEPT, REJECT = range(3)


def peer(what, card, *rest):
    return bytes([0x80 | what, card, *rest])


def program(what, endpoint=0, *rest):
    return bytes([what, endpoint, *rest])


def cm_message(card, channel, kind, endpoint=0, number=0, lies=b"\x00"):
    return peer(2, card, channel, 0) + lies[:1] + bytes(
        [kind, endpoint, number, 5]) + lies[1:]


def provider():
    """Programs for fuzz-provider.c; bytes behind a call are read in it."""
    look, done = program(0), program(2)
    called = peer(0, LISTENER) + look + b"\x00\x00"
    request = called + cm_message(LISTENER, 0, REQUEST) + look + b"\x01"
    accepted = request + program(3, 0, 1, 0x20)
    hangs_up = peer(6, LISTENER, 0, 1) + look
    data = (program(9, 0, 0) + peer(2, OWN, 0, 1, 0, 0, 0, 0, 0, 9) + done +
            program(9, 0, 5) + peer(5, OWN, 0) + done)
    asks = program(4, 0, 5, 1, 0x20)
    answered = (peer(0, OWN) + cm_message(ACTIVE, 0, ACCEPT, 3, 4) + look +
                b"\x00\x03\x04")
    connected = asks + answered
    yield "accepted", "roomy", (
        accepted + hangs_up + look + data + program(6) + program(5) + look)
    yield "rejected", "roomy", request + program(3, 0, 0x20) + hangs_up + look
    yield "shared", "roomy", (
        request + program(9, 0, 8) + program(3, 0, 5, 0x20) + hangs_up +
        peer(2, SHARED, 0, 1, 0, 0, 0, 0, 0, 9) + done + program(5))
    yield "early-data", "roomy", accepted + data + look + done + program(5)
    yield "connected", "roomy", (
        connected + look + data + peer(6, OWN, 0, 1) + done + look)
    yield "refused", "roomy", asks + cm_message(ACTIVE, 0, REJECT) + look * 2
    yield "not-there", "roomy", (
        program(4, 0, 5, 0) + look + program(4, 0, 5, 1, 1) + look)
    yield "other-channel", "roomy", (
        asks + peer(0, OWN) + cm_message(ACTIVE, 0, ACCEPT, 5, 6) + look +
        b"\x00\x03\x04" + program(7, 0, 0xff, 0xff) + look)
    yield "lies", "roomy", (
        called + cm_message(LISTENER, 0, ACCEPT) + look + asks +
        cm_message(ACTIVE, 0, REQUEST) + look + called +
        cm_message(LISTENER, 0, REQUEST, lies=b"\x80\x04\xff") + look +
        called + cm_message(LISTENER, 0, REQUEST, lies=b"\x40\xff\x00") + look)
    yield "twice", "roomy", (
        request + cm_message(LISTENER, 0, REQUEST) + look + b"\x01" +
        program(3, 0, 1, 0x20) + look)
    yield "many-callers", "roomy", (called * 8 + look) * 2 + program(5)
    yield "address-later", "roomy", (
        called + cm_message(LISTENER, 0, REQUEST) + look + b"\x07" + look +
        program(7, 0, 9, 0) + look + b"\x01" + program(3, 0, 1, 0x20) + hangs_up +
        called + cm_message(LISTENER, 0, REQUEST) + look + b"\x07" +
        peer(6, LISTENER, 0, 1) + look + program(7, 0, 9, 0) + look)
    yield "late", "roomy", accepted + program(7, 0, 0xff, 0xff) * 2 + look
    yield "stopped", "roomy", (
        connected + peer(7, OWN, 0) + done + look + request +
        peer(7, LISTENER, 0) + look + program(8) + look)
    yield "closed-early", "roomy", (
        request + program(0x48) + program(8) + look + asks + program(5) + look)
    yield "drained", "roomy", (
        connected + program(9, 0, 5) * 3 + program(9, 0, 3) + program(5) + look)


# ---- fuzz-whole.c -----------------------------------------------------------

# Endpoints of fuzz_scene.c: of each source and policy, then raw ones
PINNED, REDIRECT, KTLB, UTLB, SHADOW_RNR, ODP_RNR, TLB_RNR, ODP_REDIRECT, BACKUP = \
    range(1, 10)
KERNEL, ETHERNET, ETHERNET_BACKUP = range(10, 13)
TO_PAIR, TO_PEER, TO_LOCAL, TO_WIRE = range(4)
U32_MAX = 0xffffffff
# Of post_operation()
W_SEND, W_WRITE, W_READ, W_ADD, W_SWAP, W_FENCE = range(6)
W_INLINE, W_QUIET, W_NOTIFY, W_COUNT, W_KEYED, W_IMM, W_MORE = (
    1 << n for n in range(7))
# Opcodes of the wire
DATAGRAM, _, SEND, ACK, P_WRITE, P_READ, P_ATOMIC, ANSWER, VOID = range(1, 10)
ASK, LAST = 4, 2


def whole_post(ep, op, to, at=0, n=3000, flags=0, how=0):
    keyed = 0x20 | op
    body = bytes([0, ep, keyed, to | how, flags])
    if op not in (W_SEND, W_FENCE) and how & 8:
        body += u16(256)
    if op in (W_ADD, W_SWAP, W_FENCE):
        return body
    if flags & W_INLINE:
        return body + bytes([n % 33])
    return body + vaddr(at) + u16(n)


def whole_buffers(ep, page=0, kind=3, size=5):
    return bytes([0, ep, 0, kind << 6 | size << 3 | page])


def whole_peer(ep, opcode, how=0, flags=0, size=0, where=0):
    body = bytes([4, ep - 1 | (opcode - 1) << 4, how, flags])
    if opcode == DATAGRAM:
        return body + u16(size)
    if opcode in (SEND, P_WRITE, ANSWER) and not flags & 0x10:
        body += bytes([size // 3])
    if opcode in (P_WRITE, P_READ, P_ATOMIC):
        body += bytes([where])
    return body


def whole_ud(ep, *args, **more):
    return bytes([0, ep, 0x26]) + ud_send(*args, **more)


def whole_ud_arrives(ep, size, what=0, flags=0):
    """At endpoint 1, 4 or 13."""
    return bytes([4, 0x90 | (1, 4, 13).index(ep), size // 20, flags, what])


def whole_answers(how=0x4f):
    return bytes([7, 0, how])


def whole_move(ep, what, place=0):
    """BEGIN, GO, BACK, END are 0 to 3."""
    return bytes([7, 6, ep - 1 | what << 4, place])


def whole_arm(kind, n, *rest):
    return bytes([7, 8, kind << 5 | n, *rest])


def whole_object(kind, ep, ends, *rest):
    return bytes([7, 10, kind << 5 | ends << 4 | ep - 1, *rest])


def whole_pages(space, page, how=0):
    return bytes([7, 12, space - 1 | how, page])


def whole_refuse(after, n=1):
    return bytes([12 | n << 4, after])


def whole_world(body):
    return b"\x0e" + body


def whole_damage(ep, opcode, at, by, size=30):
    """A frame with one byte of its header changed."""
    return whole_peer(ep, opcode, 0, 0x81, size) + bytes([at, by])


def whole_time(ns):
    return b"\x0f" + u16(ns)


def whole_frame(ep, how, n, content=b""):
    return bytes([0, ep, 0x20, how]) + u16(n) + content.ljust(
        64 if how & 0x80 else 0, b"\0")


def whole_ethernet(how, n, content=b""):
    return bytes([11, how, n]) + content.ljust(26, b"\x01")


def whole_away(ep):
    """Three pages leave the endpoint's space."""
    space = {7: 2, 8: 6, 9: 6, 11: 6, 12: 6}.get(ep, ep)
    return b"".join(whole_pages(space, page) for page in (0, 1, 2))


def whole_absent(ep, go_on):
    """Operations on pages that have just left, at both ends."""
    other = ((ep - 1) ^ 1) + 1
    for page in (0, 2, 4):
        yield whole_buffers(other, page)
    for op in (W_READ, W_SEND, W_WRITE, W_ADD, W_READ):
        yield whole_away(ep) + whole_away(other) + whole_post(
            ep, op, TO_PAIR, 10, 5000) + whole_time(500) + whole_away(other) + (
                whole_time(200) + go_on)
    yield whole_post(ep, W_READ, TO_PEER, 10, 3500) + whole_away(ep)
    for how in (0, 2, 1, 0, 1, 2):
        yield whole_peer(ep, ANSWER, how, 0x10)
    yield go_on + b"".join(whole_peer(ep, ANSWER, how, 0x10) for how in (0, 0, 1, 0))
    yield whole_away(ep) + whole_peer(ep, P_WRITE, 0, ASK | 0x10, where=0)
    yield whole_peer(ep, P_ATOMIC, 0, ASK | 1, where=0) + whole_away(ep) + go_on
    yield whole_peer(ep, P_READ, 100, ASK, where=1) + whole_away(ep) + go_on
    yield whole_away(ep) + whole_peer(ep, SEND, 0, ASK | LAST | 0x10) + go_on
    yield b"".join(whole_peer(ep, DATAGRAM, size=2000) + whole_away(ep)
                   for _ in range(3)) + go_on


def whole_overrun(ep):
    """More stores in windows than there is room for, while the peer is silent."""
    stores = b"".join(bytes([10, 2 * ep - 1 | 0x30, n]) for n in range(0, 200, 2))
    starts = b"".join(bytes([10, 0x80 | 2 * ep - 2, 1]) + u16(100) for _ in range(70))
    yield stores + starts


def whole_between(ep, go_on):
    """A process's operations to its neighbour, which has buffers."""
    other = ((ep - 1) ^ 1) + 1
    yield b"".join(whole_buffers(other, page) for page in (0, 2, 4))
    for op in (W_SEND, W_WRITE, W_READ, W_ADD, W_SWAP, W_FENCE):
        yield whole_post(ep, op, TO_PAIR) + go_on
    yield whole_post(ep, W_SEND, TO_PAIR, 100, 20, W_INLINE | W_IMM) + go_on
    yield whole_post(ep, W_WRITE, TO_PAIR, 100, 2500, W_NOTIFY) + go_on
    yield whole_post(ep, W_WRITE, TO_PAIR, 0, 100, W_COUNT, 0x10) + go_on
    yield whole_post(ep, W_WRITE, TO_PAIR, 0, 100, W_IMM | W_MORE, 0x20) + go_on
    yield whole_post(ep, W_READ, TO_PAIR, 0, 2500, W_KEYED, 8) + go_on
    yield bytes([0, other, 8]) + bytes([0, ep, 8]) + go_on


def whole_station(ep, go_on):
    """A peer's packets of each kind, and its answers."""
    yield b"".join(whole_buffers(ep, page) for page in (0, 3, 6))
    yield whole_peer(ep, SEND, flags=LAST | ASK, size=300) + go_on
    yield whole_peer(ep, SEND, 0xa8, ASK | 0x10) + b"\x00" + go_on
    yield whole_peer(ep, SEND, flags=ASK | 0x10) * 2 + go_on
    yield whole_peer(ep, P_WRITE, flags=LAST | ASK, size=600, where=5) + go_on
    yield whole_peer(ep, P_WRITE, flags=LAST | ASK, size=60, where=0x81) + go_on
    yield whole_peer(ep, P_WRITE, flags=LAST | ASK, size=60, where=0x82) + go_on
    yield whole_peer(ep, P_WRITE, flags=LAST | ASK, size=60, where=3) + go_on
    yield whole_peer(ep, P_WRITE, flags=ASK | 0x10, where=9) * 2 + go_on
    yield whole_peer(ep, P_READ, 100, ASK, where=4) * 2 + go_on
    yield whole_peer(ep, P_ATOMIC, 0, ASK | 1, where=8) + go_on
    yield whole_peer(ep, P_ATOMIC, 0, ASK, where=0x88) + go_on
    yield whole_peer(ep, VOID, flags=ASK) + go_on
    for op in (W_SEND, W_READ, W_ADD, W_WRITE):
        yield whole_post(ep, op, TO_PEER, 0, 2000) + go_on
        yield whole_peer(ep, ANSWER, flags=0x10) + whole_peer(ep, ANSWER, 1, 0x10)
        yield whole_peer(ep, ANSWER, 0x20, 0, 8) + whole_peer(ep, ACK, 1)
        yield whole_peer(ep, ACK, 0x48) + whole_peer(ep, ACK, 4) + go_on
    yield whole_post(ep, W_WRITE, TO_PEER) + b"".join(
        whole_peer(ep, ACK, kind << 3) + go_on for kind in (1, 4, 3, 2))


def whole_ethernet_seeds():
    """Raw endpoints: frames out, in, to groups, with offloads."""
    ip = bytes([8, 2, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0]) + bytes(8)
    ip6 = bytes([0x86, 1, 0x60, 0, 0, 0, 0, 40, 6, 64]) + bytes(16)
    buffers = b"".join(whole_buffers(ep, page) for ep in (11, 12)
                       for page in (0, 3)) + whole_answers()
    for ep in (KERNEL, ETHERNET, ETHERNET_BACKUP):
        yield f"out-{ep}", buffers + b"".join(
            whole_frame(ep, how, n) + whole_time(9000) + whole_answers() +
            whole_time(20000) for how, n in (
                (12, 100), (0x1b, 1500), (3, 0), (0x23, 900), (0x6b, 5000),
                (0x2b, 300), (0x40, 60), (0x8b, 50), (0x6f, 4000), (0x6c, 4000)))
    for how in (0x0b, 0x0c, 0x2b, 0x4c, 0x50, 0x8b, 3, 0x0a, 0x2a):
        yield f"in-{how}", (
            buffers + whole_arm(4, 1, 2) + whole_arm(5, 2, 1) + whole_arm(4, 3, 3) +
            whole_arm(4, 4, 4) + b"".join(
                whole_ethernet(how, n, content) + whole_answers() +
                whole_time(2000) + whole_answers()
                for n, content in ((60, ip), (200, ip), (90, ip6), (20, b""))) +
            whole_arm(4, 0x11) + whole_ethernet(how, 90, ip))


def whole_moves(ep, go_on):
    """Parts of a region move while a peer writes, reads and adds there."""
    writes = b"".join(
        whole_peer(ep, P_WRITE, flags=LAST | ASK, size=n, where=at)
        for at, n in ((5, 600), (0, 300), (25, 765))) + go_on
    reads = b"".join(whole_peer(ep, P_READ, 100, ASK, where=at) for at in (20, 5)) + go_on
    adds = b"".join(whole_peer(ep, P_ATOMIC, 0, ASK | 1, where=at) for at in (20, 7)) + (
        go_on)
    yield writes + whole_move(ep, 0, 0x81) + writes + reads + adds
    yield whole_move(ep, 1, 1) + writes + reads + adds
    yield whole_move(ep, 0, 0xff) + whole_move(ep, 0, 5) + whole_move(ep, 0, 0x0c)
    yield writes + reads + whole_move(ep, 2, 1) + writes + whole_move(ep, 3, 1)
    yield whole_move(ep, 0, 0x11) + whole_move(ep, 1, 1) + writes
    yield whole_move(ep, 0, 0x11) + writes + whole_move(ep, 0, 0x12) + (
        whole_move(ep, 0, 0x13) + whole_move(ep, 0, 0x14) + whole_move(ep, 0, 0x15))
    for at in (2, 8, 14, 20, 26, 32, 38, 44, 50, 56):
        yield whole_peer(ep, P_WRITE, 0, LAST | ASK, 9, at - at % 5)
    yield whole_peer(ep, P_WRITE, 0, LAST | ASK | 0x10, where=5) + (
        whole_move(ep, 2, 1) + b"\x0d" + go_on + whole_refuse(0) + whole_move(ep, 0, 6))
    yield whole_object(3, ep - 1 if ep > 1 else 9, 1) + writes


def whole_halves(ep, between):
    """A message of two packets."""
    return (whole_peer(ep, SEND, 0x48, ASK | 0x10) + between +
            whole_peer(ep, SEND, 0, ASK, 576))


def whole_fills():
    """Full rings of the driver."""
    unread = b"".join(
        whole_away(ep) + b"".join(whole_buffers(ep, page) for page in range(6))
        for ep in (6, 7, 8, 5))
    closes = b"".join(whole_object(kind, ep, 1) for ep in (2, 8) for kind in (1, 2))
    for name, step in (("move", b"\x0d"), ("close", closes), ("change", b"\x8d\x01\x43\x20\0\x80" + u32(3)),
                       ("again", b"")):
        slots = b"".join(
            whole_away(ep) + whole_halves(ep, b"") + whole_peer(
                ep, P_WRITE, 0, LAST | ASK | 0x10, where=5) for ep in (2, 8))
        yield f"fault-ring-{name}", unread + b"".join(
            whole_buffers(2, page) for page in (0, 2, 4)) + slots + step + (
                whole_peer(9, DATAGRAM, size=300) * 2 +
                whole_ethernet(12, 90, bytes([8, 2])) + step +
                whole_answers(0x4f) + whole_answers(0x51) + step + whole_answers() * 4)
        counts = b"".join(
            whole_arm(0, n, k, 1) + bytes([7, 0x40, 0x4f]) for n in (0, 1)
            for k in range(8))
        yield f"notify-ring-{name}", counts + b"".join(
            whole_peer(ep, P_WRITE, 0, LAST | ASK, 9, where) + bytes([7, 0x40, 0x4f])
            for ep in (2, 4) for where in (2, 7, 12, 17, 22, 27, 32, 37)) + step + (
                whole_arm(0, 0x10, 3, 1) + whole_answers()) * 3


def whole_seldom(go_on):
    """(name, content) of ways that need a certain order."""
    buffers = {ep: b"".join(whole_buffers(ep, page) for page in (0, 2, 4)) + go_on
               for ep in range(1, 13)}
    for how in (0x4f, 0x51, 0x52, 0x53, 0x56):
        yield f"halves-{how}", b"".join(
            buffers[ep] + whole_halves(ep, whole_away(ep)) + whole_answers(how) +
            whole_time(9000) + whole_answers(how) for ep in range(1, 9))
    for after in range(6):
        refuse = whole_refuse(after)
        yield f"halves-refused-{after}", b"".join(
            buffers[ep] + whole_halves(ep, refuse) + go_on for ep in range(1, 9))
        yield f"slots-refused-{after}", b"".join(
            buffers[ep] + refuse + whole_ethernet(ep, 90, bytes([8, 2])) + go_on +
            refuse + whole_peer(9, DATAGRAM, size=200) + go_on for ep in (11, 12, 9))
        yield f"answers-refused-{after}", b"".join(
            whole_post(ep, W_READ, TO_PEER, 10, 2500) + go_on + refuse +
            whole_peer(ep, ANSWER, 0, 0x10) + go_on + refuse +
            whole_peer(ep, P_READ, 100, ASK, where=1) + go_on for ep in (1, 2, 6))
        yield f"moves-refused-{after}", b"".join(
            whole_peer(ep, P_WRITE, 0, LAST | ASK, 300, 5) + go_on + refuse +
            whole_move(ep, 0, 0x81) + go_on + whole_move(ep, 1, 1) + refuse +
            whole_move(ep, 2, 1) + go_on for ep in (1, 4, 3))
    told = buffers[2] + b"".join(
        whole_away(2) + whole_halves(2, b"") + whole_peer(2, P_WRITE, 0, LAST | ASK | 0x10)
        for _ in range(2)) + whole_answers(0x0f) * 3
    yield "slots-closed", told + whole_object(1, 2, 1) + whole_object(2, 2, 1) + b"".join(
        bytes([7, 0, 0xcf, n]) for n in range(24))
    yield "backup-turns", (
        whole_away(6) + whole_peer(9, DATAGRAM, size=200) + whole_buffers(9) * 2 +
        whole_answers() * 2 + bytes([0, 9, 8])) * 4 + b"".join(
            whole_arm(7, n) + u16(size) for n, size in (
                (0, 16), (8, 500), (1, 900), (2, 900), (3, 900), (4, 900))) + (
                    whole_away(6) + whole_peer(9, DATAGRAM, size=200) * 8 +
                    whole_buffers(9) * 6 + whole_answers() * 4 + b"\x0d" +
                    bytes([0, 9, 8]) + go_on)
    yield "backup-queue-full", whole_away(6) + whole_peer(9, DATAGRAM, size=200) * 5 + (
        whole_buffers(9) * 7 + whole_answers() * 4 + whole_peer(9, DATAGRAM, size=20) * 2 +
        bytes([0, 9, 8]) + go_on)
    for ep in (1, 4):
        writes = b"".join(
            whole_peer(ep, P_WRITE, 0, LAST | ASK, 300, at) for at in (5, 10)) + go_on
        yield f"back-{ep}", b"".join(
            writes + whole_move(ep, 0, 0x81) + whole_move(ep, 1, 1) + writes +
            whole_refuse(after) + whole_move(ep, 2, 1) + go_on + whole_move(ep, 3, 1)
            for after in range(6)) + writes + whole_move(ep, 0, 0x81) + whole_move(ep, 3, 1)
    yield "second-segment", b"".join(
        whole_post(ep, W_READ, TO_PEER, 0, 902, W_MORE, 0x70) + go_on +
        whole_peer(ep, ANSWER, 0, 0x10) + go_on + whole_peer(ep, ANSWER, 0, 0, 15) + go_on
        for ep in (1, 2, 4, 7))
    yield "asked-again", b"".join(
        whole_away(ep) + whole_post(ep, W_WRITE, TO_PEER, 4096 * n, 300) +
        whole_answers(0x53) + whole_time(500)
        for n in range(8) for ep in (2, 7, 3)) + go_on
    for ep, n in ((1, 5), (7, 5), (5, 5), (2, 17), (8, 17)):
        full = whole_post(ep, W_FENCE, TO_PAIR) * n + go_on
        yield f"halves-queue-full-{ep}", (
            buffers[ep] + whole_halves(ep, full) + go_on + bytes([0, ep, 8]) + go_on +
            whole_away(ep) + whole_halves(ep, whole_answers() + full) + go_on +
            bytes([0, ep, 8]) + go_on)
    for size in (300, 2000):
        yield f"crossing-{size}", b"".join(
            (bytes([0, ep, 0, 0]) + vaddr(3800) + length(3000) + b"\x05") * 2 + go_on +
            whole_peer(ep, DATAGRAM, size=size) + whole_time(wait) + whole_away(ep) + go_on +
            whole_ethernet(ep, size % 256, bytes([8, 2])) + whole_away(ep) + go_on
            for ep in (1, 3, 4, 9, 11, 12) for wait in (0, 300, 600))
    yield "overlaps", b"".join(
        whole_peer(ep, P_WRITE, 0x80, LAST | ASK, size, at)[:-1] + b"\x01" + bytes([at]) +
        whole_peer(ep, P_WRITE, 0, LAST | ASK | 0x10, where=under) + go_on
        for ep in (1, 4) for size, at, under in (
            (600, 10, 5), (60, 10, 5), (765, 0, 5), (30, 5, 5), (765, 5, 5)))
    yield "spans", b"".join(
        whole_peer(ep, P_WRITE, 0, LAST | ASK, 9, 5 * n) + whole_time(30)
        for ep in (1, 4) for n in range(13)) + b"".join(
            whole_move(ep, 0, 0xf8) + go_on + whole_move(ep, 1) + b"".join(
                whole_peer(ep, P_WRITE, 0, LAST | ASK, 9, 5 * n) for n in range(6)) +
            whole_move(ep, 2, 0x20) + b"\x0d" + whole_move(ep, 3) for ep in (1, 4))
    yield "reads-of-two", b"".join(
        whole_post(ep, W_READ, to, 4000, 1500, W_MORE, 5) + whole_away(ep) + go_on
        for ep in (1, 2, 5, 6, 7) for to in (TO_PAIR,)) + b"".join(
            whole_post(ep, W_READ, TO_PEER, 4000, 900, W_MORE, 0x70) + go_on +
            whole_peer(ep, ANSWER, 0, 0x10) + whole_away(ep) +
            whole_peer(ep, ANSWER, 0, 0, 200) + go_on for ep in (1, 2, 5, 6, 7))
    stops = bytes([0, 0, 0x1d]) + u32(0x10000)
    for ep in (9, 11, 12, 1, 2):
        yield f"stopped-{ep}", buffers[ep] + bytes([0, ep]) + stops[2:] + b"".join(
            whole_ethernet(ep, 90, bytes([8, 2])) + whole_halves(min(ep, 9), go_on) +
            b"\x0d" for _ in range(2))
    yield "no-buffers", b"".join(
        whole_ethernet(ep, 90, bytes([8, 2])) + whole_peer(9, DATAGRAM, size=200) + go_on
        for ep in (11, 12, 11, 12)) * 3


def whole_ud_seeds(go_on):
    """UD channels of endpoints 1, 4 and 13 (7), to each other and to the wire."""
    for ep in (1, 4, 13):
        step = [whole_buffers(ep, page) + go_on for page in (0, 2)]
        step += [whole_ud_arrives(ep, size, what) + go_on
                 for size in (20, 900, 4000) for what in (0, 0x10, 0x20, 0x30, 0x50)]
        step += [whole_buffers(other) + whole_ud(ep, to, (3000, 2000), (9, 9), how=how) + go_on
                 for other, to in ((1, 1), (4, 4), (13, 7), (1, OUT))
                 for how in (0, QUIET, WITH_IMM)]
        flush = whole_object(2, {1: 12, 4: 13, 13: 11}[ep], 1)
        again = whole_object(2, {1: 12, 4: 13, 13: 11}[ep], 0)
        yield f"ud-{ep}", b"".join(step) + flush + b"".join(step[:5]) + again + step[-1]
        yield f"ud-moved-{ep}", b"".join(
            whole_pages(6, page) + part + b"\x0d" for page, part in enumerate(step * 2))[:900]
        yield f"ud-flushed-{ep}", b"".join(
            whole_pages(6, 0) + whole_ud(ep, to, (3000, 2000)) + flush + b"\x0d" + go_on + again
            for to in (1, 4, 7, OUT))
        yield f"ud-refused-{ep}", b"".join(
            whole_refuse(after) + part for after in range(4) for part in step[-3:] + step[3:5])
        yield f"ud-changed-{ep}", whole_world(wire(0, 1)) + b"".join(
            whole_ud(ep, OUT, (0, 90)) * 2 + whole_changed(
                stream_packet(n, (0, 1, 5000)[n % 3])) for n in range(24))


def whole_landing_seeds():
    """On a card whose pages take time: the end comes in between."""
    for ep in (1, 2, 5, 6, 7):
        opens = (bytes([0, ep, 0, 0]) + vaddr(3800) + length(3000) + b"\x05" +
                 whole_answers() + whole_time(3000) + whole_answers())
        yield f"landing-read-{ep}", b"".join(
            opens + whole_post(ep, W_READ, TO_PEER, 3900, 765) + whole_time(4000) +
            whole_answers() + whole_peer(ep, ANSWER, 0, 0, 765) + whole_time(wait) + end +
            whole_time(5000) + whole_answers()
            for wait in (0, 300) for end in (
                whole_away(ep), whole_object(2, ep, 1), b"\x0d", whole_refuse(0, 7)))
        yield f"landing-write-{ep}", b"".join(
            opens + whole_peer(ep, P_WRITE, 0, LAST | ASK | 0x10, where=25) +
            whole_time(wait) + end + whole_time(5000) + whole_answers()
            for wait in (0, 300) for end in (
                whole_away(ep), whole_move(ep, 0, 0xff) + b"\x0d",
                whole_move(ep, 0, 0xff) + whole_object(3, ep - 1 or 9, 1) +
                whole_object(3, ep - 1 or 9, 0), whole_refuse(0, 7)))
        yield f"landing-served-{ep}", b"".join(
            opens + whole_peer(ep, P_READ, 100, ASK, where=24) * 2 + whole_time(wait) + end +
            whole_time(5000) + whole_answers()
            for wait in (0, 300) for end in (
                whole_away(ep), whole_object(3, ep - 1 or 9, 1) +
                whole_object(3, ep - 1 or 9, 0), whole_refuse(0, 7), b"\x0d"))
        yield f"landing-send-{ep}", b"".join(
            opens + whole_halves(ep, whole_time(wait)) + whole_time(wait) + end +
            whole_time(5000) + whole_answers()
            for wait in (0, 300) for end in (
                whole_away(ep), b"\x0d", whole_refuse(0, 7), whole_object(2, ep, 1) +
                whole_object(2, ep, 0)))


def whole_changed(change):
    return b"\x8d\x01" + change


def whole_changes():
    """Saved states with one value changed: of a channel, or of a packet."""
    opens = b"".join(whole_buffers(ep, 0) for ep in (1, 2, 6, 7)) + whole_answers()
    for ep in (1, 2, 6, 7):
        work = (
            whole_post(ep, W_WRITE, TO_PEER, 0, 2500) + whole_post(ep, W_READ, TO_PEER) +
            whole_post(ep, W_SEND, TO_PEER, 0, 20, W_INLINE) + whole_time(900) +
            whole_post(ep, W_ADD, TO_PEER) + whole_peer(ep, SEND, 0x48, ASK | 0x10) +
            whole_peer(ep, P_READ, 100, ASK, where=1) + whole_answers())
        yield f"changed-channel-{ep}", opens + work + b"".join(
            whole_changed(b"\x13" + bytes([at, 2 * ep - 1 - at % 2]) + b"\x80" +
                          u32(1 if at % 3 else U32_MAX)) for at in range(85))
    for name, again in (
            ("send", whole_post(1, W_SEND, TO_WIRE, 0, 3000)),
            ("inline", whole_post(3, W_SEND, TO_WIRE, 0, 20, W_INLINE)),
            ("channel", whole_post(6, W_SEND, TO_PEER, 0, 3000) + whole_answers()),
            ("answer", whole_peer(1, P_READ, 100, ASK, where=1)),
            ("atomic", whole_peer(1, P_ATOMIC, 0, ASK | 1, where=8)),
            ("frame", whole_frame(KERNEL, 3, 900))):
        yield "changed-packet-" + name, whole_world(wire(0, 1)) + opens + b"".join(
            again + whole_changed(stream_packet(n, (0, 1, 5000)[n % 3])) + whole_time(60)
            for n in range(24))


def whole_sends_changed():
    """Saved states of a channel with a send of each kind, an arriving message and a packet
    that is kept: values that contradict each other, by their place in the channel."""
    opens = b"".join(whole_buffers(ep, 0) for ep in (1, 2, 6, 7)) + whole_answers()
    head = ((2, 1), (2, 2), (9, 200), (12, 5), (13, 1), (14, 0), (15, 0), (20, 1), (21, U32_MAX),
            (23, 1), (23, U32_MAX), (24, 1), (25, 1), (25, U32_MAX))
    # From the number of messages on
    sends = ((0, 0), (0, 4), (1, 0), (1, 2), (1, 5),
             # an inline SEND
             (2, 2), (2, 3), (2, 7), (3, 8), (5, 5), (5, 300), (7, 0), (7, 16), (8, 1), (9, 1),
             (11, 0), (12, 0), (13, 0), (13, 5),
             # an atomic, a WRITE, a FENCE
             (14, 6), (15, 16), (17, 9), (19, 0), (29, 1), (33, 100), (36, 1), (37, 1), (42, 0),
             (43, 1), (43, U32_MAX), (44, 256), (45, 0), (47, 1), (66, 1), (69, 5), (75, 1),
             # its end, a deadline
             (79, 1), (80, 0), (81, 1),
             # the message that arrives
             (84, 1), (84, 2), (85, 1), (86, 1), (88, 1), (89, 1), (92, 0), (93, 0), (94, 1),
             (96, 1), (97, 5), (97, 576), (98, 0), (100, 0))
    last = {1: ((141, 9), (142, 9), (144, 1), (149, 60), (150, 9), (152, 9), (153, 1), (153, 2),
                (157, 1), (158, 1), (159, 1)),
            6: ((147, 0), (148, 9), (149, 0), (150, 5), (151, 0), (152, 8), (153, 7), (154, 9),
                (155, 9), (157, 1), (162, 60), (163, 9), (165, 9), (166, 1), (171, 1))}
    for ep, channel, msgs in ((1, 0, 39), (6, 10, 45)):
        work = (whole_post(ep, W_SEND, TO_PEER, 0, 20, W_INLINE) + whole_post(ep, W_ADD, TO_PEER) +
                whole_post(ep, W_WRITE, TO_PEER, 0, 2500) + whole_post(ep, W_READ, TO_PEER) +
                whole_answers() + whole_post(ep, W_FENCE, TO_PEER) +
                whole_peer(ep, SEND, 0x48, ASK | 0x10) +
                whole_peer(ep, SEND, 0x80, ASK | 0x10) + b"\x02" +
                whole_peer(ep, P_WRITE, 0x80, LAST | ASK, 60, 5)[:-1] + b"\x01\x05" +
                whole_peer(ep, P_READ, 100, ASK, where=1))
        changes = [*head, *((msgs + at, value) for at, value in sends), *last[ep]]
        for first in range(0, len(changes), 40):
            yield f"changed-sends-{ep}-{first}", opens + work + b"".join(
                whole_changed(b"\x13" + bytes([at, channel]) + b"\x80" + u32(value))
                for at, value in changes[first:first + 40])


def whole():
    """Programs for fuzz-whole.c."""
    go_on = whole_answers() + whole_time(300) + whole_answers()
    late = whole_time(60000)
    for ep in range(1, 9):
        yield f"between-{ep}", "roomy", b"".join(whole_between(ep, go_on)) + late
        yield f"between-moved-{ep}", "slow", b"".join(
            whole_between(ep, go_on + b"\x0d"))
        yield f"station-{ep}", "roomy", b"".join(whole_station(ep, go_on)) + late
        yield f"station-moved-{ep}", "slow", b"".join(
            whole_station(ep, b"\x0d" + go_on))
        yield f"region-{ep}", "slow" if ep & 1 else "roomy", b"".join(
            whole_moves(ep, go_on))
        yield f"absent-{ep}", "slow", b"".join(whole_absent(ep, go_on)) + late
        yield f"absent-late-{ep}", "slow", b"".join(
            whole_absent(ep, whole_answers(0x52) + whole_time(300)))
        yield f"absent-never-{ep}", "roomy", b"".join(
            whole_absent(ep, whole_answers(0x52) + whole_answers(0x56) +
                         whole_time(300)))
        yield f"later-{ep}", "slow-cramped", b"".join(
            whole_station(ep, whole_answers(0x51) + whole_time(900) +
                          whole_answers(0x0f)))
    for name, content in whole_ethernet_seeds():
        yield "ethernet-" + name, "roomy", content
        yield "ethernet-slow-" + name, "slow", content
    yield "ethernet-odd", "roomy", b"".join(
        whole_frame(ep, 0x80, n, content) + go_on for ep in (10, 11) for n, content in (
            (50, bytes(6) + b"\x52\x54\0\x4d\x4d\1\x88\xb5"), (50, bytes(40)),
            (9190, bytes(64))))
    yield "controls", "roomy", b"".join(
        bytes([4, 0x10, 0, 0, how]) for how in (0, 2, 80, 82, 1, 255)) + go_on
    datagrams = b"".join(
        whole_buffers(ep, page) for ep in (1, 3, 4, 9) for page in (0, 2)) + (
            b"".join(whole_peer(ep, DATAGRAM, size=n) + go_on
                     for ep in (1, 3, 4, 9) for n in (10, 1500, 5000)))
    backup = whole_arm(2, 8, 6) + datagrams + whole_pages(6, 0) + (
        whole_peer(9, DATAGRAM, size=200) * 4 + whole_answers(0x43) + b"\x0d" +
        whole_buffers(9) * 4 + whole_answers(0x4f) + whole_pages(6, 2, 0x10) +
        whole_peer(9, DATAGRAM, size=900) * 8 + whole_answers(0x51) * 2)
    yield "backup", "roomy", backup
    yield "backup-slow", "slow-cramped", backup
    yield "datagrams", "roomy", datagrams + b"".join(
        whole_post(ep, W_SEND, to, 100, n) + go_on
        for ep in (1, 3, 4, 9) for to in (TO_LOCAL, TO_WIRE) for n in (20, 5000))
    yield "counters", "roomy", b"".join(
        whole_arm(0, n, n, 1) for n in range(8)) + b"".join(
            whole_peer(ep, P_WRITE, flags=LAST | ASK, size=9, where=2) + go_on
            for ep in (2, 4, 7)) * 3 + b"\x0d"
    yield "pages-go", "slow", b"".join(
        b"".join(whole_station(ep, whole_pages(space, page, how) + go_on))[:300]
        for ep, space, page, how in ((5, 5, 0, 0x40), (6, 6, 1, 0x90), (4, 4, 2, 0xc0),
                                     (2, 2, 0, 0)))
    for ep in (1, 2, 5, 6):
        for after in range(7):
            yield f"refused-{ep}-{after}", "roomy", b"".join(
                whole_refuse(after) + step for step in whole_station(ep, go_on))
            yield f"refused-between-{ep}-{after}", "slow" if after & 1 else "roomy", (
                b"".join(whole_refuse(after + 2 * (after & 1)) + step
                         for step in whole_between(ep, go_on)))
    for ep in range(1, 9):
        # A cleared channel whose sends have no completion yet is moved.
        closed = whole_post(ep, W_SEND, TO_PEER, 0, 9, W_INLINE) * 20 + (
            whole_object(1, ep, 1) + b"\x0d")
        yield f"cleared-{ep}", "roomy", closed + bytes([0, ep, 8]) + go_on
        yield f"cleared-changed-{ep}", "slow", whole_post(ep, W_READ, TO_PEER) + closed + (
            b"".join(whole_changed(b"\x13" + bytes([at, 2 * ep - 1]) + b"\x80" + u32(1))
                     for at in range(0, 80, 9)))
    for ep in (PINNED, SHADOW_RNR, TLB_RNR, REDIRECT):
        yield f"queue-full-{ep}", "roomy", (
            b"".join(whole_buffers(ep, page) for page in range(6)) + go_on +
            whole_peer(ep, SEND, 0, LAST | ASK, 30) * 6 +
            whole_peer(ep, SEND, 0, ASK | 0x10) + whole_peer(ep, SEND, 0, LAST, 300) +
            whole_peer(ep, P_WRITE, 0, LAST | ASK, 30, 6) * 6 + bytes([0, ep, 8]) +
            go_on + whole_peer(ep, SEND, 0, ASK | 0x10) +
            whole_peer(ep, P_WRITE, 0, LAST | ASK, 30, 3) * 3 + bytes([0, ep, 8]) + go_on)
    for space, ep in ((3, KTLB), (4, UTLB), (5, SHADOW_RNR), (6, ODP_RNR)):
        yield f"changing-{space}", "roomy", b"".join(
            whole_pages(space, 0, 0x40) + whole_post(ep, op, to, 5, 2000) +
            whole_peer(ep, P_WRITE, 0, LAST | ASK, 30) + whole_answers(0x53) +
            whole_time(400) + whole_pages(space, 0, how) + go_on
            for op, to in ((W_SEND, TO_PAIR), (W_SEND, TO_PEER), (W_READ, TO_PAIR))
            for how in (0x20, 0xe0, 0x50))
    yield "evictions", "direct", b"".join(
        whole_post(ep, W_WRITE, TO_PEER, 4096 * page, 100) + whole_answers(how)
        for how in (0x41, 0x40, 0x4f) for page in range(10) for ep in (2, 7))
    for card in ("slow", "slow-tiny"):
        yield "landing-" + card, card, b"".join(
            b"".join(whole_buffers(ep, page) for page in (0, 3, 6)) + go_on * 2 +
            packet + whole_time(300) + whole_away(ep) + go_on
            for ep in (1, 2, 6, 7) for packet in (
                whole_peer(ep, SEND, 0, ASK | 0x10), whole_peer(ep, DATAGRAM, size=5000),
                whole_peer(ep, SEND, 0, LAST | ASK | 0x10),
                whole_peer(ep, P_WRITE, 0, LAST | ASK | 0x10, where=9),
                whole_post(ep, W_READ, TO_PAIR, 0, 2000)))
        yield "ends-landing-" + card, card, b"".join(
            whole_buffers(ep, 0) + go_on + whole_peer(ep, opcode, 0, LAST | ASK | 0x10) +
            whole_time(200) + whole_object(kind, n, 1) + go_on
            for ep in (2, 5, 6) for opcode in (SEND, P_WRITE)
            for kind, n in ((3, ep - 1), (2, ep), (1, ep), (0, ep)))
    for name, content in (*whole_fills(), *whole_seldom(go_on)):
        yield name, "slow" if name.startswith("crossing") else "roomy", content
    for name, content in whole_ud_seeds(go_on):
        yield name, "roomy", content
        yield name + "-slow", "slow", content
    for name, content in (*whole_landing_seeds(), *whole_changes()):
        yield name, "slow", content
    for name, content in whole_sends_changed():
        yield name, "roomy", content
    yield "absent-frames", "roomy", b"".join(
        whole_buffers(ep, 0) * 2 + whole_away(6) + whole_ethernet(ep, 90, bytes([8, 2])) +
        whole_answers(how) + whole_ethernet(ep, 90, bytes([8, 2])) + go_on
        for ep in (11, 12) for how in (0x51, 0x52, 0x53, 0x56, 0x4f))
    shapes = {4: b"\x01", 6: b"\x21\x01\x00", 7: b"\x21\x01\x00"}
    for kind in range(8):
        yield f"objects-{kind}", "slow" if kind & 1 else "roomy", b"".join(
            whole_post(ep, W_SEND, TO_PAIR) + whole_object(
                kind, ep, ends, *shapes.get(kind, b"")) + go_on
            for ep in (1, 2, 8, 5) for ends in (1, 0, 1, 0))
    for what in ("roomy", "slow-cramped"):
        yield "all-ends-" + what, what, b"".join(
            whole_station(ep, go_on).__next__() + whole_peer(ep, P_WRITE, 0, ASK | 0x10) +
            whole_post(ep, W_READ, TO_PAIR) + whole_object(0, ep, 1) +
            whole_object(3, ep - 1 or 9, 1) for ep in range(1, 9)) + b"".join(
                whole_object(5, ep, 1) + whole_time(2000) for ep in range(1, 9))
    down, up = wire(2, 0), wire(2, 1)
    yield "link", "roomy", whole_world(down) + b"".join(
        whole_post(ep, W_SEND, to, 0, 900) + whole_peer(ep, SEND, 0, LAST | ASK) + go_on
        for ep in (1, 3) for to in (TO_PEER, TO_WIRE)) + whole_frame(
            KERNEL, 3, 60) + go_on + whole_world(up) + go_on
    for answer in (1, 2):
        yield f"wire-{answer}", "slow", whole_world(wire(0, answer)) + b"".join(
            whole_post(ep, W_SEND, to, 0, 900) + whole_frame(KERNEL, 0x63, 3000) +
            whole_peer(ep, P_READ, 9, ASK, where=1) + go_on
            for ep in (1, 3) for to in (TO_PEER, TO_WIRE)) + whole_world(
                wire(1, answer)) + whole_world(wire(0, 0)) + go_on
    yield "damaged", "roomy", b"".join(
        whole_damage(ep, opcode, at, by)
        for ep, opcode in ((1, DATAGRAM), (2, SEND), (5, ACK))
        for at, by in ((11, 3), (14, 2), (15, 64), (12, 1), (5, 1), (0, 1), (16, 64),
                       (18, 64), (20, 64), (22, 64), (24, 64), (28, 1), (28, 2),
                       (29, 8), (32, 64), (36, 1), (40, 1), (48, 1), (52, 1)))
    yield "lies", "roomy", b"\x8c\xff" + (
        whole_frame(KERNEL, 12, 100) + whole_time(500)) * 20
    yield "no-flow", "roomy", whole_arm(4, 0x1a) + b"".join(
        whole_ethernet(how, 60, bytes([8, 2])) for how in (3, 0x43, 0x10))
    yield "late-refused", "roomy", whole_world(knobs(64, 255)) + (
        whole_post(1, W_SEND, TO_WIRE, 0, 90) + whole_post(3, W_SEND, TO_PEER, 0, 90)) * 4 + (
            whole_world(wire(0, 2)) + late)
    for ep in (1, 6):
        yield f"many-{ep}", "roomy", whole_post(
            ep, W_SEND, TO_PEER, 0, 9, W_INLINE) * 90 + bytes([0, ep, 8]) + (
                whole_peer(ep, ACK, 7) * 30 + go_on)
    for how in (0x51, 0x52, 0x56):
        yield f"frame-answer-{how}", "roomy", b"".join(
            whole_buffers(ep, 0) * 3 + whole_away(6) +
            whole_ethernet(ep, 90, bytes([8, 2])) + whole_answers(how) +
            whole_ethernet(ep, 90, bytes([8, 2])) * 2 + go_on for ep in (11, 12))
    yield "backup-odd", "roomy", whole_away(6) + whole_peer(9, DATAGRAM, size=200) * 3 + (
        b"".join(whole_arm(7, n) + u16(size) for n, size in (
            (0, 16), (8, 500), (1, 900), (2, 900), (3, 900), (4, 900))) +
        whole_peer(9, DATAGRAM, size=200) * 5 + whole_buffers(9) * 6 +
        whole_answers(0x47) * 3 + whole_peer(9, DATAGRAM, size=200) * 4 + b"\x0d" +
        whole_answers(0x47) + whole_object(0, 9, 1) + whole_answers(0xcf) + b"\x05")
    yield "armed", "roomy", b"".join(
        bytes([0, ep, 0x1b]) + whole_buffers(ep, 1) + whole_answers() +
        whole_ethernet(ep, 90, bytes([8, 2])) for ep in (10, 11, 12)) + b"".join(
            bytes([0, ep, 0x1b]) + whole_post(ep, W_SEND, TO_LOCAL, 0, 9) + go_on
            for ep in (1, 3, 4, 9))
    yield "rings-full", "roomy", b"".join(
        bytes([0, ep, 0x1b]) + whole_post(ep, W_SEND, TO_LOCAL, 0, 9)
        for ep in (1, 3, 4, 9) * 10) + b"".join(
            whole_pages(6, n % 10) + whole_post(6, W_SEND, TO_PEER, 4096 * (n % 10), 5000)
            for n in range(40)) + go_on
    stores = b"".join(bytes([10, page | size << 4, word]) for page in range(4)
                      for size, word in ((0, 1), (3, 2), (3, 3)))
    starts = b"".join(bytes([10, 0x80 | page, 1]) + u16(n) for page in (0, 2)
                      for n in (8, 3000))
    yield "stores", "roomy", (stores + starts + go_on) * 2 + b"\x0d" + late
    for ep in (1, 2):
        yield f"overrun-{ep}", "roomy", b"".join(whole_overrun(ep)) + go_on
    yield "long", "slow", b"".join(
        bytes([0, ep, 0x10, how]) + bytes([200] * (how & 15) + [50]) + go_on
        for ep in (1, 3, 6) for how in (0x04, 0x4f, 0x87, 0xcf))
    yield "control", "roomy", b"".join(
        bytes([0, 0, 0x20, n, to]) + go_on for n in (0, 32) for to in (0, 1))
    for name, ep in (("rnr", ODP_RNR), ("redirect", REDIRECT), ("utlb", UTLB)):
        yield "changed-" + name, "slow", b"".join(
            b"".join(whole_station(ep, go_on))[:150 + 40 * n] +
            b"\x8d\x01" + stream_last(1 + 7 * n, n) for n in range(6))


# ---- fuzz-params.c ----------------------------------------------------------


def params():
    """Programs for fuzz-params.c: one number at each of its limits."""
    for number in range(29):
        yield f"number-{number}", "roomy", b"".join(
            bytes([1, number, value]) + b"\x02\x05\x01\x09\x40\xff\x7f"
            for value in range(25))
    yield "none", "roomy", b"\x00" * 8
    yield "cut", "roomy", b"".join(b"\x00\x00" + u16(n) for n in range(0, 300, 20))


TARGETS = {"rings": rings, "frames": frames, "commands": commands,
           "registers": registers, "slots": slots, "streams": streams,
           "misses": misses, "unplug": unplug, "provider": provider,
           "whole": whole, "params": params}


def main():
    """Writes DIRECTORY/TARGET/NAME for each seed; says how many a target has."""
    for target, programs in TARGETS.items():
        folder = os.path.join(sys.argv[1], target)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for name, card, content in programs():
            with open(os.path.join(folder, name), "wb") as file:
                # The provider has one kind of card.
                file.write((b"" if target == "provider" else bytes([CARDS[card]])) + content)
        print(f"{target}: {len(os.listdir(folder))}")


if __name__ == "__main__":
    main()
