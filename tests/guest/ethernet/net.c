/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linux's netdev on the card, between two guests: the other runs `netpeer`.
 *
 * Each test begins by making the interface anew, as earlier tests may have left
 * it in any state.
 */
#include "ask.h"
#include "card.h"
#include "guard.h"
#include "inject.h"
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <unistd.h>

static const char *dev;

#define DO(...) CHECK_EQ(net_shell(__VA_ARGS__), 0)

/* ---- The interface -------------------------------------------------------------------- */

static bool reaches(const char *to)
{
    return !net_shell("ping -c 1 -W 1 %s >/dev/null 2>&1", to);
}

static void set_up(unsigned mtu)
{
    DO("ip link set %s down; ip addr flush dev %s; ip link set %s mtu %u up && "
       "ip addr add " NET_OWN "/24 dev %s", dev, dev, dev, mtu, dev);
    EVENTUALLY(reaches(NET_PEER));
}

static void begin(unsigned mtu)
{
    ask_host("link on");
    card_find();
    EVENTUALLY(net_device("unetmm")[0]);
    dev = net_device("unetmm");
    set_up(mtu);
}

/* A counter of `ethtool -S`. */
static uint64_t counter(const char *name)
{
    unsigned long long value = 0;
    char command[200];
    FILE *text;
    bool found;

    snprintf(command, sizeof(command),
             "ethtool -S %s | sed -n 's/^ *%s: //p'", dev, name);
    text = popen(command, "r");
    found = text && fscanf(text, "%llu", &value) == 1;
    if (!found || pclose(text)) {
        FAIL("ethtool does not say %s", name);
    }
    return value;
}

static uint64_t file_number(const char *format, const char *name)
{
    long long value = 0;
    char path[200];
    FILE *file;

    snprintf(path, sizeof(path), format, name);
    file = fopen(path, "r");
    if (!file) {
        FAIL("%s cannot be opened", path);
    }
    if (fscanf(file, "%lli", &value) != 1) {
        value = 0;
    }
    fclose(file);
    return (uint64_t)value;
}

/* ---- Sockets --------------------------------------------------------------------------- */

static int connected_for(int type, const char *to, uint16_t port,
                         unsigned seconds)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct timeval limit = { .tv_sec = seconds * run.slow };
    int fd = CHECK_SYS(socket(AF_INET, type | SOCK_CLOEXEC, 0));

    CHECK_EQ(inet_pton(AF_INET, to, &at.sin_addr), 1);
    CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
    CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
    if (connect(fd, (struct sockaddr *)&at, sizeof(at))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int connected(int type, const char *to, uint16_t port)
{
    return connected_for(type, to, port, 2);
}

static void fill(struct chance *chance, uint8_t *data, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        data[i] = i % 8 ? (uint8_t)(data[i - 1] * 5 + 1) :
                  (uint8_t)chance_u64(chance);
    }
}

/* A datagram comes back as it was; a lost one is sent again. */
static void echo_datagram(int fd, struct chance *chance, size_t n)
{
    static uint8_t sent[65536], got[65536];
    unsigned tries;
    ssize_t ret;

    fill(chance, sent, n);
    for (tries = 0; tries < 5; tries++) {
        CHECK_EQ(CHECK_SYS(send(fd, sent, n, 0)), n);
        do {
            ret = recv(fd, got, sizeof(got), 0);
            if (ret == (ssize_t)n && !memcmp(sent, got, n)) {
                return;
            }
        } while (ret >= 0);
    }
    FAIL("a datagram of %zu bytes does not come back", n);
}

struct stream {
    int fd;
    size_t bytes;
    uint64_t seed;
};

static void write_stream(void *argument)
{
    struct stream *s = argument;
    static uint8_t data[65536];
    struct chance chance;
    size_t done = 0, n;

    chance_init(&chance, s->seed);
    while (done < s->bytes) {
        n = 1 + chance_below(&chance, sizeof(data) - 1);
        n = n < s->bytes - done ? n : s->bytes - done;
        fill(&chance, data, n);
        for (size_t put = 0; put < n; ) {
            put += (size_t)CHECK_SYS(write(s->fd, data + put, n - put));
        }
        done += n;
    }
}

