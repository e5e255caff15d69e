# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The versions of QEMU whose source Debian's archive offers, a row each: how many of our
# patches apply.  A new series needs patches, and headers for the card's object.

QEMU_SUITES=(trixie trixie-backports sid experimental)

# qemu_patched_files TARBALL DIR: those files that our patches change.
qemu_patched_files() {
    local files
    mapfile -t files < <(sed -n 's|^--- a/|*/|p' "$REPO"/scripts/patches/{,mend/}*.patch | sort -u)
    # A file that this version does not have is a patch that does not apply.
    tar -x -C "$2" --strip-components=1 --no-same-owner --wildcards \
        --no-wildcards-match-slash -f "$1" "${files[@]}" 2>/dev/null || true
}

# count_patches TREE PATCH...: "N of M" that apply.
count_patches() {
    local tree=$1 patch good=0
    shift
    for patch in "$@"; do
        ! patch -d "$tree" -p1 -s -f --no-backup-if-mismatch <"$patch" >/dev/null ||
            good=$((good + 1))
    done
    echo "$good of $#"
}

# qemu_row SUITE VERSION: a line of the table.
qemu_row() {
    local dir source=no patches=- mends=-
    dir=$(mktemp -d)
    if (cd "$dir" && suite_apt "$1-source" source --download-only "qemu=$2") >/dev/null 2>&1; then
        mkdir "$dir/tree"
        qemu_patched_files "$(find "$dir" -name 'qemu_*.orig.tar.*' ! -name '*.asc')" "$dir/tree"
        source=yes
        patches=$(count_patches "$dir/tree" "$REPO"/scripts/patches/*.patch)
        mends=$(count_patches "$dir/tree" "$REPO"/scripts/patches/mend/*.patch)
    fi
    printf '%-28s %-18s %-8s %-8s %s\n' "$2" "$1" "$source" "$patches" "$mends"
    rm -rf "$dir"
}

# setup_qemu_versions: prints the table; it makes no file.
setup_qemu_versions() {
    local suite version
    printf '%-28s %-18s %-8s %-8s %s\n' Version Suite Source Patches Corrections
    for suite in "${QEMU_SUITES[@]}"; do
        suite_ready "$suite-source"
        while read -r version; do
            qemu_row "$suite" "$version"
        done < <(suite_apt_cache "$suite-source" showsrc qemu 2>/dev/null |
            sed -n 's/^Version: //p')
    done
}
