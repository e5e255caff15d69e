/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tour of NIC page faults between two hosts: memory that nobody registers, pins or
 * keeps resident; the card faults absent pages in, for local and remote accesses,
 * and a peer that comes meanwhile is asked to wait.  scripts/demo --tour npf runs it
 * in two guests and shows its output.
 *
 *   npf-tour                       exports, and follows the visitor's orders
 *   npf-tour 52:54:00:00:00:01     visits that host; a JSON object for each stop
 *
 * All bytes that move are checked, by the side that did not write them.
 */
#include "tour.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SERVICE     121
#define BOX         31          /* the host's export */
#define BOX_BYTES   ((size_t)2 << 20)

/* The visitor's orders to its host, which are answered. */
enum order { FILL, CHECK, OUT, FIGURE, LEAVE };
/* The figures that FIGURE asks the host for. */
enum figure { RNR_SENT, FAULTS, PAGE_INS, FIGURES };

struct message {
    uint32_t order, key;
    uint64_t answer;
};

/* The whole guest's, from swap; 0 if the kernel does not count them. */
static uint64_t page_ins(void)
{
    FILE *file = fopen("/proc/vmstat", "r");
    uint64_t n = 0;
    char line[100];

    while (file && fgets(line, sizeof(line), file) &&
           sscanf(line, "pswpin %" SCNu64, &n) != 1) {
    }
    if (file) {
        fclose(file);
    }
    return n;
}

static uint64_t figure(struct unetmm_ctx *ctx, enum figure which)
{
    switch (which) {
    case RNR_SENT:
        return card(ctx, UNETMM_C_rel_nacks_sent);
    case FAULTS:
        return driver(ctx, UNETMM_D_faults);
    default:
        return page_ins();
    }
}

/* ---- Both sides ---------------------------------------------------------- */

static struct unetmm_ep *endpoint(struct unetmm_ctx *ctx)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_ep *ep;

    attr.policy = UNETMM_POLICY_RNR;
    check(unetmm_ep_create(ctx, &attr, &ep), UNETMM_CALL_EP_CREATE);
    return ep;
}

static uint64_t obey(struct unetmm_ctx *ctx, uint8_t *box,
                     const struct message *m)
{
    switch (m->order) {
    case FILL:
        fill(box, m->key, 0, BOX_BYTES);
        return 0;
    case CHECK:
        return wrong(box, m->key, 0, BOX_BYTES);
    case OUT:
        return page_out(box, BOX_BYTES);
    case FIGURE:
        return figure(ctx, m->key);
    default:
        return 0;
    }
}

static void host(struct unetmm_ctx *ctx)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ep *ep = endpoint(ctx);
    uint8_t *box = memory(BOX_BYTES);
    struct unetmm_completion c;
    struct message m;

    check(unetmm_export(ctx, BOX, box, BOX_BYTES, UNETMM_RIGHT_ALL, 0, 0),
          UNETMM_CALL_EXPORT);
    check(unetmm_listen_ex(ep, SERVICE, 2, &attr), UNETMM_CALL_LISTEN);
    for (unsigned i = 0; i < 2; i++) {
        check(unetmm_accept(ep, NULL, -1), UNETMM_CALL_ACCEPT);
    }
    do {
        c = next(ep, UNETMM_CQE_RECEIVED);
        memcpy(&m, c.data, sizeof(m));
        m.answer = obey(ctx, box, &m);
        check(unetmm_send(ep, c.channel, &m, sizeof(m), 0, UNETMM_UNSIGNALED),
              UNETMM_CALL_SEND);
    } while (m.order != LEAVE);
    /* Until the visitor's card has the last answer; the visitor may end first. */
    unetmm_shutdown(ep, c.channel, SECOND);
    check(unetmm_unexport(ctx, BOX), UNETMM_CALL_EXPORT);
    check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
}

/* ---- The visitor --------------------------------------------------------- */

struct visit {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    int channel, box;
    int rewinding;              /* the box, by a channel that rewinds */
    uint8_t *mine;
};

/* The costs of one stop, on both sides. */
struct costs {
    uint64_t theirs[FIGURES], ours[FIGURES];
    uint64_t dropped;           /* answers that had no place, or were behind one */
};

static uint64_t ask(struct visit *v, enum order order, uint32_t key)
{
    struct message m = { (uint32_t)order, key, 0 };
    struct unetmm_completion c;

    check(unetmm_send(v->ep, v->channel, &m, sizeof(m), 0, UNETMM_UNSIGNALED),
          UNETMM_CALL_SEND);
    c = next(v->ep, UNETMM_CQE_RECEIVED);
    memcpy(&m, c.data, sizeof(m));
    return m.answer;
}

