/*
 * unetmm: papers' figures, point by point
 *
 *   unetmm-paper EXPERIMENT < COSTS     costs: lines "name value"
 *   unetmm-paper --costs                their names
 *   unetmm-paper --batch < RUNS         lines "run EXPERIMENT", each before
 *                                       its costs
 *   unetmm-paper --replay FILE < RUNS   the same; FILE has the references of
 *                                       runs of replay
 *
 * Prints "name<TAB>value" for each result, how often each card took each step,
 * the number of events and the hash of all of them.  scripts/unetmm_tools/bench/paper
 * passes the profiles' values.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include "run.h"

static const Experiment experiments[] = {
    { "pingpong", paper_pingpong },
    { "stream", paper_stream },
    { "fault", paper_fault },
    { "resume", paper_resume },
    { "wait", paper_wait },
    { "limit", paper_limit },
    { "rnr", paper_rnr },
    { "backup", paper_backup },
    { "drop", paper_drop },
    { "store", paper_store },
    { "touch", paper_touch },
    { "ktlb", paper_ktlb },
    { "cold", paper_cold },
    { "replay", paper_replay },
};

static const struct {
    const char *name;
    size_t offset;
} costs[] = {
#define NODE_COST(name) { #name, offsetof(Costs, name) },
#define CARD_COST(name) { #name, offsetof(Costs, card.name) },
    UNETMM_COSTS(CARD_COST)
    NODE_COSTS(NODE_COST)
#undef CARD_COST
#undef NODE_COST
};

void result(const char *name, int64_t value)
{
    printf("%s\t%" PRId64 "\n", name, value);
}

static void die(const char *why, const char *word)
{
    fprintf(stderr, "unetmm-paper: %s: %s\n", why, word);
    exit(2);
}

static void set_cost(Costs *c, const char *name, const char *text)
{
    char *end;

    for (unsigned i = 0; i < G_N_ELEMENTS(costs); i++) {
        if (!strcmp(costs[i].name, name)) {
            errno = 0;
            *(int64_t *)((char *)c + costs[i].offset) =
                strtoll(text, &end, 10);
            if (errno || *end || end == text || text[0] == '-') {
                die("not a number from 0 on", text);
            }
            return;
        }
    }
    die("no such cost", name);
}

static const char *const step_names[] = {
#define STEP_NAME(name, text) text,
    UNETMM_STEPS(STEP_NAME)
#undef STEP_NAME
};

static void print_steps(const Node *n)
{
    for (unsigned i = 0; n && i < UNETMM_NUM_STEPS; i++) {
        if (n->steps[i]) {
            printf("card %u, %s\t%" PRIu64 "\n", n->number, step_names[i],
                   n->steps[i]);
        }
    }
}

static void run_experiment(const char *name, const Costs *c)
{
    Run r;

    for (unsigned i = 0; i < G_N_ELEMENTS(experiments); i++) {
        if (!strcmp(experiments[i].name, name)) {
            run_new(&r, c);
            experiments[i].run(&r);
            print_steps(r.node[0]);
            print_steps(r.node[1]);
            result("events", r.events);
            printf("trace\t%016" PRIx64 "\n", r.trace);
            run_free(&r);
            return;
        }
    }
    die("no such experiment", name);
}

/* Reads costs; "run NAME" begins another run. */
static void read_runs(char *experiment)
{
    char name[64], text[64];
    Costs c = { 0 };
    int words;

    while ((words = scanf("%63s %63s", name, text)) == 2) {
        if (strcmp(name, "run")) {
            set_cost(&c, name, text);
            continue;
        }
        if (experiment[0]) {
            run_experiment(experiment, &c);
        }
        g_strlcpy(experiment, text, 64);
        c = (Costs) { 0 };
        printf("run\t%s\n", experiment);
    }
    if (words == 1) {
        die("no value", name);
    }
    if (experiment[0]) {
        run_experiment(experiment, &c);
    }
}

int main(int argc, char **argv)
{
    char experiment[64] = "";

    if (argc == 3 && !strcmp(argv[1], "--replay")) {
        paper_references = argv[2];
    } else if (argc != 2) {
        die("use", "EXPERIMENT, --batch, --replay FILE or --costs");
    }
    if (!strcmp(argv[1], "--costs")) {
        for (unsigned i = 0; i < G_N_ELEMENTS(costs); i++) {
            puts(costs[i].name);
        }
        return 0;
    }
    if (strcmp(argv[1], "--batch") && argc == 2) {
        g_strlcpy(experiment, argv[1], sizeof(experiment));
    }
    read_runs(experiment);
    return 0;
}
