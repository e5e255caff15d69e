#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""unetmm.lab's orders without a guest: busybox executes them, behind a terminal of the host.

usage: test-orders.py [-k PATTERN]
"""
import os
import pty
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import tty
import unittest
from unittest import mock

REPO = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__))))
for part in ("scripts", "tests/library/python"):
    sys.path.insert(0, os.path.join(REPO, part))
from unetmm_tools.guest import cluster  # noqa: E402  (of this checkout)
import tap  # noqa: E402
from unetmm_tools.guest import lab, pair, vm  # noqa: E402  (of this checkout)

ALL_BYTES = bytes(range(256)) * 3
# Names that mean something else to a shell, to printf, to QEMU, or are not UTF-8
ODD = ["a b", " lead", "trail ", "$HOME", "`id`", "$(id)", "a;b", "a&b", "a|b", "a>b",
       "'", '"', "it's \"so\"", "\\", "\\n", "a\nb", "a\tb", "a\rb", "*", "?[a]", "~", "#x",
       "!", "-n", "--", "-rf", "%s", "a,b", "a=b", "ä", os.fsdecode(b"\xff\xfe"),
       "{a,b}", "(a)", "=", "\x01\x7f"]


class Terminal:
    """The host's end of the terminal, in place of the socket of a serial port.

    As in a socket, bytes that nobody reads yet do not stop the writer.
    """

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._queue = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self):
        while data := self._queue.get():
            try:
                while data:
                    data = data[os.write(self._descriptor, data):]
            except OSError:
                return      # the reader has gone

    def sendall(self, data):
        """All of it."""
        self._queue.put(bytes(data))

    def close(self):
        """Nothing more is written."""
        self._queue.put(b"")


class Guest(lab.Guest):
    """A lab.Guest whose guest is a busybox shell of the host.

    way  "serial", or "virtio": terminals and files stand for the ports
    """

    def __init__(self, directory, way):
        super().__init__("a", directory)
        self._way = way
        self._process = self._master = None
        self.folder = os.path.join(directory, "guest")
        os.mkdir(self.folder)
        commands = os.path.join(directory, "bin")
        os.mkdir(commands)
        subprocess.run(["busybox", "--install", "-s", commands], check=True)
        self._environment = {"PATH": commands}

    def start(self):
        self._master, slave = pty.openpty()
        run = os.path.join(self.folder, "run")
        tty.setraw(slave)
        system = os.path.join(self.folder, "system")
        if self._way == "virtio":
            self._make_ports(system, os.ttyname(slave))
        with open(run, "w", encoding="utf-8") as file:
            file.write("#!/bin/busybox sh\n" + lab.BEGIN.replace(
                "/dev/ttyS2", os.ttyname(slave)).replace(
                "/dev/${", system + "/${").replace("/sys/", system + "/").replace(
                "/run ", run + " ").replace(lab.FOLDER, lab_folder(self)))
        os.chmod(run, 0o755)
        open(self._output, "wb").close()    # pylint: disable=R1732
        with open(self.results_path, "wb") as results:
            self._process = subprocess.Popen(  # pylint: disable=R1732
                [run], stdin=subprocess.DEVNULL, stdout=results, stderr=results,
                cwd=self.folder, env=self._environment)
        self._slave = slave

    def _make_ports(self, system, orders):
        """A driver with a device, and the ports of it and of another device."""
        os.makedirs(os.path.join(system, "bus/virtio/drivers/virtio_console/virtio0"))
        for port, name, target in (("vport0p0", None, None),
                                   ("vport0p1", "org.qemu.guest_agent.0", "/dev/null"),
                                   ("vport0p2", "unetmm.orders", orders),
                                   ("vport1p1", "unetmm.output", self._output)):
            directory = os.path.join(system, "class/virtio-ports", port)
            os.makedirs(directory)
            if name:
                with open(os.path.join(directory, "name"), "w", encoding="ascii") as file:
                    file.write(name + "\n")
                os.symlink(target, os.path.join(system, port))

    def _connect(self, way):
        assert way == self._way, way
        self._block = lab.BLOCKS[way]
        self._socket = Terminal(self._master)

    def trouble(self):
        return f"it said {self._lines}"

    def kill(self):
        if self._process:
            self._process.kill()
            self._process.wait()
            os.close(self._slave)
            os.close(self._master)
            self._process = None


def read_bytes(path):
    """A file of the host."""
    with open(path, "rb") as file:
        return file.read()


def lab_folder(guest):
    """In place of the folder in a guest."""
    return os.path.join(guest.folder, "lab")


class Orders(unittest.TestCase):
    """Commands, their output, and files; by serial ports."""

    WAY = "serial"

    def setUp(self):
        self._directory = tempfile.TemporaryDirectory(prefix="unetmm-orders-")
        self.guest = Guest(self._directory.name, self.WAY)
        before, lab.FOLDER = lab.FOLDER, lab_folder(self.guest)
        self.addCleanup(setattr, lab, "FOLDER", before)
        # start() replaces the folder that BEGIN was made with.
        lab.FOLDER = before
        self.guest.start()
        lab.FOLDER = lab_folder(self.guest)
        self.guest.boot(20)

    def tearDown(self):
        self.guest.close()
        self._directory.cleanup()

    def path(self, name):
        """A file of the guest, as the host has it."""
        return os.path.join(self.guest.folder, name)

    def require_file(self, path, data):
        with open(os.path.join(self.guest.folder, path), "rb") as file:
            self.assertEqual(file.read(), data)

    def test_bytes_of_output_are_exact(self):
        for data in (b"", b"\n", b"a", b"a\n", b"a\r\nb\r", b"\0", b"a\0b\n", ALL_BYTES,
                     "ä€\u2028\x0b\x0c\x1c\x85".encode(), b"\xc3", b".word 3\n"):
            with open(self.path("data"), "wb") as file:
                file.write(data)
            job = self.guest.launch("cat data")
            text = job.wait()
            self.assertEqual(job.data, data)
            self.assertEqual(os.fsencode(text), data)

    def test_output_behind_a_limit_is_counted(self):
        for size in (0, 999, 1000, 1001, 1050, 1100, 200000):
            with open(self.path("data"), "wb") as file:
                file.write((ALL_BYTES * 300)[:size])
            job = self.guest.launch("cat data; exit 3", 1000)
            job.wait(check=False)
            self.assertEqual((job.status, job.data, job.cut),
                             (3, (ALL_BYTES * 300)[:min(size, 1000)], max(0, size - 1000)))

    def test_output_that_was_read_needs_no_disk(self):
        size = 3 * lab.FREE_BYTES
        job = self.guest.launch(f"head -c {size} /dev/zero; echo end", 100)
        job.wait()
        self.guest.free()
        self.assertEqual(job.cut, size + len("end\n") - 100)
        used = sum(os.stat(path).st_blocks * 512 for path in
                   (self.guest.results_path, os.path.join(self._directory.name, "a.output")))
        self.assertLess(used, lab.FREE_BYTES)
        self.assertEqual(self.guest.run("echo later"), "later\n")

    def test_a_line_without_an_end_is_refused(self):
        with open(self.path("data"), "wb") as file:
            file.truncate(lab.LINE_BYTES + 1)
        with self.assertRaisesRegex(lab.GuestError, "data: a line has more than"):
            lab.LineReader().read(self.path("data"))

    def test_long_output(self):
        data = os.urandom(1 << 20)
        with open(self.path("data"), "wb") as file:
            file.write(data)
        self.assertEqual(os.fsencode(self.guest.run("cat data")), data)

    def test_commands_of_all_sizes(self):
        block = self.guest._block
        for size in (0, 1, 4000, block - 1, block, block + 1, 100000, 1 << 20):
            text = "x" * size
            self.assertEqual(self.guest.run(f": {text}\necho {size}"), f"{size}\n")

    def test_status_and_error(self):
        with self.assertRaises(lab.CommandError) as caught:
            self.guest.run("echo oops; exit 3")
        self.assertEqual((caught.exception.status, caught.exception.output),
                         (3, "oops\n"))
        self.assertEqual(self.guest.run("exit 3", check=False), "")

    def test_output_so_far(self):
        os.mkfifo(self.path("fifo"))
        job = self.guest.launch("printf 'b\\303'; read -r line <fifo; echo $line")
        self.guest.until(lambda: job.data == b"b\xc3", 20, "no output")
        # Half of a character is not shown until its other half comes.
        self.assertEqual((job.status, job.output), (None, "b"))
        self.guest.run("printf '\\244 c\\n' >fifo")
        self.assertEqual(job.wait(), "bä c\n")

    def test_a_child_that_stays(self):
        os.mkfifo(self.path("fifo"))
        job = self.guest.launch("{ read -r line <fifo; echo late; } & echo early")
        self.assertEqual(job.wait(), "early\n")
        self.guest.run("echo >fifo")
        self.assertEqual((job.status, job.output), (0, "early\n"))

    def test_several_jobs(self):
        jobs = [self.guest.launch(f"for i in $(seq 200); do echo {n} $i; done")
                for n in range(8)]
        for n, job in enumerate(jobs):
            self.assertEqual(job.wait(), "".join(f"{n} {i + 1}\n" for i in range(200)))

    def test_odd_commands(self):
        for odd in ODD:
            word = lab.shell_word(odd)
            self.assertEqual(self.guest.run(f"printf '%s|' {word}"), f"{odd}|")
            self.assertEqual(self.guest.launch(f"printf '%s|' {word}").wait(), f"{odd}|")

    def test_files_with_odd_names(self):
        for odd in ODD:
            self.guest.put(odd, odd)
            self.require_file(odd, odd.encode("utf-8", "surrogateescape"))
        self.assertEqual(set(os.listdir(self.guest.folder)) - {"system"},
                         {*ODD, "lab", "run"})

    def test_files_of_all_sizes(self):
        for size in (0, 1, self.guest._block, 2 * self.guest._block, 300001):
            data = (ALL_BYTES * (size // 256 + 1))[:size]
            for given in (data, bytearray(data), memoryview(data)):
                self.guest.put("file", given)
                self.require_file("file", data)
        self.assertEqual(os.listdir(lab_folder(self.guest)), [])
        with self.assertRaises(lab.CommandError):
            self.guest.put("no/such/folder", b"")
        self.assertEqual(os.listdir(lab_folder(self.guest)), [])

    def test_files_come_back(self):
        for size in (0, 1, 300001):
            data = (ALL_BYTES * (size // 256 + 1))[:size]
            self.guest.put("file", data)
            self.assertEqual(self.guest.get("file"), data)
        for odd in ODD:
            self.guest.put(odd, odd)
            self.assertEqual(self.guest.get(odd), odd.encode("utf-8", "surrogateescape"))
        with self.assertRaises(lab.CommandError) as caught:
            self.guest.get("no/such/file")
        self.assertIn("no/such/file", str(caught.exception))
        self.assertEqual(os.listdir(lab_folder(self.guest)), [])

    def test_files_of_a_lab(self):
        program, data = self.path("program"), self.path("data")
        with open(program, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho it runs\n")
        os.chmod(program, 0o755)
        with open(data, "wb") as file:
            file.write(ALL_BYTES)
        lab.put_files([self.guest], lab.read_files({
            "sub/a program": program, "sub/data": data, "-bytes": b"\xff", "text": b"a"}))
        self.assertEqual(self.guest.run("'sub/a program'"), "it runs\n")
        self.require_file("sub/data", ALL_BYTES)
        self.require_file("-bytes", b"\xff")
        self.require_file("text", b"a")
        self.assertFalse(os.access(os.path.join(self.guest.folder, "sub/data"), os.X_OK))
        for wrong in ({"x": self.path("none/such")}, {"x": self.path("")}, {"x": 1}, {"": b""},
                      {"a\0b": b""}, {"sub/": b""}, ["x"]):
            with self.assertRaises((ValueError, OSError), msg=f"{wrong}"):
                lab.read_files(wrong)

    def test_nothing_is_refused_in_silence(self):
        for call in (lambda: self.guest.run("a\0b"), lambda: self.guest.launch("\0"),
                     lambda: self.guest.put("a\0b", ""),
                     lambda: self.guest.order("a\nb"),
                     lambda: self.guest.order("a" * (lab.ORDER_BYTES + 1))):
            with self.assertRaises(ValueError):
                call()
        self.assertEqual(self.guest.run("echo goes on"), "goes on\n")

    def test_said(self):
        self.guest.order("as word printf 'a b\\r\\n{\"c\": 1}\\n\\n'")
        self.assertEqual(self.guest.wait_for("word", count=2), {"c": 1})
        self.assertEqual(self.guest.said("word"), ["a b", {"c": 1}])

    def test_a_file_that_nobody_takes(self):
        pid = self.path("pid")
        self.guest.order("sleep 1000 & echo $! >pid; wait")
        with self.assertRaises(lab.GuestError):
            self.guest._send("name", b"x" * (3 * self.guest._block), timeout=0.2)
        # The shell may wait for the rest: no order is taken for it.
        with self.assertRaises(lab.GuestError):
            self.guest.run("true")
        self.guest.until(lambda: os.path.exists(pid) and os.path.getsize(pid), 20, "no pid")
        with open(pid, encoding="ascii") as file:
            os.kill(int(file.read()), 15)

    def test_after_the_end(self):
        self.guest.close()
        self.guest.close()
        for call in (lambda: self.guest.run("true"), lambda: self.guest.launch("true"),
                     lambda: self.guest.put("file", ""), lambda: self.guest.order("x"),
                     self.guest.end):
            with self.assertRaises(lab.GuestError):
                call()

    def test_second_start(self):
        """A second start would empty the output of the guest that runs."""
        self.guest.run("echo said")
        said = read_bytes(self.guest._output)
        room = lab.Lab(3, directory=os.path.join(self._directory.name, "room"))
        room.guests[1] = self.guest
        room._hub = mock.Mock()
        self.addCleanup(room.close)
        for start in (lambda: lab.Guest.start(self.guest), room.boot):
            with mock.patch.object(pair.Guest, "_start_qemu") as qemu, \
                    self.assertRaisesRegex(lab.GuestError, "a runs already"):
                start()
            qemu.assert_not_called()
        room._hub.start.assert_not_called()
        self.assertEqual(read_bytes(self.guest._output), said)
        self.assertEqual(self.guest.run("echo goes on"), "goes on\n")

    def test_results_in_parts(self):
        self.guest.run("true")
        with open(self.guest.results_path, "ab") as file:
            file.write(b"word half")
        self.assertEqual(self.guest.said("word"), [])
        self.guest._moves = 1
        self.assertEqual(self.guest.said("word"), [])
        with open(self.guest.results_path + ".1", "wb") as file:
            file.write(b" of it\nword two\n")
        self.assertEqual(self.guest.said("word"), ["half of it", "two"])

    def test_output_of_the_end(self):
        job = self.guest.launch("echo printed")
        path = self.guest._output if self.WAY == "virtio" else self.guest.results_path
        self.guest.until(lambda: f"\n{job.name} ".encode() in read_bytes(path), 20,
                         "nothing is printed")
        self.guest.close()
        shutil.rmtree(self._directory.name)
        self.assertTrue("printed\n".startswith(job.output) and job.output)


class OrdersByPorts(Orders):
    """The same by virtio ports."""

    WAY = "virtio"


class Names(unittest.TestCase):
    """Names of the host that reach a shell or QEMU."""

    def test_shared_folder_in_the_guest(self):
        for odd in ODD:
            text = cluster.setup_text(1, 2, 9000, f"/host/{odd}")
            [line] = re.findall(r"mount -t 9p.*?(?= \|\| exit 1)", text, re.S)
            self.assertEqual(shlex.split(line.replace("\\\n", " ", 1))[-3:],
                             ["trans=tcp,version=9p2000.L,access=any,msize=65536,"
                              f"aname=/host/{odd}", cluster.SHARE_SERVER, "/shared"])

    def test_shared_folder_of_the_server(self):
        for odd in ODD:
            words = cluster.share_arguments(f"/host/{odd}", "/diod", "/scratch")
            command = words[1].split("-cmd:")[1].replace(",,", ",")
            self.assertEqual(shlex.split(command)[-1], f"/host/{odd}")

    def test_directories_of_guests(self):
        for odd in ODD:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, odd)
                os.mkdir(path)
                guest = lab.Guest("a", path)
                extra = guest._options.extra
                orders = guest._orders["serial"]
                self.assertIn(vm.file_value("unix:" + orders), extra)
                chardevs = [word for word in extra if word.startswith(("socket", "file"))]
                for word, name in zip(chardevs, ("a.virtio", "a.output")):
                    self.assertIn(f"path={path.replace(',', ',,')}/{name},", word)
                shell = cluster.shell_arguments(os.path.join(path, "x.shell"))[1]
                self.assertIn("path=" + path.replace(",", ",,") + "/x.shell,", shell)

    def test_a_directory_that_is_too_long_for_a_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x" * 100)
            os.mkdir(path)
            with self.assertRaises(ValueError):
                lab.Guest("a", path)


if __name__ == "__main__":
    tap.main(__name__)