/* The same from the other side of the echo: byte by byte equal to the written data. */
static void check_stream(const char *to, size_t bytes, uint64_t seed)
{
    struct stream s = {
        connected_for(SOCK_STREAM, to, NET_ECHO_PORT, 30), bytes, seed,
    };
    static uint8_t want[65536], got[65536];
    struct chance chance;
    size_t done = 0, n;
    pid_t writer;

    CHECK(s.fd >= 0);
    writer = start_process(write_stream, &s);
    chance_init(&chance, seed);
    while (done < bytes) {
        n = 1 + chance_below(&chance, sizeof(want) - 1);
        n = n < bytes - done ? n : bytes - done;
        fill(&chance, want, n);
        CHECK_EQ(CHECK_SYS(recv(s.fd, got, n, MSG_WAITALL)), n);
        if (memcmp(want, got, n)) {
            FAIL("the stream has changed after byte %zu", done);
        }
        done += n;
    }
    end_process(writer);
    close(s.fd);
}

/* ---- Transfers --------------------------------------------------------------- */

TEST(sizes, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    struct chance chance;
    unsigned i;
    int fd;

    begin(NET_MTU);
    chance_init(&chance, 0);
    fd = connected(SOCK_DGRAM, NET_PEER, NET_ECHO_PORT);
    CHECK(fd >= 0);
    for (i = 0; i < 80; i++) {
        echo_datagram(fd, &chance, i);
    }
    for (i = 0; i < rounds(200); i++) {
        echo_datagram(fd, &chance, chance_below(&chance, NET_MTU - 27));
    }
    echo_datagram(fd, &chance, NET_MTU - 28);
    /* In fragments */
    echo_datagram(fd, &chance, NET_MTU - 27);
    echo_datagram(fd, &chance, 65507);
    set_up(1500);
    for (i = 1400; i < 1480; i += 8) {
        echo_datagram(fd, &chance, i);
    }
    echo_datagram(fd, &chance, 1472);
    echo_datagram(fd, &chance, 1473);
    close(fd);
    CHECK_EQ(counter("rx_bad"), 0);
}

TEST(ping, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const unsigned bytes[] = { 0, 1, 18, 56, 1472, 1473, 4000, 8972 };
    unsigned i;

    begin(NET_MTU);
    for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        DO("ping -q -A -c %u -w %u -s %u " NET_PEER " | grep -q ' 0%% packet loss'",
           rounds(100), 60 * run.slow, bytes[i]);
    }
    DO("ping -q -A -c %u -w %u -s 56 " NET_PEER " | grep -q ' 0%% packet loss'",
       rounds(3000), 60 * run.slow);
}

/* All ways in which the card and Linux can share the work. */
TEST(offloads, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const char *const ways[] = {
        "tso on tx on rx on sg on", "tso off tx on rx on sg on",
        "tso off tx off rx on sg on", "tso on tx on rx off sg on",
        "gro off tso on tx on", "sg off tx off rx off gro off",
    };
    unsigned i, mtu;

    for (mtu = 1500; mtu <= NET_MTU; mtu += NET_MTU - 1500) {
        begin(mtu);
        for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            uint64_t before = counter("eth_segmented");

            DO("ethtool -K %s %s >/dev/null 2>&1", dev, ways[i]);
            check_stream(NET_PEER, 1 << (run.slow > 1 ? 19 : 21), i);
            /* Was it the card that did it, and only where it should? */
            CHECK_EQ(counter("eth_segmented") > before,
                     !!strstr(ways[i], "tso on"));
        }
        DO("ethtool -K %s tso on tx on rx on sg on gro on >/dev/null 2>&1",
           dev);
    }
    CHECK_EQ(counter("drop_offload"), 0);
    CHECK_EQ(counter("err_descriptor"), 0);
}

TEST(iperf, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const char *const ways[] = {
        "-P 4", "-P 4 -R", "-u -b 0 -l 64", "-u -b 0 -R",
    };
    unsigned i, seconds = run.slow > 1 ? 3 : 1;

    begin(1500);
    /* Its server does not listen while it is through with one before. */
    for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        EVENTUALLY(!net_shell("iperf3 -c " NET_PEER " -t %u %s >/tmp/iperf 2>&1",
                              seconds, ways[i]));
    }
    CHECK_EQ(counter("resets"), 0);
    CHECK_EQ(counter("tx_timeouts"), 0);
    CHECK_EQ(counter("rx_bad"), 0);
}

