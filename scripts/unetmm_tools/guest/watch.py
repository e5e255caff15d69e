# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/watch: running cards in a browser; docs/watch.rst is the manual.

A server of Python's library on this machine alone.  The page gets each look as an event of one
stream.  A request needs the key that only the printed address has: another page of the
browser, or another user, can neither look nor stop a guest.
"""

import argparse
import hmac
import http.server
import json
import os
import secrets
import sys
import threading
import urllib.parse

from unetmm_tools.guest import live, vm

DESCRIPTION = """\
Serves a page with the cards of running guests: the sets of the TLB and their pages, the endpoints
with their queues, the faults in flight and their stages, and frames and misses in a second.  A
click on a page shows its history; the guests can be paused, stepped and slowed down.

Starts a guest for each CMD (a program of the guest, or a line for its shell; PEER is the address
of the next guest's card), or looks at guests that run (--qmp).  Open the address that it prints;
the page needs no network.  Ctrl-C ends it, and the guests that it has started.
"""

EXAMPLES = """\
examples:
  Two guests that exchange messages; a TLB of 64 entries:
    scripts/watch --device-opts tlb-sets=64 -- 'unetmm-pingpong --listen' \\
        -- 'unetmm-pingpong $PEER --count 1000000 --size 4k --memory 1m'

  A guest that runs, from another terminal:
    scripts/vm --qmp /tmp/vm.qmp
    scripts/watch --qmp /tmp/vm.qmp
"""

PAGE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "watch_page.html")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff"}
MOST_VIEWERS = 8
HEARTBEAT = 10          # seconds without a look, after which a viewer is sent a comment


class Hub:
    """The last look, for all viewers.

    found  has `live` and ends()
    """

    def __init__(self, found, interval):
        self._found, self._interval = found, interval
        self._changed = threading.Condition()
        self._state, self._number = None, 0
        self.closed = False
        self.viewers = 0

    @property
    def live(self):
        """The cards."""
        return self._found.live

    def work(self):
        """Looks again and again, until close()."""
        while not self.closed:
            state = {**self.live.look(), "ended": self._found.ends()}
            with self._changed:
                self._state, self._number = json.dumps(state), self._number + 1
                self._changed.notify_all()
            self.live.rest(self._interval)

    def close(self):
        """Ends work() and all streams."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def after(self, number):
        """(number, text) of a look behind that one; no text: none yet; None: the end."""
        with self._changed:
            newer = self._changed.wait_for(lambda: self.closed or self._number > number,
                                           HEARTBEAT)
            if self.closed:
                return None
            return (self._number, self._state) if newer else (number, None)


class Handler(http.server.BaseHTTPRequestHandler):
    """One request; the server has `hub` and `key`."""

    server_version, sys_version = "unetmm", ""
    timeout = 60

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        """A request is nothing to tell."""

    def _answer(self, status, text, kind="text/plain; charset=utf-8"):
        data = text.encode()
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": len(data)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def _query(self):
        """(path, {name: value}) of a request with the right key and host, or None."""
        path, _, words = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(words[:1000]))
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            return None
        if not hmac.compare_digest(query.get("key", "").encode(), self.server.key.encode()):
            return None
        return path, query

    def do_GET(self):  # pylint: disable=invalid-name
        """The page, its events, and the history of a page of memory."""
        found = self._query()
        if found is None:
            self._answer(403, "use the address that scripts/watch has printed\n")
        elif found[0] == "/":
            with open(PAGE, encoding="utf-8") as file:
                self._answer(200, file.read(), "text/html; charset=utf-8")
        elif found[0] == "/events":
            self._stream()
        elif found[0] == "/history":
            self._history(found[1])
        else:
            self._answer(404, "there is no such page\n")

    def do_POST(self):  # pylint: disable=invalid-name
        """Pause, step, slow or run."""
        found = self._query()
        if found is None:
            self._answer(403, "use the address that scripts/watch has printed\n")
        elif found[0] != "/control":
            self._answer(404, "there is no such page\n")
        else:
            try:
                self.server.hub.live.control(found[1].get("mode", ""))
                self._answer(200, "{}", "application/json")
            except live.LiveError as error:
                self._answer(400, f"{error}\n")

    def _history(self, query):
        try:
            space, page = int(query["space"]), int(query["page"])
        except (KeyError, ValueError):
            self._answer(400, "use card, space and page\n")
            return
        events = self.server.hub.live.history(query.get("card", ""), space, page)
        self._answer(200, json.dumps(events), "application/json")

    def _stream(self):
        hub = self.server.hub
        if hub.viewers >= MOST_VIEWERS:
            self._answer(503, f"there are {MOST_VIEWERS} viewers already\n")
            return
        hub.viewers += 1
        try:
            self.send_response(200)
            for name, value in {**HEADERS, "Content-Type": "text/event-stream"}.items():
                self.send_header(name, value)
            self.end_headers()
            number = 0
            while found := hub.after(number):
                number, text = found
                # A comment of the protocol finds out that a viewer has gone.
                event = ": none yet" if text is None else f"data: {text}"
                self.wfile.write(f"{event}\n\n".encode())
                self.wfile.flush()
        except OSError:
            pass                # The viewer has gone.
        finally:
            hub.viewers -= 1
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    """The server of one hub."""

    daemon_threads = True

    def __init__(self, port):
        self.hub, self.key = None, secrets.token_urlsafe(16)
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            raise live.LiveError(f"--port {port}: {error.strerror}; 0 takes a free one") from None

    @property
    def address(self):
        """The address for the browser."""
        return f"http://127.0.0.1:{self.server_address[1]}/?key={self.key}"

    def handle_error(self, request, client_address):
        """A viewer that goes away is no error of the server."""


def serve(server, found, interval, tell):
    """Serves until a signal comes."""
    server.hub = hub = Hub(found, interval)
    threads = [threading.Thread(target=server.serve_forever, daemon=True),
               threading.Thread(target=hub.work, daemon=True)]
    for thread in threads:
        thread.start()
    try:
        tell(server.address)
        threads[1].join()
        raise live.LiveError("the look at the cards has failed")
    finally:
        hub.close()
        server.shutdown()
        server.server_close()
        threads[1].join(5)


def port_number(text):
    """The type of --port."""
    if not text.isdecimal() or not 0 <= int(text[:6]) <= 65535:
        raise argparse.ArgumentTypeError(f"{text}: use 0 to 65535")
    return int(text)


def build_parser():
    """The options."""
    parser = vm.Parser(
        prog="scripts/watch", description=DESCRIPTION, epilog=EXAMPLES, allow_abbrev=False,
        usage="scripts/watch [options] (--qmp PATH | -- CMD [-- CMD2]...)",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    live.add_options(parser)
    parser.add_argument("--port", type=port_number, default=0, metavar="N",
                        help="of this machine alone (default: 0, a free one)")
    return parser


def run():
    """Opens the cards, and serves the page until a signal comes."""
    words, commands = live.split(sys.argv[1:])
    options = build_parser().parse_args(words)
    live.check(options, commands)
    server = Server(options.port)
    found = live.opened(options, commands)
    try:
        serve(server, found, options.interval,
              lambda address: print(f"open {address}", flush=True))
    finally:
        found.close()


if __name__ == "__main__":
    live.program(run)
