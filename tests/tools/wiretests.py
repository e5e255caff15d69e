# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the Wireshark dissector and its coloring rules, for tests/tools/run."""

import os
import re
import shutil
import struct
import subprocess

from unetmm_tools import SCRIPTS
from unetmm_tools.check.taptests import require
from unetmm_tools.guest import pair

REPO = os.path.dirname(SCRIPTS)
WIRESHARK = os.path.join(REPO, "tools", "wireshark")
LUA = os.path.join(WIRESHARK, "unetmm.lua")
LIMIT = 800
# A client may be up before the server's driver answers.
WHEN_THERE = """#!/bin/sh
tries=0
until %s; do
    tries=$((tries + 1)); [ $tries -lt 50 ] || exit 1
done
"""


def checked(command, env=None):
    """Runs a command that must succeed; returns its output."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=LIMIT, check=False, errors="replace",
                          env={**os.environ, **(env or {})})
    require(done.returncode == 0, f"{command[0]} ended with "
            f"{done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def header_text():
    """The card's headers, without comments."""
    text = ""
    for name in ("unetmm_user.h", "unetmm_hw.h", "unetmm_wire.h"):
        with open(os.path.join(REPO, "hw", "net", "unetmm", "abi", name),
                  encoding="utf-8") as file:
            text += file.read()
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def header_fields(text, name):
    """{field: (offset, bytes)} of a struct, whose size is asserted there."""
    body = re.search(r"struct " + name + r" \{(.*?)\n\};", text, re.S)[1]
    fields, offset = {}, 0
    for bits, field, many in re.findall(
            r"unetmm_[lu]e?(\d+) (\w+)(?:\[(\d+)\])?;", body):
        size = int(bits) // 8 * int(many or 1)
        fields[field] = offset, size
        offset += size
    size = re.search(r"sizeof\(struct " + name + r"\) == (\d+)", text)[1]
    require(offset == int(size), f"{name} has {offset} bytes, not {size}")
    return fields


def lua_constants(_directory):
    """dissector: its tables are those of the header"""
    out = checked(["tshark", "-X", f"lua_script:{LUA}", "-v"],
                  {"UNETMM_LUA_TABLES": "1"})
    consts = {n: int(v) for n, v in
              re.findall(r"^const\s(\w+)\s(\d+)", out, re.M)}
    fields = {}
    for name, field, offset, size in re.findall(
            r"^field\s(\w+)\s(\w+)\s(\d+)\s(\d+)", out, re.M):
        fields.setdefault(name, {})[field] = int(offset), int(size)
    text = header_text()
    real = {n: int(v.rstrip("u"), 0) for n, v in re.findall(
        r"#define UNETMM_((?:WIRE|CTL|ACK|WHY|READ|ATOMIC)_\w+|ETHERTYPE|MAX_PAYLOAD)\s+(\w+)",
        text) if n != "WIRE_H"}
    longest = re.search(r"UNETMM_MAX_STRICT_MESSAGE +\((\d+)u << 20\)", text)
    real["MAX_STRICT_MESSAGE"] = int(longest[1]) << 20
    require(consts == real, f"{set(consts.items()) ^ set(real.items())}")
    for name in ("unetmm_frame", "unetmm_control"):
        real = header_fields(text, name)
        require(fields.get(name) == real, f"{fields.get(name)} != {real}")


