# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The guests of scripts/cluster: Debian's OpenMPI with libfabric, hpcc, a remote
# shell, a file server for the shared folder, our provider, and the programs of
# tests/mpi: an archive of files that is added to the guest's file system. Debian's
# packages are downloaded, not installed. OpenMPI 4 is Debian 12's, and OpenMPI 5
# Debian 13's, on each host.

# With both
MPI_PACKAGES=(openmpi-bin openmpi-common libopenmpi-dev hpcc libevent-core-2.1-7
    libevent-pthreads-2.1-7 libhwloc15 libfabric1 libfabric-dev libfabric-bin
    ibverbs-providers libpsm2-2 librdmacm1 libibverbs1 libnuma1 libatomic1 libnl-3-200
    libnl-route-3-200 libblas3 libgfortran5 libquadmath0 libmunge2 libucx0 dropbear-bin
    libtomcrypt1 libtommath1)
MPI4_PACKAGES=(libopenmpi3 libpmix2 libpsm-infinipath1 libltdl7)
# Its programs need a newer C library than a host with Debian 12 has. Programs of the
# host run with it, too.
MPI5_PACKAGES=(libopenmpi40 libpmix2t64 libc6 libgcc-s1 libstdc++6 libcrypt1 zlib1g
    libudev1 libgmp10 libcap2)
# Debian 13's other names of MPI_PACKAGES
MPI5_T64='^(libevent-.*|librdmacm1)$'

# The shared folder's server runs on the host, with Debian 12's libraries.
DIOD_PACKAGES=(diod liblua5.1-0 libwrap0 libmunge2 libcap2 libncurses6 libtinfo6)

# Parts of OpenMPI for hardware and batch systems that no guest has
MPI_LEAVE_OUT=(mca_atomic_* mca_*psm* mca_btl_openib mca_*slurm* mca_*jsm* mca_*flux*
    mca_*gridengine* mca_memheap_* mca_spml_* mca_sshmem_* mca_scoll_*)

MPI_PROGRAMS=(pingpong collective onesided sort truncate)

MPI_LIB=usr/lib/$HOST_TRIPLET

# In the order in which insmod can take them; a kernel may have some built in.
SHARE_MODULES=(netfs fscache 9pnet 9pnet_fd 9p)

# mpi_suite VERSION: the release of Debian that has this OpenMPI.
mpi_suite() {
    case "$1" in
        4) echo bookworm ;;
        5) echo trixie ;;
    esac
}

# mpi_packages VERSION
mpi_packages() {
    case "$1" in
        4) printf '%s\n' "${MPI_PACKAGES[@]}" "${MPI4_PACKAGES[@]}" ;;
        5) printf '%s\n' "${MPI_PACKAGES[@]}" | sed -E "s/$MPI5_T64/\\1t64/"
            printf '%s\n' "${MPI5_PACKAGES[@]}" ;;
    esac
}

# mpi_debs_dir VERSION
mpi_debs_dir() {
    echo "$CACHE/mpi-debs/$(mpi_suite "$1")-$(hash_text "$(mpi_packages "$1")")"
}

# make_mpi_debs VERSION DIR
make_mpi_debs() {
    local packages
    mapfile -t packages < <(mpi_packages "$1")
    fetch_suite "$2" "$(mpi_suite "$1")" "${packages[@]}"
    # A package that is installed has this name by Debian's alternatives.
    [ "$1" != 4 ] || ln -s ../libpsm1/libpsm_infinipath.so.1.16 \
        "$2/$MPI_LIB/libpsm_infinipath.so.1"
}

diod_dir() {
    echo "$CACHE/diod/$(hash_text "${DIOD_PACKAGES[*]}")"
}

make_diod() {
    fetch_suite "$1" bookworm "${DIOD_PACKAGES[@]}"
}

# mpi_loader DEBS WORD...: runs the loader of programs that is in the packages or, if
# there is none, the host's.
mpi_loader() {
    local debs=$1 dir="$1/$MPI_LIB" loader="$1/usr/$HOST_LOADER"
    shift
    [ -e "$loader" ] || loader="/$HOST_LOADER"
    "$loader" --library-path \
        "$dir:$debs/lib/$HOST_TRIPLET:$dir/blas:$dir/openmpi/lib:$dir/pmix2/lib" "$@"
}

