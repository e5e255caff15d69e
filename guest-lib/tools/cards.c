/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cards and the driver as sysfs shows them.
 */
#include "cards.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASS           UNETMM_SYSFS "/class/misc"
#define PARAMETERS      UNETMM_SYSFS "/module/unetmm/parameters"
#define PATH_CHARS      512

/* The digits at the end of "unetmmN", or -1. */
static int number_in(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    unsigned long number;
    char *end;

    if (strncmp(name, prefix, length) || name[length] < '0' ||
        name[length] > '9') {
        return -1;
    }
    number = strtoul(name + length, &end, 10);
    return *end || number > 9999 ? -1 : (int)number;
}

int card_number(const char *device)
{
    return number_in(device, UNETMM_DEVICE_PREFIX);
}

/* The first line of a file, without its end. */
static bool read_line(const char *path, char text[TEXT_CHARS])
{
    FILE *file = fopen(path, "re");
    bool good;

    if (!file) {
        return false;
    }
    good = fgets(text, TEXT_CHARS, file);
    fclose(file);
    if (good) {
        text[strcspn(text, "\n")] = '\0';
    }
    return good;
}

static int compare_numbers(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return (x > y) - (x < y);
}

unsigned find_cards(unsigned numbers[MOST_CARDS])
{
    DIR *directory = opendir(CLASS);
    struct dirent *entry;
    unsigned n = 0;

    if (!directory) {
        return 0;
    }
    while (n < MOST_CARDS && (entry = readdir(directory))) {
        int number = number_in(entry->d_name, "unetmm");

        if (number >= 0) {
            numbers[n++] = (unsigned)number;
        }
    }
    closedir(directory);
    qsort(numbers, n, sizeof(*numbers), compare_numbers);
    return n;
}

static int compare_parameters(const void *a, const void *b)
{
    return strcmp(((const struct parameter *)a)->name,
                  ((const struct parameter *)b)->name);
}

unsigned find_parameters(struct parameter found[MOST_PARAMETERS])
{
    DIR *directory = opendir(PARAMETERS);
    struct dirent *entry;
    char path[PATH_CHARS];
    unsigned n = 0;

    if (!directory) {
        return 0;
    }
    while (n < MOST_PARAMETERS && (entry = readdir(directory))) {
        struct parameter *p = &found[n];

        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= TEXT_CHARS) {
            continue;
        }
        strcpy(p->name, entry->d_name);
        snprintf(path, sizeof(path), PARAMETERS "/%s", p->name);
        if (read_line(path, p->value)) {
            p->flag = !strcmp(p->value, "Y") || !strcmp(p->value, "N");
            n++;
        }
    }
    closedir(directory);
    qsort(found, n, sizeof(*found), compare_parameters);
    return n;
}

void card_pci(unsigned number, char text[TEXT_CHARS])
{
    char path[PATH_CHARS], target[PATH_CHARS];
    const char *name;
    ssize_t length;

    text[0] = '\0';
    snprintf(path, sizeof(path), CLASS "/unetmm%u/device", number);
    length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0) {
        return;
    }
    target[length] = '\0';
    name = strrchr(target, '/');
    name = name ? name + 1 : target;
    if (strlen(name) < TEXT_CHARS) {
        strcpy(text, name);
    }
}

bool card_attribute(unsigned number, const char *name, char text[TEXT_CHARS])
{
    char path[PATH_CHARS];

    snprintf(path, sizeof(path), CLASS "/unetmm%u/device/%s", number, name);
    return read_line(path, text);
}
