/*
 * unetmm: source shadow: entries locked for one page's DMA, against a driver that
 * takes pages away at any moment
 *
 * The card may use a page while its entry is locked and names it, and at no
 * other time: here the page's DMA rights follow this rule.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"
#include "peer.h"

#define VA      0x40000000ull   /* page 0 of a leaf table */
#define PAGE(n) (VA + (uint64_t)(n) * FAKE_PAGE)
#define NS      1000
#define LEN     3000
#define FLAGS   (UNETMM_PTE_VALID | UNETMM_PTE_READ | UNETMM_PTE_WRITE)
#define LOCKS(pte) UNETMM_GET(UNETMM_PTE_LOCKS, pte)

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = NS;
}

static void open_shadow(Fix *f, FakeSpace **s, FakeEp *ep, uint8_t levels)
{
    *s = fake_space(&f->d, 3, UNETMM_SOURCE_SHADOW, levels);
    fake_ep_open(ep, &f->d, 3, *s);
    fake_connect_peer(ep, FIX_WIRE, 13, FIX_MTU);
}

static void send_from(FakeEp *ep, uint64_t at, uint32_t len)
{
    fake_send_at(ep, FIX_WIRE, at, len, at);
    fake_ring_bell(ep);
}

static void expect_send(Fix *f, FakeEp *ep, uint64_t at, uint32_t len,
                        uint32_t n)
{
    unsigned frames = f->h.wire->len;

    send_from(ep, at, len);
    fake_expect(ep, UNETMM_CQE_SENT, UNETMM_ST_OK, at);
    assert_int_equal(f->h.wire->len, frames + 1);
    fake_check_frame(fake_wire_at(&f->h, frames), len, n);
}

/* ---- Reads of entries ---------------------------------------------------- */

/* The directories are walked once, the entry is read each time. */
TEST_OF(test_walk_once, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 5);
    fake_map(s, PAGE(0), 4 * FAKE_PAGE, FAKE_RW);
    fake_map(s, PAGE(600), FAKE_PAGE, FAKE_RW);
    for (unsigned i = 0; i < 4; i++) {
        fake_fill(s, PAGE(i), LEN, i);
    }
    fake_fill(s, PAGE(600), LEN, 600);
    expect_count(&f->h, cache_misses, 1,
                 expect_send(f, &e, PAGE(0), LEN, 0));
    expect_count(&f->h, cache_misses, 0,
    expect_count(&f->h, cache_hits, 3,
    expect_count(&f->h, shadow_hits, 3,
    expect_count(&f->h, shadow_locks, 3, {
        for (unsigned i = 1; i < 4; i++) {
            expect_send(f, &e, PAGE(i), LEN, i);
        }
    }))));
    /* Another leaf. */
    expect_count(&f->h, cache_misses, 1,
                 expect_send(f, &e, PAGE(600), LEN, 600));
}

/* A page that is taken out of the table is gone: nobody tells the card. */
TEST_OF(test_nothing_kept, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), LEN, 7);
    expect_send(f, &e, PAGE(0), LEN, 7);
    fake_table_set(s, PAGE(0), 0);
    expect_count(&f->h, shadow_misses, 1, send_from(&e, PAGE(0), LEN));
    fake_expect_none(&e);
    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(m.vaddr, PAGE(0));
    assert_int_equal(m.flags & UNETMM_FAULT_F_WRITE, 0);
    /* Answers bring no pages. */
    assert_int_equal(fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = s->id,
        .reply = { .fault_id = m.fault_id, .vaddr = m.vaddr, .npages = 1,
                   .list = f->d.list },
    }, NULL), UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
    assert_int_equal(f->h.core.counters[UNETMM_C_invalidations], 0);
}

