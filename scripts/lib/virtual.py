# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests in one virtual time: VirtualPair, VirtualCluster, and their snapshots.

A guest boots once for each configuration, alone, up to START_NS of virtual time, and
is saved there.  Each run begins from that snapshot, so that it needs seconds, and so
that every run begins from the same state.  A run's script comes by fw_cfg: all else
that a guest can read would have been read before the snapshot, or would arrive at a
moment of the host's time.  docs/lockstep.rst lists the exact parts of a run.
"""

import copy
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import pair as guests
import vm

# Linux has booted long before, with 2^3 ns an instruction.  A whole number of
# seconds: the guest finds the moment by its own clock, which began later.
START_NS = {"debug": 200_000_000_000}
START_NS_ELSE = 30_000_000_000
BOOT_LIMIT_SECONDS = 600
KEPT = 24
FW_CFG = "opt/unetmm/run"
NOWHERE = "/nowhere"

# The guest's script, before and after the snapshot
BOOT = """#!/bin/sh
while read -r up rest </proc/uptime && [ "${up%%%%.*}" -lt %d ]; do sleep 1; done
modprobe qemu_fw_cfg || exit 1
cat /sys/firmware/qemu_fw_cfg/by_name/opt/unetmm/run/raw >/tmp/run || exit 1
chmod +x /tmp/run
exec /tmp/run
"""


@dataclasses.dataclass(frozen=True)
class Link:
    """A link in virtual time: its latency, its rate (0: no limit)."""

    latency_ns: int = 10_000
    bps: int = 10_000_000_000

    def spec(self, path, end, start_ns, **more):
        """A value of vm.py's --netdev."""
        words = {"latency-ns": self.latency_ns, "bps": self.bps,
                 "start-ns": start_ns,
                 **{key.replace("_", "-"): value
                    for key, value in more.items()}}
        return f"lockstep:{path},{end}," + ",".join(
            f"{key}={value}" for key, value in words.items())


def start_ns(kernel):
    """When guests of that kernel are saved, and their links come up."""
    return START_NS.get(kernel, START_NS_ELSE)


def cache_directory():
    """Where scripts/setup keeps its products, as scripts/lib/cache.sh says."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "unetmm", "snapshot")


def neutral(options):
    """The options as they are while the guest boots: without a run's values."""
    plain = copy.copy(options)
    start = start_ns(options.kernel)

    def wire(spec):
        if not spec or not spec.startswith("lockstep:"):
            return spec
        end = spec.split(",")[1]
        return f"lockstep:{NOWHERE},{end},start-ns={start},stop-ns={start}"

    plain.netdev = wire(options.netdev)
    plain.with_e1000e = wire(options.with_e1000e)
    # A guest does not see the arguments that a run adds.
    plain.extra = []
    return plain


