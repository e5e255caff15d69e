/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See real_card.h. */
#include "abi/unetmm_host.h"
#include "card/core.h"
#include "real_card.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_LOG2       8
#define RING_ENTRIES    (1u << RING_LOG2)
#define PAGE            4096u

#define MUST(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "real card: %s:%d: not so: %s\n", __FILE__, __LINE__, \
                    #condition); \
            abort(); \
        } \
    } while (0)

int unetmm_trace;                       /* of the trace points: none is printed */

struct real_endpoint real_endpoints[REAL_ENDPOINTS];

static struct {
    UnetmmCore core;
    const struct real_card_driver *driver;
    uint8_t mac[6];
    bool later;
    int64_t timer;
    uint32_t commands, dones, faults, notifies;     /* entries given, or taken */
    uint64_t hidden;            /* a page that is not there; 0: none */
    bool hidden_missed;
    struct unetmm_fault hidden_miss;
} card;

/* The driver's rings, which the card reads and writes. */
static struct unetmm_cmd cmd_ring[RING_ENTRIES] __attribute__((aligned(64)));
static struct unetmm_cmd_done done_ring[RING_ENTRIES] __attribute__((aligned(64)));
static struct unetmm_fault fault_ring[RING_ENTRIES] __attribute__((aligned(64)));
static struct unetmm_notify notify_ring[RING_ENTRIES] __attribute__((aligned(64)));

/* ---- Functions that the card calls ----------------------------------------- */

static int endpoint_at(uint64_t index)
{
    for (unsigned i = 0; i < REAL_ENDPOINTS; i++) {
        if (real_endpoints[i].live && index == (uintptr_t)real_endpoints[i].index) {
            return (int)i;
        }
    }
    return -1;
}

/* Words that the process writes at the same time, or entries behind such a word. */
static bool mem_read(void *host, uint64_t addr, void *buf, size_t bytes)
{
    struct unetmm_ep_user *user = buf;
    uint32_t *words = buf;
    int ep = bytes == offsetof(struct unetmm_ep_user, rsvd) ? endpoint_at(addr) : -1;

    if (addr % 4 || bytes % 4 || bytes > 16) {
        memcpy(buf, (void *)(uintptr_t)addr, bytes);
        return true;
    }
    for (size_t i = 0; i < bytes / 4; i++) {
        words[i] = __atomic_load_n((uint32_t *)(uintptr_t)addr + i, __ATOMIC_ACQUIRE);
    }
    if (ep >= 0 && card.driver->shown) {
        user->sq_prod = card.driver->shown((unsigned)ep, user->sq_prod);
    }
    return true;
}

static bool mem_write(void *host, uint64_t addr, const void *buf, size_t bytes)
{
    const uint32_t *words = buf;

    if (addr % 4 || bytes != offsetof(struct unetmm_ep_card, rsvd)) {
        memcpy((void *)(uintptr_t)addr, buf, bytes);
        return true;
    }
    for (size_t i = 0; i < bytes / 4; i++) {
        __atomic_store_n((uint32_t *)(uintptr_t)addr + i, words[i], __ATOMIC_RELEASE);
    }
    return true;
}

static bool mem_store32(void *host, uint64_t addr, uint32_t value)
{
    __atomic_store_n((uint32_t *)(uintptr_t)addr, value, __ATOMIC_RELEASE);
    return true;
}

