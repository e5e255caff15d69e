# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# QEMU with the card in it: Debian's QEMU 10.0 source, our few patches, and the
# card's sources laid over it. One build tree serves every checkout; a finished
# binary is copied to a directory named by what it was made of, so that no build
# replaces the binary of a running guest.

# The one place that says how QEMU is configured.
QEMU_CONFIGURE=(
    --target-list=x86_64-softmmu --without-default-features
    --enable-slirp --enable-kvm --enable-tcg --enable-plugins
    --enable-trace-backends=log
    --disable-docs --disable-install-blobs --disable-download
)
QEMU_CONFIGURE_ASAN=(--enable-asan --enable-ubsan)

# Where the card and its tests are; another tree can be built for a trial.
OVERLAY="${UNETMM_OVERLAY:-$REPO}"

qemu_source_version() {
    private_apt_cache showsrc --only-source qemu | sed -n 's/^Version: //p' |
        grep -E '^([0-9]+:)?10\.0\.[0-9]+' | grep -v bpo | newest_version
}

apply_patches() {
    local tree=$1 patch
    shift
    for patch in "$REPO"/scripts/patches/*.patch; do
        patch -d "$tree" -p1 --no-backup-if-mismatch "$@" <"$patch" ||
            die "$(basename "$patch") does not apply to $tree: use a QEMU 10.0 source tree"
    done
}

# qemu_from_archive VERSION DIR
qemu_from_archive() {
    local version=$1 dir=$2
    (cd "$dir" && private_apt_get source --download-only "qemu=$version") ||
        die "cannot download QEMU $version: run scripts/setup --update for a newer one, or set QEMU_SRC to a QEMU 10.0 source tree"
    # Debian's own patches are needed too: its tarball lacks some firmware that
    # upstream's build files expect.
    dpkg-source --no-check -x "$dir"/qemu_*.dsc "$dir/source"
    rm -f "$dir"/qemu_*
    apply_patches "$dir/source" --fuzz=0
}

# qemu_from_tree TREE DIR: a copy, so that the user's tree stays as it is.
qemu_from_tree() {
    local tree=$1 dir=$2
    rsync -a --exclude=/.git --exclude='/build*' "$tree/" "$dir/source/"
    apply_patches "$dir/source"
}

# tree_state TREE: changes when the user's tree does.
tree_state() {
    cat "$1/VERSION"
    git -C "$1" rev-parse HEAD 2>/dev/null || true
    git -C "$1" diff HEAD 2>/dev/null || true
}

# qemu_tree [asan]: prints the directory of the build tree.
qemu_tree() {
    local origin options=("${QEMU_CONFIGURE[@]}")
    [ "${1:-}" != asan ] || options+=("${QEMU_CONFIGURE_ASAN[@]}")
    if [ -n "${QEMU_SRC:-}" ]; then
        [ -f "$QEMU_SRC/include/hw/qdev-core.h" ] ||
            die "QEMU_SRC=$QEMU_SRC is no QEMU source tree: name one of QEMU 10.0"
        origin="$(realpath "$QEMU_SRC") $(tree_state "$QEMU_SRC" | sha256sum)"
    else
        origin=$(pinned qemu qemu_source_version) ||
            die "Debian's archive has no QEMU 10.0 source: set QEMU_SRC to a QEMU 10.0 source tree"
    fi
    echo "$CACHE/qemu/$(hash_text "$origin" "${options[*]}" \
        "$(cat "$REPO"/scripts/patches/*.patch)")"
}

# overlay_hash DIR: of the card and its tests in DIR, which may be a checkout or
# a QEMU tree.
overlay_hash() {
    (cd "$1" &&
        { find hw/net/unetmm/* tests/qtest/unetmm*.[ch] -type f -print0 \
            2>/dev/null || true; } | LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum)
}

# qemu_out [asan]: prints the directory of the finished programs.
qemu_out() {
    local tree
    tree=$(qemu_tree "${1:-}")
    echo "$CACHE/qemu-out/$(hash_text "$tree" "$(overlay_hash "$OVERLAY")")"
}

qemu_bin() { echo "$(qemu_out "${1:-}")/qemu-system-x86_64"; }

# qtest_programs [asan]: prints the test programs, one path per line; run each
# with QTEST_QEMU_BINARY set to qemu_bin.
qtest_programs() {
    local out
    out=$(qemu_out "${1:-}")
    find "$out" -maxdepth 1 -name '*-test' -type f | LC_ALL=C sort
}

# write_list FILE NAME...: leaves an unchanged file alone, for ninja's sake.
write_list() {
    local file=$1
    shift
    printf '%s\n' "$@" >"$file.part"
    if cmp -s "$file.part" "$file"; then
        rm -f "$file.part"
    else
        mv -f "$file.part" "$file"
    fi
}

# sync_overlay SOURCE: makes the tree's copy of the card equal to ours. Without
# --times, what is unchanged keeps its time and what is changed gets a new one.
sync_overlay() {
    local source=$1 file qos=() programs=()
    mkdir -p "$source/hw/net/unetmm"
    rsync -rc --delete "$OVERLAY/hw/net/unetmm/" "$source/hw/net/unetmm/"
    [ ! -d "$OVERLAY/tests/qtest" ] ||
        rsync -rc --delete --include='unetmm*.[ch]' --exclude='*' \
            "$OVERLAY/tests/qtest/" "$source/tests/qtest/"
    for file in "$source"/tests/qtest/unetmm*.c; do
        [ -e "$file" ] || continue
        # A file with a main() is a program; qos-test has its own.
        if grep -qE '^int main\(' "$file"; then
            programs+=("$(basename "$file" .c)")
        else
            qos+=("$(basename "$file")")
        fi
    done
    write_list "$source/tests/qtest/unetmm-qos.list" "${qos[@]}"
    write_list "$source/tests/qtest/unetmm-programs.list" "${programs[@]}"
}

# configure_qemu TREE [asan]: the stamp comes last, so that a configuration that
# was cut off is begun again.
configure_qemu() {
    local tree=$1 options=("${QEMU_CONFIGURE[@]}")
    [ "${2:-}" != asan ] || options+=("${QEMU_CONFIGURE_ASAN[@]}")
    rm -rf "$tree/build"
    mkdir "$tree/build"
    cd "$tree/build" || return
    ../source/configure "${options[@]}" --cc="$(compiler)" \
        --python="$(build_python)"
    touch configured
}

compile_qemu() {
    local build=$1 name targets=(qemu-system-x86_64 tests/qtest/qos-test)
    # A reconfiguration, if ninja wants one, must see new files first.
    while read -r name; do
        [ -z "$name" ] || targets+=("tests/qtest/$name")
    done <"$build/../source/tests/qtest/unetmm-programs.list"
    ninja -C "$build" -j "$(nproc)" build.ninja
    ninja -C "$build" -j "$(nproc)" "${targets[@]}"
}

# link_firmware TREE OUT: QEMU looks for its firmware in a directory beside the
# program; with it, the plain command line and the qtests work without -L.
link_firmware() {
    local source=$1 bundle="$2/qemu-bundle/usr/local/share/qemu" dir
    mkdir -p "$bundle"
    # Debian keeps it in packages of its own; upstream's source tree carries it.
    for dir in "$source/pc-bios" /usr/lib/ipxe/qemu \
        /usr/share/qemu /usr/share/seabios; do
        [ ! -d "$dir" ] ||
            find "$dir" -maxdepth 1 -xtype f \( -name '*.bin' -o -name '*.rom' \) \
                -exec ln -sf -t "$bundle" {} +
    done
    [ -e "$bundle/bios-256k.bin" ] ||
        die "there is no SeaBIOS on this machine: install the packages seabios, ipxe-qemu and qemu-system-data"
}

# copy_qemu BUILD OUT
copy_qemu() {
    local build=$1 out=$2 name
    rm -rf "$out.part"
    mkdir -p "$out.part"
    cp "$build/qemu-system-x86_64" "$build/tests/qtest/qos-test" "$out.part/"
    while read -r name; do
        [ -z "$name" ] || cp "$build/tests/qtest/$name" "$out.part/"
    done <"$build/../source/tests/qtest/unetmm-programs.list"
    link_firmware "$build/../source" "$out.part"
    mv -T "$out.part" "$out"
}

# setup_qemu [asan]: makes it, and sets QEMU_OUT to the directory of the result.
setup_qemu() {
    local variant=${1:-} tree out lock
    [ -d "$OVERLAY/hw/net/unetmm" ] ||
        die "there is no hw/net/unetmm in $OVERLAY: run this from a whole checkout"
    setup_python
    [ -n "${QEMU_SRC:-}" ] || [ -s "$CACHE/pin/qemu" ] || apt_ready
    tree=$(qemu_tree "$variant")
    out=$(qemu_out "$variant")
    if [ -d "$out" ]; then
        touch "$out"
        QEMU_OUT=$out
        return
    fi
    if [ -n "${QEMU_SRC:-}" ]; then
        product "qemu-source" "copying QEMU's source" "$tree" \
            qemu_from_tree "$QEMU_SRC"
    else
        product "qemu-source" "getting QEMU $(cat "$CACHE/pin/qemu")" "$tree" \
            qemu_from_archive "$(cat "$CACHE/pin/qemu")"
    fi
    take_lock "$(basename "$tree")" lock
    sync_overlay "$tree/source"
    [ -e "$tree/build/configured" ] ||
        step qemu-configure "configuring QEMU${variant:+ ($variant)}" \
            configure_qemu "$tree" "$variant"
    step qemu-build "building QEMU with the card${variant:+ ($variant)}" \
        compile_qemu "$tree/build"
    # Our sources may have been edited meanwhile; what counts is what was built.
    out="$CACHE/qemu-out/$(hash_text "$tree" "$(overlay_hash "$tree/source")")"
    mkdir -p "$CACHE/qemu-out"
    [ -d "$out" ] || copy_qemu "$tree/build" "$out"
    # shellcheck disable=SC2034 # for the caller
    QEMU_OUT=$out
    prune qemu-out
    drop_lock "$lock"
}
