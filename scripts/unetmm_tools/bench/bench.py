# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench: the card beside its alternatives, and its limits.

Each part boots its guests and returns rows, one dict for each figure, with the
keys of sockets.row().  All figures of a table come from one run on one machine;
compare their ratios only.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from unetmm_tools.bench import ethernet, kvload, storage
from unetmm_tools.bench.sockets import SocketsError, iperf_row, row, sockperf_row
from unetmm_tools.guest import pair as guests, vm

PARTS = ("host", "core", "count", "local", "memory", "sockets", "unetmm",
         "frames", "matrix", "storage", "coldring", "overcommit", "rxe",
         "netdev")
SMOKE_PARTS = ("core", "local")
# No parts of a quick run unless they are named
LONG_PARTS = ("matrix", "storage", "coldring", "overcommit")
# Of each case of bench-fast-*, as tests/bench/fast.h has it
FAST_CALLS = 64
NICS = {"e1000e": 1, "igb": 2, "virtio_net": 3}
# Linux's Ethernet on the card, and on those that it is to be as good as
NETDEVS = {"unetmm": 4, "e1000e": 1, "igb": 2}
SOURCES = ("tlb", "ktlb", "pinned", "utlb", "shadow", "odp")
POLICIES = ("drop", "skip", "redirect", "rnr")
USER_MTU = 65536
MAC_A = "52:54:00:6d:00:01"
E1000E_B = "52:54:00:6d:01:02"


def sized(options, smoke, quick, full):
    """Which of three, by how much is to be done."""
    return smoke if options.smoke else quick if options.quick else full


class BenchError(Exception):
    """A figure could not be measured; the text gives the reason."""


def json_rows(text):
    """The rows among a program's lines."""
    rows = []
    for line in text.splitlines():
        if line.startswith('{"peer"'):
            rows.append(json.loads(line))
    return rows


# ---- On the host -----------------------------------------------------------------


def program(name):
    """The path of one of tests/bench's programs."""
    return os.path.join(vm.setup_paths("unit")["unit"], "tests", "bench", name)


