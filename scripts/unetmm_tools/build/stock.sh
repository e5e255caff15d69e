# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The QEMU of the distribution, unpatched, and the card as a shared object for that
# QEMU.  The object needs QEMU's headers, which come from Debian's source package;
# docs/stock.rst has the rules.

# The one place that says which QEMU the object is for: its series of releases.
STOCK_SERIES=10.0

# The parts of QEMU's source that the object is compiled with.
STOCK_SOURCE=(VERSION COPYING include linux-headers host/include tcg/i386
    tcg/aarch64 qapi scripts/qapi scripts/qapi-gen.py scripts/tracetool
    scripts/tracetool.py 'hw/net/*.h' 'net/*.h' 'trace/*.h')

stock_arch() {
    case "$(uname -m)" in
        x86_64) echo x86 ;;
        aarch64) echo arm64 ;;
        *) die "the card's shared object is for x86-64 and arm64: use --qemu built" ;;
    esac
}

# stock_headers_dir: prints the directory of QEMU's headers.
stock_headers_dir() {
    local version
    version=$(pinned qemu qemu_source_version) ||
        die "Debian's archive has no source of QEMU $STOCK_SERIES: use --qemu built"
    echo "$CACHE/qemu-headers/$(hash_text "$version" "${STOCK_SOURCE[*]}")"
}

# get_stock_headers VERSION DIR
get_stock_headers() {
    local dir=$2 tarball pattern patterns=()
    (cd "$dir" && private_apt_get source --download-only "qemu=$1") ||
        die "cannot download the source of QEMU $1: run scripts/setup --update for a newer one"
    tarball=$(find "$dir" -maxdepth 1 -name 'qemu_*.orig.tar.*' ! -name '*.asc')
    for pattern in "${STOCK_SOURCE[@]}"; do
        patterns+=("*/$pattern")
    done
    tar -x -C "$dir" --strip-components=1 --no-same-owner --wildcards \
        --no-wildcards-match-slash -f "$tarball" "${patterns[@]}"
    rm -f "$dir"/qemu_*
    ln -s "asm-$(stock_arch)" "$dir/linux-headers/asm"
    "$(system_python)" "$dir/scripts/qapi-gen.py" --builtins \
        -o "$dir/generated/qapi" \
        "$dir/qapi/qapi-schema.json"
}

setup_stock_headers() {
    local dir
    [ -s "$CACHE/pin/qemu" ] || apt_ready
    dir=$(stock_headers_dir)
    product qemu-headers "getting QEMU's headers" "$dir" \
        get_stock_headers "$(cat "$CACHE/pin/qemu")"
}

# stock_module_dir: prints the directory of hw-net-unetmm.so.
stock_module_dir() {
    echo "$CACHE/stock/$(hash_text "$(stock_headers_dir)" "$(overlay_hash "$OVERLAY" "${QEMU_FILES[@]}")" \
        "$(hash_files "$REPO" hw/stock hw/meson.build hw/meson_options.txt)")"
}

# build_stock_module DIR
build_stock_module() {
    local dir=$1
    mkdir "$dir/hw" "$dir/hw/net"
    cp -r "$REPO/hw/stock" "$REPO"/hw/meson* "$dir/hw/"
    cp -r "$OVERLAY/hw/net/unetmm" "$dir/hw/net/"
    CC="$(compiler)" run_meson setup "$dir/build" "$dir/hw" \
        -Dqemu="$(stock_headers_dir)"
    ninja -C "$dir/build" -j "$(nproc)"
    cp "$dir/build/stock/hw-net-unetmm.so" "$dir/"
    rm -rf "$dir/build" "$dir/hw"
}

# stock_fits PROGRAM: is it a QEMU of the series?
stock_fits() {
    [ -x "$1" ] && "$1" --version 2>/dev/null |
        grep -qE "^QEMU emulator version ${STOCK_SERIES/./\\.}\\.[0-9]+ .*Debian"
}

# stock_release RELEASE: the suite of a release of Debian whose packages have a QEMU of the
# series.
stock_release() {
    case "$1" in
        bookworm) echo bookworm-backports ;;
        *) echo trixie ;;
    esac
}

stock_qemu_version() {
    private_apt_cache madison qemu-system-x86 |
        awk -F'|' '/Packages$/ {gsub(/ /, "", $2); print $2}' |
        grep -E "^[0-9]+:${STOCK_SERIES/./\\.}\\." | newest_version
}

