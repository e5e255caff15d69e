/* SPDX-License-Identifier: GPL-2.0-or-later */
/* poll() on the fake device: POLLPRI while a caller waits there. */
#include "fake_driver.h"

#include <poll.h>
#include <stddef.h>

#define SLICE_MS    2

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

/* Without an end only: no program under test asks for one. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    struct pollfd *device = NULL;
    nfds_t i;
    int ret;

    for (i = 0; i < count; i++) {
        if (fds[i].fd == FAKE_FD) {
            device = &fds[i];
        }
    }
    if (!device) {
        return __real_poll(fds, count, timeout);
    }
    device->fd = -1;
    do {
        ret = __real_poll(fds, count, SLICE_MS);
    } while (!ret && !fake_driver_waiting());
    device->fd = FAKE_FD;
    device->revents = fake_driver_waiting() ? POLLPRI : 0;
    return ret < 0 ? ret : ret + (device->revents != 0);
}
