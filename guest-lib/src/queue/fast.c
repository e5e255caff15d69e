/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The functions of inline.h as symbols, for programs that do not include it and
 * for other languages.
 */

/* C99's extern inline: a symbol is made, and the functions include one another. */
#define UNETMM_FAST_    extern __inline__ __attribute__((__always_inline__))
#define UNETMM_HELPER_ \
    extern __inline__ __attribute__((__gnu_inline__, __always_inline__))

/* A loop in unetmm_poll() would have each call save a register. */
#define UNETMM_POLL_MANY_ unetmm_poll_many_
struct unetmm_ep;
struct unetmm_completion;
/* Hidden and not static: C99 has no static function in an extern inline one. */
__attribute__((__visibility__("hidden"))) int
unetmm_poll_many_(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n);

#include <libunetmm/inline.h>

__attribute__((__noinline__)) int
unetmm_poll_many_(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    return unetmm_poll_(ep, c, n);
}

/* Its name changes with the layout of the structures in inline.h. */
const uint32_t unetmm_inline_1_ = 1;
