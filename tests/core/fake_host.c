/*
 * unetmm: a host for the core: flat memory, a clock, a wire, no QEMU.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <errno.h>
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>

/*
 * GLib, which is not built with the sanitizer, writes to the memory of GPtrArray and others.
 * Without this function that memory keeps the shadow of its last user.
 */
void __sanitizer_malloc_hook(const volatile void *memory, size_t bytes);
void __sanitizer_malloc_hook(const volatile void *memory, size_t bytes)
{
    __msan_unpoison(memory, bytes);
}
#endif
#endif
#include "bounds.h"
#include "fake_host.h"
#include "reliable/reliable.h"

int unetmm_trace;

static unsigned migrate_every;          /* so many accesses; 0: never */
static unsigned first_accesses;         /* of a new host; by the seed */

static void __attribute__((constructor)) settings_by_environment(void)
{
    unetmm_trace = getenv("UNETMM_TRACE") != NULL;
    migrate_every = atoi(getenv("UNETMM_MIGRATE") ?: "0");
    if (migrate_every && getenv("UNETMM_LONG")) {
        migrate_every = (migrate_every + 31) / 32;
    }
    if (migrate_every) {
        first_accesses = strtoull(getenv("UNETMM_SEED") ?: "1", NULL, 0) %
                         migrate_every;
    }
}

static bool in_ram(const FakeHost *host, uint64_t addr, size_t bytes)
{
    return addr >= FAKE_RAM_BASE && bytes <= host->ram_bytes &&
           addr - FAKE_RAM_BASE <= host->ram_bytes - bytes;
}

static bool refused(const FakeHost *host, uint64_t addr, size_t bytes)
{
    return host->refuse_last && addr <= host->refuse_last &&
           addr + (bytes - 1) >= host->refuse_first;
}

/* May the card do this?  Without the right, the test has failed. */
static bool access_ok(FakeHost *host, uint64_t addr, size_t bytes,
                      uint8_t right, const char *what)
{
    const uint8_t *rights;

    assert_true(bytes > 0);
    if (!in_ram(host, addr, bytes) || refused(host, addr, bytes)) {
        return false;
    }
    if (host->may_access && !host->may_access(host, addr)) {
        return false;
    }
    if (host->unchecked) {
        return true;
    }
    rights = host->rights + (addr - FAKE_RAM_BASE);
    for (size_t i = 0; i < bytes; i++) {
        if ((rights[i] & right) == right) {
            continue;
        }
        if (host->lenient) {
            host->strays++;
            return false;
        }
        fail_msg("stray %s of %zu bytes at 0x%" PRIx64 ", byte %zu", what,
                 bytes, addr, i);
    }
    return true;
}

void fake_check_defined(const void *buf, size_t bytes)
{
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
    __msan_check_mem_is_initialized(buf, bytes);
#endif
#endif
}

static bool host_mem_read(void *opaque, uint64_t addr, void *buf,
                          size_t bytes)
{
    FakeHost *host = opaque;

    if (!access_ok(host, addr, bytes, FAKE_R, "read")) {
        return false;
    }
    host->reads++;
    memcpy(buf, host->ram + (addr - FAKE_RAM_BASE), bytes);
    if (host->on_read) {
        host->on_read(host, addr, bytes);
    }
    return true;
}

static bool host_mem_write(void *opaque, uint64_t addr, const void *buf,
                           size_t bytes)
{
    FakeHost *host = opaque;

    if (!access_ok(host, addr, bytes, FAKE_W, "write")) {
        return false;
    }
    host->writes++;
    fake_check_defined(buf, bytes);
    memcpy(host->ram + (addr - FAKE_RAM_BASE), buf, bytes);
    if (host->on_write) {
        host->on_write(host, addr, bytes);
    }
    return true;
}

static bool host_mem_store32(void *opaque, uint64_t addr, uint32_t value)
{
    FakeHost *host = opaque;

    assert_int_equal(addr % 4, 0);
    if (!access_ok(host, addr, 4, FAKE_W, "store")) {
        return false;
    }
    value = cpu_to_le32(value);
    memcpy(host->ram + (addr - FAKE_RAM_BASE), &value, 4);
    if (host->on_store) {
        host->on_store(host, addr);
    }
    return true;
}

