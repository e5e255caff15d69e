/*
 * unetmm: policies: the verdict on a message whose memory is absent
 *
 * One file fills one UnetmmPolicyOps; abi/unetmm_lists.h lists them, and says
 * where each is allowed.  The policies redirect and backup stand in aside/,
 * beside the system buffer and the backup ring.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_POLICY_H
#define UNETMM_POLICY_H

#include "../base/base.h"

typedef struct UnetmmPolicyOps UnetmmPolicyOps;

typedef enum UnetmmVerdict {
    UNETMM_VERDICT_DROP,        /* the message or packet; the buffer stays */
    UNETMM_VERDICT_NEXT,        /* return the buffer unfilled, try the next */
    UNETMM_VERDICT_REFUSE,      /* the sender is to come again: RNR NACK */
    UNETMM_VERDICT_ASIDE,       /* to the system buffer */
    UNETMM_VERDICT_STORE,       /* to the backup ring */
} UnetmmVerdict;

/*
 * On a reliable channel, if a page of a packet is absent:
 *
 *   policy     SEND, its buffer                WRITE, its region
 *   drop, rnr  ACK_NOT_READY                   ACK_NOT_READY
 *   skip       it goes back, the next is tried ACK_NOT_READY
 *   redirect   a slot of the system buffer; ACK_NOT_READY if none can take it
 *   backup     is not allowed
 *
 * In each case reliable/op/send.c and reliable/op/write.c ask the driver for
 * the page.
 * With a fixed source nobody is asked: the WRITE is rejected (WHY_MEMORY).
 */

/*
 * Where, and which verdicts can be followed there.  A packet of a reliable
 * channel's message that finds no head is refused, or tries the next.
 */
typedef enum UnetmmAbsentAt {
    UNETMM_ABSENT_MESSAGE,      /* a datagram, at a head: DROP, NEXT */
    UNETMM_ABSENT_SEND,         /* a packet of a message: REFUSE, ASIDE */
    UNETMM_ABSENT_WRITE,        /* a packet of a WRITE: REFUSE, ASIDE */
    UNETMM_ABSENT_SLOT,         /* a message, at a slot: DROP, STORE */
} UnetmmAbsentAt;

typedef struct UnetmmAbsent {
    const UnetmmEp *ep;
    UnetmmAbsentAt at;
    bool next;                  /* at a head: it may be another buffer's */
    uint32_t len;               /* of the message; of the packet */
} UnetmmAbsent;

/* A policy.  One file fills one. */
struct UnetmmPolicyOps {
    const char *name;
    /*
     * The verdict on a message or packet whose memory is absent.  A verdict
     * that cannot be followed is taken as DROP; on a reliable channel, as
     * REFUSE.
     */
    UnetmmVerdict (*absent)(UnetmmCore *core, const UnetmmAbsent *ctx);
    /*
     * Has the command the resources that an endpoint or a reliable channel
     * needs with this policy?  NULL: it needs neither bits nor credits.
     */
    bool (*ep_ok)(const UnetmmCore *core, const struct unetmm_cmd_ep *cmd);
    bool (*channel_ok)(const UnetmmCore *core,
                       const struct unetmm_cmd_channel *cmd);
};

/*
 * Where a policy is allowed.  FIXED: sources where absence is an error of the
 * program; BROUGHT: sources of which the driver brings absent pages.
 */
#define UNETMM_WITH_FIXED       (1u << 0)
#define UNETMM_WITH_BROUGHT     (1u << 1)
#define UNETMM_WITH_RAW         (1u << 2)   /* raw endpoints */
#define UNETMM_WITH_DATAGRAM    (1u << 3)   /* datagram channels */
#define UNETMM_WITH_RELIABLE    (1u << 4)   /* reliable channels */
#define UNETMM_WITH_UD          (1u << 5)   /* UD channels */

/* A policy, and where it is allowed. */
struct UnetmmPolicyRow {
    const UnetmmPolicyOps *ops;
    uint32_t with;
};

/* policy/policy.c */
/* NULL: there is none with this number. */
const UnetmmPolicyOps *unetmm_policy_by_id(const UnetmmCore *core,
                                           unsigned id);
/* May it be with all of these (UNETMM_WITH_*)? */
bool unetmm_policy_allows(const UnetmmCore *core,
                          const UnetmmPolicyOps *policy, uint32_t with);

#endif /* UNETMM_POLICY_H */
