# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The fuzz targets (tests/fuzz), built by clang with libFuzzer and the
# sanitizers, in a build directory in the cache that belongs to this checkout.

# The longest one first: scripts/test runs them side by side.
FUZZ_TARGETS=(streams whole rings misses frames commands registers unplug slots provider
    params)

fuzz_targets() { printf '%s\n' "${FUZZ_TARGETS[@]}"; }

fuzz_build() { echo "$CACHE/fuzz/$(hash_text "$REPO")"; }
coverage_build() { echo "$(fuzz_build)-coverage"; }

# configure_fuzz DIR OPTION...
configure_fuzz() {
    local build=$1
    shift
    rm -rf "$build"
    CC=clang run_meson setup "$build" "$REPO" "$@"
    touch "$build/configured"
}

# make_fuzz DIR TEXT OPTION...: the fuzz targets in a build directory of their own.
make_fuzz() {
    local build=$1 text=$2 lock programs=("${FUZZ_TARGETS[@]/#/tests/fuzz/fuzz-}")
    [ "${#programs[@]}" -gt 0 ] || programs=(meson-test-prereq)
    shift 2
    need_clang
    setup_python
    mkdir -p "$CACHE/fuzz"
    take_lock "fuzz-$(basename "$build")" lock
    [ -e "$build/configured" ] ||
        step fuzz-configure "configuring $text" configure_fuzz "$build" "$@"
    if ! ninja -C "$build" -n "${programs[@]}" 2>/dev/null |
        grep -q 'no work to do'; then
        step fuzz "building $text" ninja -C "$build" -j "$(nproc)" "${programs[@]}"
    fi
    drop_lock "$lock"
}

setup_fuzz() { make_fuzz "$(fuzz_build)" "the fuzz targets" -Dfuzzers=true; }

# The same programs without libFuzzer: they count the lines that they run.
setup_coverage() {
    local flags="-fprofile-instr-generate -fcoverage-mapping"
    local -x LLVM_PROFILE_FILE=/dev/null
    PACKAGES+=(llvm)
    make_fuzz "$(coverage_build)" "the fuzz targets, for coverage" \
        -Dc_args="$flags" -Dc_link_args="$flags"
}

msan_build() { echo "$(fuzz_build)-msan"; }

# The tests and the inputs of the core, without libFuzzer, by the memory sanitizer.
setup_msan() {
    local FUZZ_TARGETS=()
    make_fuzz "$(msan_build)" "the core's tests for MSan" -Dmsan=true -Dcore_only=true
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
