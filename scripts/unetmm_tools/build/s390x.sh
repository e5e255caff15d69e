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

# s390x_apt COMMAND DIR WORD...: the private apt, for that architecture, with its
# own lists in DIR.
s390x_apt() {
    local command=$1 dir=$2
    shift 2
    "$command" "${APT_OPTIONS[@]}" -o "Dir::State=$dir/state" \
        -o "Dir::State::status=$dir/status" -o "Dir::Cache=$dir/cache" \
        -o "Dir::Etc::sourcelist=$dir/s390x.sources" -o Dir::Etc::sourceparts=/dev/null \
        -o APT::Architecture=s390x -o APT::Architectures=s390x "$@"
}

# make_s390x_root DIR: glib and cmocka, with their dependencies.
make_s390x_root() {
    local dir=$1 apt="$1.apt" runtime deb
    mkdir -p "$dir" "$apt/debs" "$apt/state/lists/partial" \
        "$apt/cache/archives/partial"
    : >"$apt/status"
    # Of our own list, the archives of programs for this release alone.
    sed 's/^Architectures: .*/Architectures: s390x/; s/^Types: deb-src$/Types: deb-src\nEnabled: no/' \
        "$APT_DIR/unetmm.sources" >"$apt/s390x.sources"
    s390x_apt apt-get "$apt" update
    # The library's own name has changed with the width of time_t.
    runtime=$(s390x_apt apt-cache "$apt" depends libglib2.0-dev |
        sed -n 's/^ *Depends: \(libglib2\.0-0[a-z0-9]*\)$/\1/p' | head -n 1)
    (cd "$apt/debs" && s390x_apt apt-get "$apt" download \
        "${runtime:-libglib2.0-0}" libglib2.0-dev libpcre2-8-0 libpcre2-dev \
        libcmocka0 libcmocka-dev) ||
        die "cannot download the libraries for s390x from Debian's archive: run scripts/setup --update for newer versions"
    for deb in "$apt"/debs/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --no-same-owner
    done
    rm -rf "$apt"
}

# s390x_cross ROOT: prints meson's description of the other machine.
s390x_cross() {
    local root=$1 libraries=$1/usr/lib/$S390X_TRIPLET
    cat <<END
[binaries]
c = '$S390X_TRIPLET-gcc'
ar = '$S390X_TRIPLET-ar'
strip = '$S390X_TRIPLET-strip'
pkg-config = 'pkg-config'
exe_wrapper = ['qemu-s390x', '-L', '/usr/$S390X_TRIPLET', '-E',
               'LD_LIBRARY_PATH=$libraries:/usr/$S390X_TRIPLET/lib']

[properties]
sys_root = '$root'
pkg_config_libdir = '$libraries/pkgconfig'

[built-in options]
c_link_args = ['-Wl,-rpath-link,$libraries']

[host_machine]
system = 'linux'
cpu_family = 's390x'
cpu = 's390x'
endian = 'big'
END
}

configure_s390x() {
    local build=$1
    rm -rf "$build"
    mkdir -p "$build"
    s390x_cross "$(s390x_root)" >"$build/s390x.ini"
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
    if [ ! -d "$(s390x_root)" ]; then
        apt_ready
        product s390x "getting libraries for s390x" "$(s390x_root)" \
            make_s390x_root
    fi
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
