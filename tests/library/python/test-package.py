#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The Python package against the library, whose driver and card are fake_loop.c.

usage: test-package.py [-k PATTERN]
"""
import array
import asyncio
import ctypes
import enum
import errno
import gc
import inspect
import mmap
import os
import re
import signal
import threading
import time
import unittest
import weakref

import tap
import unetmm
import unetmm.aio
from _unetmm import lib

try:
    import numpy
except ImportError:
    numpy = None

PEER = "52:54:00:00:00:01"
SERVICE = 100
LONG = bytes(range(256)) * 16
LIMIT = 60


class Loop(unittest.TestCase):
    """A card, two endpoints on it, and a channel between them."""

    def setUp(self):
        self.card = unetmm.Context("/loop")
        self.a, self.b = self.card.endpoint(), self.card.endpoint()
        self.b.listen(SERVICE)
        self.to_b = self.a.connect(PEER, SERVICE, timeout=1)
        self.to_a = self.b.accept(timeout=0)

    def tearDown(self):
        self.card.close()
        self.assertEqual(lib.loop_leaks(), 0, "the library has leaked")

    def one(self, endpoint):
        """The next completion, which has to come."""
        [completion] = endpoint.wait(timeout=LIMIT, most=1)
        return completion


class Peers(Loop):
    """Listeners that may be announced."""

    def test_who_listens(self):
        self.assertEqual(self.card.peers(timeout=0), [])
        flags = unetmm.ChannelFlag.RELIABLE | unetmm.ChannelFlag.ANNOUNCE
        self.b.listen(SERVICE, flags=flags)
        [found] = self.card.peers()
        self.assertEqual(
            (found.mac, found.service, found.mtu, found.types, found.program),
            (PEER, SERVICE, 9000, unetmm.ChannelFlag.RELIABLE, "loop"))
        self.assertEqual(self.card.peers(PEER, SERVICE, timeout=0), [found])
        self.assertEqual(self.card.peers(service=SERVICE + 1, timeout=0), [])


class Messages(Loop):
    """Sending and receiving."""

    def test_short_message(self):
        self.to_b.send(b"hello", "context")
        got = self.one(self.b)
        self.assertEqual((got.type, got.data, got.length),
                         (unetmm.Type.RECEIVED, b"hello", 5))
        self.assertIs(got.channel, self.to_a)
        sent = self.one(self.a).check()
        self.assertEqual((sent.type, sent.context),
                         (unetmm.Type.SENT, "context"))
        self.assertEqual(sent.buffer, b"hello")

    def test_long_message_is_in_the_buffer_itself(self):
        buffer = bytearray(8192)
        self.b.post_recv(buffer, "mine")
        self.to_b.send(LONG)
        got = self.one(self.b)
        self.assertEqual(got.context, "mine")
        self.assertIs(got.buffer, buffer)
        self.assertEqual(got.data, LONG)
        buffer[0] = 99
        self.assertEqual(got.data[0], 99)

    def test_gather(self):
        self.to_b.send([b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3]])
        self.assertEqual(self.one(self.b).data, b"abcdef")

    def test_buffers_of_other_types(self):
        buffers = [array.array("I", [0] * 2048), mmap.mmap(-1, 8192)]
        if numpy:
            buffers.append(numpy.zeros((4, 512), dtype=numpy.uint32))
        for buffer in buffers:
            with self.subTest(type(buffer)):
                self.b.post_recv(buffer)
                self.to_b.send(LONG)
                self.assertEqual(bytes(self.one(self.b).data), LONG)
                self.assertEqual(bytes(buffer)[:len(LONG)], LONG)
                self.b.post_recv(bytearray(8192))
                self.to_b.send(buffer)
                self.assertEqual(bytes(self.one(self.b).data), bytes(buffer))
                while self.a.poll():
                    pass

    @unittest.skipUnless(numpy, "there is no NumPy")
    def test_numpy_without_copies(self):
        target = numpy.zeros(1024, dtype=numpy.uint32)
        self.b.post_recv(target)
        self.to_b.send(numpy.arange(1024, dtype=numpy.uint32))
        view = numpy.frombuffer(self.one(self.b).data, dtype=numpy.uint32)
        self.assertTrue(numpy.shares_memory(view, target))
        self.assertEqual(int(target.sum()), 1024 * 1023 // 2)
        with self.assertRaises((ValueError, BufferError)):
            self.to_b.send(target[::2])

    def test_a_posted_buffer_stays_until_its_completion(self):
        class Buffer(bytearray):
            """Can be referred to weakly."""
        buffer = Buffer(8192)
        reference = weakref.ref(buffer)
        self.b.post_recv(buffer)
        with self.assertRaises(BufferError):
            buffer.append(0)
        del buffer
        gc.collect()
        self.assertIsNotNone(reference())
        self.to_b.send(LONG)
        got = self.one(self.b)
        self.assertEqual(got.data, LONG)
        del got
        gc.collect()
        self.assertIsNone(reference())

    def test_a_read_only_buffer_is_not_posted(self):
        with self.assertRaises((TypeError, BufferError)):
            self.b.post_recv(b"read only")
        self.assertEqual(self.b.contexts(), [])

    def test_a_full_queue_is_a_blocking_io_error(self):
        lib.loop_allow(lib.loop_newest() - 1, 0)
        with self.assertRaises(BlockingIOError) as caught:
            for _ in range(1000):
                self.to_b.send(b"x")
        self.assertEqual(caught.exception.errno, errno.EAGAIN)
        self.assertEqual(len(self.a.contexts()), 256)

    def test_no_buffer_fails_the_send(self):
        self.a.connect(PEER, SERVICE, timeout=1, rnr_retries=1).send(LONG)
        failed = self.one(self.a)
        with self.assertRaises(unetmm.CompletionError) as caught:
            failed.check()
        self.assertIs(caught.exception.completion, failed)
        self.assertNotEqual(caught.exception.errno, 0)

    def test_shutdown_waits_for_what_was_sent(self):
        self.to_b.send(b"last words")
        self.to_b.shutdown(timeout=LIMIT)
        got = self.b.wait(timeout=LIMIT)
        while len(got) < 2:
            got += self.b.wait(timeout=LIMIT)
        self.assertEqual([c.type for c in got],
                         [unetmm.Type.RECEIVED, unetmm.Type.CLOSED])
        self.assertEqual(self.a.channels, {})

    def test_mtu(self):
        self.assertEqual(self.to_b.mtu, self.to_b.peer.mtu)


class Waits(Loop):
    """Timeouts, signals, threads."""

    def test_the_timeout_passes(self):
        start = time.monotonic()
        self.assertEqual(self.b.wait(timeout=0.05), [])
        self.assertGreaterEqual(time.monotonic() - start, 0.05)
        self.assertEqual(self.b.wait(timeout=0), [])
        with self.assertRaises(ValueError):
            self.b.wait(timeout=-1)

    def test_a_wait_lets_other_threads_run(self):
        def send():
            started.wait()
            self.to_b.send(b"from a thread")
        started = threading.Event()
        # spin=None would never block: the lock is released all the same.
        with self.card.endpoint(spin=None) as spinning:
            spinning.listen(SERVICE + 1)
            self.to_b = self.a.connect(PEER, SERVICE + 1, timeout=1)
            thread = threading.Thread(target=send)
            thread.start()
            started.set()
            [got] = spinning.wait(timeout=LIMIT)
            thread.join()
            self.assertEqual(got.data, b"from a thread")

    def test_a_signal_does_not_end_a_wait(self):
        seen = []
        before = signal.signal(signal.SIGALRM,
                               lambda *_: (seen.append(1),
                                           self.to_b.send(b"by a signal")))
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        [got] = self.b.wait(timeout=LIMIT)
        self.assertEqual((got.data, seen), (b"by a signal", [1]))

    def test_a_handler_that_raises_ends_a_wait(self):
        def handler(*_):
            raise KeyError("interrupted")
        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        with self.assertRaises(KeyError):
            # The handler may run before the wait begins.
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            self.b.wait(timeout=LIMIT)

    def test_arm_and_descriptor(self):
        self.assertFalse(self.b.arm())
        self.to_b.send(b"x")
        self.one(self.a)
        self.assertTrue(self.b.arm())
        self.assertGreaterEqual(self.b.fileno(), 0)


class Errors(unittest.TestCase):
    """Each error is an OSError of its errno's class, with words."""

    def test_no_card(self):
        with self.assertRaises(FileNotFoundError) as caught:
            unetmm.Context("/nowhere/unetmm0")
        self.assertIsInstance(caught.exception, unetmm.Error)
        self.assertEqual(caught.exception.errno, errno.ENOENT)
        self.assertTrue(caught.exception.strerror)

    def test_nobody_listens(self):
        with unetmm.Context("/loop") as card, card.endpoint() as ep:
            with self.assertRaises(TimeoutError) as caught:
                ep.connect(PEER, 1, timeout=0.01)
            self.assertIsInstance(caught.exception, unetmm.Error)
            with self.assertRaises(TimeoutError):
                ep.accept(timeout=0)
            for wrong in ("nonsense.invalid", b"12345"):
                with self.assertRaises((ValueError, OSError)):
                    ep.connect(wrong, 1, timeout=0)

    def test_a_call_that_fails_leaks_nothing(self):
        for after in range(4):
            lib.loop_fail(after, errno.ENOMEM)
            try:
                with unetmm.Context("/loop") as card, card.endpoint() as a, \
                        card.endpoint() as b:
                    b.listen(SERVICE)
                    a.connect(PEER, SERVICE, timeout=1)
            except unetmm.Error as error:
                self.assertEqual(error.errno, errno.ENOMEM)
            self.assertTrue(lib.loop_has_failed(), after)
            self.assertEqual(lib.loop_leaks(), 0)
        lib.loop_fail(0, 0)

    def test_closed_handles(self):
        card = unetmm.Context("/loop")
        ep = card.endpoint()
        card.close()
        card.close()
        for call in (card.info, ep.poll, ep.fileno, card.endpoint):
            with self.assertRaises(ValueError):
                call()

    def test_one_that_is_not_closed_is_a_warning_and_closed(self):
        # Else the card writes on into the buffer, which is the next object's.
        card = unetmm.Context("/loop")
        card.endpoint().post_recv(bytearray(4096))
        card.export(1, bytearray(4096))
        with self.assertWarns(ResourceWarning):
            del card
            gc.collect()
        self.assertEqual(lib.loop_leaks(), 0)

    def test_an_export_that_does_not_end_is_kept(self):
        with unetmm.Context("/loop") as card:
            export = card.export(1, bytearray(4096))
            handle, card._handle = card._handle, None
            with self.assertRaises(ValueError):
                export.close()
            card._handle = handle
            self.assertIn(1, card.exports)
            export.close()
            self.assertNotIn(1, card.exports)

    def test_a_forked_child_has_nothing(self):
        with unetmm.Context("/loop") as card, card.endpoint() as ep:
            child = os.fork()
            if not child:
                try:
                    ep.poll()
                except unetmm.Error as error:
                    os._exit(0 if error.errno == errno.EOWNERDEAD else 1)
                os._exit(2)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_info_and_statistics(self):
        with unetmm.Context("/loop") as card:
            info = card.info()
            self.assertEqual((info.link, info.endpoints), (True, 8))
            self.assertIn("sends_done", card.statistics())
            # The fake has no counters of the driver: its errno becomes the error.
            with self.assertRaises(unetmm.Error) as caught:
                card.statistics(unetmm.Scope.DRIVER)
            self.assertEqual(caught.exception.errno, errno.ENOENT)

    def test_channel_ends(self):
        with unetmm.Context("/loop") as card, card.endpoint() as a, \
                card.endpoint() as b:
            b.listen(SERVICE)
            with a.connect(PEER, SERVICE, timeout=1) as channel:
                theirs = b.accept(timeout=0)
                self.assertEqual(channel.peer.mac, PEER)
            channel.close()
            [closed] = b.wait(timeout=LIMIT)
            self.assertEqual(closed.type, unetmm.Type.CLOSED)
            self.assertIs(closed.channel, theirs)
            with self.assertRaises(unetmm.Error) as caught:
                channel.send(b"x")
            self.assertEqual(caught.exception.errno, errno.ENOENT)


