/*
 * unetmm: fuzzing: frames from the wire
 *
 * A hostile station: frames whose header and payload are the input's, most of
 * them with a checksum that is right (or nothing would get past it), for
 * endpoints with buffers of all kinds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ud.h"

#define FUZZ_REL        4               /* channel */
#define FUZZ_REL_MTU    1000
#define FUZZ_REL_PSN    0xfffffff8u
#define FUZZ_KEY        0x5ec4e7u
#define FUZZ_LENGTH     20000
#define FUZZ_AT(i)      (FIX_VA + 100 * (i))    /* of space i's regions */

/*
 * Of each space, with all rights or one; an import of each endpoint.  One
 * notifies nobody, and one cannot be used by its key.
 */
static void open_memory(FuzzCard *c)
{
    for (unsigned i = 0; i < FUZZ_EPS; i++) {
        FakeEp *ep = &c->ep[i];

        for (unsigned right = 0; right < 4; right++) {
            fake_region(ep->space, 4 * i + right, FUZZ_KEY, FUZZ_AT(i),
                        FUZZ_LENGTH, right ? 1 << (right - 1) : 7,
                        (right != 1 ? UNETMM_REGION_F_NOTIFY : 0) |
                        (right != 2 ? UNETMM_REGION_F_KEYED : 0));
        }
        fake_import(ep, 0, FUZZ_REL, 3, FUZZ_KEY, FUZZ_LENGTH, 7);
    }
}

/*
 * A reliable channel to each peer, whose numbers are about to wrap, and a UD
 * channel.  The last reliable one is strict.
 */
static void open_channels(FuzzCard *c)
{
    struct unetmm_cmd_channel how = {
        .mtu = FUZZ_REL_MTU, .send_psn = FUZZ_REL_PSN,
        .recv_psn = FUZZ_REL_PSN,
        .flags = UNETMM_CHANNEL_F_ACK | UNETMM_CHANNEL_F_ACK_WRITE,
    };

    for (unsigned i = 0; i < FUZZ_EPS; i++) {
        how.flags |= i == FUZZ_EPS - 1 ? UNETMM_CHANNEL_F_STRICT : 0;
        fake_channel_rel(&c->ep[i], FUZZ_REL, fake_peer_mac, 10 + c->ep[i].id,
                         FUZZ_REL, &how);
        fake_command(&c->d, fuzz_ud_set(c->ep[i].id), NULL);
    }
}

static void post_some(FuzzCard *c)
{
    open_channels(c);
    open_memory(c);
    for (unsigned i = 0; i < FUZZ_EPS; i++) {
        for (unsigned n = 0; n < 4; n++) {
            fake_post(&c->ep[i], FIX_VA + n * 5000, 4000 + n * 1500, n);
        }
        fake_ring_bell(&c->ep[i]);
    }
    fake_serve(&c->d);
}

/* Bits of a good header that the input turns over. */
static void damage(FuzzIn *in, FakeFrame *f)
{
    unsigned n = fuzz_below(in, 8);

    while (n--) {
        unsigned at = fuzz_below(in, 64);

        f->data[at] ^= fuzz_u8(in);
    }
}

static void give_frame(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint8_t how = fuzz_u8(in);
    uint16_t n = fuzz_u16(in);
    FakeFrame *f = how >= 0xc0 ? fuzz_ud_frame(in, ep, n % 5000) :
                   fake_datagram(ep, FIX_WIRE, 10 + ep->id, n % 9100, how);
    size_t bytes = f->bytes;

    if (how & 1) {
        damage(in, f);
    }
    if (how & 2) {
        fake_header(f)->flags ^= cpu_to_le32(UNETMM_WIRE_F_PAYLOAD_CRC);
    }
    /* fake_seal() believes the length in the header. */
    if (how & 4 && le32_to_cpu(fake_header(f)->len) <= bytes - 64) {
        fake_seal(f);
    } else if (how & 8) {
        fake_header(f)->header_crc = cpu_to_le32(unetmm_crc32c(0, f->data,
                                                               60));
    }
    if (how & 16) {
        f->bytes = fuzz_u16(in) % (bytes + 1);
    }
    /* Of its exact size, so that the sanitizer sees a byte too far. */
    f = g_realloc(f, sizeof(*f) + f->bytes);
    fake_receive(&c->h, f);
    g_free(f);
}

static void give_raw(FuzzCard *c, FuzzIn *in)
{
    size_t bytes = fuzz_below(in, 200);
    uint8_t *raw = g_malloc(bytes + !bytes);

    fuzz_bytes(in, raw, bytes);
    unetmm_core_receive(&c->h.core, raw, bytes);
    g_free(raw);
}

/*
 * A control message, maybe for all stations; it is for endpoint 0, where there
 * is none.
 */
