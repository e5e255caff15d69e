/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of operations, and which options go with which.
 */
#include "op.h"

static const struct op ops[NUM_OPS] = {
    { .number = OP_SEND, .one_way = true, .is_for_bw = true, .most = 1u << 30 },
    { .number = OP_WRITE, .one_way = true, .is_for_bw = true, .notifies = true,
      .rights = UNETMM_RIGHT_WRITE, .most = UNETMM_MAX_MESSAGE,
      .start = op_put },
    { .number = OP_AU, .one_way = true, .rights = UNETMM_RIGHT_WRITE,
      .most = 65536, .open = op_window_open, .start = op_store },
    { .number = OP_READ, .is_for_bw = true, .rights = UNETMM_RIGHT_READ,
      .most = UNETMM_MAX_MESSAGE, .start = op_get, .check = op_got },
    { .number = OP_ATOMIC, .rights = UNETMM_RIGHT_ATOMIC, .most = 8,
      .multiple = 8, .start = op_add, .check = op_added },
    { .number = OP_UDMA, .one_way = true, .rights = UNETMM_RIGHT_WRITE,
      .most = UNETMM_PAGE_BYTES, .multiple = 4, .open = op_proxy_open,
      .start = op_dma_start },
};

const struct op *op_named(const char *name)
{
    unsigned i;

    for (i = 0; i < NUM_OPS; i++) {
        if (!strcmp(op_name(i), name)) {
            return &ops[i];
        }
    }
    return NULL;
}

static void check_sizes(const struct options *opt, const struct op *op)
{
    unsigned i;

    for (i = 0; i < opt->nsizes; i++) {
        uint64_t size = opt->sizes[i];

        if (size > op->most || (op->multiple && size % op->multiple)) {
            usage_error("--op %s moves at most %llu bytes, a multiple of %u, "
                        "not %llu", op_name(op->number), (unsigned long long)op->most,
                        op->multiple ? op->multiple : 1,
                        (unsigned long long)size);
        }
    }
}

void op_check_options(struct options *opt)
{
    const struct op *op = opt->op;

    if (opt->is_bw && !op->is_for_bw) {
        usage_error("--op %s is for unetmm-pingpong", op_name(op->number));
    }
    if (opt->combine && op->number != OP_AU) {
        usage_error("--combine is for --op au");
    }
    if ((opt->policy == UNETMM_POLICY_REDIRECT ||
         opt->policy == UNETMM_POLICY_RNR) && !op->rights && !opt->reliable) {
        usage_error("--policy %s needs --reliable: a datagram is not sent "
                    "again", policy_name(opt->policy));
    }
    if ((opt->go_back_n || opt->rnr_us) && !op->rights && !opt->reliable) {
        usage_error("--go-back-n and --rnr-us need --reliable");
    }
    if (!op->rights) {
        return;
    }
    if (opt->source == UNETMM_SOURCE_KTLB) {
        usage_error("--op %s needs a reliable channel, which the source ktlb "
                    "does not have", op_name(op->number));
    }
    if (opt->bidir || opt->memory || opt->frame) {
        usage_error("--bidir, --memory and --frame are for --op send");
    }
    if (op->one_way && !op->notifies && !opt->spin_ns) {
        usage_error("--op %s has no notification that --block could wait for",
                    op_name(op->number));
    }
    check_sizes(opt, op);
    opt->reliable = true;
}
