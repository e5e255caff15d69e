/*
 * unetmm: parts of regions that are somewhere else
 *
 * The test is the peer, and the process that copies landed bytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define ASK     UNETMM_WIRE_F_ASK
#define LAST    UNETMM_WIRE_F_LAST

#define AT      3000            /* the part that moves, in the region ... */
#define LENGTH  2000
#define TO      (PEER_PAGE(30) + 3) /* ... and where to */

#define PAGE_NS 5000

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

/* ---- The driver --------------------------------------------------------- */

typedef struct Listed {
    uint8_t status;
    uint32_t n;
    struct unetmm_landed at[UNETMM_REDIRECT_LANDED];
} Listed;

static uint64_t list_at;        /* of this test's card */

static void open_part(Fix *f)
{
    peer_open(f);
    fake_region_clear(&f->d, PEER_REGION);
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, UNETMM_RIGHT_ALL,
                                 FAKE_REGION_PEERS), UNETMM_CS_OK);
    fake_insert(f->s1, PEER_PAGE(30), 4, NULL);
    list_at = fake_alloc(&f->h, sizeof(((Listed *)NULL)->at), 8, FAKE_RW);
    fake_wire_clear(&f->h);
}

static struct unetmm_cmd part_cmd(uint8_t what, uint64_t offset,
                                  uint64_t length, uint64_t to)
{
    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_REGION_REDIRECT,
        .redirect = { .region = PEER_REGION, .what = what, .offset = offset,
                      .length = length, .to = to, .list = list_at },
    };
}

static Listed listed(Fix *f, const struct unetmm_cmd_done *done)
{
    Listed l = { .status = done->status, .n = done->result };

    assert_int_equal(done->opcode, UNETMM_CMD_REGION_REDIRECT);
    assert_true(l.n <= UNETMM_REDIRECT_LANDED);
    fake_read(&f->h, list_at, l.at, l.n * sizeof(l.at[0]));
    for (uint32_t i = 0; i < l.n; i++) {
        unetmm_le_landed(&l.at[i]);
    }
    return l;
}

/* Issues it; if it has to wait, lets the transfers come to their end. */
static Listed command(Fix *f, struct unetmm_cmd cmd)
{
    struct unetmm_cmd_done done;

    fake_issue(&f->d, cmd);
    for (unsigned i = 0; !fake_done(&f->d, &done); i++) {
        assert_true(i < 4);
        fake_advance(&f->h, PAGE_NS / 2);
    }
    return listed(f, &done);
}

static Listed part(Fix *f, uint8_t what, uint64_t offset, uint64_t length,
                   uint64_t to)
{
    return command(f, part_cmd(what, offset, length, to));
}

#define BEGIN(...)  part(f, UNETMM_REDIRECT_BEGIN, __VA_ARGS__)
#define GO(at)      part(f, UNETMM_REDIRECT_GO, at, 0, 0).status
#define BACK(at, keep) part(f, UNETMM_REDIRECT_BACK, at, keep, 0)
#define END(at)     part(f, UNETMM_REDIRECT_END, at, 0, 0).status

/* Spans are offsets in the region; the part is at AT and goes to TO. */
static void copy(Fix *f, const Listed *l, bool back)
{
    for (uint32_t i = 0; i < l->n; i++) {
        uint64_t own = PEER_AT + l->at[i].offset;
        uint64_t to = TO + (l->at[i].offset - AT);
        uint64_t len = l->at[i].length;
        uint8_t *data = g_malloc(len);

        assert_true(l->at[i].offset >= AT &&
                    l->at[i].offset + len <= AT + LENGTH);
        fake_load(f->s1, back ? to : own, data, len);
        fake_store(f->s1, back ? own : to, data, len);
        g_free(data);
    }
}

/* ---- The peer ----------------------------------------------------------- */

static struct unetmm_frame head(uint8_t opcode, uint32_t psn, uint64_t at)
{
    return (struct unetmm_frame) {
        .opcode = opcode, .psn = psn, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at,
        .flags = opcode == UNETMM_WIRE_WRITE ? LAST | ASK : ASK,
    };
}

/* Bytes [at, + len) of the region become those of message n. */
static void write_at(Fix *f, uint32_t psn, uint64_t at, uint32_t len,
                     uint32_t n)
{
    uint8_t data[PEER_MTU];

    for (uint32_t i = 0; i < len; i++) {
        data[i] = fake_pattern(n, at + i);
    }
    peer_give(f, head(UNETMM_WIRE_WRITE, psn, at), data, len);
}

static void expect_taken(Fix *f, uint32_t psn)
{
    peer_expect_ack(f, psn + 1, 0, UNETMM_ACK_OK, 0);
}

static void expect_held(Fix *f, uint32_t psn)
{
    peer_expect_ack(f, psn, 0, UNETMM_ACK_NOT_READY, 100);
}

/* Bytes [at, + len) of message n are here; offsets are the region's. */
static void expect_bytes(Fix *f, uint64_t vaddr, uint64_t at, uint32_t len,
                         uint32_t n)
{
    uint8_t data[PEER_LENGTH];

    fake_load(f->s1, vaddr, data, len);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(data[i], n ? fake_pattern(n, at + i) : 0);
    }
}

/* ---- Commands ----------------------------------------------------------- */

#define REFUSED(why, change) do { \
        struct unetmm_cmd c = part_cmd(UNETMM_REDIRECT_BEGIN, AT, LENGTH, \
                                       TO); \
        change; \
        assert_int_equal(command(f, c).status, UNETMM_CS_##why); \
    } while (0)

