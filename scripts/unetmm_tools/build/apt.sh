# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# A private apt: it reads the mirrors that this machine already trusts, but has
# its own source list, state and cache, so that it needs no root and changes
# nothing. Downloaded packages are extracted into our cache, never installed.

APT_DIR="$CACHE/apt"

APT_OPTIONS=(
    -q
    -o "Dir::State=$APT_DIR/state"
    -o "Dir::State::status=$APT_DIR/status"
    -o "Dir::Cache=$APT_DIR/cache"
    -o Dir::Etc::preferences=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null
    -o "APT::Architecture=$HOST_ARCH"
    -o "APT::Architectures=$HOST_ARCH"
    -o Acquire::Languages=none
    -o Acquire::Retries=3
    # A list that cannot be read is a failure, not a warning.
    -o APT::Update::Error-Mode=any
    -o "APT::Sandbox::User=$(id -un)"
)

# suite_tool TOOL SUITE WORD...: apt-get or apt-cache that knows this release of Debian
# alone, or those of private_apt_get if SUITE is empty. In one list with another release
# each would offer its versions for those of the other.  SUITE/ARCHITECTURE: the packages of
# another machine.
suite_tool() {
    local tool=$1 dir="$APT_DIR${2:+/$2}" arch=()
    [[ $2 != */* ]] || arch=(-o "APT::Architecture=${2#*/}" -o "APT::Architectures=${2#*/}")
    shift 2
    "$tool" "${APT_OPTIONS[@]}" "${arch[@]}" -o "Dir::State=$dir/state" -o "Dir::Cache=$dir/cache" \
        -o "Dir::Etc::sourcelist=$dir/unetmm.sources" -o Dir::Etc::sourceparts=/dev/null \
        "$@"
}

suite_apt() { suite_tool apt-get "$@"; }
suite_apt_cache() { suite_tool apt-cache "$@"; }
private_apt_get() { suite_tool apt-get "" "$@"; }
private_apt_cache() { suite_tool apt-cache "" "$@"; }

host_codename() {
    # shellcheck source=/dev/null
    (. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
}

# list_targets OPTIONS...: apt's fields of each configured repository.
list_targets() {
    # shellcheck disable=SC2016 # apt's own placeholders
    apt-get indextargets "$@" "Created-By: Packages" \
        --format '$(ORIGIN)|$(LABEL)|$(RELEASE)|$(REPO_URI)' | sort -u
}

# debian_targets: the same, with Release files read if apt has not read them
# yet (a machine whose package lists were cleaned away). Only those are fetched.
debian_targets() {
    local no_indexes=(
        -o Acquire::IndexTargets::deb::Packages::DefaultEnabled=false
        -o Acquire::IndexTargets::deb-src::Sources::DefaultEnabled=false
    )
    if list_targets | grep -q '^Debian|'; then
        list_targets
        return
    fi
    apt-get "${APT_OPTIONS[@]}" "${no_indexes[@]}" update >&2
    list_targets "${APT_OPTIONS[@]}"
}

# apt_update SUITE: for suite_apt or, if it is empty, for private_apt_get.
apt_update() {
    local dir="$APT_DIR${1:+/$1}"
    mkdir -p "$APT_DIR/state/lists/partial" "$dir/state/lists/partial" \
        "$dir/cache/archives/partial"
    : >"$APT_DIR/status"
    debian_targets |
        python3 "$REPO/scripts/unetmm_tools/build/debian_sources.py" "$(host_codename)" "$HOST_ARCH" ${1:+"$1"} \
            >"$dir/unetmm.sources.part" ||
        die "apt on this machine has no source for Debian's archive: add one, or set QEMU_SRC to a QEMU 10 source tree"
    mv -f "$dir/unetmm.sources.part" "$dir/unetmm.sources"
    suite_apt "$1" update ||
        die "apt cannot read Debian's archive: check the network and the mirror in apt's sources"
    touch "$dir/updated"
}

# suite_ready SUITE: reads the package lists once; `setup --update` reads them again.
suite_ready() {
    local lock updated="$APT_DIR${1:+/$1}/updated"
    [ -e "$updated" ] && return
    take_lock apt lock
    [ -e "$updated" ] ||
        step apt "reading Debian's package lists${1:+ of $1}" apt_update "$1"
    drop_lock "$lock"
}

apt_ready() { suite_ready ""; }

# fetch_deb PACKAGE[=VERSION] DIR [OPTION OF TAR]...: downloads and extracts it.
fetch_deb() { fetch_suite_deb "" "$@"; }

# fetch_suite_deb SUITE PACKAGE[=VERSION] DIR [OPTION OF TAR]...: the same of a release.
# Point releases come and go: if the version has left the archive, only a new reading
# helps.
fetch_suite_deb() {
    local suite=$1 package=$2 dir=$3 debs="$3.debs"
    shift
    # A killed download leaves a part of a file under its final name.
    rm -rf "$debs"
    mkdir -p "$debs" "$dir"
    (cd "$debs" && suite_apt "$suite" download "$package") ||
        die "cannot download $package from Debian's archive: run scripts/setup --update for newer versions"
    local deb
    for deb in "$debs"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" |
            tar -x -C "$dir" --no-same-owner "${@:3}"
    done
    rm -rf "$debs"
}

# fetch_suite DIR SUITE PACKAGE...: downloads and extracts all of them at once.
fetch_suite() {
    local dir=$1 suite=$2 debs="$1/debs" deb
    shift 2
    suite_ready "$suite"
    mkdir -p "$debs"
    (cd "$debs" && suite_apt "$suite" download "$@") ||
        die "cannot download $1 and others from Debian's archive: run scripts/setup --update for newer versions"
    for deb in "$debs"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --no-same-owner
    done
    rm -rf "$debs"
}

# newest_version: the highest of the Debian versions on stdin.
newest_version() {
    local best="" version
    while read -r version; do
        if [ -z "$best" ] || dpkg --compare-versions "$version" gt "$best"; then
            best=$version
        fi
    done
    echo "$best"
}

# candidate PACKAGE [SUITE]: the version that apt would take.
candidate() {
    suite_apt_cache "${2:-}" policy "$1" | sed -n 's/^ *Candidate: //p'
}

# forget_versions: versions are chosen again, from freshly read lists.  Without a network the
# old ones stay.
forget_versions() {
    local lock
    take_lock apt lock
    step apt "reading Debian's package lists" apt_update ""
    find "$APT_DIR" -mindepth 2 -name updated -delete
    rm -rf "$CACHE/pin"
    drop_lock "$lock"
}
