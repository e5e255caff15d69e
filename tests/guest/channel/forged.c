/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CONNECTs that the host forges (tests/e2e/forge.py), in the names of stations that
 * there are not, or that answer: they do not keep others from a listener, nor lose
 * their own places.
 */
#include "ask.h"
#include "card.h"
#include "link.h"
#include "pair.h"
#include "process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 11)
#define BACKLOG         8
#define PATIENCE_NS     ((int64_t)(10 * NS_PER_S * run.slow))
/* Channels that somebody has accepted are not given up sooner, and not much later. */
#define IN_USE_NS       ((uint64_t)10 * NS_PER_S)
#define GIVEN_UP_NS     ((int64_t)(30 * NS_PER_S * run.slow))

struct scene {
    struct unetmm_ctx *ctx;
    struct station listener, newcomer;
    uint8_t mac[6];
    atomic_bool stop;
    atomic_uint served;
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
        .size = sizeof(attr), .flags = types,
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
    CHECK_RET(unetmm_listen_ex(s->listener.ep, SERVICE, BACKLOG, &attr), 0);
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
    return unetmm_connect_ex(s->newcomer.ep, s->mac, SERVICE, patience_ns, &datagram_attr, NULL);
}

/* Nobody has accepted them; they are gone when somebody else wants their place. */
TEST(in_the_backlog, TEST_TLB)
{
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    forge("", BACKLOG, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG);
    CHECK_EQ(GHOSTS(&s), 0);
    CHECK(newcomer_comes(&s, PATIENCE_NS) >= 0);
    CHECK(FULL(&s) > 0);
    EVENTUALLY(GHOSTS(&s) == BACKLOG);
    CHECK(unetmm_accept(s.listener.ep, NULL, PATIENCE_NS) >= 0);
    CHECK_RET(unetmm_accept(s.listener.ep, NULL, 0), -ETIMEDOUT);
    scene_close(&s);
}

/* A station that answers stays, with and without messages. */
TEST(who_answers, TEST_TLB)
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
    CHECK(newcomer_comes(&s, PATIENCE_NS) >= 0);
    CHECK_EQ(GHOSTS(&s), 0);
    scene_close(&s);
}

/*
 * In the names of stations that are there, and have not asked: their drivers answer,
 * but not for channels that they do not have.
 */
TEST(in_others_names, TEST_TLB)
{
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    forge("other ", BACKLOG, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG);
    CHECK(newcomer_comes(&s, PATIENCE_NS) >= 0);
    CHECK(FULL(&s) > 0);
    EVENTUALLY(GHOSTS(&s) == BACKLOG);
    scene_close(&s);
}

/* This driver does so, too. */
TEST(for_what_it_has, TEST_TLB)
{
    static const uint8_t mac[] = { 0x02, 0xf0, 0x0d, 0xff, 0xff, 0xf0 };
    struct scene s;
    int channel;

    scene_open(&s, UNETMM_DATAGRAM);
    channel = unetmm_connect_ex(s.newcomer.ep, mac, SERVICE, PATIENCE_NS, &datagram_attr, NULL);
    CHECK(channel >= 0);
    ask_host("far named %u %u", (unsigned)unetmm_ep_id(s.newcomer.ep),
             (unsigned)channel);
    scene_close(&s);
}

/* The card refuses operations of which the peer's driver has not said that it has them. */
static void lacks_both(struct station *station, int channel)
{
    struct unetmm_completion c;

    CHECK_RET(unetmm_send_imm(station->ep, channel, "x", 1, 7, 1, 0), 0);
    take(station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 1);
    CHECK_EQ(c.status, UNETMM_ST_PEER_LACKS);
    CHECK_RET(unetmm_write_key(station->ep, channel, 5, 0x10000, "x", 1, 0, 2, 0), 0);
    take(station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 2);
    CHECK_EQ(c.status, UNETMM_ST_PEER_LACKS);
}

