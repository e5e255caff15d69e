# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory of peers: exports, imports, one-sided operations, event counters."""
import collections

from _unetmm import ffi, lib

from ._names import (Right, again_after_signals, check, gather, readable,
                     writable)

Redirected = collections.namedtuple("Redirected", "copied pieces")
Key = collections.namedtuple("Key", "key address")


class Export:
    """A buffer that peers with a reliable channel may use: unetmm_export(3).

    `buffer` None is the whole address space (Source.ODP), by its `key`: peers that have
    it read and change every object of this process, at its address.

    notify     writes that ask for it have a NOTIFY completion with `user_data`
    redirect   redirect() may move parts of it
    keyed      peers that know its `key` use it without an import
    counters   event counters that peers may name, numbered from 0 on
    """

    def __init__(self, context, number, buffer, *, rights=Right.ALL,
                 notify=False, redirect=False, keyed=False, user_data=0,
                 counters=()):
        self.context = context
        self.number = number
        self.buffer = buffer
        self._memory, length = (ffi.NULL, 0) if buffer is None else \
            writable(buffer) if rights & ~Right.READ else readable(buffer)
        self._counters = list(counters)
        self._moved = {}
        flags = (lib.UNETMM_EXPORT_NOTIFY if notify else 0) | \
            (lib.UNETMM_EXPORT_REDIRECT if redirect else 0) | \
            (lib.UNETMM_EXPORT_KEYED if keyed else 0) | \
            (lib.UNETMM_EXPORT_WHOLE if buffer is None else 0)
        arguments = (context.handle, number, self._memory, length, rights, flags,
                     user_data)
        if self._counters:
            ret = lib.unetmm_export_events(*arguments, self._counters[0].handle,
                                           len(self._counters))
        else:
            ret = lib.unetmm_export(*arguments)
        check(ret, lib.UNETMM_CALL_EXPORT)
        context.exports[number] = self

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """Ends the export; a second time does nothing."""
        if self.context.exports.get(self.number) is not self:
            return
        check(lib.unetmm_unexport(self.context.handle, self.number),
              lib.UNETMM_CALL_EXPORT)
        del self.context.exports[self.number]
        self._moved.clear()
        self._memory = None

    @property
    def key(self):
        """A Key: peers give it to Channel.memory() to use the export."""
        key, base = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        check(lib.unetmm_export_key(self.context.handle, self.number, key, base),
              lib.UNETMM_CALL_EXPORT)
        return Key(key[0], base[0])

    def redirect(self, offset, buffer):
        """Moves the part at `offset` into a buffer: unetmm_redirect(3)."""
        memory, length = writable(buffer)
        out = ffi.new("struct unetmm_redirected *")
        check(lib.unetmm_redirect(self.context.handle, self.number, offset,
                                  memory, length, out), lib.UNETMM_CALL_REDIRECT)
        self._moved[offset] = memory
        return Redirected(out.copied, out.pieces)

    def redirect_end(self, offset):
        """Ends redirect(); data that landed in the buffer stays there."""
        check(lib.unetmm_redirect_end(self.context.handle, self.number, offset),
              lib.UNETMM_CALL_REDIRECT)
        self._moved.pop(offset, None)

    def redirect_back(self, offset, keep=0):
        """The same; data behind the first `keep` bytes is copied to the export."""
        out = ffi.new("struct unetmm_redirected *")
        check(lib.unetmm_redirect_back(self.context.handle, self.number, offset,
                                       keep, out), lib.UNETMM_CALL_REDIRECT)
        self._moved.pop(offset, None)
        return Redirected(out.copied, out.pieces)


