# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests of unetmm.lab, which docs/lab.rst describes, and of scripts/cluster."""
import base64
import codecs
import ctypes
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import tempfile
import time

from unetmm_tools.guest import pair, vm
from unetmm_tools.guest.child import LIBC
from unetmm_tools.guest.switches import Hub

GuestError = pair.GuestError

# Bytes that the guest acknowledges at once.  A serial port has room for so many while
# nobody reads it; a virtio port stops its writer.
BLOCKS = {"serial": 16384, "virtio": 1 << 18}
CHUNK = 24000           # bytes of output in a line, which a virtio port takes as one piece
FOLDER = "/tmp/.lab"    # of the guest: scripts of commands, and files on their way
END_BYTES = 64          # of a job's last word, at most
ORDER_BYTES = 4095      # of a line
POLL = 0.01             # seconds
SEND_SECONDS = 60       # for a block that the guest does not read
SOCKET_BYTES = 107
LINE_BYTES = 1 << 24    # of a guest's output, at most
FREE_BYTES = 1 << 20    # of output, which are freed at a time
# Of fallocate(2)
KEEP_SIZE, PUNCH_HOLE = 1, 2
NUMBERS = range(1, 9)   # of guests

# The guest's shell executes the host's orders, line by line.
#
# Orders come by descriptor 4 and output of jobs goes to descriptor 5: two virtio ports, or
# serial ports in a kernel without a driver for those.
#
# `as NAME command`: its lines, each behind the name, on the standard output.  `take FILE
# BYTES BLOCK`: the bytes that follow, in blocks, each of which is acknowledged.
# `job NAME FILE WORD`: output of that script in base64, a line for all that was there, each
# behind the name; in the end a dot, the word and the exit status.  An order other than
# `take` is executed by a shell of its own, whose children are not the reader's: busybox's
# `read` begins anew when a child ends, and forgets the beginning of the line.
#
# A virtio port has an end of file while the host is not connected, as after a move; a write
# to it waits for the host.  Names of ports come some time after the driver.
BEGIN = """
as() { name=$1; shift; "$@" 2>&1 | while read -r line; do echo "$name $line"; done; }
lines() {
    while bytes=$(dd bs=%(chunk)d count=1 2>/dev/null | base64 -w 0) && [ -n "$bytes" ]; do
        echo "$1 $bytes" >&5
    done
}
job() {
    { sh "$2" 2>&1 </dev/null 5>&-; status=$?; rm -f "$2"; echo ".$3 $status"; } | lines "$1"
}
take() {
    left=$2
    : >"$1"
    while [ "$left" -gt 0 ]; do
        dd bs="$3" count=$((left < $3 ? left : $3)) \\
            iflag=fullblock,count_bytes <&4 2>/dev/null >>"$1"
        left=$((left - $3))
        echo "taken $1" >&5
    done
}
find_ports() {
    orders='' output=''
    for port in /sys/class/virtio-ports/*; do
        name=
        [ ! -e "$port/name" ] || read -r name <"$port/name"
        case $name in
            unetmm.orders) orders=/dev/${port##*/} ;;
            unetmm.output) output=/dev/${port##*/} ;;
        esac
    done
    [ -e "$orders" ] && [ -e "$output" ]
}
open_ports() {
    for driven in /sys/bus/virtio/drivers/virtio_console/virtio*; do
        [ -e "$driven" ] || continue
        until find_ports; do sleep 0.01; done
        exec 4<>"$orders" 5>"$output"
        echo guest virtio
        return
    done
    stty -F /dev/ttyS2 raw -echo
    exec 4<>/dev/ttyS2 5>&1
    echo guest serial
}
if [ $# -gt 0 ]; then
    eval "$1"
    exit
fi
mkdir -p %(folder)s
open_ports
while echo connected >&4; do
    while read -r line <&4; do
        case $line in
            end) exit 0 ;;
            "take "*) eval "$line" ;;
            *) /run "$line" 4<&- ;;
        esac
    done
done
exit 1
""" % {"chunk": CHUNK, "folder": FOLDER}


def to_bytes(text):
    """Bytes for the guest.  A text may have bytes that os.fsdecode() has put into it."""
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else \
        bytes(text)


