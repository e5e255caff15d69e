# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Builds for other machines by Debian's cross compilers: guests of arm64, and the unit tests
# of library and core, which qemu-user runs.  The libraries of another machine are extracted
# into the cache, never installed.

# Names of machines: Debian's, and the compiler's
declare -A CROSS_CPU=([arm64]=aarch64 [riscv64]=riscv64 [s390x]=s390x)
CROSS_LIBRARIES=(libc6 libgcc-s1 libglib2.0-0 libglib2.0-dev libgio-2.0-dev libpcre2-8-0
    libpcre2-dev libsysprof-capture-4-dev libcmocka0 libcmocka-dev libjansson4 libjansson-dev
    libxxhash0 libxxhash-dev liblwip0 liblwip-dev busybox-static)

# shellcheck disable=SC2034 # for driver.sh
ARM64_TRIPLET="${CROSS_CPU[arm64]}-linux-gnu"

cross_triplet() { echo "${CROSS_CPU[$1]}-linux-gnu"; }

# cross_packages ARCH: prints the packages for builds.
cross_packages() {
    printf '%s\n' "gcc-$(cross_triplet "$1")" "libc6-dev-$1-cross" qemu-user
}

cross_root() {
    echo "$CACHE/cross-root/$1-$(hash_text "${CROSS_LIBRARIES[*]}" "$(declare -f make_cross_root)")"
}

# make_cross_root ARCH DIR
make_cross_root() {
    local dir=$2 suite packages
    suite="$(host_codename)/$1"
    # Debian 12 has no riscv64.
    [ "$suite" != bookworm/riscv64 ] || suite=trixie/riscv64
    suite_ready "$suite"
    # Some names have changed with the width of time_t.
    mapfile -t packages < <(suite_apt_cache "$suite" pkgnames |
        grep -xE "($(IFS='|'; echo "${CROSS_LIBRARIES[*]}"))(t64)?")
    fetch_suite "$dir" "$suite" "${packages[@]}"
    # Where libraries lie depends on the Debian release; make both names good.
    if [ -d "$dir/lib" ]; then
        cp -a "$dir/lib/." "$dir/usr/lib/"
        # shellcheck disable=SC2115 # product() has named it
        rm -rf "$dir/lib"
    fi
    ln -s usr/lib "$dir/lib"
}

setup_cross_root() {
    command -v "$(cross_triplet "$1")-gcc" >/dev/null ||
        die "there is no $(cross_triplet "$1")-gcc: apt-get install $(cross_packages "$1" | xargs)"
    product "cross-$1" "getting libraries for $1" "$(cross_root "$1")" make_cross_root "$1"
    use_product cross-root "$(cross_root "$1")"
}

# cross_file ARCH: prints meson's description of the machine.
cross_file() {
    local triplet cpu=${CROSS_CPU[$1]} root endian=little
    triplet=$(cross_triplet "$1")
    root=$(cross_root "$1")
    [ "$1" != s390x ] || endian=big
    cat <<END
[binaries]
c = [$(compiler | sed "s/gcc/$triplet-gcc/; s/[^ ]*/'&',/g")]
ar = '$triplet-ar'
strip = '$triplet-strip'
pkg-config = 'pkg-config'
# The compiler's own libraries are where it is.
exe_wrapper = ['qemu-$cpu', '-L', '$root', '-E',
               'LD_LIBRARY_PATH=$root/usr/lib/$triplet:/usr/$triplet/lib']

[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/$triplet/pkgconfig'

[built-in options]
# The C library of the root may be newer than the one of the compiler.
c_link_args = ['-Wl,--allow-shlib-undefined']

[host_machine]
system = 'linux'
cpu_family = '$cpu'
cpu = '$cpu'
endian = '$endian'
END
}

cross_build() { GUEST_ARCH=$1 guest_build; }

# setup_cross_unit ARCH: the unit tests of library and core.
setup_cross_unit() {
    # shellcheck disable=SC2034 # guest.sh reads it
    local GUEST_ARCH=$1
    setup_cross_root "$1"
    ninja_guest "unit tests for $1" meson-test-prereq
}

# add_cross_libraries ARCH ROOT: all that our programs need in a guest, and the loader.
add_cross_libraries() {
    local from to
    from="$(cross_root "$1")/usr/lib"
    to="$2/usr/lib/$(cross_triplet "$1")"
    mkdir -p "$to"
    cp -P "$from/$(cross_triplet "$1")"/lib{jansson,xxhash,lwip,c,m,pthread}.so.* "$to/"
    cp -L "$from"/ld-linux-*.so.* "$2/usr/lib/"
}
