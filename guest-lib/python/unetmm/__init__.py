# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages and memory of peers through an unetmm card, for Python.

    import unetmm

    with unetmm.Context() as card, card.endpoint() as ep:
        channel = ep.connect("52:54:00:6d:00:01", 100, timeout=5)
        channel.send(b"hello")
        for completion in ep.wait(timeout=5):
            print(completion)

The classes are those of libunetmm(7): a Context is an open card, an Endpoint has
queues, a Channel leads to a peer's endpoint, an Export is memory that peers may use,
an Import is such memory of a peer, and a Keyed is the same by a key.  unetmm.aio has them for asyncio; unetmm.lab starts
guests on the host, and needs neither the card nor the library.

Times are in seconds; None waits without end and 0 does not wait.  A call that fails
raises Error, an OSError with errno, which is also the built-in class of that errno:
`except TimeoutError` and `except BlockingIOError` work.  Calls release the global
interpreter lock.  Buffers are objects with the buffer protocol (bytes, bytearray,
memoryview, mmap, NumPy arrays), contiguous; nothing is copied, and the package keeps
a reference until the card has done with the memory.
"""
import importlib

_HOMES = {
    "_core": ("Context", "Endpoint", "Channel", "Completion", "Info"),
    "_memory": ("Export", "Import", "Keyed", "EventCounter"),
    "_names": ("Error", "CompletionError", "Source", "Policy", "Type", "Right",
               "Scope", "ChannelFlag"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0604


def __getattr__(name):
    # unetmm.lab is used on hosts that do not have the library.
    if name in _HOME:
        return getattr(importlib.import_module(f"unetmm.{_HOME[name]}"), name)
    raise AttributeError(f"module 'unetmm' has no attribute '{name}'")


def __dir__():
    return [*globals(), *__all__]
