/*
 * unetmm: a driver and its processes for the core's tests
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fake_driver.h"

const uint8_t fake_peer_mac[6] = { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x02 };

/* ---- The driver's rings ---- */

void fake_driver_init(FakeDriver *d, FakeHost *host)
{
    static const uint32_t bytes[UNETMM_NUM_RINGS] = {
        sizeof(struct unetmm_cmd), sizeof(struct unetmm_cmd_done),
        sizeof(struct unetmm_fault), sizeof(struct unetmm_notify),
        sizeof(struct unetmm_backup),
    };

    memset(d, 0, sizeof(*d));
    d->host = host;
    d->watch = true;
    d->tag = 0x1000;
    d->waiting = g_array_new(false, false, sizeof(struct unetmm_fault));
    d->ahead = g_array_new(false, false, sizeof(struct unetmm_fault));
    d->slots = g_array_new(false, false, sizeof(uint64_t));
    d->full = g_array_new(false, false, sizeof(uint32_t));
    d->buffers = g_array_new(false, false, sizeof(FakeBuffer));
    d->backups = g_array_new(false, false, sizeof(struct unetmm_fault));
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        d->ring[i].entry_bytes = bytes[i];
        d->ring[i].log2 = i == UNETMM_RING_NOTIFY ? 5 : 6;
    }
}

static FakeVpage *page_of_record(FakeDriver *d, const struct unetmm_fault *f)
{
    assert_true(f->space < FAKE_SPACES && d->spaces[f->space]);
    return fake_vpage(d->spaces[f->space], f->vaddr);
}

/* Pinned: the card may use the page, as far as the process may. */
static void page_pin(FakeHost *host, FakeVpage *page, unsigned pins)
{
    page->pins = pins;
    fake_rights(host, page->dma, FAKE_PAGE, pins ? page->rights : 0);
}

/* The buffer of a record is the driver's from now on. */
static void take_buffer(FakeDriver *d, const struct unetmm_fault *f)
{
    const FakeBuffer *b;

    assert_true(f->fault_id < d->buffers->len);
    b = &g_array_index(d->buffers, FakeBuffer, f->fault_id);
    assert_true(f->npages <= b->len);
    fake_rights(d->host, b->addr, b->len, 0);
}

/* The card has just written the phase of a fault record. */
static void driver_on_store(FakeHost *host, uint64_t addr)
{
    FakeDriver *d = host->opaque;
    FakeRing *r = &d->ring[UNETMM_RING_FAULT];
    struct unetmm_fault f;
    FakeVpage *page;

    if (!d->watch || addr < r->base ||
        addr >= r->base + ((uint64_t)r->entry_bytes << r->log2)) {
        return;
    }
    fake_read(host, addr - offsetof(struct unetmm_fault, phase), &f,
              sizeof(f));
    unetmm_le_fault(&f);
    if (f.type == UNETMM_FAULT_BACKUP) {
        take_buffer(d, &f);
    }
    if (f.type != UNETMM_FAULT_EVICT) {
        return;
    }
    page = page_of_record(d, &f);
    assert_non_null(page);
    assert_true(page->pins > 0);
    assert_int_equal(f.pte & UNETMM_PTE_ADDR, page->dma);
    page->evicted++;
    page->dirty |= f.flags & UNETMM_FAULT_F_DIRTY;
    page_pin(host, page, page->pins - 1);
}

void fake_driver_start(FakeDriver *d)
{
    FakeHost *host = d->host;

    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        FakeRing *r = &d->ring[i];
        uint32_t reg = UNETMM_REG_RING(i);

        r->base = fake_alloc(host, (size_t)r->entry_bytes << r->log2, 64,
                             UNETMM_RING_TO_CARD(i) ? FAKE_R : FAKE_W);
        fake_set_reg(host, reg + UNETMM_RING_BASE_LO, r->base);
        fake_set_reg(host, reg + UNETMM_RING_BASE_HI, r->base >> 32);
        fake_set_reg(host, reg + UNETMM_RING_LOG2, r->log2);
        fake_set_reg(host, reg + UNETMM_RING_ENABLE, 1);
        assert_int_equal(fake_reg(host, reg + UNETMM_RING_ENABLE), 1);
    }
    d->list = fake_alloc(host, FAKE_PAGE, FAKE_PAGE, FAKE_R);
    host->opaque = d;
    host->on_store = driver_on_store;
    fake_set_reg(host, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
}

void fake_driver_free(FakeDriver *d)
{
    for (unsigned i = 0; i < FAKE_SPACES; i++) {
        if (d->spaces[i]) {
            fake_space_gone(d->spaces[i]);
        }
    }
    g_array_unref(d->waiting);
    g_array_unref(d->ahead);
    g_array_unref(d->slots);
    g_array_unref(d->full);
    g_array_unref(d->buffers);
    g_array_unref(d->backups);
}

uint16_t fake_issue(FakeDriver *d, struct unetmm_cmd cmd)
{
    FakeRing *r = &d->ring[UNETMM_RING_CMD];
    uint32_t slot = r->index & ((1u << r->log2) - 1);
    uint16_t tag = d->tag++;

    d->asked[tag] = cmd.opcode + 1;
    cmd.tag = tag;
    unetmm_le_cmd(&cmd);
    fake_check_defined(&cmd, sizeof(cmd));
    fake_write(d->host, r->base + slot * sizeof(cmd), &cmd, sizeof(cmd));
    r->index++;
    fake_set_reg(d->host, UNETMM_REG_RING(UNETMM_RING_CMD) + UNETMM_RING_PROD,
                 r->index);
    return tag;
}

bool fake_next(FakeDriver *d, unsigned ring, void *entry)
{
    FakeRing *r = &d->ring[ring];
    uint32_t slot = r->index & ((1u << r->log2) - 1);
    uint64_t at = r->base + (uint64_t)slot * r->entry_bytes;
    uint32_t prod = fake_reg(d->host, UNETMM_REG_RING(ring) +
                             UNETMM_RING_PROD);

    if ((fake_read32(d->host, at + r->entry_bytes - 4) & UNETMM_PHASE) !=
        UNETMM_PHASE_OF(r->index, r->log2)) {
        assert_int_equal(prod, r->index);
        return false;
    }
    assert_int_not_equal(prod, r->index);
    fake_read(d->host, at, entry, r->entry_bytes);
    r->index++;
    return true;
}