/* Its round trips, of which none may be lost, be doubled or come out of order. */
TEST(sockperf, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const char *const ways[] = {
        "-m 14", "--tcp -m 8000",
    };
    unsigned i;

    begin(NET_MTU);
    for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        DO("sockperf ping-pong -i " NET_PEER " -p " NET_SOCKPERF_PORT
           " -t 1 %s >/tmp/sockperf 2>&1 &&"
           " grep -q 'dropped messages = 0; # duplicated messages = 0;"
           " # out-of-order messages = 0' /tmp/sockperf", ways[i]);
    }
    CHECK_EQ(counter("rx_bad"), 0);
}

static void through_vlan(const char *type, const char *own, const char *peer)
{
    struct chance chance;
    unsigned i;
    int fd;

    if (net_shell("modprobe -q 8021q")) {
        test_skip("this kernel has no VLANs");
    }
    begin(1500);
    net_shell("ip link del vlan7 2>/dev/null");
    DO("ip link add link %s name vlan7 type vlan %s && "
       "ip link set vlan7 mtu 1500 up && ip addr add %s/24 dev vlan7", dev,
       type, own);
    EVENTUALLY(reaches(peer));
    chance_init(&chance, 0);
    fd = connected(SOCK_DGRAM, peer, NET_ECHO_PORT);
    CHECK(fd >= 0);
    for (i = 0; i < rounds(50); i++) {
        echo_datagram(fd, &chance, chance_below(&chance, 1473));
    }
    echo_datagram(fd, &chance, 1472);
    close(fd);
    check_stream(peer, 1 << 21, 1);
    DO("ip link del vlan7");
    CHECK_EQ(counter("drop_offload"), 0);
}

TEST(vlan, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    through_vlan("id " NET_VLAN, NET_VLAN_OWN, NET_VLAN_PEER);
}

/* Of which the card knows nothing: the sums are Linux's to make. */
TEST(service_tag, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    through_vlan("protocol 802.1ad id " NET_SERVICE, NET_SERVICE_OWN,
                 NET_SERVICE_PEER);
}

static int unsent(int fd)
{
    int bytes;

    CHECK_SYS(ioctl(fd, SIOCOUTQ, &bytes));
    return bytes;
}

/*
 * All that is to be sent waits for the wire when the rings are made anew.  Nobody
 * sends anything afterwards: the driver alone has to send it.
 */
TEST(backlog, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const uint8_t data[1400];
    int fd, size = 8 << 20, before, after, changed;
    const char *wire = getenv("UNETMM_WIRE");
    unsigned i;

    if (!wire || strcmp(wire, "dgram")) {
        test_skip("a netdev that listens for a stream waits for its peer, and "
                  "all of this guest with it");
    }
    begin(1500);
    DO("echo 1 >/proc/sys/net/ipv6/conf/%s/disable_ipv6", dev);
    /* An ARP reply or request would have us send something. */
    DO("echo 8 >/proc/sys/net/ipv4/conf/%s/arp_ignore", dev);
    DO("arp -s " NET_NOBODY " " NET_NOBODY_MAC " && "
       "arp -s " NET_PEER " " NET_PEER_MAC);
    fd = connected(SOCK_DGRAM, NET_NOBODY, NET_ECHO_PORT);
    CHECK(fd >= 0);
    CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)));
    ask_host("peer stop");
    for (i = 0; i < 2000; i++) {
        CHECK_SYS(send(fd, data, sizeof(data), 0));
    }
    before = unsent(fd);
    changed = net_shell("ethtool -G %s tx 256", dev);
    after = unsent(fd);
    ask_host("peer cont");
    note("%d bytes waited, %d then", before, after);
    CHECK(!changed && after > 0);
    EVENTUALLY(!unsent(fd));
    close(fd);
    DO("arp -d " NET_NOBODY " && arp -d " NET_PEER);
    DO("echo 0 >/proc/sys/net/ipv4/conf/%s/arp_ignore", dev);
    DO("ethtool -G %s tx 1024", dev);
    EVENTUALLY(reaches(NET_PEER));
    CHECK_EQ(counter("tx_timeouts"), 0);
}

/* ---- Reception --------------------------------------------------------------- */

