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

#define KNOB(name, member, most) \
    { UNETMM_FIELD_(UnetmmKnobs, member, name, sizeof(uint32_t), NUMBER, 0, \
                    most) }
static const UnetmmField knobs_fields[] = {
    KNOB("x-loss", loss, 1000000),
    KNOB("x-dup", dup, 1000000),
    KNOB("x-reorder", reorder, 1000000),
    KNOB("x-corrupt", corrupt, 1000000),
    KNOB("x-force-miss", force_miss, 1000000),
    KNOB("x-force-evict", force_evict, 1000000),
    KNOB("x-delay", delay, 1000000),
    KNOB("x-fault-delay", fault_delay, 1000000),
    KNOB("x-fault-fail", fault_fail, 1000000),
    KNOB("x-fault-refuse", fault_refuse, 1000000),
    KNOB("x-lie", lie, 1000000),
    KNOB("x-delay-ns", delay_ns, UNETMM_MAX_LATE_NS),
    KNOB("x-fault-delay-ns", fault_delay_ns, UNETMM_MAX_LATE_NS),
    UNETMM_FIELD_AS(UnetmmKnobs, seed, "x-seed"),
};

static void knobs_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_enter(st, "knobs", UNETMM_STREAM_ONE);
    UNETMM_STREAM_FIELDS(st, &core->knobs, knobs_fields);
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
