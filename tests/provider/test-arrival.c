/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Both sides of a connection, on a card that is the test: channels that nobody has asked
 * for, and messages of one that had a channel's number before.
 */
#include "../one_test.h"
#include "fake_caller.h"
#include "scene.h"

#include <errno.h>

/* A connector, whose request is on its way. */
static void open_connector(struct scene *s)
{
    const struct sockaddr_in to = { .sin_family = AF_INET };

    open_scene(s);
    open_endpoint(s, NULL);
    s->cm = &cards[ncards];
    assert_int_equal(fi_connect(s->ep, &to, NULL, 0), 0);
    assert_int_equal(sent, 1);
}

/* An acceptor, which has answered a request. */
static void open_acceptor(struct scene *s)
{
    open_requested(s);
    assert_int_equal(fi_accept(s->ep, NULL, 0), 0);
    assert_int_equal(sent, 1);
}

static struct scene scene;      /* of a test that has none of its own */

static int begin_connector(void **state)
{
    open_connector(&scene);
    return 0;
}

static int begin_acceptor(void **state)
{
    open_acceptor(&scene);
    return 0;
}

static int begin_requested(void **state)
{
    open_requested(&scene);
    return 0;
}

static int end(void **state)
{
    close_scene(&scene);
    return 0;
}

#define connector_test(fn) cmocka_unit_test_setup_teardown(fn, begin_connector, end)
#define requested_test(fn) cmocka_unit_test_setup_teardown(fn, begin_requested, end)
#define acceptor_test(fn) cmocka_unit_test_setup_teardown(fn, begin_acceptor, end)

/* A message on a channel of the data port fills its buffer. */
static void arrive(struct scene *s, unsigned channel)
{
    s->data->pending[s->data->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .channel = (uint16_t)channel, .len = 1,
        .user_data = s->data->posted[0],
    };
}

/* Peers open channels to the data port; the driver's descriptor has said so. */
static void call_in(struct scene *s, unsigned n)
{
    s->data->callers = n;
    sys_lock_take(&s->fabric.lock);
    umfi_arrivals_accept(umfi_of(s->ep, struct umfi_ep, fid)->port);
    sys_lock_drop(&s->fabric.lock);
}

/* The peer's answer names the channel that the nth arrival is for it. */
static void answer(struct scene *s, unsigned nth)
{
    const uint8_t head[] = { 'u', 'm', 'f', 'i', 2, 0, CM_ACCEPT, 0 };
    const uint8_t which[] = {
        PEER_EP, 0, 0, 0, (uint8_t)(PEER_CHANNEL + nth), 0, 0, 0,
    };

    memset(s->cm->buffers[0], 0, CM_BYTES);
    memcpy(s->cm->buffers[0], head, sizeof(head));
    memcpy(s->cm->buffers[0] + 16, which, sizeof(which));
    s->cm->pending[s->cm->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .len = CM_BYTES,
    };
}

static void require_open(const struct scene *s, unsigned channels)
{
    for (unsigned i = 0; i < CHANNELS; i++) {
        assert_int_equal(!!s->data->mtu[i], channels >> i & 1);
    }
}

static void require_received(struct scene *s, ssize_t n)
{
    struct fi_cq_msg_entry entry;

    assert_int_equal(fi_cq_read(s->cq, &entry, 1), n ? n : -FI_EAGAIN);
}

/* ---- The connector's side ---------------------------------------------------- */

/*
 * Before any answer: one arrival for each request and a few more, the newest of them; a
 * buffer for none.
 */
TEST(nobody_asked, connector_test)
{
    call_in(&scene, SPARE + 3);
    arrive(&scene, 0);
    progress(&scene);
    require_open(&scene, ((1 << (SPARE + 1)) - 1) << 2);
    assert_int_equal(scene.data->nposted, 2);
    assert_int_equal(scene.data->posted[1], scene.data->posted[0]);
    require_received(&scene, 0);
    answer(&scene, 2);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
    /* There is no request any more. */
    call_in(&scene, 2);
    progress(&scene);
    require_open(&scene, 1 << 2);
}

/* The time of the oldest arrival has passed. */
static void expire(struct scene *s)
{
    struct umfi_port *port = umfi_of(s->ep, struct umfi_ep, fid)->port;

    umfi_of(port->arrivals.next, struct umfi_arrival, node)->until_ms = 0;
}

