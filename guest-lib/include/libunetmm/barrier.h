/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory barriers of the fast path, named by their purpose.
 *
 * The card is another observer of the queues' memory.  Each barrier below says
 * which access of the card it pairs with; unetmm_user.h has the card's half.
 * Queue memory is ordinary cacheable memory, the doorbell is device memory.
 *
 * x86-64 only.  There a device sees the stores of a processor to cacheable memory in
 * program order, as other processors do, so that the language's fences are enough.
 * Elsewhere they order accesses among processors alone: arm64 wants DMB OSH*, riscv
 * fences with I and O, and nobody has tried either with the card.
 */
#ifndef LIBUNETMM_BARRIER_H
#define LIBUNETMM_BARRIER_H

#include <libunetmm/helper.h>

#ifndef __x86_64__
#error "libunetmm is for x86-64: build it there, or write barriers towards a device for this processor in barrier.h"
#endif

/*
 * Between filling descriptors and storing the producer index that covers them.
 * Pairs with the card reading the index before the descriptors.
 */
UNETMM_HELPER_ void unetmm_to_card_barrier(void)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/*
 * Between a read of the phase bit (or a consumer index) and reads of the entries
 * that it covers.  Pairs with the card, which writes the word with the phase last.
 */
UNETMM_HELPER_ void unetmm_from_card_barrier(void)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
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
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * Between storing a producer index and writing the doorbell.  The processor already
 * orders stores to cacheable memory before a later store to uncached memory; only
 * the compiler needs a barrier.
 */
UNETMM_HELPER_ void unetmm_doorbell_barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

/* In a loop that spins: leaves execution units to the other hardware thread. */
UNETMM_HELPER_ void unetmm_relax(void)
{
    __builtin_ia32_pause();
}

#endif /* LIBUNETMM_BARRIER_H */
