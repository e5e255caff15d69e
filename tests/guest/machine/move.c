/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine is saved to a file and goes on in another QEMU, with messages in
 * every state on the card: none is wrong, none waits for ever, and the driver's pins
 * are still the card's pages.  With another guest on the wire, which stays: missing
 * messages there have been counted, and none came twice.
 */
#include "ask.h"
#include "guard.h"
#include "link.h"
#include "pattern.h"
#include "traffic.h"

#include <stdatomic.h>
#include <string.h>

#define MOVES     3
#define PROCESSES 3

/* Translations come and go all the while, so that some are always missing. */
TEST(under_traffic, TEST_BOTH)
{
    struct crowd crowd;
    unsigned i;

    ask_host("set x-force-miss 50000");
    crowd_start(&crowd, PROCESSES);
    for (i = 0; i < MOVES; i++) {
        crowd_await(&crowd, 20);
        ask_host("move");
        crowd_await(&crowd, 20);
    }
    ask_host("set x-force-miss 0");
    crowd_stop(&crowd);
}

/* ---- With a peer that stays ---- */

struct stream {
    atomic_bool stop;
    atomic_uint_fast64_t sent, refused;
};

/* Messages to the peer's sink, each with its number, as fast as they go. */
static void keep_sending(void *argument)
{
    struct stream *stream = argument;
    uint8_t *at = pages(4);
    struct chance chance;
    struct link link;
    uint64_t number;

    chance_init(&chance, 1);
    link_open(&link, NULL, NULL);
    for (number = 0; !atomic_load(&stream->stop); number++) {
        size_t len = 100 + chance_below(&chance, 3 * PAGE - 100);
        unsigned status;

        len = len < link.tx->mtu ? len : link.tx->mtu;
        pattern_fill(at, len, pattern_key(SINK_SEED, number), 0);
        memcpy(at, &number, sizeof(number));
        status = send_status(link.tx, at, len);
        if (status == UNETMM_ST_OK) {
            atomic_fetch_add(&stream->sent, 1);
            continue;
        }
        /* The new machine's wire is not joined at once. */
        CHECK_EQ(status, UNETMM_ST_REFUSED);
        atomic_fetch_add(&stream->refused, 1);
        breathe();
    }
    link_close(&link);
}

static void await_messages(struct stream *stream, unsigned n)
{
    uint64_t until = atomic_load(&stream->sent) + n;

    EVENTUALLY(atomic_load(&stream->sent) >= until);
}

TEST(peer_stays, TEST_ONLY_REMOTE, 60)
{
    struct stream *stream = shared_memory(sizeof(*stream));
    uint64_t purged, drops, count;
    struct link link;
    unsigned i;
    pid_t pid;

    link_open(&link, NULL, NULL);
    peer_ask(link.tx, PEER_SINK);
    drops = peer_ask(link.tx, PEER_DROPS);
    purged = card_counter(link.ctx, UNETMM_C_drop_purged);
    ask_host("set x-force-miss 50000");
    pid = start_process(keep_sending, stream);
    for (i = 0; i < rounds(1); i++) {
        await_messages(stream, 50);
        ask_host("move");
        await_messages(stream, 50);
    }
    atomic_store(&stream->stop, true);
    end_process(pid);
    ask_host("set x-force-miss 0");
    drops = peer_ask(link.tx, PEER_DROPS) - drops;
    purged = card_counter(link.ctx, UNETMM_C_drop_purged) - purged;
    count = peer_ask(link.tx, PEER_COUNT);
    note("%llu sent, %llu arrived, %llu purged, %llu dropped there; %llu "
         "refused", (unsigned long long)atomic_load(&stream->sent),
         (unsigned long long)count, (unsigned long long)purged,
         (unsigned long long)drops,
         (unsigned long long)atomic_load(&stream->refused));
    CHECK_EQ(count + purged + drops, atomic_load(&stream->sent));
    CHECK_EQ(peer_ask(link.tx, PEER_BAD), 0);
    CHECK_EQ(peer_ask(link.tx, PEER_DOUBLES), 0);
    peer_ask(link.tx, PEER_ECHO);
    link_close(&link);
}
