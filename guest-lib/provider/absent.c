/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations of libfabric's tables that no object of the provider has. */
#include "provider.h"

#define DEFINE(type, name, ...) \
    type umfi_no_##name(__VA_ARGS__) \
    { \
        return -FI_ENOSYS; \
    }
UMFI_ABSENT(DEFINE)
