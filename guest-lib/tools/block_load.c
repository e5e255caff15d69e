/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client of unetmm-block: random requests, each byte of which can be checked.
 *
 * A block's data follows from the seed, from its number and from how often it has
 * been written, which the client knows as long as nobody else writes.  No two
 * requests under way are for one block.
 */
#include "block.h"
#include "pattern.h"
#include "row.h"

#include <stdlib.h>
#include <sys/mman.h>

#define EXPORT_ID       1u

enum slot_state { SLOT_IDLE, SLOT_READ, SLOT_WRITE };

struct slot {
    enum slot_state state;
    uint64_t block;
    uint64_t start_ns;
};

struct client {
    const struct block_options *opt;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    int channels[BLOCK_SESSIONS];
    uint8_t *memory;
    uint64_t key, base;                 /* of the export that the memory is */
    struct slot *slots;                 /* depth of each session */
    unsigned nslots;
    uint64_t blocks;
    uint32_t *versions;
    bool *busy;                         /* by block */
    uint64_t random;
    uint64_t *samples;
    struct block_reply reply;           /* to HELLO, STATUS */
};

struct run {
    uint64_t asked, done, most;
    uint64_t bytes_read, bytes_written;
    uint64_t start_ns, end_ns;
    bool fill;                          /* each block once, in order */
    bool measured;
};

static uint64_t next_random(struct client *c)
{
    c->random = pattern_key(c->random, 1);
    return c->random;
}

static uint8_t *slot_memory(const struct client *c, unsigned slot)
{
    return c->memory + (size_t)slot * c->opt->size;
}

static uint64_t block_key(const struct client *c, uint64_t block)
{
    return pattern_key(c->opt->seed + c->versions[block], block);
}

/* ---- Messages ------------------------------------------------------------ */

static void ask(struct client *c, unsigned session, enum block_op op,
                uint64_t tag, uint64_t offset, uint64_t remote)
{
    const struct block_request r = {
        .op = block_le32(op),
        .length = block_le32(op == BLOCK_READ || op == BLOCK_WRITE ?
                             c->opt->size : 0),
        .offset = block_le64(offset),
        .remote = block_le64(remote),
        .tag = tag,
    };
    int ret = unetmm_send(c->ep, c->channels[session], &r, sizeof(r), 0,
                          UNETMM_INLINE | UNETMM_UNSIGNALED);

    if (ret) {
        fail_call(ret, UNETMM_CALL_SEND, "cannot send a request");
    }
}

/* The next reply. */
static void hear(struct client *c)
{
    struct unetmm_completion got;
    int n;

    do {
        n = unetmm_wait(c->ep, &got, 1, c->opt->timeout_ns);
        if (n < 0 && n != -EINTR) {
            fail_call(n, UNETMM_CALL_POLL, "the card has stopped");
        }
        if (!n) {
            fail("the server no longer answers");
        }
        if (n > 0 && got.type == UNETMM_CQE_SENT && got.status) {
            fail("a request was not delivered: %s",
                 unetmm_status_str(got.status));
        }
        if (n > 0 && got.type == UNETMM_CQE_CLOSED) {
            fail("the server has ended the session: %s",
                 unetmm_status_str(got.status));
        }
    } while (n != 1 || got.type != UNETMM_CQE_RECEIVED);
    if (!got.is_inline || got.len != sizeof(c->reply)) {
        fail("the server speaks another protocol");
    }
    memcpy(&c->reply, got.data, sizeof(c->reply));
    if (c->reply.error) {
        fail("the server says: %s", strerror((int)block_le32(c->reply.error)));
    }
}

static void ask_and_hear(struct client *c, unsigned session, enum block_op op,
                         uint64_t remote)
{
    ask(c, session, op, 0, 0, remote);
    hear(c);
}

/* ---- Requests ------------------------------------------------------------ */

static uint64_t pick(struct client *c, const struct run *run)
{
    uint64_t block;

    if (run->fill) {
        return run->asked;
    }
    /* More blocks than requests: connect_all(). */
    do {
        block = next_random(c) % c->blocks;
    } while (c->busy[block]);
    return block;
}