/* A processor's own, as in QEMU: tests/bench measures its cost. */
static bool host_mem_cmpxchg64(void *opaque, uint64_t addr, uint64_t *old,
                               uint64_t value)
{
    FakeHost *host = opaque;
    uint64_t there = cpu_to_le64(*old);
    uint64_t *word;
    bool swapped;

    if (addr % 8) {
        fail_msg("an atomic at 0x%" PRIx64, addr);
    }
    if (!access_ok(host, addr, 8, FAKE_RW, "atomic")) {
        return false;
    }
    if (host->on_atomic) {
        host->on_atomic(host, addr);
    }
    word = (uint64_t *)(host->ram + (addr - FAKE_RAM_BASE));
    swapped = __atomic_compare_exchange_n(word, &there, cpu_to_le64(value),
                                          false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
    *old = le64_to_cpu(there);
    if (swapped) {
        host->writes++;
        if (host->on_write) {
            host->on_write(host, addr, 8);
        }
    }
    return true;
}

static void host_interrupt(void *opaque, unsigned vector)
{
    FakeHost *host = opaque;

    assert_true(vector < UNETMM_NUM_VECTORS);
    host->interrupts[vector]++;
}

static int64_t host_now_ns(void *opaque)
{
    return ((FakeHost *)opaque)->now;
}

static void host_timer_at(void *opaque, int64_t when_ns)
{
    ((FakeHost *)opaque)->timer = when_ns;
}

static void host_run_later(void *opaque)
{
    FakeHost *host = opaque;

    host->later++;
    host->later_total++;
}

static UnetmmSent host_send(void *opaque, const uint8_t *frame, size_t bytes)
{
    FakeHost *host = opaque;
    FakeFrame *copy;

    assert_true(bytes >= UNETMM_ETH_HEADER);
    assert_true(bytes <= UNETMM_MAX_FRAME);
    fake_check_defined(frame, bytes);
    if (host->answer != UNETMM_SENT_REFUSED || host->keep_refused) {
        copy = g_malloc(sizeof(*copy) + bytes);
        copy->bytes = bytes;
        memcpy(copy->data, frame, bytes);
        g_ptr_array_add(host->wire, copy);
    }
    if (host->on_send) {
        host->on_send(host, frame, bytes);
    }
    return host->answer;
}

/*
 * The core's request is kept.  Pieces are the frame's headers (of IPv4 and
 * TCP without options) with parts of its payload, and nothing is summed: that is
 * QEMU's part, and tested there.
 */
static bool host_offload(void *opaque, uint8_t *frame, size_t bytes,
                         uint32_t mss, void (*out)(void *opaque,
                                                   const uint8_t *frame,
                                                   size_t bytes), void *arg)
{
    enum { HEADERS = UNETMM_ETH_HEADER + 20 + 20 };
    FakeHost *host = opaque;
    size_t at;

    host->offloads++;
    host->offload_mss = mss;
    if (host->offload_fails) {
        return false;
    }
    if (!mss) {
        out(arg, frame, bytes);
        return true;
    }
    for (at = HEADERS; at < bytes; at += mss) {
        size_t n = MIN(mss, bytes - at);
        uint8_t piece[HEADERS + UNETMM_ETH_MAX];

        memcpy(piece, frame, HEADERS);
        memcpy(piece + HEADERS, frame + at, n);
        out(arg, piece, HEADERS + n);
    }
    return true;
}

static bool host_checksum_ok(void *opaque, const uint8_t *frame, size_t bytes)
{
    return ((FakeHost *)opaque)->checksums_ok;
}

static void host_may_receive(void *opaque)
{
    FakeHost *host = opaque;

    host->may_receive++;
    if (host->on_may_receive) {
        host->on_may_receive(host);
    }
}

static void host_clear_windows(void *opaque, uint32_t page, uint32_t npages)
{
    FakeHost *host = opaque;

    memset(host->windows + (size_t)page * FAKE_PAGE, 0,
           (size_t)npages * FAKE_PAGE);
}

static void host_warn_self(void *opaque)
{
    ((FakeHost *)opaque)->warned++;
}

static const UnetmmHostOps host_ops = {
    .mem_read = host_mem_read,
    .mem_write = host_mem_write,
    .mem_store32 = host_mem_store32,
    .mem_cmpxchg64 = host_mem_cmpxchg64,
    .interrupt = host_interrupt,
    .now_ns = host_now_ns,
    .timer_at = host_timer_at,
    .run_later = host_run_later,
    .send = host_send,
    .offload = host_offload,
    .checksum_ok = host_checksum_ok,
    .may_receive = host_may_receive,
    .clear_windows = host_clear_windows,
    .warn_self = host_warn_self,
};

void fake_params(UnetmmParams *p)
{
    *p = (UnetmmParams) {
        .mac = { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x01 },
        .endpoints = 8,
        .spaces = 8,
        .channels = 16,
        .tlb_sets = 64,
        .tlb_ways = 1,
        .tlb_victims = 16,
        .cache_entries = 64,
        .cache_ways = 4,
        .utlb_fetch = 8,
        .pretranslate = 4,
        .fault_batch = 16,
        .max_faults = 64,
        .user_mtu = 9000,
        .local_queue = 64,
        .reliable = 16,
        .reliable_keep = 128,
        .window_pages = FAKE_WINDOWS,
        .window_queue = 64,
        .proxy_pages = FAKE_WINDOWS,
        .sysbuf_slots = FAKE_SLOTS,
        .flows = 16,
        .backup_bits = 64, .congestion_window = 16,
        .congestion_trip_ns = 100000,
        .regions = 16,
        .imports = 8,
        .budget_descriptors = 1024,
        .budget_bytes = 1 << 24,
    };
}

/* From here on a new host and a new host made again are the same. */
static void host_start(FakeHost *host, const UnetmmParams *params)
{
    UnetmmParams p;

    if (!params) {
        fake_params(&p);
        params = &p;
    }
    assert_null(unetmm_params_check(params));
    host->next = FAKE_RAM_BASE + FAKE_PAGE;
    host->next_page = FAKE_RAM_BASE + host->ram_bytes - FAKE_PAGE;
    host->now = 1000;
    host->timer = INT64_MAX;
    unetmm_core_init(&host->core, params, &host_ops, host);
    unetmm_core_set_link(&host->core, true);
    fake_set_reg(host, UNETMM_REG_EVENTS, UNETMM_EVENT_ALL);
    host->made = true;
}

void fake_host_init_large(FakeHost *host, const UnetmmParams *params,
                          size_t bytes)
{
    memset(host, 0, sizeof(*host));
    host->accesses = first_accesses;
    host->ram_bytes = bytes;
    host->ram = g_malloc0(bytes);
    host->rights = g_malloc0(bytes);
    host->wire = g_ptr_array_new_with_free_func(g_free);
    host_start(host, params);
}

void fake_host_init(FakeHost *host, const UnetmmParams *params)
{
    fake_host_init_large(host, params, FAKE_RAM_BYTES);
}

void fake_host_again(FakeHost *host, const UnetmmParams *params)
{
    FakeHost old = *host;
    size_t low = host->next - FAKE_RAM_BASE + FAKE_PAGE;
    size_t high = host->next_page - FAKE_RAM_BASE;

    unetmm_core_free(&host->core);
    memset(host, 0, sizeof(*host));
    host->ram_bytes = old.ram_bytes;
    host->ram = old.ram;
    host->rights = old.rights;
    host->before = old.before;
    host->wire = old.wire;
    host->accesses = old.accesses;
    host->migrations = old.migrations;
    fake_wire_clear(host);
    memset(host->ram, 0, low);
    memset(host->rights, 0, low);
    memset(host->ram + high, 0, host->ram_bytes - high);
    memset(host->rights + high, 0, host->ram_bytes - high);
    host_start(host, params);
}

void fake_host_free(FakeHost *host)
{
    if (!host->made) {
        return;
    }
    host->made = false;
    unetmm_core_free(&host->core);
    g_ptr_array_unref(host->wire);
    g_free(host->ram);
    g_free(host->rights);
    g_free(host->before);
}

uint64_t fake_alloc(FakeHost *host, size_t bytes, size_t align,
                    uint8_t rights)
{
    uint64_t at = (host->next + FAKE_GUARD + align - 1) / align * align;

    assert_true(at + bytes + FAKE_GUARD < host->next_page);
    host->next = at + bytes + FAKE_GUARD;
    fake_rights(host, at, bytes, rights);
    return at;
}

uint64_t fake_page(FakeHost *host)
{
    uint64_t at = host->next_page;

    /* Every other page stays without rights: a guard on both sides. */
    assert_true(at > host->next + 2 * FAKE_PAGE);
    host->next_page -= 2 * FAKE_PAGE;
    return at;
}

void fake_rights(FakeHost *host, uint64_t addr, size_t bytes, uint8_t rights)
{
    assert_true(in_ram(host, addr, bytes));
    if (host->unchecked) {
        return;
    }
    memset(host->rights + (addr - FAKE_RAM_BASE), rights, bytes);
}

void *fake_ptr(FakeHost *host, uint64_t addr, size_t bytes)
{
    assert_true(in_ram(host, addr, bytes));
    return host->ram + (addr - FAKE_RAM_BASE);
}

void fake_write(FakeHost *host, uint64_t addr, const void *buf, size_t bytes)
{
    memcpy(fake_ptr(host, addr, bytes), buf, bytes);
}

void fake_read(FakeHost *host, uint64_t addr, void *buf, size_t bytes)
{
    memcpy(buf, fake_ptr(host, addr, bytes), bytes);
}

void fake_write32(FakeHost *host, uint64_t addr, uint32_t v)
{
    v = cpu_to_le32(v);
    fake_write(host, addr, &v, 4);
}

uint32_t fake_read32(FakeHost *host, uint64_t addr)
{
    uint32_t v;

    fake_read(host, addr, &v, 4);
    return le32_to_cpu(v);
}

void fake_snapshot(FakeHost *host)
{
    if (!host->before) {
        host->before = g_malloc(host->ram_bytes);
    }
    memcpy(host->before, host->ram, host->ram_bytes);
}

void fake_expect_only(FakeHost *host, uint64_t addr, size_t bytes)
{
    size_t from = addr - FAKE_RAM_BASE;
    size_t to = from + bytes;

    assert_memory_equal(host->before, host->ram, from);
    assert_memory_equal(host->before + to, host->ram + to,
                        host->ram_bytes - to);
}

static void check_misses(const UnetmmCore *core)
{
    uint32_t n[UNETMM_MISS_CHANGING + 1] = { 0 }, queued = 0, late = 0;
    g_autofree uint16_t *followers = g_new0(uint16_t, unetmm_misses(core));

    for (uint32_t i = 0; i < unetmm_misses(core); i++) {
        const UnetmmMiss *miss = &core->miss->all[i];
        bool joined = miss->state == UNETMM_MISS_JOINED;

        n[miss->state]++;
        followers[miss->leader] += joined;
        assert_int_equal(core->miss->joined_bits[i / 64] >> i % 64 & 1, joined);
        queued += core->miss->wanted.has[i];
        late += miss->late;
        assert_true(core->miss->wanted.has[i] || miss->state != UNETMM_MISS_WANTED);
    }
    for (uint32_t i = 0; i < unetmm_misses(core); i++) {
        assert_int_equal(core->miss->all[i].followers, followers[i]);
    }
    /* A miss that is taken back stays in the queue until its turn. */
    assert_int_equal(core->miss->wanted.used, queued);
    assert_int_equal(core->miss->asked, n[UNETMM_MISS_ASKED]);
    assert_int_equal(core->miss->in_flight_used, n[UNETMM_MISS_ASKED] +
                     n[UNETMM_MISS_DEFERRED]);
    assert_int_equal(core->miss->joined, n[UNETMM_MISS_JOINED]);
    assert_int_equal(core->miss->refused, n[UNETMM_MISS_REFUSED]);
    assert_int_equal(core->miss->changing, n[UNETMM_MISS_CHANGING]);
    assert_int_equal(core->miss->late, late);
}

/* A place without a channel: its misses have no owner. */
static void check_no_rel(const UnetmmCore *core, uint32_t number)
{
    const UnetmmMiss *misses = &core->miss->all[core->params.endpoints *
                                             UNETMM_EP_MISSES +
                                             number * UNETMM_REL_MISSES];

    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        assert_null(misses[kind].owner);
        assert_null(misses[kind].of);
    }
    assert_null(core->store->waiting[number]);
}

