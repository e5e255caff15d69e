/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tour of VMMC between two hosts: export and import, the ways of writing into
 * the peer's memory, notifications, redirection, revocation.  scripts/demo --tour
 * vmmc runs it in two guests and shows its output.
 *
 *   vmmc-tour                       exports and follows the visitor's orders
 *   vmmc-tour 52:54:00:00:00:01     visits that host; a JSON object for each stop
 *
 * All bytes that move are checked, by the side that did not write them.
 */
#include "tour.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SERVICE     101         /* orders and data; +1: notifications */
#define BOX         1           /* numbers of exports */
#define LETTERS     2
#define BOX_BYTES   ((size_t)4 << 20)
#define LETTER_BYTES PAGE
#define WAVES       5           /* notifications */

/* The visitor's orders to its host, which are answered. */
enum order { EXPORT, CHECK_BOX, CHECK_SPARE, WATCH, REDIRECTED, BLOCK, UNBLOCK,
             HANDLED, REVOKE, LEAVE };

struct message {
    uint32_t order, key;
    uint64_t offset, length, answer;
};

struct host {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *orders, *letters;
    uint8_t *box, *spare, *letter;
    struct unetmm_redirected moved;
    unsigned handled, out_of_order;
};

/* ---- The host ------------------------------------------------------------ */

static void on_letter(struct unetmm_ep *ep, const struct unetmm_completion *c,
                      void *arg)
{
    struct host *h = arg;
    const uint8_t *at = h->letter + unetmm_notify_offset(c);

    (void)ep;
    /* The data is there before the notification, and these come in order. */
    h->out_of_order += unetmm_notify_imm(c) != h->handled ||
        wrong(at, h->handled, 0, c->len) != 0;
    __atomic_add_fetch(&h->handled, 1, __ATOMIC_RELEASE);
}

/* Of the rest (a channel's end, say) there is nothing to do. */
static void on_other(struct unetmm_ep *ep, const struct unetmm_completion *c,
                     void *arg)
{
    (void)ep;
    (void)c;
    (void)arg;
}

/* Waits until some of a write has landed, and moves where the rest lands. */
static void watch(struct host *h)
{
    while (!__atomic_load_n(&h->box[0], __ATOMIC_ACQUIRE)) {
    }
    check(unetmm_redirect(h->ctx, BOX, 0, h->spare, BOX_BYTES, &h->moved),
          UNETMM_CALL_EXPORT);
}

static uint64_t obey(struct host *h, const struct message *m)
{
    switch (m->order) {
    case EXPORT:
        check(unetmm_export(h->ctx, BOX, h->box, BOX_BYTES, UNETMM_RIGHT_ALL,
                            UNETMM_EXPORT_REDIRECT, 0), UNETMM_CALL_EXPORT);
        check(unetmm_export(h->ctx, LETTERS, h->letter, LETTER_BYTES,
                            UNETMM_RIGHT_WRITE, UNETMM_EXPORT_NOTIFY, 7),
              UNETMM_CALL_EXPORT);
        return 0;
    case CHECK_BOX:
        return wrong(h->box + m->offset, m->key, m->offset, m->length);
    case CHECK_SPARE:
        check(unetmm_redirect_end(h->ctx, BOX, 0), UNETMM_CALL_EXPORT);
        return wrong(h->spare + m->offset, m->key, m->offset, m->length);
    case REDIRECTED:
        return h->moved.copied;
    case BLOCK:
        return (uint64_t)check(unetmm_handlers_block(h->letters),
                               UNETMM_CALL_HANDLERS);
    case UNBLOCK:
        check(unetmm_handlers_unblock(h->letters), UNETMM_CALL_HANDLERS);
        while (__atomic_load_n(&h->handled, __ATOMIC_ACQUIRE) < m->length) {
        }
        return h->out_of_order;
    case HANDLED:
        return __atomic_load_n(&h->handled, __ATOMIC_ACQUIRE);
    case REVOKE:
        check(unetmm_unexport(h->ctx, BOX), UNETMM_CALL_EXPORT);
        fill(h->box, m->key, 0, BOX_BYTES);
        return 0;
    default:
        return 0;
    }
}

