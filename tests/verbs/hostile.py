#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Hostile processes of verbs, in a guest: generated sequences of commands.

usage: hostile.py INTERFACE SEED SECONDS [ROUND]

A round is a process that first makes a pair of queue pairs as a program does, which has to
succeed, and then does steps that its seed chooses: commands with right and wrong handles,
lengths and answers, mappings, garbage in its queues, other threads, forks, signals, memory
that goes, or comes never (userfaultfd).  It ends itself or is killed.  All of the round has to
end within LIMIT seconds, and the device to be as before: no object, space or endpoint is left,
and the kernel has not complained.  Of each kind of step some have to succeed in all rounds together.
Seed and ROUND give the same steps; the order of threads, and the moment of the kill, are chance.
"""

import contextlib
import ctypes
import fcntl
import gc
import itertools
import json
import mmap
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback

LIMIT, GRACE = 120, 60
DEVICE = "/dev/infiniband/uverbs0"
STATE = "/sys/kernel/debug/unetmm/unetmm0/"
GID = "/sys/class/infiniband/unetmm0/ports/1/gids/1"
# The kernel says once that a child has no right to write() to its parent's descriptor.
HARMLESS = "changed security contexts"
COMPLAINT = re.compile(r"BUG|WARNING|Oops|Call Trace|INFO: |circular|KASAN|given up|does not")
OBJECTS = "qp", "cq", "mr", "pd", "ctx", "srq"
LOOK = 16                   # rounds from one look for objects that are left to the next
TRIES = 300                 # of a kind of step, one of which succeeds
SHARE = 0.1                 # of all steps, which succeeds at least
# Random bytes hardly make a good command.  With librxe a queue pair has no doorbell, and windows
# have other requests.
NEVER = {"rxe": ("any_command", "any_ioctl", "events", "doorbell", "key"),
         "own": ("any_command", "any_ioctl", "events")}

PAGE = mmap.PAGESIZE
ARENA_PAGES, WATCHED_PAGES = 192, 16
ANSWER = 1 << 19
WIDE = 1 << 30              # bytes that are read only; it takes long to go through them
SLOTS, SLOT = 512, 160
NUMBERS = (0, 1, 2, 3, 7, 8, 63, 64, 255, 256, 4095, 4096, 65535, 65536, 0x7fffffff, 0x80000000,
           0xfffffffe, 0xffffffff)
LONG_NUMBERS = NUMBERS + (PAGE - 1, 1 << 20, 1 << 32, (1 << 47) - PAGE, 1 << 47, (1 << 63) - 1,
                          1 << 63, (1 << 64) - PAGE, (1 << 64) - 1)

# Commands of uverbs' write()
(GET_CONTEXT, QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, CREATE_AH) = range(6)
DESTROY_AH, REG_MR, REREG_MR, DEREG_MR, ALLOC_MW, DEALLOC_MW = 8, 9, 11, 13, 14, 16
CREATE_CHANNEL, CREATE_CQ, RESIZE_CQ, DESTROY_CQ, POLL_CQ, REQ_NOTIFY_CQ = 17, 18, 19, 20, 21, 23
CREATE_QP, QUERY_QP, MODIFY_QP, DESTROY_QP, POST_SEND, POST_RECV = 24, 25, 26, 27, 28, 29
CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ, DESTROY_SRQ, LAST_COMMAND = 32, 33, 34, 35, 42
EXTENDED, SEND_REQUEST = 0x80000000, 56
# How an object ends: the command, and whether it has an answer
ENDS = {"pd": (DEALLOC_PD, False), "ah": (DESTROY_AH, False), "mr": (DEREG_MR, False),
        "mw": (DEALLOC_MW, False), "cq": (DESTROY_CQ, True), "qp": (DESTROY_QP, True),
        "srq": (DESTROY_SRQ, True)}
CORE_IN, CORE_OUT, WRITE_COMMAND, DRIVER_OUT = 0, 1, 2, 0x1001
IOCTL, OBJECT_QP, OBJECT_MR, METHOD_ADVISE, METHOD_KEY = 0xc0181b01, 4, 7, 2, 0x1000
DRIVERS = {"rxe": 14, "own": 0}
RC, UD = 2, 4
RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6
# Attributes that a change to the state needs, with RC and UD
MASKS = {RC: {RESET: 0x1, INIT: 0x39, RTR: 0x129181, RTS: 0x12e01, ERR: 0x1},
         UD: {RESET: 0x1, INIT: 0x71, RTR: 0x1, RTS: 0x10001, ERR: 0x1}}
# Places in the memory of librxe's queues, and of an endpoint's
RXE_PRODUCER, RXE_CONSUMER, RXE_DATA = 128, 256, 384
OWN_SQ_PROD, OWN_FQ_PROD, OWN_CQ_CONS, OWN_CQ_ARM, OWN_CQ_PROD = 0, 4, 8, 12, 72

UFFD, UFFD_API, UFFD_REGISTER, UFFD_WAKE = 323, 0xc018aa3f, 0xc020aa00, 0x8010aa02
PR_SUBREAPER = 36

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_ssize_t
LIBC.mmap.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_size_t]
for _call in LIBC.munmap, LIBC.mprotect, LIBC.madvise:
    _call.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
for _call in LIBC.pread, LIBC.pwrite:
    _call.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]


class Broken(Exception):
    """A step has failed that has to succeed."""


class Thing:
    """An object of uverbs, with its numbers and places."""

    def __init__(self, kind, descriptor, handle, **more):
        self.kind, self.descriptor, self.handle = kind, descriptor, handle
        self.places, self.produced, self.number, self.type = {}, {}, 0, RC
        self.layout, self.pd = (), None
        self.__dict__.update(more)


class Diary:
    """The last steps of a round, and counts of steps, for the parent."""

    def __init__(self):
        self.memory = mmap.mmap(-1, SLOTS * SLOT)
        self.names = {}
        self.counts = mmap.mmap(-1, PAGE)
        self.next = itertools.count()
        self.who = "0"

    def clear(self):
        self.memory[:] = bytes(len(self.memory))
        self.next = itertools.count()
        self.built = False

    @property
    def built(self):
        """The first process of the round has its queue pairs."""
        return self.counts[PAGE - 1] == 1

    @built.setter
    def built(self, built):
        self.counts[PAGE - 1] = built

    def write(self, text):
        line = f"{time.monotonic():.4f} {self.who} {threading.get_native_id()} {text}"
        at = next(self.next) % SLOTS * SLOT
        self.memory[at:at + SLOT] = line.encode()[:SLOT - 1].ljust(SLOT, b"\0")

    def count(self, name, tries=0, successes=0):
        place = 8 * self.names[name]
        tried, done = struct.unpack_from("=II", self.counts, place)
        struct.pack_into("=II", self.counts, place, tried + tries, done + successes)

    def in_vain(self, exceptions):
        """Kinds of steps that were tried often, and never succeeded; "all", if most steps failed."""
        counts = {name: struct.unpack_from("=II", self.counts, 8 * n)
                  for name, n in self.names.items()}
        tried, done = map(sum, zip(*counts.values()))
        return ["all"] * (done <= SHARE * tried) + [
            name for name, (tried, done) in counts.items()
            if tried >= TRIES and not done and name not in exceptions]

    def told(self):
        lines = [self.memory[at:at + SLOT].rstrip(b"\0").decode(errors="replace")
                 for at in range(0, len(self.memory), SLOT)]
        return "\n".join(sorted(line for line in lines if line))

    def counted(self):
        return ", ".join(f"{name} %d/%d" % struct.unpack_from("=II", self.counts, 8 * n)[::-1]
                         for name, n in self.names.items())


class Actor:
    """A thread of a hostile process: its random choices, and the objects of the process."""

    def __init__(self, interface, seed, diary):
        self.own, self.driver = interface == "own", DRIVERS[interface]
        self.random = random.Random(seed)
        self.seed, self.diary = seed, diary
        self.interface = interface
        self.wild = 0.0             # how often a command is mangled
        self.things = {kind: [] for kind in ("pd", "ah", "mr", "mw", "cq", "qp", "srq")}
        self.last_error = None
        self.gone, self.channels, self.contexts, self.others = [], [], [], []
        self.threads, self.forks, self.invokes = 3, 2, False
        self.parent = None          # of a forked process: a process of the round, too
        with open(GID, encoding="ascii") as file:
            self.gid = bytes.fromhex(file.read().strip().replace(":", ""))
        self.own_memory()
        self.arena = LIBC.mmap(0, ARENA_PAGES * PAGE, 3, 0x22, -1, 0)
        self.wide = LIBC.mmap(0, WIDE, 1, 0x4022, -1, 0)

    def own_memory(self):
        """Answers of commands, and a file by which memory is written that may not be there."""
        # The kernel clears all the room that a command says it has.
        self.answer_at = LIBC.mmap(0, ANSWER, 3, 0x22, -1, 0)
        self.file = os.memfd_create("hostile")

    def other(self, seed):
        """Another thread of the process."""
        actor = object.__new__(type(self))
        actor.__dict__.update(self.__dict__)
        actor.seed, actor.random = seed, random.Random(seed)
        actor.own_memory()
        return actor

    # ---- Choices ----------------------------------------------------------------

    def chance(self, probability):
        return self.random.random() < probability

    def word(self):
        return self.random.choice(NUMBERS) if self.chance(0.5) else self.random.getrandbits(32)

    def long(self):
        if self.chance(0.5):
            return self.random.choice(LONG_NUMBERS)
        return self.random.getrandbits(64)

    def garbage(self, most):
        return self.random.randbytes(self.random.randint(0, most))

    def memory(self):
        """A part of the arena: address and length."""
        page = self.random.randrange(ARENA_PAGES)
        pages = self.random.randint(1, min(ARENA_PAGES - page, self.random.choice((1, 4, 64))))
        start, length = self.arena + page * PAGE, pages * PAGE
        if self.chance(0.3):
            start, length = start + 8, max(8, length - self.random.randrange(PAGE))
        return start, length

    def place(self):
        """An address: of the arena, of a queue, or any."""
        if self.chance(0.8):
            return self.memory()[0]
        places = [place for thing in self.all_things() for place in tuple(thing.places.values())]
        return self.random.choice(places)[0] if places and self.chance(0.5) else self.long()

    def all_things(self):
        return [thing for things in self.things.values() for thing in tuple(things)]

    def pick(self, kind, descriptor=None):
        """A thing of that kind, mostly; or one that is gone, of another kind, or none."""
        things = tuple(self.things[kind])
        if descriptor is not None and self.chance(0.97):
            things = [thing for thing in things if thing.descriptor == descriptor]
        if things and not self.chance(self.wild / 4):
            return self.random.choice(things)
        things = self.gone if self.chance(0.5) else self.all_things()
        if things and self.wild:
            return self.random.choice(things)
        return Thing(kind, self.context(), self.random.randrange(64) if self.chance(0.8)
                     else self.word())

    def mate(self, kind, thing):
        """A thing of that kind in the same protection domain, mostly."""
        mates = [mate for mate in tuple(self.things[kind]) if mate.pd is thing.pd]
        return self.random.choice(mates) if mates and self.chance(0.9) else self.pick(kind)

    def context(self):
        contexts = tuple(self.contexts)
        return self.random.choice(contexts) if contexts else -1

    # ---- Commands ---------------------------------------------------------------

    def command(self, descriptor, number, body, answer=0, provider=0):
        """A write(), or the same by ioctl(); the answer, or None."""
        words = [(8 + len(body)) // 4, (answer + provider) // 4]
        if self.chance(self.wild):
            number, body = self.mangle(number, body, words)
        ctypes.memset(self.answer_at, 0, 256)
        if self.invokes or self.chance(0.1):
            done = self.invoke(descriptor, number, body, answer, provider)
            return ctypes.string_at(self.answer_at, answer + provider) if done else None
        try:
            os.write(descriptor, struct.pack("=IHH", number, *words) + body)
        except OSError as error:
            self.last_error = error
            return None
        return ctypes.string_at(self.answer_at, answer + provider)

    def invoke(self, descriptor, number, body, answer, provider):
        """A command by ioctl(), which a child may make, too."""
        at = self.answer_at + PAGE
        ctypes.memmove(at, body, len(body))
        place = at if len(body) > 8 else int.from_bytes(body, "little")
        attributes = [(CORE_IN, len(body), 1, place), (WRITE_COMMAND, 8, 1, number)]
        if answer:
            attributes.append((CORE_OUT, answer, 1, self.answer_at))
        if provider:
            attributes.append((DRIVER_OUT, provider, 1, self.answer_at + answer))
        return self.ioctl(descriptor, 0, 0, attributes)

    def mangle(self, number, body, words):
        """A command that is wrong in one way."""
        body, how = bytearray(body), self.random.randrange(8)
        if how == 0 and body:
            for _ in range(self.random.randint(1, 4)):
                body[self.random.randrange(len(body))] = self.random.getrandbits(8)
        elif how == 1 and len(body) >= 4:
            struct.pack_into("=I", body, self.random.randrange(len(body) // 4) * 4, self.word())
        elif how == 2:
            body += self.garbage(64) + bytes(-len(body) % 4)
            words[0] = (8 + len(body)) // 4
        elif how == 3:
            body = body[:self.random.randrange(len(body) // 4 + 1) * 4]
            words[0] = (8 + len(body)) // 4
        elif how == 4:
            words[self.random.randrange(2)] = self.word() & 0xffff
        elif how == 5:
            words[1] = max(0, words[1] + self.random.randint(-8, 8))
        elif how == 6 and len(body) >= 8:
            struct.pack_into("=Q", body, 0, self.place())
        else:
            number ^= self.random.choice((EXTENDED, 1 << self.random.randrange(32), 1, 2))
            if number & EXTENDED:
                body = struct.pack("=QHHI", self.answer_at, self.random.randrange(8),
                                   self.random.randrange(16), 0) + body
                words[0] = len(body) // 8 - 1
        return number & 0xffffffff, bytes(body)

    def make_context(self):
        descriptor = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        told = self.command(descriptor, GET_CONTEXT, struct.pack("=Q", self.answer_at), 8,
                            8 if self.own else 0)
        if told is None and not self.chance(self.wild):
            os.close(descriptor)
            return None
        self.contexts.append(descriptor)
        if told:
            self.others.append(struct.unpack_from("=I", told)[0])
        return descriptor

    def make(self, kind, descriptor, number, *request, answer=4, provider=0, **more):
        """request: behind the place of the answer.  Returns (thing, the driver's answer)."""
        body = struct.pack("=Q", self.answer_at) + b"".join(request)
        told = self.command(descriptor, number, body, answer, provider)
        if told is None:
            return None, b""
        thing = Thing(kind, descriptor, struct.unpack_from("=I", told)[0], told=told, **more)
        self.things[kind].append(thing)
        return thing, told[answer:]

    def make_pd(self):
        return self.make("pd", self.context(), ALLOC_PD)[0]

    def make_mr(self, access=None):
        pd = self.pick("pd")
        start, length = self.memory()
        iova = start
        if access is None:
            access = self.random.choice((0, 1, 7, 15, 31, 64, 71, 79, 127, 0x10000f, self.word()))
            if self.chance(self.wild):
                start, length = self.random.choice(((0, (1 << 64) - 1), (self.long(), self.long())))
            if self.chance(0.1):
                start, access = self.wide, access & 64
                length = self.random.choice((PAGE, 1 << 24, WIDE))
            iova = start if self.chance(0.8) else self.long() & -PAGE | start % PAGE
        made = self.make("mr", pd.descriptor, REG_MR, struct.pack(
            "=QQQII", start, length, iova, pd.handle, access), answer=12,
            start=start, length=length, iova=iova, pd=pd, access=access)[0]
        if made:
            made.lkey, made.rkey = struct.unpack_from("=II", made.told, 4)
        return made

    def make_mw(self, kind=None):
        pd = self.pick("pd")
        made = self.make("mw", pd.descriptor, ALLOC_MW, struct.pack(
            "=IB3x", pd.handle, kind or self.random.choice((1, 2, 2, 3))), answer=8, pd=pd)[0]
        if made:
            made.rkey = struct.unpack_from("=I", made.told, 4)[0]
        return made

    def make_cq(self, cqe=None):
        descriptor = self.context()
        channel = self.random.choice((-1, *self.channels)) if self.channels else -1
        made, told = self.make("cq", descriptor, CREATE_CQ, struct.pack(
            "=QIIiI", self.word(), cqe or self.random.choice((1, 16, 300, 5000, self.word())),
            0, channel, 0), answer=8, provider=0 if self.own else 16)
        if made and len(told) == 16:
            made.layout = (("cq", *struct.unpack("=QQ", told)),)
        return made

    def make_qp(self, kind=None, srq=None, sizes=None):
        pd = self.pick("pd")
        send, receive = self.pick("cq", pd.descriptor), self.pick("cq", pd.descriptor)
        kind = kind or self.random.choice((RC, RC, RC, UD, UD, 3, 9))
        if srq is None and self.things["srq"] and self.chance(0.4):
            srq = self.pick("srq", pd.descriptor)
        sizes = sizes or [self.random.choice((1, 8, 100, 100, self.word())),
                          self.random.choice((1, 8, 100, 100, self.word())),
                          self.random.choice((1, 4, 15)), self.random.choice((1, 4, 16)),
                          self.random.choice((0, 64, 184, 184, self.word()))]
        made, told = self.make("qp", pd.descriptor, CREATE_QP, struct.pack(
            "=Q9I4B", self.word(), pd.handle, send.handle, receive.handle,
            srq.handle if srq else 0, *sizes, self.random.randrange(2), kind, bool(srq), 0),
            answer=32, provider=48 if self.own else 32, type=kind, pd=pd)
        if made:
            made.number = struct.unpack_from("=I", made.told, 4)[0]
            self.lay_out(made, told)
        return made

    def lay_out(self, thing, told):
        """Places of the thing's queues, in the driver's answer."""
        if self.own and len(told) == 48:
            queues, doorbell, *rest = struct.unpack("=QQ6I3B5x", told)
            thing.layout = ("queues", queues, rest[0]), ("doorbell", doorbell, rest[1])
            thing.offsets, thing.log2 = rest[2:5], rest[6:9]
        elif len(told) == 32:
            receive, receive_size, send, send_size = struct.unpack("=QQQQ", told)
            thing.layout = ("rq", receive, receive_size), ("sq", send, send_size)
        elif len(told) == 24:
            thing.layout = (("rq", *struct.unpack("=QQ8x", told)),)

    def make_srq(self):
        pd = self.pick("pd")
        made, told = self.make("srq", pd.descriptor, CREATE_SRQ, struct.pack(
            "=QIIII", self.word(), pd.handle, self.random.choice((1, 16, 100, self.word())),
            self.random.choice((1, 2, 16)), self.random.choice((0, 1, 200))),
            answer=16, provider=48 if self.own else 24, pd=pd)
        if made:
            self.lay_out(made, told)
        return made

    def route(self, gid=None):
        return struct.pack("=16sIBBBB", gid or self.gid, 0, 1, 64, 0, 0)

    def make_ah(self):
        pd = self.pick("pd")
        gid = None if self.chance(0.9) else bytes(self.gid[:15]) + self.random.randbytes(1)
        return self.make("ah", pd.descriptor, CREATE_AH, struct.pack("=QII", 0, pd.handle, 0) +
                         self.route(gid) + struct.pack("=HBBBBBB", 0, 0, 0, 0, 1, 1, 0),
                         provider=48 if self.own else 8)[0]

    def make_channel(self):
        told = self.command(self.context(), CREATE_CHANNEL, struct.pack("=Q", self.answer_at), 4)
        if told:
            self.channels.append(struct.unpack("=I", told)[0])
        return told

    def modify(self, qp, state, peer=0, mask=None):
        mask = MASKS[qp.type if qp.type in MASKS else RC].get(state, 1) if mask is None else mask
        way = self.gid + struct.pack("=IHHBBBBBBBB", 0, 0, 0, 1, 64, 0, 0, 0, 0, 1, 1)
        body = way + bytes(32) + struct.pack(
            "=7I2H16B", qp.handle, mask, 0x11, 0, 0, peer, 15 if self.chance(0.9) else self.word(),
            0, 0, state, 0, self.random.choice((1, 3, 5)), 0, 0, 16, 16,
            self.random.choice((1, 1, 20)), 1, self.random.choice((1, 10, 14)),
            self.random.choice((1, 7)), self.random.choice((1, 7)), 0, 0, 0, 0)
        if not self.chance(self.wild / 2):
            return self.command(qp.descriptor, MODIFY_QP, body)
        # The extended command, with a part for the driver.
        body += bytes(8) + struct.pack("=II", self.random.choice((1, 0, self.word())),
                                       self.random.choice((0, 0, self.word())))
        try:
            return os.write(qp.descriptor, struct.pack(
                "=IHHQHHI", MODIFY_QP | EXTENDED, 15, 0, 0, 1, 0, 0) + body)
        except OSError:
            return None

    def connect(self, qp, peer):
        for state in INIT, RTR, RTS:
            if self.modify(qp, state, peer) is None:
                return None
        return True

    # ---- Memory that may not be there ---------------------------------------------

    def poke(self, at, data):
        """Writes to memory of the process, as far as it is there."""
        os.pwrite(self.file, data, 0)
        return LIBC.pread(self.file, at, len(data), 0) == len(data)

    def peek(self, at, length=4):
        if LIBC.pwrite(self.file, at, length, 0) != length:
            return bytes(length)
        return os.pread(self.file, length, 0)

    def map(self, thing):
        for name, offset, size in thing.layout:
            if name not in thing.places:
                at = LIBC.mmap(0, size, 3, 1, thing.descriptor, offset)
                if at != -1:
                    thing.places[name] = at, size
        return len(thing.places) == len(thing.layout)

    # ---- Requests -----------------------------------------------------------------

    def segment(self, thing):
        """Address, length and lkey: of a region, mostly."""
        region = self.mate("mr", thing)
        length = self.random.choice((0, 1, 64, 4096, 65536))
        if not hasattr(region, "lkey") or self.chance(0.1):
            return self.place(), length, self.word()
        offset = self.random.randrange(max(1, region.length))
        base = region.start if self.own else region.iova
        return base + offset & (1 << 64) - 1, min(length, region.length - offset), region.lkey

    def target(self):
        """A peer's address and rkey."""
        things = [thing for thing in self.all_things() if thing.kind in ("mr", "mw")]
        thing = self.random.choice(things) if things else None
        if thing is None or self.chance(0.1):
            return self.long(), self.word()
        mr = thing if thing.kind == "mr" else self.pick("mr")
        at = getattr(mr, "iova", self.arena)
        return at + self.random.choice((0, 8, 4096)) & (1 << 64) - 1, thing.rkey

    def put_own(self, thing, kind):
        """A descriptor or a buffer; another one each time."""
        base = thing.places["queues"][0]
        at, log2 = thing.offsets[kind], thing.log2[kind]
        index = thing.produced.get(kind, 0)
        address, length, _ = self.segment(thing)
        if kind == 1:
            entry = struct.pack("<QIIQQ", address, max(1, length),
                                self.random.choice((0, 0, 0, 1, 2)), index, 0)
        else:
            opcode = self.random.choice((1, 1, 3, 4, 5, 6, 7, 9, self.random.randrange(256)))
            flags = self.random.choice((0, 0, 2, 0x20, 0x60, self.random.randrange(256)))
            remote, rkey = self.target() if opcode in (3, 4, 5, 6) else (0, 0)
            if opcode in (3, 4, 5, 6):
                flags |= 0x10
            inline = {5: 8, 6: 16}.get(opcode, 0)
            flags |= bool(inline)
            entry = struct.pack("<BBBBHHQIIQ", opcode, flags, 0 if inline else 1, inline, 0,
                                (rkey >> 8) & 0xffff, index, 0, rkey, remote)
            entry += struct.pack("<QII", address, length, 0) + bytes(16)
        if self.chance(self.wild / 2):
            entry = self.random.randbytes(len(entry))
        thing.produced[kind] = index + 1 & 0xffffffff
        return self.poke(base + at + (index & (1 << log2) - 1) * len(entry), entry)

    def post_own(self, thing):
        kind = 1 if thing.kind == "srq" else self.random.randrange(2)
        if "queues" not in thing.places:
            return None
        base = thing.places["queues"][0]
        for _ in range(self.random.choice((1, 2, 8))):
            self.put_own(thing, kind)
        self.poke(base + (OWN_SQ_PROD, OWN_FQ_PROD)[kind],
                  struct.pack("<I", thing.produced[kind]))
        if self.chance(0.7):
            self.poke(base + OWN_CQ_CONS, self.peek(base + OWN_CQ_PROD))
        if self.chance(0.5):
            taken = struct.unpack("<I", self.peek(base + OWN_CQ_PROD))[0]
            self.poke(base + OWN_CQ_ARM, struct.pack("<I", taken | 0x80000000))
        return "doorbell" in thing.places and self.poke(thing.places["doorbell"][0], bytes(4))

    def request_rxe(self, thing):
        """A send request of librxe."""
        opcode = self.random.choice((0, 0, 1, 2, 3, 4, 5, 6, 8, 9, 11, self.word()))
        remote, rkey = self.target()
        address, length, lkey = self.segment(thing)
        head = struct.pack("=QIIII", self.word(), 0, opcode,
                           self.random.choice((2, 2, 3, 10, 14)), rkey)
        if opcode == 8:
            region, rkey = self.mate("mr", thing), getattr(self.mate("mw", thing), "rkey", rkey)
            head += struct.pack("=QQIIII", getattr(region, "iova", 0), length,
                                getattr(region, "lkey", 0), rkey, rkey + 1 & 0xffffffff, 7)
        else:
            head += struct.pack("=QII" if opcode < 5 else "=QQQII", remote,
                                *((rkey, 0) if opcode < 5 else (1, 2, rkey, 0)))
        if opcode in (5, 6):
            length = 8
        return head.ljust(184, b"\0") + struct.pack("=6I", length, 0, 0, 1, 0, 0) + struct.pack(
            "=QII", address, length, lkey)

    def post_rxe(self, thing):
        shared = thing.kind == "srq"
        name = "rq" if shared else self.random.choice(("sq", "sq", "rq"))
        if name not in thing.places:
            return None
        at, _ = thing.places[name]
        log2, mask = struct.unpack("=II", self.peek(at, 8))
        mask, log2 = mask & 0xffff, log2 & 15
        producer = struct.unpack("=I", self.peek(at + RXE_PRODUCER))[0]
        for _ in range(self.random.choice((1, 2, 8))):
            address, length, lkey = self.segment(thing)
            entry = self.request_rxe(thing) if name == "sq" else struct.pack(
                "=QQ6IQII", self.word(), 0, length, 0, 0, 1, 0, 0, address, length, lkey)
            if self.chance(self.wild / 2):
                entry = self.random.randbytes(len(entry))
            self.poke(at + RXE_DATA + ((producer & mask) << log2), entry)
            producer += 1
        self.poke(at + RXE_PRODUCER, struct.pack("=I", producer & mask))
        # A write to memory, of which nobody says if it is good
        return None if shared else self.command(thing.descriptor, POST_SEND, struct.pack(
            "=QIIII", self.answer_at, thing.handle, 0, 0, SEND_REQUEST), 4)

    def ioctl(self, descriptor, kind, method, attributes):
        """attributes: (number, length, flags, value)"""
        request = bytearray(struct.pack("=4HQII", 24 + 16 * len(attributes), kind, method,
                                        len(attributes), 0, self.driver, 0))
        for attribute in attributes:
            request += struct.pack("=4HQ", *attribute[:3], 0, attribute[3])
        if self.chance(self.wild / 2):
            request[self.random.randrange(len(request))] = self.random.getrandbits(8)
        request[0:2] = struct.pack("=H", len(request))
        try:
            fcntl.ioctl(descriptor, IOCTL, bytes(request))
            return True
        except OSError as error:
            self.last_error = error
            return None


class Hostile(Actor):
    """An actor and its steps."""

    def build(self):
        """A pair of queue pairs, as a program makes it; this has to succeed."""
        made = [self.make_context(), self.make_pd(), self.make_channel(), self.make_cq(300),
                self.make_mr(31), self.make_mr(79), self.make_mw(2)]
        sizes = [100, 100, 4, 4, 64]
        ends = [self.make_qp(RC, False, sizes), self.make_qp(RC, False, sizes)]
        made += ends
        if None not in made:
            made += [self.connect(ends[0], ends[1].number), self.connect(ends[1], ends[0].number)]
            made += [self.map(end) for end in ends] + [self.map(self.things["cq"][0])]
        if None in made or False in made:
            raise Broken(f"{made}: {self.last_error}")

    # ---- Steps: True, if it was done ------------------------------------------------

    def step_make(self):
        make = self.random.choice((self.make_pd, self.make_mr, self.make_mr, self.make_mw,
                                   self.make_cq, self.make_qp, self.make_qp, self.make_srq,
                                   self.make_ah, self.make_channel))
        made = make()
        if isinstance(made, Thing) and self.chance(0.7):
            self.map(made)
        return made

    def step_end(self):
        kind = self.random.choice(tuple(ENDS))
        thing = self.pick(kind)
        number, answers = ENDS[kind]
        body = struct.pack("=QII", self.answer_at, thing.handle, 0) if answers else \
            struct.pack("=I", thing.handle)
        told = self.command(thing.descriptor, number, body, 8 if answers else 0)
        if told is not None and thing in self.things[thing.kind]:
            with contextlib.suppress(ValueError):
                self.things[thing.kind].remove(thing)
            self.gone.append(thing)
        return told is not None

    def step_modify(self):
        mask = self.random.getrandbits(21) if self.chance(0.1) else None
        qp, peer = self.pick("qp"), self.pick("qp")
        state = self.random.choice((RESET, RESET, INIT, RTR, RTS, RTS, ERR, 4, 5, 7))
        return self.modify(qp, state, peer.number, mask) is not None

    def step_connect(self):
        """A pair, or a queue pair with itself."""
        qp, peer = self.pick("qp"), self.pick("qp")
        self.modify(qp, RESET)
        self.modify(peer, RESET)
        self.connect(qp, peer.number)
        return self.connect(peer, qp.number)

    def step_map(self):
        thing = self.random.choice(self.all_things() or [None])
        if thing is None or not thing.layout or self.chance(0.7):
            return thing and self.map(thing)
        name, offset, size = self.random.choice(thing.layout)
        size += self.random.choice((0, 0, PAGE, -PAGE, 1, 1 << 30))
        offset += self.random.choice((0, 0, PAGE, -PAGE, 1 << 32))
        at = LIBC.mmap(0, max(1, size), self.random.randrange(8), self.random.choice((1, 1, 2)),
                       thing.descriptor, max(0, offset))
        if at == -1:
            return False
        thing.places[f"{name} {at:x}"] = at, size
        return True

    def some_place(self):
        """A thing, and the name, address and length of a place of its queues."""
        mapped = [(thing, name, *place) for thing in self.all_things()
                  for name, place in tuple(thing.places.items())]
        return self.random.choice(mapped) if mapped else (None, "", 0, 0)

    def step_queue_memory(self):
        thing, name, at, size = self.some_place()
        if thing is None:
            return False
        how = self.random.randrange(6)
        part = at + self.random.randrange(max(1, size // PAGE)) * PAGE
        if how == 0:
            thing.places.pop(name, None)
            part = part if self.chance(0.5) else at
            return LIBC.munmap(part, at + size - part, 0) == 0
        if how == 1:
            return LIBC.mprotect(part, PAGE, self.random.randrange(4)) == 0
        if how == 2:
            return LIBC.madvise(at, size, self.random.choice((4, 8, 9, 10, 11, 14, 21))) == 0
        return self.overwrite(at, size)

    def overwrite(self, at, size):
        """Garbage: an index, an entry, or much."""
        how = self.random.randrange(3)
        if how == 0:
            place = self.random.choice((0, 4, 8, 12, 64, 68, 72, 76, 128, 256))
            return self.poke(at + place, struct.pack("<I", self.word()))
        length = min(size, (64, PAGE)[how - 1])
        return self.poke(at + self.random.randrange(max(1, size - length + 1)),
                         self.random.randbytes(length))

    def step_post(self):
        thing = self.pick("srq" if self.chance(0.15) else "qp")
        return self.post_own(thing) if self.own and thing.layout else self.post_rxe(thing)

    def step_doorbell(self):
        thing = self.pick("qp")
        if "doorbell" not in thing.places:
            return False
        return self.poke(thing.places["doorbell"][0] + self.random.choice((0, 0, 4, 64, 4092)),
                         struct.pack("<I", self.word()))

    def step_ask(self):
        """Queries, polls, arming, resizing."""
        kind, number, rest, answer = self.random.choice((
            ("qp", QUERY_QP, struct.pack("=I", self.word()), 128),
            ("srq", QUERY_SRQ, bytes(4), 16), ("cq", POLL_CQ, struct.pack("=I", self.word()), 8),
            ("cq", RESIZE_CQ, struct.pack("=I", self.word()), 8)))
        if self.chance(0.3):
            cq = self.pick("cq")
            return self.command(cq.descriptor, REQ_NOTIFY_CQ, struct.pack(
                "=II", cq.handle, self.random.randrange(2))) is not None
        if self.chance(0.2):
            srq = self.pick("srq")
            return self.command(srq.descriptor, MODIFY_SRQ, struct.pack(
                "=IIII", srq.handle, self.random.randrange(4), self.word(),
                self.random.choice((0, 1, 16)))) is not None
        thing = self.pick(kind)
        return self.command(thing.descriptor, number, struct.pack(
            "=QI", self.answer_at, thing.handle) + rest, answer) is not None

    def step_any_command(self):
        number = self.random.randrange(LAST_COMMAND) | self.random.choice((0, 0, EXTENDED))
        body = b"".join(struct.pack("=I", self.random.choice(
            (0, 1, self.pick(self.random.choice(tuple(self.things))).handle, self.word())))
            for _ in range(self.random.randrange(40)))
        return self.command(self.context(), number, struct.pack("=Q", self.answer_at) + body,
                            self.random.choice((0, 8, 64))) is not None

    def step_any_ioctl(self):
        attributes = []
        for _ in range(self.random.randrange(7)):
            number = self.random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 0x1000, 0x1001, 0x1002,
                                         self.random.getrandbits(16)))
            length = self.random.choice((0, 0, 4, 8, 16, 48, self.random.getrandbits(16)))
            value = self.random.choice((self.answer_at, self.place(), self.long(), self.pick(
                self.random.choice(tuple(self.things))).handle))
            attributes.append((number, length, self.random.choice((0, 1, 1, 3)), value))
        return self.ioctl(self.context(), self.random.randrange(18),
                          self.random.choice((0, 1, 2, 3, 4, 0x1000, 0x1001)), attributes)

    def step_key(self):
        """The key of a window changes, with our provider."""
        qp = self.pick("qp")
        mw, mr = self.mate("mw", qp), self.mate("mr", qp)
        rkey = getattr(mw, "rkey", 0)
        how = struct.pack("=QQ6I", getattr(mr, "iova", self.long()) + self.random.choice((0, 64)),
                          self.random.choice((0, 64, PAGE, self.long())), rkey,
                          rkey + 1 & 0xffffffff, getattr(mr, "lkey", self.word()),
                          self.random.choice((0, 7, 14, 47, self.word())),
                          self.random.choice((0, 0, 0, 1)), 0)
        ctypes.memmove(self.answer_at + 1024, how, len(how))
        done = self.ioctl(qp.descriptor, OBJECT_QP, METHOD_KEY, [
            (0x1000, 0, 1, qp.handle), (0x1001, len(how), 1, self.answer_at + 1024)])
        if done:
            mw.rkey = rkey & ~0xff | rkey + 1 & 0xff
        return done

    def step_advise(self):
        pd = self.pick("pd")
        segments = b"".join(struct.pack("=QII", *self.segment(self.pick("qp")))
                            for _ in range(self.random.choice((1, 1, 4, 100))))
        ctypes.memmove(self.answer_at + 1024, segments, len(segments))
        return self.ioctl(pd.descriptor, OBJECT_MR, METHOD_ADVISE, [
            (0, 0, 1, pd.handle), (1, 8, 1, self.random.randrange(4)),
            (2, 4, 1, self.random.randrange(2)), (3, len(segments), 1, self.answer_at + 1024)])

    def step_rereg(self):
        mr, pd = self.pick("mr"), self.pick("pd")
        start, length = self.memory()
        told = self.command(mr.descriptor, REREG_MR, struct.pack(
            "=QIIQQQII", self.answer_at, mr.handle, self.random.randrange(8), start, length, start,
            pd.handle, self.random.choice((0, 1, 15, 31, 79, self.word()))), 8)
        if told is not None:
            mr.lkey, mr.rkey = struct.unpack("=II", told)
        return told is not None

    def step_memory(self):
        """Memory goes, comes, and has other rights."""
        start, length = self.memory()
        start, length = start & -PAGE, (length + PAGE - 1) & -PAGE
        how = self.random.randrange(6)
        if how == 0:
            return LIBC.mprotect(start, length, self.random.choice((0, 1, 3))) == 0
        if how == 1:
            return LIBC.munmap(start, length, 0) == 0
        if how == 2:
            return LIBC.mmap(start, length, 3, self.random.choice((0x32, 0x31)), -1, 0) != -1
        if how == 3:
            return self.poke(start, self.random.randbytes(64))
        if how == 4 and self.chance(0.5):
            return LIBC.mprotect(self.arena, ARENA_PAGES * PAGE, 3) == 0
        return LIBC.madvise(start, length, self.random.choice((4, 8, 9, 14, 20, 21))) == 0

    def step_watch(self):
        """Pages that do not come: nobody answers the userfaultfd."""
        start = self.arena + self.random.randrange(ARENA_PAGES - WATCHED_PAGES) * PAGE
        descriptor = LIBC.syscall(UFFD, os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.ioctl(descriptor, UFFD_API, struct.pack("=QQQ", 0xaa, 0, 0))
            LIBC.madvise(start, WATCHED_PAGES * PAGE, 4)
            fcntl.ioctl(descriptor, UFFD_REGISTER, struct.pack(
                "=QQQQ", start, WATCHED_PAGES * PAGE, 1, 0))
            return True
        except (OSError, ValueError):
            return False

    def step_thread(self):
        if not self.threads:
            return False
        self.threads -= 1
        actor = self.other(f"{self.seed}/{self.threads}")
        threading.Thread(target=actor.act, args=(100,), daemon=True).start()
        return True

    def step_fork(self):
        """The child has the descriptors, and other memory."""
        if not self.forks:
            return False
        self.forks -= 1
        parent = os.getpid()
        if os.fork():
            return True
        with ending():
            # The number stays the parent's until the runner has waited for the parent.
            self.parent = parent
            self.diary.who += "f"
            actor = self.other(f"{self.seed}/fork{self.forks}")
            actor.invokes = True
            actor.act(60)
            time.sleep(self.random.choice((0, 0, 0.2, 1000)))
        return True

    def step_descriptor(self):
        """Another context, a copy of a descriptor, a close in any order."""
        how = self.random.randrange(4)
        with contextlib.suppress(OSError):
            if how == 0 and len(self.contexts) < 3:
                return self.make_context()
            if how == 1:
                return os.dup(self.context())
            descriptors = (self.others, self.channels, self.contexts)[self.random.randrange(3)]
            if len(self.contexts) > 1 or descriptors is not self.contexts:
                os.close(descriptors.pop(self.random.randrange(len(descriptors))))
                return True
        return False

    def step_events(self):
        """Without waiting."""
        descriptors = self.others + self.channels
        if not descriptors:
            return False
        descriptor = self.random.choice(descriptors)
        with contextlib.suppress(OSError):
            os.set_blocking(descriptor, False)
            return os.read(descriptor, 64)
        return False

    def step_signals(self):
        """Signals that do not kill come often for a while."""
        period = self.random.choice((0, 0.0005, 0.005))
        with contextlib.suppress(ValueError):
            signal.setitimer(signal.ITIMER_REAL, period, period)
        return True

    def step_kill(self):
        """Another process of the round, or a pause."""
        if self.chance(0.95):
            time.sleep(self.random.choice((0, 0.001, 0.02)))
            return True
        os.kill(0 if self.chance(0.2) else self.parent or os.getpid(),
                signal.SIGKILL)
        return True

    STEPS = (("make", 20), ("end", 8), ("modify", 8), ("connect", 6), ("map", 5), ("post", 30),
             ("queue_memory", 8), ("doorbell", 5), ("ask", 6), ("any_command", 4), ("any_ioctl", 2),
             ("key", 5), ("advise", 4), ("rereg", 3), ("memory", 12), ("watch", 1), ("thread", 1),
             ("fork", 1), ("descriptor", 3), ("events", 2), ("signals", 1), ("kill", 2))

    def act(self, most):
        names, weights = zip(*self.STEPS)
        for name in self.random.choices(names, weights, k=self.random.randint(1, most)):
            self.diary.write(name)
            self.diary.count(name, tries=1)
            with contextlib.suppress(LookupError, AttributeError, struct.error, OverflowError,
                                     ValueError, OSError):
                self.diary.count(name, successes=bool(getattr(self, f"step_{name}")()))


@contextlib.contextmanager
def ending():
    """A child process, which does not come back."""
    status = 1
    try:
        yield
        status = 0
    except Broken as reason:
        print(f"# broken: {reason}", flush=True)
        status = 3
    except BaseException:       # pylint: disable=broad-exception-caught
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
    finally:
        os._exit(status)


def be_hostile(interface, seed, diary):
    """The process of a round."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, lambda *_: None)
    actor = Hostile(interface, seed, diary)
    actor.build()
    diary.built = True
    actor.wild = actor.random.choice((0.02, 0.1, 0.3))
    actor.act(300)


# ---- The parent -----------------------------------------------------------------------


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        return f"{path}: {error}\n"


def processes(group):
    """The processes of a round."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(fields) > 2 and fields[2] == str(group):
            found.append(pid)
    return found


def stacks(group):
    """Where all threads of a round are."""
    text = ""
    for pid in processes(group):
        for task in os.listdir(f"/proc/{pid}/task"):
            at = f"/proc/{pid}/task/{task}/"
            state = re.search(r"State:.*", read(at + "status"))
            text += f"{pid} {task} {read(at + 'comm').strip()} {state and state[0]} " \
                    f"{read(at + 'wchan')}\n{read(at + 'stack')}"
    return text


class Watch:
    """Compares the card and the kernel's log with their state before the rounds."""

    def __init__(self):
        self.log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.log, 0, os.SEEK_END)
        self.before = self.state()

    def state(self):
        """Endpoints and spaces of the card."""
        return [line.split(" pins")[0] for name in ("spaces", "endpoints")
                for line in read(STATE + name).splitlines()
                if line.startswith(("space", "endpoint"))]

    def complaints(self):
        """New lines of the kernel's log that should not be there."""
        lines = []
        while True:
            try:
                line = os.read(self.log, 8192).decode(errors="replace")
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                continue
            level = int(line.split(",")[0]) & 7
            if HARMLESS not in line and (level <= 3 or COMPLAINT.search(line)):
                lines.append(line.partition(";")[2].strip())

    def left(self):
        """
        Objects that outlive their process.  A worker that pages in has the memory of a process, and
        so its mappings and contexts, until the driver misses the process: it looks once a second.
        """
        end = time.monotonic() + GRACE
        found = self.found()
        while found and time.monotonic() < end:
            time.sleep(0.1)
            found = self.found()
        return found

    def found(self):
        """Objects of processes that have ended."""
        found = [line for line in self.state() if line not in self.before]
        for kind in OBJECTS:
            text = subprocess.run(["rdma", "-j", "resource", "show", kind], text=True,
                                  capture_output=True, check=False).stdout
            # A kernel without queries for this kind says nothing.
            found += [f"{kind} {thing}" for thing in json.loads(text or "[]") if "pid" in thing]
        return found


def reaped(limit):
    """True, if all children have ended in time."""
    end = time.monotonic() + limit
    broken = False
    while time.monotonic() < end:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return broken
        if pid:
            broken |= os.WIFEXITED(status) and os.WEXITSTATUS(status) in (1, 3)
        else:
            time.sleep(0.002)
    return None


def play(interface, seed, number, diary):
    """Plays a round; returns the fault, or None."""
    diary.clear()
    choice = random.Random(f"{seed}/{number}")
    pid = os.fork()
    if not pid:
        with ending():
            be_hostile(interface, f"{seed}/{number}", diary)
    # The child does the same: the first of the two counts.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    wait_while(lambda: processes_run(pid) and not diary.built, LIMIT)
    fault = None if diary.built else f"the process has not made its queue pairs:\n{stacks(pid)}"
    if not fault:
        wait_while(lambda: processes_run(pid), choice.choice((0.2, 0.5, 1, 3)))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    broken = reaped(LIMIT)
    if broken is None:
        return f"not ended {LIMIT} s after kill -9:\n{stacks(pid)}"
    return "a step that has to succeed has failed" if broken else fault


def wait_while(condition, limit):
    """Returns when the condition is false, or the time is over."""
    end = time.monotonic() + limit
    while condition() and time.monotonic() < end:
        time.sleep(0.02)


def processes_run(pid):
    """Has the round's first process not ended?  It is left to be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def main(interface, seed, seconds, only=None):
    """Plays rounds; returns the exit status."""
    LIBC.prctl(PR_SUBREAPER, 1, 0, 0, 0)
    # A collection would write to memory that processes share.
    gc.disable()
    gc.freeze()
    diary, watch = Diary(), Watch()
    diary.names = {name: n for n, (name, _) in enumerate(Hostile.STEPS)}
    end, looked, played = time.monotonic() + seconds, 0, 0
    while True:
        last = time.monotonic() > end
        wrong, now = None, played if only is None else only
        if not last:
            wrong = play(interface, seed, now, diary)
            played += 1
        look = last or wrong or played % LOOK == 0 or only is not None
        left, complaints = watch.left() if look else [], watch.complaints()
        if wrong or complaints or left:
            print(f"# {wrong}\n# complaints {complaints}\n# left {left}\n"
                  f"{diary.told()}\n{read('/proc/meminfo')[:100]}")
            # An earlier round may have left the objects.
            for number in range(looked if left else played - 1, played) if only is None else (only,):
                print(f"# repeat: UNETMM_FUZZ_SEED={seed} UNETMM_FUZZ_ROUND={number}", flush=True)
            return 1
        looked = played if look else looked
        if last:
            return told_counts(diary, seed, played, NEVER[interface] if only is None else None)


def told_counts(diary, seed, rounds, exceptions):
    """Prints the counts of steps; returns the exit status.  exceptions: None, if all may fail."""
    pages = re.search(r"odp_faulted +(\d+)", read(STATE + "counters"))
    print(f"# {rounds} rounds: {diary.counted()}; {pages and pages[1]} pages came")
    vain = [] if exceptions is None else diary.in_vain(exceptions)
    if vain or not rounds:
        print(f"# UNETMM_FUZZ_SEED={seed}: steps that never succeed: {vain}")
    return 1 if vain or not rounds else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]),
                  int(sys.argv[4]) if len(sys.argv) > 4 else None))