/* An answer that is not true: the card looks, and asks again. */
TEST_OF(test_answer_is_looked_at, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_R);
    fake_table_set(s, PAGE(0), 0);
    send_from(&e, PAGE(0), LEN);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(fake_fault(&f->d, &m));
        assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_RESOLVED, 0),
                         UNETMM_CS_OK);
        fake_expect_none(&e);
    }
    fake_serve(&f->d);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
}

/* A right that is missing is a miss: it may be a page to be copied. */
TEST_OF(test_rights, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fake_table_set(s, PAGE(0), fake_pte(fake_vpage(s, PAGE(0))) &
                   ~UNETMM_PTE_WRITE);
    fake_fill(s, PAGE(0), LEN, 3);
    expect_send(f, &e, PAGE(0), LEN, 3);
    fake_post(&e, PAGE(0), FAKE_PAGE, 1);
    fake_ring_bell(&e);
    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(m.flags, UNETMM_FAULT_F_WRITE | UNETMM_FAULT_F_HEAD);
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_ERROR,
                                UNETMM_ST_PROTECTION), UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 1);
}

/* INV forgets where tables are: the driver may free them then. */
TEST_OF(test_directory_invalidated, Fix *f, fix_test)
{
    uint64_t old, new, entry, middle, directory;
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 3);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), LEN, 1);
    expect_send(f, &e, PAGE(0), LEN, 1);
    old = fake_table_at(s, PAGE(0)) & ~(FAKE_PAGE - 1ull);
    new = fake_alloc(&f->h, FAKE_PAGE, FAKE_PAGE, FAKE_RW);
    entry = cpu_to_le64(fake_pte(fake_vpage(s, PAGE(0))));
    fake_write(&f->h, new, &entry, 8);
    directory = cpu_to_le64(new | UNETMM_PTE_VALID);
    fake_read(&f->h, s->table + (VA >> 30 & 511) * 8, &middle, 8);
    middle = le64_to_cpu(middle) & UNETMM_PTE_ADDR;
    fake_write(&f->h, middle + (VA >> 21 & 511) * 8, &directory, 8);
    fake_invalidate(s, PAGE(3), FAKE_PAGE);
    fake_rights(&f->h, old, FAKE_PAGE, 0);
    fake_rights(&f->h, fake_vpage(s, PAGE(0))->dma, FAKE_PAGE, FAKE_RW);
    expect_send(f, &e, PAGE(0), LEN, 1);
}

/* ---- The word ----------------------------------------------------------- */

TEST_OF(test_dirty, Fix *f, fix_test)
{
    FakeSpace *s;
    uint64_t pte;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), 2 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), LEN, 1);
    pte = fake_table_get(s, PAGE(0));
    expect_send(f, &e, PAGE(0), LEN, 1);
    assert_int_equal(fake_table_get(s, PAGE(0)), pte);
    fake_post(&e, PAGE(0), 2 * FAKE_PAGE, 1);
    fake_ring_bell(&e);
    /* Ready, and not used yet. */
    assert_int_equal(fake_table_get(s, PAGE(0)), pte);
    fix_receive(f, &e, LEN, 5);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(s, PAGE(0), LEN, 5);
    assert_int_equal(fake_table_get(s, PAGE(0)), pte | UNETMM_PTE_DIRTY);
    /* It did not touch the second page. */
    assert_int_equal(fake_table_get(s, PAGE(1)),
                     fake_pte(fake_vpage(s, PAGE(1))));
}