def to_text(data, final=True):
    """The opposite, without a character that is not complete yet unless `final`."""
    return codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data, final)


def shell_word(text):
    """A word for the shell that stands for that text, of which no part is special."""
    if "\0" in text:
        raise ValueError("a word of the shell has no NUL")
    return shlex.quote(text)


class CommandError(Exception):
    """A command in a guest that failed: `status` and `output`."""

    def __init__(self, command, status, output):
        super().__init__(f"status {status} of: {shorten(command)}\n{output}")
        self.status = status
        self.output = output


class Job:
    """A command that runs in a guest.

    limit  bytes of output that are kept; those behind them are counted in `cut`
    """

    def __init__(self, guest, name, command, word, limit=None):
        self.guest = guest
        self.name = name
        self.command = command
        # No output of a command looks like its end.
        self._end = re.compile(rb"\.%s (\d+)\n" % word.encode())
        self._data = bytearray()
        self._limit, self._cut = limit, 0
        self._status = None

    def _look(self):
        """Takes the lines that have come."""
        lines = self.guest.lines(self.name)
        for line in lines:
            # A child that the command has left may go on to print.
            if self._status is None:
                self._take(base64.b64decode(line))
        lines.clear()

    def _take(self, data):
        # The end may stand in two lines.
        begin = max(0, len(self._data) - END_BYTES)
        self._data += data
        if end := self._end.search(self._data, begin):
            self._status = int(end[1])
            del self._data[end.start():]
        if self._limit is not None:
            # The last bytes may be the first of the end.
            over = len(self._data) - self._limit - (END_BYTES if end is None else 0)
            if over > 0:
                del self._data[self._limit:self._limit + over]
                self._cut += over

    @property
    def status(self):
        """The exit status, or None while it runs."""
        self._look()
        return self._status

    @property
    def data(self):
        """The bytes printed so far, on both of its outputs."""
        self._look()
        return bytes(self._data[:self._limit])

    @property
    def cut(self):
        """How many bytes were printed behind the limit."""
        kept = len(self.data)
        return self._cut + max(0, len(self._data) - kept)

    @property
    def output(self):
        """The output as text; a byte that is not UTF-8 is as os.fsdecode() has it."""
        return to_text(self.data, self.status is not None)

    def wait(self, timeout=300, check=True):
        """Its output, when it has ended; CommandError if its status is not 0."""
        self.guest.until(lambda: self.status is not None, timeout,
                         f"'{shorten(self.command)}' has not ended")
        if check and self.status:
            raise CommandError(self.command, self.status, self.output)
        return self.output


def shorten(command):
    """A command for an error message."""
    return command if len(command) <= 500 else f"{command[:500]}..."


class LineReader:
    """Reads a file that grows, by whole lines."""

    def __init__(self):
        self._offset, self._rest = 0, b""
        self._freed = 0

    def read(self, path):
        """The lines that are new."""
        try:
            with open(path, "rb") as file:
                file.seek(self._offset)
                found = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        if len(self._rest) > LINE_BYTES:
            self._rest = b""
            raise GuestError(f"{os.path.basename(path)}: a line has more than {LINE_BYTES} bytes")
        return lines

    def free(self, path):
        """Gives the disk's room of the bytes that were read back, but for a small rest."""
        if self._offset - self._freed >= FREE_BYTES:
            free_begin(path, self._offset)
            self._freed = self._offset

    def next_file(self):
        """Another file goes on where this one ends, perhaps within a line."""
        self._offset = self._freed = 0


def free_begin(path, size):
    """Gives the disk's room of a file's first bytes back; the others keep their places.

    A file system that cannot do it leaves the file as it is.
    """
    with open(path, "r+b") as file:
        LIBC.fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, ctypes.c_int64(0),
                       ctypes.c_int64(size))


def port_arguments(orders, output):
    """QEMU's arguments for two virtio ports: a socket's path, and a file's."""
    orders, output = (path.replace(",", ",,") for path in (orders, output))
    return ["-device", "virtio-serial-pci,id=lab",
            "-chardev", f"socket,id=lab-orders,path={orders},server=on,wait=off",
            "-chardev", f"file,id=lab-output,path={output},append=on",
            "-device", "virtserialport,bus=lab.0,chardev=lab-orders,name=unetmm.orders",
            "-device", "virtserialport,bus=lab.0,chardev=lab-output,name=unetmm.output"]