static void give_control(FuzzCard *c, FuzzIn *in)
{
    FakeFrame *f = fake_datagram(&c->ep[0], 0, 0, fuzz_below(in, 64), 1);
    uint8_t how = fuzz_u8(in);

    fake_header(f)->opcode = UNETMM_WIRE_CONTROL;
    fake_header(f)->dst_ep = cpu_to_le16(how & 1);
    if (how & 2) {
        memset(fake_header(f)->dst, 0xff, sizeof(fake_header(f)->dst));
    }
    fake_seal(f);
    fake_receive(&c->h, f);
    g_free(f);
}

/*
 * A packet or an acknowledgement on the reliable channel, its numbers near the
 * right ones, the rest as the channel wants it unless the input says
 * otherwise.
 */
static void give_reliable(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint8_t how = fuzz_u8(in);
    uint32_t len = how & 1 ? 0 : how & 2 ? FUZZ_REL_MTU : fuzz_u16(in) % 1001;
    FakeFrame *f = fake_datagram(ep, FUZZ_REL, 10 + ep->id, len, how);
    struct unetmm_frame *h = fake_header(f);

    h->psn = cpu_to_le32(FUZZ_REL_PSN + fuzz_u8(in) -
                         (how & 4 ? 0x80000000u : 0));
    if (how & 1) {
        h->opcode = UNETMM_WIRE_ACK;
        h->remote = cpu_to_le64(how & 8 ? fuzz_u64(in) : fuzz_u8(in));
        h->imm = cpu_to_le32(fuzz_below(in, 4));
        h->offset = cpu_to_le32(how & 16 ? fuzz_u32(in) : fuzz_u8(in));
    } else {
        uint32_t offset = FUZZ_REL_MTU * fuzz_below(in, 4);
        uint64_t total = offset + len + (how & 8 ? fuzz_u16(in) : 0);

        h->opcode = UNETMM_WIRE_SEND;
        h->offset = cpu_to_le32(offset);
        h->remote = cpu_to_le64(how & 16 ? fuzz_u64(in) : total);
        h->flags = cpu_to_le32((total == offset + len ?
                                UNETMM_WIRE_F_LAST : 0) |
                               (how & 32 ? UNETMM_WIRE_F_ASK : 0));
        if (how & 128) {
            h->flags |= cpu_to_le32(UNETMM_WIRE_F_IMM);
            h->imm = cpu_to_le32(total);
        }
        if (how & 128 && total & 1) {
            h->flags |= cpu_to_le32(UNETMM_WIRE_F_ACK);
            h->handle = cpu_to_le32(FUZZ_REL_PSN + (total >> 1 & 15));
        }
    }
    if (how & 64) {
        damage(in, f);
    }
    if (le32_to_cpu(h->len) <= len) {
        fake_seal(f);
    }
    fake_receive(&c->h, f);
    g_free(f);
}

/* `remote` and `imm` of such a packet, mostly as they should be. */
static void shape_one_sided(FuzzIn *in, struct unetmm_frame *h, uint32_t len)
{
    uint8_t how = fuzz_u8(in);
    uint64_t remote = how & 1 ? fuzz_u16(in) : 8 * (fuzz_u8(in) & 31);

    h->handle = cpu_to_le32(how & 2 ? fuzz_u8(in) : 4 * (le16_to_cpu(
                            h->dst_ep) - 1));
    h->offset = cpu_to_le32(FUZZ_KEY + ((how & 12) == 12));
    h->remote = cpu_to_le64((how & 48) == 48 ? fuzz_u64(in) : remote);
    if (h->opcode == UNETMM_WIRE_READ) {
        h->imm = cpu_to_le32(fuzz_u16(in) % 1100 |
                             UNETMM_PREP(UNETMM_READ_MORE, how >> 6));
    } else if (h->opcode == UNETMM_WIRE_ATOMIC) {
        h->imm = cpu_to_le32(len / 8);
    } else if (how & 64) {
        h->flags |= cpu_to_le32(UNETMM_WIRE_F_LAST | UNETMM_WIRE_F_NOTIFY);
    } else if (how & 128) {
        h->flags |= cpu_to_le32(UNETMM_WIRE_F_LAST | UNETMM_WIRE_F_COUNT);
        h->imm = cpu_to_le32(how & 3);
    } else if ((how & 3) == 1) {
        h->flags |= cpu_to_le32(UNETMM_WIRE_F_LAST | UNETMM_WIRE_F_ACK);
        h->imm = cpu_to_le32(FUZZ_REL_PSN + (int8_t)fuzz_u8(in));
    } else {
        h->imm = cpu_to_le32((how & 3) << 12);
    }
}

/* By key: the region's addresses in place of offsets. */
static void make_keyed(struct unetmm_frame *h)
{
    uint64_t at = FUZZ_AT(le16_to_cpu(h->dst_ep) - 1);

    h->flags |= cpu_to_le32(UNETMM_WIRE_F_KEYED);
    h->remote = cpu_to_le64(le64_to_cpu(h->remote) + at);
}

/* The use that a WRITE with an immediate makes of that member. */
static void make_immediate(struct unetmm_frame *h)
{
    h->flags &= cpu_to_le32(~(UNETMM_WIRE_F_NOTIFY | UNETMM_WIRE_F_COUNT));
    h->flags |= cpu_to_le32(UNETMM_WIRE_F_LAST | UNETMM_WIRE_F_IMM);
}