# mpi_compile DEBS ROOT: the programs of tests/mpi. The libraries may need a newer C
# library than the host's, which the linker would miss.
mpi_compile() {
    local debs=$1 root=$2 name
    for name in "${MPI_PROGRAMS[@]}"; do
        gcc -std=gnu11 -O2 -Wall -Wextra -Werror \
            -I"$debs/$MPI_LIB/openmpi/include" "$REPO/tests/mpi/$name.c" \
            "$REPO/tests/mpi/common.c" -o "$root/usr/bin/mpi-$name" \
            -L"$debs/$MPI_LIB/openmpi/lib" -L"$debs/$MPI_LIB" -lmpi \
            -Wl,--allow-shlib-undefined ||
            die "tests/mpi/$name.c does not compile"
    done
}

# mpi_plugins DEBS ROOT: those of OpenMPI 4 and of PMIx, which open them by name.
mpi_plugins() {
    local debs=$1 root=$2 name plugins=$MPI_LIB/openmpi/lib/openmpi3
    mkdir -p "$root/$MPI_LIB/pmix2/lib"
    cp -r "$debs/$MPI_LIB/pmix2/lib/pmix" "$root/$MPI_LIB/pmix2/lib/"
    [ -d "$debs/$plugins" ] || return 0
    mkdir -p "$root/$plugins"
    cp "$debs/$plugins"/*.so "$root/$plugins/"
    for name in "${MPI_LEAVE_OUT[@]}"; do
        # shellcheck disable=SC2086 # a pattern
        rm -f "$root/$plugins"/$name.so
    done
}

# mpi_launcher DEBS ROOT: orterun of OpenMPI 4, or prterun of OpenMPI 5, which a program
# mpirun starts.
mpi_launcher() {
    local debs=$1 root=$2
    if [ -e "$debs/usr/bin/prterun" ]; then
        install -m 755 "$debs"/usr/bin/{prterun,prted} "$root/usr/bin/"
        install -m 755 "$debs/usr/bin/mpirun.openmpi" "$root/usr/bin/mpirun"
    else
        install -m 755 "$debs"/usr/bin/{orterun,orted} "$root/usr/bin/"
        ln -s orterun "$root/usr/bin/mpirun"
    fi
    ln -s mpirun "$root/usr/bin/mpiexec"
}

# mpi_openmpi DEBS ROOT
mpi_openmpi() {
    local debs=$1 root=$2 help
    install -m 755 "$debs"/usr/bin/{ompi_info,hpcc,dbclient,fi_info,fi_pingpong} \
        "$root/usr/bin/"
    mpi_launcher "$debs" "$root"
    mpi_plugins "$debs" "$root"
    for help in "$debs"/usr/share/{openmpi,prte} "$debs/$MPI_LIB/pmix2/share/pmix"; do
        [ -d "$help" ] || continue
        mkdir -p "$root/${help#"$debs"}"
        cp "$help"/help-*.txt "$root/${help#"$debs"}/"
    done
    cp -r "$debs/etc/openmpi" "$root/etc/"
    cp "$debs/usr/share/doc/hpcc/examples/_hpccinf.txt" "$root/etc/hpccinf.txt"
}

# mpi_ucx DEBS ROOT: UCX's transports, which it opens by name.
mpi_ucx() {
    local file
    for file in "$1/$MPI_LIB"/ucx/*.so.0; do
        install -D -m 755 "$file" "$2/$MPI_LIB/ucx/${file##*/}"
    done
}

