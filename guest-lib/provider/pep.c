/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Passive endpoints: an address that peers connect to. */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

static int pep_bind(fid_t fid, fid_t to, uint64_t flags)
{
    struct umfi_pep *pep = umfi_of(fid, struct umfi_pep, fid.fid);

    if (to->fclass != FI_CLASS_EQ || flags || pep->eq ||
        umfi_of(to, struct umfi_eq, fid.fid)->fabric != pep->fabric) {
        return -FI_EINVAL;
    }
    pep->eq = umfi_of(to, struct umfi_eq, fid.fid);
    __atomic_add_fetch(&pep->eq->users, 1, __ATOMIC_RELAXED);
    return 0;
}

static int pep_close(fid_t fid)
{
    struct umfi_pep *pep = umfi_of(fid, struct umfi_pep, fid.fid);
    int ret = umfi_cm_unlisten(pep);

    if (ret) {
        return ret;
    }
    if (pep->eq) {
        umfi_eq_remove_events(pep->eq, fid);
        __atomic_sub_fetch(&pep->eq->users, 1, __ATOMIC_RELEASE);
    }
    __atomic_sub_fetch(&pep->fabric->users, 1, __ATOMIC_RELEASE);
    fi_freeinfo(pep->info);
    free(pep);
    return 0;
}

static struct fi_ops pep_fi_ops = {
    .size = sizeof(pep_fi_ops),
    .close = pep_close,
    .bind = pep_bind,
    .control = umfi_no_control,
    .ops_open = umfi_no_ops_open,
};

static int pep_setname(fid_t fid, void *addr, size_t len)
{
    struct umfi_pep *pep = umfi_of(fid, struct umfi_pep, fid.fid);
    const struct sockaddr_in *in = addr;
    int ret = -FI_EINVAL;

    sys_lock_take(&pep->fabric->lock);
    if (pep->port) {
        ret = -FI_EOPBADSTATE;
    } else if (len >= sizeof(*in) && in->sin_family == AF_INET) {
        pep->address.sin_port = in->sin_port;
        ret = 0;
    }
    sys_lock_drop(&pep->fabric->lock);
    return ret;
}

static int pep_getname(fid_t fid, void *addr, size_t *len)
{
    struct umfi_pep *pep = umfi_of(fid, struct umfi_pep, fid.fid);

    return umfi_copy_address(pep->fabric, &pep->address, addr, len);
}

static int pep_listen(struct fid_pep *fid)
{
    struct umfi_pep *pep = umfi_of(fid, struct umfi_pep, fid);

    if (!pep->eq) {
        return -FI_ENOEQ;
    }
    return umfi_cm_listen(pep);
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *data, size_t len)
{
    return umfi_cm_reject(umfi_of(fid, struct umfi_pep, fid), handle, data, len);
}

static struct fi_ops_cm pep_cm_ops = {
    .size = sizeof(pep_cm_ops),
    .setname = pep_setname,
    .getname = pep_getname,
    .getpeer = umfi_no_getpeer,
    .connect = umfi_no_connect,
    .listen = pep_listen,
    .accept = umfi_no_accept,
    .reject = pep_reject,
    .shutdown = umfi_no_shutdown,
    .join = umfi_no_join,
};

int umfi_pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **out,
                  void *context)
{
    struct umfi_fabric *fabric = umfi_of(fid, struct umfi_fabric, fid);
    struct umfi_pep *pep = calloc(1, sizeof(*pep));

    if (!pep) {
        return -FI_ENOMEM;
    }
    pep->info = umfi_info_of_listener(fabric, info);
    if (!pep->info) {
        free(pep);
        return -FI_ENOMEM;
    }
    pep->fabric = fabric;
    pep->address = (struct sockaddr_in) {
        .sin_family = AF_INET, .sin_addr = fabric->dev.address,
    };
    if (info->src_addr && info->src_addrlen >= sizeof(pep->address)) {
        pep->address.sin_port = ((const struct sockaddr_in *)info->src_addr)->sin_port;
    }
    pep->fid.fid.fclass = FI_CLASS_PEP;
    pep->fid.fid.context = context;
    pep->fid.fid.ops = &pep_fi_ops;
    pep->fid.ops = &umfi_ep_ops;
    pep->fid.cm = &pep_cm_ops;
    __atomic_add_fetch(&fabric->users, 1, __ATOMIC_RELAXED);
    *out = &pep->fid;
    return 0;
}
