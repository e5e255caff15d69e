# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench --virtual: two guests in one virtual time.

The figures are those of instructions and of the link's parameters: they are equal
in every run and on every machine with the same guest.  Each row has the part of a
latency that is the link's, with --timing that of the card; the remainder is the guests'
software.  docs/lockstep.rst says how to read them.
"""

import argparse
import json
import os
import resource
import sys
import time

from unetmm_tools import REPO
from unetmm_tools.bench import common, two_guests, ulps
from unetmm_tools.bench.sockets import SocketsError, iperf_row, sockperf_row
from unetmm_tools.guest import pair as guests, virtual, vm

MAC_A = two_guests.MAC_A
HEAD = "#!/bin/sh\nset -e\nulimit -l unlimited\n"
# virtio-net is told of a queue by an eventfd, and sends in a bottom half: both act at
# moments of the host's time.  It can be told by the store itself, and send by a timer
# of the virtual clock.  Without rounds of announcements its reset after a
# restoration ends QEMU 10.0: guest_announce=off.
NICS = {"e1000e": "e1000e", "igb": "igb",
        "virtio-net": "virtio-net-pci,tx=timer,x-txtimer=1000,"
        "ioeventfd=off,guest_announce=off"}
RATES = {"1": 10**9, "10": 10**10, "25": 25 * 10**9, "40": 4 * 10**10,
         "100": 10**11}
# Sources whose absent pages somebody brings in while a message waits
BRING_IN = ("tlb", "shadow", "odp")
# Sources that translate at the time of use, and more memory than the TLB covers
MISSING = ("tlb", "utlb", "shadow", "odp")
MISS_MEMORY = "16m"
LOSS_PER_MILLION = 10000
PINNED = os.path.join(REPO, "tests", "lockstep", "figures.json")
# A change of more than that has to be acknowledged, with --update.
TOLERANCE = 0.01
P99 = ", p99"
# Seconds of virtual time for one run of two guests
LIMIT = 900
# The exit status of --check if the figures were pinned for another kernel
OTHER_KERNEL = 77

SERVE_NIC = HEAD + """
modprobe -q igb || true
for dev in /sys/class/net/*; do dev=${dev##*/}; [ $dev = lo ] || break; done
ip link set $dev mtu 9000 up; ip addr add 10.0.0.1/24 dev $dev
sockperf server -i 0.0.0.0 -p 7000 >/dev/null 2>&1 &
sockperf server --tcp -i 0.0.0.0 -p 7001 >/dev/null 2>&1 &
iperf3 -s -1 >/dev/null 2>&1
# The last segments need an answer; the other guest ends first.
exec sleep infinity
"""
USE_NIC = HEAD + """
modprobe -q igb || true
for dev in /sys/class/net/*; do dev=${dev##*/}; [ $dev = lo ] || break; done
ip link set $dev mtu 9000 up; ip addr add 10.0.0.2/24 dev $dev
until ping -c 1 -W 1 10.0.0.1 >/dev/null 2>&1; do :; done
one() { sockperf ping-pong "$@" -i 10.0.0.1 -t 1 -m 14 2>&1 | tr '\\n' ';'; }
echo "udp $(one -p 7000)"
echo "tcp_latency $(one --tcp -p 7001)"
echo "tcp $(iperf3 -c 10.0.0.1 -n 16M -J | tr -d '\\n')"
"""
RXE_UP = HEAD + """
for dev in /sys/class/net/*; do dev=${dev##*/}; [ $dev = lo ] || break; done
me=%d
""" + two_guests.RXE_UP


def short_runs():
    """(tool, arguments of both sides, those of the client) of the pinned figures."""
    return [("unetmm-pingpong", mode, "--size 8,4k --count 200")
            for mode in ("", "--block", "--source pinned")] + [
                ("unetmm-bw", "", "--size 64k --count 100")]


def full_runs():
    """Every source and policy; misses and faults; ways to a peer's memory."""
    runs = [("unetmm-pingpong", mode,
             "--size 8,64,256,1k,4k,9000,16k,64k --count 500")
            for mode in ("", "--poll", "--block")]
    for source in common.SOURCES:
        # Datagrams cannot wait for absent memory.
        runs += [("unetmm-pingpong", f"--source {source} --policy {policy}" +
                  (" --reliable" if policy in ("redirect", "rnr") else ""),
                  "--size 8,4k --count 200")
                 for policy in common.POLICIES
                 if policy in ("drop", "skip") or source in BRING_IN]
        runs.append(("unetmm-bw", f"--source {source}",
                     "--size 64k --count 500"))
    # Each message has a buffer of its own, in more memory than the TLB covers:
    # misses (tlb, utlb), absent entries (shadow), page faults (odp).
    runs += [("unetmm-pingpong", f"--source {source} --memory {MISS_MEMORY}",
              "--size 8,4k --count 1000") for source in MISSING]
    return runs + two_guests.vmmc_runs(500, 500, False)


