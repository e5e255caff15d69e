/*
 * unetmm: the card's TLB alone: placing, victims, holding, invalidating
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fake_host.h"

#define R   (UNETMM_PTE_VALID | UNETMM_PTE_READ)
#define RW  (R | UNETMM_PTE_WRITE)

typedef struct Evicted {
    uint16_t space;
    uint64_t vpn;
    uint64_t pte;
    uint32_t tag;
    bool dirty;
} Evicted;

typedef struct Bench {
    UnetmmTlb tlb;
    GArray *out;                /* of Evicted, in order */
    bool refuse;
} Bench;

static bool bench_evict(void *opaque, const UnetmmTlbEntry *e)
{
    Bench *b = opaque;
    Evicted out = { e->space, e->vpn, e->pte, e->tag, e->dirty };

    /* The owner is told of an entry that is not in use. */
    assert_true(e->valid);
    assert_int_equal(e->busy, 0);
    assert_int_equal(e->in_dma, 0);
    if (b->refuse) {
        return false;
    }
    g_array_append_val(b->out, out);
    return true;
}

static void bench_init(Bench *b, uint32_t sets, uint32_t ways,
                       uint32_t victims)
{
    memset(b, 0, sizeof(*b));
    b->out = g_array_new(false, false, sizeof(Evicted));
    unetmm_tlb_init(&b->tlb, sets, ways, victims);
    b->tlb.evict = bench_evict;
    b->tlb.opaque = b;
}

static void bench_free(Bench *b)
{
    unetmm_tlb_free(&b->tlb);
    g_array_unref(b->out);
}

/* One page, in a batch of its own. */
static UnetmmTlbInsert put(Bench *b, uint16_t space, uint64_t vpn)
{
    UnetmmTlbInsert result;

    unetmm_tlb_new_batch(&b->tlb);
    result = unetmm_tlb_insert(&b->tlb, space, vpn, vpn << 12 | RW, vpn + 1);
    unetmm_tlb_new_batch(&b->tlb);
    return result;
}

static UnetmmTlbHit look(Bench *b, uint16_t space, uint64_t vpn)
{
    uint32_t id = UNETMM_TLB_NONE;
    UnetmmTlbHit hit = unetmm_tlb_lookup(&b->tlb, space, vpn, false, &id);

    if (hit != UNETMM_TLB_MISS) {
        assert_true(id < unetmm_tlb_capacity(&b->tlb));
        assert_int_equal(b->tlb.entries[id].vpn, vpn);
        assert_int_equal(b->tlb.entries[id].space, space);
    } else {
        assert_int_equal(id, UNETMM_TLB_NONE);
    }
    return hit;
}

static uint32_t hold(Bench *b, uint16_t space, uint64_t vpn)
{
    uint32_t id;

    assert_int_not_equal(unetmm_tlb_lookup(&b->tlb, space, vpn, false, &id),
                         UNETMM_TLB_MISS);
    unetmm_tlb_hold(&b->tlb, id);
    return id;
}

static const Evicted *out_at(Bench *b, unsigned n)
{
    assert_true(n < b->out->len);
    return &g_array_index(b->out, Evicted, n);
}

/* ---- Single rules ---- */

TEST(test_conflict_goes_to_victims, cmocka_unit_test)
{
    Bench b;

    bench_init(&b, 8, 1, 2);
    assert_int_equal(put(&b, 1, 3), UNETMM_TLB_INSERTED);
    assert_int_equal(put(&b, 1, 3 + 8), UNETMM_TLB_INSERTED);
    assert_int_equal(b.out->len, 0);
    assert_int_equal(look(&b, 1, 3 + 8), UNETMM_TLB_HIT_SET);
    /* The hit among the victims takes the place in the set. */
    assert_int_equal(look(&b, 1, 3), UNETMM_TLB_HIT_VICTIM);
    assert_int_equal(look(&b, 1, 3), UNETMM_TLB_HIT_SET);
    assert_int_equal(look(&b, 1, 3 + 8), UNETMM_TLB_HIT_VICTIM);
    assert_int_equal(b.tlb.used, 2);
    bench_free(&b);
}