TEST_OF(test_commands, Fix *f, fix_test)
{
    open_part(f);
    fake_region(f->s1, 4, 1, PEER_PAGE(1), 4096, 7, 0);
    fake_region(f->s1, 5, 1, 1, UINT64_MAX, 7, UNETMM_REGION_F_REDIRECT);
    REFUSED(BAD_ID, c.redirect.region = 16);
    REFUSED(BAD_ID, c.redirect.region = ~0u);
    REFUSED(BAD_ID, c.redirect.region = 2);
    REFUSED(BAD_ARG, c.redirect.region = 4);
    REFUSED(BAD_ARG, c.redirect.length = 0);
    REFUSED(BAD_ARG, c.redirect.length = PEER_LENGTH - AT + 1);
    REFUSED(BAD_ARG, c.redirect.length = UINT64_MAX);
    REFUSED(BAD_ARG, c.redirect.offset = PEER_LENGTH);
    REFUSED(BAD_ARG, c.redirect.offset = UINT64_MAX);
    REFUSED(BAD_ARG, c.redirect.to = -LENGTH + 1ull);
    REFUSED(BAD_ARG, c.redirect.list += 4);
    REFUSED(BAD_ID, c.redirect.what = 0);
    REFUSED(BAD_ID, c.redirect.what = UNETMM_REDIRECT_GO);
    REFUSED(BAD_ID, c.redirect.what = UNETMM_REDIRECT_BACK);
    REFUSED(BAD_ID, c.redirect.what = UNETMM_REDIRECT_END);
    REFUSED(OK, (void)0);
    REFUSED(EXISTS, (void)0);
    REFUSED(EXISTS, (c.redirect.offset = 0, c.redirect.length = AT + 1));
    REFUSED(EXISTS, (c.redirect.offset = AT + LENGTH - 1,
                     c.redirect.length = 1));
    REFUSED(EXISTS, (c.redirect.offset = AT + 1, c.redirect.length = 1));
    REFUSED(BAD_ARG, c.redirect.what = UNETMM_REDIRECT_GO);
    REFUSED(BAD_ARG, c.redirect.what = 5);
    REFUSED(BAD_ARG, c.redirect.what = 255);
    REFUSED(BAD_ID, (c.redirect.what = UNETMM_REDIRECT_END,
                     c.redirect.offset++));
    REFUSED(BAD_ARG, (c.redirect.what = UNETMM_REDIRECT_BACK,
                      c.redirect.length = LENGTH + 1));
    REFUSED(BAD_ARG, (c.redirect.what = UNETMM_REDIRECT_BACK,
                      c.redirect.list++));
    REFUSED(OK, (c.redirect.offset = 0, c.redirect.length = AT));
    REFUSED(OK, (c.redirect.offset = AT + LENGTH, c.redirect.length = 1));
    REFUSED(OK, (c.redirect.offset = PEER_LENGTH - 1,
                 c.redirect.length = 1));
    REFUSED(FULL, (c.redirect.offset = PEER_LENGTH - 2,
                   c.redirect.length = 1));
    assert_int_equal(END(AT + LENGTH), UNETMM_CS_OK);
    assert_int_equal(END(AT + LENGTH), UNETMM_CS_BAD_ID);
    REFUSED(OK, (c.redirect.offset = PEER_LENGTH - 2,
                 c.redirect.length = 1));
    /* The largest length. */
    REFUSED(OK, (c.redirect.region = 5, c.redirect.offset = 0,
                 c.redirect.length = UINT64_MAX, c.redirect.to = 1));
    assert_int_equal(fake_counter(&f->h, UNETMM_C_redirects), 6);
    assert_int_equal(fake_region_clear(&f->d, PEER_REGION), UNETMM_CS_OK);
    REFUSED(BAD_ID, (void)0);
}

/* The list cannot be written: nothing has happened. */
TEST_OF(test_list_refused, Fix *f, fix_test)
{
    Listed l;

    open_part(f);
    write_at(f, PEER_YOURS, AT, 100, 1);
    expect_taken(f, PEER_YOURS);
    f->h.refuse_first = list_at;
    f->h.refuse_last = list_at + 7;
    assert_int_equal(BEGIN(AT, LENGTH, TO).status, UNETMM_CS_DMA);
    f->h.refuse_first = f->h.refuse_last = 0;
    l = BEGIN(AT, LENGTH, TO);
    assert_int_equal(l.n, 1);
    copy(f, &l, false);
    assert_int_equal(GO(AT), UNETMM_CS_OK);
    write_at(f, PEER_YOURS + 1, AT + 500, 100, 2);
    expect_taken(f, PEER_YOURS + 1);
    f->h.refuse_first = list_at;
    f->h.refuse_last = list_at + 7;
    assert_int_equal(BACK(AT, 0).status, UNETMM_CS_DMA);
    f->h.refuse_first = f->h.refuse_last = 0;
    write_at(f, PEER_YOURS + 2, AT + 600, 100, 3);
    expect_taken(f, PEER_YOURS + 2);
    /* The bytes that were copied there, and those that have landed there. */
    l = BACK(AT, 0);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.at[0].offset, AT);
    assert_int_equal(l.at[0].length, 100);
    assert_int_equal(l.at[1].offset, AT + 500);
    assert_int_equal(l.at[1].length, 200);
    assert_int_equal(END(AT), UNETMM_CS_OK);
    l = BEGIN(AT, LENGTH, TO);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.at[0].length + l.at[1].length, 300);
}

