/*
 * unetmm: the command ring
 *
 * Each command is fetched once into a copy, executed, and answered.  A command
 * is taken only while the completion ring has room for its answer and for those
 * that endpoints still closing, and regions still clearing or moving, will
 * need.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../aside/aside.h"
#include "../ether/ether.h"
#include "../ring/ring.h"
#include "../store/store.h"
#include "core.h"

/*
 * INVALIDATE as a command; unlike the INV registers it leaves INV_START and
 * INV_LAST alone.
 */
static uint8_t cmd_invalidate(UnetmmCore *core, const struct unetmm_cmd *cmd,
                              uint32_t *result)
{
    unetmm_invalidate(core, cmd->space, cmd->inv.start, cmd->inv.last);
    *result = unetmm_invalidate_busy(core);
    return UNETMM_CS_OK;
}

static uint8_t cmd_channel(UnetmmCore *core, const struct unetmm_cmd *cmd,
                           uint32_t *result)
{
    switch (cmd->opcode) {
    case UNETMM_CMD_CHANNEL_SET:
        return unetmm_channel_set(core, cmd->ep, &cmd->channel);
    case UNETMM_CMD_CHANNEL_MODIFY:
        return unetmm_channel_modify(core, cmd->ep, &cmd->modify);
    default:
        return unetmm_channel_clear(core, cmd->ep, &cmd->channel, result);
    }
}

static uint8_t cmd_free_queue(UnetmmCore *core, const struct unetmm_cmd *cmd,
                              uint32_t *result)
{
    switch (cmd->opcode) {
    case UNETMM_CMD_BACKUP_DONE:
        return unetmm_backup_done(core, cmd->ep, &cmd->backup);
    case UNETMM_CMD_TAIL_ARM:
        return unetmm_tail_arm(core, cmd->ep, &cmd->tail, result);
    default:
        return unetmm_low_arm(core, cmd->ep, &cmd->low, result);
    }
}

static uint8_t cmd_execute(UnetmmCore *core, const struct unetmm_cmd *cmd,
                           uint32_t *result, bool *wait)
{
    switch (cmd->opcode) {
    case UNETMM_CMD_NOP:
        return UNETMM_CS_OK;
    case UNETMM_CMD_SPACE_CREATE:
        return unetmm_space_create(core, cmd->space, &cmd->space_create);
    case UNETMM_CMD_SPACE_DESTROY:
        return unetmm_space_destroy(core, cmd->space);
    case UNETMM_CMD_EP_CREATE:
        return unetmm_ep_create(core, cmd->ep, cmd->space, &cmd->ep_create);
    case UNETMM_CMD_EP_DESTROY:
        return unetmm_ep_destroy(core, cmd->ep, cmd->tag, wait);
    case UNETMM_CMD_CHANNEL_SET:
    case UNETMM_CMD_CHANNEL_CLEAR:
    case UNETMM_CMD_CHANNEL_MODIFY:
        return cmd_channel(core, cmd, result);
    case UNETMM_CMD_FAULT_REPLY:
        return unetmm_fault_reply(core, cmd->space, &cmd->reply, result);
    case UNETMM_CMD_REGION_SET:
        return unetmm_region_set(core, cmd->space, &cmd->region);
    case UNETMM_CMD_REGION_CLEAR:
        return unetmm_region_clear(core, cmd->region.region, cmd->tag, wait);
    case UNETMM_CMD_REGION_REDIRECT:
        return unetmm_move(core, &cmd->redirect, cmd->tag, result, wait);
    case UNETMM_CMD_IMPORT_SET:
        return unetmm_import_set(core, cmd->ep, &cmd->import);
    case UNETMM_CMD_IMPORT_CLEAR:
        return unetmm_import_clear(core, cmd->ep, cmd->import.import);
    case UNETMM_CMD_WINDOW_SET:
        return unetmm_window_set(core, cmd->ep, &cmd->window);
    case UNETMM_CMD_WINDOW_CLEAR:
        return unetmm_window_clear(core, &cmd->window);
    case UNETMM_CMD_PROXY_SET:
        return unetmm_proxy_set(core, cmd->ep, &cmd->proxy);
    case UNETMM_CMD_PROXY_CLEAR:
        return unetmm_proxy_clear(core, &cmd->proxy);
    case UNETMM_CMD_COUNTERS_SET:
        return unetmm_event_counters_set(core, cmd->space, &cmd->counters);
    case UNETMM_CMD_COUNTER_ARM:
        return unetmm_event_counter_arm(core, cmd->space, &cmd->arm, result);
    case UNETMM_CMD_SYSBUF_SET:
        return unetmm_sysbuf_set(core, &cmd->sysbuf);
    case UNETMM_CMD_SYSBUF_DONE:
        return unetmm_sysbuf_done(core, &cmd->slot);
    case UNETMM_CMD_FLOW_SET:
        return unetmm_flow_set(core, cmd->ep, &cmd->flow);
    case UNETMM_CMD_FLOW_CLEAR:
        return unetmm_flow_clear(core, &cmd->flow);
    case UNETMM_CMD_BACKUP_DONE:
    case UNETMM_CMD_TAIL_ARM:
    case UNETMM_CMD_LOW_ARM:
        return cmd_free_queue(core, cmd, result);
    case UNETMM_CMD_INVALIDATE:
        return cmd_invalidate(core, cmd, result);
    default:
        return UNETMM_CS_BAD_OPCODE;
    }
}

void unetmm_cmd_run(UnetmmCore *core, uint32_t *budget)
{
    const UnetmmRing *done = &core->ring->all[UNETMM_RING_CMDC];
    struct unetmm_cmd cmd;

    while (*budget && unetmm_ring_room(done) > core->ring->late &&
           unetmm_ring_fetch_cmd(core, &cmd)) {
        bool wait = false;
        uint32_t result = 0;
        uint8_t status;

        --*budget;
        unetmm_spend(core, UNETMM_STEP_COMMAND, cmd.opcode);
        trace_unetmm_cmd(cmd.tag, cmd.opcode, cmd.space, cmd.ep);
        status = cmd_execute(core, &cmd, &result, &wait);
        if (!wait) {
            unetmm_cmd_done(core, cmd.tag, cmd.opcode, status, result);
        }
    }
}
