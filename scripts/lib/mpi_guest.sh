# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The guests of scripts/cluster: Debian's OpenMPI with libfabric, hpcc, a remote
# shell, a file server for the shared folder, our provider, and the programs of
# tests/mpi: an archive of files that is added to the guest's file system. Debian's
# packages are downloaded, not installed. They are Debian 12's on each host: its
# OpenMPI 4 and Debian 13's OpenMPI 5 have other launchers and other settings.
MPI_SUITE=bookworm

MPI_PACKAGES=(openmpi-bin openmpi-common libopenmpi3 libopenmpi-dev hpcc
    libpmix2 libevent-core-2.1-7 libevent-pthreads-2.1-7 libhwloc15 libfabric1
    libfabric-dev libfabric-bin
    ibverbs-providers libpsm-infinipath1 libpsm2-2 librdmacm1 libibverbs1 libnuma1 libatomic1
    libnl-3-200 libnl-route-3-200 libblas3 libgfortran5 libquadmath0 libmunge2
    libucx0 libltdl7 dropbear-bin libtomcrypt1 libtommath1)

# The shared folder's server runs on the host.
DIOD_PACKAGES=(diod liblua5.1-0 libwrap0 libmunge2 libcap2 libncurses6 libtinfo6)

# Parts of OpenMPI for hardware and batch systems that no guest has
MPI_LEAVE_OUT=(mca_*ucx* mca_*psm* mca_btl_openib mca_*slurm* mca_*jsm* mca_*flux*
    mca_*gridengine* mca_memheap_* mca_spml_* mca_sshmem_* mca_scoll_*)

MPI_PROGRAMS=(pingpong collective onesided sort)

MPI_LIB=usr/lib/x86_64-linux-gnu

# In the order in which insmod can take them; a kernel may have some built in.
SHARE_MODULES=(netfs fscache 9pnet 9pnet_fd 9p)

# mpi_fetch DIR PACKAGE...: downloads and extracts all of them at once.
mpi_fetch() {
    local dir=$1 debs="$1.debs" deb
    shift
    mkdir -p "$debs" "$dir"
    (cd "$debs" && private_apt_get download "${@/%//$MPI_SUITE}") ||
        die "cannot download OpenMPI from Debian's archive: run scripts/setup --update for newer versions"
    for deb in "$debs"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --no-same-owner
    done
    rm -rf "$debs"
}

mpi_debs_dir() {
    echo "$CACHE/mpi-debs/$MPI_SUITE-$(hash_text "${MPI_PACKAGES[*]}" \
        "${DIOD_PACKAGES[*]}")"
}

# make_mpi_debs DIR: DIR/mpi are the files for guests, DIR/diod those for the host.
make_mpi_debs() {
    mpi_fetch "$1/mpi" "${MPI_PACKAGES[@]}"
    mpi_fetch "$1/diod" "${DIOD_PACKAGES[@]}"
    # A package that is installed has this name by Debian's alternatives.
    ln -s ../libpsm1/libpsm_infinipath.so.1.16 \
        "$1/mpi/$MPI_LIB/libpsm_infinipath.so.1"
}

# mpi_compile DEBS ROOT: the programs of tests/mpi.
mpi_compile() {
    local debs=$1 root=$2 name
    for name in "${MPI_PROGRAMS[@]}"; do
        gcc -std=gnu11 -O2 -Wall -Wextra -Werror \
            -I"$debs/$MPI_LIB/openmpi/include" "$REPO/tests/mpi/$name.c" \
            "$REPO/tests/mpi/common.c" -o "$root/usr/bin/mpi-$name" \
            -L"$debs/$MPI_LIB/openmpi/lib" -L"$debs/$MPI_LIB" -lmpi \
            -Wl,-rpath-link,"$debs/$MPI_LIB" ||
            die "tests/mpi/$name.c does not compile"
    done
}

