/*
 * unetmm: fuzzing: slots and the backup ring
 *
 * A hostile process with an endpoint of policy backup and a raw one: its free
 * queue, indices and the frames that come are the input's.  The driver is sane:
 * it gives buffers, reads records and answers in any order; now and then
 * somebody forges an answer.  The card may touch pinned pages, and buffers of
 * the backup ring that have not been reported (fake_host.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz.h"

#define SLOT_EP         5               /* policy backup; the next: raw */
#define SLOT_BITS       5
#define SLOT_BUFFERS    6

static FakeEp eps[2];
/* Slots whose records the driver threw away; to the card they are unanswered. */
static bool forgotten[256];

static void open_eps(FuzzCard *c)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FLOW_SET, .ep = SLOT_EP + 1,
        .flow = { .flow = 1, .kind = UNETMM_FLOW_MAC },
    };

    fake_ep_create(&eps[0]);
    fake_connect_peer(&eps[0], FIX_WIRE, 10 + SLOT_EP, 9000);
    fake_ep_create(&eps[1]);
    memcpy(cmd.flow.mac, c->h.core.params.mac, sizeof(cmd.flow.mac));
    assert_int_equal(fake_command(&c->d, cmd, NULL), UNETMM_CS_OK);
}

static void slots_start(FuzzCard *c)
{
    bool odp = c->h.core.params.tlb_ways == 2;
    FakeSpace *s = c->d.spaces[1];

    memset(forgotten, 0, sizeof(forgotten));
    c->d.hold_backups = true;
    if (odp) {
        s = fake_space(&c->d, 3, UNETMM_SOURCE_ODP, 4);
        fake_map(s, FIX_VA, FUZZ_PAGES * FAKE_PAGE, FAKE_RW);
        fake_invalidate(s, FIX_VA, FUZZ_PAGES * FAKE_PAGE);
    }
    for (unsigned i = 0; i < 2; i++) {
        fake_ep_init(&eps[i], &c->d, SLOT_EP + i, s);
        eps[i].fq_log2 = 2;
        eps[i].cq_log2 = 3;
    }
    eps[0].policy = UNETMM_POLICY_BACKUP;
    eps[0].backup = SLOT_BITS;
    eps[1].policy = UNETMM_POLICY_DROP;
    eps[1].flags = UNETMM_EP_F_RAW;
    open_eps(c);
    fake_buffers(&c->d, SLOT_BUFFERS / 2, 2048);
    fake_buffers(&c->d, SLOT_BUFFERS / 2, 300);
}

/* Both end and begin again, with packets in the ring. */
static void open_again(FuzzCard *c)
{
    for (unsigned i = 0; i < 2; i++) {
        struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY,
                                  .ep = eps[i].id };
        struct unetmm_cmd_done done;

        fake_issue(&c->d, cmd);
        while (!fake_done(&c->d, &done)) {
            fake_advance(&c->h, 1000);
        }
        assert_int_equal(done.status, UNETMM_CS_OK);
        memset(fake_ptr(&c->h, eps[i].index, 128), 0, 128);
        memset(fake_ptr(&c->h, eps[i].cq, 64u << eps[i].cq_log2), 0,
               64u << eps[i].cq_log2);
        eps[i].sq_prod = eps[i].fq_prod = eps[i].cq_cons = 0;
    }
    memset(forgotten, 0, sizeof(forgotten));
    open_eps(c);
}

static void give(FuzzCard *c, FuzzIn *in, bool raw)
{
    uint32_t len = fuzz_u16(in) % 2500;
    FakeFrame *f = fake_datagram(&eps[0], FIX_WIRE, 10 + SLOT_EP, len, len);

    if (raw) {
        f->data[12] = 8;
        f->data[13] = 0;
    }
    fake_receive(&c->h, f);
    g_free(f);
}

/* Where the record's packet belongs, if that is anywhere. */
static uint8_t copy(FuzzCard *c, const struct unetmm_fault *f,
                    const struct unetmm_fqe *fqe)
{
    const FakeBuffer *b = &g_array_index(c->d.buffers, FakeBuffer,
                                         f->fault_id);
    uint64_t end = FIX_VA + FUZZ_PAGES * FAKE_PAGE;

    if (fqe->addr < FIX_VA || fqe->addr > end ||
        f->npages > end - fqe->addr) {
        return UNETMM_ST_PROTECTION;
    }
    if (f->npages > fqe->len) {
        return UNETMM_ST_TOO_LONG;
    }
    if (f->npages) {
        fake_store(eps[0].space, fqe->addr,
                   fake_ptr(&c->h, b->addr, f->npages), f->npages);
    }
    return UNETMM_ST_OK;
}

