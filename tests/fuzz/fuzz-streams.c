/*
 * unetmm: fuzzing: migration streams
 *
 * A card gets to work, is saved, and the saved state is changed before it is
 * loaded; then driver, processes and wire use the card, and none of them is
 * sane any more.  Streams have neither checksums nor lengths that
 * would have to be put right after a change, so the changes are operations of
 * the input like all others, and libFuzzer's own mutations do.
 *
 * A refused stream must leave a card as after a reset, one that takes the true
 * stream.  An accepted stream must be a state that a card can have: it is
 * saved again and loaded without a change, at once and at any time later.
 *
 * Beside the scene that all targets have there is a giver, whose memory is all
 * there and longer than any frame: a length that is too long has to be able to
 * go as far as it wants.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ops.h"

#define STREAM_MOST 200000
#define FIELDS_MOST 16384
#define PACKET_MOST 24

/* Has the card been loaded?  Then nobody is sane. */
static bool loaded;
static GByteArray *earlier;     /* an earlier state, to take parts from */

#define GIVER       (FUZZ_EPS + 2)  /* endpoint */
#define GIVER_SPACE 4
#define GIVER_PAGES 40
#define GIVER_KEY   0x91fe5u
#define GIVER_REGION 9
#define TO_GIVER    7               /* channel of the first endpoint, and its */
#define FROM_GIVER  4               /* import there */

static FakeEp giver;

/* ---- Where the values of a stream are ---- */

/* Most bytes of a stream are payload, on which nothing depends. */
static uint32_t fields[FIELDS_MOST];    /* offsets in the stream */
static unsigned nfields;
static unsigned packet;                 /* the first of one on its way, or 0 */

static void note_field(void *opaque, const UnetmmValue *value)
{
    if (value->kind == UNETMM_VALUE_BYTES || nfields == FIELDS_MOST) {
        return;
    }
    /* The values of one packet among thousands: chance would not meet them. */
    if (g_str_has_suffix(value->path, ".send.psn")) {
        packet = nfields;
    }
    fields[nfields++] = value->at;
}

static const UnetmmObserver fields_observer = { .value = note_field };

/* A byte of the stream: mostly the first of a value. */
static uint32_t where(const GByteArray *s, FuzzIn *in, uint8_t how)
{
    uint16_t at = fuzz_u16(in);

    /* The last are the rarest: packets on their way through the card. */
    if (how & 0x20 && packet) {
        at = packet + at % PACKET_MOST;
    } else if (how & 0x40) {
        at = nfields - 1 - at % nfields;
    }
    return (how & 0x80 ? at : fields[at % nfields]) % s->len;
}

/* ---- Changes ---- */

static uint32_t edge(FuzzIn *in)
{
    static const uint32_t edges[] = {
        0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 0xfff, 0x1000, 0x10000, 0x10001,
        0x7fffffff, 0xffffffff, 0x10041, 0x14000, 0x20000, 0x80000000,
    };
    uint8_t how = fuzz_u8(in);

    return how & 0x80 ? fuzz_u32(in) : edges[how % G_N_ELEMENTS(edges)];
}

/* Lengths change, too: the stream has no other sign of where a thing ends. */
static void resize(GByteArray *s, uint32_t at, uint8_t by)
{
    static const uint8_t zero[64];
    uint32_t n = 1 + by % 64;

    if (by & 0x80) {
        g_byte_array_remove_range(s, at, MIN(n, s->len - at));
    } else if (by & 0x40) {
        g_byte_array_set_size(s, at);
    } else if (s->len < STREAM_MOST) {
        g_byte_array_append(s, zero, n);
        memmove(s->data + at + n, s->data + at, s->len - n - at);
        memset(s->data + at, 0, n);
    }
}

static void overwrite(GByteArray *s, uint32_t at, const void *with, uint32_t n)
{
    memmove(s->data + at, with, MIN(n, s->len - at));
}

static void change(GByteArray *s, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);
    uint32_t at, from, n, v;

    if (!s->len) {
        return;
    }
    at = where(s, in, how);
    switch (how & 7) {
    case 0:
        s->data[at] = fuzz_u8(in);
        break;
    case 1:
        s->data[at] ^= 1u << fuzz_below(in, 8);
        break;
    case 2:
        s->data[at] += how & 8 ? 1 : -1;
        break;
    case 3: case 4:
        v = cpu_to_le32(edge(in));
        overwrite(s, at, &v, sizeof(v));
        break;
    case 5:
        from = where(s, in, how);
        n = fuzz_u8(in);        /* once: MIN() may look twice */
        overwrite(s, at, s->data + from, MIN(n, s->len - from));
        break;
    case 6:
        n = fuzz_u16(in);
        if (at < earlier->len) {
            overwrite(s, at, earlier->data + at, MIN(n, earlier->len - at));
        }
        break;
    default:
        resize(s, at, fuzz_u8(in));
        break;
    }
}