/* A channel that is over sends nothing, and waits for no packet. */
static void check_over(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = rel ? &rel->tx : NULL;

    if (!rel || rel->state == UNETMM_REL_OPEN) {
        return;
    }
    assert_int_equal(rel->msgs.next, rel->msgs.end);
    assert_false(tx->lost || tx->pending || tx->unplaced || tx->voids);
    assert_false(tx->paused || tx->again || tx->rewinding);
    assert_int_equal(tx->deadline_ns, INT64_MAX);
    assert_false(rel->rx.have || rel->answers.owed || rel->rx.refuse);
    assert_int_equal(rel->rx.refused, UNETMM_REL_WANT_NOTHING);
}

/* Its list: first those that are awake.  The number of all. */
static uint32_t check_awake(const UnetmmEp *ep)
{
    const UnetmmRel *before = NULL, *awake = NULL;
    uint32_t n = 0;

    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        assert_ptr_equal(rel->prev, before);
        assert_int_equal(rel->ep, ep->id);
        assert_true(rel->awake || ep->error || unetmm_rel_quiet(rel));
        assert_true(!rel->awake || awake == before);
        awake = rel->awake ? rel : awake;
        before = rel;
        n++;
    }
    assert_ptr_equal(ep->rel_awake, awake);
    return n;
}

