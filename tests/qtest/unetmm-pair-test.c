/*
 * unetmm qtests: cards on wires: two on a hub, one against a socket that the
 * test holds, behind a root port, and their answers on the command line and the
 * monitor
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/crc32c.h"
#include "qemu/cutils.h"
#include "qemu/host-utils.h"
#include "hw/pci/pci_regs.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "unetmm-lib.c"

#define MAC_A       "52:54:00:aa:00:01"
#define MAC_B       "52:54:00:aa:00:02"
#define PATH_A      "/machine/peripheral/a"
#define CHANNEL     3
#define PEER_EP     2
#define PEER_CHANNEL 5
#define PAGE_NS     1000
#define RAM_MIB     32

static const uint8_t peer_mac[6] = { 0x52, 0x54, 0, 0xaa, 0, 9 };

/* ---- A machine with one or two cards ------------------------------------ */

/* A card, one endpoint in a space of source `pinned`, and its memory. */
typedef struct Card {
    QUnetmm u;
    QUnetmmEp ep;
    QUnetmmBuf src, dst;
    uint64_t table;
    uint64_t to;                /* virtual address of dst; src is QUNETMM_VA */
} Card;

typedef struct Machine {
    QTestState *qts;
    QGuestAllocator alloc;
    QPCIBus *bus;
    int wire;                   /* the test's end, or -1 */
    Card a, b;
} Machine;

static void G_GNUC_PRINTF(2, 3) machine_up(Machine *m, const char *fmt, ...)
{
    g_autofree char *args = NULL;
    va_list ap;

    memset(m, 0, sizeof(*m));
    m->wire = -1;
    va_start(ap, fmt);
    args = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    m->qts = qtest_initf("-machine q35 -nodefaults -m %u %s", RAM_MIB, args);
    pc_alloc_init(&m->alloc, m->qts, ALLOC_NO_FLAGS);
    m->bus = qpci_new_pc(m->qts, &m->alloc);
}

static void card_down(Card *card)
{
    if (card->src.model) {
        qunetmm_buf_check(&card->src);
        qunetmm_buf_check(&card->dst);
        qunetmm_buf_free(&card->src);
        qunetmm_buf_free(&card->dst);
    }
}

static void machine_down(Machine *m)
{
    card_down(&m->a);
    card_down(&m->b);
    qpci_free_pc(m->bus);
    alloc_destroy(&m->alloc);
    qtest_quit(m->qts);
    if (m->wire >= 0) {
        close(m->wire);
    }
}

/* Starts the card and an endpoint 1 with a channel, mtu as large as can be. */
static void card_up(Machine *m, Card *card, int devfn, unsigned pages,
                    uint32_t log2, const uint8_t *mac, uint16_t peer_ep,
                    uint16_t peer_channel)
{
    QUnetmm *u = &card->u;
    unsigned seed = 100 + devfn;

    qunetmm_init(u, m->bus, devfn, &m->alloc);
    qunetmm_start(u, 5);
    card->table = qunetmm_space_pinned(u, 1);
    qunetmm_ep(&card->ep, u, 1, 1, log2, UNETMM_POLICY_SKIP);
    if (mac) {
        qunetmm_channel(&card->ep, CHANNEL, mac, peer_ep, peer_channel,
                        UNETMM_MAX_PAYLOAD);
    }
    qunetmm_buf(&card->src, u, pages, seed);
    qunetmm_buf(&card->dst, u, pages, seed + 1);
    card->to = QUNETMM_VA + (pages + 1) * QUNETMM_PAGE;
    qunetmm_pin(u, card->table, QUNETMM_VA, card->src.addr, QUNETMM_RW, pages);
    qunetmm_pin(u, card->table, card->to, card->dst.addr, QUNETMM_RW, pages);
}

static const uint8_t *src_data(const Card *card)
{
    return card->src.model + UNETMM_PAGE_BYTES;
}

/* Two cards on one hub, each with a channel to the other. */
static void pair_up(Machine *m, const char *options, uint32_t log2)
{
    static const uint8_t mac_b[] = { 0x52, 0x54, 0, 0xaa, 0, 2 };

    machine_up(m, "-netdev hubport,id=h0,hubid=0 "
               "-netdev hubport,id=h1,hubid=0 "
               "-device unetmm,id=a,netdev=h0,addr=04.0,mac=" MAC_A "%s "
               "-device unetmm,id=b,netdev=h1,addr=05.0,mac=" MAC_B "%s ",
               options, options);
    card_up(m, &m->a, QPCI_DEVFN(4, 0), 3, log2, mac_b, 1, CHANNEL);
    card_up(m, &m->b, QPCI_DEVFN(5, 0), 3, log2, m->a.u.mac, 1, CHANNEL);
    g_assert_cmpmem(m->b.u.mac, 6, mac_b, 6);
}

/* One card; the test holds the other end of its wire and sees frames. */
static void wire_up_log2(Machine *m, const char *options, unsigned pages,
                         uint32_t log2)
{
    struct timeval limit = { .tv_sec = 30 };
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    machine_up(m, "-netdev dgram,id=n0,local.type=fd,local.str=%d "
               "-device unetmm,id=a,netdev=n0,addr=04.0,mac=" MAC_A "%s",
               fds[1], options);
    close(fds[1]);
    m->wire = fds[0];
    card_up(m, &m->a, QPCI_DEVFN(4, 0), pages, log2, peer_mac, PEER_EP,
            PEER_CHANNEL);
}

static void wire_up(Machine *m, const char *options)
{
    wire_up_log2(m, options, 3, 3);
}

/* Lines with a word in the output of a QEMU. */
static unsigned lines_with(const char *said, const char *word)
{
    g_auto(GStrv) lines = g_strsplit(said, "\n", -1);
    unsigned n = 0;

    for (unsigned i = 0; lines[i]; i++) {
        n += strstr(lines[i], word) != NULL;
    }
    return n;
}

/* ---- Two cards on a hub ------------------------------------------------- */

static void exchange(Card *from, Card *to, uint64_t cookie, uint32_t len)
{
    struct unetmm_cqe cqe;

    qunetmm_post(&to->ep, cookie + 1, to->to + 100, len);
    qunetmm_send(&from->ep, CHANNEL, cookie, QUNETMM_VA + 200, len);
    qunetmm_expect(&from->ep, UNETMM_CQE_SENT, UNETMM_ST_OK, cookie);
    cqe = qunetmm_expect(&to->ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                         cookie + 1);
    g_assert_cmpuint(cqe.len, ==, len);
    g_assert_cmpuint(cqe.channel, ==, CHANNEL);
    qunetmm_buf_expect(&to->dst, 100, src_data(from) + 200, len);
    qunetmm_buf_check(&to->dst);
}

static void test_datagram(void)
{
    Machine m;

    pair_up(&m, "", 3);
    for (unsigned i = 0; i < 20; i++) {
        exchange(&m.a, &m.b, 10 * i, 41 + 577 * i);
        exchange(&m.b, &m.a, 10 * i + 5, 9000 - 441 * i);
    }
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_local_frames), ==, 0);
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_rx_frames), ==, 20);
    g_assert_cmpuint(qunetmm_counter(&m.b.u, UNETMM_C_rx_frames), ==, 20);
    machine_down(&m);
}

/* ---- Nothing else in memory --------------------------------------------- */

static char *ram_save(Machine *m)
{
    g_autofree char *path = NULL;
    char *ram;
    gsize n;
    int fd = g_file_open_tmp("unetmm-ram.XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'pmemsave', 'arguments': "
                             "{ 'val': 0, 'size': %d, 'filename': %s } }",
                             RAM_MIB << 20, path);
    g_assert_true(g_file_get_contents(path, &ram, &n, NULL));
    g_assert_cmpuint(n, ==, RAM_MIB << 20);
    unlink(path);
    return ram;
}

/* Forgets the bytes that may have changed. */
static void ram_allow(char *before, const char *after, uint64_t addr, size_t n)
{
    memcpy(before + addr, after + addr, n);
}

static void test_memory(void)
{
    g_autofree char *before = NULL, *after = NULL;
    size_t card_half = offsetof(struct unetmm_ep_index, card);
    size_t words = offsetof(struct unetmm_ep_card, rsvd);
    const uint32_t len = 5000;
    Machine m;

    pair_up(&m, "", 3);
    qunetmm_post(&m.b.ep, 2, m.b.to + 777, len + 100);
    qunetmm_put_segs(&m.a.ep, CHANNEL, 1,
                     &(struct unetmm_seg){ .addr = QUNETMM_VA + 3, .len = len },
                     1);
    before = ram_save(&m);
    qunetmm_doorbell(&m.a.u, 1);
    after = ram_save(&m);
    for (unsigned i = 0; i < 2; i++) {
        QUnetmmEp *ep = i ? &m.b.ep : &m.a.ep;

        ram_allow(before, after, ep->cq, sizeof(struct unetmm_cqe));
        ram_allow(before, after, ep->index + card_half, words);
    }
    g_assert_cmpmem(after + m.b.dst.addr + 777, len, src_data(&m.a) + 3, len);
    ram_allow(before, after, m.b.dst.addr + 777, len);
    g_assert_cmpint(memcmp(before, after, RAM_MIB << 20), ==, 0);
    qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    qunetmm_expect(&m.b.ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 2);
    qunetmm_buf_expect(&m.b.dst, 777, src_data(&m.a) + 3, len);
    machine_down(&m);
}

