/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations by key: on exports that allow them, and on a whole address space, where a
 * peer reaches the pages that the process itself could use, and has errors for others.
 */
#include "huge.h"
#include "link.h"
#include "raw.h"

#include <libunetmm/inline.h>

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID              5
#define SERVICE         (SERVICE_FIRST - 11)
#define ALL             UNETMM_RIGHT_ALL
#define PATIENCE        (10 * NS_PER_S * run.slow)
#define TEST_KEYED      (TEST_BOTH | TEST_UTLB | TEST_SHADOW | TEST_ODP)

/* `one` uses the memory of `two`, which is in the same process. */
struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *mine;
    uint64_t key, base;
};

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

static void scene_open(struct scene *s)
{
    s->ctx = open_card();
    station_open(&s->one, s->ctx, NULL);
    station_open(&s->two, s->ctx, NULL);
    CHECK_RET(try_join(&s->one, &s->two, &usual, PATIENCE), 0);
    s->mine = pages(1);
    reach(s->ctx, s->mine, PAGE, true);
}

static void scene_export(struct scene *s, void *at, size_t length,
                         unsigned rights, unsigned flags)
{
    CHECK_RET(unetmm_export(s->ctx, ID, at, length, rights, flags, 7), 0);
    CHECK_RET(unetmm_export_key(s->ctx, ID, &s->key, &s->base), 0);
    CHECK_EQ(s->base, (uintptr_t)at);
}

static void scene_close(struct scene *s)
{
    station_close(&s->one);
    station_close(&s->two);
    CHECK_RET(unetmm_close(s->ctx), 0);
}

/* The status of an operation. */
static unsigned status_of(struct scene *s, int posted)
{
    struct unetmm_completion c;

    CHECK_RET(posted, 0);
    take(&s->one, UNETMM_CQE_SENT, &c);
    return c.status;
}

static unsigned write_to(struct scene *s, uint64_t key, uint64_t at,
                         const void *from, size_t len)
{
    return status_of(s, unetmm_write_key(s->one.ep, s->one.channel, key, at, from,
                                         len, 0, 1, 0));
}

static unsigned read_from(struct scene *s, uint64_t key, uint64_t at, size_t len)
{
    return status_of(s, unetmm_read_key(s->one.ep, s->one.channel, key, at, s->mine,
                                        len, 2, 0));
}

static uint64_t address(const void *at)
{
    return (uintptr_t)at;
}

/* ---- Exports that allow it ------------------------------------------------------------ */

static uint64_t words[2] = { 40, 7 };

TEST(all_operations, TEST_KEYED)
{
    uint8_t *own = pages(3);
    struct unetmm_completion c;
    struct scene s;

    scene_open(&s);
    scene_export(&s, own, 3 * PAGE, ALL, UNETMM_EXPORT_KEYED | UNETMM_EXPORT_NOTIFY);
    pattern_fill(s.mine, PAGE, 1, 0);
    CHECK_EQ(write_to(&s, s.key, address(own) + 1234, s.mine, PAGE), UNETMM_ST_OK);
    CHECK_PATTERN(own + 1234, PAGE, 1);
    memset(s.mine, 0, PAGE);
    CHECK_EQ(read_from(&s, s.key, address(own) + 1234, PAGE), UNETMM_ST_OK);
    CHECK_PATTERN(s.mine, PAGE, 1);
    memcpy(own, words, sizeof(words));
    CHECK_RET(unetmm_fetch_add_key(s.one.ep, s.one.channel, s.key, address(own), 2, 3,
                                   0), 0);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(unetmm_old_value(&c), 40);
    CHECK_RET(unetmm_cmp_swap_key(s.one.ep, s.one.channel, s.key, address(own) + 8, 7,
                                  9, 4, 0), 0);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(unetmm_old_value(&c), 7);
    CHECK_EQ(((uint64_t *)(void *)own)[0], 42);
    CHECK_EQ(((uint64_t *)(void *)own)[1], 9);
    CHECK_RET(unetmm_write_key(s.one.ep, s.one.channel, s.key, address(own) + 5, "x", 1,
                               99, 5, UNETMM_NOTIFY | UNETMM_UNSIGNALED), 0);
    take(&s.two, UNETMM_CQE_NOTIFY, &c);
    CHECK_EQ(c.user_data, 7);
    CHECK_EQ(unetmm_notify_offset(&c), 5);
    CHECK_EQ(unetmm_notify_imm(&c), 99);
    scene_close(&s);
}

