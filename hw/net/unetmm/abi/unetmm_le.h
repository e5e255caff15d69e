/*
 * unetmm: byte order.  The only file of the card that swaps bytes; each
 * function turns one structure of unetmm_hw.h or unetmm_wire.h over in place,
 * to or from the host's order (the same operation both ways).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_LE_H
#define UNETMM_LE_H

#include "unetmm_hw.h"
#include "unetmm_wire.h"

static inline void unetmm_le_u16(uint16_t *v)
{
    *v = le16_to_cpu(*v);
}

static inline void unetmm_le_u32(uint32_t *v)
{
    *v = le32_to_cpu(*v);
}

static inline void unetmm_le_u64(uint64_t *v)
{
    *v = le64_to_cpu(*v);
}

static inline void unetmm_le_user(struct unetmm_ep_user *u)
{
    u->sq_prod = le32_to_cpu(u->sq_prod);
    u->fq_prod = le32_to_cpu(u->fq_prod);
    u->cq_cons = le32_to_cpu(u->cq_cons);
    u->cq_arm = le32_to_cpu(u->cq_arm);
}

static inline void unetmm_le_card(struct unetmm_ep_card *c)
{
    c->sq_cons = le32_to_cpu(c->sq_cons);
    c->fq_cons = le32_to_cpu(c->fq_cons);
    c->cq_prod = le32_to_cpu(c->cq_prod);
    c->state = le32_to_cpu(c->state);
}

static inline void unetmm_le_seg(struct unetmm_seg *s)
{
    s->addr = le64_to_cpu(s->addr);
    s->len = le32_to_cpu(s->len);
    s->rsvd = le32_to_cpu(s->rsvd);
}

static inline void unetmm_le_backup(struct unetmm_backup *b)
{
    b->addr = le64_to_cpu(b->addr);
    b->len = le32_to_cpu(b->len);
    b->rsvd = le32_to_cpu(b->rsvd);
}

/* The segments are the caller's to turn: they may be inline data. */
static inline void unetmm_le_sqe(struct unetmm_sqe *s)
{
    s->channel = le16_to_cpu(s->channel);
    s->region = le16_to_cpu(s->region);
    s->cookie = le64_to_cpu(s->cookie);
    s->imm = le32_to_cpu(s->imm);
    s->handle = le32_to_cpu(s->handle);
    s->remote = le64_to_cpu(s->remote);
}

static inline void unetmm_le_fqe(struct unetmm_fqe *f)
{
    f->addr = le64_to_cpu(f->addr);
    f->len = le32_to_cpu(f->len);
    f->flags = le32_to_cpu(f->flags);
    f->cookie = le64_to_cpu(f->cookie);
    f->rsvd = le64_to_cpu(f->rsvd);
}

/* data[] and an atomic's old value stay as they are, as in memory. */
static inline void unetmm_le_cqe(struct unetmm_cqe *c)
{
    /* In either order: all flags are in one byte. */
    bool in_data = (c->flags | le32_to_cpu(c->flags)) & UNETMM_CQE_F_INLINE;

    c->cookie = le64_to_cpu(c->cookie);
    c->len = le32_to_cpu(c->len);
    c->channel = le16_to_cpu(c->channel);
    c->imm = le32_to_cpu(c->imm);
    c->flags = le32_to_cpu(c->flags);
    if (c->opcode == UNETMM_CQE_CONTROL ||
        (c->opcode == UNETMM_CQE_RECEIVED && !in_data)) {
        c->source = le64_to_cpu(c->source);
    } else if (c->opcode == UNETMM_CQE_NOTIFY ||
               c->opcode == UNETMM_CQE_UPDATE) {
        c->notify.offset = le64_to_cpu(c->notify.offset);
        c->notify.imm = le32_to_cpu(c->notify.imm);
        c->notify.region = le32_to_cpu(c->notify.region);
    }
}

static inline void unetmm_le_done(struct unetmm_cmd_done *d)
{
    d->tag = le16_to_cpu(d->tag);
    d->result = le32_to_cpu(d->result);
    d->flags = le32_to_cpu(d->flags);
}

static inline void unetmm_le_fault(struct unetmm_fault *f)
{
    f->space = le16_to_cpu(f->space);
    f->ep = le16_to_cpu(f->ep);
    f->fault_id = le32_to_cpu(f->fault_id);
    f->npages = le32_to_cpu(f->npages);
    f->vaddr = le64_to_cpu(f->vaddr);
    f->pte = le64_to_cpu(f->pte);
    f->tag = le32_to_cpu(f->tag);
    f->time_ns = le64_to_cpu(f->time_ns);
    f->found_ns = le64_to_cpu(f->found_ns);
    f->phase = le32_to_cpu(f->phase);
}

static inline void unetmm_le_notify(struct unetmm_notify *n)
{
    n->ep = le16_to_cpu(n->ep);
    n->data = le32_to_cpu(n->data);
    n->value = le64_to_cpu(n->value);
    n->time_ns = le64_to_cpu(n->time_ns);
    n->phase = le32_to_cpu(n->phase);
}