static void serve(struct host *h)
{
    struct unetmm_completion c;
    struct message m;

    do {
        c = next(h->orders, UNETMM_CQE_RECEIVED);
        if (!c.is_inline || c.len != sizeof(m)) {
            continue;
        }
        memcpy(&m, c.data, sizeof(m));
        if (m.order == WATCH) {
            memset(h->box, 0, BOX_BYTES);
            memset(h->spare, 0, BOX_BYTES);
        }
        m.answer = obey(h, &m);
        check(unetmm_send(h->orders, c.channel, &m, sizeof(m), 0,
                          UNETMM_UNSIGNALED), UNETMM_CALL_SEND);
        if (m.order == WATCH) {
            watch(h);
        }
    } while (m.order != LEAVE);
    /* Until the visitor's card has the last answer; the visitor may end first. */
    unetmm_shutdown(h->orders, c.channel, SECOND);
}

static void host(struct unetmm_ctx *ctx)
{
    static struct host h;

    h.ctx = ctx;
    h.box = memory(BOX_BYTES);
    h.spare = memory(BOX_BYTES);
    h.letter = memory(LETTER_BYTES);
    check(unetmm_ep_create(ctx, NULL, &h.orders), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &h.letters), UNETMM_CALL_EP_CREATE);
    check(unetmm_set_handler(h.letters, UNETMM_EVERY_CHANNEL, on_other, NULL),
          UNETMM_CALL_HANDLERS);
    check(unetmm_set_notify_handler(h.letters, 7, on_letter, &h),
          UNETMM_CALL_HANDLERS);
    check(unetmm_listen_ex(h.letters, SERVICE + 1, 1, NULL),
          UNETMM_CALL_LISTEN);
    check(unetmm_listen_ex(h.orders, SERVICE, 1, NULL), UNETMM_CALL_LISTEN);
    check(unetmm_accept(h.orders, NULL, -1), UNETMM_CALL_ACCEPT);
    check(unetmm_accept(h.letters, NULL, 60 * SECOND), UNETMM_CALL_ACCEPT);
    check(unetmm_handlers_start(h.letters, NULL, NULL), UNETMM_CALL_HANDLERS);
    serve(&h);
    check(unetmm_ep_destroy(h.letters), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(h.orders), UNETMM_CALL_ANY);
}

/* ---- The visitor --------------------------------------------------------- */

struct visit {
    struct unetmm_ep *ep, *letters;
    int orders, data, box, letter;          /* channels and imports */
    uint8_t *mine;
};

static uint64_t ask(struct visit *v, enum order order, uint32_t key,
                    uint64_t offset, uint64_t length)
{
    struct message m = { (uint32_t)order, key, offset, length, 0 };
    struct unetmm_completion c;

    check(unetmm_send(v->ep, v->orders, &m, sizeof(m), 0, UNETMM_UNSIGNALED),
          UNETMM_CALL_SEND);
    do {
        c = next(v->ep, UNETMM_CQE_RECEIVED);
        memcpy(&m, c.data, sizeof(m));
    } while (m.order != (uint32_t)order);
    return m.answer;
}

static void say_step(const char *step, uint64_t bytes, uint64_t bad)
{
    printf("{\"step\":\"%s\",\"bytes\":%" PRIu64 ",\"bad\":%" PRIu64 "}\n",
           step, bytes, bad);
    fflush(stdout);
}

static void meet(struct visit *v)
{
    uint64_t length;
    int early = unetmm_import(v->ep, v->orders, BOX, 0, 0, NULL);

    if (early != -ETIMEDOUT) {
        fail("an import came before its export");
    }
    ask(v, EXPORT, 0, 0, 0);
    v->box = check(unetmm_import(v->ep, v->orders, BOX, 0,
                                 60 * SECOND, &length),
                   UNETMM_CALL_IMPORT);
    v->letter = check(unetmm_import(v->letters, v->data, LETTERS, 0,
                                    60 * SECOND, NULL),
                      UNETMM_CALL_IMPORT);
    say_step("import", length, length != BOX_BYTES);
}