# Of knobs(), besides seed
KNOBS = ("loss", "dup", "reorder", "corrupt", "force_miss", "force_evict", "delay", "delay_ns",
         "fault_delay", "fault_delay_ns", "fault_fail", "fault_refuse", "lie")


def read_files(files):
    """[(path in the guest, bytes, is it a program?)] of the argument `files` of a lab."""
    if not isinstance(files, dict):
        raise ValueError("files is a dictionary: {path in the guest: path here, or bytes}")
    found = []
    for path, source in files.items():
        name = to_text(to_bytes(path))
        if "\0" in name or not os.path.basename(name):
            raise ValueError(f"files: {name!r} is no name of a file in the guest")
        if isinstance(source, (bytes, bytearray, memoryview)):
            found.append((name, bytes(source), False))
            continue
        if not isinstance(source, (str, os.PathLike)):
            raise ValueError(f"files: {name}: use the path of a file, or bytes")
        with open(source, "rb") as file:
            found.append((name, file.read(), os.access(source, os.X_OK)))
    return found


def put_files(guests, files):
    """Writes the files of read_files() in the guests, and makes their folders."""
    for guest in guests:
        for name, data, program in files:
            word = shell_word(name if name.startswith("/") else f"./{name}")
            guest.run(f'mkdir -p "$(dirname {word})"')
            guest.put(name, data)
            if program:
                guest.run(f"chmod +x {word}")


def knobs(seed=None, **rates):
    """The card's properties for Guest.faults(): {name: value}."""
    found = {} if seed is None else {"x-seed": seed}
    for name, value in rates.items():
        name = name.replace("_", "-")
        found[f"x-{name}"] = int(value) if name.endswith("-ns") else \
            round(value * 1e6)
    return found


