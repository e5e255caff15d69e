# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# QEMU with the card in it: Debian's QEMU 10.0 source (or upstream's, or the
# user's tree), our few patches, and the card's sources laid over it. One build
# tree serves every checkout; a finished binary is copied to a directory named by
# the hash of its sources, so that no build
# replaces the binary of a running guest.

# The one place that says how QEMU is configured.
QEMU_CONFIGURE=(
    --target-list=x86_64-softmmu --without-default-features
    --enable-slirp --enable-kvm --enable-tcg --enable-plugins
    --enable-trace-backends=log
    --disable-docs --disable-install-blobs --disable-download
)
QEMU_CONFIGURE_ASAN=(--enable-asan --enable-ubsan)
# Every machine and device that the card does without is left out: with clang's
# instrumentation the whole would take a quarter of an hour.
QEMU_CONFIGURE_FUZZ=(
    --enable-fuzzing --enable-asan --disable-tcg --disable-plugins
    --without-default-devices --with-devices-x86_64=unetmm-fuzz
)

# Upstream's release, for machines without Debian's source packages. The sum is
# the one that several distributions build this release with.
QEMU_RELEASE=10.0.2
QEMU_RELEASE_SHA256=ef786f2398cb5184600f69aef4d5d691efd44576a3cff4126d38d4c6fec87759

# Where the card and its tests are; another tree can be built for a trial.
OVERLAY="${UNETMM_OVERLAY:-$REPO}"

qemu_source_version() {
    private_apt_cache showsrc --only-source qemu | sed -n 's/^Version: //p' |
        grep -E '^([0-9]+:)?10\.0\.[0-9]+' | grep -v bpo | newest_version
}

# qemu_options VARIANT: the arguments of configure, one per line.
qemu_options() {
    printf '%s\n' "${QEMU_CONFIGURE[@]}"
    case "$1" in
        asan) printf '%s\n' "${QEMU_CONFIGURE_ASAN[@]}" ;;
        fuzz) printf '%s\n' "${QEMU_CONFIGURE_FUZZ[@]}" ;;
    esac
}

