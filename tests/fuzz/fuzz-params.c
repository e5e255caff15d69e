/*
 * unetmm: fuzzing: parameters of cards, and the first bytes of saved states
 *
 * QEMU's command line has the parameters, and a reader of saved states
 * (unetmm-migration-dump) takes them from a file that anybody may have written.
 * Parameters that pass the check make a card, which is saved: the parameters in
 * the stream are those of the card, and the stream is within its limit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz.h"

#define MOST 64         /* of each kind of object: a card is made in no time */

/* The numbers in the order of UnetmmParams, and values at their limits. */
static void change(FuzzIn *in, UnetmmParams *p)
{
    static const uint32_t values[] = {
        0, 1, 2, 3, 16, 17, 32, 33, 63, 64, 512, 513, 1024, 1025, 4096, 4097,
        16385, 65535, 65536, 65537, 1u << 20, (1u << 20) + 1, 1u << 30,
        (1u << 30) + 1, UINT32_MAX,
    };
    uint32_t *const numbers[] = {
        &p->endpoints, &p->spaces, &p->channels, &p->tlb_sets, &p->tlb_ways,
        &p->tlb_victims, &p->tlb_index, &p->tlb_replace, &p->cache_entries,
        &p->cache_ways, &p->utlb_fetch, &p->pretranslate, &p->fault_batch,
        &p->max_faults, &p->user_mtu, &p->local_queue, &p->reliable,
        &p->reliable_keep, &p->regions, &p->imports, &p->window_pages,
        &p->window_queue, &p->proxy_pages, &p->sysbuf_slots, &p->flows,
        &p->backup_bits, &p->budget_descriptors, &p->budget_bytes,
        &p->congestion, &p->congestion_window, &p->congestion_trip_ns,
        NULL,                   /* the others */
    };
    uint32_t *number = numbers[fuzz_below(in, G_N_ELEMENTS(numbers))];
    uint8_t how = fuzz_u8(in);

    if (!number) {
        p->mac[0] ^= how & 1;
        p->dma_page_ns = how & 2 ? fuzz_u64(in) : how;
    } else if (how & 0x80) {
        *number = fuzz_u32(in);
    } else {
        *number = values[how % G_N_ELEMENTS(values)];
    }
}

/* Parameters of a card that takes a moment to make and to save. */
static bool small(const UnetmmParams *p)
{
    return p->endpoints <= MOST && p->spaces <= MOST && p->channels <= MOST &&
           p->tlb_sets <= MOST && p->cache_entries <= MOST &&
           p->local_queue <= MOST && p->reliable <= MOST &&
           p->reliable_keep <= 4 * MOST && p->regions <= MOST &&
           p->imports <= MOST && p->window_pages <= MOST &&
           p->window_queue <= MOST && p->proxy_pages <= MOST &&
           p->sysbuf_slots <= MOST && p->flows <= MOST &&
           p->backup_bits <= MOST && p->tlb_victims <= MOST &&
           p->max_faults <= 4 * MOST;
}

/* But for the padding behind the first member. */
static void same(const UnetmmParams *p, const UnetmmParams *read)
{
    assert_memory_equal(p->mac, read->mac, sizeof(p->mac));
    assert_memory_equal(&p->endpoints, &read->endpoints,
                        sizeof(*p) - offsetof(UnetmmParams, endpoints));
}

/* Its own bytes name its parameters; bytes that have changed name some or none. */
static void use(FuzzCard *c, FuzzIn *in, const UnetmmParams *p)
{
    UnetmmCore *core = &c->h.core;
    const UnetmmHostOps *ops = core->ops;
    UnetmmParams read = *p;     /* of the budgets there are none */
    GByteArray *saved;
    uint32_t left;

    unetmm_core_free(core);
    unetmm_core_init(core, p, ops, &c->h);
    unetmm_core_set_seed(core, p->endpoints);
    saved = unetmm_core_save(core);
    assert_true(saved->len <= unetmm_core_save_limit(core));
    memset(&read.mac, 0xff, offsetof(UnetmmParams, budget_descriptors));
    assert_null(unetmm_core_saved_params(saved->data, saved->len, &read));
    same(p, &read);
    for (unsigned n = fuzz_below(in, 5); n; n--) {
        uint32_t at = fuzz_u16(in) % MIN(saved->len, 256);

        saved->data[at] ^= fuzz_u8(in);
    }
    left = fuzz_u16(in);        /* once: MIN() may look twice */
    g_byte_array_set_size(saved, MIN(saved->len, left));
    if (!unetmm_core_saved_params(saved->data, saved->len, &read)) {
        assert_null(unetmm_params_check(&read));
    }
    g_byte_array_unref(saved);
}

static void params_op(FuzzCard *c, FuzzIn *in)
{
    UnetmmParams p;
    const char *why;

    fake_params(&p);
    for (unsigned n = fuzz_below(in, 4); n; n--) {
        change(in, &p);
    }
    why = unetmm_params_check(&p);
    if (why) {
        assert_true(strlen(why) > 10);
    } else if (small(&p)) {
        use(c, in, &p);
    }
}

const FuzzTarget fuzz_target = { .bare = true, .op = params_op };
