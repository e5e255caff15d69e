# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of unetmm_ib in a guest, beside rdma-core's and with its base classes."""

import array
import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import json
import mmap
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import time
import traceback

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
from tests.base import RCResources, RDMATestCase

SIZE = 64
RIGHTS_OF_PEERS = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | RIGHTS_OF_PEERS


# Bytes of a network header; where messages to be sent lie; the longest inline data
GRH, BEHIND, MAX_INLINE = 40, 8192, 184
MAP_FIXED = 0x10
IMM = 0x12345678

# Of our provider
OWN_ABI = 3
LIMIT = "/sys/module/unetmm/parameters/user_verbs"
POOL, COMMAND_ALLOC_PD = 65536, 3


# /dev/infiniband/umad0: requests, a header in front of a message, and the fields of a message
ENABLE_PKEY = 0x1b03
REGISTER_AGENT = 0xc01c1b01
HEADER = "=5IIIHBBBBBB16sIHxxxxxx"
MESSAGE = ">BBBB4xQ240x"
CLASS, VERSION, SEND, QP1_KEY = 10, 1, 3, 0x80010000


# Librxe has no calls for these: an ioctl with its attributes, and a command
IOCTL, OBJECT_MR, METHOD_ADVISE, DRIVER = 0xc0181b01, 7, 2, 14
COMMAND_REREG, REREG_TRANS = 11, 1
STATISTICS = re.compile(r"mrn (\d+)\s+page_faults (\d+)\s+page_invalidations (\d+)\s+"
                        r"page_prefetch (\d+)")


def advise(ctx, pd, advice, lkey, addr, length):
    """ibv_advise_mr(3)"""
    sge = array.array("B", struct.pack("=QII", addr, length, lkey))
    attrs = [(0, pd.handle), (8, advice), (4, 0), (16, sge.buffer_info()[0])]
    request = bytearray(struct.pack("=4HQII", 24 + 16 * len(attrs), OBJECT_MR, METHOD_ADVISE,
                                    len(attrs), 0, DRIVER, 0))
    for number, (size, value) in enumerate(attrs):
        request += struct.pack("=4HQ", number, size, 1, 0, value)
    fcntl.ioctl(ctx.cmd_fd, IOCTL, request)


def rereg(ctx, mr, addr, length):
    """ibv_rereg_mr(3) with another place; returns the rkey."""
    keys = array.array("I", [0, 0])
    os.write(ctx.cmd_fd, struct.pack("=IHHQIIQQQII", COMMAND_REREG, 14, 2,
                                     keys.buffer_info()[0], mr.handle, REREG_TRANS,
                                     addr, length, addr, 0, 0))
    return keys[1]


def page(length=mmap.PAGESIZE):
    """A page of memory, or more, and its address."""
    memory = mmap.mmap(-1, length)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def is_own():
    """Our provider's interface, and not that of librxe."""
    with open("/sys/class/infiniband_verbs/uverbs0/abi_version", encoding="ascii") as file:
        return int(file.read()) == OWN_ABI


def write_file(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def address(ctx, ib_port, gid_index):
    """The card's own."""
    route = GlobalRoute(dgid=ctx.query_gid(ib_port, gid_index), sgid_index=gid_index)
    return AHAttr(port_num=ib_port, is_global=1, gr=route)


def without(wr):
    """The request without its segment: pyverbs makes none so."""
    wr.num_sge = 0
    return wr


def heard(end):
    """The next asynchronous event; a call that hangs fails."""
    signal.alarm(120)
    event = end.ctx.get_async_event()
    signal.alarm(0)
    event.ack()
    return event.event_type


class End(RCResources):
    """A queue pair, and memory that its peer may use."""

    LENGTH = SIZE

    def create_mr(self):
        self.page, self.at = page(max(self.LENGTH, mmap.PAGESIZE))
        self.mr = MR(self.pd, self.LENGTH, RIGHTS, self.at)

    def create_qp_cap(self):
        return QPCap(max_send_wr=128, max_recv_wr=128)

    def create_qp_attr(self):
        return QPAttr(port_num=self.ib_port)

    def new_qp(self):
        """In INIT."""
        attr = self.create_qp_attr()
        attr.qp_access_flags = RIGHTS
        qp = QP(self.pd, self.create_qp_init_attr())
        qp.to_init(attr)
        return qp

    def create_qps(self):
        self.qps.append(self.new_qp())

    def connect(self, peer, psn=(7, 7), **how):
        """psn: the first one to send, and to receive.  how: other attributes."""
        attr = self.create_qp_attr()
        attr.qp_access_flags = RIGHTS
        attr.dest_qp_num = peer
        attr.sq_psn, attr.rq_psn = psn
        attr.path_mtu = e.IBV_MTU_1024
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        how = {"timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "min_rnr_timer": 1, **how}
        for name, value in how.items():
            setattr(attr, name, value)
        attr.ah_attr = address(self.ctx, self.ib_port, self.gid_index)
        self.qp.to_rts(attr)

    def sge(self):
        return SGE(self.mr.buf, SIZE, self.mr.lkey)

    def receive(self, number=1):
        self.qp.post_recv(RecvWR(number, 1, [self.sge()]))

    SEND_FLAGS = e.IBV_SEND_SIGNALED

    def send(self, number=2, peer=None, key=0):
        """A SEND, or a WRITE to the memory of a peer.  key: bits of its key that are wrong."""
        wr = SendWR(number, num_sge=1, sg=[self.sge()], send_flags=self.SEND_FLAGS,
                    opcode=e.IBV_WR_RDMA_WRITE if peer else e.IBV_WR_SEND)
        if peer:
            wr.set_wr_rdma(peer.mr.rkey ^ key, peer.mr.buf)
        self.qp.post_send(wr)

    def ended(self, n=1, limit=120):
        """[(number of the request, status)] of the next n completions, or those that are there at
        the end of the limit."""
        end, found, late = time.monotonic() + limit, [], False
        while len(found) < n and not late:
            late = time.monotonic() >= end
            found += [(wc.wr_id, wc.status) for wc in self.cq.poll(n - len(found))[1]]
        return found


class Windows(End):
    """A queue pair, and memory that a peer reaches by windows alone."""

    RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_MW_BIND

    def create_mr(self):
        self.page, self.at = page()
        self.mr = MR(self.pd, mmap.PAGESIZE, self.RIGHTS, self.at)

    def bind(self, window, access=RIGHTS_OF_PEERS, offset=SIZE, length=SIZE, mr=None):
        """Binds a part of the memory by a request whose number is 3; returns the new rkey."""
        info = MWBindInfo(mr or self.mr, self.at + offset, length, access)
        if window.type == e.IBV_MW_TYPE_1:
            self.qp.bind_mw(window, MWBind(info, e.IBV_SEND_SIGNALED, 3))
            return window.rkey
        wr = SendWR(3, opcode=e.IBV_WR_BIND_MW, send_flags=e.IBV_SEND_SIGNALED)
        wr.set_bind_wr(window, info)
        self.qp.post_send(wr)
        return wr.rkey

    def invalidate(self, rkey, opcode=e.IBV_WR_LOCAL_INV):
        wr = SendWR(4, opcode=opcode, send_flags=e.IBV_SEND_SIGNALED)
        wr.imm_data = rkey
        self.qp.post_send(wr)

    def write(self, rkey, at):
        """A WRITE of SIZE bytes to a peer."""
        wr = SendWR(2, num_sge=1, sg=[self.sge()], send_flags=e.IBV_SEND_SIGNALED,
                    opcode=e.IBV_WR_RDMA_WRITE)
        wr.set_wr_rdma(rkey, at)
        self.qp.post_send(wr)


class Quiet(End):
    """A queue pair whose requests have completions for errors alone."""

    SEND_FLAGS = 0

    def create_qp_init_attr(self):
        init = super().create_qp_init_attr()
        init.sq_sig_all = 0
        return init


class Apart(End):
    """A queue pair whose sends and receives have a completion queue and a channel each."""

    def create_cq(self):
        self.channels = [CompChannel(self.ctx) for _ in range(2)]
        self.cq, self.received = (CQ(self.ctx, 256, None, channel, 0) for channel in self.channels)

    def create_qp_init_attr(self):
        return QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.received, sq_sig_all=1,
                          cap=self.create_qp_cap())

    def arm(self):
        for cq in self.cq, self.received:
            cq.req_notify()

    def hears(self, cq, limit=30):
        """True, if the completion queue has an event in time."""
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, limit, 0.1)
        try:
            self.channels[cq is self.received].get_cq_event(cq)
            cq.ack_events(1)
            return True
        except PyverbsRDMAError:
            return False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def takes(self, cq):
        """One completion by an event, as perftest has it: the queue is armed before the poll."""
        return self.hears(cq) and not cq.req_notify() and cq.poll(1)[0] == 1