void fake_taken(FakeDriver *d, unsigned ring)
{
    fake_set_reg(d->host, UNETMM_REG_RING(ring) + UNETMM_RING_CONS,
                 d->ring[ring].index);
}

bool fake_done(FakeDriver *d, struct unetmm_cmd_done *done)
{
    if (!fake_next(d, UNETMM_RING_CMDC, done)) {
        return false;
    }
    unetmm_le_done(done);
    fake_taken(d, UNETMM_RING_CMDC);
    /* Each command is answered once, by its own tag. */
    assert_int_equal(d->asked[done->tag], done->opcode + 1);
    d->asked[done->tag] = 0;
    return true;
}

uint8_t fake_command(FakeDriver *d, struct unetmm_cmd cmd, uint32_t *result)
{
    uint16_t tag = fake_issue(d, cmd);
    struct unetmm_cmd_done done;

    assert_true(fake_done(d, &done));
    assert_int_equal(done.tag, tag);
    assert_int_equal(done.opcode, cmd.opcode);
    if (result) {
        *result = done.result;
    }
    return done.status;
}

/* Of one miss. */
static uint32_t fake_most_pages(const FakeSpace *s)
{
    return s->source == UNETMM_SOURCE_ODP ? UNETMM_MISS_MAX_PAGES :
           UNETMM_REPLY_MAX_PAGES;
}

static void check_ahead(FakeDriver *d, const struct unetmm_fault *f)
{
    assert_int_equal(d->spaces[f->space]->source, UNETMM_SOURCE_ODP);
    assert_int_equal(f->vaddr % FAKE_PAGE, 0);
    assert_in_range(f->npages, 1, UNETMM_MISS_MAX_PAGES);
    assert_int_equal(f->found_ns, 0);
}

bool fake_fault(FakeDriver *d, struct unetmm_fault *f)
{
    FakeVpage *page;

    if (!fake_next(d, UNETMM_RING_FAULT, f)) {
        return false;
    }
    unetmm_le_fault(f);
    fake_taken(d, UNETMM_RING_FAULT);
    if (f->type == UNETMM_FAULT_EVICT) {
        d->evictions++;
        return true;
    }
    if (f->type == UNETMM_FAULT_SLOT) {
        g_array_append_val(d->full, f->fault_id);
        return fake_fault(d, f);
    }
    if (f->type == UNETMM_FAULT_BACKUP) {
        g_array_append_val(d->backups, *f);
        return fake_fault(d, f);
    }
    if (f->type == UNETMM_FAULT_AHEAD) {
        uint32_t id = f->fault_id;

        check_ahead(d, f);
        g_array_append_val(d->ahead, *f);
        /* Others of its miss, and the miss, are right behind it. */
        assert_true(fake_fault(d, f));
        assert_int_equal(f->fault_id, id);
        return true;
    }
    assert_int_equal(f->type, UNETMM_FAULT_MISS);
    assert_int_equal(f->vaddr % FAKE_PAGE, 0);
    assert_true(f->found_ns <= f->time_ns);
    page = page_of_record(d, f);
    assert_in_range(f->npages, 1, fake_most_pages(d->spaces[f->space]));
    d->misses++;
    if (page) {
        page->asked++;
    }
    return true;
}

bool fake_notification(FakeDriver *d, struct unetmm_notify *n)
{
    if (!fake_next(d, UNETMM_RING_NOTIFY, n)) {
        return false;
    }
    unetmm_le_notify(n);
    fake_taken(d, UNETMM_RING_NOTIFY);
    return true;
}

/* ---- Answers ---- */

static uint8_t reply(FakeDriver *d, uint16_t space,
                     struct unetmm_cmd_reply r, uint32_t *taken)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = space, .reply = r,
    };

    return fake_command(d, cmd, taken);
}

uint8_t fake_reply(FakeDriver *d, const struct unetmm_fault *f, uint8_t status,
                   uint8_t error)
{
    struct unetmm_cmd_reply r = {
        .fault_id = f->fault_id, .status = status, .error = error,
        .vaddr = f->vaddr,
    };

    return reply(d, f->space, r, NULL);
}

uint64_t fake_pte(const FakeVpage *page)
{
    return page->dma | UNETMM_PTE_VALID |
           (page->rights & FAKE_R ? UNETMM_PTE_READ : 0) |
           (page->rights & FAKE_W ? UNETMM_PTE_WRITE : 0);
}

/* The table gets the resident pages; the reply only says so. */
static uint8_t give_entries(FakeSpace *s, uint32_t fault_id, uint64_t vaddr,
                           uint32_t npages, uint32_t *taken)
{
    struct unetmm_cmd_reply r = {
        .fault_id = fault_id, .status = UNETMM_REPLY_RESOLVED,
        .vaddr = vaddr,
    };

    for (uint32_t i = 0; i < npages; i++) {
        uint64_t at = vaddr + (uint64_t)i * FAKE_PAGE;
        FakeVpage *page = fake_vpage(s, at);

        assert_non_null(page);
        if (!(fake_table_get(s, at) & UNETMM_PTE_LOCKS)) {
            fake_table_set(s, at, fake_pte(page));
        }
        page_pin(s->driver->host, page, 1);
    }
    if (taken) {
        *taken = npages;
    }
    return reply(s->driver, s->id, r, NULL);
}

