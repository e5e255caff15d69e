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

# The scripts read the output of apt and others, which translate it.
export LC_ALL=C.UTF-8

LIB="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
for part in cache ui packages apt python codespell qemu qemu_versions stock \
    kernel driver guest ns3 fuzz cross threads initramfs bench docs \
    python_guest provider mpi_guest verbs_guest ulps_guest fio_guest package roots fabtests; do
    # shellcheck source=/dev/null # each file is checked alone
    . "$LIB/$part.sh"
done
unset part
