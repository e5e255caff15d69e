# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/run: a program of the host's in one guest or in several, for scripts and CI.

The guests are those of unetmm.lab or, in virtual time, of virtual.py.  docs/ci.rst is the
manual.
"""

import argparse
import base64
import collections
import contextlib
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

from unetmm_tools import INSTALLED
from unetmm_tools.guest import lab, pair, virtual, vm
from unetmm_tools.guest.progress import Progress

BOOT_SECONDS = 300
BUSY_SECONDS = 30       # for the files of a guest whose command has not ended
FILES_BYTES = 64 << 20  # of tar, from a guest
DISK_BYTES = 256 << 20  # of all files of a run, while the guests live
MOST_OUTPUT = 64 << 20
LATE, FAILED = 124, 125
TOO_MUCH = f"the guests have printed more than {DISK_BYTES >> 20} MB"
FOLDER = "program"      # of the guest: the host's programs
SHARED, OUT = "/shared", "/tmp/out"
NAMES = "abcdefgh"
LIBRARIES = f"usr/lib/{os.uname().machine}-linux-gnu"
POLL = 0.05             # seconds

OOPS = re.compile(r"(?:Kernel panic - |Oops|general protection|"
                  r"BUG: (?!workqueue lockup|soft lockup)|UBSAN: |"
                  r"WARNING: (?:possible|suspicious) )[^\r\n]*")
KILLED = re.compile(r"Out of memory: Killed process \d+ \(([^)]*)\)")

DESCRIPTION = """\
Boots guests with the card, runs CMD in them, and ends with its exit status: 128 and
the signal's number if a signal has ended it, 124 if it took too long, and 125 if it
could not be run.  Of several guests the first status counts that is not 0; the others
are ended then.  A sentence names the reason, and the place of the console.

CMD is a program of the host with its arguments (./mine, copied with the libraries that
it needs), a C source (mine.c, compiled here with libunetmm and $CFLAGS, $LDLIBS), a Python
source (mine.py), or a program of the guest (unetmm-info).  One word is a line for the
guest's shell.  With `-- CMD2` a second guest on the same wire runs that, and so on: a CMD
with an argument -- has to be one word.  CMD has no standard input, and its two outputs are one.

In a guest, GUEST is its name (a, b, ...), PEER the address of the next guest's card (a
guest alone: its own), and OUT a folder, in which CMD starts: that of --share, or one
whose files are copied to the host when CMD has ended.
"""

EXAMPLES = """\
examples:
  A program in one guest; its exit status is that of scripts/run:
    scripts/run -- ./mine --fast

  A C source, compiled and linked with the library, and a Python source:
    scripts/run -- guest-lib/examples/hello.c
    scripts/run -- guest-lib/python/examples/hello.py

  Two guests on one wire; guest b is told the address of guest a:
    scripts/run -- unetmm-pingpong --listen -- 'unetmm-pingpong $PEER'

  The folder of the project in the guest; results.csv remains in it:
    scripts/run --share . -- './mine >results.csv'

  1 % of the frames are lost; another kernel; at most a minute:
    scripts/run --inject loss=0.01,seed=7 --kernel 6.12 --timeout 60 -- ./mine

  The same in each run, in virtual time (docs/lockstep.rst):
    scripts/run --virtual -- unetmm-pingpong --listen -- 'unetmm-pingpong $PEER'