def crc32c(data):
    """Bit by bit, from the definition."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def pcap_frames(path):
    """The frames of QEMU's capture file."""
    with open(path, "rb") as file:
        data = file.read()
    frames, at = [], 24
    while at + 16 <= len(data):
        size = struct.unpack_from("=I", data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


def verdicts(frames):
    """({number: bad header}, {number: bad payload}), counted from 1."""
    header, payload = set(), set()
    for number, frame in enumerate(frames, 1):
        size, flags = struct.unpack_from("<II", frame, 24)
        sums = struct.unpack_from("<II", frame, 56)
        if crc32c(frame[:60]) != sums[1]:
            header.add(number)
        if flags & 1 and 0 < size <= len(frame) - 64 and \
                crc32c(frame[64:64 + size]) != sums[0]:
            payload.add(number)
    return header, payload


def tshark(capture, *arguments):
    """The output of tshark for a capture."""
    out = checked(["tshark", "-X", f"lua_script:{LUA}", "-r", capture,
                   *arguments])
    require("Lua" not in out, out[:2000])
    return out


def numbers(capture, condition):
    """Frames for which a display filter holds."""
    out = tshark(capture, "-Y", condition, "-T", "fields",
                 "-e", "frame.number")
    return {int(line) for line in out.splitlines() if line.isdigit()}


# Opcodes, and flags (unetmm_wire.h)
DATAGRAM, SEND, ACK, WRITE, READ, ATOMIC, ANSWER, VOID, SEND_TO = 1, 3, 4, 5, 6, 7, 8, 9, 10
LAST, ASK, NOTIFY, COUNT, CREDIT, KEYED, ALONG, IMM = (1 << bit for bit in range(1, 9))
COLUMNS = ("opcode", "psn", "ack.kind", "ack.wait_us", "ack.reason", "ack.kept", "ack.limit",
           "ack.along", "immediate", "counter", "read.bytes", "read.more", "atomic.kind",
           "message_bytes", "region", "key", "address", "q_key", "flags.imm", "flags.keyed")
# Members of the header, columns that are not empty, words of the summary, a coloring rule
FRAMES = (
    ({"opcode": DATAGRAM, "data": b"x"}, {}, "DATAGRAM endpoint 3 channel 5 to endpoint 4 channel 6, "
     "1 bytes", "message"),
    ({"opcode": SEND, "psn": 7, "remote": 1, "imm": 9, "handle": 8, "flags": LAST | IMM | ALONG,
      "data": b"x"}, {"psn": 7, "message_bytes": 1, "immediate": "0x00000009", "ack.along": 8},
     "SEND psn 7 endpoint 3 channel 5 to endpoint 4 channel 6, 1 bytes, last, immediate 0x9, "
     "ACK of all before 8", "message"),
    ({"opcode": ACK, "psn": 8, "remote": 5, "handle": 70, "flags": CREDIT},
     {"psn": 8, "ack.kind": 0, "ack.kept": "0x0000000000000005", "ack.limit": 70},
     "ACK psn 8 endpoint 3 channel 5 to endpoint 4 channel 6, OK", "ACK"),
    ({"opcode": ACK, "psn": 8, "imm": 1, "offset": 640},
     {"psn": 8, "ack.kind": 1, "ack.wait_us": 640, "ack.kept": "0x0000000000000000"},
     "not ready, again after 640 us", "ACK, not ready"),
    ({"opcode": ACK, "psn": 8, "imm": 2, "offset": 2},
     {"psn": 8, "ack.kind": 2, "ack.reason": 2, "ack.kept": "0x0000000000000000"},
     "the channel has ended: the channel has failed here", "ACK, refused"),
    ({"opcode": ACK, "psn": 8, "imm": 3, "offset": 5},
     {"psn": 8, "ack.kind": 3, "ack.reason": 5, "ack.kept": "0x0000000000000000"},
     "refused: not exported for that", "ACK, refused"),
    ({"opcode": ACK, "psn": 8, "imm": 4},
     {"psn": 8, "ack.kind": 4, "ack.kept": "0x0000000000000000"},
     "here, and not in its place", "ACK"),
    ({"opcode": ACK, "psn": 8, "imm": 77}, {"psn": 8, "ack.kind": 77,
                                            "ack.kept": "0x0000000000000000"}, "kind 77", "ACK"),
    ({"opcode": WRITE, "psn": 1, "handle": 2, "offset": 3, "remote": 16, "imm": 4, "data": b"x",
      "flags": LAST | NOTIFY},
     {"psn": 1, "region": 2, "key": "0x00000003", "address": "0x0000000000000010",
      "immediate": "0x00000004"}, "WRITE psn 1", "WRITE"),
    ({"opcode": WRITE, "psn": 1, "imm": 4, "data": b"x", "flags": LAST | COUNT},
     {"psn": 1, "region": 0, "key": "0x00000000", "address": "0x0000000000000000", "counter": 4},
     "event counter 4", "WRITE"),
    ({"opcode": WRITE, "psn": 1, "imm": 4, "data": b"x", "flags": LAST | ALONG},
     {"psn": 1, "region": 0, "key": "0x00000000", "address": "0x0000000000000000", "ack.along": 4},
     "ACK of all before 4", "WRITE"),
    ({"opcode": WRITE, "psn": 1, "imm": 4, "data": b"x"},
     {"psn": 1, "region": 0, "key": "0x00000000", "address": "0x0000000000000000"},
     "4 to follow", "WRITE"),
    ({"opcode": READ, "psn": 1, "imm": 3 << 17 | 4096, "flags": KEYED, "offset": 3},
     {"psn": 1, "region": 0, "key": "0x00000003", "address": "0x0000000000000000",
      "read.bytes": 4096, "read.more": 3}, "READ psn 1 endpoint 3 channel 5 to endpoint 4 channel "
     "6, 4096 bytes wanted", "READ"),
    ({"opcode": ATOMIC, "psn": 1, "imm": 1, "data": bytes(8)},
     {"psn": 1, "region": 0, "key": "0x00000000", "address": "0x0000000000000000",
      "atomic.kind": 1}, "ATOMIC psn 1 endpoint 3 channel 5 to endpoint 4 channel 6, 8 bytes, add",
     "READ"),
    ({"opcode": ANSWER, "psn": 1, "data": b"xy"}, {"psn": 1}, "ANSWER psn 1", "READ"),
    ({"opcode": VOID, "psn": 1}, {"psn": 1}, "VOID psn 1", "message"),
    ({"opcode": SEND_TO, "handle": 9, "imm": 5, "flags": IMM, "data": bytes(41)},
     {"q_key": "0x00000009", "immediate": "0x00000005"}, "SEND_TO endpoint 3", "message"),
    ({"opcode": ACK, "psn": 8, "data": b"x"}, {"psn": 8, "ack.kind": 0,
                                               "ack.kept": "0x0000000000000000"},
     "Malformed: len must be zero", "bad frame"),
)


def frame(opcode, psn=0, offset=0, remote=0, handle=0, imm=0, flags=0, data=b""):
    """A frame with its checksums, of endpoint 3 and channel 5 to endpoint 4 and channel 6."""
    head = bytes.fromhex("525400000001525400000002") + struct.pack(">H", 0x88b5) + struct.pack(
        "<BBHHHHIIIIQIII", 1, opcode, 4, 3, 6, 5, len(data), flags | 1, psn, offset, remote,
        handle, imm, crc32c(data))
    return head + struct.pack("<I", crc32c(head)) + data


def write_capture(directory):
    """FRAMES as a file."""
    path = os.path.join(directory, "frames.pcap")
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, 1))
        for members, *_ in FRAMES:
            data = frame(**members)
            file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)
    return path


