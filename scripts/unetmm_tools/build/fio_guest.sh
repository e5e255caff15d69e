# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Debian's fio with its libraries, for the stage `ulps`: an archive of files that a guest gets by
# --overlay.

FIO_ENGINES=(libaio rdma)

# fio_packages: fio and its libraries.  Those of the compiler are this machine's, and Python's are
# not for the program.
fio_packages() {
    echo fio
    private_apt_cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances "fio=$(candidate fio)" |
        grep -E '^lib' | grep -vE '^lib(c6|c-|gcc|stdc|perl|python|pam)|-perl' | sort -u
}

# make_fio_overlay DIR: DIR/overlay is the archive.
make_fio_overlay() {
    local dir=$1 root="$1/root" debs="$1/files" engine packages
    mapfile -t packages < <(fio_packages)
    fetch_suite "$debs" "" "${packages[@]}"
    export LD_LIBRARY_PATH="$debs/$VERBS_LIB:$debs/lib/$HOST_TRIPLET:$debs/$VERBS_LIB/ceph"
    add_program "$root" "$debs/usr/bin/fio" usr/bin/fio
    # Newer versions of fio have files of engines.
    for engine in "${FIO_ENGINES[@]}"; do
        if [ -e "$debs/$VERBS_LIB/fio/fio-$engine.so" ]; then
            add_program "$root" "$debs/$VERBS_LIB/fio/fio-$engine.so" "$VERBS_LIB/fio/fio-$engine.so"
        fi
    done
    unset LD_LIBRARY_PATH
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root" "$debs"
}

fio_overlay_dir() {
    echo "$CACHE/fio-guest/$(hash_text "$(host_codename)" \
        "$(hash_files "$REPO" scripts/unetmm_tools/build/fio_guest.sh)")"
}

setup_fio_overlay() {
    apt_ready
    product fio-guest "packing fio for guests" "$(fio_overlay_dir)" make_fio_overlay
    use_product fio-guest "$(fio_overlay_dir)"
}
