/*
 * unetmm: free queues that endpoints share (EP_F_SHARED, fq_of, LOW_ARM)
 *
 * Endpoint QUEUE of a's space has the free queue; endpoints USER and USER + 1
 * use it.  b, on the same card, has a reliable channel to each: its channel
 * TO + n leads to channel CH of user n.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"
#include "ud.h"

#define QUEUE   5
#define USER    3               /* before and ... */
#define USERS   2
#define LAST    7               /* ... behind the queue's number */
#define CH      3
#define TO      3
#define MTU     4096

typedef struct Scene {
    Fix *f;
    FakeEp queue, user[USERS];
} Scene;

static const struct unetmm_cmd_channel usual = {
    .mtu = MTU, .timeout_us = 1000000, .not_ready_us = 1000000,
};

static void user_init(Scene *s, FakeEp *ep, uint16_t id)
{
    fake_ep_init(ep, &s->f->d, id, s->f->s1);
    ep->fq_of = QUEUE;
    ep->pretranslate = 0;
    ep->policy = UNETMM_POLICY_DROP;
}

static void connect_user(Scene *s, unsigned n)
{
    const uint8_t *mac = s->f->h.core.params.mac;
    FakeEp *b = &s->f->b, *ep = &s->user[n];

    assert_int_equal(fake_channel_rel(b, TO + n, mac, ep->id, CH, &usual),
                     UNETMM_CS_OK);
    assert_int_equal(fake_channel_rel(ep, CH, mac, b->id, TO + n, &usual),
                     UNETMM_CS_OK);
}

static void scene_queue(Scene *s, Fix *f)
{
    s->f = f;
    fake_ep_init(&s->queue, &f->d, QUEUE, f->s1);
    s->queue.flags = UNETMM_EP_F_SHARED;
    fake_ep_create(&s->queue);
}

static void scene(Scene *s, Fix *f)
{
    scene_queue(s, f);
    for (unsigned n = 0; n < USERS; n++) {
        user_init(s, &s->user[n], n ? LAST : USER);
        fake_ep_create(&s->user[n]);
        connect_user(s, n);
    }
}

static void settle(Scene *s)
{
    fake_ring_bell(&s->queue);
    fix_settle(s->f);
}

static void post(Scene *s, unsigned page, uint32_t len, uint64_t cookie)
{
    fake_post(&s->queue, FIX_PAGE(page), len, cookie);
}

/* Message n, of that many bytes, to a user. */
static void send(Scene *s, unsigned user, uint32_t len, uint32_t n)
{
    fake_fill(s->f->s2, FIX_PAGE(n), len, n);
    fake_send_at(&s->f->b, TO + user, FIX_PAGE(n), len, n);
}

static struct unetmm_cqe got(Scene *s, unsigned user, uint64_t cookie)
{
    return fake_expect(&s->user[user], UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                       cookie);
}

static void nothing_more(Scene *s)
{
    for (unsigned n = 0; n < USERS; n++) {
        fake_expect_none(&s->user[n]);
    }
    fake_expect_none(&s->queue);
}

static void low(Scene *s, bool told)
{
    struct unetmm_notify n;

    while (fake_notification(&s->f->d, &n)) {
        if (n.type == UNETMM_NOTIFY_LOW) {
            assert_true(told);
            assert_int_equal(n.ep, QUEUE);
            told = false;
        }
    }
    assert_false(told);
}

/* ---- Refusals ---- */

static uint8_t create(Scene *s, FakeEp *ep)
{
    return fake_command(&s->f->d, fake_ep_cmd(ep), NULL);
}

TEST(test_refused, fix_test)
{
    FakeEp ep, other;
    Scene s;

    scene(&s, *state);
    user_init(&s, &ep, 6);
    fake_ep_alloc(&ep);
    ep.fq_of = 8;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ID);
    ep.fq_of = 0xffff;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ID);
    ep.fq_of = 6;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ID);
    /* A queue that is not shared, and one that is not its own. */
    ep.fq_of = 1;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ARG);
    ep.fq_of = USER;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ARG);
    ep.fq_of = QUEUE;
    ep.flags = UNETMM_EP_F_SHARED;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ARG);
    ep.flags = UNETMM_EP_F_RAW;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ARG);
    ep.fq_of = 0;
    ep.flags = UNETMM_EP_F_RAW | UNETMM_EP_F_SHARED;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ARG);
    ep.fq_of = QUEUE;
    ep.flags = 0;
    ep.pretranslate = 1;
    assert_int_equal(create(&s, &ep), UNETMM_CS_BAD_ARG);
    /* Another process's */
    fake_ep_init(&other, &s.f->d, 6, s.f->s2);
    other.fq_of = QUEUE;
    other.pretranslate = 0;
    fake_ep_alloc(&other);
    assert_int_equal(create(&s, &other), UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_channel(&s.queue, 1, fake_peer_mac, 1, 1, MTU),
                     UNETMM_CS_BAD_ARG);
    ep.pretranslate = 0;
    assert_int_equal(create(&s, &ep), UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&ep), UNETMM_CS_OK);
}

