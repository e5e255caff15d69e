/*
 * unetmm: lists of numbers that wait, first come, first served
 *
 * A number is in a list at most once, so that a list has room for all.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_LIST_H
#define UNETMM_LIST_H

#include "../stream/stream.h"

typedef struct UnetmmList {
    uint16_t *numbers;          /* circular, `size` of them */
    bool *has;                  /* by number */
    uint32_t size, first, used;
} UnetmmList;

typedef struct UnetmmListNames {
    const char *used, *numbers; /* in the saved state */
    const char *twice;          /* the sentence that refuses a second %u */
} UnetmmListNames;

static inline uint16_t unetmm_list_first(const UnetmmList *list)
{
    return list->numbers[list->first];
}

/* No effect if the list has the number. */
static inline void unetmm_list_add(UnetmmList *list, uint16_t number)
{
    if (!list->has[number]) {
        uint32_t at = list->first + list->used++;

        list->has[number] = true;
        list->numbers[at < list->size ? at : at - list->size] = number;
    }
}

static inline void unetmm_list_pop(UnetmmList *list)
{
    list->has[unetmm_list_first(list)] = false;
    list->first = list->first + 1 < list->size ? list->first + 1 : 0;
    list->used--;
}

/* base/list.c */
/* The first bit from n on that is set; limit: none is. */
uint32_t unetmm_next_bit(const uint64_t *bits, uint32_t n, uint32_t limit);
void unetmm_list_create(UnetmmList *list, uint32_t size);
void unetmm_list_free(UnetmmList *list);
void unetmm_list_clear(UnetmmList *list);
/*
 * Numbers below `limit`, at most the list's size.  A list that is read into is
 * empty.
 */
void unetmm_list_save(UnetmmStream *st, UnetmmList *list, uint32_t limit,
                      const UnetmmListNames *names);

#endif /* UNETMM_LIST_H */
