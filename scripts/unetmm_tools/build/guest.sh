# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The library, its tools and the guest test programs: the top-level meson.build,
# in a build directory in the cache that belongs to this checkout.

# $GUEST_ARCH: one of cross.sh's machines, or nothing for this machine
guest_build() {
    echo "$CACHE/guest/$(hash_text "$REPO" ${GUEST_ARCH:+"$(cross_file "$GUEST_ARCH")"})"
}

# guest_library: prints the path of libunetmm.
guest_library() {
    if installed; then
        echo "/usr/lib/$(uname -m)-linux-gnu/libunetmm.so.0"
    else
        echo "$(guest_build)/guest-lib/libunetmm.so.0"
    fi
}

configure_guest() {
    local build=$1 words=()
    rm -rf "$build"
    if [ -n "${GUEST_ARCH:-}" ]; then
        cross_file "$GUEST_ARCH" >"$build.ini"
        words=(--cross-file "$build.ini" -Dprovider=disabled -Dpython=disabled)
    fi
    CC="$(compiler)" run_meson setup "${words[@]}" "$build" "$REPO"
    touch "$build/configured"
}

# ninja_guest TITLE TARGET...: builds targets of ninja in a step with a title; `library` stands
# for the library, `tools` for it, the programs of guests that are no tests, the Python package
# and the switch of tour mpi.
ninja_guest() {
    local title=$1 build lock known=
    shift
    [ -e "$REPO/meson.build" ] ||
        die "there is no meson.build in $REPO: run this from a whole checkout"
    setup_python
    build=$(guest_build)
    mkdir -p "$CACHE/guest"
    take_lock "guest-$(basename "$build")" lock
    [ -e "$build/configured" ] ||
        step guest-configure "configuring the library" configure_guest "$build"
    # A target that was left out, as its packages came after the build directory
    if [ "$1" = sim/unetmm-scale ] && ! grep -q "^build $1:" "$build/build.ninja"; then
        step guest-configure "configuring the library" run_meson setup --reconfigure --clearcache \
            "$build" "$REPO"
        grep -q "^build $1:" "$build/build.ninja" ||
            die "meson finds no ns-3 or no C++ compiler: install ${PACKAGES_SCALE[*]} and g++"
    fi
    case "$1" in
        library) known='guest-lib/libunetmm\.(a|so)' ;;
        tools) known='guest-lib/(tools/|examples/|libunetmm\.so|python/_unetmm)|tools/lockstep-switch|tests/bench/bench-local|tests/guest/moment' ;;
    esac
    # shellcheck disable=SC2046 # words
    [ -z "$known" ] ||
        set -- $(sed -En "s#^build (($known)[^ ]*): (c|STATIC)_LINKER.*#\1#p" "$build/build.ninja")
    # ninja itself knows whether there is anything to do; ask it without
    # showing a step.
    if ! ninja -C "$build" -n "$@" 2>/dev/null |
        grep -q 'no work to do'; then
        step guest "building $title" ninja -C "$build" -j "$(nproc)" "$@"
    fi
    drop_lock "$lock"
}

# The files for guests and for installation, without tests that run here, which take
# twice as long to build.  scripts/demo sets UNETMM_GUEST to tools: no tests.
setup_guest() { installed || ninja_guest "library and tools" "${UNETMM_GUEST:-all}"; }

# The unit tests, the benchmarks and the simulation of the card's core.
setup_unit() {
    ninja_guest "library and tools, and their tests" all meson-test-prereq measures
}

# Parts, for those who need no others
setup_library() { ninja_guest "the library" library; }

setup_core() {
    ninja_guest "the card's core for its tests" tests/core/libunetmm_core_tests.a
}

setup_tlb_sim() { ninja_guest "the TLB simulation" tests/sim/unetmm-tlb-{sim,replay}; }

setup_scale() {
    setup_more "${PACKAGES_SCALE[@]}"
    ninja_guest "the simulation of many cards" sim/unetmm-scale tests/scale/unetmm-paper-ns3
}

setup_paper() { ninja_guest "the papers' program" tests/paper/unetmm-paper; }

setup_migration_dump() {
    ninja_guest "the program that reads saved cards" tools/unetmm-migration-dump
}