/* ---- Answers inside our own send ---------------------------------------- */

#define ROUNDS 12

/*
 * All sends but one are queued without a doorbell.  A card that receives looks
 * at its endpoint's queue and sends: B answers while A is still in its own
 * send, on the same stack, and so on to and fro.  One write to one doorbell
 * must move everything, in order, and lose nothing.
 */
static void test_answer_in_send(void)
{
    struct unetmm_cqe cqe;
    Machine m;

    pair_up(&m, "", 5);
    for (unsigned i = 0; i < ROUNDS; i++) {
        qunetmm_put_inline(&m.b.ep, CHANNEL, 200 + i, &i, sizeof(i), 0);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        qunetmm_put_inline(&m.a.ep, CHANNEL, 100 + i, &i, sizeof(i), 0);
    }
    qunetmm_doorbell(&m.a.u, 1);
    for (unsigned c = 0; c < 2; c++) {
        Card *card = c ? &m.b : &m.a;
        unsigned sent = 0, received = 0;

        while (qunetmm_cqe(&card->ep, &cqe)) {
            g_assert_cmpuint(cqe.status, ==, UNETMM_ST_OK);
            if (cqe.opcode == UNETMM_CQE_SENT) {
                g_assert_cmpuint(cqe.cookie, ==, (c ? 200 : 100) + sent++);
            } else {
                g_assert_cmpmem(cqe.data, cqe.len, &received,
                                sizeof(received));
                received++;
            }
        }
        g_assert_cmpuint(sent, ==, ROUNDS);
        g_assert_cmpuint(received, ==, ROUNDS);
        g_assert_cmpuint(qunetmm_counter(&card->u, UNETMM_C_doorbells), ==,
                         c ? 0 : 1);
    }
    machine_down(&m);
}

static void send_control(Card *card, QUnetmmEp *ep0, const uint8_t *mac,
                         uint64_t cookie)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_CONTROL, .nsegs = 1, .cookie = cookie,
        .seg[0] = { .addr = card->src.addr,
                    .len = sizeof(struct unetmm_control) },
    };

    for (int i = 5; i >= 0; i--) {
        sqe.remote = sqe.remote << 8 | mac[i];
    }
    qunetmm_put_sqe(ep0, &sqe);
}

