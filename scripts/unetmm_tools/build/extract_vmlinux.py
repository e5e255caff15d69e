#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the uncompressed kernel (an ELF file) that a bzImage carries.

Usage: extract_vmlinux.py BZIMAGE VMLINUX

An emulated CPU takes longer to unpack the kernel than to boot it; QEMU starts
the ELF file directly, by its PVH entry.
"""

import gzip
import lzma
import struct
import subprocess
import sys

# Fields of the setup header: Linux, Documentation/x86/boot.rst.
SETUP_SECTS = 0x1F1
PAYLOAD_OFFSET = 0x248


def payload(image):
    """The compressed kernel in a bzImage."""
    if image[0x202:0x206] != b"HdrS":
        raise ValueError("not a bzImage")
    sectors = image[SETUP_SECTS] or 4
    offset, length = struct.unpack_from("<II", image, PAYLOAD_OFFSET)
    start = (sectors + 1) * 512 + offset
    return image[start:start + length]


def decompress(data):
    """Finds the stream by its magic number; a length follows the stream."""
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data[:-4])
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        done = subprocess.run(["zstd", "-dcq"], input=data[:-4], check=True,
                              stdout=subprocess.PIPE)
        return done.stdout
    raise ValueError("compressed in an unknown way")


def main():
    """Extracts, and checks that QEMU can start the result."""
    with open(sys.argv[1], "rb") as file:
        kernel = decompress(payload(file.read()))
    if not kernel.startswith(b"\x7fELF"):
        raise ValueError("the payload is no ELF file")
    with open(sys.argv[2], "wb") as file:
        file.write(kernel)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"error: {sys.argv[1]}: {error}")
