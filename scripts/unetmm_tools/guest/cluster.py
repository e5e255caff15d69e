# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/cluster: guests on one wire, with names, a remote shell and MPI.

    with cluster.Cluster(3) as nodes:
        print(nodes[0].run("mpirun mpi-collective"))

The guests are those of unetmm.lab (docs/lab.rst), so counters, faults and TLBs of each
card can be looked at.  docs/cluster.rst is the manual.
"""

import argparse
import os
import pwd
import shlex
import shutil
import signal
import sys
import tempfile
import time

from unetmm_tools import SCRIPTS
from unetmm_tools.guest import console, lab, pair as guests, recorder, timeline, virtual, vm
from unetmm_tools.guest.progress import Progress
from unetmm_tools.guest.switches import SWITCHES

NODES = range(2, 9)
# Debian 12 has the first one, Debian 13 the second.
OPENMPI = ("4", "5")
TRIPLET = f"{os.uname().machine}-linux-gnu"
BOOT_LIMIT_SECONDS = 300
MTU_LIMIT = 65482
SHARE_SERVER = "10.0.2.100"
# Networks of the cards and of the e1000es, without the node's number
CARD_NETWORK = "10.1.0"
E1000E_NETWORK = "10.2.0"
INTERRUPTED = 130

DESCRIPTION = """\
Boots 2 to 8 guests, whose cards are on one wire, and runs COMMAND on the first of
them; its exit status is the command's.  Without COMMAND there is a shell on the
first guest, and the guests end with it.

The guests are called node1, node2, ...  Each can start programs on each by a remote
shell (dbclient node2 COMMAND), and mpirun has all of them in its hosts file.
OpenMPI, hpcc and the checked programs of tests/mpi are in the guests (mpi-pingpong,
mpi-collective, mpi-onesided, mpi-sort, mpi-truncate: --help).
"""

EXAMPLES = """\
examples:
  A shell on the first of three guests:
    scripts/cluster --nodes 3

  Collective operations of MPI on three guests, one rank each:
    scripts/cluster --nodes 3 -- mpirun mpi-collective

  Eight ranks on four guests:
    scripts/cluster --nodes 4 -- mpirun -n 8 mpi-sort

  A program of your own (built against Debian's OpenMPI), and its results:
    scripts/cluster --nodes 3 --share . -- mpirun /shared/osu_allreduce

  One word is a line for the guest's shell:
    scripts/cluster --nodes 2 -- 'cd /tmp; cp /etc/hpccinf.txt .; mpirun hpcc'

  1 % of the frames are lost on their way to each card:
    scripts/cluster --nodes 2 --loss 0.01 -- mpirun mpi-pingpong

  The same figures in every run, in virtual time (docs/lockstep.rst):
    scripts/cluster --nodes 2 --switch lockstep -- mpirun mpi-pingpong

  MPI over UCX, on the card's RDMA device (docs/verbs.rst):
    scripts/cluster --nodes 2 --verbs -- \\
        mpirun --mca pml ucx -x UCX_NET_DEVICES=unetmm0:1 mpi-collective

  A timeline of a ping-pong on the card's user path:
    scripts/cluster --nodes 2 --timeline out.json -- \\
        mpirun --mca pml cm mpi-pingpong --count 5 --sizes 8
"""

# A guest's part, before all commands.  %(...)s are of setup_text().  The launcher of
# OpenMPI 5 has a file of its own, and each version ignores the settings of the other.
SETUP = """
hostname node%(number)d
cat >/etc/hosts <<END
127.0.0.1 localhost
%(hosts)s
END
cat >/etc/openmpi/openmpi-mca-params.conf <<END
btl_base_warn_component_unused = 0
plm_rsh_agent = dbclient
orte_default_hostfile = /etc/openmpi/hosts
oob_tcp_if_include = %(network)s.0/24
btl_tcp_if_include = %(network)s.0/24
pml = ob1
mtl = ofi
mtl_ofi_provider_include = unetmm;ofi_rxm
btl = self,vader,tcp
osc = ^ucx
opal_common_ucx_tls = any
opal_common_ucx_devices = any
orte_launch_agent = env %(environment)s orted
rmaps_base_oversubscribe = 1
mpi_yield_when_idle = 1
END
cat >/etc/openmpi/prte-mca-params.conf <<END
plm_ssh_agent = dbclient
prte_default_hostfile = /etc/openmpi/hosts
prte_if_include = %(network)s.0/24
prte_launch_agent = env %(environment)s prted
rmaps_default_mapping_policy = slot:oversubscribe
END
for node in %(nodes)s; do
    echo "$node slots=1" >>/etc/openmpi/hosts
    echo "$node $(cat /root/.ssh/authorized_keys)" >>/root/.ssh/known_hosts
done
for dev in /sys/class/net/*; do
    case "$(readlink "$dev/device/driver")" in
        */unetmm) address=%(network)s.%(number)d ;;
        */e1000e) address=%(other)s.%(number)d ;;
        */virtio_net) address=10.0.2.15 share=yes ;;
        *) continue ;;
    esac
    dev=${dev##*/}
    case "$address" in
        %(network)s.*) ip link set "$dev" mtu %(mtu)d || exit 1 ;;
    esac
    ip addr add "$address/24" dev "$dev" && ip link set "$dev" up || exit 1