/* The same with endpoint 0: a request, and the answer that waits there. */
static void test_control(void)
{
    uint32_t len = sizeof(struct unetmm_control);
    QUnetmmEp ep[2];
    Machine m;

    pair_up(&m, "", 3);
    for (unsigned i = 0; i < 2; i++) {
        Card *card = i ? &m.b : &m.a;

        qunetmm_space(&card->u, 0, UNETMM_SOURCE_DIRECT, 0, 0);
        qunetmm_ep(&ep[i], &card->u, 0, 0, 3, UNETMM_POLICY_DROP);
        qunetmm_post(&ep[i], 50 + i, card->dst.addr, 256);
    }
    send_control(&m.b, &ep[1], m.a.u.mac, 2);
    send_control(&m.a, &ep[0], m.b.u.mac, 1);
    qunetmm_doorbell(&m.a.u, 0);
    for (unsigned i = 0; i < 2; i++) {
        Card *to = i ? &m.a : &m.b, *from = i ? &m.b : &m.a;
        uint64_t mac = 0;
        struct unetmm_cqe cqe;

        memcpy(&mac, from->u.mac, 6);
        if (!i) {
            qunetmm_expect(&ep[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
        }
        cqe = qunetmm_expect(&ep[!i], UNETMM_CQE_CONTROL, UNETMM_ST_OK,
                             50 + !i);
        g_assert_cmphex(cqe.source, ==, mac);
        g_assert_cmpuint(cqe.len, ==, len);
        qunetmm_buf_expect(&to->dst, 0, src_data(from), len);
    }
    qunetmm_expect(&ep[1], UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    machine_down(&m);
}

/* ---- A wire that the test holds ----------------------------------------- */

static size_t wire_read(Machine *m, uint8_t *frame)
{
    ssize_t n = recv(m->wire, frame, UNETMM_MAX_FRAME, 0);

    g_assert_cmpint(n, >, 0);
    return n;
}

static bool wire_idle(Machine *m)
{
    uint8_t byte;

    return recv(m->wire, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

static void wire_write(Machine *m, const uint8_t *frame, size_t n)
{
    g_assert_cmpint(send(m->wire, frame, n, 0), ==, n);
}

/* A datagram for our endpoint, which it would accept. */
static struct unetmm_frame wire_header(Machine *m, uint32_t len)
{
    struct unetmm_frame f = {
        .opcode = UNETMM_WIRE_DATAGRAM, .dst_ep = 1, .src_ep = PEER_EP,
        .dst_channel = CHANNEL, .src_channel = PEER_CHANNEL, .len = len,
    };

    memcpy(f.dst, m->a.u.mac, 6);
    memcpy(f.src, peer_mac, 6);
    return f;
}

static void test_wire_out(void)
{
    static const uint32_t lens[] = { 0, 1, 5000, 9000 };
    g_autofree uint8_t *frame = g_malloc(UNETMM_MAX_FRAME);
    g_autofree uint8_t *expected = g_malloc(UNETMM_MAX_FRAME);
    Machine m;

    wire_up(&m, "");
    for (unsigned i = 0; i < G_N_ELEMENTS(lens); i++) {
        struct unetmm_frame f = {
            .opcode = UNETMM_WIRE_DATAGRAM, .dst_ep = PEER_EP, .src_ep = 1,
            .dst_channel = PEER_CHANNEL, .src_channel = CHANNEL,
            .len = lens[i],
        };
        size_t n;

        memcpy(f.dst, peer_mac, 6);
        memcpy(f.src, m.a.u.mac, 6);
        n = qunetmm_frame(expected, &f, src_data(&m.a) + 9);
        qunetmm_send(&m.a.ep, CHANNEL, i, QUNETMM_VA + 9, lens[i]);
        qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        g_assert_cmpmem(frame, wire_read(&m, frame), expected, n);
    }
    g_assert_true(wire_idle(&m));
    machine_down(&m);
}

static void test_wire_in(void)
{
    g_autofree uint8_t *frame = g_malloc(UNETMM_MAX_FRAME + 64);
    struct unetmm_frame f;
    struct unetmm_cqe cqe;
    Machine m;
    size_t n;

    wire_up_log2(&m, "", 17, 3);
    f = wire_header(&m, UNETMM_MAX_PAYLOAD);
    n = qunetmm_frame(frame, &f, src_data(&m.a));
    qunetmm_post(&m.a.ep, 1, m.a.to + 1234, UNETMM_MAX_PAYLOAD);
    wire_write(&m, frame, n);
    qunetmm_wait_counter(&m.a.u, UNETMM_C_rx_frames, 1);
    cqe = qunetmm_expect(&m.a.ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    g_assert_cmpuint(cqe.len, ==, UNETMM_MAX_PAYLOAD);
    qunetmm_buf_expect(&m.a.dst, 1234, src_data(&m.a), UNETMM_MAX_PAYLOAD);
    qunetmm_buf_check(&m.a.dst);
    /* The bytes behind the payload are padding. */
    f.len = 10;
    qunetmm_frame(frame, &f, "0123456789");
    wire_write(&m, frame, 64 + 50);
    qunetmm_wait_counter(&m.a.u, UNETMM_C_rx_frames, 2);
    g_assert_true(qunetmm_cqe(&m.a.ep, &cqe));
    g_assert_cmpmem(cqe.data, cqe.len, "0123456789", 10);
    /* A payload with its checksum. */
    f.flags = UNETMM_WIRE_F_PAYLOAD_CRC;
    f.payload_crc = crc32c(0xffffffff, (const uint8_t *)"0123456789", 10);
    n = qunetmm_frame(frame, &f, "0123456789");
    wire_write(&m, frame, n);
    qunetmm_wait_counter(&m.a.u, UNETMM_C_rx_frames, 3);
    g_assert_true(qunetmm_cqe(&m.a.ep, &cqe));
    g_assert_cmpmem(cqe.data, cqe.len, "0123456789", 10);
    /* Longer than any frame may be. */
    f = wire_header(&m, UNETMM_MAX_PAYLOAD);
    qunetmm_frame(frame, &f, src_data(&m.a));
    wire_write(&m, frame, UNETMM_MAX_FRAME + 1);
    qunetmm_wait_counter(&m.a.u, UNETMM_C_drop_malformed, 1);
    qunetmm_expect_none(&m.a.ep);
    machine_down(&m);
}

static void check_wire_drop(Machine *m, const struct unetmm_frame *f,
                            enum unetmm_counter why)
{
    uint64_t dropped = qunetmm_counter(&m->a.u, why);
    uint8_t frame[UNETMM_MIN_MTU];
    struct unetmm_frame fit = *f;
    uint32_t len = cpu_to_le32(f->len);
    size_t n;

    fit.len = 8;
    n = qunetmm_frame(frame, &fit, "payload");
    /* Members that qunetmm_frame() fills in can be wrong too. */
    memcpy(frame + offsetof(struct unetmm_frame, len), &len, sizeof(len));
    if (f->version) {
        frame[offsetof(struct unetmm_frame, version)] = f->version;
    }
    if (f->ethertype[0]) {
        memcpy(frame + offsetof(struct unetmm_frame, ethertype), f->ethertype,
               2);
    }
    qunetmm_frame_seal(frame);
    frame[offsetof(struct unetmm_frame, header_crc)] ^= f->header_crc;
    wire_write(m, frame, n);
    qunetmm_wait_counter(&m->a.u, why, dropped + 1);
    qunetmm_expect_none(&m->a.ep);
}

static void test_wire_drops(void)
{
    struct unetmm_frame f;
    Machine m;

    wire_up(&m, "");
#define BAD(member, value, why) \
    do { \
        f = wire_header(&m, 8); \
        f.member = value; \
        check_wire_drop(&m, &f, UNETMM_C_drop_##why); \
    } while (0)
    BAD(version, UNETMM_WIRE_VERSION + 1, malformed);
    BAD(opcode, 0, malformed);
    BAD(opcode, UNETMM_WIRE_CONTROL, malformed);        /* for endpoint 1 */
    BAD(opcode, UNETMM_WIRE_VOID + 1, malformed);
    BAD(opcode, UNETMM_WIRE_SEND, channel);             /* of another type */
    BAD(flags, UNETMM_WIRE_F_ALL + 1, malformed);
    BAD(flags, 0x80000000, malformed);
    BAD(len, 9, malformed);
    BAD(len, UNETMM_MAX_PAYLOAD + 1, malformed);
    BAD(len, UINT32_MAX, malformed);
    BAD(psn, 1, malformed);
    BAD(offset, 1, malformed);
    BAD(remote, 1, malformed);
    BAD(handle, 1, malformed);
    BAD(imm, 1, malformed);
    BAD(src[0], 0x53, malformed);
    BAD(header_crc, 1, crc);
    BAD(flags, UNETMM_WIRE_F_PAYLOAD_CRC, crc);
    BAD(dst_ep, 0, no_endpoint);
    BAD(dst_ep, 2, no_endpoint);
    BAD(dst_ep, 0xffff, no_endpoint);
    BAD(dst_channel, CHANNEL + 1, channel);
    BAD(dst_channel, 0xffff, channel);
    BAD(src_ep, PEER_EP + 1, channel);
    BAD(src[5], 8, channel);
    BAD(dst[5], 8, other_mac);
    BAD(dst[0], 0xff, other_mac);
    BAD(ethertype[0], 0x08, ethertype);
#undef BAD
    f = wire_header(&m, 8);
    qunetmm_write(&m.a.u, UNETMM_REG_CTRL, 0);
    check_wire_drop(&m, &f, UNETMM_C_drop_disabled);
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_rx_frames), ==, 0);
    g_assert_true(wire_idle(&m));
    machine_down(&m);
}

/* Frames cut anywhere: every one is dropped and counted, once. */
static void test_wire_cut(void)
{
    static const enum unetmm_counter drops[] = {
        UNETMM_C_drop_malformed, UNETMM_C_drop_runt, UNETMM_C_drop_ethertype,
        UNETMM_C_drop_other_mac, UNETMM_C_drop_crc,
    };
    uint8_t frame[200], payload[100] = { 1 };
    struct unetmm_frame f;
    uint64_t dropped = 0;
    Machine m;
    size_t n;

    wire_up(&m, "");
    f = wire_header(&m, sizeof(payload));
    n = qunetmm_frame(frame, &f, payload);
    for (size_t cut = 1; cut < n; cut++) {
        wire_write(&m, frame, cut);
    }
    qunetmm_post(&m.a.ep, 1, m.a.to, 4096);
    wire_write(&m, frame, n);
    qunetmm_wait_counter(&m.a.u, UNETMM_C_rx_frames, 1);
    qunetmm_expect(&m.a.ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    for (unsigned i = 0; i < G_N_ELEMENTS(drops); i++) {
        dropped += qunetmm_counter(&m.a.u, drops[i]);
    }
    g_assert_cmpuint(dropped, ==, n - 1);
    qunetmm_buf_expect(&m.a.dst, 0, payload, sizeof(payload));
    machine_down(&m);
}

/* Another card with our address: counted each time, said once. */
static void test_wire_self(void)
{
    g_autofree char *path = NULL, *options = NULL, *said = NULL;
    struct unetmm_frame f;
    Machine m;
    int fd = g_file_open_tmp("unetmm-stderr.XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    options = g_strdup_printf(" 2>%s", path);
    wire_up(&m, options);
    f = wire_header(&m, 8);
    memcpy(f.src, m.a.u.mac, 6);
    for (unsigned i = 0; i < 3; i++) {
        check_wire_drop(&m, &f, UNETMM_C_drop_self);
    }
    machine_down(&m);
    g_assert_true(g_file_get_contents(path, &said, NULL, NULL));
    unlink(path);
    g_assert_cmpuint(lines_with(said, "warning: unetmm: "), ==, 1);
    g_assert_cmpuint(lines_with(said, MAC_A), ==, 1);
}

#define MANY        900
#define SHORTEST    2000        /* bytes of the first, one more in each next */

/* More than any socket takes.  Returns how many were sent. */
static unsigned fill_wire(Machine *m)
{
    QUnetmm *u = &m->a.u;

    for (unsigned i = 0; i < MANY; i++) {
        qunetmm_put_segs(&m->a.ep, CHANNEL, i, &(struct unetmm_seg){
                             .addr = QUNETMM_VA, .len = SHORTEST + i }, 1);
    }
    qunetmm_doorbell(u, 1);
    for (unsigned i = 0; i < MANY && !qunetmm_counter(u, UNETMM_C_wire_waits);
         i++) {
        qtest_clock_step(m->qts, 1);
    }
    g_assert_cmpuint(qunetmm_counter(u, UNETMM_C_wire_waits), ==, 1);
    g_assert_cmpuint(qunetmm_counter(u, UNETMM_C_tx_frames), <, MANY);
    return qunetmm_counter(u, UNETMM_C_tx_frames);
}

/* A wire that takes no more: sends wait, and go on in order. */
static void test_wire_full(void)
{
    g_autofree uint8_t *frame = g_malloc(UNETMM_MAX_FRAME);
    Machine m;

    wire_up_log2(&m, "", 1, 10);
    fill_wire(&m);
    for (unsigned i = 0; i < MANY; i++) {
        size_t n = wire_read(&m, frame);

        g_assert_cmpmem(frame + 64, n - 64, src_data(&m.a), SHORTEST + i);
    }
    qunetmm_wait_counter(&m.a.u, UNETMM_C_sends_done, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_drop_purged), ==, 0);
    machine_down(&m);
}

static int bind_dgram(const char *path)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    struct timeval limit = { .tv_sec = 30 };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpuint(strlen(path), <, sizeof(addr.sun_path));
    pstrcpy(addr.sun_path, sizeof(addr.sun_path), path);
    g_assert_cmpint(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

/*
 * The wire that scripts/vm makes of `wire:PATH,1`, and a peer that does not
 * read: the machine goes on, and the wire does when somebody reads.  (A
 * `stream` that listens has the whole machine wait in its write.)
 */
static void test_wire_still(void)
{
    g_autofree char *dir = g_dir_make_tmp("unetmm-XXXXXX", NULL);
    g_autofree char *ours = g_strdup_printf("%s/wire.2", dir);
    g_autofree char *theirs = g_strdup_printf("%s/wire.1", dir);
    g_autofree uint8_t *frame = g_malloc(UNETMM_MAX_FRAME);
    Machine m;
    int fd;

    machine_up(&m, "-netdev dgram,id=n0,local.type=unix,local.path=%s,"
               "remote.type=unix,remote.path=%s "
               "-device unetmm,id=a,netdev=n0,addr=04.0,mac=" MAC_A, theirs,
               ours);
    fd = bind_dgram(ours);
    m.wire = fd;
    card_up(&m, &m.a, QPCI_DEVFN(4, 0), 1, 10, peer_mac, PEER_EP,
            PEER_CHANNEL);
    fill_wire(&m);
    for (unsigned i = 0; i < 100; i++) {
        qtest_qmp_assert_success(m.qts, "{ 'execute': 'query-status' }");
        g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_sends_done), <, MANY);
    }
    for (unsigned i = 0; i < MANY; i++) {
        size_t n = wire_read(&m, frame);

        g_assert_cmpmem(frame + 64, n - 64, src_data(&m.a), SHORTEST + i);
    }
    qunetmm_wait_counter(&m.a.u, UNETMM_C_sends_done, MANY);
    machine_down(&m);
    unlink(ours);
    unlink(theirs);
    rmdir(dir);
}

/*
 * Reset with a frame in the net layer's queue: a reset of the system takes it
 * back, CTRL_RESET leaves it to the wire; either way the card works as new.
 */
static void test_wire_full_reset(const void *data)
{
    g_autofree uint8_t *frame = g_malloc(UNETMM_MAX_FRAME);
    bool ctrl = data;
    unsigned sent, read = 0;
    Machine m;

    wire_up_log2(&m, "", 1, 10);
    sent = fill_wire(&m);
    if (ctrl) {
        qunetmm_write(&m.a.u, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    } else {
        qtest_system_reset(m.qts);
        qunetmm_enable(&m.a.u);
    }
    g_assert_cmphex(qunetmm_read(&m.a.u, UNETMM_REG_CTRL), ==, 0);
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_drop_purged), ==, 0);
    card_down(&m.a);
    card_up(&m, &m.a, QPCI_DEVFN(4, 0), 1, 3, peer_mac, PEER_EP,
            PEER_CHANNEL);
    qunetmm_send_inline(&m.a.ep, CHANNEL, 1, "new", 3);
    while (wire_read(&m, frame) != 64 + 3) {
        read++;
    }
    g_assert_cmpuint(read, ==, ctrl ? sent : sent - 1);
    qunetmm_wait_counter(&m.a.u, UNETMM_C_sends_done, 1);
    qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    g_assert_true(wire_idle(&m));
    machine_down(&m);
}

/* One card, the other end of whose stream we are. */
static void stream_up(Machine *m)
{
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    machine_up(m, "-netdev stream,id=n0,server=off,addr.type=fd,addr.str=%d "
               "-device unetmm,id=a,netdev=n0,addr=04.0,mac=" MAC_A, fds[1]);
    close(fds[1]);
    m->wire = fds[0];
    card_up(m, &m->a, QPCI_DEVFN(4, 0), 1, 3, peer_mac, PEER_EP,
            PEER_CHANNEL);
}

/* Sends until QEMU has connected the stream; returns the refusals before. */
static unsigned first_send(Machine *m)
{
    struct unetmm_cqe cqe;

    for (unsigned refused = 0; ; refused++) {
        qunetmm_send_inline(&m->a.ep, CHANNEL, 1, "x", 1);
        g_assert_true(qunetmm_cqe(&m->a.ep, &cqe));
        g_assert_cmpuint(cqe.opcode, ==, UNETMM_CQE_SENT);
        if (cqe.status == UNETMM_ST_OK) {
            return refused;
        }
        g_assert_cmpuint(cqe.status, ==, UNETMM_ST_REFUSED);
    }
}

/* The other end of a stream goes away: sends are refused, not lost quietly. */
static void test_stream_closed(void)
{
    uint8_t frame[200];
    unsigned refused;
    uint32_t prefix;
    Machine m;

    stream_up(&m);
    refused = first_send(&m);
    g_assert_cmpint(recv(m.wire, &prefix, 4, MSG_WAITALL), ==, 4);
    g_assert_cmpuint(ntohl(prefix), ==, 65);
    g_assert_cmpint(recv(m.wire, frame, 65, MSG_WAITALL), ==, 65);
    close(m.wire);
    m.wire = -1;
    qtest_qmp_eventwait(m.qts, "NETDEV_STREAM_DISCONNECTED");
    qunetmm_send_inline(&m.a.ep, CHANNEL, 2, "x", 1);
    qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, UNETMM_ST_REFUSED, 2);
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_drop_refused), ==,
                     refused + 1);
    machine_down(&m);
}

/* A frame of no bytes is dropped, and does not keep back those behind it. */
static void test_stream_empty(void)
{
    static const uint8_t chunk[4 + 4 + 10] = { [7] = 10 };
    Machine m;

    stream_up(&m);
    for (unsigned i = 1; i <= 3; i++) {
        wire_write(&m, chunk, sizeof(chunk));
        qunetmm_wait_counter(&m.a.u, UNETMM_C_drop_runt, 2 * i);
    }
    machine_down(&m);
}

/* ---- Link --------------------------------------------------------------- */

static void set_link(Machine *m, const char *name, bool up)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'set_link', 'arguments': "
                             "{ 'name': %s, 'up': %i } }", name, up);
}