def lossy_runs():
    """On reliable channels, which send again."""
    return [("unetmm-pingpong", "--poll --reliable", "--size 8,4k --count 2000"),
            ("unetmm-bw", "--source pinned --reliable --frame 64k",
             "--size 64k --count 2000")]


def card_rows(options):
    """The card, by user-level messages; with --timing its own part as well."""
    rows = card_run(options, [])
    if not options.timing:
        return rows
    # Runs are exact: the difference is the card's time.
    slow = card_run(options, ["--timing", options.timing])
    for row, fast in zip(slow, rows):
        row["timing"] = options.timing
        if row["metric"] == "latency":
            row["card"] = round(row["median"] - fast["median"], 3)
    return slow


def lossy_rows(options):
    """One frame in a hundred is lost, each time the same ones."""
    rows = tool_rows(options, lossy_runs(), [],
                     f",x-seed=1,x-loss={LOSS_PER_MILLION}")
    return [{**row, "mode": f"{row['mode']}, 1 % lost",
             "loss": LOSS_PER_MILLION / 1e6} for row in rows]


def card_run(options, words):
    """The tools' rows, in one run of both guests."""
    return tool_rows(options, short_runs() if options.short else full_runs(),
                     words)


def tool_mode(row):
    """A tool's mode, with the policy and the memory where they are not the default."""
    words = [common.source_mode(row)]
    if row.get("policy", "skip") != "skip":
        words.append(row["policy"])
    if row.get("memory"):
        words.append(f"{row['memory'] >> 20} MiB of buffers")
    return ", ".join(words)


def tool_rows(options, runs, words, properties=""):
    """Rows of (tool, arguments of both sides, those of the client)."""
    serve = HEAD + two_guests.SERVE_HELLO
    use = HEAD + two_guests.HELLO
    for service, (tool, both, mine) in enumerate(runs, 1):
        serve += f"{tool} --listen --service {service} {both} >/dev/null\n"
        use += f"{tool} {MAC_A} --service {service} {both} {mine} --json\n"
    text = run_scripts(options, serve, use, words=[
        "--device-opts", f"user-mtu={common.USER_MTU}{properties}", *words])
    return [{**row, "mode": tool_mode(row)} for row in common.json_rows(text)]


def nic_rows(options, name):
    """UDP and TCP of Linux over the card, or over another NIC."""
    if name == "unetmm":
        words, more = [], {}
    else:
        words, more = ["--no-card", "--nic", NICS[name]], {"e1000e": True}
    text = run_scripts(options, SERVE_NIC, USE_NIC, words=words, **more)
    rows = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "udp":
            rows.append(sockperf_row(rest, f"udp over {name}"))
        elif kind == "tcp_latency":
            rows.append(sockperf_row(rest, f"tcp over {name}"))
        elif kind == "tcp":
            rows.append(iperf_row(rest, f"tcp over {name}", 9000))
    if len(rows) != 3:
        raise common.BenchError(f"{name}: {len(rows)} figures came, 3 were expected")
    return rows


def rxe_rows(options):
    """rdma_rxe over e1000e, by perftest."""
    serve, use = two_guests.rxe_scripts(1, True)
    text = run_scripts(
        options, RXE_UP % 1 + serve + "exec sleep infinity\n", RXE_UP % 2 + use,
        words=["--no-card", *two_guests.rxe_options(options.kernel)], e1000e=True)
    return two_guests.rxe_rows(text)


def run_scripts(options, serve, use, **more):
    """Runs both scripts in lockstep; returns b's output."""
    words = ["--shift", str(options.shift), *more.pop("words")]
    with virtual.VirtualPair(serve, use, link=options.link, options=words,
                             kernel=options.kernel, **more) as couple:
        if couple.b.wait(LIMIT):
            raise common.BenchError("the measuring guest's script failed: "
                                   f"{couple.b.trouble()}; the serving one: "
                                   f"{couple.a.trouble()}")
        return couple.b.results()