# qemu_patches VARIANT: prints our patches, one path per line.
qemu_patches() {
    printf '%s\n' "$REPO"/scripts/patches/*.patch
    [ "$1" != fuzz ] || printf '%s\n' "$REPO"/scripts/patches/fuzz/*.patch
}

# apply_patches TREE [OPTION]...: those of $QEMU_VARIANT, and those that mend QEMU
# itself if they apply.
apply_patches() {
    local tree=$1 patch patches
    shift
    mapfile -t patches < <(qemu_patches "${QEMU_VARIANT:-}")
    for patch in "${patches[@]}"; do
        patch -d "$tree" -p1 --no-backup-if-mismatch "$@" <"$patch" ||
            die "$(basename "$patch") does not apply to $tree: use a QEMU 10.0 source tree"
    done
    for patch in "$REPO"/scripts/patches/mend/*.patch; do
        if patch -d "$tree" -p1 --dry-run -s -f "$@" <"$patch" >/dev/null; then
            patch -d "$tree" -p1 --no-backup-if-mismatch "$@" <"$patch"
        else
            note "this QEMU is left without $(basename "$patch"), which is about another version"
        fi
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

# qemu_origin: where the source comes from: tree, upstream or debian.
qemu_origin() {
    if [ -n "${QEMU_SRC:-}" ]; then
        echo tree
    elif [ -n "${QEMU_UPSTREAM:-}" ] || ! command -v apt-get >/dev/null; then
        echo upstream
    else
        echo debian
    fi
}

# qemu_release: prints "VERSION SHA256 URL" of upstream's tarball.
qemu_release() {
    local version=${QEMU_UPSTREAM:-$QEMU_RELEASE} sum=${QEMU_SHA256:-}
    [ "$version" != 1 ] || version=$QEMU_RELEASE
    [[ "$version" =~ ^10\.0\.[0-9]+$ ]] ||
        die "QEMU_UPSTREAM=$version is not a release of QEMU 10.0: use 1 for $QEMU_RELEASE, or 10.0.N"
    if [ -z "$sum" ]; then
        [ "$version" = "$QEMU_RELEASE" ] ||
            die "the checksum of QEMU $version is not known here: verify its signature and set QEMU_SHA256"
        sum=$QEMU_RELEASE_SHA256
    fi
    [[ "$sum" =~ ^[0-9a-f]{64}$ ]] ||
        die "QEMU_SHA256=$sum is not a SHA-256: use 64 digits of 0-9a-f"
    echo "$version $sum ${QEMU_URL:-https://download.qemu.org/qemu-$version.tar.xz}"
}

# qemu_from_release VERSION SHA256 URL DIR: nothing is unpacked unless the sum is
# right.
qemu_from_release() {
    local version=$1 sum=$2 url=$3 dir=$4 file="$4/qemu.tar.xz"
    curl -fL --retry 3 -o "$file" "$url" ||
        die "cannot download $url: set QEMU_URL to a mirror or a file:// of the same tarball, or QEMU_SRC to a QEMU 10.0 source tree"
    echo "$sum  $file" | sha256sum --check --quiet ||
        die "$url is not the QEMU $version that was expected: its SHA-256 is not $sum"
    mkdir "$dir/source"
    tar -xJf "$file" -C "$dir/source" --strip-components=1 --no-same-owner
    rm -f "$file"
    apply_patches "$dir/source"
}

# tree_state TREE: changes when the user's tree does.
tree_state() {
    cat "$1/VERSION"
    git -C "$1" rev-parse HEAD 2>/dev/null || true
    git -C "$1" diff HEAD 2>/dev/null || true
}

# qemu_tree [VARIANT]: prints the directory of the build tree.
qemu_tree() {
    local origin options patches
    mapfile -t options < <(qemu_options "${1:-}")
    mapfile -t patches < <(qemu_patches "${1:-}")
    case "$(qemu_origin)" in
        tree)
            [ -f "$QEMU_SRC/include/hw/qdev-core.h" ] ||
                die "QEMU_SRC=$QEMU_SRC is not a QEMU source tree: name a tree of QEMU 10.0"
            origin="$(realpath "$QEMU_SRC") $(tree_state "$QEMU_SRC" | sha256sum)" ;;
        upstream) origin=$(qemu_release) || exit ;;
        debian)
            origin=$(pinned qemu qemu_source_version) ||
                die "Debian's archive has no QEMU 10.0 source: set QEMU_UPSTREAM=1 for upstream's, or QEMU_SRC to a QEMU 10.0 source tree" ;;
    esac
    echo "$CACHE/qemu/$(hash_text "$origin" "${options[*]}" \
        "$(cat "${patches[@]}" "$REPO"/scripts/patches/mend/*.patch)")"
}

# The files that the programs are made of: of QEMU itself, and of the qtests, which
# have the card's headers
QEMU_FILES=("hw/net/unetmm/*")
QTEST_FILES=("hw/net/unetmm/*" "tests/qtest/unetmm*.[ch]")

# overlay_hash DIR FILES...: of files in DIR, which may be a checkout or a QEMU tree.
overlay_hash() {
    # shellcheck disable=SC2068 # patterns
    (cd "$1" && shift &&
        { find $@ -type f -print0 2>/dev/null || true; } | LC_ALL=C sort -z |
        xargs -0 -r sha256sum | sha256sum)
}

# out_of TREE DIR: prints the directory of QEMU built from a build tree and the card
# in DIR.
out_of() {
    echo "$CACHE/qemu-out/$(hash_text "$1" "$(overlay_hash "$2" "${QEMU_FILES[@]}")")"
}

# qtests_of TREE DIR: the same of the test programs.
qtests_of() {
    echo "$CACHE/qtests/$(hash_text "$1" "$(overlay_hash "$2" "${QTEST_FILES[@]}")")"
}

# qemu_out [VARIANT]: prints the directory of the finished programs.
qemu_out() { out_of "$(qemu_tree "${1:-}")" "$OVERLAY"; }

qemu_bin() { echo "$(qemu_out "${1:-}")/qemu-system-x86_64"; }

# qtest_programs: prints the test programs, one path per line; run each with
# QTEST_QEMU_BINARY set to qemu_bin.
qtest_programs() {
    find "$(qtests_of "$(qemu_tree)" "$OVERLAY")" -maxdepth 1 -name '*-test' -type f |
        LC_ALL=C sort
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
# --times, unchanged files keep their time and changed ones get a new one.
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

# configure_qemu TREE [VARIANT]: the stamp comes last, so that a configuration that
# was cut off is begun again.
configure_qemu() {
    local tree=$1 options cc
    mapfile -t options < <(qemu_options "${2:-}")
    cc=$(compiler)
    # libFuzzer is clang's.
    [ "${2:-}" != fuzz ] || cc=${cc/gcc/clang}
    rm -rf "$tree/build"
    mkdir "$tree/build"
    cd "$tree/build" || return
    ../source/configure "${options[@]}" --cc="$cc" \
        --python="$(build_python)"
    touch configured
}

# compile_qemu BUILD TARGET...
compile_qemu() {
    local build=$1
    shift
    # A reconfiguration, if ninja wants one, must see new files first.
    ninja -C "$build" -j "$(nproc)" build.ninja
    ninja -C "$build" -j "$(nproc)" "$@"
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

# copy_qemu OUT SOURCE PROGRAM...: OUT appears with all of them, and with the firmware
# of SOURCE unless that is empty.
copy_qemu() {
    local out=$1 source=$2
    shift 2
    [ ! -d "$out" ] || return 0
    rm -rf "$out.part"
    mkdir -p "$out.part"
    cp "$@" "$out.part/"
    [ -z "$source" ] || link_firmware "$source" "$out.part"
    mv -T "$out.part" "$out"
}

# setup_qemu_source TREE: from wherever it comes.
setup_qemu_source() {
    local release
    case "$(qemu_origin)" in
        tree)
            product "qemu-source" "copying QEMU's source" "$1" \
                qemu_from_tree "$QEMU_SRC" ;;
        upstream)
            read -r -a release <<<"$(qemu_release)"
            product "qemu-source" "getting QEMU ${release[0]}" "$1" \
                qemu_from_release "${release[@]}" ;;
        debian)
            product "qemu-source" "getting QEMU $(cat "$CACHE/pin/qemu")" "$1" \
                qemu_from_archive "$(cat "$CACHE/pin/qemu")" ;;
    esac
}

# ready_qemu: makes the things that qemu_tree needs for the name of the build tree.
ready_qemu() {
    [ -d "$OVERLAY/hw/net/unetmm" ] ||
        die "there is no hw/net/unetmm in $OVERLAY: run this from a whole checkout"
    setup_python
    [ "$(qemu_origin)" != debian ] || [ -s "$CACHE/pin/qemu" ] || apt_ready
}

# build_in_tree TREE VARIANT FUNCTION: in the configured tree, with our sources in it
# and the lock taken, calls FUNCTION TREE VARIANT.
build_in_tree() {
    local tree=$1 variant=$2 lock QEMU_VARIANT=$2
    setup_qemu_source "$tree"
    take_lock "$(basename "$tree")" lock
    sync_overlay "$tree/source"
    [ -e "$tree/build/configured" ] ||
        step qemu-configure "configuring QEMU${variant:+ ($variant)}" \
            configure_qemu "$tree" "$variant"
    "$3" "$tree" "$variant"
    drop_lock "$lock"
}

build_qemu() {
    local tree=$1 variant=$2 program=qemu-system-x86_64
    [ "$variant" != fuzz ] || program=qemu-fuzz-x86_64
    step qemu-build "building QEMU with the card${variant:+ ($variant)}" \
        compile_qemu "$tree/build" "$program"
    # Our sources may have been edited meanwhile: the name is that of the built ones.
    QEMU_OUT=$(out_of "$tree" "$tree/source")
    copy_qemu "$QEMU_OUT" "$tree/source" "$tree/build/$program"
    prune qemu-out
}

# setup_qemu [VARIANT]: makes it, and sets QEMU_OUT to the directory of the
# result. VARIANT is asan, the whole with the sanitizers, or fuzz, its fuzzer.
setup_qemu() {
    local variant=${1:-}
    ready_qemu
    QEMU_OUT=$(qemu_out "$variant")
    if [ -d "$QEMU_OUT" ]; then
        touch "$QEMU_OUT"
        return
    fi
    build_in_tree "$(qemu_tree "$variant")" "$variant" build_qemu
}

build_qtests() {
    local tree=$1 name programs=(tests/qtest/qos-test)
    while read -r name; do
        [ -z "$name" ] || programs+=("tests/qtest/$name")
    done <"$tree/source/tests/qtest/unetmm-programs.list"
    step qtests-build "building the card's qtests" \
        compile_qemu "$tree/build" "${programs[@]}"
    copy_qemu "$(qtests_of "$tree" "$tree/source")" "" \
        "${programs[@]/#/$tree/build/}"
    prune qtests
}

# setup_qtests: QEMU's test programs for the card; the emulator is setup_qemu's.
setup_qtests() {
    local tree out
    ready_qemu
    tree=$(qemu_tree)
    out=$(qtests_of "$tree" "$OVERLAY")
    if [ -d "$out" ]; then
        touch "$out"
        return
    fi
    build_in_tree "$tree" "" build_qtests
}

clang_in_tree() {
    ninja -C "$1/build" build.ninja >/dev/null
    ninja -C "$1/build" trace/trace-hw_net_unetmm.h >/dev/null
    "$LIB/../run" build.clang "$1/build" "$1/source"
}

# check_qemu_clang: clang has no warning about our files in QEMU.
check_qemu_clang() {
    ready_qemu
    build_in_tree "$(qemu_tree)" "" clang_in_tree
}

# release_sample DIR: a tarball of the files that our patches change, unpatched.
release_sample() {
    local dir=$1 source files=() file patch
    source="$(qemu_tree)/source"
    mapfile -t files < <(sed -n 's|^--- a/||p' "$REPO"/scripts/patches/*.patch |
        sort -u)
    for file in "${files[@]}"; do
        install -D "$source/$file" "$dir/qemu-10.0/$file"
    done
    for patch in "$REPO"/scripts/patches/*.patch; do
        patch -s -R -d "$dir/qemu-10.0" -p1 <"$patch"
    done
    tar -cJf "$dir/sample.tar.xz" -C "$dir" qemu-10.0
}

# check_qemu_release: a tarball with the right sum is unpacked and patched, one
# with a wrong sum is not touched, a release without a sum is refused.
check_qemu_release() (
    set -e
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    unset QEMU_SRC QEMU_UPSTREAM
    release_sample "$dir"
    sum=$(sha256sum <"$dir/sample.tar.xz" | cut -c1-64)
    export QEMU_URL="file://$dir/sample.tar.xz"
    mkdir "$dir/good" "$dir/bad"
    read -r -a release <<<"$(QEMU_UPSTREAM=10.0.99 QEMU_SHA256=$sum qemu_release)"
    qemu_from_release "${release[@]}" "$dir/good" >"$dir/log" 2>&1 ||
        { cat "$dir/log"; return 1; }
    grep -q unetmm "$dir/good/source/hw/net/meson.build"
    read -r -a release <<<"$(QEMU_UPSTREAM=1 qemu_release)"
    if (qemu_from_release "${release[@]}" "$dir/bad") >"$dir/log" 2>&1; then
        echo "a wrong sum was taken"
        return 1
    fi
    grep -q "is not the QEMU $QEMU_RELEASE that was expected" "$dir/log"
    [ ! -e "$dir/bad/source" ]
    for wrong in 10.0.3 9.2.0 10.0.2/../x; do
        if (QEMU_UPSTREAM=$wrong qemu_release) >"$dir/log" 2>&1; then
            echo "QEMU_UPSTREAM=$wrong was taken"
            return 1
        fi
    done
)
