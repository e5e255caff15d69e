/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of operations, and which options go with which.
 */
#include "op.h"

#define NUM_OPS     (sizeof(ops) / sizeof(ops[0]))

/* A START has this place in the table: append. */
static const struct op ops[] = {
    { .name = "send", .one_way = true, .is_for_bw = true, .most = 1u << 30 },
    { .name = "write", .one_way = true, .is_for_bw = true, .notifies = true,
      .rights = UNETMM_RIGHT_WRITE, .most = UNETMM_MAX_MESSAGE,
      .start = op_put },
    { .name = "au", .one_way = true, .rights = UNETMM_RIGHT_WRITE,
      .most = 65536, .open = op_window_open, .start = op_store },
    { .name = "read", .is_for_bw = true, .rights = UNETMM_RIGHT_READ,
      .most = UNETMM_MAX_MESSAGE, .start = op_get, .check = op_got },
    { .name = "atomic", .rights = UNETMM_RIGHT_ATOMIC, .most = 8,
      .multiple = 8, .start = op_add, .check = op_added },
    { .name = "udma", .one_way = true, .rights = UNETMM_RIGHT_WRITE,
      .most = UNETMM_PAGE_BYTES, .multiple = 4, .open = op_proxy_open,
      .start = op_dma_start },
};

const struct op *op_named(const char *name)
{
    size_t i;

    for (i = 0; i < NUM_OPS; i++) {
        if (!strcmp(ops[i].name, name)) {
            return &ops[i];
        }
    }
    return NULL;
}

unsigned op_number(const struct op *op)
{
    return (unsigned)(op - ops);
}

const char *op_name_of(unsigned number)
{
    return number < NUM_OPS ? ops[number].name : "of a newer version";
}

static void check_sizes(const struct options *opt, const struct op *op)
{
    unsigned i;

    for (i = 0; i < opt->nsizes; i++) {
        uint64_t size = opt->sizes[i];

        if (size > op->most || (op->multiple && size % op->multiple)) {
            usage_error("--op %s moves at most %llu bytes, a multiple of %u, "
                        "not %llu", op->name, (unsigned long long)op->most,
                        op->multiple ? op->multiple : 1,
                        (unsigned long long)size);
        }
    }
}

void op_check_options(struct options *opt)
{
    const struct op *op = opt->op;

    if (opt->is_bw && !op->is_for_bw) {
        usage_error("--op %s is for unetmm-pingpong", op->name);
    }
    if (opt->combine && strcmp(op->name, "au")) {
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
                    "does not have", op->name);
    }
    if (opt->bidir || opt->memory || opt->frame) {
        usage_error("--bidir, --memory and --frame are for --op send");
    }
    if (op->one_way && !op->notifies && !opt->spin_ns) {
        usage_error("--op %s has no notification that --block could wait for",
                    op->name);
    }
    check_sizes(opt, op);
    opt->reliable = true;
}
