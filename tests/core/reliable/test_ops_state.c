/*
 * unetmm: the saved state of one-sided operations, refused values in it, and
 * state that is not saved
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define PAGE_NS     5000
#define FLIPS       600
#define LAST        UNETMM_WIRE_F_LAST
#define NOTIFY      UNETMM_WIRE_F_NOTIFY

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

static void give(Fix *f, uint8_t opcode, uint32_t psn, uint64_t at,
                 uint32_t imm, uint32_t flags, uint32_t len)
{
    uint8_t data[PEER_MTU] = { 1, 2, 3 };

    peer_give(f, (struct unetmm_frame) {
        .opcode = opcode, .psn = psn, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at, .imm = imm, .flags = flags,
    }, data, len);
}

static void post_add(Fix *f, uint64_t cookie)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_FETCH_ADD, 0, 0, 64, cookie);

    s.nsegs = 0;
    s.flags = UNETMM_SQE_F_INLINE;
    s.inline_len = 8;
    memset(s.seg, 0, sizeof(s.seg));
    peer_post(f, s);
}

/*
 * Of all something: sends open, answered and void; packets early, a result, an
 * answer owed; a WRITE that lands in two pages of a region being cleared.
 */
static void scene(Fix *f)
{
    struct unetmm_cmd clear = { .opcode = UNETMM_CMD_REGION_CLEAR,
                                .region.region = PEER_REGION };

    fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_COUNTERS_SET, .space = 1, .counters.page =
        fake_alloc(&f->h, FAKE_PAGE, FAKE_PAGE, FAKE_RW) }, NULL);
    fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_COUNTER_ARM, .space = 1,
        .arm = { .counter = 4, .arm = 1, .value = 1 } }, NULL);
    peer_open(f);
    fake_region(f->s1, 1, 7, PEER_AT, 500, 3, 0);
    fake_insert(f->s1, PEER_PAGE(0), 2, NULL);
    peer_post(f, peer_sqe(UNETMM_OP_READ, 0, 1500, 0, 1));
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 1, 1500, 0, 2));
    post_add(f, 3);
    for (unsigned i = 0; i < 6; i++) {
        fake_advance(&f->h, PAGE_NS);
    }
    /* The READ is open, the WRITE void, the atomic acknowledged. */
    peer_ack_as(f, PEER_MY + 2, 0x2, UNETMM_ACK_REJECTED, UNETMM_WHY_RIGHT);
    give(f, UNETMM_WIRE_ATOMIC, PEER_YOURS, 0, UNETMM_ATOMIC_ADD, 0, 8);
    give(f, UNETMM_WIRE_WRITE, PEER_YOURS + 1, 800, 0, 0, 100);
    fake_advance(&f->h, PAGE_NS);
    give(f, UNETMM_WIRE_WRITE, PEER_YOURS + 4, 3950, 9, LAST | NOTIFY, 20);
    fake_advance(&f->h, PAGE_NS);
    give(f, UNETMM_WIRE_READ, PEER_YOURS + 5, 0, 900, 0, 0);
    give(f, UNETMM_WIRE_ATOMIC, PEER_YOURS + 6, 8, UNETMM_ATOMIC_SWAP, 0, 16);
    peer_void(f, PEER_YOURS + 7, 0);
    f->h.answer = UNETMM_SENT_QUEUED;
    give(f, UNETMM_WIRE_READ, PEER_YOURS + 2, 0, 100, 0, 0);
    give(f, UNETMM_WIRE_ATOMIC, PEER_YOURS, 0, UNETMM_ATOMIC_ADD, 0, 8);
    give(f, UNETMM_WIRE_WRITE, PEER_YOURS + 3, 3500, 0, LAST, 1000);
    fake_issue(&f->d, clear);
    assert_int_equal(f->h.core.eps[1].rels->rx.have >> 56, 0xf0);
    assert_true(f->h.core.landing->active);
    assert_true(f->h.core.remote->regions[PEER_REGION].clearing);
}

