/*
 * unetmm: the TLB simulation of U-Net/MM's Figure 3, run again
 *
 * Prints one line for each program and size of TLB, tab-separated.  With
 * --golden FILE the same text is compared with a file's, and TAP is printed.
 * With --utlb it prints the misses and pins of source utlb, and of translation by
 * interrupt, for the same references (utlb.c).  With --references each reference
 * comes before the counts: computer, space, page, and t or r;
 * tests/sim/test-model.py has a TLB of its own that takes them.
 * scripts/tlb-sim makes tables of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include <getopt.h>
#include "utlb.h"

static void run_mm_128(Sim *sim)
{
    sim_mm(sim, 8, 128);
}

static void run_mm_16(Sim *sim)
{
    sim_mm(sim, 16, 16);
}

static void run_sample_small(Sim *sim)
{
    sim_sample_sort(sim, false);
}

static void run_sample_large(Sim *sim)
{
    sim_sample_sort(sim, true);
}

static const struct Program {
    const char *name;
    void (*run)(Sim *sim);
    uint32_t procs;                     /* 0: one on each node */
    bool few_pages;                     /* misses are first ones alone */
} programs[] = {
    { "mm-128x128", run_mm_128 },
    { "mm-16x16", run_mm_16 },
    { "ssort-sm", run_sample_small, .few_pages = true },
    { "ssort-lg", run_sample_large },
    { "rsort-lg", sim_radix_sort },
    { "sockets", sim_sockets, 32 },
};

static void print_counts(GString *out, const char *name, const Sim *sim)
{
    for (unsigned k = 0; k < SIM_SIZES; k++) {
        const SimCount *c = &sim->count[k];

        g_string_append_printf(out, "%s\t%u\t%" PRIu64 "\t%" PRIu64 "\t%"
                               PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                               "\t%" PRIu64 "\t%" PRIu64 "\n", name,
                               sim->config.entries[k], c->refs[SIM_TX],
                               c->refs[SIM_RX], c->compulsory[SIM_TX],
                               c->compulsory[SIM_RX], c->other[SIM_TX],
                               c->other[SIM_RX], c->victim_hits,
                               sim->messages);
    }
}

/* ---- By the library, and by interrupt ------------------------------------ */

#define PLENTY  8192            /* pages: the library's usual quota, */
#define PREPIN  16              /* and how many it pins by one call */
#define FEW     128

typedef struct Way {
    uint32_t entries, ways, fetch, quota;
    const char *policy;         /* NULL: by interrupt */
} Way;

/* Sizes, ways, prefetching, policies; and translation by interrupt. */
static const Way by_ways[] = {
    { 256, 1, 1, PLENTY, "lru" }, { 256, 2, 1, PLENTY, "lru" },
    { 256, 4, 1, PLENTY, "lru" }, { 256, 8, 1, PLENTY, "lru" },
    { 1024, 1, 1, PLENTY, "lru" }, { 1024, 2, 1, PLENTY, "lru" },
    { 1024, 4, 1, PLENTY, "lru" }, { 1024, 8, 1, PLENTY, "lru" },
    { 256, 4, 8, PLENTY, "lru" }, { 256, 4, 32, PLENTY, "lru" },
    { 1024, 4, 8, PLENTY, "lru" }, { 1024, 4, 32, PLENTY, "lru" },
    { 1024, 4, 8, FEW, "lru" }, { 1024, 4, 8, FEW, "mru" },
    { 1024, 4, 8, FEW, "fifo" }, { 1024, 4, 8, FEW, "random" },
    { 1024, 4, 8, FEW, "lfu" },
    { 256, 4 }, { 1024, 4 },
};

static UtlbRun *utlb_run(void)
{
    static UtlbConfig configs[G_N_ELEMENTS(by_ways)];

    for (unsigned i = 0; i < G_N_ELEMENTS(by_ways); i++) {
        const Way *w = &by_ways[i];

        configs[i] = (UtlbConfig) {
            .entries = w->entries, .ways = w->ways, .fetch = w->fetch,
            .quota = w->quota, .prepin = PREPIN,
            .policy = w->policy ? unetmm_utlb_policy(w->policy) : NULL,
        };
        SIM_CHECK(!w->policy || configs[i].policy);
    }
    return utlb_new(configs, G_N_ELEMENTS(configs));
}

static void print_ways(GString *out, const char *name, const UtlbRun *run)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(by_ways); i++) {
        const Way *w = &by_ways[i];
        const UtlbCount *c = utlb_count(run, i);

        g_string_append_printf(out, "%s\t%s\t%u\t%u\t%u\t%u\t%" PRIu64
                               "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                               "\t%" PRIu64 "\n", name,
                               w->policy ? w->policy : "interrupt", w->entries,
                               w->ways, w->fetch, w->quota,
                               c->refs, c->misses, c->calls, c->pins,
                               c->unpins);
    }
}

static void print_names(GString *out, bool utlb)
{
    g_string_append(out, utlb ? "program\tpolicy\tentries\tways\tfetch\tquota\t"
                    "references\tmisses\tcalls\tpins\tunpins\n" :
                    "program\tentries\ttx\trx\ttx_compulsory\t"
                    "rx_compulsory\ttx_other\trx_other\tvictim_hits\t"
                    "messages\n");
}

