/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the card as a shared object for the QEMU of a distribution
 */
#ifndef HW_STOCK_H
#define HW_STOCK_H

#include "qemu/module.h"

/**
 * stock_qemu_fits: Check the running QEMU against the object's headers.
 *
 * The linker finds every symbol in a QEMU of another version, too, whose
 * structures have another layout: this check is the only protection.  Call it
 * when QEMU has registered its types, and before a type of the card is
 * registered.
 *
 * Returns: true if the card can run in this QEMU.  Otherwise false, and one
 * sentence on the standard error says the difference.
 */
bool stock_qemu_fits(void);

/**
 * register_module_init: QEMU's function.
 *
 * register.h renames the declaration of QEMU's header; this is the function.
 */
#undef register_module_init
void register_module_init(void (*fn)(void), module_init_type type);

/**
 * unetmm_register_module_init: Take an init function of the card's files.
 *
 * The constructors of type_init() and trace_init() call this before main().
 */
void unetmm_register_module_init(void (*fn)(void), module_init_type type);

#endif
