/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-cp: options.
 */
#include "cp.h"
#include "cp_file.h"

#include <stdlib.h>

static const char cp_doc[] =
"Copies files to another host, on which another unetmm-cp listens, and checks\n"
"that the copies are equal.  HOST is the MAC address of its card or a name\n"
"of ethers(5), PATH the new name of the file, or, if it ends with a slash or\n"
"there are several files, the directory for them, below --directory of the\n"
"receiver.\v"
"Example, on one host and then on the other:\n"
"    unetmm-cp --listen --directory /tmp\n"
"    unetmm-cp big.iso 52:54:00:6d:00:01\n"
"    unetmm-cp -r results 52:54:00:6d:00:01:today/";

/* ---- Options ----------------------------------------------------------- */

enum { OPT_FOREVER = 256, OPT_DIRECTORY, OPT_REPLACE, OPT_SOURCE, OPT_COPY,
       OPT_TIMEOUT, OPT_JSON };

static const struct argp_option cp_options[] = {
    { "listen", 'l', NULL, 0, "receive, from one sender", 0 },
    { "forever", OPT_FOREVER, NULL, 0, "receive from the next sender after that", 0 },
    { "recursive", 'r', NULL, 0, "directories with all files in them, too", 0 },
    { "directory", OPT_DIRECTORY, "DIR", 0, "put files there (.)", 0 },
    { "replace", OPT_REPLACE, NULL, 0, "files that are there already, too", 0 },
    { "service", 'p', "N", 0, "number to meet under (20)", 0 },
    { "device", 'd', "FILE", 0, "our card (" UNETMM_DEFAULT_DEVICE ")", 0 },
    { "source", OPT_SOURCE, "NAME", 0,
      "tlb or pinned: where translations come from (tlb)", 0 },
    { "copy", OPT_COPY, NULL, 0, "out of the ring, never straight into the buffer",
      0 },
    { "timeout", OPT_TIMEOUT, "SECS", 0,
      "give up on a peer that is silent for so long (10)", 0 },
    { "json", OPT_JSON, NULL, 0, "one JSON object for each file", 0 },
    { 0 }
};

#define CP_SOURCES \
    (OPTION_BIT(UNETMM_SOURCE_TLB) | OPTION_BIT(UNETMM_SOURCE_PINNED))

static void set_cp_option(void *opaque, int key, const char *text)
{
    struct cp_options *opt = opaque;

    switch (key) {
    case 'd': opt->device = text; break;
    case 'l': opt->listen = true; break;
    case 'r': opt->recursive = true; break;
    case 'p': opt->service = number_option("service", text, 1, UINT64_MAX); break;
    case OPT_COPY: opt->copy = true; break;
    case OPT_DIRECTORY: opt->directory = text; break;
    case OPT_FOREVER: opt->forever = true; break;
    case OPT_JSON: opt->json = true; break;
    case OPT_REPLACE: opt->replace = true; break;
    case OPT_SOURCE: opt->source = source_option(text, CP_SOURCES); break;
    case OPT_TIMEOUT: opt->timeout_ns = seconds_option("timeout", text); break;
    }
}

/*
 * HOST or HOST:PATH.  A MAC address has colons itself, so that the whole word is tried
 * first.
 */
static bool parse_target(struct cp_options *opt, char *word)
{
    char *colon = strrchr(word, ':');
    size_t length;

    if (!unetmm_resolve(word, opt->mac)) {
        return true;
    }
    if (!colon) {
        return false;
    }
    *colon = '\0';
    if (unetmm_resolve(word, opt->mac)) {
        *colon = ':';
        return false;
    }
    length = strlen(colon + 1);
    if (!length) {
        return true;
    }
    opt->is_directory = colon[length] == '/' || opt->nfiles > 1 || opt->recursive;
    colon[length] = colon[length] == '/' ? '\0' : colon[length];
    opt->path = colon + 1;
    if (!cp_path_good(opt->path, strlen(opt->path))) {
        usage_error("the path is one below the directory of the receiver, without "
                    "names that begin with a dot, not '%s'", opt->path);
    }
    return true;
}

static void parse_cp_options(struct cp_options *opt, int argc, char **argv)
{
    static const struct command_line line = {
        .name = "unetmm-cp", .words = "FILE... HOST[:PATH]\n--listen",
        .doc = cp_doc, .options = cp_options, .set = set_cp_option,
    };
    int next = parse_words(&line, opt, argc, argv);

    if (opt->listen) {
        if (next != argc) {
            usage_error("--listen takes no files, not '%s'", argv[next]);
        }
        return;
    }
    if (argc - next < 2) {
        usage_error("name a file and the receiver, or --listen");
    }
    opt->files = argv + next;
    opt->nfiles = argc - next - 1;
    if (!parse_target(opt, argv[argc - 1])) {
        usage_error("the last word is the MAC address of a card or a name of "
                    "ethers(5), and perhaps a colon and a path, not '%s'",
                    argv[argc - 1]);
    }
}

int main(int argc, char **argv)
{
    struct cp_options opt = {
        .device = UNETMM_DEFAULT_DEVICE,
        .directory = ".",
        .service = 20,
        .timeout_ns = 10 * NS_PER_S,
        .source = UNETMM_SOURCE_TLB,
    };
    bool good;

    parse_cp_options(&opt, argc, argv);
    good = opt.listen ? cp_receive(&opt) : cp_send(&opt);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
