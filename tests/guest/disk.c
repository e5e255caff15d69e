/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "disk.h"
#include "card.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int new_file(const char *path)
{
    int fd = CHECK_SYS(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));

    CHECK_SYS(unlink(path));
    return fd;
}

/* A small file system on the disk that is there for swapping. */
int new_file_on_ext4(void)
{
    int fd;

    if (access("/dev/vda", F_OK) || system("modprobe -q -a crc32c_generic ext4") ||
        system("mke2fs -b 4096 /dev/vda 2048 >/dev/null 2>&1")) {
        return -1;
    }
    mkdir("/tmp/disk", 0700);
    CHECK_SYS(mount("/dev/vda", "/tmp/disk", "ext4", 0, NULL));
    fd = new_file("/tmp/disk/file");
    /* Gone as soon as nothing is open or mapped any more. */
    CHECK_SYS(umount2("/tmp/disk", MNT_DETACH));
    return fd;
}

/* On memory that the boot has set aside (memmap=), as long as the file system lives. */
int new_file_on_dax(void)
{
    int fd;

    if (system("modprobe -q -a nd_e820 nd_pmem crc32c_generic ext4") ||
        access("/dev/pmem0", F_OK) ||
        system("mke2fs -b 4096 /dev/pmem0 2048 >/dev/null 2>&1")) {
        return -1;
    }
    mkdir("/tmp/dax", 0700);
    CHECK_SYS(mount("/dev/pmem0", "/tmp/dax", "ext4", 0, "dax"));
    fd = new_file("/tmp/dax/file");
    CHECK_SYS(umount2("/tmp/dax", MNT_DETACH));
    return fd;
}

int new_memory_file(unsigned flags)
{
    return CHECK_SYS((int)syscall(SYS_memfd_create, "test", flags));
}

void drop_caches(void)
{
    CHECK_RET(write_file("/proc/sys/vm/drop_caches", "3"), 0);
}