/* ---- Where it lands ----------------------------------------------------- */

/* Each byte where it belongs, of packets that end and begin on both edges. */
TEST(test_pieces, fix_test)
{
    static const uint32_t edges[] = { AT - 1, AT, AT + 1, AT + LENGTH - 1,
                                      AT + LENGTH, AT + LENGTH + 1 };
    Fix *f = *state;
    uint32_t psn = PEER_YOURS, n = 1;

    open_part(f);
    assert_int_equal(BEGIN(AT, LENGTH, TO).n, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(edges); i++) {
        for (uint32_t len = 1; len <= 1000; len += 333, n++) {
            for (unsigned end = 0; end < 2; end++, psn++) {
                uint32_t at = end ? edges[i] - len : edges[i];

                write_at(f, psn, at, len, n);
                expect_taken(f, psn);
                for (uint32_t k = at; k < at + len; k++) {
                    bool moved = k >= AT && k < AT + LENGTH;

                    expect_bytes(f, moved ? TO + k - AT : PEER_AT + k, k, 1,
                                 n);
                    if (moved) {
                        expect_bytes(f, PEER_AT + k, k, 1, 0);
                    }
                }
            }
        }
    }
    expect_bytes(f, TO - 3, 0, 3, 0);
    expect_bytes(f, TO + LENGTH, 0, 100, 0);
}

/* Four parts at once; one packet through all of them. */
TEST_OF(test_four_parts, Fix *f, fix_test)
{
    struct unetmm_frame h;
    PeerFrame p;

    open_part(f);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(BEGIN(1000 + 200 * i, 100,
                               TO + 300 * (3 - i)).status, UNETMM_CS_OK);
    }
    write_at(f, PEER_YOURS, 900, 1000, 1);
    expect_taken(f, PEER_YOURS);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t at = 900 + 100 * i;
        bool moved = i % 2 && i < 9;

        expect_bytes(f, moved ? TO + 300 * (3 - i / 2) : PEER_AT + at, at,
                     100, 1);
    }
    /* And read back through all of them. */
    h = head(UNETMM_WIRE_READ, PEER_YOURS + 1, 900);
    h.imm = 1000;
    peer_give(f, h, NULL, 0);
    p = peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 1);
    assert_int_equal(p.h.len, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(p.data[i], fake_pattern(1, 900 + i));
    }
}

/* ---- Landed bytes -------------------------------------------------------- */

TEST_OF(test_landed, Fix *f, fix_test)
{
    Listed l;

    open_part(f);
    write_at(f, PEER_YOURS, AT - 100, 200, 1);
    write_at(f, PEER_YOURS + 1, AT + 100, 50, 1);
    write_at(f, PEER_YOURS + 2, AT + LENGTH - 10, 1000, 1);
    fake_wire_clear(&f->h);
    l = BEGIN(AT, LENGTH, TO);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.at[0].offset, AT);
    assert_int_equal(l.at[0].length, 150);
    assert_int_equal(l.at[1].offset, AT + LENGTH - 10);
    assert_int_equal(l.at[1].length, 10);
    /* Held: at its turn, before it, in part; and nothing else is. */
    expect_count(&f->h, rel_held, 1,
                 write_at(f, PEER_YOURS + 3, AT + 10, 10, 2));
    expect_held(f, PEER_YOURS + 3);
    write_at(f, PEER_YOURS + 3, AT - 10, 11, 2);
    expect_held(f, PEER_YOURS + 3);
    copy(f, &l, false);
    assert_int_equal(GO(AT), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS + 3, 0, UNETMM_ACK_OK, 0);
    write_at(f, PEER_YOURS + 3, AT + 10, 10, 2);
    expect_taken(f, PEER_YOURS + 3);
    expect_bytes(f, TO, AT, 10, 1);
    expect_bytes(f, TO + 10, AT + 10, 10, 2);
    expect_bytes(f, TO + 20, AT + 20, 130, 1);
    assert_int_equal(END(AT), UNETMM_CS_OK);
    /* Bytes that were taken are not listed again; bytes outside still are. */
    l = BEGIN(0, PEER_LENGTH, PEER_PAGE(32));
    assert_int_equal(l.n, 2);
    assert_int_equal(l.at[0].offset, AT - 100);
    assert_int_equal(l.at[0].length, 100);
    assert_int_equal(l.at[1].offset, AT + LENGTH);
    assert_int_equal(l.at[1].length, 990);
}

TEST_OF(test_held_elsewhere, Fix *f, fix_test)
{
    open_part(f);
    write_at(f, PEER_YOURS, AT, 10, 1);
    expect_taken(f, PEER_YOURS);
    assert_int_equal(BEGIN(AT, LENGTH, TO).n, 1);
    write_at(f, PEER_YOURS + 1, AT - 10, 10, 2);
    expect_taken(f, PEER_YOURS + 1);
    write_at(f, PEER_YOURS + 2, AT + LENGTH, 10, 2);
    expect_taken(f, PEER_YOURS + 2);
    /* An empty one is nowhere. */
    write_at(f, PEER_YOURS + 3, AT + 5, 0, 2);
    expect_taken(f, PEER_YOURS + 3);
    expect_count(&f->h, drop_rel_early, 1,
                 write_at(f, PEER_YOURS + 5, AT + 5, 10, 2));
    peer_expect_ack(f, PEER_YOURS + 4, 0, UNETMM_ACK_OK, 0);
}