static uint8_t give(FakeSpace *s, uint32_t fault_id, uint64_t vaddr,
                    uint32_t npages, uint32_t *taken)
{
    FakeDriver *d = s->driver;
    struct unetmm_cmd_reply r = {
        .fault_id = fault_id, .status = UNETMM_REPLY_RESOLVED,
        .npages = npages, .vaddr = vaddr, .list = d->list,
        .tag = (uint32_t)(vaddr >> 12) ^ 0xabcd,
    };
    uint8_t status;
    uint32_t n = 0;

    if (s->source == UNETMM_SOURCE_SHADOW || s->source == UNETMM_SOURCE_ODP) {
        return give_entries(s, fault_id, vaddr, npages, taken);
    }
    for (uint32_t i = 0; i < npages; i++) {
        FakeVpage *page = fake_vpage(s, vaddr + (uint64_t)i * FAKE_PAGE);
        uint64_t pte;

        assert_non_null(page);
        pte = cpu_to_le64(fake_pte(page));
        fake_write(d->host, d->list + i * sizeof(pte), &pte, sizeof(pte));
        page_pin(d->host, page, page->pins + 1);
    }
    status = reply(d, s->id, r, &n);
    assert_true(n <= npages);
    for (uint32_t i = 0; i < npages; i++) {
        FakeVpage *page = fake_vpage(s, vaddr + (uint64_t)i * FAKE_PAGE);

        /* Not taken, or there already: one of the two pins goes. */
        if (i >= n || page->pins > 1) {
            page_pin(d->host, page, page->pins - 1);
        }
    }
    if (taken) {
        *taken = n;
    }
    return status;
}

uint8_t fake_resolve(FakeDriver *d, const struct unetmm_fault *f,
                     uint32_t npages, uint32_t *taken)
{
    return give(d->spaces[f->space], f->fault_id, f->vaddr, npages, taken);
}

uint8_t fake_insert(FakeSpace *s, uint64_t vaddr, uint32_t npages,
                    uint32_t *taken)
{
    return give(s, UNETMM_FAULT_NONE, vaddr, npages, taken);
}

/* Why a page cannot be given; UNETMM_ST_OK: it can. */
static uint8_t page_error(const FakeVpage *page, const struct unetmm_fault *f)
{
    uint8_t need = f->flags & UNETMM_FAULT_F_WRITE ? FAKE_W : FAKE_R;

    if (!page || !(page->rights & need)) {
        return UNETMM_ST_PROTECTION;
    }
    return page->error;
}

/* True: answered finally. */
static bool answer(FakeDriver *d, const struct unetmm_fault *f)
{
    FakeSpace *s = d->spaces[f->space];
    uint32_t n = 0;
    uint8_t error = UNETMM_ST_OK;
    uint8_t status;

    while (n < f->npages) {
        FakeVpage *page = fake_vpage(s, f->vaddr + (uint64_t)n * FAKE_PAGE);

        error = page_error(page, f);
        if (error != UNETMM_ST_OK || page->absent) {
            break;
        }
        n++;
    }
    if (n) {
        status = fake_resolve(d, f, n, NULL);
        assert_true(status == UNETMM_CS_OK || status == UNETMM_CS_STALE ||
                    status == UNETMM_CS_PARTIAL);
        return true;
    }
    status = fake_reply(d, f, error ? UNETMM_REPLY_ERROR :
                        UNETMM_REPLY_DEFERRED, error);
    assert_true(status == UNETMM_CS_OK || status == UNETMM_CS_STALE);
    return error || status == UNETMM_CS_STALE;
}

/* ---- The system buffer ---- */

uint8_t fake_sysbuf(FakeDriver *d, uint32_t n, uint32_t mtu)
{
    uint32_t bytes = UNETMM_SLOT_HEAD + mtu;
    uint64_t list = fake_alloc(d->host, MAX(n, 1) * sizeof(uint64_t), 8,
                               FAKE_RW);
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_SYSBUF_SET,
        .sysbuf = { .list = list, .slots = n, .slot_bytes = bytes },
    };

    g_array_set_size(d->slots, 0);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = fake_alloc(d->host, bytes, 8, FAKE_RW);
        uint64_t le = cpu_to_le64(at);

        g_array_append_val(d->slots, at);
        fake_write(d->host, list + i * sizeof(le), &le, sizeof(le));
    }
    d->slot_bytes = bytes;
    return fake_command(d, cmd, NULL);
}

struct unetmm_slot fake_slot(FakeDriver *d, uint32_t slot)
{
    struct unetmm_slot head;

    assert_true(slot < d->slots->len);
    fake_read(d->host, g_array_index(d->slots, uint64_t, slot), &head,
              sizeof(head));
    unetmm_le_slot(&head);
    return head;
}

void fake_slot_copy(FakeDriver *d, uint32_t slot)
{
    uint64_t at = g_array_index(d->slots, uint64_t, slot) + UNETMM_SLOT_HEAD;
    struct unetmm_slot head = fake_slot(d, slot);
    FakeSpace *s = d->spaces[head.space];

    assert_in_range(head.npieces, 1, UNETMM_SLOT_PIECES);
    assert_true(head.len <= d->slot_bytes - UNETMM_SLOT_HEAD);
    for (unsigned i = 0; i < head.npieces; i++) {
        const struct unetmm_piece *piece = &head.piece[i];
        g_autofree uint8_t *data = g_malloc(piece->len);

        assert_true(piece->len && piece->from <= head.len &&
                    piece->len <= head.len - piece->from);
        fake_read(d->host, at + piece->from, data, piece->len);
        fake_store(s, piece->addr, data, piece->len);
    }
}

uint8_t fake_slot_done(FakeDriver *d, uint32_t slot, uint8_t status)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_SYSBUF_DONE,
        .slot = { .slot = slot, .status = status },
    };

    return fake_command(d, cmd, NULL);
}

void fake_slot_serve(FakeDriver *d, unsigned n)
{
    uint32_t slot = g_array_index(d->full, uint32_t, n);

    g_array_remove_index(d->full, n);
    fake_slot_copy(d, slot);
    assert_int_equal(fake_slot_done(d, slot, UNETMM_SLOT_LANDED),
                     UNETMM_CS_OK);
}

/* ---- The backup ring ---- */

