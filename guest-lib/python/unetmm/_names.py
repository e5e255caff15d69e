# SPDX-License-Identifier: LGPL-2.1-or-later
"""Errors, constants and conversions that all modules of the package use."""
import enum
import errno
import functools
import time

from _unetmm import ffi, lib


def _numbers(name, prefix, doc, **more):
    """The numbers of linux/unetmm.h with a prefix, and `more`, as an enumeration."""
    found = {word.removeprefix(prefix): getattr(lib, word) for word in dir(lib)
             if word.startswith(prefix)} | more
    made = enum.IntEnum(name, sorted(found.items(), key=lambda item: item[1]),
                        module="unetmm")
    made.__doc__ = doc
    return made


Source = _numbers("Source", "UNETMM_SOURCE_",
                  "Where the card gets its translations from: unetmm_open(3).",
                  OBSERVE=lib.UNETMM_OBSERVE)
Policy = _numbers("Policy", "UNETMM_POLICY_",
                  "The action for a receive buffer with an absent page: unetmm_ep_create(3).")


class Type(enum.IntEnum):
    """The type of a completion."""
    SENT = lib.UNETMM_CQE_SENT
    RECEIVED = lib.UNETMM_CQE_RECEIVED
    BUFFER = lib.UNETMM_CQE_BUFFER
    FAILED = lib.UNETMM_CQE_FAILED
    NOTIFY = lib.UNETMM_CQE_NOTIFY
    UPDATE = lib.UNETMM_CQE_UPDATE
    CLOSED = lib.UNETMM_CQE_CLOSED
    WRITTEN = lib.UNETMM_CQE_WRITTEN


class Right(enum.IntFlag):
    """Operations that an export allows its peers."""
    WRITE = lib.UNETMM_RIGHT_WRITE
    READ = lib.UNETMM_RIGHT_READ
    ATOMIC = lib.UNETMM_RIGHT_ATOMIC
    ALL = lib.UNETMM_RIGHT_ALL


class Scope(enum.IntEnum):
    """The owner of statistics counters."""
    CARD = lib.UNETMM_SCOPE_CARD
    ENDPOINT = lib.UNETMM_SCOPE_ENDPOINT
    DRIVER = lib.UNETMM_SCOPE_DRIVER


class ChannelFlag(enum.IntFlag):
    """The type of a channel, and options beside it."""
    DATAGRAM = lib.UNETMM_DATAGRAM
    RELIABLE = lib.UNETMM_RELIABLE
    NOTIFY_CLOSE = lib.UNETMM_NOTIFY_CLOSE
    GO_BACK_N = lib.UNETMM_GO_BACK_N
    ANNOUNCE = lib.UNETMM_ANNOUNCE


class Error(OSError):
    """A call that failed; errno and strerror say why."""


class CompletionError(Error):
    """An operation that failed after it was posted; `completion` has its status."""

    completion = None


@functools.lru_cache(maxsize=None)
def _class_of(base, code):
    """`base` that is the built-in class of the errno, too."""
    builtin = type(OSError(code, ""))
    if builtin is OSError:
        return base
    return type(base.__name__, (base, builtin),
                {"__doc__": base.__doc__, "__module__": "unetmm"})


def error(code, call):
    """The exception for -errno that the call `call` (UNETMM_CALL_*) returned."""
    text = ffi.string(lib.unetmm_strerror(code, call)).decode()
    return _class_of(Error, abs(code))(abs(code), text)


def completion_error(completion):
    """The exception for a completion whose status is not OK."""
    code = -lib.unetmm_status_errno(completion.status)
    text = ffi.string(lib.unetmm_status_str(completion.status)).decode()
    raised = _class_of(CompletionError, code)(code, text)
    raised.completion = completion
    return raised


def check(ret, call=lib.UNETMM_CALL_ANY):
    """Returns a result that is not negative; raises the Error of another."""
    if ret < 0:
        raise error(ret, call)
    return ret


def nanoseconds(seconds):
    """A timeout as the library has it."""
    if seconds is None:
        return -1
    if seconds < 0:
        raise ValueError("a timeout is not negative; None waits without end")
    return min(int(seconds * 1e9), 2**63 - 1)


def address(peer):
    """Six bytes of a card's address, given so or as text or as a name."""
    mac = ffi.new("uint8_t[6]")
    if isinstance(peer, (bytes, bytearray)):
        if len(peer) != 6:
            raise ValueError("a card's address has six bytes")
        ffi.memmove(mac, peer, 6)
    else:
        check(lib.unetmm_resolve(peer.encode(), mac), lib.UNETMM_CALL_CONNECT)
    return mac


def mac_text(mac):
    """A card's address as text."""
    return ":".join(f"{byte:02x}" for byte in mac)


def readable(data):
    """(buffer that stays, as cffi has it; its length)."""
    cdata = ffi.from_buffer(data)
    return cdata, len(cdata)


def writable(data):
    """The same of memory that is written."""
    cdata = ffi.from_buffer(data, require_writable=True)
    return cdata, len(cdata)


def gather(pieces, view):
    """(iovec array, all that has to stay) of buffers."""
    iov = ffi.new("struct iovec[]", max(1, len(pieces)))
    kept = [iov]
    for entry, piece in zip(iov, pieces):
        cdata, entry.iov_len = view(piece)
        entry.iov_base = ffi.cast("void *", cdata)
        kept.append(cdata)
    return iov, kept


def _deadline(timeout):
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline):
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def again_after_signals(call, timeout):
    """Calls `call(nanoseconds)` until its result is not -EINTR.

    Python runs its signal handlers in between (PEP 475); one that raises ends it.
    """
    nanoseconds(timeout)        # refuses a negative one
    deadline = _deadline(timeout)
    while True:
        ret = call(nanoseconds(_left(deadline)))
        if ret != -errno.EINTR:
            return ret