/* Sees every frame that the card gives the interface. */
static int frames_open(void)
{
    struct timeval limit = { .tv_usec = 1 };
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(NET_ETHERTYPE),
        .sll_ifindex = (int)if_nametoindex(dev),
    };
    int fd = CHECK_SYS(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

    CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
    CHECK_SYS(bind(fd, (struct sockaddr *)&at, sizeof(at)));
    return fd;
}

/* How many of those that were asked for with this number. */
static unsigned frames_take(int fd, uint32_t number)
{
    uint8_t data[NET_MTU];
    unsigned n = 0;

    while (recv(fd, data, sizeof(data), 0) >= 0) {
        n += !memcmp(data, &number, sizeof(number));
    }
    return n;
}

static bool answers(int ask, uint32_t number)
{
    struct net_request answer;

    while (recv(ask, &answer, sizeof(answer), 0) == sizeof(answer)) {
        if (answer.number == number) {
            return true;
        }
    }
    return false;
}

/* Has the peer send some; its answer comes behind them. */
static unsigned frames_of(int fd, const uint8_t *mac, uint16_t count)
{
    struct net_request request = { .count = count, .bytes = 100 };
    static uint32_t number;
    int ask = connected(SOCK_DGRAM, NET_PEER, NET_ASK_PORT);
    unsigned tries;

    CHECK(ask >= 0);
    memcpy(request.mac, mac, 6);
    for (tries = 0; tries < 5; tries++) {
        request.number = ++number;
        CHECK_SYS(send(ask, &request, sizeof(request), 0));
        if (answers(ask, request.number)) {
            close(ask);
            return frames_take(fd, request.number);
        }
    }
    FAIL("the peer does not answer");
}

static void member(int fd, int how, unsigned short type, const uint8_t *mac)
{
    struct packet_mreq request = {
        .mr_ifindex = (int)if_nametoindex(dev), .mr_type = type, .mr_alen = 6,
    };

    if (mac) {
        memcpy(request.mr_address, mac, 6);
    }
    CHECK_SYS(setsockopt(fd, SOL_PACKET, how, &request, sizeof(request)));
}

TEST(multicast, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    uint8_t group[6] = { 0x01, 0x00, 0x5e, 0x10, 0x20, 0x30 };
    static const uint8_t all[6] = { 255, 255, 255, 255, 255, 255 };
    unsigned i;
    int fd;

    begin(1500);
    fd = frames_open();
    CHECK_EQ(frames_of(fd, all, 20), 20);
    CHECK_EQ(frames_of(fd, group, 20), 0);
    member(fd, PACKET_ADD_MEMBERSHIP, PACKET_MR_MULTICAST, group);
    EVENTUALLY(frames_of(fd, group, 20) == 20);
    member(fd, PACKET_DROP_MEMBERSHIP, PACKET_MR_MULTICAST, group);
    EVENTUALLY(frames_of(fd, group, 20) == 0);
    member(fd, PACKET_ADD_MEMBERSHIP, PACKET_MR_ALLMULTI, NULL);
    EVENTUALLY(frames_of(fd, group, 20) == 20);
    member(fd, PACKET_DROP_MEMBERSHIP, PACKET_MR_ALLMULTI, NULL);
    EVENTUALLY(frames_of(fd, group, 20) == 0);
    /* More than there are flows for. */
    for (i = 0; i < 100; i++) {
        group[5] = (uint8_t)i;
        member(fd, PACKET_ADD_MEMBERSHIP, PACKET_MR_MULTICAST, group);
    }
    EVENTUALLY(frames_of(fd, group, 20) == 20);
    group[5] = 0;
    CHECK_EQ(frames_of(fd, group, 20), 20);
    close(fd);
    fd = frames_open();
    EVENTUALLY(frames_of(fd, group, 20) == 0);
    CHECK_EQ(counter("flows_failed"), 0);
}

TEST(promiscuous, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const uint8_t other[6] = { 0x52, 0x54, 0x00, 0x6d, 0x77, 0x01 };
    int fd;

    begin(1500);
    fd = frames_open();
    CHECK_EQ(frames_of(fd, other, 20), 0);
    member(fd, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC, NULL);
    EVENTUALLY(frames_of(fd, other, 20) == 20);
    member(fd, PACKET_DROP_MEMBERSHIP, PACKET_MR_PROMISC, NULL);
    EVENTUALLY(frames_of(fd, other, 20) == 0);
    /* An address beside the first one. */
    member(fd, PACKET_ADD_MEMBERSHIP, PACKET_MR_UNICAST, other);
    EVENTUALLY(frames_of(fd, other, 20) == 20);
    CHECK(!(file_number("/sys/class/net/%s/flags", dev) & IFF_PROMISC));
    close(fd);
}