void fake_buffer_at(FakeDriver *d, uint64_t addr, uint32_t len, uint32_t rsvd)
{
    FakeRing *r = &d->ring[UNETMM_RING_BACKUP];
    struct unetmm_backup b = { .addr = addr, .len = len, .rsvd = rsvd };
    FakeBuffer known = { .addr = addr, .len = len };

    unetmm_le_backup(&b);
    fake_write(d->host, r->base +
               (r->index & ((1u << r->log2) - 1)) * sizeof(b), &b, sizeof(b));
    g_array_append_val(d->buffers, known);
    r->index++;
    fake_set_reg(d->host, UNETMM_REG_RING(UNETMM_RING_BACKUP) +
                 UNETMM_RING_PROD, r->index);
}

void fake_buffers(FakeDriver *d, unsigned n, uint32_t len)
{
    for (unsigned i = 0; i < n; i++) {
        fake_buffer_at(d, fake_alloc(d->host, len, 64, FAKE_W), len, 0);
    }
}

static const FakeBuffer *buffer_of(FakeDriver *d, const struct unetmm_fault *f)
{
    assert_true(f->fault_id < d->buffers->len);
    return &g_array_index(d->buffers, FakeBuffer, f->fault_id);
}

void fake_backup_check(FakeDriver *d, const struct unetmm_fault *f, uint32_t n)
{
    const uint8_t *data = fake_ptr(d->host, buffer_of(d, f)->addr, f->npages);

    for (uint32_t i = 0; i < f->npages; i++) {
        assert_int_equal(data[i], fake_pattern(n, i));
    }
}

uint8_t fake_backup_done(FakeDriver *d, const struct unetmm_fault *f,
                         uint8_t status, uint64_t cookie)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_BACKUP_DONE, .ep = f->ep,
        .backup = { .slot = f->vaddr, .bit = f->tag, .status = status,
                    .cookie = cookie },
    };

    return fake_command(d, cmd, NULL);
}

struct unetmm_fqe fake_fqe(FakeEp *ep, uint32_t slot)
{
    struct unetmm_fqe fqe;

    fake_read(ep->host, ep->fq + (slot & ((1u << ep->fq_log2) - 1)) *
              sizeof(fqe), &fqe, sizeof(fqe));
    unetmm_le_fqe(&fqe);
    return fqe;
}

void fake_backup_serve(FakeDriver *d, unsigned n)
{
    struct unetmm_fault f = g_array_index(d->backups, struct unetmm_fault, n);
    FakeBuffer b = *buffer_of(d, &f);
    FakeEp *ep = d->eps[f.ep];
    struct unetmm_fqe fqe = fake_fqe(ep, f.vaddr);

    g_array_remove_index(d->backups, n);
    assert_true(ep->fq_prod - (uint32_t)f.vaddr - 1 < 1u << ep->fq_log2);
    assert_true(f.npages <= fqe.len);
    if (f.npages) {
        fake_store(ep->space, fqe.addr, fake_ptr(d->host, b.addr, f.npages),
                   f.npages);
    }
    assert_int_equal(fake_backup_done(d, &f, UNETMM_ST_OK, fqe.cookie),
                     UNETMM_CS_OK);
    fake_rights(d->host, b.addr, b.len, FAKE_W);
    fake_buffer_at(d, b.addr, b.len, 0);
}

uint8_t fake_low_arm(FakeEp *ep, uint32_t buffers, uint32_t *result)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_LOW_ARM, .ep = ep->id,
        .low = { .buffers = buffers },
    };

    return fake_command(ep->driver, cmd, result);
}

uint8_t fake_tail_arm(FakeEp *ep, uint32_t slot, bool arm, uint32_t *result)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_TAIL_ARM, .ep = ep->id,
        .tail = { .slot = slot, .arm = arm },
    };

    return fake_command(ep->driver, cmd, result);
}

/* The first that can be answered now; -1: none. */
static int backup_ready(FakeDriver *d)
{
    for (unsigned i = 0; !d->hold_backups && i < d->backups->len; i++) {
        const struct unetmm_fault *f = &g_array_index(d->backups,
                                                      struct unetmm_fault, i);

        if (d->eps[f->ep]->fq_prod - (uint32_t)f->vaddr - 1 <= INT32_MAX) {
            return i;
        }
    }
    return -1;
}

void fake_serve(FakeDriver *d)
{
    struct unetmm_fault f;
    unsigned rounds = 0;

    for (;;) {
        if (!fake_fault(d, &f)) {
            int backup = backup_ready(d);

            if (backup >= 0) {
                fake_backup_serve(d, backup);
                continue;
            }
            if (d->hold_slots || !d->full->len) {
                return;
            }
            fake_slot_serve(d, 0);
            continue;
        }
        assert_true(++rounds < 100000);
        if (f.type == UNETMM_FAULT_MISS &&
            (d->hold_back || !answer(d, &f))) {
            g_array_append_val(d->waiting, f);
        }
    }
}

void fake_paged_in(FakeDriver *d)
{
    for (unsigned i = 0; i < d->waiting->len;) {
        struct unetmm_fault f = g_array_index(d->waiting, struct unetmm_fault,
                                              i);

        if (answer(d, &f)) {
            g_array_remove_index(d->waiting, i);
        } else {
            i++;
        }
    }
    fake_serve(d);
}

typedef void PageFn(FakeSpace *s, FakeVpage *page);

/* Calls fn for each page of [vaddr, last]. */
static void each_page(FakeSpace *s, uint64_t vaddr, uint64_t last, PageFn *fn)
{
    uint64_t from = vaddr >> 12, to = last >> 12;
    GHashTableIter iter;
    FakeVpage *page = NULL;

    if (to - from < g_hash_table_size(s->pages)) {
        for (uint64_t vpn = from; vpn <= to; vpn++) {
            page = g_hash_table_lookup(s->pages, &vpn);
            if (page) {
                fn(s, page);
            }
        }
        return;
    }
    g_hash_table_iter_init(&iter, s->pages);
    while (g_hash_table_iter_next(&iter, NULL, (void **)&page)) {
        if (page->vpn >= from && page->vpn <= to) {
            fn(s, page);
        }
    }
}

