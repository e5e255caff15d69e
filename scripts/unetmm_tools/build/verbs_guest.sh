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
# Programs of the kernel that use verbs, and a disk for them: tests insert these.
VERBS_KERNEL_MODULES=(nvme-rdma nvmet-rdma brd)
VERBS_LIB=usr/lib/$HOST_TRIPLET

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
    install -m 644 "$REPO/guest-lib/verbs/unetmm.driver" "$root/etc/libibverbs.d/"
    compile_verbs_provider "$root/$VERBS_LIB/libibverbs/libunetmm-rdmav34.so"
}

# verbs_tests DEBS ROOT: rdma-core's, which are documentation of pyverbs.
verbs_tests() {
    local tests
    tests=$(find "$1/usr/share/doc" -path '*tests/__init__.py*' | head -n 1)
    [ -n "$tests" ] || die "Debian's python3-pyverbs has no tests any more"
    mkdir -p "$2/rdma-tests"
    cp -r "$(dirname "$tests")" "$2/rdma-tests/tests"
    find "$2/rdma-tests" -name '*.gz' -exec gunzip {} +
    patient "$2/rdma-tests/tests"
}

# patient TESTS: they wait for minutes in place of 10 to 15 seconds: for each other's processes (a
# turn of the loop takes up to 0.2 s), and for completions.
patient() {
    local file from to
    while read -r file from to; do
        grep -q "$from" "$1/$file" || die "rdma-core's tests have no $from in $file any more"
        sed -i "s/$from/$to/" "$1/$file"
    done <<'EOF'
base.py NUM_OF_PROCESSES,.timeout=15\> NUM_OF_PROCESSES,timeout=300
base.py repeat_times=150\> repeat_times=1500
utils.py ^POLL_CQ_TIMEOUT.=.10\> POLL_CQ_TIMEOUT=60
EOF
}

rdma_core_version() {
    private_apt_cache showsrc --only-source rdma-core | sed -n 's/^Version: //p' | newest_version
}

rdma_headers_dir() {
    echo "$CACHE/rdma-headers/$(hash_text "$(pinned rdma-core rdma_core_version)" \
        "$(declare -f make_rdma_headers)")"
}

