# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Guests of arm64: Debian's kernel, our driver, library and tools by Debian's cross
# compiler.  The libraries of that machine are extracted into the cache, never installed.

ARM64_TRIPLET=aarch64-linux-gnu
PACKAGES_ARM64=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
ARM64_LIBRARIES=(libjansson4 libjansson-dev libxxhash0 libxxhash-dev liblwip0 liblwip-dev
    busybox-static)

arm64_root() {
    echo "$CACHE/arm64-root/$(hash_text "${ARM64_LIBRARIES[*]}" "$(declare -f fetch_cross)")"
}

make_arm64_root() { fetch_cross "$1" arm64 "${ARM64_LIBRARIES[@]}"; }

setup_arm64_root() {
    command -v "$ARM64_TRIPLET-gcc" >/dev/null ||
        die "there is no $ARM64_TRIPLET-gcc: apt-get install ${PACKAGES_ARM64[*]}"
    product arm64-root "getting libraries for arm64" "$(arm64_root)" make_arm64_root
    use_product arm64-root "$(arm64_root)"
}

# add_arm64_libraries ROOT: all that our programs need, and the loader.
add_arm64_libraries() {
    local dir="$1/usr/lib/$ARM64_TRIPLET"
    mkdir -p "$dir"
    cp -P "$(arm64_root)/usr/lib/$ARM64_TRIPLET"/lib{jansson,xxhash,lwip}.so.* "$dir/"
    cp "/usr/$ARM64_TRIPLET/lib"/{libc,libm,libpthread}.so.* "$dir/"
    cp "/usr/$ARM64_TRIPLET/lib/ld-linux-aarch64.so.1" "$1/usr/lib/"
}
