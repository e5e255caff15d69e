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
# shellcheck source=scripts/lib/cache.sh
. "$LIB/cache.sh"
# shellcheck source=scripts/lib/ui.sh
. "$LIB/ui.sh"
# shellcheck source=scripts/lib/packages.sh
. "$LIB/packages.sh"
# shellcheck source=scripts/lib/apt.sh
. "$LIB/apt.sh"
# shellcheck source=scripts/lib/python.sh
. "$LIB/python.sh"
# shellcheck source=scripts/lib/codespell.sh
. "$LIB/codespell.sh"
# shellcheck source=scripts/lib/qemu.sh
. "$LIB/qemu.sh"
# shellcheck source=scripts/lib/stock.sh
. "$LIB/stock.sh"
# shellcheck source=scripts/lib/kernel.sh
. "$LIB/kernel.sh"
# shellcheck source=scripts/lib/driver.sh
. "$LIB/driver.sh"
# shellcheck source=scripts/lib/guest.sh
. "$LIB/guest.sh"
# shellcheck source=scripts/lib/fuzz.sh
. "$LIB/fuzz.sh"
# shellcheck source=scripts/lib/s390x.sh
. "$LIB/s390x.sh"
# shellcheck source=scripts/lib/threads.sh
. "$LIB/threads.sh"
# shellcheck source=scripts/lib/initramfs.sh
. "$LIB/initramfs.sh"
# shellcheck source=scripts/lib/bench.sh
. "$LIB/bench.sh"
# shellcheck source=scripts/lib/docs.sh
. "$LIB/docs.sh"
# shellcheck source=scripts/lib/python_guest.sh
. "$LIB/python_guest.sh"
# shellcheck source=scripts/lib/provider.sh
. "$LIB/provider.sh"
# shellcheck source=scripts/lib/mpi_guest.sh
. "$LIB/mpi_guest.sh"
# shellcheck source=scripts/lib/package.sh
. "$LIB/package.sh"
# shellcheck source=scripts/lib/roots.sh
. "$LIB/roots.sh"
# shellcheck source=scripts/lib/fabtests.sh
. "$LIB/fabtests.sh"