/* Each wait for a part, through any endpoint of the space, ends. */
TEST(test_held_of_two, fix_test)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000, .not_ready_retries = 4,
    };
    Fix *f = *state;
    struct unetmm_frame *h;
    unsigned told = 0;
    FakeFrame *frame;
    FakeEp third;

    open_part(f);
    fake_ep_open(&third, &f->d, 3, f->s1);
    assert_int_equal(fake_channel_rel(&third, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    write_at(f, PEER_YOURS, AT, 10, 1);
    expect_taken(f, PEER_YOURS);
    assert_int_equal(BEGIN(AT, LENGTH, TO).n, 1);
    write_at(f, PEER_YOURS + 1, AT, 10, 1);
    expect_held(f, PEER_YOURS + 1);
    frame = fake_datagram(&third, PEER_CH, PEER_EP, 10, 1);
    h = fake_header(frame);
    h->opcode = UNETMM_WIRE_WRITE;
    h->psn = cpu_to_le32(PEER_YOURS);
    h->handle = cpu_to_le32(PEER_REGION);
    h->offset = cpu_to_le32(PEER_KEY);
    h->remote = cpu_to_le64(AT);
    h->flags = cpu_to_le32(UNETMM_WIRE_F_LAST | UNETMM_WIRE_F_ASK);
    fake_seal(frame);
    fake_deliver(&f->h, frame);
    fake_wire_clear(&f->h);
    assert_int_equal(END(AT), UNETMM_CS_OK);
    while (f->h.wire->len) {
        struct unetmm_frame ack;

        memcpy(&ack, fake_wire_at(&f->h, 0)->data, sizeof(ack));
        unetmm_le_frame(&ack);
        assert_int_equal(ack.opcode, UNETMM_WIRE_ACK);
        assert_int_equal(ack.imm, UNETMM_ACK_OK);
        told |= 1u << ack.src_ep;
        g_ptr_array_remove_index(f->h.wire, 0);
    }
    assert_int_equal(told, 1u << 1 | 1u << 3);
}

/* Too many intervals: too much is listed, never too little. */
/* Of a packet across an edge each byte is noted where it has landed. */
TEST_OF(test_landed_across, Fix *f, fix_test)
{
    Listed l;

    open_part(f);
    write_at(f, PEER_YOURS, 10, 100, 1);
    l = BEGIN(AT, LENGTH, TO);
    assert_int_equal(l.n, 0);
    write_at(f, PEER_YOURS + 1, AT - 100, 200, 1);
    write_at(f, PEER_YOURS + 2, AT + LENGTH - 10, 100, 1);
    l = BACK(AT, 0);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.at[0].offset, AT);
    assert_int_equal(l.at[0].length, 100);
    assert_int_equal(l.at[1].offset, AT + LENGTH - 10);
    assert_int_equal(l.at[1].length, 10);
    copy(f, &l, true);
    assert_int_equal(END(AT), UNETMM_CS_OK);
    l = BEGIN(0, PEER_LENGTH, PEER_PAGE(32));
    assert_int_equal(l.n, 3);
    assert_int_equal(l.at[0].offset, 10);
    assert_int_equal(l.at[0].length, 100);
    assert_int_equal(l.at[1].offset, AT - 100);
    assert_int_equal(l.at[1].length, 200);
    assert_int_equal(l.at[2].offset, AT + LENGTH - 10);
    assert_int_equal(l.at[2].length, 100);
    fake_wire_clear(&f->h);
}

/* ---- Landed bytes, saved ------------------------------------------------- */

#define SPAN_LIES(X) \
    X(landed->at[0].first = 50, true) \
    X(landed->at[1].last = PEER_LENGTH - 1, true) \
    X(landed->at[0].last = landed->at[1].first - 2, true) \
    X(part->at[0].first = AT, true) \
    X(part->at[1].last = AT + LENGTH - 1, true) \
    X(landed->at[1].last = PEER_LENGTH, false) \
    X(landed->at[0].last = landed->at[0].first - 1, false) \
    X(landed->at[0].last = landed->at[1].first - 1, false) \
    X(landed->at[0].last = landed->at[1].first, false) \
    X(landed->at[1] = landed->at[0], false) \
    X(part->at[0].first = AT - 1, false) \
    X(part->at[1].last = AT + LENGTH, false) \
    X(part->at[1] = part->at[0], false)

static void tell_span_lie(Fix *f, unsigned number, bool *told)
{
    UnetmmRegionMoves *moved = f->h.core.remote->regions[PEER_REGION].moved;
    g_autofree UnetmmRegionMoves *was = g_memdup2(moved, sizeof(*was));
    UnetmmSpans *landed = &moved->landed, *part = &moved->moves[0].spans;
    g_autofree char *why = NULL;
    bool believed = true;
    GByteArray *saved;
    FakeHost other;
    unsigned n = 0;

#define LIE(statement, so) \
    if (n++ == number) { \
        statement; \
        believed = so; \
    }
    SPAN_LIES(LIE)
#undef LIE
    saved = unetmm_core_save(&f->h.core);
    *told = number < n;
    *moved = *was;
    fake_host_init(&other, &f->h.core.params);
    if (unetmm_core_load(&other.core, saved->data, saved->len, &why) !=
        believed) {
        fail_msg("lie %u is %s", number, why ?: "believed");
    }
    assert_true(believed || strstr(why, "impossible spans of a region"));
    fake_host_free(&other);
    g_byte_array_unref(saved);
}

