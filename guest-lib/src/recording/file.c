/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file of a recording: one for each process, written in whole lines.
 *
 * A lock guards all; no program's code runs under it.  A signal handler that has
 * interrupted a thread which has the lock cannot wait for it: its lines are counted, and
 * left out.  A forked child begins a recording of its own with its first endpoint: it makes the
 * lock anew, so fork() waits for nobody.
 */
#include "recording.h"
#include "text.h"
#include "../sys/lock.h"

#include <limits.h>
#include <stdio.h>

#define BUFFER_BYTES    16384u
/* The file is at most so much behind a program that goes on posting. */
#define LATE_NS         1000000000u

static struct {
    struct sys_lock lock;
    enum { NOT_BEGUN, OPEN, ENDED } state;
    int fd;
    uint64_t began, flushed;
    off_t bytes;                /* of the file, in whole lines */
    uint32_t endpoints;
    size_t used;
    char buffer[BUFFER_BYTES];
} file;

static pthread_once_t children = PTHREAD_ONCE_INIT;
static int no_children;         /* they cannot be told: an error of pthread_atfork() */
/* Lines of signal handlers that had to be left out */
static atomic_uint lost;
/* This thread is about to take the lock, or has it.  No memory is allocated for it. */
static _Thread_local volatile sig_atomic_t inside __attribute__((__tls_model__("initial-exec")));

/* False: the caller is a signal handler that has interrupted this file. */
static bool enter(void)
{
    if (inside) {
        return false;
    }
    inside = 1;
    atomic_signal_fence(memory_order_seq_cst);
    sys_lock_take(&file.lock);
    return true;
}

static void leave(void)
{
    sys_lock_drop(&file.lock);
    atomic_signal_fence(memory_order_seq_cst);
    inside = 0;
}

/* ---- Writing --------------------------------------------------------------- */

/*
 * The one sentence about a recording that ends, or does not begin.  No recording is worth a
 * program: it goes on.
 */
static void complain(const char *what, int error)
{
    const char *why = strerrordesc_np(error);
    struct text t = { 0 };

    text_string(&t, "unetmm: the recording of process ");
    text_number(&t, (uint64_t)getpid(), 10, 1);
    text_string(&t, what);
    if (error) {
        text_string(&t, ": ");
        text_string(&t, why ? why : "unknown error");
    }
    text_char(&t, '\n');
    sys_write_all(STDERR_FILENO, t.bytes, t.used);
}