TEST(test_busy, fix_test)
{
    Scene s;

    scene(&s, *state);
    assert_int_equal(fake_ep_destroy(&s.queue), UNETMM_CS_BUSY);
    assert_int_equal(fake_ep_destroy(&s.user[0]), UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&s.queue), UNETMM_CS_BUSY);
    /* The queue goes on as before the refused command. */
    post(&s, 1, 100, 1);
    send(&s, 1, 100, 2);
    settle(&s);
    got(&s, 1, 1);
    assert_int_equal(fake_ep_destroy(&s.user[1]), UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&s.queue), UNETMM_CS_OK);
}

/* ---- Messages ---- */

TEST(test_in_turn, fix_test)
{
    Scene s;

    scene(&s, *state);
    for (unsigned i = 0; i < 8; i++) {
        post(&s, 2 * i, 6000, i);
    }
    settle(&s);
    for (unsigned i = 0; i < 8; i++) {
        send(&s, i % 3 == 0, 5000, 3 * i);
        settle(&s);
        assert_int_equal(got(&s, i % 3 == 0, i).len, 5000);
        fake_check(s.f->s1, FIX_PAGE(2 * i), 5000, 3 * i);
        fake_expect(&s.f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 3 * i);
        assert_int_equal(fake_card(&s.queue).fq_cons, i + 1);
    }
    nothing_more(&s);
    assert_int_equal(fake_counter(&s.f->h, UNETMM_C_rel_nacks), 0);
}

/* The peers' own times are a second: they come again since they are told. */
TEST(test_all_wake, fix_test)
{
    Scene s;

    scene(&s, *state);
    send(&s, 0, 100, 1);
    send(&s, 1, 100, 2);
    settle(&s);
    nothing_more(&s);
    assert_int_equal(fake_counter(&s.f->h, UNETMM_C_rel_nacks), 2);
    assert_int_equal(s.f->h.core.eps[QUEUE].waiting, 2);
    post(&s, 1, 100, 11);
    post(&s, 2, 100, 12);
    settle(&s);
    assert_int_equal(got(&s, 0, 11).cookie + got(&s, 1, 12).cookie, 23);
    nothing_more(&s);
    assert_int_equal(s.f->h.core.eps[QUEUE].waiting, 0);
}

/* One buffer: the second waits again, and is told again. */
TEST(test_one_at_a_time, fix_test)
{
    struct unetmm_cqe cqe;
    unsigned first;
    Scene s;

    scene(&s, *state);
    send(&s, 0, 100, 1);
    send(&s, 1, 100, 2);
    settle(&s);
    post(&s, 1, 100, 11);
    settle(&s);
    first = fake_poll(&s.user[0], &cqe) ? 0 : 1;
    if (first) {
        got(&s, 1, 11);
    }
    nothing_more(&s);
    post(&s, 2, 100, 12);
    settle(&s);
    got(&s, !first, 12);
    nothing_more(&s);
}

/* The page of the first buffer comes late. */
TEST(test_absent, fix_test)
{
    Scene s;

    scene(&s, *state);
    fake_vpage(s.f->s1, FIX_PAGE(1))->absent = true;
    post(&s, 1, 100, 11);
    send(&s, 1, 100, 1);
    settle(&s);
    nothing_more(&s);
    fake_vpage(s.f->s1, FIX_PAGE(1))->absent = false;
    fake_paged_in(&s.f->d);
    settle(&s);
    got(&s, 1, 11);
    fake_check(s.f->s1, FIX_PAGE(1), 100, 1);
    nothing_more(&s);
}