/* Spans are in their region or part, in order, and apart. */
TEST_OF(test_landed_saved, Fix *f, fix_test)
{
    bool told = true;

    open_part(f);
    write_at(f, PEER_YOURS, 100, 100, 1);
    write_at(f, PEER_YOURS + 1, AT + LENGTH + 100, 100, 1);
    write_at(f, PEER_YOURS + 2, AT + 100, 100, 1);
    write_at(f, PEER_YOURS + 3, AT + 500, 100, 1);
    assert_int_equal(BEGIN(AT, LENGTH, TO).n, 2);
    assert_int_equal(f->h.core.remote->regions[PEER_REGION].moved->landed.n, 2);
    for (unsigned i = 0; told; i++) {
        tell_span_lie(f, i, &told);
    }
}

TEST_OF(test_landed_superset, Fix *f, fix_test)
{
    uint64_t random = fake_seed();

    open_part(f);
    for (unsigned round = 0; round < 40; round++) {
        bool landed[LENGTH] = { false };
        Listed l;

        fake_region_clear(&f->d, PEER_REGION);
        fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT, PEER_LENGTH, 7, 2);
        for (unsigned i = 0; i < 30; i++) {
            uint32_t len = 1 + fake_random(&random) % 40;
            uint32_t at = fake_random(&random) % (LENGTH - len);
            uint32_t psn = PEER_YOURS + round * 30 + i;

            write_at(f, psn, AT + at, len, 1);
            expect_taken(f, psn);
            memset(landed + at, true, len);
        }
        l = BEGIN(AT, LENGTH, TO);
        for (uint32_t i = 0; i < l.n; i++) {
            assert_true(l.at[i].length &&
                        (!i || l.at[i].offset > l.at[i - 1].offset +
                         l.at[i - 1].length));
            memset(landed + l.at[i].offset - AT, false, l.at[i].length);
        }
        assert_null(memchr(landed, true, sizeof(landed)));
    }
}

/* END in place of GO: nothing has changed, and its bytes are listed again. */
TEST_OF(test_cancelled, Fix *f, fix_test)
{
    open_part(f);
    write_at(f, PEER_YOURS, AT + 5, 10, 1);
    expect_taken(f, PEER_YOURS);
    for (unsigned i = 0; i < 3; i++) {
        Listed l = BEGIN(AT, LENGTH, TO);

        assert_int_equal(l.n, 1);
        assert_int_equal(l.at[0].offset, AT + 5);
        write_at(f, PEER_YOURS + 1 + i, AT, 10, 2);
        expect_held(f, PEER_YOURS + 1 + i);
        assert_int_equal(BACK(AT, 0).status, UNETMM_CS_BAD_ARG);
        assert_int_equal(END(AT), UNETMM_CS_OK);
        peer_expect_ack(f, PEER_YOURS + 1 + i, 0, UNETMM_ACK_OK, 0);
        write_at(f, PEER_YOURS + 1 + i, AT + 5, 10, 1);
        expect_taken(f, PEER_YOURS + 1 + i);
    }
    expect_bytes(f, TO, 0, LENGTH, 0);
    expect_bytes(f, PEER_AT + AT + 5, AT + 5, 10, 1);
}

/* Bytes that have landed there come back, but for those that are kept. */
TEST_OF(test_back, Fix *f, fix_test)
{
    Listed l;

    open_part(f);
    BEGIN(AT, LENGTH, TO);
    write_at(f, PEER_YOURS, AT + 100, 500, 1);
    expect_taken(f, PEER_YOURS);
    l = BACK(AT, 300);
    assert_int_equal(l.n, 1);
    assert_int_equal(l.at[0].offset, AT + 300);
    assert_int_equal(l.at[0].length, 300);
    write_at(f, PEER_YOURS + 1, AT + 300, 1, 2);
    expect_held(f, PEER_YOURS + 1);
    /* It stays after all. */
    assert_int_equal(GO(AT), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    write_at(f, PEER_YOURS + 1, AT + 350, 10, 2);
    expect_taken(f, PEER_YOURS + 1);
    l = BACK(AT, 300);
    copy(f, &l, true);
    assert_int_equal(END(AT), UNETMM_CS_OK);
    expect_bytes(f, PEER_AT + AT, AT, 300, 0);
    expect_bytes(f, PEER_AT + AT + 300, AT + 300, 50, 1);
    expect_bytes(f, PEER_AT + AT + 350, AT + 350, 10, 2);
    expect_bytes(f, PEER_AT + AT + 360, AT + 360, 240, 1);
    /* They have landed there, and a second redirection lists them. */
    l = BEGIN(AT, LENGTH, TO);
    assert_int_equal(l.n, 1);
    assert_int_equal(l.at[0].offset, AT + 300);
    assert_int_equal(l.at[0].length, 300);
    assert_int_equal(GO(AT), UNETMM_CS_OK);
    assert_int_equal(BACK(AT, LENGTH).n, 0);
    assert_int_equal(END(AT), UNETMM_CS_OK);
}

/* ---- Requests ----------------------------------------------------------- */

TEST_OF(test_read, Fix *f, fix_test)
{
    struct unetmm_frame h = head(UNETMM_WIRE_READ, PEER_YOURS, AT - 100);
    PeerFrame p;
    Listed l;

    open_part(f);
    h.imm = 300;
    fake_fill(f->s1, PEER_AT + AT - 100, 100, 1);
    fake_fill(f->s1, TO, 200, 2);
    write_at(f, PEER_YOURS, AT, 1, 0);
    expect_taken(f, PEER_YOURS);
    l = BEGIN(AT, LENGTH, TO);
    h.psn++;
    expect_count(&f->h, rel_held, 1, peer_give(f, h, NULL, 0));
    expect_held(f, PEER_YOURS + 1);
    assert_int_equal(l.n, 1);
    assert_int_equal(GO(AT), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    peer_give(f, h, NULL, 0);
    p = peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 1);
    assert_int_equal(p.h.len, 300);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(p.data[i], i < 100 ? fake_pattern(1, i) :
                         fake_pattern(2, i - 100));
    }
    /* Asked for once more while it is held: not answered, and not forgotten. */
    fake_wire_clear(&f->h);
    BACK(AT, 0);
    peer_give(f, h, NULL, 0);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_NOT_READY, 100);
    peer_silence(f);
    assert_int_equal(END(AT), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
    peer_give(f, h, NULL, 0);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 1);
}