TEST(test_victims_are_fifo, cmocka_unit_test)
{
    Bench b;

    bench_init(&b, 4, 1, 3);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(put(&b, 1, 4 * i), UNETMM_TLB_INSERTED);
    }
    /* One in the set, three victims: the first four fell out in order. */
    assert_int_equal(b.out->len, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(out_at(&b, i)->vpn, 4 * i);
        assert_int_equal(out_at(&b, i)->pte, (4 * i) << 12 | RW);
        assert_int_equal(out_at(&b, i)->tag, 4 * i + 1);
    }
    /* A swap puts the page that left the set at the end of the FIFO. */
    assert_int_equal(look(&b, 1, 16), UNETMM_TLB_HIT_VICTIM);
    put(&b, 1, 100);
    put(&b, 1, 104);
    put(&b, 1, 108);
    assert_int_equal(out_at(&b, 4)->vpn, 20);
    assert_int_equal(out_at(&b, 5)->vpn, 24);
    assert_int_equal(out_at(&b, 6)->vpn, 28);
    bench_free(&b);
}

TEST(test_no_victims_at_all, cmocka_unit_test)
{
    Bench b;

    bench_init(&b, 2, 1, 0);
    put(&b, 1, 0);
    put(&b, 1, 2);
    assert_int_equal(b.out->len, 1);
    assert_int_equal(out_at(&b, 0)->vpn, 0);
    assert_int_equal(look(&b, 1, 0), UNETMM_TLB_MISS);
    assert_int_equal(look(&b, 1, 2), UNETMM_TLB_HIT_SET);
    bench_free(&b);
}

TEST(test_replacement_fifo_lru, cmocka_unit_test)
{
    for (unsigned lru = 0; lru < 2; lru++) {
        Bench b;

        bench_init(&b, 1, 3, 0);
        b.tlb.replace = lru ? UNETMM_TLB_REPLACE_LRU
                            : UNETMM_TLB_REPLACE_FIFO;
        put(&b, 1, 10);
        put(&b, 1, 11);
        put(&b, 1, 12);
        look(&b, 1, 10);
        put(&b, 1, 13);
        assert_int_equal(out_at(&b, 0)->vpn, lru ? 11 : 10);
        look(&b, 1, 12);
        put(&b, 1, 14);
        assert_int_equal(out_at(&b, 1)->vpn, lru ? 10 : 11);
        bench_free(&b);
    }
}

