/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The other guest's part of the program `net`: it brings the interface up and
 * leaves servers behind, which end with the guest.
 */
#include "net.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <unistd.h>

static int server(int type, uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = CHECK_SYS(socket(AF_INET, type, 0));
    int one = 1;

    CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
    CHECK_SYS(bind(fd, (struct sockaddr *)&at, sizeof(at)));
    if (type == SOCK_STREAM) {
        CHECK_SYS(listen(fd, 16));
    }
    return fd;
}

static void echo_stream(int fd)
{
    static uint8_t data[65536];
    ssize_t n, put, done;

    while ((n = read(fd, data, sizeof(data))) > 0) {
        for (done = 0; done < n; done += put) {
            put = write(fd, data + done, (size_t)(n - done));
            if (put <= 0) {
                return;
            }
        }
    }
}

static void serve_streams(void)
{
    int listener = server(SOCK_STREAM, NET_ECHO_PORT);

    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);

        if (fd < 0) {
            continue;
        }
        if (!fork()) {
            echo_stream(fd);
            _exit(0);
        }
        close(fd);
    }
}

static void serve_datagrams(void)
{
    int fd = server(SOCK_DGRAM, NET_ECHO_PORT);
    static uint8_t data[65536];

    for (;;) {
        struct sockaddr_in from;
        socklen_t length = sizeof(from);
        ssize_t n = recvfrom(fd, data, sizeof(data), 0,
                             (struct sockaddr *)&from, &length);

        if (n >= 0) {
            sendto(fd, data, (size_t)n, 0, (struct sockaddr *)&from, length);
        }
    }
}

/* One frame after the other: the sender waits where it must. */
static void send_frames(int packet, const struct net_request *request)
{
    struct sockaddr_ll to = {
        .sll_family = AF_PACKET, .sll_protocol = htons(NET_ETHERTYPE),
        .sll_ifindex = (int)if_nametoindex(net_device("unetmm")),
        .sll_halen = 6,
    };
    static uint8_t data[NET_MTU];
    uint16_t i;

    memcpy(to.sll_addr, request->mac, 6);
    for (i = 0; i < request->count && request->bytes <= sizeof(data); i++) {
        memcpy(data, &request->number, sizeof(request->number));
        while (sendto(packet, data, request->bytes, 0, (struct sockaddr *)&to,
                      sizeof(to)) < 0 && errno == ENOBUFS) {
            breathe();
        }
    }
}

static void serve_requests(void)
{
    int packet = CHECK_SYS(socket(AF_PACKET, SOCK_DGRAM, 0));
    int fd = server(SOCK_DGRAM, NET_ASK_PORT);
    struct net_request request;

    for (;;) {
        struct sockaddr_in from;
        socklen_t length = sizeof(from);

        if (recvfrom(fd, &request, sizeof(request), 0,
                     (struct sockaddr *)&from, &length) != sizeof(request)) {
            continue;
        }
        send_frames(packet, &request);
        sendto(fd, &request, sizeof(request), 0, (struct sockaddr *)&from,
               length);
    }
}

/* Outlives this program, which buries its own children only. */
static void leave(void (*serve)(void))
{
    pid_t pid = CHECK_SYS(fork());

    if (!pid) {
        setsid();
        if (!CHECK_SYS(fork())) {
            serve();
        }
        _exit(0);
    }
    end_process(pid);
}

TEST(serves, TEST_NO_CARD)
{
    const char *dev = net_device("unetmm");

    CHECK(dev[0]);
    CHECK_EQ(net_shell("ip link set %s mtu %d up && "
                       "ip addr add " NET_PEER "/24 dev %s", dev, NET_MTU,
                       dev), 0);
    /* The debug kernel has none. */
    if (!net_shell("modprobe -q 8021q")) {
        CHECK_EQ(net_shell("ip link add link %s name vlan7 type vlan id "
                           NET_VLAN " && ip link set vlan7 up && "
                           "ip addr add " NET_VLAN_PEER "/24 dev vlan7", dev),
                 0);
        CHECK_EQ(net_shell("ip link add link %s name vlan8 type vlan protocol "
                           "802.1ad id " NET_SERVICE " && ip link set vlan8 up "
                           "&& ip addr add " NET_SERVICE_PEER "/24 dev vlan8",
                           dev), 0);
    }
}

/* A client may end it. */
static void serve_iperf(void)
{
    for (;;) {
        pid_t pid = CHECK_SYS(fork());

        if (!pid) {
            execlp("iperf3", "iperf3", "-s", "--logfile", "/dev/null",
                   (char *)NULL);
            _exit(127);
        }
        CHECK_SYS(waitpid(pid, NULL, 0));
    }
}

static void serve_sockperf(void)
{
    execlp("sockperf", "sockperf", "server", "-i", "0.0.0.0", "-p",
           NET_SOCKPERF_PORT, (char *)NULL);
}

static void serve_sockperf_tcp(void)
{
    execlp("sockperf", "sockperf", "server", "--tcp", "-i", "0.0.0.0", "-p",
           NET_SOCKPERF_PORT, (char *)NULL);
}

int main(int argc, char **argv)
{
    int i;

    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list")) {
            return test_main(argc, argv);
        }
    }
    leave(serve_streams);
    leave(serve_datagrams);
    leave(serve_requests);
    leave(serve_iperf);
    leave(serve_sockperf);
    leave(serve_sockperf_tcp);
    return test_main(argc, argv);
}
