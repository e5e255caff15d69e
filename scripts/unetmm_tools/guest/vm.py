# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest: from options to a QEMU command line.

scripts/vm runs main(); pair.py uses parse_options() and prepare() to start
guests of its own.  No other file composes a QEMU command line.
"""

import argparse
import functools
import hashlib
import os
import platform
import re
import shlex
import signal
import stat
import subprocess
import sys

from unetmm_tools import INSTALLED, SCRIPTS, commands
from unetmm_tools.guest import profiles
from unetmm_tools.guest.child import die_with_parent

# Those that scripts/setup builds, which have few drivers
BUILT_KERNELS = ("debug", "kcsan")
KERNELS = ("6.1", "6.12", "newest", *BUILT_KERNELS)
# The kernel of guests of another machine
ARM64 = "arm64"
HOST_ARCH = ARM64 if platform.machine() == "aarch64" else "amd64"
KERNELS_TEXT = ", ".join(KERNELS[:-1]) + f" or {KERNELS[-1]}"

# The line of /init at the end of a script, which may have left its last line open
STATUS = re.compile(r"unetmm-run-status (\d+)\r?\n")

# The targets of scripts/setup that make a QEMU, by the values of --qemu.
QEMUS = {"built": "qemu", "stock": "stock"}
# The machine, the processor of TCG and the name of serial ports, by --arch
ARCHES = {"amd64": ("q35", "max", "ttyS"), ARM64: ("virt", "neoverse-n1", "ttyAMA")}
DEFAULT_QEMU = "stock" if INSTALLED else "built"

DESCRIPTION = """\
Boots one guest with the card in it and gives a shell on its console, or runs
a script in it, powers off, and ends with the script's exit status.  QEMU, kernel,
driver and file system are made first if they are not up to date (scripts/setup).
"""

EXAMPLES = """\
examples:
  A shell in a guest (exit ends it, Ctrl-A X kills it):
    scripts/vm

  Two guests on one wire; start them in either order, in two terminals:
    scripts/vm --netdev wire:/tmp/wire,1
    scripts/vm --netdev wire:/tmp/wire,2

  Run a script in a guest and power off:
    printf '#!/bin/sh\\nlspci\\nunetmm-stat\\n' > /tmp/look
    scripts/vm --run /tmp/look

  The same with a folder of the host, where files of the guest remain:
    scripts/vm --share . --run /tmp/look

  Another kernel, two CPUs, the card behind a PCIe root port, a small TLB:
    scripts/vm --kernel 6.12 --cpus 2 --root-port --device-opts tlb-sets=64

  An e1000e beside the card, on a wire of its own:
    scripts/vm --with-e1000e wire:/tmp/wire2,1

  Anything of QEMU's own, after two dashes; and the command line, to copy:
    scripts/vm -- -trace 'unetmm_*'
    scripts/vm --dry-run
"""


class VmError(Exception):
    """A mistake of the user or the machine, in one sentence."""


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one sentence, without the usage before it."""

    def format_help(self):
        return commands(super().format_help())

    def error(self, message):
        raise VmError(f"{message} ({commands(self.prog)} --help lists the options)")


def build_parser():
    """The options of scripts/vm."""
    parser = Parser(
        prog="scripts/vm", description=DESCRIPTION, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="scripts/vm [options] [-- QEMU ARGUMENTS]", allow_abbrev=False)
    add_machine_options(parser.add_argument_group("the machine"))
    add_card_options(parser.add_argument_group("the card and its wire"))
    add_run_options(parser.add_argument_group("the guest's script"))
    return parser