TEST(test_replacement_random, cmocka_unit_test)
{
    bool gone[4] = { false };
    Bench b;

    bench_init(&b, 1, 4, 0);
    b.tlb.replace = UNETMM_TLB_REPLACE_RANDOM;
    for (unsigned i = 0; i < 4; i++) {
        put(&b, 1, i);
    }
    /* Each of the four ways is chosen at some time; the same run twice is
     * the same. */
    for (unsigned i = 4; i < 200; i++) {
        unsigned n = b.out->len;

        put(&b, 1, i);
        assert_int_equal(b.out->len, n + 1);
        if (out_at(&b, n)->vpn < 4) {
            gone[out_at(&b, n)->vpn] = true;
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_true(gone[i]);
    }
    bench_free(&b);
}

static bool any_entry(void *opaque, const UnetmmTlb *tlb,
                      const UnetmmTlbEntry *entry)
{
    return true;
}

/* The saved state of one TLB is that of another one that it is loaded into. */
static void save_and_compare(UnetmmTlb *tlb, uint32_t replace)
{
    UnetmmStream out = { .out = g_byte_array_new() };
    UnetmmStream again = { .out = g_byte_array_new() };
    UnetmmStream in = { 0 };
    UnetmmTlb copy;

    unetmm_tlb_init(&copy, tlb->sets, tlb->ways, tlb->victims);
    copy.replace = replace;
    unetmm_tlb_save(&out, tlb, any_entry, NULL);
    in.in = out.out->data;
    in.left = out.out->len;
    unetmm_tlb_save(&in, &copy, any_entry, NULL);
    assert_false(in.wrong);
    unetmm_tlb_save(&again, &copy, any_entry, NULL);
    assert_int_equal(again.out->len, out.out->len);
    assert_memory_equal(again.out->data, out.out->data, out.out->len);
    unetmm_tlb_free(&copy);
    g_byte_array_unref(out.out);
    g_byte_array_unref(again.out);
}

/* Whatever a replacement picks, held entries stay and the TLB can be saved. */
TEST(test_each_replacement, cmocka_unit_test)
{
    uint64_t random = fake_seed();

    for (uint32_t run = 0; run < 2 * UNETMM_TLB_NUM_REPLACE; run++) {
        uint32_t replace = run / 2;
        Bench b;
        uint32_t id;

        bench_init(&b, 2, 4, run & 1 ? 3 : 0);
        b.tlb.replace = replace;
        put(&b, 1, 0);
        id = hold(&b, 1, 0);
        for (unsigned i = 0; i < 500; i++) {
            uint64_t vpn = 1 + fake_random(&random) % 15;

            if (look(&b, 1, vpn) == UNETMM_TLB_MISS) {
                assert_int_equal(put(&b, 1, vpn), UNETMM_TLB_INSERTED);
            }
            assert_true(unetmm_tlb_consistent(&b.tlb));
            save_and_compare(&b.tlb, replace);
        }
        assert_int_equal(b.tlb.used, unetmm_tlb_capacity(&b.tlb));
        assert_int_equal(b.tlb.entries[id].vpn, 0);
        assert_true(b.tlb.entries[id].valid);
        unetmm_tlb_release(&b.tlb, id);
        bench_free(&b);
    }
}

/* Which pages of a space share a set with page 0 of space 0? */
TEST(test_index_functions, cmocka_unit_test)
{
    for (unsigned index = 0; index <= UNETMM_TLB_INDEX_XOR; index++) {
        for (unsigned space = 0; space < 40; space += 13) {
            uint32_t spread = space * 0x9e3779b1u;
            uint32_t expected = index ? spread % 16 : -spread % 16;
            unsigned conflicts = 0;

            for (unsigned vpn = 0; vpn < 16; vpn++) {
                Bench b;

                bench_init(&b, 16, 1, 0);
                b.tlb.index = index;
                put(&b, 0, 0);
                put(&b, space, 16 + vpn);
                if (b.out->len) {
                    assert_int_equal(vpn, expected);
                    conflicts++;
                }
                bench_free(&b);
            }
            /* A permutation: exactly one page of 16 meets it. */
            assert_int_equal(conflicts, 1);
        }
    }
}

TEST(test_spaces_are_apart, cmocka_unit_test)
{
    Bench b;
    uint32_t id;

    bench_init(&b, 8, 2, 4);
    unetmm_tlb_new_batch(&b.tlb);
    for (unsigned s = 0; s < 4; s++) {
        unetmm_tlb_insert(&b.tlb, s, 5, (100 + s) << 12 | RW, s);
    }
    for (unsigned s = 0; s < 4; s++) {
        assert_int_not_equal(look(&b, s, 5), UNETMM_TLB_MISS);
        unetmm_tlb_lookup(&b.tlb, s, 5, false, &id);
        assert_int_equal(b.tlb.entries[id].pte >> 12, 100 + s);
    }
    assert_int_equal(unetmm_tlb_invalidate(&b.tlb, 2, 0, UINT64_MAX >> 12), 1);
    for (unsigned s = 0; s < 4; s++) {
        assert_int_equal(look(&b, s, 5) == UNETMM_TLB_MISS, s == 2);
    }
    assert_int_equal(look(&b, 1, 5 | 1ull << 40), UNETMM_TLB_MISS);
    bench_free(&b);
}

TEST(test_right_is_asked, cmocka_unit_test)
{
    Bench b;
    uint32_t id = 77;

    bench_init(&b, 8, 1, 2);
    unetmm_tlb_new_batch(&b.tlb);
    unetmm_tlb_insert(&b.tlb, 1, 3, 0x5000 | R, 1);
    assert_int_equal(unetmm_tlb_lookup(&b.tlb, 1, 3, true, &id),
                     UNETMM_TLB_MISS);
    assert_int_equal(id, 77);
    assert_int_equal(look(&b, 1, 3), UNETMM_TLB_HIT_SET);
    /* An upgrade replaces in place, telling nobody. */
    assert_int_equal(unetmm_tlb_insert(&b.tlb, 1, 3, 0x5000 | RW, 2),
                     UNETMM_TLB_REPLACED);
    assert_int_equal(unetmm_tlb_lookup(&b.tlb, 1, 3, true, &id),
                     UNETMM_TLB_HIT_SET);
    assert_int_equal(b.out->len, 0);
    assert_int_equal(b.tlb.used, 1);
    bench_free(&b);
}

/* A page written through an entry is told, even if it was replaced. */
TEST(test_replaced_stays_dirty, cmocka_unit_test)
{
    Bench b;
    uint32_t id;

    bench_init(&b, 1, 1, 0);
    unetmm_tlb_new_batch(&b.tlb);
    unetmm_tlb_insert(&b.tlb, 1, 3, 0x5000 | RW, 1);
    assert_int_equal(unetmm_tlb_lookup(&b.tlb, 1, 3, true, &id),
                     UNETMM_TLB_HIT_SET);
    b.tlb.entries[id].dirty = true;
    assert_int_equal(unetmm_tlb_insert(&b.tlb, 1, 3, 0x5000 | R, 2),
                     UNETMM_TLB_REPLACED);
    put(&b, 1, 4);
    assert_int_equal(b.out->len, 1);
    assert_true(out_at(&b, 0)->dirty);
    assert_int_equal(out_at(&b, 0)->tag, 2);
    bench_free(&b);
}

TEST(test_all_held_refuses, cmocka_unit_test)
{
    Bench b;
    uint32_t id[3];

    bench_init(&b, 1, 1, 2);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(put(&b, 1, i), UNETMM_TLB_INSERTED);
    }
    for (unsigned i = 0; i < 3; i++) {
        id[i] = hold(&b, 1, i);
        assert_int_equal(b.tlb.entries[id[i]].vpn, i);
    }
    assert_int_equal(put(&b, 1, 9), UNETMM_TLB_REFUSED);
    assert_int_equal(b.out->len, 0);
    /* A held entry is not replaced by another translation of its page. */
    assert_int_equal(put(&b, 1, 1), UNETMM_TLB_REFUSED);
    assert_false(unetmm_tlb_evict_one(&b.tlb, id[0]));
    /* Names stay right while others come and go. */
    unetmm_tlb_release(&b.tlb, id[1]);
    assert_int_equal(put(&b, 1, 9), UNETMM_TLB_INSERTED);
    assert_int_equal(out_at(&b, 0)->vpn, 1);
    assert_int_equal(b.tlb.entries[id[0]].vpn, 0);
    assert_int_equal(b.tlb.entries[id[2]].vpn, 2);
    unetmm_tlb_release(&b.tlb, id[0]);
    unetmm_tlb_release(&b.tlb, id[2]);
    bench_free(&b);
}