def output(name, *arguments):
    """Runs one of them; all that it printed."""
    done = subprocess.run([program(name), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{name}: {done.stderr.strip()}")
    return done.stdout


def native(name, *arguments):
    """Runs one of them; its rows."""
    return json_rows(output(name, *arguments))


def part_host(options):
    """Memory copies, UNIX sockets, and the floor of a latency."""
    return native("bench-host", "6" if options.quick else "40")


def part_core(options):
    """The cost of a message on the in-process card."""
    return native("bench-core", sized(options, "20", "400", "4000"))


# The same in parts count and local, with instructions or with times.
NETVM = """
bench-local tlb %(count)snotify %(notify)d
bench-local tlb %(count)ssync %(sync)d
bench-local tlb rate %(rates)s
bench-local shadow rate %(rates)s
bench-local pinned pin 100
bench-local shadow push %(pages)d
bench-local tlb redirect %(redirects)d
bench-local shadow redirect %(redirects)d
bench-local odp fault %(faults)d
"""


def calls(how):
    """Instructions of calls of the library, or of the provider where it is built."""
    name = f"bench-fast-{how}"
    if not os.path.exists(program(name)):
        return []
    return [{"peer": f"calls, {how}", "mode": mode, "metric": "call instructions",
             "bytes": 0, "frame": 0, "median": float(count), "p99": None,
             "n": FAST_CALLS, "unit": "instructions"}
            for mode, count in map(str.split, output(name).splitlines())]


def part_count(options):
    """Instructions: exact, and the same on every machine."""
    rows = []
    ends = "2,512" if options.quick else "2,8,64,512"
    for name in ("endpoints", "wake-ups"):
        rows += native("bench-count", name, ends)
    rows += native("bench-count", "channels",
                   "1,1024" if options.quick else "1,16,128,1024")
    rows += native("bench-count", "misses",
                   "2,128" if options.quick else ends)
    rows += native("bench-count", "memory",
                   "1,64" if options.quick else "1,16,256,1024")
    # Longer ones are copied by instructions that count by the byte.
    rows += native("bench-sources", "64")
    rows += calls("symbols") + calls("provider")
    script = "#!/bin/sh\nset -e\nulimit -l unlimited\n"
    # The compared sources; in a full run the others, too
    for source in (("tlb", "pinned", "shadow", "odp") if options.quick else
                   SOURCES):
        script += (f"bench-local {source} count "
                   f"{'8,4096' if options.quick else '8,4096,8192'}\n")
    script += "bench-local tlb count-ops 8\n" + NETVM % {
        "count": "count-", "notify": 100, "sync": 50,
        "rates": "50,100" if options.quick else "50,75,90,95,98,100",
        "pages": 512, "redirects": 100, "faults": 10}
    return rows + json_rows(single(options, script, "--", "-icount",
                                   "shift=0,sleep=off"))


# ---- One guest -----------------------------------------------------------------------


def single(options, script, *words, limit=300):
    """Runs a script in one guest; returns its output."""
    with tempfile.TemporaryDirectory(prefix="unetmm-") as directory:
        guest = guests.Guest("a", directory, script, [
            "--kernel", options.kernel, "--netdev", "none", "--id", "1",
            *words])
        try:
            guest.start()
            status = guest.wait(limit)
        finally:
            guest.kill()
        if status:
            raise BenchError(f"a guest's script failed: {guest.trouble()}")
        return guest.results()


LOCAL = """#!/bin/sh
set -e
ulimit -l unlimited
for again in %(again)s; do
    bench-local tlb endpoints %(endpoints)s
    bench-local ktlb endpoints 1
    bench-local pinned endpoints 1
    bench-local utlb endpoints 1
    bench-local tlb miss 128
    bench-local utlb miss 128
    bench-local tlb ops 8
    bench-local pinned memory 1
    bench-local shadow memory 1
    bench-local odp memory 1
    %(netvm)s
    bench-local shadow waits %(waits)d
    for how in "--poll --source tlb" "--poll --source ktlb" \\
        "--block --source tlb"; do
        unetmm-pingpong --listen --service 3 $how >/dev/null &
        unetmm-pingpong %(mac)s --service 3 $how --json --count %(count)d |
            sed "s/^/two /"
        wait
    done
done
"""


def quietest(rows):
    """The repetition with the least median: other load of the machine
    only adds.  `spread` is the largest over the least."""
    groups = {}
    for found in rows:
        key = tuple(found.get(k) for k in
                    ("peer", "mode", "bytes", "endpoints", "mib"))
        groups.setdefault(key, []).append(found)
    best = []
    for group in groups.values():
        values = [found["median"] for found in group]
        # Waits happen by chance: the run with most of them
        pick_one = max if group[0]["metric"] == "waits" else min
        least = dict(pick_one(group, key=lambda found: found["median"]))
        if "missed" in least:
            # A difference: the least of each, not the least difference
            least["hit"] = min(found["hit"] for found in group)
            least["missed"] = min(found["missed"] for found in group)
            least["median"] = round(least["missed"] - least["hit"], 3)
        elif min(values):
            least["spread"] = round(max(values) / min(values), 2)
        best.append({**least, "runs": len(group)})
    return best


def part_local(options):
    """One guest: one thread for both ends, then two processes on two CPUs."""
    text = single(options, LOCAL % {
        "mac": MAC_A, "count": sized(options, 100, 2000, 5000),
        "again": sized(options, "1", "1", "1 2 3 4 5"),
        "endpoints": sized(options, "1,2", "1,256", "1,4,16,64,256"),
        "netvm": NETVM % {
            "count": "", "notify": sized(options, 10, 100, 500),
            "sync": sized(options, 5, 50, 200),
            "rates": sized(options, "50,100", "50,100",
                           "50,75,90,95,98,100"),
            "pages": sized(options, 16, 512, 4096),
            "redirects": sized(options, 10, 100, 1000),
            "faults": sized(options, 2, 20, 100)},
        "waits": sized(options, 10, 200, 5000)},
        # A test wants limits of time that hold more than it wants a fast clock.
        "--cpus", "2", *([] if options.smoke else ["--trust-tsc"]),
        "--device-opts", "endpoints=512,channels=256", limit=900)
    rows = json_rows(text)
    for line in text.splitlines():
        if line.startswith('two {"peer"'):
            found = json.loads(line[4:])
            rows.append({**found, "peer": "unetmm, one guest", "mode":
                         f"two processes, {source_mode(found)}"})
    return quietest(rows)


def part_matrix(options):
    """One guest: every source with every policy."""
    script = "#!/bin/sh\nset -e\nulimit -l unlimited\n" + "".join(
        f"bench-local {source} matrix {sized(options, 10, 100, 500)}\n"
        for source in SOURCES)
    return json_rows(single(options, script, "--cpus", "2",
                            *([] if options.smoke else ["--trust-tsc"])))


def part_storage(options):
    """One guest: a block server with little memory, its buffer pinned or not."""
    try:
        found = storage.measure(options.kernel, options.quick or options.smoke)
    except storage.StorageError as error:
        raise BenchError(str(error)) from error
    rows = []
    for point in found["points"]:
        for source in storage.SOURCES:
            # 0: the server does not start with so little
            mib = int(point["memory"] * found["buffer"]) >> 20
            mode = f"block server, {source}, {mib} MiB"
            rows.append({**row("unetmm, one guest", mode, "storage", 512 << 10,
                               USER_MTU, point[source] or 0.0, None, 1,
                               "MB/s"),
                         "share": point["memory"], "storage": source})
    return rows


def part_coldring(options):
    """One guest: servers with TCP of their own, on rings that are cold at first."""
    try:
        found = ethernet.cold(options.kernel, options.quick or options.smoke)
    except ethernet.ERRORS as error:
        raise BenchError(str(error)) from error
    ethernet.show_cold(found)
    rows = []
    for run in found["curve"]:
        rows.append({**row("unetmm, one guest", "key-value server, cold, "
                           + run["policy"], "answers", kvload.VALUE, 1500,
                           run["per_s"], None, 1, "1/s"), "cold": run})
    for policy in ("pinned", "backup"):
        rows.append({**row("unetmm, one guest",
                           f"key-value server, warm, {policy}", "answers",
                           kvload.VALUE, 1500, found["warm"][policy], None,
                           len(found["warm"]["servers"][policy]), "1/s"),
                     "warm": policy, "servers":
                     found["warm"]["servers"][policy]})
    for run in found["first"]:
        # 0: not in the time that there was
        mode = f"ring of {run['ring']}, {run['policy']}"
        rows.append({**row("unetmm, one guest", mode, "first", kvload.VALUE,
                           1500, run["seconds"] if run["done"] else 0.0, None,
                           1, "s"), "first": run})
    return rows


def part_overcommit(options):
    """One guest: servers whose stores together are more than may be pinned."""
    try:
        found = ethernet.overcommit(options.kernel,
                                    options.quick or options.smoke)
    except ethernet.ERRORS as error:
        raise BenchError(str(error)) from error
    ethernet.show_overcommit(found)
    rows = []
    for run in found["runs"]:
        # 0: not all of them start
        source = "pinned" if run["policy"] == "pinned" else "odp"
        rows.append({**row("unetmm, one guest",
                           f"{run['servers']} key-value servers, {source}",
                           "answers", kvload.VALUE, 1500, run["per_s"] or 0.0,
                           None, 1, "1/s"), "overcommit": run})
    for run in found["sets"]:
        source = "pinned" if run["policy"] == "pinned" else "odp"
        for number, halves in enumerate(run["hits_per_s"]):
            for half, hits in zip(("first", "second"), halves):
                rows.append({**row("unetmm, one guest",
                                   f"working sets, {source}, server {number}, "
                                   f"{half} half", "hits", ethernet.ITEM, 1500,
                                   hits, None, 1, "1/s"), "sets": run})
    return rows


def source_mode(found):
    """A tool's mode: its operation, unless that is a datagram; its way of
    waiting; and its source, unless that is the card's TLB."""
    words = []
    if found["op"] != "send":
        words.append(found["op"])
        if found.get("combine"):
            words.append("combining")
    elif found["reliable"]:
        words.append("reliable send")
    words.append(found["mode"])
    if found["source"] != "tlb":
        words.append(found["source"])
    return ", ".join(words)


def part_memory(options):
    """The same thread over more and more memory, with two sizes of TLB."""
    sizes = "1,64" if options.quick else "1,4,16,64,256,1024"
    rows = []
    cards = [("holds all", 524288, ("tlb", )),
             ("default TLB", 1024, ("tlb", "ktlb"))]
    for name, sets, sources in cards[:1] if options.quick else cards:
        # The driver's limit is 1 GiB in all, a few queues included.
        script = ("#!/bin/sh\nset -e\nulimit -l unlimited\necho 300000 > "
                  "/sys/module/unetmm/parameters/pin_limit_pages\n")
        for source in sources:
            script += f"bench-local {source} memory {sizes}\n" * (
                1 if source == "ktlb" or options.quick else 3)
        text = single(options, script, "--memory", "2G", "--device-opts",
                      f"tlb-sets={sets}", limit=900)
        rows += quietest({**found, "mode": f"{found['mode']}, {name}"}
                         for found in json_rows(text))
    return rows


# ---- Two guests ------------------------------------------------------------------------

NETWORK = """#!/bin/sh
# The interface of a driver
of() {
    for dev in /sys/class/net/*; do
        [ -e "$dev/device/driver" ] || continue
        driver=$(readlink -f "$dev/device/driver")
        [ "${driver##*/}" != "$1" ] || echo "${dev##*/}"
    done
}
ulimit -l unlimited
modprobe -q igb
set_up() { ip link set "$2" mtu "$3" up; ip addr add "10.0.$1.$me/24" dev "$2"; }
"""

SERVE_SOCKETS = NETWORK + """
me=1
%(each_nic)s
sockperf server -i 0.0.0.0 -p 7000 >/dev/null 2>&1 &
sockperf server --tcp -i 0.0.0.0 -p 7001 >/dev/null 2>&1 &
iperf3 -s >/dev/null 2>&1 &
unetmm-pingpong --listen --service 99 --timeout %(limit)d
"""

USE_SOCKETS = NETWORK + """
me=2
%(each_nic)s
reach() {
    until [ "$(cat /sys/class/net/$1/carrier)" = 1 ]; do :; done
    until ping -c 1 -W 1 "$2" >/dev/null 2>&1; do :; done
}
%(measure)s
unetmm-pingpong %(mac)s --service 99 --count 1 --warmup 0 >/dev/null
"""

MEASURE_TCP = """
echo "tcp_latency %(driver)s $(sockperf ping-pong --tcp -i $to -p 7001 \\
    -t %(seconds)d -m 14 2>&1 | tr '\\n' ';')"
"""

MEASURE_NIC = """
dev=$(of %(driver)s); to=10.0.%(net)d.1
reach $dev $to
echo "udp %(driver)s $(sockperf ping-pong -i $to -p 7000 -t %(seconds)d -m 14 2>&1 |
    tr '\\n' ';')"
%(tcp)s
for mtu in %(mtus)s; do
    ip link set $dev mtu $mtu
    reach $dev $to
    echo "tcp %(driver)s $mtu $(iperf3 -c $to -t %(seconds)d -J | tr -d '\\n')"
done
"""


def nic_arguments(workdir, server):
    """QEMU's arguments for igb and virtio-net, each on a wire of its own."""
    words = []
    for number, (model, more) in enumerate(
            (("igb", ""), ("virtio-net-pci", ",romfile=")), 2):
        wire = vm.netdev_value(f"unix:{workdir}/w{number}" +
                               (",server" if server else ""), f"n{number}")
        mac = f"52:54:00:6d:{number:02x}:{1 if server else 2:02x}"
        words += ["-netdev", wire, "-device",
                  f"{model},netdev=n{number},mac={mac}{more}"]
    return words


def two_guests(options, run_a, run_b, limit, common=(), nics=False,
               meanwhile=None):
    """Runs a script in each of two guests; returns b's output.

    meanwhile  a function of the couple, which a thread calls; it has to end when
               a guest does.
    """
    with tempfile.TemporaryDirectory(prefix="unetmm-b-") as wires:
        extra = [["--", *nic_arguments(wires, server)] if nics else []
                 for server in (True, False)]
        with guests.Pair(run_a, run_b, options.kernel,
                         ["--device-opts", f"user-mtu={USER_MTU}", *common],
                         extra[0], extra[1], e1000e=True) as couple:
            if meanwhile:
                threading.Thread(target=meanwhile, args=(couple, ),
                                 daemon=True).start()
            # b measures; if it fails, a would serve for ever.
            if couple.b.wait(limit):
                raise BenchError(f"the measuring guest's script failed: "
                                 f"{couple.b.trouble()}; the serving one: "
                                 f"{couple.a.trouble()}")
            return couple.b.results()


def part_sockets(options):
    """UDP and TCP over the NICs that QEMU has."""
    mtus = ["9000"] if options.quick else ["1500", "9000"]
    each = "\n".join(f"set_up {net} $(of {driver}) 1500"
                     for driver, net in NICS.items())
    seconds = 1 if options.quick else 3
    measure = ""
    for driver, net in NICS.items():
        of_nic = {"driver": driver, "net": net, "seconds": seconds,
                  "mtus": " ".join(mtus)}
        tcp = "" if options.quick else MEASURE_TCP % of_nic
        measure += MEASURE_NIC % {**of_nic, "tcp": tcp}
    words = {"each_nic": each, "measure": measure, "mac": MAC_A,
             "limit": 400}
    text = two_guests(options, SERVE_SOCKETS % words, USE_SOCKETS % words,
                      400, nics=True)
    rows = []
    for line in text.splitlines():
        what, _, rest = line.partition(" ")
        nic, _, rest = rest.partition(" ")
        name = nic.replace("_", "-")
        if what == "udp":
            rows.append(sockperf_row(rest, f"udp over {name}"))
        elif what == "tcp_latency":
            rows.append(sockperf_row(rest, f"tcp over {name}"))
        elif what == "tcp":
            mtu, _, rest = rest.partition(" ")
            rows.append(iperf_row(rest, f"tcp over {name}", int(mtu)))
    wanted = ((1 if options.quick else 2) + len(mtus)) * len(NICS)
    if len(rows) != wanted:
        raise BenchError(f"the guests reported {len(rows)} figures of "
                         f"{wanted}")
    return rows


def unetmm_runs(options):
    """(tool, arguments of both sides, arguments of the client) in turn."""
    count = 1000 if options.quick else 5000
    sizes = "8,64k" if options.quick else "8,64,256,1k,4k,9000,16k,64k"
    runs = [("unetmm-pingpong", mode, f"--size {sizes} --count {count}")
            for mode in ("", "--poll", "--block", "--source pinned",
                         "--source ktlb")]
    many = 2000 if options.quick else 20000
    for mode in ("", "--block", "--source pinned", "--source ktlb",
                 "--source shadow"):
        runs.append(("unetmm-bw", mode, f"--size 64k --count {many}"))
    runs.append(("unetmm-bw", "", "--size 64k --frame 9000 "
                                  f"--count {many // 4}"))
    return runs + vmmc_runs(count, many, options.quick)


def vmmc_runs(count, many, quick):
    """The same on reliable channels: messages, and a peer's memory."""
    runs = []
    ops = ["--reliable", "--op write", "--op au"]
    if not quick:
        ops += ["--op au --combine 224", "--op udma", "--op read",
                "--op atomic"]
    for how in ops:
        runs.append(("unetmm-pingpong", f"--poll {how}",
                     f"--size 8 --count {count}"))
    for size, number in [("64k", many), ("1m", many // 8)][:1 if quick else 2]:
        for how in (f"--reliable --frame {size}", "--op write", "--op read"):
            runs.append(("unetmm-bw", f"--source pinned {how}",
                         f"--size {size} --count {number}"))
    return runs


# A client may have to wait until the driver of the other guest is loaded.
HELLO = f"""
tries=0
until unetmm-pingpong {MAC_A} --service 90 --count 1 --warmup 0 >/dev/null 2>&1
do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || {{ echo "the other guest does not answer"; exit 1; }}
done
"""
SERVE_HELLO = "unetmm-pingpong --listen --service 90 --timeout 100 >/dev/null\n"

# The host makes frames be lost when it reads the word; it has when some were.
LOSS_WORD = "frames may be lost now"
LOSS_PER_MILLION = 10000
USE_LOSS = f"""
echo {LOSS_WORD}
tries=0
until unetmm-stat --card | grep -q inj_loss
do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || {{ echo "no frame is lost"; exit 1; }}
    unetmm-pingpong {MAC_A} --service 91 --reliable --count 500 >/dev/null
done
"""
SERVE_LOSS = ("unetmm-pingpong --listen --forever --service 91 --reliable "
              ">/dev/null &\n")


def lose_frames(couple):
    """Waits for b's word, then has both cards lose frames."""
    while couple.a.running() and couple.b.running():
        if LOSS_WORD in couple.b.results():
            for guest in (couple.a, couple.b):
                guest.card_set("x-loss", LOSS_PER_MILLION)
            return
        time.sleep(0.05)


def lossy_rows(rows, number):
    """The last `number` rows are those in which frames were lost."""
    for found in rows[len(rows) - number:]:
        found["mode"] += f", {LOSS_PER_MILLION / 1e4:.0f} % lost"
        found["loss"] = LOSS_PER_MILLION / 1e6
    return rows


def part_unetmm(options):
    """The card, with frames of up to 64 KiB; receivers of three kinds."""
    head = "#!/bin/sh\nset -e\nulimit -l unlimited\n"
    serve, use = head + SERVE_LOSS + SERVE_HELLO, head + HELLO
    runs = unetmm_runs(options)
    lossy = [run for run in runs if "--frame 64k" in run[1]]
    for service, (tool, both, mine) in enumerate(runs + lossy, 1):
        if service == len(runs) + 1:
            use += USE_LOSS
        serve += f"{tool} --listen --service {service} {both} >/dev/null\n"
        use += f"{tool} {MAC_A} --service {service} {both} {mine} --json\n"
    rows = json_rows(two_guests(options, serve, use, 900,
                                meanwhile=lose_frames))
    return lossy_rows([{**found, "mode": source_mode(found)}
                       for found in rows], len(lossy))


# The guests synchronise before each run, so that the listener is ready first.
FRAMES_KINDS = ("--source odp --policy drop", "--source tlb --policy drop",
                "--source pinned --policy drop", "--source odp", "packet")
SERVE_FRAMES = NETWORK + """
set -e
dev=$(of e1000e)
ip link set $dev up
"""


def part_frames(options):
    """Ethernet frames of 64 bytes: raw endpoints, and a packet socket's rings."""
    seconds = sized(options, 1, 2, 5)
    serve, use = SERVE_FRAMES + SERVE_HELLO, SERVE_FRAMES + HELLO
    mac = "02:00:00:00:f0:01"
    for number, kind in enumerate(FRAMES_KINDS, 200):
        packet = kind == "packet"
        how = "--interface $dev" if packet else kind
        meet = f"unetmm-pingpong %s --service {number} --count 1 --warmup 0"
        use += (f"unetmm-frames --listen {how} --json &\n"
                f"{meet % MAC_A} >/dev/null\nwait\n")
        serve += (f"{meet % '--listen'} >/dev/null\n"
                  f"unetmm-frames {E1000E_B if packet else mac} {how} "
                  f"--time {seconds} --json\n")
    # The server goes when it has been asked for the last time.
    serve += "unetmm-pingpong --listen --service 299 >/dev/null\n"
    use += f"unetmm-pingpong {MAC_A} --service 299 --count 1 >/dev/null\n"
    rows = json_rows(two_guests(options, serve, use, 400))
    if len(rows) != len(FRAMES_KINDS):
        found = ", ".join(f"{r['mode']} {r['median']}" for r in rows)
        raise BenchError(f"of {len(FRAMES_KINDS)} rows only {found}")
    return [{**found, "reliable": False} for found in rows]


# With $dev and $me set
RXE_UP = """
ip link set $dev mtu 9000 up
ip addr add 10.0.1.$me/24 dev $dev
for module in /rxe/*.ko; do insmod $module; done
mkdir -p /dev/infiniband
rdma link add rxe0 type rxe netdev $dev
until rdma link show rxe0/1 | grep -q ACTIVE; do :; done
"""
RXE = NETWORK + """
set -e
me=%(me)d
dev=$(of e1000e)
""" + RXE_UP + """
%(body)s
unetmm-pingpong %(end)s --service 99 --count 1 --warmup 0 >/dev/null
"""


def part_rxe(options):
    """rdma_rxe over e1000e with perftest, at e1000e's better MTU."""
    serve, use = rxe_scripts(1 if options.quick else 4, not options.quick)
    common = rxe_options(options.kernel)
    text = two_guests(
        options,
        RXE % {"me": 1, "body": serve, "end": "--listen --timeout 300"},
        RXE % {"me": 2, "body": use, "end": MAC_A}, 300, common)
    return rxe_rows(text)


def rxe_options(kernel):
    """The guests' option with perftest and rdma_rxe for that kernel."""
    name = f"bench-{kernel}"
    return ["--overlay", vm.setup_paths(name)[name]]


def rxe_scripts(scale, more):
    """The programs of both sides once rxe0 is there; 500 messages times scale."""
    runs = [("ib_send_lat", f"-s 8 -n {500 * scale}"),
            ("ib_write_lat", f"-s 8 -n {500 * scale}"),
            ("ib_write_bw", f"-s 65536 -n {400 * scale} -t 8")]
    if more:
        runs += [("ib_send_lat", f"-e -s 8 -n {500 * scale}"),
                 ("ib_send_bw", f"-s 65536 -n {400 * scale} -t 8")]
    serve = use = ""
    for port, (tool, words) in enumerate(runs, 18600):
        serve += f"{tool} -d rxe0 -x 1 -F -p {port} {words} >/dev/null\n"
        # The server needs a moment to listen; it takes one client.
        use += (f"until {tool} -d rxe0 -x 1 -F -p {port} {words} 10.0.1.1 "
                f">/tmp/out 2>&1; do :; done\n"
                f"echo \"{tool} {'event' if '-e ' in words else 'poll'} "
                f"$(grep -E '^ *(8|65536) ' /tmp/out)\"\n")
    return serve, use


def rxe_rows(text):
    """perftest's lines of numbers; its half round trips are microseconds."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 6 or not words[0].startswith("ib_"):
            continue
        tool, mode, size, count = words[0], words[1], words[2], int(words[3])
        if tool.endswith("_lat"):
            rows.append(row("rxe over e1000e", f"{tool[3:-4]}, {mode}",
                            "latency", int(size), 9000, float(words[6]),
                            float(words[9]), count, "us"))
        else:
            rows.append(row("rxe over e1000e", tool[3:-3], "bandwidth",
                            int(size), 9000, float(words[5]) * 1.048576,
                            None, count, "MB/s"))
    if not rows:
        raise BenchError("perftest printed no figures")
    return rows


SERVE_NETDEV = NETWORK + """
me=1
# iperf3 ends when connections have failed a few times.
while :; do iperf3 -s >/dev/null 2>&1; done &
# A client that can ping expects an answer: wait until iperf3 listens.
until grep -q ':1451 .* 0A ' /proc/net/tcp6; do :; done
%(each_nic)s
unetmm-pingpong --listen --service 99 --timeout %(limit)d
"""

USE_NETDEV = NETWORK + """
me=2
%(each_nic)s
reach() {
    until [ "$(cat /sys/class/net/$1/carrier)" = 1 ]; do :; done
    until ping -c 1 -W 1 "$2" >/dev/null 2>&1; do :; done
}
tcp() {
    until iperf3 "$@" -J >/tmp/report; do :; done
    tr -d '\\n' </tmp/report
}
%(measure)s
unetmm-pingpong %(mac)s --service 99 --count 1 --warmup 0 >/dev/null
"""

MEASURE_NETDEV = """
dev=$(of %(driver)s); to=10.0.%(net)d.1
ip link set $dev mtu %(mtu)d
reach $dev $to
echo "to %(driver)s %(mtu)d $(tcp -c $to -t %(seconds)d)"
echo "from %(driver)s %(mtu)d $(tcp -c $to -t %(seconds)d -R)"
for size in 56 1400; do
    echo "ping %(driver)s %(mtu)d $size $(ping -A -q -c %(pings)d -s $size $to |
        tail -n 1)"
done
"""


def netdev_row(line, pings):
    """A line of the measuring guest."""
    what, driver, mtu, rest = line.split(" ", 3)
    peer = f"netdev, {driver}"
    if what != "ping":
        return {**iperf_row(rest, peer, int(mtu)), "mode": f"tcp, {what} it"}
    size, _, rest = rest.partition(" ")
    least, mean = re.search(r"= ([\d.]+)/([\d.]+)/", rest).groups()
    return row(peer, "ping", "round trip", int(size), int(mtu),
               float(mean) * 1000, None, pings, "us",
               least=float(least) * 1000)


def medians(rows):
    """One row for those that differ in their figures alone."""
    alike = {}
    for r in rows:
        key = (r["peer"], r["mode"], r["metric"], r["bytes"], r["frame"])
        alike.setdefault(key, []).append(r)
    middle = []
    for found in alike.values():
        found.sort(key=lambda r: r["median"])
        middle.append({**found[len(found) // 2], "n": len(found),
                       "spread": f"{found[0]['median']:.1f} to "
                                 f"{found[-1]['median']:.1f}"})
    return middle


def part_netdev(options):
    """Linux's network over the card, e1000e and igb, in turn."""
    # Other load of the machine comes and goes: many short rounds, and their medians
    words = {"seconds": 1, "pings": 200 if options.quick else 400}
    rounds = 1 if options.quick else 7
    mtus = [1500] if options.quick else [1500, 9000]
    each = "\n".join(f"set_up {net} $(of {driver}) 1500"
                     for driver, net in NETDEVS.items())
    # The other guest's cards take frames of any size.
    serve = "\n".join(f"ip link set $(of {driver}) mtu {max(mtus)}"
                      for driver in NETDEVS)
    measure = "".join(
        MEASURE_NETDEV % {**words, "driver": driver, "net": net, "mtu": mtu}
        for _ in range(rounds)
        for mtu in mtus for driver, net in NETDEVS.items())
    words |= {"each_nic": each, "measure": measure, "mac": MAC_A,
              "limit": 900}
    text = two_guests(
        options, SERVE_NETDEV % {**words, "each_nic": f"{each}\n{serve}"},
        USE_NETDEV % words, 900, nics=True)
    rows = [netdev_row(line, words["pings"]) for line in text.splitlines()
            if line.startswith(("to ", "from ", "ping "))]
    wanted = 4 * len(mtus) * len(NETDEVS) * rounds
    if len(rows) != wanted:
        raise BenchError(f"the guests reported {len(rows)} figures of "
                         f"{wanted}")
    return medians(rows)


# ---- Aims and ratios --------------------------------------------------------------------


def pick(rows, metric, size, *peers, mode=None, frame=None):
    """The best row among those of some peers, or None."""
    found = [r for r in rows if r["metric"] == metric and
             any(r["peer"].startswith(p) for p in peers) and
             (size is None or r["bytes"] == size) and
             (mode is None or r["mode"] == mode) and
             (frame is None or r["frame"] == frame)]
    best = min if metric == "latency" else max
    return best(found, key=lambda r: r["median"]) if found else None


def goals(rows):
    """(name, measured, wanted, reached) of each aim in docs/performance.md."""
    table = []

    def add(what, value, wanted, more):
        if value is not None:
            table.append((what, value, wanted, wanted is None or (
                value >= wanted if more else value <= wanted)))

    def ratio(a, b):
        return a["median"] / b["median"] if a and b else None

    # Between two guests; "unetmm, one guest" is another peer.
    wire = [r for r in rows if r["peer"] == "unetmm" and
            not r["reliable"]]
    lat = pick(wire, "latency", 8, "unetmm")
    block = pick(wire, "latency", 8, "unetmm", mode="block")
    band = pick(wire, "bandwidth", 65536, "unetmm", frame=USER_MTU)
    floor = pick(rows, "latency", 8, "host floor", mode="spin")
    add("best kernel socket / unetmm, 8 B",
        ratio(pick(rows, "latency", 14, "udp", "tcp"), lat), 4, True)
    add("rxe / unetmm, 8 B", ratio(pick(rows, "latency", 8, "rxe"), lat), 8,
        True)
    if lat and floor:
        add("unetmm - floor, 8 B, us", lat["median"] - floor["median"], 30,
            False)
    if block:
        add("blocking receivers: p99 / median", block["p99"] /
            block["median"], 5, False)
    add("unetmm / rxe, 64 KiB",
        ratio(band, pick(rows, "bandwidth", 65536, "rxe")), 20, True)
    add("unetmm / best TCP, 64 KiB",
        ratio(band, pick(rows, "bandwidth", None, "tcp")), 8, True)
    add("unetmm / raw UNIX socket, 64 KiB",
        ratio(band, pick(rows, "bandwidth", 65536, "host UNIX")), 0.5, True)
    goals_one_guest(rows, add, ratio)
    goals_vmmc(rows, add, ratio)
    goals_calls(rows, add)
    goals_shadow(rows, add, ratio)
    goals_told(rows, add, ratio)
    goals_redirect(rows, add)
    goals_pins(rows, add)
    goals_faults(rows, add)
    goals_storage(rows, add)
    add("raw endpoint / packet ring on e1000e, 64 B",
        ratio(pick(rows, "frames", 64, "raw"),
              pick(rows, "frames", 64, "packet")), 3, True)
    goals_ethernet(rows, add)
    goals_netdev(rows, add, ratio)
    return table


# Of 8 bytes they are inline in their descriptors.
SENDS = (("reliable send", "reliable SEND"), ("send", "SEND"))


def goals_vmmc(rows, add, ratio):
    """A peer's memory, beside SENDs."""
    wire = {(r["mode"], r["metric"], r["bytes"]): r for r in rows
            if r["peer"] == "unetmm"}
    lat = {mode: wire.get((f"{mode}, poll", "latency", 8)) for mode in
           ("reliable send", "write", "au")}
    add("rxe write / write, 8 B",
        ratio(pick(rows, "latency", 8, "rxe", mode="write, poll"),
              lat["write"]), 8, True)
    lat["send"] = wire.get(("poll", "latency", 8))
    for mode, name in SENDS:
        add(f"au / {name}, 8 B, two guests",
            ratio(lat["au"], lat[mode]), 1, False)
    one = {r["op"]: r for r in rows if r["peer"] == "unetmm, one guest" and
           r["mode"].startswith("one thread, ") and "op" in r}
    for mode, name in SENDS:
        add(f"au / {name}, 8 B, one thread",
            ratio(one.get("au"), one.get(mode)), 1, False)
    counted = {r["op"]: r for r in rows if r["metric"] == "instructions" and
               "op" in r}
    add("write / SEND, guest instr., 8 B",
        ratio(counted.get("write"), counted.get("reliable send")), 1.1, False)
    core = {(r["mode"], r["bytes"]): r for r in rows if r["metric"] == "cost"}
    for size in sorted({size for _, size in core}):
        add(f"write / SEND, core, {size} B",
            ratio(core.get(("reliable write", size)),
                  core.get(("reliable send", size))), 1.1, False)
    goals_bandwidth(wire, add, ratio)


def goals_netdev(rows, add, ratio):
    """Linux's network over the card, and over others; more is better."""
    of = {(r["peer"], r["mode"], r["frame"], r["bytes"]): r for r in rows
          if r["peer"].startswith("netdev, ")}
    for (peer, mode, frame, size), ours in of.items():
        if peer != "netdev, unetmm":
            continue
        for driver in ("e1000e", "igb"):
            other = of.get((f"netdev, {driver}", mode, frame, size))
            if mode == "ping":
                add(f"ping {size} B, MTU {frame}: {driver} / unetmm",
                    ratio(other, ours), 1, True)
            else:
                add(f"{mode}, MTU {frame}: unetmm / {driver}",
                    ratio(ours, other), 1, True)


def goals_shadow(rows, add, ratio):
    """Pages that are there: a lock for each, beside pins that stay."""
    core = {(r["mode"], r["bytes"]): r for r in rows if r["metric"] == "cost"}
    for size in sorted({size for _, size in core}):
        add(f"shadow / pinned, core, {size} B",
            ratio(core.get(("shadow", size)), core.get(("pinned", size))),
            1.05, False)
        add(f"odp / pinned, core, {size} B",
            ratio(core.get(("odp", size)), core.get(("pinned", size))),
            1.03, False)
    core = {(r["core_source"], r["bytes"]): r for r in rows
            if "core_source" in r}
    for size in sorted({size for _, size in core}):
        add(f"shadow / pinned, core instr., {size} B",
            ratio(core["shadow", size], core["pinned", size]), 1.05, False)
    guest = {}
    for r in rows:
        if r["metric"] == "instructions" and "part" in r:
            key = r["source"], r["bytes"]
            guest[key] = guest.get(key, 0) + r["median"]
    for source, size in sorted(guest):
        if source in ("shadow", "odp") and ("pinned", size) in guest:
            add(f"{source} / pinned, guest instr., {size} B",
                guest[source, size] / guest["pinned", size],
                1.05 if source == "shadow" else 1.03, False)
    one = {r["mode"]: r for r in rows if r["metric"] == "latency" and
           r["peer"] == "unetmm, one guest" and r.get("mib") == 1}
    add("shadow / pinned, one thread, 4096 B",
        ratio(one.get("one thread, shadow"), one.get("one thread, pinned")),
        None, False)
    band = {r["mode"]: r for r in rows if r["peer"] == "unetmm" and
            r["metric"] == "bandwidth" and r["bytes"] == 65536 and
            r["frame"] == USER_MTU}
    shadow = band.get("spin, shadow")
    add("shadow / pinned, bandwidth, 64 KiB",
        ratio(shadow, band.get("spin, pinned")), None, True)
    add("shadow / raw UNIX socket, 64 KiB",
        ratio(shadow, pick(rows, "bandwidth", 65536, "host UNIX")), 0.972,
        True)


def goals_told(rows, add, ratio):
    """Learning of a write, and waiting for each other."""
    for metric, unit in (("instructions", "guest instr."),
                         ("notification", "us")):
        told = {r["notify"]: r["median"] for r in rows
                if r["metric"] == metric and "notify" in r}
        for how in ("spin", "block", "handler"):
            if told:
                add(f"told by {how} - bare write, {unit}",
                    told[how] - told["bare write"],
                    17.49 if unit == "us" else None, False)
    for what, aim in (("semaphore", 1.126), ("wait-queue", 1.182)):
        for metric, unit in (("instructions", "guest instr."),
                             ("operation", "time")):
            ways = {r["how"]: r for r in rows if r["metric"] == metric and
                    r.get("sync") == what}
            add(f"{what} / bare atomics, {unit}",
                ratio(ways.get("library"), ways.get("bare atomics")), aim,
                False)
            if "light" in ways:
                add(f"light {what} / bare atomics, {unit}",
                    ratio(ways["light"], ways.get("bare atomics")), 1.3,
                    False)
            if ways and metric == "instructions":
                add(f"{what} / bare atomics, requests",
                    ways["library"]["requests"] /
                    ways["bare atomics"]["requests"], None, False)


def goals_redirect(rows, add):
    """A write into a page that is not there, as its sender sees it."""
    for metric, unit in (("instructions", "guest instr."),
                         ("redirect", "us")):
        for source in ("tlb", "shadow"):
            ways = {r["stage"]: r["median"] for r in rows if "stage" in r and
                    r["metric"] == metric and r["mode"].endswith(source)}
            if ways:
                add(f"absent page - there, {source}, {unit}",
                    ways["absent"] - ways["there"], None, False)


def goals_pins(rows, add):
    """Where a TLB's pins begin to cost less than a shadow table's locks, and
    the cost of the table for page faults and unmaps."""
    for metric, unit in (("instructions", "instr."), ("translation", "us")):
        rates = {(r["rate_source"], r["rate"]): r["median"] for r in rows
                 if r["metric"] == metric and "rate" in r}
        pins = [r["median"] for r in rows if r["metric"] == metric and
                "pin" in r]
        pushes = {(r["push"], r["who"]): r["median"] for r in rows
                  if "push" in r and (r["metric"] == metric or (
                      r["metric"] == "page" and unit == "us"))}
        # A difference of two times may be anything on a busy machine.
        if not rates or not pins or pins[0] <= 0 or not pushes:
            continue
        hit = rates["tlb", 100]
        miss = (rates["tlb", 50] - hit) * 2
        lock = rates["shadow", 100] - hit
        add(f"tlb: a miss, {unit}", miss, None, False)
        add(f"of it: the pin and its end, {unit}", pins[0], None, False)
        add(f"of it: interrupts and handshake, {unit}", miss - pins[0], None,
            False)
        add(f"shadow: the locks of a message, {unit}", lock, None, False)
        add(f"tlb is cheaper from so many % hits, {unit}",
            max(0, 100 * (1 - max(0, lock) / miss)), 94.5, True)
        add(f"the same if a miss were a pin, {unit}",
            max(0, 100 * (1 - max(0, lock) / pins[0])), None, True)
        for what in ("page fault", "unmap"):
            nobody = pushes[what, 0]
            add(f"{what}: another uses shadow, + {unit}",
                pushes[what, 1] - nobody, None, False)
            add(f"{what}: the process does, + {unit}",
                pushes[what, 2] - nobody, None, False)


def goals_faults(rows, add):
    """Source odp: all of a work request at once, beside page by page."""
    for metric, unit in (("instructions", "instr."), ("fault", "time")):
        found = {(r["npf"], r["bytes"]): r["median"] for r in rows
                 if r["metric"] == metric and "npf" in r}
        # A difference of two times may be anything on a busy machine.
        if not found or min(found.values()) <= 0:
            continue
        long, short = max(size for _, size in found), 4096
        add(f"fault: 4 MiB / 4 KiB, {unit}",
            found["unknown", long] / found["unknown", short], 3, False)
        add(f"fault: 4 MiB, page by page / at once, {unit}",
            found["unknown, page by page", long] / found["unknown", long],
            100, True)
        add(f"the same, absent for the process, too, {unit}",
            found["absent, page by page", long] / found["absent", long], 5,
            True)
        add(f"fault / the processor's own, {unit}",
            found["unknown", short] / found["cpu", short], 5, False)


def goals_storage(rows, add):
    """The block server, at each size that both have."""
    found = {(r["share"], r["storage"]): r["median"] for r in rows
             if "storage" in r}
    for share in sorted({share for share, _ in found}):
        pinned, odp = found[share, "pinned"], found[share, "odp"]
        if pinned and odp:
            add(f"block server, memory of {share} buffers: odp / pinned",
                odp / pinned, None, True)


def goals_ethernet(rows, add):
    """The cold ring; and servers of which more fit if they are not pinned."""
    cold = {r["cold"]["policy"]: r["median"] for r in rows if "cold" in r}
    if cold.get("pinned"):
        for policy in ("backup", "drop"):
            add(f"cold ring: {policy} / pinned", cold[policy] / cold["pinned"],
                None, True)
        for r in rows:
            if "cold" in r:
                policy = r["cold"]["policy"]
                add(f"cold ring: longest silence, {policy}, s",
                    ethernet.longest_silence(r["cold"]),
                    0.3 if policy == "backup" else None, False)
    warm = {r["warm"]: r["median"] for r in rows if "warm" in r}
    if warm.get("pinned"):
        add("warm ring: backup / pinned", warm["backup"] / warm["pinned"], 0.95,
            True)
    most = {}
    for r in rows:
        if "overcommit" in r and r["median"]:
            source = r["overcommit"]["policy"]
            most[source] = max(most.get(source, 0), r["overcommit"]["servers"])
    if len(most) == 2:
        add("servers that run: odp / pinned", most["backup"] / most["pinned"],
            2, True)


def goals_bandwidth(wire, add, ratio):
    """The same for many bytes at a time."""
    for size, name in ((65536, "64 KiB"), (1 << 20, "1 MiB")):
        band = {op: wire.get((f"{op}, spin, pinned", "bandwidth", size))
                for op in ("reliable send", "write", "read")}
        add(f"WRITE / SEND, {name}",
            ratio(band["write"], band["reliable send"]), 1, True)
        add(f"READ / WRITE, {name}", ratio(band["read"], band["write"]), 0.8,
            True)
    lossless = ("reliable send, spin, pinned", "bandwidth", 65536)
    lossy = (f"{lossless[0]}, 1 % lost", *lossless[1:])
    add("SEND, 1 % lost / lossless, 64 KiB",
        ratio(wire.get(lossy), wire.get(lossless)), 0.7, True)


def goals_one_guest(rows, add, ratio):
    """The aims that need no wire."""
    one = [r for r in rows if r["peer"] == "unetmm, one guest" and
           r["metric"] == "latency"]
    threads = {r["endpoints"]: r for r in one if "endpoints" in r and
               r["mode"] == "one thread"}
    if threads:
        add("one thread, one way, us", min(r["median"]
            for r in threads.values()), 2, False)
        add("cost at most / least endpoints",
            ratio(threads[max(threads)], threads[min(threads)]), 1.2, False)
    missed = {r["mode"]: r for r in rows if r["metric"] == "miss"}
    add("tlb miss / utlb miss",
        ratio(missed.get("tlb"), missed.get("utlb")), 50, True)
    both = pick(one, "latency", 8, "unetmm", mode="two processes, poll")
    if both:
        add("two processes, one way, us", both["median"], 5, False)
    holds = {r["mib"]: r for r in one if "mib" in r and
             "holds" in r["mode"]}
    if holds:
        add("cost at most / least memory",
            ratio(holds[max(holds)], holds[min(holds)]), 1.2, False)
    core = [r for r in rows if r["metric"] == "cost"]
    for size in sorted({r["bytes"] for r in core}):
        cost = {r["mode"]: r for r in core if r["bytes"] == size}
        add(f"tlb hit / pinned, core, {size} B",
            ratio(cost["tlb"], cost["pinned"]), 1.05, False)
    goals_counted(rows, add, ratio)


def goals_counted(rows, add, ratio):
    """The aims that no clock is needed for."""
    counted = [r for r in rows if r["metric"] == "instructions"]
    for size in sorted({r["bytes"] for r in counted if "source" in r}):
        cost = {source: sum(r["median"] for r in counted if r["bytes"] == size
                            and r.get("source") == source)
                for source in ("tlb", "pinned")}
        add(f"tlb hit - pinned, guest instr., {size} B",
            cost["tlb"] - cost["pinned"], 0, False)
    for key, mode, aim in (("endpoints", "tlb, by endpoints", 1.03),
                           ("endpoints", "tlb, wake-ups", 1.03),
                           ("channels", "tlb, by channels", 1.1),
                           ("endpoints", "tlb, misses", 1.03),
                           ("mib", "tlb, by memory", 1.03)):
        cost = {r[key]: r for r in counted if r["mode"] == mode}
        if cost:
            add(f"core instr., most / least: {mode[5:]}",
                ratio(cost[max(cost)], cost[min(cost)]), aim, False)


def goals_calls(rows, add):
    """The calls of the library beside one another, and libfabric's beside them."""
    of = {(r["peer"], r["mode"]): r["median"] for r in rows
          if r["metric"] == "call instructions"}
    if not of:
        return
    ours = {mode: value for (peer, mode), value in of.items() if peer == "calls, symbols"}
    libfabric = [of.get(("calls, provider", mode))
                 for mode in ("send-8", "sent-8", "recv", "received-8")]
    if None not in libfabric:
        add("provider / library, instr. of a message, 8 B", sum(libfabric) /
            (ours["send-8"] + ours["post"] + 2 * ours["poll-one"]), 1.3, False)
    for mode, size in (("write", 8), ("write", 4096), ("read", 4096)):
        add(f"{mode} by key / by import, instr., {size} B",
            ours[f"{mode}-key-{size}"] / ours[f"{mode}-{size}"], 1, False)


def show_rows(rows):
    """The table."""
    print(f"{'peer':22} {'mode':30} {'metric':12} {'bytes':>6} {'frame':>6}"
          f" {'median':>9} {'p99':>9} unit")
    for r in rows:
        p99 = f"{r['p99']:9.1f}" if r["p99"] is not None else " " * 9
        extra = "".join(f"  {key} {r[key]}" for key in
                        ("endpoints", "channels", "mib", "tlb_misses", "spread",
                         "requests", "interrupts", "commands", "histogram")
                        if key in r)
        print(f"{r['peer']:22} {r['mode']:30} {r['metric']:12} {r['bytes']:6}"
              f" {r['frame']:6} {r['median']:9.1f} {p99} {r['unit']}{extra}")


def show_matrix(rows):
    """Sources by policies, for each kind of message."""
    cells = {(r["cell_way"], r["cell_source"], r["cell_policy"]): r
             for r in rows if r["metric"] == "cell"}
    for way in sorted({way for way, _, _ in cells}):
        print(f"\n{way + ', one page, us':30}"
              + "".join(f"{policy:>12}" for policy in POLICIES))
        for source in SOURCES:
            line = ""
            for policy in POLICIES:
                r = cells.get((way, source, policy))
                line += (f"{'':>12}" if r is None else f"{'refused':>12}"
                         if r["refused"] else f"{r['median']:12.1f}")
            if line.strip():
                print(f"  {source:28}{line}")


def show_goals(rows):
    """Ratios inside this run."""
    if not goals(rows):
        return
    print(f"\n{'what':44} {'measured':>10} {'aim':>7}")
    for what, value, wanted, reached in goals(rows):
        if wanted is None:
            print(f"{what:44} {value:10.2f}")
        else:
            print(f"{what:44} {value:10.2f} {wanted:7.2f} "
                  f"{'reached' if reached else 'not reached'}")


# ---- Plots -----------------------------------------------------------------------------------


def plot_lines(path, title, axes, series):
    """An SVG of (label, [(x, y)]) by gnuplot, logarithmic in x."""
    series = [(label, sorted(points)) for label, points in series if points]
    if not series:
        return
    commands = ["set terminal svg size 760,460 background '#ffffff'",
                f"set output '{path}'", f"set title '{title}'",
                f"set xlabel '{axes[0]}'", f"set ylabel '{axes[1]}'",
                "set logscale x 2", "set logscale y", "set grid",
                "set key outside right"]
    commands.append("plot " + ", ".join(
        f"'-' with linespoints title '{label}'" for label, _ in series))
    for _, points in series:
        commands += [f"{x} {y}" for x, y in points] + ["e"]
    done = subprocess.run(["gnuplot"], input="\n".join(commands) + "\n",
                          text=True, check=False, stderr=subprocess.PIPE)
    if done.returncode:
        raise BenchError(f"gnuplot: {done.stderr.strip()}")


def plots(rows, directory):
    """latency.svg, endpoints.svg and memory.svg."""
    os.makedirs(directory, exist_ok=True)
    modes = sorted({r["mode"] for r in rows if r["peer"] == "unetmm"})
    plot_lines(os.path.join(directory, "latency.svg"),
               "One way between two guests", ("bytes", "microseconds"),
               [(f"unetmm, {mode}", [(r["bytes"], r["median"]) for r in rows
                 if r["peer"] == "unetmm" and r["mode"] == mode and
                 r["metric"] == "latency"]) for mode in modes])
    for key, title in (("endpoints", "endpoints in turn"),
                       ("mib", "MiB of buffers")):
        found = [r for r in rows if key in r and r["metric"] == "latency"]
        plot_lines(os.path.join(directory, f"{key}.svg"),
                   "One message on one card", (title, "microseconds"),
                   [(mode, [(r[key], r["median"]) for r in found
                            if r["mode"] == mode])
                    for mode in sorted({r["mode"] for r in found})])


def parse():
    """scripts/bench has checked the options."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", action="append", choices=PARTS, default=[])
    parser.add_argument("--skip", action="append", choices=PARTS, default=[])
    parser.add_argument("--json")
    parser.add_argument("--plots")
    options = parser.parse_args()
    if options.smoke and not options.only:
        options.only = SMOKE_PARTS
    return options


def write_rows(options, rows):
    """After each part: a later one may be ended from outside."""
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            for found in rows:
                file.write(json.dumps(found) + "\n")


def main():
    """Part by part; a part that fails is named and fails the run, the results
    of the others are shown."""
    options = parse()
    rows, failed, start = [], [], time.monotonic()
    if options.json:
        with open(options.json, "w", encoding="utf-8"):
            pass
    for part in PARTS:
        if part in options.skip or (part not in options.only and (
                options.only or options.quick and part in LONG_PARTS)):
            continue
        print(f"  {part}: {globals()['part_' + part].__doc__} ...",
              file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            found = globals()["part_" + part](options)
            rows += found
            write_rows(options, found)
        except (BenchError, SocketsError, guests.GuestError, vm.VmError,
                OSError, ValueError, KeyError, IndexError) as error:
            failed.append(part)
            print(f"error: {part}: {error}", file=sys.stderr)
        print(f"  {part}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if any(not math.isfinite(r["median"]) for r in rows):
        failed.append("a figure that is no number")
    show_rows([r for r in rows if r["metric"] != "cell"])
    show_matrix(rows)
    show_goals(rows)
    print(f"\n(Linux {options.kernel} in the guests, TCG; two QEMUs, two "
          f"clocks, wall time; {time.monotonic() - start:.0f} s in all)")
    if options.plots:
        plots(rows, options.plots)
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
