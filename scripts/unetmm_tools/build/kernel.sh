# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The guests' kernels: Debian's 6.1 and 6.12 and the newest of its backports, and 6.12 for
# arm64, extracted, and two of 6.1 with the kernel's own checkers, built from Debian's
# source: `debug`, and `kcsan` with the checker that excludes others. Each becomes a directory:
#
#   vmlinux     the kernel that QEMU boots
#   release     the output of uname -r
#   headers/    for building modules (KDIR)
#   lib/modules/RELEASE/   Debian's modules; absent for those that are built

# shellcheck disable=SC2034 # scripts/setup uses it
KERNEL_NAMES=(6.1 6.12 newest debug kcsan)
NEWEST_SUITE=trixie-backports
# The libraries of the programs that come with the headers of NEWEST_SUITE
KBUILD_LIBRARIES=(libc6 libelf1t64 libssl3t64 libzstd1 zlib1g)
DEBUG_SOURCE=linux-source-6.1

# kernel_is_built NAME: is it one that we build?
kernel_is_built() { [ "$1" = debug ] || [ "$1" = kcsan ]; }

# kernel_fragment NAME: prints the configuration of a kernel that we build.
kernel_fragment() {
    cat "$REPO/tests/guest/built-kernel.fragment" "$REPO/tests/guest/$1-kernel.fragment"
}

# Parts of Debian's kernels that no guest of ours has hardware for.
UNUSED_MODULES=(
    --exclude='*/kernel/sound' --exclude='*/kernel/drivers/gpu'
    --exclude='*/kernel/drivers/media' --exclude='*/kernel/drivers/staging'
    --exclude='*/kernel/drivers/net/wireless' --exclude='*/kernel/drivers/iio'
)

check_kernel_name() {
    case " ${KERNEL_NAMES[*]} arm64 " in
        *" $1 "*) ;;
        *) die "no such kernel: $1 (use one of ${KERNEL_NAMES[*]})" ;;
    esac
}

# kernel_arch NAME: the machine of its guests; nothing for one like this machine.
kernel_arch() { [ "$1" != arm64 ] || [ "$HOST_ARCH" = arm64 ] || echo arm64; }

# kernel_suite NAME: the release of Debian that alone has it; nothing for those of the
# private list.
kernel_suite() {
    case "$1" in
        newest) echo "$NEWEST_SUITE" ;;
        arm64) echo "$(host_codename)/arm64" ;;
        # The private list has sources of QEMU, which the package unetmm-vm does not read.
        6.1) ! installed || echo bookworm ;;
        6.12) ! installed || stock_release "$(host_codename)" ;;
    esac
}

# debian_kernel_abi NAME: the newest kernel's name as Debian spells it. Of 6.12
# there is one build for each Debian release; ours matches the host, because
# the programs that come with the headers run here.
debian_kernel_abi() {
    local pattern suffix=deb13
    [ "$(host_codename)" != bookworm ] || suffix=deb12
    case "$1" in
        6.1) pattern="6\\.1\\.0-[0-9]+-$HOST_ARCH" ;;
        6.12) pattern="6\\.12\\.[0-9]+\\+$suffix(\\.[0-9]+)?-$HOST_ARCH" ;;
        arm64) pattern="6\\.12\\.[0-9]+\\+$suffix(\\.[0-9]+)?-arm64" ;;
        newest) pattern="[0-9.]+\\+deb13(\\.[0-9]+)?-$HOST_ARCH" ;;
    esac
    suite_apt_cache "$(kernel_suite "$1")" pkgnames linux-image- |
        sed 's/^linux-image-//' |
        grep -xE "$pattern" | sort -V | tail -n 1
}

# choose_kernel NAME: prints "ABI VERSION".
choose_kernel() {
    local abi version
    abi=$(debian_kernel_abi "$1") || return 1
    version=$(candidate "linux-image-$abi" "$(kernel_suite "$1")")
    [ -n "$version" ] || return 1
    echo "$abi $version"
}

# depends_of SUITE PACKAGE=VERSION: the names of the packages, one a line.
depends_of() {
    suite_apt_cache "$1" show "$2" |
        sed -n 's/^Depends: //p' | tr ',|' '\n' | sed 's/^ *//; s/ .*//'
}

# image_packages SUITE ABI VERSION: the packages with the kernel and its modules, which
# Debian has divided since Linux 7.
image_packages() {
    echo "linux-image-$2=$3"
    depends_of "$1" "linux-image-$2=$3" | grep -E '^linux-(binary|modules)-' |
        sed "s/\$/=$3/"
}

# header_packages SUITE ABI VERSION: the packages that building a module needs; the
# compiler is the host's.
header_packages() {
    local abi=$2 version=$3 depends
    depends=$(depends_of "$1" "linux-headers-$abi=$version")
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
    # Of another compiler's flags the configuration has one that gcc 12 does not know.
    gcc -fmin-function-alignment=16 -x c -c -o /dev/null /dev/null 2>/dev/null ||
        sed -i '/^CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=/d' "$headers/include/config/auto.conf"
    # With it, kbuild wants pahole and writes type information that we do not
    # need.
    rm -f "$headers/vmlinux"
    ln -s "usr/src/linux-headers-$abi" "$dir/headers"
}

extract_vmlinux() {
    "$(system_python)" "$REPO/scripts/unetmm_tools/build/extract_vmlinux.py" "$1" "$2"
}

