/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card as an administrator sees it: ethtool's moderation, devlink's information,
 * parameters and health.
 */
#include "card.h"
#include "net.h"
#include "raw.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIN_LIMIT   "/sys/module/unetmm/parameters/pin_limit_pages"
#define MOST_US     4294967u

/* ---- ethtool ------------------------------------------------------------ */

/* 0 or -errno. */
static int coalesce(struct ethtool_coalesce *c, uint32_t command)
{
    int ret, fd = CHECK_SYS(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    struct ifreq request;

    memset(&request, 0, sizeof(request));
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s",
             net_device("unetmm"));
    request.ifr_data = (char *)c;
    c->cmd = command;
    ret = ioctl(fd, SIOCETHTOOL, &request) ? -errno : 0;
    close(fd);
    return ret;
}

static uint32_t moderation_us(void)
{
    struct ethtool_coalesce c = { .rx_coalesce_usecs = 77 };

    CHECK_RET(coalesce(&c, ETHTOOL_GCOALESCE), 0);
    return c.rx_coalesce_usecs;
}

static int moderate_us(uint32_t us)
{
    struct ethtool_coalesce c = { .rx_coalesce_usecs = us };

    return coalesce(&c, ETHTOOL_SCOALESCE);
}

/* Arms the queue and has the card complete something: a wake-up by interrupt. */
static void wake_up(struct raw *raw, int event_fd)
{
    struct unetmm_sqe *sqe = raw_sqe(raw, raw->sq_prod);
    struct unetmm_cqe cqe;
    uint64_t count;

    raw->index->user.cq_arm = UNETMM_ARM | (raw->cq_cons & UNETMM_ARM_COUNT);
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = UNETMM_OP_SEND;
    /* Which there is not: the completion says so. */
    sqe->channel = 5;
    raw->sq_prod++;
    raw_submit(raw);
    CHECK_EQ(read(event_fd, &count, sizeof(count)), sizeof(count));
    raw_await(raw, &cqe);
    CHECK_EQ(cqe.status, UNETMM_ST_BAD_CHANNEL);
}

/* How long one wake-up and n more take, from before the first on. */
static uint64_t wake_ups_ns(unsigned n)
{
    struct raw raw = { .fd = raw_open_space() };
    int event_fd = CHECK_SYS(eventfd(0, EFD_CLOEXEC));
    uint64_t begin;

    raw.ep = raw_request();
    raw.ep.event_fd = event_fd;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_ENDPOINT, &raw.ep), 0);
    raw_map(&raw);
    /* A process that is late to see the first one sees the others no later. */
    begin = now_ns();
    wake_up(&raw, event_fd);
    while (n--) {
        wake_up(&raw, event_fd);
    }
    begin = now_ns() - begin;
    raw_close(&raw);
    close(event_fd);
    return begin;
}

TEST(moderation, TEST_TLB | TEST_NO_CARD)
{
    struct ethtool_coalesce other = { .tx_coalesce_usecs = 1 };

    card_find();
    CHECK_EQ(moderation_us(), 0);
    CHECK_RET(moderate_us(MOST_US + 1), -ERANGE);
    CHECK_RET(moderate_us(UINT32_MAX), -ERANGE);
    CHECK_RET(coalesce(&other, ETHTOOL_SCOALESCE), -EOPNOTSUPP);
    CHECK_EQ(moderation_us(), 0);
    CHECK_RET(moderate_us(MOST_US), 0);
    CHECK_EQ(moderation_us(), MOST_US);
    CHECK_RET(moderate_us(50000), 0);
    /* At least from the first to the last: by the card's clock, which is as fast as ours. */
    CHECK(wake_ups_ns(3) > 140 * NS_PER_MS);
    card_write("reset", "1");
    CHECK_EQ(moderation_us(), 50000);
    CHECK(wake_ups_ns(3) > 140 * NS_PER_MS);
    CHECK_RET(moderate_us(0), 0);
    CHECK_EQ(moderation_us(), 0);
    card_check_works();
}

/* ---- devlink ------------------------------------------------------------ */

#define DEVICE "$(devlink dev | head -n 1)"

static void need_devlink(void)
{
    card_find();
    if (net_shell("devlink dev | grep -q .")) {
        test_skip("this kernel has no devlink");
    }
}

/* Does what devlink prints have a line with that? */
static bool says(const char *command, const char *pattern)
{
    return !net_shell("devlink %s | tr '\\n' ' ' | grep -q '%s'", command,
                      pattern);
}