/* The peer sends, and never answers. */
TEST(no_answer_in_time, connector_test)
{
    /* However short fi_connect() waits for a driver: an answer takes longer. */
    umfi_config.connect_ms = 0;
    call_in(&scene, 1);
    progress(&scene);
    require_open(&scene, 1 << 0);
    expire(&scene);
    progress(&scene);
    require_open(&scene, 0);
    assert_int_equal(state_of(&scene), UMFI_CONNECTING);
}

/* Two were asked for, the first of which has been given up: its channel comes last. */
TEST(wanted_comes_first, connector_test)
{
    call_in(&scene, 2);
    progress(&scene);
    answer(&scene, 0);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
    require_open(&scene, 1 << 0);
}

/* They go with the port. */
TEST(arrivals_at_the_end, cmocka_unit_test)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, 2);
    close_scene(&s);
    assert_int_equal(held, 0);
}

/* The answer is read before the driver's descriptor has told of the channel. */
TEST(answer_comes_first, connector_test)
{
    scene.data->callers = 1;
    answer(&scene, 0);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
    require_open(&scene, 1 << 0);
}

/* A connector that closes while its peer accepts leaves no channel. */
TEST(request_was_given_up, connector_test)
{
    call_in(&scene, 1);
    progress(&scene);
    require_open(&scene, 1 << 0);
    sys_lock_take(&scene.fabric.lock);
    umfi_cm_abandon_ep(umfi_of(scene.ep, struct umfi_ep, fid));
    sys_lock_drop(&scene.fabric.lock);
    progress(&scene);
    require_open(&scene, 0);
}

/* A stranger has sent; the acceptor's channel has the number of its channel. */
TEST(message_of_a_stranger, connector_test)
{
    call_in(&scene, 1);
    arrive(&scene, 0);
    expire(&scene);
    progress(&scene);
    require_open(&scene, 0);
    progress(&scene);
    call_in(&scene, 1);
    answer(&scene, 1);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
    require_open(&scene, 1 << 0);
    require_received(&scene, 0);
    arrive(&scene, 0);
    require_received(&scene, 1);
}

/* The end of an arrival is not the next one's of the same number. */
TEST(end_of_a_stranger, connector_test)
{
    call_in(&scene, 1);
    progress(&scene);
    arrive(&scene, 0);
    close_channel(scene.data, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    require_open(&scene, 0);
    call_in(&scene, 1);
    answer(&scene, 1);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
}

/* The same, of one that we end. */
TEST(both_end, connector_test)
{
    call_in(&scene, 2);
    expire(&scene);
    progress(&scene);
    require_open(&scene, 1 << 1);
    call_in(&scene, 1);
    answer(&scene, 2);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
}

/* The peer's next channel has the number of one that has ended. */
TEST(number_of_an_ended_one, connector_test)
{
    call_in(&scene, 1);
    close_channel(scene.data, 0, UNETMM_ST_BAD_CHANNEL);
    scene.data->arrived = 0;
    call_in(&scene, 1);
    answer(&scene, 0);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
    require_open(&scene, 1 << 1);
}

/* The acceptor's channel has ended before its answer is read: nobody waits for that end. */
TEST(ended_acceptor, connector_test)
{
    call_in(&scene, 1);
    close_channel(scene.data, 0, UNETMM_ST_BAD_CHANNEL);
    answer(&scene, 0);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_IDLE);
    assert_int_equal(nevents, 1);
    assert_int_equal(events[0], (uint32_t)-FI_ECONNABORTED);
    require_open(&scene, 0);
}

/* The same, but it ended before the connector had it in its list. */
TEST(hasty_acceptor, cmocka_unit_test)
{
    struct scene s;

    for (int other = 0; other < 2; other++) {
        open_connector(&s);
        hasty = true;
        reader = other ? umfi_of(s.ep, struct umfi_ep, fid)->port : NULL;
        call_in(&s, 1);
        hasty = false;
        answer(&s, 0);
        progress(&s);
        assert_int_equal(state_of(&s), UMFI_IDLE);
        assert_int_equal(nevents, 1);
        assert_int_equal(events[0], (uint32_t)-FI_ECONNABORTED);
        reader = NULL;
        require_open(&s, 0);
        close_scene(&s);
    }
}

/* The end of a channel that had the number before, and that nobody here had. */
TEST(end_of_the_number_before, cmocka_unit_test)
{
    struct scene s;

    open_connector(&s);
    close_channel(s.data, 0, UNETMM_ST_BAD_CHANNEL);
    call_in(&s, 1);
    answer(&s, 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    close_scene(&s);
    open_requested(&s);
    close_channel(s.data, 0, UNETMM_ST_BAD_CHANNEL);
    assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_ACCEPTING);
    close_scene(&s);
}

