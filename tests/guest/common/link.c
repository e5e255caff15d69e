/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Links: two endpoints of this guest, or one and the other guest's echo. */
#include "link.h"
#include "pattern.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define QUESTION    0x9e5710e5u         /* cookie of requests to the echo */

/* ---- Opening and closing ----------------------------------------------------- */

struct unetmm_ctx *open_card(void)
{
    struct unetmm_ctx *ctx = NULL;

    CHECK_RET(unetmm_open(NULL, run.source, &ctx), 0);
    return ctx;
}

void card_info(struct unetmm_info *info)
{
    struct unetmm_ctx *ctx = NULL;

    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &ctx), 0);
    info->size = sizeof(*info);
    CHECK_RET(unetmm_info(ctx, info), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

void card_mac(uint8_t mac[6])
{
    struct unetmm_info info;

    card_info(&info);
    memcpy(mac, info.mac, sizeof(info.mac));
}

struct unetmm_ep_attr default_attr(void)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;

    attr.policy = run.policy;
    return attr;
}

void station_open(struct station *station, struct unetmm_ctx *ctx,
                  const struct unetmm_ep_attr *attr)
{
    struct unetmm_ep_attr usual = default_attr();

    station->ctx = ctx;
    station->stashed = 0;
    station->channel = 0;
    station->mtu = 0;
    CHECK_RET(unetmm_ep_create(ctx, attr ? attr : &usual, &station->ep), 0);
}

void station_close(struct station *station)
{
    CHECK_RET(unetmm_ep_destroy(station->ep), 0);
}

/* A number that no other test, running or dead, listens on. */
static uint64_t fresh_service(void)
{
    static atomic_uint count;

    return SERVICE_FIRST + ((uint64_t)getpid() << 16) +
        atomic_fetch_add(&count, 1);
}

int try_join(struct station *one, struct station *two,
             const struct unetmm_channel_attr *attr, int64_t timeout_ns)
{
    uint64_t service = fresh_service();
    struct unetmm_peer peer;
    uint8_t mac[6];
    int ret;

    card_mac(mac);
    CHECK_RET(unetmm_listen_ex(two->ep, service, 1, attr), 0);
    ret = unetmm_connect_ex(one->ep, mac, service, timeout_ns, attr, &peer);
    CHECK_RET(unetmm_listen(two->ep, 0, 0), 0);
    if (ret < 0) {
        return ret;
    }
    one->channel = (unsigned)ret;
    one->mtu = peer.mtu;
    CHECK_EQ(peer.endpoint, unetmm_ep_id(two->ep));
    CHECK((two->channel = (unsigned)unetmm_accept(
               two->ep, &peer, 10 * NS_PER_S * run.slow)) < 1u << 16);
    two->mtu = peer.mtu;
    CHECK_EQ(peer.endpoint, unetmm_ep_id(one->ep));
    return 0;
}

void join(struct station *one, struct station *two)
{
    const struct unetmm_channel_attr attr = { sizeof(attr), UNETMM_DATAGRAM,
                                              0, 0, 0, 0 };

    CHECK_RET(try_join(one, two, &attr, 10 * NS_PER_S * run.slow), 0);
}

static void connect_to_echo(struct station *station)
{
    struct unetmm_peer peer;
    int ret = unetmm_connect_ex(station->ep, run.peer, SERVICE_ECHO,
                             20 * NS_PER_S * run.slow, &datagram_attr, &peer);

    if (ret < 0) {
        FAIL("cannot reach the other guest's echo: %s",
             unetmm_strerror(ret, UNETMM_CALL_CONNECT));
    }
    station->channel = (unsigned)ret;
    station->mtu = peer.mtu;
}

void link_open(struct link *link, struct unetmm_ctx *ctx,
               const struct unetmm_ep_attr *attr)
{
    link->owns_ctx = !ctx;
    link->ctx = ctx ? ctx : open_card();
    link->tx = &link->one;
    station_open(&link->one, link->ctx, attr);
    if (run.remote) {
        link->rx = &link->one;
        connect_to_echo(&link->one);
        return;
    }
    link->rx = &link->two;
    station_open(&link->two, link->ctx, attr);
    join(&link->one, &link->two);
}

void link_close(struct link *link)
{
    station_close(&link->one);
    if (!run.remote) {
        station_close(&link->two);
    }
    if (link->owns_ctx) {
        CHECK_RET(unetmm_close(link->ctx), 0);
    }
}

