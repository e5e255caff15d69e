/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lwIP's network interface: a raw endpoint and a ring of receive buffers.
 *
 * Nothing here was touched before the first frame comes: the ring is cold.  With
 * source odp neither it nor the store is pinned; the endpoint's policy, drop or
 * backup, decides about absent buffers.  With source pinned all that the process
 * may ever hand to the card is registered, as a hypervisor does for a guest of which
 * it knows no better: ring, sending slots and store.
 *
 * A frame is copied out of its buffer, which goes back at once.  lwIP could refer to
 * the buffer instead, but keeps segments out of order until the gap is filled: a
 * sender that leaves gaps would hold the ring, and with a small one the segment that
 * fills the gap would find no buffer.  So the ring always has all its buffers but
 * those of one turn of the loop.
 */
#include "kv_port.h"

#include <inttypes.h>
#include <sys/mman.h>

#include <lwip/etharp.h>
#include <netif/ethernet.h>

#define SEND_SLOTS      256u
#define SLOT_BYTES      2048u
#define BATCH           32u
#define FROM_SLOT       (1ull << 32)    /* user_data of frames from slots */

static struct {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    struct netif *netif;
    uint8_t mac[6];
    uint8_t *ring, *slots;
    uint32_t buffers;
    uint32_t unused[SEND_SLOTS], nunused;
    uint64_t received, sent, returned, no_slot, no_memory;
} port;

/* ---- Sending ------------------------------------------------------------- */

static void copy_out(const struct pbuf *p, void *to)
{
    pbuf_copy_partial(p, to, p->tot_len, 0);
}

/* ERR_MEM: lwIP keeps a segment of TCP and tries again. */
static err_t send_frame(struct netif *netif, struct pbuf *p)
{
    struct iovec iov = { .iov_len = p->tot_len };
    uint8_t small[UNETMM_MAX_INLINE];
    uint32_t slot;
    int ret;

    (void)netif;
    if (p->tot_len > KV_FRAME) {
        return ERR_BUF;
    }
    if (p->tot_len <= sizeof(small)) {
        copy_out(p, small);
        iov.iov_base = small;
        ret = unetmm_send_frame(port.ep, &iov, 1, 0, 0, UNETMM_INLINE |
                                UNETMM_UNSIGNALED | UNETMM_MORE);
        port.sent += !ret;
        return ret ? ERR_MEM : ERR_OK;
    }
    if (!port.nunused) {
        port.no_slot++;
        return ERR_MEM;
    }
    slot = port.unused[port.nunused - 1];
    iov.iov_base = port.slots + (size_t)slot * SLOT_BYTES;
    copy_out(p, iov.iov_base);
    ret = unetmm_send_frame(port.ep, &iov, 1, 0, FROM_SLOT | slot,
                            UNETMM_MORE);
    if (ret) {
        return ERR_MEM;
    }
    port.nunused--;
    port.sent++;
    return ERR_OK;
}

err_t kv_port_netif(struct netif *netif)
{
    port.netif = netif;
    netif->name[0] = 'u';
    netif->name[1] = 'n';
    netif->mtu = KV_FRAME - UNETMM_ETH_HEADER;
    netif->hwaddr_len = sizeof(port.mac);
    memcpy(netif->hwaddr, port.mac, sizeof(port.mac));
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP |
                   NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
    netif->output = etharp_output;
    netif->linkoutput = send_frame;
    return ERR_OK;
}

/* ---- Receiving ----------------------------------------------------------- */

static void post(uint32_t n)
{
    /* There is room: the queue is as long as the ring. */
    int ret = unetmm_post_recv(port.ep, port.ring + (size_t)n * UNETMM_PAGE_BYTES,
                               UNETMM_PAGE_BYTES, n, UNETMM_MORE);

    if (ret) {
        fail_call(ret, UNETMM_CALL_POST, "cannot post a buffer");
    }
}

static void give(const void *frame, uint32_t length)
{
    struct pbuf *p;

    /*
     * Not PBUF_POOL: in Debian 12's liblwip the pool's elements have 592 bytes of
     * data, and pbuf_alloc() takes them for 1536.
     */
    p = length <= UINT16_MAX ? pbuf_alloc(PBUF_RAW, (u16_t)length, PBUF_RAM) :
                               NULL;
    if (!p) {
        port.no_memory++;
        return;
    }
    port.received++;
    pbuf_take(p, frame, (u16_t)length);
    if (port.netif->input(p, port.netif) != ERR_OK) {
        pbuf_free(p);
    }
}

static void on_completion(const struct unetmm_completion *c)
{
    uint32_t n = (uint32_t)c->user_data;

    if (c->type == UNETMM_CQE_RECEIVED && c->is_inline) {
        if (c->len <= sizeof(c->data)) {
            give(c->data, c->len);
        }
    } else if (c->type == UNETMM_CQE_RECEIVED && n < port.buffers) {
        if (!c->status && c->len <= UNETMM_PAGE_BYTES) {
            give(port.ring + (size_t)n * UNETMM_PAGE_BYTES, c->len);
        }
        post(n);
    } else if (c->type == UNETMM_CQE_BUFFER && n < port.buffers) {
        /* It came back empty: the page could not be had. */
        port.returned++;
        post(n);
    } else if (c->type == UNETMM_CQE_SENT && c->user_data & FROM_SLOT &&
               n < SEND_SLOTS && port.nunused < SEND_SLOTS) {
        port.unused[port.nunused++] = n;
    }
}

