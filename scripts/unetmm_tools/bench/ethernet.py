# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP of processes, over raw Ethernet endpoints whose memory nobody pinned.

unetmm-kv in a guest, its TCP lwIP's, is loaded from the host by way of libslirp, as
NPF's authors loaded memcached.  Each server is a station of its own: MAC, address,
and a port of the host that leads there.  A run never shares a station with an
earlier one, whose peers may still repeat lost segments.

  cold ring    a server that has just been started, with policy drop, backup, and
               pinned: answers over time from the start; the time of the first
               operations at several sizes of the ring
  over-commit  one to four servers whose stores are UNITS_OF_STORE units each, where
               UNITS_IN_ALL may be pinned, or be in memory: so in the paper
  working sets two servers in one memory cgroup, whose hot keys change sizes

Guest and host share this machine's processors: compare ratios only.
"""

import socket
import statistics
import tempfile
import time

from unetmm_tools.bench import kvload
from unetmm_tools.guest import lab, pair as guests, vm

POLICIES = ("pinned", "backup", "drop")
RINGS = (16, 64, 256, 1024, 2048)
CURVE_RING = 64
CONNECTIONS = 8
KEYS = 500
# The paper's: VMs of 3 GB with a working set below 2 on a host of 8
UNITS_OF_STORE = 3
UNITS_IN_ALL = 8
SERVERS = 4
ITEM = 20000
# Heap, the tables of a store, ring, slots, queues, frames that lwIP has: beside the store
OWN_BYTES = 6 << 20
PAPER = {
    "cold": "drop: nothing for 55 to 60 s; backup as pinned (ring of 64)",
    "first": {"pinned": "0.5 s", "backup": "0.5 to 1.4 s",
              "drop": "11 s at 16, 64 s at 64, never from 128 on"},
    "overcommit": {"odp": (186, 311, 407, 484), "pinned": (185, 310)},
    "sets": {"odp": (43, 43), "pinned": (46, 26)},
}

FUNCTIONS = """
ulimit -l unlimited
# serve NAME OPTIONS...: a server, in the group that was made last
serve() {
    server=$1
    shift
    as $server sh -c 'echo $$ >$0.pid
        [ ! -e /tmp/group ] || echo 0 >$(cat /tmp/group)/cgroup.procs
        exec unetmm-kv --json "$@"' /tmp/$server "$@" &
}
stop() { kill $(cat /tmp/$1.pid); }
groups() {
    mkdir /tmp/groups && mount -t cgroup2 none /tmp/groups &&
        echo +memory >/tmp/groups/cgroup.subtree_control
}
# make_group NAME BYTES: for the servers from now on
make_group() {
    mkdir /tmp/groups/$1 && echo $2 >/tmp/groups/$1/memory.max
    echo /tmp/groups/$1 >/tmp/group
}
swap() {
    modprobe -q zram && echo 128M >/sys/block/zram0/disksize &&
        mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
}
"""


class EthernetError(Exception):
    """A figure could not be had; the text says why."""


def free_ports(count):
    """Ports of the loopback interface that nobody has now."""
    found = [socket.socket() for _ in range(count)]
    for sock in found:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in found]
    for sock in found:
        sock.close()
    return ports


class Stations:
    """A guest, and servers in it at addresses that were not used before."""

    def __init__(self, directory, kernel, count, memory, begin):
        self._ports = free_ports(count)
        self._used = 0
        forwards = "".join(
            f",hostfwd=tcp:127.0.0.1:{port}-10.0.2.{20 + n}:11211"
            for n, port in enumerate(self._ports))
        self.guest = lab.Guest("a", directory, FUNCTIONS + begin, [
            "--kernel", kernel, "--netdev", "user" + forwards, "--id", "1",
            "--memory", str(memory), "--cpus", "2"])

    def start_server(self, policy, ring, memory, *more, wait=True):
        """Returns (name, its address on the host, first words or None)."""
        number = self._used
        self._used += 1
        name = f"server{number}"
        self.guest.order(
            f"serve {name} --policy {policy} --ring {ring} --memory {memory} "
            f"--address 10.0.2.{20 + number}/24 "
            f"--mac 02:00:00:00:00:{number + 1:02x} {' '.join(more)}")
        address = ("127.0.0.1", self._ports[number])
        words = self.guest.wait_for(name) if wait else None
        return name, address, words

    def need_server(self, *arguments):
        """Starts the server; raises an error if the server does not start."""
        name, address, words = self.start_server(*arguments)
        if not isinstance(words, dict):
            raise EthernetError(f"the server did not start: {words}")
        return name, address

    def stop_server(self, name):
        """Ends a server; returns its counters."""
        self.guest.order(f"stop {name}")
        return self.guest.wait_for(name, count=2)


class Guest(Stations):
    """Stations as a context: boots, and ends."""

    def __init__(self, kernel, count, memory=512, begin=""):
        self._directory = tempfile.TemporaryDirectory(prefix="unetmm-")
        super().__init__(self._directory.name, kernel, count, memory, begin)

    def __enter__(self):
        try:
            self.guest.start()
            self.guest.boot()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_error):
        self.guest.close()
        self._directory.cleanup()


# ---- The cold ring ------------------------------------------------------------------


def cold_run(stations, policy, ring, seconds, operations=None, seed=1):
    """One server from its start on; one object."""
    name, address = stations.need_server(policy, ring, 4 << 20)
    load = kvload.Load(address, kvload.Choice(seed, KEYS), CONNECTIONS)
    [report] = kvload.run([load], seconds, operations)
    counted = stations.stop_server(name)
    return {"policy": policy, "ring": ring, "seed": seed,
            "connections": CONNECTIONS, **report,
            "done": operations is not None and
            report["operations"] >= operations,
            **{key: counted.get(key, 0) for key in
               ("drop_absent", "backup_packets", "backup_held",
                "drop_no_buffer", "drop_backup_bits", "drop_backup_ring",
                "received", "sent")}}


def measure_cold(stations, seconds, rings, operations, limit):
    """{"curve": one for each policy, "first": one for each policy and ring}."""
    curve = [cold_run(stations, policy, CURVE_RING, seconds)
             for policy in POLICIES]
    # Only `drop` needs the limit: the others end when they are done.
    first = [cold_run(stations, policy, ring, limit if policy == "drop" else 10 * limit,
                      operations)
             for ring in rings for policy in POLICIES]
    return {"curve": curve, "first": first, "operations": operations,
            "limit": limit}


def longest_silence(run):
    """For how many seconds nothing was answered, from the start to the end."""
    slots = round(run["seconds"] / run["interval"])
    marks = "".join("x" if n else " " for n in
                    (run["times"] + [0] * slots)[:slots])
    return max(map(len, marks.split("x"))) * run["interval"]


def measure_warm(stations, each, rounds, seconds=0.5):
    """Answers a second of servers that are warm, loaded in turn.

    In turn, and more than once: other load of the machine affects all of them.  Of
    each kind several: two processes that do the same can be a tenth apart, as long
    as they live.
    """
    kinds = ("pinned", "backup") * each
    servers = [stations.need_server(kind, CURVE_RING, 4 << 20)
               for kind in kinds]
    loads = [kvload.Load(address, kvload.Choice(1, KEYS), CONNECTIONS)
             for _, address in servers]
    warm(loads, 60)
    rates = [statistics.median(rate) for rate in
             kvload.alternate(loads, rounds, seconds)]
    for name, _ in servers:
        stations.stop_server(name)
    found = {kind: [round(rate, 1) for rate, of in zip(rates, kinds)
                    if of == kind] for kind in ("pinned", "backup")}
    return {kind: round(statistics.mean(each), 1)
            for kind, each in found.items()} | {
                "servers": found, "wrong": sum(load.wrong for load in loads)}


def cold(kernel="6.1", quick=False):
    """The cold ring as scripts/bench has it."""
    rings = RINGS[::2] if quick else RINGS
    each = 2 if quick else 5
    with Guest(kernel, 2 * each) as stations:
        warm_rates = measure_warm(stations, each, 5 if quick else 10)
    # Servers that drop leave many connections behind in libslirp.
    with Guest(kernel, 3 + 3 * len(rings)) as stations:
        found = measure_cold(stations, 5 if quick else 20, rings,
                             1000 if quick else 3000, 8 if quick else 30)
    return {**found, "warm": warm_rates}


def bars(times, interval, width):
    """The work of each stretch of time, in eighths of the largest."""
    marks = " ▁▂▃▄▅▆▇█"
    step = max(1, -(-len(times) // width))
    sums = [sum(times[i:i + step]) / (step * interval)
            for i in range(0, len(times), step)]
    return sums, marks


def show_cold(found):
    """The curves as a row of bars each, and the table."""
    seconds = max(run["seconds"] for run in found["curve"])
    print(f"""