/* The lock lasts as long as the page moves, and is counted. */
TEST_OF(test_lock_spans_dma, Fix *f, fix_test_with, slow)
{
    FakeSpace *s;
    FakeEp e, g;

    open_shadow(f, &s, &e, 4);
    fake_ep_open(&g, &f->d, 4, s);
    fake_connect_peer(&g, FIX_WIRE, 14, FIX_MTU);
    fake_map(s, PAGE(0), 3 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), 2 * FAKE_PAGE, 1);
    send_from(&e, PAGE(0), 2 * FAKE_PAGE);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(0))), 1);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(1))), 0);
    fake_advance(&f->h, NS / 2);
    send_from(&g, PAGE(0), 100);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(0))), 2);
    /* The page is taken away: its users end, none begins. */
    fake_table_set(s, PAGE(0), fake_table_get(s, PAGE(0)) & ~FLAGS);
    fake_advance(&f->h, NS / 2);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(0))), 1);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(1))), 1);
    fake_advance(&f->h, NS / 2);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(0))), 0);
    assert_int_equal(fake_table_get(s, PAGE(0)) & FLAGS, 0);
    fake_expect(&g, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
    fake_advance(&f->h, NS / 2);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
    fake_check_frame(fake_wire_at(&f->h, 1), 2 * FAKE_PAGE, 1);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(1))), 0);
}

/* More than the field can count are turned away like any miss. */
TEST_OF(test_locks_used_up, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    uint64_t pte;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), LEN, 1);
    pte = fake_table_get(s, PAGE(0)) | UNETMM_PTE_LOCKS;
    fake_table_set(s, PAGE(0), pte);
    expect_count(&f->h, shadow_raced, 1, send_from(&e, PAGE(0), LEN));
    assert_int_equal(fake_table_get(s, PAGE(0)), pte);
    assert_true(fake_fault(&f->d, &m));
    fake_table_set(s, PAGE(0), pte - UNETMM_PTE_LOCK);
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_RESOLVED, 0),
                     UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
    assert_int_equal(fake_table_get(s, PAGE(0)), pte - UNETMM_PTE_LOCK);
}

/* A driver that breaks the rules harms nobody but itself. */
TEST_OF(test_lock_taken_away, Fix *f, fix_test_with, slow)
{
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    send_from(&e, PAGE(0), LEN);
    fake_table_set(s, PAGE(0), UNETMM_PTE_DIRTY);
    expect_count(&f->h, err_lock, 1, fake_advance(&f->h, NS));
    assert_int_equal(fake_table_get(s, PAGE(0)), UNETMM_PTE_DIRTY);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
}

/* A saved state may say that a page moves whose entry it does not lock. */
TEST_OF(test_moves_without_lock, Fix *f, fix_test_with, slow)
{
    FakeSpace *s;
    uint64_t pte;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    send_from(&e, PAGE(0), LEN);
    f->h.spoilt = true;
    pte = fake_table_get(s, PAGE(0)) & ~UNETMM_PTE_LOCKS;
    fake_table_set(s, PAGE(0), pte);
    f->h.core.eps[3].tx.page.pte &= ~UNETMM_PTE_LOCKS;
    expect_count(&f->h, err_lock, 1, fake_advance(&f->h, NS));
    assert_int_equal(fake_table_get(s, PAGE(0)), pte);
}

static uint64_t restless;

static void flip(FakeHost *host, uint64_t addr)
{
    uint64_t word;

    if (addr == restless) {
        fake_read(host, addr, &word, 8);
        word ^= cpu_to_le64(UNETMM_PTE_DIRTY);
        fake_write(host, addr, &word, 8);
    }
}

/* An entry that never stands still is given up, with nothing left behind. */
TEST_OF(test_restless_word, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    restless = fake_table_at(s, PAGE(0));
    f->h.on_atomic = flip;
    expect_count(&f->h, shadow_raced, 1, send_from(&e, PAGE(0), LEN));
    fake_expect_none(&e);
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(0))), 0);
    assert_true(fake_fault(&f->d, &m));
    f->h.on_atomic = NULL;
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_RESOLVED, 0),
                     UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
}

TEST_OF(test_bus_refuses, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), LEN, 1);
    expect_send(f, &e, PAGE(0), LEN, 1);
    f->h.refuse_first = fake_table_at(s, PAGE(0));
    f->h.refuse_last = f->h.refuse_first + 7;
    expect_count(&f->h, err_dma, 1, send_from(&e, PAGE(0), LEN));
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, PAGE(0));
}