class Guest(pair.Guest):
    """One guest that executes orders, and whose card can be looked at.

    begin    a script's text, which is run before each order: functions
    options  arguments of scripts/vm, and after "--" of QEMU
    """

    def __init__(self, name, directory, begin="", options=()):
        self._orders = {way: os.path.join(directory, f"{name}.{way}") for way in BLOCKS}
        self._output = os.path.join(directory, f"{name}.output")
        options = list(options)
        if "--" not in options:
            options.append("--")
        for path in self._orders.values():
            if len(os.fsencode(path)) > SOCKET_BYTES:
                raise ValueError(f"{path}: a socket's path has up to {SOCKET_BYTES} "
                                 "bytes; name a shorter directory")
        super().__init__(name, directory, f"#!/bin/sh\n{begin}{BEGIN}", [
            *options, "-serial", vm.file_value(f"unix:{self._orders['serial']}"),
            *port_arguments(self._orders["virtio"], self._output)])
        self._socket = None
        self._block = None
        self._numbers = itertools.count(1)
        self._lines = {}        # name: the lines of the results and the output behind it
        self._part = 0          # of the results
        self._read_results, self._read_output = LineReader(), LineReader()

    # ---- Its life

    def start(self):
        """Starts QEMU; returns at once."""
        self.require_ended()
        # QEMU appends, also behind a move.
        with open(self._output, "wb"):
            pass
        super().start()

    def boot(self, timeout=300, tick=lambda: None):
        """After start(): waits until the guest executes orders; calls tick() meanwhile."""
        def begun():
            tick()
            return self.said("guest")
        self.until(begun, timeout, "does not boot")
        self._connect(self.said("guest")[0])

    def _connect(self, way):
        self._block = BLOCKS[way]
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(SEND_SECONDS)
        self._socket.connect(self._orders[way])

    def move(self, seconds=60):
        """Moves the guest like pair.Guest.move(); jobs and orders go on afterwards."""
        # No order is on its way: QEMU does not save those that it has not given to Linux.
        moves = len(self.lines("moves")) + 1
        self.order("echo moves")
        self.until(lambda: len(self.lines("moves")) >= moves, seconds,
                   "an order is not executed")
        super().move(seconds)
        # The other end of the socket was in the QEMU that has ended.
        self._close_orders()
        self._connect(self.said("guest")[0])

    def end(self, timeout=300):
        """Has the guest power off."""
        self.order("end")
        if self.wait(timeout):
            raise GuestError(self.trouble())

    def close(self):
        """Ends it at any time."""
        self._close_orders()
        self.kill()
        # The files may be removed next.
        self._read()

    def _close_orders(self):
        if self._socket:
            self._socket.close()
            self._socket = None

    # ---- Commands

    def run(self, command, timeout=300, check=True):
        """Runs a shell command; returns its output, as Job.wait() does."""
        return self._job(command, "").wait(timeout, check)

    def launch(self, command, limit=None):
        """Starts a shell command in the background; returns its Job."""
        return self._job(command, " &", limit)

    def _job(self, command, more, limit=None):
        name = f"job{next(self._numbers)}"
        script = to_bytes(command)
        if b"\0" in script:
            raise ValueError("a command of the shell has no NUL")
        file = self._send(name, script)
        word = secrets.token_hex(8)
        self.order(f"job {name} {file} {word}{more}")
        return Job(self, name, to_text(script), word, limit)

    def _send(self, name, data, timeout=300):
        """Sends a file in blocks; its name in the guest.

        A block is sent when the guest has taken the block before.
        """
        file = f"{FOLDER}/{name}"
        self.order(f"take {file} {len(data)} {self._block}")
        for at in range(0, len(data), self._block):
            self._await_block(file, at // self._block, timeout)
            self._write(data[at:at + self._block])
        return file

    def _await_block(self, file, number, timeout):
        try:
            self.until(lambda: self.lines("taken").count(to_bytes(file)) >= number,
                       timeout, "a file is not taken")
        except GuestError:
            # The guest would take the next order for the rest of the file.
            self._close_orders()
            raise

    def put(self, path, data):
        """Writes a file in the guest; data is text or bytes."""
        word = shell_word(to_text(to_bytes(path)))
        file = self._send(f"put{next(self._numbers)}", to_bytes(data))
        # The guest acknowledges the last block of a large file, and then copies the file.
        self.run(f"cat {file} >{word}; status=$?; rm -f {file}; exit $status")

    def get(self, path, timeout=300):
        """The bytes of a file in the guest; CommandError if it cannot be read."""
        job = self.launch(f"exec cat <{shell_word(to_text(to_bytes(path)))}")
        job.wait(timeout)
        return job.data

    def order(self, line):
        """Has the guest's shell execute a line; does not wait."""
        data = to_bytes(line)
        if b"\n" in data or b"\0" in data or len(data) > ORDER_BYTES:
            raise ValueError(f"an order is one line of up to {ORDER_BYTES} bytes")
        self._write(data + b"\n")

    def _write(self, data):
        if self._socket is None:
            raise GuestError(f"{self.name} takes no orders: it is not booted, or closed")
        try:
            self._socket.sendall(data)
        except OSError as error:
            # A part of the bytes may have been sent.
            self._close_orders()
            raise GuestError(f"{self.name} takes no orders ({error}); "
                             f"{self.trouble()}") from error

    def lines(self, name):
        """All lines that came under a name, as bytes: a list that grows."""
        self._read()
        return self._lines.setdefault(name, [])

    def _read(self):
        """Reads the lines that are new; moves add files to the results."""
        self._keep(self._read_output.read(self._output))
        while True:
            path = self.results_path + (f".{self._part}" if self._part else "")
            self._keep(self._read_results.read(path))
            if self._part == self._moves:
                return
            self._part += 1
            self._read_results.next_file()

    def free(self):
        """Gives the disk's room of output that was read back."""
        self._read_output.free(self._output)
        self._read_results.free(self.results_path + (f".{self._part}" if self._part else ""))

    def _keep(self, lines):
        for line in lines:
            word, _, rest = line.partition(b" ")
            self._lines.setdefault(to_text(word), []).append(rest)

    def said(self, name):
        """All that came under a name (`as NAME command`): objects, or texts."""
        texts = [line.decode("utf-8", "replace").rstrip("\r") for line in self.lines(name)]
        return [json.loads(text) if text.startswith("{") else text
                for text in texts if text]

    def wait_for(self, name, limit=120, count=1):
        """Until so much was said under a name; the last of it."""
        self.until(lambda: len(self.said(name)) >= count, limit,
                   f"nothing under '{name}'")
        return self.said(name)[count - 1]

    def until(self, condition, limit, problem):
        """Waits for a condition, as long as the guest runs."""
        deadline = time.monotonic() + limit
        while True:
            # The last lines of a guest count, though the guest has ended since.
            late = time.monotonic() > deadline or not self.running()
            if condition():
                return
            if late:
                raise GuestError(f"{self.name}: {problem} in {limit} s; "
                                 f"{self.trouble()}")
            time.sleep(POLL)

    # ---- The card

    @property
    def mac(self):
        """The card's address."""
        return self.card_get("mac")

    def counters(self):
        """{name: value} of all that the card has counted."""
        return self.card_get("counters")

    def tlb(self):
        """The translations in the card's TLB, a dictionary each."""
        return self.card_get("tlb")

    def endpoints(self):
        """The endpoints that exist on the card, with their rings' indices."""
        return self.card_get("active-endpoints")

    def faults(self, seed=None, **rates):
        """Sets how often the card misbehaves, from 0 to 1, by the knob's name.

        faults(loss=0.01, force_miss=0.5) is x-loss and x-force-miss; those that end
        in _ns are times.  `seed` makes the run repeatable.
        """
        for name, value in knobs(seed, **rates).items():
            self.card_set(name, value)

    def link(self, up):
        """Takes the card's link down, or up again."""
        self.qmp("set_link", name=pair.CARD, up=up)


class Guests:
    """A list of guests that `with` boots and closes."""

    def __enter__(self):
        try:
            self.boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc):
        self.close()

    def start(self, switches):
        """Starts the switches, then the guests."""
        for guest in self.guests:
            guest.require_ended()
        for part in [*switches, *self.guests]:
            part.start()

    def __iter__(self):
        return iter(self.guests)

    def __getitem__(self, index):
        return self.guests[index]


