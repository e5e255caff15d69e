# SPDX-License-Identifier: GPL-2.0-or-later
"""Many cards in a network that ns-3 simulates: runs, a table, rows of JSON, plots.

scripts/scale runs main(); sim/scale/config.c has the form of a
description, sim/scale/host.c that of a row.
"""

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time

from unetmm_tools import REPO, SCRIPTS
from unetmm_tools.bench import drawing, topology
from unetmm_tools.guest import profiles

TOPOLOGIES = os.path.join(REPO, "sim", "topologies")
HOSTS = os.path.join(REPO, "sim")
SOURCES = ("pinned", "tlb", "ktlb", "utlb", "shadow", "odp")
POLICIES = ("rnr", "redirect", "skip", "drop", "backup")
CONTROLS = ("none", "window", "delay")
MOST_RANKS = 64
CHOICES = ("source", "policy", "congestion")        # parameters with an option of their own
EXAMPLES = """examples:
  Eight clients and a server that has half of its values in memory:
    scripts/scale --nodes 9 --workload kv
  The costs of pinned memory and of page faults as more clients ask:
    scripts/scale --nodes 8,16,32,64 --workload kv --source pinned,odp --svg kv.svg
  Datagrams that are lost at absent buffers, beside a backup ring and RNR NACKs:
    scripts/scale --nodes 9,17,33 --workload incast --policy drop,backup,rnr
  An incast on a leaf-spine into buffers of which half are absent:
    scripts/scale --nodes 64 --topology leaf-spine --workload incast --set requests=50
  An incast of many senders without and with a congestion control:
    scripts/scale --nodes 33,65,129 --workload incast --source pinned --congestion none,delay
  The sends of a file of four hosts, in two groups:
    scripts/scale --nodes 8 --workload replay --trace sim/traces/four.txt
  512 hosts in two processes:
    scripts/scale --nodes 512 --topology leaf-spine --mpi 2
  A packet trace of each card, for Wireshark with tools/wireshark/unetmm.lua:
    scripts/scale --nodes 2 --workload ring --pcap ring
"""


class ScaleError(Exception):
    """One sentence for the user."""


# ---- The program ---------------------------------------------------------------

def program(target="scale"):
    """Builds the simulation; returns its path."""
    done = subprocess.run([os.path.join(SCRIPTS, "setup"), "--paths", target],
                          stdout=subprocess.PIPE, text=True, check=False)
    paths = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.returncode or target not in paths:
        raise ScaleError(f"scripts/setup {target} failed")
    return (os.path.join(paths[target], "sim", "unetmm-scale") if target == "scale" else
            paths[target])


