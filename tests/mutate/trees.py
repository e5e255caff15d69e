# SPDX-License-Identifier: GPL-2.0-or-later
"""The builds that mutants are tried in.

There are three private ones, each a build directory of meson's with other
flags of the compiler: "fast" (no sanitizers, no debug information), "suite"
(as scripts/test runs the tests) and "cover" (which program runs which line).
A mutant is compiled from a pipe with the command that the build has for its
source, and each program is linked with its object before the others, in a
directory of its own.
"""

import collections
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import threading
import time

REPO = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__))))

FLAGS = {"fast": "-O2 -g0 -w -fno-sanitize=all",
         "suite": "-g0 -w",
         "cover": "-O0 -g0 -w -fno-sanitize=all --coverage"}
# Tests of costs count instructions, and the models' tests do not run the code.
LEFT_OUT = re.compile(r"cost-|model-|lib man|lib kv$|lib pattern$"
                      r"|driver-ktlb")
LONG = 4.0              # seconds from which a program's lines are not counted
SUITE = 3.0             # seconds of tests that a survivor has sanitized
MEMORY = 6 << 30        # bytes of addresses, where no sanitizer needs more
SEED = "1"              # of the tests; the sample has a seed of its own

Test = collections.namedtuple("Test", "name command env programs suites")
Ended = collections.namedtuple("Ended", "good reason seconds cpu")


class BuildError(Exception):
    """The unmutated sources do not build, or fail; the text gives the remedy."""