static inline void unetmm_le_landed(struct unetmm_landed *l)
{
    l->offset = le64_to_cpu(l->offset);
    l->length = le64_to_cpu(l->length);
}

static inline void unetmm_le_slot(struct unetmm_slot *s)
{
    s->space = le16_to_cpu(s->space);
    s->ep = le16_to_cpu(s->ep);
    s->channel = le16_to_cpu(s->channel);
    s->region = le32_to_cpu(s->region);
    s->len = le32_to_cpu(s->len);
    s->time_ns = le64_to_cpu(s->time_ns);
    for (unsigned i = 0; i < UNETMM_SLOT_PIECES; i++) {
        s->piece[i].addr = le64_to_cpu(s->piece[i].addr);
        s->piece[i].len = le32_to_cpu(s->piece[i].len);
        s->piece[i].from = le32_to_cpu(s->piece[i].from);
    }
}

static inline void unetmm_le_frame(struct unetmm_frame *f)
{
    f->dst_ep = le16_to_cpu(f->dst_ep);
    f->src_ep = le16_to_cpu(f->src_ep);
    f->dst_channel = le16_to_cpu(f->dst_channel);
    f->src_channel = le16_to_cpu(f->src_channel);
    f->len = le32_to_cpu(f->len);
    f->flags = le32_to_cpu(f->flags);
    f->psn = le32_to_cpu(f->psn);
    f->offset = le32_to_cpu(f->offset);
    f->remote = le64_to_cpu(f->remote);
    f->handle = le32_to_cpu(f->handle);
    f->imm = le32_to_cpu(f->imm);
    f->payload_crc = le32_to_cpu(f->payload_crc);
    f->header_crc = le32_to_cpu(f->header_crc);
}

static inline void unetmm_le_cmd_one_sided(struct unetmm_cmd *c)
{
    switch (c->opcode) {
    case UNETMM_CMD_REGION_SET:
    case UNETMM_CMD_REGION_CLEAR:
        c->region.region = le32_to_cpu(c->region.region);
        c->region.key = le32_to_cpu(c->region.key);
        c->region.addr = le64_to_cpu(c->region.addr);
        c->region.length = le64_to_cpu(c->region.length);
        c->region.cookie = le64_to_cpu(c->region.cookie);
        c->region.counter = le16_to_cpu(c->region.counter);
        c->region.ncounters = le16_to_cpu(c->region.ncounters);
        c->region.iova = le64_to_cpu(c->region.iova);
        c->region.pd = le32_to_cpu(c->region.pd);
        break;
    case UNETMM_CMD_IMPORT_SET:
    case UNETMM_CMD_IMPORT_CLEAR:
        c->import.import = le32_to_cpu(c->import.import);
        c->import.region = le32_to_cpu(c->import.region);
        c->import.key = le32_to_cpu(c->import.key);
        c->import.channel = le16_to_cpu(c->import.channel);
        c->import.length = le64_to_cpu(c->import.length);
        break;
    case UNETMM_CMD_WINDOW_SET:
    case UNETMM_CMD_WINDOW_CLEAR:
        c->window.page = le32_to_cpu(c->window.page);
        c->window.npages = le32_to_cpu(c->window.npages);
        c->window.offset = le64_to_cpu(c->window.offset);
        c->window.combine_ns = le32_to_cpu(c->window.combine_ns);
        c->window.combine_bytes = le16_to_cpu(c->window.combine_bytes);
        c->window.import = le16_to_cpu(c->window.import);
        break;
    case UNETMM_CMD_REGION_REDIRECT:
        c->redirect.region = le32_to_cpu(c->redirect.region);
        c->redirect.offset = le64_to_cpu(c->redirect.offset);
        c->redirect.length = le64_to_cpu(c->redirect.length);
        c->redirect.to = le64_to_cpu(c->redirect.to);
        c->redirect.list = le64_to_cpu(c->redirect.list);
        break;
    case UNETMM_CMD_PROXY_SET:
    case UNETMM_CMD_PROXY_CLEAR:
        c->proxy.page = le32_to_cpu(c->proxy.page);
        c->proxy.npages = le32_to_cpu(c->proxy.npages);
        c->proxy.at = le64_to_cpu(c->proxy.at);
        c->proxy.import = le16_to_cpu(c->proxy.import);
        break;
    case UNETMM_CMD_COUNTERS_SET:
        c->counters.page = le64_to_cpu(c->counters.page);
        break;
    case UNETMM_CMD_COUNTER_ARM:
        c->arm.value = le64_to_cpu(c->arm.value);
        c->arm.counter = le16_to_cpu(c->arm.counter);
        break;
    default:
        break;
    }
}

