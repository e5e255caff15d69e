/*
 * unetmm: exhaustive exploration of small states: shared by its files
 *
 * A world is a card with a TLB of two entries, two endpoints, and a model of
 * the driver and the processes that knows the results of each action.
 * explore.c visits the worlds, explore_act.c acts on one, explore_check.c has
 * its invariants, explore_hash.c tells which two are the same.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include "fixture.h"

#define X_EPS           2
#define X_PAGES         9               /* of each endpoint */
#define X_RECV_PAGE     4               /* 0..3 are sent from */
#define X_GIFT_PAGE     8               /* given unasked, never used */
#define X_MESSAGES      32
#define X_MAX_PATH      64
#define X_PAGE_NS       1000
#define X_SHORT         45              /* bytes: not inline, on one page */

/* The start of one exploration. */
typedef struct Scene {
    const char *name;
    const char *what;
    uint32_t sets, ways, victims;
    bool one_space;             /* of both endpoints */
    bool wide_sends, wide_buffers;      /* across the border of two pages */
    uint8_t fault_log2, cq_log2, policy;
    const char *start;          /* actions before the first that is explored */
    unsigned depth;             /* of a short run */
} Scene;

typedef struct XEp {
    FakeEp ep;
    bool open, closing;
    unsigned opened;            /* times */
    unsigned sent, completed;   /* this time */
    unsigned posted, returned, received;
    unsigned slots_sent, slots_posted;  /* in all */
    unsigned frames;
    bool lost;                  /* a message ended in the middle of a buffer */
} XEp;

/* A miss that the driver has read and not yet answered finally. */
typedef struct XFault {
    struct unetmm_fault f;
    bool deferred;
} XFault;

typedef struct XMessage {
    uint32_t len;
    uint8_t to;                 /* number of the endpoint's XEp */
    bool received;
} XMessage;

/* How often something may still happen on one path. */
typedef struct XLeft {
    uint8_t send[X_EPS], post[X_EPS], frame[X_EPS];
    uint8_t close, open, give, invalidate, defer, error, retry;
} XLeft;

typedef struct World {
    const Scene *scene;
    FakeHost h;
    FakeDriver d;
    XEp x[X_EPS];
    XLeft left;
    XMessage message[X_MESSAGES];
    unsigned messages;
    unsigned offered;           /* frames given by the wire */
    GArray *faults;             /* of XFault, oldest first */
    bool inv_pending;           /* the card has said busy */
    FakeSpace *inv_space;
    uint64_t inv_first, inv_last;
    unsigned deferred, errors;  /* answers given */
    UnetmmTlbEvict *evict;      /* the core's own */
} World;

extern const Scene explore_scenes[];
extern const unsigned explore_scenes_n;
extern const char *const explore_actions[];
extern const unsigned explore_actions_n;

/* ---- explore_act.c ---- */

void world_make(World *w, const Scene *scene);
void world_again(World *w);
void world_free(World *w);
bool world_may(World *w, unsigned action);
void world_do(World *w, unsigned action);
/* Lets everything come to its end: all waits are answered. */
void world_settle(World *w);
int explore_action(const char *name, size_t len);

uint64_t world_send_addr(const XEp *x, unsigned slot);
uint64_t world_buffer_addr(const XEp *x, unsigned slot);
uint32_t world_send_len(const Scene *s);
uint32_t world_buffer_len(const Scene *s);
bool world_wide(const World *w);
bool world_stale(World *w, const XFault *fault);

/* ---- explore_check.c ---- */

/* Prints why, the sequence and the way to repeat it; ends the program. */
void violation(const char *fmt, ...) G_GNUC_PRINTF(1, 2) G_GNUC_NORETURN;
#define must(cond, ...) do { \
        if (!(cond)) { \
            violation(__VA_ARGS__); \
        } \
    } while (0)

void check_completion(World *w, XEp *x, const struct unetmm_cqe *cqe);
void check_new_fault(World *w, const struct unetmm_fault *f);
/* After each action. */
void check_world(World *w);
/* When all has come to its end. */
void check_settled(World *w);

/* ---- explore_hash.c ---- */

uint64_t world_hash(World *w);

#endif /* EXPLORE_H */