/* Each endpoint has its own policy: with skip the buffer is given back there. */
TEST(test_skipped, fix_test)
{
    Scene s;

    scene_queue(&s, *state);
    for (unsigned n = 0; n < USERS; n++) {
        user_init(&s, &s.user[n], n ? LAST : USER);
        s.user[n].policy = n ? UNETMM_POLICY_SKIP : UNETMM_POLICY_DROP;
        fake_ep_create(&s.user[n]);
        connect_user(&s, n);
    }
    fake_vpage(s.f->s1, FIX_PAGE(1))->absent = true;
    post(&s, 1, 100, 11);
    post(&s, 2, 100, 12);
    settle(&s);
    send(&s, 0, 100, 1);
    settle(&s);
    nothing_more(&s);
    send(&s, 1, 100, 2);
    settle(&s);
    fake_expect(&s.user[1], UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 11);
    post(&s, 3, 100, 13);
    settle(&s);
    got(&s, 1, 12);
    got(&s, 0, 13);
    nothing_more(&s);
}

TEST(test_datagrams, fix_test)
{
    Scene s;

    scene(&s, *state);
    for (unsigned n = 0; n < USERS; n++) {
        fake_connect_peer(&s.user[n], 1, 11, MTU);
        post(&s, 1 + n, 300, 10 + n);
    }
    settle(&s);
    for (unsigned n = 0; n < USERS; n++) {
        fake_deliver(&s.f->h, fake_datagram(&s.user[n], 1, 11, 200, n));
    }
    settle(&s);
    for (unsigned n = 0; n < USERS; n++) {
        assert_int_equal(got(&s, n, 10 + n).len, 200);
        fake_check(s.f->s1, FIX_PAGE(1 + n), 200, n);
    }
    fake_deliver(&s.f->h, fake_datagram(&s.user[0], 1, 11, 200, 5));
    assert_int_equal(fake_ep_counter(&s.f->h, USER, UNETMM_C_drop_no_buffer),
                     1);
    nothing_more(&s);
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 10000;
}

/* A message for each of two receivers, and a head for each. */
static void two_heads(Scene *s, Fix *f)
{
    scene(s, f);
    for (unsigned n = 0; n < USERS; n++) {
        fake_connect_peer(&s->user[n], 1, 11, MTU);
    }
    post(s, 1, 6000, 10);
    post(s, 3, 6000, 11);
    settle(s);
    fake_deliver(&s->f->h, fake_datagram(&s->user[0], 1, 11, 4096, 1));
    fake_deliver(&s->f->h, fake_datagram(&s->user[1], 1, 11, 300, 2));
}

/* The head in which a message lands is nobody else's. */
TEST(test_landing, fix_test_with, slow)
{
    Scene s;

    two_heads(&s, *state);
    fake_may_migrate(&s.f->h);
    fake_ring_bell(&s.queue);
    assert_true(s.f->h.core.eps[QUEUE].landing);
    nothing_more(&s);
    /* The buffer's receiver goes: the buffer stays for the other receiver. */
    fake_issue(&s.f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_EP_DESTROY, .ep = USER });
    assert_int_equal(fake_ep_destroy(&s.queue), UNETMM_CS_BUSY);
}

TEST(test_landed, fix_test_with, slow)
{
    Scene s;

    two_heads(&s, *state);
    for (unsigned i = 0; i < 4; i++) {
        fake_may_migrate(&s.f->h);
        fake_advance(&s.f->h, 10000);
        settle(&s);
    }
    got(&s, 0, 10);
    got(&s, 1, 11);
    fake_check(s.f->s1, FIX_PAGE(1), 4096, 1);
    fake_check(s.f->s1, FIX_PAGE(3), 300, 2);
    nothing_more(&s);
}

/* ---- Buffers that are not filled ---- */

/* A bad one stays until a message takes it, and is that endpoint's then. */
TEST(test_bad_buffer, fix_test)
{
    Scene s;

    scene(&s, *state);
    send(&s, 1, 100, 1);
    settle(&s);
    fake_post(&s.queue, 0x1000, 100, 11);
    settle(&s);
    fake_expect(&s.user[1], UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 11);
    nothing_more(&s);
    fake_post(&s.queue, 0x1000, 100, 12);
    post(&s, 1, 100, 13);
    settle(&s);
    fake_expect(&s.user[1], UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 12);
    got(&s, 1, 13);
    fake_post(&s.queue, 0x1000, 100, 14);
    settle(&s);
    nothing_more(&s);
    assert_int_equal(s.f->h.core.eps[QUEUE].fq_cons, 3);
    send(&s, 0, 100, 2);
    settle(&s);
    fake_expect(&s.user[0], UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 14);
    nothing_more(&s);
}

static void flush(Scene *s, unsigned user)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = s->user[user].id,
        .channel = { .channel = CH, .flags = UNETMM_CHANNEL_F_FLUSH |
                                             UNETMM_CHANNEL_F_TELL },
    };

    assert_int_equal(fake_command(&s->f->d, cmd, NULL), UNETMM_CS_OK);
}

