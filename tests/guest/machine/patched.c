/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CPU runs the code that is there, not code that another has replaced.
 *
 * QEMU 10.0's TCG dropped its translation of code before it stored the new
 * code; another CPU that came by in between translated the old code again, and ran
 * that for ever (the patch `tcg-code-is-dropped-behind-the-store-too` says how).
 * Linux replaces code with a breakpoint, then with other code: a CPU that goes on
 * with the breakpoint hits it, finds none, returns to it and hits it again, with
 * interrupts disabled in the scheduler: both CPUs stand still without a word.
 */
#include "tap.h"

#include <cpuid.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES      4096
#define RETURN          0xc3
/* `mov $N, %eax; ret`, which ends where the first page does */
#define FUNCTION        (PAGE_BYTES - 6)
#define NUMBER          (FUNCTION + 1)

/*
 * Two pages, mapped to be written and to be run.  The replacement goes over the
 * border, and the second page has a translation at each byte: to drop these takes
 * time, between the first page's and the store.
 */
struct code {
    uint8_t *write;
    const uint8_t *run;
    atomic_uint wanted, seen;
    atomic_bool stop;
};

static void run_on(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set)) {
        test_skip("there is no CPU %d", cpu);
    }
}

static unsigned call(const uint8_t *at)
{
    unsigned (*function)(void);

    memcpy(&function, &at, sizeof(function));
    return function();
}

/* As the processor's manual has it: see that it was changed, serialize, run it. */
static void *runner(void *argument)
{
    struct code *code = argument;
    unsigned a, b, c, d, wanted;

    run_on(1);
    while (!atomic_load(&code->stop)) {
        wanted = atomic_load(&code->wanted);
        __cpuid(0, a, b, c, d);
        if (call(code->run + FUNCTION) == wanted) {
            atomic_store(&code->seen, wanted);
        }
        /* Another function of that page, which is left as it is. */
        call(code->run);
    }
    return NULL;
}

/* In one store. */
static void replace(struct code *code, uint32_t number)
{
    uint64_t value = number | 0xc3c3c3c3ull << 32;

    __asm__ volatile("movq %1, (%0)" : : "r"(code->write + NUMBER), "r"(value) :
                     "memory");
}

static void code_open(struct code *code)
{
    int fd = CHECK_SYS(memfd_create("code", 0));
    unsigned i;

    memset(code, 0, sizeof(*code));
    CHECK_SYS(ftruncate(fd, 2 * PAGE_BYTES));
    code->write = CHECK_SYS(mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_SHARED, fd, 0));
    code->run = CHECK_SYS(mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_EXEC,
                               MAP_SHARED, fd, 0));
    CHECK_SYS(close(fd));
    memset(code->write, RETURN, 2 * PAGE_BYTES);
    code->write[FUNCTION] = 0xb8;
    replace(code, 0);
    for (i = PAGE_BYTES; i < 2 * PAGE_BYTES; i++) {
        call(code->run + i);
    }
}

TEST(by_another, TEST_TLB)
{
    struct code code;
    pthread_t thread;
    unsigned i, looks;
    uint64_t end;

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        test_skip("it takes two CPUs");
    }
    code_open(&code);
    run_on(0);
    CHECK_EQ(pthread_create(&thread, NULL, runner, &code), 0);
    for (i = 1; i <= rounds(5000); i++) {
        replace(&code, i);
        atomic_store(&code.wanted, i);
        end = deadline_in(10);
        for (looks = 1; atomic_load(&code.seen) != i; looks++) {
            if (looks % 4096 == 0 && now_ns() > end) {
                FAIL("change %u: the other CPU runs the old code", i);
            }
        }
    }
    atomic_store(&code.stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