static inline void unetmm_le_cmd_channel(struct unetmm_cmd *c)
{
    if (c->opcode == UNETMM_CMD_CHANNEL_MODIFY) {
        c->modify.channel = le16_to_cpu(c->modify.channel);
        c->modify.members = le16_to_cpu(c->modify.members);
        c->modify.timeout_us = le32_to_cpu(c->modify.timeout_us);
        c->modify.not_ready_us = le32_to_cpu(c->modify.not_ready_us);
        c->modify.send_psn = le32_to_cpu(c->modify.send_psn);
        c->modify.recv_psn = le32_to_cpu(c->modify.recv_psn);
        return;
    }
    c->channel.channel = le16_to_cpu(c->channel.channel);
    c->channel.peer_ep = le16_to_cpu(c->channel.peer_ep);
    c->channel.peer_channel = le16_to_cpu(c->channel.peer_channel);
    c->channel.mtu = le32_to_cpu(c->channel.mtu);
    c->channel.timeout_us = le32_to_cpu(c->channel.timeout_us);
    c->channel.send_psn = le32_to_cpu(c->channel.send_psn);
    c->channel.recv_psn = le32_to_cpu(c->channel.recv_psn);
    c->channel.send_credits = le32_to_cpu(c->channel.send_credits);
    c->channel.recv_credits = le32_to_cpu(c->channel.recv_credits);
    c->channel.not_ready_us = le32_to_cpu(c->channel.not_ready_us);
    c->channel.qkey = le32_to_cpu(c->channel.qkey);
}

static inline void unetmm_le_cmd_sysbuf(struct unetmm_cmd *c)
{
    if (c->opcode == UNETMM_CMD_SYSBUF_SET) {
        c->sysbuf.list = le64_to_cpu(c->sysbuf.list);
        c->sysbuf.slots = le32_to_cpu(c->sysbuf.slots);
        c->sysbuf.slot_bytes = le32_to_cpu(c->sysbuf.slot_bytes);
    } else {
        c->slot.slot = le32_to_cpu(c->slot.slot);
    }
}

static inline void unetmm_le_cmd_raw(struct unetmm_cmd *c)
{
    if (c->opcode == UNETMM_CMD_BACKUP_DONE) {
        c->backup.slot = le32_to_cpu(c->backup.slot);
        c->backup.bit = le32_to_cpu(c->backup.bit);
        c->backup.cookie = le64_to_cpu(c->backup.cookie);
    } else if (c->opcode == UNETMM_CMD_TAIL_ARM) {
        c->tail.slot = le32_to_cpu(c->tail.slot);
    } else if (c->opcode == UNETMM_CMD_LOW_ARM) {
        c->low.buffers = le32_to_cpu(c->low.buffers);
    } else {
        c->flow.flow = le32_to_cpu(c->flow.flow);
        c->flow.value = le16_to_cpu(c->flow.value);
    }
}

/* Commands are unions: turned by their opcode. */
static inline void unetmm_le_cmd(struct unetmm_cmd *c)
{
    c->tag = le16_to_cpu(c->tag);
    c->space = le16_to_cpu(c->space);
    c->ep = le16_to_cpu(c->ep);
    switch (c->opcode) {
    case UNETMM_CMD_SPACE_CREATE:
        c->space_create.table = le64_to_cpu(c->space_create.table);
        break;
    case UNETMM_CMD_EP_CREATE:
        c->ep_create.sq_base = le64_to_cpu(c->ep_create.sq_base);
        c->ep_create.fq_base = le64_to_cpu(c->ep_create.fq_base);
        c->ep_create.cq_base = le64_to_cpu(c->ep_create.cq_base);
        c->ep_create.index = le64_to_cpu(c->ep_create.index);
        c->ep_create.posts = le64_to_cpu(c->ep_create.posts);
        c->ep_create.backup = le16_to_cpu(c->ep_create.backup);
        c->ep_create.pd = le32_to_cpu(c->ep_create.pd);
        c->ep_create.fq_of = le16_to_cpu(c->ep_create.fq_of);
        break;
    case UNETMM_CMD_CHANNEL_SET:
    case UNETMM_CMD_CHANNEL_CLEAR:
    case UNETMM_CMD_CHANNEL_MODIFY:
        unetmm_le_cmd_channel(c);
        break;
    case UNETMM_CMD_FAULT_REPLY:
        c->reply.fault_id = le32_to_cpu(c->reply.fault_id);
        c->reply.npages = le16_to_cpu(c->reply.npages);
        c->reply.vaddr = le64_to_cpu(c->reply.vaddr);
        c->reply.list = le64_to_cpu(c->reply.list);
        c->reply.tag = le32_to_cpu(c->reply.tag);
        break;
    case UNETMM_CMD_INVALIDATE:
        c->inv.start = le64_to_cpu(c->inv.start);
        c->inv.last = le64_to_cpu(c->inv.last);
        break;
    case UNETMM_CMD_SYSBUF_SET:
    case UNETMM_CMD_SYSBUF_DONE:
        unetmm_le_cmd_sysbuf(c);
        break;
    case UNETMM_CMD_FLOW_SET:
    case UNETMM_CMD_FLOW_CLEAR:
    case UNETMM_CMD_BACKUP_DONE:
    case UNETMM_CMD_TAIL_ARM:
    case UNETMM_CMD_LOW_ARM:
        unetmm_le_cmd_raw(c);
        break;
    default:
        unetmm_le_cmd_one_sided(c);
        break;
    }
}

#endif /* UNETMM_LE_H */
