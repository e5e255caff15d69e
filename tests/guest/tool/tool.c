/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tools, as a person runs them, on the card: their output, their exit status,
 * and no remains of one that is killed.
 */
#include "link.h"
#include "process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOLE            "/sys/module/unetmm/parameters/hole"

/* ---- Two of them --------------------------------------------------------------- */

static void start_pair(const char *name, const char *options,
                       struct tool *listener, struct tool *caller)
{
    char command[512];

    snprintf(command, sizeof(command),
             "/usr/bin/unetmm-%s --listen --source %s --verify %s", name,
             source_word(), options);
    start(listener, command);
    snprintf(command, sizeof(command),
             "/usr/bin/unetmm-%s %s --source %s --verify --json %s", name,
             own_mac(), source_word(), options);
    start(caller, command);
}

/* Every size must have a row in which all is right. */
static void check_rows(const struct tool *caller, unsigned rows)
{
    char word[40];

    snprintf(word, sizeof(word), "\"source\":\"%s\"", source_word());
    CHECK_EQ(occurrences(caller->text, "\n"), rows);
    CHECK_EQ(occurrences(caller->text, word), rows);
    CHECK_EQ(occurrences(caller->text, "\"verified\":true"), rows);
    CHECK_EQ(occurrences(caller->text, "\"bad\":0"), rows);
    CHECK_EQ(occurrences(caller->text, "\"frame\":"), rows);
}

static void talk(const char *name, const char *options, unsigned rows)
{
    struct unetmm_ctx *ctx = open_card();
    uint64_t posts = driver_counter(ctx, UNETMM_D_ktlb_posts);
    struct tool listener, caller;
    int status;

    start_pair(name, options, &listener, &caller);
    status = await(&caller);
    expect(&caller, status, 0);
    status = await(&listener);
    expect(&listener, status, 0);
    check_rows(&caller, rows);
    posts = driver_counter(ctx, UNETMM_D_ktlb_posts) - posts;
    note("%llu posting calls", (unsigned long long)posts);
    CHECK_EQ(posts > 10, run.source == UNETMM_SOURCE_KTLB);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Fewer messages, and more patience, where all takes longer. */
static void talk_sizes(const char *name, const char *options, unsigned rows)
{
    char line[120];

    snprintf(line, sizeof(line), "%s --count %u --warmup 2 --timeout %u",
             options, 50 / run.slow, 10 * run.slow);
    talk(name, line, rows);
}

TEST(pingpong, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    talk_sizes("pingpong", "--size 8,1k,20000", 3);
}

TEST(bandwidth, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    talk_sizes("bw", "--size 64,20000 --bidir", 4);
}

/* By name; an invalid combination is refused before anything is opened. */
TEST(redirecting, TEST_TLB | TEST_SHADOW | TEST_ODP)
{
    struct tool tool;

    talk_sizes("pingpong", "--policy redirect --reliable --size 300,20000", 2);
    talk_sizes("bw", "--policy redirect --op write --size 20000", 1);
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-bw --listen --policy "
                           "redirect"), 2);
    expect_word(tool.errors, "--reliable");
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-bw --listen --reliable "
                           "--policy redirect --source pinned"), 1);
    expect_word(tool.errors, "need the source tlb, shadow or odp");
}

/*
 * Each way to a peer's memory, in each size that is a case of its own: shorter
 * than the number that ends a message, copied, in one packet, in several.
 */
TEST(operations, TEST_BOTH | TEST_SHADOW | TEST_ODP, 60)
{
    if (run.slow > 1) {
        /* To start a pair takes seconds there, and is most of this. */
        talk_sizes("pingpong", "--op write --size 8,20000", 2);
        talk_sizes("bw", "--op read --size 20000", 1);
        return;
    }
    talk_sizes("pingpong", "--op udma --size 4,4096", 2);
    talk_sizes("bw", "--op write --size 64,200000", 2);
    talk_sizes("bw", "--op read --size 64,200000", 2);
    if (run.source != UNETMM_SOURCE_TLB) {
        return;     /* the rest looks up no page, or is as these are */
    }
    talk_sizes("pingpong", "--op write --size 1,8,225,20000", 4);
    talk_sizes("pingpong", "--op write --block --size 8,20000", 2);
    talk_sizes("pingpong", "--op au --size 3,3000", 2);
    talk_sizes("pingpong", "--op au --combine 64 --size 8,3000", 2);
    talk_sizes("pingpong", "--op read --size 5,20000", 2);
    talk_sizes("pingpong", "--op atomic", 1);
}

/* The other one must say so, and end. */
static void check_left(struct tool *killed, struct tool *left)
{
    int status = await(killed);

    expect(killed, status, -SIGKILL);
    status = await(left);
    expect(left, status, 1);
    CHECK_EQ(occurrences(left->errors, "\n"), 1);
    expect_word(left->errors, "unetmm-pingpong: ");
}

