# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The kernel module, built out of tree for each guest kernel.

DRIVER_SOURCES=(guest-driver hw/net/unetmm/abi/unetmm_{hw,lists,user,wire}.h)

# driver_dir KERNEL: prints the directory that has (or will have) unetmm.ko. Its name ends with
# -quick in an installed package, and with UNETMM_DRIVER=quick if the other module is not there
# yet: the build takes a third of the time. Figures in virtual time are those of the other one.
driver_dir() {
    local kernel dir
    kernel=$(kernel_dir "$1")
    dir="$CACHE/driver/$1-$(hash_text "$kernel" "$(declare -f build_driver)" \
        "$(hash_files "$REPO" "${DRIVER_SOURCES[@]}")")"
    if installed || { [ "${UNETMM_DRIVER:-}" = quick ] && [ ! -e "$dir" ]; }; then
        dir+=-quick
    fi
    echo "$dir"
}

# copy_driver DIR: kbuild writes beside its sources, so it gets a copy.
copy_driver() {
    mkdir -p "$1"
    (cd "$REPO" && rsync -rR --exclude='*.o' --exclude='*.ko' \
        --exclude='.*.cmd' "${DRIVER_SOURCES[@]}" "$1/")
}

# build_driver KERNEL DIR
build_driver() {
    local kernel dir=$2 words=() flags="-fmacro-prefix-map=$2/src/="
    kernel=$(kernel_dir "$1")
    [ -z "$(kernel_arch "$1")" ] || words=(ARCH=arm64 CROSS_COMPILE="$ARM64_TRIPLET-")
    # A user who waits for the module has no use for verbs and a debugger.
    if [[ $dir == *-quick.part ]]; then
        words+=(BY_ROOM=1 CONFIG_INFINIBAND_USER_ACCESS=) flags+=" -g0"
    else
        words+=(W=1)
    fi
    copy_driver "$dir/src"
    # The names of files in warnings do not depend on the cache's place.
    make -C "$dir/src/guest-driver" -j "$(nproc)" KDIR="$kernel/headers" "${words[@]}" \
        KCFLAGS="$flags"
    cp "$dir/src/guest-driver/unetmm.ko" "$dir/"
    # A kernel without verbs has no unetmm_ib.ko.
    [ ! -e "$dir/src/guest-driver/unetmm_ib.ko" ] || cp "$dir/src/guest-driver/unetmm_ib.ko" "$dir/"
}

setup_driver() {
    local dir
    setup_kernel "$1"
    [ -e "$REPO/guest-driver/Makefile" ] ||
        die "there is no guest-driver/Makefile in $REPO: run this from a whole checkout"
    dir=$(driver_dir "$1")
    product "driver-$1" "building the driver for Linux $1" "$dir" \
        build_driver "$1"
    use_product driver "$dir"
}

# check_driver KERNEL: sparse over the driver; prints its messages about our files
# and fails if there is one. Messages about the kernel's headers are ignored.
check_driver() {
    local kernel dir found
    setup_kernel "$1"
    kernel=$(kernel_dir "$1")
    dir=$(mktemp -d)
    copy_driver "$dir"
    make -C "$dir/guest-driver" KDIR="$kernel/headers" C=2 \
        >"$dir/log" 2>&1 || { cat "$dir/log"; rm -rf "$dir"; return 1; }
    found=$(grep -E '(warning|error):' "$dir/log" |
        grep -E "guest-driver/|unetmm" || true)
    rm -rf "$dir"
    [ -z "$found" ] || { printf '%s\n' "$found"; return 1; }
}

# check_dkms_kernels CONF: DKMS is to build the module for the kernels from the first to the
# second of those that README.md names and for the third, and for no others.
check_dkms_kernels() (
    # shellcheck source=guest-driver/dkms.conf
    . "$1"
    range=$(sed -n "s/.*supports Debian's Linux 6\.\([0-9]*\), 6\.\([0-9]*\) and \([0-9.]*\) on.*/\1 \2 \3/p" \
        "$REPO/README.md")
    read -r first last newest <<<"$range"
    [ -n "$newest" ] || die "README.md does not name the kernels of the driver"
    for major in 5 6 7 8 16; do
        for minor in $(seq 0 99); do
            wanted=no
            [ "$major" = 6 ] && [ "$minor" -ge "$first" ] &&
                [ "$minor" -le "$last" ] && wanted=yes
            [ "$major.$minor" = "$newest" ] && wanted=yes
            got=no
            [[ "$major.$minor.0-1-$HOST_ARCH" =~ $BUILD_EXCLUSIVE_KERNEL ]] && got=yes
            [ "$got" = "$wanted" ] ||
                die "guest-driver/dkms.conf: BUILD_EXCLUSIVE_KERNEL says $got for Linux $major.$minor, README.md $wanted"
        done
    done
)

# check_dkms KERNEL: stages a tree for DKMS and builds it as DKMS would, away
# from the repository.
check_dkms() (
    set -e
    setup_kernel "$1"
    # dkms.conf wants the first two.
    # shellcheck disable=SC2034
    kernel_source_dir="$(kernel_dir "$1")/headers"
    dkms_tree=$(mktemp -d)
    trap 'rm -rf "$dkms_tree"' EXIT
    project=$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$REPO/meson.build")
    tree="$dkms_tree/unetmm/$project/build"
    make -s -C "$REPO/guest-driver" dkms-tree DKMS_TREE="$tree"
    # shellcheck source=guest-driver/dkms.conf
    . "$tree/dkms.conf"
    [ "$PACKAGE_VERSION" = "$project" ] ||
        die "guest-driver/dkms.conf has version $PACKAGE_VERSION, meson.build $project"
    check_dkms_kernels "$tree/dkms.conf"
    # shellcheck disable=SC2153 # it is DKMS's name
    cd /
    MAKEFLAGS="-j$(nproc)" ${MAKE[0]} >"$dkms_tree/log" 2>&1 ||
        { cat "$dkms_tree/log"; return 1; }
    modinfo -F vermagic "$tree/${BUILT_MODULE_NAME[0]}.ko" |
        grep -q "^$(cat "$(kernel_dir "$1")/release") "
)
