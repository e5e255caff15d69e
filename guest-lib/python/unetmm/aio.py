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

Futures and lifetimes.  Each coroutine waits for a future that is the context of its
operation, the end of a channel (_ends), or in _waiting; a close, by whomever, cancels all
of them.  A plain endpoint lives until no thread of connect() uses it.
"""
import asyncio
import collections
import contextlib
import errno
import select
import threading
import time
import weakref

from . import _core
from ._names import Type, error as error_of, nanoseconds


IMPORT_AGAIN = 0.01     # seconds from one question to the peer's driver to the next
# Seconds of one step of connect(), for whose end a close() waits.  They double, since a
# peer's driver may be slow to answer.
CONNECT_STEP = 0.05
CONNECT_STEP_LONGEST = 0.4
# Completions for receive(), each of some 300 bytes
RECEIVE_LIMIT = 4096


class Connections:
    """Wakes up tasks that wait for a connection, by the card's descriptor.

    The loop of asyncio knows no POLLPRI: an epoll set is between them.  It is
    edge-triggered, since a connection may be another endpoint's.
    """

    _of_context = {}

    def __init__(self, context, loop):
        self._loop = loop
        self._context = context
        self._waiters = {}
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
        """The next connection of an aio.Endpoint."""
        while True:
            with endpoint.waiter(self._waiters, endpoint.accepters) as waiter:
                try:
                    # After the waiter is there: no connection is missed.
                    return endpoint.accepted()
                except TimeoutError:
                    await waiter


class _Plain(_core.Endpoint):
    """A plain endpoint that tells the aio.Endpoint of its end, and of its channels' starts
    and ends.

    Threads of the executor may be in connect_in_steps(), which uses the library's endpoint:
    close() waits until they have left.  `_threads` is guarded by `_left`.
    """

    def __init__(self, context, opened, forgotten, closing, **attributes):
        self._has_opened, self._forgotten, self._closing = opened, forgotten, closing
        self._left = threading.Condition()
        self._threads = 0
        self._stopping = False
        super().__init__(context, **attributes)

    def _opened(self, number, peer, call):
        """Also in a thread of connect_in_steps()."""
        channel = super()._opened(number, peer, call)
        self._has_opened(channel)
        return channel

    def forget(self, channel):
        """As unetmm.Endpoint.forget()."""
        super().forget(channel)
        self._forgotten(channel)

    def close(self):
        """As unetmm.Endpoint.close(); all that wait for the endpoint are cancelled."""
        if self._handle is None:
            return
        self._closing()
        with self._left:
            self._stopping = True
            self._left.wait_for(lambda: not self._threads)
        super().close()

    @contextlib.contextmanager
    def _in_thread(self):
        with self._left:
            if self._stopping:
                raise ValueError("this Endpoint is closed")
            self._threads += 1
        try:
            yield
        finally:
            with self._left:
                self._threads -= 1
                self._left.notify_all()

    def connect_in_steps(self, stop, peer, service, timeout, attributes):
        """As unetmm.Endpoint.connect(), until the event `stop` is set."""
        step = CONNECT_STEP
        nanoseconds(timeout)        # refuses a negative one
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._in_thread():
            while True:
                left = step if deadline is None else deadline - time.monotonic()
                try:
                    return self.connect(peer, service, max(0, min(step, left)),
                                        **attributes)
                except OSError as error:
                    if error.errno not in (errno.ETIMEDOUT, errno.EHOSTUNREACH) or \
                            left <= 0 or stop.is_set() or self._stopping:
                        raise
                step = min(2 * step, CONNECT_STEP_LONGEST)


class Endpoint:
    """An endpoint whose completions come by the running loop.

    receive_limit  completions without a buffer that are kept for receive(): a peer can send
                   any number of short messages and notifications.  Later ones are dropped.
    attributes     those of unetmm.Endpoint, which is `plain`

    dropped        how many were dropped so
    """

    def __init__(self, context, *, receive_limit=RECEIVE_LIMIT, **attributes):
        self._loop = asyncio.get_running_loop()
        self._received = collections.deque()
        self._receive_limit, self._without_buffer = receive_limit, 0
        self.dropped = 0
        self._ends = weakref.WeakKeyDictionary()    # Channel: Future
        self._early = {}        # ends that have come before their channel's _begin()
        self._left = set()      # numbers of channels closed here: their end is to come
        # Channels for accept(), of which messages have come; as many as a listener's backlog
        self._accepted, self._backlog = collections.deque(), 0
        self.accepters = {}     # futures of accept()
        self._connects = set()  # calls of connect() whose Channel is still to _begin()
        self._unknown = {}      # number: messages that have come before such a Channel
        # Futures of coroutines, in the order of their coming; see waiter()
        self._waiting, self._room, self._receivers = {}, {}, {}
        self._failed = None
        self._again = None
        self.plain = _Plain(context, self._opened, self._forget, self._closing,
                            **attributes)
        try:
            self._loop.add_reader(self.plain.fileno(), self._pump)
            self._pump()
        except BaseException:
            self.plain.close()
            raise

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        self.close()

    def close(self):
        """Ends it; coroutines that wait for it are cancelled.

        If a connect() is under way, this waits for the end of its step: 0.4 s at most.
        """
        self.plain.close()

    def _closing(self):
        """The endpoint is about to be closed, perhaps by its context."""
        self._failed = ValueError("this Endpoint is closed")
        if self._loop.is_closed():
            return
        self._loop.remove_reader(self.plain.fileno())
        if self._again:
            self._again.cancel()
        for future in self._all_waiting():
            future.cancel()

    def _all_waiting(self):
        """The futures of all coroutines that wait for something here."""
        return [future for future in [*self.plain.contexts(), *self._waiting,
                                      *self._ends.values()]
                if isinstance(future, asyncio.Future) and not future.done()]

    @contextlib.contextmanager
    def waiter(self, *others):
        """A future that ends with the endpoint, too; also in the dictionaries `others`."""
        if self._failed:
            raise self._failed
        future = self._loop.create_future()
        for place in (self._waiting, *others):
            place[future] = None
        try:
            yield future
        finally:
            for place in (self._waiting, *others):
                del place[future]

    @staticmethod
    def _wake(waiters):
        for future in waiters:
            if not future.done():
                future.set_result(None)

    # ---- The loop's side

    def _pump(self):
        """Takes all completions, and asks for a wake-up at the next one."""
        if self._again:
            self._again.cancel()
            self._again = None
        if self._failed:
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

    def _opened(self, channel):
        """A Channel is there, perhaps in another thread: its messages may go on."""
        with contextlib.suppress(RuntimeError):     # the loop has ended
            self._loop.call_soon_threadsafe(self._release, channel.number, channel)

    def _release(self, number, channel):
        """Gives receive() the messages that have waited for the Channel."""
        for completion in self._unknown.pop(number, ()):
            completion.channel = channel
            self._received.append(completion)
        self._wake(self._receivers)

    def _connected(self, call):
        """A connect() has ended.  Messages that belong to none keep the number."""
        self._connects.discard(call)
        if not self._connects:
            for number in list(self._unknown):
                self._release(number, number)

    def _adopt(self):
        """Accepts the waiting connections for accept(): the number of a channel that has ended
        could be another's."""
        while len(self._accepted) < self._backlog:
            try:
                self._accepted.append(self.plain.accept(timeout=0))
            except OSError:
                # No connection waits; accept() meets any other error itself.
                return
            self._wake(self.accepters)

    def accepted(self):
        """For accept(): the next connection's Channel; TimeoutError: there is none."""
        return self._accepted.popleft() if self._accepted else self.plain.accept(timeout=0)

    def _forget(self, channel):
        """A channel was closed: its end comes, and then the number may be another's."""
        self._release(channel.number, channel.number)
        end = self._ends.get(channel)
        if self._failed or end is not None and end.done():
            return
        if self._early.pop(channel.number, None) is None:
            self._left.add(channel.number)
        if end is not None:
            end.cancel()

    def _dispatch(self, completion):
        future = completion.context
        if completion.type == Type.CLOSED:
            self._end(completion)
        elif isinstance(future, asyncio.Future):
            if not future.done():
                future.set_result(completion)
        else:
            self._keep(completion)
        self._wake(self._room)

    def _keep(self, completion):
        """For receive().  The caller has a right to each buffer, and posts so many only."""
        if completion.buffer is None:
            if self._without_buffer >= self._receive_limit:
                self.dropped += 1
                return
            self._without_buffer += 1
        if self._is_early(completion):
            self._unknown.setdefault(completion.channel, []).append(completion)
        else:
            self._received.append(completion)
            self._wake(self._receivers)

    def _is_early(self, completion):
        """True if a connect() that is under way may have the Channel of a message.

        If the Channel has come since the messages before, these go on here: they are first.
        The connection of a message is accepted here, if it waits for accept().
        """
        if completion.type != Type.RECEIVED or completion.status:
            return False
        if not isinstance(completion.channel, _core.Channel):
            number = completion.channel
            if number in self._left:
                return False
            self._adopt()
            completion.channel = self.plain.channels.get(number, number)
            if completion.channel is number:
                return bool(self._connects)
        self._release(completion.channel.number, completion.channel)
        return False

    def _end(self, completion):
        """A channel has ended; perhaps it was closed here, or is still to be accepted."""
        future = self._ends.get(completion.channel) if isinstance(
            completion.channel, _core.Channel) else None
        number = getattr(completion.channel, "number", completion.channel)
        if future is not None:
            if not future.done():
                future.set_result(completion)
        elif number in self._left:
            self._left.remove(number)
        else:
            self._early[number] = completion

    def _begin(self, channel):
        """A channel is open: its end can be waited for."""
        future = self._ends[channel] = self._loop.create_future()
        self._left.discard(channel.number)      # of one without ChannelFlag.NOTIFY_CLOSE
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
            future.exception()      # of a channel's end, nobody may ask for it

    # ---- Connections

    def listen(self, service, backlog=16, **attributes):
        """As unetmm.Endpoint.listen()."""
        self.plain.listen(service, backlog, **attributes)
        self._backlog = backlog

    async def accept(self):
        """The next connection's Channel."""
        with Connections.of(self.plain.context) as connections:
            return self._begin(await connections.accept(self))

    async def connect(self, peer, service, timeout=None, **attributes):
        """As unetmm.Endpoint.connect(), in a thread of the loop's executor.

        The library allows that: a connect does not use the queues.  The channel of a
        coroutine that was cancelled is closed as soon as it is there.
        """
        stop = threading.Event()
        with self.waiter() as waiter:
            call = self._loop.run_in_executor(
                None, self.plain.connect_in_steps, stop, peer, service, timeout,
                attributes)
            self._connects.add(call)
            call.add_done_callback(lambda _: self._wake([waiter]))
            try:
                await waiter
            except BaseException:
                stop.set()
                call.add_done_callback(self._drop)
                raise
            self._connected(call)
            return self._begin(call.result())

    def _drop(self, call):
        """Nobody waits for the channel of a connect() any more."""
        self._connected(call)
        if not call.cancelled() and not call.exception():
            call.result().close()

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
        """The next message, notification or buffer that came back.

        The channel of a message is a Channel, also before accept() has returned it.  It is a
        number if the channel was closed here, or if more connections than the backlog has wait
        for accept(); of a notification, if the channel was not accepted.
        """
        while not self._received:
            with self.waiter(self._receivers) as waiter:
                await waiter
        completion = self._received.popleft()
        self._without_buffer -= completion.buffer is None
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
                with self.waiter(self._room) as waiter:
                    await waiter
        return (await future).check()

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
            end = self._ends.get(channel)
            if end is not None and end.done():
                raise error_of(-errno.ECONNRESET, _core.lib.UNETMM_CALL_IMPORT)
            with self.waiter() as waiter:
                again = self._loop.call_later(IMPORT_AGAIN, self._wake, [waiter])
                try:
                    await waiter
                finally:
                    again.cancel()