def snapshot_key(options):
    """A name for the state in which a guest with these options is saved."""
    plain = neutral(options)
    plain.console = plain.results = "x"
    plain.qmp = plain.run = None
    plain.dry_run = True
    command, _ = vm.prepare(plain)
    text = "\0".join(command) + BOOT + (options.overlay or "") + \
        str(options.python)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prune(directory):
    """Removes all but the snapshots used last."""
    found = [os.path.join(directory, name) for name in os.listdir(directory)
             if not name.startswith(".")]
    for path in sorted(found, key=os.path.getmtime, reverse=True)[KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


class Progress:
    """A line on a terminal while a guest boots, which takes ten seconds."""

    def __init__(self, text):
        self._text = text
        self._begun = time.monotonic()
        self._shown = sys.stderr.isatty()

    def tick(self):
        """Shows the time taken so far."""
        if self._shown:
            print(f"\r  {self._text} ... {time.monotonic() - self._begun:.0f} s",
                  end="", file=sys.stderr, flush=True)

    def end(self):
        """Removes the line."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Booting(guests.Guest):
    """A guest on its way to the moment at which it is saved."""

    def __init__(self, directory, plain):
        seconds = start_ns(plain.kernel) // 10**9
        super().__init__("boot", directory, BOOT % seconds)
        options = copy.copy(plain)
        for name in ("console", "results", "qmp", "run"):
            setattr(options, name, getattr(self._options, name))
        options.netdev = options.netdev.replace(NOWHERE, f"{directory}/wire")
        if options.with_e1000e:
            options.with_e1000e = options.with_e1000e.replace(
                NOWHERE, f"{directory}/wire2")
        # A guest whose clock is ahead looks too early, and has to look again.
        options.extra = ["-fw_cfg", f"name={FW_CFG},string="
                         "rmmod qemu_fw_cfg; sleep 1; exec /run"]
        self._options = options

    def save(self, path, progress):
        """Waits until it has stopped at its moment, and writes its state."""
        deadline = time.monotonic() + BOOT_LIMIT_SECONDS
        while self.qmp("query-status")["status"] != "paused":
            if time.monotonic() > deadline or not self.running():
                raise guests.GuestError(
                    f"a guest was not ready to be saved after "
                    f"{BOOT_LIMIT_SECONDS} s; {self.trouble()}")
            progress.tick()
            time.sleep(0.05)
        if self.status() is not None:
            raise guests.GuestError("a guest ended before it was saved; "
                                    + self.trouble())
        self.qmp("migrate", uri=f"file:{path}")
        self._await("query-migrate", ("completed", "failed"), "completed",
                    BOOT_LIMIT_SECONDS)
        self.qmp("quit")
        self._process.wait(BOOT_LIMIT_SECONDS)


def make_snapshot(options, target):
    """Boots a guest with the options up to its moment, and saves it there."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    work = tempfile.mkdtemp(prefix=".making-", dir=os.path.dirname(target))
    sockets = tempfile.mkdtemp(prefix="unetmm-snapshot-")
    progress = Progress("booting a guest, to save it for later runs")
    guest = Booting(sockets, neutral(options))
    try:
        guest.start()
        guest.save(os.path.join(work, "state"), progress)
        os.rename(work, target)
    finally:
        progress.end()
        guest.kill()
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(sockets, ignore_errors=True)
    prune(os.path.dirname(target))


def snapshot(options):
    """The file of the saved guest with these options, made if need be."""
    directory = cache_directory()
    target = os.path.join(directory, snapshot_key(options))
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, ".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(target):
            make_snapshot(options, target)
        os.utime(target)
    return os.path.join(target, "state")


class VirtualGuest(guests.Guest):
    """A guest whose time is that of its link; it begins from a snapshot."""

    def __init__(self, name, workdir, run=None, options=()):
        options = list(options)
        kernel = options[options.index("--kernel") + 1] \
            if "--kernel" in options else "6.1"
        super().__init__(name, workdir,
                         BOOT % (start_ns(kernel) // 10**9), options)
        # Set on the card where the snapshot ends: {property: value}
        self.card = {}
        self._script = os.path.join(workdir, f"{name}.script")
        with open(self._script, "w", encoding="utf-8") as file:
            file.write(run or "#!/bin/sh\n")

    def prepare(self):
        """Makes the snapshot, if there is none."""
        snapshot(self._options)

    def start(self):
        """Starts it where the snapshot ends."""
        options = copy.copy(self._options)
        saved = snapshot(self._options)
        options.extra = [*options.extra, "-fw_cfg",
                         f"name={FW_CFG},file={self._script}",
                         "-incoming", f"file:{saved}"]
        self._start_qemu(options)
        self._await("query-status", ("paused",), "paused", 60)
        for name, value in self.card.items():
            self.card_set(name, value)
        self.qmp("cont")


class VirtualPair(guests.Pair):
    """Two guests on a link in virtual time; pair.Pair has the other parameters.

    link  a Link
    logs  a directory for a file of frames and fingerprints of each guest
    more  further properties of the lockstep devices: {name: value}
    """

    GUEST = VirtualGuest

    def __init__(self, *scripts, link=Link(), kernel="6.1", logs=None,
                 more=None, **others):
        def ends(path):
            return tuple(link.spec(path, end, start_ns(kernel), **self._words(
                logs, "ab"[end - 1], path), **(more or {})) for end in (1, 2))
        super().__init__(*scripts, kernel=kernel, wire=ends, **others)

    @staticmethod
    def _words(logs, name, path):
        if logs is None:
            return {}
        wire = os.path.basename(path)
        return {"log": os.path.join(logs, f"{name}.{wire}.log"),
                "print_ns": 100_000_000}


class VirtualCluster:
    """Two to 64 guests at a switch in virtual time.

    scripts  one text for each guest; guest N (from 1) has --id N
    link     each guest's Link to the switch
    switch   further arguments of lockstep-switch
    logs     as of VirtualPair; prints=False: lines of frames alone
    e1000e   True adds an e1000e to each, at a switch of their own
    cards    for each guest, properties of its card: {name: value}
    """

    def __init__(self, scripts, link=Link(), kernel="6.1", options=(),
                 switch=(), logs=None, prints=True, e1000e=False,
                 cards=()):
        self.workdir = tempfile.mkdtemp(prefix="unetmm-cluster-")
        path = os.path.join(self.workdir, "switch")
        self._commands = [[
            switch_program(), "--ports", str(len(scripts)), "--latency",
            str(link.latency_ns), "--bps", str(link.bps), *switch, place]
            for place in ([path, path + "2"] if e1000e else [path])]
        self._switches = []
        self.guests = []
        for number, script in enumerate(scripts):
            name = f"g{number + 1}"
            words = {"port": number}
            if logs:
                words.update(log=os.path.join(logs, f"{name}.log"))
                if prints:
                    words.update(print_ns=100_000_000)
            wires = ["--netdev", link.spec(path, 2, start_ns(kernel), **words)]
            if e1000e:
                wires += ["--with-e1000e", link.spec(
                    path + "2", 2, start_ns(kernel), port=number)]
            self.guests.append(VirtualGuest(name, self.workdir, script, [
                "--id", str(number + 1), "--kernel", kernel, *wires, *options]))
        for guest, card in zip(self.guests, cards):
            guest.card = card

    def __enter__(self):
        try:
            # A switch waits for the guests, and gives up after a while:
            # snapshots that are missing are made before.
            for guest in self.guests:
                guest.prepare()
            # They have to end with us, and are waited for in close().
            for command in self._commands:
                self._switches.append(subprocess.Popen(   # pylint: disable=R1732
                    command, stdout=subprocess.PIPE, text=True,
                    preexec_fn=guests.die_with_parent))
            for guest in self.guests:
                guest.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc):
        self.close()

    def wait(self, seconds):
        """Waits for all guests; their scripts' statuses."""
        deadline = time.monotonic() + seconds
        return [guest.wait(max(0, deadline - time.monotonic()))
                for guest in self.guests]

    def counters(self):
        """The counters of the cards' switch, once all guests have ended."""
        return json.loads(self._switches[0].communicate(timeout=20)[0])

    def close(self):
        """Ends all, and removes the files."""
        for guest in self.guests:
            guest.kill()
        for switch in self._switches:
            switch.kill()
            switch.wait()
            switch.stdout.close()
        shutil.rmtree(self.workdir, ignore_errors=True)


def switch_program():
    """The path of lockstep-switch."""
    return os.path.join(vm.setup_paths("unit")["unit"], "tools",
                        "lockstep-switch")
