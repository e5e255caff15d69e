/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Options, samples and output of the tools.
 */
#include "op.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

const char *tool_name = "unetmm";

static void say(const char *format, va_list args)
{
    /* Rows that were printed belong before the reason why no more come. */
    fflush(stdout);
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void complain(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
}

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(EXIT_FAILURE);
}

/* Failures that the tools' options explain; the library knows no options. */
static const struct {
    enum unetmm_call call;
    int error;
    const char *words;
} option_words[] = {
    { UNETMM_CALL_LISTEN, -EADDRINUSE, "see --service" },
    { UNETMM_CALL_CONNECT, -EPROTOTYPE, "see --reliable" },
    { UNETMM_CALL_STATS, -ENOENT, "without --endpoint it is the card's" },
};

void fail_call(int error, enum unetmm_call call, const char *what)
{
    size_t i;

    for (i = 0; i < sizeof(option_words) / sizeof(option_words[0]); i++) {
        if (option_words[i].call == call && option_words[i].error == error) {
            fail("%s: %s (%s)", what, unetmm_strerror(error, call),
                 option_words[i].words);
        }
    }
    fail("%s: %s", what, unetmm_strerror(error, call));
}

void usage_error(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", tool_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; see %s --help\n", tool_name);
    exit(EXIT_USAGE);
}

void print_version(void)
{
    printf("%s (unetmm) %s\n", tool_name, UNETMM_VERSION);
    exit(EXIT_SUCCESS);
}

bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
    unsigned shift = 0;
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *value = strtoull(text, &end, 0);
    if (errno) {
        return false;
    }
    switch (*end) {
    case 'k': case 'K': shift = 10; end++; break;
    case 'm': case 'M': shift = 20; end++; break;
    case 'g': case 'G': shift = 30; end++; break;
    }
    if (*end || *value > most >> shift) {
        return false;
    }
    *value <<= shift;
    return true;
}

uint64_t number_option(const char *name, const char *text, uint64_t least,
                       uint64_t most)
{
    uint64_t value;

    if (!parse_number(text, most, &value) || value < least) {
        usage_error("--%s takes a number from %llu to %llu, not '%s'", name,
                    (unsigned long long)least, (unsigned long long)most, text);
    }
    return value;
}

static void parse_sizes(struct options *opt, const char *text)
{
    char *list = strdup(text);
    char *save = NULL;
    char *item;

    if (!list) {
        fail("out of memory");
    }
    opt->nsizes = 0;
    for (item = strtok_r(list, ",", &save); item;
         item = strtok_r(NULL, ",", &save)) {
        if (opt->nsizes == MAX_SIZES) {
            usage_error("--size takes at most %d sizes", MAX_SIZES);
        }
        opt->sizes[opt->nsizes++] = number_option("size", item, 1, 1u << 30);
    }
    free(list);
    if (!opt->nsizes) {
        usage_error("--size takes a size or a list such as 8,64,4k");
    }
}

/* --all: the sizes that both tools can send in one frame. */
static void all_sizes(struct options *opt)
{
    uint64_t size;

    opt->nsizes = 0;
    for (size = 8; size <= 65536; size *= 2) {
        opt->sizes[opt->nsizes++] = size;
    }
}

static unsigned parse_name(const char *option, const char *text,
                           const char *all, const char *const names[],
                           const unsigned values[], int n)
{
    int i;

    for (i = 0; i < n; i++) {
        if (!strcmp(text, names[i])) {
            return values[i];
        }
    }
    usage_error("--%s is %s, not '%s'", option, all, text);
}

static unsigned parse_source(const char *text)
{
    static const char *const names[] = { "tlb", "ktlb", "pinned", "utlb",
                                         "shadow", "odp" };
    static const unsigned values[] = {
        UNETMM_SOURCE_TLB, UNETMM_SOURCE_KTLB, UNETMM_SOURCE_PINNED,
        UNETMM_SOURCE_UTLB, UNETMM_SOURCE_SHADOW, UNETMM_SOURCE_ODP
    };

    return parse_name("source", text, "tlb, ktlb, pinned, utlb, shadow or odp",
                      names, values, 6);
}

static const struct op *parse_op(const char *text)
{
    const struct op *op = op_named(text);

    if (!op) {
        usage_error("--op is send, write, read, au, atomic or udma, not '%s'",
                    text);
    }
    return op;
}

