/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random calls of every function of the fast path, right and wrong ones, on a fake
 * card; prints each result, and the card's view.  The program is built twice, against the
 * library's symbols and with their bodies inline (BOTH_INLINE); test-both.py
 * compares the two outputs.
 *
 * usage: both SEED CALLS
 */
#ifdef BOTH_INLINE
#include <libunetmm/inline.h>
#else
#include <libunetmm.h>
#endif

#include "both.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state;
static struct unetmm_ep *ep;
static uint8_t memory[20 * 4096] __attribute__((aligned(4096)));

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33) % below;
}

/* Mostly short, sometimes one that no call takes. */
static size_t length(void)
{
    switch (draw(8)) {
    case 0:
        return 0;
    case 1:
        return draw(65536);
    case 2:
        return draw(2) ? SIZE_MAX : UINT32_MAX;
    default:
        return draw(260);
    }
}

/* Pieces that are in `memory` as far as they are read. */
static unsigned pieces(struct iovec iov[UNETMM_MAX_SEGS + 1])
{
    unsigned n = draw(UNETMM_MAX_SEGS + 2), i;

    for (i = 0; i <= UNETMM_MAX_SEGS; i++) {
        iov[i].iov_base = memory + draw(4096);
        iov[i].iov_len = draw(40) ? draw(200) : SIZE_MAX - draw(100);
    }
    return n;
}

static unsigned flags(void)
{
    return draw(4) ? draw(8) : draw(64) | (draw(16) ? 0 : 0x100);
}

static int64_t poll_some(void)
{
    struct unetmm_completion c[4];
    unsigned i, n = draw(5);
    int ret = 0;

    if (n == 1 && unetmm_peek(ep, c)) {
        unetmm_take(ep);
        ret = 1;
        n = 0;
    }
    if (!ret || unetmm_card_waits(ep)) {
        ret += unetmm_poll(ep, c, n);
    }
    for (i = 0; ret > 0 && i < (unsigned)ret; i++) {
        printf(" %" PRIu64 "/%u/%u/%u/%u/%x", c[i].user_data, c[i].len,
               c[i].channel, c[i].type, c[i].status, c[i].flags);
        if (c[i].is_inline) {
            printf("=%02x,%" PRIu64 ",%" PRIu64 ",%u", c[i].data[0],
                   unetmm_old_value(&c[i]), unetmm_notify_offset(&c[i]),
                   unetmm_notify_imm(&c[i]));
        }
    }
    return ret;
}

/* A page that answers as a proxy page does: with the bytes that are started. */
static int64_t start_some(void)
{
    static uint32_t to[2], from[2] = { UNETMM_START_DONE };

    from[0] = draw(4);
    return unetmm_udma_start(to, from, draw(5000)) + (int64_t)to[0];
}

static int64_t count_some(void)
{
    both_count(draw(3));
    return (int64_t)unetmm_event_read(both_counter()) +
        1000 * unetmm_event_reached(unetmm_event_read(both_counter()),
                                    draw(100));
}

static int64_t one_sided(uint32_t which, uint64_t cookie)
{
    struct iovec iov[UNETMM_MAX_SEGS + 1];
    int import = (int)draw(4);
    unsigned n = pieces(iov);
    uint64_t offset = draw(8) ? draw(200) : UINT64_MAX - draw(200);
    uint32_t imm = draw(3);

    switch (which) {
    case 0:
        return unetmm_write(ep, import, offset, memory, length(), imm, cookie,
                            flags());
    case 1:
        return unetmm_writev(ep, import, offset, iov, n, imm, cookie, flags());
    case 2:
        return unetmm_read(ep, import, offset, memory, length(), cookie,
                           flags());
    case 3:
        return unetmm_readv(ep, import, offset, iov, n, cookie, flags());
    case 4:
        return unetmm_fetch_add(ep, import, offset, draw(100), cookie, flags());
    default:
        return unetmm_cmp_swap(ep, import, offset, draw(9), draw(9), cookie,
                               flags());
    }
}

static int64_t call(uint32_t which, uint64_t cookie)
{
    struct iovec iov[UNETMM_MAX_SEGS + 1];
    unsigned n = pieces(iov);

    switch (which) {
    case 0:
        return unetmm_send(ep, (int)draw(4), memory, length(), cookie, flags());
    case 1:
        return unetmm_sendv(ep, (int)draw(4), iov, n, cookie, flags());
    case 2:
        return unetmm_post_recv(ep, memory + (draw(2) ? 0 : draw(99)),
                                draw(2) ? 4096 : length(), cookie, flags());
    case 3:
        return poll_some();
    case 4:
        return unetmm_ring(ep);
    case 5:
        return unetmm_send_pending(ep);
    case 6:
        return unetmm_channel_mtu(ep, (int)draw(20));
    case 7:
        return unetmm_fence(ep, (int)draw(4), cookie, flags());
    case 8:
        return unetmm_send_frame(ep, iov, n, draw(3) ? 0 : draw(1u << 18),
                                 cookie, flags());
    case 9:
        return start_some();
    case 10:
        return count_some();
    default:
        return one_sided(which - 11, cookie);
    }
}

#define CALLS 17

int main(int argc, char **argv)
{
    unsigned kind, i, n = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;

    for (i = 0; i < sizeof(memory); i++) {
        memory[i] = (uint8_t)(i * 7);
    }
    for (kind = 0; kind < BOTH_KINDS; kind++) {
        state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
        ep = both_open((enum both_kind)kind);
        for (i = 0; i < n; i++) {
            uint32_t which = draw(CALLS);
            int64_t ret;

            both_fork(!draw(50));
            printf("%u %u %u:", kind, i, which);
            ret = call(which, i);
            both_fork(false);
            printf(" %" PRId64 " %" PRIx64 "\n", ret, both_look());
            if (draw(2)) {
                both_act(draw(1u << 20));
            }
        }
        both_close();
    }
    return 0;
}
