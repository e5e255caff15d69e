/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source utlb: the record of pinned pages, and keeping them under a quota.
 *
 * The record is a tree of arrays, like the card's table, with one word for each
 * page: is it pinned, with which rights, and how many descriptors use it.  To use a
 * page that is pinned costs an atomic operation on its word and no lock; a page that
 * is used is not evicted.  `lock` protects all other members.
 *
 * The record may be wrong in one direction: the driver unpins pages that the process
 * unmaps or copies on write, and says so in its log.  The log is looked
 * at before each use; the card notices a change that is not yet in the log, since it
 * finds no entry (descriptors.c).
 */
#include "utlb.h"
#include "record.h"

/* Looks at memory that changes each time, before the card decides. */
#define TRIES           100u

/* ---- Pages ------------------------------------------------------------- */

static bool in_reach(uint64_t vpn)
{
    return vpn >> (LEVELS * LEVEL_BITS) == 0;
}

/*
 * NULL: no address of a process, or no node; with `make` there is one unless memory is short.
 * Inline, because each use of a page calls it without `make`.
 */
static inline __attribute__((__always_inline__))
struct page *walk(const struct unetmm_utlb_ctx *u, uint64_t vpn, bool make)
{
    struct node *node = u->root;
    int level;

    if (!in_reach(vpn)) {
        return NULL;
    }
    for (level = LEVELS - 1; level > 0; level--) {
        _Atomic(struct node *) *link =
            &node->below[vpn >> (level * LEVEL_BITS) & (FANOUT - 1)];

        /* Pairs with the release below. */
        node = atomic_load_explicit(link, memory_order_acquire);
        if (!node && make) {
            node = sys_calloc(1, sizeof(*node));
            atomic_store_explicit(link, node, memory_order_release);
        }
        if (!node) {
            return NULL;
        }
    }
    return &node->page[vpn & (FANOUT - 1)];
}

static struct page *find_page(const struct unetmm_utlb_ctx *u, uint64_t vpn)
{
    return walk(u, vpn, false);
}

static bool is_pinned(const struct unetmm_utlb_ctx *u, uint64_t vpn)
{
    return atomic_load_explicit(&find_page(u, vpn)->word, memory_order_relaxed) & WORD_PINNED;
}

void unetmm_utlb_free_nodes(struct node *node, int level)
{
    unsigned i;

    for (i = 0; node && level && i < FANOUT; i++) {
        struct node *below = atomic_load_explicit(&node->below[i], memory_order_relaxed);

        unetmm_utlb_free_nodes(below, level - 1);
    }
    free(node);
}

/* Uses a page if it is pinned for that. */
static bool use_page(struct page *page, bool write)
{
    const uint32_t needed = WORD_PINNED | (write ? WORD_WRITE : 0);
    uint32_t word;

    if (!page) {
        return false;
    }
    word = atomic_load_explicit(&page->word, memory_order_relaxed);
    do {
        if ((word & needed) != needed) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
                 &page->word, &word, word + 1, memory_order_acquire,
                 memory_order_relaxed));
    return true;
}

/* ---- Numbers ----------------------------------------------------------- */

/* The page is not pinned any more; somebody may still use it. */
static void free_number(struct unetmm_utlb_ctx *u, uint32_t number)
{
    u->policy->unpinned(u->state, number);
    u->slots[number].page = NULL;
    u->slots[number].next = u->first_free;
    u->first_free = number;
    u->used--;
}

static void take_number(struct unetmm_utlb_ctx *u, uint64_t vpn,
                        struct page *page)
{
    uint32_t number = u->first_free;

    u->first_free = u->slots[number].next;
    u->slots[number].vpn = vpn;
    u->slots[number].page = page;
    __atomic_store_n(&page->number, number, __ATOMIC_RELAXED);
    u->used++;
    u->policy->pinned(u->state, number);
}

