# SPDX-License-Identifier: LGPL-2.1-or-later
"""Cards, endpoints, channels and completions."""
import collections
import contextlib
import itertools
import types
import warnings

from _unetmm import ffi, lib

from ._memory import EventCounter, Export, Import, Keyed
from ._names import (ChannelFlag, Error, Policy, Right, Scope, Source, Type,
                     address, again_after_signals, check, completion_error,
                     gather, mac_text, readable, writable)

BATCH = 64

Info = types.SimpleNamespace
Listener = collections.namedtuple("Listener",
                                  "mac endpoint service mtu types program")
Peer = collections.namedtuple("Peer", "mac endpoint mtu type")


class Closing:
    """A handle with close(), which is a context manager."""

    _handle = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __del__(self):
        if self._handle is not None:
            warnings.warn(f"{self!r} was not closed", ResourceWarning,
                          source=self)
            # The card is not to write on into memory of another object.
            with contextlib.suppress(Error):
                self.close()

    @property
    def handle(self):
        """The library's handle; ValueError if it is closed."""
        if self._handle is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._handle

    @property
    def is_open(self):
        """True until close()."""
        return self._handle is not None

    def close(self):
        """Closes it; a second time does nothing."""
        raise NotImplementedError


class Context(Closing):
    """An open card and, except with Source.OBSERVE, an address space on it."""

    def __init__(self, path=None, source=Source.TLB):
        out = ffi.new("struct unetmm_ctx **")
        name = ffi.NULL if path is None else str(path).encode()
        check(lib.unetmm_open(name, source, out), lib.UNETMM_CALL_OPEN)
        self._handle = out[0]
        self.endpoints = set()
        self.exports = {}
        self.event_counters = set()
        self._registered = {}

    def close(self):
        """Closes the endpoints, exports and counters, and then the card."""
        if self._handle is None:
            return
        for owned in [*self.endpoints, *self.exports.values(),
                      *self.event_counters]:
            owned.close()
        ret = lib.unetmm_close(self._handle)
        self._handle = None
        self._registered.clear()
        check(ret)

    def fileno(self):
        """A descriptor with POLLPRI while a connection waits to be accepted."""
        return check(lib.unetmm_ctx_fd(self.handle))

    def info(self):
        """The card's limits: the members of struct unetmm_info, and `link`."""
        info = ffi.new("struct unetmm_info *")
        info.size = ffi.sizeof("struct unetmm_info")
        check(lib.unetmm_info(self.handle, info))
        found = {name: getattr(info, name)
                 for name, _ in ffi.typeof("struct unetmm_info").fields
                 if name not in ("size", "mac")}
        return Info(mac=mac_text(info.mac), **found,
                    link=bool(info.flags & lib.UNETMM_INFO_LINK))

    def probe(self, peer, timeout=1.0):
        """The longest message to the card `peer`, which has to answer."""
        mac, mtu = address(peer), ffi.new("uint32_t *")
        check(again_after_signals(
            lambda ns: lib.unetmm_probe(self.handle, mac, ns, mtu), timeout),
            lib.UNETMM_CALL_PROBE)
        return mtu[0]

    def peers(self, peer=None, service=0, timeout=0.3):
        """The Listeners of the card `peer`, or of all that answer in time."""
        found = ffi.new("struct unetmm_listener[]", 256)

        def ask(ns):
            peers = ffi.new("struct unetmm_peers *", {
                "size": ffi.sizeof("struct unetmm_peers"), "service": service,
                "listeners": int(ffi.cast("uintptr_t", found)),
                "count": len(found)})
            if peer is not None:
                ffi.memmove(peers.mac, address(peer), 6)
            return lib.unetmm_peers(self.handle, peers, ns)
        return [Listener(mac_text(one.mac), one.endpoint, one.service, one.mtu,
                         ChannelFlag(one.types), ffi.string(one.name).decode())
                for one in found[0:check(again_after_signals(ask, timeout),
                                         lib.UNETMM_CALL_PEERS)]]

    def statistics(self, scope=Scope.CARD, endpoint=0):
        """{name: value} of the counters of the card, the driver or an endpoint."""
        def read(values, count):
            return check(lib.unetmm_stats_read(self.handle, scope, endpoint,
                                               values, count),
                         lib.UNETMM_CALL_STATS)
        values = ffi.new("uint64_t[]", read(ffi.NULL, 0))
        found = {}
        for number in range(min(read(values, len(values)), len(values))):
            name = lib.unetmm_stats_name(scope, number, ffi.NULL)
            if name != ffi.NULL:
                found[ffi.string(name).decode()] = values[number]
        return found

    def register(self, buffer, write=True):
        """Pins a buffer, for Source.PINNED; deregister() takes the same buffer."""
        cdata, length = writable(buffer) if write else readable(buffer)
        check(lib.unetmm_register(self.handle, cdata, length,
                                  lib.UNETMM_REGION_WRITE if write else 0),
              lib.UNETMM_CALL_REGISTER)
        self._registered[int(ffi.cast("uintptr_t", cdata)), length] = cdata

    def deregister(self, buffer):
        """Unpins a buffer that register() pinned."""
        cdata, length = readable(buffer)
        check(lib.unetmm_deregister(self.handle, cdata, length),
              lib.UNETMM_CALL_REGISTER)
        self._registered.pop((int(ffi.cast("uintptr_t", cdata)), length), None)

    def prefetch(self, buffer, write=False, fault=True):
        """Prepares a buffer's pages (sources shadow and odp); bytes prepared."""
        cdata, length = writable(buffer) if write else readable(buffer)
        flags = (lib.UNETMM_PREFETCH_WRITE if write else 0) | \
            (0 if fault else lib.UNETMM_PREFETCH_NO_FAULT)
        return check(lib.unetmm_prefetch(self.handle, cdata, length, flags),
                     lib.UNETMM_CALL_PREFETCH)

    def endpoint(self, **attributes):
        """Creates an Endpoint; `attributes` are those of Endpoint()."""
        return Endpoint(self, **attributes)

    def export(self, number, buffer, **attributes):
        """Exports a buffer, or with None all memory, under a number.

        `attributes` are those of Export()."""
        return Export(self, number, buffer, **attributes)

    def counters(self, number=1):
        """A list of new event counters whose numbers follow each other."""
        return EventCounter.create(self, number)


