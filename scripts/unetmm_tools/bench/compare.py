# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/compare: sources, policies and TLBs beside each other, on one trace, in virtual time.

tests/paper/replay.c replays the references as messages between two cards; docs/compare.rst is
the manual.
"""

import argparse
import csv
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

from unetmm_tools import REPO
from unetmm_tools.bench import drawing
from unetmm_tools.guest import profiles, vm
from unetmm_tools.guest.progress import Progress

DESCRIPTION = """\
Replays references to pages as messages between two cards, in virtual time, once for each
combination of the options with lists (values separated by commas), and prints a row for each:
the time of a message, from its post to the receiver's look, as percentiles, and the
misses of the card.  The result is the same on every machine.  The last line has the values that
were held constant.

The references are those of your program (--trace FILE, lines "SPACE PAGE" as for
scripts/tlb-sim), or made: --pattern and --pages, the working set.
"""

EXAMPLES = """\
examples:
  Sources beside each other, on made references:
    scripts/compare

  Your program's references, for three sizes of the TLB; the mean times as a figure:
    scripts/compare --trace pages --source tlb,utlb,odp --entries 256,512,1024 --svg out.svg

  Policies, when buffers are posted late; the 99th percentile, for LaTeX:
    scripts/compare --direction receive --ahead 1 --interval 0 --source tlb,odp \\
        --policy drop,skip,rnr,backup --value p99 --pdf out.pdf

  Replacements, by the working set, with another cost of an interrupt:
    scripts/compare --source tlb --replace fifo,lru,random --ways 4 --pages 256,1024,2048 \\
        --set interrupt=5 --csv out.csv
"""

PLAIN = os.path.join(REPO, "hw", "net", "unetmm")
LISTS = os.path.join(PLAIN, "abi", "unetmm_lists.h")
REPLACEMENTS = os.path.join(PLAIN, "tlb", "tlb.h")
INDEXES = {"add": 0, "xor": 1}
LEFT_OUT = ("direct", "ktlb")   # the kernel's own, and one whose memory the driver looks up
FIXED = ("pinned", "utlb")      # an absent page is an error of the program
TLB_ONLY = ("victims", "index", "replace")
MOST_ROWS, MOST_REFERENCES = 400, 1_000_000
MOST_TABLES = 700               # pages of tables for which the simulated host has room
US = profiles.PS["us"]

# name: (unit, fast, meaning); a value of 0 costs nothing
COSTS = {
    "post": ("us", 0.1, "the process writes a descriptor"),
    "poll": ("us", 0.1, "the process looks at a completion"),
    "trap": ("us", 0.2, "a system call, which utlb makes to pin a page"),
    "fetch": ("us", 0.5, "the card reads a descriptor"),
    "arrive": ("us", 0.2, "the card takes a frame"),
    "hit_read": ("us", 0.01, "the card finds a translation, to read"),
    "hit_write": ("us", 0.01, "to write"),
    "hit_head": ("us", 0.01, "of a free buffer, ahead of the message"),
    "entry": ("us", 0.5, "the card reads entries of a table in memory"),
    "report": ("us", 0.5, "the card tells the driver of a miss"),
    "interrupt": ("us", 2, "the driver is interrupted"),
    "fault": ("us", 1, "the driver pins, or maps, a page that is in memory"),
    "evict": ("us", 0, "the card drops an entry of its TLB"),
    "unpin": ("us", 0.3, "the driver unpins its page"),
    "resume": ("us", 0.3, "the card takes the driver's answer"),
    "copy_byte": ("ns/B", 0.1, "the driver copies (policies redirect and backup)"),
    "wire_byte": ("ns/B", 0.08, "a byte on the wire: 0.08 is 100 Gb/s"),
    "delay": ("us", 1, "the wire's latency"),
    "timeout": ("us", 1000, "until the process sends a lost message again"),
    "not_ready": ("us", 10, "until the card sends a refused packet again"),
}
HARDWARE = {
    "fast": "round figures, assumed, of a present PCIe card at 100 Gb/s",
    "pca200": "the Fore PCA-200 of U-Net/MM's paper (TR97-1620, Table 1)",
}
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "p999": 99.9, "most": 100}
VALUES = ("mean", *PERCENTILES, "missed")
PATTERNS = {
    "uniform": "each page is as likely as any other",
    "sequential": "one page after the other, again and again",
    "skewed": "nine of ten references go to a tenth of the pages",
}
# The parts of a row that options vary, and their defaults
DIMENSIONS = {"pattern": ["uniform"], "pages": [2048], "source": None, "policy": None,
              "entries": [1024], "ways": [1], "victims": [16], "index": ["add"],
              "replace": ["fifo"]}


class CompareError(Exception):
    """One sentence for the user."""


def read(path):
    """A whole file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources():
    """{name: (number, meaning)} of the card's sources that can be compared."""
    return {name: (int(number), text) for number, name, text in re.findall(
        r'[CS]\((\d+), [A-Z]+, ([a-z]+), "([^"]*)"\)', read(LISTS)) if name not in LEFT_OUT}


