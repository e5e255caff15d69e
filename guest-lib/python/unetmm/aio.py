# SPDX-License-Identifier: LGPL-2.1-or-later
"""The package for asyncio: completions, connections and their ends in the loop.

    async def serve(card):
        async with unetmm.aio.Endpoint(card) as ep:
            ep.listen(100)
            channel = await ep.accept()
            message = await ep.receive()
            await ep.send(channel, b"well received")

One thread does all: the loop watches the endpoint's descriptor for completions and
the card's for connections.  A coroutine that waits for an operation gets its
completion; if that has failed, CompletionError.
"""
import asyncio
import contextlib
import select
import weakref

from . import _core
from ._names import Type


IMPORT_AGAIN = 0.01     # seconds from one question to the peer's driver to the next


class Connections:
    """Wakes up tasks that wait for a connection, by the card's descriptor.

    The loop of asyncio knows no POLLPRI: an epoll set is between them.  It is
    edge-triggered, since a connection may be another endpoint's.
    """

    _of_context = {}

    def __init__(self, context, loop):
        self._loop = loop
        self._context = context
        self._waiters = set()
        self._users = 0
        self._epoll = select.epoll()
        self._epoll.register(context.fileno(),
                             select.EPOLLPRI | select.EPOLLET)
        loop.add_reader(self._epoll.fileno(), self._wake)

    @classmethod
    @contextlib.contextmanager
    def of(cls, context):
        """The one of a card in this loop, as long as somebody uses it."""
        loop = asyncio.get_running_loop()
        key = (context, loop)
        if key not in cls._of_context:
            cls._of_context[key] = cls(context, loop)
        found = cls._of_context[key]
        found._users += 1
        try:
            yield found
        finally:
            found._users -= 1
            if not found._users:
                del cls._of_context[key]
                loop.remove_reader(found._epoll.fileno())
                found._epoll.close()

    def _wake(self):
        self._epoll.poll(0)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def accept(self, endpoint):
        """The next connection of an endpoint."""
        while True:
            waiter = self._loop.create_future()
            self._waiters.add(waiter)
            try:
                # After the waiter is there: no connection is missed.
                return endpoint.accept(timeout=0)
            except TimeoutError:
                await waiter
            finally:
                self._waiters.discard(waiter)


class _Plain(_core.Endpoint):
    """A plain endpoint that says when a program has closed one of its channels."""

    def __init__(self, context, forgotten, **attributes):
        super().__init__(context, **attributes)
        self._forgotten = forgotten

    def forget(self, channel):
        """As unetmm.Endpoint.forget()."""
        super().forget(channel)
        self._forgotten(channel)


