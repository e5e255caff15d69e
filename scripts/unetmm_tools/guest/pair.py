# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests under a program's control: one (Guest), or two on a wire (Pair).

    with Pair(run_a=SERVER_SH, run_b=CLIENT_SH, kernel="6.12") as pair:
        pair.wait(120)
        print(pair.a.results(), pair.b.results())

Scripts are texts; each becomes /run in its guest.  A guest runs its script,
writes the script's output to a file on the host, and powers off.
"""

import contextlib
import copy
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from unetmm_tools.guest import vm
from unetmm_tools.guest.child import die_with_parent

CARD = "unetmm0"
# The host's time between two looks at a deadline
LOOK_SECONDS = 0.2


class GuestError(Exception):
    """A guest failed; the text names the guest and the reason."""


class Qmp:
    """QEMU's control socket, as far as tests need it."""

    def __init__(self, path, timeout=10):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._connect(path, timeout)
        self._file = self._socket.makefile("rw", encoding="utf-8")
        self.events = []
        self._file.readline()
        self.command("qmp_capabilities")

    def _connect(self, path, timeout):
        """QEMU makes the socket's file a moment before it listens."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._socket.connect(path)
                return
            except (FileNotFoundError, ConnectionRefusedError) as error:
                if time.monotonic() > deadline:
                    raise GuestError(f"QEMU does not answer: {error}") from error
                time.sleep(0.02)

    def command(self, name, /, **arguments):
        """Executes a command; returns its result or raises GuestError."""
        request = {"execute": name}
        if arguments:
            request["arguments"] = {key.replace("_", "-"): value
                                    for key, value in arguments.items()}
        try:
            self._file.write(json.dumps(request) + "\n")
            self._file.flush()
            return self._answer(name)
        except OSError as error:
            raise GuestError(f"QEMU does not answer {name}: {error}") from error

    def _answer(self, name):
        while True:
            line = self._file.readline()
            if not line:
                raise GuestError(f"QEMU closed its control socket on {name}")
            reply = json.loads(line)
            if "return" in reply:
                return reply["return"]
            if "error" in reply:
                raise GuestError(f"{name}: {reply['error']['desc']}")
            self.events.append(reply)

    def close(self):
        """Lets another client connect."""
        # A command that a QEMU did not take, since it ended, is written again here.
        with contextlib.suppress(OSError):
            self._file.close()
        self._socket.close()


class Deadline:
    """The end of a guest's time, by the host's clock."""

    def __init__(self, seconds):
        self._end = time.monotonic() + seconds

    def passed(self):
        """True once the time is over."""
        return time.monotonic() > self._end


class SharedDeadline:
    """The end of the time of guests that run together."""

    def __init__(self, guests, seconds):
        self._ends = [(guest, guest.deadline(seconds)) for guest in guests]

    def passed(self):
        """True once the time of a guest that still runs is over."""
        return any(end.passed() for guest, end in self._ends
                   if guest.running())


class Guest:
    """One QEMU process.

    name     for messages, file names, and the MAC address
    workdir  an existing directory for its files
    run      text of the script that it runs, or None for none
    options  more arguments of scripts/vm, as a list
    """

    # The host's seconds for an answer of QEMU
    ANSWER_SECONDS = 60
    # The unit of a deadline's seconds
    UNIT = "s"

    def __init__(self, name, workdir, run=None, options=()):
        self.name = name
        self.console_path = os.path.join(workdir, f"{name}.console")
        self.results_path = os.path.join(workdir, f"{name}.results")
        self.stderr_path = os.path.join(workdir, f"{name}.stderr")
        # A socket's path is limited to 107 bytes.
        self.qmp_path = os.path.join(workdir, f"{name}.qmp")
        arguments = ["--name", name, "--console", self.console_path,
                     "--results", self.results_path, "--qmp", self.qmp_path]
        if run is not None:
            script = os.path.join(workdir, f"{name}.run")
            with open(script, "w", encoding="utf-8") as file:
                file.write(run)
            arguments += ["--run", script]
        self._options = vm.parse_options(arguments + list(options))
        self._process = None
        self._qmp = None
        self._moves = 0
        self._moving = threading.Lock()

    def start(self):
        """Starts QEMU; returns at once."""
        self.require_ended()
        self._start_qemu(self._options)

    def require_ended(self):
        """GuestError if QEMU runs: a second one would write over the files of the first."""
        if self.running():
            raise GuestError(f"{self.name} runs already: start it once (`with` does it)")

    def _start_qemu(self, options):
        command, descriptors = vm.prepare(options)
        with open(self.stderr_path, "ab") as stderr:
            # The function makes one system call, which is safe after fork.
            self._process = subprocess.Popen(  # pylint: disable=W1509,R1732
                command, stdin=subprocess.DEVNULL, stdout=stderr,
                stderr=stderr, pass_fds=descriptors,
                preexec_fn=die_with_parent)
        for descriptor in descriptors:
            os.close(descriptor)

    def move(self, seconds=60):
        """Saves the machine to a file, and goes on with it in another QEMU.

        Later output goes to files of its own: QEMU begins a file
        when it opens it.
        """
        with self._moving:
            saved = f"{self.qmp_path}.saved"
            self.qmp("stop")
            self.qmp("migrate", uri=f"file:{saved}")
            self._await("query-migrate", ("completed", "failed"), "completed",
                        seconds)
            self.qmp("quit")
            self._process.wait(seconds)
            self._qmp.close()
            self._qmp = None
            self._moves += 1
            moved = copy.copy(self._options)
            moved.console = f"{self.console_path}.{self._moves}"
            moved.results = f"{self.results_path}.{self._moves}"
            moved.extra = [*moved.extra, "-incoming", f"file:{saved}"]
            self._start_qemu(moved)
            # The saved guest was stopped, so the restored guest is stopped, too.
            self._await("query-status", ("paused",), "paused", seconds)
            self._await_wires(seconds)
            self.qmp("cont")
            os.unlink(saved)

    def _await_wires(self, seconds):
        """Waits until each stream netdev listens or has begun to connect.

        QEMU 10.0 dereferences NULL when a machine with a frame to send goes
        on before; after a move it has one, which announces its place.
        """
        deadline = time.monotonic() + seconds
        while "type=stream,initializing" in self.qmp(
                "human-monitor-command", command_line="info network"):
            if time.monotonic() > deadline:
                raise GuestError(f"{self.name}: its wire does not begin to "
                                 f"listen; {self.trouble()}")
            time.sleep(0.02)

    def _await(self, query, ends, good, seconds):
        """Asks until the status is one of `ends`, which should be `good`."""
        deadline = time.monotonic() + seconds
        status = None
        while status not in ends:
            if time.monotonic() > deadline or not self.running():
                raise GuestError(f"{self.name}: {query} says {status}; "
                                 f"{self.trouble()}")
            time.sleep(0.02)
            status = self.qmp(query).get("status")
        if status != good:
            raise GuestError(f"{self.name}: {query} says {status}; "
                             f"{self.trouble()}")

    def _read_parts(self, path):
        """A file and those that moves have added to it."""
        return "".join(read_text(part) for part in
                       [path, *(f"{path}.{n + 1}"
                                for n in range(self._moves))])

    @property
    def pid(self):
        """QEMU's process id, or None before start()."""
        return self._process.pid if self._process else None

    def running(self):
        """True from start() until QEMU has ended."""
        return self._process is not None and self._process.poll() is None

    def results(self):
        """The script's output so far, without the status line."""
        return vm.STATUS.sub("", self._read_parts(self.results_path))

    def status(self):
        """The script's exit status, or None if it has not ended."""
        return vm.script_status(self._read_parts(self.results_path))

    def console(self):
        """The output of the kernel and /init so far."""
        return self._read_parts(self.console_path)

    def qmp(self, name, /, **arguments):
        """Executes a QMP command; connects at the first call."""
        if not self.running():
            raise GuestError(f"{self.name} does not run; {self.trouble()}")
        if self._qmp is None:
            deadline = Deadline(self.ANSWER_SECONDS)
            while not os.path.exists(self.qmp_path):
                if deadline.passed() or not self.running():
                    raise GuestError(f"{self.name}: no control socket; "
                                     f"{self.trouble()}")
                time.sleep(0.02)
            self._qmp = Qmp(self.qmp_path, self.ANSWER_SECONDS)
        return self._qmp.command(name, **arguments)

    def card_get(self, name):
        """A property of the card, e.g. counters: docs/specs/unetmm.rst."""
        return self.qmp("qom-get", path=f"/machine/peripheral/{CARD}",
                        property=name)

    def card_set(self, name, value):
        """Sets one that may be set while the card runs: x-loss and others."""
        self.qmp("qom-set", path=f"/machine/peripheral/{CARD}", property=name,
                 value=value)

    def unplug_card(self, seconds=600):
        """Takes the card out of its root port; returns when the guest has let go of it."""
        deadline = self.deadline(seconds)
        self.qmp("device_del", id=CARD)
        while any(item["name"] == CARD for item in
                  self.qmp("qom-list", path="/machine/peripheral")):
            if deadline.passed():
                raise GuestError(f"{self.name}: the guest keeps its card; {self.trouble()}")
            time.sleep(0.05)

    def deadline(self, seconds):
        """The end of so many seconds of the clock that limits this guest."""
        return Deadline(seconds)

    def wait(self, seconds):
        """Waits for the guest to power off; returns the script's status.

        Raises GuestError when it takes longer, when QEMU fails, or when the
        script did not come to its end.
        """
        return self.wait_until(self.deadline(seconds), seconds)

    def wait_until(self, deadline, seconds):
        """Waits like wait(), up to a deadline that began earlier."""
        try:
            code = self._wait_for_last(deadline)
        except subprocess.TimeoutExpired:
            self._ask_what_hangs()
            self.kill()
            raise GuestError(f"{self.name}: not done after {seconds:g} "
                             f"{self.UNIT}; {self.trouble()}") from None
        if code:
            raise GuestError(f"{self.name}: QEMU ended with {code}; "
                             f"{self.trouble()}")
        status = self.status()
        if status is None and self._options.run:
            raise GuestError(f"{self.name}: its script was cut off; "
                             f"{self.trouble()}")
        return status

    def _wait_for_last(self, deadline):
        """Waits for the QEMU that the machine ends in; returns its status."""
        while True:
            process = self._process
            try:
                code = process.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                if deadline.passed():
                    raise
                continue
            with self._moving:
                if process is self._process:
                    return code

    def _ask_what_hangs(self):
        """Has the kernel print where its CPUs and its sleeping tasks are.

        A guest that answers has written all when the file has stood still
        for a while; one that does not has nothing more to say.
        """
        try:
            # 8: print all; l: the CPUs; w: tasks that cannot be killed.
            for key in ("8", "l", "w"):
                self.qmp("send-key", keys=[{"type": "qcode", "data": name}
                                           for name in ("alt", "sysrq", key)])
                self._await_quiet()
        except (GuestError, OSError):
            pass    # the results so far have to do

    def _await_quiet(self, quiet=1.0, limit=10.0):
        """Waits until the console has said nothing for a while."""
        end = time.monotonic() + limit
        size, since = -1, time.monotonic()
        while time.monotonic() < end and time.monotonic() - since < quiet:
            now = len(self.console())
            if now != size:
                size, since = now, time.monotonic()
            time.sleep(0.05)

    def trouble(self):
        """The last words of QEMU, the script and the console."""
        parts = []
        for title, path, lines in (("QEMU", self.stderr_path, 15),
                                   ("script", self.results_path, 15),
                                   ("console", self.console_path, 120)):
            tail = self._read_parts(path).splitlines()[-lines:]
            if tail:
                parts.append(f"{title} said:\n    " + "\n    ".join(tail))
        return "\n".join(parts) or "it said nothing"

    def kill(self):
        """Ends QEMU, if it runs, and closes the control socket."""
        if self._qmp is not None:
            self._qmp.close()
            self._qmp = None
        if self.running():
            self._process.kill()
            self._process.wait()


