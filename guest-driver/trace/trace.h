/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: tracepoints, /sys/kernel/tracing/events/unetmm/.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unetmm

#if !defined(UNETMM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define UNETMM_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(unetmm_miss,
	TP_PROTO(u32 space, u32 ep, u32 fault_id, u64 vaddr, u32 npages,
		 bool write),
	TP_ARGS(space, ep, fault_id, vaddr, npages, write),
	TP_STRUCT__entry(
		__field(u32, space)
		__field(u32, ep)
		__field(u32, fault_id)
		__field(u32, npages)
		__field(u64, vaddr)
		__field(bool, write)
	),
	TP_fast_assign(
		__entry->space = space;
		__entry->ep = ep;
		__entry->fault_id = fault_id;
		__entry->npages = npages;
		__entry->vaddr = vaddr;
		__entry->write = write;
	),
	TP_printk("space=%u ep=%u id=%#x vaddr=%#llx npages=%u %s",
		  __entry->space, __entry->ep, __entry->fault_id,
		  __entry->vaddr, __entry->npages,
		  __entry->write ? "write" : "read")
);

TRACE_EVENT(unetmm_shadow_wait,
	TP_PROTO(u32 space, u64 ns),
	TP_ARGS(space, ns),
	TP_STRUCT__entry(
		__field(u32, space)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->space = space;
		__entry->ns = ns;
	),
	TP_printk("space %u: %llu ns", __entry->space, __entry->ns)
);

TRACE_EVENT(unetmm_sysbuf,
	TP_PROTO(u32 slot, u8 status),
	TP_ARGS(slot, status),
	TP_STRUCT__entry(
		__field(u32, slot)
		__field(u8, status)
	),
	TP_fast_assign(
		__entry->slot = slot;
		__entry->status = status;
	),
	TP_printk("slot=%u %s", __entry->slot,
		  __entry->status == UNETMM_SLOT_LANDED ? "landed" :
		  __entry->status == UNETMM_SLOT_FAILED ? "failed" : "gone")
);

TRACE_EVENT(unetmm_backup,
	TP_PROTO(u16 ep, u32 buffer, u32 slot, u32 bit, u32 len),
	TP_ARGS(ep, buffer, slot, bit, len),
	TP_STRUCT__entry(
		__field(u16, ep)
		__field(u32, buffer)
		__field(u32, slot)
		__field(u32, bit)
		__field(u32, len)
	),
	TP_fast_assign(
		__entry->ep = ep;
		__entry->buffer = buffer;
		__entry->slot = slot;
		__entry->bit = bit;
		__entry->len = len;
	),
	TP_printk("ep=%u buffer=%u slot=%u bit=%u len=%u", __entry->ep,
		  __entry->buffer, __entry->slot, __entry->bit, __entry->len)
);

TRACE_EVENT(unetmm_backup_done,
	TP_PROTO(u16 ep, u32 slot, u32 bit, u8 status),
	TP_ARGS(ep, slot, bit, status),
	TP_STRUCT__entry(
		__field(u16, ep)
		__field(u32, slot)
		__field(u32, bit)
		__field(u8, status)
	),
	TP_fast_assign(
		__entry->ep = ep;
		__entry->slot = slot;
		__entry->bit = bit;
		__entry->status = status;
	),
	TP_printk("ep=%u slot=%u bit=%u status=%u", __entry->ep,
		  __entry->slot, __entry->bit, __entry->status)
);

TRACE_EVENT(unetmm_zero,
	TP_PROTO(u32 space, u64 vaddr),
	TP_ARGS(space, vaddr),
	TP_STRUCT__entry(
		__field(u32, space)
		__field(u64, vaddr)
	),
	TP_fast_assign(
		__entry->space = space;
		__entry->vaddr = vaddr;
	),
	TP_printk("space %u: 0x%llx is mapped anew", __entry->space,
		  __entry->vaddr)
);

TRACE_EVENT(unetmm_reply,
	TP_PROTO(u32 space, u32 fault_id, u32 status, u32 error, u32 npages,
		 u32 taken, u32 tag),
	TP_ARGS(space, fault_id, status, error, npages, taken, tag),
	TP_STRUCT__entry(
		__field(u32, space)
		__field(u32, fault_id)
		__field(u32, status)
		__field(u32, error)
		__field(u32, npages)
		__field(u32, taken)
		__field(u32, tag)
	),
	TP_fast_assign(
		__entry->space = space;
		__entry->fault_id = fault_id;
		__entry->status = status;
		__entry->error = error;
		__entry->npages = npages;
		__entry->taken = taken;
		__entry->tag = tag;
	),
	TP_printk("space=%u id=%#x status=%u error=%u npages=%u taken=%u tag=%#x",
		  __entry->space, __entry->fault_id, __entry->status,
		  __entry->error, __entry->npages, __entry->taken,
		  __entry->tag)
);

TRACE_EVENT(unetmm_evict,
	TP_PROTO(u32 space, u64 vaddr, u32 tag, bool dirty, bool stale),
	TP_ARGS(space, vaddr, tag, dirty, stale),
	TP_STRUCT__entry(
		__field(u32, space)
		__field(u32, tag)
		__field(u64, vaddr)
		__field(bool, dirty)
		__field(bool, stale)
	),
	TP_fast_assign(
		__entry->space = space;
		__entry->tag = tag;
		__entry->vaddr = vaddr;
		__entry->dirty = dirty;
		__entry->stale = stale;
	),
	TP_printk("space=%u vaddr=%#llx tag=%#x%s%s", __entry->space,
		  __entry->vaddr, __entry->tag,
		  __entry->dirty ? " dirty" : "",
		  __entry->stale ? " stale" : "")
);

