/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-frames: how many Ethernet frames a second go from one host to another, by
 * raw endpoints or by the rings of a packet socket.
 *
 * The listening side counts: sent frames that nobody has received are no rate.  Both
 * kinds send and receive with the same numbers of buffers, and look into every frame
 * as much: at its type.
 */
#include "common.h"
#include "row.h"

#include <libunetmm/inline.h>

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_TYPE      0x88b6          /* for experiments */
#define DEPTH           1024            /* buffers of each side */
#define ROOM            2048            /* bytes of one */
#define BATCH           64              /* frames told of at once */
#define SILENCE_NS      (2 * NS_PER_S)  /* then no more frames come */

static const char doc[] =
"Sends Ethernet frames as fast as it can to the host that listens, and counts\n"
"there how many come in a second.\v"
"Raw endpoints need CAP_NET_RAW, as packet sockets do.\n"
"\n"
"Example: between two hosts\n"
"    unetmm-frames --listen\n"
"    unetmm-frames 02:00:00:00:f0:01";

struct frames {
    const char *device, *interface;
    bool listen, json;
    uint8_t own[6], to[6];
    bool has_own;
    uint32_t size, seconds, timeout;
    unsigned source, policy;
};

struct tally {
    uint64_t frames, first_ns, last_ns;
};

static void count_frame(struct tally *tally, const uint8_t *frame, uint32_t n,
                        uint64_t now)
{
    if (n < ETH_HLEN || frame[12] != FRAME_TYPE >> 8 ||
        frame[13] != (FRAME_TYPE & 0xff)) {
        return;
    }
    if (!tally->frames++) {
        tally->first_ns = now;
    }
    tally->last_ns = now;
}

/* Has all come that will?  The clock is looked at where nothing is there. */
static bool is_over(const struct frames *f, const struct tally *tally,
                    uint64_t began)
{
    uint64_t now = now_ns();

    return tally->frames ? now - tally->last_ns > SILENCE_NS :
           now - began > f->timeout * NS_PER_S;
}

static void make_frame(const struct frames *f, uint8_t *frame)
{
    memset(frame, 0x5a, f->size);
    memcpy(frame, f->to, 6);
    memcpy(frame + 6, f->own, 6);
    frame[12] = FRAME_TYPE >> 8;
    frame[13] = FRAME_TYPE & 0xff;
}

/* ---- Raw endpoints ------------------------------------------------------- */

static struct unetmm_ep *raw_open(const struct frames *f,
                                  struct unetmm_ctx **ctx)
{
    struct unetmm_flow_attr flow = UNETMM_FLOW_ATTR_INIT;
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_ep *ep;
    int ret = unetmm_open(f->device, f->source, ctx);

    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, f->device);
    }
    attr.flags = UNETMM_EP_RAW;
    attr.policy = f->listen ? f->policy : UNETMM_POLICY_DROP;
    attr.send_slots = 2 * DEPTH;
    attr.free_depth = DEPTH;
    attr.completion_depth = 4 * DEPTH;
    ret = unetmm_ep_create(*ctx, &attr, &ep);
    if (ret) {
        fail_call(ret, UNETMM_CALL_EP_CREATE, "cannot create an endpoint");
    }
    flow.kind = UNETMM_FLOW_MAC;
    flow.flags = UNETMM_FLOW_F_SOURCE;
    memcpy(flow.mac, f->own, sizeof(flow.mac));
    ret = unetmm_flow_add(ep, &flow);
    if (ret < 0) {
        fail_call(ret, UNETMM_CALL_FLOW, "cannot add the flow");
    }
    return ep;
}

static uint8_t *buffers(void)
{
    void *at = mmap(NULL, DEPTH * ROOM, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED) {
        fail("no memory for buffers");
    }
    return at;
}

static void raw_post(struct unetmm_ep *ep, uint8_t *own, uint64_t i)
{
    int ret = unetmm_post_recv(ep, own + i * ROOM, ROOM, i, UNETMM_MORE);

    if (ret) {
        fail_call(ret, UNETMM_CALL_POST, "cannot post");
    }
}

