/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs of tests that run in a guest: main(), checks, output (TAP).
 *
 * Each test runs in a process of its own with a limit on its time, so that a
 * crash or a hang is one failure and not the end.  After each the driver must
 * have the same objects as before: no endpoint and no pinned page may be left.
 *
 * A test is named PROGRAM.TEST, with .SOURCE and .POLICY behind it if it runs
 * for several.  The random numbers of a test depend on --seed and
 * on its name, so the test does the same alone and among others.
 */
#ifndef TEST_TAP_H
#define TEST_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <libunetmm.h>

#define NS_PER_US       1000ull
#define NS_PER_MS       1000000ull
#define NS_PER_S        1000000000ull

/* In which variants a test runs */
#define TEST_TLB        0x01    /* source tlb */
#define TEST_PINNED     0x02    /* source pinned */
#define TEST_BOTH       0x03
#define TEST_KTLB       0x40    /* source ktlb */
#define TEST_MISS       0x41    /* both ports of U-Net/MM */
#define TEST_ALL        0x43
#define TEST_UTLB       0x80    /* source utlb */
#define TEST_SHADOW     0x100   /* source shadow */
#define TEST_ODP        0x400   /* source odp */
#define TEST_SOURCES    0x5c3
#define TEST_EVERY      0x200   /* shadow, odp are never left out by chance */
#define TEST_POLICIES   0x04    /* policies skip and drop; else skip alone */
#define TEST_REMOTE     0x08    /* in role client, too: two guests */
#define TEST_ONLY_REMOTE 0x10   /* in role client alone */
#define TEST_NO_CARD    0x20    /* takes the card away: look at nothing after */

/*
 * Defines a test and puts it into its program:
 *
 *     TEST(for_what_it_has, TEST_TLB)          TEST(shared, TEST_TLB, 300)
 *     {                                        {
 *
 * The test's name is the function's with - in place of _ (for-what-it-has).
 * Behind the variants comes the limit, if the test needs more than
 * LEAST_SECONDS.  TEST_NAMED() gives the test another name, and ALSO() has the
 * function run once more under another name.  Tests run in the order of their
 * lines.
 */
#define TEST(fn, ...) TEST_NAMED(#fn, fn, __VA_ARGS__)
#define TEST_NAMED(name, fn, ...) \
    static void fn(void); \
    ALSO(name, fn, __VA_ARGS__) static void fn(void)
#define ALSO(name, fn, ...) TEST_ON(__LINE__, name, fn, __VA_ARGS__)
#define TEST_ON(line, name, fn, ...) TEST_AT(line, name, fn, __VA_ARGS__)
#define TEST_AT(at, title, fn, ...) \
    static void __attribute__((constructor)) fn##_at_##at(void) \
    { \
        test_add(&(struct test) { .line = at, .name = title, .run = fn, \
                                  .flags = __VA_ARGS__ }); \
    }

struct test {
    unsigned line;
    char name[40];
    void (*run)(void);
    unsigned flags;
    unsigned seconds;           /* limit, if it needs more than LEAST_SECONDS */
};

void test_add(const struct test *test);

/*
 * A hung test costs so long, others cost nothing by it: a busy machine
 * takes ten times as long as usual for a test that takes some seconds.
 */
#define LEAST_SECONDS 120

/* Datagrams: for the tests of channels as such. */
static const struct unetmm_channel_attr datagram_attr __attribute__((unused)) =
    UNETMM_CHANNEL_ATTR_DATAGRAM;

/* Values of the command line and the variant; the same in all processes. */
struct run {
    const char *program;
    uint64_t seed;
    unsigned source;            /* UNETMM_SOURCE_* */
    unsigned policy;            /* UNETMM_POLICY_* */
    bool remote;                /* role client: `peer` has an echo server */
    uint8_t peer[6];
    unsigned slow;              /* 1; more where all takes longer */
    bool lengthy;               /* --long: ten times as often */
};
extern struct run run;

/* main() of a program that does not define its own */
int test_main(int argc, char **argv);

/* How often to repeat an action that an ordinary run does `n` times. */
unsigned rounds(unsigned n);

/* ---- Checks: a failed one ends the process ---------------------------------- */

void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Ends the test: its requirements are not met. */
void test_skip(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));
/* A line for people. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            FAIL("%s", #condition); \
        } \
    } while (0)

#define CHECK_EQ(expression, wanted) \
    do { \
        long long got_ = (long long)(expression); \
        long long wanted_ = (long long)(wanted); \
        if (got_ != wanted_) { \
            FAIL("%s is %lld, not %lld (%s)", #expression, got_, wanted_, \
                 #wanted); \
        } \
    } while (0)

/* For results that are 0, a number, or -errno. */
#define CHECK_RET(expression, wanted) \
    do { \
        long long got_ = (long long)(expression); \
        long long wanted_ = (long long)(wanted); \
        if (got_ != wanted_) { \
            FAIL("%s is %lld%s%s, not %lld (%s)", #expression, got_, \
                 got_ < 0 ? " " : "", got_ < 0 ? error_name(got_) : "", \
                 wanted_, #wanted); \
        } \
    } while (0)

/* For calls of the C library. */
#define CHECK_SYS(expression) \
    ({ \
        __auto_type value_ = (expression); \
        if ((long)value_ == -1) { \
            FAIL("%s: %s", #expression, error_name(-errno)); \
        } \
        value_; \
    })

const char *error_name(long long error);

/* ---- Time, chance, processes ------------------------------------------------- */

uint64_t now_ns(void);

/* So many seconds from now, as a point in time; more on a slow machine. */
uint64_t deadline_in(double seconds);

/* A pause between two looks at a state that cannot be waited for otherwise. */
void breathe(void);

/*
 * How long to go on looking.  Time that passes between two looks, as while the host
 * stood still or had others to serve, counts 100 ms at most: a condition that would
 * hold a moment later is looked at a hundred times before ten seconds are over.
 */
struct patience {
    uint64_t left, looked;      /* ns; a point in time */
};

struct patience patience_of(double seconds);

/* A look at that time. */
bool patience_ends(struct patience *p, uint64_t now);

/* Loops until the condition holds, bounded. */
#define EVENTUALLY(condition) \
    do { \
        struct patience patience_ = patience_of(10); \
        while (!(condition)) { \
            if (patience_ends(&patience_, now_ns())) { \
                FAIL("not within 10 s: %s", #condition); \
            } \
            breathe(); \
        } \
    } while (0)

struct chance {
    uint64_t state;
};

/* A generator for this test; another `stream` gives other numbers. */
void chance_init(struct chance *chance, uint64_t stream);
uint64_t chance_u64(struct chance *chance);
/* 0 .. n - 1 */
uint32_t chance_below(struct chance *chance, uint32_t n);

/* Does nothing for about so long; for pauses of random length. */
void idle_ns(uint64_t ns);

/* A process that runs fn(argument) and then ends well. */
pid_t start_process(void (*fn)(void *argument), void *argument);
/* Waits for its end, bounded; fails unless it ended well. */
void end_process(pid_t pid);
/* The same; returns waitpid()'s status. */
int await_process(pid_t pid);

/* A page that all processes of the test share, zeroed. */
void *shared_memory(size_t bytes);

#endif /* TEST_TAP_H */
