/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's end of the serial port to the host. */
#include "ask.h"
#include "tap.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static int open_port(void)
{
    const char *path = getenv("UNETMM_HOST");
    struct termios mode;
    int fd;

    if (!path || !*path) {
        test_skip("no host to ask: run it by tests/e2e/run");
    }
    fd = CHECK_SYS(open(path, O_RDWR | O_NOCTTY | O_CLOEXEC));
    CHECK_SYS(tcgetattr(fd, &mode));
    cfmakeraw(&mode);
    CHECK_SYS(tcsetattr(fd, TCSANOW, &mode));
    return fd;
}

/* One line, without its end. */
static void read_answer(int fd, char *answer, size_t room)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    uint64_t end = deadline_in(60);
    size_t used = 0;
    char c = 0;

    while (c != '\n') {
        if (now_ns() > end) {
            FAIL("the host does not answer");
        }
        if (CHECK_SYS(poll(&entry, 1, 100)) == 1 && read(fd, &c, 1) == 1 &&
            c != '\n' && used < room - 1) {
            answer[used++] = c;
        }
    }
    answer[used] = '\0';
}

void ask_host(const char *format, ...)
{
    char request[200], answer[200];
    va_list arguments;
    int fd = open_port();

    va_start(arguments, format);
    vsnprintf(request, sizeof(request) - 1, format, arguments);
    va_end(arguments);
    strcat(request, "\n");
    CHECK_EQ(write(fd, request, strlen(request)), strlen(request));
    read_answer(fd, answer, sizeof(answer));
    if (strcmp(answer, "ok")) {
        FAIL("the host says to %.*s: %s", (int)strlen(request) - 1, request,
             answer);
    }
    close(fd);
}