"""


# The state of a command: status or None, the output that is kept, the number of bytes behind that
State = collections.namedtuple("State", ("status", "data", "cut"), defaults=(b"", 0))


class Interrupted(BaseException):
    """A signal has come; `status` is that of scripts/run."""

    def __init__(self, number):
        super().__init__(number)
        self.status = 128 + number


def interrupt(number, _frame):
    """The handler of signals that end the run."""
    raise Interrupted(number)


class RunError(Exception):
    """The program could not be run; the text is one sentence."""


# ---- Commands, and files of the host that they need


def is_source(program):
    """True for a file that is named without a path, as a program is not."""
    return program.endswith((".c", ".py")) and os.path.isfile(program)


def compile_c(source, scratch):
    """The program that a C source becomes, by pkg-config's flags for the library."""
    env = dict(os.environ)
    if not INSTALLED:
        env["PKG_CONFIG_PATH"] = vm.setup_paths("library")["PKG_CONFIG_PATH"] + \
            f":{env.get('PKG_CONFIG_PATH', '')}"
    words = [shlex.split(os.environ.get(name, default)) for name, default in
             (("CC", "cc"), ("CFLAGS", "-O2 -g -Wall"), ("LDLIBS", ""))]
    # Sources of two folders may have one name.
    program = os.path.join(tempfile.mkdtemp(dir=scratch),
                           os.path.basename(source).removesuffix(".c"))
    try:
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libunetmm"], env=env,
                               stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        subprocess.run([*words[0], *words[1], "-o", program, source, *flags, *words[2]],
                       check=True)
    except subprocess.CalledProcessError as error:
        raise RunError(f"{source} does not compile ({error.cmd[0]}: status "
                       f"{error.returncode})") from None
    return program