# own_libraries DIR FINAL: the programs of the headers run with the C library of their
# release, as a host with an older one needs it.
own_libraries() {
    local dir=$1 final=$2 program elf lib=$2/kbuild-lib/usr/lib/$HOST_TRIPLET
    fetch_suite "$dir/kbuild-lib" "${NEWEST_SUITE%-backports}" "${KBUILD_LIBRARIES[@]}"
    (cd "$dir" && find usr/lib/linux-kbuild-* -type f -perm -u+x) | while read -r program; do
        head -c 4 "$dir/$program" | grep -q ELF || continue
        elf="${program%/*}/.elf/${program##*/}"
        mkdir -p "$dir/${elf%/*}"
        mv "$dir/$program" "$dir/$elf"
        # shellcheck disable=SC2016 # for the shell of the script that is written
        # modpost and objtool call a program beside the name by which they were called.
        printf '#!/bin/sh\nexec "%s" --library-path "%s" --argv0 "$0" "%s" "$@"\n' \
            "$lib/${HOST_LOADER##*/}" "$lib" "$final/$elf" >"$dir/$program"
        chmod +x "$dir/$program"
    done
}

# get_debian_kernel NAME ABI VERSION DIR
get_debian_kernel() {
    local abi=$2 version=$3 dir=$4 package suite image from
    suite=$(kernel_suite "$1")
    for package in $(image_packages "$suite" "$abi" "$version") \
        $(header_packages "$suite" "$abi" "$version"); do
        from=$suite
        # The package has programs that run on this machine.
        [[ $1/$package != arm64/linux-kbuild-* ]] || from=""
        fetch_suite_deb "$from" "$package" "$dir" "${UNUSED_MODULES[@]}"
    done
    # Where modules lie depends on the Debian release; make both names good.
    if [ -d "$dir/lib/modules" ]; then
        mkdir -p "$dir/usr/lib"
        mv "$dir/lib/modules" "$dir/usr/lib/"
        rm -rf "${dir:?}/lib"
    fi
    ln -s usr/lib "$dir/lib"
    image="$dir/boot/vmlinuz-$abi"
    [ -e "$image" ] || image="$dir/lib/modules/$abi/vmlinuz"
    if [ "$1" = arm64 ] || [ "$HOST_ARCH" = arm64 ]; then
        ln -s "boot/vmlinuz-$abi" "$dir/vmlinux"
    else
        extract_vmlinux "$image" "$dir/vmlinux"
    fi
    fix_headers "$dir" "$abi" "${dir%.part}"
    [ "$1" != newest ] || own_libraries "$dir" "${dir%.part}"
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

# check_fragment NAME CONFIG: Kconfig silently drops options that it cannot satisfy; a
# kernel that silently lacks its checkers would make every test pass.
check_fragment() {
    local line missing=()
    while read -r line; do
        case "$line" in
            CONFIG_*=*) grep -qxF "$line" "$2" || missing+=("$line") ;;
            "# CONFIG_"*" is not set")
                line=${line#\# }
                ! grep -q "^${line%% *}=" "$2" || missing+=("no ${line%% *}") ;;
        esac
    done < <(kernel_fragment "$1")
    [ "${#missing[@]}" -eq 0 ] ||
        die "the kernel $1's configuration lacks ${missing[*]}: correct tests/guest/$1-kernel.fragment"
}

# configure_kernel NAME SOURCE DIR
configure_kernel() {
    local name=$1 source=$2 dir=$3
    mkdir -p "$dir/build"
    make -C "$source" O="$dir/build" tinyconfig
    kernel_fragment "$name" >>"$dir/build/.config"
    make -C "$source" O="$dir/build" olddefconfig
    check_fragment "$name" "$dir/build/.config"
}

# compile_kernel NAME DIR
compile_kernel() {
    local dir=$2 words=()
    # Reports of races in the rest of the kernel would hide the driver's.
    [ "$1" != kcsan ] || words=(KCSAN_SANITIZE=n)
    make -C "$dir/build" -j "$(nproc)" CC="$(compiler)" "${words[@]}" bzImage modules
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
    if kernel_is_built "$1"; then
        version=$(pinned kernel-debug debug_source_version) || return 1
        echo "$CACHE/kernel/$1-$version-$(hash_text "$(kernel_fragment "$1")")"
    else
        version=$(pinned "kernel-$1" choose_kernel "$1") || return 1
        echo "$CACHE/kernel/${version/ /_}"
    fi
}

# kernel_source: prints the source tree of the kernels that we build.
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

# setup_built_kernel NAME: its build tree knows its own path, so it is built in place
# and a stamp, not a new name, says that it is whole.
setup_built_kernel() {
    local name=$1 dir lock
    dir=$(kernel_dir "$name")
    [ -e "$dir/complete" ] && return
    setup_kernel_source
    take_lock "kernel-$name" lock
    if [ ! -e "$dir/complete" ]; then
        rm -rf "$dir"
        step "kernel-$name-config" "configuring the kernel $name" \
            configure_kernel "$name" "$(kernel_source)" "$dir"
        step "kernel-$name" "building the kernel $name" \
            compile_kernel "$name" "$dir"
    fi
    drop_lock "$lock"
}

setup_kernel() {
    local name=$1 dir abi version
    check_kernel_name "$name"
    if kernel_is_built "$name"; then
        [ "$HOST_ARCH" = amd64 ] || die "the kernel $name is built on hosts of x86-64 alone"
        setup_built_kernel "$name"
        return
    fi
    kernel_chosen "$name" || suite_ready "$(kernel_suite "$name")"
    dir=$(kernel_dir "$name") ||
        die "Debian's archive has no kernel $name: check apt's sources, then run scripts/setup --update"
    read -r abi version <"$CACHE/pin/kernel-$name"
    product "kernel-$name" "getting Linux $abi" "$dir" \
        get_debian_kernel "$name" "$abi" "$version"
}
