/* SPDX-License-Identifier: GPL-2.0-or-later */
/* main() of the programs: a process for each test, its limit, its result as TAP. */
#include "tap.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_SKIP       77
#define REASON_BYTES    200

struct run run = { .slow = 1 };

/* One test's words to the process that started it. */
static char *skip_reason;
static const char *full_name = "";

/* The program's, in the order of their lines. */
static struct test tests[128];
static unsigned test_count;

/* The command line's selection. */
static const char *only;
static const char *only_source;
static bool list_only;
static bool brief;
/* Of every `turns` tests one has its turn; 1: each has. */
static unsigned turn, turns = 1;

/* ---- Checks ---------------------------------------------------------------- */

const char *error_name(long long error)
{
    const char *name = error < 0 ? strerrorname_np((int)-error) : NULL;

    return name ? name : "";
}

void note(const char *format, ...)
{
    va_list arguments;

    flockfile(stdout);
    fputs("# ", stdout);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
    funlockfile(stdout);
}

void test_fail(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    note("%s:%d: %s", strrchr(file, '/') ? strrchr(file, '/') + 1 : file,
         line, text);
    _exit(EXIT_FAILURE);
}

void test_skip(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(skip_reason, REASON_BYTES, format, arguments);
    va_end(arguments);
    _exit(EXIT_SKIP);
}

unsigned rounds(unsigned n)
{
    n = run.lengthy ? n * 10 : n;
    n /= run.slow;
    return n ? n : 1;
}

/* ---- Time, chance, processes ------------------------------------------------- */

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t deadline_in(double seconds)
{
    return now_ns() + (uint64_t)(seconds * run.slow * (double)NS_PER_S);
}

struct patience patience_of(double seconds)
{
    uint64_t now = now_ns();

    return (struct patience) { deadline_in(seconds) - now, now };
}

bool patience_ends(struct patience *p, uint64_t now)
{
    uint64_t passed = now - p->looked;

    passed = passed < NS_PER_S / 10 ? passed : NS_PER_S / 10;
    p->looked = now;
    p->left -= passed < p->left ? passed : p->left;
    return !p->left;
}

void breathe(void)
{
    struct timespec pause = { .tv_nsec = 200 * 1000 };

    nanosleep(&pause, NULL);
}

