# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench --virtual --only verbs: the kernel's and UCX's programs on verbs.

NVMe over RDMA, NFS over RDMA and ucx_perftest between two guests in virtual time, on the card by
our provider and on rdma_rxe over an e1000e: the same programs, kernel modules and link.
"""

import json

from unetmm_tools.bench import two_guests
from unetmm_tools.guest import vm

READS = 200
FILE_BYTES = 4 << 20
# Transport, test, options; the figure is half a round trip, in microseconds.
UCX = (("rc_v", "tag_lat", "-s 8 -n 200"), ("rc_v", "ucp_put_lat", "-s 8 -n 200"),
       ("ud_v", "tag_lat", "-s 8 -n 200"))

# With $me and $net, the first three numbers of the addresses; the device is there.
BOTH = r"""
load() {
    for name in "$@"; do
        while read -r file; do
            [ -e "/sys/module/$(echo "${file##*/}" | sed 's/\.ko$//; s/-/_/g')" ] || insmod "$file"
        done <"/ulps-modules/$name"
    done
}
for file in /kernel-modules/*.ko; do
    case "$file" in *brd*) more="rd_nr=1 rd_size=16384" ;; *) more= ;; esac
    [ -e "/sys/module/$(echo "${file##*/}" | sed 's/^[0-9]*-//; s/\.ko$//; s/-/_/g')" ] ||
        insmod "$file" $more
done
load rpcrdma nfsd nfsv4
"""
SERVE = r"""
mount -t configfs none /sys/kernel/config
target=/sys/kernel/config/nvmet
mkdir -p $target/subsystems/disk/namespaces/1 $target/ports/1
echo 1 >$target/subsystems/disk/attr_allow_any_host
echo /dev/ram0 >$target/subsystems/disk/namespaces/1/device_path
echo 1 >$target/subsystems/disk/namespaces/1/enable
echo rdma >$target/ports/1/addr_trtype
echo ipv4 >$target/ports/1/addr_adrfam
echo $net.1 >$target/ports/1/addr_traddr
echo 4420 >$target/ports/1/addr_trsvcid
ln -s $target/subsystems/disk $target/ports/1/subsystems/disk
mkdir -p /srv /var/lib/nfs/v4recovery
mount -t tmpfs srv /srv
mount -t nfsd nfsd /proc/fs/nfsd
echo -3 >/proc/fs/nfsd/versions
# In place of exportfs and mountd: the kernel exports /srv, of file system 0, to the other guest.
echo "nfsd $net.2 9000000000 guests" >/proc/net/rpc/auth.unix.ip/channel
echo 'guests 1 \x00000000 9000000000 /srv' >/proc/net/rpc/nfsd.fh/channel
echo "guests /srv 9000000000 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo "rdma 20049" >/proc/fs/nfsd/portlist
echo 2 >/proc/fs/nfsd/threads
echo Y >/proc/fs/nfsd/v4_end_grace
nc -l -p 20001 </dev/null >/dev/null
"""
USE = r"""
until nc $net.1 20001 </dev/null >/dev/null 2>&1; do usleep 20000; done
echo "transport=rdma,traddr=$net.1,trsvcid=4420,nqn=disk,queue_size=32,nr_io_queues=1" >/dev/nvme-fabrics
until [ -b /dev/nvme0n1 ]; do usleep 20000; done
mkdir -p /mnt
mount -t nfs4 -o proto=rdma,port=20049,vers=4.2,addr=$net.1,clientaddr=$net.2 $net.1:/ /mnt
python3 - @READS@ @BYTES@ <<'EOF'
import json, mmap, os, sys, time