def add_machine_options(group):
    """Kernel, accelerator, machine type, sizes."""
    group.add_argument("--arch", choices=ARCHES, default=HOST_ARCH,
                       help="arm64: kernel arm64, machine virt and Debian's QEMU "
                       "(default: that of this machine)")
    group.add_argument(
        "--kernel", metavar="|".join((*KERNELS, ARM64)) + "|PATH",
        help="Debian's kernel of that version, the newest of Debian's backports, the "
             "debug kernel, 6.12 for arm64, or a kernel image (default: 6.1)")
    group.add_argument(
        "--initrd", metavar="PATH",
        help="file system for --kernel PATH (default: the one for 6.1, whose "
             "modules fit no other kernel)")
    group.add_argument(
        "--qemu", metavar="built|stock|PATH",
        help="the patched QEMU that scripts/setup builds, Debian's unpatched QEMU "
             "10.0 with the card as a shared object (docs/stock.rst), or a program "
             "that has the card (default: the environment's UNETMM_QEMU, or "
             f"{DEFAULT_QEMU})")
    group.add_argument(
        "--accel", choices=("tcg", "kvm", "auto"), default="auto",
        help="auto takes KVM where it is usable (default: auto)")
    group.add_argument("--machine", choices=("q35", "pc", "virt"),
                       help="default: q35, of arm64 virt")
    group.add_argument("--memory", default="512M", metavar="SIZE",
                       help="default: 512M")
    group.add_argument("--cpus", type=int, metavar="N",
                       help="default: 1; with --verbs 2")
    group.add_argument("--shift", type=int, default=3, metavar="N",
                       help="with lockstep: an instruction takes 2^N ns of "
                       "virtual time (default: 3)")
    group.add_argument("--trust-tsc", action="store_true",
                       help="several CPUs, tcg: Linux reads the time from the "
                       "TSC; see docs/performance.md")


def add_card_options(group):
    """The unetmm device, its peer, and the NIC that it is compared with."""
    group.add_argument(
        "--netdev", default="user", metavar="SPEC",
        help="wire:PATH,1 and wire:PATH,2 (the two ends of a wire: UNIX "
             "datagram sockets PATH.1 and PATH.2), user, none, or a -netdev "
             "value of QEMU's without its id (default: user); or "
             "unix:PATH,server and unix:PATH, a UNIX stream: link down without "
             "a peer, but while a peer does not read, the whole guest with the "
             "server end stops; or lockstep:PATH,1 and lockstep:PATH,2, "
             "a link in virtual time, with properties of -device lockstep "
             "behind: docs/lockstep.rst")
    group.add_argument(
        "--name", metavar="NAME",
        help="names the guest; its MAC addresses are derived from it "
             "(default: the --netdev value, so the two ends differ)")
    group.add_argument("--id", type=int, metavar="N",
                       help="a number (0 to 255) instead of a name")
    group.add_argument("--mac", metavar="ADDRESS",
                       help="the card's MAC address, instead of a derived one")
    group.add_argument("--device-opts", metavar="K=V,...", default="",
                       help="more properties of -device unetmm")
    group.add_argument("--timing", choices=("pca200", "dc21140", "connectib"),
                       help="the card takes time, as a paper's hardware: the "
                       "costs of tests/paper/profiles (default: none)")
    group.add_argument("--root-port", action="store_true",
                       help="put the card behind a pcie-root-port")
    group.add_argument("--no-card", action="store_true",
                       help="leave the card out")
    group.add_argument("--with-e1000e", metavar="SPEC",
                       help="add an e1000e; SPEC is as for --netdev")
    group.add_argument("--nic", metavar="MODEL[,K=V...]", default="e1000e",
                       help="another NIC of QEMU's in place of that e1000e")