/* ---- Saving and loading ---- */

static GByteArray *save(FuzzCard *c)
{
    GByteArray *saved;

    nfields = packet = 0;
    unetmm_core_observe(&c->h.core, &fields_observer);
    saved = unetmm_core_save(&c->h.core);
    unetmm_core_observe(&c->h.core, NULL);
    return saved;
}

static void load_true(FuzzCard *c, const GByteArray *s)
{
    g_autofree char *why = NULL;

    if (!unetmm_core_load(&c->h.core, s->data, s->len, &why)) {
        fail_msg("a card's saved state is refused: %s", why);
    }
}

/* A frame in the net layer stays behind, and is counted: not the same again. */
static void move_as_it_is(FuzzCard *c)
{
    if (!c->h.core.port->busy) {
        fake_migrate(&c->h);
    }
}

static void load_changed(FuzzCard *c, FuzzIn *in)
{
    GByteArray *saved = save(c);
    g_autofree uint8_t *exact = NULL;
    g_autofree char *why = NULL;
    GByteArray *s = g_byte_array_new();

    g_byte_array_append(s, saved->data, saved->len);
    for (unsigned n = fuzz_below(in, 9); n; n--) {
        change(s, in);
    }
    if (!loaded) {
        fuzz_be_lenient(c);
        loaded = true;
    }
    c->h.core.port->busy = false;        /* the new place's wire is free */
    /* Memory of just that size, so that the sanitizer sees one too far. */
    exact = g_memdup2(s->data, s->len);
    if (unetmm_core_load(&c->h.core, exact, s->len, &why)) {
        move_as_it_is(c);
    } else {
        assert_true(strlen(why) > 10);
        assert_int_equal(c->h.core.ctrl, 0);
        assert_int_equal(c->h.core.tlb.used + c->h.core.cache.used, 0);
        assert_int_equal(c->h.core.port->fifo_used, 0);
        load_true(c, saved);
    }
    g_byte_array_unref(s);
    g_byte_array_unref(earlier);
    earlier = saved;
}

/* ---- A card at work, before and after ---- */

static void arrives(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    FakeFrame *f = fake_datagram(ep, FIX_WIRE, 10 + ep->id,
                                 fuzz_u16(in) % 9001, 3);

    fake_receive(&c->h, f);
    g_free(f);
}

/* The process goes on where the card believes that it is. */
static void process_op(FuzzCard *c, FuzzIn *in, FakeEp *ep, uint8_t what)
{
    const UnetmmEp *known = &c->h.core.eps[ep->id];
    uint64_t at = fuzz_vaddr(in);
    uint32_t n = fuzz_u16(in);

    if (loaded) {
        ep->sq_prod = known->sq_prod;
        ep->fq_prod = known->fq_prod;
    }
    if (what & 1) {
        fake_post(ep, at, n, 5);
    } else {
        fake_send_at(ep, what & 2 ? FIX_WIRE : FIX_LOCAL, at, n, 6);
    }
    fake_ring_bell(ep);
}

/* The first endpoint reads the giver's memory. */
static void read_op(FuzzCard *c, FuzzIn *in)
{
    FakeEp *ep = &c->ep[0];
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_READ, .cookie = 8, .channel = TO_GIVER,
        .handle = FROM_GIVER, .nsegs = 1,
    };

    sqe.remote = fuzz_u16(in);
    sqe.seg[0].addr = fuzz_vaddr(in);
    sqe.seg[0].len = fuzz_u16(in);
    if (loaded) {
        ep->sq_prod = c->h.core.eps[ep->id].sq_prod;
    }
    fake_send_sqe(ep, sqe);
    fake_ring_bell(ep);
}

