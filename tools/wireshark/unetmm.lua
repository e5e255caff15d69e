-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- Wireshark dissector for unetmm's frames (hw/net/unetmm/abi/unetmm_wire.h).
--
--   wireshark -X lua_script:tools/wireshark/unetmm.lua capture.pcap
--   tshark -X lua_script:tools/wireshark/unetmm.lua -V -r capture.pcap
--
-- The capture starts at the destination MAC; Ethernet's own dissector takes its
-- 14 bytes, so offsets here count from the version byte. The checksum of the
-- header is over the Ethernet addresses too, which are in the fields eth.*.
-- tests/tools/wiretests.py compares the two tables below with the header file.  Coloring rules
-- for these fields are in tools/wireshark/colorfilters.

-- Constants of unetmm_user.h, unetmm_hw.h and unetmm_wire.h, by the names that they have there.
-- gen-spec-tables: lua-numbers
local C = {
    ETHERTYPE = 0x88b5,
    MAX_STRICT_MESSAGE = 0x40000000,
    WIRE_VERSION = 1,
    MAX_PAYLOAD = 65536,
    WIRE_DATAGRAM = 1,
    WIRE_CONTROL = 2,
    WIRE_SEND = 3,
    WIRE_ACK = 4,
    WIRE_WRITE = 5,
    WIRE_READ = 6,
    WIRE_ATOMIC = 7,
    WIRE_ANSWER = 8,
    WIRE_VOID = 9,
    WIRE_SEND_TO = 10,
    READ_BYTES = 0x0001ffff,
    READ_MORE = 0xfffe0000,
    READ_MOST = 0x7fff,
    ATOMIC_ADD = 1,
    ATOMIC_SWAP = 2,
    WIRE_F_PAYLOAD_CRC = 0x00000001,
    WIRE_F_LAST = 0x00000002,
    WIRE_F_ASK = 0x00000004,
    WIRE_F_NOTIFY = 0x00000008,
    WIRE_F_COUNT = 0x00000010,
    WIRE_F_CREDIT = 0x00000020,
    WIRE_F_KEYED = 0x00000040,
    WIRE_F_ACK = 0x00000080,
    WIRE_F_IMM = 0x00000100,
    WIRE_F_INV = 0x00000200,
    WIRE_F_ALL = 0x000003ff,
    ACK_OK = 0,
    ACK_NOT_READY = 1,
    ACK_FAILED = 2,
    ACK_REJECTED = 3,
    ACK_PENDING = 4,
    WHY_BUFFER = 1,
    WHY_CHANNEL = 2,
    WHY_REGION = 3,
    WHY_RANGE = 4,
    WHY_RIGHT = 5,
    WHY_MEMORY = 6,
    WHY_COUNTER = 7,
    CTL_PROBE = 1,
    CTL_PROBE_ACK = 2,
    CTL_CONNECT = 3,
    CTL_CONNECT_ACK = 4,
    CTL_CLOSE = 5,
    CTL_IMPORT = 6,
    CTL_IMPORT_ACK = 7,
    CTL_PEERS = 8,
    CTL_PEER = 9,
    CTL_CLOSE_ACK = 10,
    CTL_ST_OK = 0,
    CTL_ST_NO_SERVICE = 1,
    CTL_ST_FULL = 2,
    CTL_ST_TYPE = 3,
    CTL_ST_NO_EXPORT = 4,
    CTL_ST_RIGHTS = 5,
}
-- gen-spec-tables: end

-- Fields of struct unetmm_frame and struct unetmm_control: offset and bytes.
local FRAME = {
    dst = { 0, 6 }, src = { 6, 6 }, ethertype = { 12, 2 },
    version = { 14, 1 }, opcode = { 15, 1 },
    dst_ep = { 16, 2 }, src_ep = { 18, 2 },
    dst_channel = { 20, 2 }, src_channel = { 22, 2 },
    len = { 24, 4 }, flags = { 28, 4 }, psn = { 32, 4 }, offset = { 36, 4 },
    remote = { 40, 8 }, handle = { 48, 4 }, imm = { 52, 4 },
    payload_crc = { 56, 4 }, header_crc = { 60, 4 },
}
local CONTROL = {
    type = { 0, 1 }, status = { 1, 1 }, src_ep = { 2, 2 },
    src_channel = { 4, 2 }, dst_ep = { 6, 2 }, dst_channel = { 8, 2 },
    channel_type = { 10, 1 }, rights = { 11, 1 }, mtu = { 12, 4 },
    service = { 16, 8 }, nonce = { 24, 8 }, psn = { 32, 4 }, request = { 36, 4 },
}
local ETHERNET, HEADER, CONTROL_BYTES = 14, 64, 40

