# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# python3 and the package unetmm for a guest: an archive of files that
# scripts/vm --python adds to the guest's file system.

# Parts of Python's library that no guest needs
PYTHON_LEAVE_OUT=(test idlelib lib2to3 ensurepip pydoc_data distutils turtledemo
    tkinter venv config-*)

# python_version: prints the system's, e.g. 3.11.
python_version() {
    "$(system_python)" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

# python_native: prints the path of the module of the guest build.
python_native() {
    find "$(guest_build)/guest-lib/python" -maxdepth 1 -name '_unetmm.*.so'
}

python_overlay_dir() {
    echo "$CACHE/python-guest/$(hash_text "$(python_version)" \
        "$(dpkg-query -W -f '${Version}' "python$(python_version)" 2>/dev/null)" \
        "$(hash_files "$REPO" guest-lib/python/unetmm scripts/unetmm_tools/build/python_guest.sh)" \
        "$(sha256sum "$(python_native)" \
            "$(guest_build)/guest-lib/libunetmm.so.0" 2>/dev/null)")"
}

# add_shared ROOT FILE: the file at its own place, and the libraries it needs.
add_shared() { add_program "$1" "$2" "${2#/}"; }

# make_python_overlay DIR: DIR/overlay is the archive.
make_python_overlay() {
    local dir=$1 root="$1/root" lib file backend python leave=()
    python=$(system_python)
    lib=/usr/lib/python$(python_version)
    add_program "$root" "$(readlink -f "$python")" usr/bin/python3
    for file in "${PYTHON_LEAVE_OUT[@]}"; do
        leave+=("--exclude=/$file")
    done
    mkdir -p "$root$lib" "$root/usr/lib/python3/dist-packages"
    rsync -r --links --exclude=__pycache__ "${leave[@]}" "$lib/" "$root$lib/"
    for file in "$lib"/lib-dynload/*.so; do
        case "$file" in
            *test*) rm -f "$root$file" ;;
            *) rm -f "$root$file"; add_shared "$root" "$file" ;;
        esac
    done
    backend=$("$python" -c 'import _cffi_backend; print(_cffi_backend.__file__)')
    for file in "$backend" "$(python_native)"; do
        add_program "$root" "$file" \
            "usr/lib/python3/dist-packages/$(basename "$file")"
    done
    rsync -r --exclude=__pycache__ --exclude=lab.py "$REPO/guest-lib/python/unetmm" \
        "$root/usr/lib/python3/dist-packages/"
    # An emulated CPU would compile them at each start.
    "$python" -m compileall -q -s "$root" -p / "$root/usr/lib" >/dev/null || true
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null -o -H newc -R 0:0 --quiet --reproducible) >"$dir/overlay"
    rm -rf "$root"
}

setup_python_overlay() {
    local dir
    setup_guest
    [ -n "$(python_native)" ] ||
        die "the Python package is not built: install python3-cffi and python3-dev, then remove $(guest_build)"
    dir=$(python_overlay_dir)
    product python-guest "packing Python for the guests" "$dir" \
        make_python_overlay
    use_product python-guest "$dir"
}
