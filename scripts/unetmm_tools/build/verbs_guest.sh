# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Verbs in a guest: Debian's programs (ibverbs-utils, rdmacm-utils, perftest, rdma), its
# pyverbs with rdma-core's own tests, the kernel's modules and unetmm_ib.ko: an archive of
# files that scripts/vm --verbs adds to the guest's file system, beside Python. Debian's
# packages are downloaded, not installed.

VERBS_PACKAGES=(perftest ibverbs-utils rdmacm-utils python3-pyverbs ibverbs-providers
    libibverbs1 librdmacm1 libibumad3 libnl-3-200 libnl-route-3-200 libpci3)
VERBS_MODULES=(ib_uverbs rdma_ucm ib_umad ip6_udp_tunnel udp_tunnel)
VERBS_LIB=usr/lib/x86_64-linux-gnu

verbs_debs_dir() {
    echo "$CACHE/verbs-debs/$(hash_text "${VERBS_PACKAGES[*]}" "$(host_codename)")"
}

make_verbs_debs() {
    local package
    for package in "${VERBS_PACKAGES[@]}"; do
        fetch_deb "$(renamed "$package")" "$1"
    done
}

# verbs_programs DEBS ROOT: the programs, Python's modules and libraries that they need.
verbs_programs() {
    local debs=$1 root=$2 file
    for file in "$debs"/usr/bin/*; do
        [ ! -x "$file" ] || file "$file" | grep -q script || add_program "$root" "$file" "${file#"$debs/"}"
    done
    # pyverbs asks `ip` for JSON, which busybox's does not know.
    for file in ip rdma; do
        rm -f "$root/usr/bin/$file"
        add_program "$root" "$(command -v $file)" "usr/bin/$file"
    done
    (cd "$debs" && find usr/lib/python3 "$VERBS_LIB/libibverbs" -type f) |
        while read -r file; do
            case "$file" in
                *.so) add_program "$root" "$debs/$file" "$file" ;;
                *) install -D -m 644 "$debs/$file" "$root/$file" ;;
            esac
        done
    # Of others it would say that their libraries are missing.
    install -D -m 644 "$debs/etc/libibverbs.d/rxe.driver" "$root/etc/libibverbs.d/rxe.driver"
}

# verbs_tests DEBS ROOT: rdma-core's, which are documentation of pyverbs.
verbs_tests() {
    local tests
    tests=$(find "$1/usr/share/doc" -path '*tests/__init__.py*' | head -n 1)
    [ -n "$tests" ] || die "Debian's python3-pyverbs has no tests any more"
    mkdir -p "$2/rdma-tests"
    cp -r "$(dirname "$tests")" "$2/rdma-tests/tests"
    find "$2/rdma-tests" -name '*.gz' -exec gunzip {} +
}

# verbs_modules KERNEL ROOT: in an order in which insmod can take them.
verbs_modules() {
    local dir file n=10
    dir=$(kernel_dir "$1")
    for file in $(module_order "$dir" "${VERBS_MODULES[@]}"); do
        add_module "$2" "$dir/lib/modules/$(cat "$dir/release")/$file" \
            "verbs-modules/$n-$(basename "$file")"
        n=$((n + 1))
    done
    install -m 644 "$(driver_dir "$1")/unetmm_ib.ko" "$2/verbs-modules/$n-unetmm_ib.ko"
    strip_paths "$2/verbs-modules/$n-unetmm_ib.ko"
}

# make_verbs_overlay KERNEL DIR: DIR/overlay is the archive.
make_verbs_overlay() {
    local dir=$2 root="$2/root" debs
    debs=$(verbs_debs_dir)
    mkdir -p "$root/etc" "$root/usr/bin"
    export LD_LIBRARY_PATH="$debs/$VERBS_LIB:$debs/lib/x86_64-linux-gnu"
    verbs_programs "$debs" "$root"
    unset LD_LIBRARY_PATH
    verbs_tests "$debs" "$root"
    verbs_modules "$1" "$root"
    install -m 755 "$REPO/tests/verbs/verbs-up" "$root/usr/bin/verbs-up"
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root"
}

# verbs_kernel TARGET: of verbs-guest (6.1) and verbs-guest-KERNEL.
verbs_kernel() {
    local kernel=${1#verbs-guest}
    kernel=${kernel#-}
    echo "${kernel:-6.1}"
}

# verbs_overlay_dir TARGET
verbs_overlay_dir() {
    local kernel
    kernel=$(verbs_kernel "$1")
    echo "$CACHE/verbs-guest/$kernel-$(hash_text "$(driver_dir "$kernel")" "$(verbs_debs_dir)" \
        "$(hash_files "$REPO" tests/verbs/verbs-up scripts/unetmm_tools/build/verbs_guest.sh)")"
}

# setup_verbs_overlay TARGET
setup_verbs_overlay() {
    local kernel
    kernel=$(verbs_kernel "$1")
    setup_driver "$kernel"
    setup_python_overlay
    apt_ready
    product verbs-debs "getting verbs programs from Debian's archive" "$(verbs_debs_dir)" \
        make_verbs_debs
    use_product verbs-debs "$(verbs_debs_dir)"
    product "$1" "packing verbs programs for guests with Linux $kernel" \
        "$(verbs_overlay_dir "$1")" make_verbs_overlay "$kernel"
    use_product verbs-guest "$(verbs_overlay_dir "$1")"
}