/* Source odp: the card would find them again in the driver's table. */
static void take_entry(FakeSpace *s, FakeVpage *page)
{
    fake_table_set(s, page->vpn << 12, 0);
}

static void unpin(FakeSpace *s, FakeVpage *page)
{
    page_pin(s->driver->host, page, 0);
}

bool fake_invalidate(FakeSpace *s, uint64_t vaddr, uint64_t bytes)
{
    FakeHost *host = s->driver->host;
    uint64_t last = vaddr + (bytes - 1);
    bool busy;

    if (s->source == UNETMM_SOURCE_ODP) {
        each_page(s, vaddr, last, take_entry);
    }
    fake_set_reg(host, UNETMM_REG_INV_SPACE, s->id);
    fake_set_reg(host, UNETMM_REG_INV_START_LO, vaddr);
    fake_set_reg(host, UNETMM_REG_INV_START_HI, vaddr >> 32);
    fake_set_reg(host, UNETMM_REG_INV_LAST_LO, last);
    fake_set_reg(host, UNETMM_REG_INV_LAST_HI, last >> 32);
    fake_set_reg(host, UNETMM_REG_INV_CTRL, 1);
    busy = fake_reg(host, UNETMM_REG_INV_CTRL) & UNETMM_INV_BUSY;
    if (!busy) {
        each_page(s, vaddr, last, unpin);
    }
    return busy;
}

bool fake_try_take(FakeSpace *s, uint64_t vaddr, uint64_t bytes)
{
    if (s->source == UNETMM_SOURCE_SHADOW) {
        each_page(s, vaddr, vaddr + (bytes - 1), take_entry);
    }
    return !fake_invalidate(s, vaddr, bytes);
}

void fake_take_away(FakeSpace *s, uint64_t vaddr, uint64_t bytes)
{
    assert_true(fake_try_take(s, vaddr, bytes));
}

void fake_make_present(FakeSpace *s, uint64_t vaddr, uint64_t bytes)
{
    uint64_t first = vaddr >> 12, last = (vaddr + (bytes - 1)) >> 12;
    uint32_t taken;

    assert_int_equal(fake_insert(s, first << 12, last - first + 1, &taken),
                     UNETMM_CS_OK);
    assert_int_equal(taken, last - first + 1);
}

/* ---- Processes and their memory ---- */

/* Of source shadow the card changes the entries of level 0. */
static uint64_t table_alloc(FakeSpace *s, int level)
{
    return fake_alloc(s->driver->host, FAKE_PAGE, FAKE_PAGE,
                      s->source == UNETMM_SOURCE_SHADOW && !level ? FAKE_RW :
                      FAKE_R);
}

FakeSpace *fake_space(FakeDriver *d, uint16_t id, uint8_t source,
                      uint8_t levels)
{
    FakeSpace *s = g_new0(FakeSpace, 1);
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_SPACE_CREATE, .space = id,
        .space_create = { .source = source, .levels = levels },
    };

    assert_true(id < FAKE_SPACES && !d->spaces[id]);
    s->driver = d;
    s->id = id;
    s->source = source;
    s->levels = levels;
    s->pages = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                     g_free);
    if (levels) {
        s->table = table_alloc(s, levels - 1);
        cmd.space_create.table = s->table;
    }
    d->spaces[id] = s;
    assert_int_equal(fake_command(d, cmd, NULL), UNETMM_CS_OK);
    return s;
}

void fake_space_gone(FakeSpace *s)
{
    s->driver->spaces[s->id] = NULL;
    g_hash_table_unref(s->pages);
    g_free(s);
}

uint64_t fake_table_at(FakeSpace *s, uint64_t vaddr)
{
    FakeHost *host = s->driver->host;
    uint64_t table = s->table;

    for (int level = s->levels - 1; ; level--) {
        uint64_t index = vaddr >> (12 + 9 * level) & 511;
        uint64_t at = table + index * 8;
        uint64_t entry;

        if (level == 0) {
            return at;
        }
        fake_read(host, at, &entry, 8);
        entry = le64_to_cpu(entry);
        if (!(entry & UNETMM_PTE_VALID)) {
            entry = table_alloc(s, level - 1) | UNETMM_PTE_VALID;
            table = entry & UNETMM_PTE_ADDR;
            entry = cpu_to_le64(entry);
            fake_write(host, at, &entry, 8);
        } else {
            table = entry & UNETMM_PTE_ADDR;
        }
    }
}

void fake_table_set(FakeSpace *s, uint64_t vaddr, uint64_t pte)
{
    pte = cpu_to_le64(pte);
    fake_write(s->driver->host, fake_table_at(s, vaddr), &pte, sizeof(pte));
}

uint64_t fake_table_get(FakeSpace *s, uint64_t vaddr)
{
    uint64_t pte;

    fake_read(s->driver->host, fake_table_at(s, vaddr), &pte, sizeof(pte));
    return le64_to_cpu(pte);
}

void fake_map(FakeSpace *s, uint64_t vaddr, uint64_t bytes, uint8_t rights)
{
    uint64_t first = vaddr >> 12, last = (vaddr + (bytes - 1)) >> 12;

    for (uint64_t vpn = first; vpn <= last; vpn++) {
        FakeVpage *page = g_new0(FakeVpage, 1);

        page->vpn = vpn;
        page->rights = rights;
        page->dma = fake_page(s->driver->host);
        g_hash_table_replace(s->pages, &page->vpn, page);
        if (s->levels) {
            fake_table_set(s, vpn << 12, fake_pte(page));
            page_pin(s->driver->host, page, 1);
        }
    }
}

FakeVpage *fake_vpage(FakeSpace *s, uint64_t vaddr)
{
    uint64_t vpn = vaddr >> 12;

    return g_hash_table_lookup(s->pages, &vpn);
}

/* The process's view of its memory: from vaddr to the end of its page.  For
 * source direct it is the bus address itself. */
