/*
 * unetmm: exhaustive exploration of the backup ring: shared by its files
 *
 * A world is a card with one endpoint of policy backup, its process, its driver
 * and the reference (explore_backup_ref.c).  explore_backup.c visits the
 * worlds, explore_backup_act.c acts on one and compares.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef EXPLORE_BACKUP_H
#define EXPLORE_BACKUP_H

#include "fake_driver.h"
#include "explore_backup_ref.h"

#define XB_VA           0x10000ull      /* a table of one level reaches it */
#define XB_PAGES        4               /* a slot's page: slot modulo size */
#define XB_BUFFERS      4
#define XB_BYTES        64
#define XB_RECORDS      16
#define XB_PAGE_NS      1000

typedef struct XbScene {
    const char *name;
    uint8_t size_log2, bits, buffers;
    bool lazy_driver;           /* reads a fault ring of 2 when it likes */
    bool lazy_process;          /* takes from a queue of 2 when it likes */
    bool failures;              /* the driver gives up memory */
    bool tail;                  /* TAIL_ARM */
    bool slow;                  /* landing takes time */
    bool longer;                /* only when asked */
} XbScene;

/* A packet in the backup ring. */
typedef struct XbRecord {
    uint32_t slot, bit, packet, index;
    uint8_t buffer;
} XbRecord;

/* All but the card and the memory: plain, to be copied. */
typedef struct XbState {
    Ref ref;
    bool present[XB_PAGES];
    XbRecord records[XB_RECORDS];       /* in the order of reports */
    uint8_t nrecords;
    uint8_t nread;              /* of these: the driver has seen */
    uint8_t ring[XB_BUFFERS];   /* buffers in the card's ring, in order */
    uint8_t nring;
    uint32_t used;              /* index of the first of these */
    uint8_t pool;               /* bit n: the driver has buffer n */
    bool flying;                /* a packet is landing */
    bool armed, told;
    uint32_t armed_slot;
    uint32_t packets, taken;    /* arrived; completions taken */
    uint32_t no_bit, no_buffer, no_report, no_place;    /* dropped */
    uint32_t fq_prod, cq_cons, index[UNETMM_NUM_RINGS];
    uint16_t tag;
} XbState;

typedef struct XbWorld {
    const XbScene *scene;
    FakeHost h;
    FakeDriver d;
    FakeSpace *s;
    FakeEp e;
    uint64_t buffers[XB_BUFFERS];
    uint64_t pages[XB_PAGES];
    XbState st;
} XbWorld;

extern const char *const xb_actions[];
extern const unsigned xb_actions_n;

void xb_make(XbWorld *w, const XbScene *scene);
void xb_free(XbWorld *w);
bool xb_may(const XbWorld *w, unsigned action);
/* Does it, here and in the reference, and compares all that can be seen. */
void xb_do(XbWorld *w, unsigned action);
/* Answers for packets not in the ring are refused, and change nothing. */
void xb_forge(XbWorld *w);
/* All comes to its end: all that was taken is shown. */
void xb_settle(XbWorld *w);
uint64_t xb_hash(const XbWorld *w);

/* Prints why, and the sequence; ends the program. */
void xb_violation(const char *fmt, ...) G_GNUC_PRINTF(1, 2) G_GNUC_NORETURN;
#define xb_must(cond, ...) do { \
        if (!(cond)) { \
            xb_violation(__VA_ARGS__); \
        } \
    } while (0)

#endif /* EXPLORE_BACKUP_H */
