# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The guests' kernels: Debian's 6.1 and 6.12, extracted, and a 6.1 with all the
# kernel's own checkers, built from Debian's source. Each becomes a directory:
#
#   vmlinux     the kernel that QEMU boots
#   release     the output of uname -r
#   headers/    for building modules (KDIR)
#   lib/modules/RELEASE/   Debian's modules; absent for the debug kernel

FRAGMENT="$REPO/tests/guest/debug-kernel.fragment"
DEBUG_SOURCE=linux-source-6.1

# Parts of Debian's kernels that no guest of ours has hardware for.
UNUSED_MODULES=(
    --exclude='*/kernel/sound' --exclude='*/kernel/drivers/gpu'
    --exclude='*/kernel/drivers/media' --exclude='*/kernel/drivers/staging'
    --exclude='*/kernel/drivers/net/wireless' --exclude='*/kernel/drivers/iio'
)

check_kernel_name() {
    case "$1" in
        6.1 | 6.12 | debug) ;;
        *) die "no such kernel: $1 (use 6.1, 6.12 or debug)" ;;
    esac
}

# debian_kernel_abi NAME: the newest kernel's name as Debian spells it. Of 6.12
# there is one build for each Debian release; ours matches the host, because
# the programs that come with the headers run here.
debian_kernel_abi() {
    local pattern suffix=deb13
    [ "$(host_codename)" != bookworm ] || suffix=deb12
    case "$1" in
        6.1) pattern='6\.1\.0-[0-9]+-amd64' ;;
        6.12) pattern="6\\.12\\.[0-9]+\\+$suffix(\\.[0-9]+)?-amd64" ;;
    esac
    private_apt_cache pkgnames linux-image-6 | sed 's/^linux-image-//' |
        grep -xE "$pattern" | sort -V | tail -n 1
}

# choose_kernel NAME: prints "ABI VERSION".
choose_kernel() {
    local abi
    abi=$(debian_kernel_abi "$1") || return 1
    echo "$abi $(candidate "linux-image-$abi")"
}

# header_packages ABI VERSION: the packages that building a module needs; the
# compiler is the host's.
header_packages() {
    local abi=$1 version=$2 depends
    depends=$(private_apt_cache show "linux-headers-$abi=$version" |
        sed -n 's/^Depends: //p' | tr ',|' '\n' | sed 's/^ *//; s/ .*//')
    echo "linux-headers-$abi=$version"
    echo "$depends" | grep -E '^linux-headers-.*-common$' | sed "s/\$/=$version/"
    echo "$depends" | grep -E '^linux-kbuild-' | sort -u
}

# fix_headers DIR ABI FINAL: paths and compiler as they will be in the cache.
fix_headers() {
    local dir=$1 abi=$2 final=$3 headers
    headers="$dir/usr/src/linux-headers-$abi"
    sed -i "s#/usr/src/#$final/usr/src/#" "$headers/Makefile"
    sed -i -E 's/gcc-[0-9]+/gcc/' "$headers/.kernelvariables"
    # With it, kbuild wants pahole and writes type information that we do not
    # need.
    rm -f "$headers/vmlinux"
    ln -s "usr/src/linux-headers-$abi" "$dir/headers"
}

extract_vmlinux() {
    "$(system_python)" "$REPO/scripts/lib/extract_vmlinux.py" "$1" "$2"
}

# get_debian_kernel ABI VERSION DIR
get_debian_kernel() {
    local abi=$1 version=$2 dir=$3 package
    fetch_deb "linux-image-$abi=$version" "$dir" "${UNUSED_MODULES[@]}"
    for package in $(header_packages "$abi" "$version"); do
        fetch_deb "$package" "$dir"
    done
    # Where modules lie depends on the Debian release; make both names good.
    if [ -d "$dir/lib/modules" ]; then
        mkdir -p "$dir/usr/lib"
        mv "$dir/lib/modules" "$dir/usr/lib/"
        rm -rf "${dir:?}/lib"
    fi
    ln -s usr/lib "$dir/lib"
    extract_vmlinux "$dir/boot/vmlinuz-$abi" "$dir/vmlinux"
    fix_headers "$dir" "$abi" "${dir%.part}"
    depmod -b "$dir" "$abi"
    echo "$abi" >"$dir/release"
}

