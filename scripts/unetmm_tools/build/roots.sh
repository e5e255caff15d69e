# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Fresh systems of Debian for tests/roots/run: as a user's machine is before the first
# command of the README.

# Beside Debian's required packages: sudo, for a user who is not root, and git, by
# which the user has a clone.
ROOT_PACKAGES=(sudo git)

root_dir() {
    echo "$CACHE/roots/$1-$(hash_text "${ROOT_PACKAGES[@]}")"
}

# root_proxies: apt's proxies on this machine, as options of mmdebstrap.
root_proxies() {
    apt-config dump | grep -E '^Acquire::(http|https|ftp)::Proxy' |
        sed 's/^/--aptopt=/' || true
}

# make_release_root RELEASE DIR: DIR/root.tar, by the mirrors of this machine.
make_release_root() {
    local include options
    include=$(IFS=,; echo "${ROOT_PACKAGES[*]}")
    mapfile -t options < <(root_proxies)
    mmdebstrap --quiet --variant=minbase --include="$include" "${options[@]}" \
        "$1" "$2/root.tar" "$APT_DIR/$1/unetmm.sources"
}

# setup_root RELEASE: prints the path of the tarball.
setup_root() {
    suite_ready "$1"
    product "root-$1" "making a fresh root of Debian $1" "$(root_dir "$1")" \
        make_release_root "$1"
    echo "$(root_dir "$1")/root.tar"
}
