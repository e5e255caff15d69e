# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The library, its tools and the guest test programs: the top-level meson.build,
# in a build directory in the cache that belongs to this checkout.

guest_build() { echo "$CACHE/guest/$(hash_text "$REPO")"; }

configure_guest() {
    local build=$1
    rm -rf "$build"
    CC="$(compiler)" run_meson setup "$build" "$REPO"
    touch "$build/configured"
}

setup_guest() {
    local build lock
    [ -e "$REPO/meson.build" ] ||
        die "there is no meson.build in $REPO: run this from a whole checkout"
    setup_python
    build=$(guest_build)
    mkdir -p "$CACHE/guest"
    take_lock "guest-$(basename "$build")" lock
    [ -e "$build/configured" ] ||
        step guest-configure "configuring the library" configure_guest "$build"
    # ninja itself knows whether there is anything to do; ask it without
    # showing a step.
    if ! ninja -C "$build" -n 2>/dev/null | grep -q 'no work to do'; then
        step guest "building library and tools" ninja -C "$build" -j "$(nproc)"
    fi
    drop_lock "$lock"
}

# guest_programs: prints "SOURCE TARGET" for each file of ours that goes into
# the guests: tools and examples to /usr/bin, tests to /tests.
guest_programs() {
    local build
    build=$(guest_build)
    find "$build"/guest-lib/tools "$build"/guest-lib/examples -maxdepth 1 \
        -type f -perm /111 ! -name '*.so*' -printf '%p usr/bin/%f\n' 2>/dev/null || true
    find "$build"/tests/guest -maxdepth 1 -type f -perm /111 ! -name '*.so*' \
        -printf '%p tests/%f\n' 2>/dev/null || true
    echo "$build/tests/bench/bench-local usr/bin/bench-local"
    find "$REPO"/tests/guest -maxdepth 1 -type f -perm /111 ! -name init \
        -printf '%p tests/%f\n' 2>/dev/null || true
}