/* ---- Lies --------------------------------------------------------------- */

#define LIES(X) \
    X(c->remote->regions[1].length = 0, "region 1 could not have been set") \
    X(c->remote->regions[1].rights = 9, "region 1 could not have been set") \
    X(c->remote->regions[1].space = 6, "region 1 could not have been set") \
    X(c->remote->regions[1].clearing = true, "a page that does not move") \
    X(c->remote->regions[PEER_REGION].key++, "lands where it cannot") \
    X(c->remote->regions[PEER_REGION].addr++, "lands where it cannot") \
    X(c->remote->regions[PEER_REGION].length = 4000, "lands where it cannot") \
    X(c->eps[1].imports[PEER_IMPORT].channel = 9, "import 2 of endpoint 1") \
    X(c->eps[1].imports[PEER_IMPORT].rights = 0, "import 2 of endpoint 1") \
    X(c->landing->header.psn += 3, "lands where it cannot") \
    X(c->landing->header.psn += 100, "lands where it cannot") \
    X(c->landing->header.remote++, "lands where it cannot") \
    X(c->landing->header.opcode = UNETMM_WIRE_READ, "a header that none has") \
    X(c->landing->header.opcode = UNETMM_WIRE_SEND, "a header that none has") \
    X(c->landing->place.pieces[0].from++, "lands where it cannot") \
    X(c->landing->place.pieces[1].len += 2000, "lands where it cannot") \
    X(c->landing->place.npieces = 0, "lands where it cannot") \
    X(c->landing->place.piece = 2, "lands where it cannot") \
    X(rel->tx.pending = 0, "is on its way and is not") \
    X(rel->tx.pending |= rel->tx.voids, "is on its way and is not") \
    X(rel->tx.unplaced = rel->tx.voids, "is on its way and is not") \
    X(rel->tx.cum--, "is on its way and is not") \
    X(rel->tx.cum += 20, "tx.taken is") \
    X(rel->tx.voids = 0, "of no message") \
    X(rel->tx.voids |= unetmm_rel_bit(PEER_MY + 4), "is on its way") \
    X(rel->tx.voids |= unetmm_rel_bit(PEER_MY + 4); \
      rel->tx.pending &= ~unetmm_rel_bit(PEER_MY + 4), "of no message") \
    X(msg(rel, 0)->op = UNETMM_OP_CONTROL, "of no kind that there is") \
    X(msg(rel, 0)->op = UNETMM_OP_WRITE, "of no message") \
    X(msg(rel, 2)->operands = 16, "of no kind that there is") \
    X(msg(rel, 2)->op = UNETMM_OP_CMP_SWAP, "of no kind that there is") \
    X(msg(rel, 2)->len = 9, "of no kind that there is") \
    X(msg(rel, 0)->flags = UNETMM_SQE_F_NOTIFY, "of no kind that there is") \
    X(rel->rx.why = 8, "for no reason") \
    X(rel->rx.late_why = 8, "for no reason") \
    X(rel->in.run = UNETMM_MAX_STRICT_MESSAGE + 1, "rx.run is") \
    X(rel->in.run = UNETMM_MAX_MESSAGE + 1, "a WRITE is too long") \
    X(rel->answers.nresults = 32, "rx.nresults is 32") \
    X(ask(rel)->atomic = false; ask(rel)->target.len = 0, "too long") \
    X(ask(rel)->atomic = false; ask(rel)->target.len = 1001, "too long") \
    X(early(rel, 4)->header.len = 1001, "len is 1001") \
    X(early(rel, 5)->header.imm = 0, "a header that none has") \
    X(early(rel, 6)->header.imm = 3, "a header that none has") \
    X(early(rel, 7)->header.opcode = UNETMM_WIRE_ACK, "kept that cannot be") \
    X(early(rel, 7)->header.opcode = 200, "a header that none has") \
    X(c->spaces[1].counter_page = 8, "could not have event counters") \
    X(c->spaces[1].counters[4].state = 3, "a state that none has") \
    X(c->spaces[1].counters[4].state = UNETMM_COUNTER_DUE, "nobody is to") \
    X(c->remote->due.used = 2, "to be told of twice") \
    X(c->remote->due.used = c->params.spaces + 1, "due_used is") \
    X(c->remote->regions[1].ncounters = 513, "region 1 could not have been set")

