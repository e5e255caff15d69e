# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For scripts/scale --mpi: the modules core, network and mpi of ns-3, with MPI, which Debian's
# package is built without, and the simulation with them.  It is Debian 12's source package on
# every host.

NS3_VERSION=3.37
NS3_SUITE=bookworm-source
NS3_MODULES=(core network stats mpi)

# Only this target needs these.
PACKAGES_NS3=(g++ cmake libopenmpi-dev openmpi-bin)

ns3_dir() {
    echo "$CACHE/ns3/$NS3_VERSION-$(hash_text "$(debian_version)" "$(declare -f make_ns3 get_ns3_source copy_ns3_headers)")"
}

ns3_source_version() {
    suite_apt_cache "$NS3_SUITE" showsrc --only-source ns3 | sed -n 's/^Version: //p' |
        grep -E "^${NS3_VERSION//./\\.}-" | newest_version
}

# get_ns3_source DIR: DIR/source is the folder of the modules.
get_ns3_source() {
    local dir=$1 longest=src/mpi/model/granted-time-window-mpi-interface.h
    (cd "$dir" && suite_apt "$NS3_SUITE" source --download-only --tar-only \
        "ns3=$(ns3_source_version)") ||
        die "cannot download the source of ns-3 $NS3_VERSION: run scripts/setup --update for newer package lists"
    mkdir "$dir/source"
    tar -xjf "$dir"/ns3_*.orig.tar.bz2 -C "$dir/source" --strip-components=2 --no-same-owner \
        --wildcards "*/ns-$NS3_VERSION/*"
    rm -f "$dir"/ns3_*
    # A frame of the card, with the packet's own data, is longer than ns-3 takes.
    grep -q 'MAX_MPI_MSG_SIZE = 2000;' "$dir/source/$longest" ||
        die "ns-3 $NS3_VERSION has another limit of messages than scripts/unetmm_tools/build/ns3.sh changes"
    sed -i 's/MAX_MPI_MSG_SIZE = 2000;/MAX_MPI_MSG_SIZE = 131072;/' "$dir/source/$longest"
}

# make_ns3 DIR: DIR/lib and DIR/include.
make_ns3() {
    local dir=$1
    get_ns3_source "$dir"
    # The C++ library of newer compilers does not include cstdint for others.
    cmake -S "$dir/source" -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=release \
        -DCMAKE_CXX_FLAGS="-include cstdint" -DNS3_ENABLED_MODULES="core;network;mpi" \
        -DNS3_MPI=ON -DNS3_GSL=OFF -DNS3_GTK3=OFF -DNS3_SQLITE=OFF -DNS3_WARNINGS=OFF \
        -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache)"
    ninja -C "$dir/build" -j "$(nproc)" "${NS3_MODULES[@]/#/lib}"
    mv "$dir/source/build/lib" "$dir/lib"
    copy_ns3_headers "$dir/source/build/include/ns3" "$dir/include/ns3"
    rm -rf "$dir/source" "$dir/build"
}

# copy_ns3_headers FROM TO: most of ns-3's are a line that includes the module's file.
copy_ns3_headers() {
    local header file
    mkdir -p "$2"
    for header in "$1"/*.h; do
        file=$(sed -n 's/^#include "\(\/.*\)"$/\1/p' "$header")
        cp "${file:-$header}" "$2/${header##*/}"
    done
}

scale_mpi_dir() {
    local build
    build=$(guest_build)
    # Meson's archives have names of files in place of these: the program of one process has all.
    echo "$CACHE/scale-mpi/$(hash_text "$(ns3_dir)" "$build" \
        "$(hash_files "$REPO" scripts/unetmm_tools/build/ns3.sh sim/ns3 sim/scale/sim.h)" \
        "$(hash_files "$build" sim/unetmm-scale)")"
}

# Of meson's build: the hosts and the card
SCALE_PARTS=(sim/libunetmm_scale.a tests/bench/libunetmm_core_bench.a)

make_scale_mpi() {
    local dir=$1 ns3 build
    ns3=$(ns3_dir)
    build=$(guest_build)
    # ns-3's libraries look for each other where they were built: the program names all of them.
    # shellcheck disable=SC2046 # words
    mpicxx -std=c++20 -O2 -Wall -Wextra -Werror -Wno-unused-parameter -DOMPI_SKIP_MPICXX -isystem "$ns3/include" \
        -I"$REPO/sim/scale" "$REPO"/sim/ns3/{main,unetmm-device,ranks-mpi}.cc \
        "${SCALE_PARTS[@]/#/$build/}" -L"$ns3/lib" -Wl,--no-as-needed "${NS3_MODULES[@]/#/-lns$NS3_VERSION-}" \
        -Wl,-rpath,"$ns3/lib" $(pkg-config --libs glib-2.0 cmocka) -o "$dir/unetmm-scale"
}

setup_scale_mpi() {
    setup_more "${PACKAGES_SCALE[@]}" "${PACKAGES_NS3[@]}"
    suite_ready "$NS3_SUITE"
    product ns3 "building ns-3 with MPI" "$(ns3_dir)" make_ns3
    use_product ns3 "$(ns3_dir)"
    ninja_guest "the simulation of many cards" sim/unetmm-scale "${SCALE_PARTS[@]}"
    product scale-mpi "building the simulation of many cards with MPI" "$(scale_mpi_dir)" make_scale_mpi
    use_product scale-mpi "$(scale_mpi_dir)"
}