TRACE_EVENT(unetmm_invalidate,
	TP_PROTO(u32 space, u64 start, u64 last, bool done),
	TP_ARGS(space, start, last, done),
	TP_STRUCT__entry(
		__field(u32, space)
		__field(bool, done)
		__field(u64, start)
		__field(u64, last)
	),
	TP_fast_assign(
		__entry->space = space;
		__entry->done = done;
		__entry->start = start;
		__entry->last = last;
	),
	TP_printk("space=%u %#llx..%#llx%s", __entry->space, __entry->start,
		  __entry->last, __entry->done ? "" : " TIMED OUT")
);

DECLARE_EVENT_CLASS(unetmm_page,
	TP_PROTO(u32 space, unsigned long vpn, unsigned long pfn, bool write),
	TP_ARGS(space, vpn, pfn, write),
	TP_STRUCT__entry(
		__field(u32, space)
		__field(bool, write)
		__field(unsigned long, vpn)
		__field(unsigned long, pfn)
	),
	TP_fast_assign(
		__entry->space = space;
		__entry->write = write;
		__entry->vpn = vpn;
		__entry->pfn = pfn;
	),
	TP_printk("space=%u vpn=%#lx pfn=%#lx %s", __entry->space,
		  __entry->vpn, __entry->pfn, __entry->write ? "write" : "read")
);

DEFINE_EVENT(unetmm_page, unetmm_pin,
	TP_PROTO(u32 space, unsigned long vpn, unsigned long pfn, bool write),
	TP_ARGS(space, vpn, pfn, write));

DEFINE_EVENT(unetmm_page, unetmm_unpin,
	TP_PROTO(u32 space, unsigned long vpn, unsigned long pfn, bool write),
	TP_ARGS(space, vpn, pfn, write));

TRACE_EVENT(unetmm_command,
	TP_PROTO(u32 opcode, u32 space, u32 ep, u32 status, u32 result),
	TP_ARGS(opcode, space, ep, status, result),
	TP_STRUCT__entry(
		__field(u32, opcode)
		__field(u32, space)
		__field(u32, ep)
		__field(u32, status)
		__field(u32, result)
	),
	TP_fast_assign(
		__entry->opcode = opcode;
		__entry->space = space;
		__entry->ep = ep;
		__entry->status = status;
		__entry->result = result;
	),
	TP_printk("opcode=%u space=%u ep=%u status=%u result=%u",
		  __entry->opcode, __entry->space, __entry->ep,
		  __entry->status, __entry->result)
);

TRACE_EVENT(unetmm_control,
	TP_PROTO(bool sent, const u8 *mac, u32 type, u32 status, u32 src_ep,
		 u32 src_channel, u32 dst_ep, u32 dst_channel, u64 nonce),
	TP_ARGS(sent, mac, type, status, src_ep, src_channel, dst_ep,
		dst_channel, nonce),
	TP_STRUCT__entry(
		__field(bool, sent)
		__array(u8, mac, 6)
		__field(u32, type)
		__field(u32, status)
		__field(u32, src_ep)
		__field(u32, src_channel)
		__field(u32, dst_ep)
		__field(u32, dst_channel)
		__field(u64, nonce)
	),
	TP_fast_assign(
		__entry->sent = sent;
		memcpy(__entry->mac, mac, 6);
		__entry->type = type;
		__entry->status = status;
		__entry->src_ep = src_ep;
		__entry->src_channel = src_channel;
		__entry->dst_ep = dst_ep;
		__entry->dst_channel = dst_channel;
		__entry->nonce = nonce;
	),
	TP_printk("%s %pM type=%u status=%u src=%u/%u dst=%u/%u nonce=%#llx",
		  __entry->sent ? "to" : "from", __entry->mac, __entry->type,
		  __entry->status, __entry->src_ep, __entry->src_channel,
		  __entry->dst_ep, __entry->dst_channel, __entry->nonce)
);

TRACE_EVENT(unetmm_channel,
	TP_PROTO(u32 ep, u32 channel, const u8 *mac, u32 peer_ep,
		 u32 peer_channel, u32 mtu, bool open),
	TP_ARGS(ep, channel, mac, peer_ep, peer_channel, mtu, open),
	TP_STRUCT__entry(
		__field(u32, ep)
		__field(u32, channel)
		__array(u8, mac, 6)
		__field(u32, peer_ep)
		__field(u32, peer_channel)
		__field(u32, mtu)
		__field(bool, open)
	),
	TP_fast_assign(
		__entry->ep = ep;
		__entry->channel = channel;
		memcpy(__entry->mac, mac, 6);
		__entry->peer_ep = peer_ep;
		__entry->peer_channel = peer_channel;
		__entry->mtu = mtu;
		__entry->open = open;
	),
	TP_printk("%s %u/%u peer=%pM %u/%u mtu=%u",
		  __entry->open ? "open" : "close", __entry->ep,
		  __entry->channel, __entry->mac, __entry->peer_ep,
		  __entry->peer_channel, __entry->mtu)
);

#endif /* UNETMM_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH trace
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
