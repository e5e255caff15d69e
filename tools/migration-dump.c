/*
 * unetmm: prints every value that a card has saved, by its name
 *
 * Reads the card's block of bytes from stdin, makes a card with the properties
 * that the block names, and restores it: the core itself names each value.
 * scripts/migration-dump finds the block in a migration file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "abi/unetmm_host.h"
#include <stdio.h>
#include "card/core.h"

int unetmm_trace;               /* of the trace events: none is printed */

/* ---- A host that does nothing ------------------------------------------- */

/* Any moment: moments are saved as the time that is left. */
#define NOW_NS  (1ll << 40)

static bool no_read(void *host, uint64_t addr, void *buf, size_t bytes)
{
    return false;
}

static bool no_write(void *host, uint64_t addr, const void *buf, size_t bytes)
{
    return false;
}

static bool no_store32(void *host, uint64_t addr, uint32_t value)
{
    return false;
}

static bool no_cmpxchg64(void *host, uint64_t addr, uint64_t *old,
                         uint64_t value)
{
    return false;
}

static void no_interrupt(void *host, unsigned vector)
{
}

static int64_t now_ns(void *host)
{
    return NOW_NS;
}

static void no_timer(void *host, int64_t when_ns)
{
}

static void nothing(void *host)
{
}

static UnetmmSent no_send(void *host, const uint8_t *frame, size_t bytes)
{
    return UNETMM_SENT_REFUSED;
}

static bool no_offload(void *host, uint8_t *frame, size_t bytes, uint32_t mss,
                       void (*out)(void *opaque, const uint8_t *frame,
                                   size_t bytes), void *opaque)
{
    return false;
}

static bool no_checksum(void *host, const uint8_t *frame, size_t bytes)
{
    return false;
}

static void no_windows(void *host, uint32_t page, uint32_t npages)
{
}

static const UnetmmHostOps no_host = {
    .mem_read = no_read,
    .mem_write = no_write,
    .mem_store32 = no_store32,
    .mem_cmpxchg64 = no_cmpxchg64,
    .interrupt = no_interrupt,
    .now_ns = now_ns,
    .timer_at = no_timer,
    .run_later = nothing,
    .send = no_send,
    .offload = no_offload,
    .checksum_ok = no_checksum,
    .may_receive = nothing,
    .clear_windows = no_windows,
    .warn_self = nothing,
};

/* ---- Printing ----------------------------------------------------------- */

#define MOST_BYTES  32          /* of one value, unless all are asked for */

typedef struct Printer {
    bool json;
    bool whole;                 /* all bytes of a frame */
    uint64_t values;
} Printer;

static void print_bytes(const UnetmmValue *value, size_t most)
{
    for (size_t i = 0; i < MIN(value->bytes, most); i++) {
        printf("%02x", value->data[i]);
    }
}

static void text_value(const Printer *printer, const UnetmmValue *value)
{
    printf("%8zu  %-44s ", value->at, value->path);
    switch (value->kind) {
    case UNETMM_VALUE_BOOL:
        printf("%s\n", value->number == 0 ? "false" :
               value->number == 1 ? "true" : "neither true nor false");
        break;
    case UNETMM_VALUE_TIME:
        printf("in %" PRIu64 " ns\n", value->number);
        break;
    case UNETMM_VALUE_BYTES:
        print_bytes(value, printer->whole ? SIZE_MAX : MOST_BYTES);
        printf("%s (%zu bytes)\n", printer->whole ||
               value->bytes <= MOST_BYTES ? "" : "...", value->bytes);
        break;
    default:
        printf("%" PRIu64, value->number);
        printf(value->number > 9 ? " 0x%" PRIx64 "\n" : "\n", value->number);
    }
}

/* Numbers of 64 bits are numbers: a reader must not make doubles of them. */
static void json_value(const Printer *printer, const UnetmmValue *value)
{
    static const char *const kinds[] = {
        [UNETMM_VALUE_NUMBER] = "number",
        [UNETMM_VALUE_BOOL] = "bool",
        [UNETMM_VALUE_TIME] = "time",
        [UNETMM_VALUE_BYTES] = "bytes",
    };

    printf("%s\n {\"path\": \"%s\", \"kind\": \"%s\", \"offset\": %zu, "
           "\"bytes\": %zu, \"value\": ", printer->values ? "," : "",
           value->path, kinds[value->kind], value->at, value->bytes);
    if (value->kind == UNETMM_VALUE_BYTES) {
        putchar('"');
        print_bytes(value, SIZE_MAX);
        printf("\"}");
    } else {
        printf("%" PRIu64 "}", value->number);
    }
}

