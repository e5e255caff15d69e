/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-stat: a card's identity and its counters.
 */
#include "common.h"
#include "row.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_COUNTERS   512

static const char doc[] =
"Shows a card's identity, and the counters of the card and of its driver that\n"
"are not zero, each with its meaning.\v"
"unetmm-info shows all that a card can do.\n"
"\n"
"Example: how does the TLB of the card do, every second?\n"
"    unetmm-stat --card --watch 1";

struct scope {
    unsigned scope;
    const char *name;
    bool wanted;
    int count;
    uint64_t now[MOST_COUNTERS];
    uint64_t before[MOST_COUNTERS];
};

struct stat_options {
    const char *device;
    uint32_t endpoint;
    uint32_t watch;
    bool all;
    bool json;
};

static struct scope scopes[] = {
    { .scope = UNETMM_SCOPE_CARD, .name = "card" },
    { .scope = UNETMM_SCOPE_ENDPOINT, .name = "endpoint" },
    { .scope = UNETMM_SCOPE_DRIVER, .name = "driver" },
};
#define NUM_SCOPES (sizeof(scopes) / sizeof(scopes[0]))

enum { OPT_CARD = 256, OPT_DRIVER, OPT_ENDPOINT, OPT_JSON };

static const struct argp_option stat_options[] = {
    { "device", 'd', "FILE", 0, "card to ask (" UNETMM_DEFAULT_DEVICE ")", 0 },
    { "card", OPT_CARD, NULL, 0, "the card's counters only", 0 },
    { "driver", OPT_DRIVER, NULL, 0, "the driver's counters only", 0 },
    { "endpoint", OPT_ENDPOINT, "N", 0,
      "the counters of one endpoint only; needs CAP_NET_ADMIN", 0 },
    { "all", 'a', NULL, 0, "counters that are zero, too", 0 },
    { "watch", 'w', "SECS", 0, "again every SECS seconds: the increments since", 0 },
    { "json", OPT_JSON, NULL, 0, "one JSON object", 0 },
    { 0 }
};

static void set_stat_option(void *opaque, int key, const char *text)
{
    struct stat_options *opt = opaque;

    switch (key) {
    case 'a': opt->all = true; break;
    case 'd': opt->device = text; break;
    case 'w': opt->watch = number32_option("watch", text, 1, 86400); break;
    case OPT_CARD: scopes[0].wanted = true; break;
    case OPT_DRIVER: scopes[2].wanted = true; break;
    case OPT_ENDPOINT:
        scopes[1].wanted = true;
        opt->endpoint = number32_option("endpoint", text, 0, UINT32_MAX);
        break;
    case OPT_JSON: opt->json = true; break;
    }
}

static void parse_stat_options(struct stat_options *opt, int argc, char **argv)
{
    static const struct command_line line = {
        .name = "unetmm-stat", .doc = doc, .options = stat_options,
        .set = set_stat_option,
    };
    int next = parse_words(&line, opt, argc, argv);

    if (next != argc) {
        usage_error("there are only options, not '%s'", argv[next]);
    }
    if (!scopes[0].wanted && !scopes[1].wanted && !scopes[2].wanted) {
        scopes[0].wanted = scopes[2].wanted = true;
    }
}

static void read_scope(struct unetmm_ctx *ctx, const struct stat_options *opt,
                       struct scope *scope)
{
    memcpy(scope->before, scope->now, sizeof(scope->before));
    scope->count = unetmm_stats_read(ctx, scope->scope, opt->endpoint,
                                     scope->now, MOST_COUNTERS);
    if (scope->count < 0) {
        fail_call(scope->count, UNETMM_CALL_STATS, "cannot read counters");
    }
    if (scope->count > MOST_COUNTERS) {
        scope->count = MOST_COUNTERS;
    }
}

static void print_info_text(const struct unetmm_info *info,
                            const char *device)
{
    char mac[UNETMM_MAC_CHARS];

    printf("%s: MAC %s, link %s, frames up to %u bytes\n", device,
           unetmm_format_mac(info->mac, mac),
           info->flags & UNETMM_INFO_LINK ? "up" : "down", info->user_mtu);
    printf("  %u endpoints of %u channels, TLB of %u sets, %u ways, "
           "%u victims\n", info->endpoints, info->channels, info->tlb_sets,
           info->tlb_ways, info->tlb_victims);
    printf("  buffers up to %u pages, %" PRIu64 " pages may be pinned\n",
           info->max_buffer_pages, (uint64_t)info->pin_limit_pages);
}