/* Only a page of where the part is now is not there: that one is asked for. */
TEST_OF(test_read_absent, Fix *f, fix_test)
{
    struct unetmm_frame h = head(UNETMM_WIRE_READ, PEER_YOURS, AT - 100);
    struct unetmm_fault miss;

    open_part(f);
    assert_int_equal(BEGIN(AT, LENGTH, PEER_PAGE(35)).n, 0);
    fix_no_fault(f);
    h.imm = 300;
    peer_give(f, h, NULL, 0);
    expect_held(f, PEER_YOURS);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.vaddr, PEER_PAGE(35));
    assert_int_equal(miss.npages, 1);
    assert_int_equal(miss.flags, 0);
    fix_no_fault(f);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    peer_give(f, h, NULL, 0);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS).h.len,
                     300);
}

/* The part moves while an answer is gathered from it. */
TEST_OF(test_read_slow, Fix *f, fix_test_with, slow)
{
    struct unetmm_frame h = head(UNETMM_WIRE_READ, PEER_YOURS, 3500);
    PeerFrame p;

    open_part(f);
    h.imm = 1000;
    fake_fill(f->s1, PEER_AT + 3500, 1000, 1);
    fake_fill(f->s1, PEER_PAGE(31) + 5, 1000, 2);
    peer_give(f, h, NULL, 0);
    assert_int_equal(BEGIN(3500, 1000, PEER_PAGE(31) + 5).n, 0);
    fake_wire_clear(&f->h);
    for (unsigned i = 0; i < 20; i++) {
        fake_advance(&f->h, PAGE_NS);
    }
    p = peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(p.data[i], fake_pattern(2, i));
    }
}

static void atomic_at(Fix *f, uint32_t psn, uint64_t at)
{
    struct unetmm_frame h = head(UNETMM_WIRE_ATOMIC, psn, at);
    const uint64_t one = cpu_to_le64(1);

    h.imm = UNETMM_ATOMIC_ADD;
    peer_give(f, h, &one, sizeof(one));
}

TEST_OF(test_atomic, Fix *f, fix_test)
{
    const uint64_t to = PEER_PAGE(31);
    uint64_t word;

    open_part(f);
    /* PEER_AT is a multiple of 8. */
    atomic_at(f, PEER_YOURS, 800);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS);
    fake_wire_clear(&f->h);
    assert_int_equal(BEGIN(800, 100, to).n, 1);
    atomic_at(f, PEER_YOURS + 1, 800);
    expect_held(f, PEER_YOURS + 1);
    assert_int_equal(GO(800), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
    atomic_at(f, PEER_YOURS + 1, 808);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 1);
    fake_load(f->s1, to + 8, &word, 8);
    assert_int_equal(le64_to_cpu(word), 1);
    fake_load(f->s1, PEER_AT + 800, &word, 8);
    assert_int_equal(le64_to_cpu(word), 1);
    /* The last word of the part has moved by half. */
    fake_wire_clear(&f->h);
    atomic_at(f, PEER_YOURS + 2, 896);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_RANGE);
    peer_void(f, PEER_YOURS + 2, 0);
    assert_int_equal(END(800), UNETMM_CS_OK);
    assert_int_equal(BEGIN(800, 100, to + 4).status, UNETMM_CS_OK);
    fake_wire_clear(&f->h);
    atomic_at(f, PEER_YOURS + 3, 808);
    peer_expect_ack(f, PEER_YOURS + 3, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_RANGE);
}

/* ---- The end ------------------------------------------------------------ */

/* Its process dies between BEGIN and GO: waiting processes are told. */
TEST_OF(test_dies_held, Fix *f, fix_test)
{
    open_part(f);
    write_at(f, PEER_YOURS, AT, 10, 1);
    expect_taken(f, PEER_YOURS);
    assert_int_equal(BEGIN(AT, LENGTH, TO).n, 1);
    write_at(f, PEER_YOURS + 1, AT, 10, 2);
    expect_held(f, PEER_YOURS + 1);
    assert_int_equal(fake_region_clear(&f->d, PEER_REGION), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    write_at(f, PEER_YOURS + 1, AT, 10, 2);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_REGION);
}