/* Packets that the channel keeps. */
static uint32_t check_kept(const UnetmmRel *rel)
{
    uint32_t kept = 0;

    for (unsigned k = 0; k < UNETMM_REL_WINDOW; k++) {
        kept += rel->kept[k].frame != NULL;
    }
    return kept;
}

/* Packets of stores that wait; all but the first have a shared place. */
static uint32_t check_updates(const UnetmmRel *rel, uint32_t *shared)
{
    uint32_t n = 0;

    for (const UnetmmUpdate *u = rel->stores.first; u; u = u->next) {
        n++;
    }
    shared[rel->ep] += n ? n - 1 : 0;
    return n;
}

static void check_shared(const UnetmmCore *core, const uint32_t *shared)
{
    uint32_t all = 0;

    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        assert_int_equal(core->eps[i].updates_shared, shared[i]);
        all += shared[i];
    }
    assert_int_equal(core->store->shared, all);
}

/* Of endpoints, channels and their resources. */
static void check_endpoints(const UnetmmCore *core)
{
    uint32_t rels = 0, kept = 0, acks = 0, updates = 0, listed = 0;
    g_autofree uint32_t *shared = g_new0(uint32_t, core->params.endpoints);

    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        const UnetmmEp *ep = &core->eps[i];
        uint32_t owed = 0;

        listed += ep->live ? check_awake(ep) : 0;
        for (uint32_t c = 0; ep->live && c < core->params.channels; c++) {
            owed += ep->channels[c].end_owed != UNETMM_ST_OK;
        }
        assert_int_equal(ep->live ? ep->ends_owed : 0, owed);
    }
    for (uint32_t i = 0; i < core->params.reliable; i++) {
        const UnetmmRel *rel = core->rel->all[i];

        rels += rel != NULL;
        check_over(rel);
        if (!rel) {
            check_no_rel(core, i);
        }
        acks += core->rel->acks[i / 64] >> i % 64 & 1;
        assert_true(!rel || core->rel->timed[i / 64] >> i % 64 & 1 ||
                    (rel->tx.deadline_ns == INT64_MAX &&
                     rel->along.question != UNETMM_REL_WAITS));
        kept += rel ? check_kept(rel) : 0;
        updates += rel ? check_updates(rel, shared) : 0;
    }
    assert_int_equal(core->rel->used, rels);
    assert_int_equal(listed, rels);
    assert_int_equal(core->rel->kept, kept);
    assert_int_equal(core->rel->acks_owed, acks);
    assert_int_equal(core->store->updates, updates);
    check_shared(core, shared);
}