A server with lwIP on a raw endpoint, just started: {CURVE_RING} receive buffers, none \
of them touched before;
{CONNECTIONS} connections through libslirp, 90 % get, values of 1 KB, each checked. \
Answers over {seconds:.0f} s:""")
    rows, most = [], 1
    for run in found["curve"]:
        slots = round(run["seconds"] / run["interval"])
        times = (run["times"] + [0] * slots)[:slots]
        sums, marks = bars(times, run["interval"], 40)
        most = max(most, *sums)
        rows.append((run, sums))
    for run, sums in rows:
        line = "".join(marks[min(8, -int(-8 * value // most))]
                       for value in sums)
        print(f"  {run['policy']:7}|{line:40}| {run['per_s']:7.0f}/s, "
              f"{run['drop_absent']:3} dropped, {run['backup_packets']:3} by the "
              "backup ring" + (", WRONG VALUES" if run["wrong"] else ""))
    rings = sorted({run["ring"] for run in found["first"]})
    print(f"  seconds for the first {found['operations']} operations, by the "
          "size of the ring (the paper's 10000):")
    print(f"  {'':9}" + "".join(f"{ring:>9}" for ring in rings))
    for policy in POLICIES:
        runs = {run["ring"]: run for run in found["first"]
                if run["policy"] == policy}
        print(f"  {policy:9}" + "".join(
            f"{runs[ring]['seconds']:9.2f}" if runs[ring]["done"] else
            f"{'> %g' % found['limit']:>9}" for ring in rings)
            + f"   ({PAPER['first'][policy]})")
    if "warm" in found:
        warm_rates = found["warm"]
        print("  warm, " + ", ".join(
            f"{len(each)} {kind}: {statistics.mean(each):.0f}/s "
            f"({min(each):.0f} to {max(each):.0f})"
            for kind, each in warm_rates["servers"].items()))


# ---- Over-commit ------------------------------------------------------------------------


def limit_pins(stations, unit):
    """The driver's limit on pins, beside the rings and slots of the servers."""
    pages = UNITS_IN_ALL * unit // 4096 + SERVERS * 256
    stations.guest.order(
        f"echo {pages} >/sys/module/unetmm/parameters/pin_limit_pages")