-- Printed for the test when it asks, in place of a dissection.
if os.getenv("UNETMM_LUA_TABLES") then
    for name, value in pairs(C) do print("const", name, value) end
    for struct, fields in pairs({ unetmm_frame = FRAME,
                                  unetmm_control = CONTROL }) do
        for name, at in pairs(fields) do
            print("field", struct, name, at[1], at[2])
        end
    end
end

-- gen-spec-tables: lua-opcodes
local OPCODES = {
    [C.WIRE_DATAGRAM] = "DATAGRAM",
    [C.WIRE_CONTROL] = "CONTROL",
    [C.WIRE_SEND] = "SEND",
    [C.WIRE_ACK] = "ACK",
    [C.WIRE_WRITE] = "WRITE",
    [C.WIRE_READ] = "READ",
    [C.WIRE_ATOMIC] = "ATOMIC",
    [C.WIRE_ANSWER] = "ANSWER",
    [C.WIRE_VOID] = "VOID",
    [C.WIRE_SEND_TO] = "SEND_TO",
}
-- Members that must be zero, by opcode.
local ZERO = {
    [C.WIRE_SEND] = { },
    [C.WIRE_ACK] = { "len", },
    [C.WIRE_WRITE] = { },
    [C.WIRE_READ] = { "len", },
    [C.WIRE_ATOMIC] = { },
    [C.WIRE_ANSWER] = { "offset", "remote", "imm", },
    [C.WIRE_VOID] = { "offset", "remote", "imm", "len", },
}
-- The flags that there may be, beside the checksum.
local FLAGS = {
    [C.WIRE_SEND] = 0 + C.WIRE_F_LAST + C.WIRE_F_ASK + C.WIRE_F_IMM + C.WIRE_F_INV +
        C.WIRE_F_ACK,
    [C.WIRE_ACK] = 0 + C.WIRE_F_ASK + C.WIRE_F_CREDIT,
    [C.WIRE_WRITE] = 0 + C.WIRE_F_LAST + C.WIRE_F_ASK + C.WIRE_F_NOTIFY + C.WIRE_F_COUNT +
        C.WIRE_F_IMM + C.WIRE_F_KEYED + C.WIRE_F_ACK,
    [C.WIRE_READ] = 0 + C.WIRE_F_ASK + C.WIRE_F_KEYED,
    [C.WIRE_ATOMIC] = 0 + C.WIRE_F_ASK + C.WIRE_F_KEYED,
    [C.WIRE_ANSWER] = 0 + C.WIRE_F_ACK,
    [C.WIRE_VOID] = 0 + C.WIRE_F_ASK + C.WIRE_F_ACK,
}
-- Of these `handle` belongs to a flag.
local HANDLE = {
    [C.WIRE_SEND] = C.WIRE_F_ACK,
    [C.WIRE_ANSWER] = C.WIRE_F_ACK,
    [C.WIRE_VOID] = C.WIRE_F_ACK,
}
local REASONS = {
    [C.WHY_BUFFER] = "longer than the buffer",
    [C.WHY_CHANNEL] = "the channel has failed here",
    [C.WHY_REGION] = "no such region, or another key",
    [C.WHY_RANGE] = "beyond its end, or not aligned",
    [C.WHY_RIGHT] = "not exported for that",
    [C.WHY_MEMORY] = "its memory cannot be used",
    [C.WHY_COUNTER] = "it gives no such event counter",
}
-- gen-spec-tables: end
local ZERO_ELSE = { "psn", "offset", "remote", "handle", "imm" }
HANDLE[C.WIRE_ACK] = C.WIRE_F_CREDIT
ZERO[C.WIRE_SEND_TO] = { "psn", "offset", "remote" }
FLAGS[C.WIRE_SEND_TO] = C.WIRE_F_IMM
local UD_HEAD = 40
local TYPES = {
    [C.CTL_PROBE] = "PROBE", [C.CTL_PROBE_ACK] = "PROBE_ACK",
    [C.CTL_CONNECT] = "CONNECT", [C.CTL_CONNECT_ACK] = "CONNECT_ACK",
    [C.CTL_CLOSE] = "CLOSE", [C.CTL_IMPORT] = "IMPORT",
    [C.CTL_IMPORT_ACK] = "IMPORT_ACK",
    [C.CTL_PEERS] = "PEERS", [C.CTL_PEER] = "PEER",
    [C.CTL_CLOSE_ACK] = "CLOSE_ACK",
}
local STATUSES = {
    [C.CTL_ST_OK] = "OK", [C.CTL_ST_NO_SERVICE] = "no service",
    [C.CTL_ST_FULL] = "full", [C.CTL_ST_TYPE] = "other type wanted",
    [C.CTL_ST_NO_EXPORT] = "not exported", [C.CTL_ST_RIGHTS] = "not allowed",
}

