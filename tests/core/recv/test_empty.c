/*
 * unetmm: free buffers without memory (len 0)
 *
 * Endpoint E of a's space has EP_F_NO_INLINE; b, on the same card, sends to it:
 * datagrams by channel FIX_LOCAL + 6, messages by a strict channel behind that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define E           3
#define DATAGRAM    7
#define RELIABLE    8
#define REGION      6
#define KEY         0xfeed0006u
#define NOWHERE     0xffffffffffffff01ull   /* an address that none has */

typedef struct Scene {
    Fix *f;
    FakeEp e;
} Scene;

static void scene_flags(Scene *s, Fix *f, uint8_t flags)
{
    s->f = f;
    fake_ep_init(&s->e, &f->d, E, f->s1);
    s->e.flags = flags;
    fake_ep_create(&s->e);
}

static void scene(Scene *s, Fix *f)
{
    scene_flags(s, f, UNETMM_EP_F_NO_INLINE);
}

static void settle(Scene *s)
{
    fake_ring_bell(&s->e);
    fix_settle(s->f);
}

static void post(Scene *s, uint64_t addr, uint64_t cookie)
{
    fake_post(&s->e, addr, 0, cookie);
    settle(s);
}

static void connect_reliable(Scene *s)
{
    static const struct unetmm_cmd_channel strict = {
        .mtu = 4096, .flags = UNETMM_CHANNEL_F_STRICT,
    };
    const uint8_t *mac = s->f->h.core.params.mac;
    FakeEp *b = &s->f->b;

    assert_int_equal(fake_channel_rel(b, RELIABLE, mac, E, RELIABLE, &strict),
                     UNETMM_CS_OK);
    assert_int_equal(fake_channel_rel(&s->e, RELIABLE, mac, b->id, RELIABLE,
                                      &strict), UNETMM_CS_OK);
}

static void send(Scene *s, uint16_t channel, uint32_t len)
{
    fake_send_inline(&s->f->b, channel, 1, len, 9, 0);
    settle(s);
}

static void sent(Scene *s, uint8_t status)
{
    fake_expect(&s->f->b, UNETMM_CQE_SENT, status, 9);
}

static void took(Scene *s, uint8_t opcode, uint64_t cookie, uint32_t len)
{
    assert_int_equal(fake_expect(&s->e, opcode, UNETMM_ST_OK, cookie).len, len);
    fake_expect_none(&s->e);
}

static UnetmmHead *head(Scene *s, unsigned n)
{
    return unetmm_head_at(&s->f->h.core.eps[E], n);
}

/* Without a channel it stays, and nothing is asked for. */
TEST_OF(test_stays, Fix *f, fix_test)
{
    unsigned misses = f->d.misses;
    Scene s;

    scene(&s, f);
    for (uint64_t i = 0; i < 3; i++) {
        post(&s, (uint64_t[]) { 0, NOWHERE, FIX_VA + 1 }[i], i);
        assert_int_equal(head(&s, i)->state, UNETMM_HEAD_READY);
    }
    fake_expect_none(&s.e);
    assert_int_equal(f->d.misses, misses);
    fake_connect(&f->b, &s.e, DATAGRAM, 1000);
    for (uint64_t i = 0; i < 3; i++) {
        send(&s, DATAGRAM, 0);
        sent(&s, UNETMM_ST_OK);
        took(&s, UNETMM_CQE_RECEIVED, i, 0);
    }
}

/* One behind it is asked for, and pages that go do not change it. */
TEST_OF(test_ahead, Fix *f, fix_test)
{
    Scene s;

    scene(&s, f);
    connect_reliable(&s);
    fake_post(&s.e, 0, 0, 1);
    fake_post(&s.e, FIX_PAGE(4), 4096, 2);
    settle(&s);
    assert_int_equal(fake_vpage(f->s1, FIX_PAGE(4))->asked, 1);
    fake_take_away(f->s1, 0, 4096);
    fake_take_away(f->s1, FIX_PAGE(4), 4096);
    assert_int_equal(head(&s, 0)->state, UNETMM_HEAD_READY);
}

