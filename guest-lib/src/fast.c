/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The functions of inline.h as symbols, for programs that do not include it and
 * for other languages.
 */

/* C99's extern inline: a symbol is made, and the functions include one another. */
#define UNETMM_FAST_    extern __inline__ __attribute__((__always_inline__))
#define UNETMM_HELPER_ \
    extern __inline__ __attribute__((__gnu_inline__, __always_inline__))

#include <libunetmm/inline.h>

/* Its name changes with the layout of the structures in inline.h. */
const uint32_t unetmm_inline_1_ = 1;