local ACKS = {
    [C.ACK_OK] = "OK", [C.ACK_NOT_READY] = "not ready", [C.ACK_FAILED] = "the channel has ended",
    [C.ACK_REJECTED] = "refused", [C.ACK_PENDING] = "here, and not in its place",
}
local ATOMICS = { [C.ATOMIC_ADD] = "add", [C.ATOMIC_SWAP] = "compare and swap" }

local unetmm = Proto("unetmm", "U-Net/MM")
local f = {
    version = ProtoField.uint8("unetmm.version", "Version"),
    opcode = ProtoField.uint8("unetmm.opcode", "Opcode", base.DEC, OPCODES),
    dst_ep = ProtoField.uint16("unetmm.dst_ep", "Destination endpoint"),
    src_ep = ProtoField.uint16("unetmm.src_ep", "Source endpoint"),
    dst_channel = ProtoField.uint16("unetmm.dst_channel",
                                    "Destination channel"),
    src_channel = ProtoField.uint16("unetmm.src_channel", "Source channel"),
    len = ProtoField.uint32("unetmm.len", "Payload length"),
    flags = ProtoField.uint32("unetmm.flags", "Flags", base.HEX),
    psn = ProtoField.uint32("unetmm.psn", "Packet sequence number"),
    offset = ProtoField.uint32("unetmm.offset", "Offset"),
    remote = ProtoField.uint64("unetmm.remote", "Remote address", base.HEX),
    handle = ProtoField.uint32("unetmm.handle", "Handle", base.HEX),
    imm = ProtoField.uint32("unetmm.imm", "Immediate", base.HEX),
    payload_crc = ProtoField.uint32("unetmm.payload_crc", "Payload CRC32C",
                                    base.HEX),
    header_crc = ProtoField.uint32("unetmm.header_crc", "Header CRC32C",
                                   base.HEX),
}
local g = {
    type = ProtoField.uint8("unetmm.ctl.type", "Message", base.DEC, TYPES),
    status = ProtoField.uint8("unetmm.ctl.status", "Status", base.DEC,
                              STATUSES),
    src_ep = ProtoField.uint16("unetmm.ctl.src_ep", "Sender's endpoint"),
    src_channel = ProtoField.uint16("unetmm.ctl.src_channel",
                                    "Sender's channel"),
    dst_ep = ProtoField.uint16("unetmm.ctl.dst_ep", "Receiver's endpoint"),
    dst_channel = ProtoField.uint16("unetmm.ctl.dst_channel",
                                    "Receiver's channel"),
    channel_type = ProtoField.uint8("unetmm.ctl.channel_type", "Channel type"),
    rights = ProtoField.uint8("unetmm.ctl.rights", "Rights", base.HEX),
    mtu = ProtoField.uint32("unetmm.ctl.mtu", "MTU"),
    service = ProtoField.uint64("unetmm.ctl.service", "Service"),
    nonce = ProtoField.uint64("unetmm.ctl.nonce", "Nonce", base.HEX),
    psn = ProtoField.uint32("unetmm.ctl.psn", "First packet's number"),
    request = ProtoField.uint32("unetmm.ctl.request", "Request", base.HEX),
}
-- Members that have a meaning of their own in some packets
local h = {
    ack_kind = ProtoField.uint32("unetmm.ack.kind", "Kind of ACK", base.DEC, ACKS),
    ack_wait_us = ProtoField.uint32("unetmm.ack.wait_us", "Not ready, microseconds"),
    ack_reason = ProtoField.uint32("unetmm.ack.reason", "Reason", base.DEC, REASONS),
    ack_kept = ProtoField.uint64("unetmm.ack.kept", "Kept packets behind psn", base.HEX),
    ack_limit = ProtoField.uint32("unetmm.ack.limit", "First packet without credit"),
    ack_along = ProtoField.uint32("unetmm.ack.along", "ACK of all packets before"),
    immediate = ProtoField.uint32("unetmm.immediate", "Immediate data", base.HEX),
    counter = ProtoField.uint32("unetmm.counter", "Event counter"),
    to_follow = ProtoField.uint32("unetmm.to_follow", "Bytes to follow"),
    read_bytes = ProtoField.uint32("unetmm.read.bytes", "Bytes wanted", base.DEC, nil,
                                   C.READ_BYTES),
    read_more = ProtoField.uint32("unetmm.read.more", "Requests to follow", base.DEC, nil,
                                  C.READ_MORE),
    atomic_kind = ProtoField.uint32("unetmm.atomic.kind", "Atomic operation", base.DEC, ATOMICS),
    message_bytes = ProtoField.uint64("unetmm.message_bytes", "Length of the message"),
    region = ProtoField.uint32("unetmm.region", "Region"),
    key = ProtoField.uint32("unetmm.key", "Key of the region", base.HEX),
    address = ProtoField.uint64("unetmm.address", "Place in the region, or address", base.HEX),
    q_key = ProtoField.uint32("unetmm.q_key", "Q_Key", base.HEX),
}
local has_crc = ProtoField.bool("unetmm.flags.payload_crc",
                                "Payload checksum present", 32, nil,
                                C.WIRE_F_PAYLOAD_CRC)
