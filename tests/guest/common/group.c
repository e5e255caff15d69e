/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Control groups of version 2, by files of their own mount. */
#include "group.h"
#include "card.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define GROUPS          "/tmp/groups"

static char group[100];

unsigned long long kernel_number(const char *path, const char *word)
{
    unsigned long long value = 0;
    FILE *file = fopen(path, "r");
    size_t n = strlen(word);
    char line[200];

    while (file && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, word, n) && (line[n] == ' ' || line[n] == '\t')) {
            value = strtoull(line + n, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

void group_name(const char *name)
{
    snprintf(group, sizeof(group), GROUPS "/%s", name);
}

static const char *group_path(const char *file)
{
    static char path[200];

    snprintf(path, sizeof(path), "%s/%s", group, file);
    return path;
}

void group_make(const char *name, const char *controller)
{
    mkdir(GROUPS, 0700);
    if (mount("none", GROUPS, "cgroup2", 0, NULL) && errno != EBUSY) {
        test_skip("this kernel has no control groups");
    }
    if (write_file(GROUPS "/cgroup.subtree_control", controller)) {
        test_skip("the kernel lacks the controller %s", controller + 1);
    }
    group_name(name);
    mkdir(group, 0700);
}

void group_enter(const char *name)
{
    group_make(name, "+memory");
    CHECK_RET(write_file(group_path("cgroup.procs"), "0"), 0);
}

int group_write(const char *file, const char *text)
{
    return write_file(group_path(file), text);
}

void group_limit(const char *file, long long bytes)
{
    char text[40];

    snprintf(text, sizeof(text), "%lld", bytes);
    CHECK_RET(write_file(group_path(file), bytes ? text : "max"), 0);
}

void group_reclaim(long long bytes)
{
    char text[40];
    int ret;

    snprintf(text, sizeof(text), "%lld", bytes);
    ret = write_file(group_path("memory.reclaim"), text);
    CHECK(!ret || ret == -EAGAIN);
}

long long group_now(const char *file)
{
    FILE *f = fopen(group_path(file), "r");
    long long now = 0;

    CHECK(f && fscanf(f, "%lld", &now) == 1);
    fclose(f);
    return now;
}

unsigned long long group_event(const char *word)
{
    return kernel_number(group_path("memory.events"), word);
}