def servers_together(stations, policy, count, unit, seconds, name):
    """`count` servers in a cgroup of all units; their throughput or failures."""
    stations.guest.order(
        f"make_group {name} {UNITS_IN_ALL * unit + count * OWN_BYTES}")
    started, failed = [], None
    for _ in range(count):
        server, address, words = stations.start_server(
            policy, 256, UNITS_OF_STORE * unit)
        if isinstance(words, dict):
            started.append((server, address))
        else:
            failed = words
    found = {"policy": policy, "servers": count, "started": len(started),
             "why": failed, "per_s": None, "wrong": 0}
    if not failed:
        # A chunk is 512 bytes, a key with its value three; below two units
        keys = int(1.75 * unit) // 1536
        loads = [kvload.Load(address, kvload.Choice(n + 1, keys),
                             CONNECTIONS) for n, (_, address)
                 in enumerate(started)]
        warm(loads, 30 + 15 * count)
        reports = kvload.run(loads, seconds)
        found["per_s"] = round(sum(report["per_s"] for report in reports), 1)
        found["each"] = [report["per_s"] for report in reports]
        found["wrong"] = sum(report["wrong"] for report in reports)
    for server, _ in started:
        stations.stop_server(server)
    return found


def warm(loads, limit):
    """Every key is stored; then nothing has been counted."""
    end = time.monotonic() + limit
    for load in loads:
        load.fill_only = True
    kvload.run(loads, limit)
    if time.monotonic() > end or any(load.unfilled for load in loads):
        raise EthernetError("the servers could not be filled in time")
    for load in loads:
        load.forget()


