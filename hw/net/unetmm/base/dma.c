/*
 * unetmm: the DMA engine's access to guest memory: all but MSI-X messages
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "base.h"

static void dma_refused(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                        size_t bytes)
{
    unetmm_count(core, ep, UNETMM_C_err_dma, 1);
    UNETMM_GUEST_ERR(dma, "DMA of %zu bytes at 0x%" PRIx64 " refused", bytes,
                     addr);
}

bool unetmm_dma_read(UnetmmCore *core, UnetmmEp *ep, uint64_t addr, void *buf,
                     size_t bytes)
{
    if (core->ops->mem_read(core->host, addr, buf, bytes)) {
        return true;
    }
    dma_refused(core, ep, addr, bytes);
    return false;
}

bool unetmm_dma_write(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                      const void *buf, size_t bytes)
{
    if (core->ops->mem_write(core->host, addr, buf, bytes)) {
        return true;
    }
    dma_refused(core, ep, addr, bytes);
    return false;
}

bool unetmm_dma_cmpxchg(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                        uint64_t *old, uint64_t value)
{
    if (core->ops->mem_cmpxchg64(core->host, addr, old, value)) {
        return true;
    }
    dma_refused(core, ep, addr, sizeof(value));
    return false;
}

bool unetmm_dma_post(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                     const void *entry, size_t bytes)
{
    size_t body = bytes - sizeof(uint32_t);
    uint32_t last;

    memcpy(&last, (const uint8_t *)entry + body, sizeof(last));
    if (!core->ops->mem_write(core->host, addr, entry, body)) {
        dma_refused(core, ep, addr, bytes);
        return false;
    }
    /* Pairs with the reader's acquire after it has seen the phase. */
    smp_wmb();
    unetmm_le_u32(&last);
    if (!core->ops->mem_store32(core->host, addr + body, last)) {
        dma_refused(core, ep, addr + body, sizeof(last));
        return false;
    }
    return true;
}

uint32_t unetmm_dma_test(UnetmmCore *core, uint32_t op, uint64_t addr,
                         uint32_t n)
{
    uint8_t buf[UNETMM_PAGE_BYTES];

    if (n == 0 || n > sizeof(buf)) {
        return UNETMM_TEST_DMA_FAILED;
    }
    switch (op) {
    case UNETMM_TEST_DMA_FILL:
        for (uint32_t i = 0; i < n; i++) {
            buf[i] = i;
        }
        break;
    case UNETMM_TEST_DMA_INVERT:
        if (!unetmm_dma_read(core, NULL, addr, buf, n)) {
            return UNETMM_TEST_DMA_FAILED;
        }
        for (uint32_t i = 0; i < n; i++) {
            buf[i] = ~buf[i];
        }
        break;
    default:
        return UNETMM_TEST_DMA_FAILED;
    }
    if (!unetmm_dma_write(core, NULL, addr, buf, n)) {
        return UNETMM_TEST_DMA_FAILED;
    }
    return 0;
}
