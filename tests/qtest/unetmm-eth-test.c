/*
 * unetmm qtests: Ethernet frames and their offloads, on a wire that the test
 * holds.  Checksums are made and looked at here by code of the test's own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "hw/pci/pci_regs.h"
#include "unetmm-lib.c"

#define MAC         "52:54:00:aa:00:01"
#define ETH         UNETMM_ETH_HEADER
#define EP          1
#define LOG2        4
#define MSS         1000
#define TCP         6
#define UDP         17
#define GARBAGE     2000

static const uint8_t mac[6] = { 0x52, 0x54, 0x00, 0xaa, 0x00, 0x01 };
static const uint8_t peer[6] = { 0x52, 0x54, 0x00, 0xaa, 0x00, 0x02 };

typedef struct Machine {
    QTestState *qts;
    QGuestAllocator alloc;
    QPCIBus *bus;
    QUnetmm card;
    QUnetmmEp ep;
    int wire;
    uint64_t tx, rx;            /* 64 KiB each */
} Machine;

static void flow(Machine *m, uint32_t number, uint8_t kind, uint8_t flags)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FLOW_SET, .ep = EP,
        .flow = { .flow = number, .kind = kind, .flags = flags },
    };

    memcpy(cmd.flow.mac, mac, 6);
    g_assert_cmpuint(qunetmm_cmd(&m->card, &cmd, NULL), ==, UNETMM_CS_OK);
}

static void machine_up(Machine *m)
{
    struct timeval limit = { .tv_sec = 30 };
    struct unetmm_cmd cmd;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    m->qts = qtest_initf("-machine q35 -nodefaults -m 64 "
                         "-netdev dgram,id=n0,local.type=fd,local.str=%d "
                         "-device unetmm,netdev=n0,addr=04.0,mac=" MAC,
                         fds[1]);
    close(fds[1]);
    m->wire = fds[0];
    pc_alloc_init(&m->alloc, m->qts, ALLOC_NO_FLAGS);
    m->bus = qpci_new_pc(m->qts, &m->alloc);
    memset(&m->card, 0, sizeof(m->card));
    qunetmm_init(&m->card, m->bus, QPCI_DEVFN(4, 0), &m->alloc);
    qunetmm_enable(&m->card);
    qunetmm_start(&m->card, 5);
    qunetmm_space(&m->card, 0, UNETMM_SOURCE_DIRECT, 0, 0);
    qunetmm_ep_alloc(&m->ep, &m->card, EP, 0, LOG2);
    cmd = qunetmm_ep_cmd(&m->ep, UNETMM_POLICY_DROP, 0);
    cmd.ep_create.flags = UNETMM_EP_F_RAW | UNETMM_EP_F_VECTOR;
    g_assert_cmpuint(qunetmm_cmd(&m->card, &cmd, NULL), ==, UNETMM_CS_OK);
    flow(m, 0, UNETMM_FLOW_MAC, UNETMM_FLOW_F_BROADCAST);
    m->tx = qunetmm_alloc(&m->card, 1 << 16);
    m->rx = qunetmm_alloc(&m->card, 1 << 16);
}

static void machine_down(Machine *m)
{
    qpci_free_pc(m->bus);
    alloc_destroy(&m->alloc);
    qtest_quit(m->qts);
    close(m->wire);
}

/* ---- Frames ---- */

static uint32_t sum(const uint8_t *at, size_t bytes, uint32_t so_far)
{
    for (size_t i = 0; i < bytes; i++) {
        so_far += i % 2 ? at[i] : at[i] << 8;
    }
    return so_far;
}

static uint16_t fold(uint32_t s)
{
    while (s >> 16) {
        s = (s & 0xffff) + (s >> 16);
    }
    return s;
}

/* One's complement sum of header, pseudo header and data: right is 0xffff. */
static uint16_t l4_sum(const uint8_t *frame, size_t bytes)
{
    bool v6 = lduw_be_p(frame + 12) == 0x86dd;
    size_t l4 = ETH + (v6 ? 40 : 20);
    uint32_t s = (v6 ? frame[20] : frame[23]) + (bytes - l4);

    s = v6 ? sum(frame + 22, 32, s) : sum(frame + 26, 8, s);
    return fold(sum(frame + l4, bytes - l4, s));
}

