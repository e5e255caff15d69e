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

# fetch_cross DIR ARCHITECTURE PACKAGE...: the packages of another machine, and glib and cmocka.
fetch_cross() {
    local dir=$1 suite runtime
    suite="$(host_codename)/$2"
    shift 2
    suite_ready "$suite"
    # The library's own name has changed with the width of time_t.
    runtime=$(suite_apt_cache "$suite" depends libglib2.0-dev |
        sed -n 's/^ *Depends: \(libglib2\.0-0[a-z0-9]*\)$/\1/p' | head -n 1)
    fetch_suite "$dir" "$suite" "${runtime:-libglib2.0-0}" libglib2.0-dev libpcre2-8-0 \
        libpcre2-dev libcmocka0 libcmocka-dev "$@"
}

make_s390x_root() { fetch_cross "$1" s390x; }

# cross_file TRIPLET CPU ENDIAN ROOT: prints meson's description of another machine, whose
# libraries are below ROOT.
cross_file() {
    local libraries=$4/usr/lib/$1
    cat <<END
[binaries]
c = [$(compiler | sed "s/gcc/$1-gcc/; s/[^ ]*/'&',/g")]
ar = '$1-ar'
strip = '$1-strip'
pkg-config = 'pkg-config'
exe_wrapper = ['qemu-$2', '-L', '/usr/$1', '-E',
               'LD_LIBRARY_PATH=$libraries:/usr/$1/lib']

[properties]
sys_root = '$4'
pkg_config_libdir = '$libraries/pkgconfig'

[built-in options]
c_link_args = ['-Wl,-rpath-link,$libraries']

[host_machine]
system = 'linux'
cpu_family = '$2'
cpu = '$2'
endian = '$3'
END
}

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
