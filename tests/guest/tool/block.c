/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The block server: reads return the written data, while others send impossible
 * requests, speak another protocol, or are killed.
 */
#include "guard.h"
#include "link.h"
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <block.h>

#define DISK            "/tmp/block.disk"
#define DISK_BYTES      ((off_t)4 << 20)
#define EXPORT          0xb1u
#define MEMORY          ((size_t)64 << 10)

static void make_disk(void)
{
    int fd = CHECK_SYS(open(DISK, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));

    CHECK_SYS(ftruncate(fd, DISK_BYTES));
    close(fd);
}

static void serve(struct tool *server, const char *options)
{
    char command[300];

    make_disk();
    snprintf(command, sizeof(command), "/usr/bin/unetmm-block --listen --file "
             DISK " --buffer 2M --chunk 128k --source %s --timeout %u %s",
             source_word(), 20 * run.slow, options);
    start(server, command);
}

static void load_start(struct tool *client, const char *options)
{
    char command[300];

    snprintf(command, sizeof(command), "/usr/bin/unetmm-block %s --json --size "
             "96k --source %s --seed %llu --timeout %u %s", own_mac(),
             source_word(), (unsigned long long)run.seed % 1000000,
             20 * run.slow, options);
    start(client, command);
}

static void load_right(struct tool *client)
{
    expect(client, await(client), 0);
    expect_word(client->text, "\"metric\":\"block\",\"bytes\":98304");
    expect_word(client->text, "\"verified\":true");
}

static void end_server(struct tool *server)
{
    CHECK_SYS(kill(server->pid, SIGTERM));
    expect(server, await(server), -SIGTERM);
    CHECK_SYS(unlink(DISK));
}

/* Written, read and written again by several sessions; all bytes checked. */
TEST(data, TEST_TLB | TEST_PINNED | TEST_SHADOW | TEST_ODP)
{
    struct tool server, client;
    char options[120];

    serve(&server, "");
    snprintf(options, sizeof(options), "--fill --verify --writes 40 "
             "--sessions 5 --depth 3 --count %u", 200 / run.slow);
    load_start(&client, options);
    load_right(&client);
    expect(&server, await(&server), 0);
    expect_word(server.text, " of 5 sessions\n");
    CHECK_SYS(unlink(DISK));
}

/* ---- A client with a protocol of its own ----------------------------------------- */

struct visitor {
    struct station station;
    uint8_t *memory;
};

/* Of the visitors' memory, as the server is told */
static uint64_t key, base;

static void visit(struct visitor *v, struct unetmm_ctx *ctx)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    uint8_t mac[6];
    int channel;

    attr.flags |= UNETMM_NOTIFY_CLOSE;
    card_mac(mac);
    station_open(&v->station, ctx, NULL);
    channel = unetmm_connect_ex(v->station.ep, mac, BLOCK_SERVICE,
                                20 * NS_PER_S * run.slow, &attr, NULL);
    CHECK(channel >= 0);
    v->station.channel = (unsigned)channel;
}

static void say(struct visitor *v, const void *words, size_t len)
{
    CHECK_RET(unetmm_send(v->station.ep, v->station.channel, words, len, 0,
                          UNETMM_INLINE | UNETMM_UNSIGNALED), 0);
}

static void ask(struct visitor *v, uint32_t op, uint64_t offset,
                uint32_t length, uint64_t remote)
{
    const struct block_request r = {
        .op = block_le32(op), .length = block_le32(length),
        .offset = block_le64(offset), .remote = block_le64(remote),
        .tag = 77,
    };

    say(v, &r, sizeof(r));
}

static uint32_t answer(struct visitor *v)
{
    struct unetmm_completion c;
    struct block_reply r;

    take(&v->station, UNETMM_CQE_RECEIVED, &c);
    CHECK(c.is_inline);
    CHECK_EQ(c.len, sizeof(r));
    memcpy(&r, c.data, sizeof(r));
    CHECK_EQ(r.tag, 77);
    return block_le32(r.error);
}

static void sent_away(struct visitor *v)
{
    struct unetmm_completion c;

    take(&v->station, UNETMM_CQE_CLOSED, &c);
    station_close(&v->station);
}

/* Is no request, or not when it came: the session ends. */
static void other_protocols(struct unetmm_ctx *ctx)
{
    static const uint8_t words[40] = "GET / HTTP/1.1\r\n\r\n";
    struct visitor v;

    visit(&v, ctx);
    say(&v, words, 17);
    sent_away(&v);
    visit(&v, ctx);
    say(&v, words, sizeof(struct block_request));
    sent_away(&v);
    visit(&v, ctx);
    ask(&v, BLOCK_READ, 0, 512, 0);
    sent_away(&v);
    visit(&v, ctx);
    ask(&v, BLOCK_HELLO, 0, 0, key);
    CHECK_EQ(answer(&v), 0);
    ask(&v, BLOCK_HELLO, 0, 0, key);
    sent_away(&v);
}