# mpi_shell DEBS ROOT: dropbear, with one key for all guests of this machine. Its
# client takes a comment behind a known key for a part of the key.
mpi_shell() {
    local debs=$1 root=$2 key="$2/root/.ssh/id_dropbear"
    install -D -m 755 "$debs/usr/sbin/dropbear" "$root/usr/sbin/dropbear"
    mkdir -p "$root/root/.ssh" "$root/etc/dropbear"
    chmod 700 "$root/root/.ssh"
    mpi_loader "$debs" "$debs/usr/bin/dropbearkey" -t ed25519 -f "$key"
    cp "$key" "$root/etc/dropbear/dropbear_ed25519_host_key"
    mpi_loader "$debs" "$debs/usr/bin/dropbearkey" -y -f "$key" |
        sed -n 's/^\(ssh-[^ ]* [^ ]*\).*/\1/p' >"$root/root/.ssh/authorized_keys"
    chmod 600 "$root"/root/.ssh/*
    echo /bin/sh >"$root/etc/shells"
}

# mpi_libraries DEBS ROOT: the libraries of all programs, at the loader's places.
mpi_libraries() {
    local debs=$1 root=$2 own=/ found missing library
    found=$(find "$root" -type f \( -perm /111 -o -name '*.so' \) |
        while read -r library; do
            mpi_loader "$debs" --list "$library" 2>/dev/null || true
        done)
    # With a C library of its own, OpenMPI must not have libraries of the host.
    [ -e "$debs/usr/$HOST_LOADER" ] && own=$debs
    missing=$(sed -n "s/^\t\(.*\) => not found/\1/p; t
        \\#=> $own#d; s/^\t\(.*\) => .*/\1/p" <<<"$found" | sort -u | tr '\n' ' ')
    [ -z "$missing" ] ||
        die "OpenMPI lacks $missing: add the package to scripts/unetmm_tools/build/mpi_guest.sh"
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' <<<"$found" | grep -v "/${HOST_LOADER##*/}\$" | sort -u |
        while read -r library; do
            install -m 755 "$(readlink -f "$library")" \
                "$root/$MPI_LIB/$(basename "$library")"
        done
    [ ! -e "$debs/usr/$HOST_LOADER" ] ||
        install -D -m 755 "$debs/usr/$HOST_LOADER" "$root/$HOST_LOADER"
}

# mpi_modules KERNEL ROOT: for the shared folder.
mpi_modules() {
    local dir name file n=10
    dir=$(kernel_dir "$1")
    mkdir -p "$2/share-modules"
    for name in "${SHARE_MODULES[@]}"; do
        file=$(find "$dir/lib/modules/" -name "$name.ko*" 2>/dev/null | head -n 1)
        [ -z "$file" ] || add_module "$2" "$file" \
            "share-modules/$n-$(basename "$file")"
        n=$((n + 1))
    done
}

# make_mpi_overlay VERSION KERNEL DIR: DIR/overlay is the archive.
make_mpi_overlay() {
    local dir=$3 root="$3/root" debs
    debs=$(mpi_debs_dir "$1")
    mkdir -p "$root/usr/bin" "$root/etc" "$root/$MPI_LIB"
    mpi_compile "$debs" "$root"
    mpi_openmpi "$debs" "$root"
    # Guests with OpenMPI 5 have no RDMA device.
    [ "$1" != 4 ] || mpi_ucx "$debs" "$root"
    mpi_shell "$debs" "$root"
    mpi_libraries "$debs" "$root"
    compile_provider "$debs/usr/include" "$root"
    mpi_modules "$2" "$root"
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root"
}

# mpi_target TARGET: "VERSION KERNEL" of mpi-guest (OpenMPI 4, 6.1), mpi-guest-KERNEL,
# mpi5-guest and mpi5-guest-KERNEL.
mpi_target() {
    local version=${1%%-*} kernel=${1#*-guest}
    version=${version#mpi}
    kernel=${kernel#-}
    echo "${version:-4} ${kernel:-6.1}"
}

# check_libfabric: the provider and its tests have no warning with the libfabric of
# Debian 13, which gives up names of Debian 12's.
check_libfabric() {
    "$LIB/../run" build.clang "$(guest_build)" --include "$(mpi_debs_dir 5)/usr/include" \
        guest-lib/provider/ tests/provider/
}

# mpi_overlay_dir TARGET
mpi_overlay_dir() {
    local version kernel
    read -r version kernel < <(mpi_target "$1")
    echo "$CACHE/mpi-guest/$version-$kernel-$(hash_text "$(kernel_dir "$kernel")" \
        "$(provider_hash)" "$(hash_files "$REPO" tests/mpi scripts/unetmm_tools/build/mpi_guest.sh)")"
}

# setup_mpi_overlay TARGET
setup_mpi_overlay() {
    local version kernel
    read -r version kernel < <(mpi_target "$1")
    setup_kernel "$kernel"
    setup_guest
    product diod "getting a file server from Debian's archive" "$(diod_dir)" make_diod
    use_product diod "$(diod_dir)"
    product "mpi$version-debs" "getting OpenMPI $version from Debian's archive" \
        "$(mpi_debs_dir "$version")" make_mpi_debs "$version"
    use_product mpi-debs "$(mpi_debs_dir "$version")"
    product "$1" "packing OpenMPI $version for guests with Linux $kernel" \
        "$(mpi_overlay_dir "$1")" make_mpi_overlay "$version" "$kernel"
    use_product mpi-guest "$(mpi_overlay_dir "$1")"
}