void reach(struct unetmm_ctx *ctx, void *at, size_t len, bool write)
{
    if (run.source == UNETMM_SOURCE_PINNED) {
        CHECK_RET(unetmm_register(ctx, at, len,
                                  write ? UNETMM_REGION_WRITE : 0), 0);
    }
}

void unreach(struct unetmm_ctx *ctx, void *at, size_t len)
{
    if (run.source == UNETMM_SOURCE_PINNED) {
        CHECK_RET(unetmm_deregister(ctx, at, len), 0);
    }
}

/* ---- Completions ---------------------------------------------------------------- */

static bool from_stash(struct station *station, unsigned type,
                       struct unetmm_completion *c)
{
    unsigned i;

    for (i = 0; i < station->stashed; i++) {
        if (station->stash[i].type == type) {
            *c = station->stash[i];
            station->stashed--;
            memmove(&station->stash[i], &station->stash[i + 1],
                    (station->stashed - i) * sizeof(*c));
            return true;
        }
    }
    return false;
}

/* Is it the echo's answer?  peer_call() knows which request it is for. */
static bool is_answer(const struct unetmm_completion *c)
{
    struct peer_message message;

    if (c->type != UNETMM_CQE_RECEIVED || !c->is_inline ||
        c->len != sizeof(message)) {
        return false;
    }
    memcpy(&message, c->data, sizeof(message));
    return message.magic == PEER_MAGIC && message.op != PEER_COUNT_HERE;
}

static bool take_any(struct station *station, unsigned type, bool answers,
                     struct unetmm_completion *c, uint64_t deadline)
{
    if (from_stash(station, type, c)) {
        return true;
    }
    for (;;) {
        uint64_t now = now_ns();
        int got = unetmm_wait(station->ep, c, 1,
                              now < deadline ? (int64_t)(deadline - now) : 0);

        if (got == -EINTR) {
            continue;
        }
        CHECK_RET(got < 0 ? got : 0, 0);
        if (!got) {
            return false;
        }
        if (!answers && is_answer(c)) {
            continue;
        }
        if (c->type == type) {
            return true;
        }
        CHECK(station->stashed < STASH);
        station->stash[station->stashed++] = *c;
    }
}

/* A question that was asked again is answered again: that is nobody's message. */
bool take_until(struct station *station, unsigned type,
                struct unetmm_completion *c, uint64_t deadline)
{
    return take_any(station, type, false, c, deadline);
}

bool take_now(struct station *station, unsigned type,
              struct unetmm_completion *c)
{
    return take_until(station, type, c, 0);
}

void take(struct station *station, unsigned type, struct unetmm_completion *c)
{
    static const char *const names[] = {
        [UNETMM_CQE_SENT] = "send", [UNETMM_CQE_RECEIVED] = "message",
        [UNETMM_CQE_BUFFER] = "returned buffer",
        [UNETMM_CQE_FAILED] = "end of the endpoint",
        [UNETMM_CQE_NOTIFY] = "notification",
        [UNETMM_CQE_CLOSED] = "end of the channel",
    };

    if (!take_until(station, type, c, deadline_in(30))) {
        FAIL("no completion of a %s within 30 s", names[type]);
    }
}

static void stash_one(struct station *station)
{
    struct unetmm_completion c;
    int got = unetmm_wait(station->ep, &c, 1, NS_PER_MS);

    CHECK_RET(got < 0 ? got : 0, 0);
    if (got && !is_answer(&c)) {
        CHECK(station->stashed < STASH);
        station->stash[station->stashed++] = c;
    }
}

void post(struct station *station, void *buffer, size_t len, uint64_t cookie)
{
    uint64_t end = deadline_in(10);
    int ret;

    while ((ret = unetmm_post_recv(station->ep, buffer, len, cookie, 0)) ==
           -EAGAIN) {
        CHECK(now_ns() < end);
        stash_one(station);
    }
    CHECK_RET(ret, 0);
}

void send_pieces(struct station *station, const struct iovec *iov, unsigned n,
                 uint64_t cookie, unsigned flags)
{
    uint64_t end = deadline_in(10);
    int ret;

    while ((ret = unetmm_sendv(station->ep, station->channel, iov, n, cookie,
                               flags)) == -EAGAIN) {
        CHECK(now_ns() < end);
        stash_one(station);
    }
    CHECK_RET(ret, 0);
}

