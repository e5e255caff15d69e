/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory regions: the flags of a registration, and the exports for peers. */
#include "../one_test.h"

#include "provider.h"

/* ofi_rxm registers the memory of its own buffers with it. */
#define OF_A_LAYER  (1ull << 60)

/* ---- The library and the rest of the provider -------------------------------- */

const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .source = UNETMM_SOURCE_PINNED };
struct fi_provider umfi_provider = { .name = UMFI_NAME };

static struct umfi_fabric fabric = { .next_export = 1 };
static struct umfi_domain domain = {
    .fid.fid.fclass = FI_CLASS_DOMAIN,
    .fabric = &fabric,
};
static unsigned pins, exports;
static int export_error, key_error;
static unsigned rights_given, flags_given;
static const void *exported;

int umfi_pin(struct umfi_fabric *of, const void *addr, size_t len)
{
    pins++;
    return 0;
}

void umfi_unpin(struct umfi_fabric *of, const void *addr, size_t len)
{
    pins--;
}

int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr, size_t length,
                  unsigned rights, unsigned flags, uint64_t user_data)
{
    assert_int_equal(user_data, 0);
    assert_int_equal(domain.lock.state, umfi_config.whole ? SYS_LOCK_HELD : SYS_LOCK_FREE);
    exports += !export_error;
    rights_given = rights;
    flags_given = flags;
    exported = addr;
    return export_error;
}

int unetmm_export_key(struct unetmm_ctx *ctx, uint64_t id, uint64_t *key, uint64_t *base)
{
    *key = 7 * id;
    *base = 0;
    return key_error;
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

TEST(no_flags, cmocka_unit_test)
{
    require_entered(FI_SEND | FI_RECV, 0, 0);
    require_entered(FI_SEND | FI_REMOTE_WRITE, 0, 1);
}

TEST(flag_of_a_layer, cmocka_unit_test)
{
    require_entered(FI_SEND | FI_RECV, OF_A_LAYER, 0);
    require_entered(FI_SEND | FI_REMOTE_READ, OF_A_LAYER, 1);
}

TEST(flags_that_are_unknown, cmocka_unit_test)
{
    struct fid_mr *mr;

    assert_int_equal(enter(FI_SEND, FI_RMA_EVENT, &mr), -FI_EINVAL);
    assert_int_equal(enter(FI_SEND, OF_A_LAYER | 1, &mr), -FI_EINVAL);
    assert_int_equal(pins, 0);
}

TEST(rights, cmocka_unit_test)
{
    static const struct {
        unsigned source;
        uint64_t access;
        unsigned rights, flags;
    } rows[] = {
        { UNETMM_SOURCE_PINNED, FI_REMOTE_READ, UNETMM_RIGHT_READ,
          UNETMM_EXPORT_KEYED | UNETMM_EXPORT_REGISTERED },
        { UNETMM_SOURCE_ODP, FI_REMOTE_WRITE, UNETMM_RIGHT_WRITE, UNETMM_EXPORT_KEYED },
        { UNETMM_SOURCE_TLB, FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ,
          UNETMM_RIGHT_READ | UNETMM_RIGHT_WRITE, UNETMM_EXPORT_KEYED },
    };
    struct fid_mr *mr;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        umfi_config.source = rows[i].source;
        fabric.next_export = i + 1;
        assert_int_equal(enter(rows[i].access, 0, &mr), 0);
        assert_int_equal(rights_given, rows[i].rights);
        assert_int_equal(flags_given, rows[i].flags);
        assert_ptr_equal(exported, memory);
        assert_int_equal(mr->key, 7 * (i + 1));
        assert_int_equal(domain.users, 1);
        assert_int_equal(fi_close(&mr->fid), 0);
        assert_int_equal(domain.users, 0);
    }
    umfi_config.source = UNETMM_SOURCE_PINNED;
    assert_int_equal(enter(FI_SEND, 0, &mr), 0);
    assert_true(mr->key == FI_KEY_NOTAVAIL);
    assert_int_equal(fi_close(&mr->fid), 0);
}

TEST(no_export, cmocka_unit_test)
{
    struct fid_mr *mr;

    for (int *error = &export_error; error; error = error == &key_error ? NULL : &key_error) {
        *error = -FI_ENOSPC;
        assert_int_equal(enter(FI_REMOTE_READ, 0, &mr), -FI_ENOSPC);
        *error = 0;
        assert_int_equal(pins, 0);
        assert_int_equal(exports, 0);
        assert_int_equal(domain.users, 0);
    }
}

/* All regions have the key of one export, which ends with the domain. */
TEST(one_key_for_all, cmocka_unit_test)
{
    struct fid_mr *mr[2];

    umfi_config.whole = true;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(enter(FI_REMOTE_READ, 0, &mr[i]), 0);
        assert_int_equal(exports, 1);
    }
    assert_int_equal(rights_given, UNETMM_RIGHT_READ | UNETMM_RIGHT_WRITE);
    assert_int_equal(flags_given, UNETMM_EXPORT_WHOLE);
    assert_null(exported);
    assert_int_equal(mr[0]->key, mr[1]->key);
    assert_int_equal(fi_close(&mr[0]->fid), 0);
    assert_int_equal(fi_close(&mr[1]->fid), 0);
    assert_int_equal(exports, 1);
    umfi_mr_end_whole(&domain);
    assert_int_equal(exports, 0);
    domain.whole = 0;
    umfi_mr_end_whole(&domain);
    assert_int_equal(exports, 0);
    umfi_config.whole = false;
}

TEST(not_one_range, cmocka_unit_test)
{
    const struct iovec iov[2] = { { memory, 1 }, { memory, 1 } };
    struct fid other = { .fclass = FI_CLASS_EP };
    struct fid_mr *mr;

    for (unsigned n = 0; n <= 2; n += 2) {
        assert_int_equal(umfi_mr_ops.regv(&domain.fid.fid, iov, n, FI_SEND, 0, 0, 0, &mr,
                                          NULL), -FI_EINVAL);
    }
    assert_int_equal(umfi_mr_ops.reg(&other, memory, 1, FI_SEND, 0, 0, 0, &mr, NULL),
                     -FI_EINVAL);
}
