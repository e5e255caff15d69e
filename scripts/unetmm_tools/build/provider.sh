# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The provider of libfabric for guests, compiled against the headers of the libfabric
# that is in the guest.

# provider_hash: of all that compile_provider uses, but for libfabric's headers.
provider_hash() {
    hash_text "$(hash_files "$REPO" guest-lib/provider scripts/unetmm_tools/build/provider.sh)" \
        "$(sha256sum <"$(guest_library)")"
}

# compile_provider INCLUDE ROOT: the provider and the library below ROOT.
compile_provider() {
    local library
    library=$(guest_library)
    mkdir -p "$2/usr/lib/$HOST_TRIPLET/libfabric"
    gcc -std=gnu11 -O2 -D_GNU_SOURCE -fPIC -shared -Wall -Wextra -Werror \
        -Wno-missing-field-initializers -Wno-unused-parameter -isystem "$1" \
        -I"$REPO/guest-lib/include" -I"$REPO/hw/net/unetmm/abi" \
        -I"$REPO/guest-driver/uapi" "$REPO"/guest-lib/provider/*.c \
        -Wl,--version-script="$REPO/guest-lib/provider/libunetmm-fi.map" \
        -Wl,--no-as-needed "$library" \
        -o "$2/usr/lib/$HOST_TRIPLET/libfabric/libunetmm-fi.so" ||
        die "the provider does not compile against $1"
    install "$library" "$2/usr/lib/$HOST_TRIPLET/libunetmm.so.0"
}