/* Posted before the channel is there: SENDs without bytes take it. */
TEST_OF(test_send, Fix *f, fix_test)
{
    Scene s;

    scene(&s, f);
    post(&s, NOWHERE, 50);
    post(&s, 0, 51);
    connect_reliable(&s);
    settle(&s);
    fake_expect_none(&s.e);
    send(&s, RELIABLE, 0);
    sent(&s, UNETMM_ST_OK);
    took(&s, UNETMM_CQE_RECEIVED, 50, 0);
    /* One with bytes is too long for it, which ends both. */
    send(&s, RELIABLE, 1);
    fake_expect(&s.e, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LONG, 51);
    sent(&s, UNETMM_ST_PEER_BUFFER);
}

/* So do WRITEs with an immediate, of which the data goes elsewhere. */
TEST_OF(test_imm, Fix *f, fix_test)
{
    static const uint32_t lengths[] = { 0, 1, 32 };
    struct unetmm_sqe w = {
        .opcode = UNETMM_OP_WRITE, .channel = RELIABLE, .cookie = 9,
        .flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_IMM | UNETMM_SQE_F_KEYED,
        .region = REGION, .handle = KEY, .remote = FIX_PAGE(6), .imm = 77,
    };
    Scene s;

    scene(&s, f);
    assert_int_equal(fake_region(f->s1, REGION, KEY, FIX_PAGE(6), 4096,
                                 UNETMM_RIGHT_ALL, UNETMM_REGION_F_KEYED),
                     UNETMM_CS_OK);
    for (uint64_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        post(&s, NOWHERE, 50 + i);
    }
    connect_reliable(&s);
    for (uint64_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        w.inline_len = lengths[i];
        fake_send_sqe(&f->b, w);
        settle(&s);
        sent(&s, UNETMM_ST_OK);
        took(&s, UNETMM_CQE_WRITTEN, 50 + i, lengths[i]);
    }
}

/* A datagram with bytes is dropped, and the buffer stays for one without. */
TEST_OF(test_datagram, Fix *f, fix_test)
{
    Scene s;

    scene(&s, f);
    fake_connect(&f->b, &s.e, DATAGRAM, 1000);
    post(&s, NOWHERE, 1);
    expect_count(&f->h, drop_too_long, 1, send(&s, DATAGRAM, 1));
    sent(&s, UNETMM_ST_OK);
    fake_expect_none(&s.e);
    send(&s, DATAGRAM, 0);
    sent(&s, UNETMM_ST_OK);
    took(&s, UNETMM_CQE_RECEIVED, 1, 0);
}

/* CHANNEL_F_FLUSH gives it back. */
TEST_OF(test_flushed, Fix *f, fix_test)
{
    Scene s;

    scene(&s, f);
    post(&s, NOWHERE, 1);
    connect_reliable(&s);
    fake_channel_clear(&s.e, RELIABLE, UNETMM_CHANNEL_F_FLUSH);
    settle(&s);
    fake_expect(&s.e, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 1);
}

/* In a shared queue it is for a message of any endpoint that uses the queue. */
TEST_OF(test_shared, Fix *f, fix_test)
{
    FakeEp queue;
    Scene s;

    fake_ep_init(&queue, &f->d, 5, f->s1);
    queue.flags = UNETMM_EP_F_SHARED;
    fake_ep_create(&queue);
    s.f = f;
    fake_ep_init(&s.e, &f->d, E, f->s1);
    s.e.flags = UNETMM_EP_F_NO_INLINE;
    s.e.fq_of = 5;
    s.e.pretranslate = 0;
    fake_ep_create(&s.e);
    for (uint64_t i = 0; i < 2; i++) {
        fake_post(&queue, NOWHERE, 0, i);
    }
    fake_ring_bell(&queue);
    connect_reliable(&s);
    send(&s, RELIABLE, 0);
    sent(&s, UNETMM_ST_OK);
    took(&s, UNETMM_CQE_RECEIVED, 0, 0);
    send(&s, RELIABLE, 1);
    fake_expect(&s.e, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LONG, 1);
    sent(&s, UNETMM_ST_PEER_BUFFER);
}