TEST(refused, TEST_KEYED)
{
    uint8_t *own = pages(2);
    struct scene s;
    uint64_t key, base;

    scene_open(&s);
    scene_export(&s, own, PAGE, UNETMM_RIGHT_READ, UNETMM_EXPORT_KEYED);
    /* On this side */
    CHECK_RET(unetmm_write_key(s.one.ep, s.one.channel, 1ull << 48, 0, own, 1, 0, 0, 0),
              -EINVAL);
    CHECK_RET(unetmm_write_key(s.one.ep, s.one.channel, s.key, 0, own, 1, 1, 0, 0),
              -EINVAL);
    CHECK_RET(unetmm_read_key(s.one.ep, s.one.channel, s.key, 0, own, 0, 0, 0), -EINVAL);
    CHECK_RET(unetmm_read_key(s.one.ep, s.one.channel, s.key, 0, own, 1, 0, 0x40),
              -EINVAL);
    CHECK_RET(unetmm_read_key(s.one.ep, 0x10000 + s.one.channel, s.key, 0, own, 1, 0, 0),
              -ENOENT);
    CHECK_RET(unetmm_fetch_add_key(s.one.ep, 0x10000 + s.one.channel, s.key, 0, 1, 0, 0),
              -ENOENT);
    CHECK_RET(unetmm_export_key(s.ctx, ID + 1, &key, &base), -ENOENT);
    /* Its peers need the key: one that knows the number alone gets nothing. */
    CHECK_RET(unetmm_import(s.one.ep, s.one.channel, ID, UNETMM_RIGHT_READ, 0, NULL),
              -ETIMEDOUT);
    /* By the peer */
    CHECK_EQ(write_to(&s, s.key, address(own), s.mine, 1), UNETMM_ST_REMOTE_RIGHT);
    CHECK_EQ(read_from(&s, s.key, address(own) - 1, 1), UNETMM_ST_REMOTE_RANGE);
    CHECK_EQ(read_from(&s, s.key, address(own) + PAGE, 1), UNETMM_ST_REMOTE_RANGE);
    CHECK_EQ(read_from(&s, s.key, 0, 1), UNETMM_ST_REMOTE_RANGE);
    CHECK_EQ(read_from(&s, s.key, address(own), PAGE), UNETMM_ST_OK);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_rel_bad_keys), 0);
    /* An export without the flag has no key. */
    CHECK_RET(unetmm_export(s.ctx, ID + 1, own + PAGE, PAGE, ALL, 0, 0), 0);
    CHECK_RET(unetmm_export_key(s.ctx, ID + 1, &key, &base), -ENOENT);
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK_RET(unetmm_export_key(s.ctx, ID, &key, &base), -ENOENT);
    CHECK_EQ(read_from(&s, s.key, address(own), 1), UNETMM_ST_REVOKED);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_rel_bad_keys), 0);
    scene_close(&s);
}

/*
 * The exporter takes its memory back, and exports it again, while operations are on their
 * way: these fail, and are no guesses.
 */
TEST(taken_back, TEST_KEYED)
{
    uint8_t *own = pages(1);
    uint64_t old;
    struct scene s;
    unsigned i;

    scene_open(&s);
    scene_export(&s, own, PAGE, ALL, UNETMM_EXPORT_KEYED);
    old = s.key;
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    for (i = 0; i < 2 * UNETMM_BAD_KEYS; i++) {
        CHECK_EQ(write_to(&s, old, address(own), "late", 4), UNETMM_ST_REVOKED);
    }
    scene_export(&s, own, PAGE, ALL, UNETMM_EXPORT_KEYED);
    for (i = 0; i < 2 * UNETMM_BAD_KEYS; i++) {
        CHECK_EQ(write_to(&s, old, address(own), "late", 4), UNETMM_ST_REVOKED);
    }
    CHECK_BYTES(own, PAGE, 0);
    CHECK_EQ(write_to(&s, s.key, address(own), "right", 5), UNETMM_ST_OK);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_rel_bad_keys), 0);
    scene_close(&s);
}