def figure(mode, bytes, metric, times, unit):
    times.sort()
    print(json.dumps({"ulp": mode, "bytes": bytes, "metric": metric, "unit": unit,
                      "median": times[len(times) // 2], "p99": times[len(times) * 99 // 100],
                      "count": len(times)}), flush=True)

reads, size = map(int, sys.argv[1:])
disk = os.open("/dev/nvme0n1", os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
times = []
for i in range(reads + 10):
    began = time.monotonic_ns()
    assert os.preadv(disk, [page], i * 8192) == 4096
    times.append((time.monotonic_ns() - began) / 1000)
figure("nvme-rdma, read", 4096, "latency", times[10:], "us")
data = os.urandom(size)
for turn in range(2):
    began = time.monotonic_ns()
    with open("/mnt/file", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    wrote = time.monotonic_ns()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")
    dropped = time.monotonic_ns()
    with open("/mnt/file", "rb") as file:
        assert file.read() == data
    read = time.monotonic_ns()
figure("nfs over rdma, write", size, "bandwidth", [size * 1000 / (wrote - began)], "MB/s")
figure("nfs over rdma, read", size, "bandwidth", [size * 1000 / (read - dropped)], "MB/s")
EOF
umount /mnt
echo 1 >/sys/class/nvme/nvme0/delete_controller
"""


def ucx(device):
    """(the server's commands, the client's) of ucx_perftest on the device."""
    # UCX before 1.19 takes the header of each datagram for IPv6's, but on mlx5.
    head = (f"export UCX_NET_DEVICES={device}:1 UCX_UD_VERBS_ETH_DGID_CHECK=n "
            "UCX_IB_ODP_MAX_SIZE=inf UCX_WARN_UNUSED_ENV_VARS=n\n")
    serve, use = head, head
    for port, (transport, test, words) in enumerate(UCX, 13400):
        serve += f"UCX_TLS={transport} ucx_perftest -p {port} >/dev/null\n"
        use += (f"until UCX_TLS={transport} ucx_perftest $net.1 -p {port} -f -t {test} {words} "
                ">/tmp/out 2>/tmp/said; do :; done\n"
                f"echo \"ucx {transport} {test} $(tail -n 1 /tmp/out)\"\n")
    return serve, use


def scripts(device, up, net):
    """The scripts of both guests."""
    serve, use = ucx(device)
    head = f"net={net}\n" + BOTH
    use = USE.replace("@READS@", str(READS)).replace("@BYTES@", str(FILE_BYTES)) + use
    return up % 1 + head + SERVE + serve + "exec sleep infinity\n", up % 2 + head + use


def rows(peer, text):
    """The rows of a client's output."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if line.startswith('{"ulp"'):
            row = json.loads(line)
            found.append(two_guests.row(peer, row["ulp"], row["metric"], row["bytes"], 9000,
                                        row["median"], row["p99"] if row["metric"] == "latency"
                                        else None, row["count"], row["unit"]))
        elif words[:1] == ["ucx"]:
            size = next(int(options.split()[1]) for transport, test, options in UCX
                        if words[1:3] == [transport, test])
            # Behind the number of messages: the median, the average of the last part, and of all
            found.append(two_guests.row(peer, f"ucx {words[1]}, {words[2]}", "latency", size, 9000,
                                        float(words[-7]), None, int(words[-8]), "us"))
    if len(found) != 3 + len(UCX):
        raise two_guests.BenchError(f"{peer}: {len(found)} figures came, {3 + len(UCX)} were expected")
    return found


def measure(options, run, head, rxe_up):
    """The rows on rdma_rxe and on the card.  run(options, serve, use, words, ...) is the text."""
    ulps = vm.setup_paths(f"ulps-guest-{options.kernel}")[f"ulps-guest-{options.kernel}"]
    rxe = two_guests.rxe_options(options.kernel)[1]
    common = ["--verbs", "--cpus", "1", "--memory", "768M"]
    text = run(options, *scripts("rxe0", rxe_up, "10.0.1"), e1000e=True,
               words=["--no-card", *common, "--overlay", ulps, "--overlay", rxe])
    found = rows("rxe over e1000e", text)
    up = head + "me=%d\nverbs-up 10.7.0.$me own\n"
    text = run(options, *scripts("unetmm0", up, "10.7.0"), words=[*common, "--overlay", ulps])
    return found + rows("unetmm, own provider", text)