int kv_port_wait(int64_t timeout_ns)
{
    struct unetmm_completion c[BATCH];
    int n, i;

    n = unetmm_wait(port.ep, c, BATCH, timeout_ns);
    for (i = 0; i < n; i++) {
        on_completion(&c[i]);
    }
    /* One doorbell for all posted buffers and frames. */
    return n < 0 && n != -EINTR ? n : unetmm_ring(port.ep);
}

/* ---- From first to last -------------------------------------------------- */

static uint8_t *fresh(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED) {
        fail("no memory for %zu bytes of buffers", bytes);
    }
    /* EINVAL: a kernel without huge pages.  One would warm many buffers. */
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

static void pin(void *memory, size_t bytes, const char *what)
{
    int ret = unetmm_register(port.ctx, memory, bytes, UNETMM_REGION_WRITE);

    if (ret) {
        fail_call(ret, UNETMM_CALL_REGISTER, what);
    }
}

static uint32_t power_of_two(uint32_t least)
{
    uint32_t n = 16;

    while (n < least) {
        n *= 2;
    }
    return n;
}

static void make_endpoint(const struct kv_options *opt)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_flow_attr flow = UNETMM_FLOW_ATTR_INIT;
    int ret;

    attr.flags = UNETMM_EP_RAW;
    attr.policy = opt->policy == KV_BACKUP ? UNETMM_POLICY_BACKUP :
                                             UNETMM_POLICY_DROP;
    attr.backup = opt->policy == KV_BACKUP ? opt->backup : 0;
    attr.free_depth = power_of_two(opt->ring);
    attr.completion_depth = power_of_two(opt->ring + SEND_SLOTS + BATCH);
    attr.send_slots = 4 * SEND_SLOTS;
    attr.spin_ns = opt->spin_ns;
    ret = unetmm_ep_create(port.ctx, &attr, &port.ep);
    if (ret) {
        fail_call(ret, UNETMM_CALL_EP_CREATE, "cannot create a raw endpoint");
    }
    flow.kind = UNETMM_FLOW_MAC;
    flow.flags = UNETMM_FLOW_F_BROADCAST | UNETMM_FLOW_F_SOURCE;
    memcpy(flow.mac, opt->mac, sizeof(flow.mac));
    ret = unetmm_flow_add(port.ep, &flow);
    if (ret < 0) {
        fail_call(ret, UNETMM_CALL_FLOW, "cannot add the flow");
    }
}

void kv_port_open(const struct kv_options *opt, void *store, size_t bytes)
{
    bool pinned = opt->policy == KV_PINNED;
    size_t ring_bytes = (size_t)opt->ring * UNETMM_PAGE_BYTES;
    int ret;

    ret = unetmm_open(opt->device, pinned ? UNETMM_SOURCE_PINNED :
                                            UNETMM_SOURCE_ODP, &port.ctx);
    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, "cannot open the card");
    }
    memcpy(port.mac, opt->mac, sizeof(port.mac));
    port.buffers = opt->ring;
    port.ring = fresh(ring_bytes);
    port.slots = fresh(SEND_SLOTS * SLOT_BYTES);
    while (port.nunused < SEND_SLOTS) {
        port.unused[port.nunused] = SEND_SLOTS - 1 - port.nunused;
        port.nunused++;
    }
    if (pinned) {
        pin(port.ring, ring_bytes, "the ring cannot be pinned");
        pin(port.slots, SEND_SLOTS * SLOT_BYTES,
            "the sending slots cannot be pinned");
        pin(store, bytes, "the store cannot be pinned");
    }
    make_endpoint(opt);
    for (uint32_t n = 0; n < port.buffers; n++) {
        post(n);
    }
    unetmm_ring(port.ep);
}

void kv_port_close(void)
{
    unetmm_ep_destroy(port.ep);
    unetmm_close(port.ctx);
    munmap(port.ring, (size_t)port.buffers * UNETMM_PAGE_BYTES);
    munmap(port.slots, SEND_SLOTS * SLOT_BYTES);
}

/* ---- Counters ------------------------------------------------------------ */

/* The endpoint's, behind the port's own; with a prefix against equal names. */
const char *kv_port_counter(unsigned n, uint64_t *value)
{
    const struct {
        const char *name;
        uint64_t value;
    } own[] = {
        { "received", port.received },
        { "sent", port.sent },
        { "returned", port.returned },
        { "no_slot", port.no_slot },
        { "no_memory", port.no_memory },
    };
    static uint64_t values[UNETMM_NUM_COUNTERS];
    static const char *const wanted[] = {
        "eth_rx_frames", "drop_absent", "drop_no_buffer", "backup_packets",
        "backup_landed", "backup_failed", "backup_held", "drop_backup_bits",
        "drop_backup_ring",
    };
    const unsigned count = sizeof(own) / sizeof(own[0]);
    const char *name;
    unsigned i;

    if (n < count) {
        *value = own[n].value;
        return own[n].name;
    }
    n -= count;
    if (n >= sizeof(wanted) / sizeof(wanted[0])) {
        return NULL;
    }
    if (!n && unetmm_stats_read(port.ctx, UNETMM_SCOPE_ENDPOINT,
                                (unsigned)unetmm_ep_id(port.ep), values,
                                UNETMM_NUM_COUNTERS) < 0) {
        return NULL;
    }
    for (i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        name = unetmm_stats_name(UNETMM_SCOPE_ENDPOINT, i, NULL);
        if (name && !strcmp(name, wanted[n])) {
            *value = values[i];
            return name;
        }
    }
    *value = 0;
    return wanted[n];
}
