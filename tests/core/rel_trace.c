/*
 * unetmm: some messages over a bad wire, for the model to follow
 *
 * With UNETMM_TRACE=1 the events go to stderr; tests/model/rel-trace.py checks
 * them against the rules of the model.  UNETMM_SEED chooses the run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pair.h"

static void cramped(UnetmmParams *p)
{
    p->tlb_sets = 32;
    p->tlb_victims = 8;
    p->reliable_keep = 9;
    p->pretranslate = 1;
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 300;
}

static void run(void **state)
{
    static PairTune *const tunes[] = { cramped, slow };
    const struct unetmm_cmd_channel how = {
        .mtu = 2000, .send_psn = 0xffffffc0, .recv_psn = 0x7fffffd0,
        .retries = 100, .flags = UNETMM_CHANNEL_F_ACK,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(tunes); i++) {
        g_autofree Pair *p = g_new(Pair, 1);

        pair_init(p, tunes[i], UNETMM_SOURCE_TLB, fake_seed() + i, &how);
        p->wire.ns_per_kb = 500;
        p->wire.loss = p->wire.dup = 60000;
        p->wire.late = 60000;
        p->wire.late_ns = 100000;
        pair_exchange(p, 4, 4);
        pair_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(run) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
