/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Included before every file of the shared object.  The macros type_init() and
 * trace_init() of QEMU's headers then hand their functions to entry.c, which
 * knows when QEMU can take them.
 */
#define register_module_init unetmm_register_module_init
