/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Windows of automatic update, and proxy pages of user-level DMA start: pages
 * of the card that the process maps.
 *
 * They belong to the endpoint, and so to its thread.  The list is here only so
 * that a window can be closed by its address, and with its endpoint.
 */
#include "remote.h"

#include <stdlib.h>

struct unetmm_mapped {
    struct unetmm_mapped *next;
    void *memory;
    size_t bytes;
    uint32_t id;
};

static int window_close(const struct unetmm_ep_private *ep, uint32_t id)
{
    return unetmm_object_end(ep->ctx, UNETMM_OBJECT_WINDOW, ep->id, id, 0);
}

/* Has the driver make the pages, maps them, and remembers them. */
static int window_open(struct unetmm_ep_private *ep, int protection,
                       struct unetmm_window *request, void **memory)
{
    struct unetmm_mapped *mapped = sys_calloc(1, sizeof(*mapped));
    uint64_t least = request->length;
    int ret;

    if (!mapped) {
        return -ENOMEM;
    }
    request->size = sizeof(*request);
    request->endpoint = ep->id;
    ret = sys_ioctl(ep->ctx->fd, UNETMM_IOC_WINDOW, request);
    if (ret < 0) {
        free(mapped);
        return ret;
    }
    ret = request->map_bytes < least ? -EPROTO :
        sys_mmap(&mapped->memory, request->map_bytes, protection, MAP_SHARED,
                 ep->ctx->fd, request->map);
    if (ret) {
        window_close(ep, request->id);
        free(mapped);
        return ret;
    }
    mapped->bytes = request->map_bytes;
    mapped->id = request->id;
    mapped->next = ep->windows;
    ep->windows = mapped;
    *memory = mapped->memory;
    return 0;
}

/* Whole pages, at least one. */
static int window_length(size_t bytes, __u64 *length)
{
    if (!bytes || bytes > SIZE_MAX - (UNETMM_PAGE_BYTES - 1)) {
        return -EINVAL;
    }
    *length = (bytes + UNETMM_PAGE_BYTES - 1) &
              ~(uint64_t)(UNETMM_PAGE_BYTES - 1);
    return 0;
}

int unetmm_window_open(struct unetmm_ep *pub, int import, uint64_t offset,
                       size_t bytes, const struct unetmm_window_attr *given,
                       void **window)
{
    struct unetmm_window_attr attr = UNETMM_WINDOW_ATTR_INIT;
    struct unetmm_window request;
    int ret = 0;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (given) {
        ret = sized_read(&attr, sizeof(attr),
                         SIZED_UP_TO(struct unetmm_window_attr, combine_ns),
                         given);
    }
    if (ret || attr.combine_bytes > UINT16_MAX) {
        return ret ? ret : -EINVAL;
    }
    request = (struct unetmm_window) {
        .kind = UNETMM_WINDOW_UPDATE, .import = (uint32_t)import, .at = offset,
        .length = bytes, .combine_bytes = (uint16_t)attr.combine_bytes,
        .combine_ns = attr.combine_ns,
    };
    return window_open(unetmm_ep_private(pub), PROT_READ | PROT_WRITE,
                       &request, window);
}

static int udma_open(struct unetmm_ep *pub, struct unetmm_window request, size_t bytes,
                     int protection, void **place)
{
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    /* We cannot pin ahead for a transfer that a store and a load start. */
    if (unetmm_ep_private(pub)->utlb) {
        return -EOPNOTSUPP;
    }
    ret = window_length(bytes, &request.length);
    return ret ? ret : window_open(unetmm_ep_private(pub), protection, &request, place);
}

int unetmm_udma_to(struct unetmm_ep *ep, int import, uint64_t offset, size_t bytes, void **to)
{
    return udma_open(ep, (struct unetmm_window) {
        .kind = UNETMM_WINDOW_TO, .import = (uint32_t)import, .at = offset,
    }, bytes, PROT_WRITE, to);
}

int unetmm_udma_from(struct unetmm_ep *ep, void *memory, size_t bytes, void **from)
{
    return udma_open(ep, (struct unetmm_window) {
        .kind = UNETMM_WINDOW_FROM, .at = (uintptr_t)memory,
    }, bytes, PROT_READ, from);
}

/*
 * The mapping goes first: behind a closed window lies a page that nobody reads, and
 * a thread that still stores must get a fault instead.
 */
static int mapped_end(const struct unetmm_ep_private *ep,
                      struct unetmm_mapped *mapped)
{
    int ret;

    sys_munmap(mapped->memory, mapped->bytes);
    ret = window_close(ep, mapped->id);
    free(mapped);
    return ret < 0 ? ret : 0;
}

int unetmm_window_close(struct unetmm_ep *pub, void *window)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_mapped **link = &ep->windows;
    struct unetmm_mapped *mapped;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    while (*link && (*link)->memory != window) {
        link = &(*link)->next;
    }
    mapped = *link;
    if (!mapped) {
        return -ENOENT;
    }
    *link = mapped->next;
    return mapped_end(ep, mapped);
}

void unetmm_windows_end(struct unetmm_ep_private *ep)
{
    while (ep->windows) {
        struct unetmm_mapped *mapped = ep->windows;

        ep->windows = mapped->next;
        mapped_end(ep, mapped);
    }
}

/* ---- Stores ------------------------------------------------------------ */

/*
 * The widest stores that are aligned there.  volatile: the compiler may
 * neither join them (wider ones are not the card's to understand) nor leave out
 * one that another follows.
 */
void unetmm_window_copy(void *window, const void *from, size_t bytes)
{
    uintptr_t to = (uintptr_t)window;
    const unsigned char *at = from;

    while (bytes) {
        size_t step = bytes >= 8 && to % 8 == 0 ? 8 :
                      bytes >= 4 && to % 4 == 0 ? 4 :
                      bytes >= 2 && to % 2 == 0 ? 2 : 1;
        uint64_t wide;
        uint32_t word;
        uint16_t half;

        if (step == 8) {
            memcpy(&wide, at, sizeof(wide));
            *(volatile uint64_t *)to = wide;
        } else if (step == 4) {
            memcpy(&word, at, sizeof(word));
            *(volatile uint32_t *)to = word;
        } else if (step == 2) {
            memcpy(&half, at, sizeof(half));
            *(volatile uint16_t *)to = half;
        } else {
            *(volatile uint8_t *)to = *at;
        }
        to += step;
        at += step;
        bytes -= step;
    }
}
