// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: parameters of the module, and a card's own in their place.
 */
#include <linux/module.h>

#include "param/param.h"

#define UNETMM_PARAM_VALUE_(name, value, least, most, help) (value),
static unsigned int unetmm_defaults[UNETMM_NUM_PARAMS] = {
	UNETMM_PARAMS(UNETMM_PARAM_VALUE_)
};

#define UNETMM_PARAM_MODULE_(name, value, least, most, help) \
	module_param_named(name, unetmm_defaults[UNETMM_P_##name], uint, 0644); \
	MODULE_PARM_DESC(name, help);
UNETMM_PARAMS(UNETMM_PARAM_MODULE_)

u32 unetmm_params_get(const struct unetmm_params *params,
		      enum unetmm_param which)
{
	/* Pairs with unetmm_param_set(). */
	if (test_bit_acquire(which, params->own))
		return READ_ONCE(params->value[which]);
	return READ_ONCE(unetmm_defaults[which]);
}