def add_run_options(group):
    """The script, the places of its output, and --dry-run."""
    group.add_argument("--run", metavar="SCRIPT",
                       help="an executable that the guest runs; then it "
                            "powers off, and scripts/vm has the same exit status")
    group.add_argument("--keep", action="store_true",
                       help="with --run: a shell instead of powering off")
    group.add_argument("--overlay", metavar="FILE", action="append", default=[],
                       help="a cpio archive of more files for the guest, in "
                            "newc format; may be given several times")
    group.add_argument("--share", metavar="DIR",
                       help="a folder of the host that is /shared in the guest, to be read "
                            "and written; with Debian's QEMU (--qemu stock)")
    group.add_argument("--python", action="store_true",
                       help="add python3 and the package unetmm to the guest")
    group.add_argument("--verbs", action="store_true",
                       help="add Debian's programs for verbs, pyverbs, Python and "
                            "unetmm_ib; verbs-up in the guest makes the device")
    group.add_argument("--append", default="", metavar="WORDS",
                       help="more words for the kernel's command line")
    group.add_argument("--console", metavar="FILE",
                       help="write the console there, or offer it on a UNIX "
                            "socket if FILE is unix:PATH (default: the "
                            "terminal)")
    group.add_argument("--results", metavar="FILE",
                       help="write the output of --run there, by a serial "
                            "port of its own")
    group.add_argument("--qmp", metavar="PATH",
                       help="a QMP socket to control the guest by")
    group.add_argument("--dry-run", action="store_true",
                       help="print QEMU's command line, start nothing")


def parse_options(arguments):
    """Parses scripts/vm's arguments; those behind `--` are kept for QEMU."""
    arguments, extra = list(arguments), []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, extra = arguments[:cut], arguments[cut + 1:]
    options = build_parser().parse_args(arguments)
    options.extra = extra
    if ARM64 in (options.arch, options.kernel):
        options.arch = ARM64
        options.qemu = options.qemu or "stock"
    options.kernel = options.kernel or (ARM64 if options.arch == ARM64 else "6.1")
    options.machine = options.machine or ARCHES[options.arch][0]
    options.qemu = options.qemu or os.environ.get("UNETMM_QEMU") or \
        ("built" if is_virtual(options) else "stock" if options.share else DEFAULT_QEMU)
    if options.cpus is None:
        # Of two processes that poll, each has the time of a processor.
        options.cpus = 2 if options.verbs else 1
    check_options(options)
    return options


def check_options(options):
    """Checks beyond those of argparse."""
    if options.id is not None and not 0 <= options.id <= 255:
        raise VmError(f"--id {options.id} is out of range: use 0 to 255")
    check_arch(options)
    if options.root_port and options.machine == "pc":
        raise VmError("--root-port needs PCI Express: leave out --machine pc")
    if options.cpus < 1:
        raise VmError(f"--cpus {options.cpus}: a guest needs at least one")
    if options.verbs and options.kernel not in KERNELS:
        raise VmError(f"--verbs needs a kernel with verbs: use --kernel with {KERNELS_TEXT}")
    if INSTALLED and (options.qemu == "built" or options.python or options.verbs):
        raise VmError("--qemu built, --python and --verbs need the project's sources: use "
                      "scripts/vm there")
    if INSTALLED and options.kernel in BUILT_KERNELS:
        raise VmError(f"--kernel {options.kernel} is built from Linux's sources: use "
                      "scripts/vm of the project for it")
    if options.kernel not in (*KERNELS, ARM64) and not os.path.exists(options.kernel):
        raise VmError(f"--kernel {options.kernel}: use {KERNELS_TEXT}, or "
                      "the path of a kernel image")
    check_share(options)
    if not 0 <= options.shift <= 10:
        raise VmError(f"--shift {options.shift} is out of range: use 0 to 10")
    if is_virtual(options):
        check_virtual(options)
    if options.qemu not in QEMUS and not os.access(options.qemu, os.X_OK):
        raise VmError(f"--qemu {options.qemu}: use built, stock, or the path of a "
                      "program")
    for path in (options.run, options.initrd, *options.overlay):
        if path and not os.path.isfile(path):
            raise VmError(f"{path} does not exist: name a file")


