# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Everything in this directory, in the order of need. A script says
# `. "$LIB/all.sh"` and calls setup_qemu, setup_initramfs 6.1, and so on.

# Debian's users have no /usr/sbin in their PATH, where depmod is.
case ":$PATH:" in
    *:/usr/sbin:*) ;;
    *) export PATH="$PATH:/usr/sbin:/sbin" ;;
esac

LIB="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
# shellcheck source=scripts/unetmm_tools/build/cache.sh
. "$LIB/cache.sh"
# shellcheck source=scripts/unetmm_tools/build/ui.sh
. "$LIB/ui.sh"
# shellcheck source=scripts/unetmm_tools/build/packages.sh
. "$LIB/packages.sh"
# shellcheck source=scripts/unetmm_tools/build/apt.sh
. "$LIB/apt.sh"
# shellcheck source=scripts/unetmm_tools/build/python.sh
. "$LIB/python.sh"
# shellcheck source=scripts/unetmm_tools/build/codespell.sh
. "$LIB/codespell.sh"
# shellcheck source=scripts/unetmm_tools/build/qemu.sh
. "$LIB/qemu.sh"
# shellcheck source=scripts/unetmm_tools/build/stock.sh
. "$LIB/stock.sh"
# shellcheck source=scripts/unetmm_tools/build/kernel.sh
. "$LIB/kernel.sh"
# shellcheck source=scripts/unetmm_tools/build/driver.sh
. "$LIB/driver.sh"
# shellcheck source=scripts/unetmm_tools/build/guest.sh
. "$LIB/guest.sh"
# shellcheck source=scripts/unetmm_tools/build/fuzz.sh
. "$LIB/fuzz.sh"
# shellcheck source=scripts/unetmm_tools/build/s390x.sh
. "$LIB/s390x.sh"
# shellcheck source=scripts/unetmm_tools/build/threads.sh
. "$LIB/threads.sh"
# shellcheck source=scripts/unetmm_tools/build/initramfs.sh
. "$LIB/initramfs.sh"
# shellcheck source=scripts/unetmm_tools/build/bench.sh
. "$LIB/bench.sh"
# shellcheck source=scripts/unetmm_tools/build/docs.sh
. "$LIB/docs.sh"
# shellcheck source=scripts/unetmm_tools/build/python_guest.sh
. "$LIB/python_guest.sh"
# shellcheck source=scripts/unetmm_tools/build/provider.sh
. "$LIB/provider.sh"
# shellcheck source=scripts/unetmm_tools/build/mpi_guest.sh
. "$LIB/mpi_guest.sh"
# shellcheck source=scripts/unetmm_tools/build/package.sh
. "$LIB/package.sh"
# shellcheck source=scripts/unetmm_tools/build/roots.sh
. "$LIB/roots.sh"
# shellcheck source=scripts/unetmm_tools/build/fabtests.sh
. "$LIB/fabtests.sh"