def shell(function, *arguments):
    """Calls a function of unetmm_tools/build; returns its output."""
    done = subprocess.run(
        ["bash", "-c", '. "$0/scripts/unetmm_tools/build/all.sh"; "$@"', REPO, function,
         *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{function} failed: run scripts/setup unit")
    return done.stdout.strip()


def digest(*parts):
    """A short name for these texts."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part.encode() + b"\0")
    return state.hexdigest()[:16]


def read(path):
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def run_test(command, env, cwd, limits, memory=0):
    """Runs a program until its first failure.  limits: (CPU, wall) seconds."""
    start = time.monotonic()
    with subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
            errors="replace") as process:
        late = threading.Event()

        def stop(why=None):
            if why:
                why.set()
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

        clock = threading.Timer(limits[1], stop, [late])
        clock.start()
        failed = None
        try:
            set_limits(process.pid, limits[0], memory)
            for line in process.stdout:
                if re.match(r"\s*not ok\b", line):
                    failed = line.strip()
                    break
        finally:
            if failed:
                stop()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = status = os.waitstatus_to_exitcode(status)
            clock.cancel()
            stop()
    cpu = used.ru_utime + used.ru_stime
    if not failed and late.is_set():
        failed = "does not end"
    if not failed and status:
        failed = {-signal.SIGXCPU: "does not end",
                  -signal.SIGKILL: "does not end"}.get(
                      status, f"exit status {status}")
    return Ended(not failed, failed, time.monotonic() - start, cpu)


def set_limits(pid, cpu, memory):
    """For a process that has just been started."""
    seconds = int(cpu) + 1
    try:
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        if memory:
            resource.prlimit(pid, resource.RLIMIT_AS, (memory, memory))
    except ProcessLookupError:
        pass


class Tree:
    """One build directory."""

    def __init__(self, work, name, say, jobs=1):
        self.name, self.dir = name, os.path.join(work, name)
        self.say, self.jobs = say, jobs
        self.links, self.objects, self.entries = {}, {}, {}

    def _command(self, *command):
        done = subprocess.run(command, cwd=self.dir, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise BuildError(f"{shlex.join(command)} failed in {self.dir}:\n"
                             + done.stdout[-3000:])
        return done.stdout

    def configure(self):
        """meson's build directory, with our flags in ninja's rules."""
        compiler = shell("compiler")
        made_of = [FLAGS[self.name], compiler, read(__file__)]
        for top in ("guest-lib", "tests"):
            for directory, _, files in sorted(os.walk(
                    os.path.join(REPO, top))):
                made_of += [read(os.path.join(directory, name))
                            for name in files if name in ("meson.build", "seeds.py")]
        mark = digest(*made_of, read(os.path.join(REPO, "meson.build")))
        stamp = os.path.join(self.dir, "configured")
        if os.path.exists(stamp) and read(stamp) == mark:
            return
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self.say(f"configuring the build \"{self.name}\" ...")
        self._command("env", f"CC={compiler}", *shlex.split(
            shell("meson_command")), "setup", self.dir, REPO)
        self._change_rules()
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(mark)

    def _change_rules(self):
        """Our flags come after the build's own; nothing makes it anew."""
        path = os.path.join(self.dir, "build.ninja")
        text, flags = read(path), FLAGS[self.name]
        # tests/core/explore names a function of the sanitizers.
        extra = ""
        if self.name != "suite":
            extra = " no_sanitizer.o"
            source = os.path.join(self.dir, "no_sanitizer.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write("void __sanitizer_set_death_callback("
                           "void (*call)(void)) {}\n")
            self._command("gcc", "-w", "-c", source, "-o", "no_sanitizer.o")
        text = text.replace("$ARGS -MD", f"$ARGS {flags} -MD")
        text = text.replace("$in $LINK_ARGS", f"$in $LINK_ARGS {flags}{extra}")
        text = re.sub(r"^build build\.ninja: REGENERATE_BUILD.*\n( .*\n)*",
                      "", text, flags=re.M)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def tests(self):
        """Those whose programs are ours to link."""
        with open(os.path.join(self.dir, "meson-info", "intro-tests.json"),
                  encoding="utf-8") as file:
            listed = json.load(file)
        found = []
        for test in listed:
            programs = [self._relative(word) for word in test["cmd"][:1]
                        if word.startswith(self.dir + os.sep)]
            if not programs:
                programs = [self._program(test["cmd"][1:],
                                          name.split("@@")[1].split("@")[0])
                            for name in test["depends"]
                            if name.endswith("@exe")]
            if LEFT_OUT.match(test["name"]) or not programs:
                continue
            found.append(Test(test["name"], test["cmd"],
                              {**test["env"], "UNETMM_SEED": SEED}, programs,
                              test["suite"]))
        return found

    def _relative(self, path):
        return os.path.relpath(path, self.dir)

    def _program(self, words, name):
        """A program that a script is given: by its path, which is relative to
        the build directory, or by the directory that has it."""
        for word in words:
            if word.endswith("/" + name):
                return self._relative(os.path.join(self.dir, word))
        for word in words:
            if word.startswith(self.dir + os.sep) and os.path.isdir(word):
                return os.path.join(self._relative(word), name)
        raise BuildError(f"no argument of a test leads to its program {name}: "
                         f"{shlex.join(words)}")

    def plan(self, programs):
        """How each program is made, and of which objects: nothing is built."""
        self.links, self.objects = {}, {}
        for program in programs:
            commands = self._command("ninja", "-t", "commands", program)
            self.links[program] = shlex.split(commands.splitlines()[-1])
            inputs = self._command("ninja", "-t", "inputs", program)
            self.objects[program] = {name for name in inputs.split()
                                     if name.endswith(".o")}
        self.entries = collections.defaultdict(list)
        for entry in json.loads(self._command("ninja", "-t", "compdb",
                                              "c_COMPILER")):
            path = os.path.realpath(os.path.join(self.dir, entry["file"]))
            self.entries[path].append(entry)

    def build(self, programs):
        """All programs as they are."""
        self.say(f"building the unmutated programs, \"{self.name}\" ...")
        self._command("ninja", "-j", str(self.jobs), *programs)
        self.plan(programs)
        self._find_including({entry["output"]: entry for entries in
                              self.entries.values() for entry in entries})

    def _find_including(self, by_object):
        """A test may include the source that it tests."""
        entry = None
        for line in self._command("ninja", "-t", "deps").splitlines():
            if not line.startswith(" "):
                entry = by_object.get(line.split(":")[0])
            elif entry and line.endswith(".c"):
                path = os.path.realpath(os.path.join(self.dir, line.strip()))
                if path != os.path.realpath(os.path.join(self.dir,
                                                         entry["file"])):
                    self.entries[path].append(entry)

    def objects_of(self, path):
        """The objects that are made of a source, or include it."""
        return {entry["output"] for entry in self.entries[path]}

    def compile(self, path, text, out):
        """Compiles the text in place of a source; {object: file} or None."""
        made = {}
        used = set().union(*self.objects.values())
        mutated = os.path.join(out, "mutated")
        os.makedirs(mutated, exist_ok=True)
        with open(os.path.join(mutated, os.path.basename(path)), "w",
                  encoding="utf-8") as file:
            file.write(text)
        for entry in self.entries[path]:
            if entry["output"] not in used:
                continue
            target = os.path.join(out, entry["output"].replace("/", "_"))
            words = shlex.split(entry["command"])
            if os.path.basename(words[0]) == "ccache":
                del words[0]
            for word in ("-MD",):
                words.remove(word)
            for word in ("-MQ", "-MF", "-o", "-c"):
                at = words.index(word)
                del words[at:at + 2]
            source = os.path.realpath(os.path.join(self.dir, entry["file"]))
            # Its own directory is searched first for the files that it
            # includes, so that the source itself comes from a pipe.
            done = subprocess.run(
                [*words, "-iquote", mutated, "-iquote",
                 os.path.dirname(source), "-o", target, "-c", "-x", "c", "-"],
                cwd=self.dir, text=True, check=False,
                input=text if source == path else read(source),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if done.returncode:
                return None
            made[entry["output"]] = target
        return made

    def link(self, program, made, out):
        """The program with these objects in place of its own; its file."""
        target = os.path.join(out, program)
        if os.path.exists(target):
            return target
        os.makedirs(os.path.dirname(target), exist_ok=True)
        mine = {name: made[name] for name in made
                if name in self.objects[program]}
        words = [mine.get(word, word) for word in self.links[program]]
        at = words.index("-o")
        words[at + 1] = target
        # An archive's object comes too late to be taken; one that the program
        # has beside it (its test includes the source) was not taken before.
        if not set(mine) & set(self.links[program]):
            words[at + 2:at + 2] = mine.values()
        self._command(*words)
        return target

    def run(self, test, out, limits):
        """A test of the programs in `out`, or of the build's own."""
        place = out or self.dir
        command = [word.replace(self.dir, place, 1) for word in test.command]
        memory = 0 if self.name == "suite" else MEMORY
        return run_test(command, test.env, out or self.dir, limits, memory)


def covered(tree, test, sources):
    """{source: (lines that the test runs, lines that have code)}."""
    for directory, _, files in os.walk(tree.dir):
        for name in files:
            if name.endswith(".gcda"):
                os.unlink(os.path.join(directory, name))
    ended = tree.run(test, None, (600, 1200))
    if not ended.good:
        raise BuildError(f"{test.name} fails with --coverage: {ended.reason}")
    data = [os.path.splitext(name)[0] + ".gcda" for path in sources
            for name in sorted(tree.objects_of(path))]
    data = [name for name in data
            if os.path.exists(os.path.join(tree.dir, name))]
    lines = {path: (set(), set()) for path in sources}
    if not data:
        return lines
    done = subprocess.run(["gcov", "--json-format", "--stdout", *data],
                          cwd=tree.dir, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False)
    for text in done.stdout.splitlines():
        if not text.startswith("{"):
            continue
        for file in json.loads(text)["files"]:
            path = os.path.realpath(os.path.join(tree.dir, file["file"]))
            for line in file["lines"] if path in lines else ():
                lines[path][1].add(line["line_number"])
                if line["count"]:
                    lines[path][0].add(line["line_number"])
    return lines
