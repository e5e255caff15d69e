# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Additions of scripts/bench to a guest's file system: rdma_rxe with its modules,
# Debian's perftest, and `rdma` to make the device. Downloaded, not installed.

BENCH_PACKAGES=(perftest ibverbs-providers libibverbs1 librdmacm1 libibumad3
    libnl-3-200 libnl-route-3-200 libpci3 iproute2 libmnl0 libbpf1 libelf1
    libcap2 libselinux1 libpcre2-8-0 libdb5.3 libtirpc3 libxtables12 zlib1g)
BENCH_PROGRAMS=(usr/bin/ib_send_lat usr/bin/ib_send_bw usr/bin/ib_write_bw
    usr/bin/ib_write_lat)
# (rxe asks the crypto layer for crc32, which no modules.dep knows.)
BENCH_MODULES=(crc32_generic rdma_rxe rdma_ucm)

# renamed PACKAGE: since Debian 13 some libraries have another name.
renamed() {
    local name
    for name in "$1" "$1t64"; do
        if [ -n "$(candidate "$name")" ] &&
            [ "$(candidate "$name")" != "(none)" ]; then
            echo "$name"
            return
        fi
    done
    die "Debian's archive has no $1: run scripts/setup --update, or bench with --skip rxe"
}

# module_order KERNEL_DIR MODULE...: the files of the modules and their dependencies, in
# an order in which insmod can take them.
module_order() {
    local dir=$1 base name line
    shift
    base="lib/modules/$(cat "$dir/release")"
    for name in "$@"; do
        line=$(grep -E "/$name\.ko[^:]*:" "$dir/$base/modules.dep")
        # modules.dep lists the deepest dependency last.
        echo "${line#*:} " | tr ' ' '\n' | grep . | tac || true
        echo "${line%%:*}"
    done | awk '!seen[$0]++'
}

# make_overlay KERNEL DIR: DIR/overlay is an archive of files to add.
make_overlay() {
    local dir=$2 root="$2/root" debs="$2/debs" kernel package program file n=10
    kernel=$(kernel_dir "$1")
    for package in "${BENCH_PACKAGES[@]}"; do
        fetch_deb "$(renamed "$package")" "$debs"
    done
    mkdir -p "$root/etc" "$root/rxe"
    export LD_LIBRARY_PATH="$debs/usr/lib/$HOST_TRIPLET:$debs/lib/$HOST_TRIPLET"
    for program in "${BENCH_PROGRAMS[@]}"; do
        add_program "$root" "$debs/$program" "$program"
    done
    program=$(find "$debs" -path '*bin/rdma' -type f)
    add_program "$root" "$program" usr/bin/rdma
    for file in "$debs/usr/lib/$HOST_TRIPLET"/libibverbs/librxe-*.so; do
        add_program "$root" "$file" \
            "usr/lib/$HOST_TRIPLET/libibverbs/$(basename "$file")"
    done
    unset LD_LIBRARY_PATH
    cp -r "$debs/etc/libibverbs.d" "$root/etc/"
    for file in $(module_order "$kernel" "${BENCH_MODULES[@]}"); do
        add_module "$root" "$kernel/lib/modules/$(cat "$kernel/release")/$file" \
            "rxe/$n-$(basename "$file")"
        n=$((n + 1))
    done
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root" "$debs"
}

bench_overlay_dir() {
    echo "$CACHE/bench/$1-$(hash_text "$(kernel_dir "$1")" \
        "$(cat "$REPO/scripts/unetmm_tools/build/bench.sh")")"
}

# setup_bench_overlay KERNEL
setup_bench_overlay() {
    setup_kernel "$1"
    apt_ready
    product "bench-$1" "getting perftest and rdma_rxe for Linux $1" \
        "$(bench_overlay_dir "$1")" make_overlay "$1"
}
