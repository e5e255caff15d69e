/*
 * unetmm: the scenes of the figures in docs/concepts.rst
 *
 * Each scene shows one mechanism and checks that it came about.  The text on
 * stderr is docs/figures/scenes.trace ("scripts/figures --record" renews it);
 * scripts/figures draws a figure of each scene.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scenes/stage.h"

#define LEN     3000

static const StageHow on_the_card = {
    .source = UNETMM_SOURCE_TLB, .policy = UNETMM_POLICY_SKIP, .gives = "pin",
};

static void map(StageSide *s)
{
    fake_map(s->s, STAGE_VA, STAGE_PAGES * FAKE_PAGE, FAKE_RW);
}

static void send(StageSide *s, unsigned page, uint32_t len)
{
    stage_say(s, "process_send vaddr 0x%" PRIx64 " bytes %u", STAGE_PAGE(page),
              len);
    fake_send_at(&s->ep, STAGE_CHANNEL, STAGE_PAGE(page), len, page);
    stage_ring(s);
}

static void post(StageSide *s, unsigned page, uint32_t len)
{
    stage_say(s, "process_post vaddr 0x%" PRIx64 " bytes %u", STAGE_PAGE(page),
              len);
    fake_post(&s->ep, STAGE_PAGE(page), len, page);
}

static void expect(StageSide *s, uint8_t opcode, uint8_t status, uint64_t cookie)
{
    fake_expect(&s->ep, opcode, status, cookie);
}

/* Two sends by a card whose TLB has one entry. */
static void scene_miss(Stage *st)
{
    StageSide *a = &st->side[0];
    StageHow how = on_the_card;

    how.tlb_sets = 1;
    stage_init(st, &how, NULL);
    map(a);
    stage_record(st, "miss");
    for (unsigned page = 0; page < 2; page++) {
        send(a, page, LEN);
        stage_run(st);
        expect(a, UNETMM_CQE_SENT, UNETMM_ST_OK, page);
    }
    assert_int_equal(a->d.evictions, 1);
}

/* Two free buffers, the first one absent, and a datagram. */
static void scene_skip(Stage *st)
{
    StageSide *a = &st->side[0];

    stage_init(st, &on_the_card, NULL);
    map(a);
    fake_vpage(a->s, STAGE_PAGE(0))->absent = true;
    stage_record(st, "skip");
    post(a, 0, FAKE_PAGE);
    post(a, 1, FAKE_PAGE);
    stage_ring(a);
    stage_run(st);
    stage_arrive(a, LEN, 7);
    stage_run(st);
    expect(a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 0);
    expect(a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(a->s, STAGE_PAGE(1), LEN, 7);
}

/* ---- One-sided writes ---------------------------------------------------- */

#define REGION  3
#define IMPORT  2
#define KEY     0xc0ffee11u

static void export_and_import(Stage *st)
{
    StageSide *a = &st->side[0], *b = &st->side[1];

    stage_say(a, "process_export vaddr 0x%" PRIx64 " bytes %u", STAGE_VA,
              STAGE_PAGES * FAKE_PAGE);
    assert_int_equal(fake_region(a->s, REGION, KEY, STAGE_VA, STAGE_PAGES *
                                 FAKE_PAGE, UNETMM_RIGHT_WRITE,
                                 UNETMM_REGION_F_NOTIFY), UNETMM_CS_OK);
    stage_say(b, "process_import");
    assert_int_equal(fake_import(&b->ep, IMPORT, STAGE_CHANNEL, REGION, KEY,
                                 STAGE_PAGES * FAKE_PAGE, UNETMM_RIGHT_WRITE),
                     UNETMM_CS_OK);
}

/* b writes its page 0 to this page of the export. */
static void write_to(StageSide *b, unsigned page, uint8_t flags)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_WRITE, .flags = flags, .nsegs = 1,
        .channel = STAGE_CHANNEL, .handle = IMPORT, .cookie = page,
        .remote = (uint64_t)page * FAKE_PAGE,
        .seg[0] = { .addr = STAGE_VA, .len = LEN },
    };

    stage_say(b, "process_write vaddr 0x%" PRIx64 " bytes %u to 0x%" PRIx64,
              STAGE_VA, LEN, (uint64_t)page * FAKE_PAGE);
    fake_send_sqe(&b->ep, sqe);
    stage_ring(b);
}