/* The driver has unpinned the page without a call of the library. */
static void lose_page(struct unetmm_utlb_ctx *u, struct page *page)
{
    uint32_t word = atomic_fetch_and_explicit(&page->word, WORD_USERS,
                                              memory_order_relaxed);

    if (word & WORD_PINNED) {
        free_number(u, page->number);
        u->stats.lost++;
    }
}

/* ---- The log ----------------------------------------------------------- */

static void lose_range(struct unetmm_utlb_ctx *u, uint64_t first,
                       uint64_t last)
{
    uint64_t vpn;
    uint32_t i;

    if (last - first < u->quota) {
        for (vpn = first; vpn <= last; vpn++) {
            struct page *page = find_page(u, vpn);

            if (page) {
                lose_page(u, page);
            }
        }
        return;
    }
    for (i = 0; i < u->quota; i++) {
        if (u->slots[i].page && u->slots[i].vpn >= first &&
            u->slots[i].vpn <= last) {
            lose_page(u, u->slots[i].page);
        }
    }
}

static uint64_t log_seq(const struct unetmm_utlb_ctx *u)
{
    return __atomic_load_n(&u->log->seq, __ATOMIC_ACQUIRE);
}

static bool log_is_read(const struct unetmm_utlb_ctx *u)
{
    return log_seq(u) == atomic_load_explicit(&u->seen, memory_order_relaxed);
}

/* Takes pages that the driver has unpinned out of the record. */
void unetmm_utlb_read_log(struct unetmm_utlb_ctx *u)
{
    uint64_t seen = atomic_load_explicit(&u->seen, memory_order_relaxed);
    uint64_t seq = log_seq(u), i;

    if (seq == seen) {
        return;
    }
    for (i = seen; i != seq && seq - seen < UNETMM_UTLB_LOG_RANGES; i++) {
        const struct unetmm_utlb_range *range =
            &u->log->ranges[i % UNETMM_UTLB_LOG_RANGES];
        uint64_t start = __atomic_load_n(&range->start, __ATOMIC_RELAXED);
        uint64_t last = __atomic_load_n(&range->last, __ATOMIC_RELAXED);

        lose_range(u, start >> PAGE_SHIFT, last >> PAGE_SHIFT);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (log_seq(u) - seen >= UNETMM_UTLB_LOG_RANGES) {
        /* The entries that we have read may have been overwritten meanwhile. */
        lose_range(u, 0, UINT64_MAX >> PAGE_SHIFT);
    }
    atomic_store_explicit(&u->seen, seq, memory_order_relaxed);
}

/* ---- Pinning and unpinning --------------------------------------------- */

struct run {
    uint64_t vpn;
    uint32_t npages;
    uint32_t named;             /* that a descriptor has; the rest is prepinned */
};

static int call_driver(struct unetmm_utlb_ctx *u, unsigned long request,
                       const struct run *run, bool write, uint32_t *done)
{
    struct unetmm_utlb arg = {
        .size = sizeof(arg),
        .flags = write ? UNETMM_REGION_WRITE : 0,
        .addr = run->vpn << PAGE_SHIFT,
        .npages = run->named,
        .ahead = run->npages - run->named,
    };
    int ret = sys_ioctl(u->fd, request, &arg);

    if (ret >= 0 && arg.done > run->npages) {
        ret = -EPROTO;
    }
    *done = ret < 0 ? 0 : arg.done;
    return ret < 0 ? ret : 0;
}

static void unpin_run(struct unetmm_utlb_ctx *u, struct run *run)
{
    uint32_t done;

    if (!run->npages) {
        return;
    }
    /* The call may fail because the card has gone: the pages are unpinned then, too. */
    run->named = run->npages;
    call_driver(u, UNETMM_IOC_UTLB_UNPIN, run, false, &done);
    u->stats.unpin_calls++;
    run->npages = 0;
}

/* A page that is to go joins the run, or the run goes and it starts another. */
static void add_to_run(struct unetmm_utlb_ctx *u, struct run *run,
                       uint64_t vpn)
{
    if (run->npages && vpn == run->vpn + run->npages) {
        run->npages++;
    } else {
        unpin_run(u, run);
        *run = (struct run) { .vpn = vpn, .npages = 1 };
    }
}

/* Takes a page away from all, unless it has a user or lacks one of the bits `needed`. */
static bool take_page(struct page *page, uint32_t needed)
{
    uint32_t word = atomic_load_explicit(&page->word, memory_order_relaxed);

    do {
        if (word & WORD_USERS || (word & needed) != needed) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
                 &page->word, &word, 0, memory_order_acq_rel,
                 memory_order_relaxed));
    return true;
}

