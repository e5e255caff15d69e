/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-info: the cards of this machine, and the features of each.
 */
#include "cards.h"
#include "common.h"
#include "peers.h"
#include "row.h"
#include "unetmm_lists.h"

#include <inttypes.h>
#include <stdlib.h>

static const char doc[] =
"Shows the cards of this machine: address, link, version, features and limits;\n"
"then the driver's parameters.  unetmm-stat shows a card's counters.\v"
"Examples: can the first card be used with ktlb?  Which endpoints listen?\n"
"    unetmm-info --card 0 --json | grep -q '\"ktlb\"'\n"
"    unetmm-info --peers";

struct card {
    char device[256];
    int number;                 /* -1: a file with another name */
    char pci[TEXT_CHARS];
    char numa[TEXT_CHARS];
    struct unetmm_info info;
    struct peers *peers;        /* NULL: nobody wants to know */
};

struct info_options {
    const char *device;         /* NULL: all cards */
    char own[TEXT_CHARS];
    bool list;
    bool peers;
    bool json;
};

struct name {
    unsigned bit;
    const char *name;
};

static const struct name caps[] = {
    { UNETMM_CAP_LOCAL, "local" },
    { UNETMM_CAP_INLINE_RECV, "inline-receive" },
    { UNETMM_CAP_RELIABLE, "reliable" },
    { UNETMM_CAP_ONE_SIDED, "one-sided" },
    { UNETMM_CAP_ETHERNET, "ethernet" },
    { UNETMM_CAP_BACKUP, "backup-ring" },
    { UNETMM_CAP_IMMEDIATE, "immediate" },
    { UNETMM_CAP_ACK_ALONG, "ack-along" },
    { UNETMM_CAP_ACK_WRITE, "ack-write" },
    { UNETMM_CAP_VERBS, "verbs" },
    { UNETMM_CAP_UD, "unconnected" },
    { UNETMM_CAP_SHARED, "shared-queues" },
    { UNETMM_CAP_BIND, "bind" },
    { UNETMM_CAP_LONG, "long-messages" },
    { 0, NULL }
};

#define NAME(number, upper, name, ...) { 1u << (number), #name },
#define NONE(number, upper, name, ...)
static const struct name sources[] = { UNETMM_SOURCES(NONE, NAME) { 0, NULL } };
static const struct name policies[] = { UNETMM_POLICIES(NAME) { 0, NULL } };

/* ---- The command line -------------------------------------------------- */

static void choose_device(struct info_options *opt, const char *device)
{
    if (opt->device) {
        usage_error("one --card or --device is enough");
    }
    opt->device = device;
}

static void choose_card(struct info_options *opt, const char *text)
{
    snprintf(opt->own, sizeof(opt->own), UNETMM_DEVICE_PREFIX "%u",
             number32_option("card", text, 0, 9999));
    choose_device(opt, opt->own);
}

enum { OPT_JSON = 256 };

static const struct argp_option info_options[] = {
    { "list", 'l', NULL, 0, "one line for each card", 0 },
    { "peers", 'p', NULL, 0, "the endpoints that listen, on all cards of the wire, "
      "as far as they may be announced; with --json beside the rest", 0 },
    { "card", 'c', "N", 0, "only " UNETMM_DEVICE_PREFIX "N", 0 },
    { "device", 'd', "FILE", 0, "only this card", 0 },
    { "json", OPT_JSON, NULL, 0, "one JSON object", 0 },
    { 0 }
};

static void set_info_option(void *opaque, int key, const char *text)
{
    struct info_options *opt = opaque;

    switch (key) {
    case 'c': choose_card(opt, text); break;
    case 'd': choose_device(opt, text); break;
    case OPT_JSON: opt->json = true; break;
    case 'l': opt->list = true; break;
    case 'p': opt->peers = true; break;
    }
}

