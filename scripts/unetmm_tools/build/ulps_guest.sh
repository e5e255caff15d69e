# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Programs and modules that stand on verbs, for the stage `ulps`: an archive of files that a
# guest of scripts/vm --verbs gets by --overlay.

ULPS_MODULES=(rpcrdma nfsd nfsv4 smc rds_rdma ib_srp ib_srpt ib_iser ib_isert
    target_core_file sd_mod crc32c_generic)
ULPS_PACKAGES=(qperf ucx-utils libucx0 libnuma1 libgomp1 open-iscsi libopeniscsiusr libisns0 libkmod2
    libssl3)
ULPS_PROGRAMS=(qperf ucx_info ucx_perftest iscsid iscsiadm)

# ulps_programs DIR ROOT: Debian's programs, UCX's transports, and a library that turns a program's
# sockets into those of SMC.
ulps_programs() {
    local debs="$1/debs" package lib file
    lib="$(verbs_debs_dir)/$VERBS_LIB"
    for package in "${ULPS_PACKAGES[@]}"; do
        fetch_deb "$(renamed "$package")" "$debs"
    done
    export LD_LIBRARY_PATH="$debs/$VERBS_LIB:$debs/lib/$HOST_TRIPLET:$lib"
    for file in "${ULPS_PROGRAMS[@]}"; do
        add_program "$2" "$(find "$debs" -path "*bin/$file" -type f)" "usr/bin/$file"
    done
    for file in "$debs/$VERBS_LIB"/ucx/*.so.0; do
        add_program "$2" "$file" "$VERBS_LIB/ucx/${file##*/}"
    done
    unset LD_LIBRARY_PATH
    mkdir -p "$2/ulps-lib"
    gcc -O2 -Wall -Wextra -Werror -shared -fPIC "$REPO/tests/ulps/preload_smc.c" \
        -o "$2/ulps-lib/preload_smc.so" || die "the library of SMC's sockets does not compile"
    rm -rf "$debs"
}

# make_ulps_overlay KERNEL DIR: DIR/overlay is the archive.  ulps-modules/NAME lists the files that
# module NAME needs, in an order in which insmod can take them.
make_ulps_overlay() {
    local dir=$2 root="$2/root" kernel name file to
    kernel=$(kernel_dir "$1")
    mkdir -p "$root/ulps-modules"
    for name in "${ULPS_MODULES[@]}"; do
        for file in $(module_order "$kernel" "$name"); do
            to=ulps-modules/$(basename "${file%.?z*}")
            add_module "$root" "$kernel/lib/modules/$(cat "$kernel/release")/$file" "$to"
            echo "/$to" >>"$root/ulps-modules/$name"
        done
    done
    ulps_programs "$dir" "$root"
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root"
}

# ulps_overlay_dir KERNEL
ulps_overlay_dir() {
    echo "$CACHE/ulps-guest/$1-$(hash_text "$(kernel_dir "$1")" "$(verbs_debs_dir)" \
        "$(hash_files "$REPO" scripts/unetmm_tools/build/ulps_guest.sh tests/ulps/preload_smc.c)")"
}

# setup_ulps_overlay KERNEL
setup_ulps_overlay() {
    setup_kernel "$1"
    setup_verbs_sources
    product "ulps-guest-$1" "packing modules and programs on verbs for Linux $1" \
        "$(ulps_overlay_dir "$1")" make_ulps_overlay "$1"
    use_product ulps-guest "$(ulps_overlay_dir "$1")"
}
