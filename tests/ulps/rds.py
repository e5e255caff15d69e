# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages of RDS: rds.py serve; rds.py send; rds.py stats prints connections and counters.

Each message has the sum of its bytes, and each answer has other bytes and a sum of its own.  Then
the server reads the client's memory by RDMA, and writes there."""

import ctypes
import hashlib
import mmap
import os
import select
import socket
import struct
import sys
import threading

SERVER, CLIENT = ("10.7.0.1", 4000), ("10.7.0.2", 4000)
RDS = 276
FREE_MR = 3
RDMA_ARGS, RDMA_DEST, RDMA_MAP = 1, 2, 3
WRITE, NOTIFY = 1, 0x20
COUNTERS, CONNECTIONS = 10000, 10001
SUM = hashlib.sha256().digest_size
# Lengths of messages, of which RDS sends 4096 bytes at a time, and those that are under way together
LENGTHS = (SUM + 4, 100, 4095, 4096, 4097, 65536, 200000)
BURST = (8192,) * 60 + (40000,) * 10
# RDMA: its bytes, the name of an operation in its notice, and the message of the first one
MAPPED, TOKEN, READING = 300 << 10, 7, b"reading"


def make(number, length):
    """A message: a sum, a number, bytes."""
    rest = struct.pack("I", number) + os.urandom(length - SUM - 4)
    return hashlib.sha256(rest).digest() + rest


def check(message, length):
    """Returns the number of a message of that length; the sum has to be right."""
    if len(message) != length or hashlib.sha256(message[SUM:]).digest() != message[:SUM]:
        sys.exit(f"{len(message)} bytes of {length}, or others than were sent")
    return struct.unpack_from("I", message, SUM)[0]


def opened(address):
    """A socket with a buffer for the longest message."""
    sock = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
    sock.bind(address)
    return sock


def inverse(data):
    """The opposite of each bit."""
    return data.translate(bytes(range(255, -1, -1)))


def rdma(sock, cookie, flags, memory, message):
    """Sends the message with an RDMA operation on the peer's memory, and waits for its end."""
    area = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.c_char.from_buffer(memory)), MAPPED)
    words = struct.pack("7Q", cookie, 0, MAPPED, ctypes.addressof(area), 1, flags | NOTIFY, TOKEN)
    sock.sendmsg([message], [(RDS, RDMA_ARGS, words)], 0, CLIENT)
    # The notice of the end comes without a message.
    told = sock.recvmsg(1, 1024)
    if struct.unpack("Qi", told[1][0][2][:12]) != (TOKEN, 0):
        sys.exit(f"the RDMA operation has ended with {told}")


def remote(sock, cookie):
    """Reads the memory by RDMA, writes the opposite of each bit there, and tells the sum before."""
    memory = mmap.mmap(-1, MAPPED)
    rdma(sock, cookie, 0, memory, READING)
    data = memory[:]
    memory[:] = inverse(data)
    rdma(sock, cookie, WRITE, memory, hashlib.sha256(data).digest())


def serve():
    """Answers messages until the file /tmp/enough is there; RDS drops those that no socket is bound
    for, so /tmp/bound says that this one is."""
    with opened(SERVER) as sock:
        open("/tmp/bound", "w", encoding="ascii").close()
        while not os.path.exists("/tmp/enough"):
            if not select.select([sock], [], [], 0.2)[0]:
                continue
            message, words, _, peer = sock.recvmsg(1 << 20, 1024)
            number = check(message, len(message))
            for _, kind, word in words:
                if kind == RDMA_DEST:
                    remote(sock, struct.unpack("Q", word)[0])
            sock.sendto(make(number, len(message)), peer)


def post(sock, lengths):
    """Sends messages of these lengths, numbered."""
    for number, length in enumerate(lengths):
        sock.sendto(make(number, length), SERVER)


def mapped(sock):
    """Lets the server read and write memory; returns how many bytes were so."""
    memory = mmap.mmap(-1, MAPPED)
    data = os.urandom(MAPPED)
    memory[:] = data
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    cookie = ctypes.c_uint64()
    words = struct.pack("4Q", address, MAPPED, ctypes.addressof(cookie), WRITE)
    # RDS_GET_MR knows no connection, so Linux refuses it: a message has to bring the key.
    sock.sendmsg([make(0, LENGTHS[0])], [(RDS, RDMA_MAP, words)], 0, SERVER)
    said = [sock.recv(1 << 20), sock.recv(1 << 20)]
    if said != [READING, hashlib.sha256(data).digest()] or memory[:] != inverse(data):
        sys.exit("RDMA has moved other bytes")
    check(sock.recv(1 << 20), LENGTHS[0])
    sock.setsockopt(RDS, FREE_MR, struct.pack("2Q", cookie.value, 1))
    return 2 * MAPPED


def send():
    """Sends messages one by one, then many together, and takes the answers."""
    with opened(CLIENT) as sock:
        for length in LENGTHS:
            post(sock, [length])
            check(sock.recv(1 << 20), length)
        sender = threading.Thread(target=post, args=(sock, BURST))
        sender.start()
        for number, length in enumerate(BURST):
            if check(sock.recv(1 << 20), length) != number:
                sys.exit(f"message {number}: another one has come")
        sender.join()
        total = mapped(sock)
    print(f"{sum(LENGTHS) + sum(BURST)} bytes each way, {total} bytes by RDMA")


def info(number, form):
    """The records of a table of RDS."""
    table = ctypes.create_string_buffer(1 << 16)
    length = ctypes.c_int(len(table))
    libc = ctypes.CDLL(None, use_errno=True)
    with socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET) as sock:
        if libc.getsockopt(sock.fileno(), RDS, number, table, ctypes.byref(length)) < 0:
            raise OSError(ctypes.get_errno(), f"table {number} of RDS")
    return struct.iter_unpack(form, table.raw[:length.value])


def stats():
    """Prints the ends and the transport of each connection, then the counters that are not 0."""
    for _, _, local, peer, transport, _, _ in info(CONNECTIONS, "<QQ4s4s16sBB"):
        print("connection", socket.inet_ntoa(local), socket.inet_ntoa(peer),
              transport.rstrip(b"\0").decode())
    for name, value in info(COUNTERS, "<32sQ"):
        if value:
            print(name.rstrip(b"\0").decode(), value)


{"serve": serve, "send": send, "stats": stats}[sys.argv[1]]()