class Completion:
    """One entry of a completion queue.

    type, status   Type and the card's status; 0 is good
    channel        a Channel, or its number if it is closed already or still to be accepted
    context        the object that was given with the operation or the buffer
    length         bytes of the message
    data           RECEIVED: the bytes received, in the buffer itself (memoryview)
                   or, of a short message, in a copy of the completion (bytes)
    buffer         the object that was posted or sent, which is the caller's again
    old            of an atomic operation: the value before it
    offset         NOTIFY: the place of the write
    imm            NOTIFY, WRITTEN, RECEIVED with a value: that value; else None
    """

    __slots__ = ("type", "status", "channel", "context", "length", "data",
                 "buffer", "old", "offset", "imm")

    def __init__(self, entry, channel, pending):
        self.type = Type(entry.type)
        self.status = entry.status
        self.channel = channel
        self.length = entry.len
        self.context, self.buffer, memory = pending
        self.data = self.old = self.offset = None
        self.imm = entry.imm if entry.flags & lib.UNETMM_CQE_F_IMM else None
        if self.type == Type.RECEIVED:
            if entry.is_inline:
                self.data = bytes(ffi.buffer(entry.data, entry.len))
            elif self.buffer is not None:
                self.data = memoryview(self.buffer).cast("B")[:entry.len]
        elif self.type == Type.NOTIFY:
            self.offset = lib.unetmm_notify_offset(ffi.addressof(entry))
            self.imm = lib.unetmm_notify_imm(ffi.addressof(entry))
        elif self.type == Type.SENT and memory == "atomic" and not self.status:
            self.old = lib.unetmm_old_value(ffi.addressof(entry))

    def check(self):
        """Returns the completion; raises CompletionError if it failed."""
        if self.status != lib.UNETMM_ST_OK:
            raise completion_error(self)
        return self

    def __repr__(self):
        text = ffi.string(lib.unetmm_status_str(self.status)).decode()
        return (f"<Completion {self.type.name} length={self.length} "
                f"status={self.status} ({text})>")