static void scene_export(Stage *st)
{
    StageSide *a = &st->side[0], *b = &st->side[1];

    stage_init(st, &on_the_card, &on_the_card);
    for (unsigned i = 0; i < 2; i++) {
        map(&st->side[i]);
        fake_make_present(st->side[i].s, STAGE_VA, STAGE_PAGES * FAKE_PAGE);
    }
    stage_join(st, 0);
    fake_fill(b->s, STAGE_VA, LEN, 7);
    stage_record(st, "export");
    export_and_import(st);
    write_to(b, 2, UNETMM_SQE_F_NOTIFY);
    stage_run(st);
    expect(b, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    expect(a, UNETMM_CQE_NOTIFY, UNETMM_ST_OK, REGION + 0x7000);
    fake_check(a->s, STAGE_PAGE(2), LEN, 7);
}

/* A write to a resident page, and one to an absent page. */
static void scene_shadow(Stage *st)
{
    const StageHow shadow = {
        .source = UNETMM_SOURCE_SHADOW, .policy = UNETMM_POLICY_REDIRECT,
        .gives = "enter",
    };
    StageSide *a = &st->side[0], *b = &st->side[1];

    stage_init(st, &shadow, &on_the_card);
    map(a);
    map(b);
    fake_make_present(b->s, STAGE_VA, STAGE_PAGES * FAKE_PAGE);
    stage_join(st, 2);
    export_and_import(st);
    fake_fill(b->s, STAGE_VA, LEN, 7);
    fake_take_away(a->s, STAGE_PAGE(1), FAKE_PAGE);
    stage_run(st);
    stage_record(st, "shadow");
    for (unsigned page = 0; page < 2; page++) {
        write_to(b, page, 0);
        stage_run(st);
        expect(b, UNETMM_CQE_SENT, UNETMM_ST_OK, page);
        fake_check(a->s, STAGE_PAGE(page), LEN, 7);
    }
}

/* ---- The others ---------------------------------------------------------- */

/* The library pins pages, then sends from one. */
static void scene_utlb(Stage *st)
{
    const StageHow utlb = {
        .source = UNETMM_SOURCE_UTLB, .policy = UNETMM_POLICY_DROP,
    };
    StageSide *a = &st->side[0];

    stage_init(st, &utlb, NULL);
    stage_record(st, "utlb");
    stage_say(a, "process_pin vaddr 0x%" PRIx64 " npages %u", STAGE_VA,
              STAGE_PAGES);
    stage_say(a, "driver_fill vaddr 0x%" PRIx64 " npages %u", STAGE_VA,
              STAGE_PAGES);
    map(a);
    for (unsigned page = 0; page < 2; page++) {
        send(a, page, LEN);
        stage_run(st);
        expect(a, UNETMM_CQE_SENT, UNETMM_ST_OK, page);
    }
    assert_int_equal(a->d.misses, 0);
}

/* The kernel reclaims the pages of a free buffer; then a message comes. */
static void scene_rnr(Stage *st)
{
    const StageHow odp = {
        .source = UNETMM_SOURCE_ODP, .policy = UNETMM_POLICY_RNR,
        .gives = "fault",
    };
    StageSide *a = &st->side[0], *b = &st->side[1];

    stage_init(st, &odp, &on_the_card);
    map(a);
    map(b);
    fake_make_present(b->s, STAGE_VA, STAGE_PAGES * FAKE_PAGE);
    stage_join(st, 0);
    fake_fill(b->s, STAGE_VA, 2 * FAKE_PAGE, 7);
    post(a, 0, 2 * FAKE_PAGE);
    stage_ring(a);
    stage_run(st);
    stage_record(st, "rnr");
    stage_say(a, "driver_reclaim vaddr 0x%" PRIx64 " npages 2", STAGE_VA);
    fake_take_away(a->s, STAGE_VA, 2 * FAKE_PAGE);
    send(b, 0, 2 * FAKE_PAGE);
    stage_run(st);
    expect(a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    expect(b, UNETMM_CQE_SENT, UNETMM_ST_OK, 0);
    fake_check(a->s, STAGE_VA, 2 * FAKE_PAGE, 7);
}

/* Two frames, the buffer of the first one absent. */
static void scene_backup(Stage *st)
{
    const StageHow backup = {
        .source = UNETMM_SOURCE_ODP, .policy = UNETMM_POLICY_BACKUP,
        .backup = 4, .gives = "fault",
    };
    StageSide *a = &st->side[0];

    stage_init(st, &backup, NULL);
    map(a);
    fake_take_away(a->s, STAGE_PAGE(0), FAKE_PAGE);
    post(a, 0, FAKE_PAGE);
    post(a, 1, FAKE_PAGE);
    stage_ring(a);
    stage_record(st, "backup");
    stage_say(a, "driver_buffers 2");
    fake_buffers(&a->d, 2, FAKE_PAGE);
    stage_arrive(a, LEN, 0);
    stage_arrive(a, LEN, 1);
    fake_expect_none(&a->ep);
    stage_run(st);
    for (unsigned page = 0; page < 2; page++) {
        expect(a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, page);
        fake_check(a->s, STAGE_PAGE(page), LEN, page);
    }
}

int main(void)
{
    static void (*const scenes[])(Stage *st) = {
        scene_miss, scene_skip, scene_export, scene_utlb, scene_shadow,
        scene_rnr, scene_backup,
    };
    g_autofree Stage *st = g_new(Stage, 1);

    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        scenes[i](st);
        stage_cut(st);
        stage_free(st);
    }
    return 0;
}
