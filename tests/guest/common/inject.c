/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Faults of the kernel by /proc/thread-self/fail-nth and by debugfs. */
#include "inject.h"
#include "card.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEBUGFS     "/sys/kernel/debug/"
#define FAIL_NTH    "/proc/thread-self/fail-nth"

/* The first two are allocations. */
static const char *const kinds[] = {
    "failslab", "fail_page_alloc", "fail_usercopy",
};
#define NUM_KINDS   (sizeof(kinds) / sizeof(kinds[0]))

/* A knob that not every kind has is left out where it is missing. */
static void set(const char *kind, const char *knob, const char *value)
{
    char path[128];
    int ret;

    snprintf(path, sizeof(path), DEBUGFS "%s/%s", kind, knob);
    ret = write_file(path, value);
    if (ret && ret != -ENOENT) {
        FAIL("%s does not take %s: %s", path, value, error_name(ret));
    }
}

static void set_all(const char *knob, const char *value)
{
    unsigned i;

    for (i = 0; i < NUM_KINDS; i++) {
        set(kinds[i], knob, value);
    }
}

void inject_need(void)
{
    unsigned i;

    for (i = 0; i < NUM_KINDS; i++) {
        char path[128];

        snprintf(path, sizeof(path), DEBUGFS "%s/probability", kinds[i]);
        if (access(FAIL_NTH, W_OK) || access(path, W_OK)) {
            test_skip("this kernel has no fault injection (%s)", kinds[i]);
        }
    }
    inject_stop();
    set_all("verbose", "0");
    set_all("ignore-gfp-wait", "N");
    set_all("ignore-gfp-highmem", "N");
    set_all("min-order", "0");
}

/* ---- One failure in this thread -------------------------------------------------- */

static int open_nth(void)
{
    static __thread int fd = -1;

    if (fd < 0) {
        fd = CHECK_SYS(open(FAIL_NTH, O_RDWR | O_CLOEXEC));
    }
    return fd;
}

void inject_nth(unsigned n)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%u", n);

    CHECK_EQ(pwrite(open_nth(), text, (size_t)len, 0), len);
}

unsigned inject_end(void)
{
    char text[16] = { 0 };
    int fd = open_nth();
    /* If the failure is still to come, it may meet these calls. */
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    int tries;

    for (tries = 0; pwrite(fd, "0", 1, 0) != 1; tries++) {
        CHECK(errno == EFAULT && !tries);
    }
    return got > 0 ? (unsigned)atoi(text) : 1;
}

/* ---- Many in kernel threads ------------------------------------------------------ */

/* kthreadd's children, and itself: its children inherit the setting. */
static bool is_kernel_thread(const char *directory)
{
    char path[128], line[16];
    bool empty;
    FILE *file;

    snprintf(path, sizeof(path), "%s/cmdline", directory);
    file = fopen(path, "r");
    if (!file) {
        return false;
    }
    empty = !fread(line, 1, 1, file);
    fclose(file);
    return empty;
}

static void mark_workers(const char *value)
{
    glob_t found;
    size_t i;

    CHECK_EQ(glob("/proc/[0-9]*", GLOB_NOSORT, NULL, &found), 0);
    for (i = 0; i < found.gl_pathc; i++) {
        char path[128];

        if (is_kernel_thread(found.gl_pathv[i])) {
            snprintf(path, sizeof(path), "%s/make-it-fail",
                     found.gl_pathv[i]);
            write_file(path, value);
        }
    }
    globfree(&found);
}

void inject_into_workers(unsigned percent, unsigned most)
{
    char text[16];

    mark_workers("1");
    set_all("task-filter", "Y");
    snprintf(text, sizeof(text), "%u", most);
    set_all("times", text);
    snprintf(text, sizeof(text), "%u", percent);
    set_all("probability", text);
}

void inject_into_those_in_haste(unsigned percent)
{
    char text[16];
    unsigned i;

    snprintf(text, sizeof(text), "%u", percent);
    /* Not copies from users: those are not allocations. */
    for (i = 0; i < 2; i++) {
        set(kinds[i], "task-filter", "N");
        set(kinds[i], "ignore-gfp-wait", "Y");
        set(kinds[i], "times", "-1");
        set(kinds[i], "probability", text);
    }
}

void inject_stop(void)
{
    set_all("probability", "0");
    set_all("times", "1");
    set_all("task-filter", "Y");
    set_all("ignore-gfp-wait", "N");
    mark_workers("0");
}
