/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of each file system that a guest can have. */
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

/* Linux 7.3 has crc32c in the kernel itself; ext4 of older ones asks for the module. */
static bool no_ext4(void)
{
    return system("modprobe -q crc32c_generic; modprobe -q ext4") != 0;
}

/* A small file system on the disk that is there for swapping. */
int new_file_on_ext4(void)
{
    int fd;

    if (access("/dev/vda", F_OK) || no_ext4() ||
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

    if (no_ext4() || system("modprobe -q -a nd_e820 nd_pmem") ||
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

/* The second part that the boot has set aside. */
int open_dax_device(void)
{
    static const char make[] =
        "modprobe -q -a nd_e820 nd_pmem dax_pmem device_dax || exit 1; "
        "cd /sys/bus/nd/devices && [ -e namespace1.0 ] || exit 1; "
        "[ ! -e /dev/dax1.0 ] || exit 0; "
        "dax=$(cat region1/dax_seed) && "
        "echo namespace1.0 >/sys/bus/nd/drivers/nd_pmem/unbind && "
        "echo 4096 >$dax/align && echo ram >$dax/mode && "
        "cat /proc/sys/kernel/random/uuid >$dax/uuid && "
        "echo namespace1.0 >$dax/namespace && "
        "echo $dax >/sys/bus/nd/drivers/dax_pmem/bind";

    return system(make) ? -1 : CHECK_SYS(open("/dev/dax1.0", O_RDWR));
}

int new_memory_file(unsigned flags)
{
    return CHECK_SYS((int)syscall(SYS_memfd_create, "test", flags));
}

void drop_caches(void)
{
    CHECK_RET(write_file("/proc/sys/vm/drop_caches", "3"), 0);
}