/* A frame of so much payload, without checksums.  Returns its length. */
static size_t make(uint8_t *frame, bool v6, uint8_t proto, size_t payload)
{
    size_t l4 = ETH + (v6 ? 40 : 20), header = proto == TCP ? 20 : 8;
    size_t bytes = l4 + header + payload;
    uint8_t *at = frame + ETH;

    memset(frame, 0, l4 + header);
    memcpy(frame, peer, 6);
    memcpy(frame + 6, mac, 6);
    stw_be_p(frame + 12, v6 ? 0x86dd : 0x0800);
    if (v6) {
        at[0] = 0x60;
        stw_be_p(at + 4, header + payload);
        at[6] = proto;
        at[7] = 64;
        at[23] = 1;
        at[39] = 2;
    } else {
        at[0] = 0x45;
        stw_be_p(at + 2, 20 + header + payload);
        stw_be_p(at + 4, 77);
        at[8] = 64;
        at[9] = proto;
        stl_be_p(at + 12, 0x0a000001);
        stl_be_p(at + 16, 0x0a000002);
        stw_be_p(at + 10, ~fold(sum(at, 20, 0)));
    }
    at = frame + l4;
    stw_be_p(at, 1024);
    stw_be_p(at + 2, 80);
    if (proto == TCP) {
        stl_be_p(at + 4, 0x12345678);
        at[12] = 0x50;
        at[13] = 0x19;                  /* FIN, PSH, ACK */
    } else {
        stw_be_p(at + 4, 8 + payload);
    }
    qunetmm_pattern(frame + l4 + header, payload, payload);
    return bytes;
}

static void send_frame(Machine *m, const uint8_t *frame, size_t bytes,
                       uint32_t imm, uint8_t status)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_FRAME, .nsegs = 1, .cookie = bytes, .imm = imm,
        .seg = { { .addr = cpu_to_le64(m->tx), .len = cpu_to_le32(bytes) } },
    };

    qtest_memwrite(m->qts, m->tx, frame, bytes);
    qunetmm_put_sqe(&m->ep, &sqe);
    qunetmm_doorbell(&m->card, EP);
    qunetmm_expect(&m->ep, UNETMM_CQE_SENT, status, bytes);
}

static size_t next_frame(Machine *m, uint8_t *frame)
{
    ssize_t n = recv(m->wire, frame, UNETMM_MAX_FRAME, 0);

    g_assert_cmpint(n, >, 0);
    return n;
}

/* ---- Tests ---- */

static void test_plain(void)
{
    uint8_t frame[UNETMM_ETH_MAX], out[UNETMM_MAX_FRAME];
    static const size_t lengths[] = { 60, 61, 1514, 9014, UNETMM_ETH_MAX };
    Machine m;

    machine_up(&m);
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        make(frame, false, UDP, lengths[i] - 42);
        send_frame(&m, frame, lengths[i], 0, UNETMM_ST_OK);
        g_assert_cmpuint(next_frame(&m, out), ==, lengths[i]);
        g_assert_cmpint(memcmp(out, frame, lengths[i]), ==, 0);
    }
    machine_down(&m);
}

static void one_checksum(Machine *m, bool v6, uint8_t proto)
{
    uint8_t frame[2048], out[UNETMM_MAX_FRAME];
    size_t bytes = make(frame, v6, proto, 1001);

    send_frame(m, frame, bytes, UNETMM_TX_CSUM, UNETMM_ST_OK);
    g_assert_cmpuint(next_frame(m, out), ==, bytes);
    g_assert_cmphex(l4_sum(out, bytes), ==, 0xffff);
    g_assert_cmpuint(qunetmm_counter(&m->card, UNETMM_C_eth_segmented), ==, 0);
}

static void test_checksums(void)
{
    Machine m;

    machine_up(&m);
    one_checksum(&m, false, TCP);
    one_checksum(&m, false, UDP);
    one_checksum(&m, true, TCP);
    one_checksum(&m, true, UDP);
    g_assert_cmpuint(qunetmm_counter(&m.card, UNETMM_C_eth_csums), ==, 4);
    machine_down(&m);
}

