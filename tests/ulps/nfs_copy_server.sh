# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# write_file: $MIB MiB.  Each of them begins elsewhere in the same bytes, so no two pages are equal.
write_file() {
    mount -o remount,size=90% /srv && python3 -c "
import os
data = os.urandom(1 << 20) * 2
with open('/srv/file', 'wb') as file:
    for begin in range(0, $MIB * 997, 997):
        file.write(data[begin:begin + (1 << 20)])"
}
# same_files: busybox's cmp would take minutes.
same_files() {
    python3 -c '
import filecmp, sys
sys.exit(not filecmp.cmp("/srv/file", "/srv/copy", shallow=False))'
}

step "modules" load rpcrdma nfsd
step "serve" prepare_nfs
step "write a file" write_file
step "frames" frames
turn 1
turn 2
step "the copy is equal" same_files
step "loss" "$LOSS"
turn 3