def launcher(ranks, hosts):
    """(command, environment) that starts the simulation in so many processes.

    mpirun binds no process to a processor, as other programs of the machine may have it, and
    processes that wait for others give theirs up.  Open MPI 4 and 5 have the same names.
    """
    words = ["mpirun", "-n", str(ranks), "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    # Without a file of hosts all processes run here, and need no network, nor a remote shell, which
    # Open MPI 5 looks for.
    words += ["--hostfile", hosts] if hosts else ["--mca", "btl", "self,vader"]
    more = {} if hosts else {"PRTE_MCA_plm_ssh_agent": "sh"}
    more |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return words, {**os.environ, **more}


def reason(done):
    """Why a simulation has failed, in one sentence: its own, not mpirun's."""
    said = [line.removeprefix("unetmm-scale: ") for line in done.stderr.splitlines()
            if line.startswith("unetmm-scale: ")]
    words = done.stderr.split()
    if said:
        return said[-1]
    return (f"the simulation ended with status {done.returncode}" +
            (": " + " ".join(words)[:300] if words else ""))


def offered(path):
    """({workload: text}, {parameter: (default, least, most, text)})"""
    done = subprocess.run([path, "--list"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ScaleError(reason(done))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return ({row["workload"]: row["text"] for row in rows if "workload" in row},
            {row["param"]: (row["default"], row["least"], row["most"], row["text"])
             for row in rows if "param" in row})


def simulate(path, lines, options=None):
    """The rows of one run."""
    command, environment = [path], None
    if options and options.mpi:
        words, environment = launcher(options.mpi, options.hostfile)
        command = [*words, path]
    for name in ("pcap", "trace"):
        if options and getattr(options, name):
            command += [f"--{name}", getattr(options, name)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True,
                          check=False, env=environment)
    if done.returncode:
        raise ScaleError(reason(done))
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- A run's figures ------------------------------------------------------------

def percentile(times, share):
    """A time, in us, that this share of all operations took at most: the upper end of its range,
    of which there are 16 to each power of two of ns."""
    left = share * sum(times.values())
    for ns in sorted(times):
        left -= times[ns]
        if left <= 0:
            return (ns + max(1, 1 << max(0, ns.bit_length() - 5))) / 1000
    return None


def count(hosts, name):
    """The sum of a card's counter over all hosts."""
    return sum(host["counters"].get(name, 0) for host in hosts)


def instructions(path, lines, count_of):
    """Instructions of a processor for an operation: those of a run, less those of one with half of
    the requests, by the operations that it has more.  valgrind counts them."""
    found = []
    for part in (count_of, count_of // 2):
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", path],
            input="\n".join([*lines, f"set requests {part}"]) + "\n", capture_output=True, text=True,
            check=False)
        counted = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or not counted:
            raise ScaleError(f"valgrind ended with status {done.returncode}")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found.append((int(counted[1]), figures(rows)["operations"]))
    (most, operations), (least, fewer) = found
    return (most - least) / (operations - fewer)


def under_way(hosts, links):
    """(frames, bytes) that left a card, less those that came to one or were dropped."""
    return [sum(host[f"{name}_out"] - host[f"{name}_in"] for host in hosts) -
            sum(sum(link[key] for key in dropped) for link in links)
            for name, dropped in (("frames", ("full", "lost", "stray")), ("bytes", ("gone",)))]


def figures(rows):
    """The figures of one run, from the rows of its hosts and links."""
    hosts = sorted((row for row in rows if "host" in row), key=lambda row: row["host"])
    links = [row for row in rows if "link" in row]
    ranks = [row for row in rows if "run" in row]
    times = {}
    for host in hosts:
        for ns, number in host["times"].items():
            times[int(ns)] = times.get(int(ns), 0) + number
    took = max(host["ended"] for host in hosts) - min(host["began"] for host in hosts)
    received = sum(host["bytes"] for host in hosts)
    return {
        "done": all(host["done"] for host in hosts),
        "operations": sum(times.values()),
        "failed": sum(host["failed"] for host in hosts),
        "time_us": took / 10**6 if times else None,
        "goodput_gbps": received * 8000 / took if times else None,
        "p50_us": percentile(times, 0.5), "p99_us": percentile(times, 0.99),
        "p999_us": percentile(times, 0.999),
        "pinned_mib": sum(host["pinned"] for host in hosts) / 256,
        "faults": sum(host["faults"] for host in hosts),
        "page_ins": sum(host["page_ins"] for host in hosts),
        "rnr_nacks": count(hosts, "rel_nacks_sent"),
        "resent": count(hosts, "rel_resent") + sum(host["again"] for host in hosts),
        "aside": max(host["aside"] for host in hosts),
        "lost": sum(number for host in hosts for name, number in host["counters"].items()
                    if name.startswith("drop_") and not name.startswith("drop_rel_")),
        "dropped": sum(link["full"] + link["lost"] for link in links),
        "queue_kib": max((link["queue"] for link in links if link["from"] >= len(hosts)),
                         default=0) / 1024,
        "under_way": under_way(hosts, links),
        "trace": hashlib.sha256("".join(host["trace"] for host in hosts).encode()).hexdigest()[:16],
        "events": sum(rank["events"] for rank in ranks),
        "cpu_s": sum(rank["cpu_s"] for rank in ranks),
        "mib": sum(rank["kib"] for rank in ranks) / 1024,
    }


# ---- Options ----------------------------------------------------------------------

def numbers(text):
    """Values of --nodes."""
    found = [int(word) if word.isdecimal() else 0 for word in text.split(",")]
    if not all(2 <= value <= topology.MOST_HOSTS for value in found):
        raise argparse.ArgumentTypeError(f"{text}: use numbers from 2 to {topology.MOST_HOSTS}, "
                                         "separated by commas")
    return found


def seed(text):
    """The value of --seed."""
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text}: use a number from 0 to 2^63 - 1")
    return int(text)


def processes(text):
    """The value of --mpi."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_RANKS:
        raise argparse.ArgumentTypeError(f"{text}: use a number from 1 to {MOST_RANKS}")
    return int(text)


def named(names):
    """The type of an option that has some of these names."""
    def words(text):
        found = text.split(",")
        if not set(found) <= set(names):
            raise argparse.ArgumentTypeError(f"{text}: use {', '.join(names)}")
        return found
    return words


def topology_path(name):
    """A file, or one of sim/topologies by its name."""
    own = os.path.join(TOPOLOGIES, name + ".toml")
    return own if re.fullmatch(r"[\w-]+", name) and os.path.exists(own) else name


def parse(arguments):
    """The options."""
    known = ", ".join(sorted(name.removesuffix(".toml") for name in os.listdir(TOPOLOGIES)))
    parser = argparse.ArgumentParser(
        prog="scripts/scale", allow_abbrev=False, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs a workload on many cards in one simulation: the card itself, in ns-3's\n"
        "network, in virtual time.  The same options give the same rows on every machine,\n"
        "but for cpu_s and mib.  Options with lists make a run of each combination.")
    add = parser.add_argument
    add("--nodes", type=numbers, default=[16], metavar="N[,N]", help="hosts (default: 16)")
    add("--topology", default="star", metavar="NAME",
        help=f"the network: {known}, or a file (default: star)")
    add("--workload", metavar="NAME", help="the programs; --list has them (default: kv)")
    add("--source", type=named(SOURCES), default=["odp"], metavar="NAME[,NAME]",
        help=f"of translations: {', '.join(SOURCES)} (default: odp)")
    add("--policy", type=named(POLICIES), default=["rnr"], metavar="NAME[,NAME]",
        help=f"for messages whose buffer is absent: {', '.join(POLICIES)}; the last two are for "
        "datagrams, of workload incast (default: rnr)")
    add("--congestion", type=named(CONTROLS), default=["none"], metavar="NAME[,NAME]",
        help=f"the card's congestion control: {', '.join(CONTROLS)} (default: none)")
    add("--set", action="append", default=[], metavar="NAME=VALUE[,VALUE]",
        help="a parameter of the workload; --list has them")
    add("--cost", action="append", default=[], metavar="NAME=VALUE",
        help="a cost of sim/hosts.toml, in the unit that the file has for it")
    add("--seed", type=seed, default=1, metavar="N",
        help="of requests, buffers and losses, which are drawn by lot (default: 1)")
    add("--list", action="store_true", help="print workloads and parameters, and end")
    add("--json", action="store_true", help="print a line of JSON for each run")
    add("--svg", metavar="FILE",
        help="draw p99 by the number of hosts, with a line for each other choice")
    add("--goodput", action="store_true", help="--svg draws the goodput, not p99")
    add("--instructions", action="store_true",
        help="count a processor's instructions for an operation, with valgrind, in 3 runs of each")
    add("--trace", metavar="FILE", help="sends for workload replay: lines MICROSECONDS HOST PEER "
        "BYTES (docs/scale.rst)")
    add("--pcap", metavar="PREFIX", help="write PREFIX-HOST.pcap of each card")
    add("--mpi", type=processes, metavar="N",
        help="run in N processes, by ns-3's distributed simulator over Open MPI: the rows are the "
        "same")
    add("--hostfile", metavar="FILE",
        help="the hosts of these, for mpirun: each has this checkout and its cache at the same path")
    return parser.parse_args(arguments)


def settings(words, params):
    """{parameter: values} of --set."""
    found = {}
    for word in words:
        name, equals, text = word.partition("=")
        if name not in params or name in ("seed", *CHOICES) or not equals:
            raise ScaleError(f"--set {word}: use NAME=VALUE with a name of scripts/scale --list")
        _, least, most, _ = params[name]
        values = [int(value) if value.isdecimal() else -1 for value in text.split(",")]
        if not all(least <= value <= most for value in values):
            raise ScaleError(f"--set {word}: {name} is from {least} to {most}")
        found[name] = values
    return found


def costs(words):
    """The lines of all costs."""
    given = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            given[name] = float(text)
        except ValueError:
            raise ScaleError(f"--cost {word}: use NAME=VALUE") from None
        if not 0 <= given[name] <= 10**6:
            raise ScaleError(f"--cost {word}: a cost is from 0 to 1000000")
    try:
        hosts = profiles.Profile("hosts", given=given, folder=HOSTS)
    except profiles.PaperError as error:
        raise ScaleError(str(error)) from None
    unknown = set(given) - set(hosts.entries)
    if unknown:
        raise ScaleError(f"--cost {sorted(unknown)[0]}: sim/hosts.toml has "
                         f"{', '.join(hosts.entries)}")
    return [f"cost {name} {hosts.cost(name)}" for name in hosts.entries]


# ---- Runs ------------------------------------------------------------------------

def combinations(options, sets):
    """A dict for each run."""
    keys = ("nodes", *CHOICES, *sets)
    for values in itertools.product(options.nodes, *(getattr(options, name) for name in CHOICES),
                                    *sets.values()):
        yield dict(zip(keys, values))


def run(options, path, params):
    """All rows, each printed as its run ends if they are JSON."""
    sets = settings(options.set, params)
    net = topology.Topology(topology_path(options.topology))
    same = [f"workload {options.workload}", f"set seed {options.seed}", *costs(options.cost)]
    rows = []
    for choice in combinations(options, sets):
        lines = net.network(choice["nodes"]).lines() + same + [
            *(f"set {name} {choice[name]}" for name in (*CHOICES, *sets))]
        began = time.monotonic()
        print("  " + ", ".join(f"{key} {value}" for key, value in choice.items()) + " ...",
              file=sys.stderr, flush=True)
        found = figures(simulate(path, lines, options))
        print(f"  {found['events']} events, {time.monotonic() - began:.1f} s", file=sys.stderr)
        if options.instructions:
            found["instructions"] = instructions(path, lines,
                                                 choice.get("requests", params["requests"][0]))
        rows.append({"workload": options.workload, "topology": options.topology,
                     "seed": options.seed, **choice, **found})
        if options.json:
            print(json.dumps(rows[-1]), flush=True)
    return rows


COLUMNS = (("goodput_gbps", "Gb/s", "{:.2f}"), ("p50_us", "p50 us", "{:.1f}"),
           ("p99_us", "p99 us", "{:.1f}"), ("p999_us", "p99.9 us", "{:.1f}"),
           ("pinned_mib", "pinned MiB", "{:.1f}"), ("faults", "faults", "{}"),
           ("page_ins", "page-ins", "{}"), ("rnr_nacks", "RNR NACKs", "{}"),
           ("resent", "resent", "{}"), ("aside", "aside", "{}"),
           ("lost", "lost", "{}"), ("dropped", "dropped", "{}"), ("failed", "failed", "{}"), ("instructions", "instructions", "{:.0f}"))


def table(rows, keys):
    """The rows for people."""
    columns = [column for column in COLUMNS if column[0] in rows[0]]
    lines = [[*keys, *(title for _, title, _ in columns)]]
    for row in rows:
        lines.append([str(row[key]) for key in keys] + [
            "-" if row[name] is None else form.format(row[name]) for name, _, form in columns])
    wide = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(size) for cell, size in zip(line, wide))
                     for line in lines)


def chart(rows, keys, goodput):
    """p99 or the goodput by the number of hosts; a line for each other choice."""
    name, unit = ("goodput_gbps", "goodput, Gb/s") if goodput else ("p99_us", "p99, us")
    curves = {}
    several = [key for key in keys if key != "nodes" and len({row[key] for row in rows}) > 1]
    for row in rows:
        line = ", ".join(f"{key} {row[key]}" for key in several) or row["source"]
        if row[name] is not None:
            curves.setdefault(line, {})[row["nodes"]] = row[name]
    if not curves or len(curves) > drawing.MOST_LINES:
        raise ScaleError(f"--svg: {len(curves)} lines cannot be drawn, 1 to {drawing.MOST_LINES} can")
    first = rows[0]
    same = [f"{key} {first[key]}" for key in keys if key != "nodes" and key not in several]
    return drawing.draw_lines(
        f"Workload {first['workload']} on a {first['topology']}, seed {first['seed']}",
        f"the same in all lines: {', '.join(same) or 'parameters as by default'}", ("hosts, logarithmic", unit), curves,
        "scripts/scale", logarithmic=True)


def check_files(options):
    """Refuses files that could not be written behind the runs, or would be written twice."""
    for option in ("pcap", "svg"):
        path = getattr(options, option)
        if path and not os.path.isdir(os.path.dirname(path) or "."):
            raise ScaleError(f"--{option} {path}: there is no such folder")
    if options.trace and (options.instructions or not os.path.isfile(options.trace)):
        raise ScaleError("--trace counts no instructions" if options.instructions else
                         f"--trace {options.trace}: there is no such file")
    if options.instructions and not shutil.which("valgrind"):
        raise ScaleError("--instructions needs Debian's package valgrind")
    if options.hostfile and not (options.mpi and os.path.isfile(options.hostfile)):
        raise ScaleError("--hostfile needs --mpi N" if not options.mpi else
                         f"--hostfile {options.hostfile}: there is no such file")
    if options.mpi and options.mpi > min(options.nodes):
        raise ScaleError(f"--mpi {options.mpi}: a run of {min(options.nodes)} hosts has no more "
                         "processes than hosts")
    if options.mpi and options.instructions:
        raise ScaleError("--instructions counts one process: leave out --mpi")
    if options.goodput and not options.svg:
        raise ScaleError("--goodput needs --svg FILE")
    if options.pcap and "," in "".join([*map(str, options.set), *(
            "," for given in (options.nodes, *(getattr(options, name) for name in CHOICES))
            if len(given) > 1)]):
        raise ScaleError("--pcap writes the files of one run: give one value of each option")


def complain(rows):
    """An error for runs that are no results."""
    if any(row["failed"] for row in rows):
        raise ScaleError(f"{sum(row['failed'] for row in rows)} requests failed: a channel has "
                         "ended after its retries")
    late = sum(not row["done"] for row in rows)
    if late:
        raise ScaleError(f"{late} of {len(rows)} runs had not ended in the time of parameter until")


def print_list(workloads, params):
    """--list."""
    for name, text in workloads.items():
        print(f"{name:<10}  {text}")
    print()
    for name, (default, least, most, text) in params.items():
        if name not in ("seed", *CHOICES):
            print(f"{name:<10}  {text} ({least} to {most}; default: {default})")


def main(arguments=None):
    """scripts/scale."""
    options = parse(arguments)
    try:
        path = program("scale-mpi" if options.mpi else "scale")
        workloads, params = offered(path)
        options.workload = options.workload or "kv"
        if options.list:
            print_list(workloads, params)
            return 0
        if options.workload not in workloads:
            raise ScaleError(f"--workload {options.workload}: use {', '.join(workloads)}")
        check_files(options)
        rows = run(options, path, params)
        keys = ["nodes", *CHOICES, *settings(options.set, params)]
        if options.congestion == ["none"]:
            keys.remove("congestion")
        if not options.json:
            print(table(rows, keys))
        if options.svg:
            with open(options.svg, "w", encoding="utf-8") as file:
                file.write(chart(rows, keys, options.goodput))
        complain(rows)
        return 0
    except (ScaleError, topology.TopologyError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