/* Each is counted at the exporter; the last ends the channel, and that alone. */
TEST(guesses, TEST_KEYED)
{
    struct unetmm_channel_attr telling = usual;
    uint8_t *own = pages(1);
    struct unetmm_completion c;
    struct scene s;
    unsigned i;

    scene_open(&s);
    telling.flags |= UNETMM_NOTIFY_CLOSE;
    CHECK_RET(try_join(&s.one, &s.two, &telling, PATIENCE), 0);
    scene_export(&s, own, PAGE, ALL, UNETMM_EXPORT_KEYED);
    for (i = 1; i < UNETMM_BAD_KEYS; i++) {
        CHECK_EQ(write_to(&s, s.key ^ i, address(own), "guess", 5), UNETMM_ST_REVOKED);
        CHECK_EQ(ep_counter(&s.two, UNETMM_C_rel_bad_keys), i);
    }
    CHECK_EQ(write_to(&s, s.key, address(own), "right", 5), UNETMM_ST_OK);
    CHECK_EQ(write_to(&s, s.key ^ i, address(own), "guess", 5), UNETMM_ST_PEER_FAILED);
    take(&s.two, UNETMM_CQE_CLOSED, &c);
    CHECK_EQ(c.status, UNETMM_ST_BAD_KEYS);
    take(&s.one, UNETMM_CQE_CLOSED, &c);
    CHECK_EQ(c.status, UNETMM_ST_PEER_FAILED);
    CHECK_BYTES(own + 5, PAGE - 5, 0);
    CHECK(!memcmp(own, "right", 5));
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_rel_bad_keys), UNETMM_BAD_KEYS);
    /* Another channel begins anew. */
    CHECK_RET(try_join(&s.one, &s.two, &usual, PATIENCE), 0);
    CHECK_EQ(write_to(&s, s.key ^ 1, address(own), "guess", 5), UNETMM_ST_REVOKED);
    CHECK_EQ(write_to(&s, s.key, address(own), "again", 5), UNETMM_ST_OK);
    scene_close(&s);
}

/* Many at a time are no more of them. */
TEST(guesses_at_once, TEST_KEYED)
{
    uint8_t *own = pages(1);
    unsigned i, n = 0, done;
    struct unetmm_completion c;
    struct scene s;

    scene_open(&s);
    scene_export(&s, own, PAGE, ALL, UNETMM_EXPORT_KEYED);
    for (i = 0; i < 40; i++) {
        n += unetmm_write_key(s.one.ep, s.one.channel,
                              i == 20 ? s.key : s.key ^ (i + 1), address(own), "guess", 5,
                              0, i, i < 39 ? UNETMM_MORE : 0) == 0;
    }
    for (done = 0; done < n; done++) {
        take(&s.one, UNETMM_CQE_SENT, &c);
        CHECK(c.status != UNETMM_ST_OK);
    }
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_rel_bad_keys), UNETMM_BAD_KEYS);
    CHECK_BYTES(own, PAGE, 0);
    scene_close(&s);
}

/* ---- The whole space ------------------------------------------------------------------- */

