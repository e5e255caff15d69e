/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the network interface of a driver, and runs commands in a shell. */
#include "net.h"
#include "tap.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

const char *net_device(const char *driver)
{
    static char name[32];
    char pattern[100];
    glob_t found;

    name[0] = '\0';
    snprintf(pattern, sizeof(pattern), "/sys/bus/pci/drivers/%s/*/net/*",
             driver);
    if (!glob(pattern, 0, NULL, &found)) {
        snprintf(name, sizeof(name), "%s",
                 strrchr(found.gl_pathv[0], '/') + 1);
        globfree(&found);
    }
    return name;
}

int net_shell(const char *format, ...)
{
    char command[600];
    va_list arguments;
    int status;

    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    status = CHECK_SYS(system(command));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