/* An answer to one of the misses that the card believes it has asked. */
static void answer(FuzzCard *c, FuzzIn *in)
{
    UnetmmCore *core = &c->h.core;
    uint8_t which = fuzz_u8(in), how = fuzz_u8(in);
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_FAULT_REPLY };
    const UnetmmMiss *miss;
    uint32_t number;
    uint64_t pte[2];

    if (!core->in_flight_used) {
        return;
    }
    number = core->in_flight[which % core->in_flight_used];
    miss = &core->misses[number];
    for (unsigned i = 0; i < G_N_ELEMENTS(pte); i++) {
        pte[i] = cpu_to_le64((c->h.next_page + (2 + i) * FAKE_PAGE) |
                             UNETMM_PTE_VALID | UNETMM_PTE_READ |
                             UNETMM_PTE_WRITE);
    }
    fake_write(&c->h, c->d.list, pte, sizeof(pte));
    cmd.space = core->misses[number].ep->space;
    cmd.reply.fault_id = (uint32_t)miss->generation << 16 | number;
    cmd.reply.status = how & 3;
    cmd.reply.error = how >> 2 & 15;
    cmd.reply.npages = how >> 6 & 2;
    cmd.reply.vaddr = miss->vpn << UNETMM_PAGE_SHIFT;
    cmd.reply.list = c->d.list;
    fuzz_issue(c, cmd);
}

static void invalidate(FuzzCard *c, FuzzIn *in)
{
    fake_set_reg(&c->h, UNETMM_REG_INV_SPACE, fuzz_below(in, 4));
    fake_set_reg(&c->h, UNETMM_REG_INV_LAST_HI, UINT32_MAX);
    fake_set_reg(&c->h, UNETMM_REG_INV_CTRL, 1);
    fake_reg(&c->h, UNETMM_REG_INV_CTRL);
}

static void close_one(FuzzCard *c, FakeEp *ep)
{
    fuzz_issue(c, (struct unetmm_cmd) { .opcode = UNETMM_CMD_EP_DESTROY,
                                        .ep = ep->id });
}

static void stream_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = &c->ep[what >> 6];

    switch (what & 15) {
    case 0: case 1: case 2: case 3:
        process_op(c, in, ep, what);
        break;
    case 4:
        arrives(c, in, ep);
        break;
    case 5:
        load_changed(c, in);
        break;
    case 6:
        if (loaded) {
            move_as_it_is(c);
        }
        break;
    case 7: case 8:
        if (loaded) {
            answer(c, in);
        } else {
            fake_serve(&c->d);
        }
        break;
    case 9:
        if (loaded) {
            invalidate(c, in);
        }
        break;
    case 10:
        if (loaded) {
            close_one(c, ep);
        }
        break;
    case 11:
        unetmm_core_doorbell(&c->h.core, fuzz_below(in, 10));
        break;
    case 13:
        read_op(c, in);
        break;
    case 14: case 15:
        fuzz_ops_op(c, in, ep);
        break;
    default:
        fuzz_world_op(c, in);
        break;
    }
}

static void connect_giver(FuzzCard *c, FakeEp *ep, const FakeEp *to)
{
    const struct unetmm_cmd_channel how = {
        .mtu = 9000, .send_psn = 7, .recv_psn = 7, .retries = 3,
        .timeout_us = 20, .not_ready_retries = 20,
    };

    fake_channel_rel(ep, TO_GIVER, c->h.core.params.mac, to->id, TO_GIVER,
                     &how);
}

static void start_giver(FuzzCard *c)
{
    FakeSpace *s = fake_space(&c->d, GIVER_SPACE, UNETMM_SOURCE_PINNED, 4);

    fake_map(s, FIX_VA, GIVER_PAGES * FAKE_PAGE, FAKE_R);
    fake_ep_init(&giver, &c->d, GIVER, s);
    fake_ep_create(&giver);
    fake_region(s, GIVER_REGION, GIVER_KEY, FIX_VA, GIVER_PAGES * FAKE_PAGE,
                UNETMM_RIGHT_READ, 0);
    connect_giver(c, &giver, &c->ep[0]);
    connect_giver(c, &c->ep[0], &giver);
    fake_import(&c->ep[0], FROM_GIVER, TO_GIVER, GIVER_REGION, GIVER_KEY,
                GIVER_PAGES * FAKE_PAGE, UNETMM_RIGHT_READ);
}

static void stream_start(FuzzCard *c)
{
    loaded = false;
    fuzz_ops_start(c);
    start_giver(c);
    if (earlier) {
        g_byte_array_unref(earlier);
    }
    earlier = save(c);
}

const FuzzTarget fuzz_target = { .start = stream_start, .op = stream_op };