TEST(whole_refused, TEST_KEYED)
{
    const unsigned whole = UNETMM_EXPORT_WHOLE;
    struct unetmm_ctx *ctx = open_card();
    uint8_t *own = pages(1);

    if (run.source != UNETMM_SOURCE_ODP) {
        CHECK_RET(unetmm_export(ctx, ID, NULL, 0, ALL, whole, 0), -EOPNOTSUPP);
        CHECK_RET(unetmm_close(ctx), 0);
        return;
    }
    CHECK_RET(unetmm_export(ctx, ID, own, 0, ALL, whole, 0), -EINVAL);
    CHECK_RET(unetmm_export(ctx, ID, NULL, PAGE, ALL, whole, 0), -EINVAL);
    CHECK_RET(unetmm_export(ctx, ID, NULL, 0, 0, whole, 0), -EINVAL);
    CHECK_RET(unetmm_export(ctx, ID, NULL, 0, ALL, whole | UNETMM_EXPORT_REDIRECT, 0),
              -EINVAL);
    CHECK_RET(unetmm_export(ctx, ID, NULL, 0, ALL, whole, 0), 0);
    CHECK_RET(unetmm_export(ctx, ID, NULL, 0, ALL, whole, 0), -EEXIST);
    /* A part of it may have rights, and a key, of its own. */
    CHECK_RET(unetmm_export(ctx, ID + 1, own, PAGE, ALL, UNETMM_EXPORT_KEYED, 0), 0);
    CHECK_RET(unetmm_export(ctx, ID + 2, NULL, 0, UNETMM_RIGHT_READ, whole, 0), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

static uint8_t in_data[PAGE];

/* Any memory of the process, when it is used: nothing was said of it before. */
TEST(whole, TEST_ODP)
{
    uint8_t on_stack[100], *later;
    struct scene s;

    scene_open(&s);
    scene_export(&s, NULL, 0, ALL, UNETMM_EXPORT_WHOLE);
    pattern_fill(s.mine, PAGE, 3, 0);
    CHECK_EQ(write_to(&s, s.key, address(in_data), s.mine, PAGE), UNETMM_ST_OK);
    CHECK_PATTERN(in_data, PAGE, 3);
    CHECK_EQ(write_to(&s, s.key, address(on_stack), s.mine, 100), UNETMM_ST_OK);
    CHECK_PATTERN(on_stack, 100, 3);
    later = pages(1000);
    CHECK_EQ(write_to(&s, s.key, address(later) + 999 * PAGE, s.mine, PAGE),
             UNETMM_ST_OK);
    CHECK_PATTERN(later + 999 * PAGE, PAGE, 3);
    CHECK_EQ(read_from(&s, s.key, address(&whole), 16), UNETMM_ST_OK);
    unmap_pages(later, 1000);
    CHECK_EQ(write_to(&s, s.key, address(later) + 999 * PAGE, s.mine, PAGE),
             UNETMM_ST_REMOTE_MEMORY);
    scene_close(&s);
}

/* An address that the process could not use is an error for the peer, no more. */
TEST(holes, TEST_ODP)
{
    static const uint64_t beyond[] = {
        1ull << 47, 0xffff800000000000ull, 0xffffffff81000000ull,
        UINT64_MAX - 7, UINT64_MAX,
    };
    uint8_t *at = pages(8), *doorbell;
    struct raw raw;
    struct scene s;
    unsigned i;

    scene_open(&s);
    scene_export(&s, NULL, 0, ALL, UNETMM_EXPORT_WHOLE);
    memset(at, 1, 8 * PAGE);
    CHECK_SYS(munmap(at + PAGE, PAGE));
    CHECK_SYS(mprotect(at + 2 * PAGE, PAGE, PROT_READ));
    CHECK_SYS(mprotect(at + 3 * PAGE, PAGE, PROT_NONE));
    for (i = 0; i < 3; i++) {
        CHECK_EQ(write_to(&s, s.key, address(at) + (i + 1) * PAGE, "bad", 3),
                 UNETMM_ST_REMOTE_MEMORY);
        CHECK_EQ(status_of(&s, unetmm_fetch_add_key(s.one.ep, s.one.channel, s.key,
                                                    address(at) + (i + 1) * PAGE, 1, 1,
                                                    0)), UNETMM_ST_REMOTE_MEMORY);
        CHECK_EQ(read_from(&s, s.key, address(at) + (i + 1) * PAGE, 8),
                 i == 1 ? UNETMM_ST_OK : UNETMM_ST_REMOTE_MEMORY);
    }
    /* Over the edge of one */
    CHECK_EQ(write_to(&s, s.key, address(at) + PAGE - 2, "bad", 3),
             UNETMM_ST_REMOTE_MEMORY);
    CHECK_EQ(write_to(&s, s.key, 0, "bad", 3), UNETMM_ST_REMOTE_MEMORY);
    CHECK_EQ(read_from(&s, s.key, 0, 8), UNETMM_ST_REMOTE_MEMORY);
    for (i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        /* The first is a process's on a processor with longer addresses. */
        unsigned status = write_to(&s, s.key, beyond[i], "bad", 3);

        CHECK(status == UNETMM_ST_REMOTE_RANGE ||
              (i == 0 && status == UNETMM_ST_REMOTE_MEMORY));
        CHECK_EQ(read_from(&s, s.key, beyond[i], 8), status);
    }
    /* Text is read only, the doorbells are a device's. */
    CHECK_EQ(write_to(&s, s.key, address(&holes), "bad", 3), UNETMM_ST_REMOTE_MEMORY);
    raw_open(&raw);
    doorbell = (uint8_t *)(uintptr_t)raw.doorbell;
    CHECK_EQ(write_to(&s, s.key, address(doorbell), "bad", 3), UNETMM_ST_REMOTE_MEMORY);
    CHECK_EQ(read_from(&s, s.key, address(doorbell), 8), UNETMM_ST_REMOTE_MEMORY);
    raw_close(&raw);
    /* The channel is as good as before. */
    CHECK_EQ(write_to(&s, s.key, address(at), "good", 4), UNETMM_ST_OK);
    CHECK(!memcmp(at, "good", 4));
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_rel_bad_keys), 0);
    scene_close(&s);
}

