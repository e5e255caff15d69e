/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source utlb in the library: when pages are pinned, which is unpinned
 * first, which stay because they are in use, and the effects of changes of memory.
 * The driver is an array that says which pages are pinned.
 */
#include <stddef.h>
#include <stdint.h>

#include "../one_test.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/time.h>

#include "fake_calls.h"
#include "fake_card.h"
#include "fake_memory.h"
#include "sys/sys.h"
#include "utlb/utlb.h"

#define FAKE_FD         1000
#define PAGE            4096u
#define PAGES           64u

static uint8_t memory[PAGES * PAGE] __attribute__((aligned(4096)));

static struct {
    bool pinned[PAGES], write[PAGES];
    bool absent[PAGES];         /* PIN says EFAULT */
    bool slow[PAGES];           /* PIN waits for it, if it is named */
    unsigned waits;             /* ... and has waited so often */
    unsigned limit;             /* pages; more is EDQUOT, or ... */
    int limit_error;            /* ... this, if it is not 0 */
    unsigned busy;              /* PIN says EAGAIN so often */
    unsigned pins, unpins;
    bool lies;                  /* PIN says that it has done more than asked */
    unsigned lose_in_pin;       /* page + 1 that is lost before the next PIN */
    bool log_mapped;
    int export_error;           /* EXPORT and DESTROY say so */
    unsigned export_page;       /* which must be pinned at its end; 0: none */
    void (*in_pin)(void);       /* called by PIN and by EXPORT; NULL: nothing */
    void (*in_export)(void);
    int ended;                  /* result of an unexport in another thread */
} driver;

static struct unetmm_utlb_log drivers_log;

static uint8_t *at(unsigned page)
{
    return memory + page * PAGE;
}

static unsigned number_of(uint64_t addr)
{
    assert_true(addr >= (uintptr_t)memory && addr % PAGE == 0);
    return (unsigned)((addr - (uintptr_t)memory) / PAGE);
}

static unsigned count_pinned(void)
{
    unsigned i, n = 0;

    for (i = 0; i < PAGES; i++) {
        n += driver.pinned[i];
    }
    return n;
}

/* Which pages are pinned, as a string of their numbers. */
static const char *pinned_now(void)
{
    static char text[4 * PAGES + 1];
    unsigned i, at = 0;

    text[0] = 0;
    for (i = 0; i < PAGES; i++) {
        if (driver.pinned[i]) {
            at += (unsigned)snprintf(text + at, sizeof(text) - at, "%s%u",
                                     at ? " " : "", i);
        }
    }
    return text;
}

static void lose(unsigned first, unsigned npages)
{
    struct unetmm_utlb_range *range =
        &drivers_log.ranges[drivers_log.seq % UNETMM_UTLB_LOG_RANGES];
    unsigned i;

    for (i = first; i < first + npages; i++) {
        driver.pinned[i] = driver.write[i] = false;
    }
    range->start = (uintptr_t)memory + first * PAGE;
    range->last = range->start + npages * PAGE - 1;
    drivers_log.seq++;
}

static int do_pin(struct unetmm_utlb *a)
{
    unsigned first = number_of(a->addr), i;

    if (driver.in_pin) {
        driver.in_pin();
    }
    driver.pins++;
    assert_true(a->npages > 0 && a->npages + a->ahead <= 512);
    if (driver.lose_in_pin) {
        lose(driver.lose_in_pin - 1, 1);
        driver.lose_in_pin = 0;
    }
    if (driver.busy) {
        driver.busy--;
        return refuse(EAGAIN);
    }
    /* The address space ends behind the last page. */
    if (a->npages > PAGES - first) {
        return refuse(EINVAL);
    }
    for (i = first; i < first + a->npages + a->ahead && i < PAGES; i++) {
        bool named = i < first + a->npages;
        int error = driver.absent[i] || (driver.slow[i] && !named) ? EFAULT :
            !driver.pinned[i] && count_pinned() >= driver.limit ?
            (driver.limit_error ? driver.limit_error : EDQUOT) : 0;

        if (error && i == first) {
            return refuse(error);
        }
        if (error) {
            break;
        }
        driver.waits += driver.slow[i] && !driver.pinned[i];
        driver.pinned[i] = true;
        driver.write[i] |= a->flags & UNETMM_REGION_WRITE;
    }
    a->done = driver.lies ? a->npages + a->ahead + 1 : i - first;
    return 0;
}

static int do_unpin(struct unetmm_utlb *a)
{
    unsigned first = number_of(a->addr), i;

    driver.unpins++;
    a->done = 0;
    assert_int_equal(a->ahead, 0);
    for (i = first; i < first + a->npages; i++) {
        /* Only pinned pages are unpinned: else the record would be wrong. */
        assert_true(i < PAGES && driver.pinned[i]);
        driver.pinned[i] = driver.write[i] = false;
        a->done++;
    }
    return 0;
}

/* An export of pages that are not pinned is one that a peer may meet so. */
static int do_export(const struct unetmm_export *a)
{
    unsigned i;

    for (i = number_of(a->addr & ~(uint64_t)(PAGE - 1));
         (uintptr_t)at(i) < a->addr + a->length; i++) {
        assert_true(driver.pinned[i]);
        assert_true(driver.write[i] || a->rights == UNETMM_RIGHT_READ);
    }
    if (driver.in_export) {
        driver.in_export();
    }
    return driver.export_error ? refuse(driver.export_error) : 0;
}

static int do_unexport(const struct unetmm_destroy *a)
{
    /* Nothing has been let go of yet. */
    assert_true(!driver.export_page ||
                driver.pinned[driver.export_page]);
    return a->id == 404 ? refuse(ENOENT) :
        driver.export_error ? refuse(driver.export_error) : 0;
}

/* The same of the place that a part of an export goes to. */
static int do_redirect(const struct unetmm_redirect *a)
{
    const struct unetmm_export to = {
        .addr = a->to, .length = a->length, .rights = UNETMM_RIGHT_WRITE,
    };

    return a->what == UNETMM_REDIRECT_BEGIN ? do_export(&to) : 0;
}

static int do_redirect_go(const struct unetmm_redirect_id *a)
{
    const struct unetmm_destroy export = { .id = a->id };

    return do_unexport(&export);
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    struct unetmm_utlb *a = argument;

    if (fd != FAKE_FD) {
        return __real_ioctl(fd, request, argument);
    }
    if (request == UNETMM_IOC_EXPORT || request == UNETMM_IOC_DESTROY) {
        return request == UNETMM_IOC_EXPORT ? do_export(argument) :
            do_unexport(argument);
    }
    if (request == UNETMM_IOC_REDIRECT ||
        request == UNETMM_IOC_REDIRECT_GO) {
        return request == UNETMM_IOC_REDIRECT ? do_redirect(argument) :
            do_redirect_go(argument);
    }
    assert_int_equal(a->size, sizeof(*a));
    assert_int_equal(a->rsvd, 0);
    return request == UNETMM_IOC_UTLB_PIN ? do_pin(a) :
        request == UNETMM_IOC_UTLB_UNPIN ? do_unpin(a) : refuse(ENOTTY);
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags,
                  int fd, off_t offset)
{
    if (fd != FAKE_FD) {
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    }
    assert_int_equal(offset, 0x1234000);
    assert_int_equal(protection, PROT_READ);
    driver.log_mapped = true;
    return &drivers_log;
}

int __wrap_munmap(void *address, size_t bytes)
{
    if (address != &drivers_log) {
        return __real_munmap(address, bytes);
    }
    driver.log_mapped = false;
    return 0;
}

/* ---- A context and an endpoint ----------------------------------------- */

static struct {
    struct unetmm_ctx ctx;
    uint32_t alive;
    struct fake_endpoint fake;
    struct unetmm_ep *ep;
    struct fake_message message;
} t;