void idle_ns(uint64_t ns)
{
    uint64_t end = now_ns() + ns;

    while (now_ns() < end) {
        sched_yield();
    }
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

void chance_init(struct chance *chance, uint64_t stream)
{
    const char *c;

    chance->state = mix(run.seed) ^ mix(stream + 1);
    for (c = full_name; *c; c++) {
        chance->state = mix(chance->state ^ (unsigned char)*c);
    }
}

uint64_t chance_u64(struct chance *chance)
{
    chance->state += 0x9e3779b97f4a7c15ull;
    return mix(chance->state);
}

uint32_t chance_below(struct chance *chance, uint32_t n)
{
    return (uint32_t)((chance_u64(chance) >> 32) * n >> 32);
}

void *shared_memory(size_t bytes)
{
    return CHECK_SYS(mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

pid_t start_process(void (*fn)(void *argument), void *argument)
{
    pid_t pid;

    fflush(stdout);
    pid = CHECK_SYS(fork());
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fn(argument);
        _exit(EXIT_SUCCESS);
    }
    return pid;
}

int await_process(pid_t pid)
{
    struct patience patience = patience_of(20);
    int status;

    while (!CHECK_SYS(waitpid(pid, &status, WNOHANG))) {
        if (patience_ends(&patience, now_ns())) {
            FAIL("a process of the test does not end");
        }
        breathe();
    }
    return status;
}

void end_process(pid_t pid)
{
    int status = await_process(pid);

    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        FAIL("a process of the test ended with %s %d",
             WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

/* ---- Objects that a test may not leave behind ---------------------------------- */

#ifndef TEST_ENDPOINTS
#define TEST_ENDPOINTS  "/sys/kernel/debug/unetmm/unetmm0/endpoints"
#endif

struct inventory {
    const char *unknown;        /* a counter that could not be read, or NULL */
    unsigned endpoints;
    uint64_t pinned;
};

/* Endpoints of processes: the driver's own is number 0. */
static bool count_endpoints(unsigned *count)
{
    FILE *file = fopen(TEST_ENDPOINTS, "r");
    char line[200];
    unsigned id;
    bool good;

    *count = 0;
    if (!file) {
        return false;
    }
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "endpoint %u", &id) == 1 && id) {
            (*count)++;
        }
    }
    good = !ferror(file);
    fclose(file);
    return good;
}

static void take_inventory(struct inventory *inventory)
{
    uint64_t values[UNETMM_NUM_DRIVER_COUNTERS];
    struct unetmm_ctx *ctx;

    inventory->unknown = "the driver's counters";
    if (unetmm_open(NULL, UNETMM_OBSERVE, &ctx)) {
        return;
    }
    if (unetmm_stats_read(ctx, UNETMM_SCOPE_DRIVER, 0, values,
                          UNETMM_NUM_DRIVER_COUNTERS) > 0) {
        inventory->pinned = values[UNETMM_D_pinned_now];
        inventory->unknown = count_endpoints(&inventory->endpoints) ? NULL :
            TEST_ENDPOINTS;
    }
    unetmm_close(ctx);
}

/* A card that was reset or plugged again before may need a moment. */
static void await_inventory(struct inventory *inventory)
{
    uint64_t end = deadline_in(20);

    take_inventory(inventory);
    while (inventory->unknown && now_ns() < end) {
        breathe();
        take_inventory(inventory);
    }
}

/*
 * Counts the remaining objects; a dead process's go at once or a little later.
 * A counter that cannot be read may be anything.
 */
static bool inventory_same(const struct inventory *before)
{
    uint64_t end = deadline_in(20);
    struct inventory after;

    if (before->unknown) {
        note("before the test %s cannot be read", before->unknown);
        return false;
    }
    for (;;) {
        take_inventory(&after);
        if (!after.unknown && after.pinned <= before->pinned &&
            after.endpoints <= before->endpoints) {
            return true;
        }
        if (now_ns() > end) {
            break;
        }
        breathe();
    }
    if (after.unknown) {
        note("after the test %s cannot be read", after.unknown);
    } else {
        note("left behind: %d endpoints, %lld pinned pages",
             (int)(after.endpoints - before->endpoints),
             (long long)(after.pinned - before->pinned));
    }
    return false;
}

/* ---- Running one test ----------------------------------------------------------- */

static void become_test(const struct test *test)
{
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    test->run();
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

/* The process's end, or its killing when its time is up (then -1). */
static int await_test(pid_t pid, unsigned seconds)
{
    uint64_t end = deadline_in(seconds);
    struct timespec tick = { .tv_nsec = 100 * 1000 * 1000 };
    sigset_t child;
    int status;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (now_ns() > end) {
            note("out of time after %u s", seconds * run.slow);
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            status = -1;
            break;
        }
        sigtimedwait(&child, NULL, &tick);
    }
    /* Its children go with it, and are ours to bury. */
    kill(-pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    return status;
}

static bool run_test(const struct test *test, unsigned number)
{
    unsigned limit = test->seconds > LEAST_SECONDS ? test->seconds :
        LEAST_SECONDS;
    struct inventory before;
    uint64_t start;
    int status;
    bool good;
    pid_t pid;

    if (run.lengthy) {
        limit *= 10;
    }
    if (!(test->flags & TEST_NO_CARD)) {
        await_inventory(&before);
    }
    skip_reason[0] = '\0';
    fflush(stdout);
    start = now_ns();
    pid = fork();
    if (pid < 0) {
        printf("not ok %u - %s\n# no process\n", number, full_name);
        return false;
    }
    if (!pid) {
        become_test(test);
    }
    setpgid(pid, pid);
    status = await_test(pid, limit);
    if (status != -1 && WIFSIGNALED(status)) {
        note("killed by signal %d", WTERMSIG(status));
    }
    good = test->flags & TEST_NO_CARD || inventory_same(&before);
    if (good && status != -1 && WIFEXITED(status) &&
        WEXITSTATUS(status) == EXIT_SKIP) {
        printf("ok %u - %s # SKIP %s\n", number, full_name, skip_reason);
        return true;
    }
    good = good && !status;
    printf("%s %u - %s # %.1f s\n", good ? "ok" : "not ok", number, full_name,
           (double)(now_ns() - start) / (double)NS_PER_S);
    if (!good) {
        note("again: /tests/%s --seed %llu --only %s%s", run.program,
             (unsigned long long)run.seed,
             full_name + strlen(run.program) + 1,
             run.remote ? " --client MAC" : "");
    }
    return good;
}

/* ---- All tests of a program ------------------------------------------------------- */

/* "name" selects name, name.tlb, ...; "name.tlb" name.tlb, name.tlb.skip ... */
static bool selected(const char *name)
{
    size_t length;

    if (!only) {
        return true;
    }
    length = strlen(only);
    return !strncmp(name, only, length) &&
           (!name[length] || name[length] == '.');
}

struct variant {
    const struct test *test;
    unsigned source, policy;
    bool left_out;              /* this time: the seed has chosen others */
    char name[100];
};

static bool may_leave_out(void)
{
    return !run.lengthy && !only && !only_source;
}

/* The number by which the seed chooses a test's variants, whichever turn the test has. */
static uint64_t lot(unsigned number)
{
    return (number + run.seed) / turns;
}

/* With --turn: it is another run's. */
static bool not_its_turn(unsigned number)
{
    return may_leave_out() && (number + run.seed) % turns != turn;
}

/* One test in three, which the seed chooses: much of it is as for another source. */
#define SHADOW_SHARE    3

static bool shadow_left_out(unsigned flags, unsigned source, bool alone,
                            unsigned number)
{
    uint64_t share;

    if (source != UNETMM_SOURCE_SHADOW && source != UNETMM_SOURCE_ODP) {
        return false;
    }
    /* A test for these two alone runs with one of them each time. */
    share = flags == (TEST_SHADOW | TEST_ODP) ? 2 : SHADOW_SHARE;
    return !alone && !brief && may_leave_out() &&
           (lot(number) + source) % share;
}

/* With --brief: the n-th of the sources, or policies, that a test is for. */
static bool left_out(unsigned n, unsigned many, uint64_t drawn)
{
    return brief && may_leave_out() && n != drawn % many;
}

static void add_variants(const struct test *test, unsigned number,
                         struct variant *variants, unsigned *count)
{
    static const struct { unsigned flag, source; const char *name; }
        sources[] = {
            { TEST_TLB, UNETMM_SOURCE_TLB, ".tlb" },
            { TEST_KTLB, UNETMM_SOURCE_KTLB, ".ktlb" },
            { TEST_PINNED, UNETMM_SOURCE_PINNED, ".pinned" },
            { TEST_UTLB, UNETMM_SOURCE_UTLB, ".utlb" },
            { TEST_SHADOW, UNETMM_SOURCE_SHADOW, ".shadow" },
            { TEST_ODP, UNETMM_SOURCE_ODP, ".odp" },
        };
    unsigned many = (unsigned)__builtin_popcount(test->flags & TEST_SOURCES);
    unsigned s, p, n = 0;

    if (run.remote ? !(test->flags & (TEST_REMOTE | TEST_ONLY_REMOTE)) :
        test->flags & TEST_ONLY_REMOTE) {
        return;
    }
    for (s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
        bool any = test->flags & TEST_SOURCES, out;

        if (any ? !(test->flags & sources[s].flag) ||
            (only_source && strcmp(only_source, sources[s].name + 1)) : s) {
            continue;
        }
        out = any && (left_out(n++, many, lot(number)) ||
            shadow_left_out(test->flags & TEST_SOURCES, sources[s].source,
                            many == 1 || test->flags & TEST_EVERY, number));
        for (p = 0; p < (test->flags & TEST_POLICIES ? 2 : 1); p++) {
            struct variant *v = &variants[*count];

            v->left_out = out || not_its_turn(number) ||
                          (test->flags & TEST_POLICIES &&
                           left_out(p, 2, lot(number) / (any ? many : 1)));
            v->test = test;
            v->source = sources[s].source;
            v->policy = p ? UNETMM_POLICY_DROP : UNETMM_POLICY_SKIP;
            snprintf(v->name, sizeof(v->name), "%s.%s%s%s", run.program,
                     test->name, any ? sources[s].name : "",
                     !(test->flags & TEST_POLICIES) ? "" :
                     p ? ".drop" : ".skip");
            *count += selected(v->name + strlen(run.program) + 1);
        }
    }
}

static void usage(const char *program)
{
    printf("Usage: %s [--seed N] [--only TEST] [--list] [--client MAC]\n"
           "       %*s [--slow N] [--brief] [--turn I/N] [--long]\n\n"
           "  --seed N      repeats the run that printed this seed\n"
           "  --only TEST   TEST, TEST.SOURCE or TEST.SOURCE.POLICY alone\n"
           "  --source S    the variants with that source alone\n"
           "  --list        prints the names\n"
           "  --client MAC  the tests that talk to the program `echo` in\n"
           "                another guest, whose card has the address MAC\n"
           "  --slow N      N times as patient, and N times fewer rounds\n"
           "  --brief       each test with one source and one policy only,\n"
           "                which the seed chooses\n"
           "  --turn I/N    one test of every N, others for each I from 0 on\n"
           "  --long        ten times as many rounds, and all variants\n",
           program, (int)strlen(program), "");
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "seed", required_argument, NULL, 's' },
        { "only", required_argument, NULL, 'o' },
        { "source", required_argument, NULL, 'S' },
        { "list", no_argument, NULL, 'l' },
        { "local", no_argument, NULL, 'L' },
        { "client", required_argument, NULL, 'c' },
        { "slow", required_argument, NULL, 'w' },
        { "brief", no_argument, NULL, 'b' },
        { "turn", required_argument, NULL, 't' },
        { "long", no_argument, NULL, 'g' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int c;

    run.seed = now_ns() ^ (uint64_t)getpid() << 40;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 's') {
            run.seed = strtoull(optarg, NULL, 0);
        } else if (c == 'o') {
            only = optarg;
        } else if (c == 'S') {
            only_source = optarg;
        } else if (c == 'l') {
            list_only = true;
        } else if (c == 'c') {
            run.remote = true;
            if (unetmm_parse_mac(optarg, run.peer)) {
                printf("Bail out! %s is not a MAC address\n", optarg);
                exit(2);
            }
        } else if (c == 'w') {
            run.slow = (unsigned)strtoul(optarg, NULL, 0);
            run.slow = run.slow ? run.slow : 1;
        } else if (c == 'b') {
            brief = true;
        } else if (c == 't') {
            if (sscanf(optarg, "%u/%u", &turn, &turns) != 2 || turn >= turns) {
                printf("Bail out! --turn %s: use 0/2 or 1/2, for instance\n",
                       optarg);
                exit(2);
            }
        } else if (c == 'g') {
            run.lengthy = true;
        } else if (c != 'L') {
            usage(argv[0]);
            exit(c == 'h' ? 0 : 2);
        }
    }
}

