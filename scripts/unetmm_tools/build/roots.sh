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

# bootstrap "RELEASE SUITE..." DIR OPTION...: DIR/root.tar, a system by mmdebstrap from the
# mirrors of this machine, which has the suites in its sources, too.
bootstrap() {
    local suites suite options sources=() dir=$2
    setup_more "${PACKAGES_ROOTS[@]}"
    read -r -a suites <<<"$1"
    shift 2
    mapfile -t options < <(root_proxies)
    for suite in "${suites[@]}"; do
        suite_ready "$suite"
        sources+=("$APT_DIR/$suite/unetmm.sources")
    done
    mmdebstrap --quiet "${options[@]}" "$@" "${suites[0]}" "$dir/root.tar" "${sources[@]}"
}

# make_release_root RELEASE DIR
make_release_root() {
    bootstrap "$1" "$2" --variant=minbase --include="$(IFS=,; echo "${ROOT_PACKAGES[*]}")"
}

# setup_root RELEASE: prints the path of the tarball.
setup_root() {
    product "root-$1" "making a fresh root of Debian $1" "$(root_dir "$1")" \
        make_release_root "$1"
    echo "$(root_dir "$1")/root.tar"
}
