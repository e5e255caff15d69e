/*
 * unetmm: the completions of commands
 *
 * Most commands complete at once.  Some have to wait for a page that moves:
 * the completion ring keeps a place for each (UnetmmRings.late).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "ring.h"

void unetmm_cmd_done(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                     uint8_t status, uint32_t result)
{
    struct unetmm_cmd_done done = {
        .tag = tag, .opcode = opcode, .status = status, .result = result,
    };

    trace_unetmm_cmd_done(tag, opcode, status, result);
    if (status != UNETMM_CS_OK && status != UNETMM_CS_STALE &&
        status != UNETMM_CS_PARTIAL) {
        core->counters[UNETMM_C_err_command]++;
        UNETMM_GUEST_ERR(command, "command %u refused, status %u", opcode,
                         status);
    }
    unetmm_ring_post_done(core, done);
}

void unetmm_cmd_later(UnetmmCore *core)
{
    core->ring->late++;
}

void unetmm_cmd_done_late(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                          uint8_t status, uint32_t result)
{
    core->ring->late--;
    unetmm_cmd_done(core, tag, opcode, status, result);
}