static void parse_info_options(struct info_options *opt, int argc, char **argv)
{
    static const struct command_line line = {
        .name = "unetmm-info", .doc = doc, .options = info_options,
        .set = set_info_option,
    };
    int next = parse_words(&line, opt, argc, argv);

    if (next != argc) {
        usage_error("there are only options, not '%s'", argv[next]);
    }
    if (opt->list && (opt->json || opt->peers)) {
        usage_error("--list has no other output than its own: leave out %s",
                    opt->json ? "--json" : "--peers");
    }
}

/* ---- Reading ----------------------------------------------------------- */

/* 0, or a negative error of `call`. */
static int ask_card(struct card *card, struct unetmm_ctx *ctx, bool peers,
                    enum unetmm_call *call)
{
    int ret;

    card->info.size = sizeof(card->info);
    ret = unetmm_info(ctx, &card->info);
    if (ret || !peers) {
        return ret;
    }
    *call = UNETMM_CALL_PEERS;
    card->peers = calloc(1, sizeof(*card->peers));
    return card->peers ? peers_find(ctx, card->peers) : -ENOMEM;
}

/* False: a sentence on stderr has said why not. */
static bool read_card(struct card *card, const char *device, bool peers)
{
    enum unetmm_call call = UNETMM_CALL_OPEN;
    struct unetmm_ctx *ctx;
    int ret;

    memset(card, 0, sizeof(*card));
    snprintf(card->device, sizeof(card->device), "%s", device);
    card->number = card_number(device);
    if (card->number >= 0) {
        card_pci((unsigned)card->number, card->pci);
        card_attribute((unsigned)card->number, "numa_node", card->numa);
    }
    ret = unetmm_open(device, UNETMM_OBSERVE, &ctx);
    if (!ret) {
        ret = ask_card(card, ctx, peers, &call);
        unetmm_close(ctx);
    }
    if (ret) {
        fflush(stdout);
        fprintf(stderr, "%s: %s: %s\n", tool_name, device,
                unetmm_strerror(ret, call));
        free(card->peers);
    }
    return !ret;
}

/* The cards that were asked for; returns how many could not be read. */
static unsigned read_cards(const struct info_options *opt, struct card *cards,
                           unsigned *n)
{
    unsigned numbers[MOST_CARDS], found, i, bad = 0;
    char device[TEXT_CHARS];

    *n = 0;
    if (opt->device) {
        *n = read_card(&cards[0], opt->device, opt->peers);
        return !*n;
    }
    found = find_cards(numbers);
    if (!found) {
        fprintf(stderr, "%s: there is no card: load the driver (modprobe "
                "unetmm) and check with lspci -d 1af4:10f0 that the machine "
                "has one\n", tool_name);
        return 1;
    }
    for (i = 0; i < found; i++) {
        snprintf(device, sizeof(device), UNETMM_DEVICE_PREFIX "%u",
                 numbers[i]);
        if (read_card(&cards[*n], device, opt->peers)) {
            (*n)++;
        } else {
            bad++;
        }
    }
    return bad;
}

/* ---- Warnings ---------------------------------------------------------- */

static const char *parameter_warning(const struct parameter *parameter)
{
    if (!strcmp(parameter->name, "hole") && !strcmp(parameter->value, "Y")) {
        return "a debugging aid that opens a hole: cards keep pages that "
               "processes have given away";
    }
    return NULL;
}

static const char *version_warning(const struct unetmm_info *info)
{
    if ((info->version ^ UNETMM_VERSION_VALUE) & UNETMM_VERSION_MAJOR) {
        return "this library is of another version: install the driver's";
    }
    return NULL;
}

/* ---- For people -------------------------------------------------------- */

static void row(const char *name)
{
    printf("  %-16s ", name);
}

static void print_names(const char *title, const struct name *names,
                        unsigned set)
{
    const char *space = "";

    row(title);
    for (; names->name; names++) {
        if (set & names->bit) {
            printf("%s%s", space, names->name);
            space = " ";
            set &= ~names->bit;
        }
    }
    /* Features that this program is too old for */
    if (set) {
        printf("%s0x%x", space, set);
    }
    putchar('\n');
}

