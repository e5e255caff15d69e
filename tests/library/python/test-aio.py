#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Each coroutine of unetmm.aio.Endpoint, ended at each of its steps.

A call is begun, the loop takes so many steps, and then the call is cancelled, or its
endpoint, card, peer or channel ends.  The coroutine must end; no channel, buffer or waiter
may stay; and after a cancellation the endpoint must work as before.

usage: test-aio.py [-k PATTERN]
"""
import asyncio
import concurrent.futures
import inspect
import threading
import time
import types
import unittest
from unittest import mock

import tap
import unetmm
import unetmm.aio
from _unetmm import lib

PEER = "52:54:00:00:00:01"
SERVICE, NOBODY = 100, 101
LIMIT = 10
STEPS = 8
# The loop is blocked so long that the executor's thread has done its part meanwhile.
BLOCKED = 0.004
EXPORT = 7


class Scene:
    """Two endpoints, a channel between them, and an import of memory of b."""

    def __init__(self, card):
        self.card = card
        self.memory = bytearray(4096)
        self.helpers = []

    async def open(self):
        """Has the executor make one call at a time, so that idle() can wait for all."""
        asyncio.get_running_loop().set_default_executor(
            concurrent.futures.ThreadPoolExecutor(1))
        self.a = unetmm.aio.Endpoint(self.card, send_slots=8)
        self.number = lib.loop_newest()
        self.b = unetmm.aio.Endpoint(self.card)
        self.b.listen(SERVICE)
        self.to_b = await self.a.connect(PEER, SERVICE, timeout=LIMIT)
        self.to_a = await self.b.accept()
        self.export = self.card.export(EXPORT, self.memory)
        self.peer = await self.a.import_(self.to_b, EXPORT, timeout=LIMIT)

    def hold(self, on=True):
        """Nothing that a posts is carried, until it is again."""
        lib.loop_allow(self.number, 0 if on else 2**64 - 1)

    def help(self, coroutine):
        """Another task, which makes the call succeed."""
        self.helpers.append(asyncio.ensure_future(coroutine))

    async def idle(self):
        """Returns when no call is in the executor, and its callbacks are done."""
        await asyncio.get_running_loop().run_in_executor(None, int)
        for _ in range(5):
            await asyncio.sleep(0)


def held(call):
    """The same call, whose operation stays on its way."""
    def begin(scene):
        scene.hold()
        return call(scene)
    return begin


def full(call):
    """The same call, when the send queue has no room."""
    def begin(scene):
        scene.hold()
        try:
            while True:
                scene.to_b.send(b"filler")
        except BlockingIOError:
            return call(scene)
    return begin


def accept_comes(scene):
    """A connection is on its way to b."""
    scene.help(scene.a.connect(PEER, SERVICE, timeout=LIMIT))
    return scene.b.accept()


def receive_comes(scene):
    """A message is on its way to a."""
    scene.help(scene.b.send(scene.to_a, b"message"))
    return scene.a.receive()


def operations(call):
    """An operation that is carried, that is on its way, that finds no room."""
    return [call, held(call), full(call)]


# Of each coroutine: the calls that are walked.
CALLS = {
    "accept": [accept_comes, lambda s: s.b.accept()],
    "connect": [lambda s: s.a.connect(PEER, SERVICE, timeout=LIMIT),
                lambda s: s.a.connect(PEER, NOBODY, timeout=LIMIT),
                lambda s: s.a.connect(PEER, NOBODY, timeout=0)],
    "closed": [lambda s: s.a.closed(s.to_b)],
    "shutdown": operations(lambda s: s.a.shutdown(s.to_b)),
    "receive": [receive_comes, lambda s: s.a.receive()],
    "operate": operations(lambda s: s.a.operate(s.to_b.fence)),
    "send": operations(lambda s: s.a.send(s.to_b, b"message")),
    "write": operations(lambda s: s.a.write(s.peer, 8, b"data")),
    "read": operations(lambda s: s.a.read(s.peer, 8, bytearray(16))),
    "fetch_add": operations(lambda s: s.a.fetch_add(s.peer, 0, 1)),
    "compare_swap": operations(lambda s: s.a.compare_swap(s.peer, 0, 0, 1)),
    "import_": [lambda s: s.a.import_(s.to_b, EXPORT, timeout=LIMIT),
                lambda s: s.a.import_(s.to_b, EXPORT + 1)],
}
# Calls that have nothing to do with a's channel
ELSEWHERE = {"accept", "connect", "receive"}


def stop(endpoint):
    """The card stops an endpoint: its queues give an error from now on."""
    def poll(*_):
        raise unetmm.Error(5, "stopped")
    endpoint.plain.poll = poll
    asyncio.get_running_loop().call_soon(endpoint._pump)


def end_of(scene, name):
    """The endpoint whose coroutine the call is."""
    return scene.b if name == "accept" else scene.a


# Ways to end a call, with the name of the call
WAYS = {
    "cancel": lambda s, name, task: task.cancel(),
    "close": lambda s, name, task: end_of(s, name).close(),
    "card": lambda s, name, task: s.card.close(),
    "stop": lambda s, name, task: stop(end_of(s, name)),
    "channel": lambda s, name, task: s.to_b.close(),
    "peer": lambda s, name, task: s.b.close(),
}


async def leaves_nothing(scene, owned):
    """Requires that nothing of the call is left but the channels that somebody has."""
    await scene.idle()
    for endpoint in (scene.a, scene.b):
        assert not endpoint._waiting and not endpoint._room and \
            not endpoint._receivers, "a waiter is left"
    assert not unetmm.aio.Connections._of_context, "a watch is left"
    left = set(scene.a.plain.channels.values()) - owned
    assert not left, f"nobody has {left}"


async def works(scene):
    """Requires that all posted operations end, and that messages come."""
    deadline = time.monotonic() + LIMIT
    while scene.a.plain.contexts():
        assert time.monotonic() < deadline, "an operation is left"
        await asyncio.sleep(0.001)
    await scene.a.send(scene.to_b, b"after")
    while bytes((await scene.b.receive()).data) != b"after":
        pass


async def walk(card, name, begin, way, step):
    """Ends a call at a step; True if it had returned before."""
    scene = Scene(card)
    await scene.open()
    task = asyncio.ensure_future(begin(scene))
    blocks, turns = divmod(step, STEPS)
    for _ in range(turns):
        await asyncio.sleep(0)
    if blocks:
        time.sleep(BLOCKED)
    early = task.done()
    WAYS[way](scene, name, task)
    if way != "card":
        scene.hold(False)
    done, _ = await asyncio.wait({task}, timeout=LIMIT)
    assert done, "the call does not end"
    returned = None if task.cancelled() or task.exception() else task.result()
    others = await asyncio.gather(*scene.helpers, return_exceptions=True)
    if way in ("cancel", "channel"):
        await leaves_nothing(scene, {scene.to_b, returned, *(
            other for other in others if isinstance(other, unetmm._core.Channel))})
    if way == "cancel" and scene.a.plain.channels.get(scene.to_b.number) is scene.to_b:
        await works(scene)
    scene.a.close()
    scene.b.close()
    return early


class Walk(unittest.TestCase):
    """Each call of CALLS in each of WAYS."""

    def test_each_coroutine_has_its_calls(self):
        found = {name for name, value in vars(unetmm.aio.Endpoint).items()
                 if inspect.iscoroutinefunction(value) and not name.startswith("__")}
        self.assertEqual(found, set(CALLS))

    def one(self, name, begin, way, step):
        """One walk in a loop of its own; True if the call had returned before."""
        troubles = []

        async def limited():
            asyncio.get_running_loop().set_exception_handler(
                lambda _loop, trouble: troubles.append(trouble))
            with unetmm.Context("/loop") as card:
                return await asyncio.wait_for(walk(card, name, begin, way, step),
                                              3 * LIMIT)
        early = asyncio.run(limited())
        self.assertEqual(troubles, [])
        self.assertEqual(lib.loop_leaks(), 0, "the library has leaked")
        return early

    def every_step(self, name, way):
        """A call of that name, as often as it has steps, and with a blocked loop."""
        for number, begin in enumerate(CALLS[name]):
            for step in range(2 * STEPS):
                with self.subTest(call=number, step=step):
                    if self.one(name, begin, way, step):
                        break


def add_walks():
    """A test for each coroutine and way."""
    for way in WAYS:
        for name in CALLS:
            if way in ("channel", "peer") and name in ELSEWHERE:
                continue

            def test(self, name=name, way=way):
                self.every_step(name, way)
            setattr(Walk, f"test_{way}_{name}", test)


add_walks()


class Closed(unittest.TestCase):
    """Calls of an endpoint that is closed, and ends that the walks do not have."""

    def run_loop(self, coroutine):
        async def limited():
            with unetmm.Context("/loop") as card:
                await asyncio.wait_for(coroutine(card), LIMIT)
        asyncio.run(limited())
        self.assertEqual(lib.loop_leaks(), 0)

    def test_each_call_after_the_close(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            scene.a.close()
            scene.a.close()
            scene.b.close()
            for name, calls in CALLS.items():
                # The last call of each list needs no helper, the first no room.
                call = calls[0 if len(calls) == 3 else -1]
                raised = asyncio.CancelledError if name == "closed" else ValueError
                with self.assertRaises(raised, msg=name):
                    await call(scene)
        self.run_loop(main)

    def test_the_loop_has_gone(self):
        async def main(card):
            await Scene(card).open()
        card = unetmm.Context("/loop")
        asyncio.run(main(card))
        card.close()
        self.assertEqual(lib.loop_leaks(), 0)

    def test_all_that_receive_learn_of_the_end(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            tasks = [asyncio.ensure_future(scene.a.receive()) for _ in range(3)]
            await asyncio.sleep(0)
            stop(scene.a)
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                self.assertIsInstance(found, unetmm.Error)
        self.run_loop(main)

    def test_receivers_take_turns(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            tasks = [asyncio.ensure_future(scene.a.receive()) for _ in range(3)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            for text in (b"one", b"two"):
                await scene.b.send(scene.to_a, text)
            self.assertEqual([(await task).data for task in tasks[1:]],
                             [b"one", b"two"])
        self.run_loop(main)

    def test_messages_before_their_accept(self):
        """Their Channel is the one that accept() returns later."""
        async def main(card):
            scene = Scene(card)
            await scene.open()
            peers = [await scene.a.connect(PEER, SERVICE, timeout=LIMIT) for _ in range(2)]
            for peer, text in zip([*peers, peers[0]], (b"one", b"two", b"three")):
                await scene.a.send(peer, text)
            got = [await scene.b.receive() for _ in range(3)]
            channels = [await scene.b.accept() for _ in range(2)]
            self.assertEqual([(found.channel, bytes(found.data)) for found in got],
                             [(channels[0], b"one"), (channels[1], b"two"),
                              (channels[0], b"three")])
            peers[1].close()
            self.assertEqual((await scene.b.closed(channels[1])).type, unetmm.Type.CLOSED)
        self.run_loop(main)

    def test_an_accept_that_waits_has_the_connection_of_a_message(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            accepting = asyncio.ensure_future(scene.b.accept())
            await asyncio.sleep(0)
            # The message wakes the endpoint up, and no event of a connection follows.
            with mock.patch.object(unetmm.aio.Connections, "_wake", lambda *_: None):
                peer = await scene.a.connect(PEER, SERVICE, timeout=LIMIT)
                await scene.a.send(peer, b"early")
                found = await scene.b.receive()
                self.assertEqual(found.channel, await accepting)
        self.run_loop(main)

    def test_connections_beyond_the_backlog_are_numbers(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            scene.b._backlog = 1
            for text in (b"one", b"two"):
                await scene.a.send(await scene.a.connect(PEER, SERVICE, timeout=LIMIT), text)
            first, second = [await scene.b.receive() for _ in range(2)]
            self.assertEqual(first.channel, await scene.b.accept())
            self.assertEqual(second.channel, (await scene.b.accept()).number)
        self.run_loop(main)

    def test_notifications_do_not_wait_for_an_accept(self):
        async def main(card):
            async with unetmm.aio.Endpoint(card) as ep:
                told = types.SimpleNamespace(type=unetmm.Type.NOTIFY, status=0, channel=7,
                                             context=9, buffer=None)
                ep._dispatch(told)
                self.assertIs(await ep.receive(), told)
        self.run_loop(main)

    def test_the_end_of_a_channel_whose_connect_is_under_way(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            going, goes = threading.Event(), threading.Event()

            def opened(*arguments):
                going.set()
                goes.wait(LIMIT)
                return unetmm.Endpoint._opened(scene.a.plain, *arguments)
            with mock.patch.object(scene.a.plain, "_opened", opened):
                connecting = asyncio.ensure_future(
                    scene.a.connect(PEER, SERVICE, timeout=LIMIT))
                while not going.is_set():
                    await asyncio.sleep(0)
            # The peer sends and closes before the thread has made the Channel.
            peer = await scene.b.accept()
            await scene.b.send(peer, b"short")
            peer.close()
            while not scene.a._early:
                await asyncio.sleep(0)
            scene.a.listen(NOBODY)
            accepting = asyncio.ensure_future(scene.a.accept())
            await asyncio.sleep(0)
            goes.set()
            channel = await connecting
            self.assertEqual((await scene.a.closed(channel)).type, unetmm.Type.CLOSED)
            accepting.cancel()
        self.run_loop(main)

    def test_messages_of_a_closed_channel_do_not_wait(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            # b takes the message after it has closed the channel.
            asyncio.get_running_loop().remove_reader(scene.b.plain.fileno())
            await scene.a.send(scene.to_b, b"last")
            scene.to_a.close()
            scene.b._pump()
            found = await scene.b.receive()
            self.assertEqual((found.channel, found.data), (scene.to_a.number, b"last"))
        self.run_loop(main)

    def test_messages_that_nobody_receives_have_a_limit(self):
        async def main(card):
            scene = Scene(card)
            await scene.open()
            self.assertEqual(scene.b._receive_limit, unetmm.aio.RECEIVE_LIMIT)
            scene.b._receive_limit = 20
            scene.b.post_recv(bytearray(100))
            for number in range(50):
                await scene.a.send(scene.to_b, bytes([number]))
            # A buffer comes back in any case.
            await scene.a.send(scene.to_b, bytes(100))
            # The end of a send does not say that the receiver has looked.
            while len(scene.b._received) < 21:
                await asyncio.sleep(0)
            self.assertEqual((len(scene.b._received), scene.b.dropped), (21, 30))
            for number in range(20):
                self.assertEqual((await scene.b.receive()).data, bytes([number]))
            self.assertIsNotNone((await scene.b.receive()).buffer)
            await scene.a.send(scene.to_b, b"later")
            self.assertEqual((await scene.b.receive()).data, b"later")
            self.assertEqual((scene.b._without_buffer, scene.b.dropped), (0, 30))
        self.run_loop(main)

    def test_the_limit_is_an_attribute(self):
        async def main(card):
            async with unetmm.aio.Endpoint(card, receive_limit=3) as ep:
                self.assertEqual((ep._receive_limit, ep.dropped), (3, 0))
        self.run_loop(main)

    def test_a_connection_of_a_given_up_connect_is_closed(self):
        async def main(card):
            async with unetmm.aio.Endpoint(card) as client, \
                    unetmm.aio.Endpoint(card) as server:
                with mock.patch.object(unetmm.aio, "CONNECT_STEP", LIMIT):
                    task = asyncio.ensure_future(client.connect(PEER, SERVICE, LIMIT))
                    while not client.plain._threads:
                        await asyncio.sleep(0)
                # The listener comes before the step of connect() is over.
                server.listen(SERVICE)
                task.cancel()
                channel = await server.accept()
                self.assertEqual((await server.closed(channel)).type,
                                 unetmm.Type.CLOSED)
                self.assertEqual(client.plain.channels, {})
        self.run_loop(main)

    def test_a_cancelled_connect_leaves_its_thread(self):
        async def main(card):
            async with unetmm.aio.Endpoint(card) as client:
                asyncio.get_running_loop().set_default_executor(
                    concurrent.futures.ThreadPoolExecutor(1))
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.connect(PEER, NOBODY), 0.05)
                start = time.monotonic()
                await asyncio.get_running_loop().run_in_executor(None, int)
                self.assertLess(time.monotonic() - start, LIMIT / 2)
        self.run_loop(main)


if __name__ == "__main__":
    tap.main(__name__)