/* One that is older than operations by key and immediates, as listener and as caller. */
TEST(older_driver, TEST_TLB)
{
    static const struct unetmm_channel_attr reliable = UNETMM_CHANNEL_ATTR_INIT;
    static const uint8_t mac[] = { 0x02, 0xf0, 0x0d, 0xff, 0xff, 0xf0 };
    struct scene s;
    int channel;

    scene_open(&s, UNETMM_RELIABLE);
    channel = unetmm_connect_ex(s.newcomer.ep, mac, SERVICE, PATIENCE_NS, &reliable, NULL);
    CHECK(channel >= 0);
    lacks_both(&s.newcomer, channel);
    forge("alive ", 1, 1, 1);
    channel = unetmm_accept(s.listener.ep, NULL, PATIENCE_NS);
    CHECK(channel >= 0);
    lacks_both(&s.listener, channel);
    scene_close(&s);
}

/* Some are, some are not. */
TEST(some_of_them, TEST_TLB)
{
    struct scene s;
    unsigned i;

    scene_open(&s, UNETMM_DATAGRAM);
    forge("", BACKLOG / 2, 1, 0);
    forge("alive ", BACKLOG / 2, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG);
    CHECK(newcomer_comes(&s, PATIENCE_NS) >= 0);
    EVENTUALLY(GHOSTS(&s) == BACKLOG / 2);
    for (i = 0; i < BACKLOG / 2 + 1; i++) {
        CHECK(unetmm_accept(s.listener.ep, NULL, 0) >= 0);
    }
    CHECK_RET(unetmm_accept(s.listener.ep, NULL, 0), -ETIMEDOUT);
    scene_close(&s);
}

/* One station alone does not fill it. */
TEST(one_has_a_share, TEST_TLB)
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
    CHECK(newcomer_comes(&s, PATIENCE_NS) >= 0);
    scene_close(&s);
}

/* Accepts all, and closes channels that are told to have ended. */
static void *serve(void *argument)
{
    struct scene *s = argument;
    struct unetmm_completion c;

    while (!atomic_load(&s->stop)) {
        while (unetmm_accept(s->listener.ep, NULL, 0) >= 0) {
            atomic_fetch_add(&s->served, 1);
        }
        if (unetmm_wait(s->listener.ep, &c, 1, NS_PER_MS) > 0 &&
            c.type == UNETMM_CQE_CLOSED) {
            CHECK_RET(unetmm_disconnect(s->listener.ep, c.channel), 0);
        }
    }
    return NULL;
}

/*
 * Takes all channels of the listener, in portions that have room in its backlog:
 * nobody is refused.  Messages get lost, so more may be asked for.
 */
static void fill_listener(struct scene *s)
{
    struct unetmm_info info = { .size = sizeof(info) };
    uint64_t soon, end = deadline_in(100);
    unsigned n, step;

    CHECK_RET(unetmm_info(s->ctx, &info), 0);
    CHECK(info.reliable >= info.channels / 2);
    while ((n = atomic_load(&s->served)) < info.channels) {
        CHECK(now_ns() < end);
        step = info.channels - n < BACKLOG / 2 ? info.channels - n :
            BACKLOG / 2;
        soon = deadline_in(2);
        forge("", step, 1, n < info.channels / 2);
        while (atomic_load(&s->served) < n + step && now_ns() < soon) {
            breathe();
        }
    }
    CHECK_EQ(GHOSTS(s), 0);
}

/*
 * Such channels may be in use: those that nobody answers for are given up, but not
 * soon.
 */