# Both CPUs are busy, so that no boundary is skipped.
BUSY = """#!/bin/sh
read -r now rest </proc/uptime; end=$((${now%%%%.*} + 1 + %d))
while :; do
    read -r now rest </proc/uptime
    [ "${now%%%%.*}" -lt $end ] || exit 0
done
"""


def host_seconds(options, latency_ns, seconds):
    """Seconds of the host's processors for a pair that is busy for so long."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with virtual.VirtualPair(BUSY % seconds, BUSY % seconds,
                             link=virtual.Link(latency_ns, options.link.bps),
                             options=["--shift", str(options.shift)],
                             kernel=options.kernel) as couple:
        if couple.wait(LIMIT) != (0, 0):
            raise common.BenchError(couple.b.trouble())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show_cost(options):
    """The host's time for a virtual second, with exchanges and without."""
    alone = None
    host_seconds(options, options.link.latency_ns, 0)  # makes the snapshots
    print("host's CPU seconds, for a virtual second of a busy guest:")
    for latency_ns in (10_000_000, 100_000, 10_000, 1_000):
        # The difference has no start and no end in it.
        cost = (host_seconds(options, latency_ns, 4) -
                host_seconds(options, latency_ns, 1)) / 3 / 2
        alone = alone or cost
        print(f"  link of {latency_ns / 1000:>7g} us: {cost:6.2f}, "
              f"{cost - alone:6.2f} of them for the exchanges", flush=True)
    print("\n(figures of this host, unlike all others of --virtual)")


def with_link(row, link):
    """The row with the link's part, of a latency in one frame."""
    row = {**row, "clock": "virtual", "link_ns": link.latency_ns,
           "link_bps": link.bps}
    if row["metric"] == "latency" and row["bytes"] <= row["frame"]:
        wire = (max(row["bytes"], 60) + 24) * 8e6 / link.bps if link.bps else 0
        row["link"] = round(link.latency_ns / 1000 + wire, 3)
        row["guests"] = round(row["median"] - row["link"] -
                              row.get("card", 0), 3)
    return row


def chosen(options):
    """[(name, function)] of the parts that the options name."""
    jobs = [("unetmm", lambda: card_rows(options))]
    if not options.short:
        jobs.append(("unetmm with losses", lambda: lossy_rows(options)))
        jobs += [(f"sockets over {name}",
                  lambda name=name: nic_rows(options, name))
                 for name in ("unetmm", *NICS)]
        jobs.append(("rxe over e1000e", lambda: rxe_rows(options)))
        jobs.append(("programs on verbs", lambda: ulps.measure(options, run_scripts, HEAD, RXE_UP)))
    found = [(name, job) for name, job in jobs if not options.only or
             any(word in name for word in options.only)]
    if not found:
        raise common.BenchError(
            f"--only {' '.join(options.only)}: no part has that word in its name; the parts are " +
            ", ".join(name for name, _ in jobs))
    return found