def policies():
    """{name: (number, is it of fixed sources?)}"""
    return {name: (int(number), fixed == "1") for number, name, fixed in re.findall(
        r"P\((\d+), \w+, (\w+),\s+(\d),", read(LISTS))}


def replacements():
    """{name: (number, meaning)}"""
    return {name: (int(number), text) for number, name, text in re.findall(
        r'R\((\d+), \w+, (\w+), "(.*?)"\)', read(REPLACEMENTS))}


# ---- Options


def listed(least, most, power=False):
    """The type of an option that has numbers in these bounds."""
    def numbers(text):
        found = [int(word) if word.isdecimal() and len(word) < 9 else -1
                 for word in text.split(",")]
        if not all(least <= value <= most and not (power and value & (value - 1))
                   for value in found):
            raise argparse.ArgumentTypeError(
                f"{text}: use {'powers of two' if power else 'numbers'} from {least} to {most}, "
                "separated by commas")
        return list(dict.fromkeys(found))
    return numbers


def named(names):
    """The type of an option that has some of these names."""
    def words(text):
        found = text.split(",")
        if not set(found) <= set(names):
            raise argparse.ArgumentTypeError(f"{text}: use {', '.join(names)}, separated by commas")
        return list(dict.fromkeys(found))
    return words


def number(least, most):
    """The type of an option with one number."""
    def one(text):
        found = listed(least, most)(text)
        if len(found) != 1:
            raise argparse.ArgumentTypeError(f"{text}: use one number from {least} to {most}")
        return found[0]
    return one


def cost(text):
    """The type of --set: (name, value)."""
    name, _, value = text.partition("=")
    if name not in COSTS:
        raise argparse.ArgumentTypeError(f"{text}: use NAME=VALUE, with a name of "
                                         f"{', '.join(COSTS)}")
    try:
        found = float(value)
    except ValueError:
        found = -1
    if not 0 <= found <= 1e6:
        raise argparse.ArgumentTypeError(f"{text}: use 0 to 1000000, in {COSTS[name][0]}")
    return name, found


def meanings(of):
    """Names with their meanings, for a help text."""
    return "; ".join(f"{name}: {text}" for name, text in of.items())