# get_stock_qemu PACKAGE=VERSION DIR: QEMU and those libraries that the machine lacks,
# extracted, not installed.
get_stock_qemu() {
    local dir=$2 deb
    mkdir -p "$dir/debs/partial"
    private_apt_get -o Dir::State::status=/var/lib/dpkg/status \
        -o Debug::NoLocking=1 -o "Dir::Cache::archives=$dir/debs" \
        -t "$(stock_release "$(host_codename)")" -y --no-install-recommends --download-only \
        install "$1" ||
        die "cannot download $1: run scripts/setup --update for a newer one"
    for deb in "$dir"/debs/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --no-same-owner
    done
    rm -rf "$dir/debs"
}

# stock_qemu_dir PACKAGE: prints the directory of the extracted QEMU.
stock_qemu_dir() {
    local version
    version=$(pinned stock-qemu stock_qemu_version) ||
        die "Debian's archive has no QEMU $STOCK_SERIES for this release: use --qemu built"
    # The name goes into LD_LIBRARY_PATH, whose separator is a colon.  The other libraries are
    # those of the release.
    echo "$CACHE/stock-qemu/${1#qemu-system-}_$(host_codename)_${version//:/_}"
}

# stock_wrapper PROGRAM MODULE [ROOT]: prints the program that starts PROGRAM with
# the card.  With ROOT, PROGRAM is below it, with its libraries and its firmware.
stock_wrapper() {
    local arch lib
    arch="$(uname -m)-linux-gnu"
    lib="${3:-}/usr/lib/$arch"
    echo "#!/bin/sh"
    echo "# Starts the distribution's QEMU with the card."
    if [ -n "${3:-}" ]; then
        echo "export LD_LIBRARY_PATH='$lib:$3/lib/$arch' QEMU_MODULE_DIR='$lib/qemu'"
        echo "set -- -L '$3/usr/share/qemu' -L '$3/usr/share/seabios' -L /usr/share/qemu -L /usr/share/seabios -L /usr/lib/ipxe/qemu \"\$@\""
    fi
    echo "export LD_PRELOAD='$2'"
    echo "exec '$1' \"\$@\""
}

# find_stock_qemu PROGRAM PACKAGE: sets STOCK_PROGRAM, and STOCK_ROOT if it was extracted.
find_stock_qemu() {
    local version
    STOCK_PROGRAM=/usr/bin/$1 STOCK_ROOT=""
    ! stock_fits "$STOCK_PROGRAM" || return 0
    [ -s "$CACHE/pin/stock-qemu" ] || apt_ready
    STOCK_ROOT=$(stock_qemu_dir "$2")
    version=$(cat "$CACHE/pin/stock-qemu")
    product stock-qemu "getting Debian's $2 $version" "$STOCK_ROOT" \
        get_stock_qemu "$2=$version"
    STOCK_PROGRAM="$STOCK_ROOT/usr/bin/$1"
}

# setup_stock [arm64]: makes the object, and sets STOCK_OUT to the directory of it and of the
# program qemu-system-unetmm, whose guests are x86-64 or arm64.
setup_stock() {
    local module
    if installed; then
        [ $# -eq 0 ] || die "guests of arm64 need the project's sources: use scripts/vm there"
        STOCK_OUT=/usr/bin
        return
    fi
    setup_python
    setup_stock_headers
    module=$(stock_module_dir)
    product stock "building the card for Debian's QEMU" "$module" build_stock_module
    use_product stock "$module"
    if [ $# -gt 0 ]; then
        find_stock_qemu qemu-system-aarch64 qemu-system-arm
    else
        find_stock_qemu qemu-system-x86_64 qemu-system-x86
    fi
    STOCK_OUT="$CACHE/stock-bin/$(hash_text "$module" "$STOCK_PROGRAM")"
    mkdir -p "$STOCK_OUT"
    stock_wrapper "$STOCK_PROGRAM" "$module/hw-net-unetmm.so" "$STOCK_ROOT" \
        >"$STOCK_OUT/qemu-system-unetmm.$$"
    chmod +x "$STOCK_OUT/qemu-system-unetmm.$$"
    mv -f "$STOCK_OUT/qemu-system-unetmm.$$" "$STOCK_OUT/qemu-system-unetmm"
}