static void raw_listen(const struct frames *f, struct tally *tally)
{
    struct unetmm_completion c[BATCH];
    uint64_t began = now_ns(), i;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep = raw_open(f, &ctx);
    uint8_t *own = buffers();
    int n, k;

    if (f->source == UNETMM_SOURCE_PINNED) {
        n = unetmm_register(ctx, own, DEPTH * ROOM, UNETMM_REGION_WRITE);
        if (n) {
            fail_call(n, UNETMM_CALL_REGISTER, "cannot register");
        }
    }
    for (i = 0; i < DEPTH; i++) {
        raw_post(ep, own, i);
    }
    do {
        uint64_t now;

        n = unetmm_wait(ep, c, BATCH, NS_PER_S / 10);
        if (n < 0 && n != -EINTR) {
            fail_call(n, UNETMM_CALL_POLL, "cannot receive");
        }
        now = n > 0 ? now_ns() : 0;
        for (k = 0; k < n; k++) {
            if (c[k].type == UNETMM_CQE_RECEIVED) {
                count_frame(tally, own + c[k].user_data * ROOM, c[k].len, now);
            }
            raw_post(ep, own, c[k].user_data);
        }
    } while (n > 0 || !is_over(f, tally, began));
    unetmm_ep_destroy(ep);
    unetmm_close(ctx);
}

/* Short frames are copied into the queue, as any message is. */
static uint64_t raw_send(const struct frames *f)
{
    uint64_t sent = 0, end = now_ns() + f->seconds * NS_PER_S;
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep = raw_open(f, &ctx);
    uint8_t *own = buffers();
    struct iovec iov = { own, f->size };
    unsigned in_batch = 0;

    make_frame(f, own);
    if (f->source == UNETMM_SOURCE_PINNED) {
        unetmm_register(ctx, own, DEPTH * ROOM, 0);
    }
    while (sent % BATCH || now_ns() < end) {
        int ret;

        in_batch = (in_batch + 1) % BATCH;
        ret = unetmm_send_frame(ep, &iov, 1, 0, 0, UNETMM_UNSIGNALED |
                                (in_batch ? UNETMM_MORE : 0));
        if (!ret) {
            sent++;
        } else if (ret != -EAGAIN) {
            fail_call(ret, UNETMM_CALL_SEND, "cannot send");
        }
        if (ret == -EAGAIN && unetmm_poll(ep, &c, 1) > 0) {
            fail("a frame was not sent: %s", unetmm_status_str(c.status));
        }
    }
    unetmm_ring(ep);
    unetmm_ep_destroy(ep);
    unetmm_close(ctx);
    return sent;
}

/* ---- Packet sockets ------------------------------------------------------ */

static int packet_open(struct frames *f, int version)
{
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(FRAME_TYPE),
        .sll_ifindex = (int)if_nametoindex(f->interface),
    };
    int fd = socket(AF_PACKET, SOCK_RAW, htons(FRAME_TYPE));
    struct ifreq request = { 0 };

    if (fd < 0) {
        fail("cannot open a packet socket: %s", strerror(errno));
    }
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", f->interface);
    if (!address.sll_ifindex || ioctl(fd, SIOCGIFHWADDR, &request) ||
        setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version,
                   sizeof(version)) ||
        bind(fd, (struct sockaddr *)&address, sizeof(address))) {
        fail("%s: %s", f->interface, strerror(errno));
    }
    memcpy(f->own, request.ifr_hwaddr.sa_data, 6);
    return fd;
}

static uint8_t *packet_ring(int fd, int which, const void *request, size_t len)
{
    void *at;

    if (setsockopt(fd, SOL_PACKET, which, request, (socklen_t)len)) {
        fail("no ring: %s", strerror(errno));
    }
    at = mmap(NULL, DEPTH * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        fail("no ring: %s", strerror(errno));
    }
    return at;
}

#define BLOCK_BYTES     (BATCH * ROOM)
#define BLOCKS          (DEPTH / BATCH)