static void begin(struct client *c, struct run *run, unsigned n)
{
    struct slot *slot = &c->slots[n];

    slot->block = pick(c, run);
    slot->state = run->fill || next_random(c) % 100 < c->opt->writes ?
        SLOT_WRITE : SLOT_READ;
    slot->start_ns = now_ns();
    c->busy[slot->block] = true;
    run->asked++;
    if (slot->state == SLOT_WRITE) {
        c->versions[slot->block]++;
        pattern_fill(slot_memory(c, n), c->opt->size,
                     block_key(c, slot->block), 0);
    }
    ask(c, n / c->opt->depth,
        slot->state == SLOT_WRITE ? BLOCK_WRITE : BLOCK_READ, n,
        slot->block * c->opt->size, c->base + (uint64_t)n * c->opt->size);
}

static void check(const struct client *c, unsigned n)
{
    uint64_t block = c->slots[n].block;
    size_t good = pattern_check(slot_memory(c, n), c->opt->size,
                                block_key(c, block), 0);

    if (good != c->opt->size) {
        fail("block %llu is wrong from byte %zu on (--seed %llu)",
             (unsigned long long)block, good,
             (unsigned long long)c->opt->seed);
    }
}

static unsigned finish(struct client *c, struct run *run)
{
    uint64_t tag = c->reply.tag;
    struct slot *slot;

    if (tag >= c->nslots || c->slots[tag].state == SLOT_IDLE) {
        fail("the server answered a request that this client did not send");
    }
    slot = &c->slots[tag];
    if (slot->state == SLOT_READ) {
        run->bytes_read += c->opt->size;
        if (c->opt->verify) {
            check(c, (unsigned)tag);
        }
    } else {
        run->bytes_written += c->opt->size;
    }
    if (run->measured) {
        c->samples[run->done] = now_ns() - slot->start_ns;
    }
    slot->state = SLOT_IDLE;
    c->busy[slot->block] = false;
    run->done++;
    return (unsigned)tag;
}

static void go(struct client *c, struct run *run)
{
    unsigned n;

    run->start_ns = now_ns();
    for (n = 0; n < c->nslots && run->asked < run->most; n++) {
        begin(c, run, n);
    }
    while (run->done < run->most) {
        hear(c);
        n = finish(c, run);
        if (run->asked < run->most) {
            begin(c, run, n);
        }
    }
    run->end_ns = now_ns();
}

/* ---- Sessions ------------------------------------------------------------ */

static void *zeroed(size_t n, size_t size)
{
    void *at = calloc(n, size);

    if (!at) {
        fail("no memory");
    }
    return at;
}

static void make_memory(struct client *c)
{
    size_t bytes = (size_t)c->nslots * c->opt->size;
    int ret;

    c->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->memory == MAP_FAILED) {
        fail("no memory for %u requests of %u bytes", c->nslots, c->opt->size);
    }
    ret = unetmm_export(c->ctx, EXPORT_ID, c->memory, bytes,
                        UNETMM_RIGHT_READ | UNETMM_RIGHT_WRITE,
                        UNETMM_EXPORT_KEYED, 0);
    ret = ret ? ret : unetmm_export_key(c->ctx, EXPORT_ID, &c->key, &c->base);
    if (ret) {
        fail_call(ret, UNETMM_CALL_EXPORT, "cannot export the buffers");
    }
}

static void connect_all(struct client *c)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    uint64_t deadline = now_ns() + (uint64_t)c->opt->timeout_ns;
    unsigned i;
    int ret;

    attr.flags |= UNETMM_NOTIFY_CLOSE;
    for (i = 0; i < c->opt->sessions; i++) {
        do {
            ret = unetmm_connect_ex(c->ep, c->opt->mac, c->opt->service,
                                    time_left(deadline), &attr, NULL);
        } while (link_may_come(ret, deadline));
        if (ret < 0) {
            fail_call(ret, UNETMM_CALL_CONNECT, "cannot connect to the server");
        }
        c->channels[i] = ret;
        ask_and_hear(c, i, BLOCK_HELLO, c->key);
    }
    if (block_le64(c->reply.value[1]) < c->opt->size) {
        fail("the server's chunks have %llu bytes: use a smaller --size",
             (unsigned long long)block_le64(c->reply.value[1]));
    }
    c->blocks = block_le64(c->reply.value[0]) / c->opt->size;
    if (c->blocks < c->nslots) {
        fail("the file has %llu blocks for %u requests at a time: use fewer "
             "--sessions, a smaller --depth or --size",
             (unsigned long long)c->blocks, c->nslots);
    }
    c->versions = zeroed(c->blocks, sizeof(*c->versions));
    c->busy = zeroed(c->blocks, sizeof(*c->busy));
}