TEST(accepted, TEST_TLB)
{
    struct scene s;
    pthread_t thread;
    uint64_t refused;

    scene_open(&s, UNETMM_DATAGRAM | UNETMM_RELIABLE | UNETMM_NOTIFY_CLOSE);
    CHECK_EQ(pthread_create(&thread, NULL, serve, &s), 0);
    fill_listener(&s);
    refused = now_ns();
    CHECK(newcomer_comes(&s, GIVEN_UP_NS) >= 0);
    CHECK(FULL(&s) > 0);
    CHECK(now_ns() - refused > IN_USE_NS);
    EVENTUALLY(GHOSTS(&s) == ACCEPTS(&s) - 1);
    atomic_store(&s.stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    note("%u were taken in", (unsigned)ACCEPTS(&s) - 1);
    scene_close(&s);
}

/* ---- More than one listener --------------------------------------------------- */

#define HALLS           16

struct crowd {
    struct scene s;
    struct station halls[HALLS];
    unsigned n;
    uint8_t mac[6];             /* of the last one accepted */
    uint64_t confirmed;         /* counter at first */
};

#define CONFIRMED(c)    (SINCE(&(c)->s, confirmed) - (c)->confirmed)
#define HALL(i)         (SERVICE_FIRST - 40 + (i))

static void crowd_open(struct crowd *c, uint32_t types)
{
    memset(c, 0, sizeof(*c));
    scene_open(&c->s, types);
    c->confirmed = SINCE(&c->s, confirmed);
}

static void crowd_close(struct crowd *c)
{
    while (c->n) {
        station_close(&c->halls[--c->n]);
    }
    scene_close(&c->s);
}

static void accept_all(struct crowd *c, struct unetmm_ep *ep)
{
    struct unetmm_peer peer;

    while (unetmm_accept(ep, &peer, 0) >= 0) {
        memcpy(c->mac, peer.mac, sizeof(c->mac));
    }
}

/*
 * One more listener, with so many channels: of one station (`how` it is), accepted; or
 * each of another station, not accepted.  Messages get lost, so it asks again.
 */
static void fill(struct crowd *c, unsigned channels, const char *how,
                 unsigned type, bool one)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = 1u << type,
    };
    uint64_t before = ACCEPTS(&c->s), end = deadline_in(60);
    struct station *hall = &c->halls[c->n];
    unsigned n, step;
    uint64_t soon;

    station_open(hall, c->s.ctx, NULL);
    CHECK_RET(unetmm_listen_ex(hall->ep, HALL(c->n), 64, &attr), 0);
    while ((n = ACCEPTS(&c->s) - before) < channels) {
        if (now_ns() > end) {
            FAIL("a listener has %u of %u channels", n, channels);
        }
        step = channels - n < 16 ? channels - n : 16;
        soon = deadline_in(2);
        ask_host("far %s%s %u %u %u %u", how, one ? "again" : "connect",
                 one ? 1 : step, one ? step : 1, (unsigned)HALL(c->n), type);
        while (ACCEPTS(&c->s) - before < n + step && now_ns() < soon) {
            breathe();
        }
        if (one) {
            accept_all(c, hall->ep);
        }
    }
    c->n++;
}

/* One station's channels, all accepted; and it is asked whether it is there. */
static void fill_halls(struct crowd *c, unsigned halls, const char *how)
{
    struct unetmm_info info = { .size = sizeof(info) };
    unsigned i;

    CHECK_RET(unetmm_info(c->s.ctx, &info), 0);
    ask_host("far %sconnect 1 0 0 0", how);
    for (i = 0; i < halls; i++) {
        fill(c, info.channels, how, 0, true);
    }
    CHECK_EQ(CONFIRMED(c), 0);
}

/* Another question for each, for which there is no room. */
static void press(struct crowd *c)
{
    uint64_t full, soon, end = deadline_in(60);
    unsigned i;

    for (i = 0; i < c->n; i++) {
        full = FULL(&c->s);
        do {
            if (now_ns() > end) {
                FAIL("listener %u refuses nobody", i);
            }
            soon = deadline_in(2);
            ask_host("far connect 1 1 %u 0", (unsigned)HALL(i));
            while (FULL(&c->s) == full && now_ns() < soon) {
                breathe();
            }
        } while (FULL(&c->s) == full);
    }
}

/* A driver that is silent for some seconds loses no channel that is in use. */
TEST(busy, TEST_TLB)
{
    struct unetmm_info info = { .size = sizeof(info) };
    struct crowd c;

    crowd_open(&c, UNETMM_DATAGRAM);
    CHECK_RET(unetmm_info(c.s.ctx, &info), 0);
    fill_halls(&c, 1, "busy ");
    press(&c);
    EVENTUALLY(CONFIRMED(&c) + GHOSTS(&c.s) == info.channels);
    CHECK_EQ(GHOSTS(&c.s), 0);
    crowd_close(&c);
}

struct prober {
    struct unetmm_ctx *ctx;
    const uint8_t *mac;
    atomic_bool *stop;
    uint64_t answers, limited;
    pthread_t thread;
};

static void *probe_always(void *argument)
{
    struct prober *p = argument;
    int ret;

    while (!atomic_load(p->stop)) {
        ret = unetmm_probe(p->ctx, p->mac, 5 * NS_PER_MS, NULL);
        p->answers += !ret;
        p->limited += ret == -EAGAIN;
    }
    return NULL;
}

