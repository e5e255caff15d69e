/*
 * unetmm: random numbers for injected misbehaviour and random replacement
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "base.h"

/* xorshift64*: the same numbers for the same seed, on every host. */
uint32_t unetmm_random(UnetmmCore *core)
{
    core->random ^= core->random >> 12;
    core->random ^= core->random << 25;
    core->random ^= core->random >> 27;
    return core->random * 0x2545f4914f6cdd1dull >> 32;
}

void unetmm_random_seed(UnetmmCore *core, uint64_t seed)
{
    core->knobs.seed = seed;
    core->random = seed * 0x9e3779b97f4a7c15ull | 1;
}

/* A delay: anything up to the limit; a limit of 0 means no delay. */
int64_t unetmm_some_time(UnetmmCore *core, uint32_t most_ns)
{
    return most_ns ? 1 + unetmm_random(core) % most_ns : 0;
}

/* Does something of this rate (parts per million) happen now? */
bool unetmm_chance(UnetmmCore *core, uint32_t ppm)
{
    return ppm && unetmm_random(core) % 1000000 < ppm;
}

static void random_create(UnetmmCore *core)
{
    unetmm_random_seed(core, 1);
}

/* ---- Saved state: injected misbehaviour --------------------------------- */

static void rate_save(UnetmmStream *st, uint32_t *rate, const char *name)
{
    *rate = unetmm_stream_choice(st, *rate, 1000001, name);
}

static void late_save(UnetmmStream *st, uint32_t *ns, const char *name)
{
    *ns = unetmm_stream_choice(st, *ns, UNETMM_MAX_LATE_NS + 1, name);
}

static void knobs_save(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmKnobs *k = &core->knobs;

    unetmm_stream_enter(st, "knobs", UNETMM_STREAM_ONE);
    rate_save(st, &k->loss, "x-loss");
    rate_save(st, &k->dup, "x-dup");
    rate_save(st, &k->reorder, "x-reorder");
    rate_save(st, &k->corrupt, "x-corrupt");
    rate_save(st, &k->force_miss, "x-force-miss");
    rate_save(st, &k->force_evict, "x-force-evict");
    rate_save(st, &k->delay, "x-delay");
    rate_save(st, &k->fault_delay, "x-fault-delay");
    rate_save(st, &k->fault_fail, "x-fault-fail");
    rate_save(st, &k->fault_refuse, "x-fault-refuse");
    rate_save(st, &k->lie, "x-lie");
    late_save(st, &k->delay_ns, "x-delay-ns");
    late_save(st, &k->fault_delay_ns, "x-fault-delay-ns");
    unetmm_stream_u64(st, &k->seed, "x-seed");
    unetmm_stream_u64(st, &core->random, "random");
    unetmm_stream_leave(st);
    if (!core->random) {
        unetmm_stream_refuse(st, "the random numbers have no state");
        core->random = 1;
    }
}

const UnetmmModule unetmm_module_random = {
    .name = "random",
    .create = random_create,
    .save = knobs_save,
};