/* Answers one of those reported, if its slot is there; the buffer is new. */
static void answer(FuzzCard *c, FuzzIn *in)
{
    unsigned n = fuzz_u8(in);
    struct unetmm_fault f;
    struct unetmm_fqe fqe;
    FakeBuffer b;
    uint8_t status;

    fake_serve(&c->d);
    if (!c->d.backups->len) {
        return;
    }
    n %= c->d.backups->len;
    f = g_array_index(c->d.backups, struct unetmm_fault, n);
    fqe = fake_fqe(&eps[0], f.vaddr);
    status = fake_backup_done(&c->d, &f, copy(c, &f, &fqe), fqe.cookie);
    assert_true(status == UNETMM_CS_OK || status == UNETMM_CS_BAD_ARG ||
                status == UNETMM_CS_BAD_ID);
    if (status == UNETMM_CS_BAD_ARG && n & 1) {
        return;
    }
    forgotten[f.vaddr % 256] |= status == UNETMM_CS_BAD_ARG;
    g_array_remove_index(c->d.backups, n);
    b = g_array_index(c->d.buffers, FakeBuffer, f.fault_id);
    fake_rights(&c->h, b.addr, b.len, FAKE_W);
    fake_buffer_at(&c->d, b.addr, b.len, 0);
}

/* Only an answer that was never given is not refused. */
static void forge(FuzzCard *c, FuzzIn *in)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_BACKUP_DONE, .ep = SLOT_EP,
        .backup = { .slot = fuzz_u8(in), .bit = fuzz_u8(in) % 8,
                    .status = fuzz_u8(in) },
    };
    bool known = forgotten[cmd.backup.slot];
    uint8_t status;

    fake_serve(&c->d);
    for (unsigned i = 0; i < c->d.backups->len; i++) {
        known |= (uint32_t)g_array_index(c->d.backups, struct unetmm_fault,
                                         i).vaddr == cmd.backup.slot;
    }
    status = fake_command(&c->d, cmd, NULL);
    assert_true(known || status != UNETMM_CS_OK);
}

static void pages(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    uint64_t at = FIX_VA + (what >> 1) % FUZZ_PAGES * FAKE_PAGE;

    if (what & 1) {
        fake_insert(eps[0].space, at, 1, NULL);
    } else if (fake_invalidate(eps[0].space, at, FAKE_PAGE)) {
        while (fake_reg(&c->h, UNETMM_REG_INV_CTRL)) {
            fake_advance(&c->h, 100);
        }
    }
}

static void process(FuzzCard *c, FuzzIn *in, FakeEp *ep, unsigned what)
{
    struct unetmm_cqe cqe;
    uint8_t raw[32];

    switch (what) {
    case 0: case 1:
        fuzz_post16(in, ep, 7);
        break;
    case 2:
        fuzz_post(in, ep);
        break;
    case 3:
        fuzz_bytes(in, raw, sizeof(raw));
        fake_write(&c->h, ep->fq + 32 * (raw[31] & 3), raw, sizeof(raw));
        break;
    case 4:
        fake_user_word(ep, 4 * fuzz_below(in, 4), fuzz_u8(in));
        break;
    default:
        while (fake_poll(ep, &cqe)) {
        }
        break;
    }
}

static void slots_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = &eps[what >> 4 & 1];
    uint32_t result;

    switch (what & 15) {
    case 0: case 1: case 2:
        give(c, in, ep == &eps[1]);
        break;
    case 3: case 4: case 5: case 6: case 7: case 8:
        process(c, in, ep, (what & 15) - 3);
        break;
    case 9:
        fake_tail_arm(&eps[0], fuzz_u8(in), what >> 5 & 1, &result);
        break;
    case 10: case 11:
        answer(c, in);
        break;
    case 12:
        forge(c, in);
        break;
    case 13:
        pages(c, in);
        break;
    case 14:
        fuzz_world_op(c, in);
        break;
    default:
        if (fuzz_u8(in) & 1) {
            open_again(c);
        } else {
            fake_may_migrate(&c->h);
        }
    }
    if (what & 0x80) {
        fake_ring_bell(ep);
    }
}

const FuzzTarget fuzz_target = { .start = slots_start, .op = slots_op };
