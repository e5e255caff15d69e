# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns docs/figures/scenes.trace into the steps of the figures of
docs/concepts.rst.

tests/core/scenes records the trace.  A line is an event of the side that the last
line "side" named: an event of hw/net/unetmm/trace-events, or of the recorder.
"""

import os
import re

from unetmm_tools import REPO

TRACE = os.path.join(REPO, "docs", "figures", "scenes.trace")
HEADERS = [os.path.join(REPO, "hw", "net", "unetmm", "abi", name)
           for name in ("unetmm_user.h", "unetmm_hw.h")]

# Events without a step: they repeat another event, or are details of it.
SILENT = set("""unetmm_doorbell unetmm_send unetmm_receive unetmm_buffer_returned
unetmm_event unetmm_interrupt unetmm_reg_read unetmm_reg_write unetmm_cmd_done
unetmm_miss unetmm_tlb_evict unetmm_region_set unetmm_import unetmm_rel_ack
unetmm_rel_ack_sent unetmm_rel_credit unetmm_rel_kept unetmm_rel_notify
unetmm_rel_placed unetmm_rel_sent unetmm_rel_turn unetmm_sysbuf_done
unetmm_sysbuf_take unetmm_backup_store unetmm_backup_done unetmm_drop
unetmm_wire_in unetmm_wire_out""".split())

# Event: role that acts, role that it acts on (None: a note), text.  {page} is the
# number of the page; {pages} is "2 pages", or "page 0x10" if it is one.
STEPS = {
    "process_send": ("process", "card", "send from page {page}, doorbell"),
    "process_post": ("process", "card", "free buffer: page {page}"),
    "process_write": ("process", "card", "OP_WRITE to offset {to}, doorbell"),
    "process_export": ("process", "driver", "export: memory, rights"),
    "process_import": ("process", "driver", "import: number of the export"),
    "process_pin": ("process", "driver", "UNETMM_IOC_UTLB_PIN: {npages} pages"),
    "driver_pin": ("driver", None, "pins page {page}"),
    "driver_unpin": ("driver", None, "unpins page {page}"),
    "driver_wait": ("driver", None, "page {page} is absent: starts page-in"),
    "driver_fill": ("driver", None, "pins {npages} pages, fills the table"),
    "driver_enter": ("driver", None, "page-in, enters page {page} in table"),
    "driver_fault": ("driver", None, "faults {npages} pages in, fills table"),
    "driver_reclaim": ("driver", None, "the kernel reclaims {npages} pages"),
    "driver_buffers": ("driver", "card", "ring BACKUP: pinned buffers"),
    "driver_copy": ("driver", None, "copies from {place} {slot}"),
    "unetmm_invalidate": ("driver", "card", "invalidation, {dropped} entries"),
    "unetmm_tlb_miss": ("card", None, "TLB: no entry for page {page}"),
    "unetmm_tlb_insert": ("card", None, "TLB: inserts page {page}"),
    "unetmm_utlb_fetch": ("card", None, "cache: no entry; reads the table"),
    "unetmm_odp_miss": ("card", None, "page {page} is absent"),
    "unetmm_shadow_miss": ("card", None, "page {page} is absent"),
    "aside_write": ("card", None, "writes into {place} {slot}"),
    "unetmm_backup_held": ("card", None, "holds its completion back"),
    "memory_read": ("card", None, "reads page {page} by DMA"),
    "memory_write": ("card", None, "writes page {page} by DMA"),
    "entry_lock": ("card", None, "locks the entry of page {page}"),
    "entry_unlock": ("card", None, "unlocks the entry of page {page}"),
}

RECORDS = {"1": "FAULT_MISS: {pages}", "2": "FAULT_EVICT: page {page}",
           "3": "FAULT_SLOT", "5": "FAULT_BACKUP"}
REPLIES = {"0": "FAULT_REPLY", "1": "FAULT_REPLY: deferred"}
FRAMES = {"1": "datagram", "3": "WIRE_SEND", "5": "WIRE_WRITE"}
ACKS = {"0": "ACK_OK", "1": "ACK_NOT_READY (RNR NACK)", "4": "ACK_PENDING"}


class SceneError(Exception):
    """The trace cannot be drawn; a sentence."""


def read_scenes():
    """{scene: [(side, event, {field: value})]}"""
    scenes, side, events = {}, None, None
    with open(TRACE, encoding="utf-8") as file:
        for line in file:
            name, _, rest = line.strip().partition(" ")
            if name == "scene":
                events = scenes.setdefault(rest, [])
            elif name == "side":
                side = rest
            else:
                fields = dict(re.findall(r"\b([a-z]\w*) (0x[0-9a-f]+|\w+)", rest))
                events.append((side, name, fields))
    return scenes


def names_of(prefix):
    """{number: name} of the header's constants with this prefix."""
    found = {}
    for path in HEADERS:
        with open(path, encoding="utf-8") as file:
            found.update({number: name for name, number in re.findall(
                rf"^#define UNETMM_({prefix}\w+)\s+(\d+)\b", file.read(), re.M)})
    return found


