/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-block: options.
 */
#include "block.h"

#include <getopt.h>
#include <stdlib.h>

static const char usage[] =
"usage: unetmm-block --listen --file FILE [options]\n"
"       unetmm-block MAC [options]\n"
"\n"
"A block server, and a load for it. The server reads a file or a disk into a\n"
"communication buffer and writes it from there into the clients' memory, and\n"
"the other way round. With source pinned the buffer is pinned, all of it; with\n"
"the others its parts in use are in memory, and the rest is left to the\n"
"system, that is to its page cache.\n"
"\n"
"  -l, --listen         serve (else: load the server whose card is MAC)\n"
"  -f, --file FILE      the data to serve: a file or a disk\n"
"      --buffer BYTES   the server's communication buffer (64M)\n"
"      --chunk BYTES    of which a request gets so much (512k)\n"
"      --forever        go on serving when all sessions have ended\n"
"  -s, --size BYTES     of a request (512k), a multiple of 512\n"
"  -n, --count N        requests that are measured (200)\n"
"      --warmup N       requests before them (0)\n"
"      --sessions N     reliable channels to the server, 1 to 64 (1)\n"
"      --depth N        requests at a time on each, 1 to 16 (4)\n"
"      --writes N       per cent of the requests that write (0)\n"
"      --fill           write every block first\n"
"      --filled         that was done, with this seed and size, and no more\n"
"      --verify         check every byte that is read; with --fill or --filled\n"
"      --seed N         of the random requests and the written data (1)\n"
"      --source NAME    tlb, shadow, odp or pinned (odp)\n"
"  -p, --service N      the server's number (120)\n"
"  -d, --device FILE    card (" UNETMM_DEFAULT_DEVICE ")\n"
"      --timeout SECS   give up when nothing happens for so long (10)\n"
"      --json           results as a JSON object\n"
"  -V, --version        the version\n"
"  -h, --help           this text\n"
"\n"
"Numbers of bytes may end in k, M or G.\n"
"\n"
"Example, on one host and on another:\n"
"    unetmm-block --listen --file /dev/vda --buffer 16M\n"
"    unetmm-block 52:54:00:12:34:56 --fill --verify --sessions 4\n";

enum {
    OPT_BUFFER = 256, OPT_CHUNK, OPT_FOREVER, OPT_WARMUP, OPT_SESSIONS,
    OPT_DEPTH, OPT_WRITES, OPT_FILL, OPT_FILLED, OPT_VERIFY, OPT_SEED, OPT_SOURCE,
    OPT_TIMEOUT, OPT_JSON,
};

static const struct option long_options[] = {
    { "buffer", required_argument, NULL, OPT_BUFFER },
    { "chunk", required_argument, NULL, OPT_CHUNK },
    { "count", required_argument, NULL, 'n' },
    { "depth", required_argument, NULL, OPT_DEPTH },
    { "device", required_argument, NULL, 'd' },
    { "file", required_argument, NULL, 'f' },
    { "fill", no_argument, NULL, OPT_FILL },
    { "filled", no_argument, NULL, OPT_FILLED },
    { "forever", no_argument, NULL, OPT_FOREVER },
    { "help", no_argument, NULL, 'h' },
    { "json", no_argument, NULL, OPT_JSON },
    { "listen", no_argument, NULL, 'l' },
    { "seed", required_argument, NULL, OPT_SEED },
    { "service", required_argument, NULL, 'p' },
    { "sessions", required_argument, NULL, OPT_SESSIONS },
    { "size", required_argument, NULL, 's' },
    { "source", required_argument, NULL, OPT_SOURCE },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "verify", no_argument, NULL, OPT_VERIFY },
    { "warmup", required_argument, NULL, OPT_WARMUP },
    { "writes", required_argument, NULL, OPT_WRITES },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 }
};

static uint32_t number32(const char *name, const char *text, uint32_t least,
                         uint32_t most)
{
    return (uint32_t)number_option(name, text, least, most);
}

