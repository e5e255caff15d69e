/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How the functions of inline.h, and those that they call, are defined.
 *
 * In a program the body of a public function (UNETMM_FAST_) is used where the
 * function is called by name, and its address is that of the library's symbol.
 * src/queue/fast.c, which makes the symbols, defines both macros otherwise.
 */
#ifndef LIBUNETMM_HELPER_H
#define LIBUNETMM_HELPER_H

/* Each header alone must compile as a translation unit. */
struct unetmm_ep;

#ifndef UNETMM_FAST_
#define UNETMM_FAST_    UNETMM_HELPER_
#define UNETMM_POLL_MANY_ unetmm_poll_
#define UNETMM_HELPER_ \
    extern __inline__ __attribute__((__gnu_inline__, __always_inline__))
#endif

#endif /* LIBUNETMM_HELPER_H */