static int take_unused(void *arg, uint32_t number)
{
    struct unetmm_utlb_ctx *u = arg;

    /* The policy may be anybody's: one page a time, and one that there is. */
    if (u->taken != UNETMM_UTLB_NONE || number >= u->quota ||
        !u->slots[number].page) {
        return 0;
    }
    if (!take_page(u->slots[number].page, WORD_PINNED)) {
        return 0;
    }
    u->taken = number;
    return 1;
}

/* Unpins up to n pages, as the policy says.  Returns how many. */
static uint32_t evict(struct unetmm_utlb_ctx *u, uint32_t n)
{
    struct run run = { .npages = 0 };
    uint32_t evicted;

    for (evicted = 0; evicted < n; evicted++) {
        u->taken = UNETMM_UTLB_NONE;
        u->policy->choose(u->state, take_unused, u);
        if (u->taken == UNETMM_UTLB_NONE) {
            break;
        }
        add_to_run(u, &run, u->slots[u->taken].vpn);
        free_number(u, u->taken);
    }
    unpin_run(u, &run);
    u->stats.evicted += evicted;
    return evicted;
}

bool unetmm_utlb_unpin_all(struct unetmm_utlb_ctx *u)
{
    struct run run = { .npages = 0 };
    bool all = true;
    uint32_t i;

    for (i = 0; i < u->quota; i++) {
        struct slot *slot = &u->slots[i];

        if (!slot->page) {
            continue;
        }
        if (!take_page(slot->page, 0)) {
            all = false;
            continue;
        }
        add_to_run(u, &run, slot->vpn);
        free_number(u, i);
        u->stats.evicted++;
    }
    unpin_run(u, &run);
    return all;
}

bool unetmm_utlb_any_in_use(const struct unetmm_utlb_ctx *u)
{
    uint32_t i;

    for (i = 0; i < u->quota; i++) {
        if (u->slots[i].page &&
            atomic_load(&u->slots[i].page->word) & WORD_USERS) {
            return true;
        }
    }
    return false;
}

/* Enters pages that the driver has pinned. */
static void enter(struct unetmm_utlb_ctx *u, uint64_t vpn, uint32_t npages,
                  bool write)
{
    const uint32_t bits = WORD_PINNED | (write ? WORD_WRITE : 0);
    uint32_t i;

    for (i = 0; i < npages; i++) {
        struct page *page = find_page(u, vpn + i);

        if (!(atomic_load_explicit(&page->word, memory_order_relaxed) &
              WORD_PINNED)) {
            take_number(u, vpn + i, page);
            u->stats.pinned_pages++;
        }
        atomic_fetch_or_explicit(&page->word, bits, memory_order_release);
    }
}

/* From vpn on: the pages to pin with it, up to the first that is pinned. */
static uint32_t run_length(struct unetmm_utlb_ctx *u, uint64_t vpn,
                           uint64_t last, bool write)
{
    const uint32_t enough = WORD_PINNED | (write ? WORD_WRITE : 0);
    uint64_t most = last - vpn + 1;
    uint32_t n;

    most = most < u->prepin ? u->prepin : most;
    most = most > MOST_AT_ONCE ? MOST_AT_ONCE : most;
    most = most > u->quota ? u->quota : most;
    for (n = 0; n < most; n++) {
        struct page *page = walk(u, vpn + n, true);

        if (!page || (n && (atomic_load_explicit(&page->word,
                                                 memory_order_relaxed) &
                            enough) == enough)) {
            break;
        }
    }
    return n;
}

