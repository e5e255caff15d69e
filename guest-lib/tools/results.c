/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See results.h. */
#include "results.h"
#include "op.h"

json_t *results_row(const struct session *s, const struct plan *plan,
                    const char *metric, uint64_t n, uint64_t lost, uint64_t bad)
{
    const struct options *opt = s->opt;
    json_t *row = row_new();

    row_text(row, "peer", "unetmm");
    row_text(row, "mode", mode_name(opt));
    row_text(row, "metric", metric);
    row_count(row, "bytes", plan->size);
    row_count(row, "frame", plan->frame);
    row_count(row, "frames", plan->nframes);
    row_count(row, "n", n);
    row_count(row, "lost", lost);
    row_text(row, "source", source_name(opt->source));
    row_text(row, "policy", policy_name(opt->policy));
    row_count(row, "memory", opt->memory);
    row_count(row, "buffers", s->buffers);
    row_flag(row, "verified", plan->verify);
    row_count(row, "bad", bad);
    row_count(row, "seed", plan->seed);
    row_text(row, "op", op_name(opt->op->number));
    row_flag(row, "reliable", opt->reliable);
    return row;
}
