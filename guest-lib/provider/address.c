/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Addresses.  libfabric's caller names a peer by IP address and port, the card by
 * MAC address and service number.  The card is also a network interface, so its
 * IPv4 address stands for the card, and ARP by the kernel resolves a peer's address:
 * a datagram to the peer's discard port has the kernel ask, and netlink tells of
 * the answer.  The thread of a call waits for that answer (cm_caller.c); a request waits in the
 * list of its port until the fabric's netlink socket names its address (cm_acceptor.c).  No daemon
 * and no table of our own is needed, and a duplicate or a changed address is the kernel's to handle.
 */
#include "provider.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define DISCARD_PORT    9
#define ASK_AGAIN_MS    200
#define CHANGES         64      /* messages of the kernel about the table, read at a time */
#define FULL            4096    /* more messages than a socket has room for */
/* Of the card */
#define NEEDED  (UNETMM_CAP_RELIABLE | UNETMM_CAP_KEYED | UNETMM_CAP_IMMEDIATE)

static int card_info(struct unetmm_info *info)
{
    struct unetmm_ctx *ctx;
    int ret = unetmm_open(umfi_config.device, UNETMM_OBSERVE, &ctx);

    if (ret) {
        UMFI_INFO(FI_LOG_CORE, "%s: %s\n", umfi_config.device,
                  unetmm_strerror(ret, UNETMM_CALL_OPEN));
        return -FI_ENODATA;
    }
    *info = (struct unetmm_info) { .size = sizeof(*info) };
    ret = unetmm_info(ctx, info);
    unetmm_close(ctx);
    if (!ret && ~info->caps & NEEDED) {
        UMFI_INFO(FI_LOG_CORE, "the card has no reliable channels, or no operations by "
                  "key, or no immediates\n");
        ret = -EOPNOTSUPP;
    }
    return ret ? -FI_ENODATA : 0;
}

/* The interface with the card's MAC address. */
static bool find_name(const struct ifaddrs *all, struct umfi_netdev *dev)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        const struct sockaddr_ll *link = (const void *)i->ifa_addr;

        if (link && link->sll_family == AF_PACKET && link->sll_halen == 6 &&
            !memcmp(link->sll_addr, dev->mac, 6)) {
            strncpy(dev->name, i->ifa_name, sizeof(dev->name) - 1);
            dev->index = (unsigned)link->sll_ifindex;
            return true;
        }
    }
    return false;
}

static bool find_address(const struct ifaddrs *all, struct umfi_netdev *dev)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        const struct sockaddr_in *in = (const void *)i->ifa_addr;
        const struct sockaddr_in *mask = (const void *)i->ifa_netmask;

        if (in && in->sin_family == AF_INET && mask &&
            !strcmp(i->ifa_name, dev->name)) {
            dev->address = in->sin_addr;
            dev->mask = mask->sin_addr;
            return true;
        }
    }
    return false;
}

int umfi_netdev_find(struct umfi_netdev *dev)
{
    struct ifaddrs *all;
    int ret = -FI_ENODATA;

    memset(dev, 0, sizeof(*dev));
    if (card_info(&dev->limits)) {
        return -FI_ENODATA;
    }
    memcpy(dev->mac, dev->limits.mac, sizeof(dev->mac));
    if (getifaddrs(&all)) {
        return -FI_ENODATA;
    }
    if (!find_name(all, dev)) {
        UMFI_INFO(FI_LOG_CORE, "%s has no network interface: load the driver with "
                  "it\n", umfi_config.device);
    } else if (!find_address(all, dev)) {
        UMFI_INFO(FI_LOG_CORE, "%s has no IPv4 address: give it one\n", dev->name);
    } else {
        ret = 0;
    }
    freeifaddrs(all);
    return ret;
}