/* After a change: the register, the event, the interrupt, each once. */
static void check_link(Machine *m, bool up)
{
    QUnetmm *u = &m->a.u;

    g_assert_cmphex(qunetmm_read(u, UNETMM_REG_STATUS), ==,
                    (up ? UNETMM_STATUS_LINK : 0) | UNETMM_STATUS_ENABLED);
    g_assert_cmphex(qunetmm_read(u, UNETMM_REG_EVENTS) & UNETMM_EVENT_LINK,
                    !=, 0);
    g_assert_true(qunetmm_msi_taken(u, UNETMM_VEC_EVENT));
    qunetmm_write(u, UNETMM_REG_EVENTS, UNETMM_EVENT_LINK);
    g_assert_false(qunetmm_msi_taken(u, UNETMM_VEC_EVENT));
}

static void test_link(void)
{
    struct unetmm_cqe cqe;
    uint8_t frame[200];
    QUnetmmEp local;
    Machine m;

    wire_up(&m, "");
    qunetmm_ep(&local, &m.a.u, 7, 1, 3, UNETMM_POLICY_DROP);
    qunetmm_channel(&local, 0, m.a.u.mac, 7, 0, 256);
    qunetmm_write(&m.a.u, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_LINK);
    for (unsigned i = 0; i < 2; i++) {
        const char *name = i ? "n0" : "a";

        set_link(&m, name, false);
        check_link(&m, false);
        set_link(&m, name, false);              /* no change, no event */
        g_assert_false(qunetmm_msi_taken(&m.a.u, UNETMM_VEC_EVENT));
        qunetmm_send_inline(&m.a.ep, CHANNEL, 1, "x", 1);
        qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, UNETMM_ST_LINK_DOWN, 1);
        g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_drop_link), ==,
                         i + 1);
        /* A message on the same card needs no link. */
        qunetmm_send_inline(&local, 0, 2, "y", 1);
        g_assert_true(qunetmm_cqe(&local, &cqe));
        g_assert_cmpuint(cqe.status, ==, UNETMM_ST_OK);
        g_assert_true(qunetmm_cqe(&local, &cqe));
        g_assert_cmpuint(cqe.opcode, ==, UNETMM_CQE_RECEIVED);
        set_link(&m, name, true);
        check_link(&m, true);
        qunetmm_send_inline(&m.a.ep, CHANNEL, 3, "z", 1);
        qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
        g_assert_cmpuint(wire_read(&m, frame), ==, 65);
    }
    g_assert_true(wire_idle(&m));
    machine_down(&m);
}

/* The wire itself is taken away, then the card: nothing is left behind. */
static void test_netdev_del(void)
{
    unsigned sent;
    Machine m;

    wire_up_log2(&m, " -machine pc", 1, 10);
    qunetmm_write(&m.a.u, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_LINK);
    sent = fill_wire(&m);
    qtest_qmp_assert_success(m.qts, "{ 'execute': 'netdev_del', "
                             "'arguments': { 'id': 'n0' } }");
    check_link(&m, false);
    /* Messages that waited for the wire fail and are counted. */
    qunetmm_wait_counter(&m.a.u, UNETMM_C_drop_link, MANY - sent);
    for (unsigned i = 0; i < MANY; i++) {
        qunetmm_expect(&m.a.ep, UNETMM_CQE_SENT, i < sent ? UNETMM_ST_OK :
                       UNETMM_ST_LINK_DOWN, i);
    }
    card_down(&m.a);
    qpci_unplug_acpi_device_test(m.qts, "a", 4);
    machine_down(&m);
}

/* ---- Misbehaviour on request -------------------------------------------- */

/* Sends numbers first..last; they complete well whatever becomes of them. */
static void send_numbers(Machine *m, unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last; i++) {
        qunetmm_send_inline(&m->a.ep, CHANNEL, i, &i, sizeof(i));
        qunetmm_expect(&m->a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
}

static void expect_number(Machine *m, unsigned number)
{
    uint8_t frame[200];
    size_t n = wire_read(m, frame);

    g_assert_cmpmem(frame + 64, n - 64, &number, sizeof(number));
}

static unsigned bits_between(const uint8_t *a, const uint8_t *b, size_t n)
{
    unsigned bits = 0;

    for (size_t i = 0; i < n; i++) {
        bits += ctpop8(a[i] ^ b[i]);
    }
    return bits;
}

static void check_corrupt(Machine *m)
{
    uint8_t frame[200], right[200], payload[100];
    struct unetmm_frame f = {
        .opcode = UNETMM_WIRE_DATAGRAM, .dst_ep = PEER_EP, .src_ep = 1,
        .dst_channel = PEER_CHANNEL, .src_channel = CHANNEL,
        .len = sizeof(payload), .flags = UNETMM_WIRE_F_PAYLOAD_CRC,
    };
    size_t n;

    memcpy(f.dst, peer_mac, 6);
    memcpy(f.src, m->a.u.mac, 6);
    for (unsigned i = 0; i < 50; i++) {
        qunetmm_pattern(payload, sizeof(payload), i);
        f.payload_crc = crc32c(0xffffffff, payload, sizeof(payload));
        n = qunetmm_frame(right, &f, payload);
        qunetmm_send_inline(&m->a.ep, CHANNEL, i, payload, sizeof(payload));
        qunetmm_expect(&m->a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        g_assert_cmpuint(wire_read(m, frame), ==, n);
        /* One bit, and never one of the Ethernet header. */
        g_assert_cmpuint(bits_between(frame, right, n), ==, 1);
        g_assert_cmpmem(frame, 14, right, 14);
    }
}

static void test_knobs(void)
{
    Machine m;

    wire_up(&m, "");
    qunetmm_qom_set(m.qts, PATH_A, "x-loss", 1000000);
    send_numbers(&m, 0, 9);
    g_assert_true(wire_idle(&m));
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_inj_loss), ==, 10);
    qunetmm_qom_set(m.qts, PATH_A, "x-loss", 0);

    qunetmm_qom_set(m.qts, PATH_A, "x-dup", 1000000);
    send_numbers(&m, 10, 11);
    expect_number(&m, 10);
    expect_number(&m, 10);
    expect_number(&m, 11);
    expect_number(&m, 11);
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_inj_dup), ==, 2);
    qunetmm_qom_set(m.qts, PATH_A, "x-dup", 0);

    qunetmm_qom_set(m.qts, PATH_A, "x-reorder", 1000000);
    send_numbers(&m, 20, 21);
    expect_number(&m, 21);
    expect_number(&m, 20);
    send_numbers(&m, 22, 22);
    g_assert_true(wire_idle(&m));
    qtest_clock_step(m.qts, 1000000);           /* nobody overtakes it */
    expect_number(&m, 22);
    qunetmm_qom_set(m.qts, PATH_A, "x-reorder", 0);

    qunetmm_qom_set(m.qts, PATH_A, "x-corrupt", 1000000);
    check_corrupt(&m);
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_inj_corrupt), ==, 50);
    qunetmm_qom_set(m.qts, PATH_A, "x-corrupt", 0);
    send_numbers(&m, 30, 30);
    expect_number(&m, 30);
    g_assert_true(wire_idle(&m));
    machine_down(&m);
}