local is_last = ProtoField.bool("unetmm.flags.last", "Message ends here",
                                32, nil, C.WIRE_F_LAST)
local asks = ProtoField.bool("unetmm.flags.ask", "Acknowledgement wanted",
                             32, nil, C.WIRE_F_ASK)
local has_ack = ProtoField.bool("unetmm.flags.ack",
                                "Acknowledgement in handle, imm of a write",
                                32, nil,
                                C.WIRE_F_ACK)
local more_flags = {}
for _, row in ipairs({
    { "notify", "Immediate data for a notification", C.WIRE_F_NOTIFY },
    { "count", "For an event counter", C.WIRE_F_COUNT },
    { "credit", "Credit in handle", C.WIRE_F_CREDIT },
    { "keyed", "By key and address", C.WIRE_F_KEYED },
    { "imm", "Immediate data", C.WIRE_F_IMM },
}) do
    table.insert(more_flags, ProtoField.bool("unetmm.flags." .. row[1], row[2], 32, nil, row[3]))
end
local payload = ProtoField.bytes("unetmm.payload", "Payload")
local padding = ProtoField.bytes("unetmm.padding", "Padding")

unetmm.fields = { has_crc, is_last, asks, has_ack, payload, padding }
for _, list in ipairs({ f, g, h, more_flags }) do
    for _, field in pairs(list) do table.insert(unetmm.fields, field) end
end

local bad = {
    header_crc = ProtoExpert.new(
        "unetmm.bad_header_crc", "Header checksum is wrong",
        expert.group.CHECKSUM, expert.severity.ERROR),
    payload_crc = ProtoExpert.new(
        "unetmm.bad_payload_crc", "Payload checksum is wrong",
        expert.group.CHECKSUM, expert.severity.ERROR),
    malformed = ProtoExpert.new(
        "unetmm.malformed", "The card drops this frame as malformed",
        expert.group.MALFORMED, expert.severity.ERROR),
}
unetmm.experts = bad

local eth_dst, eth_src = Field.new("eth.dst"), Field.new("eth.src")

