# SPDX-License-Identifier: GPL-2.0-or-later
"""The tour of U-Net/MM: messages from and into any memory, beside UDP and TCP.

Guest a serves, guest b measures and prints one JSON object a line, each with
the name of its figure.
"""

from unetmm_tools.bench.sockets import iperf_row, sockperf_row
from unetmm_tools.tour.base import DemoError, clocks, need, wire

USER_MTU = 65536
DEFAULT_MTU = 9000
DEVICE_OPTIONS = f"user-mtu={USER_MTU}"
E1000E = True

# Guest a serves one measurement after the other, in the order in which b asks:
# servers that only wait would share the card's TLB with the one that works.
SERVERS = """#!/bin/sh
%(network)s
ip link set $dev mtu 9000 up
ip addr add 10.0.0.1/24 dev $dev
unetmm-pingpong --listen --service 1 --verify
unetmm-bw --listen --service 2 --verify
echo "stat_a $(unetmm-stat --json --all)"
unetmm-pingpong --listen --service 3
unetmm-pingpong --listen --service 4 --block
unetmm-pingpong --listen --service 5 --source pinned
unetmm-bw --listen --service 6
unetmm-bw --listen --service 7
unetmm-bw --listen --service 8 --source pinned
sockperf server -i 10.0.0.1 -p 7000 >/dev/null 2>&1 &
iperf3 -s >/dev/null 2>&1 &
unetmm-pingpong --listen --service 99 --timeout %(limit)d
"""

CLIENT = """#!/bin/sh
peer=%(mac)s
reach() {
    until [ "$(cat /sys/class/net/$dev/carrier)" = 1 ]; do :; done
    until ping -c 1 -W 1 10.0.0.1 >/dev/null 2>&1; do :; done
}
as() { name=$1; shift; "$@" | while read -r line; do echo "$name $line"; done; }
%(network)s
ip link set $dev mtu 1500 up
ip addr add 10.0.0.2/24 dev $dev
# On a machine with other work guest a may boot much later than this one.
reach
as exchange unetmm-pingpong $peer --service 1 --verify --json \\
    --size 1,40,224,1000,4096,9000,65536 --count 200 --warmup 20
as exchange unetmm-bw $peer --service 2 --verify --bidir --json \\
    --size 1000,9000,65536 --count 400 --warmup 50
echo "stat_b $(unetmm-stat --json --all)"
as latency_tlb unetmm-pingpong $peer --service 3 --json --count 2000
as latency_tlb_block unetmm-pingpong $peer --service 4 --block --json \\
    --count 1000
as latency_pinned unetmm-pingpong $peer --service 5 --source pinned --json \\
    --count 2000
as bandwidth_tlb unetmm-bw $peer --service 6 --json --size 65536 --count 4000
as bandwidth_tlb_9000 unetmm-bw $peer --service 7 --json --size 65536 \\
    --frame 9000 --count 1000
as bandwidth_pinned unetmm-bw $peer --service 8 --source pinned --json \\
    --size 65536 --count 4000
reach
echo "udp $(sockperf ping-pong -i 10.0.0.1 -p 7000 -t 1 -m 14 2>&1 |
    tr '\\n' ';')"
echo "tcp_1500 $(iperf3 -c 10.0.0.1 -t 1 -J | tr -d '\\n')"
ip link set $dev mtu 9000
reach
echo "tcp_9000 $(iperf3 -c 10.0.0.1 -t 1 -J | tr -d '\\n')"
unetmm-pingpong $peer --service 99 --count 1 --warmup 0 >/dev/null
"""


def unetmm_figure(found, name, label):
    """A line of one of our tools."""
    row = need(found, name)
    if not isinstance(row, dict):
        raise DemoError(f"{name}: {row}")
    return {**row, "name": name, "label": label}


def udp_figure(found):
    """UDP, at e1000e's MTU of 1500."""
    return {**sockperf_row(need(found, "udp"), "udp over e1000e"),
            "name": "udp", "label": "UDP over e1000e, 14 B"}


def tcp_figure(found, mtu):
    """TCP, at one of e1000e's MTUs."""
    return {**iperf_row(need(found, f"tcp_{mtu}"), "tcp over e1000e", mtu),
            "name": f"tcp_{mtu}", "label": f"TCP over e1000e, MTU {mtu}"}


