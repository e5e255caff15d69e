/*
 * unetmm: a host for the core: flat memory, a clock, a wire, no QEMU.
 *
 * Memory is one stretch of RAM with rights for each single byte.  An access of
 * the card to a byte without the right fails the test on the spot, unless the
 * test said that the bus refuses (`refuse`) or that strays are harmless
 * (`lenient`: they are refused and counted).  So "nothing else in memory
 * changed" is checked at every single access.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include <stdio.h>
#include "abi/unetmm_host.h"
#include "card/core.h"
#include "ether/ether.h"
#include "port/port.h"
#include "reliable/reliable.h"
#include "ring/ring.h"
#include "source/source.h"
#include "abi/unetmm_le.h"
#include "../one_test.h"

#define FAKE_RAM_BASE   0x7000000000ull
#define FAKE_RAM_BYTES  (8u << 20)
#define FAKE_GUARD      128             /* bytes without rights round an area */
#define FAKE_PAGE       UNETMM_PAGE_BYTES

#define FAKE_SLOTS      32              /* of a system buffer, at most */
#define FAKE_WINDOWS    4               /* pages; as many proxy pages */

#define FAKE_R          1
#define FAKE_W          2
#define FAKE_RW         3

typedef struct FakeFrame {
    size_t bytes;
    uint8_t data[];
} FakeFrame;

typedef struct FakeHost FakeHost;

struct FakeHost {
    UnetmmCore core;
    bool made;
    size_t ram_bytes;
    uint8_t *ram;
    uint8_t *rights;            /* one byte for each byte of RAM */
    uint8_t *before;            /* fake_host_snapshot() */
    uint64_t next;              /* bump allocator */
    uint64_t next_page;         /* pages are given from the top down */

    uint64_t refuse_first, refuse_last; /* the bus refuses accesses to it */
    bool lenient;
    bool unchecked;             /* a benchmark: any byte of RAM may be used */
    uint64_t strays;            /* refused because of `lenient` */
    bool spoilt;                /* the test has changed the core itself */
    uint64_t reads, writes;

    int64_t now;
    int64_t timer;
    unsigned timer_runs;
    unsigned interrupts[UNETMM_NUM_VECTORS];
    unsigned offloads;          /* asked for; the last one's: */
    uint32_t offload_mss;
    bool offload_fails;         /* from now on */
    bool checksums_ok;
    unsigned later;             /* run_later asked and not yet run */
    unsigned later_total;
    bool stuck;                 /* fake_may_migrate() runs nothing of it */
    unsigned may_receive;
    unsigned warned;
    /* Of this host, so that a test does the same alone as behind others. */
    unsigned migrations;
    unsigned accesses;          /* since the last migration by UNETMM_MIGRATE */
    unsigned bounds_checked;    /* migrations with this additional check */

    uint8_t windows[FAKE_WINDOWS * FAKE_PAGE];  /* behind BAR 4 */

    GPtrArray *wire;            /* of FakeFrame, in the order sent */
    UnetmmSent answer;          /* to the next frames */
    bool keep_refused;          /* record refused frames too */
    /* Called inside the core's own accesses, on its stack. */
    bool (*may_access)(FakeHost *host, uint64_t addr);  /* false: refused */
    void (*on_send)(FakeHost *host, const uint8_t *frame, size_t bytes);
    void (*on_store)(FakeHost *host, uint64_t addr);
    void (*on_read)(FakeHost *host, uint64_t addr, size_t bytes);
    void (*on_write)(FakeHost *host, uint64_t addr, size_t bytes);
    void (*on_atomic)(FakeHost *host, uint64_t addr);
    void (*on_may_receive)(FakeHost *host);
    void *opaque;
};

/* Sensible small values; tests change some. */
void fake_params(UnetmmParams *p);
/* params NULL: those of fake_params(). */
void fake_host_init(FakeHost *host, const UnetmmParams *params);
/* With so many bytes of RAM in place of FAKE_RAM_BYTES. */
void fake_host_init_large(FakeHost *host, const UnetmmParams *params,
                          size_t bytes);