class Memory(Loop):
    """Exports, imports, counters."""

    def test_write_read_atomics(self):
        memory = bytearray(4096)
        with self.card.export(7, memory, rights=unetmm.Right.ALL):
            with self.to_b.import_(7, timeout=1) as peer:
                self.assertEqual(len(peer), 4096)
                peer.write(16, LONG[:64])
                self.one(self.a).check()
                self.assertEqual(memory[16:80], LONG[:64])
                target = bytearray(32)
                peer.read(16, target)
                self.one(self.a).check()
                self.assertEqual(target, LONG[:32])
                for before in (0, 5):
                    peer.fetch_add(0, 5)
                    self.assertEqual(self.one(self.a).check().old, before)
                with self.assertRaises(unetmm.Error) as caught:
                    peer.write(4096, b"x")
                self.assertEqual(caught.exception.errno, errno.ERANGE)
        self.assertEqual(memory[:8], (10).to_bytes(8, "little"))

    def test_operations_by_key(self):
        memory = bytearray(4096)
        with self.card.export(7, memory, keyed=True) as export:
            key, base = export.key
            peer = self.to_b.memory(key)
            peer.write(base + 16, LONG[:64])
            self.one(self.a).check()
            self.assertEqual(memory[16:80], LONG[:64])
            target = bytearray(32)
            peer.read(base + 16, target)
            self.one(self.a).check()
            self.assertEqual(target, LONG[:32])
            peer.fetch_add(base, 5)
            self.assertEqual(self.one(self.a).check().old, 0)
            peer.compare_swap(base, 5, 9)
            self.assertEqual(self.one(self.a).check().old, 5)
            peer.write(base + 4090, LONG[:64])
            with self.assertRaises(unetmm.CompletionError):
                self.one(self.a).check()
            self.to_b.memory(key ^ 1).write(base, b"x")
            with self.assertRaises(unetmm.CompletionError):
                self.one(self.a).check()
            with self.assertRaises(ValueError):
                peer.write(base, b"x", notify=1, imm=2)
        self.assertEqual(memory[:8], (9).to_bytes(8, "little"))
        with self.card.export(8, memory) as export:
            with self.assertRaises(FileNotFoundError):
                print(export.key)

    def test_the_whole_address_space(self):
        one, two = bytearray(64), mmap.mmap(-1, 4096)
        with self.card.export(7, None) as export:
            key, base = export.key
            self.assertEqual(base, 0)
            peer = self.to_b.memory(key)
            for memory in (one, two):
                at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
                peer.write(at + 8, LONG[:16])
                self.one(self.a).check()
                self.assertEqual(memory[8:24], LONG[:16])
        peer.write(at, b"x")
        with self.assertRaises(unetmm.CompletionError):
            self.one(self.a).check()
        self.assertEqual(two[0], 0)

    def test_immediates(self):
        memory, buffer = bytearray(64), bytearray(4096)
        self.to_b.send(b"message", imm=0xfeedbeef)
        message = self.one(self.b)
        self.assertEqual((bytes(message.data), message.imm),
                         (b"message", 0xfeedbeef))
        self.to_b.send(b"none")
        self.one(self.a)
        self.one(self.a)
        self.assertIsNone(self.one(self.b).imm)
        with self.card.export(7, memory), \
                self.to_b.import_(7, timeout=1) as peer:
            self.b.post_recv(buffer, "posted")
            peer.write(8, b"written", imm=0)
            self.one(self.a).check()
            written = self.one(self.b)
            self.assertEqual(
                (written.type, written.imm, written.length, written.context),
                (unetmm.Type.WRITTEN, 0, 7, "posted"))
            self.assertIs(written.buffer, buffer)
            self.assertEqual(memory[8:15], b"written")

    def test_there_is_no_such_export(self):
        with self.assertRaises(TimeoutError):
            self.to_b.import_(8, timeout=0)
        with self.assertRaises(TimeoutError):
            self.to_b.import_(8, timeout=0.01)

    def test_an_exported_buffer_stays(self):
        memory = bytearray(64)
        export = self.card.export(7, memory)
        with self.assertRaises(BufferError):
            memory.append(0)
        export.close()
        memory.append(0)

    def test_event_counter(self):
        memory = bytearray(64)
        [counter] = self.card.counters()
        with self.card.export(7, memory, counters=[counter]), \
                self.to_b.import_(7, timeout=1) as peer:
            self.assertFalse(counter.wait(1, timeout=0))
            with self.assertRaises(OSError) as caught:
                counter.close()
            self.assertEqual(caught.exception.errno, errno.EBUSY)
            peer.write(0, b"data", count=0)
            self.assertTrue(counter.wait(1, timeout=LIMIT))
            self.assertEqual((counter.value, memory[:4]), (1, b"data"))
            with self.assertRaises(ValueError):
                peer.write(0, b"x", notify=1, count=0)
        counter.close()


