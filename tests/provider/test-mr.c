/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory regions: the flags of a registration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "provider.h"

/* ofi_rxm registers the memory of its own buffers with it. */
#define OF_A_LAYER  (1ull << 60)

/* ---- The library and the rest of the provider -------------------------------- */

const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .source = UNETMM_SOURCE_PINNED };
struct fi_provider umfi_provider = { .name = UMFI_NAME };

static unsigned pins, exports;

int umfi_pin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    pins++;
    return 0;
}

void umfi_unpin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    pins--;
}

int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr, size_t length,
                  unsigned rights, unsigned flags, uint64_t user_data)
{
    exports++;
    return 0;
}

int unetmm_export_key(struct unetmm_ctx *ctx, uint64_t id, uint64_t *key, uint64_t *base)
{
    *key = 7;
    *base = 0;
    return 0;
}

int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id)
{
    exports--;
    return 0;
}

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    return "";
}

/* ---- Tests ------------------------------------------------------------------- */

static struct umfi_fabric fabric = { .next_export = 1 };
static struct umfi_domain domain = {
    .fid.fid.fclass = FI_CLASS_DOMAIN,
    .fabric = &fabric,
};
static char memory[100];

static int enter(uint64_t access, uint64_t flags, struct fid_mr **mr)
{
    return umfi_mr_ops.reg(&domain.fid.fid, memory, sizeof(memory), access, 0, 0, flags,
                           mr, NULL);
}

static void require_entered(uint64_t access, uint64_t flags, unsigned nexports)
{
    struct fid_mr *mr;

    assert_int_equal(enter(access, flags, &mr), 0);
    assert_int_equal(pins, 1);
    assert_int_equal(exports, nexports);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(pins, 0);
    assert_int_equal(exports, 0);
}

static void no_flags(void **state)
{
    require_entered(FI_SEND | FI_RECV, 0, 0);
    require_entered(FI_SEND | FI_REMOTE_WRITE, 0, 1);
}

static void flag_of_a_layer(void **state)
{
    require_entered(FI_SEND | FI_RECV, OF_A_LAYER, 0);
    require_entered(FI_SEND | FI_REMOTE_READ, OF_A_LAYER, 1);
}

static void flags_that_are_unknown(void **state)
{
    struct fid_mr *mr;

    assert_int_equal(enter(FI_SEND, FI_RMA_EVENT, &mr), -FI_EINVAL);
    assert_int_equal(enter(FI_SEND, OF_A_LAYER | 1, &mr), -FI_EINVAL);
    assert_int_equal(pins, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flags),
        cmocka_unit_test(flag_of_a_layer),
        cmocka_unit_test(flags_that_are_unknown),
    };

    return cmocka_run_group_tests_name("mr", tests, NULL, NULL);
}
