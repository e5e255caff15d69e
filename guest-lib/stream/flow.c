/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Positions of a stream, and the checks of those that the peer reports.
 */
#include "flow.h"

#include <libunetmm/stream.h>

#include <string.h>

static bool is_size(uint64_t size)
{
    return size >= UNETMM_STREAM_RING_LEAST && size <= UNETMM_STREAM_RING_MOST &&
           !(size & (size - 1));
}

void flow_init(struct flow *flow, uint32_t in_size)
{
    memset(flow, 0, sizeof(*flow));
    flow->in_size = in_size;
}

bool flow_peer(struct flow *flow, uint64_t out_size)
{
    if (flow->out_size || !is_size(out_size)) {
        return false;
    }
    flow->out_size = (uint32_t)out_size;
    return true;
}

uint32_t flow_word(unsigned kind, uint64_t position)
{
    return kind << FLOW_KIND_SHIFT | ((uint32_t)position & FLOW_POSITION);
}

static void words_add(struct flow_words *words, uint64_t end)
{
    words->end[(words->first + words->count) % FLOW_WORDS] = end;
    words->count++;
}

/* Takes those that end up to there; returns how many. */
static uint32_t words_until(struct flow_words *words, uint64_t position)
{
    uint32_t taken = 0;

    while (words->count && words->end[words->first] <= position) {
        words->first = (words->first + 1) % FLOW_WORDS;
        words->count--;
        taken++;
    }
    return taken;
}

/* How far the word is beyond a position that we know. */
static uint32_t beyond(uint32_t word, uint64_t position)
{
    return (word - (uint32_t)position) & FLOW_POSITION;
}

/* ---- Receiving --------------------------------------------------------- */

/* The bytes that the peer may still write, by the credit that it knows of. */
static uint64_t peers_room(const struct flow *flow)
{
    return flow->in_size - (flow->received - flow->told);
}

/*
 * The place is looked at, too: if a write before this one has failed at the
 * peer's own side, this one is not where the bytes that we have end.
 */
static bool take_data(struct flow *flow, uint32_t word, uint64_t offset,
                      uint32_t len)
{
    uint32_t more = beyond(word, flow->received);

    if (flow->fin_in || !more || more != len || more > peers_room(flow) ||
        offset != (flow->received & (flow->in_size - 1)) ||
        more > flow->in_size - offset ||
        flow->words_in.count + flow->words_done >= FLOW_WORDS) {
        return false;
    }
    flow->received += more;
    if (flow->ahead < flow->received) {
        flow->ahead = flow->received;
    }
    words_add(&flow->words_in, flow->received);
    return true;
}

static bool take_ahead(struct flow *flow, uint32_t word, uint32_t len)
{
    uint32_t more = beyond(word, flow->received);

    if (flow->fin_in || len || more > peers_room(flow) ||
        flow->received + more < flow->ahead) {
        return false;
    }
    flow->ahead = flow->received + more;
    return true;
}

static bool take_credit(struct flow *flow, uint32_t word, uint32_t len)
{
    uint32_t more = beyond(word, flow->credited);

    if (len || !more || more > flow->sent - flow->credited) {
        return false;
    }
    flow->credited += more;
    words_until(&flow->words_out, flow->credited);
    return true;
}

static bool take_fin(struct flow *flow, uint32_t word, uint32_t len)
{
    if (flow->fin_in || len || beyond(word, flow->received) ||
        flow->ahead != flow->received) {
        return false;
    }
    flow->fin_in = true;
    return true;
}

bool flow_take(struct flow *flow, uint32_t word, uint64_t offset, uint32_t len)
{
    switch (word >> FLOW_KIND_SHIFT) {
    case FLOW_DATA:
        return take_data(flow, word, offset, len);
    case FLOW_CREDIT:
        return take_credit(flow, word, len);
    case FLOW_FIN:
        return take_fin(flow, word, len);
    default:
        return take_ahead(flow, word, len);
    }
}

uint64_t flow_there(const struct flow *flow)
{
    return flow->received - flow->consumed;
}

uint32_t flow_stretch(const struct flow *flow, uint64_t *offset)
{
    uint64_t there = flow_there(flow);

    *offset = flow->consumed & (flow->in_size - 1);
    return (uint32_t)(there < flow->in_size - *offset ? there :
                      flow->in_size - *offset);
}

void flow_consume(struct flow *flow, uint64_t len)
{
    flow->consumed += len;
    flow->words_done += words_until(&flow->words_in, flow->consumed);
}

bool flow_owes(const struct flow *flow)
{
    return flow->consumed != flow->told && !flow->fin_in &&
           (flow->consumed - flow->told >= flow->in_size / FLOW_SHARE ||
            flow->words_done >= FLOW_WORDS / FLOW_SHARE);
}

uint32_t flow_tell(struct flow *flow)
{
    flow->told = flow->consumed;
    flow->words_done = 0;
    return flow_word(FLOW_CREDIT, flow->told);
}

/* ---- Sending ----------------------------------------------------------- */

uint64_t flow_room(const struct flow *flow)
{
    if (!flow->out_size || flow->words_out.count == FLOW_WORDS) {
        return 0;
    }
    return flow->out_size - (flow->sent - flow->credited);
}

uint32_t flow_piece(const struct flow *flow, uint64_t *offset)
{
    uint64_t room = flow_room(flow);

    *offset = flow->out_size ? flow->sent & (flow->out_size - 1) : 0;
    return (uint32_t)(room < flow->out_size - *offset ? room :
                      flow->out_size - *offset);
}

uint32_t flow_put(struct flow *flow, uint32_t len)
{
    flow->sent += len;
    words_add(&flow->words_out, flow->sent);
    return flow_word(FLOW_DATA, flow->sent);
}