/* The set is held, a victim is not: the new page goes among the victims. */
TEST(test_held_set_uses_victims, cmocka_unit_test)
{
    Bench b;
    uint32_t id;

    bench_init(&b, 1, 1, 1);
    put(&b, 1, 1);
    id = hold(&b, 1, 1);
    assert_int_equal(put(&b, 1, 2), UNETMM_TLB_INSERTED);
    assert_int_equal(look(&b, 1, 2), UNETMM_TLB_HIT_VICTIM);
    assert_int_equal(look(&b, 1, 2), UNETMM_TLB_HIT_VICTIM);
    assert_int_equal(put(&b, 1, 3), UNETMM_TLB_INSERTED);
    assert_int_equal(out_at(&b, 0)->vpn, 2);
    unetmm_tlb_release(&b.tlb, id);
    bench_free(&b);
}

TEST(test_batch_spares_its_own, cmocka_unit_test)
{
    Bench b;

    bench_init(&b, 4, 1, 2);
    for (unsigned i = 0; i < 6; i++) {
        put(&b, 1, 100 + 4 * i);
    }
    b.out->len = 0;
    unetmm_tlb_new_batch(&b.tlb);
    /* Same set: one place and two victims, then no more. */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(unetmm_tlb_insert(&b.tlb, 2, 4 * i, RW, 0),
                         UNETMM_TLB_INSERTED);
    }
    assert_int_equal(unetmm_tlb_insert(&b.tlb, 2, 12, RW, 0),
                     UNETMM_TLB_REFUSED);
    for (unsigned i = 0; i < b.out->len; i++) {
        assert_int_equal(out_at(&b, i)->space, 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_not_equal(look(&b, 2, 4 * i), UNETMM_TLB_MISS);
    }
    unetmm_tlb_new_batch(&b.tlb);
    assert_int_equal(unetmm_tlb_insert(&b.tlb, 2, 12, RW, 0),
                     UNETMM_TLB_INSERTED);
    bench_free(&b);
}

