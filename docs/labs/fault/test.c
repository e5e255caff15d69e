/*
 * unetmm lab `fault`: the scene and the test
 *
 * Card and driver are those of the unit tests, with a clock that only pass()
 * moves: every run gives the same figures.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fault.h"

#define CHANNEL     3
#define BYTES       1000u
#define BUFFERS     8u
#define TX_PAGES    4u                  /* a sends from these in turn */
#define STEP_NS     10000

struct Scene {
    Fix *f;
    unsigned posted, taken;             /* b's buffers */
    FakeVpage *out;                     /* paged out */
    int64_t back_ns;                    /* 0: the card has not asked yet */
    unsigned asked;
    bool reliable;
};

static uint64_t buffer(unsigned n)
{
    return FIX_PAGE(n % BUFFERS);
}

static void post(Scene *s)
{
    fake_post(&s->f->b, buffer(s->posted), FAKE_PAGE, s->posted);
    s->posted++;
}

int64_t now_ns(const Scene *s)
{
    return s->f->h.now;
}

void send_message(Scene *s, unsigned n)
{
    uint64_t at = FIX_PAGE(20 + n % TX_PAGES);
    uint8_t bytes[BYTES];

    memset(bytes, n, sizeof(bytes));
    memcpy(bytes, &n, sizeof(n));
    fake_store(s->f->s1, at, bytes, sizeof(bytes));
    fake_send_at(&s->f->a, CHANNEL, at, BYTES, n);
    fake_ring_bell(&s->f->a);
    fake_run_later(&s->f->h);
}

void page_out(Scene *s)
{
    /* One at a time. */
    if (s->out) {
        return;
    }
    s->out = fake_vpage(s->f->s2, buffer(s->taken));
    s->out->absent = true;
    s->asked = s->out->asked;
    s->back_ns = 0;
    fake_take_away(s->f->s2, buffer(s->taken), FAKE_PAGE);
    fake_serve(&s->f->d);
}

static void driver_pages_in(Scene *s)
{
    fake_serve(&s->f->d);
    if (!s->out) {
        return;
    }
    if (!s->back_ns && s->out->asked != s->asked) {
        s->back_ns = now_ns(s) + PAGE_IN_NS;
    }
    if (s->back_ns && now_ns(s) >= s->back_ns) {
        s->out->absent = false;
        s->out = NULL;
        fake_paged_in(&s->f->d);
    }
}

void pass(Scene *s, int64_t ns)
{
    struct unetmm_cqe cqe;

    for (int64_t t = 0; t < ns; t += STEP_NS) {
        fake_advance(&s->f->h, MIN(STEP_NS, ns - t));
        driver_pages_in(s);
        fake_run_later(&s->f->h);
        while (fake_poll(&s->f->a, &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
        }
    }
}

bool receive(Scene *s, unsigned *n)
{
    struct unetmm_cqe cqe;
    uint8_t bytes[BYTES];

    if (!fake_poll(&s->f->b, &cqe)) {
        return false;
    }
    assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
    assert_int_equal(cqe.status, UNETMM_ST_OK);
    assert_int_equal(cqe.cookie, s->taken);
    fake_load(s->f->s2, buffer(s->taken), bytes, sizeof(bytes));
    memcpy(n, bytes, sizeof(*n));
    for (unsigned i = sizeof(*n); i < BYTES; i++) {
        assert_int_equal(bytes[i], (uint8_t)*n);
    }
    s->taken++;
    post(s);
    fake_ring_bell(&s->f->b);
    return true;
}

uint64_t counter(Scene *s, enum unetmm_counter c)
{
    return fake_ep_counter(&s->f->h, s->f->b.id, c);
}

/* ---- The scene ----------------------------------------------------------- */

static void scene(Fix *f, Scene *s, bool reliable)
{
    const uint8_t *mac = f->h.core.params.mac;
    const struct unetmm_cmd_channel how = {
        .mtu = 4096, .timeout_us = 20000, .retries = 7,
        .not_ready_us = rnr_delay_us(), .flags = UNETMM_CHANNEL_F_PLAIN_RNR,
    };

    *s = (Scene) { .f = f, .reliable = reliable };
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&f->b), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    fake_ep_init(&f->b, &f->d, 2, f->s2);
    f->a.sq_log2 = f->a.cq_log2 = 8;
    f->b.policy = reliable ? UNETMM_POLICY_RNR : UNETMM_POLICY_DROP;
    fake_ep_create(&f->a);
    fake_ep_create(&f->b);
    if (reliable) {
        assert_int_equal(fake_channel_rel(&f->a, CHANNEL, mac, 2, CHANNEL,
                                          &how), UNETMM_CS_OK);
        assert_int_equal(fake_channel_rel(&f->b, CHANNEL, mac, 1, CHANNEL,
                                          &how), UNETMM_CS_OK);
    } else {
        fake_connect(&f->a, &f->b, CHANNEL, 4096);
    }
    for (unsigned i = 0; i < BUFFERS; i++) {
        post(s);
    }
    fake_ring_bell(&f->b);
    fix_settle(f);
}

static Outcome run(Fix *f, bool reliable)
{
    Outcome o = { 0 };
    Scene s;

    scene(f, &s, reliable);
    measure(&s, &o);
    print_message("# %s: sent %u, delivered %u, lost %u, RNR NACKs %u, worst "
                  "%.0f us\n", reliable ? "rnr" : "drop", o.sent, o.delivered,
                  o.lost, o.refused, o.worst_ns / 1000.0);
    assert_int_equal(o.sent, MESSAGES);
    assert_int_equal(o.delivered, s.taken);
    assert_int_equal(o.sent, o.delivered + o.lost);
    assert_int_equal(o.lost, counter(&s, UNETMM_C_drop_absent) +
                     counter(&s, UNETMM_C_drop_asked));
    assert_int_equal(o.refused, counter(&s, UNETMM_C_rel_nacks_sent));
    return o;
}

/* ---- The tests ----------------------------------------------------------- */

/* A page-in takes as long as eight messages and more: so many are lost. */
static void drop_loses_a_burst(void **state)
{
    Outcome o = run(*state, false);

    assert_true(o.lost >= 7 * (MESSAGES / EVERY - 1));
    assert_true(o.worst_ns < PERIOD_NS);
}

static void rnr_loses_nothing(void **state)
{
    Outcome o = run(*state, true);

    assert_int_equal(o.lost, 0);
    assert_true(o.refused > 0);
    assert_true(o.worst_ns >= PAGE_IN_NS);
}

/* Not a storm of NACKs, and not a pause far beyond the page-in. */
static void the_delay_suits_the_page_in(void **state)
{
    Outcome o = run(*state, true);

    assert_true(o.refused <= 4 * (MESSAGES / EVERY));
    assert_true(o.worst_ns <= PAGE_IN_NS + 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fix_test(drop_loses_a_burst),
        fix_test(rnr_loses_nothing),
        fix_test(the_delay_suits_the_page_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
