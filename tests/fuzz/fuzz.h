/*
 * unetmm: fuzzing the card's core: shared by the targets
 *
 * An input is a small program: its bytes are read one operation after another,
 * until they end.  Each target has its own operations (struct FuzzTarget in
 * fuzz-NAME.c) on a card of its own.  Without libFuzzer the same targets are
 * plain programs that run the files they are given (replay.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "fixture.h"
#include "input.h"

#define FUZZ_MAX_OPS    256             /* of one input */
#define FUZZ_EPS        4               /* endpoints 1.. */
#define FUZZ_PAGES      12              /* at FIX_VA, of each space */
#define FUZZ_REST_NS    100000000       /* at the end of an input, at most */
#define FUZZ_REST_TIMERS 500
#define FUZZ_CHECK_RESET 4              /* inputs whose length is a multiple */

/* An address of a process: mostly where something is. */
uint64_t fuzz_vaddr(FuzzIn *in);
uint32_t fuzz_len(FuzzIn *in);
/*
 * A buffer (address, length and cookie are the input's), one of 16 bits, or a
 * message.  One call in an expression reads the input, never two: which would
 * be first is the compiler's choice.
 */
void fuzz_post(FuzzIn *in, FakeEp *ep);
void fuzz_post16(FuzzIn *in, FakeEp *ep, uint64_t cookie);
void fuzz_send16(FuzzIn *in, FakeEp *ep, uint16_t channel, uint64_t cookie);

typedef struct FuzzCard {
    FakeHost h;
    FakeDriver d;
    FakeEp ep[FUZZ_EPS];
    bool lenient;               /* the driver is hostile, too */
} FuzzCard;

/* One file fills one. */
typedef struct FuzzTarget {
    bool lenient;
    bool bare;                          /* no spaces and endpoints but its own */
    void (*params)(UnetmmParams *p);    /* changes them; may be NULL */
    void (*start)(FuzzCard *c);         /* after the card; may be NULL */
    void (*op)(FuzzCard *c, FuzzIn *in);
    void (*end)(FuzzCard *c);           /* after the input; may be NULL */
} FuzzTarget;

extern const FuzzTarget fuzz_target;

/* Time passes, the driver answers, the wire calls back, completions are taken:
 * all that goes on beside any target's own operations. */
void fuzz_world_op(FuzzCard *c, FuzzIn *in);
/* A command in the ring, wherever its registers say that it is. */
void fuzz_issue(FuzzCard *c, struct unetmm_cmd cmd);
/* The driver's rings, at its usual place, card enabled. */
void fuzz_rings(FuzzCard *c, uint32_t log2);
void fuzz_take_all(FuzzCard *c);
/* Takes up to n records from the fault ring, and remembers the last of them. */
#define FUZZ_RECORDS    32
typedef struct FuzzRecords {
    struct unetmm_fault at[FUZZ_RECORDS];
    unsigned n;
} FuzzRecords;
void fuzz_read_records(FuzzCard *c, FuzzRecords *records, unsigned n);
/* A register: those that there are come more often than others.  A value for it. */
uint32_t fuzz_reg_offset(FuzzIn *in);
uint32_t fuzz_reg_value(FuzzCard *c, FuzzIn *in);
/* Any command, hardly shaped. */
void fuzz_some_command(FuzzCard *c, FuzzIn *in);

/* From now on the driver is hostile, and memory is everybody's. */
void fuzz_be_lenient(FuzzCard *c);

#endif /* FUZZ_H */