/*
 * As new, without new memory: memory of fake_alloc() and fake_page() is zero
 * and without rights again.  For tests that need a host a thousand times a
 * second.
 */
void fake_host_again(FakeHost *host, const UnetmmParams *params);
void fake_host_free(FakeHost *host);

/* An area of its own, aligned, zeroed, between guards without any right. */
uint64_t fake_alloc(FakeHost *host, size_t bytes, size_t align,
                    uint8_t rights);
/* One page without rights; never two neighbours in the order of asking. */
uint64_t fake_page(FakeHost *host);
void fake_rights(FakeHost *host, uint64_t addr, size_t bytes, uint8_t rights);

/* The guest's processor: no rights asked, but inside RAM. */
void *fake_ptr(FakeHost *host, uint64_t addr, size_t bytes);
void fake_write(FakeHost *host, uint64_t addr, const void *buf, size_t bytes);
void fake_read(FakeHost *host, uint64_t addr, void *buf, size_t bytes);

/* Under the memory sanitizer, ends the test if a byte is undefined. */
void fake_check_defined(const void *buf, size_t bytes);
void fake_write32(FakeHost *host, uint64_t addr, uint32_t v);
uint32_t fake_read32(FakeHost *host, uint64_t addr);

/* Remembers all of RAM; later: the same but for [addr, addr + bytes). */
void fake_snapshot(FakeHost *host);
void fake_expect_only(FakeHost *host, uint64_t addr, size_t bytes);

/*
 * Saves the card, makes a new one and restores it there; nobody else notices,
 * and saving again gives the same bytes.
 */
void fake_migrate(FakeHost *host);
/*
 * The events between two accesses from outside: the main loop comes round, if
 * the card has asked for that only to have a new budget (`stuck`: it does not);
 * UNETMM_MIGRATE=n in the environment: fake_migrate() at each n-th of them.
 */
void fake_may_migrate(FakeHost *host);
/* Resets the card: then it is saved like a new one, but for its counters. */
void fake_check_reset(FakeHost *host);
/* The numbers that the card keeps of its objects are right. */
void fake_check_counts(const UnetmmCore *core);
/*
 * Each endpoint with work is in the queue for a turn: none waits for an event
 * that does not come.  fake_may_migrate() asks each time.
 */
void fake_check_work(FakeHost *host);

uint32_t fake_reg(FakeHost *host, uint32_t offset);
void fake_set_reg(FakeHost *host, uint32_t offset, uint32_t value);
uint64_t fake_counter(FakeHost *host, enum unetmm_counter counter);
uint64_t fake_ep_counter(FakeHost *host, uint32_t ep,
                         enum unetmm_counter counter);

/* Lets the clock run; timers fire at their time.  Returns how many did. */
unsigned fake_advance(FakeHost *host, int64_t ns);
/* Runs work left for later until there is none. */
unsigned fake_run_later(FakeHost *host);

FakeFrame *fake_wire_at(FakeHost *host, unsigned n);
void fake_wire_clear(FakeHost *host);

/*
 * The seed of this run: UNETMM_SEED, or 1; scripts/test chooses one.
 * The first use prints the command that repeats the run.
 */
uint64_t fake_seed(void);
uint32_t fake_random(uint64_t *state);
/* Byte `i` of message number `n`: depends on both. */
uint8_t fake_pattern(uint32_t n, uint64_t i);

/* A number stands in the list twice, as only a damaged stream has it. */
static inline void twice(UnetmmList *list, uint16_t number)
{
    list->first = 0;
    list->used = 2;
    list->numbers[0] = list->numbers[1] = number;
}

/* A counter has moved by exactly so much while `stmt` ran. */
#define expect_count(host, name, n, stmt) do { \
        uint64_t before_ = fake_counter(host, UNETMM_C_##name); \
        stmt; \
        assert_int_equal(fake_counter(host, UNETMM_C_##name) - before_, n); \
    } while (0)

#endif /* FAKE_HOST_H */