static void open_ctx(const char *policy, uint32_t quota, uint32_t prepin)
{
    const struct unetmm_space space = {
        .quota_pages = 1000, .log_bytes = sizeof(drivers_log),
        .log_map = 0x1234000,
    };
    struct unetmm_utlb_config config = {
        .size = sizeof(config), .quota_pages = quota, .prepin = prepin,
        .policy = unetmm_utlb_policy(policy),
    };

    memset(&driver, 0, sizeof(driver));
    memset(&drivers_log, 0, sizeof(drivers_log));
    driver.limit = PAGES;
    t.alive = 1;
    t.ctx = (struct unetmm_ctx) {
        .fd = FAKE_FD, .source = UNETMM_SOURCE_UTLB, .alive = &t.alive,
    };
    assert_int_equal(unetmm_utlb_open(&t.ctx, &space), 0);
    assert_int_equal(unetmm_utlb_configure(&t.ctx, &config), 0);
}

static void begin_deep(const char *policy, uint32_t quota, uint32_t prepin,
                       unsigned sq_log2)
{
    open_ctx(policy, quota, prepin);
    fake_endpoint_init(&t.fake, sq_log2, 3, 4, 0);
    t.fake.private->ctx = &t.ctx;
    assert_int_equal(unetmm_utlb_ep_open(t.fake.private), 0);
    t.ep = t.fake.ep;
}

static void begin(const char *policy, uint32_t quota, uint32_t prepin)
{
    begin_deep(policy, quota, prepin, 3);
}

static struct unetmm_utlb_stats stats(void)
{
    struct unetmm_utlb_stats s = { .size = sizeof(s) };

    assert_int_equal(unetmm_utlb_stats(&t.ctx, &s), 0);
    assert_int_equal(s.pinned_now, count_pinned());
    assert_true(s.pinned_now <= s.quota_pages);
    /* Each page that was pinned is there, was evicted, or was lost. */
    assert_int_equal(s.pinned_pages, s.pinned_now + s.evicted + s.lost);
    assert_int_equal(s.pin_calls, driver.pins);
    assert_int_equal(s.unpin_calls, driver.unpins);
    return s;
}

static void end(void)
{
    stats();
    unetmm_utlb_ep_close(t.fake.private);
    fake_endpoint_free(&t.fake);
    unetmm_utlb_close(&t.ctx, false);
    assert_false(driver.log_mapped);
}

static int end_test(void **state)
{
    (void)state;
    end();
    return 0;
}

#define utlb_test(fn) cmocka_unit_test_teardown(fn, end_test)

static int send_flags(unsigned page, size_t len, uint64_t cookie,
                      unsigned flags)
{
    return unetmm_send(t.ep, 1, at(page), len, cookie, flags);
}

/* The card takes the next message and is done with it. */
static void card_sends(uint8_t status)
{
    struct unetmm_cqe cqe = { .opcode = UNETMM_CQE_SENT, .status = status,
                              .channel = 1 };

    assert_true(fake_card_take(&t.fake.card, &t.message));
    /* Nothing leaves the card unasked for. */
    assert_false(t.message.quiet);
    cqe.cookie = t.message.cookie;
    assert_true(fake_card_complete(&t.fake.card, &cqe));
}

static void expect(unsigned type, uint64_t cookie, unsigned status)
{
    struct unetmm_completion c;

    assert_int_equal(unetmm_poll(t.ep, &c, 1), 1);
    assert_int_equal(c.type, type);
    assert_int_equal(c.user_data, cookie);
    assert_int_equal(c.status, status);
}

static void expect_none(void)
{
    struct unetmm_completion c;

    assert_int_equal(unetmm_poll(t.ep, &c, 1), 0);
}

/* A message from a page, there and done. */
static void use(unsigned page)
{
    assert_int_equal(send_flags(page, 300, 1000 + page, 0), 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1000 + page, 0);
}

static void expect_pinned(const char *what)
{
    assert_string_equal(pinned_now(), what);
}

/* ---- Pinning ----------------------------------------------------------- */

TEST(pins_ahead_and_once, utlb_test)
{
    begin("lru", 20, 4);
    use(8);
    expect_pinned("8 9 10 11");
    assert_int_equal(driver.pins, 1);
    use(8);
    use(11);
    use(10);
    assert_int_equal(driver.pins, 1);
    /* Up to the page that is pinned already. */
    use(6);
    expect_pinned("6 7 8 9 10 11");
    assert_int_equal(driver.pins, 2);
    assert_int_equal(stats().pin_calls, 2);
    /* A message with more pages than are pinned at a time. */
    assert_int_equal(send_flags(20, 7 * PAGE, 1, 0), 0);
    assert_int_equal(driver.pins, 3);
    expect_pinned("6 7 8 9 10 11 20 21 22 23 24 25 26");
    assert_false(driver.write[20]);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1, 0);
    /* Where memory ends, and where it has a hole. */
    use(PAGES - 1);
    driver.absent[41] = true;
    use(40);
    expect_pinned("6 7 8 9 10 11 20 21 22 23 24 25 26 40 63");
    assert_int_equal(driver.unpins, 0);
}

/* Only a page that a descriptor names is waited for. */
TEST(nothing_ahead_is_waited_for, utlb_test)
{
    begin("lru", 30, 8);
    driver.slow[13] = driver.slow[30] = driver.slow[31] = true;
    use(10);
    expect_pinned("10 11 12");
    assert_int_equal(send_flags(28, 3 * PAGE, 1, 0), 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1, 0);
    expect_pinned("10 11 12 28 29 30");
    assert_int_equal(driver.waits, 1);
    /* The last page that there can be */
    use(PAGES - 1);
    expect_pinned("10 11 12 28 29 30 63");
}

/* Copied messages use no page. */
TEST(inline_pins_nothing, utlb_test)
{
    begin("lru", 20, 4);
    assert_int_equal(send_flags(1, 224, 5, 0), 0);
    assert_int_equal(driver.pins, 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 5, 0);
}

/* A right that is missing is asked for where it is needed. */
TEST(rights_are_added, utlb_test)
{
    begin("lru", 20, 2);
    use(3);
    assert_int_equal(unetmm_post_recv(t.ep, at(3) + 10, PAGE, 7, 0), 0);
    assert_int_equal(driver.pins, 2);
    assert_true(driver.write[3] && driver.write[4]);
    use(3);
    assert_int_equal(driver.pins, 2);
    assert_true(fake_card_deliver(&t.fake.card, 1, at(60), 100, false));
    expect(UNETMM_CQE_RECEIVED, 7, 0);
}

TEST(refused_memory_is_the_cards_to_refuse, utlb_test)
{
    begin("lru", 20, 2);
    driver.absent[5] = true;
    assert_int_equal(send_flags(4, 2 * PAGE, 9, 0), 0);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 9, UNETMM_ST_PROTECTION);
    assert_int_equal(unetmm_post_recv(t.ep, at(5), 100, 3, 0), 0);
    assert_true(fake_card_return(&t.fake.card, UNETMM_ST_PROTECTION));
    expect(UNETMM_CQE_BUFFER, 3, UNETMM_ST_PROTECTION);
    /* A driver that is always busy is asked a bounded number of times. */
    driver.busy = 1000;
    assert_int_equal(send_flags(8, 300, 10, 0), 0);
    assert_true(driver.busy > 800);
    driver.busy = 0;
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 10, UNETMM_ST_LIMIT);
    /* Addresses that are none; the card is told of them all the same. */
    assert_int_equal(unetmm_send(t.ep, 1, (void *)0xffffffffffffff00, 300, 2,
                                 0), 0);
    assert_int_equal(unetmm_send(t.ep, 1, (void *)(1ull << 60), 300, 3, 0), 0);
    assert_int_equal(unetmm_send_pending(t.ep), 2);
    assert_int_equal(unetmm_post_recv(t.ep, (void *)(1ull << 60), 100, 4, 0), 0);
    assert_true(fake_card_return(&t.fake.card, UNETMM_ST_PROTECTION));
    expect(UNETMM_CQE_BUFFER, 4, UNETMM_ST_PROTECTION);
}

