/*
 * unetmm: the usual scene: two processes with an endpoint each on one card
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

int fix_setup_bare(void **state)
{
    FixTune *tune = (FixTune *)*state;
    Fix *f = g_new0(Fix, 1);
    UnetmmParams p;

    fake_params(&p);
    if (tune) {
        tune(&p);
    }
    fake_host_init(&f->h, &p);
    fake_driver_init(&f->d, &f->h);
    fake_driver_start(&f->d);
    *state = f;
    return 0;
}

int fix_setup(void **state)
{
    Fix *f;

    fix_setup_bare(state);
    f = *state;
    f->s1 = fake_space(&f->d, 1, UNETMM_SOURCE_TLB, 0);
    f->s2 = fake_space(&f->d, 2, UNETMM_SOURCE_TLB, 0);
    fake_map(f->s1, FIX_VA, FIX_PAGES * FAKE_PAGE, FAKE_RW);
    fake_map(f->s2, FIX_VA, FIX_PAGES * FAKE_PAGE, FAKE_RW);
    fake_ep_open(&f->a, &f->d, 1, f->s1);
    fake_ep_open(&f->b, &f->d, 2, f->s2);
    fake_connect(&f->a, &f->b, FIX_LOCAL, FIX_MTU);
    fake_connect_peer(&f->a, FIX_WIRE, 11, FIX_MTU);
    fake_connect_peer(&f->b, FIX_WIRE, 12, FIX_MTU);
    memset(f->h.interrupts, 0, sizeof(f->h.interrupts));
    return 0;
}

int fix_teardown(void **state)
{
    Fix *f = *state;

    if (f->h.made && !f->h.spoilt) {
        fake_check_counts(&f->h.core);
        fake_check_work(&f->h);
        /* None goes backwards; of a restored card all may be wrong. */
        for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
            assert_true((int64_t)f->h.core.counters[i] >= 0);
        }
        fake_check_reset(&f->h);
    }
    fake_driver_free(&f->d);
    fake_host_free(&f->h);
    g_free(f);
    return 0;
}

void fix_settle(Fix *f)
{
    unsigned rounds = 0;

    fake_ring_bell(&f->a);
    fake_ring_bell(&f->b);
    do {
        assert_true(++rounds < 10000);
        fake_serve(&f->d);
    } while (fake_run_later(&f->h) || f->d.ring[UNETMM_RING_FAULT].index !=
             fake_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_FAULT) +
                      UNETMM_RING_PROD));
}

void fix_send(Fix *f, FakeEp *ep, unsigned page, uint32_t len, uint64_t cookie)
{
    fake_send_at(ep, FIX_WIRE, FIX_PAGE(page), len, cookie);
    fake_ring_bell(ep);
}

void fix_no_fault(Fix *f)
{
    struct unetmm_fault fault;

    assert_false(fake_fault(&f->d, &fault));
}

void fix_receive(Fix *f, FakeEp *ep, uint32_t len, uint32_t n)
{
    fake_deliver(&f->h, fake_datagram(ep, FIX_WIRE, 13, len, n));
}

void fix_expect_send(Fix *f, FakeEp *ep, uint64_t at, uint32_t len,
                     uint8_t status)
{
    unsigned frames = f->h.wire->len;

    fake_send_at(ep, FIX_WIRE, at, len, at);
    fake_ring_bell(ep);
    fake_expect(ep, UNETMM_CQE_SENT, status, at);
    assert_int_equal(f->h.wire->len, frames + (status == UNETMM_ST_OK));
}

void fix_check_lie(UnetmmCore *core, unsigned number, bool told,
                   const char *expected)
{
    GByteArray *saved = unetmm_core_save(core);
    g_autofree char *why = NULL;
    FakeHost other;

    assert_true(saved->len <= unetmm_core_save_limit(core));
    fake_host_init(&other, &core->params);
    if (unetmm_core_load(&other.core, saved->data, saved->len, &why)) {
        if (told) {
            fail_msg("lie %u is believed: %s", number, expected);
        }
    } else if (!told || !strstr(why, expected)) {
        fail_msg("lie %u: \"%s\" is not in: %s", number, expected, why);
    }
    g_byte_array_unref(saved);
    fake_host_free(&other);
}