void take_sent(struct station *station, struct unetmm_completion *c)
{
    do {
        take(station, UNETMM_CQE_SENT, c);
        /* A question is quiet, unless it fails: its peer has gone. */
    } while (c->user_data == QUESTION && c->status);
}

unsigned send_status(struct station *station, const void *buffer, size_t len)
{
    struct iovec iov = { (void *)(uintptr_t)buffer, len };
    struct unetmm_completion c;
    uint64_t cookie = 0x5e9d0000u + (len & 0xffff);

    send_pieces(station, &iov, 1, cookie, 0);
    take_sent(station, &c);
    CHECK_EQ(c.user_data, cookie);
    CHECK_EQ(c.channel, station->channel);
    return c.status;
}

/* ---- Messages ------------------------------------------------------------------- */

/* Has the message that was sent after `handled` were counted been received? */
static bool settle_local(struct link *link, uint64_t handled,
                         struct unetmm_completion *c)
{
    uint64_t end = deadline_in(10);

    while (!take_now(link->rx, UNETMM_CQE_RECEIVED, c)) {
        if (ep_handled(link->rx) > handled) {
            /* Counted after it was written: it is there now, or was not. */
            return take_now(link->rx, UNETMM_CQE_RECEIVED, c);
        }
        if (now_ns() > end) {
            FAIL("a message was neither received nor dropped");
        }
        sched_yield();
    }
    return true;
}

/* The peer's answer comes after its earlier messages. */
static bool settle_remote(struct link *link, struct unetmm_completion *c)
{
    if (take_until(link->rx, UNETMM_CQE_RECEIVED, c,
                   now_ns() + 20 * NS_PER_MS)) {
        return true;
    }
    peer_ask(link->rx, PEER_PING);
    return take_now(link->rx, UNETMM_CQE_RECEIVED, c);
}

static bool deliver_with(struct link *link, const struct iovec *iov,
                         unsigned n, unsigned flags,
                         struct unetmm_completion *c)
{
    uint64_t handled = run.remote ? 0 : ep_handled(link->rx);
    uint64_t cookie = 0xc00c1e0000ull + n;

    send_pieces(link->tx, iov, n, cookie, flags);
    take(link->tx, UNETMM_CQE_SENT, c);
    if (c->status != UNETMM_ST_OK) {
        FAIL("a send failed: %s", unetmm_status_str(c->status));
    }
    CHECK_EQ(c->user_data, cookie);
    return run.remote ? settle_remote(link, c) :
        settle_local(link, handled, c);
}

bool deliver(struct link *link, const struct iovec *iov, unsigned n,
             struct unetmm_completion *c)
{
    return deliver_with(link, iov, n, 0, c);
}

/* A message for a buffer, whatever it says, from no memory of ours. */
static bool deliver_filler(struct link *link, struct unetmm_completion *c)
{
    static uint8_t filler[UNETMM_CQE_INLINE + 1];
    struct iovec iov = { filler, sizeof(filler) };

    return deliver_with(link, &iov, 1, UNETMM_INLINE, c);
}

/* A buffer that the policy gave back is posted again. */
static void repost_skipped(struct station *station, void *buffer, size_t len,
                           uint64_t cookie)
{
    struct unetmm_completion c;

    while (take_now(station, UNETMM_CQE_BUFFER, &c)) {
        if (c.status != UNETMM_ST_SKIPPED || c.user_data != cookie) {
            FAIL("a buffer came back: %s", unetmm_status_str(c.status));
        }
        CHECK_EQ(run.policy, UNETMM_POLICY_SKIP);
        post(station, buffer, len, cookie);
    }
}

/* Fills the buffer that an inline message left. */
static void use_up(struct link *link, void *buffer, size_t len,
                   uint64_t cookie)
{
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;

    while (!deliver_filler(link, &c)) {
        CHECK(now_ns() < end);
        repost_skipped(link->rx, buffer, len, cookie);
    }
    CHECK_EQ(c.user_data, cookie);
}

