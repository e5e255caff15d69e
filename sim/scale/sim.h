/*
 * unetmm: hosts with cards in a simulated network: the interface for the network
 *
 * A host (struct Host) is a node of sim/node with memory of its own and the
 * program of a workload.  The network's side, sim/ns3, is C++: so this header
 * has no type of the card.  The network's side makes one Config and one host for
 * each number, and gives each its events and frames back in the order of their time.
 * A host has no state that another host can reach.
 *
 * Not thread-safe.  Times are picoseconds since the begin of the run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SIM_SCALE_SIM_H
#define SIM_SCALE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Config Config;
typedef struct Host Host;

/* config.c: hosts, switches, links, routes, costs and the workload's values */

/*
 * Reads lines to the end, and a trace for workload replay (replay.c has its form)
 * if there is one; NULL, and *why is one sentence, to be freed.
 */
Config *config_read(FILE *from, FILE *trace, char **why);
void config_free(Config *c);
/* Prints the parameters and workloads with their texts, as lines of JSON. */
void config_list(FILE *to);
unsigned config_hosts(const Config *c);
unsigned config_switches(const Config *c);
unsigned config_links(const Config *c);
/* Ends of a link: hosts come first, then switches. */
unsigned config_end(const Config *c, unsigned link, unsigned side);
int64_t config_delay(const Config *c, unsigned link);
/* The run ends at this time at the latest. */
int64_t config_until(const Config *c);
/* The link by which a switch passes the frame on; -1: to nobody. */
int config_next(const Config *c, unsigned which, const uint8_t *frame,
                size_t bytes);
int64_t config_switch_delay(const Config *c);
/*
 * parts.c: of `n` ranks, up to as many as there are hosts, the one of each host,
 * and behind these of each switch; to be freed.
 */
unsigned *config_ranks(const Config *c, unsigned n);

/* wire.c: one direction of a link, a queue before it */
typedef struct Wire Wire;

typedef enum WireFate { WIRE_GOES, WIRE_FULL, WIRE_LOST } WireFate;

typedef struct WireCounts {
    uint64_t frames, bytes;     /* that the wire has carried */
    uint64_t full, lost;        /* dropped: the queue was full, by the loss */
    uint64_t gone;              /* bytes of these */
    uint64_t most;              /* bytes that waited, at most */
    int64_t busy;               /* time in which the wire had a frame */
} WireCounts;

Wire *wire_new(const Config *c, unsigned link, unsigned side);
void wire_free(Wire *w);
/*
 * At `now` a frame is there.  If it goes, its first bit is on the wire at
 * *begins, and its last bit at the other end at *there.
 */
WireFate wire_take(Wire *w, int64_t now, size_t bytes, int64_t *begins,
                   int64_t *there);
const WireCounts *wire_counts(const Wire *w);

/* host.c */
typedef struct HostOps {
    /* host_event(host, event) at that time, after events made before. */
    void (*at)(void *port, int64_t when, void *event);
    /* The card's frame has left it at that time, which may be after now. */
    void (*frame)(void *port, int64_t when, const void *frame, size_t bytes);
} HostOps;

Host *host_new(const Config *c, unsigned number, const HostOps *ops,
               void *port);
void host_free(Host *h);
/* Once, before all events, when every host has been made. */
void host_start(Host *h);
void host_event(Host *h, void *event);
/* A frame's last bit is at the card. */
void host_frame(Host *h, int64_t now, const void *frame, size_t bytes);
/* Prints the host's counts and times as one line of JSON. */
void host_print(const Host *h, FILE *to);

#ifdef __cplusplus
}
#endif

#endif /* SIM_SCALE_SIM_H */
