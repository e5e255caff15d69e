# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Builds for another machine: its libraries, extracted into the cache, and meson's
# description of it.

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