static unsigned parse_source(const char *text)
{
    static const unsigned sources[] = {
        UNETMM_SOURCE_TLB, UNETMM_SOURCE_SHADOW, UNETMM_SOURCE_ODP,
        UNETMM_SOURCE_PINNED,
    };
    unsigned i;

    for (i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (!strcmp(text, source_name(sources[i]))) {
            return sources[i];
        }
    }
    usage_error("--source is tlb, shadow, odp or pinned, not '%s'", text);
}

static void set_number(struct block_options *opt, int c, const char *text)
{
    switch (c) {
    case 'n': opt->count = number32("count", text, 1, 1000000); break;
    case 'p': opt->service = number_option("service", text, 1, UINT64_MAX); break;
    case 's':
        opt->size = number32("size", text, BLOCK_UNIT, BLOCK_MAX_CHUNK);
        break;
    case OPT_BUFFER:
        opt->buffer = number_option("buffer", text, UNETMM_PAGE_BYTES,
                                    1ull << 36);
        break;
    case OPT_CHUNK:
        opt->chunk = number32("chunk", text, UNETMM_PAGE_BYTES,
                              BLOCK_MAX_CHUNK);
        break;
    case OPT_WARMUP: opt->warmup = number32("warmup", text, 0, 1000000); break;
    case OPT_SESSIONS:
        opt->sessions = number32("sessions", text, 1, BLOCK_SESSIONS);
        break;
    case OPT_DEPTH: opt->depth = number32("depth", text, 1, BLOCK_DEPTH); break;
    case OPT_WRITES: opt->writes = number32("writes", text, 0, 100); break;
    case OPT_SEED: opt->seed = number_option("seed", text, 0, UINT64_MAX); break;
    case OPT_TIMEOUT:
        opt->timeout_ns = (int64_t)(NS_PER_S * number_option("timeout", text,
                                                             1, 86400));
        break;
    }
}

static void set_option(struct block_options *opt, int c, const char *text)
{
    switch (c) {
    case 'h':
        fputs(usage, stdout);
        exit(EXIT_SUCCESS);
    case 'V': print_version();
    case 'd': opt->device = text; break;
    case 'f': opt->file = text; break;
    case 'l': opt->listen = true; break;
    case OPT_FILL: opt->fill = true; break;
    case OPT_FILLED: opt->filled = true; break;
    case OPT_FOREVER: opt->forever = true; break;
    case OPT_JSON: opt->json = true; break;
    case OPT_SOURCE: opt->source = parse_source(text); break;
    case OPT_VERIFY: opt->verify = true; break;
    default: set_number(opt, c, text); break;
    }
}

static void check_options(struct block_options *opt, int argc, char **argv)
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
        if (optind != argc) {
            usage_error("--listen takes no address: leave out '%s'",
                        argv[optind]);
        }
        if (!opt->file) {
            usage_error("name the file or disk to serve by --file");
        }
        return;
    }
    if (opt->file || optind + 1 != argc) {
        usage_error("name the server by one MAC address, or --listen and "
                    "--file");
    }
    if (unetmm_resolve(argv[optind], opt->mac)) {
        usage_error("'%s' is not the MAC address of a card, such as "
                    "52:54:00:12:34:56", argv[optind]);
    }
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
    int c;

    tool_name = "unetmm-block";
    /* getopt's own complaint is one sentence and names the program. */
    argv[0] = (char *)(uintptr_t)tool_name;
    while ((c = getopt_long(argc, argv, "Vd:f:hln:p:s:", long_options,
                            NULL)) != -1) {
        if (c == '?') {
            fprintf(stderr, "%s: see %s --help\n", tool_name, tool_name);
            return EXIT_USAGE;
        }
        set_option(&opt, c, optarg);
    }
    check_options(&opt, argc, argv);
    return opt.listen ? block_serve(&opt) : block_load(&opt);
}
