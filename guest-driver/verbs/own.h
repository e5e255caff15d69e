/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: verbs=own.
 */
#ifndef UNETMM_VERBS_OWN_H
#define UNETMM_VERBS_OWN_H

#include "verbs/verbs.h"

/* verbs/own.c */
extern const struct ib_device_ops unetmm_own_ops;
int unetmm_own_open(struct unetmm_ib_qp *qp);
void unetmm_own_close(struct unetmm_ib_qp *qp);
int unetmm_own_tell(const struct unetmm_ib_qp *qp, struct ib_udata *udata);
void unetmm_own_sizes(const struct unetmm_ib_qp *qp, struct unetmm_endpoint *a);
void unetmm_own_wake(const struct unetmm_ib_qp *qp);
void unetmm_own_woken(struct unetmm_ep *ep);

#endif /* UNETMM_VERBS_OWN_H */
