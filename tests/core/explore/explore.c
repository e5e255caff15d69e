/*
 * unetmm: exhaustive exploration of small states of the card's core
 *
 * Breadth first: every action that is possible in every state, each state
 * reached by replaying its sequence from reset on the real core.  A state seen
 * before is not gone on from.  Each new state is checked, then let come to its
 * end, where nothing may be lost, doubled or stuck.  The first violation found
 * is therefore a shortest one; its sequence is printed, and how to repeat it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <signal.h>
#include <unistd.h>
#include "explore.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

const Scene explore_scenes[] = {
    {
        .name = "victim", .what = "a space each, one entry and one victim",
        .sets = 1, .ways = 1, .victims = 1, .fault_log2 = 6, .cq_log2 = 4,
        .policy = UNETMM_POLICY_SKIP, .start = "pa", .depth = 4,
    }, {
        .name = "ways", .what = "one space, two ways, buffers of two pages",
        .sets = 1, .ways = 2, .one_space = true, .wide_buffers = true,
        .fault_log2 = 6, .cq_log2 = 4, .policy = UNETMM_POLICY_SKIP,
        .start = "pa,k", .depth = 3,
    }, {
        .name = "sets", .what = "two sets, sends of two pages, policy drop",
        .sets = 2, .ways = 1, .wide_sends = true, .fault_log2 = 6,
        .cq_log2 = 1, .policy = UNETMM_POLICY_DROP, .start = "pa,sb",
        .depth = 4,
    }, {
        .name = "joined", .what = "one space, shared pages, a fault ring of 4",
        .sets = 1, .ways = 1, .victims = 1, .one_space = true,
        .fault_log2 = 2, .cq_log2 = 1, .policy = UNETMM_POLICY_SKIP,
        .start = "pa,pb,sa", .depth = 4,
    }, {
        .name = "full", .what = "the same, one buffer behind a missing one",
        .sets = 1, .ways = 1, .victims = 1, .one_space = true,
        .fault_log2 = 2, .cq_log2 = 1, .policy = UNETMM_POLICY_SKIP,
        .start = "pa,pb,sa,sb,ha,pa", .depth = 3,
    },
};

const unsigned explore_scenes_n = G_N_ELEMENTS(explore_scenes);

typedef struct Path {
    uint8_t len;
    uint8_t action[X_MAX_PATH];
} Path;

static World world;
static Path current;            /* the actions of world */
static bool busy;               /* world is being driven */
static bool settling;

/* ---- When something is wrong ---- */

static void say_sequence(void)
{
    if (!busy) {
        return;
    }
    busy = false;
    printf("not ok - scene %s (start %s), after: ", world.scene->name,
           world.scene->start);
    for (unsigned i = 0; i < current.len; i++) {
        printf("%s%s", i ? "," : "", explore_actions[current.action[i]]);
    }
    printf("%s\n# repeat: explore --scene %s --replay '",
           settling ? " (and then left to itself)" : "", world.scene->name);
    for (unsigned i = 0; i < current.len; i++) {
        printf("%s%s", i ? "," : "", explore_actions[current.action[i]]);
    }
    printf("'   (UNETMM_TRACE=1 shows each event)\n");
    fflush(stdout);
}