static void probers_start(struct prober *p, unsigned n, struct scene *s,
                          const uint8_t *mac)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        p[i] = (struct prober){ .ctx = s->ctx, .mac = mac, .stop = &s->stop };
        CHECK_EQ(pthread_create(&p[i].thread, NULL, probe_always, &p[i]), 0);
    }
}

static uint64_t probers_stop(struct prober *p, unsigned n)
{
    uint64_t answers = 0;
    unsigned i;

    atomic_store(p->stop, true);
    for (i = 0; i < n; i++) {
        CHECK_EQ(pthread_join(p[i].thread, NULL), 0);
        answers += p[i].answers;
    }
    return answers;
}

/*
 * A station that answers so often in a second, and no more, keeps its channels, too:
 * it has more than that, and a process here asks it all the time.
 */
TEST(live_ones, TEST_TLB)
{
    struct unetmm_info info = { .size = sizeof(info) };
    struct prober probers[4];
    struct crowd c;

    crowd_open(&c, UNETMM_DATAGRAM);
    CHECK_RET(unetmm_info(c.s.ctx, &info), 0);
    fill_halls(&c, HALLS, "alive ");
    probers_start(probers, 4, &c.s, c.mac);
    press(&c);
    EVENTUALLY(CONFIRMED(&c) + GHOSTS(&c.s) == HALLS * info.channels);
    note("%u channels, %u answers to others", HALLS * info.channels,
         (unsigned)probers_stop(probers, 4));
    CHECK_EQ(GHOSTS(&c.s), 0);
    crowd_close(&c);
}

/* Reliable channels are the card's: a user without one asks for those of all listeners. */
TEST(card_is_full, TEST_TLB)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_RELIABLE,
    };
    struct unetmm_info info = { .size = sizeof(info) };
    struct crowd c;
    unsigned left;

    crowd_open(&c, UNETMM_RELIABLE);
    CHECK_RET(unetmm_info(c.s.ctx, &info), 0);
    for (left = info.reliable; left && c.n < HALLS;) {
        unsigned n = left < 48 ? left : 48;

        fill(&c, n, "", 1, false);
        left -= n;
    }
    CHECK_EQ(left, 0);
    CHECK_EQ(GHOSTS(&c.s), 0);
    CHECK_RET(unetmm_connect_ex(c.s.newcomer.ep, c.s.mac, SERVICE, PATIENCE_NS,
                                &attr, NULL), 0);
    EVENTUALLY(GHOSTS(&c.s) == info.reliable);
    crowd_close(&c);
}

/* ---- A user's own limit ---------------------------------------------------------- */

#define USER_SLOTS      0       /* the parameter's default */

struct user_hall {
    atomic_bool open, stop;
};

/* Each channel of it has slots of the system buffer. */
static void user_listens(void *argument)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_RELIABLE,
    };
    struct unetmm_ep_attr redirect = default_attr();
    struct user_hall *hall = argument;
    struct unetmm_ctx *ctx;
    struct station station;

    be_user(4242);
    ctx = open_card();
    redirect.policy = UNETMM_POLICY_REDIRECT;
    station_open(&station, ctx, &redirect);
    CHECK_RET(unetmm_listen_ex(station.ep, HALL(0), BACKLOG, &attr), 0);
    atomic_store(&hall->open, true);
    while (!atomic_load(&hall->stop)) {
        breathe();
    }
    station_close(&station);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* New stations ask the user's listener until it has refused one. */
static void refuse_one(struct scene *s)
{
    uint64_t full = FULL(s), soon, end = deadline_in(60);

    while (FULL(s) == full) {
        CHECK(now_ns() < end);
        soon = deadline_in(2);
        ask_host("far connect 1 1 %u 1", (unsigned)HALL(0));
        while (FULL(s) == full && now_ns() < soon) {
            breathe();
        }
    }
}