def exchange(rows):
    """The messages exchanged, with every byte verified."""
    rows = [row for row in rows if isinstance(row, dict)]
    if not rows:
        raise DemoError("the guests exchanged nothing")
    counts = {"to": 0, "from": 0}
    volume = {"to": 0, "from": 0}
    for row in rows:
        if row["metric"] == "latency":
            ways = ("to", "from")
        else:
            ways = ("to",) if row["direction"] == "send" else ("from",)
        for way in ways:
            counts[way] += row["n"]
            volume[way] += row["n"] * row["bytes"]
    return {"verified": all(r["verified"] and not r["bad"] for r in rows),
            "lost": sum(r["lost"] for r in rows),
            "sizes": sorted({r["bytes"] for r in rows}),
            **{way: {"messages": counts[way], "bytes": volume[way]}
               for way in counts}}


def tlb(stats):
    """Counters of both guests, after the verified exchange."""
    def add(scope, *names):
        return sum(s[scope].get(name, 0) for s in stats for name in names)
    return {"hits": add("card", "tlb_hits", "tlb_victim_hits"),
            "misses": add("card", "tlb_misses"),
            "faults": add("card", "faults_send", "faults_head"),
            "evictions": add("card", "tlb_evictions"),
            "pins": add("driver", "pins"), "unpins": add("driver", "unpins"),
            "pinned_now": add("driver", "pinned_now")}


def build_report(found, kernel, seconds):
    """Everything on the screen, as one object."""
    figures = [
        unetmm_figure(found, "latency_tlb", "unetmm, tlb"),
        unetmm_figure(found, "latency_tlb_block", "unetmm, tlb, blocking"),
        unetmm_figure(found, "latency_pinned", "unetmm, pinned baseline"),
        udp_figure(found),
        unetmm_figure(found, "bandwidth_tlb", "unetmm, tlb, one frame"),
        unetmm_figure(found, "bandwidth_tlb_9000",
                      f"unetmm, tlb, frames of {DEFAULT_MTU}"),
        unetmm_figure(found, "bandwidth_pinned", "unetmm, pinned baseline"),
        tcp_figure(found, 1500), tcp_figure(found, 9000),
    ]
    by_name = {figure["name"]: figure for figure in figures}
    tcp = max(by_name["tcp_1500"]["median"], by_name["tcp_9000"]["median"])
    return {"kernel": kernel, "seconds": round(seconds, 1),
            "clocks": "two QEMUs, two clocks, wall time",
            "exchange": exchange(found.get("exchange", [])),
            "tlb": tlb([need(found, "stat_b")] +
                       found.get("stat_a", [])[:1]),
            "figures": figures,
            "ratios": {
                "udp_over_unetmm_latency": by_name["udp"]["median"] /
                by_name["latency_tlb"]["median"],
                "unetmm_over_tcp_bandwidth":
                by_name["bandwidth_tlb"]["median"] / tcp,
                "unetmm_9000_over_tcp_bandwidth":
                by_name["bandwidth_tlb_9000"]["median"] / tcp}}


def show(report):
    """The screen."""
    ex, cache, ratio = report["exchange"], report["tlb"], report["ratios"]
    print(f"""
Two guests, Linux {report['kernel']}, {wire(report)}.

Exchanged from and into malloc()ed memory that was never registered:
  a <- b  {ex['to']['messages']:6} messages, {ex['to']['bytes'] / 1e6:7.1f} MB\
   sizes {ex['sizes'][0]} to {ex['sizes'][-1]} bytes
  a -> b  {ex['from']['messages']:6} messages, {ex['from']['bytes'] / 1e6:7.1f}\
 MB   {'every byte verified' if ex['verified'] else 'WRONG BYTES'},\
 {ex['lost']} lost
  TLBs: {cache['hits']} hits, {cache['misses']} misses, {cache['evictions']}\
 evictions; pages pinned {cache['pins']}, unpinned {cache['unpins']}

One way, microseconds            bytes   frame   median     p99      n""")
    for row in report["figures"]:
        if row["metric"] == "latency":
            print(f"  {row['label']:29} {row['bytes']:6} {row['frame']:7}"
                  f" {row['median']:8.1f} {row['p99']:7.1f} {row['n']:6}")
    print("Bandwidth, MB/s                  bytes   frame   received")
    for row in report["figures"]:
        if row["metric"] == "bandwidth":
            print(f"  {row['label']:29} {row['bytes']:6} {row['frame']:7}"
                  f" {row['median']:10.1f}")
    print(f"""
8 B take 1/{ratio['udp_over_unetmm_latency']:.1f} of UDP's time; 64 KiB go \
{ratio['unetmm_over_tcp_bandwidth']:.1f} times as fast as TCP at its better \
MTU,
{ratio['unetmm_9000_over_tcp_bandwidth']:.1f} times in frames of \
{DEFAULT_MTU}.  ({clocks(report)})""")


def is_good(report):
    """Every byte was right."""
    return report["exchange"]["verified"]
