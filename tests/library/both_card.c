/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See both.h. */
#include "both.h"
#include "fake_card.h"

static struct fake_endpoint fake;
static uint64_t word;
static uint32_t one = 1;
static struct unetmm_event_counter counter = { &one, &word };
static uint64_t calls;          /* of the tables below, and with which values */

static void note(uint64_t value)
{
    calls = (calls ^ value) * 0x100000001b3ull;
}

/* ---- Operations on the endpoint ----------------------------------------- */

static int trap(struct unetmm_ep *ep)
{
    (void)ep;
    note(1);
    return calls % 5 ? 0 : -EINVAL;
}

static int settle(struct unetmm_ep *ep, uint32_t n)
{
    (void)ep;
    (void)n;
    note(2);
    return 0;
}

static int unstash(struct unetmm_ep *ep, struct unetmm_completion *c,
                   unsigned n)
{
    (void)n;
    note(3);
    ep->stashed = 0;
    unetmm_ep_set_direct(ep);
    memset(c, 0, sizeof(*c));
    c->user_data = calls;
    return 1;
}

static int queue(struct unetmm_ep *ep, struct unetmm_request_ *request,
                 const struct iovec *iov, unsigned n)
{
    unsigned i;

    (void)ep;
    note(request->user_data + request->offset + request->import + request->imm);
    note(request->flags | request->channel << 8 | request->opcode << 24);
    for (i = 0; i < n; i++) {
        note((uint64_t)iov[i].iov_len);
    }
    request->user_data += 1000;
    request->flags &= ~UNETMM_UNSIGNALED;
    return calls % 7 ? 0 : calls % 2 ? -EAGAIN : -ENOMEM;
}

static int post(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                uint64_t *cookie)
{
    (void)ep;
    note(n);
    note(iov->iov_len);
    *cookie += 2000;
    return calls % 7 ? 0 : calls % 2 ? -EAGAIN : -EDQUOT;
}

static int taken(struct unetmm_ep *ep, struct unetmm_completion *c)
{
    (void)ep;
    note(c->user_data);
    c->user_data -= 1000;
    return calls % 3 != 0;
}

static int pending(struct unetmm_ep *ep)
{
    (void)ep;
    note(4);
    return (int)(calls % 4);
}

static const struct unetmm_rare_ops_ rare = {
    .trap = trap,
    .kick = unetmm_kick_rare,
    .queue = unetmm_queue_rare,
    .post = unetmm_post_rare,
    .poll = unetmm_poll_rare,
    .note = unetmm_poll_note,
    .settle = settle,
    .unstash = unstash,
};
static const struct unetmm_source_ops_ source = { queue, post, taken, pending };

/* ---- For both.c ---------------------------------------------------------- */

struct unetmm_ep *both_open(enum both_kind kind)
{
    struct unetmm_import_record *imports;

    fake_endpoint_init(&fake, 4, 4, 4, 0xffffffe0u);
    imports = fake.private->imports;
    imports[0] = (struct unetmm_import_record) { 4096, 1, 7 };
    imports[1] = (struct unetmm_import_record) { 100, 1, UNETMM_RIGHT_READ };
    imports[2] = (struct unetmm_import_record) { UINT64_MAX, 2, 7 };
    fake.private->mtu[2] = 1500;
    fake.ep->rare = &rare;
    fake.ep->inline_max = 64;
    fake.ep->may_zero = kind != BOTH_SOURCE;
    fake.ep->trap = kind == BOTH_TRAP;
    fake.ep->source = kind == BOTH_SOURCE ? &source : NULL;
    unetmm_ep_set_direct(fake.ep);
    fake.ep->raw = fake.ep->slots = kind == BOTH_RAW;
    calls = 0;
    word = 0;
    return fake.ep;
}

void both_close(void)
{
    fake_endpoint_free(&fake);
}

struct unetmm_event_counter *both_counter(void)
{
    return &counter;
}

void both_count(uint64_t n)
{
    word += n;
}

/* Of queued addresses only the lengths: the addresses differ. */
static void take_one(void)
{
    static struct fake_message message;

    if (fake_card_take(&fake.card, &message)) {
        note(message.cookie + message.slots + message.nsegs);
        note(message.opcode | (uint64_t)message.len << 8);
        note(message.imm + message.import + message.offset + message.channel);
        if (message.is_inline) {
            note(message.data[0] + message.data[message.len ?
                                                message.len - 1 : 0]);
        }
        fake_card_sent(&fake.card, &message);
    }
}

void both_act(uint32_t number)
{
    static uint8_t data[300];

    data[0] = (uint8_t)number;
    switch (number % 8) {
    case 0:
    case 1:
    case 2:
        take_one();
        break;
    case 3:
        fake_card_deliver(&fake.card, 1, data, number / 8 % 300, number & 64);
        break;
    case 4:
        fake_card_return(&fake.card, UNETMM_ST_SKIPPED);
        break;
    case 5:
        fake_card_state(&fake.card, UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED |
                        (number & 64 ? UNETMM_EP_FQ_AWAITED : 0));
        break;
    case 6:
        fake_card_state(&fake.card, number % 128 == 6 ?
                        UNETMM_EP_ERROR : UNETMM_EP_RUNNING);
        break;
    default:
        fake.ep->stashed = number % 64 == 7;
        unetmm_ep_set_direct(fake.ep);
        break;
    }
}

void both_fork(bool child)
{
    fake.ep->alive = !child;
    one = !child;
}

uint64_t both_look(void)
{
    const struct unetmm_ep *ep = fake.ep;

    note(ep->sq_prod + ((uint64_t)ep->fq_prod << 32));
    note(ep->cq_cons + ((uint64_t)fake.card.index->user.sq_prod << 32));
    note(fake.card.index->user.fq_prod +
         ((uint64_t)fake.card.index->user.cq_cons << 32));
    note(fake_endpoint_rung(&fake) + 2 * ep->unrung + 4 * ep->unlooked);
    return calls;
}