static bool is_own(const struct umfi_netdev *dev, struct in_addr to)
{
    return to.s_addr == dev->address.s_addr || ntohl(to.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool umfi_netdev_reaches(const struct umfi_netdev *dev, struct in_addr to)
{
    return is_own(dev, to) || !((to.s_addr ^ dev->address.s_addr) & dev->mask.s_addr);
}

/* ---- Asking the kernel ----------------------------------------------------- */

/* `groups`: RTMGRP_NEIGH for the changes of the neighbour table, or 0 for answers alone. */
static int open_netlink(unsigned groups)
{
    struct sockaddr_nl local = {
        .nl_family = AF_NETLINK,
        .nl_groups = groups,
    };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&local, sizeof(local))) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * For the entry of one address as it is now; later changes come by themselves.  The kernel answers
 * before send() returns.
 */
static bool ask_table(int fd, const struct umfi_netdev *dev, struct in_addr to)
{
    struct {
        struct nlmsghdr header;
        struct ndmsg entry;
        struct rtattr attr;
        struct in_addr address;
    } request = {
        .header = {
            .nlmsg_len = sizeof(request),
            .nlmsg_type = RTM_GETNEIGH,
            .nlmsg_flags = NLM_F_REQUEST,
        },
        .entry = { .ndm_family = AF_INET, .ndm_ifindex = (int)dev->index },
        .attr = { .rta_len = RTA_LENGTH(sizeof(to)), .rta_type = NDA_DST },
        .address = to,
    };

    return send(fd, &request, sizeof(request), 0) == sizeof(request);
}

/* Has the kernel send an ARP request, if it has no entry. */
static void ask_peer(const struct umfi_netdev *dev, struct in_addr to)
{
    struct sockaddr_in peer = {
        .sin_family = AF_INET,
        .sin_port = htons(DISCARD_PORT),
        .sin_addr = to,
    };
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr = dev->address };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return;
    }
    if (!bind(fd, (struct sockaddr *)&own, sizeof(own))) {
        sendto(fd, "", 1, MSG_DONTWAIT, (struct sockaddr *)&peer, sizeof(peer));
    }
    close(fd);
}

/* False: no entry with an address.  *mac is NULL if the kernel does not know its card. */
static bool parse_entry(const struct nlmsghdr *header, const struct umfi_netdev *dev,
                        struct in_addr *address, const uint8_t **mac)
{
    const int good = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE |
                     NUD_PERMANENT | NUD_NOARP;
    const struct ndmsg *entry = NLMSG_DATA(header);
    const struct rtattr *attr;
    bool has_address = false;
    int left;

    *mac = NULL;
    if (header->nlmsg_type != RTM_NEWNEIGH ||
        header->nlmsg_len < NLMSG_LENGTH(sizeof(*entry)) ||
        entry->ndm_ifindex != (int)dev->index || !(entry->ndm_state & (good | NUD_FAILED))) {
        return false;
    }
    left = (int)(header->nlmsg_len - NLMSG_LENGTH(sizeof(*entry)));
    for (attr = (const void *)((const char *)entry + NLMSG_ALIGN(sizeof(*entry)));
         RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
        if (attr->rta_type == NDA_DST && RTA_PAYLOAD(attr) == sizeof(*address)) {
            memcpy(address, RTA_DATA(attr), sizeof(*address));
            has_address = true;
        } else if (attr->rta_type == NDA_LLADDR && RTA_PAYLOAD(attr) == 6 &&
                   entry->ndm_state & good) {
            *mac = RTA_DATA(attr);
        }
    }
    return has_address;
}

/* Reads a message of the kernel, which may have many entries.  False: there is none; see errno. */
static bool read_entries(int fd, const struct umfi_netdev *dev, umfi_neighbour_fn *found, void *arg)
{
    union {
        struct nlmsghdr header;
        char bytes[16384];
    } buffer;
    ssize_t got = recv(fd, &buffer, sizeof(buffer), MSG_DONTWAIT);
    unsigned left = got > 0 ? (unsigned)got : 0;
    struct in_addr address;
    const uint8_t *mac;

    for (struct nlmsghdr *header = &buffer.header; NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
        if (parse_entry(header, dev, &address, &mac)) {
            found(arg, address, mac);
        }
    }
    return got >= 0;
}

struct sought {
    struct in_addr address;
    uint8_t *mac;
    bool found;
};