void exchange(struct link *link, const struct iovec *iov, unsigned n,
              void *buffer, size_t len, struct unetmm_completion *c)
{
    uint64_t cookie = (uintptr_t)buffer ^ 0xb0ff;
    uint64_t end = deadline_in(10);

    post(link->rx, buffer, len, cookie);
    while (!deliver(link, iov, n, c)) {
        if (now_ns() > end) {
            FAIL("a message is dropped again and again");
        }
        repost_skipped(link->rx, buffer, len, cookie);
    }
    CHECK_EQ(c->channel, link->rx->channel);
    CHECK_EQ(c->status, UNETMM_ST_OK);
    if (c->is_inline) {
        uint8_t saved[UNETMM_CQE_INLINE + 1];

        CHECK(c->len <= UNETMM_CQE_INLINE);
        memcpy(saved, buffer, len < sizeof(saved) ? len : sizeof(saved));
        if (len >= sizeof(saved)) {
            use_up(link, buffer, len, cookie);
            memcpy(buffer, saved, sizeof(saved));
        }
    } else {
        CHECK_EQ(c->user_data, cookie);
    }
}

void exchange_pattern(struct link *link, void *from, void *to, size_t len,
                      uint64_t key)
{
    struct iovec iov = { from, len };
    struct unetmm_completion c;
    const uint8_t *got;
    size_t at;

    pattern_fill(from, len, key, 0);
    exchange(link, &iov, 1, to, len > UNETMM_CQE_INLINE ? len :
             UNETMM_CQE_INLINE + 1, &c);
    CHECK_EQ(c.len, len);
    got = c.is_inline ? c.data : to;
    at = pattern_check(got, len, key, 0);
    if (at < len) {
        FAIL("byte %zu of %zu is 0x%02x, not 0x%02x", at, len, got[at],
             pattern_byte(key, at));
    }
}

unsigned provoke_return(struct link *link, const struct iovec *message,
                        void *buffer, size_t len, uint64_t cookie)
{
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;

    for (;;) {
        while (!take_now(link->rx, UNETMM_CQE_BUFFER, &c)) {
            CHECK(now_ns() < end);
            if (message ? deliver(link, message, 1, &c) :
                deliver_filler(link, &c)) {
                FAIL("a message landed in a buffer that must not be used");
            }
        }
        CHECK_EQ(c.user_data, cookie);
        if (c.status != UNETMM_ST_SKIPPED) {
            return c.status;
        }
        /* The answer took its time, and the policy did not wait. */
        CHECK_EQ(run.policy, UNETMM_POLICY_SKIP);
        post(link->rx, buffer, len, cookie);
    }
}

void count_to(struct unetmm_ep *ep, unsigned import, uint64_t from, uint64_t n)
{
    uint64_t i, end = deadline_in(60);

    for (i = from + 1; i <= from + n; i++) {
        int ret;

        while ((ret = unetmm_write(ep, import, i % COUNTED_SLOTS * sizeof(i),
                                   &i, sizeof(i), 0, 0, UNETMM_UNSIGNALED |
                                   UNETMM_INLINE | UNETMM_COUNT)) == -EAGAIN) {
            CHECK(now_ns() < end);
            breathe();
        }
        CHECK_RET(ret, 0);
    }
    while (unetmm_send_pending(ep)) {
        CHECK(now_ns() < end);
        breathe();
    }
}

/* ---- Counters ---------------------------------------------------------------- */

uint64_t ep_counter(const struct station *station, enum unetmm_counter n)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_stats_read(station->ctx, UNETMM_SCOPE_ENDPOINT,
                            (unsigned)unetmm_ep_id(station->ep), values,
                            n + 1) > (int)n);
    return values[n];
}

uint64_t card_counter(struct unetmm_ctx *ctx, enum unetmm_counter n)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_stats_read(ctx, UNETMM_SCOPE_CARD, 0, values, n + 1) > (int)n);
    return values[n];
}

uint64_t driver_counter(struct unetmm_ctx *ctx, enum unetmm_driver_counter n)
{
    uint64_t values[UNETMM_NUM_DRIVER_COUNTERS];

    CHECK(unetmm_stats_read(ctx, UNETMM_SCOPE_DRIVER, 0, values, n + 1) >
          (int)n);
    return values[n];
}