debug_source_version() { candidate "$DEBUG_SOURCE"; }

# get_kernel_source VERSION DIR
get_kernel_source() {
    local dir=$2
    fetch_deb "$DEBUG_SOURCE=$1" "$dir/deb"
    tar -x -C "$dir" --strip-components=1 \
        -f "$dir/deb/usr/src/$DEBUG_SOURCE.tar.xz"
    rm -rf "$dir/deb"
}

# check_fragment CONFIG: Kconfig silently drops options that it cannot satisfy; a
# kernel that silently lacks its checkers would make every test pass.
check_fragment() {
    local line missing=()
    while read -r line; do
        case "$line" in
            CONFIG_*=*) grep -qxF "$line" "$1" || missing+=("$line") ;;
            "# CONFIG_"*" is not set")
                line=${line#\# }
                ! grep -q "^${line%% *}=" "$1" || missing+=("no ${line%% *}") ;;
        esac
    done <"$FRAGMENT"
    [ "${#missing[@]}" -eq 0 ] ||
        die "the debug kernel's configuration lacks ${missing[*]}: correct tests/guest/debug-kernel.fragment"
}

configure_debug_kernel() {
    local source=$1 dir=$2
    mkdir -p "$dir/build"
    make -C "$source" O="$dir/build" tinyconfig
    cat "$FRAGMENT" >>"$dir/build/.config"
    make -C "$source" O="$dir/build" olddefconfig
    check_fragment "$dir/build/.config"
}

compile_debug_kernel() {
    local dir=$1
    make -C "$dir/build" -j "$(nproc)" CC="$(compiler)" bzImage modules
    # Not the uncompressed one: at the entry by which QEMU would start it, 6.1
    # runs code that KASAN checks before KASAN is set up, and dies.
    ln -sf build/arch/x86/boot/bzImage "$dir/vmlinux"
    ln -sfn build "$dir/headers"
    cp "$dir/build/include/config/kernel.release" "$dir/release"
    touch "$dir/complete"
}

kernel_chosen() {
    [ -s "$CACHE/pin/kernel-$1" ]
}

# kernel_dir NAME: prints the directory described above.
kernel_dir() {
    local version
    if [ "$1" = debug ]; then
        version=$(pinned kernel-debug debug_source_version)
        echo "$CACHE/kernel/debug-$version-$(hash_text "$(cat "$FRAGMENT")")"
    else
        version=$(pinned "kernel-$1" choose_kernel "$1")
        echo "$CACHE/kernel/${version/ /_}"
    fi
}

# kernel_source: prints the source tree that the debug kernel is made from.
kernel_source() {
    echo "$CACHE/kernel/source-$(pinned kernel-debug debug_source_version)"
}

setup_kernel_source() {
    local source version
    kernel_chosen debug || apt_ready
    source=$(kernel_source)
    version=$(cat "$CACHE/pin/kernel-debug")
    product kernel-source "getting Linux $version's source" "$source" \
        get_kernel_source "$version"
}

# setup_debug_kernel: its build tree knows its own path, so it is built in place
# and a stamp, not a new name, says that it is whole.
setup_debug_kernel() {
    local dir lock
    dir=$(kernel_dir debug)
    [ -e "$dir/complete" ] && return
    setup_kernel_source
    take_lock kernel-debug lock
    if [ ! -e "$dir/complete" ]; then
        rm -rf "$dir"
        step kernel-config "configuring the debug kernel" \
            configure_debug_kernel "$(kernel_source)" "$dir"
        step kernel-debug "building the debug kernel" \
            compile_debug_kernel "$dir"
    fi
    drop_lock "$lock"
}

setup_kernel() {
    local name=$1 dir abi version
    check_kernel_name "$name"
    kernel_chosen "$name" || apt_ready
    if [ "$name" = debug ]; then
        setup_debug_kernel
        return
    fi
    dir=$(kernel_dir "$name") ||
        die "Debian's archive has no kernel $name: check apt's sources, then run scripts/setup --update"
    read -r abi version <"$CACHE/pin/kernel-$name"
    product "kernel-$name" "getting Linux $abi" "$dir" \
        get_debian_kernel "$abi" "$version"
}