class Endpoint:
    """An endpoint whose completions come by the running loop.

    `attributes` are those of unetmm.Endpoint, which is `plain`.
    """

    def __init__(self, context, **attributes):
        self.plain = _Plain(context, self._forget, **attributes)
        self._loop = asyncio.get_running_loop()
        self._received = asyncio.Queue()
        self._ends = weakref.WeakKeyDictionary()    # Channel: Future
        self._early = {}        # ends of channels that are still to be accepted
        self._room = set()
        self._failed = None
        self._again = None
        self._loop.add_reader(self.plain.fileno(), self._pump)
        self._pump()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        self.close()

    def close(self):
        """Ends it; operations that are under way are cancelled."""
        if self.plain is None:
            return
        self._loop.remove_reader(self.plain.fileno())
        if self._again:
            self._again.cancel()
        waiting = self._all_waiting()
        self.plain.close()
        self.plain = None
        for future in waiting:
            future.cancel()

    def _all_waiting(self):
        """The futures of all coroutines that wait for something here."""
        return [future for future in [*self.plain.contexts(), *self._room,
                                      *self._ends.values()]
                if isinstance(future, asyncio.Future) and not future.done()]

    # ---- The loop's side

    def _pump(self):
        """Takes all completions, and asks for a wake-up at the next one."""
        if self._again:
            self._again.cancel()
            self._again = None
        if self.plain is None:
            # The loop had called this for the descriptor before the close().
            return
        try:
            if self._take() or self.plain.arm():
                # There is more: after the loop's other work.
                self._again = self._loop.call_soon(self._pump)
        except OSError as error:
            self._fail(error)

    def _take(self):
        """Takes completions, up to one batch of them: how many."""
        found = self.plain.poll()
        for completion in found:
            self._dispatch(completion)
        return len(found)

    def _forget(self, channel):
        """A channel was closed: the peer's end of it is not the next channel's.

        The peer may have closed it, too: then that completion is among those that
        are there by now.  Their number has a limit, since peers go on sending.
        """
        end, left = self._ends.get(channel), self.plain.completion_depth
        if self._failed or end is not None and end.done():
            return
        try:
            while left > 0 and (taken := self._take()):
                left -= taken
        except OSError as error:
            self._fail(error)
        early = self._early.pop(channel.number, None)
        if early and end is not None and not end.done():
            end.set_result(early)

    def _dispatch(self, completion):
        future = completion.context
        if completion.type == Type.CLOSED:
            self._end(completion)
        elif isinstance(future, asyncio.Future):
            if not future.done():
                future.set_result(completion)
        else:
            self._received.put_nowait(completion)
        for waiter in self._room:
            if not waiter.done():
                waiter.set_result(None)

    def _end(self, completion):
        """A channel has ended; perhaps before it was accepted."""
        future = self._ends.get(completion.channel) if isinstance(
            completion.channel, _core.Channel) else None
        if future is None:
            self._early[getattr(completion.channel, "number",
                                completion.channel)] = completion
        elif not future.done():
            future.set_result(completion)

    def _begin(self, channel):
        """A channel is open: its end can be waited for."""
        future = self._ends[channel] = self._loop.create_future()
        early = self._early.pop(channel.number, None)
        if early:
            future.set_result(early)
        return channel

    def _fail(self, error):
        """The card has stopped the endpoint: all waiting coroutines get the error."""
        self._failed = error
        self._loop.remove_reader(self.plain.fileno())
        for future in self._all_waiting():
            future.set_exception(error)
        self._received.put_nowait(error)

    # ---- Connections

    def listen(self, service, backlog=16, **attributes):
        """As unetmm.Endpoint.listen()."""
        self.plain.listen(service, backlog, **attributes)

    async def accept(self):
        """The next connection's Channel."""
        with Connections.of(self.plain.context) as connections:
            return self._begin(await connections.accept(self.plain))

    async def connect(self, peer, service, timeout=None, **attributes):
        """As unetmm.Endpoint.connect(), in a thread of the loop's executor.

        The library allows that: a connect does not use the queues.
        """
        return self._begin(await self._loop.run_in_executor(
            None, lambda: self.plain.connect(peer, service, timeout,
                                             **attributes)))

    async def closed(self, channel):
        """Waits for the channel's end; returns the CLOSED completion.

        The channel has ChannelFlag.NOTIFY_CLOSE, as usual.
        """
        return await asyncio.shield(self._ends[channel])

    async def shutdown(self, channel):
        """Waits until the peer has all that was sent, and closes the channel."""
        (await self.operate(channel.fence)).check()
        channel.close()

    # ---- Operations

    def post_recv(self, buffer, context=None, **options):
        """As unetmm.Endpoint.post_recv(); receive() returns the message in it."""
        self.plain.post_recv(buffer, context, **options)

    async def receive(self):
        """The next message, notification or buffer that came back."""
        if self._failed and self._received.empty():
            raise self._failed
        completion = await self._received.get()
        if isinstance(completion, OSError):
            raise completion
        return completion

    async def operate(self, post, *arguments, **options):
        """Posts an operation, e.g. an Import's fetch_add; returns its completion.

        A full queue is waited for.  A coroutine that is cancelled leaves the
        operation under way, and its buffer in use, until the card has done with it.
        """
        future = self._loop.create_future()
        while True:
            if self._failed:
                raise self._failed
            try:
                post(*arguments, context=future, **options)
                break
            except BlockingIOError:
                await self._have_room()
        return (await future).check()

    async def _have_room(self):
        waiter = self._loop.create_future()
        self._room.add(waiter)
        try:
            await waiter
        finally:
            self._room.discard(waiter)

    async def send(self, channel, data, **options):
        """As Channel.send(); returns when the peer's card has the message."""
        return await self.operate(channel.send, data, **options)

    async def write(self, memory, offset, data, **options):
        """As Import.write(); returns when it is in the peer's memory."""
        return await self.operate(memory.write, offset, data, **options)

    async def read(self, memory, offset, buffer):
        """As Import.read(); returns when the buffer has it."""
        return await self.operate(memory.read, offset, buffer)

    async def fetch_add(self, memory, offset, value):
        """As Import.fetch_add(); returns the value before."""
        return (await self.operate(memory.fetch_add, offset, value)).old

    async def compare_swap(self, memory, offset, compare, swap):
        """As Import.compare_swap(); returns the value before."""
        return (await self.operate(memory.compare_swap, offset, compare,
                                   swap)).old

    async def import_(self, channel, number, rights=0, timeout=None):
        """As Channel.import_(), without stopping the loop.

        It asks the peer again and again; the endpoint stays this thread's.
        """
        deadline = None if timeout is None else self._loop.time() + timeout
        while True:
            try:
                return channel.import_(number, rights, timeout=0)
            except TimeoutError:
                if deadline is not None and self._loop.time() >= deadline:
                    raise TimeoutError(
                        f"the peer does not export {number}") from None
            await asyncio.sleep(IMPORT_AGAIN)