static void print_value(void *opaque, const UnetmmValue *value)
{
    Printer *printer = opaque;

    if (printer->json) {
        json_value(printer, value);
    } else {
        text_value(printer, value);
    }
    printer->values++;
}

/* ---- The block ---------------------------------------------------------- */

static GByteArray *read_all(FILE *in)
{
    GByteArray *all = g_byte_array_new();
    uint8_t piece[65536];
    size_t n;

    while ((n = fread(piece, 1, sizeof(piece), in)) > 0) {
        g_byte_array_append(all, piece, n);
    }
    return all;
}

static int fail(const char *sentence)
{
    fflush(stdout);
    fprintf(stderr, "error: %s\n", sentence);
    return 1;
}

/* Writes the block of a card that has just been made, for tests. */
static int write_new(void)
{
    const UnetmmParams params = {
        .mac = { 0x52, 0x54 }, .endpoints = 4, .spaces = 4, .channels = 8,
        .tlb_sets = 64, .tlb_ways = 1, .tlb_victims = 4, .cache_entries = 64,
        .cache_ways = 4,
        .utlb_fetch = 1, .pretranslate = 4, .fault_batch = 16,
        .max_faults = 64, .user_mtu = 9000, .local_queue = 16,
        .window_queue = 16, .congestion_window = 16,
        .budget_descriptors = 64, .budget_bytes = 1 << 20,
    };
    const char *wrong = unetmm_params_check(&params);
    g_autofree UnetmmCore *core = g_new0(UnetmmCore, 1);
    GByteArray *block;
    bool written;

    if (wrong) {
        return fail(wrong);
    }
    unetmm_core_init(core, &params, &no_host, NULL);
    block = unetmm_core_save(core);
    written = fwrite(block->data, block->len, 1, stdout) == 1;
    g_byte_array_unref(block);
    unetmm_core_free(core);
    return written && !fflush(stdout) ? 0 :
           fail("the output could not be written");
}

static int dump(const GByteArray *block, Printer *printer)
{
    const UnetmmObserver observer = {
        .value = print_value, .opaque = printer,
    };
    /* The block has no budgets: they are each machine's own. */
    UnetmmParams params = {
        .budget_descriptors = 64, .budget_bytes = 1 << 20,
    };
    const char *wrong = unetmm_core_saved_params(block->data, block->len,
                                                 &params);
    g_autofree UnetmmCore *core = g_new0(UnetmmCore, 1);
    g_autofree char *why = NULL;
    bool loaded;

    if (wrong) {
        g_autofree char *sentence = g_strdup_printf("no card could have saved "
                                                    "this: %s", wrong);

        return fail(sentence);
    }
    unetmm_core_init(core, &params, &no_host, NULL);
    unetmm_core_observe(core, &observer);
    printf(printer->json ? "[" : "");
    loaded = unetmm_core_load(core, block->data, block->len, &why);
    printf(printer->json ? "\n]\n" : "");
    unetmm_core_free(core);
    if (!loaded) {
        g_autofree char *sentence = g_strdup_printf("a card refuses this: %s",
                                                    why);

        return fail(sentence);
    }
    return fflush(stdout) ? fail("the output could not be written") : 0;
}

int main(int argc, char **argv)
{
    Printer printer = { 0 };
    GByteArray *block;
    int status;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) {
            printer.json = true;
        } else if (!strcmp(argv[i], "--whole")) {
            printer.whole = true;
        } else if (!strcmp(argv[i], "--new")) {
            return write_new();
        } else {
            return fail("the options are --json, --whole and --new, and the "
                        "block is read from stdin");
        }
    }
    block = read_all(stdin);
    status = dump(block, &printer);
    g_byte_array_unref(block);
    return status;
}
