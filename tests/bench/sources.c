/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cost of translation where all is there: instructions that the in-process
 * card executes for a message, by source.
 *
 *   bench-sources LIST      messages of so many bytes, into buffers of as many
 *   bench-sources check     shadow may cost only so much more than pinned
 *
 * Counted as in count.c.  The memory of the host is bare, so the instructions are the
 * card's: the entry lock's compare-and-swap is one, and core.c measures its time on a
 * processor.  A copy of a message's data counts one instruction for each byte: memcpy()
 * takes as many or far fewer, by the release of the C library and the processor.
 */
#include "fixture.h"
#include "steps.h"

#include <stdlib.h>
#include <unistd.h>

#define AT          0x7f1200000000ull
#define CHANNEL     1
#define LEVELS      4
#define MESSAGES    4           /* a step costs up to 0.1 ms */
#define WARMUP      8
#define LONGEST     16384u
#define LONG_COPY   512         /* above all entries of rings and tables */

/* The most that shadow may cost over pinned; the aim is 1.05 from 4 KiB on. */
static const struct {
    uint32_t bytes;
    double most;
} checks[] = { { 64, 1.09 }, { 4096, 1.035 }, { 8192, 1.035 } };

typedef struct Scene {
    uint8_t source;
    uint32_t bytes;
    FakeHost h;
    FakeDriver d;
    FakeEp tx, rx;
} Scene;

static const struct {
    const char *name;
    uint8_t source;
} sources[] = {
    { "tlb", UNETMM_SOURCE_TLB }, { "pinned", UNETMM_SOURCE_PINNED },
    { "shadow", UNETMM_SOURCE_SHADOW },
};

#define PINNED      1
#define SHADOW      2

/* ---- Bare memory ----------------------------------------------------------------- */

static uint8_t *bare(void *host, uint64_t addr)
{
    return ((FakeHost *)host)->ram + (addr - FAKE_RAM_BASE);
}

/* The instruction that repeats itself counts each time. */
static void copy(void *to, const void *from, size_t bytes)
{
#ifdef __x86_64__
    if (bytes > LONG_COPY) {
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
        return;
    }
#endif
    memcpy(to, from, bytes);
}

static bool bare_read(void *host, uint64_t addr, void *buf, size_t bytes)
{
    copy(buf, bare(host, addr), bytes);
    return true;
}

static bool bare_write(void *host, uint64_t addr, const void *buf, size_t bytes)
{
    copy(bare(host, addr), buf, bytes);
    return true;
}

static bool bare_store32(void *host, uint64_t addr, uint32_t value)
{
    value = cpu_to_le32(value);
    memcpy(bare(host, addr), &value, sizeof(value));
    return true;
}

