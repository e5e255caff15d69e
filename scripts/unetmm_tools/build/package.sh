# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Debian's packages (debian/): built of the project's files in a system of each release,
# and tried in a clean one, which has Debian's own packages and nothing else.

declare -A PACKAGE_RELEASES=([bookworm]="Debian 12" [trixie]="Debian 13")
# The system that builds has these beside the build dependencies of debian/control.
BUILD_ROOT=(build-essential fakeroot lintian apt-utils gpg gpg-agent)
# The packages of the clean one: a compiler and the kernel's headers.
PACKAGE_ROOT=(gcc libc6-dev make pkg-config "linux-headers-$HOST_ARCH")
# The dependencies of our packages, which apt's cache in the clean one has: no step but the
# last needs the network.
PACKAGE_DEPENDS=(libibverbs1 ibverbs-utils python3 python3-cffi-backend libjansson4 liblwip0 libxxhash0 dkms
    libfabric1 libfabric-bin qemu-system-x86 busybox-static cpio ethtool iproute2 kmod rsync
    xz-utils zstd)

package_suites() { printf '%s\n' "$1" "$(stock_release "$1")" | uniq | xargs; }

# apt reads the repository there, as a user who must not look into a home directory.
REPOSITORY_PLACE=/srv/unetmm
# The packages of the host for building packages and a repository
PACKAGES_REPOSITORY=(debhelper dh-python dh-dkms fakeroot apt-utils gpg gpg-agent libibverbs-dev)

# build_root_dir RELEASE
build_root_dir() {
    # The first paragraph names the build dependencies.
    echo "$CACHE/build-root/$1-$(hash_text "${BUILD_ROOT[*]}" "$(sed '/^$/q' "$REPO/debian/control")")"
}

# make_build_root RELEASE DIR: DIR/root.tar.
make_build_root() {
    bootstrap "$(package_suites "$1")" "$2" --variant=apt \
        --include="$(IFS=,; echo "${BUILD_ROOT[*]}")" \
        --customize-hook="chroot \"\$1\" apt-get -y -q --no-install-recommends \
            -t '$(stock_release "$1")' install meson" \
        --customize-hook="mkdir \"\$1/build\"; cp -r '$REPO/debian' \"\$1/build/\"" \
        --customize-hook="chroot \"\$1\" apt-get -y -q --no-install-recommends \
            build-dep /build" --customize-hook="rm -r \"\$1/build\""
}

# package_root_dir RELEASE
package_root_dir() {
    echo "$CACHE/package-root/$1-$(hash_text "${PACKAGE_ROOT[*]}" "${PACKAGE_DEPENDS[*]}")"
}

# make_package_root RELEASE DIR: DIR/root.tar.
make_package_root() {
    bootstrap "$(package_suites "$1")" "$2" --variant=apt --skip=cleanup/apt \
        --include="$(IFS=,; echo "${PACKAGE_ROOT[*]}")" \
        --customize-hook="chroot \"\$1\" apt-get -y -q -d -t '$(stock_release "$1")' \
            --no-install-recommends install ${PACKAGE_DEPENDS[*]}"
}

# copy_project DIR: the project's files.
copy_project() {
    mkdir -p "$1"
    (cd "$REPO" && git ls-files -co --exclude-standard -z |
        while IFS= read -r -d '' file; do
            [ ! -e "$file" ] || printf '%s\0' "$file"
        done | tar c --null -T -) | tar x -C "$1"
}

package_names() { sed -n 's/^Package: //p' "$REPO/debian/control"; }

# make_repository DIR: a signed repository for apt of the packages in DIR.  The key is made
# at the first call, and is not in the cache, which can be removed.
make_repository() (
    set -e
    cd "$1"
    export GNUPGHOME="${XDG_DATA_HOME:-$HOME/.local/share}/unetmm/repository-key"
    mkdir -p "$GNUPGHOME"
    chmod 700 "$GNUPGHOME"
    if ! gpg --batch --list-secret-keys --with-colons | grep ^sec >/dev/null; then
        gpg --batch --quiet --passphrase '' --quick-generate-key \
            "unetmm, packages of $(hostname)" ed25519 sign never
    fi
    rm -f ./*-dbgsym_*
    gpg --batch --quiet --yes --armor --output unetmm.asc --export
    apt-ftparchive packages . >Packages
    apt-ftparchive -o APT::FTPArchive::Release::Origin=unetmm release . >Release
    gpg --batch --quiet --yes --clearsign --output InRelease Release
    printf '%s\n' "Types: deb" "URIs: file:$REPOSITORY_PLACE" "Suites: ./" \
        "Signed-By: $REPOSITORY_PLACE/unetmm.asc" >unetmm.sources
)

# backports_sources RELEASE: the source list for the suite that has the QEMU of our packages,
# if it is not the release itself; the mirror is the one of this machine.
backports_sources() {
    [ "$(stock_release "$1")" != "$1" ] || return 0
    awk -v RS= -v suite="$(stock_release "$1")" 'index($0, suite) {
        sub(/Suites:[^\n]*/, "Suites: " suite); print; exit }' "$APT_DIR/unetmm.sources"
}