class Endpoint(Closing):
    """Queues on a card.  It belongs to one thread at a time: libunetmm(7)."""

    def __init__(self, context, *, send_slots=256, free_depth=256,
                 completion_depth=1024, policy=Policy.SKIP, pretranslate=0,
                 inline_max=lib.UNETMM_MAX_INLINE,
                 spin=lib.UNETMM_SPIN_DEFAULT_NS / 1e9, backup=0):
        self.context, self.completion_depth = context, completion_depth
        attr = ffi.new("struct unetmm_ep_attr *")
        attr.size = ffi.sizeof("struct unetmm_ep_attr")
        attr.send_slots, attr.free_depth = send_slots, free_depth
        attr.completion_depth, attr.policy = completion_depth, policy
        attr.pretranslate, attr.inline_max = pretranslate, inline_max
        attr.spin_ns = lib.UNETMM_SPIN_FOREVER if spin is None else \
            min(int(spin * 1e9), lib.UNETMM_SPIN_FOREVER - 1)
        attr.backup = backup
        out = ffi.new("struct unetmm_ep **")
        check(lib.unetmm_ep_create(context.handle, attr, out),
              lib.UNETMM_CALL_EP_CREATE)
        self._handle = out[0]
        self.channels = {}
        # Memory that the card may use until the completion with this number comes
        self._pending = {}
        self._numbers = itertools.count(1)
        self._entries = ffi.new("struct unetmm_completion[]", BATCH)
        context.endpoints.add(self)

    def close(self):
        """Ends the transfers and channels.  The buffers are the caller's again."""
        if self._handle is None:
            return
        ret = lib.unetmm_ep_destroy(self._handle)
        self._handle = None
        self._pending.clear()
        self.channels.clear()
        self.context.endpoints.discard(self)
        check(ret)

    def fileno(self):
        """A descriptor that is readable when a completion comes after arm()."""
        return check(lib.unetmm_fd(self.handle))

    def arm(self):
        """Asks for one wake-up.  True: there are completions already."""
        return bool(check(lib.unetmm_arm(self.handle), lib.UNETMM_CALL_POLL))

    @property
    def number(self):
        """The endpoint's number on the card."""
        return check(lib.unetmm_ep_id(self.handle))

    def statistics(self):
        """{name: value} of the card's counters for this endpoint."""
        return self.context.statistics(Scope.ENDPOINT, self.number)

    # ---- Channels

    @staticmethod
    def _channel_attr(flags, timeout_us=0, retries=0, rnr_retries=0, rnr_us=0):
        attr = ffi.new("struct unetmm_channel_attr *")
        attr.size = ffi.sizeof("struct unetmm_channel_attr")
        attr.flags, attr.timeout_us, attr.retries = flags, timeout_us, retries
        attr.rnr_retries, attr.rnr_us = rnr_retries, rnr_us
        return attr

    def listen(self, service, backlog=16, flags=ChannelFlag.RELIABLE |
               ChannelFlag.NOTIFY_CLOSE, **attributes):
        """Lets peers connect to the number `service`; 0 ends it."""
        check(lib.unetmm_listen_ex(self.handle, service, backlog,
                                   self._channel_attr(flags, **attributes)),
              lib.UNETMM_CALL_LISTEN)

    def accept(self, timeout=None):
        """The Channel of the next connection."""
        peer = ffi.new("struct unetmm_peer *")
        return self._opened(again_after_signals(
            lambda ns: lib.unetmm_accept(self.handle, peer, ns), timeout),
            peer, lib.UNETMM_CALL_ACCEPT)

    def connect(self, peer, service, timeout=None, flags=ChannelFlag.RELIABLE |
                ChannelFlag.NOTIFY_CLOSE, **attributes):
        """A Channel to the endpoint that listens on `service` at the card `peer`.

        `peer` is six bytes, text as 52:54:00:12:34:56, or a name in ethers(5).
        """
        mac, out = address(peer), ffi.new("struct unetmm_peer *")
        attr = self._channel_attr(flags, **attributes)
        return self._opened(again_after_signals(
            lambda ns: lib.unetmm_connect_ex(self.handle, mac, service, ns, attr,
                                             out), timeout),
            out, lib.UNETMM_CALL_CONNECT)

    def _opened(self, number, peer, call):
        check(number, call)
        channel = Channel(self, number, Peer(mac_text(peer.mac), peer.endpoint,
                                             peer.mtu, peer.type))
        self.channels[number] = channel
        return channel

    def forget(self, channel):
        """This side has closed the channel: its number may be another's."""
        if self.channels.get(channel.number) is channel:
            del self.channels[channel.number]

    # ---- Operations

    def submit(self, call, post, context=None, buffer=None, memory=None):
        """Posts by `post(number)`; `buffer` and `memory` stay until it completes."""
        number = next(self._numbers)
        self._pending[number] = (context, buffer, memory)
        ret = post(number)
        if ret < 0:
            del self._pending[number]
            check(ret, call)

    def contexts(self):
        """The `context` of each operation and buffer that has not completed."""
        return [context for context, _, _ in self._pending.values()]

    def post_recv(self, buffer, context=None, *, more=False, zero=False):
        """Posts a buffer; the completion that gives it back has `context`."""
        cdata, length = writable(buffer)
        flags = (lib.UNETMM_MORE if more else 0) | \
            (lib.UNETMM_ZERO if zero else 0)
        self.submit(lib.UNETMM_CALL_POST, lambda number: lib.unetmm_post_recv(
            self.handle, cdata, length, number, flags), context, buffer, cdata)

    def ring(self):
        """Tells the card of operations that were posted with more=True."""
        check(lib.unetmm_ring(self.handle), lib.UNETMM_CALL_SEND)

    def poll(self, most=BATCH):
        """A list of up to `most` completions that are there."""
        return self._take(lib.unetmm_poll(self.handle, self._entries,
                                          min(most, BATCH)))

    def wait(self, timeout=None, most=BATCH):
        """The same, but waits for the first; an empty list after the timeout."""
        return self._take(again_after_signals(
            lambda ns: lib.unetmm_wait(self.handle, self._entries,
                                       min(most, BATCH), ns), timeout))

    def _take(self, number):
        check(number, lib.UNETMM_CALL_POLL)
        return [self._completion(self._entries[i]) for i in range(number)]

    def _completion(self, entry):
        owned = entry.type != lib.UNETMM_CQE_NOTIFY
        pending = self._pending.pop(entry.user_data, None) if owned else \
            (entry.user_data, None, None)
        channel = self.channels.get(entry.channel, entry.channel)
        return Completion(entry, channel, pending or (None, None, None))