# guest_programs: prints "SOURCE TARGET" for each file of ours that goes into
# the guests: tools and examples to /usr/bin, tests to /tests.
guest_programs() {
    local build
    if installed; then
        dpkg -L unetmm-tools | sed -n 's#^/\(usr/bin/.*\)#/\1 \1#p'
        return
    fi
    build=$(guest_build)
    find "$build"/guest-lib/tools "$build"/guest-lib/examples -maxdepth 1 \
        -type f -perm /111 ! -name '*.so*' -printf '%p usr/bin/%f\n' 2>/dev/null || true
    [ -n "${GUEST_ARCH:-}" ] || echo "$build/tests/bench/bench-local usr/bin/bench-local"
    if [ "${UNETMM_GUEST:-}" = tools ]; then
        # Virtual runs begin with it.
        [ -n "${GUEST_ARCH:-}" ] || echo "$build/tests/guest/moment tests/moment"
        return
    fi
    find "$build"/tests/guest -maxdepth 1 -type f -perm /111 ! -name '*.so*' \
        -printf '%p tests/%f\n' 2>/dev/null || true
    find "$REPO"/tests/guest -maxdepth 1 -type f -perm /111 ! -name init \
        -printf '%p tests/%f\n' 2>/dev/null || true
}

# installed_headers DIR: each on its own, as C and as C++.
installed_headers() {
    local header
    (cd "$1" && find . -name '*.h' -printf '%P\n') | while read -r header; do
        echo "#include <$header>" | gcc -std=c11 -Wall -Wextra -Wpedantic \
            -Wconversion -Wsign-conversion -Werror \
            -fsyntax-only -I"$1" -x c - || return 1
        echo "#include <$header>" | g++ -std=c++17 -Wall -Wextra -Wpedantic \
            -Wconversion -Wsign-conversion -Werror \
            -fsyntax-only -I"$1" -x c++ - || return 1
    done
}

# check_install: installs below an empty directory and builds and starts a
# program against the installed files, by pkg-config, shared and static.
check_install() (
    set -e
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    run_meson install -C "$(guest_build)" --no-rebuild --destdir "$root" \
        >"$root/log" || { cat "$root/log"; return 1; }
    pc=$(find "$root" -name libunetmm.pc)
    [ -n "$pc" ] || { echo "libunetmm.pc was not installed"; return 1; }
    export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="${pc%/*}"
    prefix="$root$(pkg-config --variable=prefix libunetmm |
        sed "s|^$root||")"
    for page in "$REPO"/guest-lib/man/*.[1-9]; do
        section=${page##*.}
        [ -n "$(find "$prefix/share/man/man$section" \
            -name "${page##*/}*")" ] ||
            { echo "${page##*/} was not installed"; return 1; }
    done
    installed_headers "$prefix/include"
    for tool in pingpong bw cp stat info; do
        "$prefix/bin/unetmm-$tool" --help >/dev/null
    done
    # shellcheck disable=SC2046 # flags are words
    gcc -std=gnu11 -Wall -Wextra -Werror "$REPO/guest-lib/examples/hello.c" \
        -o "$root/shared" $(pkg-config --cflags --libs libunetmm)
    # shellcheck disable=SC2046
    gcc -static -std=gnu11 "$REPO/guest-lib/examples/hello.c" \
        -o "$root/static" $(pkg-config --static --cflags --libs libunetmm)
    # shellcheck disable=SC2046
    echo '#include <libunetmm/stream.h>
        int main(void) { return !unetmm_stream_strerror(0); }' |
        gcc -x c - -o "$root/stream" $(pkg-config --cflags --libs libunetmm-stream)
    export LD_LIBRARY_PATH="${pc%/pkgconfig/*}"
    "$root/stream"
    ldd "$root/shared" | grep -q "libunetmm.so.0 => $root"
    # Without a card they can but say so; that they start is the point.
    for program in shared static; do
        said=$("$root/$program" 2>&1) && status=0 || status=$?
        if [ "$status" -ge 126 ] || [ -z "$said" ]; then
            echo "$program: status $status, '$said'"
            return 1
        fi
    done
)
