/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See measure.h. */
#include "op.h"

#include <stdlib.h>

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
        opt->sizes[opt->nsizes++] = number_option("size", item, 1, MOST_SIZE);
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

static const struct op *parse_op(const char *text)
{
    const struct op *op = op_named(text);

    if (!op) {
        usage_error("--op is send, write, read, au, atomic or udma, not '%s'",
                    text);
    }
    return op;
}

/* Options of both without a short form */
enum {
    OPT_POLL = OPT_SHARED, OPT_BLOCK, OPT_SPIN, OPT_BUFFERS, OPT_MEMORY, OPT_VERIFY,
    OPT_SEED, OPT_FRAME, OPT_FOREVER, OPT_TIMEOUT, OPT_SOURCE, OPT_POLICY,
    OPT_RELIABLE, OPT_GO_BACK_N, OPT_RNR,
};

#define POLICY_HELP \
    "action when a message hits a paged-out buffer: skip gives the buffer back " \
    "empty (default), drop keeps it and drops the message, redirect has the driver " \
    "copy the message into it later, rnr answers with an RNR NACK (the last two " \
    "with tlb, shadow and odp, --reliable)"

static const struct argp_option shared_options[] = {
    { NULL, 0, NULL, 0, "The two sides:", GROUP_SIDES },
    { "listen", 'l', NULL, 0, "wait for a peer and answer it", GROUP_SIDES },
    { "forever", OPT_FOREVER, NULL, 0, "wait for the next peer after that",
      GROUP_SIDES },
    { "reliable", OPT_RELIABLE, NULL, 0, "on a reliable channel, which cuts frames "
      "of up to 4m into packets: nothing is lost (both sides; not with ktlb)",
      GROUP_SIDES },
    { "device", 'd', "FILE", 0, "card to use (" UNETMM_DEFAULT_DEVICE ")",
      GROUP_SIDES },
    { "timeout", OPT_TIMEOUT, "SECS", 0,
      "give up when nothing comes for so long (10)", GROUP_SIDES },
    { "rnr-us", OPT_RNR, "N", 0, "the delay that an RNR NACK asks for (100)",
      GROUP_SIDES },
    { "go-back-n", OPT_GO_BACK_N, NULL, 0, "data of a read that has no place: all "
      "behind it is asked for again as well", GROUP_SIDES },
    { NULL, 0, NULL, 0, "The messages:", GROUP_MESSAGES },
    { "all", 'a', NULL, 0, "sizes 8, 16, 32 and so on up to 64k", GROUP_MESSAGES },
    { "duration", 'D', "SECS", 0,
      "rounds of so many messages until this time has passed", GROUP_MESSAGES },
    { "frame", OPT_FRAME, "N", 0, "frames of at most N bytes (the channel's most; "
      "64k if it is reliable)", GROUP_MESSAGES },
    { "verify", OPT_VERIFY, NULL, 0,
      "fill messages with a pattern and check every byte", GROUP_MESSAGES },
    { "seed", OPT_SEED, "N", 0, "of the pattern (1)", GROUP_MESSAGES },
    { NULL, 0, NULL, 0, "Their memory:", GROUP_MEMORY },
    { "source", OPT_SOURCE, "NAME", 0, "where translations come from, see below",
      GROUP_MEMORY },
    { "policy", OPT_POLICY, "NAME", 0, POLICY_HELP, GROUP_MEMORY },
    { "buffers", OPT_BUFFERS, "N", 0,
      "free buffers that are posted (as suits the TLB)", GROUP_MEMORY },
    { "memory", OPT_MEMORY, "BYTES", 0, "spread the buffers over so much memory, so "
      "that the card's TLB has to work", GROUP_MEMORY },
    { NULL, 0, NULL, 0, "How to wait:", GROUP_WAIT },
    { "poll", OPT_POLL, NULL, 0, "never block: wait by looking", GROUP_WAIT },
    { "block", OPT_BLOCK, NULL, 0, "never spin: wait by blocking", GROUP_WAIT },
    { "spin-ns", OPT_SPIN, "N", 0, "look for N ns, then block (400000)",
      GROUP_WAIT },
    { NULL, 0, NULL, 0, "Output:", GROUP_OUTPUT },
    { NULL, 0, NULL, 0, "Operations, for --op on both sides:", GROUP_OPS },
    { NULL, 0, NULL, 0, "Sources, for --source:", GROUP_SOURCES },
    OPTION_WORD("tlb", "any memory, translated when it is used (default)",
                GROUP_SOURCES),
    OPTION_WORD("ktlb", "any memory, posted by system call", GROUP_SOURCES),
    OPTION_WORD("pinned", "the buffers are registered first", GROUP_SOURCES),
    OPTION_WORD("utlb", "the library has them pinned before it uses them",
                GROUP_SOURCES),
    OPTION_WORD("shadow", "nothing is pinned, the card locks a page while it moves "
                "its data", GROUP_SOURCES),
    OPTION_WORD("odp", "nothing is pinned, the card faults pages in",
                GROUP_SOURCES),
    { 0 }
};

