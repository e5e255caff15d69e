# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The cache: the place of products. A product appears in it whole or not at all,
# also beside other builds and when a build is killed.

# cron and services have no HOME.
export HOME="${HOME:-$( (getent passwd "$(id -u)" || echo :::::/) | cut -d: -f6)}"
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/unetmm"
# shellcheck disable=SC2034 # the other files use it
REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"

# The compiler cache lies in our cache too, so that keeping one directory is
# enough to make the next cold build a warm one.
export CCACHE_DIR="${CCACHE_DIR:-$CACHE/ccache}"
export CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-3G}"
# Build directories are named by content; their names must not spoil the hits.
export CCACHE_BASEDIR="$CACHE" CCACHE_NOHASHDIR=1
# Saves a run of the preprocessor on every miss, and most first builds miss.
export CCACHE_DEPEND=1

# This machine's names: Debian's, that of compilers and libraries, and the loader's.  No other
# file of scripts/ has one (the stage style).
# shellcheck disable=SC2034 # the other files use them
case "$(dpkg --print-architecture 2>/dev/null || uname -m)" in
    arm64 | aarch64) HOST_ARCH=arm64 HOST_TRIPLET=aarch64-linux-gnu
        HOST_LOADER=lib/ld-linux-aarch64.so.1 ;;
    *) HOST_ARCH=amd64 HOST_TRIPLET=x86_64-linux-gnu
        HOST_LOADER=lib64/ld-linux-x86-64.so.2 ;;
esac

# installed: do the scripts run from the package unetmm-vm?  Other packages have the tools,
# the library and QEMU then.
installed() { [ "$REPO" = /usr/share/unetmm ]; }

# check_machine: requirements of all scripts.
check_machine() {
    case "$(uname -sm)" in
        "Linux x86_64" | "Linux aarch64") ;;
        *) die "this needs Linux on x86-64 or arm64: run it on such a machine" ;;
    esac
    # The linker's LD_PRELOAD, make and the kernel's build take such characters for others.
    [[ $CACHE == /* && $CACHE != *[[:space:]\'\"\`:\;\#\&\$\\]* ]] ||
        die "the cache cannot be $CACHE: set XDG_CACHE_HOME to an absolute path without blanks, quotes and the characters : ; # & \$ \\"
    mkdir -p "$CACHE" 2>/dev/null || true
    [ -w "$CACHE" ] ||
        die "cannot write to $CACHE: set XDG_CACHE_HOME to a directory with 12 GB free"
    check_place
}

# check_place: products have the cache's path in them, as the kernel's headers do.
check_place() {
    local place=$CACHE
    [ ! -s "$CACHE/place" ] || place=$(cat "$CACHE/place")
    [ "$place" -ef "$CACHE" ] ||
        die "$CACHE was moved here from $place: make $place a symbolic link to it and use that name, or remove $CACHE"
    [ -s "$CACHE/place" ] || printf '%s\n' "$CACHE" >"$CACHE/place"
}

# compiler: the C compiler, behind ccache where there is one.
compiler() {
    if command -v ccache >/dev/null; then
        echo "ccache gcc"
    else
        echo gcc
    fi
}

# hash_text TEXT...: a short name for the words given.
hash_text() {
    printf '%s\n' "$@" | sha256sum | cut -c1-16
}

# hash_files DIR PATH...: a short name for the contents, names and modes of all
# files under the PATHs (relative to DIR; those that do not exist are left out).
hash_files() {
    local dir=$1 path paths=()
    shift
    for path in "$@"; do
        [ -e "$dir/$path" ] && paths+=("$path")
    done
    if [ "${#paths[@]}" -eq 0 ]; then
        hash_text empty
        return
    fi
    (cd "$dir" &&
     { find "${paths[@]}" -type f -printf '%p %m\n' | LC_ALL=C sort
       find "${paths[@]}" -type f -print0 | LC_ALL=C sort -z |
           xargs -0 -r sha256sum; } | sha256sum | cut -c1-16)
}

# take_lock NAME VARIABLE: waits for the lock and keeps it in file descriptor
# $VARIABLE; children inherit it, so a build that survives its script still
# keeps others out.
take_lock() {
    local name=$1 var=$2
    mkdir -p "$CACHE/lock"
    exec {fd}>"$CACHE/lock/$name"
    if ! flock -n "$fd"; then
        note "  waiting for another process that is making $name"
        flock "$fd"
    fi
    printf -v "$var" '%s' "$fd"
}

drop_lock() {
    local fd=$1
    exec {fd}>&-
}

# product NAME TEXT DIR FUNCTION...: makes DIR by calling FUNCTION with the name
# of a new directory as last argument; DIR appears when it is complete.
product() {
    local name=$1 text=$2 dir=$3 lock
    shift 3
    [ -d "$dir" ] && return
    take_lock "$name" lock
    if [ ! -d "$dir" ]; then
        # Under the lock, an old directory is the rest of a killed build.
        rm -rf "$dir.part"
        mkdir -p "$dir.part"
        step "$name" "$text" "$@" "$dir.part"
        mv -T "$dir.part" "$dir"
    fi
    drop_lock "$lock"
}

# prune KIND: every edit of ours leaves one more product of that kind behind;
# those that nobody has asked for in a day go, each at once, since the rest of one would count
# as a whole product.
prune() {
    local old gone="$CACHE/$1/.gone.$BASHPID"
    rm -rf "$gone"
    find "$CACHE/$1" -mindepth 1 -maxdepth 1 -type d -mmin +1440 -print0 |
        while IFS= read -r -d '' old; do
            # Another process may have been faster.
            mv -T "$old" "$gone" 2>/dev/null || continue
            rm -rf "$gone"
        done
}

# use_product KIND DIR: a product in use is not old.
use_product() {
    touch -c "$2"
    prune "$1"
}

# pinned NAME FUNCTION...: prints FUNCTION's output of the first call; a choice
# of version stays until `setup --update`, so that a second run needs no network.
pinned() {
    local file="$CACHE/pin/$1" value
    shift
    if [ ! -s "$file" ]; then
        mkdir -p "$CACHE/pin"
        value=$("$@")
        [ -n "$value" ] || return 1
        printf '%s\n' "$value" >"$file.$$"
        mv -f "$file.$$" "$file"
    fi
    cat "$file"
}
