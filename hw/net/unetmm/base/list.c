/*
 * unetmm: lists of numbers that wait: their life and their saved state
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "list.h"

uint32_t unetmm_next_bit(const uint64_t *bits, uint32_t n, uint32_t limit)
{
    while (n < limit && !(bits[n / 64] >> n % 64)) {
        n = (n | 63) + 1;
    }
    return n < limit ? n + __builtin_ctzll(bits[n / 64] >> n % 64) : limit;
}

void unetmm_list_create(UnetmmList *list, uint32_t size)
{
    list->size = MAX(size, 1);
    list->numbers = g_new0(uint16_t, list->size);
    list->has = g_new0(bool, list->size);
}

void unetmm_list_free(UnetmmList *list)
{
    g_clear_pointer(&list->numbers, g_free);
    g_clear_pointer(&list->has, g_free);
}

void unetmm_list_clear(UnetmmList *list)
{
    memset(list->has, 0, list->size * sizeof(*list->has));
    list->first = list->used = 0;
}

void unetmm_list_save(UnetmmStream *st, UnetmmList *list, uint32_t limit,
                      const UnetmmListNames *names)
{
    uint32_t used = unetmm_stream_choice(st, list->used, limit + 1,
                                         names->used);

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint32_t number = list->numbers[(list->first + i) % list->size];

        number = unetmm_stream_member(st, number, limit, names->numbers, i);
        if (!unetmm_stream_reads(st)) {
            continue;
        }
        if (list->has[number]) {
            unetmm_stream_refuse(st, names->twice, number);
        }
        unetmm_list_add(list, number);
    }
}
