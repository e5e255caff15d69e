/*
 * unetmm: the guest's memory, as the core reaches it (UnetmmHostOps)
 *
 * A message touches rings, index blocks and translation tables about eleven
 * times, in the same few pages.  Each page of RAM that is touched gets a
 * MemoryRegionCache, so that only the first access looks for it in the address
 * space.  The caches are in a table with one place for each hash of the page
 * number.  All of them are dropped when the address space changes: hotplug, the
 * bus master bit, an IOMMU that is switched on.  Pages behind an IOMMU, and all
 * that is not RAM, are looked up each time; the table says so.
 *
 * Locking: the BQL, held by every caller.  Between a change of the address
 * space and the listener's commit the BQL is not released, so no access sees
 * a cache of the old one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "qemu/main-loop.h"
#include "shell.h"

/* Not by QOM's cast: its check would cost more than a small DMA. */
static PCIDevice *pci_of(UnetmmState *s)
{
    return &s->parent_obj;
}

static AddressSpace *memory_space(UnetmmState *s)
{
    return pci_get_address_space(pci_of(s));
}

/*
 * With attribute `memory` QEMU refuses every access to a region that is not
 * RAM, so a DMA never enters the MMIO handler of a device, our own or
 * another's, whatever address the guest or a peer makes us use.  A BAR that is
 * RAM itself (a display's frame buffer) can be read and written.
 */
static MemTxAttrs memory_attrs(UnetmmState *s)
{
    return (MemTxAttrs) {
        .memory = 1, .requester_id = pci_requester_id(pci_of(s)),
    };
}

/* ---- The caches --------------------------------------------------------- */

static void memory_forget(UnetmmCachedPage *line)
{
    if (line->live) {
        address_space_cache_destroy(&line->cache);
        line->live = false;
    }
}

static void memory_commit(MemoryListener *listener)
{
    UnetmmState *s = container_of(listener, UnetmmState, memory.listener);

    for (unsigned i = 0; i < UNETMM_CACHED_PAGES; i++) {
        memory_forget(&s->memory.lines[i]);
    }
}

/*
 * The cache of the page that has all of [addr, addr + bytes), or NULL: there is
 * no such page, or it is not RAM that may be read and written directly.
 */
static MemoryRegionCache *memory_cache(UnetmmState *s, uint64_t addr,
                                       size_t bytes)
{
    uint64_t page = addr / UNETMM_PAGE_BYTES;
    UnetmmCachedPage *line = &s->memory.lines[page % UNETMM_CACHED_PAGES];

    assert(bql_locked());
    if (addr % UNETMM_PAGE_BYTES + bytes > UNETMM_PAGE_BYTES) {
        return NULL;
    }
    if (line->live && line->page == page) {
        return line->direct ? &line->cache : NULL;
    }
    memory_forget(line);
    address_space_cache_init(&line->cache, memory_space(s),
                             page * UNETMM_PAGE_BYTES, UNETMM_PAGE_BYTES,
                             true);
    line->live = true;
    line->page = page;
    line->direct = line->cache.ptr && line->cache.len >= UNETMM_PAGE_BYTES;
    return line->direct ? &line->cache : NULL;
}

void unetmm_memory_init(UnetmmState *s)
{
    s->memory.listener = (MemoryListener) {
        .name = "unetmm", .commit = memory_commit,
    };
    memory_listener_register(&s->memory.listener, memory_space(s));
}

void unetmm_memory_exit(UnetmmState *s)
{
    memory_listener_unregister(&s->memory.listener);
    memory_commit(&s->memory.listener);
}

/* ---- Four of UnetmmHostOps ---------------------------------------------- */

bool unetmm_memory_read(void *host, uint64_t addr, void *buf, size_t bytes)
{
    UnetmmState *s = host;
    MemoryRegionCache *cache = memory_cache(s, addr, bytes);

    if (cache) {
        return address_space_read_cached(cache, addr % UNETMM_PAGE_BYTES, buf,
                                         bytes) == MEMTX_OK;
    }
    return address_space_read(memory_space(s), addr, memory_attrs(s), buf,
                              bytes) == MEMTX_OK;
}

bool unetmm_memory_write(void *host, uint64_t addr, const void *buf,
                         size_t bytes)
{
    UnetmmState *s = host;
    MemoryRegionCache *cache = memory_cache(s, addr, bytes);
    uint64_t at = addr % UNETMM_PAGE_BYTES;

    if (!cache) {
        return address_space_write(memory_space(s), addr, memory_attrs(s), buf,
                                   bytes) == MEMTX_OK;
    }
    if (address_space_write_cached(cache, at, buf, bytes) != MEMTX_OK) {
        return false;
    }
    address_space_cache_invalidate(cache, at, bytes);
    return true;
}

/*
 * An aligned write of 4 bytes to RAM is one store in every libc that QEMU runs
 * on; address_space_stl_le() would be one by contract but goes to MMIO too.
 */
bool unetmm_memory_store32(void *host, uint64_t addr, uint32_t value)
{
    value = cpu_to_le32(value);
    return unetmm_memory_write(host, addr, &value, sizeof(value));
}

/*
 * On the memory itself, as the processors do it: RAM alone can be had like
 * that, and is checked for, since a mapping of anything else is a copy.
 */
bool unetmm_memory_cmpxchg64(void *host, uint64_t addr, uint64_t *old,
                             uint64_t value)
{
    UnetmmState *s = host;
    AddressSpace *as = memory_space(s);
    MemTxAttrs attrs = memory_attrs(s);
    hwaddr len = sizeof(value), at;
    uint64_t expected = cpu_to_le64(*old);
    MemoryRegion *mr;
    uint64_t *word;

    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(as, addr, &at, &len, true, attrs);
    if (len < sizeof(value) || !memory_access_is_direct(mr, true, attrs)) {
        return false;
    }
    word = address_space_map(as, addr, &len, true, attrs);
    if (!word) {
        return false;
    }
    if (len < sizeof(value)) {
        address_space_unmap(as, word, len, true, 0);
        return false;
    }
    *old = le64_to_cpu(qatomic_cmpxchg__nocheck(word, expected,
                                                cpu_to_le64(value)));
    address_space_unmap(as, word, len, true, sizeof(value));
    return true;
}
