/*
 * unetmm: stores that become messages: automatic update by windows, user-level
 * DMA start by proxy pages
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_STORE_H
#define UNETMM_STORE_H

#include "../channel/channel.h"
#include "../remote/remote.h"

#define UNETMM_MAX_COMBINE_NS   1000000000

/* Stores that go together: a packet to be; store/window.c. */
struct UnetmmUpdate {
    UnetmmUpdate *next;
    uint32_t region, key;       /* of the import at that time */
    uint64_t remote;
    uint16_t import;
    uint16_t len;
    uint8_t data[UNETMM_MAX_INLINE];
};

/* Stores to windows that their channel has not taken over. */
typedef struct UnetmmStores {
    UnetmmRel *rel;             /* the channel that they go to */
    uint16_t ep;                /* whose that is */
    bool open;                  /* the last one may get more, until ... */
    int64_t due_ns;
    UnetmmUpdate *first, *last;
} UnetmmStores;

/* A page of the windows' BAR; store/window.c. */
typedef struct UnetmmWindow {
    bool live;
    uint16_t ep;
    uint16_t import;            /* of that endpoint */
    uint16_t combine_bytes;
    uint32_t combine_ns;
    uint64_t offset;            /* in the import, of its first byte */
} UnetmmWindow;

/* A proxy page; store/proxy.c. */
typedef struct UnetmmProxy {
    uint8_t kind;               /* 0: none */
    uint16_t ep;
    uint16_t import;
    uint64_t at;
} UnetmmProxy;

/* Half a start: where to, and how much.  The card has one, as SHRIMP's. */
typedef struct UnetmmStart {
    bool live;
    uint16_t ep;
    uint16_t import;
    uint64_t offset;
    uint64_t len;
} UnetmmStart;

/* Automatic update and user-level DMA start */
struct UnetmmStore {
    UnetmmWindow *windows;      /* params.window_pages of them */
    UnetmmStores **waiting;     /* of each reliable channel, or NULL */
    uint32_t updates, shared;   /* packets of stores that wait */
    UnetmmProxy *proxies;       /* params.proxy_pages of them */
    UnetmmStart start;
    int64_t due_ns;             /* no packet of stores has to go before */
};

/* store/proxy.c */
/* The checks of PROXY_SET, but whether the pages are free. */
uint8_t unetmm_proxy_check(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_proxy *cmd);
uint8_t unetmm_proxy_set(UnetmmCore *core, uint16_t id,
                         const struct unetmm_cmd_proxy *cmd);
/* The send that two stores begin is not begun. */
void unetmm_proxy_abort(UnetmmCore *core);
uint8_t unetmm_proxy_clear(UnetmmCore *core,
                           const struct unetmm_cmd_proxy *cmd);
/* A store to a proxy page, its first byte at `offset` of them, and a load. */
void unetmm_proxy_store(UnetmmCore *core, uint64_t offset, uint64_t value);
uint32_t unetmm_proxy_load(UnetmmCore *core, uint64_t offset);

/* store/window.c */
/* The checks of WINDOW_SET, but whether pages and import are free. */
uint8_t unetmm_window_check(UnetmmCore *core, uint16_t id,
                            const struct unetmm_cmd_window *cmd);
uint8_t unetmm_window_set(UnetmmCore *core, uint16_t id,
                          const struct unetmm_cmd_window *cmd);
uint8_t unetmm_window_clear(UnetmmCore *core,
                            const struct unetmm_cmd_window *cmd);
/* Clears all windows of the import.  UnetmmModule.import_end. */
void unetmm_window_drop_import(UnetmmCore *core, UnetmmEp *ep,
                               uint16_t import);
/* 1..8 bytes have been stored in the windows, from this byte of theirs on. */
void unetmm_window_store(UnetmmCore *core, uint32_t offset,
                         const uint8_t *data, unsigned bytes);
/*
 * All stores go before the next message.  False: the channel has no
 * room for all of it now.
 */
bool unetmm_window_flush(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s);
/* The channel has room for messages again: it gets the stores that wait. */
void unetmm_window_go_on(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s);
void unetmm_window_forget(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s);
/* The stores of one channel that wait. */
void unetmm_stores_save(UnetmmStream *st, UnetmmCore *core, UnetmmStores *s);

#endif /* UNETMM_STORE_H */