class Channel:
    """A connection from an endpoint to one of a peer's."""

    def __init__(self, endpoint, number, peer):
        self.endpoint = endpoint
        self.number = number
        self.peer = peer

    def __repr__(self):
        return f"<Channel {self.number} to {self.peer.mac}>"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @property
    def mtu(self):
        """The longest message, in bytes."""
        return check(lib.unetmm_channel_mtu(self.endpoint.handle, self.number))

    def send(self, data, context=None, *, imm=None, more=False, inline=False):
        """Sends one message of a buffer, or of a list of up to 16 buffers.

        They stay as they are until the completion, of type SENT, with `context`.
        `imm` is a value of 32 bits beside the message.
        """
        pieces = data if isinstance(data, (list, tuple)) else [data]
        iov, memory = gather(pieces, readable)
        flags = (lib.UNETMM_MORE if more else 0) | \
            (lib.UNETMM_INLINE if inline else 0)
        function, value = (lib.unetmm_sendv, ()) if imm is None else \
            (lib.unetmm_sendv_imm, (imm,))
        self.endpoint.submit(
            lib.UNETMM_CALL_SEND, lambda number: function(
                self.endpoint.handle, self.number, iov, len(pieces), *value,
                number, flags), context, data, memory)

    def fence(self, context=None):
        """Its completion says that the peer has all that was sent before."""
        self.endpoint.submit(
            lib.UNETMM_CALL_ONE_SIDED, lambda number: lib.unetmm_fence(
                self.endpoint.handle, self.number, number, 0), context)

    def import_(self, number, rights=Right(0), timeout=None):
        """An Import of the peer's export `number`, when there is one."""
        return Import(self, number, rights, timeout)

    def memory(self, key):
        """A Keyed: memory of the peer, by the key of its export."""
        return Keyed(self, key)

    def shutdown(self, timeout=None):
        """Waits until the peer's card has all, and closes the channel."""
        check(again_after_signals(
            lambda ns: lib.unetmm_shutdown(self.endpoint.handle, self.number, ns),
            timeout))
        self.endpoint.forget(self)

    def close(self):
        """Closes it at once; a second time does nothing."""
        if self.endpoint.channels.get(self.number) is not self:
            return
        try:
            check(lib.unetmm_disconnect(self.endpoint.handle, self.number))
        finally:
            self.endpoint.forget(self)