static void print_identity(const struct card *card)
{
    const struct unetmm_info *info = &card->info;
    const char *warning = version_warning(info);
    char mac[UNETMM_MAC_CHARS];

    printf("%s\n", card->device);
    row("MAC address");
    printf("%s\n", unetmm_format_mac(info->mac, mac));
    row("link");
    puts(info->flags & UNETMM_INFO_LINK ? "up" : "down");
    if (card->pci[0]) {
        row("PCI address");
        printf("%s", card->pci);
        if (card->numa[0] && card->numa[0] != '-') {
            printf(", NUMA node %s", card->numa);
        }
        putchar('\n');
    }
    row("interface");
    printf("%u.%u\n", info->version >> 16, info->version & 0xffff);
    if (warning) {
        row("! warning");
        puts(warning);
    }
}

static void print_limits(const struct unetmm_info *info)
{
    uint64_t pages = (uint64_t)info->tlb_sets * info->tlb_ways +
        info->tlb_victims;

    row("MTU");
    printf("%u bytes a message\n", info->user_mtu);
    row("endpoints");
    printf("%u, the driver's own included; %u channels each\n",
           info->endpoints, info->channels);
    row("reliable");
    printf("%u channels of the card, %u bytes a message\n", info->reliable,
           info->max_message);
    row("exports");
    printf("%u of the card; %u imports an endpoint\n", info->regions,
           info->imports);
    row("Ethernet");
    printf("%u flows of the card; %u packets of an endpoint in the backup "
           "ring\n", info->flows, info->backup);
    row("queues");
    printf("up to %" PRIu64 " entries; %u buffers translated ahead\n",
           UINT64_C(1) << (info->max_ring_log2 & 63), info->max_pretranslate);
    row("TLB");
    printf("%u sets x %u way%s + %u victims: %" PRIu64 " pages, %" PRIu64
           " KiB\n", info->tlb_sets, info->tlb_ways,
           info->tlb_ways == 1 ? "" : "s", info->tlb_victims, pages,
           pages * (UNETMM_PAGE_BYTES / 1024));
    row("largest buffer");
    printf("%u pages (source tlb)\n", info->max_buffer_pages);
    row("pin limit");
    printf("%" PRIu64 " pages\n", (uint64_t)info->pin_limit_pages);
}

static void print_card(const struct card *card)
{
    print_identity(card);
    print_names("capabilities", caps, card->info.caps);
    print_names("sources", sources, card->info.sources);
    print_names("policies", policies, card->info.policies);
    print_limits(&card->info);
}

static void print_list(const struct card *cards, unsigned n)
{
    char mac[UNETMM_MAC_CHARS];
    unsigned i;

    for (i = 0; i < n; i++) {
        printf("%-16s %s  %-4s  %s\n", cards[i].device,
               unetmm_format_mac(cards[i].info.mac, mac),
               cards[i].info.flags & UNETMM_INFO_LINK ? "up" : "down",
               cards[i].pci);
    }
}

static void print_peers(const struct card *cards, unsigned n)
{
    unsigned i;

    if (n) {
        peers_title();
    }
    for (i = 0; i < n; i++) {
        peers_print(cards[i].device, cards[i].peers);
    }
}

static void print_parameters(const struct parameter *parameters, unsigned n)
{
    unsigned i;

    if (n) {
        puts("driver's parameters");
    }
    for (i = 0; i < n; i++) {
        const char *warning = parameter_warning(&parameters[i]);

        row(parameters[i].name);
        puts(parameters[i].value);
        if (warning) {
            row("! warning");
            puts(warning);
        }
    }
}

/* ---- For programs ------------------------------------------------------ */

static json_t *names_json(const struct name *names, unsigned set)
{
    json_t *list = row_list();

    for (; names->name; names++) {
        if (set & names->bit) {
            row_append(list, text_value(names->name));
        }
    }
    return list;
}