static void read_address(char *address)
{
    char path[100];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/net/%s/address", dev);
    file = fopen(path, "r");
    CHECK(file && fgets(address, 18, file));
    fclose(file);
}

TEST(address, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const uint8_t other[6] = { 0x52, 0x54, 0x00, 0x6d, 0x77, 0x02 };
    char old[20] = "";
    int fd;

    begin(1500);
    read_address(old);
    DO("ip link set %s address 52:54:00:6d:77:02", dev);
    fd = frames_open();
    CHECK_EQ(frames_of(fd, other, 20), 20);
    EVENTUALLY(reaches(NET_PEER));
    DO("ip link set %s address %s", dev, old);
    CHECK_EQ(frames_of(fd, other, 20), 0);
    close(fd);
    /* It is the card's as well: the user's endpoints go on. */
    card_check_works();
}

/* The second address becomes the first: that is the one with broadcast. */
TEST(second_address, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static const uint8_t other[6] = { 0x52, 0x54, 0x00, 0x6d, 0x77, 0x03 };
    static const uint8_t all[6] = { 255, 255, 255, 255, 255, 255 };
    char old[20] = "";
    int fd;

    begin(1500);
    read_address(old);
    fd = frames_open();
    member(fd, PACKET_ADD_MEMBERSHIP, PACKET_MR_UNICAST, other);
    EVENTUALLY(frames_of(fd, other, 20) == 20);
    DO("ip link set %s address 52:54:00:6d:77:03", dev);
    CHECK_EQ(frames_of(fd, all, 20), 20);
    CHECK_EQ(frames_of(fd, other, 20), 20);
    DO("ip link set %s address %s", dev, old);
    CHECK_EQ(frames_of(fd, all, 20), 20);
    CHECK_EQ(frames_of(fd, other, 20), 20);
    member(fd, PACKET_DROP_MEMBERSHIP, PACKET_MR_UNICAST, other);
    EVENTUALLY(frames_of(fd, other, 20) == 0);
    close(fd);
    CHECK_EQ(counter("flows_failed"), 0);
}

/* ---- Changes under traffic --------------------------------------------------- */

struct traffic {
    atomic_ulong bytes;
    atomic_bool stop;
};

/* Connects again and again, and keeps the wire busy both ways. */
static void traffic_main(void *argument)
{
    struct traffic *t = argument;
    static uint8_t data[65536];
    ssize_t n;
    int fd;

    while (!atomic_load(&t->stop)) {
        fd = connected(SOCK_STREAM, NET_PEER, NET_ECHO_PORT);
        while (fd >= 0 && !atomic_load(&t->stop)) {
            if (send(fd, data, sizeof(data), MSG_NOSIGNAL) < 0) {
                break;
            }
            n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
            if (n > 0) {
                atomic_fetch_add(&t->bytes, (unsigned long)n);
            } else if (!n || errno != EAGAIN) {
                break;
            }
        }
        if (fd >= 0) {
            close(fd);
        } else {
            breathe();
        }
    }
}

static void await_traffic(struct traffic *t)
{
    unsigned long before = atomic_load(&t->bytes);
    uint64_t end = deadline_in(40);

    while (atomic_load(&t->bytes) < before + 100000) {
        if (now_ns() > end) {
            FAIL("the streams do not go on");
        }
        breathe();
    }
}

/* Does it, a few times, while streams are under way; afterwards all goes on. */
static void under_traffic(void (*act)(unsigned round), unsigned times)
{
    struct traffic *t = shared_memory(sizeof(*t));
    unsigned i, k;
    pid_t pids[2];

    begin(1500);
    for (k = 0; k < 2; k++) {
        pids[k] = start_process(traffic_main, t);
    }
    for (i = 0; i < rounds(times); i++) {
        await_traffic(t);
        act(i);
    }
    await_traffic(t);
    atomic_store(&t->stop, true);
    for (k = 0; k < 2; k++) {
        end_process(pids[k]);
    }
    begin(1500);
    check_stream(NET_PEER, 1 << 18, 1);
    card_check_works();
}