static void deliberate(struct visit *v)
{
    fill(v->mine, 11, 0, BOX_BYTES);
    check(unetmm_write_sync(v->ep, v->box, 0, v->mine, BOX_BYTES, 0, 0,
                            60 * SECOND),
          UNETMM_CALL_ONE_SIDED);
    say_step("deliberate", BOX_BYTES, ask(v, CHECK_BOX, 11, 0, BOX_BYTES));
    memset(v->mine, 0, BOX_BYTES);
    check(unetmm_read_sync(v->ep, v->box, 0, v->mine, BOX_BYTES,
                           60 * SECOND),
          UNETMM_CALL_ONE_SIDED);
    say_step("read", BOX_BYTES, wrong(v->mine, 11, 0, BOX_BYTES));
}

static void automatic(struct visit *v)
{
    void *window;

    check(unetmm_window_open(v->ep, v->box, 0, 4 * PAGE, NULL, &window),
          UNETMM_CALL_IMPORT);
    fill(v->mine, 12, 0, 4 * PAGE);
    unetmm_window_copy(window, v->mine, 4 * PAGE);
    check(unetmm_fence(v->ep, v->orders, 0, 0), UNETMM_CALL_ONE_SIDED);
    check_status(next(v->ep, UNETMM_CQE_SENT).status, "fence");
    say_step("automatic", 4 * PAGE, ask(v, CHECK_BOX, 12, 0, 4 * PAGE) +
             wrong(window, 12, 0, 4 * PAGE));
    check(unetmm_window_close(v->ep, window), UNETMM_CALL_ANY);
}

static void user_level_dma(struct visit *v)
{
    void *to, *from;
    int ret;

    check(unetmm_udma_to(v->ep, v->box, 0, 4 * PAGE, &to),
          UNETMM_CALL_IMPORT);
    check(unetmm_udma_from(v->ep, v->mine, 4 * PAGE, &from),
          UNETMM_CALL_ANY);
    fill(v->mine, 13, 0, 4 * PAGE);
    for (unsigned i = 0; i < 4; i++) {
        do {
            ret = unetmm_udma_start((char *)to + i * PAGE, (char *)from + i * PAGE,
                                    (uint32_t)PAGE);
        } while (ret == -EAGAIN);
        check(ret, UNETMM_CALL_ONE_SIDED);
    }
    check(unetmm_fence(v->ep, v->orders, 0, 0), UNETMM_CALL_ONE_SIDED);
    check_status(next(v->ep, UNETMM_CQE_SENT).status, "fence");
    say_step("udma", 4 * PAGE, ask(v, CHECK_BOX, 13, 0, 4 * PAGE));
    check(unetmm_window_close(v->ep, to), UNETMM_CALL_ANY);
    check(unetmm_window_close(v->ep, from), UNETMM_CALL_ANY);
}

static void atomics(struct visit *v)
{
    uint64_t bad = 0, first = 0;

    for (uint64_t i = 0; i < 100; i++) {
        struct unetmm_completion c;

        check(unetmm_fetch_add(v->ep, v->box, 64, 3, i, 0),
              UNETMM_CALL_ONE_SIDED);
        c = next(v->ep, UNETMM_CQE_SENT);
        check_status(c.status, "fetch and add");
        first = i ? first : unetmm_old_value(&c);
        bad += unetmm_old_value(&c) != first + 3 * i;
    }
    say_step("fetch-add", 100, bad);
}

