/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See fast.h. */
#include "fast.h"
#include "fake_card.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

static struct fake_endpoint fake;

struct unetmm_ep *fast_open(void)
{
    fake_endpoint_init(&fake, 8, 8, 8, 0);
    fake.private->imports[0] = (struct unetmm_import_record) { 1 << 20, 1, 7 };
    return fake.ep;
}

void fast_turn(enum fast_turn turn)
{
    static struct fake_message message;
    static const uint8_t data[8];
    struct unetmm_completion c;

    switch (turn) {
    case FAST_TAKE:
        while (fake_card_take(&fake.card, &message)) {
        }
        break;
    case FAST_RETURN:
        while (fake_card_return(&fake.card, UNETMM_ST_SKIPPED)) {
        }
        while (unetmm_poll(fake.ep, &c, 1) > 0) {
        }
        break;
    case FAST_DELIVER:
        fake_card_deliver(&fake.card, 1, data, sizeof(data), true);
        break;
    case FAST_SENT:
        while (fake_card_take(&fake.card, &message)) {
            fake_card_sent(&fake.card, &message);
        }
        break;
    case FAST_FILL:
        fake_card_deliver(&fake.card, 1, data, sizeof(data), false);
        break;
    }
}

int fast_main(void (*run)(void *which), void *cases, size_t size, size_t n)
{
    for (char *which = cases; n--; which += size) {
        const char *name = *(const char **)(void *)which;
        int64_t steps = steps_count(run, which);

        if (steps < 0) {
            fprintf(stderr, "%s: not counted\n", name);
            return EXIT_FAILURE;
        }
        printf("%s %.1f\n", name, (double)steps / FAST_CALLS);
    }
    return EXIT_SUCCESS;
}
