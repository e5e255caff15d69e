/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions of the library's fast path, counted by single steps on a card
 * that is a piece of memory.  It is built twice, against the library's symbols and
 * with their bodies inline (FAST_INLINE), and prints one line for each case:
 *
 *   NAME INSTRUCTIONS
 *
 * A count covers the call, its arguments and memcpy().  Arguments are read from
 * volatile variables, so that neither build knows them when it is compiled.
 */
#ifdef FAST_INLINE
#include <libunetmm/inline.h>
#else
#include <libunetmm.h>
#endif

#include "fast.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

static struct unetmm_ep *ep;
static struct unetmm_completion c;
static uint8_t memory[8192] __attribute__((aligned(4096)));
static volatile size_t bytes;
static volatile unsigned channel = 1, import, flags;
static volatile uint64_t key = 7;

struct fast_case {
    const char *name;
    size_t bytes;
    enum fast_turn turn;        /* of the card, before each call */
    int result;
    int (*call)(uint64_t i);
};

static int call_send(uint64_t i)
{
    return unetmm_send(ep, channel, memory, bytes, i, flags);
}

static int call_post(uint64_t i)
{
    return unetmm_post_recv(ep, memory, bytes, i, flags);
}

static int call_poll(uint64_t i)
{
    (void)i;
    return unetmm_poll(ep, &c, 1);
}

static int call_write(uint64_t i)
{
    return unetmm_write(ep, import, 64, memory, bytes, 0, i, flags);
}

static int call_read(uint64_t i)
{
    return unetmm_read(ep, import, 64, memory, bytes, i, flags);
}

static int call_write_key(uint64_t i)
{
    return unetmm_write_key(ep, channel, key, 64, memory, bytes, 0, i, flags);
}

static int call_read_key(uint64_t i)
{
    return unetmm_read_key(ep, channel, key, 64, memory, bytes, i, flags);
}

static int call_add(uint64_t i)
{
    return unetmm_fetch_add(ep, import, 64, bytes, i, flags);
}

static struct fast_case cases[] = {
    { "send-8", 8, FAST_TAKE, 0, call_send },
    { "send-200", 200, FAST_TAKE, 0, call_send },
    { "send-4096", 4096, FAST_TAKE, 0, call_send },
    { "post", 4096, FAST_RETURN, 0, call_post },
    { "poll-one", 8, FAST_DELIVER, 1, call_poll },
    { "poll-none", 0, FAST_TAKE, 0, call_poll },
    { "write-8", 8, FAST_TAKE, 0, call_write },
    { "write-4096", 4096, FAST_TAKE, 0, call_write },
    { "read-4096", 4096, FAST_TAKE, 0, call_read },
    { "write-key-8", 8, FAST_TAKE, 0, call_write_key },
    { "write-key-4096", 4096, FAST_TAKE, 0, call_write_key },
    { "read-key-4096", 4096, FAST_TAKE, 0, call_read_key },
    { "fetch-add", 1, FAST_TAKE, 0, call_add },
};

/* In the child whose steps are counted: an endpoint belongs to one process. */
static void run(void *opaque)
{
    const struct fast_case *which = opaque;
    uint64_t i;

    ep = fast_open();
    steps_mark();
    steps_mark();
    for (i = 0; i < FAST_CALLS; i++) {
        int ret;

        fast_turn(which->turn);
        bytes = which->bytes;
        steps_mark();
        ret = which->call(i);
        steps_mark();
        if (ret != which->result) {
            fprintf(stderr, "%s: returned %d\n", which->name, ret);
            exit(EXIT_FAILURE);
        }
    }
}

int main(void)
{
    return fast_main(run, cases, sizeof(cases[0]), sizeof(cases) / sizeof(cases[0]));
}