static bool mem_cmpxchg64(void *host, uint64_t addr, uint64_t *old, uint64_t value)
{
    __atomic_compare_exchange_n((uint64_t *)(uintptr_t)addr, old, value, false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return true;
}

static void interrupt(void *host, unsigned vector)
{
}

/* A test may have taken the C library's clock over. */
static int64_t now_ns(void *host)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void timer_at(void *host, int64_t when_ns)
{
    card.timer = when_ns;
}

static void run_later(void *host)
{
    card.later = true;
}

static UnetmmSent send_frame(void *host, const uint8_t *frame, size_t bytes)
{
    return UNETMM_SENT_DONE;
}

static void may_receive(void *host)
{
}

static void clear_windows(void *host, uint32_t page, uint32_t npages)
{
}

static const UnetmmHostOps ops = {
    .mem_read = mem_read,
    .mem_write = mem_write,
    .mem_store32 = mem_store32,
    .mem_cmpxchg64 = mem_cmpxchg64,
    .interrupt = interrupt,
    .now_ns = now_ns,
    .timer_at = timer_at,
    .run_later = run_later,
    .send = send_frame,
    .may_receive = may_receive,
    .clear_windows = clear_windows,
};

/* ---- Rings ------------------------------------------------------------------- */

static void set_ring(unsigned ring, const void *base)
{
    uint32_t at = UNETMM_REG_RING(ring);
    uint64_t address = (uintptr_t)base;

    unetmm_core_write(&card.core, at + UNETMM_RING_BASE_LO, (uint32_t)address, 4);
    unetmm_core_write(&card.core, at + UNETMM_RING_BASE_HI, (uint32_t)(address >> 32), 4);
    unetmm_core_write(&card.core, at + UNETMM_RING_LOG2, RING_LOG2, 4);
    unetmm_core_write(&card.core, at + UNETMM_RING_ENABLE, 1, 4);
    MUST(unetmm_core_read(&card.core, at + UNETMM_RING_ENABLE, 4) == 1);
}

/* True: the entry of this number, whose phase this is, is there. */
static bool is_there(uint32_t phase, uint32_t number)
{
    return (phase & UNETMM_PHASE) == UNETMM_PHASE_OF(number, RING_LOG2);
}

static void has_taken(unsigned ring, uint32_t number)
{
    unetmm_core_write(&card.core, UNETMM_REG_RING(ring) + UNETMM_RING_CONS, number, 4);
}

static uint16_t give_command(struct unetmm_cmd cmd)
{
    cmd.tag = (uint16_t)card.commands;
    cmd_ring[card.commands++ % RING_ENTRIES] = cmd;
    unetmm_core_write(&card.core, UNETMM_REG_RING(UNETMM_RING_CMD) + UNETMM_RING_PROD,
                      card.commands, 4);
    return cmd.tag;
}

/* The next completion of a command, which has to be of this one. */
static bool take_done(uint16_t tag, struct unetmm_cmd_done *done)
{
    *done = done_ring[card.dones % RING_ENTRIES];
    if (!is_there(done->flags, card.dones)) {
        return false;
    }
    MUST(done->tag == tag);
    has_taken(UNETMM_RING_CMDC, ++card.dones);
    return true;
}

/* ---- Misses ------------------------------------------------------------------- */

/* Each page is where the process has it. */
static void answer_miss(const struct unetmm_fault *fault)
{
    uint64_t list[UNETMM_REPLY_MAX_PAGES];
    uint32_t n = MIN(fault->npages, UNETMM_REPLY_MAX_PAGES);
    struct unetmm_cmd_done done;
    uint16_t tag;

    for (uint32_t i = 0; i < n; i++) {
        list[i] = (fault->vaddr + (uint64_t)i * PAGE) | UNETMM_PTE_VALID |
            UNETMM_PTE_READ | UNETMM_PTE_WRITE;
    }
    tag = give_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = fault->space,
        .reply = { .fault_id = fault->fault_id, .status = UNETMM_REPLY_RESOLVED,
                   .npages = (uint16_t)n, .vaddr = fault->vaddr, .list = (uintptr_t)list },
    });
    MUST(take_done(tag, &done));
    MUST(done.status == UNETMM_CS_OK || done.status == UNETMM_CS_PARTIAL ||
         done.status == UNETMM_CS_STALE);
}

void real_card_hide(const void *page)
{
    bool missed = card.hidden_missed;

    card.hidden = (uintptr_t)page;
    card.hidden_missed = false;
    if (missed) {
        answer_miss(&card.hidden_miss);
    }
}

/* A miss of the hidden page has no answer until the page is shown. */
static bool is_hidden(const struct unetmm_fault *fault)
{
    if (!card.hidden || fault->vaddr != card.hidden) {
        return false;
    }
    card.hidden_missed = true;
    card.hidden_miss = *fault;
    return true;
}

static bool serve_fault(void)
{
    struct unetmm_fault fault = fault_ring[card.faults % RING_ENTRIES];

    if (!is_there(fault.phase, card.faults)) {
        return false;
    }
    has_taken(UNETMM_RING_FAULT, ++card.faults);
    if (fault.type == UNETMM_FAULT_MISS) {
        if (!is_hidden(&fault)) {
            answer_miss(&fault);
        }
    } else {
        MUST(fault.type == UNETMM_FAULT_EVICT);
    }
    return true;
}