/* Of transfers that wait for a page to land. */
static void check_landings(const UnetmmCore *core)
{
    uint32_t closing = 0, clearing = 0, moving = 0;

    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        closing += core->eps[i].live && core->eps[i].closing;
    }
    for (uint32_t i = 0; i < core->params.regions; i++) {
        const UnetmmRegion *region = &core->remote->regions[i];

        clearing += region->live && region->clearing;
        for (unsigned k = 0; region->live && region->moved &&
             k < UNETMM_REDIRECTS; k++) {
            moving += region->moved->moves[k].waits != 0;
        }
    }
    assert_int_equal(core->ring->late, closing + clearing + moving);
    assert_int_equal(core->remote->clearing, clearing);
    assert_int_equal(core->remote->moves_waiting, moving);
}

static void check_spaces(const UnetmmCore *core)
{
    for (uint32_t s = 0; s < core->params.spaces; s++) {
        uint32_t endpoints = 0, regions = 0;

        if (!core->spaces[s].live) {
            continue;
        }
        for (uint32_t i = 0; i < core->params.endpoints; i++) {
            endpoints += core->eps[i].live && core->eps[i].space == s;
        }
        for (uint32_t i = 0; i < core->params.regions; i++) {
            regions += core->remote->regions[i].live && core->remote->regions[i].space == s;
        }
        assert_int_equal(core->spaces[s].endpoints, endpoints);
        assert_int_equal(core->spaces[s].regions, regions);
    }
}

