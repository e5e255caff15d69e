/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory barriers of the fast path, named by their purpose.
 *
 * The card is another observer of the queues' memory.  Each barrier below says
 * which access of the card it pairs with; unetmm_user.h has the card's half.
 * Queue memory is ordinary cacheable memory, the doorbell is device memory.
 *
 * x86-64: a device sees the stores of a processor to cacheable memory in program order,
 * as other processors do, so that the language's fences are enough.  arm64: those fences
 * order accesses among processors, in the inner shareable domain; a device is in the outer
 * one, which needs DMB OSH, as the kernel's dma_wmb() and dma_rmb() are.
 * tests/model/litmus.py reads the column of arm64, and tries each protocol with it.
 *
 * riscv64 has its full fence, of memory and devices, in place of each; s390x orders memory
 * as x86-64 does.  On these two the library has run with the card's core in one process alone.
 */
#ifndef LIBUNETMM_BARRIER_H
#define LIBUNETMM_BARRIER_H

#include <libunetmm/helper.h>

#if defined(__x86_64__)
#define UNETMM_FENCE_(x86, arm64) x86
#define UNETMM_PAUSE_() __builtin_ia32_pause()
#elif defined(__s390x__)
#define UNETMM_FENCE_(x86, arm64) x86
#define UNETMM_PAUSE_() ((void)0)
#elif defined(__riscv) && __riscv_xlen == 64
#define UNETMM_FENCE_(x86, arm64) __asm__ volatile("fence iorw, iorw" ::: "memory")
#define UNETMM_PAUSE_() ((void)0)
#elif defined(__aarch64__)
#define UNETMM_FENCE_(x86, arm64) __asm__ volatile("dmb " arm64 ::: "memory")
#define UNETMM_PAUSE_() __asm__ volatile("yield" ::: "memory")
#else
#error "libunetmm is for x86-64, arm64, riscv64 and s390x: write barriers towards a device for this processor in barrier.h"
#endif

/*
 * Between filling descriptors and storing the producer index that covers them.
 * Pairs with the card reading the index before the descriptors.
 */
UNETMM_HELPER_ void unetmm_to_card_barrier(void)
{
    UNETMM_FENCE_(__atomic_thread_fence(__ATOMIC_RELEASE), "osh");
}

/*
 * Between a read of the phase bit (or a consumer index) and reads of the entries
 * that it covers.  Pairs with the card, which writes the word with the phase last.
 */
UNETMM_HELPER_ void unetmm_from_card_barrier(void)
{
    UNETMM_FENCE_(__atomic_thread_fence(__ATOMIC_ACQUIRE), "oshld");
}

/*
 * Between storing cq_arm and looking at the completion queue again: a store
 * must be visible before a later load is made, which only a full barrier
 * gives.  Pairs with the card's full barrier between writing a completion and
 * reading cq_arm: at least one of the two sees the other's store, so that no
 * wake-up is lost.
 */
UNETMM_HELPER_ void unetmm_arm_barrier(void)
{
    UNETMM_FENCE_(__atomic_thread_fence(__ATOMIC_SEQ_CST), "osh");
}

/*
 * Between storing a producer index and writing the doorbell.  x86-64 already orders stores
 * to cacheable memory before a later store to uncached memory; only the compiler needs a
 * barrier there.
 */
UNETMM_HELPER_ void unetmm_doorbell_barrier(void)
{
    UNETMM_FENCE_(__asm__ volatile("" ::: "memory"), "oshst");
}

/* In a loop that spins: leaves execution units to the other hardware thread. */
UNETMM_HELPER_ void unetmm_relax(void)
{
    UNETMM_PAUSE_();
}

#endif /* LIBUNETMM_BARRIER_H */
