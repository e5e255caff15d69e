/*
 * unetmm: computers for the TLB simulation
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "utlb.h"

#define MEM_BASE    0x08048000ull       /* where i386 Linux put programs */
#define MEM_BYTES   (8u << 20)
#define MALLOC_HEAD 8

int unetmm_trace;

uint32_t sim_random(Sim *sim)
{
    sim->random = sim->random * 6364136223846793005ull +
                  1442695040888963407ull;
    return sim->random >> 32;
}

void *sim_ptr(const SimProc *p, uint64_t addr, uint64_t bytes)
{
    SIM_CHECK(addr >= MEM_BASE && bytes <= p->used &&
              addr - MEM_BASE <= p->used - bytes);
    return p->mem + (addr - MEM_BASE);
}

static uint64_t mem_take(SimProc *p, uint64_t bytes, uint64_t align)
{
    uint64_t at = (p->used + align - 1) / align * align;

    SIM_CHECK(bytes <= MEM_BYTES && at <= MEM_BYTES - bytes);
    p->used = at + bytes;
    return MEM_BASE + at;
}

uint64_t sim_alloc(SimProc *p, uint64_t bytes)
{
    mem_take(p, MALLOC_HEAD, 8);
    return mem_take(p, bytes, 8);
}

void sim_proc_init(Sim *sim, SimProc *p, SimComputer *computer,
                   uint16_t space)
{
    *p = (SimProc) {
        .sim = sim, .computer = computer, .space = space,
        .mem = g_malloc0(MEM_BYTES),
    };
    p->small = mem_take(p, UNETMM_PAGE_BYTES, UNETMM_PAGE_BYTES);
    p->rx = mem_take(p, (uint64_t)sim->config.buffers * UNETMM_PAGE_BYTES,
                     UNETMM_PAGE_BYTES);
}

static void computer_init(SimComputer *c, const SimConfig *config)
{
    for (unsigned i = 0; i < SIM_SIZES; i++) {
        unetmm_tlb_init(&c->tlb[i], config->entries[i] / config->ways,
                        config->ways, config->victims);
        c->tlb[i].replace = config->replace;
    }
    c->seen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                    NULL);
}

void sim_init(Sim *sim, const SimConfig *config, uint32_t ncomputers,
              uint32_t nprocs)
{
    memset(sim, 0, sizeof(*sim));
    sim->config = *config;
    sim->random = config->seed;
    SIM_CHECK(ncomputers && ncomputers <= SIM_MAX_NODES);
    sim->ncomputers = ncomputers;
    for (uint32_t i = 0; i < ncomputers; i++) {
        computer_init(&sim->computers[i], config);
    }
    sim->nprocs = nprocs;
    sim->procs = g_new0(SimProc, nprocs);
    for (uint32_t i = 0; i < nprocs; i++) {
        uint32_t shared = nprocs / ncomputers;

        sim_proc_init(sim, &sim->procs[i], &sim->computers[i / shared],
                      1 + i % shared);
    }
}

void sim_free(Sim *sim)
{
    for (uint32_t i = 0; i < sim->ncomputers; i++) {
        for (unsigned k = 0; k < SIM_SIZES; k++) {
            unetmm_tlb_free(&sim->computers[i].tlb[k]);
        }
        g_hash_table_unref(sim->computers[i].seen);
    }
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        g_free(sim->procs[i].mem);
    }
    g_free(sim->procs);
}

/* A miss: is it the first that the computer has of this page? */
static bool page_is_new(SimProc *p, uint64_t vpn)
{
    uint64_t key = vpn | (uint64_t)p->space << 48;

    if (g_hash_table_contains(p->computer->seen, &key)) {
        return false;
    }
    g_hash_table_add(p->computer->seen, g_memdup2(&key, sizeof(key)));
    return true;
}

/* Looks the page up in one TLB and inserts it after a miss.  True: a hit. */
static bool tlb_ref(UnetmmTlb *tlb, SimCount *count, uint16_t space,
                    uint64_t vpn, SimDir dir)
{
    uint64_t pte = vpn << UNETMM_PAGE_SHIFT | UNETMM_PTE_VALID |
                   UNETMM_PTE_READ | UNETMM_PTE_WRITE;
    UnetmmTlbHit hit;
    uint32_t id;

    count->refs[dir]++;
    hit = unetmm_tlb_lookup(tlb, space, vpn, dir == SIM_RX, &id);
    if (hit != UNETMM_TLB_MISS) {
        count->victim_hits += hit == UNETMM_TLB_HIT_VICTIM;
        return true;
    }
    unetmm_tlb_new_batch(tlb);
    SIM_CHECK(unetmm_tlb_insert(tlb, space, vpn, pte, 0) ==
              UNETMM_TLB_INSERTED);
    return false;
}

