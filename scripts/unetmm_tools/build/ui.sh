# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Output for the user: steps with elapsed time, and errors of one sentence.
# Everything goes to stderr, so that a script's stdout stays machine-readable.

STEP_PID=""

# die SENTENCE: the sentence names the error and its remedy.  scripts/test reads the last one
# from the file UNETMM_WHY.
die() {
    local text="$*"
    ! installed || text=${text//scripts\/setup/$REPO/scripts\/setup}
    [ -z "${UNETMM_WHY:-}" ] || printf '%s\n' "$text" >"$UNETMM_WHY"
    printf 'error: %s\n' "$text" >&2
    exit 1
}

note() {
    printf '%s\n' "$*" >&2
}

# A step runs in a process group of its own, so that an interrupted script
# takes the whole build with it and nothing else.
stop_step() {
    trap - INT TERM
    if [ -n "$STEP_PID" ]; then
        kill -TERM -- "-$STEP_PID" 2>/dev/null || true
    fi
    printf '\n' >&2
    die "interrupted; run the same command again to continue"
}

# show_elapsed TEXT SECONDS MARK: the line of a step that has ended.
show_elapsed() {
    [ -t 2 ] && printf '\r\033[K' >&2
    printf '  %-52s %4d s  %s\n' "$1" "$2" "$3" >&2
}

# fail_step TEXT LOG: a sentence that the step itself left is better than ours.
fail_step() {
    local last
    last=$(tail -n 1 "$2" 2>/dev/null || true)
    if [ "${last#error: }" = "$last" ]; then
        tail -n 20 "$2" | sed 's/^/    | /' >&2
        die "\"$1\" failed; the whole log is $2"
    fi
    die "${last#error: } (log: $2)"
}

# step NAME TEXT COMMAND...: runs COMMAND (a function or program) with its
# output in a log file, and prints one line. Must not be called as a condition:
# bash would then ignore errors inside COMMAND.
step() {
    local name=$1 text=$2 start=$SECONDS log status=0
    shift 2
    mkdir -p "$CACHE/log"
    log="$CACHE/log/$name.$$.log"
    [ -t 2 ] || printf '  %s ...\n' "$text" >&2
    trap stop_step INT TERM
    set -m
    (set +m -e; "$@") >"$log" 2>&1 </dev/null &
    STEP_PID=$!
    set +m
    if [ -t 2 ]; then
        while kill -0 "$STEP_PID" 2>/dev/null; do
            printf '\r  %-52s %4d s ' "$text" $((SECONDS - start)) >&2
            sleep 0.5
        done
    fi
    wait "$STEP_PID" || status=$?
    STEP_PID=""
    trap - INT TERM
    if [ "$status" -ne 0 ]; then
        show_elapsed "$text" $((SECONDS - start)) failed
        mv -f "$log" "$CACHE/log/$name.log"
        fail_step "$text" "$CACHE/log/$name.log"
    fi
    show_elapsed "$text" $((SECONDS - start)) "done"
    mv -f "$log" "$CACHE/log/$name.log"
}