static UnetmmRelMsg *msg(UnetmmRel *rel, uint32_t n)
{
    return unetmm_rel_msg(rel, rel->msgs.first + n);
}

static UnetmmRelEarly *early(UnetmmRel *rel, uint32_t n)
{
    return &rel->early[(PEER_YOURS + n) % UNETMM_REL_WINDOW];
}

/* The atomic's. */
static UnetmmRelAsk *ask(UnetmmRel *rel)
{
    assert_true(rel->answers.owed & unetmm_rel_bit(PEER_YOURS));
    return &rel->answers.asks[PEER_YOURS % UNETMM_REL_WINDOW];
}

static void tell_lie(unsigned number, const char **expected, bool *told)
{
    void *state = (void *)slow;
    unsigned n = 0;
    UnetmmCore *c;
    UnetmmRel *rel;
    Fix *f;

    fix_setup(&state);
    f = state;
    scene(f);
    c = &f->h.core;
    rel = c->eps[1].rels;
#define LIE(statement, sentence) \
    if (n++ == number) { \
        *expected = sentence; \
        statement; \
    }
    LIES(LIE)
#undef LIE
    *told = number < n;
    f->h.spoilt = true;
    fix_check_lie(c, number, *told, *expected);
    unetmm_core_reset(&f->h.core);
    fix_teardown(&state);
}

TEST(test_lies, cmocka_unit_test)
{
    bool told = true;

    for (unsigned i = 0; told; i++) {
        const char *expected = NULL;

        tell_lie(i, &expected, &told);
    }
}

/* Of an answer that lands: its pieces are those that the request says. */
#define PIECES  (f->h.core.landing->place.pieces)
#define ANSWER_LIES(X) \
    X(PIECES[0].addr += FAKE_PAGE) \
    X(PIECES[1].addr += FAKE_PAGE) \
    X(PIECES[1].addr -= 8) \
    X((PIECES[0].len++, PIECES[1].from++, PIECES[1].len--)) \
    X((PIECES[0].len += PIECES[1].len, f->h.core.landing->place.npieces = 1)) \
    X(f->h.core.landing->len--)

static void tell_answer_lie(Fix *f, unsigned number, bool *told)
{
    UnetmmLanding was = *f->h.core.landing;
    g_autofree char *why = NULL;
    GByteArray *saved;
    FakeHost other;
    unsigned n = 1;

#define LIE(statement) \
    if (n++ == number) { \
        statement; \
    }
    ANSWER_LIES(LIE)
#undef LIE
    saved = unetmm_core_save(&f->h.core);
    *told = number < n;
    *f->h.core.landing = was;
    fake_host_init(&other, &f->h.core.params);
    if (unetmm_core_load(&other.core, saved->data, saved->len, &why) ==
        (number && *told)) {
        fail_msg("lie %u about an answer: %s", number, why ?: "believed");
    }
    assert_true(!why || strstr(why, "lands where it cannot"));
    fake_host_free(&other);
    g_byte_array_unref(saved);
}

TEST_OF(test_answer_lies, Fix *f, fix_test_with, slow)
{
    struct unetmm_sqe read = peer_sqe(UNETMM_OP_READ, 0, 600, 0, 1);
    uint8_t data[PEER_MTU] = { 0 };
    bool told = true;

    peer_open(f);
    read.nsegs = 2;
    read.seg[1].addr = PEER_PAGE(4) + 200;
    read.seg[1].len = 300;
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    fake_insert(f->s1, PEER_PAGE(4), 1, NULL);
    peer_post(f, read);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY }, data, 900);
    assert_true(f->h.core.landing->active);
    assert_int_equal(f->h.core.landing->place.npieces, 2);
    for (unsigned i = 0; told; i++) {
        tell_answer_lie(f, i, &told);
    }
}

