/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The provider's entry point, and its variables.
 *
 * libfabric reads a variable of a provider from the environment as
 * FI_UNETMM_NAME, and `fi_info --env` lists it with its help.
 */
#include "provider.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct umfi_config umfi_config = {
    .source = UNETMM_SOURCE_ODP,
    .connect_ms = 1000,
    .close_ms = 1000,
};

static const struct {
    const char *name;
    unsigned source;
} sources[] = {
    { "odp", UNETMM_SOURCE_ODP },
    { "shadow", UNETMM_SOURCE_SHADOW },
    { "tlb", UNETMM_SOURCE_TLB },
    { "pinned", UNETMM_SOURCE_PINNED },
};

static void define_variables(void)
{
    fi_param_define(&umfi_provider, "device", FI_PARAM_STRING,
                    "The card's device (default: %s)", UNETMM_DEFAULT_DEVICE);
    fi_param_define(&umfi_provider, "source", FI_PARAM_STRING,
                    "Where the card gets translations from: odp (NIC page faults, "
                    "nothing is pinned), shadow (the driver's page table, nothing "
                    "is pinned), tlb (pinned while in the card's TLB) or pinned "
                    "(registered memory only) (default: odp)");
    fi_param_define(&umfi_provider, "connect_ms", FI_PARAM_INT,
                    "Milliseconds that fi_connect() waits for the peer's driver "
                    "and address (default: %d)", umfi_config.connect_ms);
    fi_param_define(&umfi_provider, "close_ms", FI_PARAM_INT,
                    "Milliseconds that fi_close() of an endpoint waits until the "
                    "peer's card has all that was sent (default: %d)",
                    umfi_config.close_ms);
}

/* A variable that is not a number of milliseconds leaves the default. */
static void read_ms(const char *name, int *ms)
{
    int value;

    if (fi_param_get_int(&umfi_provider, name, &value)) {
        return;
    }
    if (value < 0 || value > 3600000) {
        UMFI_WARN(FI_LOG_CORE, "%s is %d: set 0 to 3600000; using %d\n", name,
                  value, *ms);
        return;
    }
    *ms = value;
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
            return;
        }
    }
    UMFI_WARN(FI_LOG_CORE, "source \"%s\" is unknown: set odp, shadow, tlb or "
              "pinned; using odp\n", name);
}

static void cleanup(void)
{
    free(umfi_config.device);
    umfi_config.device = NULL;
}

struct fi_provider umfi_provider = {
    .version = FI_VERSION(0, 1),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .name = UMFI_NAME,
    .getinfo = umfi_getinfo,
    .fabric = umfi_fabric_open,
    .cleanup = cleanup,
};

FI_EXT_INI
{
    char given[] = UNETMM_DEFAULT_DEVICE, *device = given;

    define_variables();
    fi_param_get_str(&umfi_provider, "device", &device);
    umfi_config.device = strdup(device);
    if (!umfi_config.device) {
        return NULL;
    }
    read_source();
    read_ms("connect_ms", &umfi_config.connect_ms);
    read_ms("close_ms", &umfi_config.close_ms);
    return &umfi_provider;
}