/* One reference.  Receive buffers are looked up for writing. */
static void sim_ref(SimProc *p, uint64_t vpn, SimDir dir)
{
    bool missed[SIM_SIZES], any = false, first;

    if (p->sim->references) {
        printf("%zu %u %" PRIu64 " %c\n", p->computer - p->sim->computers,
               p->space, vpn, dir == SIM_TX ? 't' : 'r');
    }
    if (p->sim->utlb) {
        utlb_ref(p->sim->utlb, p->computer - p->sim->computers, p->space, vpn,
                 (MEM_BASE + p->used + UNETMM_PAGE_BYTES - 1) >>
                 UNETMM_PAGE_SHIFT);
    }
    for (unsigned k = 0; k < SIM_SIZES; k++) {
        missed[k] = !tlb_ref(&p->computer->tlb[k], &p->sim->count[k],
                             p->space, vpn, dir);
        any |= missed[k];
    }
    first = any && page_is_new(p, vpn);
    for (unsigned k = 0; k < SIM_SIZES; k++) {
        SimCount *count = &p->sim->count[k];

        /* A page never seen cannot be in any TLB. */
        SIM_CHECK(!first || missed[k]);
        if (missed[k]) {
            (first ? count->compulsory : count->other)[dir]++;
        }
    }
}

static void sim_refs(SimProc *p, uint64_t addr, uint64_t bytes, SimDir dir)
{
    if (!p->computer || !bytes) {
        return;
    }
    for (uint64_t vpn = addr >> UNETMM_PAGE_SHIFT;
         vpn <= (addr + bytes - 1) >> UNETMM_PAGE_SHIFT; vpn++) {
        sim_ref(p, vpn, dir);
    }
}

/* The next receive buffer; they are posted again in the order of use. */
static uint64_t sim_receive(SimProc *to)
{
    uint64_t at = to->rx + (uint64_t)(to->rx_next++ % to->sim->config.buffers)
                  * UNETMM_PAGE_BYTES;

    sim_refs(to, at, UNETMM_PAGE_BYTES, SIM_RX);
    to->sim->messages++;
    return at;
}

uint64_t sim_message(SimProc *from, SimProc *to, uint64_t addr,
                     uint32_t bytes)
{
    uint64_t at;

    SIM_CHECK(bytes <= UNETMM_PAGE_BYTES);
    sim_refs(from, addr, bytes, SIM_TX);
    at = sim_receive(to);
    memcpy(sim_ptr(to, at, bytes), sim_ptr(from, addr, bytes), bytes);
    return at;
}

static void sim_handle(SimProc *to, SimProc *from, const SimHeader *h,
                       const uint8_t *data)
{
    SimHeader done = { .op = SIM_OP_DONE };

    switch (h->op) {
    case SIM_OP_STORE:
        memcpy(sim_ptr(to, h->arg[0], h->len), data, h->len);
        if (h->arg[1]) {
            sim_call(to, from, &done);
        }
        break;
    case SIM_OP_GET:
        sim_store(to, from, h->arg[0], h->arg[1], h->arg[2]);
        break;
    case SIM_OP_DONE:
        break;
    default:
        to->sim->user(to, from, h);
    }
}

/* A header out of the page of small buffers, and data out of anywhere. */
static void sim_active(SimProc *from, SimProc *to, const SimHeader *h,
                       uint64_t src)
{
    const SimConfig *config = &from->sim->config;
    uint64_t small = from->small + SIM_SMALL * (from->small_next++ %
                     (UNETMM_PAGE_BYTES / SIM_SMALL));
    SimHeader landed;
    uint8_t *buffer;
    uint64_t at;

    memcpy(sim_ptr(from, small, sizeof(*h)), h, sizeof(*h));
    if (config->header || !h->len) {
        sim_refs(from, small, SIM_SMALL, SIM_TX);
    }
    sim_refs(from, src, h->len, SIM_TX);
    at = sim_receive(to);
    buffer = sim_ptr(to, at, UNETMM_PAGE_BYTES);
    memcpy(&landed, sim_ptr(from, small, sizeof(*h)), sizeof(*h));
    if (h->len) {
        memcpy(buffer, sim_ptr(from, src, h->len), h->len);
    }
    sim_handle(to, from, &landed, buffer);
}

void sim_call(SimProc *from, SimProc *to, const SimHeader *header)
{
    SIM_CHECK(header->len == 0);
    sim_active(from, to, header, 0);
}

void sim_store(SimProc *from, SimProc *to, uint64_t dst, uint64_t src,
               uint64_t bytes)
{
    uint32_t most = from->sim->config.payload;

    if (from == to) {
        memmove(sim_ptr(to, dst, bytes), sim_ptr(from, src, bytes), bytes);
        return;
    }
    for (uint64_t done = 0; done < bytes;) {
        uint32_t len = MIN(bytes - done, most);
        SimHeader h = { .op = SIM_OP_STORE, .len = len };

        h.arg[0] = dst + done;
        h.arg[1] = done + len == bytes;     /* the last is answered */
        sim_active(from, to, &h, src + done);
        done += len;
    }
}

void sim_get(SimProc *p, SimProc *owner, uint64_t dst, uint64_t src,
             uint64_t bytes)
{
    SimHeader h = { .op = SIM_OP_GET, .arg = { dst, src, bytes } };

    if (p == owner) {
        sim_store(p, p, dst, src, bytes);
    } else {
        sim_call(p, owner, &h);
    }
}
