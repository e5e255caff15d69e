/*
 * unetmm: fuzzing without a fuzzer: runs the inputs in the files given
 *
 * usage: fuzz-NAME FILE|DIRECTORY...
 *
 * A directory stands for all files in it.  One TAP line each; the file that a
 * failure ends is named last.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"

static unsigned number;

static void run_file(const char *path)
{
    g_autofree uint8_t *exact = NULL;
    FILE *file = fopen(path, "rb");
    long bytes = -1;

    /* Not by GLib: the memory sanitizer does not see its stores. */
    if (file && !fseek(file, 0, SEEK_END)) {
        bytes = ftell(file);
        rewind(file);
        /* Of the exact size: the sanitizer is to see the end. */
        exact = g_malloc(bytes < 1 ? 1 : bytes);
    }
    if (bytes < 0 || fread(exact, 1, bytes, file) != (size_t)bytes) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    fclose(file);
    printf("# %s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(exact, bytes);
    printf("ok %u - %s\n", ++number, strrchr(path, '/') ?
           strrchr(path, '/') + 1 : path);
}

static gint by_name(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void run_directory(const char *path)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;

    if (!dir) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    while ((name = g_dir_read_name(dir))) {
        g_ptr_array_add(names, g_build_filename(path, name, NULL));
    }
    g_ptr_array_sort(names, by_name);
    for (unsigned i = 0; i < names->len; i++) {
        run_file(names->pdata[i]);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (g_file_test(argv[i], G_FILE_TEST_IS_DIR)) {
            run_directory(argv[i]);
        } else {
            run_file(argv[i]);
        }
    }
    if (!number) {
        fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
        return 2;
    }
    printf("1..%u\n", number);
    return 0;
}