/* Late, but in order, and no later than was said. */
static void test_knob_delay(void)
{
    Machine m;

    wire_up(&m, ",x-delay=1000000");
    g_assert_cmpuint(qunetmm_qom_u64(m.qts, PATH_A, "x-delay-ns", NULL), ==,
                     1000000);
    qunetmm_qom_set(m.qts, PATH_A, "x-delay-ns", 5000);
    send_numbers(&m, 1, 3);
    g_assert_true(wire_idle(&m));
    qtest_clock_step(m.qts, 5000);
    expect_number(&m, 1);
    expect_number(&m, 2);
    expect_number(&m, 3);
    g_assert_cmpuint(qunetmm_counter(&m.a.u, UNETMM_C_inj_delay), ==, 3);
    qunetmm_qom_set(m.qts, PATH_A, "x-delay", 0);
    send_numbers(&m, 4, 4);
    expect_number(&m, 4);
    machine_down(&m);
}

/* The same seed gives the same run. */
static void test_seed(void)
{
    uint64_t lost[2][2];
    uint8_t frame[200];
    Machine m;

    wire_up(&m, ",x-loss=300000,x-seed=7");
    for (unsigned run = 0; run < 2; run++) {
        qunetmm_qom_set(m.qts, PATH_A, "x-seed", 7);
        lost[run][0] = lost[run][1] = 0;
        for (unsigned i = 0; i < 128; i++) {
            send_numbers(&m, i, i);
            if (wire_idle(&m)) {
                lost[run][i / 64] |= 1ull << i % 64;
            } else {
                wire_read(&m, frame);
            }
        }
    }
    g_assert_cmphex(lost[0][0], ==, lost[1][0]);
    g_assert_cmphex(lost[0][1], ==, lost[1][1]);
    g_assert_cmpuint(ctpop64(lost[0][0]) + ctpop64(lost[0][1]), >, 20);
    g_assert_cmpuint(ctpop64(lost[0][0]) + ctpop64(lost[0][1]), <, 60);
    machine_down(&m);
}

/* ---- The monitor's output ------------------------------------------------ */

