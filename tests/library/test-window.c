/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Windows, user-level DMA start and flows: the calls of the driver, the refusals
 * before them, and the state after a step that failed.
 */
#include "../one_test.h"

#include "fake_calls.h"
#include "fake_card.h"
#include "fake_memory.h"
#include "remote/remote.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, stop)

#define FD              779
#define MAP             0x30000000ull
#define PAGES           4u
#define MOST            8u

static uint32_t alive = 1;
static struct unetmm_ctx ctx;
static struct fake_endpoint fake;
static uint64_t memory[MOST][PAGES * UNETMM_PAGE_BYTES / 8]
    __attribute__((aligned(UNETMM_PAGE_BYTES)));

static struct {
    struct unetmm_window window;        /* the last */
    struct unetmm_flow flow;
    uint32_t removed;
    unsigned opened;            /* numbers given, from 0 on */
    bool open[MOST], mapped[MOST];
    unsigned closed_while_mapped;
    int protection;
    int fail;                   /* of the next call */
    bool fail_map, short_map;
    uint64_t map_bytes;         /* of the last window */
    uint32_t flow_number;
} driver;

static int call(unsigned long request, void *argument)
{
    struct unetmm_window *window = argument;
    const struct unetmm_destroy *destroy = argument;
    struct unetmm_flow *flow = argument;

    switch (request) {
    case UNETMM_IOC_WINDOW:
        driver.window = *window;
        driver.open[driver.opened] = true;
        window->id = driver.opened;
        window->map = MAP + driver.opened++ * 0x100000;
        driver.map_bytes = window->length > PAGES * UNETMM_PAGE_BYTES ? window->length :
            PAGES * UNETMM_PAGE_BYTES;
        window->map_bytes = driver.short_map ? UNETMM_PAGE_BYTES : driver.map_bytes;
        return 0;
    case UNETMM_IOC_DESTROY:
        assert_int_equal(destroy->endpoint, fake.private->id);
        if (destroy->type == UNETMM_OBJECT_FLOW) {
            driver.removed = (uint32_t)destroy->id;
            return 0;
        }
        assert_int_equal(destroy->type, UNETMM_OBJECT_WINDOW);
        assert_true(driver.open[destroy->id]);
        driver.closed_while_mapped += driver.mapped[destroy->id];
        driver.open[destroy->id] = false;
        return 0;
    case UNETMM_IOC_FLOW:
        driver.flow = *flow;
        flow->flow = driver.flow_number;
        return 0;
    default:
        fail_msg("call 0x%lx", request);
        return -1;
    }
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    if (fd != FD) {
        return __real_ioctl(fd, request, argument);
    }
    if (driver.fail) {
        errno = driver.fail;
        driver.fail = 0;
        return -1;
    }
    return call(request, argument);
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags,
                  int fd, off_t offset)
{
    unsigned number = (unsigned)(((uint64_t)offset - MAP) / 0x100000);

    if (fd != FD) {
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    }
    if (driver.fail_map) {
        driver.fail_map = false;
        errno = ENOMEM;
        return MAP_FAILED;
    }
    assert_in_range(number, 0, MOST - 1);
    assert_int_equal(bytes, driver.map_bytes);
    driver.protection = protection;
    driver.mapped[number] = true;
    return memory[number];
}

int __wrap_munmap(void *address, size_t bytes)
{
    unsigned i;

    for (i = 0; i < MOST; i++) {
        if (address == memory[i]) {
            assert_int_equal(bytes, driver.map_bytes);
            assert_true(driver.mapped[i]);
            driver.mapped[i] = false;
            return 0;
        }
    }
    return __real_munmap(address, bytes);
}

static int begin(void **state)
{
    (void)state;
    memset(&driver, 0, sizeof(driver));
    ctx = (struct unetmm_ctx) { .fd = FD, .alive = &alive };
    fake_endpoint_init(&fake, 4, 4, 4, 0x7fffffe0);
    fake.private->ctx = &ctx;
    return 0;
}

/* All that is open goes with its endpoint. */
static int stop(void **state)
{
    unsigned i;

    (void)state;
    unetmm_windows_end(fake.private);
    for (i = 0; i < MOST; i++) {
        assert_false(driver.open[i]);
        assert_false(driver.mapped[i]);
    }
    assert_int_equal(driver.closed_while_mapped, 0);
    fake_endpoint_free(&fake);
    return 0;
}

