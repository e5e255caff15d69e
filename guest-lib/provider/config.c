/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The variables of the provider.
 *
 * libfabric reads a variable of a provider from the environment as
 * FI_UNETMM_NAME, and `fi_info --env` lists it with its help.
 */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

/* init.c adds the functions. */
struct fi_provider umfi_provider = {
    .version = FI_VERSION(0, 1),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .name = UMFI_NAME,
};

/* The peer's program has ten times as long. */
#define CONNECT_LEAST_MS 100
#define MS_LIMIT    3600000

struct umfi_config umfi_config = {
    .source = UNETMM_SOURCE_ODP,
    .policy = UNETMM_POLICY_RNR,
    .connect_ms = 1000,
    .close_ms = 1000,
    .timeout_us = 20000,
};

/* A message for absent memory waits; where the program's error, it is as `drop` says. */
static const struct {
    const char *name;
    unsigned source, policy;
} sources[] = {
    { "odp", UNETMM_SOURCE_ODP, UNETMM_POLICY_RNR },
    { "shadow", UNETMM_SOURCE_SHADOW, UNETMM_POLICY_RNR },
    { "tlb", UNETMM_SOURCE_TLB, UNETMM_POLICY_RNR },
    { "utlb", UNETMM_SOURCE_UTLB, UNETMM_POLICY_DROP },
    { "pinned", UNETMM_SOURCE_PINNED, UNETMM_POLICY_DROP },
};

static void define_variables(void)
{
    fi_param_define(&umfi_provider, "device", FI_PARAM_STRING,
                    "The card's device (default: %s)", UNETMM_DEFAULT_DEVICE);
    fi_param_define(&umfi_provider, "source", FI_PARAM_STRING,
                    "Where the card gets translations from: odp (NIC page faults, "
                    "nothing is pinned), shadow (the driver's page table, nothing "
                    "is pinned), tlb (pinned while in the card's TLB), utlb "
                    "(pinned before use, in a pin-down cache) or pinned "
                    "(registered memory only) (default: odp)");
    fi_param_define(&umfi_provider, "whole", FI_PARAM_BOOL,
                    "Source odp: all memory regions have one key, with which each "
                    "connected peer can read and write all of the process's memory; "
                    "registering then costs nothing (default: false)");
    fi_param_define(&umfi_provider, "connect_ms", FI_PARAM_INT,
                    "Milliseconds that the peer's driver and address have to answer, "
                    "and connectors of a closed listener to take their connection; "
                    "ten times that is the time of the peer's program to "
                    "answer a request, or to take the answer (default: %d)",
                    umfi_config.connect_ms);
    fi_param_define(&umfi_provider, "close_ms", FI_PARAM_INT,
                    "Milliseconds that fi_close() of an endpoint waits until the "
                    "peer's card has all that was sent (default: %d)",
                    umfi_config.close_ms);
    fi_param_define(&umfi_provider, "timeout_us", FI_PARAM_INT,
                    "Microseconds until a card sends again when no answer comes "
                    "(default: %d)", umfi_config.timeout_us);
}

/* A variable that is out of range leaves the default. */
static void read_time(const char *name, int least, int most, int *time)
{
    int value;

    if (fi_param_get_int(&umfi_provider, name, &value)) {
        return;
    }
    if (value < least || value > most) {
        UMFI_WARN(FI_LOG_CORE, "%s is %d: set %d to %d; using %d\n", name, value,
                  least, most, *time);
        return;
    }
    *time = value;
}

static void read_source(void)
{
    char *name;

    if (fi_param_get_str(&umfi_provider, "source", &name)) {
        return;
    }
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (!strcmp(name, sources[i].name)) {
            umfi_config.source = sources[i].source;
            umfi_config.policy = sources[i].policy;
            return;
        }
    }
    UMFI_WARN(FI_LOG_CORE, "source \"%s\" is unknown: set odp, shadow, tlb, utlb "
              "or pinned; no endpoints until then\n", name);
    umfi_config.unknown_source = true;
}

static void read_whole(void)
{
    int whole = 0;

    fi_param_get_bool(&umfi_provider, "whole", &whole);
    umfi_config.whole = whole && umfi_config.source == UNETMM_SOURCE_ODP;
    if (whole && !umfi_config.whole) {
        UMFI_WARN(FI_LOG_CORE, "whole needs source odp: each region has a key of its "
                  "own\n");
    }
}

int umfi_config_read(void)
{
    char given[] = UNETMM_DEFAULT_DEVICE, *device = given;

    define_variables();
    fi_param_get_str(&umfi_provider, "device", &device);
    umfi_config.device = strdup(device);
    if (!umfi_config.device) {
        return -FI_ENOMEM;
    }
    read_source();
    read_whole();
    read_time("connect_ms", CONNECT_LEAST_MS, MS_LIMIT, &umfi_config.connect_ms);
    read_time("close_ms", 0, MS_LIMIT, &umfi_config.close_ms);
    read_time("timeout_us", 1, UNETMM_REL_MAX_TIMEOUT_US, &umfi_config.timeout_us);
    return 0;
}

void umfi_config_free(void)
{
    free(umfi_config.device);
    umfi_config.device = NULL;
}
