/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of operations.
 */
#include "op.h"

const char *op_name(unsigned number)
{
    static const char *const names[NUM_OPS] = {
        [OP_SEND] = "send", [OP_WRITE] = "write", [OP_AU] = "au",
        [OP_READ] = "read", [OP_ATOMIC] = "atomic", [OP_UDMA] = "udma",
    };

    return number < NUM_OPS ? names[number] : "of a newer version";
}