#define ALL_SOURCES \
    (OPTION_BIT(UNETMM_SOURCE_TLB) | OPTION_BIT(UNETMM_SOURCE_KTLB) | \
     OPTION_BIT(UNETMM_SOURCE_PINNED) | OPTION_BIT(UNETMM_SOURCE_UTLB) | \
     OPTION_BIT(UNETMM_SOURCE_SHADOW) | OPTION_BIT(UNETMM_SOURCE_ODP))
#define POLICIES \
    (OPTION_BIT(UNETMM_POLICY_SKIP) | OPTION_BIT(UNETMM_POLICY_DROP) | \
     OPTION_BIT(UNETMM_POLICY_REDIRECT) | OPTION_BIT(UNETMM_POLICY_RNR))

static void set_number(struct options *opt, int key, const char *text)
{
    switch (key) {
    case 'p':
        opt->service = number_option("service", text, 1, UINT64_MAX);
        break;
    case 'n':
        opt->count = number32_option("count", text, 1, MOST_COUNT);
        break;
    case 'D': opt->duration_ns = seconds_option("duration", text); break;
    case OPT_WARMUP:
        opt->warmup = number32_option("warmup", text, 0, MOST_COUNT);
        break;
    case OPT_SPIN:
        opt->spin_ns = number32_option("spin-ns", text, 0,
                                       UNETMM_SPIN_FOREVER - 1);
        break;
    case OPT_COMBINE:
        opt->combine = number32_option("combine", text, 0, UNETMM_MAX_INLINE);
        break;
    case OPT_BUFFERS:
        opt->buffers = number32_option("buffers", text, 8, 4096);
        break;
    case OPT_FRAME:
        opt->frame = number32_option("frame", text, 256, UNETMM_MAX_MESSAGE);
        break;
    case OPT_MEMORY:
        opt->memory = number_option("memory", text, 1, 1ull << 40);
        break;
    case OPT_RNR:
        opt->rnr_us = number32_option("rnr-us", text, 1,
                                      UNETMM_REL_MAX_TIMEOUT_US);
        break;
    case OPT_SEED: opt->seed = number_option("seed", text, 0, UINT64_MAX); break;
    case OPT_TIMEOUT: opt->timeout_ns = seconds_option("timeout", text); break;
    }
}

static void set_option(void *opaque, int key, const char *text)
{
    struct options *opt = opaque;

    switch (key) {
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
    case OPT_POLICY: opt->policy = policy_option(text, POLICIES); break;
    case OPT_POLL: opt->spin_ns = UNETMM_SPIN_FOREVER; break;
    case OPT_SAMPLES: opt->samples = text; break;
    case OPT_SOURCE: opt->source = source_option(text, ALL_SOURCES); break;
    case OPT_VERIFY: opt->verify = true; break;
    default: set_number(opt, key, text); break;
    }
}

void parse_options(struct options *opt, const struct argp_option *own,
                   const char *doc, int argc, char **argv)
{
    const struct command_line line = {
        .name = opt->tool, .words = "MAC\n--listen", .doc = doc, .options = own,
        .shared = shared_options, .set = set_option,
    };
    int next;

    opt->op = op_named("send");
    next = parse_words(&line, opt, argc, argv);
    op_check_options(opt);
    if ((opt->histogram || opt->samples) && opt->listen) {
        usage_error("--histogram and --samples are for the connecting side");
    }
    if (opt->listen) {
        if (next != argc) {
            usage_error("--listen takes no address: leave out '%s'", argv[next]);
        }
        return;
    }
    if (next + 1 != argc) {
        usage_error("name the peer by one address, or --listen");
    }
    card_word(argv[next], opt->mac);
}

const char *mode_name(const struct options *opt)
{
    if (opt->spin_ns == UNETMM_SPIN_FOREVER) {
        return "poll";
    }
    return opt->spin_ns ? "spin" : "block";
}