/* A driver that says it has pinned more than it was asked to is not believed. */
TEST(driver_that_lies, utlb_test)
{
    begin("lru", 20, 2);
    driver.lies = true;
    assert_int_equal(send_flags(4, 300, 9, 0), 0);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 9, UNETMM_ST_LIMIT);
    driver.lies = false;
    memset(driver.pinned, 0, sizeof(driver.pinned));
    use(4);
}

/* There is no memory to remember that a page far from all others is pinned. */
TEST(memory_without_a_record, utlb_test)
{
    unsigned i, pins;

    begin("lru", 20, 2);
    use(1);
    pins = driver.pins;
    for (i = 0; i < 3; i++) {
        memory_ends = 1;
        assert_int_equal(unetmm_post_recv(t.ep, (void *)(1ull << 45), 300, 20 + i,
                                     0), 0);
        assert_int_equal(memory_ends, 0);
        assert_int_equal(driver.pins, pins);
        assert_true(fake_card_return(&t.fake.card, UNETMM_ST_PROTECTION));
        expect(UNETMM_CQE_BUFFER, 20 + i, UNETMM_ST_LIMIT);
    }
    use(2);
}

/* ---- The quota --------------------------------------------------------- */

TEST(each_policy_has_its_victim, cmocka_unit_test)
{
    static const struct {
        const char *policy, *left;
    } rows[] = {
        { "lru", "0 2 3 5" }, { "fifo", "2 3 4 5" }, { "mru", "1 2 3 5" },
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(rows[i].policy, 4, 1);
        use(0);
        use(1);
        use(2);
        use(3);
        use(0);
        if (rows[i].policy[0] == 'f') {
            use(4);
        }
        use(5);
        expect_pinned(rows[i].left);
        end();
    }
    begin("random", 8, 1);
    for (i = 0; i < 400; i++) {
        use((unsigned)i * 7 % 40);
        assert_true(count_pinned() <= 8);
    }
    assert_int_equal(count_pinned(), 8);
    end();
}

/* Pages 0 and 1 have been used more often than the others. */
TEST(lfu_keeps_what_is_used_often, cmocka_unit_test)
{
    unsigned i;

    begin("lfu", 4, 1);
    for (i = 0; i < 3; i++) {
        use(0);
        use(1);
    }
    for (i = 2; i < 12; i++) {
        use(i);
        assert_true(driver.pinned[0] && driver.pinned[1]);
    }
    expect_pinned("0 1 10 11");
    /* 11 has two more uses, 10 has one, which is the last of all. */
    use(11);
    use(0);
    use(11);
    use(10);
    use(12);
    expect_pinned("0 1 11 12");
    end();
    /* Counts end: of pages that have reached it, the least recently used goes. */
    begin("lfu", 3, 1);
    for (i = 0; i < 180; i++) {
        use(i < 100 ? 0 : 1);
        use(2);
    }
    use(3);
    expect_pinned("1 2 3");
    end();
}

TEST(what_is_used_stays, utlb_test)
{
    struct unetmm_completion c;
    unsigned i;

    begin("lru", 4, 1);
    assert_int_equal(unetmm_post_recv(t.ep, at(0), 2 * PAGE, 70, 0), 0);
    assert_int_equal(send_flags(2, 300, 71, 0), 0);
    for (i = 10; i < 20; i++) {
        /* Only one of the four is free to go. */
        assert_int_equal(send_flags(i, 300, i, 0), 0);
        card_sends(0);
        if (i == 10) {
            expect(UNETMM_CQE_SENT, 71, 0);
            assert_int_equal(send_flags(2, 300, 71, 0), 0);
            card_sends(0);
        }
        assert_true(driver.pinned[0] && driver.pinned[1]);
        assert_int_equal(unetmm_poll(t.ep, &c, 1), 1);
    }
    while (unetmm_poll(t.ep, &c, 1) > 0) {
    }
}

/* All that could be unpinned is in use: by messages, or by buffers alone. */
TEST(no_room, utlb_test)
{
    unsigned i;

    begin("lru", 3, 4);
    /* A message without pages is not counted. */
    assert_int_equal(send_flags(1, 0, 69, 0), 0);
    assert_int_equal(send_flags(1, 3, 70, UNETMM_INLINE), 0);
    for (i = 0; i < 2; i++) {
        card_sends(0);
        expect(UNETMM_CQE_SENT, 69 + i, 0);
    }
    assert_int_equal(unetmm_post_recv(t.ep, at(0), 2 * PAGE, 70, 0), 0);
    assert_int_equal(send_flags(2, 300, 71, 0), 0);
    assert_int_equal(send_flags(5, 300, 72, 0), -EAGAIN);
    assert_int_equal(send_flags(5, 300, 72, 0), -EAGAIN);
    card_sends(0);
    /* The completion has to be taken. */
    assert_int_equal(send_flags(5, 300, 72, 0), -EAGAIN);
    expect(UNETMM_CQE_SENT, 71, 0);
    assert_int_equal(send_flags(5, 300, 72, 0), 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 72, 0);
    assert_int_equal(send_flags(6, 2 * PAGE, 73, 0), 0);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 73, UNETMM_ST_LIMIT);
    use(7);
    expect_pinned("0 1 7");
}

/* The first piece of a message that cannot be sent is not in use any more. */
TEST(no_room_for_all, utlb_test)
{
    struct iovec iov[2];

    begin("lru", 4, 4);
    iov[0] = (struct iovec){ at(3), 300 };
    iov[1] = (struct iovec){ at(5), 300 };
    assert_int_equal(unetmm_post_recv(t.ep, at(0), 2 * PAGE, 70, 0), 0);
    assert_int_equal(send_flags(2, 300, 71, 0), 0);
    assert_int_equal(unetmm_sendv(t.ep, 1, iov, 2, 72, 0), -EAGAIN);
    assert_int_equal(send_flags(6, 300, 73, 0), 0);
    expect_pinned("0 1 2 6");
    card_sends(0);
    expect(UNETMM_CQE_SENT, 71, 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 73, 0);
}

/* No more goes than has to. */
TEST(only_what_is_needed_goes, utlb_test)
{
    begin("lru", 4, 1);
    use(10);
    use(11);
    use(12);
    assert_int_equal(send_flags(1, 2 * PAGE, 1, 0), 0);
    expect_pinned("1 2 11 12");
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1, 0);
    assert_int_equal(stats().evicted, 1);
}

/* The driver has a lower limit, and all that is pinned is in use. */
TEST(others_limit_is_reached, utlb_test)
{
    begin("lru", 20, 1);
    driver.limit = 1;
    assert_int_equal(send_flags(1, 300, 1, 0), 0);
    assert_int_equal(send_flags(2, 300, 2, 0), -EAGAIN);
    driver.limit_error = ENOMEM;
    assert_int_equal(send_flags(2, 300, 2, 0), -EAGAIN);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1, 0);
    assert_int_equal(send_flags(2, 300, 2, 0), 0);
    expect_pinned("2");
    card_sends(0);
    expect(UNETMM_CQE_SENT, 2, 0);
}

#define IMPORT  3

/* One-sided operations of an endpoint that has no record yet */
static void operations_need_records(struct unetmm_ep *ep)
{
    unetmm_ep_private(ep)->imports[IMPORT] = (struct unetmm_import_record) {
        100000, 1, UNETMM_RIGHT_ALL,
    };
    memory_ends = 1;
    assert_int_equal(unetmm_write(ep, IMPORT, 0, at(1), 300, 0, 7, 0), -ENOMEM);
    memory_ends = 1;
    assert_int_equal(unetmm_read(ep, IMPORT, 0, at(1), 300, 7, 0), -ENOMEM);
    memory_ends = 1;
    assert_int_equal(unetmm_fetch_add(ep, IMPORT, 0, 1, 7, 0), -ENOMEM);
    assert_int_equal(memory_ends, 0);
    /* None has been queued. */
    assert_int_equal(ep->sq_prod, 0);
}

#define INTERRUPTIONS   3000

static const struct iovec shared_piece = { memory + PAGE, 300 };
static volatile sig_atomic_t interruptions, not_held;

