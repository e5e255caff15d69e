/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kinds of memory, and the uses of each.  Each row is a test for each
 * source (kinds.c) and a line of the table in docs/pinning.rst, which
 * scripts/gen-spec-tables makes from here.
 *
 * KIND(identifier, "description", send, receive, read, write, zero)
 *
 *   send, receive   sources tlb, ktlb and utlb: messages from it, and into it
 *   read, write     source pinned: registered for reading, and for writing
 *   zero            receive with UNETMM_ZERO (tlb and ktlb)
 *
 *   YES   works: the bytes are those of the mapping
 *   PROT  UNETMM_ST_PROTECTION; REGISTER: EFAULT
 *   UNSUP UNETMM_ST_UNSUPPORTED; REGISTER: EOPNOTSUPP
 *   OLD   YES before Linux 6.5, UNSUP since; with shadow and odp YES
 *   DAX   UNSUP; with shadow and odp YES
 *   FRAMES UNSUP where the mapping is VM_PFNMAP (Linux 6.1 and 6.12), else YES (7.3)
 *
 * Where zero is not YES, source ktlb says EINVAL when it is posted.
 */
#ifndef TEST_KINDS_H
#define TEST_KINDS_H

#define KINDS(KIND) \
    KIND(anonymous, "private anonymous", YES, YES, YES, YES, YES) \
    KIND(untouched, "... never touched", YES, YES, YES, YES, YES) \
    KIND(zeropage, "... only read so far: the zero page", \
         YES, YES, YES, YES, YES) \
    KIND(readonly, "... read-only", YES, PROT, YES, PROT, PROT) \
    KIND(noaccess, "... PROT_NONE", PROT, PROT, PROT, PROT, PROT) \
    KIND(noreserve, "... MAP_NORESERVE", YES, YES, YES, YES, YES) \
    KIND(locked, "... mlock()ed", YES, YES, YES, YES, UNSUP) \
    KIND(thp, "... a transparent huge page", YES, YES, YES, YES, YES) \
    KIND(ksm, "... merged by KSM", YES, YES, YES, YES, YES) \
    KIND(uffd, "... registered with userfaultfd, resident", \
         YES, YES, YES, YES, UNSUP) \
    KIND(dontfork, "... MADV_DONTFORK", YES, YES, YES, YES, YES) \
    KIND(stack, "the stack", YES, YES, YES, YES, YES) \
    KIND(heap, "the heap", YES, YES, YES, YES, YES) \
    KIND(bss, "static, zeroed", YES, YES, YES, YES, YES) \
    KIND(data, "static, initialized: private, of a file", \
         YES, YES, YES, YES, UNSUP) \
    KIND(text, "program text", YES, PROT, YES, PROT, PROT) \
    KIND(devzero, "/dev/zero, private", YES, YES, YES, YES, YES) \
    KIND(shared, "shared anonymous", YES, YES, YES, YES, UNSUP) \
    KIND(memfd, "memfd, shared", YES, YES, YES, YES, UNSUP) \
    KIND(memfdprivate, "memfd, private", YES, YES, YES, YES, UNSUP) \
    KIND(secretmem, "memfd_secret()", UNSUP, UNSUP, UNSUP, UNSUP, UNSUP) \
    KIND(hugetlb, "MAP_HUGETLB, private", YES, YES, YES, YES, UNSUP) \
    KIND(hugetlbshared, "MAP_HUGETLB, shared", YES, YES, YES, YES, UNSUP) \
    KIND(tmpfs, "file on tmpfs, shared", YES, YES, YES, YES, UNSUP) \
    KIND(tmpfsprivate, "file on tmpfs, private", YES, YES, YES, YES, UNSUP) \
    KIND(rootfs, "file on the initramfs, shared", YES, YES, YES, YES, UNSUP) \
    KIND(ext4, "file on ext4, shared", YES, OLD, YES, OLD, UNSUP) \
    KIND(ext4private, "file on ext4, private", YES, YES, YES, YES, UNSUP) \
    KIND(ext4readonly, "file on ext4, shared, read-only", \
         YES, PROT, YES, PROT, PROT) \
    KIND(fsdax, "file on ext4 with DAX, shared", \
         DAX, DAX, UNSUP, UNSUP, UNSUP) \
    KIND(fsdaxprivate, "file on ext4 with DAX, private", \
         DAX, DAX, UNSUP, UNSUP, UNSUP) \
    KIND(devdax, "device of persistent memory (devdax)", \
         YES, YES, YES, YES, UNSUP) \
    KIND(beyond, "file, behind its end", PROT, PROT, PROT, PROT, UNSUP) \
    KIND(vdso, "vdso", YES, PROT, YES, PROT, PROT) \
    KIND(vvar, "vvar", FRAMES, PROT, FRAMES, PROT, PROT) \
    KIND(devmem, "/dev/mem: VM_PFNMAP", UNSUP, UNSUP, UNSUP, UNSUP, UNSUP) \
    KIND(queues, "an endpoint's queues", UNSUP, UNSUP, UNSUP, UNSUP, UNSUP) \
    KIND(doorbell, "an endpoint's doorbell", \
         PROT, UNSUP, PROT, UNSUP, UNSUP) \
    KIND(unmapped, "nothing", PROT, PROT, PROT, PROT, PROT)

#endif /* TEST_KINDS_H */