static json_t *info_json(const struct unetmm_info *info, const char *device)
{
    char mac[UNETMM_MAC_CHARS];
    json_t *row = row_new();

    row_text(row, "device", device);
    row_text(row, "mac", unetmm_format_mac(info->mac, mac));
    row_flag(row, "link", info->flags & UNETMM_INFO_LINK);
    row_count(row, "user_mtu", info->user_mtu);
    row_count(row, "endpoints", info->endpoints);
    row_count(row, "channels", info->channels);
    row_count(row, "tlb_sets", info->tlb_sets);
    row_count(row, "tlb_ways", info->tlb_ways);
    row_count(row, "tlb_victims", info->tlb_victims);
    row_count(row, "max_buffer_pages", info->max_buffer_pages);
    row_count(row, "pin_limit_pages", info->pin_limit_pages);
    return row;
}

static void print_scope_text(const struct stat_options *opt,
                             const struct scope *scope, bool added)
{
    int i;

    if (scope->scope == UNETMM_SCOPE_ENDPOINT) {
        printf("endpoint %u:\n", opt->endpoint);
    } else {
        printf("%s:\n", scope->name);
    }
    for (i = 0; i < scope->count; i++) {
        uint64_t value = scope->now[i] - (added ? scope->before[i] : 0);
        const char *help = "";
        const char *name = unetmm_stats_name(scope->scope, (unsigned)i,
                                             &help);

        if (name && (value || opt->all)) {
            printf("  %-20s %14" PRIu64 "  %s\n", name, value, help);
        }
    }
}

static json_t *scope_json(const struct stat_options *opt,
                          const struct scope *scope, bool added)
{
    json_t *row = row_new();
    int i;

    for (i = 0; i < scope->count; i++) {
        uint64_t value = scope->now[i] - (added ? scope->before[i] : 0);
        const char *name = unetmm_stats_name(scope->scope, (unsigned)i,
                                             NULL);

        if (name && (value || opt->all)) {
            row_count(row, name, value);
        }
    }
    return row;
}

static void print_json(const struct stat_options *opt,
                       const struct unetmm_info *info, bool added)
{
    json_t *row = info_json(info, opt->device);
    size_t i;

    row_flag(row, "increments", added);
    for (i = 0; i < NUM_SCOPES; i++) {
        if (scopes[i].wanted) {
            row_add(row, scopes[i].name, scope_json(opt, &scopes[i], added));
        }
    }
    row_print(row);
}

static void print_text(const struct stat_options *opt,
                       const struct unetmm_info *info, bool added)
{
    size_t i;

    if (!added) {
        print_info_text(info, opt->device);
    }
    for (i = 0; i < NUM_SCOPES; i++) {
        if (scopes[i].wanted) {
            print_scope_text(opt, &scopes[i], added);
        }
    }
    fflush(stdout);
}

static void print_all(struct unetmm_ctx *ctx, const struct stat_options *opt,
                      const struct unetmm_info *info, bool added)
{
    size_t i;

    /* First, so that a failure leaves no half of an answer. */
    for (i = 0; i < NUM_SCOPES; i++) {
        if (scopes[i].wanted) {
            read_scope(ctx, opt, &scopes[i]);
        }
    }
    if (opt->json) {
        print_json(opt, info, added);
    } else {
        print_text(opt, info, added);
    }
}

int main(int argc, char **argv)
{
    struct stat_options opt = { .device = UNETMM_DEFAULT_DEVICE };
    struct unetmm_info info = { .size = sizeof(info) };
    struct unetmm_ctx *ctx;
    bool added = false;
    int ret;

    parse_stat_options(&opt, argc, argv);
    ret = unetmm_open(opt.device, UNETMM_OBSERVE, &ctx);
    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, opt.device);
    }
    for (;;) {
        info.size = sizeof(info);
        ret = unetmm_info(ctx, &info);
        if (ret) {
            fail_call(ret, UNETMM_CALL_ANY, opt.device);
        }
        print_all(ctx, &opt, &info, added);
        if (!opt.watch) {
            break;
        }
        added = true;
        sleep(opt.watch);
    }
    unetmm_close(ctx);
    return EXIT_SUCCESS;
}