class Shared(End):
    """Two queue pairs with one receive queue."""

    REQUESTS = 4

    def create_qp_init_attr(self):
        return QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, srq=self.srq,
                          cap=QPCap(max_send_wr=4, max_recv_wr=0, max_recv_sge=0))

    def create_qps(self):
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=self.REQUESTS, max_sge=1)))
        self.qps = [self.new_qp(), self.new_qp()]

    def join(self, peers):
        for qp, peer in zip(list(self.qps), peers):
            self.qps.remove(qp)
            self.qps.insert(0, qp)
            self.connect(peer.qp.qp_num)
            peer.connect(qp.qp_num)

    def receive(self, number=1):
        self.srq.post_recv(RecvWR(number, 1, [self.sge()]))


class Long(End):
    """A queue pair whose messages take a while."""

    LENGTH = 1 << 20

    def sge(self):
        return SGE(self.mr.buf, self.LENGTH, self.mr.lkey)


class Longest(Long):
    """A queue pair, memory that is paged on demand, and a region of all memory."""

    LENGTH = (8 << 20) + 3

    def create_mr(self):
        self.page, self.at = page(self.LENGTH)
        self.mr = MR(self.pd, self.LENGTH, RIGHTS | e.IBV_ACCESS_ON_DEMAND, self.at)
        self.all = MR(self.pd, 0, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND, implicit=True)

    def anywhere(self, length):
        return SGE(self.at, length, self.all.lkey)


class LongShared(Long, Shared):
    """As Shared, for messages of Long."""


