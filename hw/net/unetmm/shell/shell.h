/*
 * unetmm: the device as QEMU sees it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_QDEV_H
#define UNETMM_QDEV_H

#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "qom/object.h"
#include "system/runstate.h"
#include "../card/core.h"
#include "../timing/timing.h"

#define UNETMM_CACHED_PAGES     64

/* A page of RAM that has been found in the address space; shell/memory.c. */
typedef struct UnetmmCachedPage {
    bool live;
    bool direct;                /* RAM that `cache` reaches */
    uint64_t page;              /* its DMA address in pages */
    MemoryRegionCache cache;
} UnetmmCachedPage;

typedef struct UnetmmMemory {
    MemoryListener listener;    /* drops all of them when memory changes */
    UnetmmCachedPage lines[UNETMM_CACHED_PAGES];
} UnetmmMemory;

#define TYPE_UNETMM "unetmm"
OBJECT_DECLARE_SIMPLE_TYPE(UnetmmState, UNETMM)

struct UnetmmState {
    PCIDevice parent_obj;

    /* properties */
    NICConf conf;
    UnetmmParams params;
    UnetmmKnobs knobs;
    char *tlb_index;
    char *tlb_replace;
    char *congestion;
    char *timing_text;

    /* run time */
    NICState *nic;
    MemoryRegion control;       /* BAR 0: regs, and MSI-X */
    MemoryRegion regs;
    MemoryRegion proxies;
    MemoryRegion doorbells;
    MemoryRegion windows;       /* their memory; params.window_pages of it */
    QEMUTimer *timer;
    QEMUTimer *later_timer;     /* stands in for the bottom half with icount */
    QEMUBH *later_bh;
    VMChangeStateEntry *vm_change;
    GByteArray *incoming;       /* the saved card, until all has been read */
    UnetmmMemory memory;
    bool timed;                 /* `timing` is between the core and us */
    UnetmmTiming timing;
    QEMUTimer *effects_timer;
    struct NetTxPkt *tx_pkt;    /* of one frame at a time */
    struct NetRxPkt *rx_pkt;
    UnetmmCore core;
};

/* shell/memory.c; after the PCI function is there.  Four of UnetmmHostOps. */
void unetmm_memory_init(UnetmmState *s);
void unetmm_memory_exit(UnetmmState *s);
bool unetmm_memory_read(void *host, uint64_t addr, void *buf, size_t bytes);
bool unetmm_memory_write(void *host, uint64_t addr, const void *buf,
                         size_t bytes);
bool unetmm_memory_store32(void *host, uint64_t addr, uint32_t value);
bool unetmm_memory_cmpxchg64(void *host, uint64_t addr, uint64_t *old,
                             uint64_t value);

/* shell/offload.c; two of UnetmmHostOps */
void unetmm_offload_init(UnetmmState *s);
void unetmm_offload_exit(UnetmmState *s);
bool unetmm_offload(void *host, uint8_t *frame, size_t bytes, uint32_t mss,
                    void (*out)(void *opaque, const uint8_t *frame,
                                size_t bytes), void *opaque);
bool unetmm_offload_checksum_ok(void *host, const uint8_t *frame,
                                size_t bytes);

/* shell/vmstate.c */
extern const VMStateDescription unetmm_vmstate;

/* shell/qom.c: every property, its help text, and the values that QOM shows. */
void unetmm_class_properties(ObjectClass *class);
void unetmm_knobs_init(UnetmmKnobs *knobs);
/*
 * Params and the steps' costs from properties.  False: errp has one sentence
 * for the user.
 */
bool unetmm_properties_check(UnetmmState *s, UnetmmCosts *costs, Error **errp);

#endif /* UNETMM_QDEV_H */