static void run(GString *out, const SimConfig *config, const char *only,
                bool references, bool utlb)
{
    bool found = false;

    g_string_append_printf(out, "# seed=%" PRIu64 " nodes=%u buffers=%u "
                           "payload=%u header=%u keys=%u active=%u\n",
                           config->seed, config->nodes, config->buffers,
                           config->payload, config->header, config->keys,
                           config->active);
    print_names(out, utlb);
    for (unsigned i = 0; i < G_N_ELEMENTS(programs); i++) {
        const struct Program *p = &programs[i];
        Sim sim;

        if ((only && strcmp(only, p->name)) || (utlb && p->few_pages)) {
            continue;
        }
        found = true;
        sim_init(&sim, config, p->procs ? 1 : config->nodes,
                 p->procs ? p->procs : config->nodes);
        sim.references = references;
        sim.utlb = utlb ? utlb_run() : NULL;
        p->run(&sim);
        if (utlb) {
            print_ways(out, p->name, sim.utlb);
            utlb_free(sim.utlb);
        } else {
            print_counts(out, p->name, &sim);
        }
        sim_free(&sim);
    }
    if (!found) {
        fprintf(stderr, "error: no program %s\n", only);
        exit(2);
    }
}

/* Line by line, in TAP. */
static int compare(const char *text, const char *path)
{
    char *golden;
    char **is, **was;
    unsigned n = 0, bad = 0;

    if (!g_file_get_contents(path, &golden, NULL, NULL)) {
        printf("1..1\nnot ok 1 - %s can be read\n", path);
        return 1;
    }
    is = g_strsplit(text, "\n", -1);
    was = g_strsplit(golden, "\n", -1);
    for (; is[n] && was[n] && *is[n]; n++) {
        bool same = !strcmp(is[n], was[n]);

        printf("%sok %u - %.*s\n", same ? "" : "not ", n + 1,
               (int)strcspn(is[n], "\t#"), *is[n] == '#' ? "parameters" :
               is[n]);
        if (!same) {
            printf("# was: %s\n# is:  %s\n", was[n], is[n]);
            bad++;
        }
    }
    n++;
    if (strcmp(text, golden)) {
        bad += !bad;
        printf("not ok %u - as %s; if that is meant: scripts/tlb-sim "
               "--update\n", n, path);
    } else {
        printf("ok %u - nothing else\n", n);
    }
    printf("1..%u\n", n);
    g_strfreev(is);
    g_strfreev(was);
    g_free(golden);
    return bad ? 1 : 0;
}

static uint64_t number(const char *text, uint64_t low, uint64_t high)
{
    char *end;
    uint64_t v = g_ascii_strtoull(text, &end, 0);

    if (!g_ascii_isdigit(*text) || *end || v < low || v > high) {
        fprintf(stderr, "error: %s is not a number from %" PRIu64 " to %"
                PRIu64 "\n", text, low, high);
        exit(2);
    }
    return v;
}

#define NAME(number, upper, name, help) [number] = #name,
static const char *const replacements[] = { UNETMM_TLB_REPLACEMENTS(NAME) };

static UnetmmTlbReplace replacement(const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(replacements); i++) {
        if (!strcmp(name, replacements[i])) {
            return i;
        }
    }
    fprintf(stderr, "error: there is no replacement %s\n", name);
    exit(2);
}

/* Options with a number: their names, bounds and places. */
static const struct {
    const char *name;
    uint32_t low, high;
    size_t place;
} numbers[] = {
    { "nodes", 4, SIM_MAX_NODES, offsetof(SimConfig, nodes) },
    { "buffers", 1, 1024, offsetof(SimConfig, buffers) },
    { "payload", 64, 4096, offsetof(SimConfig, payload) },
    { "header", 0, 1, offsetof(SimConfig, header) },
    { "keys", 1024, 256 << 10, offsetof(SimConfig, keys) },
    { "active", 1, 32, offsetof(SimConfig, active) },
    { "ways", 1, 16, offsetof(SimConfig, ways) },
};

static void read_options(int argc, char **argv, SimConfig *config,
                         const char **only, const char **golden,
                         bool *references, bool *utlb)
{
    struct option options[G_N_ELEMENTS(numbers) + 7] = {
        { "seed", required_argument, NULL, 's' },
        { "program", required_argument, NULL, 'p' },
        { "golden", required_argument, NULL, 'g' },
        { "references", no_argument, NULL, 'r' },
        { "replace", required_argument, NULL, 'e' },
        { "utlb", no_argument, NULL, 'u' },
    };
    int option;

    for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++) {
        options[6 + i] = (struct option) { numbers[i].name, required_argument,
                                           NULL, 256 + i };
    }
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            config->seed = number(optarg, 0, UINT64_MAX);
            break;
        case 'p':
            *only = optarg;
            break;
        case 'g':
            *golden = optarg;
            break;
        case 'r':
            *references = true;
            break;
        case 'e':
            config->replace = replacement(optarg);
            break;
        case 'u':
            *utlb = true;
            break;
        case '?':
            exit(2);
        default:
            *(uint32_t *)((char *)config + numbers[option - 256].place) =
                number(optarg, numbers[option - 256].low,
                       numbers[option - 256].high);
        }
    }
    if (config->ways & (config->ways - 1)) {
        fprintf(stderr, "error: --ways wants a power of two\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    SimConfig config = {
        .seed = 1997, .entries = { 1024, 256 }, .victims = 16, .nodes = 8,
        .ways = 1, .buffers = 64, .payload = 4032, .header = 1,
        .keys = 256 << 10, .active = 4,
    };
    const char *only = NULL, *golden = NULL;
    GString *out = g_string_new(NULL);
    bool references = false, utlb = false;
    int status = 0;

    read_options(argc, argv, &config, &only, &golden, &references, &utlb);
    run(out, &config, only, references, utlb);
    if (golden) {
        status = compare(out->str, golden);
    } else {
        fputs(out->str, stdout);
    }
    g_string_free(out, true);
    return status;
}