class Datagrams(End):
    """A queue pair of type UD, whose Q_Key is its number."""

    LENGTH = 2 * BEHIND

    def create_qp_init_attr(self):
        cap = QPCap(max_send_wr=128, max_recv_wr=128, max_send_sge=15,
                    max_inline_data=MAX_INLINE)
        return QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)

    def create_qps(self):
        self.qps.append(QP(self.pd, self.create_qp_init_attr()))
        self.begin()

    def begin(self):
        """From RESET to RTS."""
        attr = QPAttr(port_num=self.ib_port)
        attr.qkey = self.qp.qp_num
        self.qp.to_rts(attr)
        self.ah = AH(self.pd, attr=address(self.ctx, self.ib_port, self.gid_index))

    def put(self, text):
        """The data of the next send; they lie behind the place for a message."""
        self.page[BEHIND:BEHIND + len(text)] = text

    def receive(self, number=1, length=GRH + SIZE):
        self.qp.post_recv(RecvWR(number, 1, [SGE(self.mr.buf, length, self.mr.lkey)]))

    def send_to(self, peer, number=2, *, length=SIZE, pieces=1, flags=0, **other):
        """other: `opcode`; and `qkey`, `ah`, `qpn` that are not those of the peer."""
        step = length // pieces
        sges = [SGE(self.mr.buf + BEHIND + i * step, step, self.mr.lkey) for i in range(pieces)]
        wr = SendWR(number, num_sge=pieces, sg=sges, send_flags=flags | e.IBV_SEND_SIGNALED,
                    opcode=other.get("opcode", e.IBV_WR_SEND), imm_data=IMM)
        wr.set_wr_ud(other.get("ah", self.ah), other.get("qpn", peer.qp.qp_num),
                     other.get("qkey", peer.qp.qp_num))
        self.qp.post_send(wr)

    def got(self):
        """The next completion, whose request has ended well."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for wc in self.cq.poll(1)[1]:
                assert wc.status == e.IBV_WC_SUCCESS, wc
                return wc
        raise AssertionError("no completion")


class WindowTest(RDMATestCase):
    """Memory windows: of b, and a is the peer."""

    TYPES = e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2

    def setUp(self):
        super().setUp()
        self.kept, self.windows = [], []

    def tearDown(self):
        """Windows first: a region stays while one is bound to it."""
        for window in self.windows:
            window.close()
        self.kept.clear()
        super().tearDown()

    def pair(self):
        a, b = Windows(**self.dev_info), Windows(**self.dev_info)
        a.connect(b.qp.qp_num)
        b.connect(a.qp.qp_num)
        self.kept += [a, b]
        return a, b

    def window(self, end, kind):
        self.windows.append(MW(end.pd, kind))
        return self.windows[-1]

    def refused(self, a, rkey, at):
        """A WRITE by the key ends with an error."""
        a.write(rkey, at)
        self.assertEqual(a.ended(), [(2, e.IBV_WC_REM_ACCESS_ERR)])

    def test_bind(self):
        """A message behind the request tells the peer, which may use the window; at 0, too."""
        for kind, access in ((self.TYPES[0], 0), (self.TYPES[1], 0),
                             (self.TYPES[1], e.IBV_ACCESS_ZERO_BASED)):
            a, b = self.pair()
            a.page[:SIZE] = b"w" * SIZE
            a.receive()
            window = self.window(b, kind)
            rkey = b.bind(window, RIGHTS_OF_PEERS | access)
            b.send()
            self.assertEqual(b.ended(2) + a.ended(), [(3, 0), (2, 0), (1, 0)])
            at = 0 if access else b.at + SIZE
            a.page[:SIZE] = b"w" * SIZE
            a.write(rkey, at)
            self.assertEqual(a.ended(), [(2, 0)])
            self.assertEqual(b.page[:3 * SIZE], bytes(SIZE) + b"w" * SIZE + bytes(SIZE))
            self.refused(a, rkey, at + 1)

    def test_message(self):
        """The peer's message ends a key before its completion is told; a wrong key is an error."""
        a, b = self.pair()
        window = self.window(b, self.TYPES[1])
        rkey = b.bind(window)
        self.assertEqual(b.ended(), [(3, 0)])
        for wrong in 0, 1:
            b.receive()
            a.invalidate(rkey ^ wrong, e.IBV_WR_SEND_WITH_INV)
            self.assertEqual(a.ended(), [(4, 0)])
            self.assertEqual(b.ended(), [(1, e.IBV_WC_REM_INV_REQ_ERR if wrong else 0)])
            if not wrong:
                rkey = b.bind(window)
                self.assertEqual(b.ended(), [(3, 0)])

    def test_own_rights(self):
        """A window has its own rights, and the key of the region gives none."""
        a, b = self.pair()
        window = self.window(b, self.TYPES[0])
        rkey = b.bind(window, e.IBV_ACCESS_REMOTE_READ)
        self.assertEqual(b.ended(), [(3, 0)])
        self.refused(a, rkey, b.at + SIZE)
        a, b = self.pair()
        self.refused(a, b.mr.rkey, b.at + SIZE)

    def test_again(self):
        """Another key of type 1 ends the one before; of type 2 a key has to end first."""
        a, b = self.pair()
        window = self.window(b, self.TYPES[0])
        keys = [b.bind(window, offset=n * SIZE) for n in range(2)]
        b.ended(2)
        a.write(keys[1], b.at + SIZE)
        self.assertEqual(a.ended(), [(2, 0)])
        self.refused(a, keys[0], b.at)
        a, b = self.pair()
        window = self.window(b, self.TYPES[1])
        for _ in range(3):
            rkey = b.bind(window)
            b.ended()
            a.write(rkey, b.at + SIZE)
            self.assertEqual(a.ended(), [(2, 0)])
            b.invalidate(rkey)
            self.assertEqual(b.ended(), [(4, 0)])
        self.refused(a, rkey, b.at + SIZE)

    def wrong(self, ask):
        """ask(b) makes requests, of which the last one is wrong, and ends the queue pair."""
        _, b = self.pair()
        ask(b)
        found = b.ended()
        while found[-1][1] == 0:
            found += b.ended()
        self.assertEqual(found[-1][1], e.IBV_WC_MW_BIND_ERR)
        self.assertEqual(b.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_ERR)

    def test_wrong(self):
        """Beyond the region; without the region's rights; twice; to nothing; a key of no window."""
        def bind(*others, kind=self.TYPES[0], **how):
            def ask(b):
                window = self.window(b, kind)
                for each in ({}, *others):
                    b.bind(window, **{**how, **each})
            return ask

        def bind_by(access):
            def ask(b):
                self.kept.append(MR(b.pd, mmap.PAGESIZE, access, b.at))
                b.bind(self.window(b, self.TYPES[0]), mr=self.kept[-1])
            return ask

        self.wrong(bind(length=mmap.PAGESIZE))
        self.wrong(bind(offset=-1))
        self.wrong(bind(offset=mmap.PAGESIZE + 1, length=1))
        self.wrong(bind_by(e.IBV_ACCESS_LOCAL_WRITE))
        self.wrong(bind_by(e.IBV_ACCESS_MW_BIND))
        self.wrong(bind({}, kind=self.TYPES[1]))
        self.wrong(bind(kind=self.TYPES[1], length=0))
        self.wrong(lambda b: b.invalidate(b.mr.rkey))
        self.wrong(lambda b: b.invalidate(b.bind(self.window(b, self.TYPES[0]))))

    def test_region(self):
        """A region stays as it is while a window is bound to it; RESET of a queue pair ends its own."""
        _, b = self.pair()
        b.bind(self.window(b, self.TYPES[1]))
        self.assertEqual(b.ended(), [(3, 0)])
        with self.assertRaises(OSError) as refused:
            rereg(b.ctx, b.mr, b.at, mmap.PAGESIZE)
        self.assertEqual(refused.exception.errno, errno.EBUSY)
        b.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        b.mr.close()

    def test_other_queue_pair(self):
        """A window of type 2 is for the peer of one queue pair, which alone ends the key."""
        a, b = self.pair()
        other, c = End(**self.dev_info), b.new_qp()
        self.kept.append(other)
        window = self.window(b, self.TYPES[1])
        rkey = b.bind(window)
        b.ended()
        b.qps.insert(0, c)
        b.connect(other.qp.qp_num)
        other.connect(c.qp_num)
        wr = SendWR(2, num_sge=1, sg=[other.sge()], send_flags=e.IBV_SEND_SIGNALED,
                    opcode=e.IBV_WR_RDMA_WRITE)
        wr.set_wr_rdma(rkey, b.at + SIZE)
        other.qp.post_send(wr)
        self.assertEqual(other.ended(), [(2, e.IBV_WC_REM_ACCESS_ERR)])
        a.write(rkey, b.at + SIZE)
        self.assertEqual(a.ended(), [(2, 0)])

    def test_ends(self):
        """A region stays while a window is bound, until this, or the queue pair, has gone."""
        for kind in self.TYPES:
            for ends in range(kind):
                _, b = self.pair()
                window = self.window(b, kind)
                b.bind(window)
                b.ended()
                with self.assertRaises(PyverbsRDMAError) as refused:
                    b.mr.close()
                self.assertEqual(refused.exception.error_code, errno.EBUSY)
                (b.qps.pop() if ends else window).close()
                b.mr.close()


