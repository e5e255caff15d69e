# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests in one virtual time: VirtualPair, VirtualCluster, and their snapshots.

A guest boots once for each configuration, alone, up to START_NS of virtual time, and
is saved there.  Each run begins from that snapshot, so that it needs seconds, and so
that every run begins from the same state.  A run's script comes by fw_cfg: all else
that a guest can read would have been read before the snapshot, or would arrive at a
moment of the host's time.  The guest loads fw_cfg's driver, which remembers the
lengths of files, behind the snapshot alone: the program `moment` waits for a virtual
time, however fast the guest's own clock is.  docs/lockstep.rst lists the exact parts
of a run.

A limit of a guest is one of virtual time.  A limit of the host's time is only for
a guest whose virtual time stands still.
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

from unetmm_tools.guest import pair as guests, vm
from unetmm_tools.guest.progress import Progress

# Linux has booted long before, with 2^3 ns an instruction.
START_NS = 30_000_000_000
# From the snapshot to the look at fw_cfg
AFTER_NS = 1_000_000
# Kernels whose guests can load fw_cfg's driver
KERNELS = ("6.1", "6.12")
# Virtual seconds in which a restored guest must have run a script
PROOF_SECONDS = 2000
TRIES = 2
# The host's seconds after which a virtual time that stands still is an error
STILL_SECONDS = 300
# The host's seconds between two questions for it
LOOK_SECONDS = 0.5
KEPT = 24
FW_CFG = "opt/unetmm/run"
NOWHERE = "/nowhere"

# The guest's script, before and after the snapshot
BOOT = f"""#!/bin/sh
/tests/moment {START_NS + AFTER_NS} || exit 1
modprobe qemu_fw_cfg || exit 1
cat /sys/firmware/qemu_fw_cfg/by_name/{FW_CFG}/raw >/tmp/run || exit 1
chmod +x /tmp/run
exec /tmp/run
"""

# Proves that a restored guest gets the whole of a script that is longer than others.
PROVED = "the restored guest has run its script"
PROOF = "#!/bin/sh\n" + "# A line of a long script\n" * 4000 + f"echo {PROVED}\n"


class SnapshotError(guests.GuestError):
    """A guest was saved, and did not run a script when it was restored."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A link in virtual time: its latency, its rate (0: no limit)."""

    latency_ns: int = 10_000
    bps: int = 10_000_000_000

    def spec(self, path, end, **more):
        """A value of vm.py's --netdev."""
        words = {"latency-ns": self.latency_ns, "bps": self.bps,
                 "start-ns": START_NS,
                 **{key.replace("_", "-"): value
                    for key, value in more.items()}}
        return f"lockstep:{path},{end}," + ",".join(
            f"{key}={value}" for key, value in words.items())


def cache_directory():
    """Where scripts/setup keeps its products, as scripts/unetmm_tools/build/cache.sh says."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "unetmm", "snapshot")


def with_wires(options, directory, words):
    """The options with other paths and properties of the lockstep devices."""
    plain = copy.copy(options)

    def wire(spec, name):
        if not spec or not spec.startswith("lockstep:"):
            return spec
        end = spec.split(",")[1]
        return f"lockstep:{directory}/{name},{end},{words}"

    plain.netdev = wire(options.netdev, "wire")
    plain.with_e1000e = wire(options.with_e1000e, "wire2")
    return plain


def neutral(options, directory=NOWHERE):
    """The options as they are while the guest boots: without a run's values."""
    plain = with_wires(options, directory,
                       f"start-ns={START_NS},stop-ns={START_NS}")
    # A guest does not see the arguments that a run adds.
    plain.extra = []
    return plain


