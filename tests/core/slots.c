/*
 * unetmm: the scene of the tests of slots: one endpoint without heads
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "slots.h"

int slots_setup(void **state)
{
    Slots *t = g_new0(Slots, 1);

    fake_params(&t->p);
    *state = t;
    return 0;
}

int slots_teardown(void **state)
{
    Slots *t = *state;

    if (t->s) {
        fake_driver_free(&t->d);
        fake_host_free(&t->h);
    }
    g_free(t);
    return 0;
}

void slots_open(Slots *t, uint8_t source, uint16_t bits)
{
    bool tables = source != UNETMM_SOURCE_TLB;
    uint8_t fault_log2 = t->d.ring[UNETMM_RING_FAULT].log2;
    uint8_t fq_log2 = t->e.fq_log2, cq_log2 = t->e.cq_log2;

    fake_host_init(&t->h, &t->p);
    fake_driver_init(&t->d, &t->h);
    if (fault_log2) {
        t->d.ring[UNETMM_RING_FAULT].log2 = fault_log2;
    }
    fake_driver_start(&t->d);
    t->d.hold_backups = true;
    t->s = fake_space(&t->d, 1, source, tables ? 4 : 0);
    fake_map(t->s, SLOTS_VA, SLOTS_PAGES * FAKE_PAGE, FAKE_RW);
    fake_ep_init(&t->e, &t->d, 1, t->s);
    t->e.fq_log2 = fq_log2 ?: t->e.fq_log2;
    t->e.cq_log2 = cq_log2 ?: t->e.cq_log2;
    t->e.policy = bits ? UNETMM_POLICY_BACKUP : UNETMM_POLICY_DROP;
    t->e.backup = bits;
    t->e.flags = bits ? 0 : UNETMM_EP_F_RAW;
    fake_ep_create(&t->e);
    if (bits) {
        fake_connect_peer(&t->e, 1, 11, 65536);
    }
    if (source != UNETMM_SOURCE_PINNED) {
        slots_absent(t, 0, SLOTS_PAGES);
    }
}

/* As a flow does it, which has found the endpoint. */
static void give_raw(Slots *t, uint32_t len, uint32_t n)
{
    UnetmmCore *core = &t->h.core;
    UnetmmEp *ep;
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = len,
        .flags = n % 2 ? UNETMM_CQE_F_CSUM_OK : 0,
    };
    g_autofree uint8_t *data = g_malloc(len + 1);

    for (uint32_t i = 0; i < len; i++) {
        data[i] = fake_pattern(n, i);
    }
    fake_may_migrate(&t->h);
    ep = &core->eps[t->e.id];
    assert_false(core->landing->active);
    unetmm_engine_enter(core);
    if (!ep->error && unetmm_ep_read_user(core, ep)) {
        unetmm_slot_receive(core, ep, &cqe, data);
        unetmm_ep_sync(core, ep);
    }
    unetmm_engine_leave(core);
}

void slots_give(Slots *t, uint32_t len, uint32_t n)
{
    if (t->e.flags & UNETMM_EP_F_RAW) {
        give_raw(t, len, n);
    } else {
        fake_deliver(&t->h, fake_datagram(&t->e, 1, 11, len, n));
    }
}

void slots_post(Slots *t, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        fake_post(&t->e, SLOTS_PAGE(i), SLOTS_LEN, SLOTS_PAGE(i));
    }
}

void slots_present(Slots *t, unsigned first, unsigned n)
{
    fake_make_present(t->s, SLOTS_PAGE(first), n * FAKE_PAGE);
}

void slots_absent(Slots *t, unsigned first, unsigned n)
{
    fake_take_away(t->s, SLOTS_PAGE(first), n * FAKE_PAGE);
}

void slots_got(Slots *t, unsigned page, uint32_t len, uint32_t n)
{
    bool raw = t->e.flags & UNETMM_EP_F_RAW;
    struct unetmm_cqe cqe = fake_expect(&t->e, UNETMM_CQE_RECEIVED,
                                        UNETMM_ST_OK, SLOTS_PAGE(page));

    assert_int_equal(cqe.len, len);
    assert_int_equal(cqe.channel, raw ? 0 : 1);
    assert_int_equal(cqe.flags & ~UNETMM_PHASE,
                     raw && n % 2 ? UNETMM_CQE_F_CSUM_OK : 0);
    fake_check(t->s, SLOTS_PAGE(page), len, n);
}

void slots_returned(Slots *t, unsigned page, uint8_t status)
{
    struct unetmm_cqe cqe = fake_expect(&t->e, UNETMM_CQE_BUFFER, status,
                                        SLOTS_PAGE(page));

    assert_int_equal(cqe.len, 0);
    assert_int_equal(cqe.flags & ~UNETMM_PHASE, 0);
}

struct unetmm_fault slots_record(Slots *t)
{
    struct unetmm_fault f;

    fake_serve(&t->d);
    assert_true(t->d.backups->len > 0);
    f = g_array_index(t->d.backups, struct unetmm_fault, 0);
    g_array_remove_index(t->d.backups, 0);
    return f;
}

void slots_settle(Slots *t)
{
    unsigned rounds = 0;

    fake_ring_bell(&t->e);
    do {
        assert_true(++rounds < 10000);
        fake_serve(&t->d);
    } while (fake_run_later(&t->h));
}

uint64_t slots_drops(Slots *t)
{
    uint64_t n = 0;

    for (unsigned i = UNETMM_C_drop_no_buffer; i <= UNETMM_C_drop_dma; i++) {
        n += fake_counter(&t->h, i);
    }
    for (unsigned i = UNETMM_C_drop_backup_bits;
         i <= UNETMM_C_drop_backup_report; i++) {
        n += fake_counter(&t->h, i);
    }
    return n;
}
