/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages, the clock and samples of the tools.
 */
#include "common.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

/* Between two looks at a link that is down */
#define LINK_NS     (20 * NS_PER_MS)

const char *tool_name = "unetmm";

static void say(const char *format, va_list args)
{
    /* Rows that were printed belong before the reason why no more come. */
    fflush(stdout);
    flockfile(stderr);
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    funlockfile(stderr);
}

void complain(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
}

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(EXIT_FAILURE);
}

/* Failures that the tools' options explain; the library knows no options. */
static const struct {
    enum unetmm_call call;
    int error;
    const char *words;
} option_words[] = {
    { UNETMM_CALL_LISTEN, -EADDRINUSE, "see --service" },
    { UNETMM_CALL_CONNECT, -EPROTOTYPE, "see --reliable" },
    { UNETMM_CALL_STATS, -ENOENT, "without --endpoint it is the card's" },
};

void complain_call(int error, enum unetmm_call call, const char *what)
{
    size_t i;

    for (i = 0; i < sizeof(option_words) / sizeof(option_words[0]); i++) {
        if (option_words[i].call == call && option_words[i].error == error) {
            complain("%s: %s (%s)", what, unetmm_strerror(error, call),
                     option_words[i].words);
            return;
        }
    }
    complain("%s: %s", what, unetmm_strerror(error, call));
}

void fail_call(int error, enum unetmm_call call, const char *what)
{
    complain_call(error, call, what);
    exit(EXIT_FAILURE);
}

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

int64_t time_left(uint64_t deadline)
{
    uint64_t now = now_ns();

    return now < deadline ? (int64_t)(deadline - now) : 0;
}

bool link_may_come(int ret, uint64_t deadline)
{
    const struct timespec pause = { .tv_nsec = LINK_NS };

    return ret == -ENETDOWN && time_left(deadline) && !nanosleep(&pause, NULL);
}

static int compare_samples(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void sort_samples(uint64_t *samples, size_t count)
{
    qsort(samples, count, sizeof(*samples), compare_samples);
}

uint64_t percentile(const uint64_t *sorted, size_t count, double share)
{
    size_t rank = (size_t)(share * (double)count);

    return sorted[rank < count ? rank : count - 1];
}
