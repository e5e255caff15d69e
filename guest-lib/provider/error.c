/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Errors for programs: of operations and connections, by the card's status; of calls of a peer's
 * driver, by libunetmm's error.  fi_unetmm(7) has the reasons for each error of a connection.
 */
#include "provider.h"

#include <errno.h>

/* Another status is FI_EIO. */
static const struct {
    int operation;              /* that has completed so */
    int connection;             /* whose channel, not yet the program's, has ended so */
} of_status[UNETMM_NUM_ST] = {
    /* No status says that a peer has sent something else than the next message. */
    [UNETMM_ST_OK] = { 0, FI_ECONNABORTED },
    [UNETMM_ST_BAD_CHANNEL] = { FI_ECANCELED, FI_ECONNRESET },
    [UNETMM_ST_FLUSHED] = { FI_ECANCELED, FI_ECONNRESET },
    [UNETMM_ST_PEER_FAILED] = { FI_ECANCELED, FI_ECONNRESET },
    [UNETMM_ST_TIMEOUT] = { FI_ETIMEDOUT, FI_ETIMEDOUT },
    [UNETMM_ST_PEER_BUFFER] = { FI_ETRUNC },
    [UNETMM_ST_PROTECTION] = { FI_EFAULT },
    [UNETMM_ST_REVOKED] = { FI_EACCES },
    [UNETMM_ST_REMOTE_RANGE] = { FI_EACCES },
    [UNETMM_ST_REMOTE_RIGHT] = { FI_EACCES },
    [UNETMM_ST_BAD_IMPORT] = { FI_EACCES },
};

/* Another error is this host's, and the same in libfabric. */
static const struct {
    int error, connection;
} of_call[] = {
    { ETIMEDOUT, FI_ECONNREFUSED },     /* the driver answers that nobody listens */
    { EPROTOTYPE, FI_ECONNREFUSED },    /* ... or not for reliable channels */
    { EHOSTUNREACH, FI_ETIMEDOUT },     /* no driver answers */
};

int umfi_operation_error(unsigned status)
{
    int error = status < UNETMM_NUM_ST ? of_status[status].operation : 0;

    return error || status == UNETMM_ST_OK ? error : FI_EIO;
}

int umfi_connection_error(unsigned status)
{
    int error = status < UNETMM_NUM_ST ? of_status[status].connection : 0;

    return error ? error : FI_EIO;
}

int umfi_call_error(int ret)
{
    for (size_t i = 0; i < sizeof(of_call) / sizeof(of_call[0]); i++) {
        if (of_call[i].error == -ret) {
            return of_call[i].connection;
        }
    }
    return -ret;
}