/* ---- Ends --------------------------------------------------------------- */

/* An endpoint's end waits for its page, and leaves no lock. */
TEST_OF(test_endpoint_ends, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd_done done;
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    send_from(&e, PAGE(0), LEN);
    fake_issue(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_EP_DESTROY, .ep = e.id });
    assert_false(fake_done(&f->d, &done));
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(0))), 1);
    fake_advance(&f->h, NS);
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(LOCKS(fake_table_get(s, PAGE(0))), 0);
}

/* A reset leaves them: the card does not write any more. */
TEST_OF(test_reset_leaves_lock, Fix *f, fix_test_with, slow)
{
    FakeSpace *s;
    uint64_t pte;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    send_from(&e, PAGE(0), LEN);
    pte = fake_table_get(s, PAGE(0));
    assert_int_equal(LOCKS(pte), 1);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    fake_advance(&f->h, 10 * NS);
    assert_int_equal(fake_table_get(s, PAGE(0)), pte);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_err_lock), 0);
}

/* ---- Every order -------------------------------------------------------- */

/*
 * One page, and a driver's actions on it: it takes VALID away; when nobody has
 * it locked the page is gone, its contents are kept elsewhere if they were
 * changed; it comes back in another place; is write-protected; is taken away
 * again.  Its steps fall between the card's accesses to entry and page in every
 * way that there is.
 */
enum { CLEAR, FINISH, BACK, PROTECT, CLEAR2, FINISH2, STEPS };

typedef struct Orders {
    FakeHost h;
    FakeDriver d;
    FakeSpace *s;
    FakeEp e;
    uint64_t word;
    uint64_t place[2];          /* of the page, by turns */
    uint64_t page;              /* where it is; 0: nowhere */
    uint8_t store[FAKE_PAGE];   /* its contents while it is nowhere */
    unsigned at[STEPS];         /* the access before which each step is */
    unsigned step, access, counted;
    uint64_t before;            /* the word, before it changes */
    bool stopped;
    bool writes;                /* the card does, in this scene */
} Orders;

static Orders *orders;

static uint64_t word_get(Orders *o)
{
    uint64_t word;

    fake_read(&o->h, o->word, &word, 8);
    return le64_to_cpu(word);
}

/* The driver's change of the word, and the card's rights from then on. */
static void word_rights(Orders *o)
{
    uint64_t word = word_get(o);

    o->before = word;
    for (unsigned i = 0; i < 2; i++) {
        bool usable = LOCKS(word) && (word & UNETMM_PTE_ADDR) == o->place[i];

        fake_rights(&o->h, o->place[i], FAKE_PAGE, usable ? FAKE_RW : 0);
    }
}

static void word_put(Orders *o, uint64_t word)
{
    word = cpu_to_le64(word);
    fake_write(&o->h, o->word, &word, 8);
    word_rights(o);
}

/* False: it has to wait for the card. */
static bool driver_finish(Orders *o)
{
    uint64_t word = word_get(o);
    uint8_t *page = fake_ptr(&o->h, o->page, FAKE_PAGE);

    if (LOCKS(word)) {
        return false;
    }
    if (word & UNETMM_PTE_DIRTY) {
        memcpy(o->store, page, FAKE_PAGE);
    }
    memset(page, 0xee, FAKE_PAGE);
    o->page = 0;
    word_put(o, 0);
    return true;
}

static bool driver_step(Orders *o, unsigned step)
{
    uint64_t word = word_get(o);

    switch (step) {
    case CLEAR:
    case CLEAR2:
        word_put(o, word & ~FLAGS);
        return true;
    case FINISH:
    case FINISH2:
        return driver_finish(o);
    case BACK:
        o->page = o->place[1];
        memcpy(fake_ptr(&o->h, o->page, FAKE_PAGE), o->store, FAKE_PAGE);
        word_put(o, o->page | FLAGS);
        return true;
    default:
        word_put(o, word & ~UNETMM_PTE_WRITE);
        return true;
    }
}