/* A user with all slots that one may have takes no room of other users. */
TEST(quota_of_one, TEST_TLB)
{
    struct user_hall *hall = shared_memory(sizeof(*hall));
    struct scene s;
    unsigned i;
    pid_t pid;

    scene_open(&s, UNETMM_DATAGRAM);
    set_parameter("user_redirect_slots", 1);
    forge("", BACKLOG / 2, 1, 0);
    EVENTUALLY(ACCEPTS(&s) == BACKLOG / 2);
    pid = start_process(user_listens, hall);
    EVENTUALLY(atomic_load(&hall->open));
    for (i = 1; i <= 3; i++) {
        refuse_one(&s);
        EVENTUALLY(GHOSTS(&s) >= i);
    }
    atomic_store(&hall->stop, true);
    end_process(pid);
    set_parameter("user_redirect_slots", USER_SLOTS);
    /* Ghosts, too, but those of the other listener: nobody wanted their places. */
    CHECK_EQ(GHOSTS(&s), 3);
    scene_close(&s);
}

/* ---- Stations that answer, and how often --------------------------------------- */

/* Whatever it has refused in that second, the driver says that it is there. */
TEST(refusals_apart, TEST_TLB)
{
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    ask_host("far refused %u", (unsigned)HALL(HALLS));
    scene_close(&s);
}

#define OTHERS          8       /* not all have the same limit by chance */

static void asks_once(void *argument)
{
    atomic_uint *answers = argument;
    unsigned uid = 4243 + atomic_fetch_add(answers + 1, 1);
    struct unetmm_ctx *ctx;
    uint8_t mac[6];

    be_user(uid);
    card_mac(mac);
    ctx = open_card();
    if (!unetmm_probe(ctx, mac, 300 * NS_PER_MS * run.slow, NULL)) {
        atomic_fetch_add(answers, 1);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

static void announce(struct scene *s, uint32_t flags)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_DATAGRAM | flags,
    };

    CHECK_RET(unetmm_listen_ex(s->listener.ep, SERVICE, BACKLOG, &attr), 0);
}

/*
 * A station asks and asks for listeners: it gets the announced one, in the end none.
 * Its questions with errors are counted, and the other cards' limits are their own.
 */
TEST(listeners_have_a_limit, TEST_TLB)
{
    struct scene s;
    uint64_t answered, limited, bad;

    scene_open(&s, UNETMM_DATAGRAM);
    answered = SINCE(&s, peers_answered);
    limited = SINCE(&s, peers_limited);
    bad = SINCE(&s, control_bad);
    ask_host("far asks 0 %u", (unsigned)SERVICE);
    CHECK_EQ(SINCE(&s, peers_answered), answered);
    announce(&s, UNETMM_ANNOUNCE);
    ask_host("far asks 1 %u", (unsigned)SERVICE);
    CHECK(SINCE(&s, peers_answered) > answered);
    CHECK(SINCE(&s, peers_limited) > limited);
    CHECK(SINCE(&s, control_bad) > bad);
    scene_close(&s);
}

#define LISTENERS       64      /* twice as many as one question finds */

/* Each station's questions are answered from where its own last answers have ended. */
TEST(askers_apart, TEST_TLB)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_DATAGRAM | UNETMM_ANNOUNCE,
    };
    struct unetmm_ep_attr small = default_attr();
    struct unetmm_ep *eps[LISTENERS];
    struct scene s;
    unsigned i;

    small.send_slots = small.free_depth = small.completion_depth = 16;
    scene_open(&s, UNETMM_DATAGRAM);
    for (i = 0; i < LISTENERS; i++) {
        CHECK_RET(unetmm_ep_create(s.ctx, &small, &eps[i]), 0);
        CHECK_RET(unetmm_listen_ex(eps[i], SERVICE + 1 + i, 1, &attr), 0);
    }
    ask_host("far shares %u", LISTENERS);
    for (i = 0; i < LISTENERS; i++) {
        CHECK_RET(unetmm_ep_destroy(eps[i]), 0);
    }
    scene_close(&s);
}

