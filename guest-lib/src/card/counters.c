/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counters: names come from the lists that the card and the driver count by.
 */
#include "card.h"

enum { SCOPE_C, SCOPE_E };

struct counter {
    const char *name;
    const char *help;
    int scope;                  /* SCOPE_E: kept per endpoint as well */
};

#define CARD_COUNTER(name, scope, help) { #name, help, SCOPE_##scope },
static const struct counter card_counters[] = {
    UNETMM_COUNTERS(CARD_COUNTER)
};

#define DRIVER_COUNTER(name, help) { #name, help, SCOPE_C },
static const struct counter driver_counters[] = {
    UNETMM_DRIVER_COUNTERS(DRIVER_COUNTER)
};

const char *unetmm_stats_name(unsigned scope, unsigned n, const char **help)
{
    const struct counter *counter;

    if (scope == UNETMM_SCOPE_DRIVER) {
        if (n >= UNETMM_NUM_DRIVER_COUNTERS) {
            return NULL;
        }
        counter = &driver_counters[n];
    } else {
        if (scope > UNETMM_SCOPE_DRIVER || n >= UNETMM_NUM_COUNTERS) {
            return NULL;
        }
        counter = &card_counters[n];
        if (scope == UNETMM_SCOPE_ENDPOINT && counter->scope != SCOPE_E) {
            return NULL;
        }
    }
    if (help) {
        *help = counter->help;
    }
    return counter->name;
}

int unetmm_stats_read(struct unetmm_ctx *ctx, unsigned scope, unsigned endpoint,
                      uint64_t *values, unsigned count)
{
    struct unetmm_counters request = {
        .size = sizeof(request),
        .scope = scope,
        .endpoint = endpoint,
        .count = count,
        .values = (uintptr_t)values,
    };
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_COUNTERS, &request);
    return ret < 0 ? ret : (int)request.count;
}