/* Cannot be: a reply says why, and the session goes on. */
static void impossible(struct unetmm_ctx *ctx, const uint8_t *memory)
{
    struct visitor v;

    visit(&v, ctx);
    ask(&v, BLOCK_HELLO, 0, 0, key ^ 1);
    CHECK_EQ(answer(&v), 0);
    ask(&v, BLOCK_READ, 0, 4096, base);
    CHECK_EQ(answer(&v), EREMOTEIO);
    station_close(&v.station);
    visit(&v, ctx);
    ask(&v, BLOCK_HELLO, 0, 0, UINT64_MAX);
    CHECK_EQ(answer(&v), 0);
    ask(&v, BLOCK_READ, 0, 4096, base);
    CHECK_EQ(answer(&v), EINVAL);
    station_close(&v.station);
    visit(&v, ctx);
    ask(&v, BLOCK_HELLO, 0, 0, key);
    CHECK_EQ(answer(&v), 0);
    ask(&v, BLOCK_READ, 0, 0, 0);
    CHECK_EQ(answer(&v), EINVAL);
    ask(&v, BLOCK_READ, 0, 1u << 30, 0);
    CHECK_EQ(answer(&v), EINVAL);
    ask(&v, BLOCK_READ, 100, 512, 0);
    CHECK_EQ(answer(&v), EINVAL);
    ask(&v, BLOCK_WRITE, (uint64_t)DISK_BYTES, 512, 0);
    CHECK_EQ(answer(&v), ENOSPC);
    ask(&v, BLOCK_READ, UINT64_MAX - 511, 1024, 0);
    CHECK_EQ(answer(&v), ENOSPC);
    ask(&v, BLOCK_READ, 0, 4096, base + MEMORY - 4095);
    CHECK_EQ(answer(&v), EREMOTEIO);
    ask(&v, BLOCK_WRITE, 0, 4096, UINT64_MAX - 100);
    CHECK_EQ(answer(&v), EREMOTEIO);
    CHECK_BYTES(memory, MEMORY, 0x5a);
    ask(&v, BLOCK_READ, 0, 4096, base + MEMORY - 4096);
    CHECK_EQ(answer(&v), 0);
    CHECK_BYTES(memory, MEMORY - 4096, 0x5a);
    station_close(&v.station);
}

/* The honest client beside them sees nothing of it. */
TEST(garbage, TEST_ODP)
{
    struct unetmm_ctx *ctx = open_card();
    uint8_t *memory = pages(MEMORY / PAGE);
    struct tool server, client;

    memset(memory, 0x5a, MEMORY);
    CHECK_RET(unetmm_export(ctx, EXPORT, memory, MEMORY, UNETMM_RIGHT_READ |
                            UNETMM_RIGHT_WRITE, UNETMM_EXPORT_KEYED, 0), 0);
    CHECK_RET(unetmm_export_key(ctx, EXPORT, &key, &base), 0);
    serve(&server, "--forever");
    load_start(&client, "--fill --verify --writes 20 --count 60");
    other_protocols(ctx);
    impossible(ctx, memory);
    load_right(&client);
    CHECK_RET(unetmm_unexport(ctx, EXPORT), 0);
    CHECK_RET(unetmm_close(ctx), 0);
    unmap_pages(memory, MEMORY / PAGE);
    end_server(&server);
}

/* In the middle of its requests: the server has its chunks for others. */
TEST(killed, TEST_PINNED | TEST_ODP)
{
    struct unetmm_ctx *ctx = open_card();
    struct tool server, victim, client;
    uint64_t writes;
    unsigned i;

    serve(&server, "--forever");
    for (i = 0; i < rounds(3); i++) {
        writes = card_counter(ctx, UNETMM_C_rel_writes);
        load_start(&victim, "--count 1000000 --sessions 2 --depth 10");
        EVENTUALLY(card_counter(ctx, UNETMM_C_rel_writes) > writes + 20);
        CHECK_SYS(kill(victim.pid, SIGKILL));
        expect(&victim, await(&victim), -SIGKILL);
    }
    load_start(&client, "--fill --verify --writes 20 --depth 16 --count 60");
    load_right(&client);
    CHECK_RET(unetmm_close(ctx), 0);
    end_server(&server);
}