/* Another user of the page, between any two steps of the first: it comes, it goes. */
static void use_between(int number)
{
    (void)number;
    if (interruptions++ % 2) {
        unetmm_utlb_let_go(t.ctx.utlb, &shared_piece, 1);
    } else {
        not_held |= unetmm_utlb_hold(t.ctx.utlb, &shared_piece, 1, false) != 0;
    }
}

static void interrupt_each_us(suseconds_t period)
{
    const struct itimerval timer = { { 0, period }, { 0, period } };

    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* Each use of a page is counted, in any order, and the last one ends it. */
TEST(two_use_a_page, utlb_test)
{
    const struct sigaction action = { .sa_handler = use_between };
    const uint64_t end_by = sys_now_ns() + 20000000000ull;

    begin("lru", 1, 1);
    use(1);
    interruptions = 0;
    sigaction(SIGALRM, &action, NULL);
    interrupt_each_us(30);
    while (interruptions < INTERRUPTIONS && sys_now_ns() < end_by) {
        unsigned i;

        for (i = 0; i < 100; i++) {
            not_held |= unetmm_utlb_hold(t.ctx.utlb, &shared_piece, 1, false);
            unetmm_utlb_let_go(t.ctx.utlb, &shared_piece, 1);
        }
    }
    interrupt_each_us(0);
    assert_true(interruptions >= INTERRUPTIONS);
    if (interruptions % 2) {
        unetmm_utlb_let_go(t.ctx.utlb, &shared_piece, 1);
    }
    assert_false(not_held);
    assert_int_equal(stats().pinned_pages, 1);
    expect_pinned("1");
    /* Nobody uses it any more: it may go. */
    use(2);
    expect_pinned("2");
}

/* The same of a context; nothing of it stays, which the sanitizer sees. */
TEST(out_of_memory_at_first, cmocka_unit_test)
{
    struct unetmm_space space = {
        .quota_pages = 1000, .log_bytes = sizeof(drivers_log),
        .log_map = 0x1234000,
    };
    unsigned i;

    begin("lru", 8, 1);
    end();
    for (i = 1; memory_ends = i, unetmm_utlb_open(&t.ctx, &space); i++) {
        assert_int_equal(memory_ends, 0);
        assert_in_range(i, 1, 10);
    }
    memory_ends = 0;
    assert_in_range(i, 4, 10);
    assert_true(driver.log_mapped);
    unetmm_utlb_close(&t.ctx, false);
    /* A log of another size is another driver's. */
    space.log_bytes++;
    assert_int_equal(unetmm_utlb_open(&t.ctx, &space), -EPROTO);
    assert_false(driver.log_mapped);
}

/* Whatever allocation fails: an error, nothing that stays, and then it works. */
TEST(out_of_memory, utlb_test)
{
    const struct iovec iov = { at(3), 300 };
    struct unetmm_request_ frame = { .user_data = 5, .opcode = UNETMM_OP_FRAME };
    unsigned i;
    int ret;

    begin("lru", 8, 1);
    use(1);
    for (i = 1; i < 100; i++) {
        struct fake_endpoint other;

        fake_endpoint_init(&other, 3, 3, 4, 0);
        other.private->ctx = &t.ctx;
        memory_ends = i;
        ret = unetmm_utlb_ep_open(other.private);
        if (!ret) {
            /* Its first message needs a record. */
            memory_ends = 1;
            assert_int_equal(unetmm_send(other.ep, 1, at(1), 300, 7, 0),
                             -ENOMEM);
            memory_ends = 1;
            assert_int_equal(unetmm_post_recv(other.ep, at(1), 300, 7, 0), -ENOMEM);
            memory_ends = 1;
            assert_int_equal(other.ep->source->queue(other.ep, &frame, &iov,
                                                     1), -ENOMEM);
            assert_int_equal(memory_ends, 0);
            operations_need_records(other.ep);
            assert_int_equal(other.ep->source->queue(other.ep, &frame, &iov,
                                                     1), 0);
            unetmm_utlb_ep_close(other.private);
        } else {
            assert_int_equal(ret, -ENOMEM);
            memory_ends = 0;
        }
        fake_endpoint_free(&other);
        if (!ret) {
            break;
        }
    }
    assert_int_equal(i, 4);
    use(2);
}

TEST(others_limits, utlb_test)
{
    unsigned i;

    begin("lru", 20, 4);
    for (i = 0; i < 10; i++) {
        use(i);
    }
    driver.limit = 5;
    for (i = 20; i < 40; i++) {
        use(i);
        assert_true(count_pinned() <= 12);
    }
    assert_true(count_pinned() <= 5);
    driver.limit_error = ENOMEM;
    for (i = 40; i < 50; i++) {
        use(i);
        assert_true(count_pinned() <= 5);
    }
    driver.limit = 0;
    assert_int_equal(send_flags(58, 300, 1, 0), 0);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 1, UNETMM_ST_LIMIT);
    assert_int_equal(count_pinned(), 0);
}

/* ---- A policy of the user's -------------------------------------------- */

static struct {
    uint32_t quota;
    bool pinned[8];
    unsigned used, asked;
} mine;

static void *my_create(uint32_t quota)
{
    memset(&mine, 0, sizeof(mine));
    mine.quota = quota;
    return &mine;
}

static void my_destroy(void *state)
{
    assert_ptr_equal(state, &mine);
    mine.quota = 0;
}

static void my_pinned(void *state, uint32_t page)
{
    assert_ptr_equal(state, &mine);
    assert_true(page < mine.quota && !mine.pinned[page]);
    mine.pinned[page] = true;
}

static void my_unpinned(void *state, uint32_t page)
{
    assert_ptr_equal(state, &mine);
    assert_true(page < mine.quota && mine.pinned[page]);
    mine.pinned[page] = false;
}

static void my_used(void *state, uint32_t page)
{
    assert_ptr_equal(state, &mine);
    assert_true(page < mine.quota && mine.pinned[page]);
    mine.used++;
}

/* Offers nonsense, too. */
static uint32_t my_choose(void *state, unetmm_utlb_take take, void *arg)
{
    uint32_t i;

    assert_ptr_equal(state, &mine);
    mine.asked++;
    assert_false(take(arg, mine.quota));
    assert_false(take(arg, UNETMM_UTLB_NONE));
    for (i = 0; i < mine.quota; i++) {
        if (take(arg, i)) {
            assert_true(mine.pinned[i]);
            /* One at a time, and its result is not relied on. */
            assert_false(take(arg, (i + 1) % mine.quota));
            return mine.asked % 2 ? i : mine.quota + 5;
        }
    }
    return mine.asked % 2 ? UNETMM_UTLB_NONE : 0;
}

static uint32_t my_choose_none(void *state, unetmm_utlb_take take, void *arg)
{
    (void)state;
    (void)take;
    (void)arg;
    return 0;
}

/* Values that are invalid always, or now; `config` is left as it was. */
static void refused_configurations(struct unetmm_utlb_config *config,
                                   const struct unetmm_utlb_policy *policy)
{
    struct unetmm_utlb_policy broken = *policy;

    broken.choose = NULL;
    config->policy = &broken;
    assert_int_equal(unetmm_utlb_configure(&t.ctx, config), -EINVAL);
    config->policy = policy;
    config->prepin = 513;
    assert_int_equal(unetmm_utlb_configure(&t.ctx, config), -EINVAL);
    config->prepin = 1;
    config->size--;
    assert_int_equal(unetmm_utlb_configure(&t.ctx, config), -EINVAL);
    config->size++;
    atomic_store(&t.ctx.endpoints, 1);
    assert_int_equal(unetmm_utlb_configure(&t.ctx, config), -EBUSY);
    atomic_store(&t.ctx.endpoints, 0);
    /* As an export that another thread is making */
    assert_int_equal(send_flags(4, 300, 9, 0), 0);
    assert_int_equal(unetmm_utlb_configure(&t.ctx, config), -EBUSY);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 9, 0);
}

