/*
 * unetmm qtests: a driver small enough to break every rule on purpose
 *
 * The card's own headers are the only source of numbers.  Everything here is
 * in host byte order; the library converts where it touches guest memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_LIB_H
#define UNETMM_LIB_H

#include "libqtest.h"
#include "libqos/libqos-malloc.h"
#include "libqos/pci.h"
#include "libqos/qgraph.h"
#include "hw/net/unetmm/abi/unetmm_hw.h"
#include "hw/net/unetmm/abi/unetmm_wire.h"

/* Where tests like to have their virtual addresses: below one table page. */
#define QUNETMM_VA          0x40000ull
#define QUNETMM_PAGE        ((uint64_t)UNETMM_PAGE_BYTES)
#define QUNETMM_RW          (UNETMM_PTE_VALID | UNETMM_PTE_READ | \
                             UNETMM_PTE_WRITE)
/* The value that vector n writes to its word of memory. */
#define QUNETMM_MSI_DATA(n) (0xa5a50000u + (n))

typedef struct QUnetmmRing {
    uint64_t base;
    uint32_t log2;
    uint32_t index;             /* our side of it */
} QUnetmmRing;

typedef struct QUnetmm {
    QOSGraphObject obj;
    QPCIDevice dev;
    QGuestAllocator *alloc;
    QPCIBar regs, proxies, doorbells;
    QUnetmmRing rings[UNETMM_NUM_RINGS];
    uint64_t msi;               /* one 32-bit word for each vector */
    uint64_t list;              /* a page of translation entries */
    uint16_t tag;
    uint8_t mac[6];
} QUnetmm;

typedef struct QUnetmmEp {
    QUnetmm *card;
    uint16_t id, space;
    uint32_t log2;              /* of all three queues */
    uint64_t sq, fq, cq, index;
    uint32_t sq_prod, fq_prod, cq_cons;
} QUnetmmEp;

/*
 * Pages of guest memory with a guard page on either side and a model of their
 * expected contents.
 */
typedef struct QUnetmmBuf {
    QTestState *qts;
    uint64_t addr;              /* behind the guard */
    size_t bytes;               /* without the guards */
    uint8_t *model;             /* with the guards */
} QUnetmmBuf;

/* ---- The PCI function --------------------------------------------------- */

/* Gives a zeroed or already found function its BARs; needs bus numbers set. */
void qunetmm_init(QUnetmm *c, QPCIBus *bus, int devfn, QGuestAllocator *alloc);
/* Writes the BARs and the command register; also after FLR or reset. */
void qunetmm_enable(QUnetmm *c);
/* Enables MSI-X, every vector masked or open. */
void qunetmm_msix(QUnetmm *c, bool masked);
void qunetmm_msix_mask(QUnetmm *c, unsigned vector, bool masked);
bool qunetmm_msix_pending(QUnetmm *c, unsigned vector);
/* Was the vector delivered since the last call? */
bool qunetmm_msi_taken(QUnetmm *c, unsigned vector);
void qunetmm_flr(QUnetmm *c);

/* ---- Registers ---------------------------------------------------------- */

uint32_t qunetmm_read(QUnetmm *c, uint32_t reg);
void qunetmm_write(QUnetmm *c, uint32_t reg, uint32_t value);
uint32_t qunetmm_ring_read(QUnetmm *c, unsigned ring, uint32_t reg);
void qunetmm_ring_write(QUnetmm *c, unsigned ring, uint32_t reg,
                        uint32_t value);
uint64_t qunetmm_counter(QUnetmm *c, enum unetmm_counter counter);
uint64_t qunetmm_ep_counter(QUnetmm *c, uint32_t ep,
                            enum unetmm_counter counter);
void qunetmm_doorbell(QUnetmm *c, uint32_t ep);
/* Polls until the counter has this value; a watchdog ends the test. */
void qunetmm_wait_counter(QUnetmm *c, enum unetmm_counter counter,
                          uint64_t value);

/* ---- Card rings --------------------------------------------------------- */

void qunetmm_ring_start(QUnetmm *c, unsigned ring, uint32_t log2);
/* MSI-X open, all four rings of this size, and ENABLE. */
void qunetmm_start(QUnetmm *c, uint32_t log2);
void qunetmm_submit(QUnetmm *c, const struct unetmm_cmd *cmd);
bool qunetmm_done(QUnetmm *c, struct unetmm_cmd_done *done);
/* Submits and takes the completion, which must be there at once. */
uint8_t qunetmm_cmd(QUnetmm *c, const struct unetmm_cmd *cmd,
                    uint32_t *result);
bool qunetmm_fault(QUnetmm *c, struct unetmm_fault *fault);
bool qunetmm_notify(QUnetmm *c, struct unetmm_notify *notify);
/* Takes a miss that must be there and must want these pages. */
struct unetmm_fault qunetmm_expect_miss(QUnetmm *c, uint64_t vaddr,
                                        uint32_t npages, uint8_t flags);