void violation(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    printf("# violation: ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(1);
}

/* The core's own assertions: nothing can be done after them but to speak. */
static void on_abort(int signal)
{
    say_sequence();
    _exit(128 + signal);
}

/* ---- One sequence ---- */

static void go(unsigned action)
{
    current.action[current.len++] = action;
    world_do(&world, action);
}

/* The world after a sequence, every step of it checked. */
static void replay(const Path *path)
{
    busy = true;
    settling = false;
    current.len = 0;
    world_again(&world);
    for (unsigned i = 0; i < path->len; i++) {
        go(path->action[i]);
    }
}

static void settle(void)
{
    settling = true;
    world_settle(&world);
    busy = settling = false;
}

static int replay_given(const Scene *scene, const char *text)
{
    world_make(&world, scene);
    busy = true;
    while (*text) {
        size_t len = strcspn(text, ",");
        int action = explore_action(text, len);

        if (action < 0 || !world_may(&world, action) ||
            current.len == X_MAX_PATH) {
            fprintf(stderr, "%.*s is not an action, or not possible here\n",
                    (int)len, text);
            busy = false;
            return 2;
        }
        if (unetmm_trace) {
            fprintf(stderr, "-- %.*s\n", (int)len, text);
        }
        go(action);
        text += len + (text[len] == ',');
    }
    printf("state %016" PRIx64 ", %u misses unanswered; possible:",
           world_hash(&world), world.faults->len);
    for (unsigned i = 0; i < explore_actions_n; i++) {
        if (world_may(&world, i)) {
            printf(" %s", explore_actions[i]);
        }
    }
    printf("\n");
    settle();
    printf("ok - no violation\n");
    world_free(&world);
    return 0;
}

/* ---- All of them ---- */

typedef struct Counts {
    uint64_t states, sequences, steps;
} Counts;

/* Goes on from one state by every possible action. */
static void expand(const Path *from, GHashTable *seen, GArray *next,
                   Counts *counts)
{
    bool may[64] = { false };

    replay(from);
    for (unsigned i = 0; i < explore_actions_n; i++) {
        may[i] = world_may(&world, i);
    }
    for (unsigned i = 0; i < explore_actions_n; i++) {
        uint64_t *key, hash;
        Path path = *from;

        if (!may[i]) {
            continue;
        }
        path.action[path.len++] = i;
        replay(&path);
        counts->sequences++;
        counts->steps += path.len;
        hash = world_hash(&world);
        if (g_hash_table_contains(seen, &hash)) {
            continue;
        }
        key = g_memdup2(&hash, sizeof(hash));
        g_hash_table_add(seen, key);
        counts->states++;
        settle();
        g_array_append_val(next, path);
    }
}

static void explore(const Scene *scene, unsigned depth)
{
    GHashTable *seen = g_hash_table_new_full(g_int64_hash, g_int64_equal,
                                             g_free, NULL);
    GArray *level = g_array_new(false, false, sizeof(Path));
    Counts counts = { .states = 1 };
    Path empty = { .len = 0 };
    unsigned reached = 0;

    world_make(&world, scene);
    g_array_append_val(level, empty);
    while (level->len && reached < depth) {
        GArray *next = g_array_new(false, false, sizeof(Path));

        for (unsigned i = 0; i < level->len; i++) {
            expand(&g_array_index(level, Path, i), seen, next, &counts);
        }
        g_array_unref(level);
        level = next;
        reached++;
    }
    printf("ok - scene %s: %s\n# depth %u: %" PRIu64 " states, %" PRIu64
           " sequences run, %" PRIu64 " steps\n", scene->name, scene->what,
           reached, counts.states, counts.sequences, counts.steps);
    fflush(stdout);
    busy = false;
    g_array_unref(level);
    g_hash_table_unref(seen);
    world_free(&world);
}

static void usage(void)
{
    printf("Usage: explore [--scene NAME] [--depth N]\n"
           "       explore --scene NAME --replay ACTION,ACTION...\n\n"
           "Runs every sequence of actions on the card's core, up to a depth.\n"
           "UNETMM_LONG=1 in the environment goes one deeper.\n\nScenes:\n");
    for (unsigned i = 0; i < explore_scenes_n; i++) {
        printf("  %-8s %s\n", explore_scenes[i].name, explore_scenes[i].what);
    }
    printf("\nActions (a, b: endpoints; 0, 1: the oldest open misses):\n"
           "  s send  p post a buffer  f, i frame, short frame from the wire\n"
           "  q take all completions  c close  o open again\n"
           "  g, h give an unused page, a receive page, unasked\n"
           "  v invalidate a receive page  w invalidate the send pages\n"
           "  k the driver reads the fault ring  t the moving page has moved\n"
           "  r, d, e, y answer a miss: resident, deferred, error, retry\n");
}

static const Scene *scene_by_name(const char *name)
{
    for (unsigned i = 0; i < explore_scenes_n; i++) {
        if (!strcmp(explore_scenes[i].name, name)) {
            return &explore_scenes[i];
        }
    }
    fprintf(stderr, "no such scene: %s (explore --help lists them)\n", name);
    exit(2);
}

static void watch_for_trouble(void)
{
    signal(SIGABRT, on_abort);
    atexit(say_sequence);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(say_sequence);
#endif
}

int main(int argc, char **argv)
{
    const Scene *only = NULL;
    const char *sequence = NULL;
    unsigned depth = 0;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) {
            usage();
            return 0;
        } else if (i + 1 < argc && !strcmp(argv[i], "--scene")) {
            only = scene_by_name(argv[++i]);
        } else if (i + 1 < argc && !strcmp(argv[i], "--depth")) {
            depth = strtoul(argv[++i], NULL, 0);
            depth = MIN(depth, X_MAX_PATH);
        } else if (i + 1 < argc && !strcmp(argv[i], "--replay")) {
            sequence = argv[++i];
        } else {
            fprintf(stderr, "what is %s? (explore --help)\n", argv[i]);
            return 2;
        }
    }
    watch_for_trouble();
    if (sequence) {
        return replay_given(only ?: &explore_scenes[0], sequence);
    }
    printf("1..%u\n", only ? 1 : explore_scenes_n);
    for (unsigned i = 0; i < explore_scenes_n; i++) {
        const Scene *s = &explore_scenes[i];
        unsigned more = getenv("UNETMM_LONG") ? 1 : 0;

        if (!only || only == s) {
            explore(s, depth ?: s->depth + more);
        }
    }
    return 0;
}
