# SPDX-License-Identifier: GPL-2.0-or-later
"""SMC's netlink, as smcd(8) and smc_dbg use it: smc.py eid NAME adds an EID, which SMC-R of version
2 needs on both sides; smc.py stats prints counters of connections."""

import socket
import struct
import sys

GENERIC, CONTROL = 16, 16
REQUEST, ACK, DUMP = 1, 4, 0x300
ERROR, DONE = 2, 3
GET_FAMILY, FAMILY_ID, FAMILY_NAME = 3, 1, 2
GET_STATS, GET_FALLBACKS, ADD_EID = 7, 8, 10
STATS, FALLBACKS = 7, 8
SMCR = 2
# Counters of one kind of SMC, by the number of their attribute
COUNTERS = {8: "client_v2", 10: "server_v2", 16: "rx_bytes", 17: "tx_bytes"}


def attribute(number, data):
    """One attribute of netlink."""
    return struct.pack("HH", 4 + len(data), number) + data + b"\0" * (-len(data) % 4)


def attributes(data):
    """{number: bytes}"""
    found = {}
    while len(data) >= 4:
        length, number = struct.unpack_from("HH", data)
        found[number & 0x3fff] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


def ask(family, command, flags, body=b""):
    """Yields the attributes of each answer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC) as sock:
        message = struct.pack("BBH", command, 1, 0) + body
        sock.send(struct.pack("IHHII", 16 + len(message), family, REQUEST | flags, 1, 0) + message)
        while True:
            data = sock.recv(65536)
            while data:
                length, kind = struct.unpack_from("IH", data)
                if kind == ERROR:
                    error = struct.unpack_from("i", data, 16)[0]
                    if error:
                        raise OSError(-error, f"command {command}")
                    return
                if kind == DONE:
                    return
                yield attributes(data[20:length])
                if not flags & (DUMP | ACK):
                    return
                data = data[(length + 3) & ~3:]


def number_of(data):
    """An unsigned number of any size."""
    return int.from_bytes(data, sys.byteorder)


def main():
    """The command line."""
    name = attribute(FAMILY_NAME, b"SMC_GEN_NETLINK\0")
    family = number_of(next(ask(CONTROL, GET_FAMILY, 0, name))[FAMILY_ID])
    if sys.argv[1] == "eid":
        list(ask(family, ADD_EID, ACK, attribute(1, sys.argv[2].ljust(32).encode() + b"\0")))
        return
    words = dict.fromkeys(COUNTERS.values(), 0)
    for answer in ask(family, GET_STATS, DUMP):
        counts = attributes(attributes(answer[STATS])[SMCR])
        words.update({COUNTERS[key]: number_of(counts[key]) for key in COUNTERS})
    words["fallbacks"] = 0
    for answer in ask(family, GET_FALLBACKS, DUMP):
        reason = attributes(answer[FALLBACKS])
        if 4 in reason:
            print(f"fall back {number_of(reason[4]):#x}: {number_of(reason[5])} times")
            words["fallbacks"] += number_of(reason[5])
    print(" ".join(f"{key}={value}" for key, value in words.items()))


main()