static json_t *card_json(const struct card *card)
{
    const struct unetmm_info *info = &card->info;
    char mac[UNETMM_MAC_CHARS], version[24];
    json_t *row = row_new();

    snprintf(version, sizeof(version), "%u.%u", info->version >> 16,
             info->version & 0xffff);
    row_text(row, "device", card->device);
    row_text(row, "mac", unetmm_format_mac(info->mac, mac));
    row_flag(row, "link", info->flags & UNETMM_INFO_LINK);
    row_text(row, "pci", card->pci);
    row_text(row, "version", version);
    row_add(row, "capabilities", names_json(caps, info->caps));
    row_add(row, "sources", names_json(sources, info->sources));
    row_add(row, "policies", names_json(policies, info->policies));
    row_count(row, "user_mtu", info->user_mtu);
    row_count(row, "endpoints", info->endpoints);
    row_count(row, "channels", info->channels);
    row_count(row, "max_ring_log2", info->max_ring_log2);
    row_count(row, "max_pretranslate", info->max_pretranslate);
    row_count(row, "tlb_sets", info->tlb_sets);
    row_count(row, "tlb_ways", info->tlb_ways);
    row_count(row, "tlb_victims", info->tlb_victims);
    row_count(row, "max_buffer_pages", info->max_buffer_pages);
    row_count(row, "reliable", info->reliable);
    row_count(row, "max_message", info->max_message);
    row_count(row, "regions", info->regions);
    row_count(row, "imports", info->imports);
    row_count(row, "flows", info->flows);
    row_count(row, "backup", info->backup);
    row_count(row, "pin_limit_pages", info->pin_limit_pages);
    if (card->peers) {
        row_add(row, "peers", peers_json(card->peers));
    }
    return row;
}

static void add_parameter(json_t *row, const struct parameter *parameter)
{
    uint64_t value;

    if (parameter->flag) {
        row_flag(row, parameter->name, parameter->value[0] == 'Y');
    } else if (parse_number(parameter->value, UINT64_MAX, &value)) {
        row_count(row, parameter->name, value);
    } else {
        row_text(row, parameter->name, parameter->value);
    }
}

static json_t *warnings_json(const struct card *cards, unsigned n,
                             const struct parameter *parameters,
                             unsigned nparameters)
{
    json_t *list = row_list();
    const char *warning;
    unsigned i;

    for (i = 0; i < n + nparameters; i++) {
        warning = i < n ? version_warning(&cards[i].info) :
            parameter_warning(&parameters[i - n]);
        if (warning) {
            row_append(list, text_value(warning));
        }
    }
    return list;
}

static void print_json(const struct card *cards, unsigned n,
                       const struct parameter *parameters, unsigned nparameters)
{
    json_t *row = row_new(), *list = row_list(), *values = row_new();
    unsigned i;

    for (i = 0; i < n; i++) {
        row_append(list, card_json(&cards[i]));
    }
    for (i = 0; i < nparameters; i++) {
        add_parameter(values, &parameters[i]);
    }
    row_add(row, "cards", list);
    row_add(row, "parameters", values);
    row_add(row, "warnings", warnings_json(cards, n, parameters, nparameters));
    row_print(row);
}

int main(int argc, char **argv)
{
    static struct parameter parameters[MOST_PARAMETERS];
    static struct card cards[MOST_CARDS];
    struct info_options opt = { 0 };
    unsigned i, n, nparameters, bad;

    parse_info_options(&opt, argc, argv);
    bad = read_cards(&opt, cards, &n);
    nparameters = find_parameters(parameters);
    if (opt.json) {
        print_json(cards, n, parameters, nparameters);
    } else if (opt.peers) {
        print_peers(cards, n);
    } else if (opt.list) {
        print_list(cards, n);
    } else {
        for (i = 0; i < n; i++) {
            print_card(&cards[i]);
        }
        if (n) {
            print_parameters(parameters, nparameters);
        }
    }
    if (fflush(stdout) || ferror(stdout)) {
        fail("cannot write the output");
    }
    for (i = 0; i < n; i++) {
        free(cards[i].peers);
    }
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
