/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lets the program `echo` in the other guest end.
 */
#include "ask.h"
#include "link.h"

TEST(echo, TEST_ONLY_REMOTE)
{
    struct link link;

    /* A test that failed may have left it standing. */
    ask_host("peer cont");
    link_open(&link, NULL, NULL);
    peer_ask(link.tx, PEER_QUIT);
    link_close(&link);
}