/* A number that is marked as being in a list is in the list once. */
static void check_list(const UnetmmList *list)
{
    g_autofree uint8_t *seen = g_new0(uint8_t, list->size);

    for (uint32_t i = 0; i < list->used; i++) {
        seen[list->numbers[(list->first + i) % list->size]]++;
    }
    for (uint32_t i = 0; i < list->size; i++) {
        assert_int_equal(seen[i], list->has[i]);
    }
}

static void check_lists(const UnetmmCore *core)
{
    check_list(&core->lists->ready);
    check_list(&core->lists->tell);
    check_list(&core->miss->wanted);
    check_list(&core->remote->due);
    check_list(&core->sysbuf->full);
}

/* Of the system buffer; slots of a channel that is gone are promised, too. */
static void check_sysbuf(const UnetmmCore *core)
{
    const UnetmmSysbuf *sb = core->sysbuf;
    uint32_t nfree = 0, full = 0, promised = 0;

    for (uint32_t i = 0; i < sb->n; i++) {
        nfree += sb->slots[i].state == UNETMM_SLOT_FREE;
        full += sb->slots[i].state == UNETMM_SLOT_FULL;
        promised += sb->slots[i].state != UNETMM_SLOT_FREE &&
                    !sb->slots[i].share;
        assert_true(sb->slots[i].state != UNETMM_SLOT_FREE ||
                    !sb->slots[i].share);
    }
    for (uint32_t i = 0; i < core->params.reliable; i++) {
        promised += core->rel->all[i] ? core->rel->all[i]->share.credits : 0;
    }
    assert_int_equal(sb->nfree, nfree);
    assert_int_equal(sb->full.used, full);
    assert_int_equal(sb->promised, promised);
}

void fake_check_counts(const UnetmmCore *core)
{
    uint32_t flows = 0;

    check_lists(core);
    check_misses(core);
    check_endpoints(core);
    check_landings(core);
    check_spaces(core);
    check_sysbuf(core);
    for (uint32_t i = 0; i < core->params.flows; i++) {
        flows = core->flow->all[i].live ? i + 1 : flows;
    }
    assert_int_equal(core->flow->end, flows);
}

/* ---- The names of saved values ---- */

#define NAMES_EVERY 16          /* migrations: each name is text of its own */
#define BOUNDS_EVERY 12        /* as above; the explorers migrate often */

typedef struct Names {
    GHashTable *paths;
    size_t at;                  /* the next value's first byte */
    uint64_t sum;               /* of all paths and numbers, in order */
} Names;

/* The values follow each other without a gap, each with a path of its own. */
static void names_value(void *opaque, const UnetmmValue *value)
{
    Names *names = opaque;

    assert_int_equal(value->at, names->at);
    assert_true(strlen(value->path) < UNETMM_STREAM_PATH - 1);
    if (!g_hash_table_add(names->paths, g_strdup(value->path))) {
        fail_msg("two values are %s", value->path);
    }
    names->at += value->bytes;
    names->sum = names->sum * 31 + g_str_hash(value->path);
    names->sum = names->sum * 31 + value->number;
}

/* Shows the values of a saved card, and of a restored one. */
static void check_names(UnetmmCore *core, const GByteArray *saved)
{
    UnetmmObserver observer = { .value = names_value };
    g_autofree char *why = NULL;
    GByteArray *again;
    Names names[2];

    for (unsigned i = 0; i < 2; i++) {
        names[i] = (Names) {
            .paths = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                           NULL),
        };
    }
    observer.opaque = &names[0];
    unetmm_core_observe(core, &observer);
    again = unetmm_core_save(core);
    observer.opaque = &names[1];
    assert_true(unetmm_core_load(core, again->data, again->len, &why));
    unetmm_core_observe(core, NULL);
    assert_int_equal(names[0].at, saved->len);
    assert_int_equal(names[1].at, saved->len);
    assert_true(names[0].sum == names[1].sum);
    g_hash_table_unref(names[0].paths);
    g_hash_table_unref(names[1].paths);
    g_byte_array_unref(again);
}

/* ---- Reset ---- */

typedef struct Differs {
    const GByteArray *was;
    const uint8_t *now;
    char path[UNETMM_STREAM_PATH];
} Differs;

/* Numbers that tell old from new, and those of an invalidation that is over. */
static bool outlives_reset(const char *path)
{
    return g_str_has_suffix(path, ".generation") ||
           g_str_has_prefix(path, "registers.inv_going_");
}