def check_share(options):
    """A shared folder needs QEMU's 9p and the guest's, and has the host's time."""
    if options.share is None:
        return
    if not os.path.isdir(options.share):
        raise VmError(f"--share {options.share} is no folder: name one")
    if options.kernel in BUILT_KERNELS:
        raise VmError(f"--share: the kernel {options.kernel} has no 9p; leave out --kernel")
    if is_virtual(options):
        raise VmError("--share has the host's time: leave it out in virtual time")
    if options.qemu == "built":
        raise VmError("--share: the built QEMU has no 9p; use --qemu stock")


def check_arch(options):
    """Guests of arm64 have one kernel and one machine, and TCG, here."""
    if (options.machine == "virt") != (options.arch == ARM64):
        raise VmError("--machine virt is that of --arch arm64, and --arch arm64 has no other")
    if options.arch != ARM64:
        if HOST_ARCH == ARM64:
            raise VmError("--arch amd64 needs a host of x86-64: leave it out")
        return
    if options.kernel in KERNELS and HOST_ARCH != ARM64:
        raise VmError(f"--kernel {options.kernel} is for amd64: leave it out with --arch arm64")
    if options.qemu == "built" or options.accel == "kvm" or is_virtual(options):
        raise VmError("--arch arm64 needs --qemu stock and --accel tcg")
    if options.python:
        raise VmError("--python: there is no Python for guests of arm64")
    options.accel = "tcg"


def is_virtual(options):
    """True if the guest's time is that of a lockstep link."""
    return any((spec or "").startswith("lockstep:")
               for spec in (options.netdev, options.with_e1000e))


def check_virtual(options):
    """Refuses the parts of a machine that act at moments of the host's time."""
    for spec in (options.netdev, options.with_e1000e):
        if spec and spec != "none" and not spec.startswith("lockstep:"):
            raise VmError(f"{spec} is not in virtual time: beside a lockstep "
                          "link use lockstep:PATH,1 or none")
    if options.qemu == "stock":
        raise VmError("--qemu stock lacks the mends that virtual time needs: "
                      "use --qemu built")
    if options.accel == "kvm":
        raise VmError("KVM does not count instructions: lockstep needs "
                      "--accel tcg")
    if not options.console:
        raise VmError("a console on the terminal depends on the host's time: "
                      "with a lockstep link name a file, --console FILE")


class SetupFailed(SystemExit):
    """scripts/setup has failed, and has said why."""