/* The card has stopped the port: a connection on it would never end. */
TEST(answer_to_a_stopped_port, connector_test)
{
    call_in(&scene, 1);
    scene.data->stopped = true;
    answer(&scene, 0);
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_IDLE);
    assert_int_equal(nevents, 1);
    assert_int_equal(events[0], (uint32_t)-FI_ECONNABORTED);
}

/* A stranger's messages do not keep the lock from others. */
TEST(flood_of_a_stranger, connector_test)
{
    struct umfi_port *port;

    port = umfi_of(scene.ep, struct umfi_ep, fid)->port;
    flood = 1000000;
    umfi_lock(&scene.domain);
    umfi_port_progress(port);
    umfi_unlock(&scene.domain);
    assert_in_range(flood, 900000, 999999);
    flood = 0;
}

/* ---- The acceptor's side ----------------------------------------------------- */

TEST(connector_hangs_up, acceptor_test)
{
    progress(&scene);
    assert_int_equal(nevents, 1);
    assert_int_equal(fi_send(scene.ep, scene.memory, 1, NULL, 0, NULL), -FI_ENOTCONN);
    close_channel(scene.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(fi_send(scene.ep, scene.memory, 1, NULL, 0, NULL), 0);
}

TEST(connector_sends_first, acceptor_test)
{
    arrive(&scene, 0);
    require_received(&scene, 1);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(fi_send(scene.ep, scene.memory, 1, NULL, 0, NULL), 0);
    close_channel(scene.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    assert_int_equal(nevents, 2);
}

/* It hangs up so soon that its card does not acknowledge our answer. */
TEST(connector_does_not_acknowledge, acceptor_test)
{
    scene.cm->pending[scene.cm->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_SENT, .status = UNETMM_ST_BAD_CHANNEL,
    };
    close_channel(scene.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], FI_CONNECTED);
    require_open(&scene, 1 << 0);
}

/* Whether it has the answer is not known: later messages may be lost. */
TEST(connector_is_lost, acceptor_test)
{
    close_channel(scene.cm, 0, UNETMM_ST_TIMEOUT);
    progress(&scene);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], (uint32_t)-FI_ETIMEDOUT);
    require_open(&scene, 0);
}

/* It closes while fi_accept() goes on, and its request first. */
TEST(hasty_connector, cmocka_unit_test)
{
    struct scene s;

    for (int other = 0; other < 2; other++) {
        open_requested(&s);
        hasty = true;
        reader = other ? umfi_of(s.ep, struct umfi_ep, fid)->port : NULL;
        assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
        hasty = false;
        reader = NULL;
        close_channel(s.cm, 0, UNETMM_ST_BAD_CHANNEL);
        progress(&s);
        assert_int_equal(nevents, 2);
        assert_int_equal(events[1], (uint32_t)-FI_ECONNABORTED);
        require_open(&s, 0);
        close_scene(&s);
    }
}

/* The card stops the port while fi_accept() goes on. */
TEST(stopped_while_accepting, requested_test)
{
    scene.data->stopped = true;
    assert_int_equal(fi_accept(scene.ep, NULL, 0), 0);
    close_channel(scene.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], (uint32_t)-FI_EIO);
}

/* The card stops the port before the connector has taken the connection. */
TEST(stopped_acceptor, acceptor_test)
{
    scene.data->stopped = true;
    progress(&scene);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], (uint32_t)-FI_EIO);
    assert_int_equal(scene.eq.channels, 0);
}

/* It neither closes its request nor sends. */
TEST(connector_is_silent, cmocka_unit_test)
{
    struct scene s;

    open_acceptor(&s);
    assert_int_equal(s.eq.channels, 1);
    progress(&s);
    assert_int_equal(nevents, 1);
    umfi_config.connect_ms = 0;
    close_scene(&s);
    open_requested(&s);
    umfi_config.connect_ms = 0;
    assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
    progress(&s);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], (uint32_t)-FI_ETIMEDOUT);
    assert_int_equal(s.eq.channels, 0);
    require_open(&s, 0);
    close_scene(&s);
}

/* As connector_is_lost(), but the listener was closed, and the time has passed. */
TEST(listener_closes, acceptor_test)
{
    umfi_config.connect_ms = 0;
    umfi_cm_unlisten(&scene.pep);
    progress(&scene);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], (uint32_t)-FI_ETIMEDOUT);
    require_open(&scene, 0);
}

