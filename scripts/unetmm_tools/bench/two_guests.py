# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of scripts/bench with two guests."""

import re
import tempfile
import threading
import time

from unetmm_tools.bench.common import USER_MTU, BenchError, json_rows, sized, source_mode
from unetmm_tools.bench.sockets import iperf_row, row, sockperf_row
from unetmm_tools.guest import pair as guests, vm

NICS = {"e1000e": 1, "igb": 2, "virtio_net": 3}

# Linux's Ethernet on the card, and on those that it is to be as good as
NETDEVS = {"unetmm": 4, "e1000e": 1, "igb": 2}

MAC_A = "52:54:00:6d:00:01"
E1000E_B = "52:54:00:6d:01:02"

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
    """Runs on reliable channels: messages, and a peer's memory."""
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
    return perftest_scripts(runs, "rxe0", "10.0.1.1")


def perftest_scripts(runs, device, address):
    """(commands of the server, of the client) for [(program of perftest, its options)]."""
    serve = use = ""
    for port, (tool, words) in enumerate(runs, 18600):
        command = f"{tool} -d {device} -x 1 -F -p {port} {words}"
        serve += f"{command} >/dev/null\n"
        # The server needs a moment to listen; it takes one client.
        use += (f"until {command} {address} >/tmp/out 2>&1; do :; done\n"
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
    """One row, the median, for rows that differ in their figures alone."""
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