static void drive(Orders *o)
{
    while (!o->stopped && o->step < STEPS && o->at[o->step] <= o->access &&
           driver_step(o, o->step)) {
        o->step++;
    }
}

/* Before an access of the card to the entry, and after it has read anything. */
static void orders_access(FakeHost *host, uint64_t addr)
{
    Orders *o = orders;

    if (addr == o->word || addr / FAKE_PAGE == o->place[0] / FAKE_PAGE ||
        addr / FAKE_PAGE == o->place[1] / FAKE_PAGE) {
        drive(o);
        o->access++;
    }
}

static void orders_read(FakeHost *host, uint64_t addr, size_t bytes)
{
    orders_access(host, addr);
}

/* The card has changed the word, or the page. */
static void orders_write(FakeHost *host, uint64_t addr, size_t bytes)
{
    Orders *o = orders;
    uint64_t word = word_get(o);
    uint64_t need = UNETMM_PTE_VALID | (o->writes ? UNETMM_PTE_WRITE :
                                        UNETMM_PTE_READ);

    if (addr == o->word && LOCKS(word) > LOCKS(o->before)) {
        assert_int_equal(word & need, need);
        assert_int_equal(!!(word & UNETMM_PTE_DIRTY), o->writes);
    }
    word_rights(o);
    orders_access(host, addr);
}

static void orders_open(Orders *o, const UnetmmParams *params)
{
    fake_host_again(&o->h, params);
    fake_driver_init(&o->d, &o->h);
    fake_driver_start(&o->d);
    o->s = fake_space(&o->d, 3, UNETMM_SOURCE_SHADOW, 3);
    fake_ep_open(&o->e, &o->d, 3, o->s);
    fake_connect_peer(&o->e, FIX_WIRE, 13, FIX_MTU);
    o->word = fake_table_at(o->s, PAGE(0));
    o->place[0] = o->page = fake_page(&o->h);
    o->place[1] = fake_page(&o->h);
    o->step = o->access = 0;
    o->stopped = false;
    word_put(o, o->page | FLAGS);
    orders = o;
    o->h.on_atomic = orders_access;
    o->h.on_read = orders_read;
    o->h.on_write = orders_write;
}

/* The driver serves the card's requests, and goes on with its own. */
static void orders_settle(Orders *o)
{
    for (unsigned i = 0; i < 20; i++) {
        struct unetmm_fault m;

        fake_advance(&o->h, NS);
        if (i == 8) {           /* the rest happens now */
            o->counted = o->access;
            o->access = 100000;
        }
        drive(o);
        if (o->step < STEPS || !fake_fault(&o->d, &m)) {
            continue;
        }
        /* Its six steps are over: the page is there and stays. */
        o->stopped = true;
        if (!o->page) {
            o->page = o->place[0];
            memcpy(fake_ptr(&o->h, o->page, FAKE_PAGE), o->store, FAKE_PAGE);
            word_put(o, o->page | FLAGS);
        }
        fake_reply(&o->d, &m, UNETMM_REPLY_RESOLVED, 0);
    }
    assert_int_equal(o->step, STEPS);
    assert_int_equal(LOCKS(word_get(o)), 0);
    assert_int_equal(fake_counter(&o->h, UNETMM_C_err_lock), 0);
}

/* The process's view. */
static const uint8_t *orders_bytes(Orders *o)
{
    return o->page ? fake_ptr(&o->h, o->page, FAKE_PAGE) : o->store;
}

static void orders_put(Orders *o, uint32_t n)
{
    for (unsigned i = 0; i < FAKE_PAGE; i++) {
        o->store[i] = fake_pattern(n, i);
    }
    memcpy(fake_ptr(&o->h, o->page, FAKE_PAGE), o->store, FAKE_PAGE);
}