static unsigned run_all(const struct variant *variants, unsigned count)
{
    unsigned i, failed = 0;

    printf("1..%u\n", count);
    note("%s --seed %llu", run.program, (unsigned long long)run.seed);
    for (i = 0; i < count; i++) {
        full_name = variants[i].name;
        if (variants[i].left_out) {
            printf("ok %u - %s # SKIP left out: the seed chose others (--long "
                   "runs all)\n", i + 1, full_name);
            continue;
        }
        run.source = variants[i].source;
        run.policy = variants[i].policy;
        failed += !run_test(variants[i].test, i + 1);
    }
    return failed;
}

void test_add(const struct test *test)
{
    unsigned i = test_count++;
    char *c;

    if (i == sizeof(tests) / sizeof(tests[0])) {
        abort();
    }
    for (; i > 0 && tests[i - 1].line > test->line; i--) {
        tests[i] = tests[i - 1];
    }
    tests[i] = *test;
    for (c = tests[i].name; *c; c++) {
        *c = *c == '_' ? '-' : *c;
    }
}

int test_main(int argc, char **argv)
{
    struct variant *variants = calloc(test_count * 12, sizeof(*variants));
    unsigned i, n = 0;
    sigset_t child;

    run.program = program_invocation_short_name;
    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (i = 0; i < test_count; i++) {
        add_variants(&tests[i], i, variants, &n);
    }
    for (i = 0; list_only && i < n; i++) {
        if (!variants[i].left_out) {
            puts(variants[i].name);
        }
    }
    if (list_only) {
        free(variants);
        return 0;
    }
    skip_reason = shared_memory(REASON_BYTES);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    n = run_all(variants, n);
    free(variants);
    return n ? 1 : 0;
}

int __attribute__((weak)) main(int argc, char **argv)
{
    return test_main(argc, argv);
}