uint64_t sum_of_drops(const uint64_t *values)
{
    return values[UNETMM_C_drop_no_buffer] + values[UNETMM_C_drop_asked] +
        values[UNETMM_C_drop_absent] + values[UNETMM_C_drop_too_long] +
        values[UNETMM_C_drop_cq_full] + values[UNETMM_C_drop_stopped] +
        values[UNETMM_C_drop_invalidated] + values[UNETMM_C_drop_dma] +
        values[UNETMM_C_drop_channel] + values[UNETMM_C_drop_backup_bits] +
        values[UNETMM_C_drop_backup_ring] + values[UNETMM_C_drop_backup_size] +
        values[UNETMM_C_drop_backup_report];
}

uint64_t frames_from_wire(const uint64_t *values)
{
    return values[UNETMM_C_rx_frames] + sum_of_drops(values) +
        values[UNETMM_C_drop_no_endpoint] + values[UNETMM_C_drop_malformed] +
        values[UNETMM_C_drop_crc] + values[UNETMM_C_drop_ethertype] +
        values[UNETMM_C_drop_other_mac] + values[UNETMM_C_drop_self] +
        values[UNETMM_C_drop_disabled] + values[UNETMM_C_drop_local_full] -
        values[UNETMM_C_local_frames];
}

uint64_t frames_to_wire(const uint64_t *values)
{
    return values[UNETMM_C_tx_frames] + values[UNETMM_C_inj_dup] -
        values[UNETMM_C_inj_loss] - values[UNETMM_C_local_frames] -
        values[UNETMM_C_drop_refused] - values[UNETMM_C_drop_purged];
}

uint64_t ep_handled(const struct station *station)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_stats_read(station->ctx, UNETMM_SCOPE_ENDPOINT,
                            (unsigned)unetmm_ep_id(station->ep), values,
                            UNETMM_NUM_COUNTERS) > 0);
    return values[UNETMM_C_rx_frames] + sum_of_drops(values);
}

/* ---- The echo program ------------------------------------------------------------ */

static bool peer_answer(struct station *station,
                        const struct peer_message *question,
                        struct peer_message *answer, uint64_t deadline)
{
    struct unetmm_completion kept[STASH], c;
    bool found = false;
    unsigned n = 0;

    /* Messages that are not the answer stay in their order. */
    while (!found && n < STASH &&
           take_any(station, UNETMM_CQE_RECEIVED, true, &c, deadline)) {
        if (!is_answer(&c)) {
            kept[n++] = c;
            continue;
        }
        memcpy(answer, c.data, sizeof(*answer));
        /* Or of a question that was given up. */
        found = answer->number == question->number;
    }
    CHECK(station->stashed + n <= STASH);
    memmove(&station->stash[n], station->stash,
            station->stashed * sizeof(c));
    memcpy(station->stash, kept, n * sizeof(c));
    station->stashed += n;
    return found;
}

static bool peer_call(struct station *station, enum peer_op op,
                      uint64_t *value, uint64_t deadline)
{
    static uint64_t number;
    struct peer_message question = {
        .magic = PEER_MAGIC, .op = op, .value = *value, .number = ++number,
    };
    struct iovec iov = { &question, sizeof(question) };
    struct peer_message answer;

    do {
        uint64_t patience = now_ns() + 500 * NS_PER_MS * run.slow;

        if (unetmm_sendv(station->ep, station->channel, &iov, 1, QUESTION,
                         UNETMM_UNSIGNALED | UNETMM_INLINE)) {
            return false;
        }
        if (peer_answer(station, &question, &answer,
                        patience < deadline ? patience : deadline)) {
            *value = answer.value;
            return true;
        }
    } while (now_ns() < deadline);
    return false;
}

bool peer_try(struct station *station, enum peer_op op, uint64_t *value,
              uint64_t deadline)
{
    *value = 0;
    return peer_call(station, op, value, deadline);
}

uint64_t peer_tell(struct station *station, enum peer_op op, uint64_t value)
{
    if (!peer_call(station, op, &value, deadline_in(10))) {
        FAIL("the other guest's echo does not answer");
    }
    return value;
}

uint64_t peer_ask(struct station *station, enum peer_op op)
{
    return peer_tell(station, op, 0);
}

unsigned import_of(struct station *station, uint64_t id, unsigned rights)
{
    int ret = unetmm_import(station->ep, station->channel, id, rights,
                            10 * NS_PER_S * run.slow, NULL);

    if (ret < 0) {
        FAIL("no import: %s", unetmm_strerror(ret, UNETMM_CALL_IMPORT));
    }
    return (unsigned)ret;
}