-- CRC32C (Castagnoli), bit-reflected; `bit` is Wireshark's, in every version.
local band, bxor, rshift = bit.band, bit.bxor, bit.rshift
local crc_table = {}
for i = 0, 255 do
    local c = i
    for _ = 1, 8 do
        c = bxor(rshift(c, 1), band(c, 1) == 1 and 0x82f63b78 or 0)
    end
    crc_table[i] = c
end

local function crc32c(bytes)
    local c = 0xffffffff
    for i = 0, bytes:len() - 1 do
        c = bxor(rshift(c, 8), crc_table[band(bxor(c, bytes:get_index(i)),
                                              0xff)])
    end
    -- bit's numbers have a sign.
    return bxor(c, 0xffffffff) % 0x100000000
end

-- The 60 bytes in front of the checksum, Ethernet's among them.
local function header_bytes(tvb)
    local bytes = ByteArray.new()
    for _, field in ipairs({ eth_dst(), eth_src() }) do
        bytes:append(field.range:bytes())
    end
    bytes:append(ByteArray.new(string.format("%04x", C.ETHERTYPE)))
    bytes:append(tvb:range(0, FRAME.header_crc[1] - ETHERNET):bytes())
    return bytes
end

local function at(tvb, place, base)
    return tvb:range(place[1] - base, place[2])
end

local function add_all(tree, tvb, fields, places, base)
    local names = {}
    for name in pairs(fields) do table.insert(names, name) end
    table.sort(names, function(a, b) return places[a][1] < places[b][1] end)
    local items = {}
    for _, name in ipairs(names) do
        items[name] = tree:add_le(fields[name], at(tvb, places[name], base))
    end
    return items
end

-- As recv_write_ok(): the end of a WRITE has one use for imm at most, and its other
-- packets have the bytes that follow there.  Returns the complaint.
local function write_complaint(flags, imm)
    local uses = band(flags, C.WIRE_F_NOTIFY + C.WIRE_F_COUNT + C.WIRE_F_IMM
                             + C.WIRE_F_ACK)
    if band(flags, C.WIRE_F_LAST) == 0 then
        return (uses ~= 0 or imm > C.MAX_STRICT_MESSAGE) and
               "imm has another use in the middle of a write" or nil
    elseif band(uses, uses - 1) ~= 0 then
        return "two uses of imm"
    end
    return uses == 0 and imm ~= 0 and "imm must be zero" or nil
end

-- As recv_ud_ok().  Returns the complaint.
local function ud_complaint(flags, imm, len)
    return len < UD_HEAD and "shorter than its network header" or
           band(flags, C.WIRE_F_IMM) == 0 and imm ~= 0 and "imm must be zero" or nil
end

-- The same checks as in recv_header() and recv_members_ok(), recv/recv.c.
-- Returns the complaint.
local function complaint(tvb, len)
    local flags = at(tvb, FRAME.flags, ETHERNET):le_uint()
    if at(tvb, FRAME.version, ETHERNET):uint() ~= C.WIRE_VERSION then
        return "unknown version"
    elseif band(flags, bit.bnot(C.WIRE_F_ALL)) ~= 0 then
        return "unknown flags"
    elseif len > C.MAX_PAYLOAD then
        return "payload longer than a message may be"
    elseif len > tvb:reported_len() - (HEADER - ETHERNET) then
        return "payload longer than the frame"
    end
    local opcode = at(tvb, FRAME.opcode, ETHERNET):uint()
    if not OPCODES[opcode] then
        return "unknown opcode"
    elseif band(flags, bit.bnot((FLAGS[opcode] or 0)
                                + C.WIRE_F_PAYLOAD_CRC)) ~= 0 then
        return "flags of another opcode"
    end
    for _, name in ipairs(ZERO[opcode] or ZERO_ELSE) do
        if at(tvb, FRAME[name], ETHERNET):le_uint64() ~= UInt64(0) then
            return name .. " must be zero"
        end
    end
    if HANDLE[opcode] and band(flags, HANDLE[opcode]) == 0 and
       at(tvb, FRAME.handle, ETHERNET):le_uint64() ~= UInt64(0) then
        return "a handle without its flag"
    end
    local imm = at(tvb, FRAME.imm, ETHERNET):le_uint()
    return opcode == C.WIRE_WRITE and write_complaint(flags, imm) or
           opcode == C.WIRE_SEND_TO and ud_complaint(flags, imm, len) or nil
