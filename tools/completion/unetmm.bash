# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Completion for bash, of the scripts in the root of the checkout and of the tools in a guest or on a host:
#
#   . tools/completion/unetmm.bash
#
# The options are those of --help; the stages of scripts/test and the targets of scripts/setup
# are those of --list.

_unetmm_complete() {
    local program=$1 word=$2 before=$3 words=""
    case "$program $before $word" in
        *scripts/test\ --only\ * | *scripts/setup\ *\ [!-]* | *scripts/setup\ *\ )
            words=$("$program" --list 2>/dev/null | sed 's/ .*//') ;;
        *\ -*) words=$("$program" --help 2>/dev/null | grep -oE -- '--[a-z][a-z0-9-]+') ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" | sort -u)
}

complete -o default -F _unetmm_complete unetmm-{block,bw,cp,frames,info,kv,pingpong,stat} \
    unetmm-{run,vm,cluster} \
    {,./}scripts/{bench,cluster,debug,demo,kernels,recording,run,setup,test,timeline,tlb-sim,vm}