TEST(users_policy, cmocka_unit_test)
{
    static const struct unetmm_utlb_policy policy = {
        .size = sizeof(policy), .name = "mine", .create = my_create,
        .destroy = my_destroy, .pinned = my_pinned, .unpinned = my_unpinned,
        .used = my_used, .choose = my_choose,
    };
    struct unetmm_utlb_config config = {
        .size = sizeof(config), .quota_pages = 4, .prepin = 2,
        .policy = &policy,
    };
    struct unetmm_utlb_policy broken = policy;
    unsigned i, used;

    begin("lru", 4, 1);
    use(0);
    assert_int_equal(unetmm_utlb_configure(&t.ctx, &config), 0);
    /* Pages that the former policy has pinned are not forgotten. */
    assert_int_equal(count_pinned(), 0);
    for (i = 0; i < 20; i++) {
        use(i * 3 % 17);
        use(i * 3 % 17);
        use((i * 3 + 1) % 17);
    }
    assert_true(mine.asked > 10 && mine.used > 10);
    lose(0, 20);
    use(30);
    assert_int_equal(count_pinned(), 2);
    /* A page that is used over and over is told once. */
    use(31);
    used = mine.used;
    for (i = 0; i < 5; i++) {
        use(30);
    }
    assert_int_equal(mine.used, used + 1);
    /* A policy that lets nothing go does not keep it from going. */
    assert_int_equal(send_flags(30, 300, 1, 0), 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1, 0);
    for (i = 0; i < 2; i++) {
        config.policy = NULL;
        assert_int_equal(unetmm_utlb_configure(&t.ctx, &config), 0);
        assert_int_equal(count_pinned(), 0);
        broken.choose = my_choose_none;
        config.policy = &broken;
        assert_int_equal(unetmm_utlb_configure(&t.ctx, &config), 0);
        use(1);
        use(3);
        assert_int_equal(count_pinned(), 4);
    }
    refused_configurations(&config, &policy);
    config.policy = NULL;
    assert_int_equal(unetmm_utlb_configure(&t.ctx, &config), 0);
    end();
    assert_int_equal(mine.quota, 0);
    assert_null(unetmm_utlb_policy("best"));
}

/* ---- Memory changes ---------------------------------------------------- */

TEST(the_log_is_read, utlb_test)
{
    unsigned i;

    begin("lru", 20, 4);
    use(8);
    lose(9, 2);
    lose(30, 4);
    use(8);
    assert_int_equal(driver.pins, 1);
    assert_int_equal(stats().lost, 2);
    use(10);
    assert_int_equal(driver.pins, 2);
    expect_pinned("8 10 11");
    /* A range that is longer than the quota */
    lose(0, 40);
    use(8);
    expect_pinned("8 9 10 11");
    /* More ranges than there is room for: any page may be lost. */
    use(40);
    for (i = 0; i < UNETMM_UTLB_LOG_RANGES; i++) {
        lose(i ? 50 : 40, 1);
    }
    use(40);
    use(41);
    use(8);
    assert_int_equal(stats().lost, 2 + 3 + 8);
    assert_int_equal(count_pinned(), 8);
}

/* Those at the ends of a range are lost, and those beside it are not. */
TEST(lost_at_the_ends, cmocka_unit_test)
{
    static const unsigned lengths[] = { 3, 30 };
    unsigned i, n;

    for (i = 0; i < 2; i++) {
        n = lengths[i];
        begin("lru", 20, 1);
        use(10);
        use(11);
        use(10 + n);
        use(11 + n);
        lose(11, n);
        use(50);
        assert_int_equal(stats().lost, 2);
        assert_true(driver.pinned[10] && driver.pinned[11 + n]);
        end();
    }
}

/* The log of something from before PIN is read after it. */
TEST(lost_meanwhile, utlb_test)
{
    begin("lru", 20, 4);
    use(8);
    driver.lose_in_pin = 8 + 1;
    use(12);
    use(8);
    driver.lose_in_pin = 20 + 1;
    use(20);
    use(20);
    /* A page that nobody uses again is not forgotten either. */
    driver.lose_in_pin = 31 + 1;
    use(30);
    use(8);
    assert_int_equal(stats().pinned_now, count_pinned());
    assert_true(driver.pinned[31]);
}

/* The card found no entry although there had been one: it is sent again. */
TEST(sent_again, utlb_test)
{
    begin("lru", 20, 4);
    memset(at(8), 0x55, 2 * PAGE);
    assert_int_equal(send_flags(8, PAGE + 300, 5, 0), 0);
    lose(9, 1);
    card_sends(UNETMM_ST_PROTECTION);
    assert_true(fake_endpoint_rung(&t.fake));
    expect_none();
    assert_true(fake_endpoint_rung(&t.fake));
    assert_true(driver.pinned[8] && driver.pinned[9]);
    card_sends(0);
    assert_int_equal(t.message.len, PAGE + 300);
    assert_int_equal(t.message.data[PAGE + 299], 0x55);
    expect(UNETMM_CQE_SENT, 5, 0);
    assert_int_equal(stats().repeated, 1);
    /* This time its page stays absent. */
    assert_int_equal(send_flags(8, PAGE + 300, 6, 0), 0);
    lose(9, 1);
    driver.absent[9] = true;
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 6, UNETMM_ST_PROTECTION);
    /* Other errors are the sender's. */
    assert_int_equal(send_flags(8, 300, 7, 0), 0);
    card_sends(UNETMM_ST_LINK_DOWN);
    expect(UNETMM_CQE_SENT, 7, UNETMM_ST_LINK_DOWN);
}

TEST(not_again_for_ever, utlb_test)
{
    unsigned n;

    begin("lru", 20, 4);
    assert_int_equal(send_flags(8, 300, 5, 0), 0);
    for (n = 0; n < 1000; n++) {
        struct unetmm_completion c;

        card_sends(UNETMM_ST_PROTECTION);
        if (unetmm_poll(t.ep, &c, 1)) {
            assert_int_equal(c.status, UNETMM_ST_PROTECTION);
            break;
        }
    }
    assert_in_range(n, 1, 200);
}

TEST(offered_again, utlb_test)
{
    begin("lru", 20, 4);
    assert_int_equal(unetmm_post_recv(t.ep, at(8), 2 * PAGE, 5, 0), 0);
    assert_int_equal(unetmm_post_recv(t.ep, at(12), PAGE, 6, 0), 0);
    lose(9, 1);
    assert_true(fake_card_return(&t.fake.card, UNETMM_ST_PROTECTION));
    expect_none();
    assert_true(driver.write[8] && driver.write[9]);
    /* It is behind the other one now. */
    assert_true(fake_card_deliver(&t.fake.card, 1, at(60), 500, false));
    expect(UNETMM_CQE_RECEIVED, 6, 0);
    assert_true(fake_card_deliver(&t.fake.card, 1, at(60), 500, false));
    expect(UNETMM_CQE_RECEIVED, 5, 0);
    /* Unfilled for another reason */
    assert_int_equal(unetmm_post_recv(t.ep, at(8), 2 * PAGE, 7, 0), 0);
    assert_true(fake_card_return(&t.fake.card, UNETMM_ST_SKIPPED));
    expect(UNETMM_CQE_BUFFER, 7, UNETMM_ST_SKIPPED);
}

/* There is no room just then: it waits, and is not forgotten. */
TEST(again_when_there_is_room, utlb_test)
{
    unsigned i;

    begin("lru", 20, 4);
    for (i = 0; i < 8; i++) {
        assert_int_equal(send_flags(8, 300, i, 0), 0);
    }
    lose(8, 1);
    card_sends(UNETMM_ST_PROTECTION);
    card_sends(UNETMM_ST_PROTECTION);
    assert_int_equal(send_flags(9, 300, 100, 0), 0);
    assert_int_equal(send_flags(9, 300, 101, 0), 0);
    expect_none();
    assert_int_equal(unetmm_send_pending(t.ep), 8 + 2);
    for (i = 2; i < 8; i++) {
        card_sends(0);
        expect(UNETMM_CQE_SENT, i, 0);
    }
    card_sends(0);
    expect(UNETMM_CQE_SENT, 100, 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 101, 0);
    /* The first one once more: alone, although the other was behind it. */
    lose(8, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect_none();
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1, 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 0, 0);
    assert_int_equal(unetmm_send_pending(t.ep), 0);
}