static void open_client(struct client *c, const struct block_options *opt)
{
    struct unetmm_ep_attr ep = UNETMM_EP_ATTR_INIT;
    int ret;

    c->opt = opt;
    c->random = opt->seed;
    c->nslots = opt->sessions * opt->depth;
    c->slots = zeroed(c->nslots, sizeof(*c->slots));
    c->samples = zeroed(opt->count, sizeof(*c->samples));
    ret = unetmm_open(opt->device, opt->source, &c->ctx);
    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, "cannot open the card");
    }
    ep.send_slots = 4096;
    ep.completion_depth = 4096;
    ep.policy = UNETMM_POLICY_DROP;
    ret = unetmm_ep_create(c->ctx, &ep, &c->ep);
    if (ret) {
        fail_call(ret, UNETMM_CALL_EP_CREATE, "cannot create an endpoint");
    }
    make_memory(c);
    connect_all(c);
}

static void close_client(struct client *c)
{
    unsigned i;

    for (i = 0; i < c->opt->sessions; i++) {
        unetmm_disconnect(c->ep, c->channels[i]);
    }
    unetmm_unexport(c->ctx, EXPORT_ID);
    unetmm_ep_destroy(c->ep);
    unetmm_close(c->ctx);
    munmap(c->memory, (size_t)c->nslots * c->opt->size);
    free(c->slots);
    free(c->samples);
    free(c->versions);
    free(c->busy);
}

/* ---- Results ------------------------------------------------------------- */

static void print_result(struct client *c, const struct run *run)
{
    const struct block_options *opt = c->opt;
    double seconds = (double)(run->end_ns - run->start_ns) / 1e9;
    double mega = (double)(run->bytes_read + run->bytes_written) / 1e6 /
                  seconds;
    double median, p99;
    uint64_t resident, buffer;
    json_t *row;

    sort_samples(c->samples, run->done);
    median = (double)percentile(c->samples, run->done, 0.5) / 1e3;
    p99 = (double)percentile(c->samples, run->done, 0.99) / 1e3;
    ask_and_hear(c, 0, BLOCK_STATUS, 0);
    resident = block_le64(c->reply.value[STATUS_RESIDENT]);
    buffer = block_le64(c->reply.value[STATUS_BUFFER]);
    if (opt->json) {
        row = row_new();
        row_text(row, "peer", "unetmm");
        row_text(row, "metric", "block");
        row_count(row, "bytes", opt->size);
        row_count(row, "sessions", opt->sessions);
        row_count(row, "depth", opt->depth);
        row_count(row, "writes", opt->writes);
        row_count(row, "n", run->done);
        row_real(row, "mb_per_s", mega, 2);
        row_real(row, "median", median, 1);
        row_real(row, "p99", p99, 1);
        row_text(row, "unit", "us");
        row_flag(row, "verified", opt->verify);
        row_count(row, "seed", opt->seed);
        row_count(row, "server_buffer", buffer);
        row_count(row, "server_resident", resident);
        row_print(row);
    } else {
        printf("%llu requests of %u bytes, %u sessions of %u at a time, %u%% "
               "writes, %s:\n"
               "  %.1f MB/s, median %.1f us, 99th percentile %.1f us\n"
               "  of the server's buffer of %llu bytes %llu are resident\n",
               (unsigned long long)run->done, opt->size, opt->sessions,
               opt->depth, opt->writes,
               opt->verify ? "every byte read was checked" : "not checked",
               mega, median, p99, (unsigned long long)buffer,
               (unsigned long long)resident);
    }
    fflush(stdout);
}

int block_load(const struct block_options *opt)
{
    static struct client c;
    struct run fill = { .fill = true }, warm = { .most = opt->warmup };
    struct run run = { .most = opt->count, .measured = true };

    open_client(&c, opt);
    for (uint64_t i = 0; opt->filled && i < c.blocks; i++) {
        c.versions[i] = 1;
    }
    if (opt->fill) {
        fill.most = c.blocks;
        go(&c, &fill);
    }
    go(&c, &warm);
    go(&c, &run);
    print_result(&c, &run);
    close_client(&c);
    return EXIT_SUCCESS;
}
