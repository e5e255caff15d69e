/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source utlb inside the library: pinned pages (record.c), their use by descriptors
 * (descriptors.c) and exports (export.c), and the order in which they are given up
 * (policy.c).
 */
#ifndef UNETMM_UTLB_H
#define UNETMM_UTLB_H

#include "../base/base.h"

struct unetmm_utlb_ctx;
struct unetmm_utlb_ep;

/* `space` has the driver's answer.  0, or -errno. */
int unetmm_utlb_open(struct unetmm_ctx *ctx, const struct unetmm_space *space);
/* `child`: only memory of our own goes, nothing that is mapped. */
void unetmm_utlb_close(struct unetmm_ctx *ctx, bool child);

int unetmm_utlb_ep_open(struct unetmm_ep_private *ep);
/* The card uses no buffer of the endpoint any more. */
void unetmm_utlb_ep_close(struct unetmm_ep_private *ep);
/* The channel's number may be another channel's from now on. */
void unetmm_utlb_disconnect(struct unetmm_ep_private *ep, int channel);
/* The number is given back. */
void unetmm_utlb_unimport(struct unetmm_ep_private *ep, int import);

/* Exports: the driver's call, and the pages behind it.  0, or -errno. */
int unetmm_utlb_export(struct unetmm_ctx *ctx, struct unetmm_export *export);
int unetmm_utlb_unexport(struct unetmm_ctx *ctx, uint64_t id);
/* The same for a part of an export that moves, and for one that ends. */
int unetmm_utlb_redirect(struct unetmm_ctx *ctx,
                         struct unetmm_redirect *request);
int unetmm_utlb_redirect_end(struct unetmm_ctx *ctx,
                             struct unetmm_redirect_id *request);
/* The context goes: only memory of ours. */
void unetmm_utlb_forget_exports(struct unetmm_ctx *ctx);

/*
 * Has all pages of the pieces pinned, and keeps them so until they are let go.
 * -EAGAIN: pages of messages on their way have to be let go first; other errors:
 * these pages cannot be pinned.
 */
int unetmm_utlb_hold(struct unetmm_utlb_ctx *u, const struct iovec *iov,
                     unsigned n, bool write);
/* Can so many pages be pinned at all? */
bool unetmm_utlb_fits(const struct unetmm_utlb_ctx *u, uint64_t npages);
void unetmm_utlb_let_go(struct unetmm_utlb_ctx *u, const struct iovec *iov,
                        unsigned n);
/* Asks the driver for the held pages, whatever the record says. */
int unetmm_utlb_renew(struct unetmm_utlb_ctx *u, const struct iovec *iov,
                      unsigned n, bool write);
/* Adds `n` to the number of messages that hold pages until they complete. */
void unetmm_utlb_sending(struct unetmm_utlb_ctx *u, int n);

#endif /* UNETMM_UTLB_H */
