/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The variables of the provider: their defaults, their limits, and their dependences. */
#include "../one_test.h"
#include <stdlib.h>
#include <string.h>

#include "provider.h"

const uint32_t unetmm_inline_1_ = 1;

/* ---- libfabric, with an environment of one or two variables -------------------- */

static const char *const *environment;      /* NAME, VALUE, ... NULL */
static unsigned defined;

static const char *value_of(const char *name)
{
    for (const char *const *i = environment; *i; i += 2) {
        if (!strcmp(*i, name)) {
            return i[1];
        }
    }
    return NULL;
}

int __wrap_fi_param_define(const struct fi_provider *provider, const char *name,
                           enum fi_param_type type, const char *help, ...);
int __wrap_fi_param_get(struct fi_provider *provider, const char *name, void *value);

int __wrap_fi_param_define(const struct fi_provider *provider, const char *name,
                           enum fi_param_type type, const char *help, ...)
{
    assert_ptr_equal(provider, &umfi_provider);
    defined++;
    return 0;
}

int __wrap_fi_param_get(struct fi_provider *provider, const char *name, void *value)
{
    const char *found = value_of(name);

    assert_int_equal(defined, 6);
    if (!found) {
        return -FI_ENODATA;
    }
    if (!strcmp(name, "device") || !strcmp(name, "source")) {
        *(const char **)value = found;
    } else {
        *(int *)value = atoi(found);
    }
    return 0;
}

int umfi_getinfo(uint32_t version, const char *node, const char *service,
                 uint64_t flags, const struct fi_info *hints, struct fi_info **info)
{
    fail();
    return 0;
}

int umfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
                     void *context)
{
    fail();
    return 0;
}

/* ---- Tests --------------------------------------------------------------------- */

static struct umfi_config before;

static void __attribute__((constructor)) keep_defaults(void)
{
    before = umfi_config;
}

static void configure(const char *const *variables)
{
    umfi_config = before;
    environment = variables;
    defined = 0;
    assert_ptr_equal(fi_prov_ini(), &umfi_provider);
}

static void end(void)
{
    umfi_provider.cleanup();
    assert_null(umfi_config.device);
}

TEST(defaults, cmocka_unit_test)
{
    configure((const char *const[]) { NULL });
    assert_string_equal(umfi_config.device, "/dev/unetmm0");
    assert_int_equal(umfi_config.source, UNETMM_SOURCE_ODP);
    assert_int_equal(umfi_config.policy, UNETMM_POLICY_RNR);
    assert_false(umfi_config.whole);
    assert_false(umfi_config.unknown_source);
    assert_int_equal(umfi_config.connect_ms, 1000);
    assert_int_equal(umfi_config.close_ms, 1000);
    assert_int_equal(umfi_config.timeout_us, 20000);
    end();
    configure((const char *const[]) { "device", "/dev/other", NULL });
    assert_string_equal(umfi_config.device, "/dev/other");
    end();
}

TEST(times, cmocka_unit_test)
{
    static const struct {
        const char *name, *value;
        const int *at;
        int result;
    } rows[] = {
        { "connect_ms", "100", &umfi_config.connect_ms, 100 },
        { "connect_ms", "99", &umfi_config.connect_ms, 1000 },
        { "connect_ms", "3600000", &umfi_config.connect_ms, 3600000 },
        { "connect_ms", "3600001", &umfi_config.connect_ms, 1000 },
        { "close_ms", "0", &umfi_config.close_ms, 0 },
        { "close_ms", "-1", &umfi_config.close_ms, 1000 },
        { "close_ms", "3600000", &umfi_config.close_ms, 3600000 },
        { "close_ms", "3600001", &umfi_config.close_ms, 1000 },
        { "timeout_us", "1", &umfi_config.timeout_us, 1 },
        { "timeout_us", "0", &umfi_config.timeout_us, 20000 },
        { "timeout_us", "1000000", &umfi_config.timeout_us, 1000000 },
        { "timeout_us", "1000001", &umfi_config.timeout_us, 20000 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        configure((const char *const[]) { rows[i].name, rows[i].value, NULL });
        assert_int_equal(*rows[i].at, rows[i].result);
        end();
    }
}

/* One key for everything is of source odp alone; an unknown source is none. */
TEST(sources, cmocka_unit_test)
{
    static const struct {
        const char *name;
        unsigned source, policy;
        bool whole, unknown;
    } rows[] = {
        { "odp", UNETMM_SOURCE_ODP, UNETMM_POLICY_RNR, true, false },
        { "shadow", UNETMM_SOURCE_SHADOW, UNETMM_POLICY_RNR, false, false },
        { "tlb", UNETMM_SOURCE_TLB, UNETMM_POLICY_RNR, false, false },
        { "utlb", UNETMM_SOURCE_UTLB, UNETMM_POLICY_DROP, false, false },
        { "pinned", UNETMM_SOURCE_PINNED, UNETMM_POLICY_DROP, false, false },
        { "nfp", UNETMM_SOURCE_ODP, UNETMM_POLICY_RNR, true, true },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int whole = 0; whole < 2; whole++) {
            configure((const char *const[]) {
                "source", rows[i].name, "whole", whole ? "1" : "0", NULL });
            assert_int_equal(umfi_config.source, rows[i].source);
            assert_int_equal(umfi_config.policy, rows[i].policy);
            assert_int_equal(umfi_config.whole, whole && rows[i].whole);
            assert_int_equal(umfi_config.unknown_source, rows[i].unknown);
            end();
        }
    }
}