/* The number of a channel that has ended may be another one's: nothing goes there again. */
TEST(channel_given_up, utlb_test)
{
    unsigned i;

    begin("lru", 20, 4);
    for (i = 0; i < 8; i++) {
        assert_int_equal(send_flags(8, 300, i, 0), 0);
    }
    lose(8, 1);
    card_sends(UNETMM_ST_PROTECTION);
    /* Another message takes its place, so that it waits. */
    assert_int_equal(send_flags(9, 300, 100, 0), 0);
    expect_none();
    unetmm_utlb_disconnect(t.fake.private, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 1, UNETMM_ST_PROTECTION);
    for (i = 2; i < 8; i++) {
        card_sends(0);
        expect(UNETMM_CQE_SENT, i, 0);
    }
    card_sends(0);
    expect(UNETMM_CQE_SENT, 100, 0);
    card_sends(UNETMM_ST_BAD_CHANNEL);
    assert_int_equal(t.message.channel, UINT16_MAX);
    expect(UNETMM_CQE_SENT, 0, UNETMM_ST_BAD_CHANNEL);
    assert_int_equal(unetmm_send_pending(t.ep), 0);
}

/* ---- Quiet messages ---------------------------------------------------- */

/* Their pages are let go when they are done, and nobody sees that. */
TEST(quiet_ones_are_not_seen, utlb_test)
{
    begin("lru", 2, 1);
    assert_int_equal(send_flags(1, 300, 5, UNETMM_UNSIGNALED), 0);
    assert_int_equal(send_flags(2, 300, 6, UNETMM_UNSIGNALED), 0);
    assert_int_equal(send_flags(3, 300, 7, 0), -EAGAIN);
    card_sends(0);
    card_sends(0);
    assert_int_equal(send_flags(3, 300, 7, 0), 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 7, 0);
    assert_int_equal(send_flags(1, 300, 8, UNETMM_UNSIGNALED), 0);
    card_sends(0);
    expect_none();
    assert_int_equal(send_flags(1, 300, 9, UNETMM_UNSIGNALED), 0);
    card_sends(UNETMM_ST_LINK_DOWN);
    expect(UNETMM_CQE_SENT, 9, UNETMM_ST_LINK_DOWN);
    /* Copied ones as well */
    assert_int_equal(send_flags(1, 3, 10, UNETMM_UNSIGNALED), 0);
    card_sends(0);
    expect_none();
    assert_int_equal(unetmm_send_pending(t.ep), 0);
}

/* A card that waits for room is told when they have been taken. */
TEST(quiet_ones_give_room, utlb_test)
{
    unsigned blocked;

    begin("lru", 20, 4);
    for (blocked = 0; blocked < 2; blocked++) {
        assert_int_equal(send_flags(1, 300, 5, UNETMM_UNSIGNALED), 0);
        assert_int_equal(send_flags(2, 300, 6, UNETMM_UNSIGNALED), 0);
        card_sends(0);
        card_sends(0);
        fake_endpoint_rung(&t.fake);
        fake_card_state(&t.fake.card, UNETMM_EP_RUNNING |
                        (blocked ? UNETMM_EP_CQ_BLOCKED : 0));
        assert_int_equal(unetmm_send_pending(t.ep), 0);
        assert_int_equal(fake_endpoint_rung(&t.fake), blocked);
    }
}

/* A process can send unsignaled and never take a completion. */
TEST(quiet_ones_alone, utlb_test)
{
    unsigned i;

    begin("lru", 20, 4);
    for (i = 0; i < 100; i++) {
        assert_int_equal(send_flags(i % 10, 300, i, UNETMM_UNSIGNALED), 0);
        card_sends(0);
    }
    assert_int_equal(unetmm_send_pending(t.ep), 0);
}

/*
 * The place of the next completion has held that of a record which is in use again:
 * it does not say that the new message is done.
 */
TEST(old_completions_say_nothing, utlb_test)
{
    unsigned i;

    begin("lru", 1, 1);
    /* Once round the completion queue, with one record */
    for (i = 0; i < 16; i++) {
        assert_int_equal(send_flags(1, 300, i, UNETMM_UNSIGNALED), 0);
        card_sends(0);
    }
    assert_int_equal(send_flags(1, 300, i, UNETMM_UNSIGNALED), 0);
    assert_int_equal(t.ep->cq_cons, 16);
    for (i = 0; i < 3; i++) {
        assert_int_equal(unetmm_send_pending(t.ep), 1);
        assert_int_equal(send_flags(2, 300, 100, 0), -EAGAIN);
        expect_pinned("1");
    }
    assert_int_equal(t.ep->cq_cons, 16);
    card_sends(0);
    use(2);
}

/* More descriptors than there were records at first. */
TEST(many_at_a_time, utlb_test)
{
    unsigned i;

    begin_deep("lru", 20, 4, 8);
    for (i = 0; i < 200; i++) {
        assert_int_equal(send_flags(i % 10, 300, 5000 - i, 0), 0);
    }
    for (i = 0; i < 200; i++) {
        card_sends(0);
        expect(UNETMM_CQE_SENT, 5000 - i, 0);
    }
}

/* ---- One-sided operations ---------------------------------------------- */

static void import(void)
{
    t.fake.private->imports[IMPORT] = (struct unetmm_import_record) {
        100000, 1, UNETMM_RIGHT_ALL,
    };
    t.fake.private->records[1].type = UNETMM_RELIABLE;
}

static void expect_op(uint8_t opcode, uint64_t offset, bool notify,
                      uint32_t imm)
{
    assert_int_equal(t.message.opcode, opcode);
    assert_int_equal(t.message.channel, 1);
    assert_int_equal(t.message.import, IMPORT);
    assert_int_equal(t.message.offset, offset);
    assert_int_equal(t.message.notify, notify);
    assert_int_equal(t.message.imm, imm);
}

TEST(operations_hold_their_pages, utlb_test)
{
    begin("lru", 20, 1);
    import();
    assert_int_equal(unetmm_write(t.ep, IMPORT, 7, at(1), 5000, 0, 1, 0), 0);
    assert_int_equal(unetmm_read(t.ep, IMPORT, 8, at(4), 5000, 2, 0), 0);
    /* Pages that the card writes to are pinned for writing. */
    assert_true(driver.pinned[1] && driver.pinned[2] && !driver.write[1]);
    assert_true(driver.write[4] && driver.write[5]);
    assert_int_equal(unetmm_fetch_add(t.ep, IMPORT, 16, 1, 3, 0), 0);
    assert_int_equal(unetmm_write(t.ep, IMPORT, 0, at(9), 20, 0, 4,
                                  UNETMM_UNSIGNALED), 0);
    expect_pinned("1 2 4 5");
    card_sends(0);
    expect_op(UNETMM_OP_WRITE, 7, false, 0);
    expect(UNETMM_CQE_SENT, 1, 0);
    card_sends(0);
    expect_op(UNETMM_OP_READ, 8, false, 0);
    assert_ptr_equal(t.message.to, at(4));
    card_sends(0);
    expect_op(UNETMM_OP_FETCH_ADD, 16, false, 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 2, 0);
    expect(UNETMM_CQE_SENT, 3, 0);
    expect_none();
}

