# SPDX-License-Identifier: GPL-2.0-or-later
"""The tour of Ethernet: one guest whose only NIC is the card, on libslirp's network.

Linux's own interface gets an address by DHCP, pings, and downloads from a server on
the host.  Beside it, on the same wire, processes with TCP of their own start on rings
of cold memory: ethernet.py has them.
"""

import functools
import hashlib
import http.server
import random
import re
import threading
import time

from unetmm_tools.bench import ethernet
from unetmm_tools.tour.base import DemoError

# Its guests are on the host's network, and in its time.
VIRTUAL = False
DOWNLOAD = 24 << 20
# Short: an answer that has not come by then never comes
SECONDS = 3
RINGS = (16, 256)
OPERATIONS = 300
LIMIT = 2.5
STEP_LIMIT = 300                # seconds of a step of Linux's interface

NET = """
for dev in /sys/class/net/*; do
    dev=${dev##*/}
    [ $dev = lo ] || break
done
cat >/tmp/dhcp <<'END'
#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr add $ip/$mask dev $interface
ip route add default via $router
echo "dhcp $ip/$mask, router $router, for $lease s"
END
chmod +x /tmp/dhcp
net() {
    driver=$(readlink /sys/class/net/$dev/device/driver)
    echo "interface $dev: ${driver##*/}, $(cat /sys/class/net/$dev/address)"
    ip link set $dev up
    udhcpc -i $dev -n -q -f -t 10 -T 1 -s /tmp/dhcp 2>/dev/null
    as ping ping -q -c 10 -i 0.1 10.0.2.2
    read -r begin rest </proc/uptime
    wget -q -O /tmp/file http://10.0.2.2:$1/file
    read -r end rest </proc/uptime
    echo "download $begin $end $(sha256sum </tmp/file)"
    rm -f /tmp/file
}
"""


class File(http.server.BaseHTTPRequestHandler):
    """Serves one file."""

    def __init__(self, data, *arguments):
        self._data = data
        super().__init__(*arguments)

    def do_GET(self):  # pylint: disable=C0103
        """Sends the file under any name."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self._data)))
        self.end_headers()
        self.wfile.write(self._data)

    def log_message(self, *_words):  # pylint: disable=W0221
        """Nothing."""


def measure_net(stations):
    """DHCP, ping and a download by Linux's interface of the card."""
    data = random.Random(1).randbytes(DOWNLOAD)
    with http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(File, data)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            stations.guest.order(f"net {server.server_port}")
            # An error names the step that has not ended.
            stations.guest.wait_for("dhcp", STEP_LIMIT)
            stations.guest.wait_for("ping", STEP_LIMIT)
            words = stations.guest.wait_for("download", STEP_LIMIT).split()
        finally:
            server.shutdown()
    pings = "\n".join(stations.guest.said("ping"))
    received = re.search(r"(\d+) packets transmitted, (\d+)", pings)
    times = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+) ms", pings)
    lease = stations.guest.said("dhcp")
    if not received or not times or not lease or len(words) < 3:
        raise DemoError("the guest's interface did not work: "
                        + stations.guest.trouble())
    seconds = float(words[1]) - float(words[0])
    return {"interface": stations.guest.said("interface")[0],
            "lease": lease[0], "pings": int(received[1]),
            "answers": int(received[2]), "ping_ms": float(times[2]),
            "bytes": DOWNLOAD, "seconds": round(seconds, 2),
            "mb_per_s": round(DOWNLOAD / 1e6 / max(seconds, 0.01), 1),
            "right": words[2] == hashlib.sha256(data).hexdigest()}


def measure(kernel):
    """Everything on the screen, as one object."""
    begin = time.monotonic()
    try:
        with ethernet.Guest(kernel, 3 + 3 * len(RINGS), begin=NET) as stations:
            booted = time.monotonic() - begin
            net = measure_net(stations)
            cold = ethernet.measure_cold(stations, SECONDS, RINGS, OPERATIONS,
                                         LIMIT)
    except ethernet.ERRORS as error:
        raise DemoError(str(error)) from error
    return {"kernel": kernel, "boot_seconds": round(booted, 1), "net": net,
            "cold": cold, "seconds": round(time.monotonic() - begin, 1)}


def show(report):
    """The screen."""
    net = report["net"]
    print(f"""
One guest, Linux {report['kernel']}; its only NIC: -device unetmm on -netdev user.
  interface  {net['interface']}
  DHCP       {net['lease']}
  ping       {net['answers']} of {net['pings']} answered by 10.0.2.2, \
{net['ping_ms']:.2f} ms each
  download   {net['bytes'] >> 20} MiB from the host in {net['seconds']:.2f} s, \
{net['mb_per_s']:.0f} MB/s, {'every byte right' if net['right'] else 'WRONG'}""")
    ethernet.show_cold(report["cold"])
    print(f"\n({report['seconds']} s, {report['boot_seconds']} of them for the "
          "guest's start; the guest, libslirp and the load share one machine)")


def is_good(report):
    """True if all data received was right."""
    cold = report["cold"]
    return report["net"]["right"] and not any(
        run["wrong"] for run in cold["curve"] + cold["first"])