/* The most pages that consecutive addresses can occupy really fit. */
TEST(test_capacity_is_reached, cmocka_unit_test)
{
    Bench b;

    bench_init(&b, 8, 2, 5);
    unetmm_tlb_new_batch(&b.tlb);
    for (uint32_t i = 0; i < unetmm_tlb_capacity(&b.tlb); i++) {
        assert_int_equal(unetmm_tlb_insert(&b.tlb, 1, 1000 + i, RW, 0),
                         UNETMM_TLB_INSERTED);
    }
    for (uint32_t i = 0; i < unetmm_tlb_capacity(&b.tlb); i++) {
        assert_int_not_equal(look(&b, 1, 1000 + i), UNETMM_TLB_MISS);
    }
    assert_int_equal(unetmm_tlb_insert(&b.tlb, 1, 1021, RW, 0),
                     UNETMM_TLB_REFUSED);
    assert_int_equal(b.out->len, 0);
    bench_free(&b);
}

TEST(test_owner_says_no, cmocka_unit_test)
{
    Bench b;

    bench_init(&b, 1, 1, 1);
    put(&b, 1, 1);
    put(&b, 1, 2);
    b.refuse = true;
    assert_int_equal(put(&b, 1, 3), UNETMM_TLB_REFUSED);
    assert_int_not_equal(look(&b, 1, 1), UNETMM_TLB_MISS);
    assert_int_not_equal(look(&b, 1, 2), UNETMM_TLB_MISS);
    assert_false(unetmm_tlb_evict_one(&b.tlb, 0));
    b.refuse = false;
    assert_int_equal(put(&b, 1, 3), UNETMM_TLB_INSERTED);
    assert_int_equal(b.out->len, 1);
    bench_free(&b);
}

TEST(test_invalidated_while_held, cmocka_unit_test)
{
    Bench b;
    uint32_t id;

    bench_init(&b, 1, 1, 0);
    put(&b, 1, 5);
    id = hold(&b, 1, 5);
    unetmm_tlb_hold(&b.tlb, id);
    unetmm_tlb_dma_begin(&b.tlb, id);
    assert_true(unetmm_tlb_in_dma(&b.tlb, 1, 0, 5));
    assert_false(unetmm_tlb_in_dma(&b.tlb, 1, 6, 100));
    assert_false(unetmm_tlb_in_dma(&b.tlb, 2, 0, 100));
    assert_int_equal(unetmm_tlb_invalidate(&b.tlb, 1, 5, 5), 1);
    assert_true(b.tlb.entries[id].dying);
    assert_int_equal(look(&b, 1, 5), UNETMM_TLB_MISS);
    assert_true(unetmm_tlb_in_dma(&b.tlb, 1, 5, 5));
    /* Its place is not given away before it is let go. */
    assert_int_equal(put(&b, 1, 6), UNETMM_TLB_REFUSED);
    assert_int_equal(put(&b, 1, 5), UNETMM_TLB_REFUSED);
    assert_int_equal(unetmm_tlb_invalidate(&b.tlb, 1, 5, 5), 0);
    unetmm_tlb_dma_end(&b.tlb, id);
    assert_false(unetmm_tlb_in_dma(&b.tlb, 1, 5, 5));
    unetmm_tlb_release(&b.tlb, id);
    assert_int_equal(put(&b, 1, 6), UNETMM_TLB_REFUSED);
    unetmm_tlb_release(&b.tlb, id);
    assert_int_equal(put(&b, 1, 6), UNETMM_TLB_INSERTED);
    assert_int_equal(b.out->len, 0);
    assert_int_equal(b.tlb.used, 1);
    bench_free(&b);
}

/* Both ways through unetmm_tlb_invalidate() drop the same. */
TEST(test_invalidate_short_and_long, cmocka_unit_test)
{
    for (unsigned width = 1; width <= 64; width++) {
        Bench b;
        unsigned left = 0;

        bench_init(&b, 32, 1, 2);
        for (unsigned i = 0; i < 32; i++) {
            put(&b, 1, 0x400 + i);
            put(&b, 2, 0x440 + i);
        }
        for (unsigned i = 0; i < 96; i++) {
            left += look(&b, 1, 0x400 + i) != UNETMM_TLB_MISS;
        }
        left -= unetmm_tlb_invalidate(&b.tlb, 1, 0x408, 0x408 + width - 1);
        for (unsigned i = 0; i < 32; i++) {
            bool in = i >= 8 && i < 8 + width;

            if (in) {
                assert_int_equal(look(&b, 1, 0x400 + i), UNETMM_TLB_MISS);
            }
            left -= look(&b, 1, 0x400 + i) != UNETMM_TLB_MISS;
        }
        assert_int_equal(left, 0);
        bench_free(&b);
    }
}