static uint8_t *space_chunk(FakeSpace *s, uint64_t vaddr, uint64_t bytes,
                            uint64_t *n)
{
    FakeHost *host = s->driver->host;
    FakeVpage *page;

    *n = MIN(bytes, FAKE_PAGE - vaddr % FAKE_PAGE);
    if (s->source == UNETMM_SOURCE_DIRECT) {
        return fake_ptr(host, vaddr, *n);
    }
    page = fake_vpage(s, vaddr);
    assert_non_null(page);
    return fake_ptr(host, page->dma + vaddr % FAKE_PAGE, *n);
}

void fake_fill(FakeSpace *s, uint64_t vaddr, uint64_t bytes, uint32_t n)
{
    uint64_t step = 0;

    for (uint64_t done = 0; done < bytes; done += step) {
        uint8_t *p = space_chunk(s, vaddr + done, bytes - done, &step);

        for (uint64_t i = 0; i < step; i++) {
            p[i] = fake_pattern(n, done + i);
        }
    }
}

void fake_store(FakeSpace *s, uint64_t vaddr, const void *buf, size_t bytes)
{
    uint64_t step = 0;

    for (uint64_t done = 0; done < bytes; done += step) {
        uint8_t *p = space_chunk(s, vaddr + done, bytes - done, &step);

        memcpy(p, (const uint8_t *)buf + done, step);
    }
}

void fake_load(FakeSpace *s, uint64_t vaddr, void *buf, size_t bytes)
{
    uint64_t step = 0;

    for (uint64_t done = 0; done < bytes; done += step) {
        uint8_t *p = space_chunk(s, vaddr + done, bytes - done, &step);

        memcpy((uint8_t *)buf + done, p, step);
    }
}

void fake_check(FakeSpace *s, uint64_t vaddr, uint64_t bytes, uint32_t n)
{
    uint64_t step = 0;

    for (uint64_t done = 0; done < bytes; done += step) {
        uint8_t *p = space_chunk(s, vaddr + done, bytes - done, &step);

        for (uint64_t i = 0; i < step; i++) {
            if (p[i] != fake_pattern(n, done + i)) {
                fail_msg("message %u: byte %" PRIu64 " is wrong", n,
                         done + i);
            }
        }
    }
}

/* ---- Endpoints ---- */

void fake_ep_init(FakeEp *ep, FakeDriver *d, uint16_t id, FakeSpace *s)
{
    *ep = (FakeEp) {
        .driver = d, .host = d->host, .space = s, .id = id,
        .sq_log2 = 4, .fq_log2 = 4, .cq_log2 = 4,
        .policy = UNETMM_POLICY_SKIP,
    };
}

void fake_ep_alloc(FakeEp *ep)
{
    FakeHost *host = ep->host;

    ep->sq = fake_alloc(host, 64u << ep->sq_log2, 64, FAKE_R);
    ep->fq = fake_alloc(host, 32u << ep->fq_log2, 32, FAKE_R);
    ep->cq = fake_alloc(host, 64u << ep->cq_log2, 64, FAKE_W);
    ep->index = fake_alloc(host, 128, 128, 0);
    /* Of the card's half only the words, of the process's only the words. */
    fake_rights(host, ep->index, 16, FAKE_R);
    fake_rights(host, ep->index + 64, 16, FAKE_W);
    if (ep->space->source == UNETMM_SOURCE_KTLB) {
        ep->posts = fake_alloc(host, 128, 128, 0);
        /* The producers, and nothing else of the process's half. */
        fake_rights(host, ep->posts, 8, FAKE_R);
        fake_rights(host, ep->posts + 64, 16, FAKE_W);
    }
}

struct unetmm_cmd fake_ep_cmd(const FakeEp *ep)
{
    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_EP_CREATE, .space = ep->space->id, .ep = ep->id,
        .ep_create = {
            .sq_base = ep->sq, .fq_base = ep->fq, .cq_base = ep->cq,
            .index = ep->index, .sq_log2 = ep->sq_log2,
            .fq_log2 = ep->fq_log2, .cq_log2 = ep->cq_log2,
            .policy = ep->policy, .pretranslate = ep->pretranslate,
            .posts = ep->posts, .flags = ep->flags, .backup = ep->backup,
            .pd = ep->pd, .fq_of = ep->fq_of,
        },
    };
}

void fake_ep_create(FakeEp *ep)
{
    uint32_t generation;

    if (!ep->index) {
        fake_ep_alloc(ep);
    }
    if (ep->policy == UNETMM_POLICY_BACKUP) {
        assert_true(ep->id < FAKE_EPS);
        ep->driver->eps[ep->id] = ep;
    }
    /* Records of an older endpoint with its number are not the new one's. */
    generation = ep->host->core.eps[ep->id].generation;
    assert_int_equal(fake_command(ep->driver, fake_ep_cmd(ep), NULL),
                     UNETMM_CS_OK);
    assert_int_equal(ep->host->core.eps[ep->id].generation, generation + 1);
}

void fake_ep_open(FakeEp *ep, FakeDriver *d, uint16_t id, FakeSpace *s)
{
    fake_ep_init(ep, d, id, s);
    fake_ep_create(ep);
}

uint8_t fake_ep_destroy(FakeEp *ep)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = ep->id };

    return fake_command(ep->driver, cmd, NULL);
}

uint8_t fake_channel(FakeEp *ep, uint16_t channel, const uint8_t *mac,
                     uint16_t peer_ep, uint16_t peer_channel, uint32_t mtu)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = ep->id,
        .channel = {
            .channel = channel, .peer_ep = peer_ep,
            .peer_channel = peer_channel, .mtu = mtu,
        },
    };

    memcpy(cmd.channel.peer_mac, mac, 6);
    return fake_command(ep->driver, cmd, NULL);
}

uint32_t fake_channel_clear(FakeEp *ep, uint16_t channel, uint8_t flags)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = ep->id,
        .channel = { .channel = channel, .flags = flags },
    };
    uint32_t owed = UINT32_MAX;

    assert_int_equal(fake_command(ep->driver, cmd, &owed), UNETMM_CS_OK);
    return owed;
}

