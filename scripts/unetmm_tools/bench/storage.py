# SPDX-License-Identifier: GPL-2.0-or-later
"""A block server with limited memory: a pinned buffer's cost to the page cache.

As in NPF's measurement the disk has four times the size of the server's static
communication buffer, which is used in part only.  The server runs in a memory
cgroup; its buffer and the page cache of the disk share the memory of the cgroup.
QEMU's throttle makes the disk DISK_SHARE times slower than the cache,
whatever the speed of this machine: that decides how large the ratios can be.

Clients and server are in one guest, on channels of one card.
"""

import json
import os
import tempfile

from unetmm_tools.guest import pair as guests

DISK_SHARE = 8
# The server's text, stack and heap, page tables and the card's rings: not cache.
OWN_BYTES = 2 << 20
SOURCES = ("pinned", "odp")
# In fourths of the disk, so in buffers
SIZES = (1, 3, 3.5, 4, 4.5, 5)
QUICK_SIZES = (1, 3, 4, 5)
# The paper's ratios, by the whole machine's memory: a disk of 4 GB, a buffer of 1 GB
PAPER = {"5 GB": 1.4, "5.5 GB": 1.5, "6 GB": 1.9}

BEGIN = """#!/bin/sh
ulimit -l unlimited
mac=$(unetmm-info --json | sed -n 's/.*"mac": *"\\([0-9a-f:]*\\)".*/\\1/p')
mkdir /tmp/groups && mount -t cgroup2 none /tmp/groups &&
    echo +memory >/tmp/groups/cgroup.subtree_control || exit 1
# serve NAME SOURCE BYTES OPTIONS...: the server in a cgroup of its own
serve() {
    mkdir /tmp/groups/$1 && echo $3 >/tmp/groups/$1/memory.max || exit 1
    echo 3 >/proc/sys/vm/drop_caches
    group=$1 source=$2
    shift 3
    sh -c 'echo 0 >$0 && exec "$@"' /tmp/groups/$group/cgroup.procs \\
        unetmm-block --listen --file /dev/vda --source $source "$@" \\
        >/tmp/server.out 2>&1 &
    server=$!
}
# load NAME OPTIONS...: the clients, and then the server's end
load() {
    name=$1
    shift
    echo "$name $(unetmm-block $mac --json "$@" 2>&1)"
    wait $server || echo "$name-server $(tail -n 1 /tmp/server.out)"
}
"""


class StorageError(Exception):
    """A figure could not be measured; the text gives the reason."""


def run(script, directory, disk, kernel, words=(), limit=200):
    """Runs a script in a guest with the disk; {name: object or text}."""
    guest = guests.Guest("a", directory, BEGIN + script, [
        "--kernel", kernel, "--netdev", "none", "--id", "1",
        "--memory", "640", "--cpus", "2", "--device-opts", "user-mtu=65536",
        "--", "-drive", f"file={disk},if=none,id=lun,format=raw"
        + "".join(f",{word}" for word in words),
        "-device", "virtio-blk-pci,drive=lun"])
    try:
        guest.start()
        if guest.wait(limit):
            raise StorageError(f"a guest's script failed: {guest.trouble()}")
        found = {}
        for line in guest.results().splitlines():
            name, _, rest = line.partition(" ")
            found[name] = json.loads(rest) if rest.startswith("{") else rest
        return found
    finally:
        guest.kill()


def need(found, name):
    """A client's figures."""
    if not isinstance(found.get(name), dict):
        raise StorageError(f"{name}: {found.get(name)}; the server: "
                           f"{found.get(name + '-server')}")
    return found[name]


def fill_script(buffer):
    """Writes the disk, measures it cached, and measures resident memory."""
    most = 16 * buffer
    script = (f"serve cached odp {most} --buffer {buffer}\n"
              "load cached --fill --verify --count 150\n")
    for source, size in (("pinned", "512k"), ("odp", "512k"), ("odp", "64k")):
        script += (f"serve {source}-{size} {source} {most} --buffer {buffer}\n"
                   f"load {source}-{size} --size {size} --sessions 16 "
                   "--depth 1 --count 100\n")
    return script


def point_script(buffer, sizes, count):
    """Each size with each source, the disk as it was filled."""
    script = ""
    for size in sizes:
        for source in SOURCES:
            name = f"{source}-{size}"
            bytes_ = int(size * buffer) + OWN_BYTES
            # A server that has not come up is not waited for.
            script += (f"serve {name} {source} {bytes_} --buffer {buffer}\n"
                       f"load {name} --filled --verify --warmup {count} "
                       f"--count {count // 2} --timeout 20\n"
                       if size > 1 or source == "odp" else
                       f"serve {name} {source} {bytes_ - OWN_BYTES} "
                       f"--buffer {buffer}\nwait $server\n"
                       f"echo {name} status $?\n")
    return script


def measure(kernel="6.1", quick=False, buffer=None):
    """All figures of the storage experiment, as one object."""
    buffer = buffer or (8 << 20 if quick else 16 << 20)
    sizes = QUICK_SIZES if quick else SIZES
    with tempfile.TemporaryDirectory(prefix="unetmm-") as directory:
        disk = os.path.join(directory, "disk")
        with open(disk, "wb") as file:
            file.truncate(4 * buffer)
        first = run(fill_script(buffer), directory, disk, kernel)
        cached = need(first, "cached")["mb_per_s"]
        rate = int(cached * 1e6 / DISK_SHARE)
        second = run(point_script(buffer, sizes, 4 * buffer >> 18), directory,
                     disk, kernel, [f"throttling.bps-read={rate}"])
    points = []
    for size in sizes:
        point = {"memory": size}
        for source in SOURCES:
            got = second.get(f"{source}-{size}")
            point[source] = got["mb_per_s"] if isinstance(got, dict) else None
            point[source + "_why"] = None if isinstance(got, dict) else got
        points.append(point)
    return {"buffer": buffer, "disk": 4 * buffer, "cached": cached,
            "disk_rate": rate / 1e6, "points": points, "paper": PAPER,
            "resident": {name: need(first, name)["server_resident"]
                         for name in ("pinned-512k", "odp-512k", "odp-64k")},
            "words": {"first": first, "second": second}}


def show(report):
    """The table."""
    mib = 1 << 20
    print(f"""
A block server: a disk of {report['disk'] // mib} MiB, {DISK_SHARE} times slower than \
the page cache, a communication
buffer of {report['buffer'] // mib} MiB in chunks of 512 KiB, random reads of 512 KiB, \
every byte checked.
  memory for buffer and cache, MiB   pinned, MB/s     odp, MB/s     odp / pinned""")
    for point in report["points"]:
        pinned, odp = point["pinned"], point["odp"]
        print(f"  {point['memory'] * report['buffer'] / mib:32.0f}"
              f"{f'{pinned:.1f}' if pinned else 'does not start':>15}"
              f"{f'{odp:.1f}' if odp else 'does not start':>14}"
              + (f"{odp / pinned:17.2f}" if pinned and odp else ""))
    print("  (the paper, at 5, 5.5 and 6 GB of the whole machine with a disk of "
          "4 GB and a buffer of 1 GB: "
          + ", ".join(f"{ratio}" for ratio in report["paper"].values()) + ")")
    resident = report["resident"]
    print("  resident of the buffer, 16 sessions: pinned "
          f"{resident['pinned-512k'] / mib:.1f} MiB, odp "
          f"{resident['odp-512k'] / mib:.1f} with blocks of 512 KiB, "
          f"{resident['odp-64k'] / mib:.1f} with 64 KiB")