TEST(windows_open_and_close, scene_test)
{
    struct unetmm_window_attr attr = { sizeof(attr), 64, 777 };
    void *one, *two, *three;

    assert_int_equal(unetmm_window_open(fake.ep, 3, 100, 200, NULL, &one), 0);
    assert_ptr_equal(one, memory[0]);
    assert_int_equal(driver.protection, PROT_READ | PROT_WRITE);
    assert_int_equal(driver.window.kind, UNETMM_WINDOW_UPDATE);
    assert_int_equal(driver.window.endpoint, fake.private->id);
    assert_int_equal(driver.window.import, 3);
    assert_int_equal(driver.window.at, 100);
    assert_int_equal(driver.window.length, 200);
    assert_int_equal(driver.window.combine_bytes, UNETMM_MAX_INLINE);
    assert_int_equal(driver.window.combine_ns, 5000);
    assert_int_equal(unetmm_window_open(fake.ep, 4, 0, 1, &attr, &two), 0);
    assert_int_equal(driver.window.combine_bytes, 64);
    assert_int_equal(driver.window.combine_ns, 777);
    assert_int_equal(unetmm_window_open(fake.ep, 5, 0, 1, &attr, &three), 0);
    /* In the middle of the list, at its end, and one that is in none */
    assert_int_equal(unetmm_window_close(fake.ep, two), 0);
    assert_false(driver.open[1]);
    assert_true(driver.open[0] && driver.open[2]);
    assert_int_equal(unetmm_window_close(fake.ep, two), -ENOENT);
    assert_int_equal(unetmm_window_close(fake.ep, one), 0);
    assert_int_equal(unetmm_window_close(fake.ep, NULL), -ENOENT);
    assert_true(driver.open[2]);
    /* It is gone here, whatever the driver says. */
    driver.fail = EIO;
    assert_int_equal(unetmm_window_close(fake.ep, three), -EIO);
    assert_false(driver.mapped[2]);
    assert_int_equal(unetmm_window_close(fake.ep, three), -ENOENT);
    driver.open[2] = false;
}

TEST(wrong_windows_are_refused, scene_test)
{
    struct unetmm_window_attr attr = { sizeof(attr) - 1, 64, 0 };
    void *window;

    assert_int_equal(unetmm_window_open(fake.ep, 3, 0, 1, &attr, &window),
                     -EINVAL);
    attr = (struct unetmm_window_attr) { sizeof(attr), UINT16_MAX + 1u, 0 };
    assert_int_equal(unetmm_window_open(fake.ep, 3, 0, 1, &attr, &window),
                     -EINVAL);
    assert_int_equal(driver.opened, 0);
    attr.combine_bytes = UINT16_MAX;
    assert_int_equal(unetmm_window_open(fake.ep, 3, 0, 1, &attr, &window), 0);
    assert_int_equal(driver.window.combine_bytes, UINT16_MAX);
}

/* User-level DMA start is by whole pages. */
TEST(lengths_are_rounded_up, scene_test)
{
    static const struct {
        size_t bytes;
        uint64_t length;
    } cases[] = {
        { 1, 4096 }, { 4095, 4096 }, { 4096, 4096 }, { 4097, 8192 },
        { 8192, 8192 }, { SIZE_MAX - 4095, (uint64_t)SIZE_MAX - 4095 },
    };
    void *to, *from;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        driver.opened = 0;
        assert_int_equal(unetmm_udma_to(fake.ep, 7, 8192, cases[i].bytes,
                                        &to), 0);
        assert_int_equal(driver.window.kind, UNETMM_WINDOW_TO);
        assert_int_equal(driver.window.import, 7);
        assert_int_equal(driver.window.at, 8192);
        assert_int_equal(driver.window.length, cases[i].length);
        assert_int_equal(driver.protection, PROT_WRITE);
        assert_int_equal(unetmm_udma_from(fake.ep, memory[7], cases[i].bytes,
                                          &from), 0);
        assert_int_equal(driver.window.kind, UNETMM_WINDOW_FROM);
        assert_int_equal(driver.window.at, (uintptr_t)memory[7]);
        assert_int_equal(driver.window.length, cases[i].length);
        assert_int_equal(driver.protection, PROT_READ);
        assert_int_equal(unetmm_window_close(fake.ep, to), 0);
        assert_int_equal(unetmm_window_close(fake.ep, from), 0);
    }
    assert_int_equal(unetmm_udma_to(fake.ep, 7, 0, 0, &to), -EINVAL);
    assert_int_equal(unetmm_udma_from(fake.ep, memory, 0, &from), -EINVAL);
    assert_int_equal(unetmm_udma_to(fake.ep, 7, 0, SIZE_MAX - 4094, &to),
                     -EINVAL);
    fake.private->utlb = (void *)&fake;
    assert_int_equal(unetmm_udma_to(fake.ep, 7, 0, 1, &to), -EOPNOTSUPP);
    assert_int_equal(unetmm_udma_from(fake.ep, memory, 1, &from),
                     -EOPNOTSUPP);
    fake.private->utlb = NULL;
}