def stream_ends(path):
    """The values of --netdev of scripts/vm for the two ends of a UNIX socket."""
    return f"unix:{path},server", f"unix:{path}"


def dgram_ends(path):
    """UNIX sockets, a frame a datagram."""
    ends = [f"{path}{end}".replace(",", ",,") for end in "ab"]
    return tuple(f"dgram,local.type=unix,local.path={one},remote.type=unix,"
                 f"remote.path={other}" for one, other in (ends, ends[::-1]))


def udp_ends(_path):
    """UDP by the loopback interface: QEMU's older netdev `socket`."""
    with socket.socket(type=socket.SOCK_DGRAM) as one, \
            socket.socket(type=socket.SOCK_DGRAM) as other:
        for sock in (one, other):
            sock.bind(("127.0.0.1", 0))
        ends = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in (one, other)]
    return tuple(f"socket,localaddr={one},udp={other}"
                 for one, other in (ends, ends[::-1]))


# Any of QEMU's netdevs may be a wire; these need nothing but this machine.
WIRES = {"stream": stream_ends, "dgram": dgram_ends, "udp": udp_ends}


class Pair:
    """Two guests, a and b, whose cards are joined by a UNIX socket.

    run_a, run_b  script texts
    kernel        6.1, 6.12, newest, debug, kcsan or a path
    options       more arguments of scripts/vm, for both
    options_a, options_b  the same, for one
    e1000e        True adds an e1000e to each, on a wire of its own
    wire          which of WIRES is between them, or a function like those
    keep_files    a directory in which all files stay; by default they are
                  removed at the end
    """

    GUEST = Guest

    def __init__(self, run_a=None, run_b=None, kernel="6.1", options=(),
                 options_a=(), options_b=(), e1000e=False, keep_files=None,
                 wire="stream"):
        self._own_dir = keep_files is None
        if keep_files is not None:
            os.makedirs(keep_files, exist_ok=True)
        self.workdir = keep_files or tempfile.mkdtemp(prefix="unetmm-")
        # Sockets always lie in a short path.
        self._sockets = tempfile.mkdtemp(prefix="unetmm-wire-")
        path = os.path.join(self._sockets, "wire")
        ends = WIRES.get(wire, wire)
        wires_a, wires_b = (["--netdev", end] for end in ends(path))
        if e1000e:
            end_a, end_b = (ends if callable(wire) else
                            WIRES["stream"])(path + "2")
            wires_a += ["--with-e1000e", end_a]
            wires_b += ["--with-e1000e", end_b]
        common = ["--kernel", kernel, *options]
        # The later option wins, so a caller may replace a wire or an id.
        self.a = self.GUEST("a", self.workdir, run_a,
                       ["--id", "1", *wires_a, *common, *options_a])
        self.b = self.GUEST("b", self.workdir, run_b,
                       ["--id", "2", *wires_b, *common, *options_b])

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc):
        self.close()

    def start(self):
        """Starts both guests; the order does not matter to them."""
        self.a.start()
        self.b.start()

    def wait(self, seconds):
        """Waits for both; returns their scripts' statuses as (a, b).

        When one fails, the other's wait is cut short: its peer is gone.
        """
        deadline = self.deadline(seconds)
        while self.a.running() and self.b.running() and not deadline.passed():
            time.sleep(0.05)
        statuses = [(guest.name, guest.wait_until(deadline, seconds))
                    for guest in sorted((self.a, self.b), key=Guest.running)]
        return tuple(status for _, status in sorted(statuses))

    def deadline(self, seconds):
        """The end of so many seconds for both guests."""
        return SharedDeadline((self.a, self.b), seconds)

    def close(self):
        """Ends the running guests and removes the files."""
        self.a.kill()
        self.b.kill()
        shutil.rmtree(self._sockets, ignore_errors=True)
        if self._own_dir:
            shutil.rmtree(self.workdir, ignore_errors=True)


def read_text(path):
    """A file's text; a file that is not there yet is empty."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""