static void change_mtu(unsigned round)
{
    static const unsigned mtus[] = { 9000, 1280, 4000, 1500, 1499, 9000 };

    DO("ip link set %s mtu %u", dev, mtus[round % 6]);
}

TEST(mtu, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(change_mtu, 6);
    CHECK(net_shell("ip link set %s mtu 9001 2>/dev/null", dev));
    CHECK(net_shell("ip link set %s mtu 67 2>/dev/null", dev));
    DO("ip link set %s mtu 68", dev);
}

static void change_rings(unsigned round)
{
    /* Much memory is much work where each page is watched. */
    const unsigned rings[] = { 64, run.slow > 1 ? 2048 : 8192, 128, 1024 };

    DO("ethtool -G %s rx %u tx %u", dev, rings[round % 4],
       rings[(round + 1) % 4]);
}

TEST_NAMED("rings", ring_sizes, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(change_rings, 4);
    CHECK(net_shell("ethtool -G %s rx 32 2>/dev/null", dev));
    CHECK(net_shell("ethtool -G %s tx 16384 2>/dev/null", dev));
    DO("ethtool -G %s rx 600", dev);
    DO("ethtool -g %s | sed -n '/Current/,$p' | grep -qE 'RX:[[:space:]]+1024'",
       dev);
    DO("ethtool -G %s rx 4096", dev);
}

static void go_down_and_up(unsigned round)
{
    (void)round;
    DO("ip link set %s down", dev);
    DO("ip link set %s up", dev);
}

TEST(down_and_up, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(go_down_and_up, 8);
}

static void do_reload(unsigned round)
{
    uint64_t end = deadline_in(10);
    int ret;

    (void)round;
    while ((ret = module_unload()) != 0) {
        CHECK(ret == -EWOULDBLOCK && now_ns() < end);
        breathe();
    }
    CHECK(!net_device("unetmm")[0]);
    CHECK_RET(module_load(), 0);
    begin(1500);
}

TEST(reload, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(do_reload, 4);
}

static void do_unbind(unsigned round)
{
    (void)round;
    CHECK_RET(card_unbind(), 0);
    CHECK(!net_device("unetmm")[0]);
    CHECK_RET(card_bind(), 0);
    begin(1500);
}

TEST(unbind, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(do_unbind, 4);
}

/* The interface stays, with its addresses, and goes on without an administrator. */
static void do_reset(unsigned round)
{
    (void)round;
    card_write("reset", "1");
}

TEST(function_reset, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(do_reset, 6);
}

static void do_link(unsigned round)
{
    (void)round;
    ask_host("link off");
    EVENTUALLY(!file_number("/sys/class/net/%s/carrier", dev));
    ask_host("link on");
    EVENTUALLY(file_number("/sys/class/net/%s/carrier", dev));
}

TEST_NAMED("link", link_down, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(do_link, 4);
}

static void unplug(unsigned round)
{
    (void)round;
    ask_host("unplug");
    EVENTUALLY(!card_present() && !net_device("unetmm")[0]);
    ask_host("plug");
    EVENTUALLY(card_present());
    begin(1500);
}

TEST_NAMED("unplug", unplugged, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(unplug, 2);
}

/* ---- Without memory ------------------------------------------------------------------------ */

static int changes = -1;                /* a socket, for interfaces' settings */

static int change(unsigned long what, struct ifreq *request)
{
    snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", dev);
    return ioctl(changes, what, request) ? -errno : 0;
}

static int set_flags(int flags)
{
    struct ifreq request = { .ifr_flags = (short)flags };

    return change(SIOCSIFFLAGS, &request);
}

static int bring_up(unsigned n)
{
    int ret = set_flags(IFF_MULTICAST);

    (void)n;
    return ret ? ret : set_flags(IFF_UP | IFF_MULTICAST);
}

static int another_mtu(unsigned n)
{
    struct ifreq request = { .ifr_mtu = n % 2 ? 4000 : 1500 };

    return change(SIOCSIFMTU, &request);
}

static int other_rings(unsigned n)
{
    struct ethtool_ringparam rings = {
        .cmd = ETHTOOL_SRINGPARAM, .rx_pending = n % 2 ? 128 : 64,
        .tx_pending = 256,
    };
    struct ifreq request = { .ifr_data = (void *)&rings };

    return change(SIOCETHTOOL, &request);
}

