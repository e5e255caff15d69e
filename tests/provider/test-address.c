/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses: the neighbour table of a kernel that is a variable of the test. */
#include "../one_test.h"
#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "provider.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, start, end)

#define TABLE_FD    1000
#define DATAGRAM_FD 1001
#define INDEX       7

const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .connect_ms = 500 };
struct fi_provider umfi_provider = { .name = UMFI_NAME };

/* ---- The kernel --------------------------------------------------------------- */

static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 2 };
static uint16_t entry_state;        /* NUD_*, of the only entry */
static bool has_entry, asked;       /* asked: RTM_GETNEIGH waits for its answer */
static bool refuses_netlink;
static bool overflowed;             /* the table's socket has lost changes */
static unsigned queued;             /* changes in it, besides */
static int answers_after;           /* polls, of the peer; -1: never */
static unsigned polls, datagrams, open_fds;

int __wrap_socket(int family, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags,
                      const struct sockaddr *to, socklen_t to_len);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_close(int fd);

int __wrap_socket(int family, int type, int protocol)
{
    if (family == AF_NETLINK && refuses_netlink) {
        errno = EMFILE;
        return -1;
    }
    open_fds++;
    return family == AF_NETLINK ? TABLE_FD : DATAGRAM_FD;
}

int __wrap_close(int fd)
{
    assert_true(fd == TABLE_FD || fd == DATAGRAM_FD);
    open_fds--;
    return 0;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    return 0;
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
    const struct nlmsghdr *header = buf;

    assert_int_equal(fd, TABLE_FD);
    assert_int_equal(header->nlmsg_len, len);
    assert_int_equal(header->nlmsg_type, RTM_GETNEIGH);
    asked = true;
    return (ssize_t)len;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags,
                      const struct sockaddr *to, socklen_t to_len)
{
    assert_int_equal(fd, DATAGRAM_FD);
    datagrams++;
    return (ssize_t)len;
}

static size_t put_entry(void *buf)
{
    struct answer {
        struct nlmsghdr header;
        struct ndmsg entry;
        struct rtattr to;
        struct in_addr address;
        struct rtattr link;
        uint8_t mac[8];
    } answer = {
        .header = { .nlmsg_len = sizeof(answer), .nlmsg_type = RTM_NEWNEIGH },
        .entry = {
            .ndm_family = AF_INET, .ndm_ifindex = INDEX, .ndm_state = entry_state,
        },
        .to = { .rta_len = RTA_LENGTH(4), .rta_type = NDA_DST },
        .address = { htonl(0x0a070002) },
        .link = { .rta_len = RTA_LENGTH(6), .rta_type = NDA_LLADDR },
    };

    memcpy(answer.mac, peer_mac, 6);
    memcpy(buf, &answer, sizeof(answer));
    return sizeof(answer);
}

static size_t put_error(void *buf)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } answer = {
        .header = { .nlmsg_len = sizeof(answer), .nlmsg_type = NLMSG_ERROR },
        .error = { .error = -ENOENT },
    };

    memcpy(buf, &answer, sizeof(answer));
    return sizeof(answer);
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
    assert_int_equal(fd, TABLE_FD);
    assert_int_equal(flags, MSG_DONTWAIT);
    if (overflowed) {
        overflowed = false;
        errno = ENOBUFS;
        return -1;
    }
    if (queued) {
        queued--;
    } else if (!asked) {
        errno = EAGAIN;
        return -1;
    } else {
        asked = false;
    }
    return (ssize_t)(has_entry ? put_entry(buf) : put_error(buf));
}

/* The peer answers the kernel, which tells of the change. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    polls++;
    if (answers_after >= 0 && polls > (unsigned)answers_after && datagrams) {
        has_entry = asked = true;
        entry_state = NUD_REACHABLE;
        return 1;
    }
    return asked;
}

int unetmm_open(const char *path, unsigned source, struct unetmm_ctx **ctx)
{
    fail();
    return 0;
}

int unetmm_info(struct unetmm_ctx *ctx, struct unetmm_info *info)
{
    fail();
    return 0;
}

int unetmm_close(struct unetmm_ctx *ctx)
{
    fail();
    return 0;
}

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    return "";
}

/* ---- Tests -------------------------------------------------------------------- */

static const struct umfi_netdev dev = {
    .index = INDEX, .address = { 0x0100070a }, .mask = { 0x00ffffff },
    .mac = { 2, 0, 0, 0, 0, 1 },
};
static const struct in_addr peer = { 0x0200070a };