/* Nothing is written below a stack, which would grow for the process itself. */
TEST(stack_gap, TEST_ODP)
{
    uint8_t *stack;
    struct scene s;

    scene_open(&s);
    scene_export(&s, NULL, 0, ALL, UNETMM_EXPORT_WHOLE);
    stack = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    CHECK(stack != MAP_FAILED);
    CHECK_EQ(write_to(&s, s.key, address(stack), "good", 4), UNETMM_ST_OK);
    CHECK_EQ(write_to(&s, s.key, address(stack) - 8, "bad", 3),
             UNETMM_ST_REMOTE_MEMORY);
    CHECK_EQ(read_from(&s, s.key, address(stack) - 8, 8), UNETMM_ST_REMOTE_MEMORY);
    CHECK_SYS(munmap(stack, 4 * PAGE));
    scene_close(&s);
}

/* A child has copies: peers of its parent write to its parent's. */
TEST(fork_meanwhile, TEST_ODP)
{
    uint8_t *own = pages(1);
    struct scene s;
    int pipes[2], status;
    pid_t pid;
    char byte;

    scene_open(&s);
    scene_export(&s, NULL, 0, ALL, UNETMM_EXPORT_WHOLE);
    CHECK_EQ(write_to(&s, s.key, address(own), "before", 6), UNETMM_ST_OK);
    CHECK_SYS(pipe(pipes));
    pid = CHECK_SYS(fork());
    if (!pid) {
        close(pipes[1]);
        _exit(read(pipes[0], &byte, 1) == 1 && !memcmp(own, "before", 6) ? 0 : 1);
    }
    CHECK_EQ(write_to(&s, s.key, address(own), "behind", 6), UNETMM_ST_OK);
    CHECK(!memcmp(own, "behind", 6));
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    close(pipes[0]);
    close(pipes[1]);
    scene_close(&s);
}

/* An exporter in another process tells this, in memory that both have. */
struct told {
    uint64_t key, at;
    atomic_int ready, go;
    bool exec;
};

static void exporter(void *argument)
{
    struct told *told = argument;
    struct unetmm_ctx *ctx = open_card();
    uint8_t *own = pages(1);
    struct station station;
    uint64_t base;

    station_open(&station, ctx, NULL);
    CHECK_RET(unetmm_export(ctx, ID, NULL, 0, ALL, UNETMM_EXPORT_WHOLE, 0), 0);
    CHECK_RET(unetmm_export_key(ctx, ID, &told->key, &base), 0);
    told->at = address(own);
    CHECK_RET(unetmm_listen_ex(station.ep, SERVICE, 1, &usual), 0);
    told->ready = 1;
    CHECK(unetmm_accept(station.ep, NULL, PATIENCE) >= 0);
    while (!told->go) {
        usleep(1000);
    }
    if (told->exec) {
        execl("/bin/busybox", "true", NULL);
    }
    _exit(0);
}

/* Writes without a pause; then the exporter's memory goes. */
static void exporter_ends(bool exec)
{
    struct told *told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct unetmm_completion c;
    struct scene s;
    unsigned i = 0;
    uint8_t mac[6];
    pid_t pid;
    int ret;

    CHECK(told != MAP_FAILED);
    told->exec = exec;
    pid = start_process(exporter, told);
    while (!told->ready) {
        usleep(1000);
    }
    s.ctx = open_card();
    station_open(&s.one, s.ctx, NULL);
    s.mine = pages(1);
    card_mac(mac);
    ret = unetmm_connect_ex(s.one.ep, mac, SERVICE, PATIENCE, &usual, NULL);
    CHECK(ret >= 0);
    s.one.channel = (unsigned)ret;
    do {
        CHECK_RET(unetmm_write_key(s.one.ep, s.one.channel, told->key, told->at, s.mine,
                                   PAGE, 0, i, 0), 0);
        take(&s.one, UNETMM_CQE_SENT, &c);
        if (++i == 100) {
            told->go = 1;
        }
    } while (c.status == UNETMM_ST_OK && i < 1000000);
    CHECK(i > 100);
    CHECK(c.status == UNETMM_ST_BAD_CHANNEL || c.status == UNETMM_ST_PEER_FAILED ||
          c.status == UNETMM_ST_REVOKED || c.status == UNETMM_ST_REMOTE_MEMORY ||
          c.status == UNETMM_ST_FLUSHED || c.status == UNETMM_ST_TIMEOUT);
    await_process(pid);
    station_close(&s.one);
    CHECK_RET(unetmm_close(s.ctx), 0);
    CHECK_SYS(munmap(told, PAGE));
}

TEST(exporter_exits, TEST_ODP)
{
    exporter_ends(false);
}

TEST(exporter_execs, TEST_ODP)
{
    exporter_ends(true);
}
