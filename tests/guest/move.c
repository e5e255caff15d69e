/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine is saved to a file and goes on in another QEMU, with messages in
 * every state on the card: none is wrong, none waits for ever, and what the
 * driver has pinned is still what the card has.
 */
#include "ask.h"
#include "link.h"
#include "traffic.h"

#define MOVES     3
#define PROCESSES 3

/* Translations come and go all the while, so that some are always missing. */
static void under_traffic(void)
{
    struct crowd crowd;
    unsigned i;

    ask_host("set x-force-miss 50000");
    crowd_start(&crowd, PROCESSES);
    for (i = 0; i < MOVES; i++) {
        crowd_await(&crowd, 20);
        ask_host("move");
        crowd_await(&crowd, 20);
    }
    ask_host("set x-force-miss 0");
    crowd_stop(&crowd);
}

static const struct test tests[] = {
    { "under-traffic", under_traffic, TEST_BOTH, 0 },
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, "move", tests,
                     sizeof(tests) / sizeof(tests[0]));
}