TEST(failures_leave_nothing, scene_test)
{
    void *window;

    memory_ends = 1;
    assert_int_equal(unetmm_window_open(fake.ep, 3, 0, 1, NULL, &window),
                     -ENOMEM);
    assert_null(fake.private->windows);
    assert_false(driver.open[0]);
    driver.fail = ENOSPC;
    assert_int_equal(unetmm_window_open(fake.ep, 3, 0, 1, NULL, &window),
                     -ENOSPC);
    assert_null(fake.private->windows);
    driver.fail_map = true;
    assert_int_equal(unetmm_udma_to(fake.ep, 3, 0, 1, &window), -ENOMEM);
    assert_null(fake.private->windows);
    assert_false(driver.open[0]);
    driver.opened = 0;
    driver.short_map = true;
    assert_int_equal(unetmm_udma_to(fake.ep, 3, 0, UNETMM_PAGE_BYTES + 1, &window), -EPROTO);
    assert_null(fake.private->windows);
    assert_false(driver.open[0]);
    fake.ep->alive = 0;
    assert_int_equal(unetmm_window_open(fake.ep, 3, 0, 1, NULL, &window),
                     -EOWNERDEAD);
    assert_int_equal(unetmm_udma_to(fake.ep, 3, 0, 1, &window), -EOWNERDEAD);
    assert_int_equal(unetmm_udma_from(fake.ep, memory, 1, &window),
                     -EOWNERDEAD);
    assert_int_equal(unetmm_window_close(fake.ep, memory[0]), -EOWNERDEAD);
    assert_int_equal(unetmm_flow_add(fake.ep, NULL), -EOWNERDEAD);
    assert_int_equal(unetmm_flow_remove(fake.ep, 1), -EOWNERDEAD);
    fake.ep->alive = 1;
}

/* Whatever the places, exactly these bytes. */
TEST(copies_any_place_and_length, scene_test)
{
    unsigned char from[64], to[64];
    unsigned at, off, bytes, i;

    for (i = 0; i < sizeof(from); i++) {
        from[i] = (unsigned char)(i + 1);
    }
    for (at = 0; at < 9; at++) {
        for (off = 0; off < 9; off++) {
            for (bytes = 0; bytes < 40; bytes++) {
                memset(to, 0, sizeof(to));
                unetmm_window_copy(to + at, from + off, bytes);
                for (i = 0; i < sizeof(to); i++) {
                    assert_int_equal(to[i], i < at || i >= at + bytes ? 0 :
                                     from[off + i - at]);
                }
            }
        }
    }
}

TEST(flows_are_asked_for, scene_test)
{
    struct unetmm_flow_attr attr = {
        .size = sizeof(attr), .kind = UNETMM_FLOW_UDP, .value = 4711,
        .mac = { 1, 2, 3, 4, 5, 6 },
    };

    driver.flow_number = 12;
    assert_int_equal(unetmm_flow_add(fake.ep, &attr), 12);
    assert_int_equal(driver.flow.endpoint, fake.private->id);
    assert_int_equal(driver.flow.kind, UNETMM_FLOW_UDP);
    assert_int_equal(driver.flow.value, 4711);
    assert_memory_equal(driver.flow.mac, attr.mac, 6);
    driver.flow_number = 0x80000000u;
    assert_int_equal(unetmm_flow_add(fake.ep, &attr), -EPROTO);
    driver.flow_number = INT32_MAX;
    assert_int_equal(unetmm_flow_add(fake.ep, &attr), INT32_MAX);
    driver.fail = EADDRINUSE;
    assert_int_equal(unetmm_flow_add(fake.ep, &attr), -EADDRINUSE);
    attr.size--;
    assert_int_equal(unetmm_flow_add(fake.ep, &attr), -EINVAL);
    assert_int_equal(unetmm_flow_add(fake.ep, NULL), -EINVAL);
    assert_int_equal(unetmm_flow_remove(fake.ep, 12), 0);
    assert_int_equal(driver.removed, 12);
    driver.fail = ENOENT;
    assert_int_equal(unetmm_flow_remove(fake.ep, 13), -ENOENT);
}