/* Answers that are wrong, or too many. */
TEST(listeners_that_lie, TEST_TLB)
{
    struct unetmm_listener found[16];
    struct unetmm_peers ask = {
        .size = sizeof(ask), .listeners = (uintptr_t)found,
    };
    uint64_t dropped, bad;
    struct scene s;
    unsigned i, j;

    scene_open(&s, UNETMM_DATAGRAM);
    dropped = SINCE(&s, peers_dropped);
    bad = SINCE(&s, control_bad);
    ask_host("far lies 40");
    for (i = 0; i < 16; i++) {
        memset(&found[i], 0xa5, sizeof(found[i]));
    }
    EVENTUALLY((ask.count = 16,
                unetmm_peers(s.ctx, &ask, 300 * NS_PER_MS * run.slow)) == 16);
    for (i = 0; i < 16; i++) {
        CHECK(found[i].service && found[i].endpoint);
        CHECK_EQ(found[i].unused, 0);
        CHECK_EQ(found[i].name[15], 0);
        for (j = 0; found[i].name[j]; j++) {
            CHECK(found[i].name[j] >= ' ' && found[i].name[j] <= '~');
        }
    }
    EVENTUALLY(SINCE(&s, peers_dropped) > dropped);
    EVENTUALLY(SINCE(&s, control_bad) > bad);
    ask_host("far lies 0");
    scene_close(&s);
}

/* Of one user not many questions are sent in a second; others ask meanwhile. */
TEST(probes_have_a_limit, TEST_TLB)
{
    atomic_uint *others = shared_memory(4096);
    uint64_t start = now_ns(), answers, seconds;
    struct prober probers[2];
    struct scene s;
    unsigned i;

    scene_open(&s, UNETMM_DATAGRAM);
    probers_start(probers, 2, &s, s.mac);
    for (i = 0; i < OTHERS || now_ns() - start < NS_PER_S; i++) {
        end_process(start_process(asks_once, others));
    }
    answers = probers_stop(probers, 2);
    seconds = (now_ns() - start) / NS_PER_S + 2;
    note("%u answers in less than %u s, %u of %u to others", (unsigned)answers,
         (unsigned)seconds, atomic_load(others), i);
    CHECK(answers > 0);
    CHECK(answers <= 64 * seconds);
    CHECK(probers[0].limited + probers[1].limited > 0);
    CHECK(atomic_load(others) > 0);
    scene_close(&s);
}

#define USERS           64      /* some share a limit, in any second */
#define DRAWS           6

struct draws {
    atomic_uint asked[USERS], limited[USERS];
};