/* A file that has become too long for the process's limit is an error here, not a signal. */
static int write_buffer(void)
{
    const struct timespec none = { 0 };
    int ret, state = sys_cancel_disable(), saved = errno;
    sigset_t too_long, before;

    sigemptyset(&too_long);
    sigaddset(&too_long, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_long, &before);
    ret = sys_write_all(file.fd, file.buffer, file.used);
    if (ret == -EFBIG && !sigismember(&before, SIGXFSZ)) {
        sigtimedwait(&too_long, NULL, &none);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    sys_cancel_restore(state);
    return ret;
}

static void end(void)
{
    /* A child that is forked behind the close must not close the number once more. */
    file.state = ENDED;
    sys_close(file.fd);
}

static void note_lost(void)
{
    unsigned count = atomic_exchange(&lost, 0);
    struct text t = { 0 };

    if (count && file.used + TEXT_BYTES <= BUFFER_BYTES) {
        text_number(&t, unetmm_recording_now(), 10, 1);
        text_string(&t, " lost 0 - ");
        text_number(&t, count, 10, 1);
        text_string(&t, " -\n");
        memcpy(file.buffer + file.used, t.bytes, t.used);
        file.used += t.used;
    }
}

static void flush(void)
{
    int saved = errno, ret = write_buffer();

    if (!ret) {
        file.bytes += (off_t)file.used;
    } else {
        /* A line that was written in part goes, if it can. */
        (void)!ftruncate(file.fd, file.bytes);
        end();
        complain(" ends here", -ret);
    }
    file.used = 0;
    file.flushed = sys_now_ns();
    errno = saved;
    note_lost();
}

void unetmm_recording_add(const char *text, size_t bytes)
{
    if (!enter()) {
        atomic_fetch_add(&lost, 1);
        return;
    }
    if (file.state == OPEN && bytes > BUFFER_BYTES - file.used) {
        flush();
    }
    if (file.state == OPEN) {
        memcpy(file.buffer + file.used, text, bytes);
        file.used += bytes;
        if (sys_now_ns() - file.flushed > LATE_NS) {
            flush();
        }
    }
    leave();
}

void unetmm_recording_flush(void)
{
    if (enter()) {
        if (file.state == OPEN) {
            flush();
        }
        leave();
    }
}

uint64_t unetmm_recording_now(void)
{
    return sys_now_ns() - file.began;
}

/* ---- Beginning and end ----------------------------------------------------- */

/* The buffer is the parent's to write, and the lock may be that of a thread which is not here. */
static void in_child(void)
{
    if (file.state == OPEN) {
        sys_close(file.fd);
        file.fd = -1;
    }
    file.state = NOT_BEGUN;
    file.used = 0;
    file.endpoints = 0;
    atomic_store(&lost, 0);
    file.lock = (struct sys_lock) { 0 };
}

static void tell_children(void)
{
    no_children = pthread_atfork(NULL, NULL, in_child);
}

/* exit() with open endpoints, of which other threads may still post */
static void __attribute__((__destructor__)) at_exit(void)
{
    if (enter()) {
        if (file.state == OPEN) {
            note_lost();
            flush();
        }
        if (file.state == OPEN) {
            end();
        }
        leave();
    }
}

/* The path with the process's number in place of %p, and % in place of %%; false: no path */
static bool expand(const char *path, char *to, size_t room)
{
    struct text number = { 0 };
    size_t used = 0, i;

    text_number(&number, (uint64_t)getpid(), 10, 1);
    for (; *path; path++) {
        const char *part = path;
        size_t bytes = 1;

        if (*path == '%') {
            path++;
            if (*path == 'p') {
                part = number.bytes;
                bytes = number.used;
            } else if (*path != '%') {
                return false;
            }
        }
        for (i = 0; i < bytes; i++) {
            if (used == room - 1) {
                return false;
            }
            to[used++] = part[i];
        }
    }
    to[used] = 0;
    return used > 0;
}

static void put_heading(void)
{
    struct timespec now;
    struct text t = { 0 };

    clock_gettime(CLOCK_REALTIME, &now);
    text_string(&t, "unetmm-recording 1 ");
    text_number(&t, (uint64_t)getpid(), 10, 1);
    text_char(&t, ' ');
    text_number(&t, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, 10, 1);
    text_char(&t, '\n');
    memcpy(file.buffer, t.bytes, t.used);
    file.used = t.used;
}

/* The state becomes OPEN or ENDED. */
static void begin(const char *variable)
{
    char path[PATH_MAX];
    int fd;

    file.state = ENDED;
    if (no_children) {
        complain(" does not begin", no_children);
        return;
    }
    if (!expand(variable, path, sizeof(path))) {
        complain(" does not begin: UNETMM_RECORD is a path, where %p stands for the process's "
                 "number and %% for %", 0);
        return;
    }
    /* Another process may have the file, which is the parent's if this one is a fork. */
    fd = sys_create(path);
    if (fd == -EEXIST) {
        complain(" does not begin: the file of UNETMM_RECORD is there already; %p in its name "
                 "is the process's number", 0);
        return;
    }
    if (fd < 0) {
        complain(" does not begin: UNETMM_RECORD", -fd);
        return;
    }
    file.fd = fd;
    file.bytes = 0;
    file.began = file.flushed = sys_now_ns();
    put_heading();
    file.state = OPEN;
}

uint32_t unetmm_recording_begin(void)
{
    /* NULL in a program that has more rights than its user. */
    const char *variable = secure_getenv("UNETMM_RECORD");
    uint32_t number = 0;

    if (!variable || !*variable) {
        return 0;
    }
    pthread_once(&children, tell_children);
    if (!enter()) {
        return 0;
    }
    if (file.state == NOT_BEGUN) {
        begin(variable);
    }
    if (file.state == OPEN) {
        number = ++file.endpoints;
    }
    leave();
    return number;
}