static void differs_value(void *opaque, const UnetmmValue *value)
{
    Differs *d = opaque;

    if (!d->path[0] && !outlives_reset(value->path) && (value->at + value->bytes > d->was->len ||
        memcmp(d->was->data + value->at, d->now + value->at, value->bytes))) {
        g_strlcpy(d->path, value->path, sizeof(d->path));
    }
}

static void check_same(UnetmmCore *core, const GByteArray *was,
                       const GByteArray *now)
{
    Differs d = { .was = was, .now = now->data };
    UnetmmObserver observer = { .value = differs_value, .opaque = &d };

    unetmm_core_observe(core, &observer);
    g_byte_array_unref(unetmm_core_save(core));
    unetmm_core_observe(core, NULL);
    if (d.path[0]) {
        fail_msg("after a reset %s is not as in a new card", d.path);
    }
    assert_int_equal(was->len, now->len);
}

void fake_migrate(FakeHost *host)
{
    UnetmmCore *core = &host->core;
    UnetmmParams params = core->params;
    const UnetmmHostOps *ops = core->ops;
    UnetmmPort port = *core->port;
    bool paused = core->engine.paused;
    int64_t timer_ns = core->engine.timer_ns;
    bool was_closed = core->engine.was_closed;
    UnetmmBudget budget = core->budget;
    uint32_t n = params.endpoints;
    bool heads_behind = core->heads->behind;
    g_autofree UnetmmEp *eps = g_memdup2(core->eps, n * sizeof(*eps));
    g_autofree UnetmmHead *heads =
        g_memdup2(core->heads->all, n * UNETMM_MAX_HEADS * sizeof(*heads));
    unsigned later = host->later, later_total = host->later_total;
    unsigned may_receive = host->may_receive;
    g_autofree char *why = NULL;
    GByteArray *saved = unetmm_core_save(core), *again;

    assert_true(saved->len <= unetmm_core_save_limit(core));
    fake_check_defined(saved->data, saved->len);
    fake_check_counts(core);
    unetmm_core_free(core);
    unetmm_core_init(core, &params, ops, host);
    core->port->link = port.link;
    core->engine.paused = paused;
    if (host->migrations % BOUNDS_EVERY == 0) {
        host->bounds_checked++;
        bounds_check(core, saved);
        host->may_receive = may_receive;
    }
    if (!unetmm_core_load(core, saved->data, saved->len, &why)) {
        fail_msg("not restored: %s", why);
    }
    fake_check_counts(core);
    again = unetmm_core_save(core);
    assert_int_equal(saved->len, again->len);
    assert_memory_equal(saved->data, again->data, saved->len);
    if (host->migrations++ % NAMES_EVERY == 0) {
        check_names(core, saved);
    }
    g_byte_array_unref(saved);
    g_byte_array_unref(again);
    /* Debts of the host to the card, and of the card, go on, too. */
    core->engine.timer_ns = timer_ns;
    core->engine.was_closed = was_closed;
    core->budget = budget;
    /* A card that is migrated at each step would never see a buffer's end. */
    core->heads->behind = heads_behind;
    for (uint32_t i = 0; i < n; i++) {
        core->eps[i].heads_behind = eps[i].heads_behind;
    }
    for (uint32_t i = 0; i < n * UNETMM_MAX_HEADS; i++) {
        core->heads->all[i].checked = heads[i].checked;
    }
    core->port->warned_self = port.warned_self;
    host->later = later;
    host->later_total = later_total;
}

/* Is a new budget all that the card has asked for? */
static bool only_renewal(const UnetmmCore *core)
{
    return !core->lists->ready.used && !core->port->fifo_used;
}

void fake_check_reset(FakeHost *host)
{
    UnetmmCore *core = &host->core, fresh;
    GByteArray *was, *now;

    core->engine.paused = false;
    unetmm_core_reset(core);
    fake_check_counts(core);
    unetmm_core_init(&fresh, &core->params, core->ops, host);
    fresh.knobs = core->knobs;
    fresh.random = core->random;
    fresh.port->link = core->port->link;
    fresh.port->busy = core->port->busy;
    memcpy(fresh.counters, core->counters, sizeof(fresh.counters));
    was = unetmm_core_save(&fresh);
    now = unetmm_core_save(core);
    check_same(core, was, now);
    g_byte_array_unref(was);
    g_byte_array_unref(now);
    unetmm_core_free(&fresh);
}

/* The process has posted something, and has perhaps not rung its bell yet. */
static bool bell_to_come(const UnetmmEp *ep)
{
    return ep->sq_prod != ep->sq_cons ||
           unetmm_heads_wanted((UnetmmEp *)ep);
}

