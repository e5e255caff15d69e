#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the C source of the module _unetmm, by cffi in API mode.

usage: build_native.py UAPI CDEF OUTPUT [MORE-C]

UAPI is the header linux/unetmm.h, all numbers of which are declared; CDEF has the other
declarations; MORE-C is a file of further ones, for tests.
"""
import re
import sys

import cffi


def main():
    """The source depends on the declarations alone, not on the machine."""
    uapi, cdef, output, *more = sys.argv[1:]
    builder = cffi.FFI()
    with open(uapi, encoding="utf-8") as file:
        names = re.findall(r"^#define (UNETMM_(?!IOC_)\w+)[ \t]+\(?\d", file.read(), re.M)
    text = "".join(f"#define {name} ...\n" for name in names)
    for path in [cdef, *more]:
        with open(path, encoding="utf-8") as file:
            text += file.read()
    builder.cdef(text)
    include = "#include <libunetmm.h>\n#include <sys/uio.h>\n"
    if more:
        include += '#include "fake_loop.h"\n'
    builder.set_source("_unetmm", include)
    builder.emit_c_code(output)


main()