static void costs_now(struct visit *v, struct costs *c)
{
    for (enum figure i = 0; i < FIGURES; i++) {
        c->theirs[i] = ask(v, FIGURE, i);
        c->ours[i] = figure(v->ctx, i);
    }
    c->dropped = card(v->ctx, UNETMM_C_drop_rel_unplaced) +
        card(v->ctx, UNETMM_C_drop_rel_rewind);
}

struct stop {
    const char *name;
    bool writes;                /* else reads */
    bool theirs_out, ours_out;  /* paged out just before */
    bool rewind;
};

static void stop(struct visit *v, const struct stop *s, uint32_t key)
{
    int box = s->rewind ? v->rewinding : v->box;
    struct costs was, is;
    uint64_t out = 0, bad;
    double us;

    if (s->writes) {
        fill(v->mine, key, 0, BOX_BYTES);
    } else {
        ask(v, FILL, key);
    }
    out += s->theirs_out ? ask(v, OUT, 0) : 0;
    out += s->ours_out ? page_out(v->mine, BOX_BYTES) : 0;
    costs_now(v, &was);
    us = now_us();
    if (s->writes) {
        check(unetmm_write_sync(v->ep, box, 0, v->mine, BOX_BYTES, 0, 0,
                                60 * SECOND),
              UNETMM_CALL_ONE_SIDED);
    } else {
        check(unetmm_read_sync(v->ep, box, 0, v->mine, BOX_BYTES,
                               60 * SECOND),
              UNETMM_CALL_ONE_SIDED);
    }
    us = now_us() - us;
    costs_now(v, &is);
    bad = s->writes ? ask(v, CHECK, key) : wrong(v->mine, key, 0, BOX_BYTES);
    printf("{\"step\":\"%s\",\"bytes\":%zu,\"out\":%" PRIu64 ",\"us\":%.1f,"
           "\"rnr\":%" PRIu64 ",\"faults\":%" PRIu64 ",\"page_ins\":%" PRIu64
           ",\"dropped\":%" PRIu64 ",\"bad\":%" PRIu64 "}\n", s->name,
           BOX_BYTES, out, us, is.theirs[RNR_SENT] - was.theirs[RNR_SENT],
           is.theirs[FAULTS] - was.theirs[FAULTS] + is.ours[FAULTS] -
           was.ours[FAULTS], is.theirs[PAGE_INS] - was.theirs[PAGE_INS] +
           is.ours[PAGE_INS] - was.ours[PAGE_INS], is.dropped - was.dropped,
           bad);
    fflush(stdout);
}

static int join(struct visit *v, const uint8_t mac[6], unsigned more,
                int *box)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    int channel;

    attr.flags |= more;
    channel = check(unetmm_connect_ex(v->ep, mac, SERVICE,
                                      60 * SECOND, &attr, NULL),
                    UNETMM_CALL_CONNECT);
    *box = check(unetmm_import(v->ep, channel, BOX, 0, 10 * SECOND,
                               NULL), UNETMM_CALL_IMPORT);
    return channel;
}

static void visit(struct unetmm_ctx *ctx, const char *where)
{
    static const struct stop stops[] = {
        { "first-write", true, false, false, false },
        { "write", true, false, false, false },
        { "write-out-there", true, true, false, false },
        { "write-out-here", true, false, true, false },
        { "read", false, false, false, false },
        { "read-out-there", false, true, false, false },
        { "read-out-here", false, false, true, false },
        { "read-out-here-rewind", false, false, true, true },
    };
    struct visit v = { .ctx = ctx, .ep = endpoint(ctx), .mine = memory(BOX_BYTES) };
    uint8_t mac[6];

    check(unetmm_parse_mac(where, mac), UNETMM_CALL_CONNECT);
    v.channel = join(&v, mac, 0, &v.box);
    join(&v, mac, UNETMM_GO_BACK_N, &v.rewinding);
    for (uint32_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        stop(&v, &stops[i], 41 + i);
    }
    ask(&v, LEAVE, 0);
    check(unetmm_ep_destroy(v.ep), UNETMM_CALL_ANY);
}

int main(int argc, char **argv)
{
    return tour_main(argc, argv, "npf-tour", UNETMM_SOURCE_ODP, visit, host);
}