static void check_counters(Machine *m)
{
#define CHECK(name, scope, help) \
    g_assert_cmpuint(qunetmm_qom_u64(m->qts, PATH_A, "counters", #name), ==, \
                     qunetmm_counter(&m->a.u, UNETMM_C_##name));
    UNETMM_COUNTERS(CHECK)
#undef CHECK
}

static QDict *qom_list(Machine *m, const char *property, QList **list)
{
    QDict *answer = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': "
                              "{ 'path': %s, 'property': %s } }", PATH_A,
                              property);

    *list = qdict_get_qlist(answer, "return");
    g_assert_nonnull(*list);
    return answer;
}

static void check_tlb(Machine *m)
{
    QDict *answer, *entry;
    QList *list;
    uint32_t taken;

    qunetmm_space(&m->a.u, 5, UNETMM_SOURCE_TLB, 0, 0);
    qunetmm_resolve(&m->a.u, 5, UNETMM_FAULT_NONE, 0x123456789000, 0x345000,
                    UNETMM_PTE_VALID | UNETMM_PTE_READ, 1, 77, &taken);
    answer = qom_list(m, "tlb", &list);
    g_assert_cmpuint(qlist_size(list), ==, 1);
    entry = qobject_to(QDict, qlist_peek(list));
    g_assert_cmphex(qdict_get_int(entry, "vaddr"), ==, 0x123456789000);
    g_assert_cmphex(qdict_get_int(entry, "dma"), ==, 0x345000);
    g_assert_cmpuint(qdict_get_int(entry, "space"), ==, 5);
    g_assert_cmpuint(qdict_get_int(entry, "tag"), ==, 77);
    g_assert_cmpuint(qdict_get_int(entry, "writable"), ==, 0);
    g_assert_cmpuint(qdict_get_int(entry, "busy"), ==, 0);
    qobject_unref(answer);
}

static void test_qom(void)
{
    QDict *answer, *ep;
    QList *list;
    Machine m;

    wire_up(&m, "");
    check_counters(&m);
    send_numbers(&m, 1, 3);
    qunetmm_doorbell(&m.a.u, 99);
    check_counters(&m);
    check_tlb(&m);
    answer = qom_list(&m, "active-endpoints", &list);
    g_assert_cmpuint(qlist_size(list), ==, 1);
    ep = qobject_to(QDict, qlist_peek(list));
    g_assert_cmpuint(qdict_get_int(ep, "id"), ==, 1);
    g_assert_cmpuint(qdict_get_int(ep, "space"), ==, 1);
    g_assert_cmpuint(qdict_get_int(ep, "stopped"), ==, 0);
    g_assert_cmpuint(qdict_get_int(ep, "sq-prod"), ==, 3);
    g_assert_cmpuint(qdict_get_int(ep, "sq-cons"), ==, 3);
    g_assert_cmpuint(qdict_get_int(ep, "cq-prod"), ==, 3);
    ep = qdict_get_qdict(ep, "counters");
    g_assert_cmpuint(qdict_get_int(ep, "tx_frames"), ==, 3);
    qobject_unref(answer);
    /* A rate above one is refused and changes nothing. */
    answer = qtest_qmp_assert_failure_ref(
        m.qts, "{ 'execute': 'qom-set', 'arguments': { 'path': %s, "
        "'property': 'x-loss', 'value': 1000001 } }", PATH_A);
    g_assert_nonnull(strstr(qdict_get_str(answer, "desc"), "x-loss"));
    qobject_unref(answer);
    g_assert_cmpuint(qunetmm_qom_u64(m.qts, PATH_A, "x-loss", NULL), ==, 0);
    machine_down(&m);
}

/* A command that prints all devices prints this one. */
static void test_info(void)
{
    static const char *const commands[] = {
        "info qtree", "info network", "info qom-tree",
    };
    Machine m;

    wire_up(&m, "");
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_autofree char *said = qtest_hmp(m.qts, "%s", commands[i]);

        g_assert_nonnull(strstr(said, "unetmm"));
    }
    machine_down(&m);
}

/* ---- Behind a root port, and unplugged ---------------------------------- */

#define RP_DEVFN    QPCI_DEVFN(3, 0)
#define CARD_DEVFN  (1 << 8)            /* bus 1, slot 0 */
#define SLOT_ON     PCI_EXP_SLTCTL_PWR_IND_ON
#define SLOT_OFF    (PCI_EXP_SLTCTL_PWR_IND_OFF | PCI_EXP_SLTCTL_PCC)

static void slot_power(Machine *m, uint16_t control)
{
    QPCIDevice *port = qpci_device_find(m->bus, RP_DEVFN);
    uint8_t cap = qpci_find_capability(port, PCI_CAP_ID_EXP, 0);

    qpci_config_writew(port, cap + PCI_EXP_SLTCTL, control);
    g_free(port);
}

static void root_port_up(Machine *m)
{
    QPCIDevice *port;

    machine_up(m, "-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off "
               "-device pcie-root-port,id=rp0,bus=pcie.0,addr=03.0,chassis=1,"
               "slot=1 -device unetmm,id=a,bus=rp0,mac=" MAC_A
               ",x-dma-page-ns=%u", PAGE_NS);
    port = qpci_device_find(m->bus, RP_DEVFN);
    qpci_config_writeb(port, PCI_SECONDARY_BUS, 1);
    qpci_config_writeb(port, PCI_SUBORDINATE_BUS, 1);
    qpci_config_writew(port, PCI_MEMORY_BASE, 0xe000);
    qpci_config_writew(port, PCI_MEMORY_LIMIT, 0xeff0);
    qpci_config_writew(port, PCI_COMMAND,
                       PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    g_free(port);
}

/* To itself, two pages, PAGE_NS each, twice: gathered and landed. */
static void local_exchange(Machine *m)
{
    const uint32_t len = 2 * UNETMM_PAGE_BYTES;

    qunetmm_channel(&m->a.ep, CHANNEL, m->a.u.mac, 1, CHANNEL, 65536);
    qunetmm_post(&m->a.ep, 2, m->a.to, len);
    qunetmm_send(&m->a.ep, CHANNEL, 1, QUNETMM_VA, len);
    for (unsigned i = 0; i < 4; i++) {
        qtest_clock_step(m->qts, PAGE_NS);
    }
    qunetmm_expect(&m->a.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    qunetmm_expect(&m->a.ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 2);
    qunetmm_buf_expect(&m->a.dst, 0, src_data(&m->a), len);
    qunetmm_buf_check(&m->a.dst);
}

static void test_root_port(void)
{
    Machine m;

    root_port_up(&m);
    card_up(&m, &m.a, CARD_DEVFN, 2, 3, NULL, 0, 0);
    local_exchange(&m);
    qunetmm_write(&m.a.u, UNETMM_REG_TEST_IRQ, UNETMM_VEC_NOTIFY);
    g_assert_true(qunetmm_msi_taken(&m.a.u, UNETMM_VEC_NOTIFY));
    machine_down(&m);
}

/* Unplugged with one page moving and another message waiting; plugged again. */
static void test_unplug_busy(void)
{
    Machine m;

    root_port_up(&m);
    for (unsigned round = 0; round < 3; round++) {
        slot_power(&m, SLOT_ON);
        card_up(&m, &m.a, CARD_DEVFN, 2, 3, NULL, 0, 0);
        local_exchange(&m);
        qunetmm_post(&m.a.ep, 9, m.a.to, 2 * UNETMM_PAGE_BYTES);
        for (unsigned i = 0; i < 2; i++) {
            qunetmm_send(&m.a.ep, CHANNEL, 4, QUNETMM_VA,
                         2 * UNETMM_PAGE_BYTES);
        }
        for (unsigned i = 0; i < round; i++) {
            qtest_clock_step(m.qts, PAGE_NS);
        }
        qtest_qmp_device_del_send(m.qts, "a");
        slot_power(&m, SLOT_OFF);
        qtest_qmp_eventwait(m.qts, "DEVICE_DELETED");
        qtest_clock_step(m.qts, 10 * PAGE_NS);
        card_down(&m.a);
        qtest_qmp_device_add(m.qts, "unetmm", "a", "{ 'bus': 'rp0', "
                             "'mac': %s, 'x-dma-page-ns': %d }", MAC_A,
                             PAGE_NS);
    }
    memset(&m.a, 0, sizeof(m.a));
    machine_down(&m);
}

/* ---- Handlers that are called when the card is gone --------------------- */

#define EJECT_PORT  0xae08              /* of the machine pc, by ACPI */

static void late_hold(Machine *m, uint64_t addr)
{
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': { "
                             "'path': '/machine/peripheral/late', 'property': "
                             "'hold', 'value': %" PRIu64 " } }", addr);
}

static uint64_t bar_address(QUnetmm *u, unsigned bar)
{
    uint8_t at = PCI_BASE_ADDRESS_0 + 4 * bar;
    uint32_t low = qpci_config_readl(&u->dev, at);
    uint64_t high = low & PCI_BASE_ADDRESS_MEM_TYPE_64 ?
                    qpci_config_readl(&u->dev, at + 4) : 0;

    return high << 32 | (low & PCI_BASE_ADDRESS_MEM_MASK);
}

/* A processor has found all regions of the card, and waits for the lock. */
static void late_find_all(Machine *m, QUnetmm *u)
{
    qpci_iomap(&u->dev, UNETMM_BAR_WINDOWS, NULL);
    late_hold(m, bar_address(u, UNETMM_BAR_REGS));
    late_hold(m, bar_address(u, UNETMM_BAR_REGS) + UNETMM_MSIX_TABLE);
    late_hold(m, bar_address(u, UNETMM_BAR_REGS) + UNETMM_MSIX_PBA);
    late_hold(m, bar_address(u, UNETMM_BAR_PROXY));
    late_hold(m, bar_address(u, UNETMM_BAR_DOORBELL));
    late_hold(m, bar_address(u, UNETMM_BAR_WINDOWS));
}

static void late_call_all(Machine *m, int ones)
{
    QDict *answer;

    qtest_qmp_assert_success(m->qts, "{ 'execute': 'qom-set', 'arguments': { "
                             "'path': '/machine/peripheral/late', 'property': "
                             "'call', 'value': true } }");
    answer = qtest_qmp(m->qts, "{ 'execute': 'qom-get', 'arguments': { 'path': "
                       "'/machine/peripheral/late', 'property': 'ones' } }");
    g_assert_cmpint(qdict_get_int(answer, "return"), ==, ones);
    qobject_unref(answer);
}

/* Saves the machine to nowhere, and lets it go on. */
static void late_migrate(Machine *m)
{
    g_autofree char *status = NULL;

    qtest_qmp_assert_success(m->qts, "{ 'execute': 'migrate', 'arguments': "
                             "{ 'uri': 'exec:cat >/dev/null' } }");
    do {
        QDict *answer = qtest_qmp(m->qts, "{ 'execute': 'query-migrate' }");
        QDict *state = qdict_get_qdict(answer, "return");

        g_free(status);
        status = g_strdup(qdict_get_try_str(state, "status") ?: "none");
        qobject_unref(answer);
        g_assert_cmpstr(status, !=, "failed");
    } while (strcmp(status, "completed"));
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'cont' }");
}

/*
 * Unplugged with effects, a timer and a frame on their way; then every handler
 * is called, of regions, of the wire, of time and of the machine's state.
 */
static void test_unplug_late(void)
{
    g_autofree uint8_t *frame = g_malloc(UNETMM_MAX_FRAME);
    struct unetmm_frame f;
    Machine m;
    size_t n;

    wire_up_log2(&m, ",timing=fetch=1000000:complete=1000000 -machine pc "
                 "-device unetmm-late,id=late", 1, 10);
    late_find_all(&m, &m.a.u);
    f = wire_header(&m, 100);
    n = qunetmm_frame(frame, &f, src_data(&m.a));
    qunetmm_send(&m.a.ep, CHANNEL, 1, QUNETMM_VA, 100);
    card_down(&m.a);
    qtest_qmp_device_del_send(m.qts, "a");
    qtest_outl(m.qts, EJECT_PORT, 1 << 4);
    late_call_all(&m, 4);
    wire_write(&m, frame, n);
    qtest_clock_step(m.qts, 1000000000);
    late_migrate(&m);
    late_call_all(&m, 4);
    /* With the last reference the card's object ends. */
    late_hold(&m, 0);
    qtest_qmp_eventwait(m.qts, "DEVICE_DELETED");
    late_call_all(&m, 0);
    qtest_clock_step(m.qts, 1000000000);
    memset(&m.a, 0, sizeof(m.a));
    machine_down(&m);
}

/* Unplugged with a frame in the net layer's queue, which then goes on. */
static void test_unplug_wire_full(void)
{
    g_autofree uint8_t *frame = g_malloc(UNETMM_MAX_FRAME);
    unsigned sent, read = 0;
    Machine m;

    wire_up_log2(&m, " -machine pc", 1, 10);
    sent = fill_wire(&m);
    card_down(&m.a);
    qpci_unplug_acpi_device_test(m.qts, "a", 4);
    while (!wire_idle(&m)) {
        wire_read(&m, frame);
        qtest_clock_step(m.qts, 1);
        read++;
    }
    g_assert_cmpuint(read, ==, sent - 1);
    machine_down(&m);
}

/* ---- The command line --------------------------------------------------- */

/* -nic with our model makes a card with a link, on either machine. */
static void test_nic_option(void)
{
    static const char *const nics[] = {
        "-machine pc -nic user,model=unetmm,mac=" MAC_A ",id=n0",
        "-machine q35 -nic user,model=unetmm,mac=" MAC_A,
        "-machine q35 -netdev hubport,id=h0,hubid=0 "
        "-nic hubport,hubid=0,model=unetmm,mac=" MAC_A,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(nics); i++) {
        QPCIDevice *dev = NULL;
        Machine m;
        int slot;

        machine_up(&m, "%s", nics[i]);
        for (slot = 1; slot < 31; slot++) {
            dev = qpci_device_find(m.bus, QPCI_DEVFN(slot, 0));
            if (dev && qpci_config_readw(dev, PCI_DEVICE_ID) ==
                UNETMM_PCI_DEVICE_ID) {
                break;
            }
            g_clear_pointer(&dev, g_free);
        }
        g_assert_nonnull(dev);
        g_free(dev);
        card_up(&m, &m.a, QPCI_DEVFN(slot, 0), 1, 3, peer_mac, PEER_EP,
                PEER_CHANNEL);
        g_assert_cmphex(qunetmm_read(&m.a.u, UNETMM_REG_STATUS), ==,
                        UNETMM_STATUS_LINK | UNETMM_STATUS_ENABLED);
        /* A user net takes our frames and has no answer to them. */
        send_numbers(&m, 1, 3);
        machine_down(&m);
    }
}

static int run_qemu(const char *device, char **out, char **err)
{
    const char *argv[] = {
        g_getenv("QTEST_QEMU_BINARY"), "-machine", "q35", "-nodefaults",
        "-display", "none", "-accel", "qtest", "-device", device,
        /* Whatever we say, it ends here. */
        "-device", "no-such-device", NULL
    };
    int status;

    g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, 0, NULL, NULL, out,
                               err, &status, NULL));
    g_assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A mistake in an option: one sentence, which names it, and status 1. */
