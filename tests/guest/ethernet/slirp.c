/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest whose only NIC is the card, on QEMU's user networking: an address by
 * DHCP, the gateway, downloads from the host, and connections from there.
 */
#include "ask.h"
#include "card.h"
#include "net.h"
#include "tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DO(...) CHECK_EQ(net_shell(__VA_ARGS__), 0)

static const char *dev;

/* The script of busybox's udhcpc: it sets the address that it was given. */
#define DHCP_SCRIPT \
    "printf '#!/bin/sh\\n[ \"$1\" = bound ] || exit 0\\n" \
    "ip addr flush dev $interface\\n" \
    "ip addr add $ip/24 dev $interface\\n" \
    "ip route add default via $router\\n' >/tmp/dhcp && chmod +x /tmp/dhcp"

static void begin(void)
{
    card_find();
    dev = net_device("unetmm");
    CHECK(dev[0]);
    DO("ip link set %s up && " DHCP_SCRIPT, dev);
    DO("udhcpc -i %s -n -q -t 10 -T 1 -s /tmp/dhcp >/tmp/said 2>&1", dev);
}

TEST(dhcp, TEST_NO_CARD)
{
    begin();
    DO("ip addr show dev %s | grep -q 'inet 10\\.0\\.2\\.15/24'", dev);
    DO("ping -q -A -c %u -w %u 10.0.2.2 | grep -q ' 0%% packet loss'",
       rounds(100), 60 * run.slow);
    DO("ping -q -A -c %u -w %u -s 1400 10.0.2.2 | grep -q ' 0%% packet loss'",
       rounds(100), 60 * run.slow);
}

/* The host's server sends /BYTES: as many, of which the sum is known. */
TEST(download, TEST_NO_CARD)
{
    const char *port = getenv("UNETMM_HTTP");
    unsigned mib = run.slow > 1 ? 1 : 8;

    if (!port) {
        test_skip("the host serves nothing");
    }
    begin();
    DO("wget -q -O /tmp/got http://10.0.2.2:%s/%u && "
       "wget -q -O /tmp/sum http://10.0.2.2:%s/%u.sha256", port, mib << 20,
       port, mib << 20);
    DO("[ \"$(sha256sum </tmp/got | cut -c 1-64)\" = \"$(cat /tmp/sum)\" ]");
    unlink("/tmp/got");
}

/* From the host to a server in the guest, written data comes back. */
TEST(forwarded, TEST_NO_CARD)
{
    pid_t pid;

    begin();
    /* busybox's nc serves one connection. */
    pid = CHECK_SYS(fork());
    if (!pid) {
        execlp("nc", "nc", "-l", "-p", "7", "-e", "cat", (char *)NULL);
        _exit(1);
    }
    EVENTUALLY(!net_shell("grep -q ':0007 .* 0A ' /proc/net/tcp /proc/net/tcp6"));
    ask_host("far echo %u", run.slow > 1 ? 1u << 18 : 1u << 21);
    kill(pid, SIGKILL);
}