static void one_cut(Machine *m, bool v6, size_t payload)
{
    static uint8_t frame[UNETMM_MAX_FRAME], out[UNETMM_MAX_FRAME];
    size_t bytes = make(frame, v6, TCP, payload);
    size_t l4 = ETH + (v6 ? 40 : 20), at = 0;

    send_frame(m, frame, bytes, UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | MSS,
               UNETMM_ST_OK);
    for (unsigned i = 0; at < payload; i++) {
        size_t n = next_frame(m, out), part = n - l4 - 20;
        bool last = at + part == payload;

        g_assert_cmpuint(part, ==, MIN(MSS, payload - at));
        g_assert_cmpint(memcmp(out, frame, 14), ==, 0);
        g_assert_cmphex(l4_sum(out, n), ==, 0xffff);
        g_assert_cmphex(ldl_be_p(out + l4 + 4), ==, 0x12345678 + at);
        g_assert_cmphex(out[l4 + 13] & 9, ==, last ? 9 : 0);
        if (v6) {
            g_assert_cmpuint(lduw_be_p(out + ETH + 4), ==, 20 + part);
        } else {
            g_assert_cmpuint(lduw_be_p(out + ETH + 2), ==, 40 + part);
            g_assert_cmpuint(lduw_be_p(out + ETH + 4), ==, 77 + i);
            g_assert_cmphex(fold(sum(out + ETH, 20, 0)), ==, 0xffff);
        }
        g_assert_cmpint(memcmp(out + l4 + 20, frame + l4 + 20 + at, part), ==,
                        0);
        at += part;
    }
}

static void test_segments(void)
{
    Machine m;

    machine_up(&m);
    for (unsigned v6 = 0; v6 < 2; v6++) {
        one_cut(&m, v6, 10);
        one_cut(&m, v6, MSS);
        one_cut(&m, v6, MSS + 7);
        one_cut(&m, v6, 10 * MSS);
        one_cut(&m, v6, 65000);
    }
    machine_down(&m);
}

/*
 * Headers that lie, cut anywhere, with every offload: each descriptor
 * completes, and a good frame after it goes as it should.
 */
static void test_garbage(void)
{
    static uint8_t frame[UNETMM_MAX_FRAME], out[UNETMM_MAX_FRAME];
    GRand *rand = g_rand_new_with_seed(7);
    struct unetmm_cqe cqe;
    Machine m;

    machine_up(&m);
    for (unsigned i = 0; i < GARBAGE; i++) {
        bool v6 = g_rand_boolean(rand);
        size_t bytes = make(frame, v6, g_rand_boolean(rand) ? TCP : UDP,
                            g_rand_int_range(rand, 0, 5000));
        struct unetmm_sqe sqe = {
            .opcode = UNETMM_OP_FRAME, .nsegs = 1,
            .imm = g_rand_boolean(rand) ? UNETMM_TX_CSUM : UNETMM_TX_CSUM |
                   UNETMM_TX_SEGMENT | g_rand_int_range(rand, 64, 9000),
        };

        for (int k = g_rand_int_range(rand, 0, 5); k > 0; k--) {
            frame[g_rand_int_range(rand, 12, 80)] = g_rand_int(rand);
        }
        if (g_rand_boolean(rand)) {
            bytes = g_rand_int_range(rand, 0, MIN(bytes, 120));
        }
        sqe.seg[0] = (struct unetmm_seg) {
            .addr = cpu_to_le64(m.tx), .len = cpu_to_le32(bytes),
        };
        qtest_memwrite(m.qts, m.tx, frame, bytes);
        qunetmm_put_sqe(&m.ep, &sqe);
        do {
            qunetmm_doorbell(&m.card, EP);
            while (recv(m.wire, out, sizeof(out), MSG_DONTWAIT) > 0) {
                ;
            }
        } while (!qunetmm_cqe(&m.ep, &cqe));
        g_assert_cmpuint(cqe.opcode, ==, UNETMM_CQE_SENT);
    }
    one_cut(&m, false, 3000);
    g_rand_free(rand);
    machine_down(&m);
}

