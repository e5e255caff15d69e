/*
 * unetmm: exhaustive exploration of the backup ring at small sizes
 *
 * Breadth first, from each state by every action that is possible: packets,
 * buffers posted, pages that go and come back, the driver's answers in any
 * order, its buffers.  A state is the card as it saves itself, the memory, and
 * the reference; it is restored from that before each action, so that saving
 * and restoring is explored with it.  No sequence has a last packet: a scene is
 * through when no action leads to a state that has not been seen.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <signal.h>
#include <unistd.h>
#include "explore_backup.h"

static const XbScene scenes[] = {
    { "one", .size_log2 = 1, .bits = 1, .buffers = 1 },
    { "two", .size_log2 = 1, .bits = 2, .buffers = 2 },
    { "beyond", .size_log2 = 1, .bits = 4, .buffers = 3 },
    { "odd", .size_log2 = 1, .bits = 3, .buffers = 3, .failures = true },
    { "tail", .size_log2 = 1, .bits = 3, .buffers = 2, .tail = true },
    { "reports", .size_log2 = 1, .bits = 3, .buffers = 3,
      .lazy_driver = true },
    { "places", .size_log2 = 1, .bits = 2, .buffers = 2,
      .lazy_process = true },
    { "landing", .size_log2 = 1, .bits = 2, .buffers = 2, .slow = true },
    { "four", .size_log2 = 2, .bits = 1, .buffers = 2 },
    { "wide", .size_log2 = 2, .bits = 2, .buffers = 2 },
    { "wide3", .size_log2 = 2, .bits = 3, .buffers = 3, .longer = true },
    { "wide4", .size_log2 = 2, .bits = 4, .buffers = 3, .longer = true },
    { "all", .size_log2 = 1, .bits = 3, .buffers = 3, .lazy_driver = true,
      .lazy_process = true, .failures = true, .tail = true, .longer = true },
    { "slow4", .size_log2 = 2, .bits = 2, .buffers = 2, .slow = true,
      .longer = true },
};

/* How each state was reached first. */
typedef struct Step {
    uint32_t from;
    uint8_t action;
} Step;

typedef struct Saved {
    uint32_t number;            /* its step */
    XbState st;
    GByteArray *card;
    uint8_t *low;               /* memory that was given, ... */
    uint8_t pages[XB_PAGES][XB_BYTES];  /* ... and of the pages */
} Saved;

static XbWorld world;
static GArray *steps;
static uint32_t current;        /* the state that world was in last, and ... */
static int doing = -1;          /* ... the action */
static const char *what = "";
static bool busy;

/* ---- When something is wrong ---- */

static void say_path(uint32_t number)
{
    const Step *s = &g_array_index(steps, Step, number);

    if (number) {
        say_path(s->from);
        printf("%s,", xb_actions[s->action]);
    }
}

static void say_sequence(void)
{
    if (!busy) {
        return;
    }
    busy = false;
    printf("not ok - scene %s, after: ", world.scene->name);
    say_path(current);
    printf("%s%s\n", doing < 0 ? "" : xb_actions[doing], what);
    fflush(stdout);
}

void xb_violation(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    printf("# violation: ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(1);
}

static void on_abort(int signal)
{
    say_sequence();
    _exit(128 + signal);
}

/* ---- Saved and restored ---- */

static size_t low_bytes(void)
{
    return world.h.next - FAKE_RAM_BASE;
}

static Saved *save(uint32_t number)
{
    Saved *s = g_new0(Saved, 1);

    s->number = number;
    s->card = unetmm_core_save(&world.h.core);
    s->low = g_memdup2(world.h.ram, low_bytes());
    for (unsigned i = 0; i < world.st.ref.size; i++) {
        fake_read(&world.h, world.pages[i], s->pages[i], XB_BYTES);
    }
    s->st = world.st;
    s->st.fq_prod = world.e.fq_prod;
    s->st.cq_cons = world.e.cq_cons;
    s->st.tag = world.d.tag;
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        s->st.index[i] = world.d.ring[i].index;
    }
    return s;
}

static void discard(Saved *s)
{
    g_byte_array_unref(s->card);
    g_free(s->low);
    g_free(s);
}

