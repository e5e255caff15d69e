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
#include "core.h"

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
        return unetmm_channel_set(core, cmd->ep, &cmd->channel);
    case UNETMM_CMD_CHANNEL_CLEAR:
        return unetmm_channel_clear(core, cmd->ep, &cmd->channel);
    case UNETMM_CMD_FAULT_REPLY:
        return unetmm_fault_reply(core, cmd->space, &cmd->reply, result);
    case UNETMM_CMD_REGION_SET:
        return unetmm_region_set(core, cmd->space, &cmd->region);
    case UNETMM_CMD_REGION_CLEAR:
        return unetmm_region_clear(core, cmd->region.region, cmd->tag, wait);
    case UNETMM_CMD_REGION_REDIRECT:
        return unetmm_redirect(core, &cmd->redirect, cmd->tag, result, wait);
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
        return unetmm_counters_set(core, cmd->space, &cmd->counters);
    case UNETMM_CMD_COUNTER_ARM:
        return unetmm_counter_arm(core, cmd->space, &cmd->arm, result);
    case UNETMM_CMD_SYSBUF_SET:
        return unetmm_sysbuf_set(core, &cmd->sysbuf);
    case UNETMM_CMD_SYSBUF_DONE:
        return unetmm_sysbuf_done(core, &cmd->slot);
    case UNETMM_CMD_FLOW_SET:
        return unetmm_flow_set(core, cmd->ep, &cmd->flow);
    case UNETMM_CMD_FLOW_CLEAR:
        return unetmm_flow_clear(core, &cmd->flow);
    case UNETMM_CMD_BACKUP_DONE:
        return unetmm_backup_done(core, cmd->ep, &cmd->backup);
    case UNETMM_CMD_TAIL_ARM:
        return unetmm_tail_arm(core, cmd->ep, &cmd->tail, result);
    default:
        return UNETMM_CS_BAD_OPCODE;
    }
}

static void cmd_answer(UnetmmCore *core, uint16_t tag, uint8_t opcode,
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

void unetmm_cmd_run(UnetmmCore *core, uint32_t *budget)
{
    const UnetmmRing *done = &core->rings[UNETMM_RING_CMDC];
    struct unetmm_cmd cmd;

    while (*budget && unetmm_ring_room(done) > core->closing &&
           unetmm_ring_fetch_cmd(core, &cmd)) {
        bool wait = false;
        uint32_t result = 0;
        uint8_t status;

        --*budget;
        trace_unetmm_cmd(cmd.tag, cmd.opcode, cmd.space, cmd.ep);
        status = cmd_execute(core, &cmd, &result, &wait);
        if (!wait) {
            cmd_answer(core, cmd.tag, cmd.opcode, status, result);
        }
    }
}

/* The endpoint that EP_DESTROY had to wait for is gone. */
void unetmm_cmd_close_done(UnetmmCore *core, UnetmmEp *ep)
{
    core->closing--;
    cmd_answer(core, ep->close_tag, UNETMM_CMD_EP_DESTROY, UNETMM_CS_OK, 0);
}

/* No page moves any more through the region that REGION_CLEAR named. */
void unetmm_cmd_clear_done(UnetmmCore *core, uint16_t tag)
{
    core->closing--;
    cmd_answer(core, tag, UNETMM_CMD_REGION_CLEAR, UNETMM_CS_OK, 0);
}

/* No page moves any more through the part that REGION_REDIRECT named. */
void unetmm_cmd_redirect_done(UnetmmCore *core, uint16_t tag, uint8_t status,
                              uint32_t result)
{
    core->closing--;
    cmd_answer(core, tag, UNETMM_CMD_REGION_REDIRECT, status, result);
}