end

local function check_crcs(tvb, items, data)
    local sum = crc32c(header_bytes(tvb))
    if sum ~= at(tvb, FRAME.header_crc, ETHERNET):le_uint() then
        items.header_crc:add_proto_expert_info(
            bad.header_crc, string.format("Header checksum is wrong, "
                                          .. "should be 0x%08x", sum))
    else
        items.header_crc:append_text(" (correct)")
    end
    local flags = at(tvb, FRAME.flags, ETHERNET):le_uint()
    if not data or band(flags, C.WIRE_F_PAYLOAD_CRC) == 0 then
        return
    end
    sum = crc32c(data:bytes())
    if sum ~= at(tvb, FRAME.payload_crc, ETHERNET):le_uint() then
        items.payload_crc:add_proto_expert_info(
            bad.payload_crc, string.format("Payload checksum is wrong, "
                                           .. "should be 0x%08x", sum))
    else
        items.payload_crc:append_text(" (correct)")
    end
end

-- Adds a member of the header as a field of h; returns its value.
local function add_as(tree, tvb, field, member)
    local range = at(tvb, FRAME[member], ETHERNET)
    tree:add_le(field, range)
    return range:len() == 8 and range:le_uint64() or range:le_uint()
end

local function add_region(tree, tvb)
    add_as(tree, tvb, h.region, "handle")
    add_as(tree, tvb, h.key, "offset")
    add_as(tree, tvb, h.address, "remote")
end

-- Adds the members that flags give a meaning; returns words for the summary.
local function add_by_flags(tree, tvb, opcode, flags)
    local text = band(flags, C.WIRE_F_LAST) ~= 0 and ", last" or ""
    if band(flags, C.WIRE_F_IMM + C.WIRE_F_NOTIFY) ~= 0 then
        text = text .. string.format(", immediate 0x%x", add_as(tree, tvb, h.immediate, "imm"))
    elseif band(flags, C.WIRE_F_COUNT) ~= 0 then
        text = text .. ", event counter " .. add_as(tree, tvb, h.counter, "imm")
    elseif opcode == C.WIRE_WRITE and band(flags, C.WIRE_F_LAST) == 0 then
        text = text .. ", " .. add_as(tree, tvb, h.to_follow, "imm") .. " to follow"
    end
    if band(flags, C.WIRE_F_ACK) ~= 0 then
        text = text .. ", ACK of all before " .. add_as(
            tree, tvb, h.ack_along, opcode == C.WIRE_WRITE and "imm" or "handle")
    end
    return text
end

-- By opcode: adds the members of such packets, and returns words for the summary.
local members = {}

members[C.WIRE_ACK] = function(tree, tvb, flags)
    local kind = add_as(tree, tvb, h.ack_kind, "imm")
    local text = ", " .. (ACKS[kind] or "kind " .. kind)
    add_as(tree, tvb, h.ack_kept, "remote")
    if band(flags, C.WIRE_F_CREDIT) ~= 0 then
        add_as(tree, tvb, h.ack_limit, "handle")
    end
    if kind == C.ACK_NOT_READY then
        return text .. ", again after " .. add_as(tree, tvb, h.ack_wait_us, "offset") .. " us"
    elseif kind == C.ACK_FAILED or kind == C.ACK_REJECTED then
        local why = add_as(tree, tvb, h.ack_reason, "offset")
        return text .. ": " .. (REASONS[why] or "reason " .. why)
    end
    return text
end

members[C.WIRE_SEND] = function(tree, tvb)
    add_as(tree, tvb, h.message_bytes, "remote")
    return ""
end

members[C.WIRE_WRITE] = function(tree, tvb)
    add_region(tree, tvb)
    return ""
end

members[C.WIRE_READ] = function(tree, tvb)
    add_region(tree, tvb)
    add_as(tree, tvb, h.read_more, "imm")
    return string.format(", %d bytes wanted",
                         band(add_as(tree, tvb, h.read_bytes, "imm"), C.READ_BYTES))