# make_rdma_headers DIR: those that a provider is compiled with, and no package has, out of
# Debian 13's source package. Providers for them are loaded by the libibverbs of Debian 12, too.
make_rdma_headers() {
    local dir=$1 source="$1/source" version
    version=$(pinned rdma-core rdma_core_version)
    mkdir -p "$source" "$dir"/{infiniband,kernel-abi}
    (cd "$dir" && private_apt_get source --download-only --tar-only "rdma-core=$version") ||
        die "cannot download the source of rdma-core $version: run scripts/setup --update for a newer one"
    tar -xf "$dir"/rdma-core_*.orig.tar.* -C "$source" --strip-components=1 --no-same-owner
    grep -q 'IBVERBS_PABI_VERSION "34"' "$source/CMakeLists.txt" ||
        die "rdma-core $version has another interface for providers than guest-lib/verbs is made for"
    cp "$source"/libibverbs/*.h "$source"/kernel-headers/rdma/ib_user_ioctl_verbs.h \
        "$dir/infiniband/"
    cp -r "$source"/{ccan,util,kernel-headers/rdma} "$dir/"
    python3 "$source/buildlib/make_abi_structs.py" "$dir/rdma/ib_user_verbs.h" \
        "$dir/kernel-abi/ib_user_verbs.h"
    echo '#define HAVE_FUNC_ATTRIBUTE_IFUNC 1' >"$dir/config.h"
    rm -rf "$source" "$dir"/rdma-core_*
}

# compile_verbs FILE ARGUMENT...: the provider's files with the library's queues, for libibverbs.
compile_verbs() {
    local to=$1 libs files
    libs=$(verbs_debs_dir)
    mapfile -t files < <(sed "/^#/d; s|^|$REPO/guest-lib/verbs/|" "$REPO/guest-lib/verbs/sources.txt")
    shift
    gcc -std=gnu11 -O2 -D_GNU_SOURCE -DIBVERBS_PABI_VERSION=34 -fPIC -fvisibility=hidden -Wall \
        -Wextra -Werror -Wno-missing-field-initializers -isystem "$(rdma_headers_dir)" \
        -I"$REPO/guest-lib/include" -I"$REPO/hw/net/unetmm/abi" -I"$REPO/guest-driver/uapi" \
        "${files[@]}" "$@" "$(guest_build)/guest-lib/libunetmm.a" \
        -Wl,-z,defs "$libs/$VERBS_LIB/libibverbs.so.1" -o "$to" ||
        die "the provider of libibverbs does not compile"
}

compile_verbs_provider() {
    compile_verbs "$1" -shared -Wl,--version-script="$REPO/guest-lib/verbs/libunetmm-rdmav34.map"
}

verbs_calls_dir() {
    echo "$CACHE/verbs-calls/$(hash_text "$(verbs_debs_dir)" "$(rdma_headers_dir)" \
        "$(hash_files "$REPO" scripts/unetmm_tools/build/verbs_guest.sh guest-lib/verbs guest-lib/src \
            guest-lib/include hw/net/unetmm/abi tests/bench tests/library tests/verbs)")"
}

# make_verbs_calls DIR: the programs that count the instructions of the provider's calls, and
# test them, on a card in memory.
make_verbs_calls() {
    local libs words bench="$REPO/tests/bench" card="$REPO/tests/library"
    libs=$(verbs_debs_dir)
    words=(-I"$REPO"/guest-lib/{src,verbs} -I"$card" "$card"/fake_{card,export}.c
        "-Wl,--disable-new-dtags,-rpath,$libs/$VERBS_LIB:$libs/lib/$HOST_TRIPLET")
    compile_verbs "$1/bench-fast-verbs" "${words[@]}" "$bench"/{fast_verbs,fast_card,steps}.c
    compile_verbs "$1/test-provider" "${words[@]}" -g -fsanitize=address,undefined \
        "$REPO/tests/verbs/test_provider.c" -lcmocka -lpthread
}

# verbs_modules KERNEL ROOT: in an order in which insmod can take them: verbs-modules, then
# kernel-modules.
verbs_modules() {
    local dir file first folder n=10
    dir=$(kernel_dir "$1")
    # A kernel that we build has the first ones in itself.
    if ! kernel_is_built "$1"; then
        first=$(module_order "$dir" "${VERBS_MODULES[@]}")
        for file in $(module_order "$dir" "${VERBS_MODULES[@]}" "${VERBS_KERNEL_MODULES[@]}"); do
            folder="kernel-modules"
            grep -qxF "$file" <<<"$first" && folder="verbs-modules"
            add_module "$2" "$dir/lib/modules/$(cat "$dir/release")/$file" \
                "$folder/$n-$(basename "$file")"
            n=$((n + 1))
        done
    fi
    install -D -m 644 "$(driver_dir "$1")/unetmm_ib.ko" "$2/verbs-modules/$n-unetmm_ib.ko"
    strip_paths "$2/verbs-modules/$n-unetmm_ib.ko"
}

# verbs_test_module KERNEL ROOT: tests of verbs in the kernel.
verbs_test_module() {
    local dir
    dir=$(mktemp -d)
    cp "$REPO"/tests/verbs/module/* "$dir/"
    make -C "$(kernel_dir "$1")/headers" M="$dir" W=1 CONFIG_DEBUG_INFO_BTF_MODULES= modules \
        >"$dir/log" 2>&1 || { cat "$dir/log"; die "the test module does not compile"; }
    install -D -m 644 "$dir/kernel_verbs.ko" "$2/verbs-tests/kernel_verbs.ko"
    strip_paths "$2/verbs-tests/kernel_verbs.ko"
    rm -rf "$dir"
}

# make_verbs_overlay KERNEL DIR: DIR/overlay is the archive.
make_verbs_overlay() {
    local dir=$2 root="$2/root" debs
    debs=$(verbs_debs_dir)
    mkdir -p "$root/etc" "$root/usr/bin"
    export LD_LIBRARY_PATH="$debs/$VERBS_LIB:$debs/lib/$HOST_TRIPLET"
    verbs_programs "$debs" "$root"
    unset LD_LIBRARY_PATH
    verbs_tests "$debs" "$root"
    verbs_modules "$1" "$root"
    verbs_test_module "$1" "$root"
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
        "$(hash_files "$REPO" tests/verbs/verbs-up tests/verbs/module \
            scripts/unetmm_tools/build/verbs_guest.sh guest-lib/verbs guest-lib/src \
            guest-lib/include hw/net/unetmm/abi)" "$(rdma_headers_dir)")"
}

setup_rdma_headers() {
    apt_ready
    product rdma-headers "getting rdma-core's headers from Debian's archive" \
        "$(rdma_headers_dir)" make_rdma_headers
    use_product rdma-headers "$(rdma_headers_dir)"
}

# setup_verbs_sources: makes the headers and libraries that the provider is compiled with.
setup_verbs_sources() {
    setup_library
    setup_rdma_headers
    product verbs-debs "getting verbs programs from Debian's archive" "$(verbs_debs_dir)" \
        make_verbs_debs
    use_product verbs-debs "$(verbs_debs_dir)"
}

setup_verbs_calls() {
    setup_verbs_sources
    product verbs-calls "compiling a program that counts the instructions of verbs' calls" \
        "$(verbs_calls_dir)" make_verbs_calls
    use_product verbs-calls "$(verbs_calls_dir)"
}

# setup_verbs_overlay TARGET
setup_verbs_overlay() {
    local kernel
    kernel=$(verbs_kernel "$1")
    setup_driver "$kernel"
    setup_python_overlay
    setup_verbs_sources
    product "$1" "packing verbs programs for guests with Linux $kernel" \
        "$(verbs_overlay_dir "$1")" make_verbs_overlay "$kernel"
    use_product verbs-guest "$(verbs_overlay_dir "$1")"
}