/* The first packet of a longer message, from the wire. */
static void begin(Scene *s, unsigned user)
{
    FakeFrame *frame = fake_datagram(&s->user[user], CH, 11, MTU, 1);
    struct unetmm_frame *h = fake_header(frame);

    h->opcode = UNETMM_WIRE_SEND;
    h->remote = cpu_to_le64(2 * MTU);
    h->src_channel = cpu_to_le16(CH);
    fake_seal(frame);
    fake_deliver(&s->f->h, frame);
}

/* A message under way has its buffer; all others stay for the other endpoint. */
TEST(test_flush, fix_test)
{
    Scene s;

    scene(&s, *state);
    assert_int_equal(fake_channel_rel(&s.user[0], CH, fake_peer_mac, 11, CH,
                                      &usual), UNETMM_CS_OK);
    for (unsigned i = 0; i < 3; i++) {
        post(&s, 2 * i, 8192, 10 + i);
    }
    settle(&s);
    begin(&s, 0);
    assert_int_equal(s.f->h.core.eps[QUEUE].fq_cons, 1);
    flush(&s, 0);
    settle(&s);
    fake_expect(&s.user[0], UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 10);
    fake_expect(&s.user[0], UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    nothing_more(&s);
    send(&s, 1, 100, 1);
    settle(&s);
    got(&s, 1, 11);
    nothing_more(&s);
}

/* A queue that is stopped has no buffers; those that use it go on. */
TEST(test_stopped, fix_test)
{
    Scene s;

    scene(&s, *state);
    post(&s, 1, 100, 11);
    settle(&s);
    send(&s, 0, 100, 1);
    fake_user_word(&s.queue, offsetof(struct unetmm_ep_user, fq_prod), 999);
    fake_ring_bell(&s.queue);
    settle(&s);
    fake_expect(&s.queue, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
    nothing_more(&s);
    assert_int_equal(fake_card(&s.user[0]).state & UNETMM_EP_ERROR, 0);
    assert_int_equal(fake_low_arm(&s.queue, 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_ep_destroy(&s.queue), UNETMM_CS_BUSY);
    assert_int_equal(fake_ep_destroy(&s.user[0]), UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&s.user[1]), UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&s.queue), UNETMM_CS_OK);
}

/* One that waits is destroyed, and another one has its number. */
TEST(test_waiting_goes, fix_test)
{
    Scene s;

    scene(&s, *state);
    send(&s, 0, 100, 1);
    send(&s, 1, 100, 2);
    settle(&s);
    assert_int_equal(fake_ep_destroy(&s.user[0]), UNETMM_CS_OK);
    assert_int_equal(s.f->h.core.eps[QUEUE].waiting, 1);
    user_init(&s, &s.user[0], USER);
    fake_ep_create(&s.user[0]);
    post(&s, 1, 100, 11);
    settle(&s);
    got(&s, 1, 11);
    nothing_more(&s);
}

/* ---- The low mark ---- */

TEST(test_low, fix_test)
{
    uint32_t result;
    Scene s;

    scene(&s, *state);
    assert_int_equal(fake_low_arm(&s.queue, 1, &result), UNETMM_CS_OK);
    assert_int_equal(result, 1);
    for (unsigned i = 0; i < 6; i++) {
        post(&s, i, 100, i);
    }
    settle(&s);
    low(&s, false);
    assert_int_equal(fake_low_arm(&s.queue, 5, &result), UNETMM_CS_OK);
    assert_int_equal(result, 0);
    send(&s, 0, 100, 1);
    settle(&s);
    low(&s, false);
    send(&s, 1, 100, 2);
    settle(&s);
    low(&s, true);
    send(&s, 1, 100, 3);
    settle(&s);
    low(&s, false);
    /* Disarmed */
    assert_int_equal(fake_low_arm(&s.queue, 3, &result), UNETMM_CS_OK);
    assert_int_equal(result, 0);
    assert_int_equal(fake_low_arm(&s.queue, 0, &result), UNETMM_CS_OK);
    assert_int_equal(result, 0);
    send(&s, 1, 100, 4);
    settle(&s);
    low(&s, false);
}

TEST(test_low_refused, fix_test)
{
    Scene s;

    scene(&s, *state);
    assert_int_equal(fake_low_arm(&s.user[0], 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_low_arm(&s.f->a, 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_low_arm(&s.queue, 17, NULL), UNETMM_CS_BAD_ARG);
    s.queue.id = 6;
    assert_int_equal(fake_low_arm(&s.queue, 1, NULL), UNETMM_CS_BAD_ID);
}
