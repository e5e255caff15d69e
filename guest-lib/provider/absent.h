/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The entries of libfabric's tables that the provider has not: they return -FI_ENOSYS.
 * umfi_no_bind() is the entry for a table's `bind`.
 */
#ifndef UMFI_ABSENT_H
#define UMFI_ABSENT_H

#include "base.h"

#define UMFI_ABSENT(X) \
    /* Of any object */ \
    X(int, bind, fid_t fid, fid_t to, uint64_t flags) \
    X(int, control, fid_t fid, int command, void *arg) \
    X(int, ops_open, fid_t fid, const char *name, uint64_t flags, void **ops, void *context) \
    /* Fabric: wait sets */ \
    X(int, wait_open, struct fid_fabric *fabric, struct fi_wait_attr *attr, \
      struct fid_wait **wait) \
    /* Domain: address vectors, scalable endpoints, counters, poll sets, atomics */ \
    X(int, av_open, struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, \
      void *context) \
    X(int, scalable_ep, struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, \
      void *context) \
    X(int, cntr_open, struct fid_domain *domain, struct fi_cntr_attr *attr, \
      struct fid_cntr **counter, void *context) \
    X(int, poll_open, struct fid_domain *domain, struct fi_poll_attr *attr, \
      struct fid_poll **set) \
    X(int, stx_ctx, struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, \
      void *context) \
    X(int, query_atomic, struct fid_domain *domain, enum fi_datatype type, enum fi_op op, \
      struct fi_atomic_attr *attr, uint64_t flags) \
    /* Endpoints.  The card takes no buffer of its free queue back while the channel lives. */ \
    X(ssize_t, cancel, fid_t fid, void *context) \
    X(int, tx_ctx, struct fid_ep *ep, int index, struct fi_tx_attr *attr, struct fid_ep **tx, \
      void *context) \
    X(int, rx_ctx, struct fid_ep *ep, int index, struct fi_rx_attr *attr, struct fid_ep **rx, \
      void *context) \
    X(ssize_t, size_left, struct fid_ep *ep) \
    X(int, setname, fid_t fid, void *addr, size_t len) \
    X(int, listen, struct fid_pep *pep) \
    X(int, reject, struct fid_pep *pep, fid_t handle, const void *data, size_t len) \
    X(int, join, struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, \
      void *context) \
    /* Passive endpoints */ \
    X(int, getpeer, struct fid_ep *ep, void *addr, size_t *len) \
    X(int, connect, struct fid_ep *ep, const void *addr, const void *data, size_t len) \
    X(int, accept, struct fid_ep *ep, const void *data, size_t len) \
    X(int, shutdown, struct fid_ep *ep, uint64_t flags) \
    /* Shared receive contexts */ \
    X(ssize_t, send, struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, \
      void *context) \
    X(ssize_t, sendv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t n, \
      fi_addr_t to, void *context) \
    X(ssize_t, sendmsg, struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags) \
    X(ssize_t, inject, struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to) \
    X(ssize_t, senddata, struct fid_ep *ep, const void *buf, size_t len, void *desc, \
      uint64_t data, fi_addr_t to, void *context) \
    X(ssize_t, injectdata, struct fid_ep *ep, const void *buf, size_t len, uint64_t data, \
      fi_addr_t to)

#define UMFI_DECLARE(type, name, ...) type umfi_no_##name(__VA_ARGS__);
UMFI_ABSENT(UMFI_DECLARE)

#endif /* UMFI_ABSENT_H */