uint8_t fake_channel_rel(FakeEp *ep, uint16_t channel, const uint8_t *mac,
                         uint16_t peer_ep, uint16_t peer_channel,
                         const struct unetmm_cmd_channel *how)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = ep->id, .channel = *how,
    };

    cmd.channel.type = UNETMM_CHANNEL_RELIABLE;
    cmd.channel.flags ^= UNETMM_CHANNEL_F_KEYED | UNETMM_CHANNEL_F_IMM;
    cmd.channel.channel = channel;
    cmd.channel.peer_ep = peer_ep;
    cmd.channel.peer_channel = peer_channel;
    memcpy(cmd.channel.peer_mac, mac, 6);
    return fake_command(ep->driver, cmd, NULL);
}

struct unetmm_cmd fake_region_cmd(const FakeSpace *s, uint32_t region,
                                  uint32_t key, uint64_t vaddr,
                                  uint64_t length)
{
    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_REGION_SET, .space = s->id,
        .region = { .region = region, .key = key, .addr = vaddr,
                    .length = length, .cookie = region + 0x7000,
                    .rights = UNETMM_RIGHT_ALL },
    };
}

uint8_t fake_region(FakeSpace *s, uint32_t region, uint32_t key, uint64_t vaddr,
                    uint64_t length, uint8_t rights, uint8_t flags)
{
    struct unetmm_cmd cmd = fake_region_cmd(s, region, key, vaddr, length);

    cmd.region.rights = rights;
    cmd.region.flags = flags;
    return fake_command(s->driver, cmd, NULL);
}

uint8_t fake_region_clear(FakeDriver *d, uint32_t region)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_REGION_CLEAR,
                              .region.region = region };

    return fake_command(d, cmd, NULL);
}

uint8_t fake_import(FakeEp *ep, uint32_t import, uint16_t channel,
                    uint32_t region, uint32_t key, uint64_t length,
                    uint8_t rights)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_IMPORT_SET, .ep = ep->id,
        .import = { .import = import, .region = region, .key = key,
                    .channel = channel, .rights = rights, .length = length },
    };

    return fake_command(ep->driver, cmd, NULL);
}

uint8_t fake_import_clear(FakeEp *ep, uint32_t import)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_IMPORT_CLEAR, .ep = ep->id,
                              .import.import = import };

    return fake_command(ep->driver, cmd, NULL);
}

void fake_connect(FakeEp *a, FakeEp *b, uint16_t channel, uint32_t mtu)
{
    const uint8_t *mac = a->host->core.params.mac;

    assert_int_equal(fake_channel(a, channel, mac, b->id, channel, mtu),
                     UNETMM_CS_OK);
    assert_int_equal(fake_channel(b, channel, mac, a->id, channel, mtu),
                     UNETMM_CS_OK);
}

void fake_connect_peer(FakeEp *ep, uint16_t channel, uint16_t peer_ep,
                       uint32_t mtu)
{
    assert_int_equal(fake_channel(ep, channel, fake_peer_mac, peer_ep,
                                  channel, mtu), UNETMM_CS_OK);
}

void fake_user_word(FakeEp *ep, size_t offset, uint32_t value)
{
    bool posts = ep->posts && offset < offsetof(struct unetmm_ep_user, cq_cons);

    fake_write32(ep->host, (posts ? ep->posts : ep->index) + offset, value);
}

struct unetmm_ep_card fake_card(FakeEp *ep)
{
    struct unetmm_ep_card card;

    fake_read(ep->host, ep->index + offsetof(struct unetmm_ep_index, card),
              &card, sizeof(card));
    unetmm_le_card(&card);
    return card;
}

void fake_ring_bell(FakeEp *ep)
{
    fake_may_migrate(ep->host);
    unetmm_core_doorbell(&ep->host->core, ep->id);
}

void fake_put_slots(FakeEp *ep, const void *slots, unsigned nslots)
{
    uint32_t mask = (1u << ep->sq_log2) - 1;

    for (unsigned i = 0; i < nslots; i++) {
        fake_write(ep->host, ep->sq + ((ep->sq_prod + i) & mask) * 64,
                   (const uint8_t *)slots + i * 64, 64);
    }
}

void fake_move_sq(FakeEp *ep, unsigned nslots)
{
    ep->sq_prod += nslots;
    fake_user_word(ep, offsetof(struct unetmm_ep_user, sq_prod), ep->sq_prod);
}

unsigned fake_send(FakeEp *ep, uint16_t channel, const struct unetmm_seg *segs,
                   unsigned nsegs, uint64_t cookie, uint8_t flags)
{
    uint8_t slots[8 * 64] = { 0 };
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_SEND, .flags = flags, .nsegs = nsegs,
        .channel = channel, .cookie = cookie,
    };
    unsigned n = nsegs <= 2 ? 1 : 1 + (nsegs - 2 + 3) / 4;

    unetmm_le_sqe(&sqe);
    memcpy(slots, &sqe, sizeof(sqe));
    for (unsigned i = 0; i < nsegs; i++) {
        struct unetmm_seg seg = segs[i];

        unetmm_le_seg(&seg);
        memcpy(slots + 32 + i * 16, &seg, 16);
    }
    fake_put_slots(ep, slots, n);
    fake_move_sq(ep, n);
    return n;
}

unsigned fake_send_inline(FakeEp *ep, uint16_t channel, uint32_t n,
                          unsigned len, uint64_t cookie, uint8_t flags)
{
    uint8_t slots[8 * 64] = { 0 };
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_SEND, .flags = flags | UNETMM_SQE_F_INLINE,
        .inline_len = len, .channel = channel, .cookie = cookie,
    };
    unsigned nslots = len <= 32 ? 1 : 1 + (len - 32 + 63) / 64;

    unetmm_le_sqe(&sqe);
    memcpy(slots, &sqe, sizeof(sqe));
    for (unsigned i = 0; i < len; i++) {
        slots[32 + i] = fake_pattern(n, i);
    }
    fake_put_slots(ep, slots, nslots);
    fake_move_sq(ep, nslots);
    return nslots;
}

