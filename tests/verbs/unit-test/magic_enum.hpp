/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one function of magic_enum, which Debian 12 does not have, that rdma-unit-test uses. */
#ifndef UNETMM_UNIT_TEST_MAGIC_ENUM_HPP
#define UNETMM_UNIT_TEST_MAGIC_ENUM_HPP

#include <string>

namespace magic_enum {

/* The number: messages of failed tests alone use the name. */
template <typename Enum> std::string enum_name(Enum value)
{
    return std::to_string(static_cast<long long>(value));
}

} // namespace magic_enum

#endif