/* ---- Damage ------------------------------------------------------------- */

/* A change at one place, of a kind that finds its way past simple checks. */
static void damage(uint64_t *random, GByteArray *stream, uint32_t from)
{
    for (unsigned n = 1 + fake_random(random) % 3; n; n--) {
        uint32_t at = from + fake_random(random) % (stream->len - from);

        switch (fake_random(random) % 3) {
        case 0:
            stream->data[at] = fake_random(random) % 6;
            break;
        case 1:
            stream->data[at] += fake_random(random) & 1 ? 1 : -1;
            break;
        default:
            stream->data[at] ^= 1u << fake_random(random) % 8;
            break;
        }
    }
}

/* Whatever it believes it is: all packets there are, near all numbers. */
static void use_hard(Fix *f, uint64_t *random)
{
    static const uint8_t opcodes[] = {
        UNETMM_WIRE_SEND, UNETMM_WIRE_ACK, UNETMM_WIRE_WRITE,
        UNETMM_WIRE_READ, UNETMM_WIRE_ATOMIC, UNETMM_WIRE_ANSWER,
        UNETMM_WIRE_VOID,
    };

    for (unsigned i = 0; i < 60; i++) {
        uint8_t opcode = opcodes[fake_random(random) % 7];
        bool mine = opcode == UNETMM_WIRE_ACK || opcode == UNETMM_WIRE_ANSWER;
        uint32_t psn = (mine ? PEER_MY : PEER_YOURS) +
                       fake_random(random) % 12;
        uint32_t len = opcode == UNETMM_WIRE_ATOMIC ? 8 : mine || opcode ==
                       UNETMM_WIRE_WRITE ? fake_random(random) % 1001 : 0;

        give(f, opcode, psn, 8 * (fake_random(random) % 600), opcode ==
             UNETMM_WIRE_ACK ? fake_random(random) % 4 : opcode ==
             UNETMM_WIRE_WRITE || opcode == UNETMM_WIRE_ANSWER ? 0 : 1,
             opcode == UNETMM_WIRE_WRITE ? LAST : 0,
             opcode == UNETMM_WIRE_ACK ? 0 : len);
        unetmm_core_doorbell(&f->h.core, 1);
        unetmm_core_sent(&f->h.core, true);
        fake_wire_clear(&f->h);
        f->h.now = MAX(f->h.now, MIN(f->h.timer, f->h.now + 10 * PAGE_NS));
        unetmm_core_timer(&f->h.core);
        for (unsigned j = 0; f->h.later && j < 10; j++) {
            f->h.later--;
            unetmm_core_run(&f->h.core);
        }
    }
    fake_migrate(&f->h);
}

TEST_OF(test_flips, Fix *f, fix_test_with, slow)
{
    GByteArray *saved;
    uint64_t random = fake_seed();
    unsigned taken = 0, refused = 0;
    unsigned times = getenv("UNETMM_LONG") ? 100 * FLIPS : FLIPS;

    scene(f);
    saved = unetmm_core_save(&f->h.core);
    f->h.answer = UNETMM_SENT_DONE;
    f->h.lenient = true;
    f->d.watch = false;
    fake_rights(&f->h, FAKE_RAM_BASE, FAKE_RAM_BYTES, FAKE_RW);
    for (unsigned i = 0; i < times; i++) {
        GByteArray *bad = g_byte_array_new();
        g_autofree char *why = NULL;

        g_byte_array_append(bad, saved->data, saved->len);
        damage(&random, bad, bad->len / 3);
        if (unetmm_core_load(&f->h.core, bad->data, bad->len, &why)) {
            taken++;
            use_hard(f, &random);
        } else {
            refused++;
            assert_true(strlen(why) > 10);
        }
        unetmm_core_reset(&f->h.core);
        fake_wire_clear(&f->h);
        assert_int_equal(f->h.core.source->tlb.moving, 0);
        assert_int_equal(f->h.core.ring->late, 0);
        g_byte_array_unref(bad);
    }
    print_message("# %u damaged streams taken, %u refused\n", taken, refused);
    assert_true(taken > times / 50 && refused > times / 50);
    g_byte_array_unref(saved);
}