void fake_check_work(FakeHost *host)
{
    UnetmmCore *core = &host->core;

    /* A damaged stream may leave only its own endpoint waiting. */
    for (uint32_t i = 0; i < core->params.endpoints && !host->lenient; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (ep->live && !ep->error && !core->lists->ready.has[i] && !bell_to_come(ep) &&
            core->tables->ep->has_work(core, ep)) {
            fail_msg("endpoint %u has work and gets no turn", i);
        }
    }
}

void fake_may_migrate(FakeHost *host)
{
    if (host->later && host->made && !host->stuck && !host->core.engine.depth &&
        only_renewal(&host->core)) {
        host->later = 0;
        unetmm_core_run(&host->core);
    }
    if (host->made && !host->core.engine.depth && !host->unchecked && !host->spoilt) {
        fake_check_work(host);
    }
    /* A frame with the net layer would count as lost. */
    if (migrate_every && host->made && host->core.engine.depth == 0 &&
        !host->core.port->busy && ++host->accesses >= migrate_every) {
        host->accesses = 0;
        fake_migrate(host);
    }
}

uint32_t fake_reg(FakeHost *host, uint32_t offset)
{
    return unetmm_core_read(&host->core, offset, 4);
}

void fake_set_reg(FakeHost *host, uint32_t offset, uint32_t value)
{
    fake_may_migrate(host);
    unetmm_core_write(&host->core, offset, value, 4);
}

uint64_t fake_counter(FakeHost *host, enum unetmm_counter counter)
{
    uint64_t low = fake_reg(host, UNETMM_REG_COUNTER(counter));

    return low | (uint64_t)fake_reg(host, UNETMM_REG_COUNTER(counter) + 4)
           << 32;
}

uint64_t fake_ep_counter(FakeHost *host, uint32_t ep,
                         enum unetmm_counter counter)
{
    uint64_t low;

    fake_set_reg(host, UNETMM_REG_EP_SEL, ep);
    low = fake_reg(host, UNETMM_REG_EP_COUNTER(counter));
    return low | (uint64_t)fake_reg(host, UNETMM_REG_EP_COUNTER(counter) + 4)
           << 32;
}

unsigned fake_advance(FakeHost *host, int64_t ns)
{
    int64_t end = host->now + ns;
    unsigned runs = 0;

    while (host->timer <= end) {
        host->now = MAX(host->now, host->timer);
        host->timer = INT64_MAX;
        host->timer_runs++;
        fake_may_migrate(host);
        unetmm_core_timer(&host->core);
        /* A timer that is always due would hang the real host. */
        assert_true(++runs < 1000000);
    }
    host->now = end;
    return runs;
}

unsigned fake_run_later(FakeHost *host)
{
    unsigned runs = 0;

    while (host->later) {
        host->later--;
        fake_may_migrate(host);
        unetmm_core_run(&host->core);
        assert_true(++runs < 1000000);
    }
    return runs;
}

FakeFrame *fake_wire_at(FakeHost *host, unsigned n)
{
    assert_true(n < host->wire->len);
    return host->wire->pdata[n];
}

void fake_wire_clear(FakeHost *host)
{
    g_ptr_array_set_size(host->wire, 0);
}

/* As a person would type it, with all that the environment has to say. */
static void print_repeat(uint64_t seed)
{
    const char *const words[] = { "UNETMM_MIGRATE", "UNETMM_LONG", "UNETMM_TEST" };
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        if (getenv(words[i])) {
            g_string_append_printf(text, "%s=%s ", words[i],
                                   getenv(words[i]));
        }
    }
    print_message("# repeat: %sUNETMM_SEED=%" PRIu64 " %s\n", text->str, seed,
                  program_invocation_name);
}

uint64_t fake_seed(void)
{
    static uint64_t seed;

    if (!seed) {
        const char *given = getenv("UNETMM_SEED") ?: "1";
        char *end;

        seed = strtoull(given, &end, 0);
        if (!seed || *end) {
            print_error("UNETMM_SEED=%s: use a number from 1 on\n", given);
            exit(2);
        }
        print_repeat(seed);
    }
    return seed;
}

uint32_t fake_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

uint8_t fake_pattern(uint32_t n, uint64_t i)
{
    uint64_t v = (i + 1) * 0x9e3779b97f4a7c15ull + n * 0xc2b2ae3d27d4eb4full;

    return v >> 56 ^ v >> 24;
}
