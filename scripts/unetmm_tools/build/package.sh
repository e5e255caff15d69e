# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Debian's packages (debian/): built of the project's files, and tried in a clean
# root, which is a system of Debian's own packages and nothing else.

# The packages of the root beside apt: a compiler and the kernel's headers.
PACKAGE_ROOT=(gcc libc6-dev make pkg-config linux-headers-amd64)
# The dependencies of our packages.  apt's cache in the root has them, so that the
# test needs no network.
PACKAGE_DEPENDS=(python3 python3-cffi-backend libjansson4 liblwip0 libxxhash0 dkms
    libfabric1 libfabric-bin)

package_root_dir() {
    echo "$CACHE/package-root/$(host_codename)-$(hash_text \
        "${PACKAGE_ROOT[@]}" "${PACKAGE_DEPENDS[@]}")"
}

# make_package_root DIR: DIR/root.tar.
make_package_root() {
    local include
    include=$(IFS=,; echo "${PACKAGE_ROOT[*]}")
    mmdebstrap --quiet --variant=apt --skip=cleanup/apt --include="$include" \
        --customize-hook="chroot \"\$1\" apt-get -y -q -d \
            --no-install-recommends install ${PACKAGE_DEPENDS[*]}" \
        "$(host_codename)" "$1/root.tar"
}

# build_packages DIR: copies the project's files and builds the packages in DIR.
build_packages() {
    local dir=$1
    mkdir -p "$dir/source" "$dir/bin"
    (cd "$REPO" && git ls-files -co --exclude-standard -z |
        while IFS= read -r -d '' file; do
            [ ! -e "$file" ] || printf '%s\0' "$file"
        done | tar c --null -T -) | tar x -C "$dir/source"
    # The meson that builds the project: debhelper calls it by its name.
    printf '#!/bin/sh\nexec %s "$@"\n' "$(meson_command)" >"$dir/bin/meson"
    chmod +x "$dir/bin/meson"
    # -d: that meson is not a package of this system.
    (cd "$dir/source" &&
        PATH="$dir/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
            dpkg-buildpackage -b -uc -us -d -j2)
}

# in_root COMMAND...: in the clean root, without the caller's environment, with a
# /proc of its own (DKMS needs one) and without a network.
in_root() {
    unshare --mount --pid --net --fork --mount-proc="$PACKAGE_DIR/root/proc" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
        DEBIAN_FRONTEND=noninteractive chroot "$PACKAGE_DIR/root" "$@"
}

# The steps: each is a function that prints the cause of a failure.

package_builds() { build_packages "$PACKAGE_DIR"; }

package_lintian() {
    lintian --allow-root --fail-on error,warning "$PACKAGE_DIR"/*.changes
}

package_installs() {
    tar x -C "$PACKAGE_DIR/root" -f "$(package_root_dir)/root.tar" &&
        cp "$PACKAGE_DIR"/*.deb "$PACKAGE_DIR/root/root/" &&
        rm -f "$PACKAGE_DIR"/root/root/*-dbgsym_* &&
        in_root sh -c 'apt-get -y -q --no-install-recommends \
            install /root/*.deb'
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

# shellcheck disable=SC2016 # dpkg-query's own placeholder
package_dkms() {
    local kernel version
    version=$(in_root dpkg-query -W -f '${Version}' unetmm-dkms)
    kernel=$(in_root sh -c 'ls /lib/modules | tail -1')
    in_root dkms install -m unetmm -v "$version" -k "$kernel" &&
        in_root modinfo -k "$kernel" -F vermagic unetmm | grep -q "^$kernel " &&
        in_root modinfo -k "$kernel" -n unetmm | grep -q updates/dkms
}

package_removes() {
    local left
    in_root apt-get -y -q purge libunetmm0 libunetmm-dev unetmm-tools \
        unetmm-dkms python3-unetmm libunetmm-fi || return 1
    left=$(find "$PACKAGE_DIR/root/usr" "$PACKAGE_DIR/root/lib/modules" \
        "$PACKAGE_DIR/root/etc" "$PACKAGE_DIR/root/var/lib/dkms" -name '*unetmm*')
    [ -z "$left" ] || { echo "left behind: $left"; return 1; }
}

# check_packages: all steps, as TAP; a step that fails ends them.
check_packages() (
    number=0
    steps=(builds lintian installs version compiles python provider dkms removes)
    echo "1..${#steps[@]}"
    if [ "$(id -u)" -ne 0 ]; then
        for step in "${steps[@]}"; do
            number=$((number + 1))
            echo "ok $number - $step # SKIP a clean root needs root"
        done
        return
    fi
    product package-root "making a clean root of Debian" \
        "$(package_root_dir)" make_package_root
    use_product package-root "$(package_root_dir)"
    PACKAGE_DIR=$(mktemp -d)
    mkdir "$PACKAGE_DIR/root"
    trap 'rm -rf "$PACKAGE_DIR"' EXIT
    for step in "${steps[@]}"; do
        number=$((number + 1))
        if "package_$step" >"$PACKAGE_DIR/log" 2>&1; then
            echo "ok $number - $step"
        else
            tail -n 60 "$PACKAGE_DIR/log" | sed 's/^/# /'
            echo "not ok $number - $step"
            return 1
        fi
    done
)