# build_repository DIR: the packages, as this system builds them.
build_repository() {
    local dir=$1
    copy_project "$dir/source"
    mkdir "$dir/bin"
    # The meson that builds the project: debhelper calls it by its name.
    printf '#!/bin/sh\nexec %s "$@"\n' "$(meson_command)" >"$dir/bin/meson"
    chmod +x "$dir/bin/meson"
    # -d: that meson is not a package of this system.
    (cd "$dir/source" && PATH="$dir/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        UNETMM_QEMU_HEADERS=$(stock_headers_dir) UNETMM_RDMA_HEADERS=$(rdma_headers_dir) \
        dpkg-buildpackage -b -uc -us -d -j"$(nproc)")
    rm -rf "$dir/source" "${dir:?}/bin" "$dir"/*.{changes,buildinfo}
    make_repository "$dir"
    backports_sources "$(host_codename)" >"$dir/unetmm-backports.sources"
}

# install_advice DIR: the commands that install from the repository.
install_advice() {
    local suite sources="$REPOSITORY_PLACE/unetmm.sources"
    suite=$(stock_release "$(host_codename)")
    apt-cache policy | grep "n=$suite\\(,\\|\$\\)" >/dev/null || sources+=" $REPOSITORY_PLACE/unetmm-backports.sources"
    note "To install from these packages, type:
  sudo install -D -m 644 -t $REPOSITORY_PLACE '$1'/*
  sudo install -m 644 -t /etc/apt/sources.list.d $sources
  sudo apt update && sudo apt install -t $suite unetmm-vm"
}

repository_dir() {
    echo "$CACHE/repository/$(hash_text "$(hash_files "$REPO" debian guest-driver guest-lib \
        hw meson.build scripts tests/guest tests/mpi tests/paper)" "$(stock_headers_dir)" \
        "$(rdma_headers_dir)" "$(host_codename)")"
}

setup_repository() {
    local PACKAGES=("${PACKAGES[@]}" "${PACKAGES_REPOSITORY[@]}")
    setup_packages
    setup_python
    setup_stock_headers
    setup_rdma_headers
    product repository "building the packages" "$(repository_dir)" build_repository
    use_product repository "$(repository_dir)"
    install_advice "$(repository_dir)"
}

# enter_root ROOT OPTION COMMAND...: in a root, without the caller's environment, with a
# /proc of its own (DKMS needs one) and the namespace that unshare's OPTION names.
enter_root() {
    local root=$1 option=$2
    shift 2
    unshare --mount --pid "$option" --fork --mount-proc="$root/proc" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
        DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}

# in_root COMMAND...: in the clean root, without a network.
in_root() { enter_root "$PACKAGE_DIR/root" --net "$@"; }

# in_build_root COMMAND...: where the packages are built, without a network.
in_build_root() { enter_root "$PACKAGE_DIR/build" --net "$@"; }

# The steps: each is a function that prints the cause of a failure.

package_builds() {
    local place="$PACKAGE_DIR/build/build"
    tar x -C "$PACKAGE_DIR/build" -f "$(build_root_dir "$RELEASE")/root.tar" &&
        copy_project "$place/source" && cp -a "$(stock_headers_dir)" "$place/headers" &&
        cp -a "$(rdma_headers_dir)" "$place/rdma-headers" &&
        in_build_root sh -c 'cd /build/source && UNETMM_QEMU_HEADERS=/build/headers \
            UNETMM_RDMA_HEADERS=/build/rdma-headers dpkg-buildpackage -b -uc -us -j2'
}

package_lintian() {
    in_build_root sh -c 'lintian --allow-root --fail-on error,warning /build/*.changes'
}

# From a repository, whose key apt checks
package_installs() {
    local root="$PACKAGE_DIR/root" place="$PACKAGE_DIR/build/build"
    # shellcheck disable=SC2046 # words
    mkdir "$place/debs" && mv "$place"/*.deb "$place/debs/" &&
        in_build_root bash -c '. /build/source/scripts/unetmm_tools/build/all.sh
            make_repository /build/debs' &&
        tar x -C "$root" -f "$(package_root_dir "$RELEASE")/root.tar" &&
        cp -r "$place/debs" "$root$REPOSITORY_PLACE" &&
        cp "$root$REPOSITORY_PLACE/unetmm.sources" "$root/etc/apt/sources.list.d/" &&
        in_root apt-get -q -o Dir::Etc::sourcelist=sources.list.d/unetmm.sources \
            -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 update &&
        in_root apt-get -y -q --no-install-recommends -t "$(stock_release "$RELEASE")" \
            install $(package_names)
}

# The card is in Debian's QEMU, and without the wrapper's object it is not.
package_card() {
    in_root qemu-system-unetmm -device help | grep '"unetmm"' &&
        ! in_root qemu-system-x86_64 -device help | grep '"unetmm"'
}

# shellcheck disable=SC2016 # dpkg-query's own placeholder
package_version() {
    local version
    version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$REPO/meson.build")
    [ "$(in_root unetmm-info --version)" = "unetmm-info (unetmm) $version" ] &&
        [ "$(in_root pkg-config --modversion libunetmm)" = "$version" ] &&
        [ "$(in_root dpkg-query -W -f '${Version}' libunetmm0)" = "$version" ]
}

# A program of the library's examples, shared and static. Without a card it can
# but say so.
# shellcheck disable=SC2016 # for the shell in the root
package_compiles() {
    local said
    in_root sh -c 'cd /tmp && example=/usr/share/doc/libunetmm-dev/examples/hello.c &&
        gcc -Wall -Werror $example -o shared $(pkg-config --cflags --libs libunetmm) &&
        gcc -static $example -o static \
            $(pkg-config --static --cflags --libs libunetmm)' || return 1
    for program in shared static; do
        said=$(in_root "/tmp/$program" 2>&1) && return 1
        [[ $said == hello:* ]] || { echo "$program says: $said"; return 1; }
    done
}

package_python() {
    in_root python3 -c '
import unetmm, unetmm.aio
try:
    unetmm.Context()
except FileNotFoundError as error:
    assert isinstance(error, unetmm.Error) and error.strerror, error
else:
    raise SystemExit("there is a card")'
}

package_provider() {
    in_root apt-get -y -q --no-install-recommends install libfabric-bin &&
        in_root fi_info --env | grep -aq '^# FI_UNETMM_SOURCE: String'
}

# All symbols of the provider are there, and libibverbs loads it.  Without a device libibverbs loads
# none, so the device of a card is in a folder in place of sysfs: libibverbs lists a device if a
# provider takes it, and warns otherwise.
# shellcheck disable=SC2016 # for the shell in the root
package_verbs() {
    local abi said
    abi=$(sed -n 's/^#define UNETMM_VERBS_ABI\t//p' "$REPO/guest-driver/uapi/linux/unetmm_verbs.h")
    in_root python3 -c '
import ctypes, glob, os
path, = glob.glob("/usr/lib/*/libibverbs/libunetmm-rdmav34.so")
ctypes.CDLL(path, os.RTLD_NOW)' &&
        in_root apt-get -y -q --no-install-recommends install ibverbs-utils &&
        in_root sh -ec 'class=/srv/sys/class
            mkdir -p /dev/infiniband $class/infiniband_verbs/uverbs0 $class/infiniband/unetmm0/device
            touch /dev/infiniband/uverbs0
            cd $class/infiniband_verbs
            echo 6 >abi_version
            echo "$1" >uverbs0/abi_version
            echo unetmm0 >uverbs0/ibdev
            echo 231:192 >uverbs0/dev
            cd $class/infiniband/unetmm0
            echo "1: CA" >node_type
            echo 5254:0012:3456:789a >node_guid
            echo pci:v00001AF4d000010F0sv00001AF4sd00001100bc02sc00i00 >device/modalias' sh "$abi" || return 1
    said=$(in_root env SYSFS_PATH=/srv/sys ibv_devices 2>&1)
    echo "$said"
    [[ $said == *" unetmm0 "* && $said != *[Ww]arning* ]] || return 1
    echo "  ${PACKAGE_RELEASES[$RELEASE]}: libibverbs1" \
        "$(in_root dpkg-query -W -f '${Version}' libibverbs1) lists the card" >&3
}

# shellcheck disable=SC2016 # dpkg-query's own placeholder
package_dkms() {
    local kernel version
    version=$(in_root dpkg-query -W -f '${Version}' unetmm-dkms)
    kernel=$(in_root sh -c 'ls /lib/modules | tail -1')
    in_root dkms install -m unetmm -v "$version" -k "$kernel" &&
        in_root modinfo -k "$kernel" -F vermagic unetmm | grep -q "^$kernel " &&
        in_root modinfo -k "$kernel" -n unetmm | grep -q updates/dkms
}

# A user who is not root boots a guest, in a directory without the source; then once more,
# with all that the first call has made.  This step has the network.
package_boots() {
    local root="$PACKAGE_DIR/root" start count
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    in_root useradd -m user
    printf '#!/bin/sh\nunetmm-info\n' >"$root/home/user/look"
    for count in first second; do
        start=$SECONDS
        enter_root "$root" --ipc runuser -u user -- env HOME=/home/user \
            sh -c 'cd && unetmm-vm --run look' >"$PACKAGE_DIR/said" 2>&1
        grep '^/dev/unetmm0' "$PACKAGE_DIR/said" || { cat "$PACKAGE_DIR/said"; return 1; }
        sed -n 's/^  \(.*[0-9] s\)  done$/  \1/p' "$PACKAGE_DIR/said" >&3
        echo "  ${PACKAGE_RELEASES[$RELEASE]}: unetmm-vm, $count call: $((SECONDS - start)) s" >&3
    done
}

package_removes() {
    local left
    # shellcheck disable=SC2046 # words
    in_root apt-get -y -q purge $(package_names) || return 1
    left=$(find "$PACKAGE_DIR/root/usr" "$PACKAGE_DIR/root/lib/modules" \
        "$PACKAGE_DIR/root/etc" "$PACKAGE_DIR/root/var/lib/dkms" -name '*unetmm*' \
        ! -path '*/sources.list.d/*')
    [ -z "$left" ] || { echo "left behind: $left"; return 1; }
}

PACKAGE_STEPS=(builds lintian installs version card compiles python provider verbs dkms boots removes)

# check_release: all steps for $RELEASE; a step that fails ends them.
check_release() (
    setup_stock_headers
    setup_rdma_headers
    product "package-root-$RELEASE" "making a clean root of ${PACKAGE_RELEASES[$RELEASE]}" \
        "$(package_root_dir "$RELEASE")" make_package_root "$RELEASE"
    product "build-root-$RELEASE" "making a root with a compiler" \
        "$(build_root_dir "$RELEASE")" make_build_root "$RELEASE"
    use_product package-root "$(package_root_dir "$RELEASE")"
    use_product build-root "$(build_root_dir "$RELEASE")"
    PACKAGE_DIR=$(mktemp -d)
    mkdir "$PACKAGE_DIR/root" "$PACKAGE_DIR/build"
    trap 'rm -rf --one-file-system "$PACKAGE_DIR"' EXIT
    for step in "${PACKAGE_STEPS[@]}"; do
        number=$((number + 1))
        start=$SECONDS
        if "package_$step" 3>&2 >"$PACKAGE_DIR/log" 2>&1; then
            echo "ok $number - ${PACKAGE_RELEASES[$RELEASE]}: $step"
            note "  ${PACKAGE_RELEASES[$RELEASE]}: $step: $((SECONDS - start)) s"
        else
            tail -n 60 "$PACKAGE_DIR/log" | sed 's/^/# /'
            echo "not ok $number - ${PACKAGE_RELEASES[$RELEASE]}: $step"
            return 1
        fi
    done
)

# check_packages [RELEASE]...: all steps, as TAP.
check_packages() {
    local RELEASE number=0 releases=("$@") failed=0
    [ $# -gt 0 ] || releases=(bookworm trixie)
    echo "1..$((${#releases[@]} * ${#PACKAGE_STEPS[@]}))"
    for RELEASE in "${releases[@]}"; do
        if [ "$(id -u)" -ne 0 ]; then
            for step in "${PACKAGE_STEPS[@]}"; do
                number=$((number + 1))
                echo "ok $number - ${PACKAGE_RELEASES[$RELEASE]}: $step # SKIP a clean root needs root"
            done
            continue
        fi
        check_release || failed=1
        number=$((number + ${#PACKAGE_STEPS[@]}))
    done
    return $failed
}