/* A one-sided packet, an answer, a VOID, or a rejection. */
static void give_one_sided(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint8_t how = fuzz_u8(in), psn;
    uint8_t opcode = UNETMM_WIRE_WRITE + how % 6;
    uint32_t len = opcode == UNETMM_WIRE_ATOMIC ? 8 + (how & 8) :
                   opcode == UNETMM_WIRE_READ || opcode > UNETMM_WIRE_ANSWER ?
                   0 : how & 64 ? 8 : fuzz_u16(in) % 1001;
    FakeFrame *f = fake_datagram(ep, FUZZ_REL, 10 + ep->id, len, how);
    struct unetmm_frame *h = fake_header(f);

    h->opcode = opcode;
    psn = fuzz_u8(in);
    h->psn = cpu_to_le32(FUZZ_REL_PSN + psn % 80);
    if (opcode < UNETMM_WIRE_ANSWER) {
        shape_one_sided(in, h, len);
        if (psn / 80 & 1) {
            make_keyed(h);
        }
        if (psn / 80 & 2 && opcode == UNETMM_WIRE_WRITE) {
            make_immediate(h);
        }
    } else if (opcode > UNETMM_WIRE_VOID) {
        h->opcode = UNETMM_WIRE_ACK;
        h->imm = cpu_to_le32(UNETMM_ACK_REJECTED);
        h->offset = cpu_to_le32(fuzz_u8(in) % 8);
    }
    if ((how & 0x90) == 0x90) {
        damage(in, f);
    }
    if (le32_to_cpu(h->len) <= len) {
        fake_seal(f);
    }
    fake_receive(&c->h, f);
    g_free(f);
}

static void send_one_sided(FuzzIn *in, FakeEp *ep)
{
    uint8_t op = UNETMM_OP_WRITE + fuzz_u8(in) % 4;
    struct unetmm_sqe sqe = {
        .opcode = op, .channel = FUZZ_REL, .cookie = 3,
    };

    sqe.handle = fuzz_u8(in) == 1;
    sqe.remote = fuzz_u16(in);
    if (op >= UNETMM_OP_FETCH_ADD) {
        sqe.flags = UNETMM_SQE_F_INLINE;
        sqe.inline_len = op == UNETMM_OP_CMP_SWAP ? 16 : 8;
        sqe.nsegs = sqe.remote >> 15;
        if (sqe.nsegs) {
            sqe.seg[UNETMM_SQE_RESULT].addr = cpu_to_le64(fuzz_vaddr(in));
            sqe.seg[UNETMM_SQE_RESULT].len = cpu_to_le32(8);
        }
    } else {
        sqe.nsegs = 1;
        sqe.seg[0].addr = fuzz_vaddr(in);
        sqe.seg[0].len = fuzz_u16(in) % 5000;
    }
    fake_send_sqe(ep, sqe);
    fake_ring_bell(ep);
}

/* The driver takes a region back, or gives it again. */
static void region_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    struct unetmm_cmd_done done;
    struct unetmm_cmd cmd = {
        .opcode = what & 1 ? UNETMM_CMD_REGION_CLEAR : UNETMM_CMD_REGION_SET,
        .space = c->ep[what >> 4 & 3].space->id,
        .region = { .region = what >> 1 & 15, .key = FUZZ_KEY,
                    .addr = FIX_VA + 64, .length = 1 + fuzz_u16(in),
                    .rights = 7, .flags = what & 0x80 ?
                    UNETMM_REGION_F_NOTIFY | UNETMM_REGION_F_KEYED : 0 },
    };

    fake_issue(&c->d, cmd);
    while (!fake_done(&c->d, &done)) {
        fake_advance(&c->h, 1000);
    }
}

static void one_sided(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    switch (fuzz_u8(in) % 8) {
    case 0: case 1:
        send_one_sided(in, ep);
        break;
    case 2:
        region_op(c, in);
        break;
    default:
        give_one_sided(c, in, ep);
        break;
    }
}

static void frame_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = &c->ep[what >> 6];

    switch (what & 15) {
    case 0: case 1: case 2: case 3: case 4: case 5:
        give_frame(c, in, ep);
        break;
    case 6:
        give_raw(c, in);
        break;
    case 7:
        give_control(c, in);
        break;
    case 8: case 9:
        fuzz_post(in, ep);
        fake_ring_bell(ep);
        break;
    case 10:
        fuzz_send16(in, ep, FIX_LOCAL, 1);
        fake_ring_bell(ep);
        break;
    case 12:
        fuzz_send16(in, ep, FUZZ_REL, 2);
        fake_ring_bell(ep);
        break;
    case 13: case 14:
        give_reliable(c, in, ep);
        break;
    case 15:
        one_sided(c, in, ep);
        break;
    default:
        fuzz_world_op(c, in);
        break;
    }
}

const FuzzTarget fuzz_target = { .start = post_some, .op = frame_op };