static void test_option_errors(void)
{
    static const char *const wrong[] = {
        "endpoints=1", "endpoints=1025", "spaces=1", "spaces=1025",
        "channels=0", "channels=1025", "tlb-sets=0", "tlb-sets=3",
        "tlb-sets=2097152", "tlb-ways=0", "tlb-ways=65", "tlb-victims=1025",
        "tlb-sets=1048576,tlb-ways=2", "tlb-index=plus", "tlb-replace=oldest",
        "congestion=cubic", "congestion-window=0", "congestion-window=65",
        "congestion-trip-ns=1000000001",
        "cache-entries=32", "cache-entries=100", "cache-entries=2097152",
        "cache-ways=0", "cache-ways=3", "cache-ways=32",
        "utlb-fetch=0", "utlb-fetch=12", "utlb-fetch=64",
        "pretranslate=0", "pretranslate=17", "fault-batch=0",
        "fault-batch=513", "max-faults=0", "max-faults=16385", "user-mtu=255",
        "user-mtu=65537", "local-queue=0", "local-queue=4097",
        "budget-descriptors=0", "budget-descriptors=65537",
        "budget-bytes=65535", "budget-bytes=1073741825",
        "x-dma-page-ns=1000000001", "timing=fetch=1:fetsch=1",
        "timing=fetch=1000000000001", "mac=01:00:00:00:00:01", "x-loss=1000001",
        "x-dup=1000001", "x-reorder=1000001", "x-corrupt=1000001",
        "x-force-miss=1000001", "x-force-evict=1000001", "x-delay=1000001",
        "x-delay-ns=0", "x-delay-ns=1000000001", "x-fault-delay=1000001",
        "x-fault-delay-ns=0", "x-fault-delay-ns=1000000001",
        "x-fault-fail=1000001",
        "reliable-channels=4097", "reliable-keep=4097", "regions=65537",
        "imports=1025", "window-pages=65537", "window-queue=0",
        "window-queue=1048577", "proxy-pages=65537", "sysbuf-slots=4097",
        "flows=4097", "backup-bits=4097",
        "x-fault-refuse=1000001", "x-lie=1000001", "x-seed=many",
        "endpoints=-1", "endpoints=4294967298", "mac=none", "netdev=none",
        "no-such-property=1",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autofree char *device = g_strdup_printf("unetmm,%s", wrong[i]);
        g_autofree char *name = g_strndup(wrong[i], strcspn(wrong[i], "="));
        g_autofree char *out = NULL, *err = NULL;
        const char *sentence;

        g_assert_cmpint(run_qemu(device, &out, &err), ==, 1);
        g_assert_cmpstr(out, ==, "");
        sentence = strstr(err, wrong[i]);
        g_assert_nonnull(sentence);
        g_assert_nonnull(strstr(sentence + strlen(wrong[i]), name));
        g_assert_cmpuint(lines_with(err, "unetmm"), ==, 1);
        g_assert_cmpuint(lines_with(err, "qemu-system-"), ==, 1);
        g_assert_cmpuint(lines_with(err, "no-such-device"), ==, 0);
    }
}

/* While the card runs: refused with the range, and nothing has changed. */
static void test_knob_errors(void)
{
    static const struct {
        const char *name;
        uint32_t value;
        const char *range;
    } wrong[] = {
        { "x-delay-ns", 0, "1..1000000000" },
        { "x-delay-ns", 1000000001, "1..1000000000" },
        { "x-fault-delay-ns", 0, "1..1000000000" },
        { "x-fault-delay-ns", 1000000001, "1..1000000000" },
        { "x-loss", 1000001, "0..1000000" },
    };
    Machine m;

    machine_up(&m, "-device unetmm,id=a");
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        uint64_t before = qunetmm_qom_u64(m.qts, PATH_A, wrong[i].name, NULL);
        QDict *answer = qtest_qmp(m.qts, "{ 'execute': 'qom-set', "
                                  "'arguments': { 'path': %s, "
                                  "'property': %s, 'value': %u } }", PATH_A,
                                  wrong[i].name, wrong[i].value);
        const char *said = qdict_get_str(qdict_get_qdict(answer, "error"),
                                         "desc");

        g_assert_nonnull(strstr(said, wrong[i].name));
        g_assert_nonnull(strstr(said, wrong[i].range));
        qobject_unref(answer);
        g_assert_cmpuint(qunetmm_qom_u64(m.qts, PATH_A, wrong[i].name, NULL),
                         ==, before);
    }
    machine_down(&m);
}

/* A card with a value just in range starts, and the registers have it. */
static void test_option_registers(void)
{
    Machine m;

    machine_up(&m, "-device unetmm,addr=04.0,endpoints=1024,spaces=1024,"
               "channels=1024,tlb-sets=1048576,tlb-victims=1024,"
               "cache-entries=1048576,cache-ways=1,utlb-fetch=32,"
               "pretranslate=16,fault-batch=512,"
               "max-faults=16384,user-mtu=65536,local-queue=4096,"
               "budget-descriptors=65536,budget-bytes=1073741824,"
               "x-dma-page-ns=1000000000,tlb-index=xor,tlb-replace=random,"
               "congestion=delay,congestion-window=64,"
               "congestion-trip-ns=1000000000 "
               "-device unetmm,addr=05.0,endpoints=2,spaces=2,channels=1,"
               "tlb-sets=1,tlb-ways=64,tlb-victims=0,cache-entries=64,"
               "cache-ways=16,"
               "utlb-fetch=1,pretranslate=1,fault-batch=1,max-faults=1,"
               "user-mtu=256,"
               "local-queue=1,budget-descriptors=1,budget-bytes=65536");
    card_up(&m, &m.a, QPCI_DEVFN(4, 0), 1, 3, NULL, 0, 0);
    qunetmm_init(&m.b.u, m.bus, QPCI_DEVFN(5, 0), &m.alloc);
    g_assert_cmpuint(qunetmm_read(&m.a.u, UNETMM_REG_ENDPOINTS), ==, 1024);
    g_assert_cmpuint(qunetmm_read(&m.a.u, UNETMM_REG_TLB_SETS), ==, 1 << 20);
    g_assert_cmpuint(qunetmm_read(&m.a.u, UNETMM_REG_USER_MTU), ==, 65536);
    g_assert_cmpuint(qunetmm_read(&m.b.u, UNETMM_REG_ENDPOINTS), ==, 2);
    g_assert_cmpuint(qunetmm_read(&m.b.u, UNETMM_REG_SPACES), ==, 2);
    g_assert_cmpuint(qunetmm_read(&m.b.u, UNETMM_REG_CHANNELS), ==, 1);
    g_assert_cmpuint(qunetmm_read(&m.b.u, UNETMM_REG_TLB_WAYS), ==, 64);
    g_assert_cmpuint(qunetmm_read(&m.b.u, UNETMM_REG_MAX_FAULTS), ==, 1);
    /* Two cards with no mac= have different addresses. */
    g_assert_cmpint(memcmp(m.a.u.mac, m.b.u.mac, 6), !=, 0);
    machine_down(&m);
}

/* ---- Every property that QEMU says the card has ------------------------- */

/* The numbers; the other listed properties have no limits of their own. */
static const struct OptionLimit {
    const char *name;
    uint64_t least, most;
} option_limits[] = {
    { "endpoints", 2, 1024 },
    { "spaces", 2, 1024 },
    { "channels", 1, 1024 },
    { "tlb-sets", 1, 1 << 20 },
    { "tlb-ways", 1, 64 },
    { "tlb-victims", 0, 1024 },
    { "cache-entries", 64, 1 << 20 },
    { "cache-ways", 1, 16 },
    { "utlb-fetch", 1, 32 },
    { "pretranslate", 1, 16 },
    { "fault-batch", 1, 512 },
    { "max-faults", 1, 16384 },
    { "user-mtu", 256, 65536 },
    { "local-queue", 1, 4096 },
    { "reliable-channels", 0, 4096 },
    { "reliable-keep", 0, 4096 },
    { "regions", 0, 65536 },
    { "imports", 0, 1024 },
    { "window-pages", 0, 65536 },
    { "window-queue", 1, 1 << 20 },
    { "proxy-pages", 0, 65536 },
    { "sysbuf-slots", 0, 4096 },
    { "flows", 0, 4096 },
    { "backup-bits", 0, 4096 },
    { "congestion-window", 1, 64 },
    { "congestion-trip-ns", 0, 1000000000 },
    { "budget-descriptors", 1, 65536 },
    { "budget-bytes", 65536, 1 << 30 },
    { "x-dma-page-ns", 0, 1000000000 },
    { "x-loss", 0, 1000000 },
    { "x-dup", 0, 1000000 },
    { "x-reorder", 0, 1000000 },
    { "x-corrupt", 0, 1000000 },
    { "x-force-miss", 0, 1000000 },
    { "x-force-evict", 0, 1000000 },
    { "x-delay", 0, 1000000 },
    { "x-delay-ns", 1, 1000000000 },
    { "x-fault-delay", 0, 1000000 },
    { "x-fault-delay-ns", 1, 1000000000 },
    { "x-fault-fail", 0, 1000000 },
    { "x-fault-refuse", 0, 1000000 },
    { "x-lie", 0, 1000000 },
    { "x-seed", 0, UINT64_MAX },
};

static const struct OptionLimit *option_limit(const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(option_limits); i++) {
        if (!strcmp(option_limits[i].name, name)) {
            return &option_limits[i];
        }
    }
    return NULL;
}