def file_state(path):
    """A text that is another one after the file has been written."""
    found = os.stat(path)
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def snapshot_key(options):
    """A name for the state in which a guest with these options is saved."""
    plain = neutral(options)
    plain.console = plain.results = "x"
    plain.qmp = plain.run = None
    plain.dry_run = True
    command, _ = vm.prepare(plain)
    text = "\0".join([*command, BOOT, *map(file_state, vm.overlays(options))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prune(directory):
    """Removes all but the snapshots used last."""
    found = [os.path.join(directory, name) for name in os.listdir(directory)
             if not name.startswith(".")]
    for path in sorted(found, key=os.path.getmtime, reverse=True)[KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


class VirtualDeadline:
    """The end of a guest's time, by its own clock, from the first look on."""

    def __init__(self, guest, seconds):
        self._guest = guest
        self._ns = int(seconds * 1e9)
        self._end_ns = self._now_ns = None
        self._looked = self._moved = None

    def passed(self):
        """True once the time is over; a guest whose time stands still is an error."""
        now = time.monotonic()
        if self._looked is not None and now - self._looked < LOOK_SECONDS:
            return False
        now_ns = self._guest.virtual_ns()
        if self._looked is None or now_ns not in (None, self._now_ns):
            self._now_ns, self._moved = now_ns, now
        if self._end_ns is None and now_ns is not None:
            self._end_ns = now_ns + self._ns
        self._looked = now
        if now - self._moved > STILL_SECONDS:
            raise guests.GuestError(
                f"{self._guest.name}: virtual time stands still at "
                f"{self._now_ns} ns for {STILL_SECONDS} s; "
                f"{self._guest.trouble()}")
        return self._end_ns is not None and self._now_ns >= self._end_ns


class LockstepGuest(guests.Guest):
    """A guest with virtual time and limits of virtual time."""

    ANSWER_SECONDS = STILL_SECONDS
    UNIT = "s of virtual time"

    def virtual_ns(self):
        """The virtual time, or None if QEMU is about to end.

        A machine that has stopped for an error goes on for nobody.
        """
        try:
            state = self.qmp("query-status")["status"]
            number = 0 if self._options.netdev.startswith("lockstep:") and \
                not self._options.no_card else 1
            now = self.qmp("qom-get", property="virtual-ns",
                           path=f"/machine/peripheral/lockstep{number}")
        except (guests.GuestError, OSError, ValueError):
            return None
        if state in ("io-error", "internal-error"):
            raise guests.GuestError(f"{self.name}: the machine has stopped, "
                                    f"{state}; {self.trouble()}")
        return now

    def deadline(self, seconds):
        """The end of so many seconds of virtual time."""
        return VirtualDeadline(self, seconds)

    def restore(self, options, state, script):
        """Starts it where the snapshot in `state` ends, with a script."""
        options = copy.copy(options)
        options.extra = [*options.extra, "-fw_cfg",
                         f"name={FW_CFG},file={script}",
                         "-incoming", f"file:{state}"]
        self._start_qemu(options)
        self._await("query-status", ("paused",), "paused", STILL_SECONDS)


class Booting(LockstepGuest):
    """A guest on its way to the moment at which it is saved."""

    def __init__(self, directory, options):
        super().__init__("boot", directory, BOOT)
        self._directory = directory
        own = self._options
        self._options = neutral(options, directory)
        for name in ("console", "results", "qmp", "run"):
            setattr(self._options, name, getattr(own, name))

    def save(self, path, progress):
        """Waits until it has stopped at its moment, and writes its state."""
        # stop-ns ends the loop; passed() finds a virtual time that stands still.
        still = self.deadline(1)
        while self.qmp("query-status")["status"] != "paused":
            if not self.running():
                raise guests.GuestError("a guest ended before it was saved; "
                                        + self.trouble())
            still.passed()
            progress.say("booting a guest, to save it for later runs")
            time.sleep(0.05)
        if self.status() is not None:
            raise guests.GuestError("a guest ended before it was saved; "
                                    + self.trouble())
        self.qmp("migrate", uri=f"file:{path}")
        self._await("query-migrate", ("completed", "failed"), "completed",
                    STILL_SECONDS)
        self.qmp("quit")
        self._process.wait(STILL_SECONDS)

    def prove(self, path, script):
        """Restores it, with links that do not come up, and has it run a script."""
        start = START_NS + 2 * PROOF_SECONDS * 10**9
        self._qmp.close()
        self._qmp = None
        with open(script, "w", encoding="utf-8") as file:
            file.write(PROOF)
        options = with_wires(self._options, self._directory, f"start-ns={start}")
        try:
            self.restore(options, path, script)
            self.qmp("cont")
            status = self.wait(PROOF_SECONDS)
        except guests.GuestError as error:
            raise SnapshotError(error) from error
        if status or self.results() != PROVED + "\n":
            raise SnapshotError(f"its script ended with {status}; "
                                + self.trouble())


def try_snapshot(options, target, progress):
    """Boots a guest, saves it and proves the saved state; target if it is good."""
    work = tempfile.mkdtemp(prefix=".making-", dir=os.path.dirname(target))
    sockets = tempfile.mkdtemp(prefix="unetmm-snapshot-")
    guest = Booting(sockets, options)
    state = os.path.join(work, "state")
    try:
        guest.start()
        guest.save(state, progress)
        guest.prove(state, os.path.join(sockets, "proof"))
        os.rename(work, target)
    finally:
        progress.clear()
        guest.kill()
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(sockets, ignore_errors=True)


def make_snapshot(options, target):
    """A snapshot that has proved itself; a bad one is made again."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    progress = Progress()
    for number in range(1, TRIES + 1):
        try:
            try_snapshot(options, target, progress)
            break
        except SnapshotError as error:
            if number == TRIES:
                raise
            print("  a saved guest did not run a script when it was restored; it is "
                  f"thrown away and made again: {error}", file=sys.stderr)
    prune(os.path.dirname(target))


def snapshot(options):
    """The file of the saved guest with these options, made if need be."""
    if options.kernel in vm.BUILT_KERNELS:
        raise vm.VmError(f"--kernel {options.kernel}: that kernel has no fw_cfg, by which guests in "
                         f"virtual time get their scripts: use {' or '.join(KERNELS)}")
    directory = cache_directory()
    target = os.path.join(directory, snapshot_key(options))
    # A snapshot appears when it is whole: its users wait for no other one.
    if not os.path.exists(target):
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, ".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(target):
                make_snapshot(options, target)
    os.utime(target)
    return os.path.join(target, "state")


class VirtualGuest(LockstepGuest):
    """A guest whose time is that of its link; it begins from a snapshot."""

    def __init__(self, name, workdir, run=None, options=()):
        super().__init__(name, workdir, BOOT, options)
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
        self.restore(self._options, snapshot(self._options), self._script)
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
            return tuple(link.spec(path, end, **self._words(
                logs, "ab"[end - 1], path), **(more or {})) for end in (1, 2))
        super().__init__(*scripts, kernel=kernel, wire=ends, **others)

    def start(self):
        """Starts both guests."""
        # A link waits for its peer, and gives up after a while: snapshots that are
        # missing are made before.
        for guest in (self.a, self.b):
            guest.prepare()
        super().start()

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
            wires = ["--netdev", link.spec(path, 2, **words)]
            if e1000e:
                wires += ["--with-e1000e", link.spec(path + "2", 2, port=number)]
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
            # The switches end with this process; close() waits for them.
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

    def deadline(self, seconds):
        """The end of so many seconds of virtual time for all guests."""
        return guests.SharedDeadline(self.guests, seconds)

    def wait(self, seconds):
        """Waits for all guests; their scripts' statuses."""
        deadline = self.deadline(seconds)
        return [guest.wait_until(deadline, seconds) for guest in self.guests]

    def counters(self):
        """The counters of the cards' switch, once all guests have ended."""
        return json.loads(self._switches[0].communicate(
            timeout=STILL_SECONDS)[0])

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
    return os.path.join(vm.setup_paths("guest")["guest"], "tools",
                        "lockstep-switch")