class Lab(Guests):
    """Guests a, b and so on, whose cards are joined by a wire or, of more than two, a hub.

    number     1 to 8
    kernel     6.1, 6.12, debug or a path
    options    more arguments of scripts/vm for both, as a list
    python     adds python3 and the package unetmm to the guests
    share      a folder of the host, which is /shared in each guest
    files      {path in the guest: path here, or bytes}, written in each guest when it has booted
    directory  where the guests' files stay; by default they are removed
    """

    def __init__(self, number=1, kernel="6.1", options=(), python=False,
                 directory=None, share=None, files=None):
        self._files = read_files(files or {})
        if number not in NUMBERS:
            raise ValueError(f"a lab has 1 to {NUMBERS[-1]} guests")
        self._own = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="unetmm-lab-")
        os.makedirs(self.directory, exist_ok=True)
        self._hub = Hub(self.directory, number) if number > 2 else None
        common = ["--kernel", kernel, *(["--python"] if python else []),
                  *(["--share", share] if share else [])]
        self.guests = []
        try:
            for index in range(number):
                wire = ["--netdev", self._netdev(index + 1)] if number > 1 else []
                self.guests.append(Guest(
                    "abcdefgh"[index], self.directory,
                    options=["--id", str(index + 1), *wire, *common, *options]))
        except BaseException:
            # An option is wrong.
            self.close()
            raise

    def _netdev(self, number):
        """One of the two ends of a wire, or a place at the hub."""
        return self._hub.netdev(number) if self._hub else \
            f"wire:{self.directory}/wire,{number}"

    def boot(self, timeout=300, tick=lambda: None):
        """Starts all guests; returns when they can run commands; calls tick() meanwhile."""
        self.start([self._hub] if self._hub else [])
        for guest in self.guests:
            guest.boot(timeout, tick)
        put_files(self.guests, self._files)

    def close(self):
        """Ends the guests, and removes their files."""
        for guest in self.guests:
            guest.close()
        if self._hub:
            self._hub.close()
        if self._own:
            shutil.rmtree(self.directory, ignore_errors=True)
