/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file that is a FUSE file system of its own, one MiB long: its daemon, a process
 * of the test, answers anything at any time.  Reads are not asynchronous.
 */
#ifndef TEST_FUSE_H
#define TEST_FUSE_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUSE_FILE_BYTES (1 << 20)

/* They answer, or do not. */
struct fuse_hooks {
    void (*read)(int fd, const struct fuse_in_header *in, void *argument);
    void (*write)(int fd, const struct fuse_in_header *in, void *argument);
    void *argument;
    uint32_t max_readahead;     /* bytes */
};

/* Skips the test if the kernel has none. */
void fuse_needed(void);
/* Mounts over the file, which is made; returns the connection. */
int fuse_mount(const char *path);
void fuse_answer(int fd, const struct fuse_in_header *in, int error,
                 const void *body, size_t bytes);
/* Waits for one request.  False: it has been unmounted. */
bool fuse_serve(int fd, const struct fuse_hooks *hooks);

#endif /* TEST_FUSE_H */