def libraries(program):
    """{path in the guest: path here} of the libraries that a program needs."""
    def needed(**env):
        return subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **env}, stderr=subprocess.DEVNULL,
                              check=False).stdout
    said = needed()
    if "libunetmm.so.0 => not found" in said and not INSTALLED:
        library = os.path.join(vm.setup_paths("library")["library"], "guest-lib")
        said = needed(LD_LIBRARY_PATH=f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    if missing := re.findall(r"(\S+) => not found", said):
        raise RunError(f"{program} needs {', '.join(missing)}: name the folder in LD_LIBRARY_PATH")
    return {f"{LIBRARIES}/{os.path.basename(path)}": path
            for path in re.findall(r"=> (/\S+) \(", said)}


def command_text(words, place, files, scratch):
    """A command for the guest's shell; `files` gets the host's, below `place` in the guest."""
    program, _, line = words[0].partition(" ") if len(words) == 1 and \
        not os.path.isfile(words[0]) else (words[0], "", shlex.join(words[1:]))
    if not (is_source(program) or "/" in program and os.path.isfile(program)):
        return words[0] if len(words) == 1 else shlex.join(words)
    if program.endswith(".c"):
        program = compile_c(program, scratch)
    inside = f"{place}/{os.path.basename(program)}"
    files[inside] = program
    for name, path in libraries(program).items():
        if os.path.realpath(files.setdefault(name, path)) != os.path.realpath(path):
            raise RunError(f"{files[name]} and {path} have one name in the guest: link one of the "
                           "programs with -static")
    python = "python3 " if program.endswith(".py") else ""
    return f"{python}/{shlex.quote(inside)} {line}"


def archive(files):
    """The files as a cpio archive: {path in the guest: path here}."""
    folders = {name[:at] for name in files for at in range(len(name)) if name[at] == "/"}
    return b"".join([
        *(vm.newc_member(name, stat.S_IFDIR | 0o755, b"") for name in sorted(folders)),
        *(vm.newc_member(name, stat.S_IFREG | 0o755, vm.read_file(path))
          for name, path in sorted(files.items())),
        vm.newc_member("TRAILER!!!", 0, b"")])


def mac(number):
    """The card's address of a guest, which --id has derived."""
    return f"52:54:00:6d:00:{number:02x}"


def script(command, number, options):
    """The shell's text for guest `number`, from 1."""
    out = SHARED if options.share else OUT
    here, folder = out, options.share and os.path.realpath(options.share)
    lines = [f"export {shlex.quote(word)}" for word in (
        f"GUEST={NAMES[number - 1]}", f"PEER={mac(number % options.guests + 1)}", f"OUT={out}",
        *options.env)] + [f"mkdir -p {out}"]
    if folder:
        lines.append(f"grep -q ' {SHARED} 9p ' /proc/mounts || "
                     f"{{ echo the kernel has no 9p for --share >&2; exit {FAILED}; }}")
        # Paths of the host's folder are good in the guest, unless the guest has one of that name.
        lines.append(f"[ -e {shlex.quote(folder)} ] || {{ mkdir -p "
                     f"{shlex.quote(os.path.dirname(folder))} && "
                     f"ln -s {SHARED} {shlex.quote(folder)}; }}")
        inside = os.path.relpath(os.getcwd(), folder)
        here = out if inside.startswith("..") else os.path.join(out, inside)
    return "\n".join([*lines, f"cd {shlex.quote(here)} || exit {FAILED}", command, ""])


# ---- Guests, by either clock.  states(): of each command a State


class Real(lab.Lab):
    """Guests by the host's clock."""

    def __init__(self, scripts, options, overlay, words):
        if overlay:
            words = [*words, "--overlay", overlay]
        super().__init__(options.guests, options.kernel, words, options.python,
                         share=options.share)
        self._scripts, self._jobs = scripts, []
        self._knobs, self._limit = options.inject, options.max_output

    def boot(self, timeout=BOOT_SECONDS, tick=lambda: None):
        """Starts the guests, and in each of them its command."""
        super().boot(timeout, tick)
        for guest in self.guests:
            guest.faults(**self._knobs)
        self._jobs = [guest.launch(text, self._limit)
                      for guest, text in zip(self.guests, self._scripts)]

    def states(self):
        """See above."""
        found = [State(job.status, job.data, job.cut) for job in self._jobs]
        for guest in self.guests:
            guest.free()
        return found or [State(None)] * len(self.guests)

    def settle(self):
        """Waits for the lines that commands, which go on, have printed before now: a job that
        begins later ends behind these lines."""
        waited = [(guest, guest.launch("true")) for guest, job in zip(self.guests, self._jobs)
                  if guest.running() and job.status is None]
        deadline = time.monotonic() + BUSY_SECONDS
        while any(guest.running() and job.status is None for guest, job in waited):
            # states() gives the disk's room of lines back.
            self.states()
            if time.monotonic() > deadline or overfull(self):
                return
            time.sleep(POLL)

    def files(self, number):
        """An archive of tar, of the files that the command has left; or nothing."""
        guest = self.guests[number]
        if not self._jobs or not guest.running():
            return b""
        job = guest.launch(
            f'[ -z "$(ls -A {OUT} 2>/dev/null)" ] || tar c -C {OUT} . 2>/dev/null', FILES_BYTES)
        # Others print meanwhile; states() gives the disk's room of their lines back.  tar has a
        # status of its own for sockets, and for files that change.
        guest.until(lambda: self.states() and job.status is not None or job.cut or overfull(self),
                    BUSY_SECONDS if self._jobs[number].status is None else BOOT_SECONDS,
                    "has not packed its files")
        if job.cut:
            raise RunError(too_large(guest))
        if job.status is None:
            raise RunError(TOO_MUCH)
        return job.data


class Virtual(virtual.VirtualCluster):
    """Guests in one virtual time, whose files go in the script's output."""

    def __init__(self, scripts, options, _overlay, words):
        self._mark, self._limit = secrets.token_hex(16), options.max_output
        knobs = lab.knobs(**options.inject)
        self._count = len(scripts)
        # A switch has two guests or more.
        scripts = [self._whole(text) for text in scripts] + \
            [None] * (2 - len(scripts))
        super().__init__(scripts, kernel=options.kernel, options=[
            *(["--python"] if options.python else []), *words], cards=[knobs] * len(scripts))
        self.directory = self.workdir
        for guest, name in zip(self.guests, NAMES):
            guest.name = name

    def _whole(self, text):
        return f"""#!/bin/sh
(
{text})
status=$?
[ -z "$(ls -A {OUT})" ] || {{ echo {self._mark}; tar c -C {OUT} . | base64; }}
exit $status
"""

    def boot(self, _timeout, _tick):
        """Begins from snapshots; each that is missing shows its own progress."""
        super().__enter__()
        self.guests = self.guests[:self._count]

    def close(self):
        """Ends all; waits for guests whose command has ended, which power off."""
        for guest in self.guests:
            if guest.running() and guest.status() is not None:
                guest.wait(BOOT_SECONDS)
        super().close()

    def _parts(self, guest):
        text, _, packed = guest.results().partition(f"{self._mark}\n")
        return text.encode(), packed

    @staticmethod
    def settle():
        """All that a guest has printed by now, in virtual time, is here."""

    def states(self):
        """See above."""
        found = [(guest.status(), self._parts(guest)[0]) for guest in self.guests]
        return [State(status, data[:self._limit], max(0, len(data) - self._limit))
                for status, data in found]

    def files(self, number):
        """As of Real; a command that has not ended leaves none."""
        guest = self.guests[number]
        packed = b"" if guest.status() is None else base64.b64decode(self._parts(guest)[1])
        if len(packed) > FILES_BYTES:
            raise RunError(too_large(guest))
        return packed


# ---- The run


class Show:
    """Prints the output of the guests as it comes, by lines."""

    def __init__(self, options):
        count = 0 if options.json else options.guests
        self._names = [b"" if count == 1 else f"{name}: ".encode() for name in NAMES[:count]]
        self._shown = [0] * count

    def update(self, states, last=False):
        """Prints whole lines; at the last call, also one without an end."""
        for number, (name, state) in enumerate(zip(self._names, states)):
            data = state.data
            end = len(data) if last or state.status is not None else data.rfind(b"\n") + 1
            part, self._shown[number] = data[self._shown[number]:end], max(
                end, self._shown[number])
            if name:
                part = b"".join(name + line + b"\n" for line in part.splitlines())
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def of_console(guest):
    """A message of the kernel that explains a failure, in a sentence, or None."""
    console = guest.console()
    if found := OOPS.search(console):
        return f"the kernel of guest {guest.name} failed: {found[0].strip()}"
    if found := KILLED.search(console):
        return f"guest {guest.name} ran out of memory, and Linux ended {found[1]} " \
            "(--memory gives it more)"
    return None


def of_status(guest, status, command):
    """The sentence for a program's status."""
    name = shlex.quote(command[0])
    if status == 127:
        return f"guest {guest.name} has not found {name}, or its interpreter: name a file of " \
            "the host (./mine), or a program of the guest (unetmm-info)"
    if status == 126:
        return f"guest {guest.name} cannot execute {name}"
    if status > 128 and status - 128 in iter(signal.Signals):
        return f"in guest {guest.name}, {name} was ended by " \
            f"{signal.Signals(status - 128).name}"
    return f"in guest {guest.name}, {name} ended with status {status}"


def of_end(guest):
    """The sentence for a QEMU that has ended before the program."""
    said = pair.read_text(guest.stderr_path).strip().splitlines()
    return f"QEMU of guest {guest.name} ended before the program" + \
        (f": {said[-1]}" if said else ", since the guest powered off")


def overfull(group):
    """True if the files of the guests take more of the disk than a run may."""
    with os.scandir(group.directory) as files:
        return sum(file.stat(follow_symlinks=False).st_blocks * 512
                   for file in files) > DISK_BYTES


def outcome(group, commands, states):
    """(status, sentence or None), or None while the commands run."""
    for number, (guest, command, state) in enumerate(zip(group.guests, commands, states)):
        if state.status:
            return state.status, of_console(guest) or of_status(guest, state.status, command)
        if state.status is None and not guest.running():
            # The last lines may have come since.
            if group.states()[number].status is None:
                return FAILED, of_console(guest) or of_end(guest)
    if any(state.status is None for state in states):
        return (FAILED, TOO_MUCH) if overfull(group) else None
    # A program may end well in a kernel that does not.
    wrong = [OOPS.search(guest.console()) and of_console(guest) for guest in group.guests]
    return next(((1, text) for text in wrong if text), (0, None))


def follow(group, commands, options):
    """Waits for the end, and prints; (status, sentence or None)."""
    show = Show(options)
    deadline = pair.SharedDeadline(group.guests, options.timeout)
    while True:
        states = group.states()
        found = outcome(group, commands, states)
        if found and found[1] != TOO_MUCH:
            # A line of one guest may be why another one has failed.
            group.settle()
        show.update(group.states() if found else states, last=bool(found))
        if found:
            return found
        if deadline.passed():
            late = next(guest.name for guest, state in zip(group.guests, states)
                        if state.status is None)
            return LATE, f"guest {late} was not done after {options.timeout:g} " \
                f"{group.guests[0].UNIT} (--timeout)"
        time.sleep(POLL)


def save_output(group, folder):
    """Writes the console and the output of each guest."""
    for guest, state in zip(group.guests, group.states()):
        base = os.path.join(folder, guest.name)
        with open(f"{base}.console", "w", encoding="utf-8") as file:
            file.write(guest.console())
        with open(f"{base}.output", "wb") as file:
            file.write(state.data)


def too_large(guest):
    """About the files of a guest."""
    return (f"the files of guest {guest.name} in $OUT are more than {FILES_BYTES >> 20} MB: "
            "use --share")


def unpack(packed, to):
    """Writes the files of a guest, none of which gets more rights than umask gives."""
    os.makedirs(to)
    done = subprocess.run(["tar", "x", "--no-same-owner", "--no-same-permissions", "-C", to],
                          input=packed, check=False)
    if done.returncode:
        raise RunError(f"not all files could be written to {to} (tar: status {done.returncode})")


def save_files(group, folder):
    """Writes the files that the guests have in $OUT, those of a command that has not ended as they
    are; (true if there were some, sentences about those that are lost)."""
    some, lost = False, []
    for number, guest in enumerate(group.guests):
        to = os.path.join(folder, f"{guest.name}.files")
        shutil.rmtree(to, ignore_errors=True)
        try:
            if packed := group.files(number):
                some = True
                unpack(packed, to)
        except (RunError, pair.GuestError, OSError, ValueError) as error:
            lost.append(first_line(error))
    return some, lost


def guests_for(options, commands, scratch):
    """The guests, with all that their commands need."""
    files, overlay = {}, None
    texts = [command_text(words, f"{FOLDER}/{number}", files, scratch)
             for number, words in enumerate(commands)]
    if files and options.virtual:
        # A script of more than some 100 KB takes fw_cfg minutes.
        raise RunError("--virtual runs programs of the guest alone (unetmm-info)")
    options.python = options.python or any(name.endswith(".py") for name in files)
    if files:
        overlay = os.path.join(scratch, "files")
        with open(overlay, "wb") as file:
            file.write(archive(files))
    words = ["--memory", options.memory, "--cpus", str(options.cpus)]
    if options.device_opts:
        words += ["--device-opts", options.device_opts]
    kind = Virtual if options.virtual else Real
    return kind([script(text, number, options) for number, text in enumerate(texts, 1)],
                options, overlay, words)


def execute(group, commands, options):
    """Boots the guests and runs the commands; (status, sentence or None)."""
    progress = Progress()
    many = "a guest" if options.guests == 1 else f"{options.guests} guests"
    try:
        group.boot(BOOT_SECONDS, lambda: progress.say(f"booting {many}"))
        progress.end(f"booted {many}")
        return follow(group, commands, options)
    except pair.GuestError as error:
        progress.clear()
        found = next(filter(None, map(of_console, group.guests)), None) or next(
            (of_end(guest) for guest in group.guests if not guest.running() and
             pair.read_text(guest.stderr_path).strip()), None)
        return FAILED, found or first_line(error)


def first_line(error):
    """The sentence of an error, without the last words of the guest."""
    line, *_ = str(error).splitlines() or [type(error).__name__]
    return re.sub(r"; [\w ]+ said:$", "", line)


def report_json(status, reason, folder=None, guests=()):
    """The object of --json."""
    print(json.dumps({
        "status": status, "reason": reason, "folder": folder, "guests": [
            {"name": name, "status": state.status, "output": state.data.decode(errors="replace"),
             "cut": state.cut} for name, state in guests]}, indent=1))


def report(group, found, folder, options):
    """Says how it ended, and where the consoles are: as JSON, or in a sentence."""
    status, sentence = found
    states = [(guest.name, state) for guest, state in zip(group.guests, group.states())]
    for name, state in states:
        if state.cut:
            print(f"  guest {name} printed {state.cut} bytes more than the {options.max_output} "
                  "that are kept (--max-output)", file=sys.stderr)
    if options.json:
        report_json(status, sentence, folder, states)
    elif sentence:
        print(f"error: {sentence}; console and output are in {folder}", file=sys.stderr)
    elif folder and not options.keep:
        print(f"  the files of $OUT are in {folder}", file=sys.stderr)


def run(options, commands):
    """Boots, runs, saves, and ends the guests; the status."""
    with tempfile.TemporaryDirectory(prefix="unetmm-program-") as scratch:
        group = guests_for(options, commands, scratch)
        folder = options.keep or tempfile.mkdtemp(prefix="unetmm-run-")
        try:
            os.makedirs(folder, exist_ok=True)
            found = execute(group, commands, options)
            save_output(group, folder)
            some, lost = (False, []) if options.share else save_files(group, folder)
            for text in lost:
                print(f"  {text}", file=sys.stderr)
            if lost and not found[0]:
                # The program's own failure counts more.
                found = FAILED, lost[0]
            if not (some or found[0] or options.keep):
                shutil.rmtree(folder)
                folder = None
            report(group, found, folder, options)
            return found[0]
        except Interrupted as error:
            save_output(group, folder)
            report(group, (error.status, "interrupted"), folder, options)
            return error.status
        finally:
            group.close()
            if folder and not options.keep:
                # One that has stayed empty
                with contextlib.suppress(OSError):
                    os.rmdir(folder)


# ---- The program


def rates(text):
    """{name of lab.knobs(): number} of --inject."""
    try:
        return {name.strip().replace("-", "_"): int(value) if name.strip() == "seed" else
                float(value) for name, value in (word.split("=") for word in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: use NAME=SHARE,..., as loss=0.01,seed=7") \
            from None


def size(text):
    """The bytes of --max-output."""
    found = re.fullmatch(r"(\d+)([KM]?)", text)
    count = found and int(found[1]) << {"": 0, "K": 10, "M": 20}[found[2]]
    if not found or not 1 <= count <= MOST_OUTPUT:
        raise argparse.ArgumentTypeError(f"{text}: use 1 to {MOST_OUTPUT >> 20}M")
    return count


def build_parser():
    """The options."""
    parser = vm.Parser(
        prog="scripts/run", description=DESCRIPTION, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        usage="scripts/run [options] -- CMD [ARGUMENTS] [-- CMD2 [ARGUMENTS]]...")
    add = parser.add_argument
    add("--guests", type=int, metavar="N",
        help=f"1 to {lab.NUMBERS[-1]}, each with the same CMD (default: one for each CMD)")
    add("--share", metavar="DIR",
        help="a folder of the host that is /shared in each guest, to be read and written; "
        "CMD starts in it, below it if this shell is below DIR")
    add("--keep", metavar="DIR",
        help="write a.console, a.output and a.files (the files of guest a in $OUT) there, and "
        "so on (default: a new folder below /tmp, which stays if CMD fails or has left "
        "files)")
    add("--env", action="append", default=[], metavar="NAME=VALUE",
        help="a variable for CMD; may be given again")
    add("--python", action="store_true",
        help="python3 and the package unetmm in the guests; for CMD mine.py they are anyway")
    add("--kernel", default="6.1", metavar="|".join(vm.KERNELS),
        help="Debian's kernel of that version, the newest of its backports, or one with "
        "checkers (default: 6.1)")
    add("--memory", default="512M", metavar="SIZE", help="of each guest (default: 512M)")
    add("--cpus", type=int, default=1, metavar="N", help="of each guest (default: 1)")
    add("--device-opts", metavar="K=V,...", help="properties of -device unetmm")
    add("--inject", type=rates, default={}, metavar="NAME=SHARE,...",
        help="how often the card misbehaves: loss=0.01 loses one frame of a hundred; also "
        f"{', '.join(name for name in lab.KNOBS if name != 'loss')}; seed=N makes the run "
        "repeatable")
    add("--virtual", action="store_true",
        help="the guests have one virtual time, equal in each run; for programs of the guest, on "
        "the QEMU that scripts/setup builds")
    add("--timeout", type=float, default=600, metavar="SECONDS",
        help="for CMD, without the boot (default: 600); with --virtual of virtual time")
    add("--max-output", type=size, default=16 << 20, metavar="SIZE",
        help="how much of the output of a CMD is kept, up to 64M; the bytes behind are counted "
        "(default: 16M)")
    add("--json", action="store_true",
        help="print one object in place of the output: status, reason, folder, and of each "
        "guest name, status, output, and how many bytes of that were cut; also for a mistake")
    return parser


def parse_options(arguments):
    """The options, and the words of each command."""
    options, commands = list(arguments), []
    while "--" in options:
        cut = len(options) - options[::-1].index("--")
        commands.insert(0, options[cut:])
        options = options[:cut - 1]
    options = build_parser().parse_args(options)
    if not commands or not all(words and words[0].strip() for words in commands):
        raise RunError("name a command behind --, as in scripts/run -- ./mine")
    if options.guests is None:
        options.guests = len(commands)
    if options.guests not in lab.NUMBERS:
        raise RunError(f"--guests {options.guests}: use 1 to {lab.NUMBERS[-1]}")
    if len(commands) == 1:
        commands *= options.guests
    if len(commands) != options.guests:
        raise RunError(f"{len(commands)} commands for --guests {options.guests}: name one for "
                       "all, or one for each")
    check_options(options)
    return options, commands


def check_options(options):
    """The options that scripts/vm does not have."""
    if not options.timeout > 0:
        raise RunError(f"--timeout {options.timeout:g}: use more than 0 seconds")
    for word in options.env:
        if not re.match(r"[A-Za-z_]\w*=", word):
            raise RunError(f"--env {word}: use NAME=VALUE")
    for name, value in options.inject.items():
        if name not in (*lab.KNOBS, "seed"):
            raise RunError(f"--inject {name}: use {', '.join(lab.KNOBS)} or seed")
        if name != "seed" and not name.endswith("_ns") and not 0 <= value <= 1:
            raise RunError(f"--inject {name}={value:g}: use a share, 0 to 1")
    if options.virtual and options.share:
        raise RunError("--share has the host's time: leave it out with --virtual")


def run_arguments(arguments):
    """Parses the arguments, runs the commands; (status, sentence that is still to be printed)."""
    try:
        options, commands = parse_options(arguments)
        if not options.virtual:
            os.environ.setdefault("UNETMM_DRIVER", "quick")
        return run(options, commands), None
    except Interrupted as error:
        return error.status, "interrupted"
    except vm.SetupFailed:
        return FAILED, "scripts/setup has failed; its messages say why"
    except (RunError, pair.GuestError, vm.VmError, OSError, ValueError) as error:
        return FAILED, first_line(error)


def main():
    """scripts/run."""
    # The project's tests have the QEMU with the corrections; others need not wait for its
    # build, nor for that of the guests' tests.
    vm.DEFAULT_QEMU = "stock"
    os.environ.setdefault("UNETMM_GUEST", "tools")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # In the background of a shell's script, or behind nohup, some are ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    status, sentence = run_arguments(sys.argv[1:])
    if sentence and "--json" in itertools.takewhile(lambda word: word != "--", sys.argv[1:]):
        report_json(status, sentence)
    elif sentence:
        print(f"error: {sentence}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