class UnetmmTest(RDMATestCase):
    """Two queue pairs of one device."""

    def pair(self, **how):
        a, b = (End(**self.dev_info) for _ in range(2))
        a.connect(b.qp.qp_num, **how)
        b.connect(a.qp.qp_num, **how)
        return a, b

    def time_of(self, status, a):
        """The time until a SEND of a's ends with the status."""
        begin = time.monotonic()
        a.send()
        self.assertEqual(a.ended(), [(2, status)])
        return time.monotonic() - begin

    def test_numbers(self):
        """Numbers of packets begin where a program says, and go on beyond 24 bits."""
        a, b = self.pair(psn=(0xfffffe, 0xfffffe))
        for _ in range(4):
            b.receive()
            a.send()
            self.assertEqual(a.ended() + b.ended(), [(2, 0), (1, 0)])

    def test_next(self):
        """A message to a queue pair that is destroyed is not for the next one of its number."""
        a, b = self.pair()
        number = b.qp.qp_num
        b.qps.pop().close()
        others = [b.new_qp()]
        while others[-1].qp_num != number:
            others.append(b.new_qp())
        b.qps.append(others.pop())
        b.connect(a.qp.qp_num, psn=(70000, 80000))
        b.receive()
        self.time_of(e.IBV_WC_RETRY_EXC_ERR, a)
        self.assertNotIn((1, 0), b.ended(limit=0.1))

    def test_retries(self):
        """retry_cnt and timeout say when a peer is given up that does not answer."""
        times = []
        for retries in 0, 0, 0, 4:
            a = End(**self.dev_info)
            a.connect(0xff00, retry_cnt=retries)
            times.append(self.time_of(e.IBV_WC_RETRY_EXC_ERR, a))
        # 67 ms, doubled up to 1 s: 4 retries take 2 s, and 3 take 1 s.  A busy machine is
        # late, hardly each time.
        self.assertGreater(times.pop(), max(1.5, 2.5 * min(times)))

    def test_not_ready(self):
        """rnr_retry: 7 has no end, 0 is none."""
        a, b = self.pair()
        a.send()
        self.assertEqual(a.ended(limit=0.2), [])
        b.receive()
        self.assertEqual(a.ended() + b.ended(), [(2, 0), (1, 0)])
        a, b = self.pair(rnr_retry=0)
        self.time_of(e.IBV_WC_RNR_RETRY_EXC_ERR, a)

    def test_rights(self):
        """Rights of a queue pair can be taken away after RTR."""
        a, b = self.pair()
        a.send(peer=b)
        self.assertEqual(a.ended(), [(2, 0)])
        attr = QPAttr()
        attr.qp_access_flags = e.IBV_ACCESS_REMOTE_READ
        b.qp.modify(attr, e.IBV_QP_ACCESS_FLAGS)
        a.send(peer=b)
        self.assertEqual(a.ended(), [(2, e.IBV_WC_REM_ACCESS_ERR)])

    def test_error(self):
        """An error ends both queue pairs, and nothing behind it is done."""
        a, b = self.pair()
        for number in 1, 2, 3:
            b.receive(number)
        a.send(1)
        a.send(2, peer=b, key=1)
        a.send(3)
        self.assertEqual(a.ended(3), [(1, 0), (2, e.IBV_WC_REM_ACCESS_ERR),
                                      (3, e.IBV_WC_WR_FLUSH_ERR)])
        self.assertEqual(b.ended(3), [(1, 0), (2, e.IBV_WC_WR_FLUSH_ERR),
                                      (3, e.IBV_WC_WR_FLUSH_ERR)])
        self.assertEqual(b.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_ERR)
        self.hears(b, e.IBV_EVENT_QP_ACCESS_ERR)

    def test_long(self):
        """A receive request that is too short for a SEND has the reason, on both sides."""
        a, b = self.pair()
        b.qp.post_recv(RecvWR(1, 1, [SGE(b.mr.buf, SIZE - 1, b.mr.lkey)]))
        b.receive(3)
        a.send()
        self.assertEqual(a.ended(), [(2, e.IBV_WC_REM_INV_REQ_ERR)])
        self.assertEqual(b.ended(2), [(1, e.IBV_WC_LOC_LEN_ERR), (3, e.IBV_WC_WR_FLUSH_ERR)])

    def test_longest(self):
        """A SEND, a WRITE and a READ of 8 MiB and 3 bytes between memory that is absent at first."""
        a, b = (Longest(**self.dev_info) for _ in range(2))
        a.connect(b.qp.qp_num)
        b.connect(a.qp.qp_num)
        for opcode in e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ:
            source, sink = (b, a) if opcode == e.IBV_WR_RDMA_READ else (a, b)
            data = (bytes(range(opcode, 251 + opcode)) * (a.LENGTH // 251 + 1))[:a.LENGTH]
            source.page[:a.LENGTH] = data
            sink.page.madvise(mmap.MADV_DONTNEED)
            wr = SendWR(2, num_sge=1, sg=[a.sge()], opcode=opcode)
            if opcode == e.IBV_WR_SEND:
                b.qp.post_recv(RecvWR(1, 1, [b.anywhere(1 << 30)]))
            else:
                wr.set_wr_rdma(b.mr.rkey, b.mr.buf)
            a.qp.post_send(wr)
            self.assertEqual(a.ended(), [(2, 0)])
            self.assertEqual(b.ended(1, 120 if opcode == e.IBV_WR_SEND else 0),
                             [(1, 0)] if opcode == e.IBV_WR_SEND else [])
            self.assertTrue(sink.page[:a.LENGTH] == data)

    def test_too_long(self):
        """A message has 1 GiB at most, as the port says."""
        for extra in 0, 1:
            a, b = Longest(**self.dev_info), End(**self.dev_info)
            a.connect(b.qp.qp_num)
            b.connect(a.qp.qp_num)
            most = a.ctx.query_port(a.ib_port).max_msg_sz
            self.assertEqual(most, 1 << 30)
            b.receive()
            a.qp.post_send(SendWR(2, num_sge=1, sg=[a.anywhere(most + extra)]))
            self.assertEqual(a.ended(), [(2, e.IBV_WC_LOC_LEN_ERR if extra else
                                          e.IBV_WC_REM_INV_REQ_ERR)])

    def test_no_segments(self):
        """Receive requests without segments, posted in INIT, wait for their messages: a SEND and
        a WRITE without bytes, whatever the rkey, and a WRITE with bytes.  A SEND with bytes is
        too long."""
        a, b = (End(**self.dev_info) for _ in range(2))
        for number in range(4):
            b.qp.post_recv(without(RecvWR(number, 1, [b.sge()])))
        self.assertEqual(b.ended(limit=0.1), [])
        a.connect(b.qp.qp_num)
        b.connect(a.qp.qp_num)
        a.qp.post_send(without(SendWR(10, num_sge=1, sg=[a.sge()])))
        for number, change, key, at in (11, without, 0, 0), (12, lambda wr: wr, b.mr.rkey, b.mr.buf):
            wr = SendWR(number, num_sge=1, sg=[a.sge()], imm_data=IMM,
                        opcode=e.IBV_WR_RDMA_WRITE_WITH_IMM)
            wr.set_wr_rdma(key, at)
            a.qp.post_send(change(wr))
        a.send(13)
        self.assertEqual(a.ended(4), [(10, 0), (11, 0), (12, 0), (13, e.IBV_WC_REM_INV_REQ_ERR)])
        self.assertEqual(b.ended(4), [(0, 0), (1, 0), (2, 0), (3, e.IBV_WC_LOC_LEN_ERR)])

    def hears(self, end, wanted):
        self.assertEqual(heard(end), wanted)

    def test_events(self):
        """A program that does not poll hears of an error of its peer, which hears nothing."""
        a, b = self.pair()
        for _ in range(2):
            a.send(peer=b, key=1)
            self.hears(b, e.IBV_EVENT_QP_ACCESS_ERR)
            self.assertEqual(b.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_ERR)
            self.restart(a, b)
        b.send(peer=a, key=1)
        self.hears(a, e.IBV_EVENT_QP_ACCESS_ERR)

    def test_most_entries(self):
        """A completion queue has as many entries as the device says, and no more."""
        ctx = Context(name=self.dev_name)
        most = ctx.query_device().max_cqe
        CQ(ctx, most).close()
        with self.assertRaises(PyverbsRDMAError) as refused:
            CQ(ctx, most + 1)
        self.assertEqual(refused.exception.error_code, errno.EINVAL)
        # Without memory for entries, there are as many as ofi_rxm of libfabric asks for.
        if is_own():
            self.assertGreaterEqual(most, 256 * (384 + 384))

    def restart(self, a, b):
        for end in a, b:
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        a.connect(b.qp.qp_num)
        b.connect(a.qp.qp_num)

    def test_quiet(self):
        """Requests without a completion that end well have none when a later one fails."""
        a, b = Quiet(**self.dev_info), End(**self.dev_info)
        a.connect(b.qp.qp_num)
        b.connect(a.qp.qp_num)
        for number in range(8):
            a.send(number, peer=b)
        a.send(8, peer=b, key=1)
        a.send(9)
        self.assertEqual(a.ended(2), [(8, e.IBV_WC_REM_ACCESS_ERR), (9, e.IBV_WC_WR_FLUSH_ERR)])

    def test_flush(self):
        """All requests come back, in order: of before and of after the change to ERR."""
        a, b = self.pair()
        for number in range(0, 100, 2):
            a.receive(number)
            a.send(number + 1)
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_ERR
        a.qp.modify(attr, e.IBV_QP_STATE)
        for number in range(100, 120, 2):
            a.receive(number)
            a.send(number + 1)
        found = a.ended(120)
        self.assertEqual({status for _, status in found}, {e.IBV_WC_WR_FLUSH_ERR})
        for parity in 0, 1:
            self.assertEqual([n for n, _ in found if n % 2 == parity], [*range(parity, 120, 2)])

    def as_user(self, check):
        """Runs check(context) in a process that is not root's."""
        os.chmod("/dev/infiniband/uverbs0", 0o666)
        child = os.fork()
        if not child:
            try:
                os.setuid(1000)
                check(Context(name=self.dev_name))
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def check_limit(self, ctx):
        """12 objects, and again when one has gone."""
        pd, kept = PD(ctx), []
        ah = address(ctx, self.ib_port, self.gid_index)
        makers = [lambda: PD(ctx), lambda: MR(pd, SIZE, 0), lambda: AH(pd, attr=ah)]
        for n in range(11):
            kept.append(makers[n % 3]())
        for maker in makers:
            with self.assertRaises(PyverbsRDMAError) as refused:
                maker()
            self.assertEqual(refused.exception.error_code, errno.ENOMEM)
        for n in range(3):
            kept.pop(0).close()
            kept.append(makers[n]())

    def test_limit(self):
        """Protection domains, address handles and regions of a user are bounded."""
        write_file(LIMIT, "12")
        try:
            self.as_user(self.check_limit)
        finally:
            write_file(LIMIT, "0")

    def check_full(self, ctx):
        """There is no object for another user."""
        with self.assertRaises(PyverbsRDMAError) as refused:
            PD(ctx)
        self.assertEqual(refused.exception.error_code, errno.ENOMEM)

    def test_pool(self):
        """Users together have 65,536 objects, whatever one of them may have."""
        ctx, answer = Context(name=self.dev_name), array.array("I", [0])
        request = struct.pack("=IHHQ", COMMAND_ALLOC_PD, 4, 1, answer.buffer_info()[0])
        for _ in range(POOL):
            os.write(ctx.cmd_fd, request)
        for limit in "0", "12":
            write_file(LIMIT, limit)
            try:
                self.as_user(self.check_full)
            finally:
                write_file(LIMIT, "0")

    def send_message(self, umad, agent, qpn, tid):
        """A message for the card's own address."""
        gid = Context(name=self.dev_name).query_gid(self.ib_port, self.gid_index).gid
        header = struct.pack(HEADER, agent, 0, 0, 0, 0, socket.htonl(qpn),
                             socket.htonl(QP1_KEY), 0, 0, 0, 1, self.gid_index, 64, 0,
                             ipaddress.IPv6Address(gid).packed, 0, 0)
        os.write(umad, header + struct.pack(MESSAGE, 1, CLASS, VERSION, SEND, tid))

    def test_qp1(self):
        """QP1 takes messages to itself, and none to other numbers, from its own card, too."""
        umad = os.open("/dev/infiniband/umad0", os.O_RDWR)
        fcntl.ioctl(umad, ENABLE_PKEY)
        request = bytearray(struct.pack("=I2QBBB5x", 0, 1 << SEND, 0, 1, CLASS, VERSION))
        fcntl.ioctl(umad, REGISTER_AGENT, request)
        agent = struct.unpack_from("=I", request)[0]
        for qpn, tid in (1, 100), (2, 200), (1, 300):
            self.send_message(umad, agent, qpn, tid)
        for tid in 100, 300:
            self.assertTrue(select.select([umad], [], [], 120)[0])
            data = os.read(umad, 1024)[struct.calcsize(HEADER):]
            # The other bits are the agent's.
            self.assertEqual(struct.unpack(MESSAGE, data)[4] & 0xffffffff, tid)
        os.close(umad)

    def statistics(self):
        """[page_faults, page_invalidations, page_prefetch] of the regions, the oldest first."""
        text = subprocess.check_output(["rdma", "statistic", "show", "mr"], text=True)
        return [counts[1:] for counts in sorted([*map(int, found)]
                                                for found in STATISTICS.findall(text))]

    def test_statistics(self):
        """Pages that peers' messages bring in, that Linux takes, and that hints bring in."""
        a, b = self.pair()
        self.assertEqual(self.statistics(), [[0, 0, 0]] * 2)
        a.send(peer=b)
        self.assertEqual(a.ended(), [(2, 0)])
        self.assertEqual(self.statistics(), [[1, 0, 0]] * 2)
        b.page.madvise(mmap.MADV_DONTNEED)
        self.assertEqual(self.statistics(), [[1, 0, 0], [1, 1, 0]])
        advise(b.ctx, b.pd, e._IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, b.mr.lkey, b.at, SIZE)
        self.assertEqual(self.statistics(), [[1, 0, 0], [1, 1, 1]])
        a.send(peer=b)
        self.assertEqual(a.ended(), [(2, 0)])
        self.assertEqual(self.statistics(), [[1, 0, 0], [1, 1, 1]])
        for lkey, at in (b.mr.lkey ^ 1, b.at), (a.mr.lkey, a.at), (b.mr.lkey, b.at + 1):
            with self.assertRaises(OSError):
                advise(b.ctx, b.pd, e._IBV_ADVISE_MR_ADVICE_PREFETCH, lkey, at, SIZE)

    def test_rereg(self):
        """A region gets another place, and another key."""
        a, b = self.pair()
        a.page[:5], old = b"hello", b.mr.rkey
        memory, addr = page()
        key = rereg(b.ctx, b.mr, addr, SIZE)
        for rkey, status in (key, 0), (old, e.IBV_WC_REM_ACCESS_ERR):
            wr = SendWR(2, num_sge=1, sg=[a.sge()], opcode=e.IBV_WR_RDMA_WRITE)
            wr.set_wr_rdma(rkey, addr)
            a.qp.post_send(wr)
            self.assertEqual(a.ended(), [(2, status)])
        self.assertEqual((memory[:5], b.page[:5]), (b"hello", bytes(5)))


class EventTest(RDMATestCase):
    """Queue pairs with two completion queues."""

    def setUp(self):
        super().setUp()
        self.a, self.b = (Apart(**self.dev_info) for _ in range(2))
        self.a.connect(self.b.qp.qp_num)
        self.b.connect(self.a.qp.qp_num)
        for end in self.a, self.b:
            end.arm()

    def test_own_completions(self):
        """A completion queue has an event for its own completions, whatever the other one has had."""
        a, b = self.a, self.b
        a.receive()
        b.receive()
        a.send()
        self.assertTrue(a.hears(a.cq))
        self.assertFalse(a.hears(a.received, 0.2))
        self.assertTrue(b.hears(b.received))
        self.assertFalse(b.hears(b.cq, 0.2))
        # The other queue keeps its completion, and is not armed meanwhile.
        b.send()
        self.assertTrue(a.hears(a.received))
        self.assertTrue(b.hears(b.cq))

    def test_other_reader(self):
        """A poll of one completion queue leaves the event to the other one."""
        a, b = self.a, self.b
        for _ in range(20):
            a.receive()
            b.send()
            self.assertTrue(b.takes(b.cq))
            self.assertEqual(a.cq.poll(1)[0], 0)
            a.cq.req_notify()
            self.assertTrue(a.takes(a.received))
        self.assertFalse(a.hears(a.cq, 0.2))

    def test_ping_pong(self):
        """Each event is one completion, there and back."""
        a, b = self.a, self.b
        for turn in range(100):
            a.receive()
            b.receive()
            for one, other in (a, b), (b, a):
                one.send()
                self.assertTrue(other.takes(other.received), turn)
                self.assertTrue(one.takes(one.cq), turn)

    def test_reset(self):
        """A queue that was armed before RESET has its event behind it."""
        a, b = self.a, self.b
        for end in a, b:
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        a.connect(b.qp.qp_num)
        b.connect(a.qp.qp_num)
        a.receive()
        b.send()
        self.assertTrue(a.takes(a.received))
        self.assertTrue(b.takes(b.cq))


def counter(name, whose="card"):
    """Reads a counter of the card, or of the driver."""
    return json.loads(subprocess.check_output(["unetmm-stat", f"--{whose}", "--all", "--json"]))[
        whose][name]


class SharedQueueTest(RDMATestCase):
    """Queue pairs with one receive queue."""

    def setUp(self):
        super().setUp()
        self.all = Shared(**self.dev_info)
        self.peers = [End(**self.dev_info) for _ in range(2)]
        self.all.join(self.peers)

    def arrives(self, peer, number):
        peer.send()
        self.assertEqual(peer.ended() + self.all.ended(), [(2, 0), (number, 0)])

    def test_full(self):
        """A queue that is full says so."""
        for number in range(Shared.REQUESTS):
            self.all.receive(10 + number)
        with self.assertRaises(PyverbsRDMAError) as caught:
            self.all.receive()
        self.assertEqual(caught.exception.error_code, errno.ENOMEM)

    def test_order(self):
        """Messages take the requests in turn."""
        for number in range(Shared.REQUESTS):
            self.all.receive(10 + number)
        for number in range(3 * Shared.REQUESTS):
            self.arrives(self.peers[number % 3 % 2], 10 + number)
            self.all.receive(10 + Shared.REQUESTS + number)

    def test_late(self):
        """Requests that come late are found by both senders."""
        for peer in self.peers:
            peer.send()
        self.assertEqual(self.all.ended(limit=0.05), [])
        self.all.receive(10)
        self.all.receive(11)
        self.assertEqual(sorted(self.all.ended(2)), [(10, 0), (11, 0)])

    def test_end(self):
        """The end of one queue pair leaves the requests to the other one."""
        for number in range(2):
            self.all.receive(10 + number)
        gone, other = self.all.qps[0], self.all.qps[1]
        peer = self.peers[0 if self.peers[0].qp.query(e.IBV_QP_DEST_QPN)[0].dest_qp_num ==
                          other.qp_num else 1]
        gone.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        self.arrives(peer, 10)
        gone.close()
        self.arrives(peer, 11)

    def test_under_way(self):
        """The end, or RESET, of a queue pair in the middle of a message frees its request."""
        shared, peer = LongShared(**self.dev_info), Long(**self.dev_info)

        def join():
            for end in (shared, peer):
                end.qps.insert(0, end.new_qp())
            shared.connect(peer.qp.qp_num)
            peer.connect(shared.qp.qp_num)

        def post(number):
            # A queue that is full has a request of before.
            with contextlib.suppress(PyverbsRDMAError):
                shared.receive(number)

        for turn in range(40):
            join()
            post(turn)
            peer.send()
            time.sleep(0.001 * (turn % 5))      # anywhere in the message
            gone = shared.qps.pop(0)
            if turn % 2:
                gone.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            gone.close()
            peer.qps.pop(0).close()
            for end in (shared, peer):
                end.cq.poll(16)
        join()
        for turn in range(3 * LongShared.REQUESTS):
            post(100 + turn)
            peer.send()
            self.assertEqual(peer.ended(), [(2, 0)])
            [(number, status)] = shared.ended()
            self.assertEqual(status, 0)
        self.assertGreaterEqual(number, 100)

    def test_last(self):
        """A queue pair that ends, by its program or by its peer, says once that it takes no more."""
        by_number = {qp.qp_num: qp for qp in self.all.qps}
        peer = self.peers[0]
        other = by_number.pop(peer.qp.query(e.IBV_QP_DEST_QPN)[0].dest_qp_num)
        gone, = by_number.values()
        for _ in range(2):
            gone.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        self.assertEqual(heard(self.all), e.IBV_EVENT_QP_LAST_WQE_REACHED)
        peer.send(peer=self.all, key=1)
        self.assertEqual([heard(self.all), heard(self.all)],
                         [e.IBV_EVENT_QP_ACCESS_ERR, e.IBV_EVENT_QP_LAST_WQE_REACHED])
        self.assertEqual(other.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_ERR)

    def test_quiet_end(self):
        """RESET and the end of a queue pair are no reason for an event."""
        self.all.qps[0].modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        self.all.qps[1].close()
        # This event comes at once: the queue has no request.
        self.all.srq.modify(SrqAttr(srq_limit=1), e.IBV_SRQ_LIMIT)
        self.assertEqual(heard(self.all), e.IBV_EVENT_SRQ_LIMIT_REACHED)

    def test_low(self):
        """The event comes once, and the limit is 0 then."""
        for number in range(Shared.REQUESTS):
            self.all.receive(10 + number)
        self.all.srq.modify(SrqAttr(srq_limit=3), e.IBV_SRQ_LIMIT)
        self.assertEqual(self.all.srq.query().srq_limit, 3)
        for number in range(2):
            self.arrives(self.peers[0], 10 + number)
        event = self.all.ctx.get_async_event()
        self.assertEqual(event.event_type, e.IBV_EVENT_SRQ_LIMIT_REACHED)
        event.ack()
        self.assertEqual(self.all.srq.query().srq_limit, 0)


class FailedPeerTest(UnetmmTest):
    """An error that the card finds.  With librxe the driver finds it, and the peer hears nothing."""

    def test_failed_peer(self):
        """A program that does not poll hears of its peer's own error."""
        a, b = self.pair()
        a.qp.post_send(SendWR(2, num_sge=1, sg=[SGE(0, SIZE, a.mr.lkey)]))
        self.hears(b, e.IBV_EVENT_QP_FATAL)
        self.restart(a, b)
        a.send(peer=b, key=1)
        self.hears(b, e.IBV_EVENT_QP_ACCESS_ERR)


class DatagramTest(RDMATestCase):
    """Two queue pairs of type UD of one device."""

    def setUp(self):
        super().setUp()
        self.a, self.b = (Datagrams(**self.dev_info) for _ in range(2))

    def arrives(self, text, **how):
        """A message that arrives whole; its completion."""
        self.a.put(text)
        self.b.receive(length=GRH + max(len(text), 1))
        self.a.send_to(self.b, length=len(text), **how)
        self.assertEqual(self.a.got().wr_id, 2)
        wc = self.b.got()
        self.assertEqual((wc.wr_id, wc.byte_len, wc.src_qp),
                         (1, GRH + len(text), self.a.qp.qp_num))
        self.assertEqual(self.b.page[GRH:GRH + len(text)], text)
        self.assertTrue(wc.wc_flags & e.IBV_WC_GRH)
        return wc

    def test_lengths(self):
        """Messages from memory, in one piece and in many, and inline, up to the MTU."""
        for length in 0, 1, 40, MAX_INLINE, 2040:
            text = bytes(os.urandom(length))
            self.arrives(text)
            if length <= MAX_INLINE:
                self.arrives(text, flags=e.IBV_SEND_INLINE)
        for pieces in 2, 3, 4, 15:
            self.arrives(bytes(range(pieces * 8)), pieces=pieces)

    def test_absent(self):
        """Messages for an absent page are lost, until the page has been brought in for them."""
        names, end = ("drop_asked", "drop_absent", "drop_no_buffer"), time.monotonic() + 60
        before, sent, found = sum(map(counter, names)), 0, []
        self.b.page.madvise(mmap.MADV_DONTNEED)
        self.b.receive(7)
        while not found and time.monotonic() < end:
            self.a.send_to(self.b)
            self.a.got()
            sent += 1
            # Each message has its end before the next one.
            while not found and sum(map(counter, names)) < before + sent and time.monotonic() < end:
                found = self.b.ended(limit=0)
        self.assertEqual(found, [(7, 0)])
        self.assertEqual(sum(map(counter, names)), before + sent - 1)

    def test_hole(self):
        """Pages behind one that cannot come are brought in all the same."""
        _, addr = page(3 * mmap.PAGESIZE)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        with open("/tmp/empty", "wb+") as file:
            hole = libc.mmap(addr + mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE,
                             mmap.MAP_SHARED | MAP_FIXED, file.fileno(), 0)
        self.assertEqual(hole, addr + mmap.PAGESIZE)
        before = counter("prefetched_pages", "driver")
        MR(self.b.pd, 3 * mmap.PAGESIZE, RIGHTS, address=addr)
        self.assertEqual(counter("prefetched_pages", "driver"), before + 2)

    def test_signal(self):
        """A signal does not end the registration of memory, however often it comes."""
        length = 64 << 20
        _, addr = page(length)
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            MR(self.b.pd, length, RIGHTS, address=addr)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def test_header(self):
        """The first 40 bytes have the network header of RoCE v2, with IPv4."""
        self.arrives(b"hello")
        header = self.b.page[GRH - 20:GRH]
        first, _, length, _, _, protocol = struct.unpack(">BBHIBB", header[:10])
        own = ipaddress.IPv6Address(self.a.ctx.query_gid(self.ib_port, self.gid_index).gid)
        self.assertEqual((first, length, protocol), (0x45, 20 + 32 + 8, 17))
        self.assertEqual(header[12:], own.ipv4_mapped.packed * 2)
        total = sum(struct.unpack(">10H", header))
        self.assertEqual((total & 0xffff) + (total >> 16), 0xffff)

    def test_immediate(self):
        """The receiver gets the sender's immediate data, and no flag without them."""
        wc = self.arrives(b"hello", opcode=e.IBV_WR_SEND_WITH_IMM)
        self.assertEqual((wc.wc_flags, wc.imm_data), (e.IBV_WC_GRH | e.IBV_WC_WITH_IMM, IMM))
        self.assertEqual(self.arrives(b"hello").wc_flags, e.IBV_WC_GRH)

    def is_lost(self, name, **how):
        """The sender is not told; the next message finds the buffer."""
        before = counter(name)
        self.b.receive(7)
        self.a.send_to(self.b, **how)
        self.assertEqual(self.a.got().wr_id, 2)
        self.a.send_to(self.b)
        self.assertEqual((self.a.got().wr_id, self.b.got().wr_id), (2, 7))
        self.assertEqual(counter(name), before + 1)

    def test_qkey(self):
        """A message with another Q_Key is dropped; bit 31 means the sender's own."""
        self.is_lost("drop_qkey", qkey=self.b.qp.qp_num + 1)
        self.is_lost("drop_qkey", qkey=1 << 31)
        attr = QPAttr()
        attr.qkey = self.b.qp.qp_num
        self.a.qp.modify(attr, e.IBV_QP_QKEY)
        self.arrives(b"hello", qkey=1 << 31 | 5)
        attr.qkey = 5
        self.b.qp.modify(attr, e.IBV_QP_QKEY)
        self.arrives(b"hello", qkey=5)

    def test_short_buffer(self):
        """A message that is longer than the buffer is dropped, and the buffer stays."""
        self.is_lost("drop_too_long", length=SIZE + 1)

    def test_no_room(self):
        """A request into which no datagram fits, of no segments or of few bytes, waits for one
        and ends with an error then."""
        for make in without, lambda wr: wr:
            self.b.qp.post_recv(make(RecvWR(7, 1, [SGE(self.b.mr.buf, GRH - 1, self.b.mr.lkey)])))
            self.b.receive(8)
            self.assertEqual(self.b.ended(limit=0.1), [])
            self.a.send_to(self.b)
            self.a.got()
            self.assertEqual(self.b.ended(2), [(7, e.IBV_WC_LOC_LEN_ERR),
                                               (8, e.IBV_WC_WR_FLUSH_ERR)])
            self.b.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            self.b.begin()

    def test_nobody(self):
        """A message to a number without a queue pair is lost, as one before RTR."""
        for qpn in 0, 2, 0xffffff:
            self.is_lost("drop_channel", qpn=qpn)
        c = Datagrams(**self.dev_info)
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_RESET
        c.qp.modify(attr, e.IBV_QP_STATE)
        self.is_lost("drop_channel", qpn=c.qp.qp_num)

    def fails(self, status, **how):
        """The request fails and ends the queue pair; after RESET all is well."""
        self.a.send_to(self.b, 1)
        self.a.send_to(self.b, 2, **how)
        self.a.send_to(self.b, 3)
        found = self.a.ended(3)
        self.assertEqual(found[:2], [(1, 0), (2, status)])
        # The card goes on until a poll finds the error.
        self.assertIn(found[2:], [[(3, e.IBV_WC_WR_FLUSH_ERR)], [(3, 0)]])
        self.assertEqual(self.a.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_ERR)
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_RESET
        self.a.qp.modify(attr, e.IBV_QP_STATE)
        self.a.begin()
        self.arrives(b"hello")

    def test_errors(self):
        """A message above the MTU."""
        mtu = 128 << self.a.ctx.query_port(self.ib_port).active_mtu
        self.arrives(bytes(os.urandom(mtu)))
        self.fails(e.IBV_WC_LOC_LEN_ERR, length=mtu + 1)

    def test_other_domain(self):
        """The address handle of another protection domain, which our provider knows."""
        self.fails(e.IBV_WC_LOC_QP_OP_ERR, ah=self.b.ah)

    def test_write(self):
        """A WRITE is refused: by our provider at once; with librxe by the driver in its turn."""
        if is_own():
            with self.assertRaises(PyverbsRDMAError) as refused:
                self.a.send_to(self.b, opcode=e.IBV_WR_RDMA_WRITE)
            self.assertEqual(refused.exception.error_code, errno.EINVAL)
        else:
            self.fails(e.IBV_WC_LOC_QP_OP_ERR, opcode=e.IBV_WR_RDMA_WRITE)

    def test_flush_datagrams(self):
        """All requests come back, in order: of before and of after the change to ERR."""
        for number in range(0, 100, 2):
            self.a.receive(number)
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_ERR
        self.a.qp.modify(attr, e.IBV_QP_STATE)
        for number in range(100, 120, 2):
            self.a.receive(number)
            self.a.send_to(self.b, number + 1)
        found = self.a.ended(70)
        self.assertEqual({status for _, status in found}, {e.IBV_WC_WR_FLUSH_ERR})
        self.assertEqual([n for n, _ in found if n % 2 == 0], [*range(0, 120, 2)])
        self.assertEqual([n for n, _ in found if n % 2], [*range(101, 120, 2)])
        self.assertEqual(len(found), 70)

    def test_bad_numbers(self):
        """Partitions but number 0, and more segments and inline data than a message has."""
        qp = QP(self.a.pd, self.a.create_qp_init_attr())
        attr = QPAttr(port_num=self.ib_port)
        attr.pkey_index = 1
        with self.assertRaises(PyverbsRDMAError) as refused:
            qp.to_init(attr)
        self.assertEqual(refused.exception.error_code, errno.EINVAL)
        for more in {"max_send_sge": 16}, {"max_inline_data": MAX_INLINE + 1}:
            init = self.a.create_qp_init_attr()
            init.cap = QPCap(**more)
            with self.assertRaises(PyverbsRDMAError) as refused:
                QP(self.a.pd, init)
            self.assertEqual(refused.exception.error_code, errno.EINVAL)


class Crowd(Datagrams):
    """Many queue pairs, whose receive requests the card has no room for."""

    QUEUE_PAIRS, REQUESTS = 200, 31

    def create_qp_init_attr(self):
        init = super().create_qp_init_attr()
        init.cap = QPCap(max_send_wr=4, max_recv_wr=16)
        return init

    def create_qps(self):
        for _ in range(1 + self.QUEUE_PAIRS):
            self.qps.append(QP(self.pd, self.create_qp_init_attr()))
            self.qps[-1].to_init(QPAttr(port_num=self.ib_port))
        for qp in self.qps:
            for number in range(self.REQUESTS):
                qp.post_recv(RecvWR(number, 1, [SGE(self.mr.buf, SIZE, self.mr.lkey)]))

    def begin_requests(self):
        self.wr = SendWR(num_sge=1, sg=[self.sge()], opcode=e.IBV_WR_SEND)
        self.wr.set_wr_ud(AH(self.pd, attr=address(self.ctx, self.ib_port, self.gid_index)), 0, 0)

    def request(self):
        """Refused, since the state is INIT: the driver looks at the process's queue pairs alone."""
        with contextlib.suppress(PyverbsRDMAError):
            self.qp.post_send(self.wr)

    def waits(self, requests):
        """How many of the requests have slept in the driver; others of the processor run before."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        for _ in range(requests):
            time.sleep(0.001)
            self.request()
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before - requests


class Alone(Crowd):
    QUEUE_PAIRS = 0


class NeighbourTest(RDMATestCase):
    """With librxe: a sender waits for the engines of its own process alone."""

    def crowd(self, told):
        """A process with many queue pairs, which makes requests until it is killed."""
        crowd = Crowd(**self.dev_info)
        crowd.begin_requests()
        os.write(told, b"x")
        while True:
            crowd.request()

    def beside(self, requests):
        """How many requests of this process wait, beside a crowd on the same processor."""
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            try:
                self.crowd(tell)
            finally:
                traceback.print_exc()
                os._exit(1)
        os.close(tell)
        try:
            alone = Alone(**self.dev_info)
            alone.begin_requests()
            self.assertEqual(os.read(told, 1), b"x")
            return alone.waits(requests)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(told)

    def test_neighbour(self):
        """A sender does not wait for another process that has many queue pairs."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(before)})
        try:
            waits = self.beside(300)
        finally:
            os.sched_setaffinity(0, before)
        print(f"# {waits} of 300 requests have waited")
        self.assertLess(waits, 10)