/*
 * Makes room for a run, or for a part of the run.  A page of the run that is pinned, and
 * only lacks a right, has its room already.
 */
static uint32_t make_room(struct unetmm_utlb_ctx *u, uint64_t vpn, uint32_t n)
{
    uint32_t free = u->quota - u->used;

    if (free < n) {
        free += evict(u, n - free);
    }
    if (!free && is_pinned(u, vpn)) {
        return 1;
    }
    return free < n ? free : n;
}

/* The error for the page's user. */
static int no_room(const struct unetmm_utlb_ctx *u)
{
    return atomic_load(&u->sending) ? -EAGAIN : -EDQUOT;
}

/* PIN, with room made where a limit of others' is lower than ours. */
static int ask_driver(struct unetmm_utlb_ctx *u, const struct run *run,
                      bool write, uint32_t *done)
{
    unsigned tries = 0;

    for (;;) {
        int ret = call_driver(u, UNETMM_IOC_UTLB_PIN, run, write, done);

        u->stats.pin_calls++;
        /* The driver's table is charged as well, and says ENOMEM. */
        if (ret == -EDQUOT || ret == -ENOMEM) {
            if (!evict(u, run->npages)) {
                return no_room(u);
            }
        } else if (ret != -EAGAIN) {
            return ret;
        } else if (++tries == TRIES) {
            return -EBUSY;
        }
    }
}

static bool all_pinned(const struct unetmm_utlb_ctx *u, uint64_t vpn,
                       uint32_t npages)
{
    uint32_t i;

    for (i = 0; i < npages; i++) {
        if (!is_pinned(u, vpn + i)) {
            return false;
        }
    }
    return true;
}

/*
 * Pins pages from `vpn` on: the pages up to `last` that are not pinned, and as many more as
 * the user has asked for.  The caller holds the lock.  0: `vpn` was pinned, and may have been
 * lost again.
 */
static int pin_run(struct unetmm_utlb_ctx *u, uint64_t vpn, uint64_t last,
                   bool write)
{
    struct run run = { .vpn = vpn, .npages = run_length(u, vpn, last, write) };
    unsigned tries = 0;
    uint32_t done;
    int ret;

    if (!run.npages) {
        return in_reach(vpn) ? -ENOMEM : -EFAULT;
    }
    run.npages = make_room(u, vpn, run.npages);
    if (!run.npages) {
        return no_room(u);
    }
    run.named = last - vpn < run.npages ? (uint32_t)(last - vpn) + 1 :
        run.npages;
    do {
        ret = ask_driver(u, &run, write, &done);
        if (ret) {
            return ret;
        }
        enter(u, vpn, done, write);
        /*
         * A range from before our call takes out pages that are pinned again: they
         * are asked for anew, or they would be pinned without a record.
         */
        unetmm_utlb_read_log(u);
    } while (!all_pinned(u, vpn, done) && ++tries < TRIES);
    return 0;
}

/* ---- Use --------------------------------------------------------------- */

/* Tells the policy, unless it knows or somebody else is telling it something. */
static void tell_used(struct unetmm_utlb_ctx *u, uint64_t vpn,
                      struct page *page)
{
    uint32_t number = __atomic_load_n(&page->number, __ATOMIC_RELAXED);

    if (!u->policy->used ||
        atomic_load_explicit(&u->last_used, memory_order_relaxed) == number ||
        pthread_mutex_trylock(&u->lock)) {
        return;
    }
    number = page->number;
    if (number < u->quota && u->slots[number].page == page &&
        u->slots[number].vpn == vpn) {
        u->policy->used(u->state, number);
        atomic_store_explicit(&u->last_used, number, memory_order_relaxed);
    }
    pthread_mutex_unlock(&u->lock);
}

