# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# libfabric's own tests, for guests: libfabric and fabtests from one source package
# of Debian, and our provider compiled against the headers of that version. It is
# Debian 13's version on every host, so that the provider is tested with one newer
# than Debian 12's, and the results of all hosts are of the same tests.

FABTESTS_VERSION=2.1.0

# Only this target needs these.
PACKAGES_FABTESTS=(autoconf automake libtool)

# The programs of the list of tests/fabtests/run, and those to try things by hand
FABTESTS_PROGRAMS=(functional/fi_av_xfer functional/fi_cq_data functional/fi_rdm
    functional/fi_rdm_tagged_peek functional/fi_multi_ep functional/fi_recv_cancel
    functional/fi_unexpected_msg functional/fi_inject_test functional/fi_flood
    functional/fi_rdm_multi_client functional/fi_multi_recv functional/fi_msg
    functional/fi_msg_epoll functional/fi_msg_sockets functional/fi_cm_data
    functional/fi_shared_ctx functional/fi_multi_mr
    benchmarks/fi_rma_bw benchmarks/fi_rdm_cntr_pingpong
    benchmarks/fi_rdm_pingpong benchmarks/fi_rdm_tagged_pingpong
    benchmarks/fi_rdm_tagged_bw benchmarks/fi_rdm_bw benchmarks/fi_msg_pingpong
    benchmarks/fi_msg_bw)

fabtests_source_version() {
    private_apt_cache showsrc --only-source libfabric | sed -n 's/^Version: //p' |
        grep -E "^${FABTESTS_VERSION//./\\.}-" | newest_version
}

fabtests_dir() {
    echo "$CACHE/fabtests/$FABTESTS_VERSION-$(hash_text \
        "$(hash_files "$REPO" scripts/unetmm_tools/build/fabtests.sh)")"
}

# get_fabtests_source VERSION DIR
get_fabtests_source() {
    local dir=$2
    (cd "$dir" && private_apt_get source --download-only --tar-only \
        "libfabric=$1") ||
        die "cannot download libfabric $1's source: run scripts/setup --update for newer package lists"
    mkdir "$dir/source"
    tar -xJf "$dir"/libfabric_*.orig.tar.xz -C "$dir/source" --strip-components=1 \
        --no-same-owner
    rm -f "$dir"/libfabric_*
}

# make_fabtests VERSION DIR: DIR/usr is libfabric, DIR/tests the programs and lists.
make_fabtests() {
    local dir=$2 lib="$2/usr/lib/$HOST_TRIPLET" tests
    get_fabtests_source "$1" "$dir"
    (cd "$dir/source" && ./autogen.sh &&
        ./configure --quiet --enable-only --enable-rxm --enable-tcp --prefix=/usr \
            --libdir="/usr/lib/$HOST_TRIPLET" CC="$(compiler)" CFLAGS="-O1 -w" &&
        make -j "$(nproc)" && make install DESTDIR="$dir")
    tests="$dir/source/fabtests"
    (cd "$tests" && ./autogen.sh &&
        ./configure --quiet --prefix=/usr CC="$(compiler)" \
            CFLAGS="-O1 -w -I$dir/usr/include" LDFLAGS="-L$lib" LIBS="-lfabric" &&
        make -j "$(nproc)" "${FABTESTS_PROGRAMS[@]}")
    mkdir "$dir/tests"
    for program in "${FABTESTS_PROGRAMS[@]}"; do
        "$tests/libtool" --mode=install cp "$tests/$program" "$dir/tests/"
    done
    cp "$tests/scripts/runfabtests.sh" "$tests/test_configs/ofi_rxm/ofi_rxm.exclude" \
        "$dir/tests/"
    rm -rf "$dir/source"
}

fabtests_overlay_dir() {
    echo "$CACHE/fabtests-guest/$(hash_text "$(fabtests_dir)" "$(provider_hash)")"
}

# make_fabtests_overlay DIR: DIR/overlay is an archive of files to add.
make_fabtests_overlay() {
    local dir=$1 root="$1/root" base file
    base=$(fabtests_dir)
    mkdir -p "$root"
    compile_provider "$base/usr/include" "$root"
    export LD_LIBRARY_PATH="$base/usr/lib/$HOST_TRIPLET"
    for file in "$base"/tests/fi_* "$base/usr/bin/fi_info" \
        "$base/usr/bin/fi_pingpong"; do
        add_program "$root" "$file" "usr/bin/$(basename "$file")"
    done
    unset LD_LIBRARY_PATH
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root"
    cp "$base/tests/runfabtests.sh" "$base/tests/ofi_rxm.exclude" "$dir/"
}

setup_fabtests() {
    local version dir PACKAGES=("${PACKAGES[@]}" "${PACKAGES_FABTESTS[@]}")
    setup_packages
    setup_guest
    [ -s "$CACHE/pin/libfabric-$FABTESTS_VERSION" ] || apt_ready
    version=$(pinned "libfabric-$FABTESTS_VERSION" fabtests_source_version) ||
        die "Debian's archive has no source of libfabric $FABTESTS_VERSION: run scripts/setup --update"
    dir=$(fabtests_dir)
    product fabtests "building libfabric $FABTESTS_VERSION and its tests" "$dir" \
        make_fabtests "$version"
    use_product fabtests "$dir"
    dir=$(fabtests_overlay_dir)
    product fabtests-guest "packing libfabric's tests for the guests" "$dir" \
        make_fabtests_overlay
    use_product fabtests-guest "$dir"
}