static unsigned parse_policy(const char *text)
{
    static const char *const names[] = { "skip", "drop", "redirect", "rnr" };
    static const unsigned values[] = {
        UNETMM_POLICY_SKIP, UNETMM_POLICY_DROP, UNETMM_POLICY_REDIRECT,
        UNETMM_POLICY_RNR
    };

    return parse_name("policy", text, "skip, drop, redirect or rnr", names,
                      values, 4);
}

/* Options without a short form */
enum {
    OPT_POLL = 256, OPT_BLOCK, OPT_SPIN, OPT_BUFFERS, OPT_MEMORY, OPT_VERIFY,
    OPT_JSON, OPT_SEED, OPT_FRAME, OPT_FOREVER, OPT_TIMEOUT, OPT_BIDIR,
    OPT_WARMUP, OPT_SOURCE, OPT_POLICY, OPT_RELIABLE, OPT_OP, OPT_COMBINE,
    OPT_GO_BACK_N, OPT_RNR, OPT_HISTOGRAM, OPT_SAMPLES,
};

static const struct option long_options[] = {
    { "all", no_argument, NULL, 'a' },
    { "bidir", no_argument, NULL, OPT_BIDIR },
    { "block", no_argument, NULL, OPT_BLOCK },
    { "buffers", required_argument, NULL, OPT_BUFFERS },
    { "combine", required_argument, NULL, OPT_COMBINE },
    { "count", required_argument, NULL, 'n' },
    { "device", required_argument, NULL, 'd' },
    { "duration", required_argument, NULL, 'D' },
    { "forever", no_argument, NULL, OPT_FOREVER },
    { "frame", required_argument, NULL, OPT_FRAME },
    { "help", no_argument, NULL, 'h' },
    { "histogram", no_argument, NULL, OPT_HISTOGRAM },
    { "json", no_argument, NULL, OPT_JSON },
    { "listen", no_argument, NULL, 'l' },
    { "memory", required_argument, NULL, OPT_MEMORY },
    { "rnr-us", required_argument, NULL, OPT_RNR },
    { "op", required_argument, NULL, OPT_OP },
    { "policy", required_argument, NULL, OPT_POLICY },
    { "poll", no_argument, NULL, OPT_POLL },
    { "reliable", no_argument, NULL, OPT_RELIABLE },
    { "go-back-n", no_argument, NULL, OPT_GO_BACK_N },
    { "samples", required_argument, NULL, OPT_SAMPLES },
    { "seed", required_argument, NULL, OPT_SEED },
    { "service", required_argument, NULL, 'p' },
    { "size", required_argument, NULL, 's' },
    { "source", required_argument, NULL, OPT_SOURCE },
    { "spin-ns", required_argument, NULL, OPT_SPIN },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "verify", no_argument, NULL, OPT_VERIFY },
    { "version", no_argument, NULL, 'V' },
    { "warmup", required_argument, NULL, OPT_WARMUP },
    { NULL, 0, NULL, 0 }
};

static void set_number(struct options *opt, int c, const char *text)
{
    switch (c) {
    case 'p':
        opt->service = number_option("service", text, 1, UINT64_MAX);
        break;
    case 'n':
        opt->count = (uint32_t)number_option("count", text, 1,
                                             MAX_MESSAGES / 100);
        break;
    case 'D':
        opt->duration_ns = NS_PER_S * number_option("duration", text, 1, 86400);
        break;
    case OPT_WARMUP:
        opt->warmup = (uint32_t)number_option("warmup", text, 0,
                                              MAX_MESSAGES / 100);
        break;
    case OPT_SPIN:
        opt->spin_ns = (uint32_t)number_option("spin-ns", text, 0,
                                               UNETMM_SPIN_FOREVER - 1);
        break;
    case OPT_COMBINE:
        opt->combine = (uint32_t)number_option("combine", text, 0,
                                               UNETMM_MAX_INLINE);
        break;
    case OPT_BUFFERS:
        opt->buffers = (uint32_t)number_option("buffers", text, 8, 4096);
        break;
    case OPT_FRAME:
        opt->frame = (uint32_t)number_option("frame", text, 256,
                                             UNETMM_MAX_MESSAGE);
        break;
    case OPT_MEMORY:
        opt->memory = number_option("memory", text, 1, 1ull << 40);
        break;
    case OPT_RNR:
        opt->rnr_us = (uint32_t)number_option("rnr-us", text, 1,
                                              UNETMM_REL_MAX_TIMEOUT_US);
        break;
    case OPT_SEED:
        opt->seed = number_option("seed", text, 0, UINT64_MAX);
        break;
    case OPT_TIMEOUT:
        opt->timeout_ns = NS_PER_S * number_option("timeout", text, 1, 86400);
        break;
    }
}

