/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rows of unetmm-pingpong --json and unetmm-bw --json: results.schema.json.
 */
#ifndef UNETMM_TOOLS_RESULTS_H
#define UNETMM_TOOLS_RESULTS_H

#include "row.h"
#include "session.h"

/* The members that the rows of both tools have, about `n` measured messages. */
json_t *results_row(const struct session *s, const struct plan *plan,
                    const char *metric, uint64_t n, uint64_t lost, uint64_t bad);

#endif /* UNETMM_TOOLS_RESULTS_H */
