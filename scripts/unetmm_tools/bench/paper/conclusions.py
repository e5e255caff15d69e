# SPDX-License-Identifier: GPL-2.0-or-later
"""Conclusions of the papers, and the inputs that they depend on."""

from unetmm_tools.bench.paper.figures import FIGURES, expected
from unetmm_tools.bench.paper.tables import number
from unetmm_tools.guest.profiles import Inputs

STEP = 0.2                      # of the sensitivities


def point_of(name, x):
    """A function that makes one point's value."""
    return lambda program, inputs: FIGURES[name][1](program, inputs, x)


def part_of_line(program, inputs):
    """InfiniBand's rate at one fault in 2^15 packets, over the line rate."""
    get = point_of("N10i", "2^-15")(program, inputs)
    return lambda: get() / inputs.connectib["line"]


PAGE_BYTES = 4096
PORT_MISSES = (0, 0.01, 0.1, 0.5, 1)
PORT_SIZES = (40, 1024, 4096, 16384)


def port_times(inputs, misses, size=1024):
    """One way of a message, us: (interface, kernel, kernel that copies).

    All ports have Table 1's costs, for each page of the message.  The interface
    looks the page up to send and to receive; a miss is a handshake, an interrupt,
    a page that is pinned and one that is unpinned.  The kernel looks up twice,
    too; a miss is a page that is pinned and one that is unpinned.  The DC21140's
    port also copies each received message, since its interface does not know the
    endpoint.
    """
    p, k = inputs.pca200, inputs.dc21140
    pages = -(-size // PAGE_BYTES)
    interface = pages * (p["hit_read"] + p["hit_write"] + misses * (
        p["report"] + p["interrupt"] + p["fault"] + p["unpin"]))
    kernel = pages * (2 * k["ktlb_hit"] +
                      misses * (k["ktlb_pin"] + k["ktlb_unpin"]))
    return interface, kernel, kernel + size * k["copy"]


def kernel_saves(_program, inputs):
    """At a miss rate of 1 %, us of one way."""
    interface, kernel, _ = port_times(inputs, 0.01)
    return lambda: interface - kernel


def copy_costs(_program, inputs):
    """A page whose send misses, us: the port that copies, less the interface."""
    interface, _, copied = port_times(inputs, 1, PAGE_BYTES)
    return lambda: copied - interface


def ports_table():
    """Rows: size and miss rate, the three ports, and the cheapest with a copy."""
    rows = [("Bytes", "Sends that miss", "In the interface, us",
             "In the kernel, us", "In the kernel, which copies, us",
             "Cheaper of interface and copying kernel")]
    for size in PORT_SIZES:
        for misses in PORT_MISSES:
            times = port_times(Inputs(), misses, size)
            rows.append((str(size), f"{100 * misses:.0f} %",
                         *(f"{time:.2f}" for time in times),
                         "interface" if times[0] < times[2] else "kernel"))
    return rows


# text, how its value is made, when it holds
CONCLUSIONS = (
    ("at one fault in 2^15 packets InfiniBand keeps 80 % of its rate",
     part_of_line, lambda v: v > 0.8),
    ("at one fault in 2^12 packets the backup ring gives over 5 Gb/s",
     point_of("N10m", "2^-12"), lambda v: v > 5),
    ("at one fault in 2^12 packets dropping gives under 0.5 Gb/s",
     point_of("N10d", "2^-12"), lambda v: v < 0.5),
    ("with 5 GB page faults give 1.2 times pinning's rate",
     point_of("N8r", "5"), lambda v: v > 1.2),
    ("with 6 GB page faults give 1.2 times pinning's rate",
     point_of("N8r", "6"), lambda v: v > 1.2),
    ("4 MB page by page take 100 times one batched fault, ms",
     point_of("N3c", "4 MB"), lambda v: v > 36),
    ("a send miss costs 20 times a hit, us",
     point_of("T1a", "send miss"), lambda v: v > 20),
    ("translating in the kernel is cheaper at a miss rate of 1 %, us saved",
     kernel_saves, lambda v: v > 0),
    ("a page of 4 KB is cheaper in the interface than in a kernel that copies, "
     "even if each send misses, us saved", copy_costs, lambda v: v > 0),
)


def sensitivities(program):
    """One line for each conclusion: the inputs that move it most."""
    keys = [(p.name, key) for p in Inputs().profiles() for key, entry
            in p.entries.items() if entry["unit"] not in ("", "B")]
    wanted = []
    for text, make, holds in CONCLUSIONS:
        cases = [((key, factor), make(program, Inputs({key: factor})))
                 for key in keys for factor in (1 - STEP, 1 + STEP)]
        wanted.append((text, make(program, Inputs()), holds, cases))
    program.run()
    out = []
    for text, now, holds, cases in wanted:
        value = now()
        moved = sorted(((abs(get() / value - 1), key, factor, get())
                        for (key, factor), get in cases), reverse=True,
                       key=lambda m: m[0])
        flips = [f"{'/'.join(key)} x {factor:g}"
                 for _, key, factor, got in moved if not holds(got)]
        worst = ", ".join(f"{'/'.join(key)} x {factor:g}: {number(got)}"
                          for move, key, factor, got in moved[:2] if move)
        out.append(f"{text}: {number(value)}"
                   f"{'' if holds(value) else ' (it does not hold)'}; "
                   f"most by {worst or 'none'}; " +
                   ("flips with " + ", ".join(flips) if flips else
                    "no single input flips it"))
    return out


def fit(program):
    """Prints the value with which each fitted point is met."""
    for profile in Inputs().profiles():
        for key, entry in profile.entries.items():
            if entry["class"] != "fitted":
                continue
            name, x = entry["point"].split(" ", 1)
            want = expected()[name]["points"][x]
            low, high = 0.2, 5.0
            rising = None
            for _ in range(40):
                middle = (low + high) / 2
                got = []
                for factor in (low, middle):
                    inputs = Inputs({(profile.name, key): factor})
                    get = FIGURES[name][1](program, inputs, x)
                    program.run()
                    got.append(get())
                if rising is None:
                    rising = got[1] > got[0]
                if (got[1] < want) == rising:
                    low = middle
                else:
                    high = middle
            print(f"{profile.name}/{key}: {profile[key] * low:.6g} "
                  f"{entry['unit']}")
