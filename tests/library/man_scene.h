/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scene of the examples of the manual's pages.  man_examples.py makes a function of
 * each; test-examples.c runs them on the card's core, and tests/guest/tool/manual.c those that
 * need a card.
 */
#ifndef TEST_MAN_SCENE_H
#define TEST_MAN_SCENE_H

#include <libunetmm/stream.h>

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Variables of the examples; each leaves its result in `ret`. */
#define SCENE \
    __attribute__((unused)) struct unetmm_ctx *ctx, \
    __attribute__((unused)) struct unetmm_ep *ep, \
    __attribute__((unused)) int channel, \
    __attribute__((unused)) const uint8_t mac[6]

struct example {
    const char *name;
    int (*run)(SCENE);
};

static unsigned completions;

static void on_completion(struct unetmm_ep *ep,
                          const struct unetmm_completion *c, void *arg)
{
    (void)ep;
    (void)c;
    (void)arg;
    completions++;
}

/* Standard output is for the results of the tests. */
#define printf(...) fprintf(stderr, __VA_ARGS__)
#include "man-examples.h"
#undef printf

/* Their calls, or their peers, are not in fake_loop.c, but for two (test-examples.c). */
static const char *const need_a_card[] = {
    "libunetmm_7", "unetmm_event_create_3", "unetmm_export_key_3",
    "unetmm_flow_add_3", "unetmm_peers_3", "unetmm_prefetch_3",
    "unetmm_register_3", "unetmm_sem_home_3", "unetmm_send_frame_3",
    "unetmm_stream_3", "unetmm_udma_to_3", "unetmm_utlb_configure_3",
    "unetmm_window_open_3",
};

#define EXAMPLES        (sizeof(examples) / sizeof(examples[0]))
#define NEED_A_CARD     (sizeof(need_a_card) / sizeof(need_a_card[0]))

static inline bool needs_a_card(const char *name)
{
    size_t i;

    for (i = 0; i < NEED_A_CARD; i++) {
        if (!strcmp(name, need_a_card[i])) {
            return true;
        }
    }
    return false;
}

#endif /* TEST_MAN_SCENE_H */