void fake_send_sqe(FakeEp *ep, struct unetmm_sqe sqe)
{
    unetmm_le_sqe(&sqe);
    for (unsigned i = 0; i < sqe.nsegs && i < UNETMM_SQE_SEGS; i++) {
        unetmm_le_seg(&sqe.seg[i]);
    }
    fake_put_slots(ep, &sqe, 1);
    fake_move_sq(ep, 1);
}

unsigned fake_send_at(FakeEp *ep, uint16_t channel, uint64_t vaddr,
                      uint32_t len, uint64_t cookie)
{
    struct unetmm_seg seg = { .addr = vaddr, .len = len };

    return fake_send(ep, channel, &seg, 1, cookie, 0);
}

void fake_post(FakeEp *ep, uint64_t vaddr, uint32_t len, uint64_t cookie)
{
    struct unetmm_fqe fqe = { .addr = vaddr, .len = len, .cookie = cookie };

    fake_post_fqes(ep, &fqe, 1);
}

void fake_post_fqes(FakeEp *ep, const struct unetmm_fqe *fqes, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint32_t slot = ep->fq_prod++ & ((1u << ep->fq_log2) - 1);
        struct unetmm_fqe fqe = fqes[i];

        unetmm_le_fqe(&fqe);
        fake_write(ep->host, ep->fq + slot * sizeof(fqe), &fqe, sizeof(fqe));
    }
    fake_user_word(ep, offsetof(struct unetmm_ep_user, fq_prod), ep->fq_prod);
}

void fake_post_cut(FakeEp *ep, uint64_t vaddr, uint32_t len, uint32_t cut,
                   uint64_t cookie)
{
    const struct unetmm_fqe parts[] = {
        { .addr = vaddr, .len = cut, .flags = UNETMM_FQE_F_CHAIN,
          .cookie = cookie },
        { .addr = vaddr + cut, .len = len - cut,
          .cookie = cut ? ~cookie : cookie },
    };

    fake_post_fqes(ep, cut ? parts : parts + 1, cut ? 2 : 1);
}

bool fake_poll(FakeEp *ep, struct unetmm_cqe *cqe)
{
    uint32_t slot = ep->cq_cons & ((1u << ep->cq_log2) - 1);
    uint64_t at = ep->cq + slot * sizeof(*cqe);

    if ((fake_read32(ep->host, at + 60) & UNETMM_PHASE) !=
        UNETMM_PHASE_OF(ep->cq_cons, ep->cq_log2)) {
        return false;
    }
    fake_read(ep->host, at, cqe, sizeof(*cqe));
    unetmm_le_cqe(cqe);
    assert_true(!(cqe->imm || cqe->flags & UNETMM_CQE_F_INV) ||
                cqe->flags & UNETMM_CQE_F_IMM);
    ep->cq_cons++;
    fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_cons), ep->cq_cons);
    return true;
}

struct unetmm_cqe fake_expect(FakeEp *ep, uint8_t opcode, uint8_t status,
                              uint64_t cookie)
{
    struct unetmm_cqe cqe;

    assert_true(fake_poll(ep, &cqe));
    assert_int_equal(cqe.opcode, opcode);
    assert_int_equal(cqe.status, status);
    assert_int_equal(cqe.cookie, cookie);
    return cqe;
}

void fake_expect_none(FakeEp *ep)
{
    struct unetmm_cqe cqe;

    assert_false(fake_poll(ep, &cqe));
}

/* ---- Frames ---- */

struct unetmm_frame *fake_header(FakeFrame *f)
{
    return (struct unetmm_frame *)f->data;
}

void fake_seal(FakeFrame *f)
{
    struct unetmm_frame *h = fake_header(f);

    if (le32_to_cpu(h->flags) & UNETMM_WIRE_F_PAYLOAD_CRC) {
        h->payload_crc = cpu_to_le32(unetmm_crc32c(0, h + 1,
                                                   le32_to_cpu(h->len)));
    }
    h->header_crc = cpu_to_le32(unetmm_crc32c(0, h, 60));
}

FakeFrame *fake_datagram(FakeEp *ep, uint16_t channel, uint16_t src_ep,
                         uint32_t len, uint32_t n)
{
    FakeFrame *f = g_malloc0(sizeof(*f) + 64 + len);
    struct unetmm_frame *h = fake_header(f);

    f->bytes = 64 + len;
    memcpy(h->dst, ep->host->core.params.mac, 6);
    memcpy(h->src, fake_peer_mac, 6);
    h->ethertype[0] = 0x88;
    h->ethertype[1] = 0xb5;
    h->version = UNETMM_WIRE_VERSION;
    h->opcode = UNETMM_WIRE_DATAGRAM;
    h->dst_ep = cpu_to_le16(ep->id);
    h->src_ep = cpu_to_le16(src_ep);
    h->dst_channel = cpu_to_le16(channel);
    h->src_channel = cpu_to_le16(channel);
    h->len = cpu_to_le32(len);
    for (uint32_t i = 0; i < len; i++) {
        f->data[64 + i] = fake_pattern(n, i);
    }
    fake_seal(f);
    return f;
}

void fake_check_frame(const FakeFrame *f, uint32_t len, uint32_t n)
{
    struct unetmm_frame h;

    memcpy(&h, f->data, sizeof(h));
    assert_int_equal(h.header_crc,
                     cpu_to_le32(unetmm_crc32c(0, f->data, 60)));
    unetmm_le_frame(&h);
    assert_int_equal(f->bytes, 64 + len);
    assert_int_equal(h.len, len);
    assert_int_equal(h.version, UNETMM_WIRE_VERSION);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(f->data[64 + i], fake_pattern(n, i));
    }
}

bool fake_receive(FakeHost *host, const FakeFrame *f)
{
    fake_may_migrate(host);
    return unetmm_core_receive(&host->core, f->data, f->bytes);
}

void fake_deliver(FakeHost *host, FakeFrame *f)
{
    /* The net layer keeps it until the card has a new budget. */
    while (!fake_receive(host, f)) {
        assert_int_equal(host->core.budget.arrivals, 0);
        assert_true(fake_run_later(host));
    }
    g_free(f);
}