static void set_option(struct options *opt, int c, const char *text,
                       const char *usage)
{
    switch (c) {
    case 'h':
        fputs(usage, stdout);
        exit(EXIT_SUCCESS);
    case 'V': print_version();
    case 'a': all_sizes(opt); break;
    case 'd': opt->device = text; break;
    case 'l': opt->listen = true; break;
    case 's': parse_sizes(opt, text); break;
    case OPT_BIDIR: opt->bidir = true; break;
    case OPT_RELIABLE: opt->reliable = true; break;
    case OPT_GO_BACK_N: opt->go_back_n = true; break;
    case OPT_BLOCK: opt->spin_ns = 0; break;
    case OPT_FOREVER: opt->forever = true; break;
    case OPT_HISTOGRAM: opt->histogram = true; break;
    case OPT_JSON: opt->json = true; break;
    case OPT_OP: opt->op = parse_op(text); break;
    case OPT_POLICY: opt->policy = parse_policy(text); break;
    case OPT_POLL: opt->spin_ns = UNETMM_SPIN_FOREVER; break;
    case OPT_SAMPLES: opt->samples = text; break;
    case OPT_SOURCE: opt->source = parse_source(text); break;
    case OPT_VERIFY: opt->verify = true; break;
    default: set_number(opt, c, text); break;
    }
}

void parse_options(struct options *opt, int argc, char **argv,
                   const char *usage)
{
    int c;

    tool_name = opt->tool;
    opt->op = op_named("send");
    /* getopt's own complaint is one sentence and names the program. */
    argv[0] = (char *)(uintptr_t)tool_name;
    while ((c = getopt_long(argc, argv, "D:Vad:hln:p:s:", long_options,
                            NULL)) != -1) {
        if (c == '?') {
            fprintf(stderr, "%s: see %s --help\n", tool_name, tool_name);
            exit(EXIT_USAGE);
        }
        set_option(opt, c, optarg, usage);
    }
    op_check_options(opt);
    if ((opt->histogram || opt->samples) && (opt->is_bw || opt->listen)) {
        usage_error("--histogram and --samples are for the connecting side of "
                    "unetmm-pingpong");
    }
    if (opt->listen) {
        if (optind != argc) {
            usage_error("--listen takes no address: leave out '%s'",
                        argv[optind]);
        }
        return;
    }
    if (optind + 1 != argc) {
        usage_error("name the peer by one address, or --listen");
    }
    if (unetmm_resolve(argv[optind], opt->mac)) {
        usage_error("'%s' is not the MAC address of a card, such as "
                    "52:54:00:12:34:56", argv[optind]);
    }
}

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

const char *source_name(unsigned source)
{
    switch (source) {
    case UNETMM_SOURCE_TLB:
        return "tlb";
    case UNETMM_SOURCE_KTLB:
        return "ktlb";
    case UNETMM_SOURCE_UTLB:
        return "utlb";
    case UNETMM_SOURCE_SHADOW:
        return "shadow";
    case UNETMM_SOURCE_ODP:
        return "odp";
    default:
        return "pinned";
    }
}

const char *policy_name(unsigned policy)
{
    switch (policy) {
    case UNETMM_POLICY_SKIP:
        return "skip";
    case UNETMM_POLICY_REDIRECT:
        return "redirect";
    case UNETMM_POLICY_RNR:
        return "rnr";
    case UNETMM_POLICY_BACKUP:
        return "backup";
    default:
        return "drop";
    }
}

const char *mode_name(const struct options *opt)
{
    if (opt->spin_ns == UNETMM_SPIN_FOREVER) {
        return "poll";
    }
    return opt->spin_ns ? "spin" : "block";
}

static int compare_samples(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void sort_samples(uint64_t *samples, size_t count)
{
    qsort(samples, count, sizeof(*samples), compare_samples);
}

uint64_t percentile(const uint64_t *sorted, size_t count, double share)
{
    size_t rank = (size_t)(share * (double)count);

    return sorted[rank < count ? rank : count - 1];
}