end

members[C.WIRE_ATOMIC] = function(tree, tvb)
    local kind
    add_region(tree, tvb)
    kind = add_as(tree, tvb, h.atomic_kind, "imm")
    return ", " .. (ATOMICS[kind] or "operation " .. kind)
end

members[C.WIRE_SEND_TO] = function(tree, tvb)
    add_as(tree, tvb, h.q_key, "handle")
    return ""
end

-- True if packets of the opcode have that member.
local function has_member(opcode, name)
    for _, zero in ipairs(ZERO[opcode] or ZERO_ELSE) do
        if zero == name then return false end
    end
    return true
end

-- The line of a frame in the list of all; adds the fields of its opcode.
local function summary(tree, tvb, len)
    local opcode = at(tvb, FRAME.opcode, ETHERNET):uint()
    local flags = at(tvb, FRAME.flags, ETHERNET):le_uint()
    local text = OPCODES[opcode] or "opcode " .. opcode
    if has_member(opcode, "psn") then
        text = text .. " psn " .. at(tvb, FRAME.psn, ETHERNET):le_uint()
    end
    text = text .. string.format(
        " endpoint %d channel %d to endpoint %d channel %d",
        at(tvb, FRAME.src_ep, ETHERNET):le_uint(),
        at(tvb, FRAME.src_channel, ETHERNET):le_uint(),
        at(tvb, FRAME.dst_ep, ETHERNET):le_uint(),
        at(tvb, FRAME.dst_channel, ETHERNET):le_uint())
    if has_member(opcode, "len") then
        text = text .. string.format(", %d bytes", len)
    end
    if members[opcode] then
        text = text .. members[opcode](tree, tvb, flags)
    end
    return text .. add_by_flags(tree, tvb, opcode, flags)
end

local function dissect_control(data, tree, pinfo)
    if data:len() < CONTROL_BYTES then
        tree:add_proto_expert_info(bad.malformed,
                                   "Control message is too short")
        return
    end
    local sub = tree:add(unetmm, data, "Control message")
    local tvb = data:tvb()
    add_all(sub, tvb, g, CONTROL, 0)
    local kind = at(tvb, CONTROL.type, 0):uint()
    local text = TYPES[kind] or ("control type " .. kind)
    if kind == C.CTL_PROBE_ACK or kind == C.CTL_CONNECT_ACK or
       kind == C.CTL_IMPORT_ACK then
        local status = at(tvb, CONTROL.status, 0):uint()
        text = text .. ", " .. (STATUSES[status] or ("status " .. status))
    end
    sub:append_text(": " .. text)
    pinfo.cols.info = text
end

function unetmm.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "U-Net/MM"
    local tree = root:add(unetmm, tvb())
    if tvb:reported_len() < HEADER - ETHERNET then
        tree:add_proto_expert_info(bad.malformed,
                                   "Frame is shorter than its header")
        return
    end
    local items = add_all(tree, tvb, f, FRAME, ETHERNET)
    for _, flag in ipairs({ has_crc, is_last, asks, has_ack }) do
        items.flags:add_le(flag, at(tvb, FRAME.flags, ETHERNET))
    end
    for _, flag in ipairs(more_flags) do
        items.flags:add_le(flag, at(tvb, FRAME.flags, ETHERNET))
    end
    local len = at(tvb, FRAME.len, ETHERNET):le_uint()
    local left = tvb:len() - (HEADER - ETHERNET)
    local data = len > 0 and len <= left and
                 tvb:range(HEADER - ETHERNET, len) or nil
    check_crcs(tvb, items, data)
    local why = complaint(tvb, len)
    if why then
        tree:add_proto_expert_info(bad.malformed, "Malformed: " .. why)
    end
    pinfo.cols.info = summary(tree, tvb, len)
    if not data then
        return
    end
    if at(tvb, FRAME.opcode, ETHERNET):uint() == C.WIRE_CONTROL then
        dissect_control(data, tree, pinfo)
    else
        tree:add(payload, data)
    end
    if left > len then
        tree:add(padding, tvb:range(HEADER - ETHERNET + len))
    end
end

DissectorTable.get("ethertype"):add(C.ETHERTYPE, unetmm)