def build_parser():
    """The options."""
    parser = vm.Parser(
        prog="scripts/compare", description=DESCRIPTION, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    group = parser.add_argument_group("references")
    group.add_argument("--trace", metavar="FILE",
                       help='lines "SPACE PAGE", decimal or 0x; - is the standard input')
    group.add_argument("--space", type=number(0, 65535), metavar="N",
                       help="that process's of the trace alone")
    group.add_argument("--pattern", type=named(PATTERNS), metavar="NAME,...",
                       help=meanings(PATTERNS) + " (default: uniform)")
    group.add_argument("--pages", type=listed(1, 1 << 16), metavar="N,...",
                       help="the working set, for --pattern (default: 2048)")
    group.add_argument("--references", type=number(1, MOST_REFERENCES), metavar="N",
                       help="how many are made (default: 20000), or read at most (all; up to "
                       f"{MOST_REFERENCES})")
    group.add_argument("--direction", choices=("send", "receive"), default="send",
                       help="messages leave from the pages, or arrive in them (default: send)")
    group = parser.add_argument_group("compared", "each takes values separated by commas")
    names = sources()
    group.add_argument("--source", type=named(names), metavar="NAME,...",
                       default=list(names), help=meanings(
                           {name: text for name, (_, text) in names.items()}) + " (default: all)")
    group.add_argument("--policy", type=named(policies()), metavar="NAME,...",
                       help=f"for a message whose page is absent: {', '.join(policies())}; with "
                       "--direction receive (default: skip)")
    group.add_argument("--entries", type=listed(64, 1 << 20, True), metavar="N,...",
                       help="of the TLB, or of the cache of a source with a table: a power of two "
                       "from 64 on (default: 1024)")
    group.add_argument("--ways", type=listed(1, 16, True), metavar="N,...",
                       help="of a set: 1, 2, 4, 8 or 16 (default: 1)")
    group.add_argument("--victims", type=listed(0, 1024), metavar="N,...",
                       help="behind the sets of source tlb: 0 to 1024 (default: 16)")
    group.add_argument("--index", type=named(INDEXES), metavar="NAME,...",
                       help="how a page finds its set in source tlb: add or xor (default: add)")
    group.add_argument("--replace", type=named(replacements()), metavar="NAME,...",
                       help="the entry of source tlb that goes first: " + meanings(
                           {name: text for name, (_, text) in replacements().items()}) +
                       " (default: fifo)")
    group = parser.add_argument_group("held constant")
    group.add_argument("--hardware", choices=HARDWARE, default="fast",
                       help=meanings(HARDWARE) + " (default: fast)")
    group.add_argument("--set", type=cost, action="append", default=[], metavar="NAME=VALUE",
                       help="another cost; --costs lists them; may be given again")
    group.add_argument("--bytes", type=number(64, 4096), default=1024, metavar="N",
                       help="of a message: 64 to 4096 (default: 1024)")
    group.add_argument("--ahead", type=number(1, 16), default=4, metavar="N",
                       help="buffers that wait for messages: 1 to 16 (default: 4)")
    group.add_argument("--interval", type=number(0, 1_000_000), default=10, metavar="US",
                       help="from a message's arrival to the next one (default: 10)")
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="an object for each row, no table")
    group.add_argument("--csv", metavar="FILE", help="write the rows there, too")
    group.add_argument("--svg", metavar="FILE", help="write a figure there, too")
    group.add_argument("--pdf", metavar="FILE", help="the same figure")
    group.add_argument("--value", choices=VALUES, default="mean",
                       help="of the figure (default: mean; missed: look-ups that missed, in %% of all messages); without "
                       "a number that varies it has the percentiles")
    group.add_argument("--costs", action="store_true",
                       help="print the costs of the hardware, and run nothing")
    return parser


def costs_of(options):
    """{name: value} in the units of COSTS."""
    if options.hardware == "fast":
        found = {name: value for name, (_, value, _) in COSTS.items()}
    else:
        atm = profiles.Inputs().pca200
        # Not published: a word by the I/O bus, a byte of a copy, two timers
        found = {"entry": 1, "copy_byte": 14, "timeout": 10000, "not_ready": 100,
                 "trap": atm["trap"], "delay": atm["switch_delay"]}
        for name, value in profiles.pca200(profiles.Inputs(), tlb=True).items():
            if name in COSTS:
                found[name] = value / (US if COSTS[name][0] == "us" else 10**6)
        # A byte of the wire with its part of a cell's head
        found["wire_byte"] = found["wire_byte"] * 53 / 48
    return {**found, **dict(options.set)}


def show_costs(costs):
    """--costs: one line for each."""
    for name, (unit, _, text) in COSTS.items():
        print(f"{name:<10} {costs.get(name, 0):>9.4g} {unit:<5} {text}")


# ---- References


