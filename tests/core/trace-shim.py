#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Turn the card's trace-events into a header for programs outside QEMU.

usage: trace-shim.py TRACE-EVENTS HEADER

Each event becomes an inline function that prints one line to stderr when the
variable unetmm_trace is not zero, in the format that QEMU would use.
"""
import re
import sys

EVENT = re.compile(r'^(\w+)\((.*?)\)\s+(".*)$')


def convert(line):
    name, params, fmt = EVENT.match(line).groups()
    names = [] if params == 'void' else [p.split()[-1].lstrip('*')
                                         for p in params.split(',')]
    args = ''.join(', ' + n for n in names)
    return (f'static inline void trace_{name}({params})\n{{\n'
            f'    if (unetmm_trace) {{\n'
            f'        fprintf(stderr, "{name} " {fmt} "\\n"{args});\n'
            f'    }}\n}}\n')


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding='utf-8') as src:
        events = [convert(l) for l in src if l.strip() and l[0] != '#']
    with open(sys.argv[2], 'w', encoding='utf-8') as out:
        out.write('/* Generated from trace-events: do not edit. */\n'
                  '#ifndef TRACE_UNETMM_H\n#define TRACE_UNETMM_H\n'
                  '#include <inttypes.h>\n#include <stdbool.h>\n'
                  '#include <stdio.h>\nextern int unetmm_trace;\n')
        out.write('\n'.join(events))
        out.write('#endif\n')


if __name__ == '__main__':
    main()