class Remote:
    """Memory of a peer, and the operations on it, which complete with type SENT."""

    def __init__(self, channel, suffix, *names):
        self.channel = channel
        self.endpoint = channel.endpoint
        self._suffix = suffix
        self._names = names             # behind the endpoint, in each call

    def _submit(self, operation, place, arguments, context, buffer=None,
                memory=None, flags=0):
        function = getattr(lib, f"unetmm_{operation}{self._suffix}")
        self.endpoint.submit(
            lib.UNETMM_CALL_ONE_SIDED, lambda number: function(
                self.endpoint.handle, *self._names, place, *arguments, number,
                flags), context, buffer, memory)

    def write(self, offset, data, context=None, *, notify=None, count=None,
              imm=None, more=False):
        """Writes a buffer, or a list of buffers, to `offset`.

        `notify` is the value of a notification, `count` the number of an event
        counter of the peer's export, `imm` the value of a WRITTEN completion, for
        which the peer has a buffer posted; at most one of them.
        """
        uses = [(value, flag) for value, flag in (
            (notify, lib.UNETMM_NOTIFY), (count, lib.UNETMM_COUNT),
            (imm, lib.UNETMM_IMM)) if value is not None]
        if len(uses) > 1:
            raise ValueError("a write has one of notify, count and imm")
        [(value, flag)] = uses or [(0, 0)]
        pieces = data if isinstance(data, (list, tuple)) else [data]
        iov, memory = gather(pieces, readable)
        self._submit("writev", offset, (iov, len(pieces), value), context, data,
                     memory, flag | (lib.UNETMM_MORE if more else 0))

    def read(self, offset, buffer, context=None, *, more=False):
        """Reads from `offset` into a buffer, or into a list of buffers."""
        pieces = buffer if isinstance(buffer, (list, tuple)) else [buffer]
        iov, memory = gather(pieces, writable)
        self._submit("readv", offset, (iov, len(pieces)), context, buffer, memory,
                     lib.UNETMM_MORE if more else 0)

    def fetch_add(self, offset, value, context=None):
        """Adds to the 8 bytes at `offset`; the completion's `old` is the sum before."""
        self._submit("fetch_add", offset, (value % 2**64,), context,
                     memory="atomic")

    def compare_swap(self, offset, compare, swap, context=None):
        """Stores `swap` there if `compare` is there; `old` is the value before."""
        self._submit("cmp_swap", offset, (compare % 2**64, swap % 2**64), context,
                     memory="atomic")


class Import(Remote):
    """Memory that a peer has exported, by offsets."""

    def __init__(self, channel, number, rights, timeout):
        length = ffi.new("uint64_t *")
        self.number = check(again_after_signals(
            lambda ns: lib.unetmm_import(channel.endpoint.handle, channel.number,
                                         number, rights, ns, length), timeout),
            lib.UNETMM_CALL_IMPORT)
        super().__init__(channel, "", self.number)
        self.length = length[0]
        self._open = True

    def __len__(self):
        return self.length

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """Gives the import back; a second time does nothing."""
        if self._open and self.endpoint.is_open:
            check(lib.unetmm_unimport(self.endpoint.handle, self.number),
                  lib.UNETMM_CALL_IMPORT)
        # The end of the endpoint was that of the import, too.
        self._open = False


class Keyed(Remote):
    """Memory that a peer has exported with a key, by the peer's addresses."""

    def __init__(self, channel, key):
        super().__init__(channel, "_key", channel.number, key)
        self.key = key


class EventCounter:
    """A counter in this process that writes of peers increment."""

    def __init__(self, context, handle):
        self.context = context
        self._handle = handle
        context.event_counters.add(self)

    @classmethod
    def create(cls, context, number):
        """`number` of them, which follow each other."""
        out = ffi.new("struct unetmm_event_counter *[]", max(1, number))
        check(lib.unetmm_event_create(context.handle, number, out),
              lib.UNETMM_CALL_EVENT)
        return [cls(context, out[i]) for i in range(number)]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @property
    def handle(self):
        """The library's handle; ValueError if it is closed."""
        if self._handle is None:
            raise ValueError("this EventCounter is closed")
        return self._handle

    @property
    def value(self):
        """How often it was incremented; without a system call."""
        return lib.unetmm_event_read(self.handle)

    def wait(self, value, timeout=None, *, spin=False):
        """True when the counter has reached `value`; False after the timeout.

        It blocks, or (spin) makes no system call.
        """
        how = lib.UNETMM_EVENT_SPIN if spin else lib.UNETMM_EVENT_BLOCK
        return bool(check(again_after_signals(
            lambda ns: lib.unetmm_event_wait(self.handle, value, how, ns),
            timeout), lib.UNETMM_CALL_EVENT))

    def close(self):
        """Ends the counter; a second time does nothing."""
        if self._handle is None:
            return
        check(lib.unetmm_event_destroy(self._handle), lib.UNETMM_CALL_EVENT)
        self._handle = None
        self.context.event_counters.discard(self)
