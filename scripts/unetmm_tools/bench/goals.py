# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios inside one run of scripts/bench, and their aims."""

from unetmm_tools.bench import ethernet
from unetmm_tools.bench.common import USER_MTU


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


# Messages of 8 bytes are inline in their descriptors.
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
    """Bandwidths of the reliable operations."""
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


# Calls of verbs in tests/bench/fast_verbs.c, and the library's for the same
VERBS = (("send-8", "send-8"), ("send-4096", "send-4096"), ("post", "post"),
         ("poll-sent", "poll-one"), ("poll-received", "poll-one"), ("poll-none", "poll-none"),
         ("write-key-8", "write-key-8"), ("write-key-4096", "write-key-4096"),
         ("read-key-4096", "read-key-4096"))


def goals_calls(rows, add):
    """The calls of the library beside one another, and libfabric's and verbs' beside them."""
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
    for mode, library in VERBS:
        if ("calls, verbs", mode) in of:
            add(f"ibverbs / library, instr.: {mode}", of["calls, verbs", mode] / ours[library],
                1.25, False)
    for mode, size in (("write", 8), ("write", 4096), ("read", 4096)):
        add(f"{mode} by key / by import, instr., {size} B",
            ours[f"{mode}-key-{size}"] / ours[f"{mode}-{size}"], 1, False)