def measure(options):
    """All rows."""
    rows = []
    for name, job in chosen(options):
        began = time.monotonic()
        print(f"  {name} ...", file=sys.stderr, flush=True)
        rows += [with_link(row, options.link) for row in job()]
        print(f"  {name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


def show(rows, options):
    """The table."""
    print(f"{'peer':<22}{'mode':<34}{'bytes':>8}{'median':>10}{'p99':>10}"
          f"{'link':>9}{'card':>9}{'guests':>9}  unit")
    for row in rows:
        p99 = f"{row['p99']:.2f}" if row.get("p99") is not None else ""
        part = [f"{row[key]:.2f}" if key in row else ""
                for key in ("link", "card", "guests")]
        print(f"{row['peer']:<22}{row['mode']:<34}{row['bytes']:>8}"
              f"{row['median']:>10.2f}{p99:>10}{part[0]:>9}{part[1]:>9}"
              f"{part[2]:>9}  {row['unit']}")
    link = options.link
    print(f"\n(virtual time: Linux {options.kernel}, {2**options.shift} ns an "
          f"instruction, link of {link.latency_ns / 1000:g} us and "
          f"{link.bps / 1e9:g} Gb/s; the card's time: "
          f"{options.timing or 'none'}; equal in every run)")


def figures_of(rows):
    """{name: figure} of those that are pinned; the p99 are for docs/lockstep.rst."""
    found = {}
    for row in rows:
        name = f"{row['peer']} {row['mode']} {row['metric']} {row['bytes']}"
        found[name] = row["median"]
        if row.get("p99") is not None:
            found[name + P99] = row["p99"]
    return found


def kernel_build(options):
    """The guests' kernel, with its build: figures are those of its instructions."""
    path = vm.setup_paths(f"kernel-{options.kernel}")[f"kernel-{options.kernel}"]
    return os.path.basename(os.path.dirname(path))


def pin(rows, options):
    """Makes these the pinned figures."""
    with open(PINNED, "w", encoding="utf-8") as file:
        json.dump({"kernel": kernel_build(options), "figures": figures_of(rows)},
                  file, indent=1, sort_keys=True)
        file.write("\n")


def check(rows, options):
    """Compares with the pinned figures; the exit status."""
    found = figures_of(rows)
    with open(PINNED, encoding="utf-8") as file:
        known = json.load(file)
    if known["kernel"] != kernel_build(options):
        print(f"the figures are pinned for Linux {known['kernel']}; this is "
              f"{kernel_build(options)}: not compared", file=sys.stderr)
        return OTHER_KERNEL
    pinned = known["figures"]
    wrong = 0
    for name in sorted(pinned.keys() | found.keys()):
        # Another boot moves Linux's ticks, of which p99 consists.
        if name.endswith(P99):
            continue
        old, new = pinned.get(name), found.get(name)
        if old is None or new is None or abs(new - old) > TOLERANCE * old:
            wrong += 1
            print(f"{name}: {new}, pinned as {old}: if that is meant, run "
                  "scripts/bench --virtual --short --update and commit "
                  "tests/lockstep/figures.json", file=sys.stderr)
    return 1 if wrong else 0


def parse():
    """scripts/bench --virtual."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench --virtual", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=10, metavar="US",
                        help="of the link, in microseconds (default: 10)")
    parser.add_argument("--rate", choices=RATES, default="10",
                        help="of the link, in Gb/s (default: 10)")
    parser.add_argument("--shift", type=int, default=3, metavar="N",
                        help="an instruction takes 2^N ns (default: 3)")
    parser.add_argument("--kernel", default="6.1", choices=("6.1", "6.12"))
    parser.add_argument("--timing", choices=("pca200", "dc21140", "connectib"),
                        help="the card takes time as that paper's hardware; "
                        "each row has its part (default: none)")
    parser.add_argument("--short", action="store_true",
                        help="the few figures that CI compares")
    parser.add_argument("--check", action="store_true",
                        help="with --short: compare them with the pinned ones; "
                        "the exit status is 1 if one differs by over 1 percent, "
                        "77 if they are those of another kernel")
    parser.add_argument("--update", action="store_true",
                        help="with --short: pin them")
    parser.add_argument("--only", action="append", metavar="WORD",
                        help="the parts with that word in their names")
    parser.add_argument("--cost", action="store_true",
                        help="only print the host's CPU time that a virtual "
                        "second takes, by the link's latency")
    parser.add_argument("--json", metavar="FILE",
                        help="one object a line; equal in every run")
    options = parser.parse_args()
    if not 0.001 <= options.latency <= 1e6:
        parser.error(f"--latency {options.latency:g}: use 0.001 to 1000000")
    if (options.check or options.update) and \
            (not options.short or options.timing):
        parser.error("--check and --update go with --short, without --timing")
    options.link = virtual.Link(round(options.latency * 1000),
                                RATES[options.rate])
    return options


def main():
    """Measures, shows, compares."""
    options = parse()
    try:
        chosen(options)
        vm.setup_paths("packages", "qemu", f"initramfs-{options.kernel}")
        if options.cost:
            show_cost(options)
            return
        rows = measure(options)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                for row in rows:
                    file.write(json.dumps(row) + "\n")
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except (common.BenchError, SocketsError, guests.GuestError, vm.VmError,
            OSError) as error:
        sys.exit(f"error: {error}")
    show(rows, options)
    if options.update:
        pin(rows, options)
    if options.check:
        sys.exit(check(rows, options))


if __name__ == "__main__":
    main()
