/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest instructions of a message: exact, and the same on every machine.
 *
 * With -icount shift=0 the guest's time stamp counter is the number of
 * instructions that its processor has executed, including the kernel and
 * system calls (source ktlb).  The card works inside the doorbell's store,
 * which is one instruction.  An interrupt in between only adds, and the median
 * has none.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define COUNT       1000
#define WARMUP      100
#define BUFFERS     16
#define LOOPS       1000ull     /* of two instructions */
#define SLACK       16ull       /* instructions round the loop */

enum part { POST, SEND, POLL, PARTS };

static const char *const part_names[PARTS] = {
    "post", "send", "poll both completions",
};

uint64_t ticks(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

/* The least time of a loop of LOOPS turns, and of two readings in a row. */
static uint64_t time_loop(uint64_t *nothing)
{
    uint64_t loop = UINT64_MAX;

    *nothing = UINT64_MAX;
    for (unsigned i = 0; i < 100; i++) {
        uint64_t n = LOOPS, start = ticks(), took = ticks() - start;

        *nothing = took < *nothing ? took : *nothing;
        start = ticks();
        __asm__ volatile("1: dec %0; jnz 1b" : "+r"(n) : : "cc");
        took = ticks() - start;
        loop = took < loop ? took : loop;
    }
    return loop;
}

static bool is_count(uint64_t loop, uint64_t nothing)
{
    return loop >= 2 * LOOPS && loop <= 2 * LOOPS + nothing + SLACK;
}

bool counts_instructions(void)
{
    static int known = -1;

    if (known < 0) {
        uint64_t nothing, loop = time_loop(&nothing);

        known = is_count(loop, nothing);
    }
    return known;
}

uint64_t calibrate(void)
{
    uint64_t nothing, loop = time_loop(&nothing);

    if (!is_count(loop, nothing)) {
        die("the time stamp counter does not count instructions: boot with "
            "-icount shift=0,sleep=off");
    }
    return nothing;
}

/* A short message comes in its completion and needs no buffer. */
static bool posts(unsigned bytes)
{
    return bytes > UNETMM_CQE_INLINE;
}

/* One message; `at` has BUFFERS times two buffers. */
static void one(struct unetmm_ep *ep[2], unsigned channel, uint8_t *at,
                unsigned bytes, unsigned i, uint64_t took[PARTS])
{
    uint8_t *from = at + (size_t)bytes * (i % BUFFERS);
    struct unetmm_completion c[2];
    int ret, received, sent;
    uint64_t start;

    if (posts(bytes)) {
        start = ticks();
        ret = unetmm_post_recv(ep[1], from + (size_t)bytes * BUFFERS, bytes, i, 0);
        took[POST] = ticks() - start;
        check(ret, UNETMM_CALL_POST);
    }
    start = ticks();
    ret = unetmm_send(ep[0], channel, from, bytes, i, 0);
    took[SEND] = ticks() - start;
    check(ret, UNETMM_CALL_SEND);
    start = ticks();
    received = unetmm_poll(ep[1], &c[0], 1);
    sent = unetmm_poll(ep[0], &c[1], 1);
    took[POLL] = ticks() - start;
    if (received == 1 && c[0].type != UNETMM_CQE_RECEIVED) {
        die("a buffer came back, and its message was lost");
    }
    if (received == 1 && sent == 1) {
        return;
    }
    /* Only a message that waits for a miss is not done with the doorbell. */
    if (received < 1) {
        await(ep[1], 1u << UNETMM_CQE_RECEIVED);
    }
    if (sent < 1) {
        await(ep[0], 1u << UNETMM_CQE_SENT);
    }
}

static void report(unsigned bytes, const char *what, int64_t *took,
                   uint64_t nothing, uint64_t missed)
{
    qsort(took, COUNT, sizeof(*took), by_value);
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"%s, %s\","
           "\"metric\":\"instructions\",\"bytes\":%u,\"frame\":%u,"
           "\"median\":%lld,\"p99\":%lld,\"n\":%u,\"unit\":\"instructions\","
           "\"source\":\"%s\",\"part\":\"%s\",\"tlb_misses\":%llu}\n",
           source_name, what, bytes, info.user_mtu,
           (long long)took[COUNT / 2] - (long long)nothing,
           (long long)took[COUNT * 99 / 100] - (long long)nothing, COUNT,
           source_name, what, (unsigned long long)missed);
    fflush(stdout);
}

void count(unsigned bytes)
{
    static int64_t times[PARTS][COUNT];
    uint64_t nothing = calibrate(), before = 0;
    size_t all = 2 * (size_t)bytes * BUFFERS;
    struct unetmm_ep *ep[2];
    uint8_t *at;
    int channel;

    if (!bytes) {
        die("a message of 0 bytes needs no buffer");
    }
    at = mmap(NULL, all, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    give(at, all);
    for (unsigned i = 0; i < 2; i++) {
        check(unetmm_ep_create(ctx, NULL, &ep[i]), UNETMM_CALL_EP_CREATE);
    }
    channel = join(ep[0], ep[1]);
    for (unsigned i = 0; i < WARMUP + COUNT; i++) {
        uint64_t took[PARTS] = { 0 };

        if (i == WARMUP) {
            before = misses();
        }
        one(ep, (unsigned)channel, at, bytes, i, took);
        for (unsigned part = 0; i >= WARMUP && part < PARTS; part++) {
            times[part][i - WARMUP] = (int64_t)took[part];
        }
    }
    for (unsigned part = posts(bytes) ? POST : SEND; part < PARTS; part++) {
        report(bytes, part_names[part], times[part], nothing,
               misses() - before);
    }
    for (unsigned i = 0; i < 2; i++) {
        check(unetmm_ep_destroy(ep[i]), UNETMM_CALL_ANY);
    }
    take_back(at, all);
    munmap(at, all);
}