static bool bare_cmpxchg64(void *host, uint64_t addr, uint64_t *old, uint64_t value)
{
    uint64_t *word = (uint64_t *)(void *)bare(host, addr);
    uint64_t there = cpu_to_le64(*old);

    __atomic_compare_exchange_n(word, &there, cpu_to_le64(value), false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    *old = le64_to_cpu(there);
    return true;
}

static void use_bare_memory(FakeHost *h)
{
    static UnetmmHostOps ops;

    ops = *h->core.ops;
    ops.mem_read = bare_read;
    ops.mem_write = bare_write;
    ops.mem_store32 = bare_store32;
    ops.mem_cmpxchg64 = bare_cmpxchg64;
    h->core.ops = &ops;
}

/* ---- The scene ------------------------------------------------------------------- */

static void open_scene(Scene *s)
{
    uint8_t levels = s->source == UNETMM_SOURCE_TLB ? 0 : LEVELS;
    FakeSpace *from, *to;
    UnetmmParams p;

    fake_params(&p);
    p.tlb_sets = p.cache_entries = 1024;
    p.user_mtu = UNETMM_MAX_PAYLOAD;
    fake_host_init(&s->h, &p);
    s->h.unchecked = true;
    fake_driver_init(&s->d, &s->h);
    fake_driver_start(&s->d);
    from = fake_space(&s->d, 1, s->source, levels);
    to = fake_space(&s->d, 2, s->source, levels);
    fake_map(from, AT, LONGEST, FAKE_RW);
    fake_map(to, AT, LONGEST, FAKE_RW);
    fake_ep_open(&s->tx, &s->d, 1, from);
    fake_ep_open(&s->rx, &s->d, 2, to);
    fake_connect(&s->tx, &s->rx, CHANNEL, LONGEST);
    use_bare_memory(&s->h);
}

static void settle(Scene *s)
{
    do {
        fake_serve(&s->d);
    } while (fake_run_later(&s->h));
}

static void message(Scene *s, unsigned i, bool counted)
{
    struct unetmm_cqe cqe;

    fake_post(&s->rx, AT, s->bytes, i);
    fake_ring_bell(&s->rx);
    settle(s);
    fake_send_at(&s->tx, CHANNEL, AT, s->bytes, i);
    if (counted) {
        steps_mark();
    }
    fake_ring_bell(&s->tx);
    fake_run_later(&s->h);
    if (counted) {
        steps_mark();
    }
    settle(s);
    if (!fake_poll(&s->tx, &cqe) || cqe.status != UNETMM_ST_OK ||
        !fake_poll(&s->rx, &cqe) || cqe.opcode != UNETMM_CQE_RECEIVED) {
        fprintf(stderr, "bench-sources: a message did not arrive\n");
        _exit(EXIT_FAILURE);
    }
}

/* In a child: until all is warm, and then MESSAGES counted. */
static void play(void *opaque)
{
    Scene *s = opaque;

    open_scene(s);
    for (unsigned i = 0; i < WARMUP; i++) {
        message(s, i, false);
    }
    steps_mark();
    steps_mark();
    for (unsigned i = 0; i < MESSAGES; i++) {
        message(s, WARMUP + i, true);
    }
}

/* Instructions of one message. */
static double measure(unsigned n, uint32_t bytes)
{
    Scene s = { .source = sources[n].source, .bytes = bytes };
    int64_t sum = steps_count(play, &s);

    if (sum < 0) {
        fprintf(stderr, "bench-sources: %s, %u bytes could not be counted\n",
                sources[n].name, bytes);
        exit(EXIT_FAILURE);
    }
    return (double)sum / MESSAGES;
}

/* TAP */
static int check_all(void)
{
    bool all_good = true;

    printf("1..%zu\n", G_N_ELEMENTS(checks));
    for (unsigned i = 0; i < G_N_ELEMENTS(checks); i++) {
        double pinned = measure(PINNED, checks[i].bytes);
        double shadow = measure(SHADOW, checks[i].bytes);
        bool good = shadow <= pinned * checks[i].most;

        printf("%sok %u - %u bytes: shadow %.0f instructions, pinned %.0f, ratio %.3f "
               "(at most %.3f)\n", good ? "" : "not ", i + 1, checks[i].bytes,
               shadow, pinned, shadow / pinned, checks[i].most);
        all_good = all_good && good;
    }
    return all_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    char *word;

    if (argc != 2) {
        fprintf(stderr, "usage: bench-sources BYTES,...|check\n");
        return 2;
    }
    if (!strcmp(argv[1], "check")) {
        return check_all();
    }
    for (word = strtok(argv[1], ","); word; word = strtok(NULL, ",")) {
        uint32_t bytes = (uint32_t)strtoul(word, NULL, 10);

        if (bytes <= UNETMM_CQE_INLINE || bytes > LONGEST) {
            fprintf(stderr, "bench-sources: %u to %u bytes\n",
                    UNETMM_CQE_INLINE + 1, LONGEST);
            return 2;
        }
        for (unsigned i = 0; i < G_N_ELEMENTS(sources); i++) {
            printf("{\"peer\":\"core in-process\",\"mode\":\"%s, all there\","
                   "\"metric\":\"instructions\",\"bytes\":%u,\"frame\":%u,"
                   "\"median\":%.1f,\"p99\":null,\"n\":%u,"
                   "\"unit\":\"instructions\",\"statistic\":\"mean\","
                   "\"core_source\":\"%s\"}\n", sources[i].name, bytes,
                   LONGEST, measure(i, bytes), MESSAGES, sources[i].name);
            fflush(stdout);
        }
    }
    return 0;
}
