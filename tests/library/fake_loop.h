/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver and a card in one process, whose endpoints talk to each other: for
 * objects of the library that have peers.  The driver takes over the system calls
 * on files named /loop.  The endpoints share one address; a service leads to one of them.
 *
 * A thread carries their posts, one operation at a time and in order, so that a
 * test can stop an endpoint behind any of its operations.
 */
#ifndef FAKE_LOOP_H
#define FAKE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#define LOOP_ENDPOINTS  8u
#define LOOP_CHANNELS   80u
#define LOOP_IMPORTS    80u
#define LOOP_EXPORTS    16u

/* The number of the endpoint that was made last, from 0 on. */
unsigned loop_newest(void);

/*
 * From now on so many operations of the endpoint are carried, and then none;
 * UINT64_MAX: all.  loop_carried(): how many were, since it exists.
 */
void loop_allow(unsigned endpoint, uint64_t operations);
uint64_t loop_carried(unsigned endpoint);

/* A carried message, by its number from 0 on: the last LOOP_LOG are known. */
#define LOOP_LOG        512u
struct loop_operation {
    uint8_t opcode;
    bool quiet, is_inline, count;
    uint32_t slots, len;
    uint64_t offset;            /* of one-sided ones */
    uint32_t end;               /* of its slots */
};
struct loop_operation loop_operation(unsigned endpoint, uint64_t number);

/* Slots of its send queue that hold nothing which is still to be carried */
uint32_t loop_room(unsigned endpoint);

/* The endpoint's process dies: its channels end, and nothing of it goes out. */
void loop_kill(unsigned endpoint);

/* The next `number` questions for an export are not answered. */
void loop_silence_imports(unsigned number);

/* The questions for exports since it was opened: how many, and for how long the longest may wait. */
struct loop_questions {
    unsigned number;
    uint64_t longest_ns;
};
struct loop_questions loop_questions(void);

/*
 * The page of the next export does not come, from its export on; false: all pages do.
 * One export at a time.
 */
void loop_hide_export(bool on);

/* All connections to accept are put off, until `on` is false. */
void loop_hide_connections(bool on);

/*
 * The call after the next `after` calls on the device fails with `error`; 0: none
 * does.  True: one has.
 */
void loop_fail(unsigned after, int error);
bool loop_has_failed(void);

/* Called with each request, by the thread that makes it; NULL: nothing is. */
extern void (*loop_hook)(unsigned long request);

/* Open files, mappings, endpoints, exports and counters not given back */
unsigned loop_leaks(void);

#endif /* FAKE_LOOP_H */