@functools.lru_cache(maxsize=None)
def setup_paths(*targets):
    """Makes the targets and returns {name: path} of the files made."""
    done = subprocess.run([os.path.join(SCRIPTS, "setup"), "--paths",
                           *targets], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        raise SetupFailed(done.returncode)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def default_qemu():
    """The program that scripts run without --qemu."""
    name = os.environ.get("UNETMM_QEMU") or DEFAULT_QEMU
    return setup_paths(QEMUS[name])[QEMUS[name]] if name in QEMUS else name


def kvm_problem():
    """Why KVM cannot be used, or None.

    That /dev/kvm opens is not enough: without vmx or svm among the CPU's
    flags, a guest starts and then hangs.
    """
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"/dev/kvm cannot be opened ({error.strerror})"
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            if line.startswith("flags"):
                if {"vmx", "svm"} & set(line.split()):
                    return None
                break
    return "the CPU shows neither vmx nor svm"


def virtual_arguments(options):
    """A machine whose clock is its instructions, and whose runs are equal."""
    return ["-icount", f"shift={options.shift},sleep=off",
            "-rtc", "base=2026-01-01,clock=vm", "-seed", "1",
            # After a move QEMU announces the card at moments of the host's time.
            "-global", "migration.announce-rounds=0"]


def accel_arguments(accel, extra=(), cpu="max"):
    """-accel and the CPU model that goes with it."""
    if "-icount" in extra:
        # Instructions are counted by one thread for all CPUs.
        return ["-accel", "tcg,thread=single", "-cpu", cpu]
    if accel != "tcg":
        problem = kvm_problem()
        if problem is None:
            return ["-accel", "kvm", "-cpu", "host"]
        if accel == "kvm":
            raise VmError(f"KVM is not usable here, {problem}: use "
                          "--accel tcg")
    return ["-accel", "tcg,thread=multi", "-cpu", cpu]


def derive_mac(options, card):
    """A MAC address for this guest's card ("unetmm" or "e1000e").

    QEMU's default is the same in every process, and two stations with one
    address cannot talk to each other.
    """
    kind = {"unetmm": 0, "e1000e": 1}[card]
    if options.id is not None:
        return f"52:54:00:6d:{kind:02x}:{options.id:02x}"
    name = options.name or options.netdev
    digest = hashlib.sha256(name.encode()).digest()
    return (f"52:54:00:{digest[0]:02x}:{digest[1]:02x}:"
            f"{digest[2] & 0xfe | kind:02x}")


def wire_value(spec, ident):
    """One end of a wire that never has the machine wait for its other end.

    (QEMU's `stream` does: it writes to the peer that connected, and waits.)
    """
    path, _, end = spec[len("wire:"):].rpartition(",")
    if end not in ("1", "2") or not path or len(path) > 105:
        raise VmError(f"{spec}: use wire:PATH,1 and wire:PATH,2, with 1 to 105 "
                      "characters for PATH")
    path = path.replace(",", ",,")
    return (f"dgram,id={ident},local.type=unix,local.path={path}.{end},"
            f"remote.type=unix,remote.path={path}.{3 - int(end)}")


def lockstep_arguments(spec, ident):
    """The hub of a card, and the lockstep device on it.

    Of lockstep:PATH,END[,K=V...] END 1 makes the socket.
    """
    words = spec[len("lockstep:"):].split(",")
    if len(words) < 2 or not words[0] or words[1] not in ("1", "2") or \
            len(words[0]) > 107 or not all("=" in word for word in words[2:]):
        raise VmError(f"{spec}: use lockstep:PATH,1 and lockstep:PATH,2, with "
                      "1 to 107 characters without a comma for PATH, and "
                      "properties of the device as NAME=VALUE behind")
    number = ident[1:]
    more = "".join("," + word for word in words[2:])
    server = "on" if words[1] == "1" else "off"
    return ["-netdev", f"hubport,id={ident}l,hubid={number}",
            "-device", f"lockstep,id=lockstep{number},netdev={ident}l,"
            f"path={words[0]},server={server},port={number}{more}"]


def netdev_arguments(spec, ident):
    """The -netdev of a NIC, and all that belongs to it."""
    if spec.startswith("lockstep:"):
        return ["-netdev", f"hubport,id={ident},hubid={ident[1:]}",
                *lockstep_arguments(spec, ident)]
    return ["-netdev", netdev_value(spec, ident)]


def netdev_value(spec, ident):
    """A -netdev value for SPEC; commas in a path are doubled, as QEMU asks."""
    if spec.startswith("wire:"):
        return wire_value(spec, ident)
    if not spec.startswith("unix:"):
        return f"{spec},id={ident}"
    path, server = spec[len("unix:"):], False
    if path.endswith(",server"):
        path, server = path[:-len(",server")], True
    if not path or len(path) > 107:
        raise VmError(f"{spec}: the path of a UNIX socket has 1 to 107 "
                      "characters")
    value = (f"stream,id={ident},addr.type=unix,"
             f"addr.path={path.replace(',', ',,')}")
    # Reconnecting makes the order of starting irrelevant.
    return value + (",server=on" if server else
                    ",server=off,reconnect-ms=100")


def card_arguments(options):
    """The unetmm device and the e1000e, each with its -netdev."""
    arguments, bus, peer = [], "", ""
    if not options.no_card:
        if options.root_port:
            arguments += ["-device", "pcie-root-port,id=rp0,chassis=1,slot=1"]
            bus = ",bus=rp0"
        if options.netdev != "none":
            arguments += netdev_arguments(options.netdev, "n0")
            peer = ",netdev=n0"
        mac = options.mac or derive_mac(options, "unetmm")
        more = f",{options.device_opts}" if options.device_opts else ""
        if options.timing:
            more += ",timing=" + profiles.card_timing(options.timing)
        arguments += ["-device",
                      f"unetmm,id=unetmm0{peer},mac={mac}{bus}{more}"]
    if options.with_e1000e:
        mac = derive_mac(options, "e1000e")
        arguments += [*netdev_arguments(options.with_e1000e, "n1"),
                      "-device", f"{options.nic},netdev=n1,mac={mac},romfile="]
    return arguments


def serial_arguments(options, log):
    """ttyS0 is the console; ttyS1, if asked for, has the script's output.

    LOG: a file that gets the script's output as well.
    """
    if options.results:
        return [*serial_port("console", options.console),
                *serial_port("results", options.results, log)]
    return serial_port("console", options.console, log)


def serial_port(name, path, log=None):
    """The next serial port; without a path it is the terminal and the monitor."""
    if not log:
        return ["-serial", file_value(path) if path else "mon:stdio"]
    if not path:
        kind = "stdio,mux=on,signal=off"
    elif path.startswith("unix:"):
        kind = "socket,path=" + file_value(path).removeprefix("unix:")
    else:
        kind = "file,path=" + path.replace(",", ",,")
    return ["-chardev", f"{kind},id={name},logfile={log}",
            "-serial", f"chardev:{name}",
            *([] if path else ["-mon", f"chardev={name}"])]


def file_value(path):
    """A -serial value for a file or, given as unix:PATH, a socket."""
    if path.startswith("unix:"):
        return f"{path.replace(',', ',,')},server=on,wait=off"
    # QEMU takes the rest as it stands.
    return f"file:{path}"


def share_arguments(options):
    """The shared folder, which /init mounts; new files belong to the user of QEMU."""
    if not options.share:
        return []
    path = os.path.realpath(options.share).replace(",", ",,")
    return ["-fsdev", f"local,id=share,path={path},security_model=none,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=share,mount_tag=shared"]


def kernel_words(options):
    """The kernel's command line."""
    # Linux gives up at boot if its timer seems not to tick, which on a busy host
    # it may not for a while.
    serial = ARCHES[options.arch][2]
    words = [f"console={serial}0", "quiet", "panic=-1", "sysrq_always_enabled",
             "no_timer_check"]
    if options.kernel in BUILT_KERNELS:
        # While 6.1 identifies its CPU it forgets for a moment that it has five
        # levels; KASAN takes an interrupt in that moment for a wild access.
        words.append("no5lvl")
    if options.results:
        words.append(f"guest.out={serial}1")
    if options.keep or not options.run:
        words.append("guest.keep")
    if options.append:
        words.append(options.append)
    return " ".join(words)


def find_images(options):
    """QEMU, kernel and file system, made if need be."""
    arm64 = options.arch == ARM64
    name = options.kernel if options.kernel in KERNELS else ARM64 if arm64 else "6.1"
    named = options.kernel in (*KERNELS, ARM64)
    qemu = "stock-arm64" if arm64 and options.qemu == "stock" else QEMUS.get(options.qemu)
    targets = [qemu] if qemu else []
    if named or not options.initrd:
        targets.append(f"initramfs-{name}")
    paths = setup_paths(*targets) if targets else {}
    kernel = paths[f"kernel-{name}"] if named else options.kernel
    return (paths[qemu] if qemu else options.qemu, kernel,
            options.initrd or paths[f"initramfs-{name}"])


def newc_member(name, mode, data):
    """One member of a cpio archive in the format that Linux unpacks."""
    encoded = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    out = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
    out += b"\0" * (-len(out) % 4) + data
    return out + b"\0" * (-len(out) % 4)


def read_file(path):
    """A file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def initrd_with_more(initrd, script, more):
    """INITRD with the files of MORE archives and SCRIPT as /run; returns a descriptor.

    The archive lives in memory and in a descriptor that QEMU inherits, so
    nothing is left to clean up, however the guest ends.
    """
    archive = read_file(initrd)
    for overlay in more:
        archive += b"\0" * (-len(archive) % 4) + read_file(overlay)
    if script:
        archive += b"\0" * (-len(archive) % 4)
        archive += newc_member("run", stat.S_IFREG | 0o755, read_file(script))
        archive += newc_member("TRAILER!!!", 0, b"")
    descriptor = os.memfd_create("initrd", 0)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(archive)
    return descriptor


def overlays(options):
    """The archives of more files for the guest."""
    found = list(options.overlay)
    if options.python or options.verbs:
        found.append(setup_paths("python-guest")["python-guest"])
    if options.verbs:
        target = f"verbs-guest-{options.kernel}"
        found.append(setup_paths(target)[target])
    return found


def prepare(options, log=None):
    """Returns (command, descriptors that it must inherit); see serial_arguments()."""
    qemu, kernel, initrd = find_images(options)
    descriptors = []
    more = overlays(options)
    if (options.run or more) and not options.dry_run:
        descriptors.append(initrd_with_more(initrd, options.run, more))
        initrd = f"/proc/self/fd/{descriptors[0]}"
    command = [qemu, "-nodefaults", "-no-user-config", "-display", "none",
               "-no-reboot", "-machine", options.machine]
    virtual = virtual_arguments(options) if is_virtual(options) else []
    accel = accel_arguments(options.accel, [*options.extra, *virtual],
                            ARCHES[options.arch][1])
    words = kernel_words(options)
    if options.trust_tsc:
        words += " tsc=reliable"
    command += [*accel, *virtual, "-m", options.memory, "-smp", str(options.cpus),
                "-kernel", kernel, "-initrd", initrd, "-append", words]
    command += serial_arguments(options, log) + card_arguments(options)
    command += share_arguments(options)
    if options.qmp:
        path = options.qmp.replace(",", ",,")
        command += ["-qmp", f"unix:{path},server=on,wait=off"]
    return command + options.extra, descriptors


def script_status(text):
    """The exit status that a guest's output ends with, or None."""
    found = STATUS.findall(text)
    return int(found[-1]) if found else None


def read_status(output):
    """Reads a guest's output to its end; returns the script's status, or None."""
    status, rest = None, ""
    with os.fdopen(output, encoding="utf-8", errors="replace", newline="") as file:
        while text := file.read(4096):
            rest += text
            found = script_status(rest)
            status = status if found is None else found
            rest = rest[-64:]
    return status


def watch(command, descriptors, output):
    """Runs QEMU; returns the script's status, which comes with its OUTPUT."""
    with subprocess.Popen(      # pylint: disable=subprocess-popen-preexec-fn
            command, pass_fds=descriptors, preexec_fn=die_with_parent) as qemu:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda given, _: qemu.send_signal(given))
        # The last descriptor is the other end of the output, which QEMU has now.
        os.close(descriptors[-1])
        status = read_status(output)
        code = qemu.wait()
    if code:
        return code if code > 0 else 128 - code
    if status is None:
        raise VmError("the guest has ended before its script")
    return status


def main():
    """scripts/vm."""
    try:
        options = parse_options(sys.argv[1:])
        log, ends = None, []
        if options.run and not options.dry_run:
            ends = list(os.pipe())
            log = f"/proc/self/fd/{ends[1]}"
        command, descriptors = prepare(options, log)
        if options.accel == "auto" and "kvm" not in command:
            print(f"Emulating (TCG): {kvm_problem()}.", file=sys.stderr)
        if ends:
            sys.exit(watch(command, [*descriptors, ends[1]], ends[0]))
    except (VmError, OSError) as error:
        sys.exit(f"error: {error}")
    if options.dry_run:
        print(shlex.join(command))
        if options.run:
            print(f"# {options.run} would be /run in the initrd",
                  file=sys.stderr)
        return
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