/* Ten questions a second, for which no answer is waited. */
static void asks_for_seconds(void *argument)
{
    struct { struct draws *draws; unsigned i; } *user = argument;
    uint64_t end = now_ns() + DRAWS * NS_PER_S;
    struct unetmm_ctx *ctx;
    uint8_t mac[6];

    be_user(5000 + user->i);
    card_mac(mac);
    ctx = open_card();
    while (now_ns() < end) {
        int ret = unetmm_probe(ctx, mac, 0, NULL);

        CHECK(!ret || ret == -EHOSTUNREACH || ret == -EAGAIN);
        atomic_fetch_add(&user->draws->asked[user->i], 1);
        atomic_fetch_add(&user->draws->limited[user->i], ret == -EAGAIN);
        usleep(100 * 1000);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

/* As many questions as there may be. */
static void *ask_greedily(void *argument)
{
    struct prober *p = argument;

    while (!atomic_load(p->stop)) {
        p->limited += unetmm_probe(p->ctx, p->mac, 0, NULL) == -EAGAIN;
    }
    return NULL;
}

/* Nobody has to share with a greedy one for more than some seconds. */
TEST(limits_are_drawn, TEST_TLB)
{
    struct { struct draws *draws; unsigned i; } user;
    unsigned asked, limited, most = 0;
    struct prober greedy;
    pid_t pids[USERS];
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    user.draws = shared_memory(sizeof(*user.draws));
    greedy = (struct prober){ .ctx = s.ctx, .mac = s.mac, .stop = &s.stop };
    CHECK_EQ(pthread_create(&greedy.thread, NULL, ask_greedily, &greedy), 0);
    for (user.i = 0; user.i < USERS; user.i++) {
        pids[user.i] = start_process(asks_for_seconds, &user);
    }
    for (user.i = 0; user.i < USERS; user.i++) {
        end_process(pids[user.i]);
    }
    atomic_store(&s.stop, true);
    CHECK_EQ(pthread_join(greedy.thread, NULL), 0);
    CHECK(greedy.limited > 0);
    for (user.i = 0; user.i < USERS; user.i++) {
        asked = atomic_load(&user.draws->asked[user.i]);
        limited = atomic_load(&user.draws->limited[user.i]);
        most = limited * 100 / asked > most ? limited * 100 / asked : most;
        if (limited * 4 > asked * 3) {
            FAIL("%u of %u questions of a user were not sent", limited, asked);
        }
    }
    note("at most %u %% of the questions of a user were not sent", most);
    scene_close(&s);
}

/* ---- The end of a channel ------------------------------------------------------- */

#define FAR             0xfffff0u       /* stations that take every channel: */
#define FARS            8u
#define TRIES           10u             /* CLOSEs of a channel whose peer is silent */
#define PLACES          4096u           /* of CLOSEs that wait for an answer */

static void far_mac(uint8_t mac[6], uint32_t number)
{
    memcpy(mac, (uint8_t[]){ 0x02, 0xf0, 0x0d, (uint8_t)(number >> 16),
                             (uint8_t)(number >> 8), (uint8_t)number }, 6);
}

static void open_and_close(struct station *station, uint32_t number)
{
    uint8_t mac[6];
    int channel;

    far_mac(mac, number);
    channel = unetmm_connect_ex(station->ep, mac, SERVICE, PATIENCE_NS,
                                &datagram_attr, NULL);
    CHECK(channel >= 0);
    CHECK_RET(unetmm_disconnect(station->ep, (unsigned)channel), 0);
}

/* A connect that nobody answers, and whose answer nobody waits for. */
static void ask_nobody(struct station *station, uint32_t number)
{
    uint8_t mac[6];

    far_mac(mac, number);
    CHECK_RET(unetmm_connect_ex(station->ep, mac, SERVICE, 0, &datagram_attr,
                                NULL), -EHOSTUNREACH);
}

/* Those of other tests are answered, or given up. */
static void await_no_closes(struct scene *s)
{
    struct patience patience = patience_of(30);

    while (SINCE(s, closes_waiting)) {
        CHECK(!patience_ends(&patience, now_ns()));
        breathe();
    }
}

/* Each CLOSE is repeated until it has an answer. */
TEST(lost_close, TEST_TLB)
{
    uint64_t repeated, given_up;
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    await_no_closes(&s);
    repeated = SINCE(&s, closes_repeated);
    given_up = SINCE(&s, closes_given_up);
    ask_host("far loses 4");
    open_and_close(&s.newcomer, FAR);
    ask_host("far closed 1 5");
    EVENTUALLY(SINCE(&s, closes_waiting) == 0);
    /* Some more if the host takes longer to answer than the driver waits. */
    repeated = SINCE(&s, closes_repeated) - repeated;
    CHECK(repeated >= 4 && repeated < 8);
    CHECK_EQ(SINCE(&s, closes_given_up), given_up);
    ask_host("far loses 0");
    scene_close(&s);
}

/* A connect that has had no answer may have opened the peer's half. */
TEST(close_of_a_request, TEST_TLB)
{
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    ask_host("far loses 2");
    ask_nobody(&s.newcomer, FAR + FARS);
    ask_host("far closed 1 3");
    ask_host("far loses 0");
    scene_close(&s);
}

/* A peer that never answers is told so often, and no more. */
TEST(silent_peer, TEST_TLB)
{
    uint64_t repeated, given_up;
    struct scene s;

    scene_open(&s, UNETMM_DATAGRAM);
    await_no_closes(&s);
    ask_host("far loses 1000");
    repeated = SINCE(&s, closes_repeated);
    given_up = SINCE(&s, closes_given_up);
    open_and_close(&s.newcomer, FAR);
    CHECK_EQ(SINCE(&s, closes_waiting), 1);
    await_no_closes(&s);
    CHECK_EQ(SINCE(&s, closes_repeated), repeated + TRIES - 1);
    CHECK_EQ(SINCE(&s, closes_given_up), given_up + 1);
    ask_host("far closed 1 %u", TRIES);
    ask_host("far loses 0");
    scene_close(&s);
}

/* The other way: a CLOSE is answered each time, and the process learns of it once. */
TEST(close_is_answered, TEST_TLB)
{
    struct unetmm_completion c;
    struct scene s;
    int channel;

    scene_open(&s, UNETMM_DATAGRAM | UNETMM_NOTIFY_CLOSE);
    forge("alive ", 1, 1, 0);
    channel = unetmm_accept(s.listener.ep, NULL, PATIENCE_NS);
    CHECK(channel >= 0);
    ask_host("far closes");
    take(&s.listener, UNETMM_CQE_CLOSED, &c);
    CHECK_EQ(c.channel, channel);
    CHECK(!take_now(&s.listener, UNETMM_CQE_CLOSED, &c));
    scene_close(&s);
}

/* Channels that a function reset has ended are closed by the card that starts again. */
TEST(closes_after_a_reset, TEST_TLB | TEST_NO_CARD)
{
    struct scene s;
    uint8_t mac[6];

    scene_open(&s, UNETMM_DATAGRAM);
    card_find();
    ask_host("far loses 0");
    far_mac(mac, FAR);
    CHECK(unetmm_connect_ex(s.newcomer.ep, mac, SERVICE, PATIENCE_NS,
                            &datagram_attr, NULL) >= 0);
    card_write("reset", "1");
    ask_host("far closed 1 1");
}

struct closer {
    atomic_uint state;          /* 1: has no place any more; 2: is to end */
    uint32_t first, step;       /* stations that it asks */
    unsigned uid;
    unsigned n;                 /* CLOSEs that have found a place */
    uint64_t ns;
};

/* Takes places until there is none. */
static void closes_all(void *argument)
{
    struct closer *closer = argument;
    struct unetmm_ctx *ctx;
    struct station station;
    uint64_t given_up, begin = now_ns();

    if (closer->uid) {
        be_user(closer->uid);
    }
    ctx = open_card();
    station_open(&station, ctx, NULL);
    given_up = driver_counter(ctx, UNETMM_D_closes_given_up);
    for (;;) {
        ask_nobody(&station, closer->first + closer->n * closer->step);
        if (driver_counter(ctx, UNETMM_D_closes_given_up) != given_up) {
            break;
        }
        closer->n++;
    }
    closer->ns = now_ns() - begin;
    atomic_store(&closer->state, 1);
    EVENTUALLY(atomic_load(&closer->state) == 2);
    station_close(&station);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Before the first CLOSE is given up for want of an answer. */
static void check_places(const struct closer *closer, unsigned most)
{
    note("%u places in %u ms", closer->n, (unsigned)(closer->ns / NS_PER_MS));
    if (closer->ns < 10 * NS_PER_S) {
        CHECK(closer->n <= most);
        CHECK(closer->n >= most / 2);
    }
}

static void closes_one(void *argument)
{
    struct unetmm_ctx *ctx;
    struct station station;

    (void)argument;
    be_user(4243);
    ctx = open_card();
    station_open(&station, ctx, NULL);
    open_and_close(&station, FAR);
    station_close(&station);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* A user with all places that one may have; another one's CLOSE is repeated. */
TEST(closes_of_one_user, TEST_TLB)
{
    struct closer *closer = shared_memory(sizeof(*closer));
    struct scene s;
    pid_t pid;

    scene_open(&s, UNETMM_DATAGRAM);
    await_no_closes(&s);
    *closer = (struct closer){ .uid = 4242, .first = 0xe00000, .step = 1 };
    pid = start_process(closes_all, closer);
    EVENTUALLY(atomic_load(&closer->state) == 1);
    ask_host("far loses 3");
    end_process(start_process(closes_one, NULL));
    ask_host("far closed 1 4");
    atomic_store(&closer->state, 2);
    end_process(pid);
    check_places(closer, PLACES / 2);
    ask_host("far loses 0");
    scene_close(&s);
}

/* A peer with all places that one may have; those of other peers are repeated. */
TEST(closes_of_one_peer, TEST_TLB)
{
    struct closer *closer = shared_memory(sizeof(*closer));
    struct scene s;
    unsigned i;
    pid_t pid;

    scene_open(&s, UNETMM_DATAGRAM);
    await_no_closes(&s);
    *closer = (struct closer){ .uid = 0, .first = 0xd00000, .step = 0 };
    pid = start_process(closes_all, closer);
    EVENTUALLY(atomic_load(&closer->state) == 1);
    ask_host("far loses 3");
    for (i = 0; i < FARS; i++) {
        open_and_close(&s.newcomer, FAR + i);
    }
    /* Some may have the same hash as the silent one. */
    ask_host("far closed 1 4");
    atomic_store(&closer->state, 2);
    end_process(pid);
    check_places(closer, PLACES / 2);
    ask_host("far loses 0");
    scene_close(&s);
}
