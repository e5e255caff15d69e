/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The provider's entry point.
 */
#include "provider.h"

FI_EXT_INI
{
    umfi_provider.getinfo = umfi_getinfo;
    umfi_provider.fabric = umfi_fabric_open;
    umfi_provider.cleanup = umfi_config_free;
    return umfi_config_read() ? NULL : &umfi_provider;
}