class Asyncio(unittest.TestCase):
    """All of it in one loop, by descriptors."""

    def run_loop(self, coroutine):
        troubles = []

        async def limited():
            asyncio.get_running_loop().set_exception_handler(
                lambda _loop, trouble: troubles.append(trouble))
            with unetmm.Context("/loop") as card:
                await asyncio.wait_for(coroutine(card), LIMIT)
        asyncio.run(limited())
        self.assertEqual(troubles, [])
        self.assertEqual(lib.loop_leaks(), 0)
        self.assertEqual(unetmm.aio.Connections._of_context, {})

    def test_echo_and_close(self):
        async def serve(ep):
            channel = await ep.accept()
            buffers = [bytearray(8192) for _ in range(4)]
            for buffer in buffers:
                ep.post_recv(buffer)
            for _ in range(20):
                got = await ep.receive()
                await ep.send(channel, got.data)
                if got.buffer is not None:
                    ep.post_recv(got.buffer)
            return await ep.closed(channel)

        async def main(card):
            async with unetmm.aio.Endpoint(card) as server, \
                    unetmm.aio.Endpoint(card) as client:
                server.listen(SERVICE)
                task = asyncio.create_task(serve(server))
                await asyncio.sleep(0)      # the accept waits before the connect
                channel = await client.connect(PEER, SERVICE, timeout=1)
                for i in range(20):
                    message = LONG[:20 + i * 100]
                    client.post_recv(bytearray(8192))
                    await client.send(channel, message)
                    self.assertEqual((await client.receive()).data, message)
                await client.shutdown(channel)
                self.assertEqual((await task).type, unetmm.Type.CLOSED)
        self.run_loop(main)

    def test_two_that_accept(self):
        async def main(card):
            async with unetmm.aio.Endpoint(card) as one, \
                    unetmm.aio.Endpoint(card) as two, \
                    unetmm.aio.Endpoint(card) as client:
                one.listen(1)
                two.listen(2)
                tasks = [asyncio.create_task(one.accept()),
                         asyncio.create_task(two.accept())]
                await asyncio.sleep(0)
                await client.connect(PEER, 2, timeout=1)
                await tasks[1]
                self.assertFalse(tasks[0].done())
                await client.connect(PEER, 1, timeout=1)
                await tasks[0]
        self.run_loop(main)

    def test_one_sided(self):
        async def main(card):
            memory = bytearray(4096)
            async with unetmm.aio.Endpoint(card) as a, \
                    unetmm.aio.Endpoint(card) as b:
                b.listen(SERVICE)
                channel = await a.connect(PEER, SERVICE, timeout=1)
                await b.accept()
                with self.assertRaises(TimeoutError):
                    await a.import_(channel, 7, timeout=0.02)
                waiting = asyncio.create_task(a.import_(channel, 7))
                await asyncio.sleep(0.02)
                with card.export(7, memory):
                    peer = await waiting
                    await a.write(peer, 8, b"data")
                    target = bytearray(4)
                    await a.read(peer, 8, target)
                    self.assertEqual(target, b"data")
                    self.assertEqual(await a.fetch_add(peer, 0, 3), 0)
                    self.assertEqual(await a.fetch_add(peer, 0, 3), 3)
                with self.assertRaises(unetmm.CompletionError):
                    await a.write(peer, 8, b"revoked")
        self.run_loop(main)

    def test_a_full_queue_is_waited_for(self):
        async def main(card):
            async with unetmm.aio.Endpoint(card, send_slots=8) as a, \
                    unetmm.aio.Endpoint(card) as b:
                b.listen(SERVICE)
                channel = await a.connect(PEER, SERVICE, timeout=1)
                await b.accept()
                lib.loop_allow(lib.loop_newest() - 1, 0)
                tasks = [asyncio.create_task(a.send(channel, b"%d" % i))
                         for i in range(40)]
                await asyncio.sleep(0.01)
                self.assertFalse(any(task.done() for task in tasks))
                lib.loop_allow(lib.loop_newest() - 1, 2**64 - 1)
                await asyncio.gather(*tasks)
                got = {bytes((await b.receive()).data) for _ in range(40)}
                self.assertEqual(len(got), 40)
        self.run_loop(main)

    def test_the_end_is_not_that_of_the_next_channel(self):
        async def main(card):
            async with unetmm.aio.Endpoint(card) as server, \
                    unetmm.aio.Endpoint(card) as client:
                server.listen(SERVICE)
                to_server = await client.connect(PEER, SERVICE, timeout=1)
                first = await server.accept()
                # Both sides: the loop does not run between the two calls.
                to_server.close()
                first.close()
                to_server = await client.connect(PEER, SERVICE, timeout=1)
                second = await server.accept()
                # The number rests until the end of `first` was taken.
                while second.number != first.number:
                    to_server.close()
                    second.close()
                    to_server = await client.connect(PEER, SERVICE, timeout=1)
                    second = await server.accept()
                waiting = asyncio.create_task(server.closed(second))
                await server.send(second, b"alive")
                await client.receive()
                self.assertFalse(waiting.done())
                to_server.close()
                self.assertIs((await waiting).channel, second)
                with self.assertRaises(asyncio.CancelledError):
                    await server.closed(first)
        self.run_loop(main)

    def test_closing_cancels_what_waits(self):
        async def main(card):
            ep = unetmm.aio.Endpoint(card)
            other = unetmm.aio.Endpoint(card)
            other.listen(SERVICE)
            channel = await ep.connect(PEER, SERVICE, timeout=1)
            task = asyncio.create_task(ep.closed(channel))
            await asyncio.sleep(0)
            ep.close()
            with self.assertRaises(asyncio.CancelledError):
                await task
            other.close()
        self.run_loop(main)