static void compare_entry(void *arg, struct in_addr address, const uint8_t *mac)
{
    struct sought *sought = arg;

    if (mac && address.s_addr == sought->address.s_addr) {
        memcpy(sought->mac, mac, 6);
        sought->found = true;
    }
}

static bool read_answer(int fd, const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6])
{
    struct sought sought = { .address = to, .mac = mac };

    read_entries(fd, dev, compare_entry, &sought);
    return sought.found;
}

static void close_at(void *fd)
{
    if (*(const int *)fd >= 0) {
        close(*(const int *)fd);
    }
}

/* Until the kernel knows the address, in time.  May be cancelled while it waits. */
static int await_answer(int fd, const struct umfi_netdev *dev, struct in_addr to,
                        uint8_t mac[6])
{
    int64_t end = umfi_now_ms() + umfi_config.connect_ms, left, asked = INT64_MIN;
    struct pollfd readable = { .fd = fd, .events = POLLIN };
    int state;

    while ((left = end - umfi_now_ms()) > 0) {
        if (asked == INT64_MIN || umfi_now_ms() - asked >= ASK_AGAIN_MS) {
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
            ask_peer(dev, to);
            pthread_setcancelstate(state, NULL);
            asked = umfi_now_ms();
        }
        if (poll(&readable, 1, (int)(left < ASK_AGAIN_MS ? left : ASK_AGAIN_MS)) > 0 &&
            read_answer(fd, dev, to, mac)) {
            return 0;
        }
    }
    return -FI_EHOSTUNREACH;
}

static int ask_neighbour_table(int fd, const struct umfi_netdev *dev, struct in_addr to,
                               uint8_t mac[6])
{
    if (fd < 0 || !ask_table(fd, dev, to)) {
        UMFI_WARN(FI_LOG_EP_CTRL, "netlink: %s\n", strerror(errno));
        return -FI_EHOSTUNREACH;
    }
    return await_answer(fd, dev, to, mac);
}

int umfi_resolve(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6])
{
    int fd, ret;

    if (is_own(dev, to)) {
        memcpy(mac, dev->mac, 6);
        return 0;
    }
    fd = open_netlink(RTMGRP_NEIGH);
    pthread_cleanup_push(close_at, &fd);
    ret = ask_neighbour_table(fd, dev, to, mac);
    pthread_cleanup_pop(1);
    return ret;
}

/* ---- Without waiting for a peer -------------------------------------------- */

int umfi_neighbours_open(void)
{
    return open_netlink(RTMGRP_NEIGH);
}

void umfi_neighbours_read(int fd, const struct umfi_netdev *dev, umfi_neighbour_fn *found,
                          void *arg)
{
    bool lost = false;

    /* A socket that was full gets no message until it is empty: it is read to its end. */
    for (unsigned i = 0; i < (lost ? FULL : CHANGES); i++) {
        if (read_entries(fd, dev, found, arg)) {
            continue;
        }
        if (errno != ENOBUFS) {
            break;
        }
        lost = true;
    }
    if (lost) {
        found(arg, (struct in_addr) { INADDR_ANY }, NULL);
    }
}

/* -FI_EAGAIN: the table has no entry. */
static int look_up_neighbour(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6])
{
    int fd = open_netlink(0), ret = -FI_EAGAIN;

    if (fd < 0 || !ask_table(fd, dev, to)) {
        UMFI_WARN(FI_LOG_EP_CTRL, "netlink: %s\n", strerror(errno));
        ret = -FI_EIO;
    } else if (read_answer(fd, dev, to, mac)) {
        ret = 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    return ret;
}

int umfi_find_card(const struct umfi_netdev *dev, struct in_addr address, uint8_t mac[6])
{
    int ret;

    if (!umfi_netdev_reaches(dev, address)) {
        return -FI_EACCES;
    }
    if (is_own(dev, address)) {
        memcpy(mac, dev->mac, 6);
        return 0;
    }
    ret = look_up_neighbour(dev, address, mac);
    if (ret == -FI_EAGAIN) {
        ask_peer(dev, address);
    }
    return ret;
}