/* All frames of one block. */
static void packet_block(struct tally *tally,
                         const struct tpacket_block_desc *block)
{
    const struct tpacket3_hdr *head = (const void *)
        ((const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);
    uint64_t now = now_ns();
    uint32_t i;

    for (i = 0; i < block->hdr.bh1.num_pkts; i++) {
        const uint8_t *at = (const uint8_t *)head;

        count_frame(tally, at + head->tp_mac, head->tp_snaplen, now);
        head = (const void *)(at + head->tp_next_offset);
    }
}

/* Version 3: the kernel gives blocks of many frames. */
static void packet_listen(struct frames *f, struct tally *tally)
{
    struct tpacket_req3 request = {
        .tp_block_size = BLOCK_BYTES, .tp_block_nr = BLOCKS,
        .tp_frame_size = ROOM, .tp_frame_nr = DEPTH, .tp_retire_blk_tov = 10,
    };
    int fd = packet_open(f, TPACKET_V3);
    uint8_t *ring = packet_ring(fd, PACKET_RX_RING, &request, sizeof(request));
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    uint64_t began = now_ns();
    unsigned at = 0;

    for (;;) {
        struct tpacket_block_desc *block = (void *)(ring + at * BLOCK_BYTES);

        if (__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
            TP_STATUS_USER) {
            packet_block(tally, block);
            __atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL,
                             __ATOMIC_RELEASE);
            at = (at + 1) % BLOCKS;
        } else if (poll(&entry, 1, 100) <= 0 && is_over(f, tally, began)) {
            break;
        }
    }
    close(fd);
}

/* Version 2: one system call for a batch. */
static uint64_t packet_send(struct frames *f)
{
    struct tpacket_req request = {
        .tp_block_size = BLOCK_BYTES, .tp_block_nr = BLOCKS,
        .tp_frame_size = ROOM, .tp_frame_nr = DEPTH,
    };
    int fd = packet_open(f, TPACKET_V2);
    uint8_t *ring = packet_ring(fd, PACKET_TX_RING, &request, sizeof(request));
    uint64_t sent = 0, end = now_ns() + f->seconds * NS_PER_S;

    while (sent % BATCH || now_ns() < end) {
        struct tpacket2_hdr *head = (void *)(ring + sent % DEPTH * ROOM);
        uint8_t *frame = (uint8_t *)head + TPACKET2_HDRLEN -
            sizeof(struct sockaddr_ll);

        if (__atomic_load_n(&head->tp_status, __ATOMIC_ACQUIRE) !=
            TP_STATUS_AVAILABLE) {
            /* Waits for frames on their way. */
            send(fd, NULL, 0, 0);
            continue;
        }
        make_frame(f, frame);
        head->tp_len = f->size;
        __atomic_store_n(&head->tp_status, TP_STATUS_SEND_REQUEST,
                         __ATOMIC_RELEASE);
        if (++sent % BATCH == 0) {
            send(fd, NULL, 0, MSG_DONTWAIT);
        }
    }
    send(fd, NULL, 0, 0);
    close(fd);
    return sent;
}

/* ---- Output -------------------------------------------------------------- */

static void print_json(const struct frames *f, uint64_t n, double rate)
{
    bool backup = !f->interface && f->policy == UNETMM_POLICY_BACKUP;
    json_t *row = row_new();
    char mode[64];

    snprintf(mode, sizeof(mode), "%s%s",
             f->interface ? f->interface : source_name(f->source),
             backup ? ", backup" : "");
    row_text(row, "peer", f->interface ? "packet ring" : "raw endpoint");
    row_text(row, "mode", mode);
    row_text(row, "metric", "frames");
    row_count(row, "bytes", f->size);
    row_count(row, "frame", f->size);
    row_real(row, "median", rate, 0);
    row_add(row, "p99", json_null());
    row_count(row, "n", n);
    row_text(row, "unit", "frames/s");
    row_print(row);
}

static void print_tally(const struct frames *f, const struct tally *tally)
{
    double seconds = (double)(tally->last_ns - tally->first_ns) / NS_PER_S;
    double rate = seconds > 0 ? (double)(tally->frames - 1) / seconds : 0;

    if (tally->frames < 2) {
        fail("no frames came: start the sender, and compare the addresses");
    }
    if (f->json) {
        print_json(f, tally->frames, rate);
    } else {
        printf("%" PRIu64 " frames of %u bytes in %.2f s: %.0f a second\n",
               tally->frames, f->size, seconds, rate);
    }
}