static void restore(const Saved *s)
{
    char *why = NULL;

    memcpy(world.h.ram, s->low, low_bytes());
    world.st = s->st;
    for (unsigned i = 0; i < world.st.ref.size; i++) {
        fake_write(&world.h, world.pages[i], s->pages[i], XB_BYTES);
        fake_rights(&world.h, world.pages[i], XB_BYTES,
                    world.st.present[i] ? FAKE_RW : 0);
    }
    for (unsigned i = 0; i < world.scene->buffers; i++) {
        fake_rights(&world.h, world.buffers[i], XB_BYTES,
                    memchr(world.st.ring, i, world.st.nring) ? FAKE_W : 0);
    }
    world.e.fq_prod = s->st.fq_prod;
    world.e.cq_cons = s->st.cq_cons;
    world.d.tag = s->st.tag;
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        world.d.ring[i].index = s->st.index[i];
    }
    g_array_set_size(world.d.buffers, 0);
    current = s->number;
    xb_must(unetmm_core_load(&world.h.core, s->card->data, s->card->len, &why),
            "the saved state is refused: %s", why);
    fake_run_later(&world.h);
}

/* ---- All of them ---- */

typedef struct Counts {
    uint64_t states, transitions;
    uint32_t most_waiting;
} Counts;

/* A state that is new: forged answers to it, and its end. */
static Saved *look_at(uint32_t from, int action)
{
    Step step = { .from = from, .action = action };
    Saved *s;

    g_array_append_val(steps, step);
    s = save(steps->len - 1);
    current = s->number;
    doing = -1;
    what = "(a forged answer)";
    xb_forge(&world);
    what = "(and left to itself)";
    xb_settle(&world);
    what = "";
    return s;
}

static void expand(const Saved *from, GHashTable *seen, GQueue *next,
                   Counts *c)
{
    bool may[64] = { false };

    restore(from);
    for (unsigned i = 0; i < xb_actions_n; i++) {
        may[i] = xb_may(&world, i);
    }
    for (unsigned i = 0; i < xb_actions_n; i++) {
        uint64_t hash;

        if (!may[i]) {
            continue;
        }
        doing = -1;
        restore(from);
        doing = i;
        xb_do(&world, i);
        c->transitions++;
        hash = xb_hash(&world);
        if (!g_hash_table_add(seen, (void *)(uintptr_t)hash)) {
            continue;
        }
        c->states++;
        c->most_waiting = MAX(c->most_waiting, world.st.ref.head_offset);
        g_queue_push_tail(next, look_at(from->number, i));
    }
}

static void explore(const XbScene *scene, uint64_t most)
{
    GHashTable *seen = g_hash_table_new(NULL, NULL);
    GQueue todo = G_QUEUE_INIT;
    Counts c = { .states = 1 };
    Saved *s;

    steps = g_array_new(false, false, sizeof(Step));
    xb_make(&world, scene);
    busy = true;
    g_hash_table_add(seen, (void *)(uintptr_t)xb_hash(&world));
    g_queue_push_tail(&todo, look_at(0, 0));
    while ((s = g_queue_pop_head(&todo))) {
        if (!most || c.states < most) {
            expand(s, seen, &todo, &c);
        }
        discard(s);
    }
    busy = false;
    printf("ok - scene %s: ring %u, %u bits, %u buffers\n# %" PRIu64 " states"
           "%s, %" PRIu64 " transitions, up to %u slots waiting\n",
           scene->name, 1u << scene->size_log2, scene->bits, scene->buffers,
           c.states, most && c.states >= most ? " (not all)" : ", all",
           c.transitions, c.most_waiting);
    fflush(stdout);
    xb_free(&world);
    g_hash_table_unref(seen);
    g_array_unref(steps);
}

static void usage(void)
{
    printf("Usage: explore_backup [--scene NAME] [--states N] [--all]\n\n"
           "Explores the backup ring until no state is new, or N have been "
           "seen.\nUNETMM_LONG=1 in the environment, or --all, takes the "
           "longer scenes, too.\n\nScenes:\n");
    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        printf("  %s%s\n", scenes[i].name, scenes[i].longer ? " (longer)" :
               "");
    }
    printf("\nActions: r packet  p post  g, b a page goes, comes back  "
           "s, e resolve, give up\n  f another backup buffer  i driver reads "
           "its ring  t process takes one\n  a arm the tail  l landing data has "
           "landed\n");
}

int main(int argc, char **argv)
{
    bool longer = getenv("UNETMM_LONG");
    const char *only = NULL;
    uint64_t most = 0;
    unsigned n = 0;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--all")) {
            longer = true;
        } else if (i + 1 < argc && !strcmp(argv[i], "--scene")) {
            only = argv[++i];
        } else if (i + 1 < argc && !strcmp(argv[i], "--states")) {
            most = strtoull(argv[++i], NULL, 0);
        } else {
            usage();
            return strcmp(argv[i], "--help") ? 2 : 0;
        }
    }
    signal(SIGABRT, on_abort);
    atexit(say_sequence);
    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        if (only ? !strcmp(only, scenes[i].name) : longer ||
            !scenes[i].longer) {
            explore(&scenes[i], most);
            n++;
        }
    }
    printf("1..%u\n", n);
    return n ? 0 : 2;
}