/* ---- Guesses of keys ---------------------------------------------------- */

/* Packet i of the n of a message of whole packets, by this key. */
static void give_guess(Fix *f, uint8_t opcode, uint32_t psn, uint32_t key,
                       uint32_t i, uint32_t n)
{
    static const uint8_t data[PEER_MTU];
    bool write = opcode == UNETMM_WIRE_WRITE;
    uint32_t behind = n - 1 - i;

    peer_give(f, (struct unetmm_frame) {
        .opcode = opcode, .psn = PEER_YOURS + psn, .handle = PEER_REGION,
        .offset = key, .remote = PEER_AT + i * PEER_MTU,
        .flags = UNETMM_WIRE_F_KEYED | (write && !behind ? LAST : 0),
        .imm = write ? behind * PEER_MTU :
               UNETMM_PREP(UNETMM_READ_BYTES, PEER_MTU) |
               UNETMM_PREP(UNETMM_READ_MORE, behind),
    }, data, write ? PEER_MTU : 0);
}

static void guesses(Fix *f, uint32_t n)
{
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_bad_keys), n);
    fake_wire_clear(&f->h);
}

/* An operation is one guess, however many packets it has. */
TEST_OF(test_guess_once, Fix *f, fix_test)
{
    static const uint8_t ops[] = { UNETMM_WIRE_WRITE, UNETMM_WIRE_READ };
    const uint32_t n = 2 * UNETMM_REL_BAD_KEYS;
    uint32_t psn = 0;

    peer_open(f);
    for (uint32_t k = 0; k < G_N_ELEMENTS(ops); k++) {
        for (uint32_t i = 0; i < n; i++) {
            give_guess(f, ops[k], psn + i, 1, i, n);
            guesses(f, k + 1);
        }
        for (uint32_t i = 0; i < n; i++) {
            peer_void(f, PEER_YOURS + psn++, 0);
        }
    }
    /* Another operation by the same key is another guess, ... */
    give_guess(f, UNETMM_WIRE_WRITE, psn++, 1, 0, 3);
    guesses(f, 3);
    give_guess(f, UNETMM_WIRE_WRITE, psn++, 1, 0, 3);
    guesses(f, 4);
    /* ... as is another key, ... */
    give_guess(f, UNETMM_WIRE_WRITE, psn++, 2, 1, 3);
    guesses(f, 5);
    /* ... and a packet that does not go on, ... */
    give_guess(f, UNETMM_WIRE_WRITE, psn++, 2, 1, 3);
    guesses(f, 6);
    /* ... or has as many behind it. */
    give_guess(f, UNETMM_WIRE_WRITE, psn++, 2, 2, 4);
    guesses(f, 7);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_failed), 0);
}

/* The saved state has the number of guesses, and not the operation. */
TEST_OF(test_guess_saved, Fix *f, fix_test)
{
    peer_open(f);
    give_guess(f, UNETMM_WIRE_WRITE, 0, 1, 0, 3);
    give_guess(f, UNETMM_WIRE_WRITE, 1, 1, 1, 3);
    guesses(f, 1);
    fake_migrate(&f->h);
    give_guess(f, UNETMM_WIRE_WRITE, 2, 1, 2, 3);
    guesses(f, 2);
}
