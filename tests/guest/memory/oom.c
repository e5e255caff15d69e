/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel kills the owner of memory that the card fills, since a control group
 * has no room for it: the card's faults find that out, and the pages are taken back
 * while they are in use.  Other processes do not notice, and nothing is left.
 */
#include "card.h"
#include "group.h"
#include "pair.h"
#include "traffic.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK           16u             /* pages of a message */
#define FIELD_PAGES     32768u          /* 128 MiB */
#define ROOM            ((long long)2 << 20)

static struct oom_state {
    atomic_bool began;
    atomic_uint chunks;
} *state;

static uint8_t *field(bool shared)
{
    return CHECK_SYS(mmap(NULL, FIELD_PAGES * PAGE, PROT_READ | PROT_WRITE,
                          MAP_ANONYMOUS | MAP_NORESERVE |
                          (shared ? MAP_SHARED : MAP_PRIVATE), -1, 0));
}

/* Receives into more than fits; whatever it is told, it goes on until it is killed. */
static void victim_main(void *argument)
{
    static const struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    uint8_t *at, *from = small_pages(CHUNK);
    struct iovec iov = { from, CHUNK * PAGE };
    struct unetmm_ep_attr patient = default_attr();
    struct unetmm_completion c;
    struct station one, two;
    struct unetmm_ctx *ctx;
    unsigned i;

    group_enter("oom");
    at = field(*(bool *)argument);
    CHECK_SYS(madvise(at, FIELD_PAGES * PAGE, MADV_NOHUGEPAGE));
    memset(from, 1, CHUNK * PAGE);
    ctx = open_card();
    /* With policy skip a buffer comes back whose page-in takes its time. */
    patient.policy = UNETMM_POLICY_DROP;
    station_open(&one, ctx, NULL);
    station_open(&two, ctx, &patient);
    CHECK_RET(try_join(&one, &two, &attr, 10 * NS_PER_S * run.slow), 0);
    group_limit("memory.swap.max", 1);
    group_limit("memory.max", group_now("memory.current") + ROOM);
    atomic_store(&state->began, true);
    for (i = 0; i < FIELD_PAGES / CHUNK; i++) {
        post(&two, at + i * CHUNK * PAGE, CHUNK * PAGE, i);
        send_pieces(&one, &iov, 1, i, 0);
        take(&one, UNETMM_CQE_SENT, &c);
        atomic_store(&state->chunks, i);
    }
    FAIL("all of it fitted");
}

static unsigned long long charged(void)
{
    return kernel_number("/sys/kernel/debug/unetmm/unetmm0/counters",
                         "charged");
}

static unsigned count_spaces(void)
{
    FILE *file = fopen("/sys/kernel/debug/unetmm/unetmm0/spaces", "r");
    unsigned n = 0;
    char line[400];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        n += !strncmp(line, "space ", 6);
    }
    fclose(file);
    return n;
}

/* The process's charges, with pages of the table that grows with it. */
static unsigned long long charged_to(pid_t pid)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    return kernel_number(path, "VmPin:") * 1024 / PAGE;
}

/* Is nothing charged but to that process (0: nothing at all)? */
static bool charged_alone(pid_t pid)
{
    unsigned long long own = pid ? charged_to(pid) : 0;

    return charged() == own && (!pid || charged_to(pid) == own);
}

/*
 * The pages of a process are given back some time after it has ended.  The charges
 * of a living one may change meanwhile: a table of resident pages grows with the
 * pages that the process touches.
 */
static void await_charges(unsigned spaces, pid_t pid)
{
    uint64_t end = deadline_in(10);

    while (count_spaces() != spaces || !charged_alone(pid)) {
        if (now_ns() > end) {
            FAIL("%u spaces with %llu pages are left, not %u with %llu",
                 count_spaces(), charged(), spaces,
                 pid ? charged_to(pid) : 0);
        }
        breathe();
    }
}

