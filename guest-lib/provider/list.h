/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists, which go round through their head; an element may be in several. */
#ifndef UMFI_LIST_H
#define UMFI_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The structure that has `pointer` as its `member`. */
#define umfi_of(pointer, type, member) \
    ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

struct umfi_list {
    struct umfi_list *next, *prev;
};

/* For each element of a list in turn; the loop may take that element out. */
#define umfi_for_each(element, list, member) \
    for (struct umfi_list *element##_at = (list)->next, *element##_next = element##_at->next; \
         element##_at != (list) && \
         ((element) = umfi_of(element##_at, __typeof__(*(element)), member), true); \
         element##_at = element##_next, element##_next = element##_at->next)

static inline void umfi_list_init(struct umfi_list *list)
{
    list->next = list->prev = list;
}

static inline bool umfi_list_is_empty(const struct umfi_list *list)
{
    return list->next == list;
}

static inline void umfi_list_add(struct umfi_list *list, struct umfi_list *node)
{
    node->next = list;
    node->prev = list->prev;
    list->prev->next = node;
    list->prev = node;
}

static inline void umfi_list_del(struct umfi_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    umfi_list_init(node);
}

#endif /* UMFI_LIST_H */