static bool serve_notify(void)
{
    struct unetmm_notify notify = notify_ring[card.notifies % RING_ENTRIES];

    if (!is_there(notify.phase, card.notifies)) {
        return false;
    }
    has_taken(UNETMM_RING_NOTIFY, ++card.notifies);
    card.driver->notified(&notify);
    return true;
}

/* ---- The card's turn ------------------------------------------------------------ */

/* Without the misses, whose answers are commands of their own. */
static bool run_card(void)
{
    if (card.later) {
        card.later = false;
        unetmm_core_run(&card.core);
        return true;
    }
    if (card.timer <= now_ns(NULL)) {
        card.timer = INT64_MAX;
        unetmm_core_timer(&card.core);
        return true;
    }
    return false;
}

static bool ring_doorbells(void)
{
    bool any = false;

    for (unsigned i = 0; i < REAL_ENDPOINTS; i++) {
        struct real_endpoint *ep = &real_endpoints[i];

        if (ep->live && (__atomic_exchange_n(ep->doorbell, 0, __ATOMIC_SEQ_CST) ||
                         ep->rung)) {
            ep->rung = false;
            unetmm_core_doorbell(&card.core, ep->layout.id);
            any = true;
        }
    }
    return any;
}

bool real_card_turn(void)
{
    bool any = ring_doorbells();

    while (run_card() || serve_fault() || serve_notify()) {
        any = true;
    }
    return any;
}

uint8_t real_card_command(struct unetmm_cmd cmd, uint32_t *result)
{
    uint16_t tag = give_command(cmd);
    struct unetmm_cmd_done done;

    /* Some end when the DMA that they stop has ended, for which misses are served. */
    while (!take_done(tag, &done)) {
        run_card();
    }
    if (result) {
        *result = done.result;
    }
    return done.status;
}

void real_card_start(const uint8_t mac[6], void *counters,
                     const struct real_card_driver *driver)
{
    UnetmmParams params = {
        .endpoints = REAL_ENDPOINTS + 1, .spaces = REAL_SPACE + 1, .channels = REAL_CHANNELS,
        .tlb_sets = 1024, .tlb_ways = 4, .tlb_victims = 16, .cache_entries = 64,
        .cache_ways = 4, .utlb_fetch = 8, .pretranslate = 4, .fault_batch = 16,
        .max_faults = 64, .user_mtu = REAL_MTU, .local_queue = 1024,
        .reliable = REAL_ENDPOINTS * REAL_CHANNELS, .reliable_keep = 128,
        .window_queue = 1, .regions = REAL_REGIONS, .imports = REAL_IMPORTS,
        .congestion_window = 16, .budget_descriptors = 1024, .budget_bytes = 1 << 24,
    };

    memset(&card, 0, sizeof(card));
    memset(done_ring, 0, sizeof(done_ring));
    memset(fault_ring, 0, sizeof(fault_ring));
    memset(notify_ring, 0, sizeof(notify_ring));
    card.driver = driver;
    card.timer = INT64_MAX;
    memcpy(card.mac, mac, 6);
    memcpy(params.mac, mac, 6);
    MUST(!unetmm_params_check(&params));
    unetmm_core_init(&card.core, &params, &ops, NULL);
    unetmm_core_set_link(&card.core, true);
    set_ring(UNETMM_RING_CMD, cmd_ring);
    set_ring(UNETMM_RING_CMDC, done_ring);
    set_ring(UNETMM_RING_FAULT, fault_ring);
    set_ring(UNETMM_RING_NOTIFY, notify_ring);
    unetmm_core_write(&card.core, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE, 4);
    MUST(!real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_SPACE_CREATE, .space = REAL_SPACE,
        .space_create.source = UNETMM_SOURCE_TLB,
    }, NULL));
    MUST(!real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_COUNTERS_SET, .space = REAL_SPACE,
        .counters.page = (uintptr_t)counters,
    }, NULL));
}

void real_card_stop(void)
{
    unetmm_core_free(&card.core);
}

