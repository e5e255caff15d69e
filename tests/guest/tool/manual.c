/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The examples of the manual's pages that need a card, and the example programs of the
 * library.
 */
#include "link.h"
#include "process.h"

#include "../../library/man_scene.h"

#include <errno.h>
#include <sys/prctl.h>

#define PEER_EXPORT     5       /* of unetmm_event_create(3) */
#define FIRST_IMPORT    77      /* ours, and then number 0 of the endpoint */
#define STREAMS         9       /* the service of unetmm_stream(3) */
#define LISTENER        "mailbox"       /* of unetmm_peers(3) */

/* ---- The other side of an example ----------------------------------------------- */

/* The first write that counts. */
static void count_once(void *opaque)
{
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_ep *ep;
    const uint8_t *mac = opaque;
    int import;

    CHECK_RET(unetmm_ep_create(ctx, NULL, &ep), 0);
    import = unetmm_connect(ep, mac, SERVICE_FIRST, 10 * NS_PER_S, NULL);
    CHECK(import >= 0);
    import = unetmm_import(ep, import, PEER_EXPORT, 0, 10 * NS_PER_S, NULL);
    CHECK(import >= 0);
    CHECK_RET(unetmm_write_sync(ep, import, 0, "x", 1, 0, UNETMM_COUNT,
                                10 * NS_PER_S), 0);
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

static void answer_stream(void *opaque)
{
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_stream_listener *listener;
    struct unetmm_stream *stream;
    char question[8];

    (void)opaque;
    CHECK_RET(unetmm_stream_listen(ctx, STREAMS, NULL, &listener), 0);
    CHECK_RET(unetmm_stream_accept(listener, 10 * NS_PER_S, &stream), 0);
    CHECK_RET(unetmm_stream_recv(stream, question, 8, UNETMM_STREAM_WAITALL), 8);
    CHECK(!memcmp(question, "question", 8));
    CHECK_RET(unetmm_stream_send(stream, "answer", 6, 0), 6);
    CHECK_RET(unetmm_stream_close(stream), 0);
    CHECK_RET(unetmm_stream_listener_close(listener), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

static void answer_hello(void *opaque)
{
    struct tool hello;

    (void)opaque;
    expect(&hello, run_tool(&hello, "/usr/bin/hello"), 0);
    expect_word(hello.text, "hello\n");
}

/* ---- The pages -------------------------------------------------------------------- */

/* The scene of a page: most have a channel from the endpoint to itself. */
static const struct page {
    const char *name;
    unsigned source;
    enum { CHANNEL, IMPORT, RAW, NO_ENDPOINT } kind;
    void (*peer)(void *mac);
} pages_with_a_card[] = {
    { "libunetmm_7", UNETMM_SOURCE_TLB, CHANNEL, answer_hello },
    { "unetmm_event_create_3", UNETMM_SOURCE_TLB, CHANNEL, count_once },
    { "unetmm_export_key_3", UNETMM_SOURCE_TLB, CHANNEL, NULL },
    { "unetmm_flow_add_3", UNETMM_SOURCE_TLB, RAW, NULL },
    { "unetmm_peers_3", UNETMM_SOURCE_TLB, CHANNEL, NULL },
    { "unetmm_prefetch_3", UNETMM_SOURCE_ODP, CHANNEL, NULL },
    { "unetmm_register_3", UNETMM_SOURCE_PINNED, CHANNEL, NULL },
    { "unetmm_sem_home_3", UNETMM_SOURCE_TLB, CHANNEL, NULL },
    { "unetmm_send_frame_3", UNETMM_SOURCE_TLB, RAW, NULL },
    { "unetmm_stream_3", UNETMM_SOURCE_TLB, CHANNEL, answer_stream },
    { "unetmm_udma_to_3", UNETMM_SOURCE_TLB, IMPORT, NULL },
    { "unetmm_utlb_configure_3", UNETMM_SOURCE_UTLB, NO_ENDPOINT, NULL },
    { "unetmm_window_open_3", UNETMM_SOURCE_TLB, IMPORT, NULL },
};

static void scene_endpoint(struct unetmm_ctx *ctx, const struct page *page,
                           const uint8_t mac[6], struct unetmm_ep **ep,
                           int *channel)
{
    static uint8_t memory[4096] __attribute__((aligned(4096)));
    struct unetmm_flow_attr flow = UNETMM_FLOW_ATTR_INIT;
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_channel_attr announced = UNETMM_CHANNEL_ATTR_INIT;

    announced.flags |= UNETMM_ANNOUNCE;
    if (page->kind == RAW) {
        attr.flags = UNETMM_EP_RAW;
        attr.policy = UNETMM_POLICY_DROP;
        flow.kind = UNETMM_FLOW_MAC;
        flow.flags = UNETMM_FLOW_F_SOURCE;
        memcpy(flow.mac, mac, 6);
        CHECK_RET(unetmm_ep_create(ctx, &attr, ep), 0);
        CHECK(unetmm_flow_add(*ep, &flow) >= 0);
        return;
    }
    CHECK_RET(unetmm_ep_create(ctx, NULL, ep), 0);
    CHECK_SYS(prctl(PR_SET_NAME, LISTENER));
    CHECK_RET(unetmm_listen_ex(*ep, SERVICE_FIRST, 4, &announced), 0);
    *channel = unetmm_connect(*ep, mac, SERVICE_FIRST, 10 * NS_PER_S, NULL);
    CHECK(*channel >= 0);
    CHECK(unetmm_accept(*ep, NULL, 10 * NS_PER_S) >= 0);
    if (page->kind == IMPORT) {
        CHECK_RET(unetmm_export(ctx, FIRST_IMPORT, memory, sizeof(memory),
                                UNETMM_RIGHT_WRITE, 0, 0), 0);
        CHECK_RET(unetmm_import(*ep, *channel, FIRST_IMPORT, 0, 10 * NS_PER_S,
                                NULL), 0);
    }
}

/* All that an example has posted is done, and nothing of it has failed. */
static void check_done(struct unetmm_ep *ep)
{
    struct unetmm_completion c;

    EVENTUALLY(!unetmm_send_pending(ep));
    while (unetmm_poll(ep, &c, 1) > 0) {
        CHECK_EQ(c.status, UNETMM_ST_OK);
    }
}

static void run_page(const struct page *page, const struct example *example)
{
    uint8_t mac[6] = { 2, 0, 0, 0, 0, 9 };
    struct unetmm_ctx *ctx = NULL;
    struct unetmm_ep *ep = NULL;
    int channel = -1, ret;
    pid_t peer = 0;

    note("%s", page->name);
    if (page->kind != RAW) {
        card_mac(mac);
    }
    CHECK_RET(unetmm_open(NULL, page->source, &ctx), 0);
    if (page->kind != NO_ENDPOINT) {
        scene_endpoint(ctx, page, mac, &ep, &channel);
    }
    if (page->peer) {
        peer = start_process(page->peer, mac);
    }
    ret = example->run(ctx, ep, channel, mac);
    if (ret < 0) {
        FAIL("the example of %s: %s", page->name, error_name(ret));
    }
    if (peer) {
        end_process(peer);
    }
    if (ep) {
        check_done(ep);
        CHECK_RET(unetmm_ep_destroy(ep), 0);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST_NAMED("pages", pages_of_the_manual, TEST_TLB)
{
    const size_t n = sizeof(pages_with_a_card) / sizeof(pages_with_a_card[0]);
    size_t i, k;

    CHECK_EQ(n, NEED_A_CARD);
    for (i = 0; i < n; i++) {
        CHECK(needs_a_card(pages_with_a_card[i].name));
        for (k = 0; strcmp(examples[k].name, pages_with_a_card[i].name); k++) {
            CHECK(k + 1 < EXAMPLES);
        }
        run_page(&pages_with_a_card[i], &examples[k]);
    }
}

/* ---- The programs ------------------------------------------------------------------ */

static void check_said(const struct tool *tool, const char *words)
{
    if (strcmp(tool->text, words)) {
        FAIL("it said '%s%s', not '%s'", tool->text, tool->errors, words);
    }
}

/* Two sides of a program on one card, and the words that each of them says. */
static void both_sides(const char *program, const char *listener_says,
                       const char *caller_says)
{
    struct tool listener, caller;
    char command[80];

    snprintf(command, sizeof(command), "/usr/bin/%s", program);
    start(&listener, command);
    snprintf(command, sizeof(command), "/usr/bin/%s %s", program, own_mac());
    expect(&caller, run_tool(&caller, command), 0);
    check_said(&caller, caller_says);
    expect(&listener, await(&listener), 0);
    check_said(&listener, listener_says);
}

TEST(ping_pong, TEST_TLB)
{
    both_sides("ping-pong", "1000 turns\n", "1000 turns\n");
}

TEST(notification, TEST_TLB)
{
    both_sides("notification", "42: written\n", "");
}

TEST(counter, TEST_TLB)
{
    both_sides("counter", "1 2 3\n", "");
}

TEST(redirect, TEST_TLB)
{
    both_sides("redirect", "letter: no copy, mailbox: \n", "");
}

TEST(export_import, TEST_TLB)
{
    both_sides("vmmc-hello", "42: hello, straight into your memory\n", "");
}

TEST(utlb_policy, TEST_TLB)
{
    struct tool tool;
    unsigned now, all;

    expect(&tool, run_tool(&tool, "/usr/bin/utlb-policy"), 0);
    CHECK_EQ(sscanf(tool.text, "%u pinned, of %u\n", &now, &all), 2);
    CHECK(now > 0 && now <= 16);
    CHECK(all >= 64);
}

#define RAW_LISTENER    "/usr/bin/raw-frames 02:00:00:00:00:01"

/* Does another endpoint have the flow? */
static bool taken(struct unetmm_ep *ep, const struct unetmm_flow_attr *flow)
{
    int ret = unetmm_flow_add(ep, flow);

    if (ret >= 0) {
        CHECK_RET(unetmm_flow_remove(ep, ret), 0);
    }
    return ret == -EADDRINUSE;
}

/*
 * Does the listener have the flow?  taken() has it for a moment: a listener that wants
 * it then has ended, and is started again.
 */
static bool listens(struct tool *listener, struct unetmm_ep *ep,
                    const struct unetmm_flow_attr *flow)
{
    if (taken(ep, flow)) {
        return true;
    }
    if (has_ended(listener->pid)) {
        CHECK_EQ(await(listener), 1);
        start(listener, RAW_LISTENER);
    }
    return false;
}

/* A question before the other station is there would be lost. */
TEST(raw_frames, TEST_TLB)
{
    struct unetmm_flow_attr flow = UNETMM_FLOW_ATTR_INIT;
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_ctx *ctx = open_card();
    struct tool listener, caller;
    struct unetmm_ep *ep;

    attr.flags = UNETMM_EP_RAW;
    attr.policy = UNETMM_POLICY_DROP;
    flow.kind = UNETMM_FLOW_MAC;
    CHECK_RET(unetmm_parse_mac("02:00:00:00:00:01", flow.mac), 0);
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), 0);
    start(&listener, RAW_LISTENER);
    EVENTUALLY(listens(&listener, ep, &flow));
    expect(&caller, run_tool(&caller, "/usr/bin/raw-frames 02:00:00:00:00:02 "
                             "02:00:00:00:00:01"), 0);
    check_said(&caller, "answer\n");
    expect(&listener, await(&listener), 0);
    check_said(&listener, "question\n");
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}
