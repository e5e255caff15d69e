/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CONNECTs that the host forges (tests/e2e/forge.py), in the names of stations that
 * there are not, or that answer: they do not keep others from a listener.
 */
#include "ask.h"
#include "link.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE         (SERVICE_FIRST - 11)
#define BACKLOG         8
#define PATIENCE_NS     ((int64_t)(10 * NS_PER_S * run.slow))

struct scene {
    struct unetmm_ctx *ctx;
    struct station listener, newcomer;
    uint8_t mac[6];
    atomic_bool stop;
    uint64_t accepts, ghosts, full, share;      /* counters at first */
};

#define SINCE(s, name)  driver_counter((s)->ctx, UNETMM_D_##name)
#define ACCEPTS(s)  (SINCE(s, accepts) - (s)->accepts)
#define GHOSTS(s)   (SINCE(s, ghosts) - (s)->ghosts)
#define FULL(s)     (SINCE(s, refused_full) - (s)->full)
#define SHARE(s)    (SINCE(s, refused_share) - (s)->share)

static void scene_open(struct scene *s, uint32_t types)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .types = types,
    };
    const char *wire = getenv("UNETMM_WIRE");

    if (!wire || strcmp(wire, "forger")) {
        test_skip("nobody forges on this wire");
    }
    memset(s, 0, sizeof(*s));
    card_mac(s->mac);
    s->ctx = open_card();
    station_open(&s->listener, s->ctx, NULL);
    station_open(&s->newcomer, s->ctx, NULL);
    CHECK_RET(unetmm_listen_as(s->listener.ep, SERVICE, BACKLOG, &attr), 0);
    s->accepts = SINCE(s, accepts);
    s->ghosts = SINCE(s, ghosts);
    s->full = SINCE(s, refused_full);
    s->share = SINCE(s, refused_share);
}

static void scene_close(struct scene *s)
{
    station_close(&s->newcomer);
    station_close(&s->listener);
    CHECK_RET(unetmm_close(s->ctx), 0);
}

/* So many new stations ask so often each. */
static void forge(const char *how, unsigned stations, unsigned each,
                  unsigned type)
{
    ask_host("far %sconnect %u %u %u %u", how, stations, each,
             (unsigned)SERVICE, type);
}

static int newcomer_comes(struct scene *s, int64_t patience_ns)
{
    return unetmm_connect(s->newcomer.ep, s->mac, SERVICE, patience_ns, NULL);
}

/* Nobody has accepted them; they are gone when somebody else wants their place. */
static void in_the_backlog(void)
{
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    forge("", BACKLOG, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG);
    CHECK_EQ(GHOSTS(&s), 0);
    CHECK_RET(newcomer_comes(&s, PATIENCE_NS), 0);
    CHECK(FULL(&s) > 0);
    EVENTUALLY(GHOSTS(&s) == BACKLOG);
    CHECK(unetmm_accept(s.listener.ep, NULL, PATIENCE_NS) >= 0);
    CHECK_RET(unetmm_accept(s.listener.ep, NULL, 0), -EAGAIN);
    scene_close(&s);
}

/* Who answers stays, whether it says anything or not. */
static void who_answers(void)
{
    struct scene s;
    unsigned i;

    scene_open(&s, UNETMM_DATAGRAM);
    forge("alive ", BACKLOG, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG);
    CHECK_RET(newcomer_comes(&s, 2 * (int64_t)NS_PER_S), -ETIMEDOUT);
    CHECK(FULL(&s) > 0);
    CHECK_EQ(GHOSTS(&s), 0);
    for (i = 0; i < BACKLOG; i++) {
        CHECK(unetmm_accept(s.listener.ep, NULL, 0) >= 0);
    }
    CHECK_RET(newcomer_comes(&s, PATIENCE_NS), 0);
    CHECK_EQ(GHOSTS(&s), 0);
    scene_close(&s);
}

/* Some are, some are not. */
static void some_of_them(void)
{
    struct scene s;
    unsigned i;

    scene_open(&s, UNETMM_DATAGRAM);
    forge("", BACKLOG / 2, 1, 0);
    forge("alive ", BACKLOG / 2, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG);
    CHECK_RET(newcomer_comes(&s, PATIENCE_NS), 0);
    EVENTUALLY(GHOSTS(&s) == BACKLOG / 2);
    for (i = 0; i < BACKLOG / 2 + 1; i++) {
        CHECK(unetmm_accept(s.listener.ep, NULL, 0) >= 0);
    }
    CHECK_RET(unetmm_accept(s.listener.ep, NULL, 0), -EAGAIN);
    scene_close(&s);
}

/* One station alone does not fill it. */
static void one_has_a_share(void)
{
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    forge("alive ", 1, 3 * BACKLOG, 0);
    EVENTUALLY(ACCEPTS(&s) + SHARE(&s) == 3 * BACKLOG);
    CHECK_EQ(ACCEPTS(&s), BACKLOG / 2);
    CHECK_EQ(FULL(&s), 0);
    /* Another one, and one of this card. */
    forge("alive ", 1, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG / 2 + 1);
    CHECK_RET(newcomer_comes(&s, PATIENCE_NS), 0);
    scene_close(&s);
}

/* Accepts all, and closes what is told to have ended. */
static void *serve(void *argument)
{
    struct scene *s = argument;
    struct unetmm_completion c;

    while (!atomic_load(&s->stop)) {
        while (unetmm_accept(s->listener.ep, NULL, 0) >= 0) {
        }
        if (unetmm_wait(s->listener.ep, &c, 1, NS_PER_MS) > 0 &&
            c.type == UNETMM_CQE_CLOSED) {
            CHECK_RET(unetmm_disconnect(s->listener.ep, c.channel), 0);
        }
    }
    return NULL;
}

static void accepted_of(unsigned types, unsigned type)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .types = types,
    };
    struct scene s;
    pthread_t thread;
    int channel;

    scene_open(&s, types | UNETMM_TELL_CLOSED);
    CHECK_EQ(pthread_create(&thread, NULL, serve, &s), 0);
    forge("", 600, 1, type);
    EVENTUALLY(FULL(&s) > 0);
    channel = unetmm_connect_as(s.newcomer.ep, s.mac, SERVICE, PATIENCE_NS,
                                &attr, NULL);
    CHECK_RET(channel, 0);
    EVENTUALLY(GHOSTS(&s) == ACCEPTS(&s) - 1);
    atomic_store(&s.stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    note("%u of 600 were taken in", (unsigned)ACCEPTS(&s) - 1);
    scene_close(&s);
}

static void accepted(void)
{
    accepted_of(UNETMM_DATAGRAM, 0);
    accepted_of(UNETMM_RELIABLE, 1);
}

static const struct test tests[] = {
    { "in-the-backlog", in_the_backlog, TEST_TLB, 0 },
    { "who-answers", who_answers, TEST_TLB, 0 },
    { "some-of-them", some_of_them, TEST_TLB, 0 },
    { "one-has-a-share", one_has_a_share, TEST_TLB, 0 },
    { "accepted", accepted, TEST_TLB, 0 },
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, "forged", tests,
                     sizeof(tests) / sizeof(tests[0]));
}
