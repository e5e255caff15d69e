# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The guests' whole file system: busybox, our programs and module, the drivers
# of the cards that we compare with, and tests/guest/init.

# Debian's modules that a guest may load, with their dependencies.
GUEST_MODULES=(e1000e igb virtio_pci virtio_net virtio_blk virtio_console zram
    lzo-rle crc32c_generic ext4 nd_e820 nd_pmem dax_pmem device_dax 8021q fuse
    qemu_fw_cfg 9p 9pnet_virtio)

# Programs of the host's packages, but for those that an installation lacks
GUEST_TOOLS=(iperf3 sockperf ethtool devlink)

initramfs_inputs() {
    local source target tool
    echo "$(kernel_dir "$1") $(driver_dir "$1") ${GUEST_MODULES[*]}"
    cat "$REPO/tests/guest/init" "${BASH_SOURCE[0]}"
    while read -r source target; do
        echo "$target"
        sha256sum <"$source"
    done < <(guest_programs | LC_ALL=C sort)
    { find "$(guest_build)" -maxdepth 3 -name '*.so.*' -type f -print0 2>/dev/null || true; } |
        xargs -0 -r sha256sum
    for tool in "${GUEST_TOOLS[@]}" busybox; do
        stat -L -c '%n %s %Y' "$(command -v "$tool")" 2>/dev/null || true
    done
    guest_libraries | xargs -r stat -L -c '%n %s %Y'
}

# needed_files PROGRAM...: prints the paths of libraries and of the loader.
needed_files() {
    { ldd "$@" 2>/dev/null || true; } |
        sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) .*/\1/p'
}

# guest_libraries: prints this machine's libraries that the guest gets, but for those of tests,
# which are the tools' or of the same packages.
guest_libraries() {
    local programs
    mapfile -t programs < <(guest_programs | sed -n 's#^\([^ ]*\) usr/bin/.*#\1#p'
        command -v "${GUEST_TOOLS[@]}" || true)
    needed_files "${programs[@]}" | LC_ALL=C sort -u
}

# initramfs_file KERNEL: prints the path of the archive.
initramfs_file() {
    local GUEST_ARCH
    GUEST_ARCH=$(kernel_arch "$1")
    echo "$CACHE/initramfs/$1-$(initramfs_inputs "$1" | sha256sum |
        cut -c1-16)/initrd"
}

# strip_paths FILE...: removes all that depends on the place of its build: debugging
# information, names of object files, and the hash of those.
strip_paths() {
    "${GUEST_ARCH:+$(cross_triplet "$GUEST_ARCH")-}strip" --strip-debug --remove-section=.note.gnu.build-id "$@"
}

# add_file SOURCE TARGET: an executable file; those of our build are stripped.
add_file() {
    install -D -m 755 "$1" "$2"
    case "$(readlink -f "$1")" in
        "$(readlink -f "$CACHE")"/guest/*) strip_paths "$2" ;;
    esac
}

# add_program ROOT SOURCE TARGET: the file and the libraries it needs. Those go
# where the loader looks by default; programs find them without an rpath.
add_program() {
    local root=$1 source=$2 target=$3 library
    add_file "$source" "$root/$target"
    needed_files "$source" |
        while read -r library; do
            case "$library" in
                */ld-linux*) target=$HOST_LOADER ;;
                *) target=usr/lib/$HOST_TRIPLET/$(basename "$library") ;;
            esac
            [ -e "$root/$target" ] ||
                add_file "$(readlink -f "$library")" "$root/$target"
        done
}

# add_module ROOT FILE TARGET: uncompressed, as busybox's modprobe wants it.
add_module() {
    local target="$1/${3%.?z*}"
    mkdir -p "$(dirname "$target")"
    case "$2" in
        *.xz) xz -dc "$2" >"$target" ;;
        *.zst) zstd -qdc "$2" >"$target" ;;
        *) cp "$2" "$target" ;;
    esac
}

