/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-block: options.
 */
#include "block.h"

#include <stdlib.h>

static const char doc[] =
"A block server, and a load for it. The server reads a file or a disk into a\n"
"communication buffer and writes it from there into the clients' memory, and\n"
"the other way round. With source pinned the buffer is pinned, all of it; with\n"
"the others its parts in use are in memory, and the rest is left to the\n"
"system, that is to its page cache.\v"
"Numbers of bytes may end in k, M or G.\n"
"\n"
"Example, on one host and on another:\n"
"    unetmm-block --listen --file /dev/vda --buffer 16M\n"
"    unetmm-block 52:54:00:12:34:56 --fill --verify --sessions 4";

enum {
    OPT_BUFFER = 256, OPT_CHUNK, OPT_FOREVER, OPT_WARMUP, OPT_SESSIONS,
    OPT_DEPTH, OPT_WRITES, OPT_FILL, OPT_FILLED, OPT_VERIFY, OPT_SEED, OPT_SOURCE,
    OPT_TIMEOUT, OPT_JSON,
};

enum { GROUP_BOTH = 1, GROUP_SERVER, GROUP_LOAD };

static const struct argp_option options[] = {
    { NULL, 0, NULL, 0, "Both sides:", GROUP_BOTH },
    { "service", 'p', "N", 0, "the server's number (120)", GROUP_BOTH },
    { "device", 'd', "FILE", 0, "card (" UNETMM_DEFAULT_DEVICE ")", GROUP_BOTH },
    { "source", OPT_SOURCE, "NAME", 0, "tlb, shadow, odp or pinned (odp)",
      GROUP_BOTH },
    { "timeout", OPT_TIMEOUT, "SECS", 0,
      "give up when nothing happens for so long (10)", GROUP_BOTH },
    { "json", OPT_JSON, NULL, 0, "results as a JSON object", GROUP_BOTH },
    { NULL, 0, NULL, 0, "The server:", GROUP_SERVER },
    { "listen", 'l', NULL, 0, "serve (else: load the server whose card is MAC)",
      GROUP_SERVER },
    { "file", 'f', "FILE", 0, "the data to serve: a file or a disk", GROUP_SERVER },
    { "buffer", OPT_BUFFER, "BYTES", 0, "the server's communication buffer (64M)",
      GROUP_SERVER },
    { "chunk", OPT_CHUNK, "BYTES", 0, "of which a request gets so much (512k)",
      GROUP_SERVER },
    { "forever", OPT_FOREVER, NULL, 0, "go on serving when all sessions have ended",
      GROUP_SERVER },
    { NULL, 0, NULL, 0, "The load:", GROUP_LOAD },
    { "size", 's', "BYTES", 0, "of a request (512k), a multiple of 512", GROUP_LOAD },
    { "count", 'n', "N", 0, "requests that are measured (200)", GROUP_LOAD },
    { "warmup", OPT_WARMUP, "N", 0, "requests before them (0)", GROUP_LOAD },
    { "sessions", OPT_SESSIONS, "N", 0,
      "reliable channels to the server, 1 to 64 (1)", GROUP_LOAD },
    { "depth", OPT_DEPTH, "N", 0, "requests at a time on each, 1 to 16 (4)",
      GROUP_LOAD },
    { "writes", OPT_WRITES, "N", 0, "per cent of the requests that write (0)",
      GROUP_LOAD },
    { "fill", OPT_FILL, NULL, 0, "write every block first", GROUP_LOAD },
    { "filled", OPT_FILLED, NULL, 0,
      "that was done, with this seed and size, and no more", GROUP_LOAD },
    { "verify", OPT_VERIFY, NULL, 0,
      "check every byte that is read; with --fill or --filled", GROUP_LOAD },
    { "seed", OPT_SEED, "N", 0, "of the random requests and the written data (1)",
      GROUP_LOAD },
    { 0 }
};

