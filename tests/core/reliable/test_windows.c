/*
 * unetmm: the windows of a reliable channel, without a channel
 *
 * explore_windows has them in every order; here are single rules by name.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fake_host.h"

#define FIRST   0xfffffff0u

/* A window with n packets that fly. */
static UnetmmSendWindow flying(uint32_t n)
{
    UnetmmSendWindow w = { 0 };

    unetmm_sendwin_begin(&w, FIRST, 0);
    for (uint32_t i = 0; i < n; i++) {
        assert_false(unetmm_sendwin_sent(&w, FIRST + i, false));
    }
    return w;
}

TEST(test_overtaken, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(5);

    assert_true(unetmm_sendwin_acked(&w, FIRST, 3, false));
    assert_false(w.lost);
    assert_true(unetmm_sendwin_acked(&w, FIRST, 7, false));
    assert_true(w.lost == unetmm_rel_bit(FIRST));
    assert_int_equal(unetmm_sendwin_pick(&w), FIRST);
    assert_true(unetmm_sendwin_sent(&w, FIRST, false));
    assert_int_equal(unetmm_sendwin_pick(&w), FIRST + 5);
    assert_true(unetmm_sendwin_acked(&w, FIRST + 5, 0, false));
    assert_int_equal(w.una, w.nxt);
    assert_true(w.deadline_ns == INT64_MAX);
}

/* After a silence one later packet that arrived is enough. */
TEST(test_overtaken_after_silence, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(3);

    assert_false(unetmm_sendwin_timed_out(&w));
    assert_int_equal(w.retries, 1);
    assert_true(unetmm_sendwin_sent(&w, FIRST, false));
    assert_true(unetmm_sendwin_acked(&w, FIRST + 1, 0, false));
    assert_true(w.lost == (unetmm_rel_bit(FIRST + 1) |
                           unetmm_rel_bit(FIRST + 2)));
    assert_int_equal(w.retries, 0);
}

TEST(test_no_news, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(2);

    assert_true(unetmm_sendwin_acked(&w, FIRST + 1, 0, false));
    assert_false(unetmm_sendwin_acked(&w, FIRST + 1, 0, false));
    assert_true(unetmm_sendwin_acked(&w, FIRST + 1, 0, true));
}

TEST(test_room, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(UNETMM_REL_WINDOW - 1);

    assert_true(unetmm_sendwin_room(&w));
    unetmm_sendwin_sent(&w, w.nxt, false);
    assert_false(unetmm_sendwin_room(&w));
    assert_true(unetmm_sendwin_ok(&w, true));
}

/* A smaller window is for packets that go again, too. */
TEST(test_smaller, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(8);

    unetmm_sendwin_allow(&w, 9);
    assert_false(unetmm_sendwin_stuck(&w));
    assert_true(unetmm_sendwin_room(&w));
    unetmm_sendwin_allow(&w, 4);
    assert_false(unetmm_sendwin_room(&w));
    assert_true(unetmm_sendwin_within(&w, FIRST + 3));
    assert_false(unetmm_sendwin_within(&w, FIRST + 4));
    assert_true(unetmm_sendwin_stuck(&w));
    assert_true(w.probe);
    assert_false(unetmm_sendwin_stuck(&w));
}

/* The channel's own time counts, one that was measured does not. */
TEST(test_early, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(2);

    unetmm_sendwin_wait(&w, 5);
    unetmm_sendwin_hurry(&w);
    assert_false(unetmm_sendwin_timed_out(&w));
    assert_int_equal(w.retries, 0);
    assert_true(w.lost == unetmm_rel_bit(FIRST));
    /* Behind it, too, one later packet that arrived is enough. */
    assert_true(unetmm_sendwin_sent(&w, FIRST, false));
    assert_true(unetmm_sendwin_acked(&w, FIRST + 1, 0, false));
    assert_true(w.lost == unetmm_rel_bit(FIRST + 1));
}

