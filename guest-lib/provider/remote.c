/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of a peer, named by the key of its region.  An endpoint of the card
 * imports a region before it uses it and has few imports, so each EP keeps those
 * that it used last.  Under the domain's lock; an import waits for the peer's driver.
 */
#include "provider.h"

#include <stdlib.h>

#define IMPORTS         32
#define SHARED_IMPORTS  8       /* the EPs of an SRX share its port's */
#define IMPORT_NS       1000000000ll

struct import {
    uint64_t key;
    int number;                 /* -1: none */
    uint32_t used;
};

struct umfi_remote {
    uint32_t clock;
    unsigned count;
    struct import imports[IMPORTS];
};

static struct umfi_remote *remote_of(struct umfi_ep *ep)
{
    if (!ep->remote) {
        ep->remote = calloc(1, sizeof(*ep->remote));
        if (ep->remote) {
            ep->remote->count = ep->srx ? SHARED_IMPORTS : IMPORTS;
            for (unsigned i = 0; i < IMPORTS; i++) {
                ep->remote->imports[i].number = -1;
            }
        }
    }
    return ep->remote;
}

/* The number of the import of a key, which may have to be made. */
static int import_of(struct umfi_ep *ep, uint64_t key)
{
    struct umfi_remote *remote = remote_of(ep);
    struct import *oldest;
    int ret;

    if (!remote) {
        return -FI_ENOMEM;
    }
    oldest = remote->imports;
    for (unsigned i = 0; i < remote->count; i++) {
        struct import *import = &remote->imports[i];

        if (import->number >= 0 && import->key == key) {
            import->used = ++remote->clock;
            return import->number;
        }
        if (oldest->number >= 0 &&
            (import->number < 0 || import->used < oldest->used)) {
            oldest = import;
        }
    }
    if (oldest->number >= 0) {
        unetmm_unimport(ep->port->ep, (unsigned)oldest->number);
        oldest->number = -1;
    }
    ret = unetmm_import(ep->port->ep, ep->channel, key, 0, IMPORT_NS, NULL);
    if (ret >= 0) {
        *oldest = (struct import) { key, ret, ++remote->clock };
    } else {
        UMFI_WARN(FI_LOG_EP_DATA, "key %#llx: %s\n", (unsigned long long)key,
                  unetmm_strerror(ret, UNETMM_CALL_IMPORT));
    }
    return ret;
}

int umfi_remote_write(const struct umfi_transfer *t)
{
    int import = import_of(t->ep, t->key);

    return import < 0 ? import :
        unetmm_writev(t->ep->port->ep, (unsigned)import, t->address, t->iov, t->n, 0,
                      t->user_data, t->flags);
}

int umfi_remote_read(const struct umfi_transfer *t)
{
    int import = import_of(t->ep, t->key);

    return import < 0 ? import :
        unetmm_readv(t->ep->port->ep, (unsigned)import, t->address, t->iov, t->n,
                     t->user_data, t->flags);
}

void umfi_remote_forget(struct umfi_ep *ep)
{
    for (unsigned i = 0; ep->remote && i < ep->remote->count; i++) {
        if (ep->remote->imports[i].number >= 0) {
            unetmm_unimport(ep->port->ep, (unsigned)ep->remote->imports[i].number);
        }
    }
    free(ep->remote);
    ep->remote = NULL;
}