/*
 * Packets of SCTP whose header is not in the frame, which net_rx_pkt would look
 * for: nothing is looked at but TCP and UDP.
 */
static void test_not_looked_at(void)
{
    uint8_t frame[60] = { 0 };
    struct unetmm_cqe cqe;
    Machine m;

    machine_up(&m);
    memcpy(frame, mac, 6);
    memcpy(frame + 6, peer, 6);
    for (unsigned i = 0; i < 2; i++) {
        memset(frame + ETH, 0, sizeof(frame) - ETH);
        stw_be_p(frame + 12, i ? 0x86dd : 0x0800);
        if (i) {
            frame[ETH] = 0x60;
            stw_be_p(frame + ETH + 4, 6);
            frame[ETH + 40] = 132;
            frame[ETH + 41] = 255;
        } else {
            frame[ETH] = 0x4f;
            stw_be_p(frame + ETH + 2, 46);
            frame[ETH + 9] = 132;
        }
        qunetmm_post(&m.ep, i, m.rx, 2048);
        g_assert_cmpint(send(m.wire, frame, sizeof(frame), 0), ==,
                        sizeof(frame));
        qunetmm_wait_counter(&m.card, UNETMM_C_eth_rx_frames, i + 1);
        cqe = qunetmm_expect(&m.ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        g_assert_false(cqe.flags & UNETMM_CQE_F_CSUM_OK);
    }
    machine_down(&m);
}

/* Padding is no data: it is neither summed nor sent. */
static void test_padding(void)
{
    uint8_t frame[128], out[UNETMM_MAX_FRAME];
    size_t bytes;
    Machine m;

    machine_up(&m);
    for (unsigned v6 = 0; v6 < 2; v6++) {
        bytes = make(frame, v6, UDP, 20);
        memset(frame + bytes, 0xff, 10);
        send_frame(&m, frame, bytes + 10, UNETMM_TX_CSUM, UNETMM_ST_OK);
        g_assert_cmpuint(next_frame(&m, out), ==, bytes);
        g_assert_cmphex(l4_sum(out, bytes), ==, 0xffff);
    }
    bytes = make(frame, false, TCP, 0);
    send_frame(&m, frame, bytes, UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | MSS,
               UNETMM_ST_BAD_DESC);
    machine_down(&m);
}

static void test_received(void)
{
    uint8_t frame[2048], there[2048];
    struct unetmm_cqe cqe;
    Machine m;

    machine_up(&m);
    for (unsigned i = 0; i < 8; i++) {
        bool v6 = i & 1, right = i & 4;
        uint8_t proto = i & 2 ? TCP : UDP;
        size_t bytes = make(frame, v6, proto, 500);
        uint8_t *at = frame + ETH + (v6 ? 40 : 20) + (proto == TCP ? 16 : 6);

        memcpy(frame, mac, 6);
        memcpy(frame + 6, peer, 6);
        stw_be_p(at, ~l4_sum(frame, bytes) + !right);
        qunetmm_post(&m.ep, i, m.rx, 2048);
        g_assert_cmpint(send(m.wire, frame, bytes, 0), ==, bytes);
        qunetmm_wait_counter(&m.card, UNETMM_C_eth_rx_frames, i + 1);
        cqe = qunetmm_expect(&m.ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        g_assert_cmpuint(cqe.len, ==, bytes);
        g_assert_cmpuint(!!(cqe.flags & UNETMM_CQE_F_CSUM_OK), ==, right);
        qtest_memread(m.qts, m.rx, there, bytes);
        g_assert_cmpint(memcmp(there, frame, bytes), ==, 0);
    }
    machine_down(&m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/unetmm/eth/plain", test_plain);
    qtest_add_func("/unetmm/eth/checksums", test_checksums);
    qtest_add_func("/unetmm/eth/segments", test_segments);
    qtest_add_func("/unetmm/eth/garbage", test_garbage);
    qtest_add_func("/unetmm/eth/received", test_received);
    qtest_add_func("/unetmm/eth/not-looked-at", test_not_looked_at);
    qtest_add_func("/unetmm/eth/padding", test_padding);
    return g_test_run();
}
