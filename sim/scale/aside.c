/*
 * unetmm: hosts with cards in a simulated network: packets whose page is absent
 *
 * With policies redirect and backup the card puts such a packet into memory of the
 * driver, and reports it.  The driver brings the pages of its buffer, copies
 * it there (`copy_byte`), and answers.  A packet of the backup ring may be for a
 * buffer that has not been posted: the driver waits for the post.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

#define SYSBUF_BYTES    (4u << 20)      /* of the fake host's memory */

/* Has the host buffers that may be absent, or not posted in time? */
static bool has(const Config *c, unsigned number, int64_t policy)
{
    return c->policy == policy && !source_model(c->source)->fixed &&
           c->workload->receives(c, number);
}

uint32_t aside_credits(const Config *c, unsigned number)
{
    return has(c, number, UNETMM_POLICY_REDIRECT) ?
           MIN(UNETMM_REL_WINDOW, c->slots / c->workload->channels(c, number)) : 0;
}

const char *aside_refuses(const Config *c, unsigned number)
{
    if (lossy(c) && !c->workload->datagrams) {
        return "policies drop and backup are for datagrams, which incast has";
    }
    if (lossy(c) && c->bytes > c->mtu) {
        return "a datagram has at most the bytes of mtu";
    }
    if (!has(c, number, UNETMM_POLICY_REDIRECT)) {
        return NULL;
    }
    if (!aside_credits(c, number)) {
        return "policy redirect needs a slot for each channel of a host";
    }
    if (c->slots * (UNETMM_SLOT_HEAD + c->mtu) > SYSBUF_BYTES) {
        return "slots of the system buffer, with mtu bytes each, have 4 MiB at most";
    }
    return NULL;
}

void aside_params(const Host *h, UnetmmParams *p)
{
    const Config *c = h->config;

    if (has(c, h->number, UNETMM_POLICY_REDIRECT)) {
        p->sysbuf_slots = c->slots;
    } else if (has(c, h->number, UNETMM_POLICY_BACKUP)) {
        p->backup_bits = c->slots;
    }
}

void aside_init(Host *h)
{
    const Config *c = h->config;
    FakeDriver *d = &h->node->d;
    FakeEp *ep = &h->node->ep;

    ep->policy = source_model(c->source)->fixed ? UNETMM_POLICY_DROP :
                 c->workload->receives(c, h->number) ? c->policy :
                 lossy(c) ? UNETMM_POLICY_DROP : UNETMM_POLICY_RNR;
    d->hold_slots = d->hold_backups = true;
    if (has(c, h->number, UNETMM_POLICY_REDIRECT)) {
        must(fake_sysbuf(d, c->slots, c->mtu) == UNETMM_CS_OK);
    } else if (has(c, h->number, UNETMM_POLICY_BACKUP)) {
        uint64_t room = fake_alloc(d->host, c->mtu, 64, FAKE_W);

        /* Nothing looks at the contents: all buffers are at one place. */
        ep->backup = c->slots;
        for (int64_t i = 0; i < c->slots; i++) {
            fake_buffer_at(d, room, c->mtu, 0);
        }
    }
}

/* The pages from `vaddr` on, so many bytes. */
static void set_pages(Job *job, uint64_t vaddr, uint64_t bytes)
{
    job->fault.vaddr = vaddr & ~(uint64_t)(FAKE_PAGE - 1);
    job->fault.npages = pages_of(vaddr % FAKE_PAGE + bytes);
}

static void begin(Host *h, const Job *job, uint64_t bytes)
{
    const Costs *c = &h->run.c;

    memory_bring(h, job, node_work(h->node, c->fault + c->reply +
                                   per_byte(c->copy_byte, bytes)));
}

/* ---- The system buffer --------------------------------------------------------- */

static void slot_there(Host *h, const Job *job)
{
    GArray *full = h->node->d.full;
    unsigned at = 0;

    while (g_array_index(full, uint32_t, at) != job->record.fault_id) {
        at++;
        must(at < full->len);
    }
    h->memory.full--;
    fake_slot_serve(&h->node->d, at);
}

static void begin_slot(Host *h, uint32_t slot)
{
    Job job = { .record.fault_id = slot, .there = slot_there };
    struct unetmm_slot head = fake_slot(&h->node->d, slot);
    uint64_t first = UINT64_MAX, end = 0;

    for (unsigned i = 0; i < head.npieces; i++) {
        first = MIN(first, head.piece[i].addr);
        end = MAX(end, head.piece[i].addr + head.piece[i].len);
    }
    set_pages(&job, first, end - first);
    begin(h, &job, head.len);
}

/* ---- The backup ring ------------------------------------------------------------ */

static void backup_there(Host *h, const Job *job)
{
    FakeDriver *d = &h->node->d;
    uint64_t pages = job->fault.npages;
    unsigned at = 0;

    while (g_array_index(d->backups, struct unetmm_fault, at).vaddr !=
           job->record.vaddr) {
        at++;
        must(at < d->backups->len);
    }
    /* With a table the card asks for nothing: the driver enters the pages. */
    if (!h->source->tlb_pins && !h->source->before) {
        fake_make_present(h->node->s, job->fault.vaddr, pages * FAKE_PAGE);
    }
    h->memory.backups--;
    fake_backup_serve(d, at);
}

static bool posted(const FakeEp *ep, uint64_t slot)
{
    return ep->fq_prod - (uint32_t)slot - 1 < 1u << ep->fq_log2;
}

static void begin_backup(Host *h, const struct unetmm_fault *record)
{
    FakeEp *ep = &h->node->ep;
    Job job = { .record = *record, .there = backup_there };

    if (!posted(ep, record->vaddr)) {
        g_queue_push_tail(&h->memory.unposted, g_memdup2(record,
                                                         sizeof(*record)));
        return;
    }
    job.fault.space = record->space;
    set_pages(&job, fake_fqe(ep, record->vaddr).addr, record->npages);
    begin(h, &job, record->npages);
}

void aside_posted(Host *h)
{
    GQueue *unposted = &h->memory.unposted;

    while (unposted->head) {
        struct unetmm_fault *record = unposted->head->data;

        if (!posted(&h->node->ep, record->vaddr)) {
            return;
        }
        g_queue_pop_head(unposted);
        node_work(h->node, h->config->costs.interrupt);
        begin_backup(h, record);
        g_free(record);
    }
}

void aside_service(Host *h)
{
    FakeDriver *d = &h->node->d;
    Memory *m = &h->memory;

    m->aside_most = MAX(m->aside_most, MAX(d->full->len, d->backups->len));
    for (; m->full < d->full->len; m->full++) {
        begin_slot(h, g_array_index(d->full, uint32_t, m->full));
    }
    for (; m->backups < d->backups->len; m->backups++) {
        begin_backup(h, &g_array_index(d->backups, struct unetmm_fault,
                                       m->backups));
    }
}
