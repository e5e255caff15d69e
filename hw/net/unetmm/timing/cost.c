/*
 * unetmm: costs of the card's steps
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_hw.h"
#include "timing.h"

static const struct {
    const char *name;
    size_t offset;
} cost_names[] = {
#define COST_NAME(name) { #name, offsetof(UnetmmCosts, name) },
    UNETMM_COSTS(COST_NAME)
#undef COST_NAME
};

static int64_t *cost_at(UnetmmCosts *costs, const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(cost_names); i++) {
        if (!strcmp(cost_names[i].name, name)) {
            return (int64_t *)((char *)costs + cost_names[i].offset);
        }
    }
    return NULL;
}

static char *cost_read(UnetmmCosts *costs, const char *word)
{
    g_auto(GStrv) parts = g_strsplit(word, "=", 2);
    int64_t *cost = parts[0] ? cost_at(costs, parts[0]) : NULL;
    char *end;
    int64_t value;

    if (!cost) {
        return g_strdup_printf("timing has no cost '%s'; docs/specs/unetmm.rst "
                               "lists them", parts[0] ?: "");
    }
    if (!parts[1] || !g_ascii_isdigit(parts[1][0])) {
        return g_strdup_printf("timing: write %s=N, with a number from 0 on",
                               parts[0]);
    }
    value = g_ascii_strtoll(parts[1], &end, 10);
    if (*end || value > UNETMM_COST_MOST) {
        return g_strdup_printf("timing: %s must be a number up to %lld",
                               parts[0], UNETMM_COST_MOST);
    }
    *cost = value;
    return NULL;
}

char *unetmm_costs_parse(UnetmmCosts *costs, const char *text)
{
    g_auto(GStrv) words = g_strsplit(text, ":", -1);
    char *why = NULL;

    memset(costs, 0, sizeof(*costs));
    for (unsigned i = 0; words[i] && !why; i++) {
        why = cost_read(costs, words[i]);
    }
    return why;
}

static int64_t per_byte(int64_t fs, uint32_t bytes)
{
    return (uint64_t)fs * bytes / 1000;
}

static int64_t hit_cost(const UnetmmCosts *c, bool *head, uint32_t write)
{
    bool was_head = *head;

    *head = false;
    return was_head ? c->hit_head : write ? c->hit_write : c->hit_read;
}

int64_t unetmm_step_cost(const UnetmmCosts *c, bool *head, UnetmmStep step,
                         uint32_t n)
{
    switch (step) {
    case UNETMM_STEP_FETCH:
        return c->fetch;
    case UNETMM_STEP_GATHER:
        return per_byte(c->gather_byte, n);
    case UNETMM_STEP_PLACE:
        return per_byte(c->place_byte, n);
    case UNETMM_STEP_PACKET:
        return c->packet;
    case UNETMM_STEP_ACK:
        return c->ack;
    case UNETMM_STEP_HEAD:
        *head = true;
        return 0;
    case UNETMM_STEP_HIT:
        return hit_cost(c, head, n);
    case UNETMM_STEP_MISS:
        *head = false;
        return c->miss;
    case UNETMM_STEP_ENTRY:
        return c->entry;
    case UNETMM_STEP_LOCK:
        return c->lock;
    case UNETMM_STEP_INSERT:
        return c->insert * n;
    case UNETMM_STEP_EVICT:
        return c->evict;
    case UNETMM_STEP_REPORT:
        return n == UNETMM_FAULT_MISS ? c->report : 0;
    case UNETMM_STEP_COMMAND:
        return n == UNETMM_CMD_FAULT_REPLY ? c->resume : 0;
    case UNETMM_STEP_COMPLETE:
        return c->complete;
    default:
        return 0;
    }
}