def lua_names(directory):
    """dissector: the names of packets, acknowledgements and immediates, as text and as fields"""
    capture = write_capture(directory)
    out = tshark(capture, "-T", "fields", "-E", "separator=|", *(
        word for name in COLUMNS for word in ("-e", f"unetmm.{name}")))
    lines = [line for line in out.splitlines() if "|" in line]
    require(len(lines) == len(FRAMES), out)
    for line, (members, fields, *_) in zip(lines, FRAMES):
        found = {name: value for name, value in zip(COLUMNS, line.split("|")) if value}
        flags = members.get("flags", 0)
        fields = {**fields, "opcode": members["opcode"], "psn": members.get("psn", 0),
                  "flags.imm": int(bool(flags & IMM)), "flags.keyed": int(bool(flags & KEYED))}
        require(found == {name: str(value) for name, value in fields.items()},
                f"{members}: {found}")
    lines = re.split(r"^Frame \d+: ", tshark(capture, "-V"), flags=re.M)[1:]
    summary = [line for line in tshark(capture).splitlines() if "U-Net/MM" in line]
    require(len(lines) == len(summary) == len(FRAMES), f"{lines}\n{summary}")
    for said, line, (members, _, words, _) in zip(lines, summary, FRAMES):
        require(words in line or words in said, f"{members}: {line}")


def lua_colors(directory):
    """dissector: each frame has its coloring rule"""
    shutil.copy(os.path.join(WIRESHARK, "colorfilters"), directory)
    out = checked(["tshark", "-X", f"lua_script:{LUA}", "-r", write_capture(directory), "--color",
                   "-T", "fields", "-e", "frame.coloring_rule.name"],
                  {"WIRESHARK_CONFIG_DIR": directory})
    found = re.findall("unetmm: (.*)$", out, re.M)
    require(found == [rule for *_, rule in FRAMES], f"{found}\n{out}")


def capture_pair(directory):
    """Messages between two guests, some of them corrupted on request."""
    path = os.path.join(directory, "wire.pcap")
    with pair.Pair(
            "#!/bin/sh\nunetmm-pingpong --listen --timeout 60 || exit 1\n"
            "unetmm-pingpong --listen --reliable --op write --timeout 60\n",
            WHEN_THERE % "unetmm-pingpong 52:54:00:6d:00:01 --size 8,4k "
            "--count 60 --warmup 0 --timeout 60 && "
            "unetmm-pingpong 52:54:00:6d:00:01 --reliable --op write --count 60 "
            "--warmup 0 --timeout 60",
            options=["--device-opts", "x-corrupt=50000,x-seed=3"],
            options_a=["--", "-object",
                       f"filter-dump,id=f0,netdev=n0,file={path}"]) as two:
        require(two.wait(LIMIT) == (0, 0), two.a.results() + two.b.results())
    return path


def lua_capture(directory):
    """dissector: a capture of two guests, checksums checked"""
    capture = capture_pair(directory)
    frames = pcap_frames(capture)
    header, payload = verdicts(frames)
    require(len(frames) >= 240 and header | payload,
            f"{len(frames)} frames, {len(header | payload)} of them bad")
    require(numbers(capture, "unetmm") == set(range(1, len(frames) + 1)),
            "a frame was not dissected")
    require(numbers(capture, "unetmm.bad_header_crc") == header,
            f"other headers than {header} are called bad")
    require(numbers(capture, "unetmm.bad_payload_crc") == payload,
            f"other payloads than {payload} are called bad")
    require(numbers(capture, "unetmm.malformed") <= header,
            "a good frame is called malformed")
    require(len(numbers(capture, "unetmm.opcode == 5")) > 120, "no writes")
    require(numbers(capture, "unetmm.ack.kind == 0 && unetmm.opcode == 4"), "no ACK")
    summary = tshark(capture)
    for words in ("CONNECT", "CONNECT_ACK, OK", " 8 bytes", " 4096 bytes", "WRITE psn ", "ACK psn "):
        require(words in summary, f"no '{words}' in:\n{summary[:3000]}")


TESTS = (lua_constants, lua_names, lua_colors, lua_capture)
