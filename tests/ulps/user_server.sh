# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "serve qperf" serve qperf --loc_timeout 120
turn 1
turn 2
kill "$server"
# Else the next server would be taken to listen as long as this one does.
wait "$server"
step "no queue pair is left" await queue_pairs 0
