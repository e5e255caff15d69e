/*
 * unetmm: receiving: the pieces of memory that a message goes to, their pages
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "recv.h"

void unetmm_recv_whole(UnetmmPlacement *place, uint64_t addr, uint32_t len)
{
    place->npieces = len ? 1 : 0;
    place->pieces[0] = (UnetmmPiece) { .addr = addr, .len = len };
}

void unetmm_recv_parts(UnetmmPlacement *place, const UnetmmPart *parts,
                       uint32_t nparts, uint32_t at, uint32_t len)
{
    uint32_t from = 0;

    place->npieces = 0;
    for (uint32_t i = 0; i < nparts && from < len; i++) {
        uint32_t skip = MIN(at, parts[i].len);
        uint32_t n = MIN(parts[i].len - skip, len - from);

        at -= skip;
        if (n) {
            place->pieces[place->npieces++] = (UnetmmPiece) {
                .addr = parts[i].addr + skip, .len = n, .from = from,
            };
        }
        from += n;
    }
}

/* Adds the pages of a piece that are not in the list yet. */
static uint32_t recv_list_pages(const UnetmmPiece *piece, uint64_t *vpns,
                                uint32_t n)
{
    uint32_t npages = unetmm_pte_pages(piece->addr, piece->len);

    for (uint32_t i = 0; i < npages; i++) {
        uint64_t vpn = (piece->addr >> UNETMM_PAGE_SHIFT) + i;
        uint32_t j = 0;

        while (j < n && vpns[j] != vpn) {
            j++;
        }
        if (j == n && n < UNETMM_MAX_BUF_PAGES) {
            vpns[n++] = vpn;
        }
    }
    return n;
}

bool unetmm_recv_fits(UnetmmCore *core, UnetmmEp *ep,
                      const UnetmmPlacement *place)
{
    const UnetmmSourceOps *source = unetmm_space_of(core, ep)->source;
    uint64_t vpns[UNETMM_MAX_BUF_PAGES];
    uint32_t n = 0;

    if (!source->tlb || source->tlb_shift) {
        return true;
    }
    for (uint32_t p = 0; p < place->npieces; p++) {
        n = recv_list_pages(&place->pieces[p], vpns, n);
    }
    return unetmm_tlb_fits(source->tlb(core), unetmm_user(ep)->space, vpns, n);
}

/* Pages from vpn on, up to `limit`, that are not translated. */
static uint32_t recv_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             uint32_t limit)
{
    UnetmmPage page;
    uint32_t n = 1;

    while (n < limit && unetmm_space_lookup(core, ep, vpn + n, true, &page) ==
           UNETMM_XLAT_MISS) {
        n++;
    }
    return n;
}

UnetmmXlat unetmm_recv_hold(UnetmmCore *core, UnetmmEp *ep,
                            UnetmmPlacement *place, uint64_t *vpn,
                            uint32_t *npages)
{
    uint32_t held = 0;

    for (uint32_t p = 0; p < place->npieces; p++) {
        const UnetmmPiece *piece = &place->pieces[p];
        uint32_t n = unetmm_pte_pages(piece->addr, piece->len);

        for (uint32_t i = 0; i < n; i++, held++) {
            UnetmmXlat result;

            *vpn = (piece->addr >> UNETMM_PAGE_SHIFT) + i;
            result = unetmm_space_lookup(core, ep, *vpn, true,
                                         &place->pages[held]);
            if (result != UNETMM_XLAT_OK) {
                unetmm_pages_release(core, place->pages, 0, held);
                if (result == UNETMM_XLAT_MISS &&
                    !unetmm_recv_fits(core, ep, place)) {
                    unetmm_count(core, ep, UNETMM_C_tlb_too_small, 1);
                    return UNETMM_XLAT_ERROR;
                }
                *npages = result == UNETMM_XLAT_MISS ?
                          recv_missing(core, ep, *vpn, n - i) : 0;
                return result;
            }
            unetmm_page_hold(&place->pages[held]);
        }
    }
    place->npages = held;
    return UNETMM_XLAT_OK;
}
