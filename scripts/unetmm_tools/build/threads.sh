# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The tests of library and provider that have threads, under the thread sanitizer, in a build
# directory in the cache that belongs to this checkout.

# Not `calls`: a pending cancellation of a thread stops the sanitizer's own calls.
THREADS_TESTS=(counter fork handlers sync thread utlb vmmc wait)
THREADS_PROVIDER=(cq ep eq caller wait)

threads_build() { echo "$CACHE/threads/$(hash_text "$REPO")"; }

# threads_tests: their names for meson.
threads_tests() {
    printf 'lib %s\n' "${THREADS_TESTS[@]}"
    printf 'lib provider %s\n' "${THREADS_PROVIDER[@]}"
}

configure_threads() {
    local build=$1
    rm -rf "$build"
    CC="$(compiler)" run_meson setup "$build" "$REPO" -Dthreads=true
    touch "$build/configured"
}

setup_threads() {
    local build lock programs=("${THREADS_TESTS[@]/#/tests/library/test-}"
        "${THREADS_PROVIDER[@]/#/tests/provider/test-provider-}")
    setup_packages
    setup_python
    build=$(threads_build)
    mkdir -p "$CACHE/threads"
    take_lock "threads-$(basename "$build")" lock
    [ -e "$build/configured" ] ||
        step threads-configure "configuring the tests for the thread sanitizer" \
            configure_threads "$build"
    if ! ninja -C "$build" -n "${programs[@]}" 2>/dev/null |
        grep -q 'no work to do'; then
        step threads "building the tests for the thread sanitizer" \
            ninja -C "$build" -j "$(nproc)" "${programs[@]}"
    fi
    drop_lock "$lock"
}
