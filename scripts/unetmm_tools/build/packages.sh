# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The one list of the Debian packages that must be installed on the host.
# Other inputs (QEMU's source, kernels, newer build tools) are downloaded
# into the cache and never installed.

PACKAGES=(
    # to build QEMU
    build-essential dpkg-dev ninja-build pkg-config flex bison gawk
    libglib2.0-dev libslirp-dev libfdt-dev
    python3 python3-venv python3-distlib
    # to build kernels and modules
    bc kmod libelf-dev libssl-dev cpio rsync sparse
    xz-utils zstd
    # to build and test the library
    libcmocka-dev liblwip-dev libfabric-dev libfabric-bin libjansson-dev
    libxxhash-dev
    # to build the Python package
    python3-cffi python3-dev
    # to check scripts and documents
    shellcheck pyflakes3 python3-docutils
    # firmware that QEMU loads
    seabios ipxe-qemu qemu-system-data
    # programs that run in the guests
    busybox-static iperf3 sockperf ethtool iproute2
    # second builds are quick with it
    ccache
    # to read the archive, or upstream's
    ca-certificates curl
)

# Needed only for plots: scripts/bench --plots, scripts/tlb-sim --svg.
PACKAGES_PLOTS=(gnuplot-nox)

# Needed only for scripts/scale.
# shellcheck disable=SC2034 # for guest.sh
PACKAGES_SCALE=(libns3-dev)

# Only scripts/debug, the dissector and their tests need these.
# shellcheck disable=SC2034 # for scripts/test
PACKAGES_TOOLS=(gdb tshark "${PACKAGES_PLOTS[@]}")

# Needed only for the site: scripts/setup docs.
# shellcheck disable=SC2034 # for docs.sh
PACKAGES_DOCS=(python3-sphinx python3-myst-parser furo mandoc)

# Only the tests of the site need these: they look at it in a browser.
# shellcheck disable=SC2034 # for scripts/test
PACKAGES_BROWSER=(chromium chromium-driver python3-selenium fonts-dejavu-core)

# Debian 12's are too old or missing: there they come from backports, by
# python.sh, and are not installed.
PACKAGES_SINCE_13=(meson python3-pycotap)

# Only for those who test (TESTING is set): libFuzzer, for the card's core; CMake, for a
# project of docs/ci.rst;
# spin, for the model of its protocol; git, which lists the project's files; abidiff,
# for the library's binary interface; NumPy, whose
# arrays the Python package takes as buffers; jsonschema, for the tools' rows.
PACKAGES_TESTING=(clang cmake libclang-rt-dev spin git abigail-tools
    python3-jsonschema python3-numpy)

# Only the stages `roots` and `package` need this one.
# shellcheck disable=SC2034 # for scripts/test and roots.sh
PACKAGES_ROOTS=(mmdebstrap)

# debian_version: the major number of the host's Debian; sid has none.
debian_version() {
    # shellcheck source=/dev/null
    (. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-99}") || echo 99
}

packages_wanted() {
    local list=("${PACKAGES[@]}")
    if [ "$(debian_version)" -ge 13 ] 2>/dev/null; then
        list+=("${PACKAGES_SINCE_13[@]}")
    fi
    [ -z "${TESTING:-}" ] || list+=("${PACKAGES_TESTING[@]}")
    printf '%s\n' "${list[@]}" | LC_ALL=C sort -u
}

# packages_missing: those of the list that are not installed, one per line.
packages_missing() {
    command -v dpkg-query >/dev/null ||
        die "this is not Debian: install the programs named in scripts/unetmm_tools/build/packages.sh yourself, then set UNETMM_SKIP_PACKAGES=1"
    local wanted
    mapfile -t wanted < <(packages_wanted)
    # dpkg-query fails when it has never heard of one; that one is missing.
    comm -23 <(printf '%s\n' "${wanted[@]}") \
        <({ dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" \
                2>/dev/null || true; } |
          sed -n 's/ installed$//p' | LC_ALL=C sort -u)
}

# setup_more PACKAGE...: these alone, which only some targets need.
setup_more() {
    local PACKAGES=("$@") PACKAGES_SINCE_13=() TESTING=""
    setup_packages
}

# setup_plots: the packages for plots, installed only on request.
setup_plots() {
    setup_more "${PACKAGES_PLOTS[@]}"
    command -v gnuplot >/dev/null ||
        die "there is no gnuplot: install it (Debian's package is gnuplot-nox)"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

install_packages() {
    as_root apt-get update
    # A desktop's own updates hold the lock for minutes.
    as_root apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@"
}

# setup_packages: asks before it installs, unless --yes was given or there is
# no terminal to ask on.
setup_packages() {
    [ -z "${UNETMM_SKIP_PACKAGES:-}" ] && ! installed || return 0
    local missing answer=y
    missing=$(packages_missing)
    [ -n "$missing" ] || return 0
    note "Missing Debian packages: $(echo "$missing" | tr '\n' ' ')"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            die "the packages above are missing and there is no sudo: install them as root with apt-get install"
        if [ -z "${ASSUME_YES:-}" ] && [ -t 0 ]; then
            read -r -p "Install them with sudo apt-get? [Y/n] " answer
        fi
        case "${answer:-y}" in
            [Yy]*) sudo -v || die "sudo refused: install the packages above as root with apt-get install" ;;
            *) die "install the packages above with apt-get install, then run this again" ;;
        esac
    fi
    # shellcheck disable=SC2086 # one word per package
    step packages "installing $(echo "$missing" | wc -w) packages" \
        install_packages $missing
}