# add_modules ROOT KERNEL_DIR: the named modules and, by modules.dep, theirs.
add_modules() {
    local root=$1 dir=$2 release base name files file
    release=$(cat "$dir/release")
    base="lib/modules/$release"
    mkdir -p "$root/$base"
    [ -d "$dir/$base" ] || return 0
    cp "$dir/$base"/modules.{builtin,order} "$root/$base/" 2>/dev/null || true
    for name in "${GUEST_MODULES[@]}"; do
        # A module's file may be spelt with the other kind of dash; one that is
        # not there is built into the kernel.
        files=$(grep -E "/${name//[-_]/[-_]}\.ko[^:]*:" \
            "$dir/$base/modules.dep" | tr -d ':' || true)
        for file in $files; do
            add_module "$root" "$dir/$base/$file" "$base/$file"
        done
    done
}

# make_root KERNEL ROOT
make_root() {
    local root=$2 dir release source target tool
    dir=$(kernel_dir "$1")
    release=$(cat "$dir/release")
    mkdir -p "$root"/{dev,proc,sys,tmp,root,etc,lib64,tests} \
        "$root"/usr/{bin,sbin,lib}
    ln -s usr/bin "$root/bin"
    ln -s usr/sbin "$root/sbin"
    ln -s usr/lib "$root/lib"
    if [ -n "$GUEST_ARCH" ]; then
        # Debian 13 has it below /usr.
        install -m 755 "$(find "$(cross_root "$GUEST_ARCH")" -path '*/bin/busybox')" "$root/usr/bin/busybox"
        add_cross_libraries "$GUEST_ARCH" "$root"
    else
        install -m 755 "$(command -v busybox)" "$root/usr/bin/busybox"
    fi
    for tool in $(busybox --list); do
        [ -e "$root/usr/bin/$tool" ] || ln -s busybox "$root/usr/bin/$tool"
    done
    # Real programs replace busybox's of the same name.
    for tool in "${GUEST_TOOLS[@]}"; do
        [ -z "$GUEST_ARCH" ] || break
        ! installed || command -v "$tool" >/dev/null || continue
        rm -f "$root/usr/bin/$tool"
        add_program "$root" "$(command -v "$tool")" "usr/bin/$tool"
    done
    guest_programs | while read -r source target; do
        add_program "$root" "$source" "$target"
    done
    add_modules "$root" "$dir"
    install -D -m 644 "$(driver_dir "$1")/unetmm.ko" \
        "$root/lib/modules/$release/extra/unetmm.ko"
    # A debugger reads the types and lines from the file in the driver's build;
    # every boot would have to unpack them.
    strip_paths "$root/lib/modules/$release/extra/unetmm.ko"
    depmod -b "$root" "$release"
    install -m 755 "$REPO/tests/guest/init" "$root/init"
    echo 'root::0:0:root:/root:/bin/sh' >"$root/etc/passwd"
}

# make_initramfs KERNEL DIR
make_initramfs() {
    local dir=$2
    make_root "$1" "$dir/root"
    # The same bytes whenever and wherever it is packed
    find "$dir/root" -exec touch --no-dereference --date=@0 {} +
    # Uncompressed: an emulated CPU would spend more on unpacking it than the
    # host's disk cache spends on reading it.
    (cd "$dir/root" && find . -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/initrd"
    rm -rf "$dir/root"
}

setup_initramfs() {
    local dir GUEST_ARCH
    GUEST_ARCH=$(kernel_arch "$1")
    [ -z "$GUEST_ARCH" ] || setup_cross_root "$GUEST_ARCH"
    setup_driver "$1"
    setup_guest
    dir=$(dirname "$(initramfs_file "$1")")
    product "initramfs-$1" "packing the guest for Linux $1" "$dir" \
        make_initramfs "$1"
    use_product initramfs "$dir"
}
