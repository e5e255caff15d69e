/*
 * unetmm: papers' figures: a stream whose receiver faults (NPF, Figure 10,
 * InfiniBand)
 *
 * Both ends have all their memory; at each 2^log2-th packet that arrives for
 * the first time, its page goes.  The card answers RNR NACK, the driver brings
 * the page after `fault`, and the sender tries again after `not_ready`.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"

#define CHANNEL     3
#define VA          0x7f5500000000ull
#define BUFFERS     (VA + 0x10000000ull)
#define SLOTS       8
#define WARM        50

typedef struct Rnr {
    uint32_t sent, done, got, posted;
    uint32_t rounds;
    uint32_t last_psn;
    uint64_t packets, faults;
    bool faulting;
    Ps began, ended;
} Rnr;

static uint64_t slot_at(Node *n, uint32_t k)
{
    return k % SLOTS * n->run->c.bytes;
}

static void post(Node *n)
{
    Rnr *s = n->run->scene;

    fake_post(&n->ep, BUFFERS + slot_at(n, s->posted), n->run->c.bytes,
              s->posted);
    s->posted++;
}

static void send_more(Node *n)
{
    Rnr *s = n->run->scene;
    bool some = false;

    while (s->sent - s->done < SLOTS) {
        fake_send_at(&n->ep, CHANNEL, VA + slot_at(n, s->sent),
                     n->run->c.bytes, s->sent);
        s->sent++;
        some = true;
    }
    if (some) {
        node_bell(n);
    }
}

static void sender_completed(Node *n)
{
    Rnr *s = n->run->scene;
    struct unetmm_cqe cqe;

    while (fake_poll(&n->ep, &cqe)) {
        must(cqe.status == UNETMM_ST_OK);
        if (++s->done == WARM) {
            s->began = n->run->now;
            s->faulting = true;
        } else if (s->done == WARM + s->rounds) {
            s->ended = n->run->now;
            n->run->stop = true;
        }
    }
    send_more(n);
}

static void receiver_completed(Node *n)
{
    Rnr *s = n->run->scene;
    struct unetmm_cqe cqe;
    bool some = false;

    while (fake_poll(&n->ep, &cqe)) {
        must(cqe.opcode == UNETMM_CQE_RECEIVED);
        s->got++;
        post(n);
        some = true;
    }
    if (some) {
        node_bell(n);
    }
}

/* A packet for the first time: does its page go? */
static bool receiver_takes(Node *n, FakeFrame *f)
{
    Rnr *s = n->run->scene;
    struct unetmm_frame h;

    memcpy(&h, f->data, sizeof(h));
    unetmm_le_frame(&h);
    if (h.opcode != UNETMM_WIRE_SEND || (int32_t)(h.psn - s->last_psn) <= 0) {
        return false;
    }
    s->last_psn = h.psn;
    /* In the middle of so many, so that its pause is counted whole. */
    if (s->faulting && s->packets++ % (1ull << n->run->c.log2) ==
        1ull << (n->run->c.log2 - 1)) {
        s->faults++;
        node_enter(n);
        fake_invalidate(n->s, BUFFERS + slot_at(n, s->got) + h.offset, h.len);
        node_leave(n);
    }
    return false;
}

static void tune(Run *r, UnetmmParams *p)
{
    p->tlb_sets = 4096;
    p->user_mtu = r->c.mtu;
}

/* Prints the time of all messages, and their bits. */
void paper_rnr(Run *r)
{
    struct unetmm_cmd_channel how = {
        .mtu = r->c.mtu, .not_ready_us = r->c.not_ready / PS_PER_US,
        .retries = 100, .timeout_us = r->c.timeout / PS_PER_US,
        .flags = r->c.early ? 0 : UNETMM_CHANNEL_F_PLAIN_RNR,
    };
    Rnr s = { .rounds = r->c.rounds };
    uint64_t pages = SLOTS * r->c.bytes / FAKE_PAGE;

    r->scene = &s;
    for (unsigned i = 0; i < 2; i++) {
        Node *n = node_new(r, i, tune, UNETMM_SOURCE_TLB);

        node_map(n, VA, pages);
        node_map(n, BUFFERS, pages);
        n->ep.policy = UNETMM_POLICY_RNR;
        fake_ep_create(&n->ep);
        for (uint64_t k = 0; k < pages; k += 8) {
            fake_insert(n->s, (i ? BUFFERS : VA) + k * FAKE_PAGE, 8, NULL);
        }
        must(fake_channel_rel(&n->ep, CHANNEL + i, node_mac(!i), 2 - i,
                                CHANNEL + !i, &how) == UNETMM_CS_OK);
    }
    r->node[0]->completed = sender_completed;
    r->node[1]->completed = receiver_completed;
    r->node[1]->takes = receiver_takes;
    for (unsigned k = 0; k < SLOTS; k++) {
        post(r->node[1]);
    }
    fake_ring_bell(&r->node[1]->ep);
    fake_serve(&r->node[1]->d);
    node_start(r->node[0], PS_PER_US * 10);
    node_start(r->node[1], PS_PER_US * 10);
    send_more(r->node[0]);
    run_all(r);
    must(r->stop);
    result("time", s.ended - s.began);
    result("bits", (int64_t)s.rounds * r->c.bytes * 8);
    result("faults", s.faults);
    result("nacks", r->node[1]->h.core.counters[UNETMM_C_rel_nacks_sent]);
}