static int start(void **state)
{
    has_entry = asked = refuses_netlink = overflowed = false;
    queued = 0;
    answers_after = -1;
    polls = datagrams = open_fds = 0;
    return 0;
}

static int end(void **state)
{
    assert_int_equal(open_fds, 0);
    return 0;
}

/* A reader of an event queue asks: in no case the call waits. */
TEST(check_does_not_wait, scene_test)
{
    const uint16_t states[] = {
        NUD_INCOMPLETE, NUD_FAILED, NUD_REACHABLE, NUD_STALE, NUD_PERMANENT,
    };
    uint8_t mac[6];

    assert_int_equal(umfi_find_card(&dev, peer, mac), -FI_EAGAIN);
    assert_int_equal(datagrams, 1);
    has_entry = true;
    for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        bool known = states[i] != NUD_INCOMPLETE && states[i] != NUD_FAILED;

        entry_state = states[i];
        memset(mac, 0, 6);
        assert_int_equal(umfi_find_card(&dev, peer, mac), known ? 0 : -FI_EAGAIN);
        assert_int_equal(!memcmp(mac, peer_mac, 6), known);
    }
    /* The entry of another address is no answer. */
    assert_int_equal(umfi_find_card(&dev, (struct in_addr) { 0x0300070a }, mac), -FI_EAGAIN);
    /* Its own address, and one beyond the subnet, are in no table. */
    has_entry = false;
    assert_int_equal(umfi_find_card(&dev, dev.address, mac), 0);
    assert_memory_equal(mac, dev.mac, 6);
    assert_int_equal(umfi_find_card(&dev, (struct in_addr) { 0x0200080a }, mac), -FI_EACCES);
    refuses_netlink = true;
    assert_int_equal(umfi_find_card(&dev, peer, mac), -FI_EIO);
    assert_int_equal(polls, 0);
}

static unsigned changes, failures, losses;

static void found(void *arg, struct in_addr address, const uint8_t *mac)
{
    assert_ptr_equal(arg, &changes);
    if (address.s_addr == INADDR_ANY) {
        assert_null(mac);
        assert_int_equal(queued, 0);
        losses++;
        return;
    }
    assert_int_equal(address.s_addr, peer.s_addr);
    if (mac) {
        assert_memory_equal(mac, peer_mac, 6);
        changes++;
    } else {
        failures++;
    }
}

TEST(changes_are_read, scene_test)
{
    int fd = umfi_neighbours_open();

    changes = failures = losses = 0;
    assert_int_equal(fd, TABLE_FD);
    umfi_neighbours_read(fd, &dev, found, &changes);
    has_entry = asked = true;
    entry_state = NUD_REACHABLE;
    umfi_neighbours_read(fd, &dev, found, &changes);
    umfi_neighbours_read(fd, &dev, found, &changes);
    assert_int_equal(changes, 1);
    /* The peer does not answer the kernel. */
    asked = true;
    entry_state = NUD_FAILED;
    umfi_neighbours_read(fd, &dev, found, &changes);
    assert_int_equal(changes, 1);
    assert_int_equal(failures, 1);
    /* A turn reads some of them, and a later turn the others. */
    entry_state = NUD_REACHABLE;
    queued = 100;
    umfi_neighbours_read(fd, &dev, found, &changes);
    assert_in_range(queued, 1, 99);
    umfi_neighbours_read(fd, &dev, found, &changes);
    assert_int_equal(changes, 101);
    /* Some changes are lost: the rest is read to its end, and any entry may have changed. */
    overflowed = true;
    queued = 300;
    umfi_neighbours_read(fd, &dev, found, &changes);
    assert_int_equal(changes, 401);
    assert_int_equal(losses, 1);
    close(fd);
}

/* fi_connect() waits for the kernel's answer. */
TEST(resolve_waits, scene_test)
{
    uint8_t mac[6];

    answers_after = 3;
    assert_int_equal(umfi_resolve(&dev, peer, mac), 0);
    assert_memory_equal(mac, peer_mac, 6);
    assert_int_equal(datagrams, 1);
    start(state);
    umfi_config.connect_ms = 1;
    assert_int_equal(umfi_resolve(&dev, peer, mac), -FI_EHOSTUNREACH);
    assert_int_equal(umfi_resolve(&dev, dev.address, mac), 0);
    assert_memory_equal(mac, dev.mac, 6);
}