/* Of one pair the caller, of another the listener, when messages flow. */
TEST(one_is_killed, TEST_MISS, 60)
{
    struct unetmm_ctx *ctx = open_card();
    uint64_t connects, received;
    struct tool listener[2], caller[2];
    char options[80];
    unsigned i;

    for (i = 0; i < 2; i++) {
        snprintf(options, sizeof(options), "--size 8000 --count 10000000 "
                 "--block --timeout %u --service %u", 10 * run.slow, 31 + i);
        connects = driver_counter(ctx, UNETMM_D_connects);
        start_pair("pingpong", options, &listener[i], &caller[i]);
        EVENTUALLY(driver_counter(ctx, UNETMM_D_connects) > connects);
        received = card_counter(ctx, UNETMM_C_rx_frames);
        EVENTUALLY(card_counter(ctx, UNETMM_C_rx_frames) > received + 20);
    }
    CHECK_SYS(kill(caller[0].pid, SIGKILL));
    CHECK_SYS(kill(listener[1].pid, SIGKILL));
    check_left(&caller[0], &listener[0]);
    check_left(&listener[1], &caller[1]);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- The examples -------------------------------------------------------------- */

/* A server, and clients; its input is a pipe that ends. */
static void example(const char *program, const char *answer, int clients,
                    struct tool *server)
{
    struct tool client;
    char command[80];
    int input[2], own, i;

    own = CHECK_SYS(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    CHECK_SYS(pipe(input));
    CHECK_SYS(fcntl(input[1], F_SETFD, FD_CLOEXEC));
    CHECK_SYS(dup2(input[0], STDIN_FILENO));
    start(server, program);
    CHECK_SYS(dup2(own, STDIN_FILENO));
    CHECK_SYS(close(input[0]));
    snprintf(command, sizeof(command), "/usr/bin/hello %s", own_mac());
    for (i = 0; i < clients; i++) {
        expect(&client, run_tool(&client, command), 0);
        expect_word(client.text, answer);
    }
    CHECK_SYS(close(input[1]));
    expect(server, await(server), 0);
}

TEST(examples, TEST_TLB)
{
    struct tool server;

    example("/usr/bin/epoll", "hello, out of ordinary memory", 3, &server);
    CHECK_EQ(occurrences(server.text, ": connected\n"), 3);
    example("/usr/bin/handlers", "that was number 1\n", 3, &server);
    CHECK_EQ(occurrences(server.text, "channel "), 3);
    CHECK_EQ(occurrences(server.text, ": 1 messages\n"), 3);
    example("/usr/bin/fd-loop", "hello, out of ordinary memory", 1, &server);
}

/* ---- A card's identity and counters ---------------------------------------------- */

static void set_hole(const char *value)
{
    int fd = CHECK_SYS(open(HOLE, O_WRONLY | O_CLOEXEC));

    CHECK_EQ(write(fd, value, 1), 1);
    CHECK_SYS(close(fd));
}

TEST(info, TEST_TLB)
{
    struct unetmm_info card = { .size = sizeof(card) };
    struct tool tool;
    char word[64];

    card_info(&card);
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-info"), 0);
    CHECK_EQ(tool.errors[0], '\0');
    expect_word(tool.text, own_mac());
    expect_word(tool.text, "tlb ktlb utlb shadow odp pinned\n");
    expect_word(tool.text, "0000:");
    snprintf(word, sizeof(word), "%u sets x %u way", card.tlb_sets,
             card.tlb_ways);
    expect_word(tool.text, word);
    CHECK(!strchr(tool.text, '!'));
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-info --list"), 0);
    CHECK_EQ(occurrences(tool.text, "\n"), 1);
    CHECK(!strncmp(tool.text, "/dev/unetmm0 ", 13));
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-info --json -c 0"), 0);
    snprintf(word, sizeof(word), "\"user_mtu\":%u,\"endpoints\":%u",
             card.user_mtu, card.endpoints);
    expect_word(tool.text, word);
    expect_word(tool.text, "\"hole\":false");
    expect_word(tool.text, "\"warnings\":[]");
    set_hole("Y");
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-info"), 0);
    set_hole("N");
    expect_word(tool.text, "! warning");
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-info --card 7"), 1);
    expect_word(tool.errors, "/dev/unetmm7: ");
}

TEST_NAMED("stat", counters, TEST_TLB)
{
    struct tool tool;

    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-stat --endpoint 0"), 0);
    expect_word(tool.text, "endpoint 0:\n");
    /* Nobody has it: neither zeros nor its last owner's counters. */
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-stat --endpoint 1"), 1);
    expect_word(tool.errors, "no such endpoint");
    CHECK_EQ(tool.text[0], '\0');
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-stat --endpoint 86400"), 1);
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-stat --json --all"), 0);
    expect_word(tool.text, "\"ktlb_posts\":");
    /* The driver's own endpoint, without the right to see it; and the rest all the same. */
    drop_capability(CAP_NET_ADMIN);
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-stat --endpoint 0"), 1);
    expect_word(tool.errors, "another process:");
    expect_word(tool.errors, "CAP_NET_ADMIN");
    CHECK_EQ(tool.text[0], '\0');
    expect(&tool, run_tool(&tool, "/usr/bin/unetmm-stat --json --all"), 0);
}
