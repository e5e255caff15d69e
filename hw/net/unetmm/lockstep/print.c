/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log=FILE: one line for each frame, and with print-ns= a fingerprint of the
 * machine at each multiple of that time.  Two runs are the same if their files
 * are; the first line that differs shows where they part.
 *
 *   TIME tx|rx|drop ARRIVAL BYTES CRC
 *   TIME print cpu=CRC ... icount=N RAMBLOCK=HASH ...
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "exec/cpu-common.h"
#include "hw/core/cpu.h"
#include "lockstep.h"
#include <zlib.h>

void lockstep_print_frame(LockstepPort *port, const char *event, int64_t time,
                          const uint8_t *data, uint32_t bytes)
{
    if (port->log) {
        fprintf(port->log, "%" PRId64 " %s %" PRId64 " %" PRIu32 " %08lx\n",
                lockstep_now(), event, time, bytes, crc32(0, data, bytes));
    }
}

/* Four independent sums, so that the host's processor does not wait. */
static int print_block(RAMBlock *block, void *opaque)
{
    uint64_t sums[4] = { 1, 2, 3, 4 };
    const uint64_t *word = qemu_ram_get_host_addr(block);
    size_t words = qemu_ram_get_used_length(block) / sizeof(*word);
    uint64_t all = 0;

    for (size_t i = 0; i + 4 <= words; i += 4) {
        for (int j = 0; j < 4; j++) {
            sums[j] = (sums[j] ^ word[i + j]) * 0xff51afd7ed558ccdull;
            sums[j] ^= sums[j] >> 29;
        }
    }
    for (int j = 0; j < 4; j++) {
        all = (all ^ sums[j]) * 0xc4ceb9fe1a85ec53ull;
    }
    fprintf(opaque, " %s=%016" PRIx64, qemu_ram_get_idstr(block), all);
    return 0;
}

static void print_cpu(FILE *log, CPUState *cpu)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (!file) {
        return;
    }
    cpu_dump_state(cpu, file, CPU_DUMP_FPU);
    fclose(file);
    fprintf(log, " cpu=%08lx", crc32(0, (uint8_t *)text, bytes));
    free(text);
}

static void print_machine(void *opaque)
{
    LockstepPort *port = opaque;
    int64_t now = lockstep_now();
    CPUState *cpu;

    fprintf(port->log, "%" PRId64 " print", now);
    CPU_FOREACH(cpu) {
        print_cpu(port->log, cpu);
    }
    fprintf(port->log, " icount=%" PRId64, icount_get_raw());
    qemu_ram_foreach_block(print_block, port->log);
    fprintf(port->log, "\n");
    lockstep_print_begin(port);
}

void lockstep_print_begin(LockstepPort *port)
{
    if (port->log && port->print_ns) {
        uint64_t next = lockstep_now() / port->print_ns + 1;

        timer_mod(port->print, next * port->print_ns);
    }
}

bool lockstep_print_init(LockstepPort *port, Error **errp)
{
    if (!port->log_path) {
        if (port->print_ns) {
            error_setg(errp, "lockstep: print-ns needs log=FILE");
            return false;
        }
        return true;
    }
    port->log = fopen(port->log_path, "we");
    if (!port->log) {
        error_setg_errno(errp, errno, "lockstep: log=%s", port->log_path);
        return false;
    }
    setvbuf(port->log, NULL, _IOLBF, 0);
    port->print = timer_new_ns(QEMU_CLOCK_VIRTUAL, print_machine, port);
    return true;
}