/* The ends of the address space: no loop that never ends. */
TEST(test_invalidate_extremes, cmocka_unit_test)
{
    uint64_t top = UINT64_MAX >> 12;
    Bench b;

    bench_init(&b, 64, 1, 4);
    put(&b, 1, top);
    put(&b, 1, 0);
    assert_int_equal(unetmm_tlb_invalidate(&b.tlb, 1, top, top), 1);
    put(&b, 1, top);
    assert_int_equal(unetmm_tlb_invalidate(&b.tlb, 1, 0, top), 2);
    assert_int_equal(b.tlb.used, 0);
    bench_free(&b);
}

/* ---- The same rules once more, naively, and a long random run ---- */

typedef struct Naive {
    GArray *e;                  /* of NaiveEntry: no slots, no order */
    uint64_t clock;
    uint32_t epoch;
} Naive;

#define VICTIM UINT32_MAX

typedef struct NaiveEntry {
    uint16_t space;
    uint64_t vpn, pte, stamp;
    uint32_t where;             /* set number or VICTIM */
    uint32_t epoch;
    uint32_t tag;
    unsigned held;
    uint32_t id;                /* in the TLB, while held */
    bool dying;
} NaiveEntry;

typedef struct Model {
    Bench b;
    Naive n;
    GArray *out;                /* Evicted, as the model has it */
} Model;

static NaiveEntry *naive_at(Model *m, unsigned i)
{
    return &g_array_index(m->n.e, NaiveEntry, i);
}

static NaiveEntry *naive_find(Model *m, uint16_t space, uint64_t vpn)
{
    for (unsigned i = 0; i < m->n.e->len; i++) {
        NaiveEntry *e = naive_at(m, i);

        if (e->space == space && e->vpn == vpn && !e->dying) {
            return e;
        }
    }
    return NULL;
}

static uint32_t naive_set(Model *m, uint16_t space, uint64_t vpn)
{
    uint32_t spread = space * 0x9e3779b1u;

    return (m->b.tlb.index ? (uint32_t)vpn ^ spread : (uint32_t)vpn + spread)
           % m->b.tlb.sets;
}

static unsigned naive_count(Model *m, uint32_t where)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->n.e->len; i++) {
        n += naive_at(m, i)->where == where;
    }
    return n;
}

static NaiveEntry *naive_oldest(Model *m, uint32_t where)
{
    NaiveEntry *best = NULL;

    for (unsigned i = 0; i < m->n.e->len; i++) {
        NaiveEntry *e = naive_at(m, i);

        if (e->where == where && !e->dying && !e->held &&
            e->epoch != m->n.epoch && (!best || e->stamp < best->stamp)) {
            best = e;
        }
    }
    return best;
}

static void naive_remove(Model *m, NaiveEntry *e)
{
    g_array_remove_index_fast(m->n.e, e - naive_at(m, 0));
}

static bool naive_push_out(Model *m, NaiveEntry *e)
{
    Evicted out = { e->space, e->vpn, e->pte, e->tag, false };

    if (m->b.refuse) {
        return false;
    }
    g_array_append_val(m->out, out);
    naive_remove(m, e);
    return true;
}

/* Is there, or can there be made, a free place among the victims? */
static bool naive_victim_room(Model *m)
{
    NaiveEntry *oldest;

    if (naive_count(m, VICTIM) < m->b.tlb.victims) {
        return true;
    }
    oldest = naive_oldest(m, VICTIM);
    return oldest && naive_push_out(m, oldest);
}

static UnetmmTlbInsert naive_insert(Model *m, uint16_t space, uint64_t vpn,
                                    uint64_t pte, uint32_t tag)
{
    uint32_t set = naive_set(m, space, vpn);
    NaiveEntry *e = naive_find(m, space, vpn);
    NaiveEntry new = { space, vpn, pte, 0, set, m->n.epoch, tag, 0, 0, false };
    bool room;

    if (e) {
        if (e->held) {
            return UNETMM_TLB_REFUSED;
        }
        e->pte = pte;
        e->tag = tag;
        e->epoch = m->n.epoch;
        return UNETMM_TLB_REPLACED;
    }
    if (naive_count(m, set) >= m->b.tlb.ways) {
        bool way = naive_oldest(m, set);

        room = naive_victim_room(m);
        e = naive_oldest(m, set);
        if (!way && !room) {
            return UNETMM_TLB_REFUSED;
        } else if (!way) {
            new.where = VICTIM;
        } else if (room) {
            e->where = VICTIM;
            e->stamp = ++m->n.clock;
        } else if (!naive_push_out(m, e)) {
            return UNETMM_TLB_REFUSED;
        }
    }
    new.stamp = ++m->n.clock;
    g_array_append_val(m->n.e, new);
    return UNETMM_TLB_INSERTED;
}

