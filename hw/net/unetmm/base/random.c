/*
 * unetmm: random numbers for injected misbehaviour and random replacement
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

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

const UnetmmModule unetmm_module_random = {
    .name = "random",
    .create = random_create,
};
