/*
 * unetmm: the two entries of the shared object
 *
 *   LD_PRELOAD=FILE      loaded before main(): as if the card were built in,
 *                        with -device unetmm,help and -trace 'unetmm_*'
 *   -plugin FILE[,trace=PATTERN]
 *                        loaded while QEMU reads its command line, when help
 *                        and -trace have been handled: trace= enables events
 *
 * No function of the plugin API is called; its entry is a way to be loaded.
 * Everything here runs in QEMU's main thread, before the machine is made.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "hw/qdev-core.h"
#include "qemu/qemu-plugin.h"
#include "trace/control.h"
#include "stock.h"

#define STOCK_MAX_INITS 8

static struct {
    void (*fn)(void);
    module_init_type type;
} stock_inits[STOCK_MAX_INITS];
static unsigned stock_num_inits;
static bool stock_preloaded;

void unetmm_register_module_init(void (*fn)(void), module_init_type type)
{
    assert(stock_num_inits < STOCK_MAX_INITS);
    stock_inits[stock_num_inits].fn = fn;
    stock_inits[stock_num_inits++].type = type;
}

static void stock_init(module_init_type type)
{
    for (unsigned i = 0; i < stock_num_inits; i++) {
        if (stock_inits[i].type == type) {
            stock_inits[i].fn();
        }
    }
}

static void stock_register_types(void)
{
    if (stock_qemu_fits()) {
        stock_init(MODULE_INIT_QOM);
    }
}

/*
 * QEMU calls the functions of MODULE_INIT_QOM in the order of their
 * registration, and this one first.  The guard asks for QEMU's types, so its
 * call is appended to the list.
 */
static void stock_wait_for_types(void)
{
    register_module_init(stock_register_types, MODULE_INIT_QOM);
}

/* QEMU's children are other programs, which lack QEMU's symbols. */
static void stock_leave_environment(void)
{
    const char *preload = getenv("LD_PRELOAD");

    if (preload && strstr(preload, "hw-net-unetmm")) {
        unsetenv("LD_PRELOAD");
    }
}

static void __attribute__((constructor)) stock_loaded(void)
{
    if (object_class_by_name(TYPE_DEVICE)) {
        return;                 /* QEMU runs: -plugin */
    }
    stock_preloaded = true;
    register_module_init(stock_wait_for_types, MODULE_INIT_QOM);
    for (unsigned i = 0; i < stock_num_inits; i++) {
        if (stock_inits[i].type == MODULE_INIT_TRACE) {
            register_module_init(stock_inits[i].fn, MODULE_INIT_TRACE);
        }
    }
    stock_leave_environment();
}

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
                                           const qemu_info_t *info,
                                           int argc, char **argv)
{
    if (stock_preloaded) {
        return 0;
    }
    if (!stock_qemu_fits()) {
        return -1;
    }
    stock_init(MODULE_INIT_TRACE);
    stock_init(MODULE_INIT_QOM);
    for (int i = 0; i < argc; i++) {
        if (!g_str_has_prefix(argv[i], "trace=")) {
            fprintf(stderr, "unetmm: unknown argument %s: use trace=PATTERN\n",
                    argv[i]);
            return -1;
        }
        trace_enable_events(argv[i] + strlen("trace="));
    }
    return 0;
}