static UnetmmTlbHit naive_lookup(Model *m, uint16_t space, uint64_t vpn,
                                 bool write)
{
    uint32_t set = naive_set(m, space, vpn);
    NaiveEntry *e = naive_find(m, space, vpn);
    NaiveEntry *way;

    if (!e || !(e->pte & (write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ))) {
        return UNETMM_TLB_MISS;
    }
    if (e->where != VICTIM) {
        if (m->b.tlb.replace == UNETMM_TLB_REPLACE_LRU) {
            e->stamp = ++m->n.clock;
        }
        return UNETMM_TLB_HIT_SET;
    }
    way = naive_oldest(m, set);
    if (way && !e->held) {
        way->where = VICTIM;
        way->stamp = ++m->n.clock;
        e->where = set;
        e->stamp = ++m->n.clock;
    }
    return UNETMM_TLB_HIT_VICTIM;
}

static unsigned naive_invalidate(Model *m, uint16_t space, uint64_t first,
                                 uint64_t last)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->n.e->len;) {
        NaiveEntry *e = naive_at(m, i);

        if (e->dying || e->space != space || e->vpn < first ||
            e->vpn > last) {
            i++;
            continue;
        }
        n++;
        if (e->held) {
            e->dying = true;
            i++;
        } else {
            naive_remove(m, e);
        }
    }
    return n;
}

static void model_hold(Model *m, uint64_t *random, uint16_t space,
                       uint64_t vpn)
{
    NaiveEntry *e;
    uint32_t id = 0;

    assert_int_equal(unetmm_tlb_lookup(&m->b.tlb, space, vpn, false, &id),
                     naive_lookup(m, space, vpn, false));
    e = naive_find(m, space, vpn);
    if (e && e->held < 3) {
        assert_true(!e->held || e->id == id);
        unetmm_tlb_hold(&m->b.tlb, id);
        e->id = id;
        e->held++;
    }
    if (m->n.e->len && fake_random(random) % 2) {
        e = naive_at(m, fake_random(random) % m->n.e->len);
        if (e->held) {
            /* Held: never moved, never reused, whatever happened. */
            assert_int_equal(m->b.tlb.entries[e->id].vpn, e->vpn);
            assert_int_equal(m->b.tlb.entries[e->id].pte, e->pte);
            assert_int_equal(m->b.tlb.entries[e->id].dying, e->dying);
            unetmm_tlb_release(&m->b.tlb, e->id);
            if (--e->held == 0 && e->dying) {
                naive_remove(m, e);
            }
        }
    }
}

static void model_step(Model *m, uint64_t *random)
{
    uint16_t space = fake_random(random) % 3;
    uint64_t vpn = fake_random(random) % 40;
    uint64_t last = vpn + fake_random(random) % 60;
    uint64_t pte = (uint64_t)fake_random(random) << 12 |
                   (fake_random(random) % 4 ? RW : R);
    bool write = fake_random(random) % 2;
    uint32_t id;

    switch (fake_random(random) % 16) {
    case 0:
        assert_int_equal(unetmm_tlb_invalidate(&m->b.tlb, space, vpn, last),
                         naive_invalidate(m, space, vpn, last));
        break;
    case 1:
        unetmm_tlb_new_batch(&m->b.tlb);
        m->n.epoch++;
        break;
    case 2:
        m->b.refuse = fake_random(random) % 8 == 0;
        break;
    case 3: case 4: case 5:
        model_hold(m, random, space, vpn);
        break;
    case 6: case 7: case 8: case 9: case 10:
        assert_int_equal(unetmm_tlb_insert(&m->b.tlb, space, vpn, pte,
                                           (uint32_t)vpn * 3),
                         naive_insert(m, space, vpn, pte, (uint32_t)vpn * 3));
        break;
    default:
        assert_int_equal(unetmm_tlb_lookup(&m->b.tlb, space, vpn, write, &id),
                         naive_lookup(m, space, vpn, write));
        break;
    }
}

