/*
 * unetmm lab `policy`: the scene and the test
 *
 * The card is the real core on the tests' host.  The lab's policy takes the place
 * of `skip` in a copy of the card's tables, so that the core is not compiled again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "policy.h"

#define BUFFERS     8u
#define MESSAGES    96u
#define ROUND       6u          /* messages from one page-out to the next */
#define AWAY        4u          /* messages from a page-out to the page-in */
#define BULK_BYTES  2000u
#define OWN_ROW     UNETMM_POLICY_SKIP

typedef struct Outcome {
    unsigned got_short, got_bulk, returned;
} Outcome;

typedef struct Scene {
    Fix *f;
    UnetmmTables tables;
    UnetmmPolicyRow rows[8];
    unsigned posted, first;     /* buffers that were posted, and the oldest of them */
    Outcome o;
} Scene;

static bool is_short(unsigned n)
{
    return n % 3 == 1;
}

static uint32_t length(unsigned n)
{
    return is_short(n) ? 64 + n : BULK_BYTES;
}

static uint64_t buffer(unsigned n)
{
    return FIX_PAGE(n % BUFFERS);
}

static void post(Scene *s)
{
    fake_post(&s->f->a, buffer(s->posted), FAKE_PAGE, s->posted);
    s->posted++;
}

/* An endpoint with this policy, and its buffers. */
static void scene(Scene *s, Fix *f, const UnetmmPolicyOps *ops)
{
    UnetmmCore *core = &f->h.core;

    *s = (Scene) { .f = f, .tables = *core->tables };
    assert_true(s->tables.npolicies <= G_N_ELEMENTS(s->rows));
    memcpy(s->rows, core->tables->policies,
           s->tables.npolicies * sizeof(s->rows[0]));
    s->rows[OWN_ROW].ops = ops;
    s->tables.policies = s->rows;
    core->tables = &s->tables;
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.policy = OWN_ROW;
    fake_ep_create(&f->a);
    fake_connect_peer(&f->a, FIX_WIRE, 11, FIX_MTU);
    for (unsigned i = 0; i < BUFFERS; i++) {
        post(s);
    }
    fake_ring_bell(&f->a);
    fix_settle(f);
}

static void page_out(Scene *s)
{
    FakeVpage *page = fake_vpage(s->f->s1, buffer(s->first));

    page->absent = true;
    fake_take_away(s->f->s1, buffer(s->first), FAKE_PAGE);
    fix_settle(s->f);
}

static void page_in(Scene *s)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        fake_vpage(s->f->s1, buffer(i))->absent = false;
    }
    fake_paged_in(&s->f->d);
    fix_settle(s->f);
}

/* Takes the completions; each buffer that is free again is posted. */
static void take(Scene *s)
{
    struct unetmm_cqe cqe;

    while (fake_poll(&s->f->a, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_BUFFER) {
            assert_int_equal(cqe.status, UNETMM_ST_SKIPPED);
            s->o.returned++;
        } else {
            assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            *(cqe.len == BULK_BYTES ? &s->o.got_bulk : &s->o.got_short) += 1;
        }
        assert_int_equal(cqe.cookie, s->first);
        s->first++;
        post(s);
    }
    fake_ring_bell(&s->f->a);
    fix_settle(s->f);
}

static Outcome run(Fix *f, const UnetmmPolicyOps *ops)
{
    const UnetmmTables *before = f->h.core.tables;
    Scene s;

    scene(&s, f, ops);
    for (unsigned n = 0; n < MESSAGES; n++) {
        if (n % ROUND == 0) {
            page_out(&s);
        }
        fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, length(n), n));
        take(&s);
        if (n % ROUND == AWAY - 1) {
            page_in(&s);
        }
    }
    print_message("# %-8s short messages %u of %u, bulk %u of %u, buffers returned "
                  "unfilled %u\n", ops->name, s.o.got_short, MESSAGES / 3, s.o.got_bulk,
                  MESSAGES - MESSAGES / 3, s.o.returned);
    /* The scene's tables go with it. */
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    f->h.core.tables = before;
    fake_ep_open(&f->a, &f->d, 1, f->s1);
    return s.o;
}

static const UnetmmPolicyOps *of_card(Fix *f, unsigned id)
{
    return unetmm_policy_by_id(&f->h.core, id);
}

/* ---- The tests ----------------------------------------------------------- */

static void short_messages_all_arrive(void **state)
{
    assert_int_equal(run(*state, &policy_courier).got_short, MESSAGES / 3);
}

/* Bulk messages come again by their program's protocol: they take no buffer along. */
static void bulk_returns_no_buffer(void **state)
{
    Fix *f = *state;
    Outcome skip = run(f, of_card(f, UNETMM_POLICY_SKIP));
    Outcome own = run(f, &policy_courier);

    /* The short message behind a page-out returns the buffer, the bulk one before it none. */
    assert_true(own.returned <= MESSAGES / ROUND);
    assert_true(own.got_bulk < skip.got_bulk);
}

static void it_is_better_than_drop(void **state)
{
    Fix *f = *state;
    Outcome drop = run(f, of_card(f, UNETMM_POLICY_DROP));
    Outcome own = run(f, &policy_courier);

    assert_true(own.got_short > drop.got_short);
    assert_true(own.got_bulk > drop.got_bulk);
}

/* Where a verdict cannot be followed the card takes another one: yours need not rely on it. */
static void verdicts_can_be_followed(void **state)
{
    static const struct {
        UnetmmAbsentAt at;
        bool next;
        uint32_t len;
        UnetmmVerdict verdict;
    } table[] = {
        { UNETMM_ABSENT_MESSAGE, true, SHORT_BYTES, UNETMM_VERDICT_NEXT },
        { UNETMM_ABSENT_MESSAGE, true, SHORT_BYTES + 1, UNETMM_VERDICT_DROP },
        { UNETMM_ABSENT_SEND, true, 1, UNETMM_VERDICT_REFUSE },
        { UNETMM_ABSENT_SEND, false, 4096, UNETMM_VERDICT_REFUSE },
        { UNETMM_ABSENT_WRITE, false, 1, UNETMM_VERDICT_REFUSE },
        { UNETMM_ABSENT_SLOT, false, 1, UNETMM_VERDICT_DROP },
    };
    Fix *f = *state;

    for (unsigned i = 0; i < G_N_ELEMENTS(table); i++) {
        const UnetmmAbsent ctx = {
            .ep = &f->h.core.eps[1], .at = table[i].at, .next = table[i].next,
            .len = table[i].len,
        };

        assert_int_equal(policy_courier.absent(&f->h.core, &ctx),
                         table[i].verdict);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fix_test(short_messages_all_arrive),
        fix_test(bulk_returns_no_buffer),
        fix_test(it_is_better_than_drop),
        fix_test(verdicts_can_be_followed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