/* An operation that met a change of memory is posted again unchanged. */
TEST(operations_again, utlb_test)
{
    begin("lru", 20, 1);
    import();
    assert_int_equal(unetmm_write(t.ep, IMPORT, 7, at(1), 5000, 99, 1,
                                  UNETMM_NOTIFY), 0);
    lose(2, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect_none();
    assert_true(driver.pinned[2]);
    card_sends(0);
    expect_op(UNETMM_OP_WRITE, 7, true, 99);
    assert_int_equal(t.message.len, 5000);
    expect(UNETMM_CQE_SENT, 1, 0);
    assert_int_equal(unetmm_read(t.ep, IMPORT, 8, at(4), 5000, 2,
                                 UNETMM_UNSIGNALED), 0);
    lose(5, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect_none();
    assert_true(driver.write[5]);
    card_sends(0);
    expect_op(UNETMM_OP_READ, 8, false, 0);
    assert_ptr_equal(t.message.to, at(4));
    expect_none();
    assert_int_equal(stats().repeated, 2);
}

/* Not behind an operation that has to come after it. */
TEST(operations_in_order, utlb_test)
{
    begin_deep("lru", 20, 1, 5);
    import();
    /* Two writes may change places, */
    assert_int_equal(unetmm_write(t.ep, IMPORT, 0, at(1), 300, 0, 1, 0), 0);
    assert_int_equal(unetmm_write(t.ep, IMPORT, 0, at(3), 300, 0, 2, 0), 0);
    lose(1, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect_none();
    card_sends(0);
    expect(UNETMM_CQE_SENT, 2, 0);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 1, 0);
    /* but not a write and the notification of a later one. */
    assert_int_equal(unetmm_write(t.ep, IMPORT, 0, at(1), 300, 0, 3, 0), 0);
    assert_int_equal(unetmm_write(t.ep, IMPORT, 0, at(3), 30, 7, 4,
                                  UNETMM_NOTIFY), 0);
    lose(1, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 3, UNETMM_ST_PROTECTION);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 4, 0);
    /* A read may come later, */
    assert_int_equal(unetmm_read(t.ep, IMPORT, 0, at(1), 300, 5, 0), 0);
    assert_int_equal(unetmm_fetch_add(t.ep, IMPORT, 16, 1, 6, 0), 0);
    lose(1, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect_none();
    card_sends(0);
    expect(UNETMM_CQE_SENT, 6, 0);
    card_sends(0);
    expect_op(UNETMM_OP_READ, 0, false, 0);
    expect(UNETMM_CQE_SENT, 5, 0);
    /* and a message not. */
    assert_int_equal(send_flags(1, 300, 7, 0), 0);
    assert_int_equal(send_flags(3, 300, 8, 0), 0);
    lose(1, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 7, UNETMM_ST_PROTECTION);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 8, 0);
    use(1);
}

/* A message that is posted again promises nothing to the writes behind it. */
TEST(writes_behind_a_message_again, utlb_test)
{
    unsigned i;

    begin_deep("lru", 20, 1, 5);
    import();
    assert_int_equal(send_flags(1, 300, 1, 0), 0);
    assert_int_equal(unetmm_write(t.ep, IMPORT, 0, at(3), 300, 0, 2, 0), 0);
    for (i = 0; i < 3; i++) {
        lose(1, 1);
        lose(3, 1);
        card_sends(UNETMM_ST_PROTECTION);
        expect_none();
        card_sends(UNETMM_ST_PROTECTION);
        expect_none();
    }
    card_sends(0);
    assert_int_equal(t.message.opcode, UNETMM_OP_SEND);
    expect(UNETMM_CQE_SENT, 1, 0);
    card_sends(0);
    expect_op(UNETMM_OP_WRITE, 0, false, 0);
    expect(UNETMM_CQE_SENT, 2, 0);
    /* A later message is still behind it. */
    assert_int_equal(send_flags(1, 300, 3, 0), 0);
    lose(1, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect_none();
    assert_int_equal(send_flags(3, 300, 4, 0), 0);
    lose(1, 1);
    card_sends(UNETMM_ST_PROTECTION);
    expect(UNETMM_CQE_SENT, 3, UNETMM_ST_PROTECTION);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 4, 0);
    use(1);
}

/* An operation that waits to be posted again never uses another import. */
TEST(import_given_up, utlb_test)
{
    unsigned i;

    begin("lru", 20, 1);
    import();
    for (i = 0; i < 8; i++) {
        assert_int_equal(unetmm_write(t.ep, IMPORT, 5, at(1), 300, 0, i, 0),
                         0);
    }
    lose(1, 1);
    card_sends(UNETMM_ST_PROTECTION);
    /* Its place is taken, so that it has to wait. */
    assert_int_equal(unetmm_write(t.ep, IMPORT, 5, at(9), 300, 0, 100, 0), 0);
    expect_none();
    unetmm_utlb_unimport(t.fake.private, IMPORT);
    for (i = 1; i < 8; i++) {
        /* Nothing overtakes it, though there is a place now. */
        if (i == 1) {
            assert_true(fake_card_take(&t.fake.card, &t.message));
            assert_int_equal(send_flags(9, 300, 101, 0), -EAGAIN);
            assert_true(fake_card_complete(&t.fake.card, &(struct unetmm_cqe) {
                .opcode = UNETMM_CQE_SENT, .cookie = t.message.cookie,
            }));
        } else {
            card_sends(0);
        }
        expect_op(UNETMM_OP_WRITE, 5, false, 0);
        expect(UNETMM_CQE_SENT, i, 0);
    }
    card_sends(0);
    expect(UNETMM_CQE_SENT, 100, 0);
    card_sends(UNETMM_ST_BAD_IMPORT);
    assert_int_equal(t.message.opcode, UNETMM_OP_WRITE);
    assert_int_equal(t.message.import, UINT32_MAX);
    expect(UNETMM_CQE_SENT, 0, UNETMM_ST_BAD_IMPORT);
}

/* ---- Exports ----------------------------------------------------------- */

TEST(exports_stay, utlb_test)
{
    struct unetmm_utlb_config config = { .size = sizeof(config) };

    begin("lru", 6, 1);
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2) + 100, 3 * PAGE,
                                   UNETMM_RIGHT_WRITE, 0, 0), 0);
    assert_int_equal(unetmm_export(&t.ctx, 2, at(8), 1, UNETMM_RIGHT_READ, 0,
                                   0), 0);
    expect_pinned("2 3 4 5 8");
    assert_true(driver.write[2] && driver.write[5] && !driver.write[8]);
    /* No policy evicts them; besides them there is one page. */
    use(20);
    use(21);
    use(22);
    expect_pinned("2 3 4 5 8 22");
    assert_int_equal(unetmm_export(&t.ctx, 3, at(30), 2 * PAGE,
                                   UNETMM_RIGHT_READ, 0, 0), -ENOMEM);
    assert_int_equal(unetmm_export(&t.ctx, 3, at(30), SIZE_MAX / 2,
                                   UNETMM_RIGHT_READ, 0, 0), -ENOMEM);
    assert_int_equal(unetmm_export(&t.ctx, 3, at(30), 0, UNETMM_RIGHT_READ,
                                   0, 0), -EINVAL);
    assert_int_equal(unetmm_export(&t.ctx, 3, at(30), SIZE_MAX,
                                   UNETMM_RIGHT_READ, 0, 0), -EINVAL);
    driver.absent[31] = true;
    assert_int_equal(unetmm_export(&t.ctx, 3, at(31), 1, UNETMM_RIGHT_READ,
                                   0, 0), -EFAULT);
    assert_int_equal(unetmm_utlb_configure(&t.ctx, &config), -EBUSY);
    /* While messages on their way have the rest it may be tried again. */
    assert_int_equal(send_flags(22, 300, 5, 0), 0);
    assert_int_equal(unetmm_export(&t.ctx, 3, at(30), 1, UNETMM_RIGHT_READ,
                                   0, 0), -EAGAIN);
    card_sends(0);
    expect(UNETMM_CQE_SENT, 5, 0);
    driver.export_page = 3;
    assert_int_equal(unetmm_unexport(&t.ctx, 404), -ENOENT);
    assert_int_equal(unetmm_unexport(&t.ctx, 1), 0);
    driver.export_page = 0;
    use(23);
    use(24);
    use(25);
    use(26);
    use(27);
    expect_pinned("8 23 24 25 26 27");
    assert_int_equal(unetmm_unexport(&t.ctx, 2), 0);
    use(28);
    assert_false(driver.pinned[8] && driver.pinned[23]);
}

