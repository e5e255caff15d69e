/*
 * unetmm: reliable channels: packets that are nothing but a number
 *
 * A message that ends early leaves numbers that the peer waits for; a fence has
 * one of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../../abi/unetmm_host.h"
#include "../packet.h"

static UnetmmRelTake void_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const uint8_t *payload)
{
    rel->in.run = 0;
    return UNETMM_TAKE_DONE;
}

static void void_fill(const UnetmmRelMsg *m, struct unetmm_frame *f,
                         uint32_t at, uint32_t bytes)
{
}

const UnetmmRelOp unetmm_rel_op_void = {
    .kind[0] = {
        .sqe = { .flags = UNETMM_SQE_F_QUIET, .bare = true },
        .opcode = UNETMM_WIRE_VOID, .fill = void_fill,
    },
    .header = { .with = UNETMM_WITH_RELIABLE,
                .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_ASK |
                         UNETMM_WIRE_F_ACK,
                .psn = true, .handle = true, .ok = unetmm_rel_handle_ok },
    .along = offsetof(struct unetmm_frame, handle),
    .header_is_enough = true,
    .take = void_take,
    .early = unetmm_rel_keep_header,
};