static void killed_by_oom(bool shared)
{
    struct crowd crowd;
    unsigned i, spaces;
    unsigned long long kills;

    group_name("oom");
    kills = group_event("oom_kill");
    state = shared_memory(sizeof(*state));
    /* Earlier processes have charges of their own to give back. */
    await_charges(0, 0);
    crowd_start(&crowd, 1);
    spaces = count_spaces();
    CHECK(charged_to(crowd.pids[0]));
    for (i = 0; i < rounds(3); i++) {
        int status;
        pid_t pid;

        memset(state, 0, sizeof(*state));
        pid = start_process(victim_main, &shared);
        status = await_process(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(atomic_load(&state->began));
        CHECK(group_event("oom_kill") > kills + i);
        crowd_await(&crowd, 5);
        await_charges(spaces, crowd.pids[0]);
        note("killed after %u messages", atomic_load(&state->chunks));
    }
    crowd_stop(&crowd);
}

TEST(anonymous, TEST_TLB | TEST_SHADOW | TEST_ODP)
{
    killed_by_oom(false);
}

/* Which the kernel cannot take back before the process has ended. */
TEST(shared, TEST_TLB | TEST_SHADOW | TEST_ODP)
{
    killed_by_oom(true);
}

/* ---- Taken from a dying process ------------------------------------------------------- */

#define SYS_PROCESS_MRELEASE 448
#define REAPED_PAGES    256u

/* Has the card write to all of its memory, again and again. */
static void busy_main(void *argument)
{
    uint8_t *at = small_pages(REAPED_PAGES), *from = small_pages(CHUNK);
    struct pair p;
    unsigned i;

    (void)argument;
    pair_open(&p);
    memset(from, 1, CHUNK * PAGE);
    for (i = 0; ; i++) {
        pass(&p, from, at + i % (REAPED_PAGES / CHUNK) * CHUNK * PAGE,
             CHUNK * PAGE);
        atomic_store(&state->chunks, i);
    }
}

/*
 * As the kernel's reaper does it, in a context that must not block, while the owner
 * has not begun to end: it has no processor before that.
 */
static bool killed_and_reaped(pid_t pid)
{
    struct sched_param first = { .sched_priority = 1 }, usual = { 0 };
    int fd = (int)CHECK_SYS(syscall(SYS_pidfd_open, pid, 0));
    int ret, error;

    CHECK_SYS(sched_setscheduler(0, SCHED_FIFO, &first));
    CHECK_SYS(kill(pid, SIGKILL));
    ret = (int)syscall(SYS_PROCESS_MRELEASE, fd, 0);
    error = errno;
    CHECK_SYS(sched_setscheduler(0, SCHED_OTHER, &usual));
    close(fd);
    if (ret && error == ENOSYS) {
        test_skip("this kernel takes nobody's memory back");
    }
    return !ret;
}

TEST(reaped, TEST_SHADOW | TEST_ODP)
{
    unsigned i, n = rounds(6), good = 0;
    cpu_set_t one;

    state = shared_memory(sizeof(*state));
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    CHECK_SYS(sched_setaffinity(0, sizeof(one), &one));
    for (i = 0; i < n || (!good && i < 20 * n); i++) {
        uint8_t *poison = small_pages(2 * REAPED_PAGES);
        pid_t pid;

        memset(state, 0, sizeof(*state));
        pid = start_process(busy_main, NULL);
        EVENTUALLY(atomic_load(&state->chunks) > REAPED_PAGES / CHUNK);
        good += killed_and_reaped(pid);
        memset(poison, 0x5a, 2 * REAPED_PAGES * PAGE);
        await_process(pid);
        CHECK_BYTES(poison, 2 * REAPED_PAGES * PAGE, 0x5a);
        unmap_pages(poison, 2 * REAPED_PAGES);
    }
    note("%u of %u had their memory taken back before they ended", good, i);
    CHECK(good);
    set_parameter("odp_prefetch", PREFETCH);
}