/* The driver does not export it, or does not know how it stands. */
TEST(exports_refused, utlb_test)
{
    begin("lru", 3, 1);
    driver.export_error = EEXIST;
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), 2 * PAGE,
                                   UNETMM_RIGHT_ALL, 0, 0), -EEXIST);
    use(10);
    use(11);
    use(12);
    expect_pinned("10 11 12");
    driver.export_error = 0;
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), 2 * PAGE,
                                   UNETMM_RIGHT_ALL, 0, 0), 0);
    driver.export_error = ENODEV;
    assert_int_equal(unetmm_unexport(&t.ctx, 1), -ENODEV);
    driver.export_error = 0;
    use(10);
    use(11);
    assert_true(driver.pinned[2] && driver.pinned[3]);
    /* Pages that the process has unmapped stay unmapped. */
    lose(2, 1);
    assert_int_equal(unetmm_unexport(&t.ctx, 1), 0);
    use(2);
    use(10);
    use(11);
    use(12);
    expect_pinned("10 11 12");
    /* Left to the end of the context */
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), 2 * PAGE,
                                   UNETMM_RIGHT_ALL, 0, 0), 0);
}

static int move_part(unsigned from, unsigned page, unsigned n)
{
    return unetmm_redirect(&t.ctx, 1, from * PAGE, at(page), n * PAGE, NULL);
}

/* Where parts of an export have moved is in use as the export is. */
TEST(parts_stay, utlb_test)
{
    begin("lru", 6, 1);
    assert_int_equal(move_part(0, 10, 1), -ENOENT);
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), 2 * PAGE,
                                   UNETMM_RIGHT_ALL,
                                   UNETMM_EXPORT_REDIRECT, 0), 0);
    assert_int_equal(move_part(0, 10, 1), 0);
    assert_int_equal(move_part(1, 12, 1), 0);
    use(20);
    use(21);
    use(22);
    expect_pinned("2 3 10 12 21 22");
    assert_int_equal(move_part(0, 14, 3), -ENOMEM);
    driver.export_error = EEXIST;
    assert_int_equal(move_part(0, 14, 1), -EEXIST);
    driver.export_error = 0;
    use(20);
    use(21);
    use(22);
    expect_pinned("2 3 10 12 21 22");
    /* To go back and forth changes nothing. */
    assert_int_equal(unetmm_redirect_end(&t.ctx, 1, 3), 0);
    driver.export_page = 10;
    driver.export_error = ENODEV;
    assert_int_equal(unetmm_redirect_end(&t.ctx, 1, 0), -ENODEV);
    assert_int_equal(unetmm_unexport(&t.ctx, 1), -ENODEV);
    driver.export_error = 0;
    use(23);
    assert_true(driver.pinned[2] && driver.pinned[10] && driver.pinned[12]);
    assert_int_equal(unetmm_redirect_back(&t.ctx, 1, 0, 0, NULL), 0);
    driver.export_page = 12;
    use(20);
    use(21);
    use(22);
    expect_pinned("2 3 12 20 21 22");
    assert_int_equal(unetmm_unexport(&t.ctx, 1), 0);
    use(23);
    use(24);
    use(25);
    expect_pinned("20 21 22 23 24 25");
    /* Left to the end of the context */
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), 2 * PAGE,
                                   UNETMM_RIGHT_ALL,
                                   UNETMM_EXPORT_REDIRECT, 0), 0);
    assert_int_equal(move_part(0, 10, 1), 0);
}

static sem_t pins, ends;
static pthread_t mover;

static void pin_late(void)
{
    driver.in_pin = NULL;
    sem_post(&pins);
    sem_wait(&ends);
}

static void *move_first_page(void *result)
{
    *(int *)result = move_part(0, 10, 1);
    return NULL;
}

/*
 * While the pages of a part are pinned by one thread, another ends its export and makes
 * one of the same number: the part is not the new one's, and its pages are let go.
 */
TEST(part_of_an_ended_export, utlb_test)
{
    int moved = -1;

    begin("lru", 3, 1);
    sem_init(&pins, 0, 0);
    sem_init(&ends, 0, 0);
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), PAGE, UNETMM_RIGHT_ALL,
                                   UNETMM_EXPORT_REDIRECT, 0), 0);
    driver.in_pin = pin_late;
    assert_int_equal(pthread_create(&mover, NULL, move_first_page, &moved), 0);
    sem_wait(&pins);
    assert_int_equal(unetmm_unexport(&t.ctx, 1), 0);
    /* Its page is pinned still, and no lock is needed for it. */
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), PAGE, UNETMM_RIGHT_ALL,
                                   UNETMM_EXPORT_REDIRECT, 0), 0);
    sem_post(&ends);
    pthread_join(mover, NULL);
    assert_int_equal(moved, -ENOENT);
    assert_int_equal(unetmm_unexport(&t.ctx, 1), 0);
    use(20);
    use(21);
    use(22);
    expect_pinned("20 21 22");
}

static void *unexport_first(void *result)
{
    *(int *)result = unetmm_unexport(&t.ctx, 1);
    sem_post(&ends);
    return NULL;
}

/* The other thread may end the export as soon as the driver has it. */
static void end_early(void)
{
    struct timespec soon;

    driver.in_export = NULL;
    assert_int_equal(pthread_create(&mover, NULL, unexport_first, &driver.ended), 0);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 200000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    sem_timedwait(&ends, &soon);
}

TEST(export_that_ends_at_once, utlb_test)
{
    begin("lru", 3, 1);
    sem_init(&ends, 0, 0);
    driver.ended = -1;
    driver.in_export = end_early;
    assert_int_equal(unetmm_export(&t.ctx, 1, at(2), PAGE, UNETMM_RIGHT_ALL, 0, 0), 0);
    pthread_join(mover, NULL);
    assert_int_equal(driver.ended, 0);
    use(20);
    use(21);
    use(22);
    expect_pinned("20 21 22");
}

/* ---- The end ----------------------------------------------------------- */

/* Pages of an ended endpoint's queues are not in use any more. */
TEST(endpoint_goes, utlb_test)
{
    struct fake_endpoint other = t.fake;

    begin("lru", 2, 1);
    assert_int_equal(send_flags(1, 300, 5, 0), 0);
    assert_int_equal(unetmm_post_recv(t.ep, at(2), PAGE, 6, 0), 0);
    fake_endpoint_init(&other, 3, 3, 4, 0);
    other.private->ctx = &t.ctx;
    assert_int_equal(unetmm_utlb_ep_open(other.private), 0);
    assert_int_equal(unetmm_send(other.ep, 1, at(3), 300, 7, 0), -EAGAIN);
    unetmm_utlb_ep_close(t.fake.private);
    fake_endpoint_free(&t.fake);
    t.fake = other;
    t.ep = other.ep;
    use(3);
    use(4);
    expect_pinned("3 4");
}

TEST(other_sources, cmocka_unit_test)
{
    struct unetmm_utlb_config config = { .size = sizeof(config) };
    struct unetmm_utlb_stats s = { .size = sizeof(s) };
    uint32_t alive = 1;
    struct unetmm_ctx ctx = { .alive = &alive };

    assert_int_equal(unetmm_utlb_configure(&ctx, &config), -EINVAL);
    assert_int_equal(unetmm_utlb_stats(&ctx, &s), -EINVAL);
    alive = 0;
    assert_int_equal(unetmm_utlb_configure(&ctx, &config), -EOWNERDEAD);
    assert_int_equal(unetmm_utlb_stats(&ctx, &s), -EOWNERDEAD);
    open_ctx("lru", 4, 1);
    s.size--;
    assert_int_equal(unetmm_utlb_stats(&t.ctx, &s), -EINVAL);
    /* A child has no log to unmap. */
    unetmm_utlb_close(&t.ctx, true);
    assert_true(driver.log_mapped);
}