# mpi_openmpi DEBS ROOT
mpi_openmpi() {
    local debs=$1 root=$2 name plugins=$MPI_LIB/openmpi/lib/openmpi3
    install -m 755 "$debs"/usr/bin/{orterun,orted,ompi_info,hpcc,dbclient,fi_info} \
        "$root/usr/bin/"
    ln -s orterun "$root/usr/bin/mpirun"
    ln -s orterun "$root/usr/bin/mpiexec"
    # OpenMPI opens these by name.
    mkdir -p "$root/$plugins" "$root/$MPI_LIB/pmix2/lib"
    cp "$debs/$plugins"/*.so "$root/$plugins/"
    for name in "${MPI_LEAVE_OUT[@]}"; do
        # shellcheck disable=SC2086 # a pattern
        rm -f "$root/$plugins"/$name.so
    done
    cp -r "$debs/$MPI_LIB/pmix2/lib/pmix" "$root/$MPI_LIB/pmix2/lib/"
    mkdir -p "$root/usr/share/openmpi"
    cp "$debs"/usr/share/openmpi/help-*.txt "$root/usr/share/openmpi/"
    cp -r "$debs/etc/openmpi" "$root/etc/"
    cp "$debs/usr/share/doc/hpcc/examples/_hpccinf.txt" "$root/etc/hpccinf.txt"
}

# mpi_shell DEBS ROOT: dropbear, with one key for all guests of this machine. Its
# client takes a comment behind a known key for a part of the key.
mpi_shell() {
    local debs=$1 root=$2 key="$2/root/.ssh/id_dropbear"
    install -D -m 755 "$debs/usr/sbin/dropbear" "$root/usr/sbin/dropbear"
    mkdir -p "$root/root/.ssh" "$root/etc/dropbear"
    chmod 700 "$root/root/.ssh"
    "$debs/usr/bin/dropbearkey" -t ed25519 -f "$key"
    cp "$key" "$root/etc/dropbear/dropbear_ed25519_host_key"
    "$debs/usr/bin/dropbearkey" -y -f "$key" |
        sed -n 's/^\(ssh-[^ ]* [^ ]*\).*/\1/p' >"$root/root/.ssh/authorized_keys"
    chmod 600 "$root"/root/.ssh/*
    echo /bin/sh >"$root/etc/shells"
}

# mpi_libraries ROOT: the libraries of all programs, at the loader's places.
mpi_libraries() {
    local root=$1 found missing library
    found=$(find "$root" -type f \( -perm /111 -o -name '*.so' \) -print0 |
        xargs -0 ldd 2>/dev/null || true)
    missing=$(sed -n 's/^\t\(.*\) => not found/\1/p' <<<"$found" | sort -u |
        tr '\n' ' ')
    [ -z "$missing" ] ||
        die "OpenMPI lacks $missing: add the package to scripts/lib/mpi_guest.sh"
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' <<<"$found" | sort -u |
        while read -r library; do
            install -m 755 "$(readlink -f "$library")" \
                "$root/$MPI_LIB/$(basename "$library")"
        done
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

# make_mpi_overlay KERNEL DIR: DIR/overlay is the archive.
make_mpi_overlay() {
    local dir=$2 root="$2/root" debs
    debs="$(mpi_debs_dir)/mpi"
    mkdir -p "$root/usr/bin" "$root/etc" "$root/$MPI_LIB"
    export LD_LIBRARY_PATH="$debs/$MPI_LIB:$debs/lib/x86_64-linux-gnu:$debs/$MPI_LIB/blas"
    mpi_compile "$debs" "$root"
    mpi_openmpi "$debs" "$root"
    mpi_shell "$debs" "$root"
    mpi_libraries "$root"
    unset LD_LIBRARY_PATH
    compile_provider "$debs/usr/include" "$root"
    mpi_modules "$1" "$root"
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root"
}

# mpi_kernel TARGET: mpi-guest is for 6.1, mpi-guest-KERNEL for another one.
mpi_kernel() {
    case "$1" in
        mpi-guest) echo 6.1 ;;
        *) echo "${1#mpi-guest-}" ;;
    esac
}

mpi_overlay_dir() {
    echo "$CACHE/mpi-guest/$1-$(hash_text "$(kernel_dir "$1")" "$(provider_hash)" \
        "$(hash_files "$REPO" tests/mpi scripts/lib/mpi_guest.sh)")"
}

# setup_mpi_overlay KERNEL
setup_mpi_overlay() {
    setup_kernel "$1"
    setup_guest
    apt_ready
    product mpi-debs "getting OpenMPI from Debian's archive" "$(mpi_debs_dir)" \
        make_mpi_debs
    use_product mpi-debs "$(mpi_debs_dir)"
    product "mpi-guest-$1" "packing OpenMPI for guests with Linux $1" \
        "$(mpi_overlay_dir "$1")" make_mpi_overlay "$1"
    use_product mpi-guest "$(mpi_overlay_dir "$1")"
}
