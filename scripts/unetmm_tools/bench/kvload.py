# SPDX-License-Identifier: GPL-2.0-or-later
"""A load for key-value servers that speak memcached's text protocol.

As memaslap's in NPF's measurement: some connections, each with one request at a
time, 90 per cent of them get, values of 1 KB.  Every value received is compared
with the one that belongs to its key.  The answers in each interval are counted
from the first connection on, so the curve shows the server's start.

    kvload.py 127.0.0.1:11211 --seconds 5
    kvload.py 127.0.0.1:11211 --operations 10000 --limit 60 --json
"""

import argparse
import json
import random
import selectors
import socket
import sys
import time

KEYS = 1000
VALUE = 1024


class LoadError(Exception):
    """The server cannot be loaded; the text says why."""


def value_of(key, size):
    """The value of a key: any piece of it identifies the key."""
    word = f"{key}."
    return (word * (size // len(word) + 1))[:size].encode()


class Choice:
    """Which key and which operation come next, from a seed."""

    def __init__(self, seed, keys=KEYS, first=0, gets=90):
        self._random = random.Random(seed)
        self.keys = keys
        self.first = first
        self._gets = gets

    def next(self):
        """(key's number, whether it is a get)"""
        number = self.first + self._random.randrange(self.keys)
        return number, self._random.randrange(100) < self._gets


class Connection:
    """One connection, with one request at a time."""

    def __init__(self, load, address):
        self._load = load
        self._answer = bytearray()
        self._request = b""
        self._key = 0
        self._is_get = False
        self._fill = False
        self._parked = False
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(address)
        self.start()

    def start(self):
        """The next request; while the load is at rest, none yet."""
        self._parked = self._load.resting
        if self._parked:
            return
        self._key, self._is_get, self._fill = self._load.choose(self)
        if self._key is None:
            self._request = b""
            return
        if self._is_get:
            self._request = b"get k%d\r\n" % self._key
        else:
            value = self._load.value(self._key)
            self._request = b"set k%d 0 0 %d\r\n%s\r\n" % (
                self._key, len(value), value)

    @property
    def idle(self):
        """Has nothing to say or to hear."""
        return self._key is None and not self._parked

    @property
    def parked(self):
        """Waits until its load goes on."""
        return self._parked

    @property
    def events(self):
        """The events that the connection waits for."""
        if self.idle:
            return 0
        if self._parked:
            return selectors.EVENT_READ
        return selectors.EVENT_READ | (selectors.EVENT_WRITE
                                       if self._request else 0)

    def write(self):
        """Sends as much of the request as the socket takes."""
        try:
            sent = self.socket.send(self._request)
        except BlockingIOError:
            return
        self._request = self._request[sent:]

    def read(self):
        """Reads from the socket; sends the next request if the answer is whole."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError("the server has closed a connection")
        self._answer += data
        if self._is_whole():
            self._check()
            self._answer.clear()
            self.start()

    def _is_whole(self):
        """Is the answer complete?"""
        if self._answer.endswith(b"\r\n"):
            return not self._is_get or self._answer.endswith(b"END\r\n")
        return False

    def _check(self):
        """Counts the answer."""
        answer = bytes(self._answer)
        if not self._is_get:
            self._load.count(answer == b"STORED\r\n", False, self._fill)
            return
        if answer == b"END\r\n":
            self._load.count(True, False, False)
            # As a cache is used: the client stores a value that was absent.
            self._load.missed(self._key)
            return
        value = self._load.value(self._key)
        right = answer == b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (
            self._key, len(value), value)
        self._load.count(right, right, False)


class Load:
    """Some connections to one server, and the times of its answers."""

    def __init__(self, address, choice, connections=8, size=VALUE,
                 interval=0.1, fill=True):
        self._address = address
        self._choice = choice
        self._size = size
        self._values = {}
        self._to_fill = list(range(choice.first + choice.keys - 1,
                                   choice.first - 1, -1)) if fill else []
        self._to_store = []
        self.fill_only = False
        self.resting = False
        self._wanted = connections
        self.interval = interval
        self.begin = None
        self.most = None
        self.operations = self.wrong = self.filled = self.resets = 0
        self.times = []
        self.hit_times = []
        self.connections = []

    def value(self, key):
        """A key's value; made once."""
        if key not in self._values:
            self._values[key] = value_of(key, self._size)
        return self._values[key]

    @property
    def done(self):
        """No connection is busy, or there are enough answers."""
        return not self.connections or (self.most is not None and
                                        self.operations >= self.most)

    @property
    def unfilled(self):
        """Keys that were not stored yet."""
        return self._choice.keys - self.filled

    def forget(self):
        """All keys are stored: the measurement begins."""
        self.fill_only = False
        self.operations = self.wrong = self.resets = 0
        self.times = []
        self.hit_times = []

    def use(self, choice):
        """From now on, other keys."""
        self._choice = choice

    def choose(self, _connection):
        """(key, is get, is of the filling) of the next request."""
        if self._to_fill:
            return self._to_fill.pop(), False, True
        if self.fill_only:
            return None, False, False
        if self._to_store:
            return self._to_store.pop(), False, False
        if self.most is not None and self.operations >= self.most:
            return None, False, False
        return (*self._choice.next(), False)

    def missed(self, key):
        """A get found nothing."""
        self._to_store.append(key)

    def count(self, right, hit, filling):
        """One answer."""
        now = time.monotonic() - self.begin
        self.wrong += not right
        self.filled += filling
        self.operations += 1
        slot = int(now / self.interval)
        for times, add in ((self.times, 1), (self.hit_times, hit)):
            while len(times) <= slot:
                times.append(0)
            times[slot] += add

    def open(self, selector):
        """Connects; registers with the selector."""
        self.begin = time.monotonic()
        for _ in range(self._wanted):
            self._open_one(selector)

    def _open_one(self, selector):
        connection = Connection(self, self._address)
        self.connections.append(connection)
        selector.register(connection.socket, connection.events,
                          (self, connection))

    def on_event(self, selector, connection, events):
        """An event of select() for one connection."""
        try:
            if events & selectors.EVENT_WRITE:
                connection.write()
            if events & selectors.EVENT_READ:
                connection.read()
        except ConnectionError:
            # TCP has given up on it, on one side or the other.
            self.resets += 1
            selector.unregister(connection.socket)
            connection.socket.close()
            self.connections.remove(connection)
            return
        wanted = connection.events
        if not wanted:
            selector.unregister(connection.socket)
            connection.socket.close()
            self.connections.remove(connection)
        elif wanted != selector.get_key(connection.socket).events:
            selector.modify(connection.socket, wanted, (self, connection))

    def close(self, selector):
        """Hangs up."""
        for connection in self.connections:
            selector.unregister(connection.socket)
            connection.socket.close()
        self.connections.clear()

    def rest(self):
        """Awaits the answers in flight; then the connections stay idle."""
        self.resting = True

    def go_on(self, selector):
        """After rest()."""
        self.resting = False
        for connection in self.connections:
            if connection.parked:
                connection.start()
                selector.modify(connection.socket, connection.events,
                                (self, connection))

    @property
    def silent(self):
        """Is all of it at rest?"""
        return all(connection.parked for connection in self.connections)

    def report(self, seconds):
        """The result as one object; intervals without an answer have a 0."""
        for times in (self.times, self.hit_times):
            times.extend([0] * (int(seconds / self.interval) - len(times)))
        return {"operations": self.operations, "hits": sum(self.hit_times),
                "wrong": self.wrong, "resets": self.resets,
                "seconds": round(seconds, 3),
                "per_s": round(self.operations / seconds, 1) if seconds else 0,
                "interval": self.interval, "times": self.times,
                "hit_times": self.hit_times}


def run(loads, seconds=None, operations=None, turn=None):
    """Runs several loads side by side; returns their reports.

    Ends when all have done their operations, or the time is over.  turn(elapsed)
    is called now and then.
    """
    begin = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for load in loads:
            load.most = operations
            load.open(selector)
        ended = {}
        while len(ended) < len(loads):
            elapsed = time.monotonic() - begin
            if seconds is not None and elapsed >= seconds:
                break
            for key, events in selector.select(0.02):
                load, connection = key.data
                if connection in load.connections:
                    load.on_event(selector, connection, events)
            for load in loads:
                if load.done and load not in ended:
                    ended[load] = time.monotonic() - begin
            if turn:
                turn(elapsed)
        total = time.monotonic() - begin
        for load in loads:
            load.close(selector)
    return [load.report(ended.get(load, total)) for load in loads]


def serve_events(selector, until, limit=60):
    """Until until() is true; LoadError if that takes too long."""
    deadline = time.monotonic() + limit
    while not until():
        if time.monotonic() > deadline:
            raise LoadError(f"the server did not answer within {limit} s")
        for key, events in selector.select(0.02):
            load, connection = key.data
            if connection in load.connections:
                load.on_event(selector, connection, events)


def alternate(loads, rounds, seconds, settle=0.2):
    """Loads one after the other, again and again, by connections that stay.

    Other load of the machine affects all of them alike.  Neither the first
    `settle` seconds of each turn nor the first round count.  Returns answers a
    second, a list for each load.
    """
    rates = [[] for _ in loads]
    with selectors.DefaultSelector() as selector:
        for load in loads:
            load.most = None
            load.open(selector)
            load.rest()
        serve_events(selector, lambda: all(load.silent for load in loads))
        for number in range(rounds + 1):
            for load, rate in zip(loads, rates):
                load.go_on(selector)
                end = time.monotonic() + settle
                serve_events(selector, lambda: time.monotonic() >= end)  # pylint: disable=W0640
                before, begin = load.operations, time.monotonic()
                end = begin + seconds
                serve_events(selector, lambda: time.monotonic() >= end)  # pylint: disable=W0640
                if number:
                    rate.append((load.operations - before) /
                                (time.monotonic() - begin))
                load.rest()
                serve_events(selector, lambda: load.silent)  # pylint: disable=W0640
        for load in loads:
            load.close(selector)
    return rates


def talk(address, text, timeout=60):
    """One request on its own connection; returns the whole answer."""
    with socket.create_connection(address, timeout) as sock:
        sock.sendall(text.encode())
        answer = b""
        while not answer.endswith((b"END\r\n", b"OK\r\n", b"ERROR\r\n")):
            data = sock.recv(65536)
            if not data:
                break
            answer += data
    return answer.decode(errors="replace")


def stats(address):
    """The statistics of a server."""
    found = {}
    for line in talk(address, "stats\r\n").splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "STAT":
            found[words[1]] = int(words[2])
    return found


def main():
    """The program: loads a server and prints the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", metavar="HOST:PORT")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--size", type=int, default=VALUE)
    parser.add_argument("--seconds", type=float, help="default: 10")
    parser.add_argument("--operations", type=int,
                        help="stop after so many answers")
    parser.add_argument("--limit", type=float, default=60,
                        help="with --operations: give up after so many seconds")
    parser.add_argument("--interval", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    host, _, port = options.server.rpartition(":")
    load = Load((host, int(port)), Choice(options.seed, options.keys),
                options.connections, options.size, options.interval)
    seconds = options.seconds or (options.limit if options.operations else 10)
    [report] = run([load], seconds, options.operations)
    if options.json:
        print(json.dumps(report))
    else:
        print(f"{report['operations']} operations in {report['seconds']} s: "
              f"{report['per_s']} a second, {report['wrong']} wrong, "
              f"{report['resets']} connections lost; seed {options.seed}")
    if options.operations and report["operations"] < options.operations:
        sys.exit(f"error: the server has not answered all of the "
                 f"{options.operations} operations")
    sys.exit(1 if report["wrong"] else 0)


if __name__ == "__main__":
    main()