static unsigned order_send(Orders *o)
{
    orders_put(o, 4);
    send_from(&o->e, PAGE(0), LEN);
    orders_settle(o);
    fake_expect(&o->e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
    assert_int_equal(o->h.wire->len, 1);
    fake_check_frame(fake_wire_at(&o->h, 0), LEN, 4);
    return o->counted;
}

static unsigned order_receive(Orders *o)
{
    struct unetmm_cqe cqe;
    uint32_t n = 5;

    o->writes = true;
    orders_put(o, n);
    fake_post(&o->e, PAGE(0), FAKE_PAGE, 1);
    fake_ring_bell(&o->e);
    fake_deliver(&o->h, fake_datagram(&o->e, FIX_WIRE, 13, LEN, 6));
    orders_settle(o);
    if (fake_poll(&o->e, &cqe)) {
        assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
        assert_int_equal(cqe.status, UNETMM_ST_OK);
        n = 6;
    } else {
        assert_int_equal(fake_counter(&o->h, UNETMM_C_drop_invalidated) +
                         fake_counter(&o->h, UNETMM_C_drop_asked), 1);
    }
    for (unsigned i = 0; i < LEN; i++) {
        if (orders_bytes(o)[i] != fake_pattern(n, i)) {
            fail_msg("steps before accesses %u %u %u %u %u %u: byte %u is "
                     "wrong", o->at[0], o->at[1], o->at[2], o->at[3],
                     o->at[4], o->at[5], i);
        }
    }
    return o->counted;
}

/* All ways to put the six steps before accesses 0 .. last, in their order. */
static bool orders_next(Orders *o, unsigned last)
{
    for (int i = STEPS - 1; i >= 0; i--) {
        if (o->at[i] < last) {
            unsigned at = o->at[i] + 1;

            for (; i < STEPS; i++) {
                o->at[i] = at;
            }
            return true;
        }
    }
    return false;
}

static void every_order(FixTune *tune, unsigned (*scene)(Orders *o),
                        const char *name)
{
    g_autofree Orders *o = g_new0(Orders, 1);
    unsigned last, n = 0;
    UnetmmParams params;

    fake_params(&params);
    if (tune) {
        tune(&params);
    }
    fake_host_init(&o->h, &params);
    /* How many accesses there are when nobody interferes before the end. */
    for (unsigned i = 0; i < STEPS; i++) {
        o->at[i] = 100000;
    }
    orders_open(o, &params);
    o->step = STEPS;
    last = scene(o) + 2;
    fake_driver_free(&o->d);
    memset(o->at, 0, sizeof(o->at));
    do {
        orders_open(o, &params);
        scene(o);
        fake_driver_free(&o->d);
        n++;
    } while (orders_next(o, last));
    print_message("# %s: %u orders\n", name, n);
    assert_true(n > 100);
    fake_host_free(&o->h);
}

TEST(test_every_order, cmocka_unit_test)
{
    every_order(NULL, order_send, "send");
    every_order(NULL, order_receive, "receive");
    every_order(slow, order_send, "slow send");
    every_order(slow, order_receive, "slow receive");
}

/* ---- Entries that stand together ---------------------------------------- */

static uint64_t line_at;
static unsigned line_reads;

static void count_line(FakeHost *host, uint64_t addr, size_t bytes)
{
    line_reads += addr >= line_at && addr - line_at < 64;
}

/* Entries read along with one are known, for this run alone. */
TEST_OF(test_line_read_once, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_shadow(f, &s, &e, 4);
    fake_map(s, PAGE(0), 8 * FAKE_PAGE, FAKE_RW);
    line_at = fake_table_at(s, PAGE(0));
    f->h.on_read = count_line;
    for (unsigned i = 0; i < 2; i++) {
        line_reads = 0;
        send_from(&e, PAGE(0), 8 * FAKE_PAGE);
        fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
        assert_int_equal(line_reads, 1);
    }
}
