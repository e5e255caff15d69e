# SPDX-License-Identifier: GPL-2.0-or-later
"""A program of TCP sockets, which knows nothing of RDMA: echo.py serve; echo.py send ADDRESS.

The client sends messages of many lengths and compares each answer; then 4 MiB, with the answer
on its way."""

import os
import socket
import sys
import threading

PORT = 5000
BYTES = 4 << 20


def serve():
    """Answers one client with its own bytes."""
    with socket.create_server(("10.7.0.1", PORT)) as server, server.accept()[0] as peer:
        while data := peer.recv(65536):
            peer.sendall(data)


def receive(peer, length):
    """Reads so many bytes, or fewer at the end."""
    got = bytearray()
    while len(got) < length and (data := peer.recv(length - len(got))):
        got += data
    return bytes(got)


def send_all(peer, data):
    """Sends and says that this was all."""
    peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)


def send(address):
    """Returns how many bytes have come back as they were."""
    total = 0
    with socket.create_connection((address, PORT)) as peer:
        for length in (1, 8, 100, 4096, 16384) * 10:
            data = os.urandom(length)
            peer.sendall(data)
            if receive(peer, length) != data:
                sys.exit(f"{length} bytes: another answer")
            total += length
        data = os.urandom(BYTES)
        sender = threading.Thread(target=send_all, args=(peer, data))
        sender.start()
        if receive(peer, BYTES + 1) != data:
            sys.exit("other bytes have come back")
        sender.join()
    return total + BYTES


if sys.argv[1] == "serve":
    serve()
else:
    print(f"{send(sys.argv[2])} bytes")
