/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's side of a FUSE file system: mounts, reads requests, answers them. */
#include "fuse.h"
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FUSE_BYTES      0x21000

void fuse_needed(void)
{
    if (access("/dev/fuse", R_OK) &&
        (system("modprobe -q fuse") || access("/dev/fuse", R_OK))) {
        test_skip("this kernel has no FUSE");
    }
}

int fuse_mount(const char *path)
{
    char options[80];
    int fd;

    fd = CHECK_SYS(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    /* A test that failed may have left it. */
    umount2(path, MNT_DETACH);
    close(CHECK_SYS(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)));
    snprintf(options, sizeof(options),
             "fd=%d,rootmode=100000,user_id=0,group_id=0", fd);
    CHECK_SYS(mount("kept", path, "fuse", MS_NOSUID | MS_NODEV, options));
    return fd;
}

void fuse_answer(int fd, const struct fuse_in_header *in, int error,
                 const void *body, size_t bytes)
{
    struct fuse_out_header out = {
        .len = (uint32_t)(sizeof(out) + bytes), .error = error,
        .unique = in->unique,
    };
    struct iovec parts[] = {
        { &out, sizeof(out) }, { (void *)(uintptr_t)body, bytes },
    };

    /* A request whose process has been killed is gone. */
    if (writev(fd, parts, bytes ? 2 : 1) != (ssize_t)out.len) {
        CHECK_EQ(errno, ENOENT);
    }
}

static void fuse_dispatch(int fd, const struct fuse_in_header *in,
                          const struct fuse_hooks *hooks)
{
    struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096,
        .max_readahead = hooks->max_readahead,
    };
    struct fuse_attr_out attr = {
        .attr_valid = 3600,
        .attr = { .ino = 1, .size = FUSE_FILE_BYTES, .mode = S_IFREG | 0600,
                  .nlink = 1, .blksize = 4096 },
    };
    /* Else another open() drops the pages of earlier ones. */
    struct fuse_open_out opened = {
        .fh = 1, .open_flags = FOPEN_KEEP_CACHE,
    };

    switch (in->opcode) {
    case FUSE_INIT:
        fuse_answer(fd, in, 0, &init, sizeof(init));
        break;
    case FUSE_GETATTR:
        fuse_answer(fd, in, 0, &attr, sizeof(attr));
        break;
    case FUSE_OPEN:
        fuse_answer(fd, in, 0, &opened, sizeof(opened));
        break;
    case FUSE_READ:
        hooks->read(fd, in, hooks->argument);
        break;
    case FUSE_WRITE:
        hooks->write(fd, in, hooks->argument);
        break;
    case FUSE_RELEASE:
    case FUSE_FLUSH:
        fuse_answer(fd, in, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        fuse_answer(fd, in, -ENOSYS, NULL, 0);
        break;
    }
}

bool fuse_serve(int fd, const struct fuse_hooks *hooks)
{
    static uint8_t buffer[FUSE_BYTES] __attribute__((aligned(8)));

    if (read(fd, buffer, sizeof(buffer)) <= 0) {
        return false;
    }
    fuse_dispatch(fd, (const void *)buffer, hooks);
    return true;
}