/*
 * Actions that need memory, each allocation failing now and then: they fail with an
 * error, or do without; and succeed when they are repeated.
 */
TEST(out_of_memory, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    static int (*const acts[])(unsigned n) = {
        bring_up, another_mtu, other_rings,
    };
    struct chance chance;
    unsigned i, n, left;
    int ret;

    inject_need();
    chance_init(&chance, 1);
    changes = CHECK_SYS(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    begin(1500);
    /* Few buffers, few chances */
    DO("ethtool -G %s rx 64 tx 64", dev);
    for (i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        for (n = 1, left = 0; !left; n += 1 + chance_below(&chance, 4)) {
            CHECK(n < 1000);
            inject_nth(n);
            ret = acts[i](n);
            left = inject_end();
            if (ret && (left || (ret != -ENOMEM && ret != -EFAULT))) {
                FAIL("act %u says %s at its chance %u", i, error_name(ret), n);
            }
            CHECK_RET(acts[i](n), 0);
            if (ret) {
                EVENTUALLY(reaches(NET_PEER));
            }
        }
        EVENTUALLY(reaches(NET_PEER));
    }
    close(changes);
    DO("ethtool -G %s rx 4096 tx 1024", dev);
    check_stream(NET_PEER, 1 << 18, 1);
}

/* NAPI has no memory for received frames: they are dropped, and no more. */
static void short_of_memory(unsigned round)
{
    uint64_t before = counter("rx_no_memory");

    (void)round;
    inject_into_those_in_haste(20);
    EVENTUALLY(counter("rx_no_memory") > before);
    inject_stop();
}

TEST(no_frames, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    inject_need();
    under_traffic(short_of_memory, 4);
}

/* ---- A card that lies ---------------------------------------------------------------------- */

/* Each of its lies is found out or does no harm; it is started anew, and goes on. */
static void believe_nothing(unsigned round)
{
    uint64_t bad = counter("rx_bad"), resets = counter("resets");

    ask_host("set x-seed %llu",
             (unsigned long long)((run.seed + round) & INT64_MAX));
    ask_host("set x-lie 20000");
    EVENTUALLY(counter("rx_bad") > bad && counter("resets") > resets);
    ask_host("set x-lie 0");
}

TEST(lied_to, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    under_traffic(believe_nothing, 5);
}

/* ---- The self-test ------------------------------------------------------------------------------ */

TEST(self_test, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    begin(1500);
    DO("ethtool -t %s online >/tmp/test", dev);
    DO("ethtool -t %s offline >/tmp/test", dev);
    CHECK_EQ(net_shell("grep -c '[(].*line[)][[:space:]]*0$' /tmp/test | grep -q 5"),
             0);
    /* Without a link the card still delivers to itself. */
    ask_host("link off");
    EVENTUALLY(!file_number("/sys/class/net/%s/carrier", dev));
    CHECK(net_shell("ethtool -t %s offline >/tmp/test", dev));
    DO("grep -q 'Link.*1$' /tmp/test && grep -q 'Loopback.*0$' /tmp/test");
    ask_host("link on");
    EVENTUALLY(file_number("/sys/class/net/%s/carrier", dev));
    /* While it is down it is brought up for the test alone. */
    DO("ip link set %s down", dev);
    DO("ethtool -t %s offline >/tmp/test", dev);
    DO("ip link set %s up", dev);
    EVENTUALLY(reaches(NET_PEER));
}

TEST(looks, TEST_ONLY_REMOTE | TEST_NO_CARD)
{
    begin(1500);
    DO("ethtool -i %s | grep -q '^driver: unetmm$'", dev);
    DO("ethtool %s | grep -q 'Link detected: yes'", dev);
    DO("ethtool -S %s | grep -q eth_rx_frames", dev);
    CHECK(counter("eth_tx_frames") > 0);
    CHECK(counter("eth_rx_frames") > 0);
    CHECK(file_number("/sys/class/net/%s/statistics/rx_bytes", dev) > 0);
    CHECK(file_number("/sys/class/net/%s/statistics/tx_packets", dev) > 0);
    /* Restores the state before the tests. */
    DO("ip link set %s down", dev);
}