def add_pages(fields):
    """The words for pages of a text."""
    if "vaddr" in fields:
        fields["page"] = f"0x{int(fields['vaddr'], 16) >> 12:x}"
    elif "vpn" in fields:
        fields["page"] = fields["vpn"]
    npages = fields.get("npages", "1")
    fields["pages"] = f"{npages} pages" if npages not in ("0", "1") else \
        f"page {fields.get('page')}"
    if "backup" in fields:
        fields["slot"] = fields["backup"]
    fields["place"] = "backup buffer" if "backup" in fields else "slot"


def frame_text(fields, again):
    """A frame on the wire."""
    kind = fields["opcode"]
    if kind == "4":
        credit = int(fields["flags"], 16) & 0x20 and fields["imm"] == "0"
        return ACKS[fields["imm"]] + (", credit" if credit else "")
    return FRAMES[kind] + (" again" if again else "")


def done_text(fields):
    """A completion."""
    status = names_of("ST_")[fields["status"]]
    return names_of("CQE_")[fields["opcode"]] + (
        "" if status == "ST_OK" else f", {status}")


def step_of(name, fields):
    """(acting role, role acted on, text), or None: no step."""
    add_pages(fields)
    if name in SILENT:
        return None
    if name == "unetmm_cmd":
        # The driver's reply is an event of its own.
        text = names_of("CMD_")[fields["opcode"]]
        return None if text == "CMD_FAULT_REPLY" else ("driver", "card", text)
    if name == "fault_record":
        return "card", "driver", RECORDS[fields["type"]].format(**fields)
    if name == "unetmm_reply":
        return "driver", "card", REPLIES[fields["status"]]
    if name == "unetmm_complete":
        return "card", "process", done_text(fields)
    if name in STEPS:
        start, end, text = STEPS[name]
        return start, end, text.format(**fields)
    raise SceneError(f"{TRACE}: no step for the event {name}: add one to "
                     "scripts/unetmm_tools/check/scenes.py")


def steps(events, lanes):
    """The steps, for lanes {(role, side): lane}.  If a whole side is one lane, only
    the steps that leave this lane are drawn."""
    again = False
    for side, name, fields in events:
        if name == "unetmm_rel_sent":
            again = fields["again"] == "1"
        if name == "wire":
            far = lanes["card", "b" if side == "a" else "a"]
            yield far, lanes["card", side], frame_text(fields, again)
            continue
        step = step_of(name, fields)
        if not step:
            continue
        start, end = (lanes[role, side] if role else None
                      for role in step[:2])
        if lanes.get(("process", side)) == lanes["driver", side]:
            if end in (None, start):
                continue
        yield (start, step[2]) if end in (None, start) else \
            (start, end, step[2])