static int hold_slowly(struct unetmm_utlb_ctx *u, uint64_t vpn, uint64_t last,
                       bool write)
{
    unsigned tries;
    int ret = 0;

    pthread_mutex_lock(&u->lock);
    unetmm_utlb_read_log(u);
    for (tries = 0; !use_page(find_page(u, vpn), write); tries++) {
        ret = tries < TRIES ? pin_run(u, vpn, last, write) : -EDQUOT;
        if (ret) {
            break;
        }
    }
    pthread_mutex_unlock(&u->lock);
    return ret;
}

static int hold_page(struct unetmm_utlb_ctx *u, uint64_t vpn, uint64_t last,
                     bool write)
{
    struct page *page = find_page(u, vpn);

    if (!log_is_read(u) || !use_page(page, write)) {
        return hold_slowly(u, vpn, last, write);
    }
    tell_used(u, vpn, page);
    return 0;
}

/* False: there are none, or the piece is no memory of a process. */
static bool pages_of(const struct iovec *piece, uint64_t *first,
                     uint64_t *last)
{
    uint64_t addr = (uintptr_t)piece->iov_base;

    *first = addr >> PAGE_SHIFT;
    *last = (addr + piece->iov_len - 1) >> PAGE_SHIFT;
    return piece->iov_len && *first <= *last && in_reach(*last);
}

static void let_go_pages(struct unetmm_utlb_ctx *u, uint64_t first,
                         uint64_t end)
{
    for (; first < end; first++) {
        atomic_fetch_sub_explicit(&find_page(u, first)->word, 1,
                                  memory_order_release);
    }
}

void unetmm_utlb_let_go(struct unetmm_utlb_ctx *u, const struct iovec *iov,
                        unsigned n)
{
    uint64_t first, last;
    unsigned i;

    for (i = 0; i < n; i++) {
        if (pages_of(&iov[i], &first, &last)) {
            let_go_pages(u, first, last + 1);
        }
    }
}

static int hold_piece(struct unetmm_utlb_ctx *u, const struct iovec *piece,
                      bool write)
{
    uint64_t first, last, vpn;

    if (!pages_of(piece, &first, &last)) {
        return piece->iov_len ? -EFAULT : 0;
    }
    for (vpn = first; vpn <= last; vpn++) {
        int ret = hold_page(u, vpn, last, write);

        if (ret) {
            let_go_pages(u, first, vpn);
            return ret;
        }
    }
    return 0;
}

int unetmm_utlb_hold(struct unetmm_utlb_ctx *u, const struct iovec *iov,
                     unsigned n, bool write)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        int ret = hold_piece(u, &iov[i], write);

        if (ret) {
            unetmm_utlb_let_go(u, iov, i);
            return ret;
        }
    }
    return 0;
}

bool unetmm_utlb_fits(const struct unetmm_utlb_ctx *u, uint64_t npages)
{
    return npages <= u->quota;
}

static int renew_pages(struct unetmm_utlb_ctx *u, uint64_t first,
                       uint64_t last, bool write)
{
    uint64_t vpn;
    int ret = 0;

    /* Entries have gone, whether the log says so already or not. */
    for (vpn = first; vpn <= last; vpn++) {
        lose_page(u, find_page(u, vpn));
    }
    for (vpn = first; !ret && vpn <= last; vpn++) {
        if (!is_pinned(u, vpn)) {
            ret = pin_run(u, vpn, last, write);
        }
    }
    return ret;
}

int unetmm_utlb_renew(struct unetmm_utlb_ctx *u, const struct iovec *iov,
                      unsigned n, bool write)
{
    uint64_t first, last;
    unsigned i;
    int ret = 0;

    pthread_mutex_lock(&u->lock);
    u->stats.repeated++;
    unetmm_utlb_read_log(u);
    for (i = 0; !ret && i < n; i++) {
        if (pages_of(&iov[i], &first, &last)) {
            ret = renew_pages(u, first, last, write);
        }
    }
    pthread_mutex_unlock(&u->lock);
    return ret;
}

void unetmm_utlb_sending(struct unetmm_utlb_ctx *u, int n)
{
    atomic_fetch_add(&u->sending, (unsigned)n);
}