def trace_text(options):
    """The file that --trace names."""
    try:
        if options.trace == "-":
            return sys.stdin.read()
        return read(options.trace)
    except (OSError, UnicodeDecodeError) as error:
        raise CompareError(f"--trace {options.trace}: " + (
            error.strerror if isinstance(error, OSError) else "is no text")) from None


def read_trace(options):
    """The pages of --trace."""
    found, spaces = [], set()
    for where, line in enumerate(trace_text(options).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or not all(re.fullmatch(r"0x[0-9a-fA-F]{1,12}|\d{1,15}", word)
                                      for word in words):
            raise CompareError(f"{options.trace}:{where}: use SPACE PAGE, as 1 0x7f3a2")
        space, page = (int(word, 16 if word.startswith("0x") else 10) for word in words)
        if space > 65535 or page >= 1 << 35:
            raise CompareError(f"{options.trace}:{where}: a space is below 65536, and a page below "
                               "2^35 (addresses of a process have 47 bits)")
        if options.space in (None, space):
            spaces.add(space)
            found.append(page)
            if len(found) == (options.references or MOST_REFERENCES):
                break
    if len(spaces) > 1:
        raise CompareError(f"--trace {options.trace} has {len(spaces)} spaces, and one process is "
                           f"compared: choose one, as --space {min(spaces)}")
    if not found:
        raise CompareError(f"--trace {options.trace} has no references" + (
            f" of space {options.space}" if options.space is not None else ""))
    return found


def made(pattern, pages, count):
    """References by a generator of its own, equal in each run: steps of Knuth's MMIX."""
    state, found = 1, []
    for at in range(count):
        if pattern == "sequential":
            found.append(0x7f000 + at % pages)
            continue
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        high = state >> 33
        few = max(1, pages // 10)
        of = few if pattern == "skewed" and high % 10 else pages
        found.append(0x7f000 + high // 10 % of)
    return found


def check_tables(pages, name):
    """The tables of these pages must fit into the simulated host."""
    tables = sum(len({page >> shift for page in pages}) for shift in (9, 18, 27))
    if tables > MOST_TABLES:
        raise CompareError(f"{name}: the pages lie in {tables} tables, and there is room for "
                           f"{MOST_TABLES}: compare source tlb alone, or give fewer --references")


# ---- Runs


def combinations(options):
    """The rows' parameters, and sentences about those that are left out."""
    allowed = policies()
    values = {name: getattr(options, name) or default for name, default in DIMENSIONS.items()}
    if options.trace:
        values["pattern"], values["pages"] = [None], [None]
    values["policy"] = options.policy or ["skip"] if options.direction == "receive" else [None]
    found, left = {}, {}
    for choice in itertools.product(*values.values()):
        row = dict(zip(DIMENSIONS, choice))
        if row["policy"] and row["source"] in FIXED and not allowed[row["policy"]][1]:
            left.setdefault(row["source"], {})[row["policy"]] = True
            continue
        if row["ways"] > row["entries"]:
            continue
        if row["source"] != "tlb":
            row.update(dict.fromkeys(TLB_ONLY))
        found[tuple(row.values())] = row
    left = [f"{source} has no policy {' or '.join(of)}" for source, of in left.items()]
    if not found:
        raise CompareError("nothing is left to compare: " + ("; ".join(left) or
                           "a set has no more ways than there are entries"))
    if len(found) > MOST_ROWS:
        raise CompareError(f"{len(found)} combinations are more than {MOST_ROWS}: give fewer values")
    return list(found.values()), left


def inputs_of(row, options, costs):
    """The inputs of tests/paper/replay.c for a row."""
    usual = {name: default[0] for name, default in DIMENSIONS.items() if default}
    have = {name: usual.get(name) if value is None else value for name, value in row.items()}
    return {
        **{name: round(value * (US if COSTS[name][0] == "us" else 10**6))
           for name, value in costs.items()},
        "receive": int(options.direction == "receive"), "bytes": options.bytes,
        "ring": options.ahead, "interval": options.interval * US, "rounds": MOST_REFERENCES,
        "source": sources()[row["source"]][0], "policy": policies()[have["policy"] or "skip"][0],
        "entries": have["entries"], "ways": have["ways"], "victims": have["victims"],
        "index": INDEXES[have["index"]], "replace": replacements()[have["replace"]][0]}


def replay(program, path, inputs):
    """{name: value} of one run."""
    text = "run replay\n" + "".join(f"{name} {value}\n" for name, value in inputs.items())
    done = subprocess.run([program, "--replay", path], input=text, text=True, capture_output=True,
                          check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CompareError("unetmm-paper failed" + (f": {said[-1]}" if said else ""))
    return {name: int(value) for name, value in (
        line.split("\t") for line in done.stdout.splitlines()) if name not in ("run", "trace")}


def measured(row, found):
    """The row with its results; times in us."""
    return {**row, "messages": found["messages"], "mean": round(found["mean"] / US, 3),
            **{name: round(found[name] / US, 3) for name in PERCENTILES},
            "misses": found["misses"],
            "missed": round(100 * found["misses"] / found["messages"], 3),
            "reads": round(100 * found["reads"] / found["messages"], 3),
            "unfilled": found["unfilled"], "resent": found["resent"], "refused": found["refused"],
            "seconds": round(found["time"] / profiles.PS["s"], 6)}


def compare(options, rows, costs):
    """All rows, measured."""
    traces = {}
    for row in rows:
        key = row["pattern"], row["pages"]
        if key not in traces:
            traces[key] = read_trace(options) if options.trace else made(
                *key, options.references or 20000)
            if any(other["source"] != "tlb" for other in rows):
                check_tables(traces[key], "--trace" if options.trace else "--pages")
    program = os.path.join(vm.setup_paths("paper")["paper"], "tests", "paper", "unetmm-paper")
    progress, out = Progress(), []
    with tempfile.TemporaryDirectory(prefix="unetmm-compare-") as directory:
        paths = {}
        for place, (key, pages) in enumerate(traces.items()):
            paths[key] = os.path.join(directory, str(place))
            with open(paths[key], "w", encoding="utf-8") as file:
                file.writelines(f"1 {page}\n" for page in pages)
        for place, row in enumerate(rows, 1):
            progress.say(f"comparing {place} of {len(rows)}")
            out.append(measured(row, replay(program, paths[row["pattern"], row["pages"]],
                                            inputs_of(row, options, costs))))
    progress.end(f"compared {len(rows)} combinations")
    return out


# ---- Output


def several(rows):
    """The dimensions that have several values, where they have one."""
    return [name for name in DIMENSIONS
            if len({row[name] for row in rows if row[name] is not None}) > 1]


def constants(rows, options, costs):
    """The values that all rows share: {name: text}."""
    same = {name: str(next((row[name] for row in rows if row[name] is not None), "-"))
            for name in DIMENSIONS if name not in several(rows) and
            any(row[name] is not None for row in rows)}
    where = {"trace": options.trace} if options.trace else {}
    return {**where, **same, "references": str(rows[0]["messages"]),
            "direction": options.direction, "bytes": str(options.bytes),
            "ahead": str(options.ahead), "interval": f"{options.interval} us",
            "hardware": options.hardware,
            **{name: f"{costs[name]:g} {COSTS[name][0]}" for name, _ in options.set}}


TITLES = {"mean": "mean, us", "p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9",
          "most": "most", "missed": "misses, %", "reads": "table reads, %", "unfilled": "unfilled", "resent": "sent again",
          "refused": "refused"}


def table(rows):
    """The lines of the table."""
    names = [name for name in DIMENSIONS if name in several(rows)] or ["source"]
    shown = [name for name in TITLES if name not in ("reads", "unfilled", "resent", "refused") or
             any(row[name] for row in rows)]
    cells = [[*names, *(TITLES[name] for name in shown)]]
    for row in rows:
        cells.append(["-" if row[name] is None else str(row[name]) for name in names] + [
            str(row[name]) if isinstance(row[name], int) else f"{row[name]:.2f}"
            for name in shown])
    wide = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    for line in cells:
        yield "  ".join(cell.ljust(wide[at]) if at < len(names) else cell.rjust(wide[at])
                        for at, cell in enumerate(line)).rstrip()


def lines_of(rows):
    """The dimension along which a figure goes, or None, and the name of each row's line."""
    varied = several(rows)
    along = next((name for name in ("entries", "pages", "victims", "ways") if name in varied), None)
    return along, [", ".join(f"{key} {row[key]}" for key in varied
                             if key != along and row[key] is not None) or f"source {row['source']}"
                   for row in rows]


def check_lines(rows, options):
    """A figure has so many lines at most."""
    count = len(set(lines_of(rows)[1]))
    if (options.svg or options.pdf) and count > drawing.MOST_LINES:
        raise CompareError(f"--svg and --pdf: {count} lines are too many for a figure, which has "
                           f"{drawing.MOST_LINES} at most: give fewer values")


def chart(rows, options, costs, kind):
    """The figure, as kind draws it."""
    along, names = lines_of(rows)
    curves = {}
    for row, name in zip(rows, names):
        if along is None:
            curves[name] = {PERCENTILES[key]: row[key] for key in PERCENTILES}
        elif row[along] is not None:
            curves.setdefault(name, {})[row[along]] = row[options.value]
    held = ", ".join(f"{name} {value}" for name, value in constants(rows, options, costs).items()
                     if name != "trace")
    what = "look-ups that missed, % of all messages" if along and options.value == "missed" else \
        "time of a message, us" + (f": {TITLES[options.value].removesuffix(', us')}" if along else "")
    of = os.path.basename(options.trace)[:60] if options.trace else "made references"
    return drawing.draw_lines(f"Translation of {of}", f"held constant: {held}",
                              (along or "percentile of the messages", what), curves,
                              "scripts/compare", kind)


def write_csv(rows, path, held):
    """The rows, behind lines with the values that all share."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        for name, value in held.items():
            file.write("# " + f"{name}: {value}".replace("\n", " ") + "\n")
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def write(options, rows, costs):
    """Prints the rows, and writes the files."""
    held = constants(rows, options, costs)
    files = [(path, chart(rows, options, costs, kind)) for path, kind in
             ((options.svg, drawing.Drawing), (options.pdf, drawing.Pdf)) if path]
    for path, content in files:
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    if options.csv:
        write_csv(rows, options.csv, held)
    if options.json:
        for row in rows:
            print(json.dumps({**row, "constant": held}))
        return
    print("\n".join(table(rows)))
    print("\nheld constant: " + ", ".join(f"{name} {value}" for name, value in held.items()))


def check(options):
    """Refuses options that do not go together, and files that cannot be written."""
    if options.trace and (options.pattern or options.pages):
        raise CompareError("--pattern and --pages make references: leave them out with --trace")
    if options.space is not None and not options.trace:
        raise CompareError("--space is of --trace")
    if options.policy and options.direction == "send":
        raise CompareError("--policy is for messages that arrive: use --direction receive")
    for name in ("csv", "svg", "pdf"):
        path = getattr(options, name)
        folder = path and (os.path.dirname(path) or ".")
        if path and (os.path.isdir(path) or not os.access(
                path if os.path.exists(path) else folder, os.W_OK)):
            raise CompareError(f"--{name} {path} cannot be written")


def main():
    """scripts/compare."""
    try:
        options = build_parser().parse_args()
        check(options)
        costs = costs_of(options)
        if options.costs:
            show_costs(costs)
            return
        rows, left = combinations(options)
        check_lines(rows, options)
        for text in left:
            print(f"  left out: {text}", file=sys.stderr)
        write(options, compare(options, rows, costs), costs)
    except KeyboardInterrupt:
        sys.exit(130)
    except vm.SetupFailed:
        sys.exit("error: scripts/setup has failed; its messages say why")
    except BrokenPipeError:
        # The reader of the table has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except (CompareError, profiles.PaperError, vm.VmError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