TEST(test_credit, cmocka_unit_test)
{
    UnetmmSendWindow w = { 0 };

    unetmm_sendwin_begin(&w, FIRST, 2);
    assert_false(unetmm_sendwin_no_credit(&w));
    unetmm_sendwin_sent(&w, FIRST, false);
    unetmm_sendwin_sent(&w, FIRST + 1, false);
    assert_true(unetmm_sendwin_no_credit(&w));
    assert_true(unetmm_sendwin_starve(&w, true));
    assert_false(unetmm_sendwin_starve(&w, true));
    assert_false(unetmm_sendwin_credit(&w, FIRST + 1));
    assert_true(unetmm_sendwin_credit(&w, FIRST + 3));
    assert_false(w.starves);
    assert_false(unetmm_sendwin_no_credit(&w));
}

/* The peer has packet cum in a slot: it is asked, and no copy is sent. */
TEST(test_probe, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(1);

    unetmm_sendwin_set_aside(&w);
    assert_true(unetmm_sendwin_timed_out(&w));
    assert_true(w.probe);
    assert_false(w.lost);
    unetmm_sendwin_probed(&w);
    assert_false(w.probe);
}

TEST(test_send_end, cmocka_unit_test)
{
    UnetmmSendWindow w = flying(3);

    unetmm_sendwin_void(&w, FIRST + 1);
    unetmm_sendwin_refused(&w);
    unetmm_sendwin_wait(&w, 5);
    w.probe = true;
    unetmm_sendwin_end(&w);
    assert_true(unetmm_sendwin_ok(&w, false));
    assert_false(w.lost || w.paused || w.probe);
    assert_true(w.deadline_ns == INT64_MAX);
}

TEST(test_kept, cmocka_unit_test)
{
    UnetmmRecvWindow w = { 0 };

    unetmm_recvwin_begin(&w, FIRST);
    unetmm_recvwin_kept(&w, FIRST + 1);
    unetmm_recvwin_kept(&w, FIRST + 3);
    assert_true(unetmm_recvwin_bits(&w) == 5);
    unetmm_recvwin_taken(&w);
    assert_true(unetmm_recvwin_has(&w, w.nxt));
    assert_true(unetmm_recvwin_bits(&w) == 2);
    unetmm_recvwin_taken(&w);
    assert_false(unetmm_recvwin_has(&w, FIRST + 1));
    assert_true(unetmm_recvwin_again(&w, FIRST));
    assert_false(unetmm_recvwin_again(&w, FIRST + 2));
    unetmm_recvwin_drop(&w);
    assert_false(w.have);
}

TEST(test_taken_ends_refusal, cmocka_unit_test)
{
    UnetmmRecvWindow w = { 0 };

    unetmm_recvwin_refused(&w, UNETMM_REL_WANT_PAGE);
    unetmm_recvwin_tell_refusal(&w);
    unetmm_recvwin_rejected(&w, UNETMM_WHY_RANGE);
    unetmm_recvwin_wrong_key(&w, 0);
    unetmm_recvwin_taken(&w);
    assert_false(w.refused || w.refuse || w.why || w.wrong);
}

TEST(test_landed, cmocka_unit_test)
{
    UnetmmRecvWindow w = { 0 };

    unetmm_recvwin_kept(&w, 0);
    unetmm_recvwin_landed(&w, 0, true);
    assert_true(w.landed && !w.spoilt);
    unetmm_recvwin_goes_on(&w);
    assert_false(w.landed);
    unetmm_recvwin_landed(&w, 0, false);
    assert_true(w.spoilt == 1);
    unetmm_recvwin_lost(&w);
    assert_false(w.have || w.spoilt);
}

TEST(test_bad_keys, cmocka_unit_test)
{
    UnetmmRecvWindow w = { 0 };

    for (unsigned i = 1; i < UNETMM_REL_BAD_KEYS; i++) {
        assert_false(unetmm_recvwin_bad_key(&w));
    }
    assert_true(unetmm_recvwin_bad_key(&w));
}

TEST(test_recv_end, cmocka_unit_test)
{
    UnetmmRecvWindow w = { 0 };

    unetmm_recvwin_rejected_late(&w, 7, UNETMM_WHY_MEMORY);
    assert_int_equal(w.late_psn, 7);
    unetmm_recvwin_refused(&w, UNETMM_REL_WANT_CQ);
    unetmm_recvwin_end(&w);
    assert_false(w.late_why || w.refused || w.why);
}