def public_calls(cls):
    """{name: function} of a class, with those that its bases have."""
    return {name: value for base in reversed(cls.__mro__) if base is not object
            for name, value in vars(base).items()
            if not name.startswith("_") and
            (inspect.isfunction(value) or isinstance(value, property))}


# Arguments of calls by their names: good ones, for an object that is open.
ARGUMENTS = {
    "peer": PEER, "service": SERVICE, "buffer": bytearray(64), "data": b"x", "number": 1,
    "offset": 0, "value": 0, "compare": 0, "swap": 0, "key": 1, "call": 0,
    "post": lambda number: 0, "timeout": 0, "channel": None,
}


class Documented(Loop):
    """Each call of the package, by its own lists: in a test, and after the close."""

    def setUp(self):
        super().setUp()
        memory = bytearray(64)
        [counter] = self.card.counters()
        export = self.card.export(3, memory, redirect=True)
        self.handles = [self.card, self.a, self.to_b, export, counter,
                        self.to_b.import_(3, timeout=1), self.to_b.memory(1)]

    def test_each_class_is_walked(self):
        classes = {getattr(unetmm, name) for name in unetmm.__all__}
        self.assertEqual(
            {cls for cls in classes if not issubclass(cls, (Exception, enum.Enum))} -
            {unetmm.Completion, unetmm.Info},
            {type(handle) for handle in self.handles})

    def test_each_call_is_in_a_test(self):
        """Of the classes, and of the page, whose calls are followed by ()."""
        text = ""
        for name in ("test-package.py", "test-aio.py"):
            with open(os.path.join(os.path.dirname(__file__), name),
                      encoding="utf-8") as file:
                text += file.read()
        with open(os.path.join(os.path.dirname(__file__), "../../../docs/python.rst"),
                  encoding="utf-8") as file:
            page = file.read()
        names = set(re.findall(r"``[\w.]*?(\w+)\([^`]*\)``", page))
        # Calls of Python's own, and manual pages
        names -= {"help", "addressof", "frombuffer", "libunetmm", "unetmm_peers"}
        for handle in self.handles:
            names |= set(public_calls(type(handle)))
        # Calls of the package's own modules
        names -= {"forget", "handle", "is_open", "submit"}
        self.assertEqual([name for name in sorted(names)
                          if not re.search(rf"\.{name}\b", text)], [])

    def test_pins_and_redirections(self):
        """Calls of which the double of the driver has the refusal alone."""
        buffer = bytearray(4096)
        export = self.handles[3]
        for call in (lambda: self.card.register(buffer),
                     lambda: self.card.deregister(buffer),
                     lambda: self.card.prefetch(buffer),
                     lambda: self.card.probe(PEER),
                     lambda: export.redirect(0, buffer),
                     lambda: export.redirect_back(0),
                     lambda: export.redirect_end(0)):
            with self.assertRaises(unetmm.Error):
                call()
        # A refused buffer is the caller's.
        buffer.append(0)

    def test_more_and_ring(self):
        self.to_b.send(b"one", more=True)
        self.a.ring()
        self.assertEqual(self.one(self.b).data, b"one")

    def call(self, handle, name, value):
        """Calls a method, or reads a property, with good arguments."""
        if isinstance(value, property):
            return getattr(handle, name)
        needed = [ARGUMENTS[parameter.name] for parameter in
                  list(inspect.signature(value).parameters.values())[1:]
                  if parameter.default is parameter.empty and
                  parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        more = {"timeout": 0} if "timeout" in inspect.signature(value).parameters and \
            len(needed) < 2 else {}
        return getattr(handle, name)(*needed, **more)

    def test_each_call_after_the_close(self):
        self.card.close()
        # No handle of the library is left: these need none.
        harmless = {"close", "contexts", "forget", "is_open", "memory", "submit"}
        for handle in self.handles:
            for name, value in public_calls(type(handle)).items():
                with self.subTest(f"{type(handle).__name__}.{name}"):
                    if name in harmless:
                        self.call(handle, name, value) if name != "forget" else None
                        continue
                    with self.assertRaises((ValueError, unetmm.Error)):
                        self.call(handle, name, value)

    def test_each_call_of_a_closed_part(self):
        """Closes a part alone: its card stays open."""
        for handle in self.handles[2:6]:
            handle.close()
            handle.close()
            for name, value in public_calls(type(handle)).items():
                if name in ("close", "is_open", "memory"):
                    continue
                with self.subTest(f"{type(handle).__name__}.{name}"):
                    try:
                        self.call(handle, name, value)
                        # A posted operation fails by its completion.
                        self.assertIsNot(self.one(self.a).status, 0)
                    except (ValueError, unetmm.Error):
                        pass


if __name__ == "__main__":
    tap.main(__name__)