done
if [ -n "$share" ]; then
    for module in /share-modules/*; do insmod "$module" || exit 1; done
    mkdir -p /shared
    mount -t 9p -o trans=tcp,version=9p2000.L,access=any,msize=65536,aname=%(share)s \\
        %(server)s /shared || exit 1
fi
if [ -e /usr/bin/verbs-up ]; then verbs-up - || exit 1; fi
dropbear -s -E >/tmp/dropbear.log 2>&1 || exit 1
"""

# The environment of each rank, unless mpirun has an option -x: ofi_rxm of libfabric 1.17
# crashes when a receive truncates a message that was cut into pieces, and is slower with
# them.  UCX before 1.19 takes the header of each datagram for IPv6's (docs/mpi.rst).
RANKS = "FI_OFI_RXM_SAR_LIMIT=16384 UCX_UD_VERBS_ETH_DGID_CHECK=n"
# Before each command
ENVIRONMENT = ("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
               f" HOME=/root TMPDIR=/tmp {RANKS}\n")

# Until the remote shell of each node takes connections.
AWAIT = """
for node in %s; do
    tries=0
    until dbclient "$node" true 2>/tmp/dbclient.log </dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || { cat /tmp/dbclient.log; exit 1; }
        sleep 0.1
    done
done
"""


class ClusterError(Exception):
    """A mistake of the user or the machine, in one sentence."""


def image_target(kernel, openmpi=OPENMPI[0]):
    """The target of scripts/setup with the guests' additional files."""
    name = "mpi-guest" if openmpi == OPENMPI[0] else f"mpi{openmpi}-guest"
    return name if kernel == "6.1" else f"{name}-{kernel}"


def names(number):
    """The guests' names."""
    return [f"node{n}" for n in range(1, number + 1)]


def setup_text(number, nodes, mtu, share=""):
    """The script that makes guest `number` a node."""
    hosts = [f"{CARD_NETWORK}.{n} {name}\n{E1000E_NETWORK}.{n} {name}-e1000e"
             for n, name in enumerate(names(nodes), 1)]
    return SETUP % {
        "number": number, "hosts": "\n".join(hosts), "mtu": mtu,
        "nodes": " ".join(names(nodes)), "network": CARD_NETWORK,
        "other": E1000E_NETWORK, "environment": RANKS, "share": shlex.quote(share),
        "server": SHARE_SERVER}


def user_name():
    """The user's name, which the shared folder's server looks up."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise ClusterError(f"--share: user {os.getuid()} has no name, which the folder's server "
                           "needs; add one to /etc/passwd") from None


def share_arguments(directory, diod, scratch):
    """QEMU's arguments for a folder of the host, by diod and user networking.

    QEMU starts a server for each connection of the guest; it ends with the connection.
    """
    library = f"{diod}/usr/lib/{TRIPLET}"
    command = shlex.join([
        # mpirun asks for core dumps, which must not lie in the folder of the caller.
        "env", "-C", scratch, f"LD_LIBRARY_PATH={library}:{diod}/lib/{TRIPLET}",
        os.path.join(diod, "usr/sbin/diod"), "-f", "-n", "-S", "-U",
        user_name(), "-c", "/dev/null", "-L", "/dev/null", "-r0", "-w1", "-e", directory])
    return ["-netdev", "user,id=share,restrict=on,guestfwd=tcp:"
            f"{SHARE_SERVER}:564-cmd:" + command.replace(",", ",,"),
            "-device", "virtio-net-pci,netdev=share,romfile="]


def shell_arguments(path):
    """QEMU's arguments for a guest's /dev/ttyS3, by a socket.

    By default two serial ports share an interrupt, which QEMU's ISA bus cannot do.
    """
    path = path.replace(",", ",,")
    return ["-chardev", f"socket,id=shell,path={path},server=on,wait=off",
            "-device", "isa-serial,index=3,irq=10,chardev=shell"]


class Cluster(lab.Guests):
    """Guests node1, node2, ... on one wire.

    nodes    2 to 8
    switch   one of SWITCHES
    kernel   6.1, 6.12, newest, debug or kcsan
    openmpi  "4" or "5"
    e1000e   True: each guest has an e1000e too, on a switch of their own
    share    a folder of the host, which is /shared in each guest
    mtu      of the card's network interface; None: 9000
    options  more arguments of scripts/vm
    traced   True: `recorder` can write the events of all cards
    verbs    True: each guest has the card's RDMA device, and Debian's programs of verbs
    """

    def __init__(self, nodes, switch="hub", kernel="6.1", e1000e=False,
                 share=None, mtu=None, options=(), traced=False,
                 openmpi=OPENMPI[0], verbs=False):
        if nodes not in NODES:
            raise ClusterError(f"--nodes {nodes}: use 2 to {NODES[-1]}")
        check_verbs(verbs, openmpi, switch)
        self.directory = tempfile.mkdtemp(prefix="unetmm-cluster-")
        self._switches = [SWITCHES[switch](self.directory, nodes)]
        self._e1000e = e1000e
        if e1000e:
            self._switches.append(
                SWITCHES[switch](self.directory, nodes, "hub-e1000e"))
        self._kernel = kernel
        self._image = image_target(kernel, openmpi)
        self._share = os.path.realpath(share) if share else ""
        self._mtu = mtu or 9000
        self._options = [*options, *(["--verbs"] if verbs else [])]
        self.recorder = recorder.Recorder(self.directory) if traced else None
        self.guests = []
        try:
            self._make_guests(nodes)
        except BaseException:
            self.close()
            raise

    def _make_guests(self, nodes):
        paths = vm.setup_paths(self._image)
        extra = share_arguments(self._share, paths["diod"], self.directory) \
            if self._share else []
        for number in range(1, nodes + 1):
            words = ["--id", str(number), "--kernel", self._kernel, "--overlay",
                     paths[self._image], "--netdev", self._switches[0].netdev(number)]
            if self._e1000e:
                words += ["--with-e1000e", self._switches[1].netdev(number)]
            name = f"node{number}"
            self.guests.append(lab.Guest(
                name, self.directory, options=[
                    "--memory", "1G", *words, *self._options, "--", *extra,
                    *shell_arguments(self.shell_path(name)),
                    *(self.recorder.arguments(name) if self.recorder else ())]))

    def shell_path(self, name):
        """The socket of a node's terminal, /dev/ttyS3."""
        return os.path.join(self.directory, f"{name}.shell")

    def boot(self, say=lambda text: None):
        """Starts all; returns when each node can start programs on each.

        say  is told each step.
        """
        self.start(self._switches)
        jobs = []
        for number, guest in enumerate(self.guests, 1):
            guest.boot(BOOT_LIMIT_SECONDS, lambda name=guest.name: say(
                f"booting {name} of {len(self.guests)} guests"))
            jobs.append(guest.launch(setup_text(
                number, len(self.guests), self._mtu, self._share)))
        for guest, job in zip(self.guests, jobs):
            say(f"setting up {guest.name}")
            said = job.wait(BOOT_LIMIT_SECONDS, check=False).strip()
            if job.status:
                raise ClusterError(f"{guest.name} could not be set up: {said}")
        say("waiting for the remote shells")
        job = self.launch(AWAIT % " ".join(names(len(self.guests))))
        said = job.wait(BOOT_LIMIT_SECONDS, check=False).strip()
        if job.status:
            raise ClusterError("a remote shell does not answer: " + said)

    def launch(self, command, node=0):
        """Starts a shell command on a node, as scripts/cluster does."""
        return self.guests[node].launch(ENVIRONMENT + command)

    def run(self, command, timeout=120, check=True, node=0):
        """The output of a shell command on a node."""
        return self.launch(command, node).wait(timeout, check)

    def check(self):
        """Raises GuestError if a guest or a switch has ended."""
        for guest in self.guests:
            if not guest.running():
                raise guests.GuestError(f"{guest.name} has ended; "
                                        f"{guest.trouble()}")
        if not all(switch.running() for switch in self._switches):
            raise guests.GuestError("the switch has ended")

    def close(self):
        """Ends all, and removes the files."""
        for guest in self.guests:
            guest.close()
        for switch in self._switches:
            switch.close()
        shutil.rmtree(self.directory, ignore_errors=True)


# ---- Virtual time


def virtual_scripts(nodes, mtu, command):
    """A script for each guest: node1 has the command, the others wait for its end."""
    others = names(nodes)[1:]
    first = (setup_text(1, nodes, mtu) + ENVIRONMENT +
             AWAIT % " ".join(names(nodes)) + f"sh -c {shlex.quote(command)}\nstatus=$?\n" +
             "".join(f"dbclient {name} 'echo >/tmp/end'\n" for name in others) +
             "exit $status\n")
    rest = "mkfifo /tmp/end || exit 1\n%s\nread -r line </tmp/end\n"
    # A failed node must not leave the first one waiting.
    return ["#!/bin/sh\n" + first] + [
        "#!/bin/sh\n" + rest % setup_text(number, nodes, mtu)
        for number in range(2, nodes + 1)]


def follow_virtual(nodes, limit):
    """Prints the first guest's output as it comes, until all end; its status."""
    first, shown = nodes.guests[0], 0
    deadline = nodes.deadline(limit) if limit else None
    while first.running():
        shown = show_new(first.results(), shown)
        if not all(guest.running() or guest.status() == 0
                   for guest in nodes.guests[1:]):
            break
        if deadline and deadline.passed():
            return late(limit, first.UNIT)
        time.sleep(0.1)
    statuses = nodes.wait(BOOT_LIMIT_SECONDS)
    show_new(first.results(), shown)
    for guest, status in zip(nodes.guests[1:], statuses[1:]):
        if status:
            raise guests.GuestError("a node could not be set up; " + guest.trouble())
    return statuses[0]


def run_virtual(options, command):
    """A cluster around lockstep's switch; the command's status."""
    image = image_target(options.kernel, options.openmpi)
    paths = vm.setup_paths(image)
    words = ["--memory", options.memory, "--overlay", paths[image],
             *vm_options(options)]
    progress = Progress()
    progress.say("beginning from snapshots")
    scripts = virtual_scripts(options.nodes, options.mtu or 9000, command)
    with tempfile.TemporaryDirectory(prefix="unetmm-links-") as logs, \
            virtual.VirtualCluster(
                scripts, kernel=options.kernel, options=words,
                logs=logs if options.timeline else None, prints=False,
                e1000e=options.e1000e, cards=[
                    lab.knobs(options.seed + number, loss=options.loss)
                    for number in range(options.nodes) if options.loss]) as nodes:
        progress.end(f"{options.nodes} guests run in one virtual time")
        status = follow_virtual(nodes, options.limit)
        if options.timeline:
            progress.end(recorder.of_links(logs, {
                name: f"{guest.name}.log" for name, guest in
                zip(names(options.nodes), nodes.guests)}, options.timeline))
        return status


# ---- The program


def build_parser():
    """The options."""
    parser = vm.Parser(
        prog="scripts/cluster", description=DESCRIPTION, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        usage="scripts/cluster --nodes N [options] [-- COMMAND]")
    add = parser.add_argument
    add("--nodes", type=int, required=True, metavar="N", help="2 to 8 guests")
    add("--switch", default="hub", choices=[*SWITCHES, "lockstep"],
        help="hub: a QEMU that floods each frame to all guests (default); "
        "multicast: UDP on the loopback interface, no process; lockstep: a "
        "switch in virtual time, where every run is equal")
    add("--kernel", default="6.1", choices=vm.KERNELS,
        help="Debian's kernel of that version, the newest of its backports, or the "
        "debug kernel (default: 6.1)")
    add("--openmpi", default=OPENMPI[0], choices=OPENMPI,
        help="4: that of Debian 12 (default); 5: that of Debian 13")
    add("--memory", default="1G", metavar="SIZE",
        help="of each guest (default: 1G)")
    add("--cpus", type=int, metavar="N",
        help="of each guest (default: 1; with --verbs 2)")
    add("--share", metavar="DIR",
        help="a folder of the host that is /shared in each guest, to be read and "
        "written")
    add("--mtu", type=int, metavar="N",
        help="of the card's network interface: 68 to "
        f"{MTU_LIMIT} (default: 9000)")
    add("--verbs", action="store_true",
        help="give each guest the card's RDMA device and Debian's programs of verbs "
        "(docs/verbs.rst); MPI can use UCX and libfabric's verbs on it (docs/mpi.rst)")
    add("--e1000e", action="store_true",
        help="an e1000e in each guest, on a switch of their own: node1-e1000e, ...")
    add("--loss", type=float, default=0, metavar="P",
        help="the share of frames that each card loses, 0 to 1")
    add("--seed", type=int, default=1, metavar="N",
        help="of the losses (default: 1)")
    add("--device-opts", default="", metavar="K=V,...",
        help="more properties of -device unetmm")
    add("--timeline", metavar="FILE",
        help="write a timeline of COMMAND that https://ui.perfetto.dev shows: each "
        "card's operations and events by the host's clock, or with --switch lockstep "
        "the frames in virtual time")
    add("--limit", type=float, metavar="SECONDS",
        help="end COMMAND with status 124 if it takes longer (default: none); with "
        "--switch lockstep seconds of virtual time")
    return parser


def parse_options(arguments):
    """The options, and the words behind `--`."""
    arguments, command = list(arguments), []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, command = arguments[:cut], arguments[cut + 1:]
        if not command:
            raise ClusterError("name a command behind --, or leave out --")
    options = build_parser().parse_args(arguments)
    check_options(options, command)
    return options, command


def check_verbs(verbs, openmpi, switch):
    """Refuses options that exclude --verbs."""
    if verbs and openmpi != OPENMPI[0]:
        raise ClusterError(f"--verbs: libraries of verbs are those of OpenMPI {OPENMPI[0]}; "
                           "leave out --openmpi")
    if verbs and switch == "lockstep":
        raise ClusterError("--switch lockstep: no test has run --verbs there; leave it out")


def check_options(options, command):
    """Checks beyond those of argparse."""
    if options.nodes not in NODES:
        raise ClusterError(f"--nodes {options.nodes}: use 2 to {NODES[-1]}")
    if options.cpus is None:
        options.cpus = 2 if options.verbs else 1
    if not 1 <= options.cpus <= 64:
        raise ClusterError(f"--cpus {options.cpus}: use 1 to 64")
    if not 0 <= options.loss <= 1:
        raise ClusterError(f"--loss {options.loss}: use 0 to 1, as 0.01")
    if not 0 <= options.seed < 1 << 32:
        raise ClusterError(f"--seed {options.seed}: use 0 to {(1 << 32) - 1}")
    if options.mtu is not None and not 68 <= options.mtu <= MTU_LIMIT:
        raise ClusterError(f"--mtu {options.mtu}: use 68 to {MTU_LIMIT}")
    if options.limit is not None and not options.limit > 0:
        raise ClusterError(f"--limit {options.limit}: use more than 0 seconds")
    check_verbs(options.verbs, options.openmpi, options.switch)
    if options.share and not os.path.isdir(options.share):
        raise ClusterError(f"--share {options.share} is no folder: name one")
    if options.share and "," in os.path.realpath(options.share):
        raise ClusterError(f"--share {options.share}: a comma ends an option of mount; "
                           "name a folder without one")
    if options.share and options.kernel in vm.BUILT_KERNELS:
        raise ClusterError(f"--share: the kernel {options.kernel} has no 9p; leave out "
                           "--kernel")
    if options.timeline:
        if not command:
            raise ClusterError("--timeline: name a command behind --")
        if not os.path.isdir(os.path.dirname(options.timeline) or "."):
            raise ClusterError(f"--timeline {options.timeline}: its folder does "
                               "not exist; name another one")
    if options.switch == "lockstep":
        if options.share:
            raise ClusterError("--switch lockstep: --share has the host's time; "
                               "leave it out")
        if not command:
            raise ClusterError("--switch lockstep: a shell has the host's time; "
                               "name a command behind --")


def vm_options(options):
    """The arguments of scripts/vm that options have."""
    words = ["--cpus", str(options.cpus), *(["--verbs"] if options.verbs else [])]
    if options.device_opts:
        words += ["--device-opts", options.device_opts]
    return words


def show_new(text, shown):
    """Prints the part of a text that has not been shown; its length now."""
    sys.stdout.write(text[shown:])
    sys.stdout.flush()
    return max(shown, len(text))


def late(limit, unit="s"):
    """Says that the command has taken too long; the status for it."""
    print(f"error: not done after {limit:g} {unit}: use a longer --limit",
          file=sys.stderr)
    return 124


def follow(nodes, command, limit):
    """Runs the command, and prints its output as it comes; its status."""
    job, shown = nodes.launch(command), 0
    deadline = time.monotonic() + limit if limit else None
    while True:
        status = job.status
        shown = show_new(job.output, shown)
        if status is not None:
            return status
        nodes.check()
        if nodes.recorder:
            nodes.recorder.look(nodes.guests)
        if deadline and time.monotonic() > deadline:
            return late(limit)
        time.sleep(0.1)


def record(nodes, command, limit, path):
    """Calls follow() and writes the timeline, also of a command that fails."""
    nodes.recorder.begin(nodes.guests)
    status = follow(nodes, command, limit)
    print("  " + nodes.recorder.end(nodes.guests, path), file=sys.stderr)
    return status


def shell(nodes):
    """A shell on the first node's terminal, until it ends; its status."""
    print("Shells of the other nodes, from other terminals:", file=sys.stderr)
    jobs = []
    for guest in nodes:
        path = nodes.shell_path(guest.name)
        jobs.append(guest.launch(
            f"{ENVIRONMENT}cd /root; PS1='{guest.name}# ' TERM=vt100 "
            "setsid -c sh -i </dev/ttyS3 >/dev/ttyS3 2>&1"))
        if guest is not nodes[0]:
            print("  " + shlex.join([f"{SCRIPTS}/unetmm_tools/run", "guest.console", path]),
                  file=sys.stderr)
    console.join(nodes.shell_path(nodes[0].name),
                 lambda: jobs[0].status is None)
    return jobs[0].status or 0


def run(options, command):
    """Boots the guests; the command's status."""
    text = command[0] if len(command) == 1 else shlex.join(command)
    if options.switch == "lockstep":
        return run_virtual(options, text)
    progress = Progress()
    nodes = Cluster(options.nodes, options.switch, options.kernel,
                    options.e1000e, options.share, options.mtu,
                    ["--memory", options.memory, *vm_options(options)],
                    traced=bool(options.timeline), openmpi=options.openmpi)
    try:
        nodes.boot(progress.say)
        progress.end(f"{options.nodes} guests are up")
        if options.loss:
            for number, guest in enumerate(nodes):
                guest.faults(seed=options.seed + number, loss=options.loss)
        if options.timeline:
            return record(nodes, text, options.limit, options.timeline)
        return follow(nodes, text, options.limit) if command else shell(nodes)
    finally:
        nodes.close()


def on_signal(number, _frame):
    """Ends the guests, whichever way this program is ended."""
    raise SystemExit(128 + number)


def main():
    """scripts/cluster."""
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGHUP, on_signal)
    try:
        options, command = parse_options(sys.argv[1:])
        sys.exit(run(options, command))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ClusterError, guests.GuestError, lab.CommandError, vm.VmError,
            timeline.TraceError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
