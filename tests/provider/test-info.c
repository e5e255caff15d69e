/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fi_getinfo(): the hints that the provider's endpoints suit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "provider.h"

/* ---- The rest of the provider, with a card ------------------------------------ */

const uint32_t unetmm_inline_1_ = 1;
static char device[] = "/dev/unetmm0";
struct umfi_config umfi_config = { .device = device, .source = UNETMM_SOURCE_ODP };
struct fi_provider umfi_provider = { .name = UMFI_NAME };

int umfi_netdev_find(struct umfi_netdev *dev)
{
    *dev = (struct umfi_netdev) { .card = { .max_ring_log2 = 12 } };
    return 0;
}

bool umfi_netdev_reaches(const struct umfi_netdev *dev, struct in_addr to)
{
    return true;
}

/* ---- Tests ------------------------------------------------------------------- */

static int ask(const struct fi_info *hints, struct fi_info **info)
{
    return umfi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
}

/* Data move without the program, and connections do not. */
static void progress(void **state)
{
    struct fi_domain_attr domain = {
        .mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
    };
    const struct fi_info hints = { .mode = FI_RX_CQ_DATA, .domain_attr = &domain };
    struct fi_info *info;

    assert_int_equal(ask(&hints, &info), 0);
    assert_int_equal(info->domain_attr->control_progress, FI_PROGRESS_MANUAL);
    assert_int_equal(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
    fi_freeinfo(info);
    domain.data_progress = FI_PROGRESS_AUTO;
    domain.control_progress = FI_PROGRESS_MANUAL;
    assert_int_equal(ask(&hints, &info), 0);
    fi_freeinfo(info);
    domain.control_progress = FI_PROGRESS_AUTO;
    assert_int_equal(ask(&hints, &info), -FI_ENODATA);
}

/* Nothing runs with another source than the one that the user wanted. */
static void unknown_source(void **state)
{
    struct fi_info *info;

    assert_int_equal(ask(NULL, &info), 0);
    fi_freeinfo(info);
    umfi_config.unknown_source = true;
    assert_int_equal(ask(NULL, &info), -FI_ENODATA);
    umfi_config.unknown_source = false;
}

/* The limit is that of messages, but for a caller that asks for writes and reads. */
static void longest_message(void **state)
{
    struct fi_ep_attr ep = { .max_msg_size = UNETMM_MAX_MESSAGE };
    struct fi_info hints = { .mode = FI_RX_CQ_DATA, .ep_attr = &ep }, *info;

    assert_int_equal(ask(NULL, &info), 0);
    assert_int_equal(info->ep_attr->max_msg_size, UNETMM_MAX_MESSAGE);
    assert_int_equal(info->ep_attr->protocol_version, UMFI_PROTOCOL_VERSION);
    fi_freeinfo(info);
    /* As ofi_rxm of a program without hints: no wish, though RMA is in the result */
    assert_int_equal(ask(&hints, &info), 0);
    assert_true(info->caps & FI_RMA);
    assert_int_equal(info->ep_attr->max_msg_size, UNETMM_MAX_MESSAGE);
    fi_freeinfo(info);
    hints.caps = FI_MSG;
    assert_int_equal(ask(&hints, &info), 0);
    assert_int_equal(info->ep_attr->max_msg_size, UNETMM_MAX_MESSAGE);
    fi_freeinfo(info);
    ep.max_msg_size++;
    assert_int_equal(ask(&hints, &info), -FI_ENODATA);
    hints.caps = FI_MSG | FI_RMA;
    assert_int_equal(ask(&hints, &info), 0);
    assert_int_equal(info->ep_attr->max_msg_size, UMFI_MAX_RMA);
    fi_freeinfo(info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress),
        cmocka_unit_test(unknown_source),
        cmocka_unit_test(longest_message),
    };

    return cmocka_run_group_tests_name("info", tests, NULL, NULL);
}