static void set_number(struct block_options *opt, int key, const char *text)
{
    switch (key) {
    case 'n': opt->count = number32_option("count", text, 1, 1000000); break;
    case 'p': opt->service = number_option("service", text, 1, UINT64_MAX); break;
    case 's':
        opt->size = number32_option("size", text, BLOCK_UNIT, BLOCK_MAX_CHUNK);
        break;
    case OPT_BUFFER:
        opt->buffer = number_option("buffer", text, UNETMM_PAGE_BYTES,
                                    1ull << 36);
        break;
    case OPT_CHUNK:
        opt->chunk = number32_option("chunk", text, UNETMM_PAGE_BYTES,
                                    BLOCK_MAX_CHUNK);
        break;
    case OPT_WARMUP: opt->warmup = number32_option("warmup", text, 0, 1000000); break;
    case OPT_SESSIONS:
        opt->sessions = number32_option("sessions", text, 1, BLOCK_SESSIONS);
        break;
    case OPT_DEPTH: opt->depth = number32_option("depth", text, 1, BLOCK_DEPTH); break;
    case OPT_WRITES: opt->writes = number32_option("writes", text, 0, 100); break;
    case OPT_SEED: opt->seed = number_option("seed", text, 0, UINT64_MAX); break;
    case OPT_TIMEOUT:
        opt->timeout_ns = (int64_t)seconds_option("timeout", text);
        break;
    }
}

static void set_option(void *opaque, int key, const char *text)
{
    struct block_options *opt = opaque;

    switch (key) {
    case 'd': opt->device = text; break;
    case 'f': opt->file = text; break;
    case 'l': opt->listen = true; break;
    case OPT_FILL: opt->fill = true; break;
    case OPT_FILLED: opt->filled = true; break;
    case OPT_FOREVER: opt->forever = true; break;
    case OPT_JSON: opt->json = true; break;
    case OPT_SOURCE: opt->source = source_option(text, OPTION_DEVICE_SOURCES); break;
    case OPT_VERIFY: opt->verify = true; break;
    default: set_number(opt, key, text); break;
    }
}

static void check_options(struct block_options *opt, int next, int argc,
                          char **argv)
{
    if (opt->size % BLOCK_UNIT) {
        usage_error("--size is a multiple of %u", BLOCK_UNIT);
    }
    if (opt->chunk % UNETMM_PAGE_BYTES || opt->buffer < opt->chunk) {
        usage_error("--chunk is a multiple of %d and at most --buffer",
                    UNETMM_PAGE_BYTES);
    }
    if (opt->verify && !opt->fill && !opt->filled) {
        usage_error("--verify needs --fill or --filled: the data there now is "
                    "unknown");
    }
    if (opt->listen) {
        if (next != argc) {
            usage_error("--listen takes no address: leave out '%s'",
                        argv[next]);
        }
        if (!opt->file) {
            usage_error("name the file or disk to serve by --file");
        }
        return;
    }
    if (opt->file || next + 1 != argc) {
        usage_error("name the server by one MAC address, or --listen and "
                    "--file");
    }
    card_word(argv[next], opt->mac);
}

int main(int argc, char **argv)
{
    struct block_options opt = {
        .service = BLOCK_SERVICE,
        .source = UNETMM_SOURCE_ODP,
        .buffer = 64u << 20,
        .chunk = 512u << 10,
        .size = 512u << 10,
        .count = 200,
        .sessions = 1,
        .depth = 4,
        .seed = 1,
        .timeout_ns = 10 * (int64_t)NS_PER_S,
    };
    static const struct command_line line = {
        .name = "unetmm-block", .words = "MAC\n--listen --file FILE", .doc = doc,
        .options = options, .set = set_option,
    };

    check_options(&opt, parse_words(&line, &opt, argc, argv), argc, argv);
    return opt.listen ? block_serve(&opt) : block_load(&opt);
}
