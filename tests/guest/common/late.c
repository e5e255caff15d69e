/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Late pages: registers a userfaultfd, waits for faults, copies pages in. */
#include "late.h"
#include "guard.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void late_watch(struct late *late, uint8_t *at, unsigned npages)
{
    struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
    struct uffdio_api api = { .api = UFFD_API };

    late->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (late->fd < 0) {
        test_skip("this kernel has no userfaultfd");
    }
    CHECK_SYS(ioctl(late->fd, UFFDIO_API, &api));
    late->npages = npages;
    late->at = at;
    reg.range.start = (uintptr_t)late->at;
    reg.range.len = npages * PAGE;
    CHECK_SYS(ioctl(late->fd, UFFDIO_REGISTER, &reg));
}

void late_make(struct late *late, unsigned npages)
{
    late_watch(late, pages(npages), npages);
}

unsigned late_wanted(struct late *late)
{
    struct pollfd entry = { .fd = late->fd, .events = POLLIN };
    struct uffd_msg msg;

    if (CHECK_SYS(poll(&entry, 1, 10000 * (int)run.slow)) != 1) {
        FAIL("nobody wants the page within 10 s");
    }
    CHECK_EQ(read(late->fd, &msg, sizeof(msg)), sizeof(msg));
    CHECK_EQ(msg.event, UFFD_EVENT_PAGEFAULT);
    return (unsigned)((msg.arg.pagefault.address - (uintptr_t)late->at) /
                      PAGE);
}

void late_give(struct late *late, unsigned page, uint64_t key)
{
    uint8_t bytes[PAGE] __attribute__((aligned(4096)));
    struct uffdio_copy copy = {
        .dst = (uintptr_t)late->at + page * PAGE,
        .src = (uintptr_t)bytes, .len = PAGE,
    };

    pattern_fill(bytes, PAGE, key, page * PAGE);
    CHECK_SYS(ioctl(late->fd, UFFDIO_COPY, &copy));
}

void late_unmap(struct late *late)
{
    struct uffdio_range range = { (uintptr_t)late->at, late->npages * PAGE };

    unmap_pages(late->at, late->npages);
    CHECK_SYS(ioctl(late->fd, UFFDIO_WAKE, &range));
}
