# SPDX-License-Identifier: GPL-2.0-or-later
"""The tour of MPI: collective operations with pinned, copied and paged buffers.

Two guests in one virtual time run the checked program mpi-collective on the card's user
path, once in each of the ways of the NPF paper (Figure 9, Table 6): a pin-down cache,
copies through buffers of the MPI layer, and page faults of the card.
"""

import math

from unetmm_tools.guest import cluster, virtual, vm
from unetmm_tools.tour.base import DemoError, clocks, parse_lines

VIRTUAL = True
# On two quiet CPUs; the ranks poll, so that the guests meet at each 10 us of virtual time.
TAKES = "four minutes or more"
# Of virtual time
LIMIT_SECONDS = 900
NODES = 2
# Up to this size ofi_rxm copies a message, in pieces; of a longer one the receiver reads
# the sender's memory.
COPIED = "-x FI_OFI_RXM_SAR_LIMIT="
# name, title, environment of mpirun
WAYS = (
    ("pin", "pin-down", f"-x FI_UNETMM_SOURCE=utlb {COPIED}16384"),
    ("copy", "copying", f"-x FI_UNETMM_SOURCE=utlb {COPIED}4194304"),
    ("npf", "page faults", f"-x FI_UNETMM_WHOLE=1 {COPIED}16384"),
)
OPERATIONS = ("sendrecv", "bcast", "alltoall")
SIZES = (64, 1024, 8192, 32768, 65536, 131072, 1048576)
SHOWN = (32768, 65536, 131072, 1048576)


def script():
    """The command of the first node; a line is a way's name and a result."""
    sizes = ",".join(str(size) for size in SIZES)
    lines = ["set -e"]
    for name, _, options in WAYS:
        lines.append(
            f"mpirun --mca pml cm {options} mpi-collective {','.join(OPERATIONS)} "
            f"--json --count 3 --warmup 1 --sizes {sizes} >/tmp/rows")
        lines.append(f"sed 's/^/{name} /' /tmp/rows")
    return "\n".join(lines)


def bandwidth(rows):
    """The effective bandwidth, MB/s: the mean over sizes in steps of one factor.

    As in beff, each size has the same weight.
    """
    rates = [size / rows["sendrecv", size] for size in SIZES]
    return sum(rates) / len(rates)


def build_report(text, kernel):
    """Everything on the screen, as one object."""
    found = parse_lines(text)
    rows = {}
    for name, _, _ in WAYS:
        rows[name] = {(row["operation"], row["bytes"]): row["median"]
                      for row in found.get(name, ())}
        missing = [f"{name} {operation} {size}" for operation in OPERATIONS
                   for size in SIZES if (operation, size) not in rows[name]]
        if missing:
            raise DemoError(f"the tour ended before {missing[0]}")
    return {
        "kernel": kernel, "clocks": "one virtual time, equal in every run",
        "wire": "links of 10 us and 10 Gb/s to a switch",
        "ways": {name: {f"{operation}, {size}": median
                        for (operation, size), median in sorted(rows[name].items())}
                 for name in rows},
        "bandwidth": {name: round(bandwidth(rows[name]), 1) for name in rows},
    }


def measure(kernel):
    """Boots the guests and runs all; the report."""
    image = cluster.image_target(kernel)
    words = ["--memory", "1G", "--overlay", vm.setup_paths(image)[image]]
    scripts = cluster.virtual_scripts(NODES, 9000, script())
    with virtual.VirtualCluster(scripts, kernel=kernel, options=words) as nodes:
        statuses = nodes.wait(LIMIT_SECONDS)
        text = nodes.guests[0].results()
    if any(statuses):
        last = text.strip().rpartition("\n")[2]
        raise DemoError(f"a guest ended with a failure; its last line: {last}")
    return build_report(text, kernel)


def show_operation(ways, operation):
    """The times of one operation, by size."""
    for size in SHOWN:
        times = [ways[name][f"{operation}, {size}"] for name, _, _ in WAYS]
        print(f"  {operation if size == SHOWN[0] else '':10}{size // 1024:6} KiB" +
              "".join(f"{time:12.1f}" for time in times) +
              f"{times[1] / times[0]:12.2f}{times[2] / times[0]:14.2f}")


def show(report):
    """The screen."""
    print(f"""
Two guests, Linux {report['kernel']}, {report['wire']}; OpenMPI on the card's user
path, every byte checked.  Microseconds:
""")
    print("  " + " " * 20 + "".join(f"{title:>12}" for _, title, _ in WAYS) +
          f"{'copy / pin':>12}{'faults / pin':>14}")
    for operation in OPERATIONS:
        show_operation(report["ways"], operation)
    rates = report["bandwidth"]
    print(f"\n  effective bandwidth of sendrecv, MB/s, mean over {len(SIZES)} sizes:\n  " +
          ", ".join(f"{title} {rates[name]:.0f}" for name, title, _ in WAYS))
    print("  (the paper, 16 to 128 KiB: copy / pin 1.1 to 2.2, faults as the pin-down "
          "cache;\n  beff 16410, 8020 and 16440 MB/s)")
    print(f"\n({clocks(report)})")


def is_good(report):
    """True if each time is a number; mpi-collective has checked the bytes."""
    return all(math.isfinite(time) and time > 0
               for way in report["ways"].values() for time in way.values())
