/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The lines of a recording.  Each has six words, the first one of which is the time:
 *
 *   NS endpoint NUMBER MAC 0 -           the endpoint, and the address of its card
 *   NS OPERATION NUMBER PEER BYTES PIECES
 *
 * PEER is the address of the peer's card, or "-" (a buffer, a frame); PIECES are
 * 0xADDRESS+BYTES, separated by commas, or "-" if the card reads no memory of the program.
 */
#include "recording.h"
#include "text.h"

/* ---- A source that has nothing to do --------------------------------------- */

static int pass_queue(struct unetmm_ep *ep, struct unetmm_request_ *request,
                      const struct iovec *iov, unsigned n)
{
    (void)ep;
    (void)request;
    (void)iov;
    (void)n;
    return 0;
}

static int pass_post(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                     uint64_t *user_data)
{
    (void)ep;
    (void)iov;
    (void)n;
    (void)user_data;
    return 0;
}

static int pass_taken(struct unetmm_ep *ep, struct unetmm_completion *c)
{
    (void)ep;
    (void)c;
    return 1;
}

static int pass_pending(struct unetmm_ep *ep)
{
    (void)ep;
    return 0;
}

static const struct unetmm_source_ops_ pass_ops = {
    .queue = pass_queue,
    .post = pass_post,
    .taken = pass_taken,
    .pending = pass_pending,
};

/* ---- Lines ----------------------------------------------------------------- */

static void put_mac(struct text *t, const uint8_t mac[6])
{
    unsigned i;

    for (i = 0; i < 6; i++) {
        if (i) {
            text_char(t, ':');
        }
        text_number(t, mac[i], 16, 2);
    }
}

/* The words before PEER */
static void begin_line(struct text *t, const struct unetmm_ep_private *ep,
                       const char *operation)
{
    t->used = 0;
    text_number(t, unetmm_recording_now(), 10, 1);
    text_char(t, ' ');
    text_string(t, operation);
    text_char(t, ' ');
    text_number(t, ep->recorded - 1, 10, 1);
    text_char(t, ' ');
}

/* The words behind PEER */
static void end_line(struct text *t, uint64_t bytes, const struct iovec *iov, unsigned n)
{
    bool any = false;
    unsigned i;

    text_char(t, ' ');
    text_number(t, bytes, 10, 1);
    text_char(t, ' ');
    for (i = 0; i < n; i++) {
        if (iov[i].iov_len) {
            text_string(t, any ? ",0x" : "0x");
            text_number(t, (uintptr_t)iov[i].iov_base, 16, 1);
            text_char(t, '+');
            text_number(t, iov[i].iov_len, 10, 1);
            any = true;
        }
    }
    text_string(t, any ? "\n" : "-\n");
    unetmm_recording_add(t->bytes, t->used);
}

/* NULL: it moves no data. */
static const char *name_of(uint8_t opcode)
{
    switch (opcode) {
    case UNETMM_OP_SEND:
        return "send";
    case UNETMM_OP_WRITE:
        return "write";
    case UNETMM_OP_READ:
        return "read";
    case UNETMM_OP_FETCH_ADD:
        return "fetch-add";
    case UNETMM_OP_CMP_SWAP:
        return "cmp-swap";
    case UNETMM_OP_FRAME:
        return "frame";
    default:
        return NULL;
    }
}

void unetmm_recording_sends(const struct unetmm_ep_private *ep,
                            const struct unetmm_request_ *r, const struct iovec *iov,
                            unsigned n, size_t len, bool is_inline)
{
    const char *name = name_of(r->opcode);
    bool atomic = r->opcode == UNETMM_OP_FETCH_ADD || r->opcode == UNETMM_OP_CMP_SWAP;
    struct text t;

    if (!ep->recorded || !name) {
        return;
    }
    begin_line(&t, ep, name);
    if (r->opcode == UNETMM_OP_FRAME) {
        text_char(&t, '-');
    } else {
        put_mac(&t, ep->records[r->channel].mac);
    }
    end_line(&t, atomic ? sizeof(uint64_t) : len, iov, is_inline ? 0 : n);
}

void unetmm_recording_offers(const struct unetmm_ep_private *ep, const struct iovec *iov,
                             unsigned n)
{
    uint64_t bytes = 0;
    struct text t;
    unsigned i;

    if (!ep->recorded) {
        return;
    }
    for (i = 0; i < n; i++) {
        bytes += iov[i].iov_len;
    }
    begin_line(&t, ep, "buffer");
    text_char(&t, '-');
    end_line(&t, bytes, iov, n);
}

/* ---- Endpoints ------------------------------------------------------------- */

void unetmm_recording_open(struct unetmm_ep_private *ep)
{
    struct text t;

    ep->recorded = unetmm_recording_begin();
    if (!ep->recorded) {
        return;
    }
    if (!ep->pub.source) {
        ep->pub.source = &pass_ops;
        unetmm_ep_set_direct(&ep->pub);
    }
    begin_line(&t, ep, "endpoint");
    put_mac(&t, ep->ctx->info.mac);
    end_line(&t, 0, NULL, 0);
}

void unetmm_recording_close(struct unetmm_ep_private *ep)
{
    if (ep->recorded) {
        unetmm_recording_flush();
        ep->recorded = 0;
    }
}