/* The connector takes the connection when the listener has been closed. */
TEST(listener_has_closed, acceptor_test)
{
    umfi_cm_unlisten(&scene.pep);
    assert_null(scene.pep.port);
    progress(&scene);
    assert_int_equal(nevents, 1);
    close_channel(scene.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(state_of(&scene), UMFI_CONNECTED);
    assert_ptr_equal(scene.fabric.cm_ports.next, &scene.fabric.cm_ports);
}

static int no_driver(int64_t ns)
{
    return -EHOSTUNREACH;
}

static void end_calls(struct scene *s)
{
    sys_lock_take(&s->fabric.lock);
    assert_int_equal(fake_calls_end(&s->fabric, 1), 0);
    sys_lock_drop(&s->fabric.lock);
    fake_calls_wait = false;
}

/* fi_accept() goes on: its connector's driver has not answered. */
static void open_calling(struct scene *s)
{
    open_requested(s);
    fake_calls_wait = true;
    assert_int_equal(fi_accept(s->ep, NULL, 0), 0);
    assert_int_equal(fi_accept(s->ep, NULL, 0), -FI_ECONNABORTED);
    assert_int_equal(state_of(s), UMFI_CONNECTING);
    assert_int_equal(sent, 0);
}

static int begin_calling(void **state)
{
    open_calling(&scene);
    return 0;
}

#define calling_test(fn) cmocka_unit_test_setup_teardown(fn, begin_calling, end)

/* Its driver is called for the service in the request, of the request's card. */
TEST(call_of_an_acceptor, calling_test)
{
    const uint8_t mac[6] = { 2, 2, 2, 2, 2, 2 };
    const struct umfi_call *call;

    call = umfi_of(scene.fabric.calls_running.next, struct umfi_call, node);
    assert_ptr_equal(call->card_ep, &scene.data->ep);
    assert_int_equal(call->to.s_addr, CM_ADDRESS);
    assert_int_equal(call->service, CM_SERVICE);
    assert_true(call->has_mac);
    assert_memory_equal(call->mac, mac, sizeof(mac));
    assert_int_equal(call->first_ms, 100);
    assert_int_equal(call->most_ms, umfi_config.connect_ms);
    end_calls(&scene);
}

/* The listener is closed meanwhile: the connector has its answer all the same. */
TEST(listener_closes_before_the_answer, calling_test)
{
    umfi_cm_unlisten(&scene.pep);
    progress(&scene);
    end_calls(&scene);
    assert_int_equal(sent, 1);
    /* The connector has its time. */
    progress(&scene);
    assert_int_equal(state_of(&scene), UMFI_ACCEPTING);
    close_channel(scene.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    assert_int_equal(events[nevents - 1], FI_CONNECTED);
    assert_ptr_equal(scene.fabric.cm_ports.next, &scene.fabric.cm_ports);
}

/* The connector gives up meanwhile: the channel ends, and the acceptor learns of it. */
TEST(connector_gives_up, calling_test)
{
    close_channel(scene.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&scene);
    assert_int_equal(nevents, 1);
    end_calls(&scene);
    assert_int_equal(sent, 0);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], (uint32_t)-FI_ECONNABORTED);
    require_open(&scene, 0);
}

/* The acceptor gives up meanwhile, and its port is shared: the channel ends. */
TEST(acceptor_gives_up, calling_test)
{
    sys_lock_take(&scene.fabric.lock);
    umfi_cm_abandon_ep(umfi_of(scene.ep, struct umfi_ep, fid));
    sys_lock_drop(&scene.fabric.lock);
    assert_int_equal(sent, 1);
    end_calls(&scene);
    assert_int_equal(sent, 1);
    assert_int_equal(nevents, 1);
    require_open(&scene, 0);
}

/* No driver of the connector answers: the acceptor learns of it, with its buffers. */
TEST(connector_not_there, requested_test)
{
    struct fi_cq_err_entry error = { 0 };
    struct fi_cq_msg_entry entry;

    silent = no_driver;
    assert_int_equal(fi_accept(scene.ep, NULL, 0), 0);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], (uint32_t)-FI_ETIMEDOUT);
    assert_int_equal(state_of(&scene), UMFI_ENDED);
    assert_int_equal(fi_cq_read(scene.cq, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(scene.cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, &scene);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_int_equal(sent, 1);
}