static void model_compare(Model *m)
{
    assert_int_equal(m->b.tlb.used, m->n.e->len);
    assert_int_equal(m->b.out->len, m->out->len);
    for (unsigned i = 0; i < m->out->len; i++) {
        const Evicted *x = out_at(&m->b, i);
        const Evicted *y = &g_array_index(m->out, Evicted, i);

        assert_true(x->space == y->space && x->vpn == y->vpn &&
                    x->pte == y->pte && x->tag == y->tag);
    }
    m->out->len = m->b.out->len = 0;
    for (uint32_t i = 0; i < unetmm_tlb_capacity(&m->b.tlb); i++) {
        const UnetmmTlbEntry *e = &m->b.tlb.entries[i];
        NaiveEntry *n;

        if (e->valid) {
            n = naive_find(m, e->space, e->vpn);
            assert_non_null(n);
            assert_true(n->pte == e->pte && n->held == e->busy);
        }
    }
}

TEST(test_random_against_model, cmocka_unit_test)
{
    static const uint32_t shape[][3] = {
        { 8, 1, 4 }, { 1, 1, 1 }, { 16, 1, 0 }, { 4, 2, 3 }, { 2, 4, 16 },
        { 64, 1, 2 },
    };
    uint64_t random = fake_seed();

    for (unsigned run = 0; run < G_N_ELEMENTS(shape) * 4; run++) {
        const uint32_t *s = shape[run / 4];
        Model m = { .out = g_array_new(false, false, sizeof(Evicted)) };

        bench_init(&m.b, s[0], s[1], s[2]);
        m.b.tlb.index = run & 1;
        m.b.tlb.replace = run & 2 ? UNETMM_TLB_REPLACE_LRU
                                  : UNETMM_TLB_REPLACE_FIFO;
        m.n.e = g_array_new(false, false, sizeof(NaiveEntry));
        unetmm_tlb_new_batch(&m.b.tlb);
        m.n.epoch = 1;
        for (unsigned i = 0; i < 4000; i++) {
            model_step(&m, &random);
            if (i % 16 == 0) {
                model_compare(&m);
            }
        }
        g_array_unref(m.n.e);
        g_array_unref(m.out);
        bench_free(&m.b);
    }
}

/* A list fits if a batch of its pages is taken whole by an empty TLB. */
/* Whatever the memory held before, no evict() is called and the policy is FIFO. */
TEST(test_made_in_used_memory, cmocka_unit_test)
{
    UnetmmTlb tlb;

    memset(&tlb, 0xa5, sizeof(tlb));
    unetmm_tlb_init(&tlb, 1, 2, 0);
    for (uint64_t vpn = 0; vpn < 3; vpn++) {
        uint32_t id;

        unetmm_tlb_new_batch(&tlb);
        assert_int_equal(unetmm_tlb_insert(&tlb, 1, vpn, RW, 0),
                         UNETMM_TLB_INSERTED);
        unetmm_tlb_lookup(&tlb, 1, 0, true, &id);
    }
    assert_false(unetmm_tlb_has(&tlb, 1, 0));
    assert_true(unetmm_tlb_has(&tlb, 1, 1));
    unetmm_tlb_free(&tlb);
}

TEST(test_what_fits, cmocka_unit_test)
{
    unsigned fitted = 0, n_lists = 2000;
    uint64_t random = fake_seed();

    for (unsigned i = 0; i < n_lists; i++) {
        uint32_t sets = 1u << fake_random(&random) % 3;
        uint32_t ways = 1 + fake_random(&random) % 2;
        uint64_t vpns[10];
        bool all = true;
        uint32_t n = 1 + fake_random(&random) % G_N_ELEMENTS(vpns);
        Bench b;

        bench_init(&b, sets, ways, fake_random(&random) % 4);
        for (uint32_t k = 0; k < n; k++) {
            vpns[k] = 16 * k + fake_random(&random) % 16;
        }
        unetmm_tlb_new_batch(&b.tlb);
        for (uint32_t k = 0; k < n; k++) {
            all &= unetmm_tlb_insert(&b.tlb, 3, vpns[k], UNETMM_PTE_VALID,
                                     0) != UNETMM_TLB_REFUSED;
        }
        assert_int_equal(unetmm_tlb_fits(&b.tlb, 3, vpns, n), all);
        fitted += all;
        bench_free(&b);
    }
    assert_in_range(fitted, n_lists / 10, n_lists * 9 / 10);
}