/* ---- Spaces and translations -------------------------------------------- */

void qunetmm_space(QUnetmm *c, uint16_t space, uint8_t source,
                   uint8_t levels, uint64_t table);
/* A space with a one-page table, which is returned. */
uint64_t qunetmm_space_pinned(QUnetmm *c, uint16_t space);
void qunetmm_pin(QUnetmm *c, uint64_t table, uint64_t vaddr, uint64_t dma,
                 uint64_t rights, unsigned npages);
/* FAULT_REPLY with consecutive pages; the command's status. */
uint8_t qunetmm_resolve(QUnetmm *c, uint16_t space, uint32_t fault_id,
                        uint64_t vaddr, uint64_t dma, uint64_t rights,
                        unsigned npages, uint32_t tag, uint32_t *taken);
uint8_t qunetmm_reply(QUnetmm *c, uint16_t space, uint32_t fault_id,
                      uint8_t status, uint8_t error);
void qunetmm_invalidate(QUnetmm *c, uint16_t space, uint64_t first,
                        uint64_t last);
bool qunetmm_invalidate_busy(QUnetmm *c);

/* ---- Endpoints ---------------------------------------------------------- */

void qunetmm_ep_alloc(QUnetmmEp *ep, QUnetmm *c, uint16_t id, uint16_t space,
                      uint32_t log2);
struct unetmm_cmd qunetmm_ep_cmd(const QUnetmmEp *ep, uint8_t policy,
                                 uint8_t pretranslate);
/* Allocates and creates. */
void qunetmm_ep(QUnetmmEp *ep, QUnetmm *c, uint16_t id, uint16_t space,
                uint32_t log2, uint8_t policy);
uint8_t qunetmm_ep_destroy(QUnetmm *c, uint16_t id);
void qunetmm_channel(QUnetmmEp *ep, uint16_t channel, const uint8_t *mac,
                     uint16_t peer_ep, uint16_t peer_channel, uint32_t mtu);
/* Fills slots; the index is written, the doorbell is not rung. */
void qunetmm_put_sqe(QUnetmmEp *ep, const struct unetmm_sqe *sqe);
void qunetmm_put_slot(QUnetmmEp *ep, const void *slot);
void qunetmm_put_segs(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                      const struct unetmm_seg *segs, unsigned nsegs);
void qunetmm_put_inline(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                        const void *data, uint8_t len, uint8_t flags);
void qunetmm_put_fqe(QUnetmmEp *ep, const struct unetmm_fqe *fqe);
/* The same and the doorbell. */
void qunetmm_send(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                  uint64_t vaddr, uint32_t len);
void qunetmm_send_inline(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                         const void *data, uint8_t len);
void qunetmm_post(QUnetmmEp *ep, uint64_t cookie, uint64_t vaddr,
                  uint32_t len);
/* Looks at the next completion; take also tells the card. */
bool qunetmm_cqe(QUnetmmEp *ep, struct unetmm_cqe *cqe);
/* The next completion must be there and be this one. */
struct unetmm_cqe qunetmm_expect(QUnetmmEp *ep, uint8_t opcode, uint8_t status,
                                 uint64_t cookie);
void qunetmm_expect_none(QUnetmmEp *ep);
void qunetmm_arm(QUnetmmEp *ep);
struct unetmm_ep_card qunetmm_ep_card(QUnetmmEp *ep);

/* ---- Memory ------------------------------------------------------------- */

/* Bytes that tell their position and their seed. */
void qunetmm_pattern(uint8_t *data, size_t bytes, uint32_t seed);
uint64_t qunetmm_alloc(QUnetmm *c, size_t bytes);
void qunetmm_buf(QUnetmmBuf *buf, QUnetmm *c, unsigned pages, uint32_t seed);
/* From now on, data is expected at this offset. */
void qunetmm_buf_expect(QUnetmmBuf *buf, size_t offset, const void *data,
                        size_t bytes);
void qunetmm_buf_check(QUnetmmBuf *buf);
void qunetmm_buf_free(QUnetmmBuf *buf);

/* ---- Frames, and the monitor -------------------------------------------- */

/* A datagram with the right checksum; frame has room for payload. */
size_t qunetmm_frame(uint8_t *frame, const struct unetmm_frame *header,
                     const void *payload);
/* Writes the checksum of a header again. */
void qunetmm_frame_seal(uint8_t *frame);
/* An unsigned property, or a member of a property that is a structure. */
uint64_t qunetmm_qom_u64(QTestState *qts, const char *path,
                         const char *property, const char *member);
void qunetmm_qom_set(QTestState *qts, const char *path, const char *property,
                     uint64_t value);

#endif /* UNETMM_LIB_H */