static QList *list_properties(QTestState *qts, const char *command,
                              const char *type)
{
    QDict *answer = qtest_qmp(qts, "{ 'execute': %s, 'arguments': "
                              "{ 'typename': %s } }", command, type);
    QList *list = qdict_get_qlist(answer, "return");

    g_assert_nonnull(list);
    qobject_ref(list);
    qobject_unref(answer);
    return list;
}

static bool property_is_in(QList *list, const char *name)
{
    QListEntry *entry;

    QLIST_FOREACH_ENTRY(list, entry) {
        if (!strcmp(qdict_get_str(qobject_to(QDict, qlist_entry_obj(entry)),
                                  "name"), name)) {
            return true;
        }
    }
    return false;
}

/* Calls fn for each property that the card has and not every PCI device. */
static unsigned each_property(QTestState *qts,
                              void (*fn)(QTestState *qts, const char *name,
                                         const char *type, const char *text))
{
    QList *ours = list_properties(qts, "device-list-properties", "unetmm");
    QList *others = list_properties(qts, "qom-list-properties", "pci-device");
    QListEntry *entry;
    unsigned n = 0;

    QLIST_FOREACH_ENTRY(ours, entry) {
        QDict *property = qobject_to(QDict, qlist_entry_obj(entry));
        const char *name = qdict_get_str(property, "name");
        const char *text = qdict_get_try_str(property, "description");

        if (!property_is_in(others, name)) {
            fn(qts, name, qdict_get_str(property, "type"), text ? text : "");
            n++;
        }
    }
    qobject_unref(ours);
    qobject_unref(others);
    return n;
}

static QTestState *socket_up(void)
{
    return qtest_init("-machine q35 -nodefaults -device pcie-root-port,id=rp0,"
                      "chassis=1,slot=1");
}

/* An explanation, which says the limits if there are some. */
static void explained(QTestState *qts, const char *name, const char *type,
                      const char *text)
{
    const struct OptionLimit *limit = option_limit(name);
    const char *dots = strstr(text, "..");
    uint64_t most;

    if (strlen(text) < 20) {
        g_error("property %s has no explanation", name);
    }
    if (limit && dots && g_ascii_isdigit(dots[2])) {
        while (dots > text && g_ascii_isdigit(dots[-1])) {
            dots--;
        }
        g_assert_cmpuint(g_ascii_strtoull(dots, NULL, 10), ==, limit->least);
        most = g_ascii_strtoull(strstr(dots, "..") + 2, NULL, 10);
        g_assert_cmpuint(most, ==, limit->most);
    }
}

/* Every property of ours has an explanation, which ,help shows. */
static void test_help(void)
{
    g_autofree char *out = NULL, *err = NULL;
    QTestState *qts = socket_up();
    unsigned n = each_property(qts, explained);

    g_assert_cmpuint(n, >, G_N_ELEMENTS(option_limits));
    qtest_quit(qts);
    g_assert_cmpint(run_qemu("unetmm,help", &out, &err), ==, 0);
    g_assert_cmpuint(lines_with(err, "unetmm"), ==, 0);
    g_assert_cmpuint(lines_with(out, " - "), >=, n);
}

/* One sentence with the property's name. */
static void refused(QTestState *qts, const char *name, const char *value)
{
    QDict *answer, *wanted = qdict_new();
    const char *said;

    qdict_put_str(wanted, "driver", "unetmm");
    qdict_put_str(wanted, "id", "wrong");
    qdict_put_str(wanted, "bus", "rp0");
    qdict_put_str(wanted, name, value);
    answer = qtest_qmp(qts, "{ 'execute': 'device_add', 'arguments': %p }",
                       wanted);
    if (!qdict_haskey(answer, "error")) {
        g_error("%s=%s is not refused", name, value);
    }
    said = qdict_get_str(qdict_get_qdict(answer, "error"), "desc");
    if (!strstr(said, name)) {
        g_error("%s=%s: '%s' does not name it", name, value, said);
    }
    qobject_unref(answer);
}

static void beyond_refused(QTestState *qts, const char *name, const char *type,
                           const char *text)
{
    const struct OptionLimit *limit = option_limit(name);

    if (!g_str_has_prefix(type, "uint")) {
        g_assert_null(limit);
        return;
    }
    if (!limit) {
        g_error("property %s: a number whose limits are not tested", name);
    }
    if (limit->least) {
        g_autofree char *less = g_strdup_printf("%" PRIu64, limit->least - 1);

        refused(qts, name, less);
    }
    if (limit->most < UINT64_MAX) {
        g_autofree char *more = g_strdup_printf("%" PRIu64, limit->most + 1);

        refused(qts, name, more);
    }
    refused(qts, name, "-1x");
}

/* Each property that QEMU lists as a number: values just out of range fail. */
static void test_option_limits(void)
{
    QTestState *qts = socket_up();

    each_property(qts, beyond_refused);
    qtest_quit(qts);
}

/* A block of memory that a card made for its windows, and has not freed. */
static bool has_windows(QTestState *qts)
{
    g_autofree char *blocks = qtest_hmp(qts, "info ramblock");

    g_assert_nonnull(strstr(blocks, "pc.ram"));
    return strstr(blocks, "unetmm-windows");
}

/*
 * A machine without an APIC has no MSI-X, which the card finds out when it has
 * its BARs: nothing is left of it, and the next one in its place is told the
 * same.
 */
static void test_no_msix(void)
{
    QTestState *qts = qtest_init("-machine pc -nodefaults -cpu qemu64,-apic");

    for (unsigned i = 0; i < 2; i++) {
        QDict *answer = qtest_qmp(qts, "{ 'execute': 'device_add', "
                                  "'arguments': { 'driver': 'unetmm', "
                                  "'id': 'a' } }");
        const char *said;

        g_assert_true(qdict_haskey(answer, "error"));
        said = qdict_get_str(qdict_get_qdict(answer, "error"), "desc");
        g_assert_nonnull(strstr(said, "MSI-X"));
        qobject_unref(answer);
        g_assert_false(has_windows(qts));
    }
    qtest_quit(qts);
}

/* Values just in range make a card, one at a time. */
static void test_option_within(void)
{
    const unsigned slots = 20;

    for (unsigned i = 0; i < 2 * G_N_ELEMENTS(option_limits); i += slots) {
        g_autoptr(GString) args = g_string_new("-machine q35 -nodefaults");

        for (unsigned k = i; k < MIN(i + slots,
                                     2 * G_N_ELEMENTS(option_limits)); k++) {
            const struct OptionLimit *limit = &option_limits[k / 2];

            g_string_append_printf(args, " -device unetmm,%s=%" PRIu64,
                                   limit->name,
                                   k % 2 ? limit->most : limit->least);
        }
        qtest_quit(qtest_init(args->str));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/unetmm/hub/datagram", test_datagram);
    qtest_add_func("/unetmm/hub/memory", test_memory);
    qtest_add_func("/unetmm/hub/answer-in-send", test_answer_in_send);
    qtest_add_func("/unetmm/hub/control", test_control);
    qtest_add_func("/unetmm/wire/out", test_wire_out);
    qtest_add_func("/unetmm/wire/in", test_wire_in);
    qtest_add_func("/unetmm/wire/drops", test_wire_drops);
    qtest_add_func("/unetmm/wire/cut", test_wire_cut);
    qtest_add_func("/unetmm/wire/self", test_wire_self);
    qtest_add_func("/unetmm/wire/full", test_wire_full);
    qtest_add_func("/unetmm/wire/peer-stands-still", test_wire_still);
    qtest_add_data_func("/unetmm/wire/full-system-reset", NULL,
                        test_wire_full_reset);
    qtest_add_data_func("/unetmm/wire/full-ctrl-reset", "ctrl",
                        test_wire_full_reset);
    qtest_add_func("/unetmm/wire/stream-closed", test_stream_closed);
    qtest_add_func("/unetmm/wire/stream-empty", test_stream_empty);
    qtest_add_func("/unetmm/wire/link", test_link);
    qtest_add_func("/unetmm/wire/netdev-del", test_netdev_del);
    qtest_add_func("/unetmm/knobs/all", test_knobs);
    qtest_add_func("/unetmm/knobs/delay", test_knob_delay);
    qtest_add_func("/unetmm/knobs/seed", test_seed);
    qtest_add_func("/unetmm/monitor/qom", test_qom);
    qtest_add_func("/unetmm/monitor/info", test_info);
    qtest_add_func("/unetmm/plug/root-port", test_root_port);
    qtest_add_func("/unetmm/plug/unplug-busy", test_unplug_busy);
    qtest_add_func("/unetmm/plug/unplug-wire-full", test_unplug_wire_full);
    qtest_add_func("/unetmm/plug/unplug-late", test_unplug_late);
    qtest_add_func("/unetmm/plug/no-msix", test_no_msix);
    qtest_add_func("/unetmm/options/nic", test_nic_option);
    qtest_add_func("/unetmm/options/errors", test_option_errors);
    qtest_add_func("/unetmm/options/registers", test_option_registers);
    qtest_add_func("/unetmm/options/within", test_option_within);
    qtest_add_func("/unetmm/options/limits", test_option_limits);
    qtest_add_func("/unetmm/options/knobs", test_knob_errors);
    qtest_add_func("/unetmm/options/help", test_help);
    return g_test_run();
}