/* Cleared while a command waits: both are answered. */
TEST_OF(test_cleared, Fix *f, fix_test_with, slow)
{
    open_part(f);
    for (unsigned what = UNETMM_REDIRECT_BEGIN; what <= UNETMM_REDIRECT_END;
         what++) {
        struct unetmm_cmd clear = { .opcode = UNETMM_CMD_REGION_CLEAR,
                                    .region.region = PEER_REGION };
        struct unetmm_cmd_done done;
        uint16_t tag;

        if (what != UNETMM_REDIRECT_BEGIN) {
            BEGIN(AT, LENGTH, TO);
        }
        write_at(f, PEER_YOURS + what, 3500, 1000, what);
        if (what != UNETMM_REDIRECT_GO) {
            fake_issue(&f->d, part_cmd(what, AT, LENGTH, TO));
            assert_false(fake_done(&f->d, &done));
        }
        tag = fake_issue(&f->d, clear);
        assert_false(fake_done(&f->d, &done));
        fake_advance(&f->h, PAGE_NS);
        if (what != UNETMM_REDIRECT_GO) {
            assert_true(fake_done(&f->d, &done));
            assert_int_equal(done.opcode, UNETMM_CMD_REGION_REDIRECT);
        }
        assert_true(fake_done(&f->d, &done));
        assert_int_equal(done.opcode, UNETMM_CMD_REGION_CLEAR);
        assert_int_equal(done.tag, tag);
        assert_int_equal(done.result, 0);
        assert_int_equal(f->h.core.ring->late, 0);
        assert_int_equal(f->h.core.remote->moves_waiting, 0);
        fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT, PEER_LENGTH, 7, 2);
    }
}

TEST_OF(test_reset, Fix *f, fix_test_with, slow)
{
    open_part(f);
    write_at(f, PEER_YOURS, 3500, 1000, 1);
    fake_issue(&f->d, part_cmd(UNETMM_REDIRECT_BEGIN, AT, LENGTH, TO));
    unetmm_core_reset(&f->h.core);
    assert_int_equal(f->h.core.remote->moves_waiting, 0);
    assert_null(f->h.core.remote->regions[PEER_REGION].moved);
    fake_advance(&f->h, 10 * PAGE_NS);
}

/*
 * A page of the place that was left is still asked for when the part comes back;
 * that it will never be there is nobody's concern then.
 */
TEST_OF(test_stale_miss, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_part(f);
    BEGIN(AT, LENGTH, PEER_PAGE(35));
    write_at(f, PEER_YOURS, AT, 10, 1);
    expect_held(f, PEER_YOURS);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.vaddr, PEER_PAGE(35));
    assert_int_equal(END(AT), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_ERROR,
                                UNETMM_ST_PROTECTION), UNETMM_CS_STALE);
    write_at(f, PEER_YOURS, AT, 10, 1);
    expect_taken(f, PEER_YOURS);
    expect_bytes(f, PEER_AT + AT, AT, 10, 1);
}

/* A page of a message's buffer is asked for whatever moves in a region. */
TEST(test_buffer_miss_stays, fix_test)
{
    const uint8_t data[PEER_MTU] = { 0 };
    struct unetmm_frame h = { .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS,
                              .remote = 2 * PEER_MTU, .flags = ASK };
    struct unetmm_fault miss;
    Fix *f = *state;

    open_part(f);
    fake_post(&f->a, PEER_PAGE(13) - PEER_MTU, 2 * PEER_MTU, 7);
    fake_ring_bell(&f->a);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    assert_true(fake_fault(&f->d, &miss));
    peer_give(f, h, data, PEER_MTU);
    expect_taken(f, PEER_YOURS);
    h.psn++;
    h.offset = PEER_MTU;
    h.flags |= LAST;
    peer_give(f, h, data, PEER_MTU);
    expect_held(f, PEER_YOURS + 1);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.vaddr, PEER_PAGE(13));
    BEGIN(AT, LENGTH, TO);
    assert_int_equal(END(AT), UNETMM_CS_OK);
    peer_silence(f);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    peer_give(f, h, data, PEER_MTU);
    expect_taken(f, PEER_YOURS + 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
}

/* ---- Every order -------------------------------------------------------- */

/*
 * Packets that overlap each other, the part's edges and a page's end, in every
 * order, with BEGIN, GO (behind the copy), BACK and END (behind the copy back) at
 * every place between them.  A refused packet comes again at the end.
 */
#define PACKETS 4
#define STEPS   4

static const struct {
    uint32_t at, len;
} packets[PACKETS] = {
    { 2800, 500 }, { 3200, 900 }, { 3900, 900 }, { 4300, 1000 },
};

typedef struct Orders {
    Fix *f;
    uint32_t psn;               /* of packet 0 */
    uint32_t round;             /* makes its bytes different ones */
    unsigned steps;             /* of the redirection that are done */
    Listed listed;
} Orders;

/* Of the card as it is now, which may have been moved. */
static const UnetmmRecvWindow *receiver(const Orders *o)
{
    return &o->f->h.core.eps[1].rels->rx;
}

static uint32_t message(const Orders *o, unsigned packet)
{
    return 1 + o->round * PACKETS + packet;
}

static void give(Orders *o, unsigned packet)
{
    write_at(o->f, o->psn + packet, packets[packet].at, packets[packet].len,
             message(o, packet));
    fake_wire_clear(&o->f->h);
}