/* A buffer without memory has no key. */
TEST_OF(test_keys, Fix *f, fix_test)
{
    const struct unetmm_fqe fqe = { .addr = NOWHERE, .key = ~0ull,
                                    .cookie = 1 };
    Scene s;

    scene_flags(&s, f, UNETMM_EP_F_NO_INLINE | UNETMM_EP_F_KEYS);
    fake_post_fqes(&s.e, &fqe, 1);
    settle(&s);
    fake_expect_none(&s.e);
    connect_reliable(&s);
    send(&s, RELIABLE, 0);
    sent(&s, UNETMM_ST_OK);
    took(&s, UNETMM_CQE_RECEIVED, 1, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_err_key), 0);
}

static void refused(Scene *s, struct unetmm_fqe fqe)
{
    fake_post_fqes(&s->e, &fqe, 1);
    settle(s);
    fake_expect(&s->e, UNETMM_CQE_BUFFER, UNETMM_ST_BAD_DESC, fqe.cookie);
    fake_expect_none(&s->e);
}

/* Not in a chain, not to be zeroed, with nothing where zeros must be. */
TEST_OF(test_malformed, Fix *f, fix_test)
{
    Scene s;

    scene(&s, f);
    refused(&s, (struct unetmm_fqe) { .flags = UNETMM_FQE_F_ZERO });
    refused(&s, (struct unetmm_fqe) { .rsvd = 1 });
    for (unsigned where = 0; where < 3; where++) {
        struct unetmm_fqe chain[3];

        for (unsigned i = 0; i < 3; i++) {
            chain[i] = (struct unetmm_fqe) {
                .addr = FIX_PAGE(i), .len = i == where ? 0 : 4096,
                .flags = i < 2 ? UNETMM_FQE_F_CHAIN : 0, .cookie = 7,
            };
        }
        fake_post_fqes(&s.e, chain, 3);
        settle(&s);
        fake_expect(&s.e, UNETMM_CQE_BUFFER, UNETMM_ST_BAD_DESC, 7);
        fake_expect_none(&s.e);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_err_descriptor), 5);
}

/* Where short messages come inside completions it is of no use. */
TEST_OF(test_not_here, Fix *f, fix_test)
{
    Scene s;

    scene_flags(&s, f, 0);
    refused(&s, (struct unetmm_fqe) { .cookie = 3 });
}

/* A saved card has it only where it may be. */
TEST_OF(test_saved, Fix *f, fix_test)
{
    Scene s;

    scene(&s, f);
    post(&s, NOWHERE, 1);
    fix_check_lie(&f->h.core, 0, false, "");
    f->h.core.eps[E].no_inline = false;
    fix_check_lie(&f->h.core, 1, true, "would have refused");
    f->h.core.eps[E].no_inline = true;
    head(&s, 0)->chain = true;
    fix_check_lie(&f->h.core, 2, true, "would have refused");
    head(&s, 0)->chain = false;
    head(&s, 0)->zero = true;
    fix_check_lie(&f->h.core, 3, true, "would have refused");
    head(&s, 0)->zero = false;
    head(&s, 0)->state = UNETMM_HEAD_DEFERRED;
    fix_check_lie(&f->h.core, 4, true, "would have refused");
    f->h.spoilt = true;
}

/* A saved card has a part without memory only in a chain that has failed. */
TEST_OF(test_saved_part, Fix *f, fix_test)
{
    struct unetmm_fqe chain[3];
    Scene s;

    scene(&s, f);
    for (unsigned i = 0; i < 3; i++) {
        chain[i] = (struct unetmm_fqe) {
            .addr = FIX_PAGE(i), .len = 4096,
            .flags = i < 2 ? UNETMM_FQE_F_CHAIN : 0,
        };
    }
    fake_post_fqes(&s.e, chain, 3);
    settle(&s);
    fix_check_lie(&f->h.core, 0, false, "");
    for (unsigned part = 1; part < 3; part++) {
        /* One that is whole otherwise: neither chained nor waited for. */
        UnetmmHead was = *head(&s, part);

        head(&s, part)->len = 0;
        head(&s, part)->chain = false;
        head(&s, part)->state = UNETMM_HEAD_READY;
        fix_check_lie(&f->h.core, part, true, "would have refused");
        *head(&s, part) = was;
    }
    f->h.spoilt = true;
}
