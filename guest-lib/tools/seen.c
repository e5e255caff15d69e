/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "seen.h"

#include <string.h>

void seen_advance(struct seen *seen, uint64_t high)
{
    if (high > seen->high && high - seen->high >= SEEN_FRAMES) {
        memset(seen->bits, 0, sizeof(seen->bits));
        seen->high = high;
    }
    for (; seen->high < high; seen->high++) {
        uint32_t bit = seen->high % SEEN_FRAMES;

        seen->bits[bit / 8] &= (uint8_t)~(1u << bit % 8);
    }
}

bool seen_is_new(struct seen *seen, uint64_t number)
{
    uint32_t bit = number % SEEN_FRAMES;

    if (number >= seen->high) {
        seen_advance(seen, number + 1);
    } else if (seen->high - number > SEEN_FRAMES ||
               seen->bits[bit / 8] & 1u << bit % 8) {
        return false;
    }
    seen->bits[bit / 8] |= (uint8_t)(1u << bit % 8);
    return true;
}