/* Handlers that are blocked lose nothing: it comes afterwards, in its order. */
static void notifications(struct visit *v)
{
    uint8_t text[32];
    uint64_t meanwhile;

    ask(v, BLOCK, 0, 0, 0);
    for (unsigned i = 0; i < WAVES; i++) {
        fill(text, i, 0, sizeof(text));
        check(unetmm_write_sync(v->letters, v->letter,
                                i * sizeof(text), text, sizeof(text),
                                i, UNETMM_NOTIFY, 60 * SECOND),
              UNETMM_CALL_ONE_SIDED);
    }
    check(unetmm_fence(v->letters, v->data, 0, 0), UNETMM_CALL_ONE_SIDED);
    check_status(next(v->letters, UNETMM_CQE_SENT).status, "fence");
    meanwhile = ask(v, HANDLED, 0, 0, 0);
    say_step("notifications", WAVES, meanwhile +
             ask(v, UNBLOCK, 0, 0, WAVES));
}

/* The peer moves where it lands when the first bytes are there. */
static void redirection(struct visit *v)
{
    uint64_t bad;

    ask(v, WATCH, 0, 0, 0);
    fill(v->mine, 14, 0, BOX_BYTES);
    check(unetmm_write_sync(v->ep, v->box, 0, v->mine, BOX_BYTES, 0, 0,
                            60 * SECOND),
          UNETMM_CALL_ONE_SIDED);
    bad = ask(v, CHECK_SPARE, 14, 0, BOX_BYTES);
    printf("{\"step\":\"redirection\",\"bytes\":%zu,\"copied\":%" PRIu64
           ",\"bad\":%" PRIu64 "}\n", BOX_BYTES, ask(v, REDIRECTED, 0, 0, 0),
           bad);
}

/* Writes are under way when the export ends: none of them lands afterwards. */
static void revocation(struct visit *v)
{
    struct message m = { REVOKE, 15, 0, 0, 0 };
    struct unetmm_completion c;
    unsigned sent = 0, revoked = 0;

    check(unetmm_send(v->ep, v->orders, &m, sizeof(m), 0, UNETMM_UNSIGNALED),
          UNETMM_CALL_SEND);
    while (!revoked && sent++ < 10000) {
        check(unetmm_write(v->ep, v->box, 0, v->mine, BOX_BYTES / 4, 0, 9, 0),
              UNETMM_CALL_ONE_SIDED);
        c = next(v->ep, UNETMM_CQE_SENT);
        if (c.status && c.status != UNETMM_ST_REVOKED) {
            check_status(c.status, "write");
        }
        revoked = c.status == UNETMM_ST_REVOKED;
    }
    printf("{\"step\":\"revocation\",\"bytes\":%zu,\"writes\":%u,"
           "\"bad\":%" PRIu64 "}\n", BOX_BYTES / 4, sent,
           !revoked + ask(v, CHECK_BOX, 15, 0, BOX_BYTES));
}

static void visit(struct unetmm_ctx *ctx, const char *where)
{
    struct visit v = { .mine = memory(BOX_BYTES) };
    uint8_t mac[6];

    check(unetmm_parse_mac(where, mac), UNETMM_CALL_CONNECT);
    check(unetmm_ep_create(ctx, NULL, &v.ep), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &v.letters), UNETMM_CALL_EP_CREATE);
    v.orders = check(unetmm_connect_ex(v.ep, mac, SERVICE,
                                       60 * SECOND, NULL, NULL),
                     UNETMM_CALL_CONNECT);
    v.data = check(unetmm_connect_ex(v.letters, mac, SERVICE + 1,
                                     60 * SECOND, NULL, NULL),
                   UNETMM_CALL_CONNECT);
    meet(&v);
    deliberate(&v);
    automatic(&v);
    user_level_dma(&v);
    atomics(&v);
    notifications(&v);
    redirection(&v);
    revocation(&v);
    ask(&v, LEAVE, 0, 0, 0);
    check(unetmm_ep_destroy(v.letters), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(v.ep), UNETMM_CALL_ANY);
}

int main(int argc, char **argv)
{
    return tour_main(argc, argv, "vmmc-tour", UNETMM_SOURCE_TLB, visit, host);
}
