# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The fuzz targets (tests/fuzz), built by clang with libFuzzer and the
# sanitizers, in a build directory in the cache that belongs to this checkout.

FUZZ_TARGETS=(rings frames commands registers streams slots)

fuzz_build() { echo "$CACHE/fuzz/$(hash_text "$REPO")"; }

configure_fuzz() {
    local build=$1
    rm -rf "$build"
    CC=clang run_meson setup "$build" "$REPO" -Dfuzzers=true
    touch "$build/configured"
}

setup_fuzz() {
    local build lock programs=("${FUZZ_TARGETS[@]/#/tests/fuzz/fuzz-}")
    need_clang
    setup_python
    build=$(fuzz_build)
    mkdir -p "$CACHE/fuzz"
    take_lock "fuzz-$(basename "$build")" lock
    [ -e "$build/configured" ] ||
        step fuzz-configure "configuring the fuzz targets" \
            configure_fuzz "$build"
    if ! ninja -C "$build" -n "${programs[@]}" 2>/dev/null |
        grep -q 'no work to do'; then
        step fuzz "building the fuzz targets" \
            ninja -C "$build" -j "$(nproc)" "${programs[@]}"
    fi
    drop_lock "$lock"
}

# QEMU's generic fuzzer: accesses to all regions of the card, its configuration
# space included, and data wherever it reads memory.
# shellcheck disable=SC2034 # for scripts/fuzz
QEMU_FUZZ_CONFIGS=(unetmm unetmm-slow)

need_clang() {
    TESTING=1 setup_packages
    command -v clang >/dev/null ||
        die "there is no clang: apt-get install clang libclang-rt-dev"
}

setup_qemu_fuzz() {
    need_clang
    setup_qemu fuzz
}

# qemu_fuzz_there: prints yes if there is a fuzzer of just this card and QEMU.
qemu_fuzz_there() {
    [ ! -x "$(qemu_out fuzz)/qemu-fuzz-x86_64" ] || echo yes
}
