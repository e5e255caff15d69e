/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A workload that compares sources: every other message comes from
 * one of a few pages, the rest from here and there in more memory than the TLB
 * knows; one page in ten has just been given back to the system and written anew.
 * With `shadow`, also the share of resident pages in the table at the end.
 */
#include "local.h"

#include <unetmm_hw.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACES      2400u       /* pages */
#define FEW         128u
#define BUFFERS     16u
#define BYTES       3000u
#define NEW_EVERY   10u
#define MOST        20000u
#define SECOND      1000000000ll
#define DEBUGFS     "/sys/kernel/debug/unetmm/unetmm0/"
#define SPACE_SHIFT 48          /* of an offset in the file `shadow` there */

struct scene {
    struct unetmm_ep *tx, *rx;
    unsigned channel;
    uint8_t *at, *buffers;
    unsigned number;            /* of the message: each has bytes of its own */
};

static void *pages(size_t n)
{
    void *at = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || madvise(at, n * PAGE, MADV_NOHUGEPAGE) ||
        madvise(at, n * PAGE, MADV_POPULATE_WRITE)) {
        die("no memory: boot the guest with more");
    }
    return at;
}

/* Its time; every byte is checked when the clock has stopped. */
static int64_t one(struct scene *s)
{
    unsigned i = s->number++;
    unsigned place = i * 7919u % (i % 2 ? FEW : PLACES);
    uint8_t *page = s->at + place * PAGE;
    uint8_t *buffer = s->buffers + i % BUFFERS * PAGE;
    int64_t start;

    if (i % NEW_EVERY == 0 && madvise(page, PAGE, MADV_DONTNEED)) {
        die("madvise() fails");
    }
    memset(page, (int)(i % 251), BYTES);
    check(unetmm_post_recv(s->rx, buffer, PAGE, i, 0), UNETMM_CALL_POST);
    start = now_ns();
    check(unetmm_send(s->tx, s->channel, page, BYTES, i, 0),
          UNETMM_CALL_SEND);
    await(s->rx, 1u << UNETMM_CQE_RECEIVED);
    await(s->tx, 1u << UNETMM_CQE_SENT);
    start = now_ns() - start;
    for (unsigned k = 0; k < BYTES; k++) {
        if (buffer[k] != i % 251) {
            die("wrong bytes came");
        }
    }
    return start;
}

/* The number of our space: the last one of the source in debugfs. */
static uint64_t my_space(void)
{
    FILE *file = fopen(DEBUGFS "spaces", "r");
    uint64_t found = 0;
    unsigned id, source;
    char line[300];

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "space %u source %u", &id, &source) == 2 &&
            source == UNETMM_SOURCE_SHADOW) {
            found = id;
        }
    }
    if (file) {
        fclose(file);
    }
    return found;
}

/* How many of the pages, all resident, are in the table. */
static unsigned in_table(const uint8_t *at)
{
    int fd = open(DEBUGFS "shadow", O_RDONLY);
    uint64_t space = my_space(), word;
    unsigned found = 0;

    for (unsigned i = 0; fd >= 0 && i < PLACES; i++) {
        uint64_t vpn = (uintptr_t)at / PAGE + i;

        if (pread(fd, &word, sizeof(word), (off_t)(space << SPACE_SHIFT |
                                                   vpn * sizeof(word))) ==
            sizeof(word)) {
            found += word & UNETMM_PTE_VALID;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

struct sums {
    uint64_t misses, pins, pushes, interrupts;
};

static struct sums sums_now(void)
{
    return (struct sums) { misses(), driver(UNETMM_D_pins),
                           driver(UNETMM_D_shadow_set),
                           card(UNETMM_C_interrupts) };
}

static void report(const struct scene *s, int64_t *took, unsigned n,
                   struct sums was)
{
    struct sums is = sums_now();

    qsort(took, n, sizeof(*took), by_value);
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"mixed, %s\","
           "\"metric\":\"mix\",\"bytes\":%u,\"frame\":%u,\"median\":%.3f,"
           "\"p99\":%.3f,\"n\":%u,\"unit\":\"us\",\"mix\":\"%s\","
           "\"pages\":%u,\"misses\":%" PRIu64 ",\"pins\":%" PRIu64 ","
           "\"pushes\":%" PRIu64 ",\"interrupts\":%" PRIu64 ","
           "\"pinned_now\":%" PRIu64 ",\"in_table\":%u}\n", source_name,
           BYTES, info.user_mtu, (double)took[n / 2] / 1000,
           (double)took[n * 99 / 100] / 1000, n, source_name, PLACES,
           is.misses - was.misses, is.pins - was.pins, is.pushes - was.pushes,
           is.interrupts - was.interrupts, driver(UNETMM_D_pinned_now),
           strcmp(source_name, "shadow") ? 0 : in_table(s->at));
    fflush(stdout);
}

void mix(unsigned n)
{
    static int64_t took[MOST];
    struct scene s = { .at = pages(PLACES), .buffers = pages(BUFFERS) };
    struct sums was;

    if (!n || n > MOST || *source_name == 'p') {
        die("1 to 20000 messages, and no source pinned");
    }
    give(s.buffers, BUFFERS * PAGE);
    check(unetmm_ep_create(ctx, NULL, &s.tx), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &s.rx), UNETMM_CALL_EP_CREATE);
    s.channel = (unsigned)join_reliably(s.tx, s.rx);
    for (unsigned i = 0; i < 2 * PLACES; i++) {
        one(&s);
    }
    was = sums_now();
    for (unsigned i = 0; i < n; i++) {
        took[i] = one(&s);
    }
    report(&s, took, n, was);
    check(unetmm_ep_destroy(s.tx), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(s.rx), UNETMM_CALL_ANY);
    munmap(s.at, PLACES * PAGE);
    munmap(s.buffers, BUFFERS * PAGE);
}