TEST(info, TEST_TLB)
{
    need_devlink();
    CHECK(says("dev info " DEVICE, "driver unetmm "));
    CHECK(says("dev info " DEVICE, "board.id 1af4:10f0"));
    CHECK(says("dev info " DEVICE, "running: *fw [0-9]*\\.[0-9]"));
}

static int set(const char *name, const char *value)
{
    return net_shell("devlink dev param set " DEVICE
                     " name %s value %s cmode runtime 2>/dev/null", name, value);
}

static uint64_t pin_limit(void)
{
    struct unetmm_info i = { .size = sizeof(i) };
    int fd = raw_open_file();

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_INFO, &i), 0);
    close(fd);
    return i.pin_limit_pages;
}

TEST(parameters, TEST_TLB | TEST_NO_CARD)
{
    uint64_t before;

    need_devlink();
    before = pin_limit();
    CHECK(says("dev param show " DEVICE " name odp_batch", "value 1025"));
    /* One that is all cards' becomes this one's, and is then nobody else's. */
    CHECK_EQ(set("pin_limit_pages", "1234"), 0);
    CHECK(says("dev param show " DEVICE " name pin_limit_pages", "value 1234"));
    CHECK_EQ(pin_limit(), 1234);
    CHECK_EQ(net_shell("grep -q 1234 " PIN_LIMIT), 1);
    CHECK_RET(write_file(PIN_LIMIT, "4321"), 0);
    CHECK_EQ(pin_limit(), 1234);
    /* Also over a reset of the card, but not over its end. */
    card_write("reset", "1");
    CHECK_EQ(pin_limit(), 1234);
    CHECK_RET(card_unbind(), 0);
    CHECK_RET(card_bind(), 0);
    CHECK_EQ(pin_limit(), 4321);
    CHECK_EQ(net_shell("echo %llu >" PIN_LIMIT, (unsigned long long)before), 0);
    CHECK_EQ(pin_limit(), before);
    card_check_works();
}

TEST(refused_parameters, TEST_TLB)
{
    static const char *const values[][2] = {
        { "redirect_credits", "0" }, { "redirect_credits", "65" },
        { "backup_prefetch", "17" }, { "odp_batch", "0" },
        { "odp_batch", "1026" }, { "pager_workers", "7" },
        { "fault_moderate_ns", "100000001" }, { "page_ins", "0" },
    };
    unsigned i;

    need_devlink();
    for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (!set(values[i][0], values[i][1])) {
            FAIL("%s was set to %s", values[i][0], values[i][1]);
        }
    }
    CHECK(says("dev param show " DEVICE " name odp_batch", "value 1025"));
    CHECK(says("dev param show " DEVICE " name redirect_credits", "value 32"));
    CHECK_EQ(set("fault_moderate_ns", "1000"), 0);
    card_check_works();
    CHECK_EQ(set("fault_moderate_ns", "0"), 0);
}

static bool reports(const char *state)
{
    char pattern[40];

    snprintf(pattern, sizeof(pattern), "reporter card.* state %s ", state);
    return says("health show", pattern);
}

TEST(health, TEST_TLB | TEST_NO_CARD)
{
    struct unetmm_event event = { .size = sizeof(event), .count = 1 };
    int fd, ret;

    need_devlink();
    CHECK(reports("healthy"));
    fd = raw_open_space();
    expect_complaint("the card has failed and needs a reset: a command does not complete");
    card_memory_space(false);
    ret = raw_ioctl(fd, UNETMM_IOC_EVENT, &event);
    CHECK(ret == -EIO || ret == -ENODEV);
    EVENTUALLY(reports("error"));
    CHECK(says("health dump show " DEVICE " reporter card",
               "reason: a command does not complete"));
    CHECK(says("health dump show " DEVICE " reporter card",
               "status: .* notify_prod: .* command_timeouts: "));
    /* Nothing but the administrator revives it. */
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_EVENT, &event), -ENODEV);
    card_memory_space(true);
    CHECK_EQ(net_shell("devlink health recover " DEVICE " reporter card"), 0);
    CHECK(reports("healthy"));
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_EVENT, &event), -ENODEV);
    close(fd);
    card_check_works();
    CHECK_EQ(net_shell("devlink health dump clear " DEVICE " reporter card"), 0);
}
