# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The card's core on a machine of the other byte order: tests/core for s390x, by
# Debian's cross compiler, run by qemu-user. The libraries of that architecture
# are downloaded and extracted into the cache, never installed. Without the
# sanitizers: their map of the memory does not fit under qemu-user.

# shellcheck disable=SC2034 # for scripts/test
PACKAGES_S390X=(gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user)
S390X_TRIPLET=s390x-linux-gnu

s390x_root() { echo "$CACHE/s390x-root"; }

s390x_build() { echo "$CACHE/s390x/$(hash_text "$REPO")"; }

make_s390x_root() { fetch_cross "$1" s390x; }

configure_s390x() {
    local build=$1
    rm -rf "$build"
    mkdir -p "$build"
    cross_file "$S390X_TRIPLET" s390x big "$(s390x_root)" >"$build/s390x.ini"
    run_meson setup "$build" "$REPO" -Dcore_only=true \
        --cross-file "$build/s390x.ini"
    touch "$build/configured"
}

setup_s390x() {
    local build lock program
    for program in "$S390X_TRIPLET-gcc" qemu-s390x; do
        command -v "$program" >/dev/null ||
            die "there is no $program: apt-get install ${PACKAGES_S390X[*]}"
    done
    setup_python
    product s390x "getting libraries for s390x" "$(s390x_root)" make_s390x_root
    build=$(s390x_build)
    mkdir -p "$CACHE/s390x"
    take_lock "s390x-$(basename "$build")" lock
    [ -e "$build/configured" ] ||
        step s390x-configure "configuring the core's tests for s390x" \
            configure_s390x "$build"
    if ! ninja -C "$build" -n meson-test-prereq 2>/dev/null |
        grep -q 'no work to do'; then
        step s390x "building the core's tests for s390x" \
            ninja -C "$build" -j "$(nproc)" meson-test-prereq
    fi
    drop_lock "$lock"
}