/* ---- Options ------------------------------------------------------------- */

enum { OPT_JSON = 256, OPT_POLICY, OPT_SOURCE, OPT_TIMEOUT };

static const struct argp_option options[] = {
    { "listen", 'l', NULL, 0, "count frames, until none has come for 2 s", 0 },
    { "interface", 'i', "NAME", 0, "packet sockets with rings on this interface, in "
      "place of raw endpoints", 0 },
    { "mac", 'm', "MAC", 0, "own address of the raw endpoint (02:00:00:00:f0:01 to "
      "listen, else 02:00:00:00:f0:02)", 0 },
    { "device", 'd', "FILE", 0, "card of raw endpoints (" UNETMM_DEFAULT_DEVICE ")",
      0 },
    { "size", 's', "BYTES", 0, "length of a frame, 64 to 1514 (64)", 0 },
    { "time", 't', "SECONDS", 0, "how long to send (3)", 0 },
    { "policy", OPT_POLICY, "NAME", 0, "drop or backup, of the listener (backup)", 0 },
    { "source", OPT_SOURCE, "NAME", 0, "tlb, shadow, odp or pinned (odp)", 0 },
    { "timeout", OPT_TIMEOUT, "SECONDS", 0,
      "how long to wait for the first frame (60)", 0 },
    { "json", OPT_JSON, NULL, 0, "the listener prints a JSON object", 0 },
    { 0 }
};

#define POLICIES \
    (OPTION_BIT(UNETMM_POLICY_DROP) | OPTION_BIT(UNETMM_POLICY_BACKUP))

static void set_option(void *opaque, int key, const char *text)
{
    struct frames *f = opaque;

    switch (key) {
    case 'd': f->device = text; break;
    case 'i': f->interface = text; break;
    case OPT_JSON: f->json = true; break;
    case 'l': f->listen = true; break;
    case 'm':
        card_word(text, f->own);
        f->has_own = true;
        break;
    case OPT_POLICY: f->policy = policy_option(text, POLICIES); break;
    case 's': f->size = number32_option("size", text, 64, 1514); break;
    case OPT_SOURCE: f->source = source_option(text, OPTION_DEVICE_SOURCES); break;
    case 't': f->seconds = number32_option("time", text, 1, 3600); break;
    case OPT_TIMEOUT:
        f->timeout = number32_option("timeout", text, 1, 3600);
        break;
    }
}

static void parse(struct frames *f, int argc, char **argv)
{
    static const struct command_line line = {
        .name = "unetmm-frames", .words = "MAC\n--listen", .doc = doc,
        .options = options, .set = set_option,
    };
    int next = parse_words(&line, f, argc, argv);

    if (argc - next != !f->listen) {
        usage_error("give either --listen or the address of the listener");
    }
    if (!f->listen) {
        card_word(argv[next], f->to);
    }
    if (!f->has_own) {
        memcpy(f->own, "\x02\x00\x00\x00\xf0", 5);
        f->own[5] = f->listen ? 1 : 2;
    }
    if (f->source == UNETMM_SOURCE_PINNED) {
        f->policy = UNETMM_POLICY_DROP;
    }
}

int main(int argc, char **argv)
{
    struct frames f = {
        .device = UNETMM_DEFAULT_DEVICE, .size = 64, .seconds = 3,
        .timeout = 60, .source = UNETMM_SOURCE_ODP,
        .policy = UNETMM_POLICY_BACKUP,
    };
    struct tally tally = { 0 };

    parse(&f, argc, argv);
    if (!f.listen) {
        uint64_t sent = f.interface ? packet_send(&f) : raw_send(&f);

        if (!f.json) {
            printf("%" PRIu64 " frames of %u bytes sent in %u s\n", sent,
                   f.size, f.seconds);
        }
        return EXIT_SUCCESS;
    }
    if (f.interface) {
        packet_listen(&f, &tally);
    } else {
        raw_listen(&f, &tally);
    }
    print_tally(&f, &tally);
    return EXIT_SUCCESS;
}
