/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registers a userfaultfd, and takes the faults that sleep there. */
#include "watch.h"
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void watch_start(struct watch *watch, uint8_t *at, unsigned npages,
                 uint64_t mode)
{
    struct uffdio_register reg = {
        .range = { (uintptr_t)at, npages * PAGE }, .mode = mode,
    };
    struct uffdio_api api = { .api = UFFD_API };

    watch->at = at;
    watch->npages = npages;
    watch->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (watch->fd < 0) {
        test_skip("this kernel has no userfaultfd");
    }
    CHECK_SYS(ioctl(watch->fd, UFFDIO_API, &api));
    if (ioctl(watch->fd, UFFDIO_REGISTER, &reg)) {
        test_skip("this kernel's userfaultfd cannot do it: %s",
                  error_name(-errno));
    }
}

void watch_end(struct watch *watch)
{
    struct uffdio_range range = { (uintptr_t)watch->at, watch->npages * PAGE };

    CHECK_SYS(ioctl(watch->fd, UFFDIO_UNREGISTER, &range));
    close(watch->fd);
}

bool watch_wanted(struct watch *watch, int ms, unsigned *page, bool *protect)
{
    struct pollfd entry = { .fd = watch->fd, .events = POLLIN };
    struct uffd_msg msg;
    ssize_t got;

    if (CHECK_SYS(poll(&entry, 1, ms)) != 1) {
        return false;
    }
    got = read(watch->fd, &msg, sizeof(msg));
    if (got < 0 && errno == EAGAIN) {
        return false;           /* it does not wait any more */
    }
    CHECK_EQ(got, sizeof(msg));
    CHECK_EQ(msg.event, UFFD_EVENT_PAGEFAULT);
    *page = (unsigned)((msg.arg.pagefault.address - (uintptr_t)watch->at) /
                       PAGE);
    CHECK(*page < watch->npages);
    *protect = msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP;
    return true;
}

bool watch_bring(struct watch *watch, unsigned page, const void *bytes)
{
    struct uffdio_copy copy = {
        .dst = (uintptr_t)watch->at + page * PAGE,
        .src = (uintptr_t)bytes, .len = PAGE,
    };

    while (ioctl(watch->fd, UFFDIO_COPY, &copy)) {
        if (errno == EEXIST) {
            struct uffdio_range range = { copy.dst, PAGE };

            CHECK_SYS(ioctl(watch->fd, UFFDIO_WAKE, &range));
            return false;
        }
        /* The address space is changing: to be asked again. */
        CHECK_EQ(errno, EAGAIN);
        copy.copy = 0;
    }
    return true;
}

void watch_protect(struct watch *watch, unsigned first, unsigned n, bool protect)
{
    struct uffdio_writeprotect wp = {
        .range = { (uintptr_t)watch->at + first * PAGE, n * PAGE },
        .mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
    };

    while (ioctl(watch->fd, UFFDIO_WRITEPROTECT, &wp)) {
        CHECK_EQ(errno, EAGAIN);
    }
}
