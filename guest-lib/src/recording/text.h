/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Text that a signal handler may make, which must not call snprintf().  Characters that do
 * not fit are left out.
 */
#ifndef UNETMM_RECORDING_TEXT_H
#define UNETMM_RECORDING_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The longest line has UNETMM_MAX_SEGS pieces of up to 30 characters. */
#define TEXT_BYTES  768

struct text {
    size_t used;
    char bytes[TEXT_BYTES];
};

static inline void text_char(struct text *t, char c)
{
    if (t->used < sizeof(t->bytes)) {
        t->bytes[t->used++] = c;
    }
}

static inline void text_string(struct text *t, const char *s)
{
    for (; *s; s++) {
        text_char(t, *s);
    }
}

/* `least` digits at least */
static inline void text_number(struct text *t, uint64_t number, unsigned base, unsigned least)
{
    char digits[20];
    unsigned n = 0;

    do {
        digits[n++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number || n < least);
    while (n) {
        text_char(t, digits[--n]);
    }
}

#endif /* UNETMM_RECORDING_TEXT_H */