/* Where a byte of the region is to be now. */
static uint64_t place(const Orders *o, uint32_t at)
{
    bool moved = at >= AT && at < AT + LENGTH &&
                 (o->steps == 2 || o->steps == 3);

    return moved ? TO + at - AT : PEER_AT + at;
}

/* Each accepted byte is there, unless a repeated packet has covered it. */
static void check_bytes(const Orders *o, bool exact)
{
    const UnetmmRecvWindow *rx = receiver(o);
    uint8_t own[PEER_LENGTH], to[LENGTH];

    fake_load(o->f->s1, PEER_AT, own, PEER_LENGTH);
    fake_load(o->f->s1, TO, to, LENGTH);
    for (uint32_t at = 2700; at < 5400; at++) {
        uint8_t is = place(o, at) == PEER_AT + at ? own[at] : to[at - AT];
        bool covered = false, ok = false;

        for (unsigned i = PACKETS; i-- && !covered;) {
            uint32_t psn = o->psn + i;

            if (at - packets[i].at >= packets[i].len) {
                continue;
            }
            ok = ok || is == fake_pattern(message(o, i), at);
            covered = (int32_t)(rx->nxt - psn) > 0 ||
                      (psn - rx->nxt < UNETMM_REL_WINDOW &&
                       (rx->have & unetmm_rel_bit(psn)));
            if (exact) {
                assert_true(covered);
            }
        }
        if (covered) {
            assert_true(ok);
        } else if (exact) {
            assert_int_equal(is, 0);
        }
    }
}

static void step(Orders *o)
{
    Fix *f = o->f;

    switch (o->steps++) {
    case 0:
        o->listed = BEGIN(AT, LENGTH, TO);
        assert_int_equal(o->listed.status, UNETMM_CS_OK);
        /* Then it has moved. */
        o->steps += !o->listed.n;
        break;
    case 1:
        copy(f, &o->listed, false);
        assert_int_equal(GO(AT), UNETMM_CS_OK);
        break;
    case 2:
        o->listed = BACK(AT, 0);
        assert_int_equal(o->listed.status, UNETMM_CS_OK);
        break;
    case 3:
        copy(f, &o->listed, true);
        assert_int_equal(END(AT), UNETMM_CS_OK);
        break;
    }
    fake_wire_clear(&f->h);
}

/* Digit i of `places`: before which packet step i comes. */
static void one_order(Orders *o, const unsigned *order, unsigned places)
{
    Fix *f = o->f;
    unsigned at[STEPS];

    o->psn = receiver(o)->nxt;
    o->round++;
    o->steps = 0;
    for (unsigned i = 0; i < STEPS; i++, places /= PACKETS + 1) {
        at[i] = places % (PACKETS + 1);
    }
    for (unsigned i = 0; i <= PACKETS; i++) {
        while (o->steps < STEPS && at[o->steps] <= i) {
            step(o);
            check_bytes(o, false);
        }
        if (i < PACKETS) {
            give(o, order[i]);
            check_bytes(o, false);
        }
    }
    for (unsigned i = 0; o->steps < STEPS ||
         receiver(o)->nxt != o->psn + PACKETS; i++) {
        assert_true(i < 100);
        if (o->steps < STEPS && i % 2) {
            step(o);
        }
        fake_advance(&f->h, 4 * PAGE_NS);
        if (receiver(o)->nxt != o->psn + PACKETS) {
            give(o, receiver(o)->nxt - o->psn);
        }
        check_bytes(o, false);
    }
    fake_advance(&f->h, 10 * PAGE_NS);
    fake_wire_clear(&f->h);
    check_bytes(o, true);
    expect_bytes(f, TO - 3, 0, 3, 0);
    expect_bytes(f, TO + LENGTH, 0, 100, 0);
}

static void start_again(Orders *o)
{
    static const uint8_t zeros[PEER_LENGTH];
    Fix *f = o->f;

    fake_store(f->s1, PEER_AT, zeros, PEER_LENGTH);
    fake_store(f->s1, TO, zeros, LENGTH);
    fake_region_clear(&f->d, PEER_REGION);
    fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT, PEER_LENGTH, 7, 2);
    fake_wire_clear(&f->h);
}

static bool sorted(unsigned places)
{
    unsigned last = 0;

    for (unsigned i = 0; i < STEPS; i++, places /= PACKETS + 1) {
        if (places % (PACKETS + 1) < last) {
            return false;
        }
        last = places % (PACKETS + 1);
    }
    return true;
}

ALSO(test_every_order, fix_test_with, slow)
TEST(test_every_order, fix_test)
{
    Orders o = { .f = *state };
    unsigned all = 0;

    open_part(o.f);
    for (unsigned n = 0; n < 256; n++) {
        const unsigned order[] = { n % 4, n / 4 % 4, n / 16 % 4, n / 64 };

        if ((1u << order[0] | 1u << order[1] | 1u << order[2] |
             1u << order[3]) != 15) {
            continue;
        }
        for (unsigned places = 0; places < 625; places++) {
            if (sorted(places)) {
                start_again(&o);
                one_order(&o, order, places);
                all++;
            }
        }
    }
    assert_int_equal(all, 24 * 70);
    assert_true(fake_counter(&o.f->h, UNETMM_C_rel_held));
    assert_true(fake_counter(&o.f->h, UNETMM_C_rel_trimmed));
    if (o.f->h.core.params.dma_page_ns) {
        assert_true(fake_counter(&o.f->h, UNETMM_C_drop_moved));
    }
}
