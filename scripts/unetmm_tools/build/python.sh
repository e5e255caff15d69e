# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The Python that runs the build: the system's if its meson is new enough for
# QEMU, else an environment in the cache with backports' meson in it.

MESON_NEEDED=1.5

# Debian's own comes first: packages.sh gives modules to it, and not to another
# python3 that may be earlier in the PATH.
system_python() {
    if [ -x /usr/bin/python3 ]; then
        echo /usr/bin/python3
    else
        command -v python3
    fi
}

# python_suffices: is the system's good enough?
python_suffices() {
    "$(system_python)" -c '
import sys, pycotap, mesonbuild.coredata
def number(version): return [int(part) for part in version.split(".")[:2]]
sys.exit(number(mesonbuild.coredata.version) < number(sys.argv[1]))
' "$MESON_NEEDED" 2>/dev/null
}

backports_version() {
    private_apt_cache madison "$1" |
        awk -F'|' '/Packages$/ {gsub(/ /, "", $2); print $2}' | newest_version
}

# make_python DIR: extracts the two packages into a virtual environment.
make_python() {
    local dir=$1 package version site
    "$(system_python)" -m venv --system-site-packages --without-pip "$dir"
    site=$("$dir/bin/python3" -c 'import site; print(site.getsitepackages()[0])')
    for package in meson python3-pycotap; do
        version=$(backports_version "$package")
        [ -n "$version" ] || die "Debian's archive has no $package: install meson $MESON_NEEDED or newer and pycotap yourself"
        fetch_deb "$package=$version" "$dir/deb"
        cp -r "$dir"/deb/usr/lib/python3/dist-packages/* "$site/"
        rm -rf "$dir/deb"
    done
}

setup_python() {
    python_suffices && return
    command -v apt-get >/dev/null ||
        die "this needs meson $MESON_NEEDED or newer and pycotap for $(system_python): install them"
    if [ ! -d "$CACHE/python" ]; then
        apt_ready
        product python "getting meson" "$CACHE/python" make_python
    fi
}

# build_python: prints the interpreter. The environment was moved into place
# after it was made; an interpreter finds its environment by its own path.
build_python() {
    if python_suffices; then
        system_python
    else
        echo "$CACHE/python/bin/python3"
    fi
}

run_meson() {
    "$(build_python)" -m mesonbuild.mesonmain "$@"
}

# meson_command: prints the words that run_meson would call.
meson_command() { echo "$(build_python) -m mesonbuild.mesonmain"; }