/* ---- Endpoints -------------------------------------------------------------------- */

static uint32_t place(uint32_t *bytes, size_t entry_bytes, uint32_t log2)
{
    uint32_t at = (*bytes + 127) & ~127u;

    *bytes = at + ((uint32_t)entry_bytes << log2);
    return at;
}

static void *new_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    MUST(memory != MAP_FAILED);
    return memory;
}

/* The queues in one piece of memory, and where they are in it. */
static void lay_out(struct real_endpoint *ep)
{
    struct unetmm_endpoint *at = &ep->layout;
    uint32_t bytes = 0;

    at->index_offset = place(&bytes, sizeof(*ep->index), 0);
    at->sq_offset = place(&bytes, UNETMM_SLOT_BYTES, at->sq_log2);
    at->fq_offset = place(&bytes, sizeof(struct unetmm_fqe), at->fq_log2);
    at->cq_offset = place(&bytes, sizeof(struct unetmm_cqe), at->cq_log2);
    at->queue_bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
    at->doorbell_bytes = PAGE;
    ep->queues = new_memory(at->queue_bytes);
    ep->doorbell = new_memory(PAGE);
    ep->index = (void *)((uint8_t *)ep->queues + at->index_offset);
}

uint64_t real_card_counter(unsigned n)
{
    return unetmm_core_read(&card.core, UNETMM_REG_COUNTER(n), 8);
}

int real_endpoint_open(struct unetmm_endpoint *request)
{
    struct real_endpoint *ep = real_endpoints;
    uint64_t base;

    while (ep < real_endpoints + REAL_ENDPOINTS && ep->queues) {
        ep++;
    }
    if (ep == real_endpoints + REAL_ENDPOINTS) {
        return -1;
    }
    *ep = (struct real_endpoint) { .layout = *request };
    ep->layout.id = (uint32_t)(ep - real_endpoints) + 1;
    lay_out(ep);
    base = (uintptr_t)ep->queues;
    MUST(!real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_EP_CREATE, .space = REAL_SPACE, .ep = (uint16_t)ep->layout.id,
        .ep_create = {
            .sq_base = base + ep->layout.sq_offset, .fq_base = base + ep->layout.fq_offset,
            .cq_base = base + ep->layout.cq_offset, .index = (uintptr_t)ep->index,
            .sq_log2 = (uint8_t)request->sq_log2, .fq_log2 = (uint8_t)request->fq_log2,
            .cq_log2 = (uint8_t)request->cq_log2, .policy = UNETMM_POLICY_SKIP,
        },
    }, NULL));
    ep->live = true;
    *request = ep->layout;
    return (int)(ep - real_endpoints);
}

void real_endpoint_close(unsigned endpoint)
{
    struct real_endpoint *ep = &real_endpoints[endpoint];

    MUST(!real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_EP_DESTROY, .ep = (uint16_t)ep->layout.id }, NULL));
    ep->live = false;
}

void real_endpoint_free(unsigned endpoint)
{
    struct real_endpoint *ep = &real_endpoints[endpoint];
    void *queues = ep->queues;

    ep->queues = NULL;          /* first: a test may have taken munmap() over */
    munmap(queues, ep->layout.queue_bytes);
    munmap(ep->doorbell, PAGE);
}

void real_channel_set(unsigned endpoint, unsigned channel, struct unetmm_cmd_channel how,
                      unsigned peer, unsigned peer_channel)
{
    how.channel = (uint16_t)channel;
    how.peer_ep = (uint16_t)(peer + 1);
    how.peer_channel = (uint16_t)peer_channel;
    how.type = UNETMM_CHANNEL_RELIABLE;
    how.mtu = REAL_MTU;
    how.flags |= UNETMM_CHANNEL_F_PEER;
    memcpy(how.peer_mac, card.mac, 6);
    MUST(!real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = (uint16_t)(endpoint + 1), .channel = how,
    }, NULL));
}

/* The card may have ended it already. */
void real_channel_clear(unsigned endpoint, unsigned channel, uint8_t flags)
{
    uint8_t status = real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = (uint16_t)(endpoint + 1),
        .channel = { .channel = (uint16_t)channel, .flags = flags } }, NULL);

    MUST(!status || status == UNETMM_CS_BAD_ID);
}
