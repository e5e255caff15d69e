/*
 * unetmm: papers' figures: a stream whose receiver faults (NPF, Figure 10,
 * Ethernet)
 *
 * The sender is a model: it has something to send at any time, and stops while
 * the receiver's ring has no slot (Ethernet's flow control).  The receiver is
 * the card with policy backup: at each 2^log2-th packet the page of the slot
 * goes, the packet goes to the backup ring, those behind it land and are not
 * shown; a thread brings the page and copies the packet after `service`, one
 * for each.  The process posts each buffer again as soon as it is shown.
 * With `descriptors` a page with so many of the ring's descriptors goes, instead
 * of a buffer: then no packet finds its slot until one thread has brought it.
 * (This card's rings cannot be absent, so all buffers that the page names go.)
 *
 * paper_drop: without a backup ring the packet is lost, and the sender stands
 * still until its timer, `drop_time`.  Only the faults are events there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"

#define CHANNEL     1
#define PEER        11
#define VA          0x7f5500000000ull
#define BACKUPS     1024

typedef struct Stream {
    FakeFrame *frame;
    uint64_t sent, got, posted;
    uint64_t warm, rounds;
    uint64_t faults;
    bool waiting;               /* the sender, for a slot */
    Ps began, ended;
} Stream;

static uint64_t slot_page(Node *n, uint64_t k)
{
    return VA + k % n->run->c.ring * FAKE_PAGE;
}

static void post(Node *n)
{
    Stream *s = n->run->scene;

    fake_post(&n->ep, slot_page(n, s->posted), FAKE_PAGE, s->posted);
    s->posted++;
}

/* From slot k on, as many pages as go together. */
static uint64_t fault_bytes(Node *n, uint64_t k)
{
    uint64_t together = MAX(1, n->run->c.descriptors);

    return (together - k % together) * FAKE_PAGE;
}

/* One packet arrives, and the next begins. */
static void packet(Run *r, Node *n, void *arg)
{
    Stream *s = r->scene;

    if (s->sent == s->posted) {
        s->waiting = true;
        return;
    }
    node_enter(n);
    if (s->sent % (1ull << r->c.log2) == 0) {
        s->faults++;
        fake_invalidate(n->s, slot_page(n, s->sent), fault_bytes(n, s->sent));
    }
    n->now += r->c.card.arrive;
    s->sent++;
    must(fake_receive(&n->h, s->frame));
    node_leave(n);
    run_at(r, r->now + node_wire_time(&r->c, r->c.bytes), packet, n, NULL);
}

static void completed(Node *n)
{
    Stream *s = n->run->scene;
    struct unetmm_cqe cqe;

    while (fake_poll(&n->ep, &cqe)) {
        must(cqe.opcode == UNETMM_CQE_RECEIVED);
        s->got++;
        post(n);
        if (s->got == s->warm) {
            s->began = n->run->now;
        } else if (s->got == s->warm + s->rounds) {
            s->ended = n->run->now;
            n->run->stop = true;
        }
    }
    if (s->waiting) {
        s->waiting = false;
        run_at(n->run, n->run->now, packet, n, NULL);
    }
}

/* The thread has the page, and copies. */
static void thread_done(Run *r, Node *n, void *arg)
{
    struct unetmm_fault f = g_array_index(n->d.backups, struct unetmm_fault,
                                          0);
    struct unetmm_fqe fqe = fake_fqe(&n->ep, f.vaddr);
    uint64_t k = (fqe.addr - VA) / FAKE_PAGE;

    node_enter(n);
    fake_make_present(n->s, fqe.addr, fault_bytes(n, k));
    fake_backup_serve(&n->d, 0);
    node_leave(n);
}

static void service(Node *n)
{
    const Costs *c = &n->run->c;
    unsigned had = n->d.backups->len;

    node_enter(n);
    fake_serve(&n->d);
    node_leave(n);
    for (unsigned i = had; i < n->d.backups->len; i++) {
        run_at(n->run, n->run->now + c->fault + c->service +
               per_byte(c->copy_byte, c->bytes), thread_done, n, NULL);
    }
}

static void tune(Run *r, UnetmmParams *p)
{
    p->backup_bits = r->c.backup_bits;
}

/* Prints the time of so many packets, and their bits. */
void paper_backup(Run *r)
{
    Stream s = { .rounds = r->c.rounds << r->c.log2,
                 .warm = 2048 + (1 << r->c.log2) };
    Node *n = node_new(r, 0, tune, UNETMM_SOURCE_ODP);

    r->scene = &s;
    node_map(n, VA, r->c.ring);
    n->ep.policy = UNETMM_POLICY_BACKUP;
    n->ep.backup = r->c.backup_bits;
    while (1 << n->ep.fq_log2 < r->c.ring) {
        n->ep.fq_log2++;
    }
    n->ep.cq_log2 = n->ep.fq_log2 + 1;
    fake_ep_create(&n->ep);
    fake_connect_peer(&n->ep, CHANNEL, PEER, 65536);
    n->d.hold_backups = true;
    for (unsigned i = 0; i < BACKUPS; i++) {
        fake_buffers(&n->d, 1, 2048);
    }
    for (int64_t i = 0; i < r->c.ring; i++) {
        post(n);
    }
    s.frame = fake_datagram(&n->ep, CHANNEL, PEER, r->c.bytes, 1);
    node_start(n, PS_PER_US);
    n->completed = completed;
    n->service = service;
    run_at(r, PS_PER_US, packet, n, NULL);
    run_all(r);
    must(r->stop);
    g_free(s.frame);
    result("time", s.ended - s.began);
    result("bits", (int64_t)s.rounds * r->c.bytes * 8);
    result("faults", s.faults);
    result("backed", n->h.core.counters[UNETMM_C_backup_packets]);
    result("lost", s.sent - s.got - n->h.core.eps[1].head_offset);
}

/* ---- Without the ring --------------------------------------------------- */

static void burst(Run *r, Node *n, void *arg);

/* The sender's timer: it begins again with the packet that was lost. */
static void timer_over(Run *r, Node *n, void *arg)
{
    run_at(r, r->now, burst, n, NULL);
}

/* As many packets as get through before the next that does not. */
static void burst(Run *r, Node *n, void *arg)
{
    Stream *s = r->scene;
    uint64_t packets = 1ull << r->c.log2;

    if (s->faults++ == s->rounds) {
        s->ended = r->now;
        r->stop = true;
        return;
    }
    s->got += packets;
    run_at(r, r->now + (Ps)packets * node_wire_time(&r->c, r->c.bytes) +
           r->c.drop_time, timer_over, n, NULL);
}

void paper_drop(Run *r)
{
    Stream s = { .rounds = r->c.rounds };

    r->scene = &s;
    run_at(r, 0, burst, NULL, NULL);
    run_all(r);
    result("time", s.ended);
    result("bits", (int64_t)s.got * r->c.bytes * 8);
}