def overcommit(kernel="6.1", quick=False):
    """The rows of both tables, from one guest."""
    unit = (2 if quick else 4) << 20
    seconds = 2 if quick else 5
    runs = []
    with Guest(kernel, 2 * sum(range(1, SERVERS + 1)) + 4, 384) as stations:
        stations.guest.order("groups; swap")
        limit_pins(stations, unit)
        for policy in ("pinned", "backup"):
            for count in range(1, SERVERS + 1):
                runs.append(servers_together(
                    stations, policy, count, unit, seconds,
                    f"{policy}{count}"))
        sets = [working_sets(stations, policy, 5 * unit, 10 if quick else 20)
                for policy in ("pinned", "backup")]
    return {"unit": unit, "runs": runs, "sets": sets}


def working_sets(stations, policy, memory, seconds):
    """One tenth and nine tenths of the memory are hot; then the other way round.

    Pinned memory has to be divided beforehand, so each has half.
    """
    name = f"sets-{policy}"
    stations.guest.order(f"make_group {name} {memory + 2 * OWN_BYTES}")
    store = memory // 2 if policy == "pinned" else memory
    servers = [stations.need_server(policy, 256, store) for _ in range(2)]
    few, many = (memory * tenths // 10 // (ITEM + 512) for tenths in (1, 9))
    loads = [kvload.Load(address, kvload.Choice(n + 1, keys, gets=100),
                         CONNECTIONS, ITEM, 0.5)
             for n, ((_, address), keys) in enumerate(
                 zip(servers, (few, many)))]
    warm(loads, 90)
    moved = []

    def turn(elapsed):
        if elapsed > seconds and not moved:
            moved.append(elapsed)
            for number, keys in enumerate((many, few)):
                loads[number].use(kvload.Choice(number + 3, keys, gets=100))

    reports = kvload.run(loads, 2 * seconds, turn=turn)
    for server, _ in servers:
        stations.stop_server(server)
    # A change of working sets takes a while: measure the end of each half.
    halves = []
    for report in reports:
        cut = int(seconds / report["interval"])
        hits = (report["hit_times"] + [0] * 2 * cut)[:2 * cut]
        halves.append([round(2 * sum(part) / seconds, 1) for part in
                       (hits[cut // 2:cut], hits[cut + cut // 2:])])
    return {"policy": policy, "memory": memory, "store": store,
            "keys": [few, many], "hits_per_s": halves,
            "wrong": sum(report["wrong"] for report in reports),
            "hit_times": [report["hit_times"] for report in reports]}


def show_overcommit(found):
    """The rows of both tables."""
    mib = found["unit"] / (1 << 20)
    print(f"""
Servers side by side, a store of {UNITS_OF_STORE * mib:.0f} MiB each, of which less than \
{2 * mib:.0f} are in use; {UNITS_IN_ALL * mib:.0f} MiB may be pinned, and
no more be in memory.  Answers a second, all together (in parentheses the paper's K, \
of 3, 2 and 8 GB):
  servers {'':7}""" + "".join(f"{n:>16}" for n in range(1, SERVERS + 1)))
    for policy, label in (("pinned", "pinned"), ("backup", "odp")):
        line = ""
        paper = PAPER["overcommit"][label] + ("N/A", "N/A")
        for run in found["runs"]:
            if run["policy"] == policy:
                said = (f"{run['per_s']:.0f}" if run["per_s"] else
                        f"{run['started']} started")
                line += f"{said + ' (%s)' % paper[run['servers'] - 1]:>16}"
        print(f"  {label:15}{line}")
    first = found["sets"][0]
    print(f"""
Two servers, values of {ITEM // 1000} KB, {first['memory'] / (1 << 20):.0f} MiB of memory \
for both; one tenth of it is hot in the one and nine in the
other, then the other way round.  Hits a second, some time after that (the paper's K: \
odp 43 and 43, pinned 46 and 26):
  {'':11}{'first half':>22}{'second half':>22}""")
    for run in found["sets"]:
        label = "odp" if run["policy"] == "backup" else "pinned"
        (a_first, a_second), (b_first, b_second) = run["hits_per_s"]
        print(f"  {label:11}{f'{a_first:.0f} and {b_first:.0f}':>22}"
              f"{f'{a_second:.0f} and {b_second:.0f}':>22}")


ERRORS = (EthernetError, kvload.LoadError, guests.GuestError, vm.VmError,
          OSError)
