# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# reclaims: how often clients have said that they have all their opens and locks again, by operation
# 58, RECLAIM_COMPLETE.  The first field is a name, the second one the number of the others.
reclaims() { awk '$1 == "proc4ops" { print $(58 + 3) }' /proc/net/rpc/nfsd; }
reclaimed() { [ "$(reclaims)" -gt "$reclaims_before" ]; }
# The kernel frees the connections later, in a thread of its own.
stop_nfs() {
    reclaims_before=$(reclaims)
    echo 0 >/proc/fs/nfsd/threads && await no_cm_id
}
# written BYTES: the client's file has at least so many.
written() { [ "$(stat -c %s /srv/big 2>/dev/null || echo 0)" -ge "$1" ]; }

step "modules" load rpcrdma nfsd
step "serve" prepare_nfs
turn 1
turn 2
step "the tree has the client's sums" sums /srv/tree

turn 3
step "the client's lock excludes this guest" try_lock /srv/lock locked
hold /srv/lock
turn 4
step "the lock comes when the client releases it" held
turn 5
# The client has seen the lock, and waits.
turn 6
release
turn 7
step "the client's lock excludes this guest again" try_lock /srv/lock locked

step "the client writes" await written 262144
step "nfsd stops" stop_nfs
step "nfsd starts" start_nfs
# To try the lock before would take it, while the client asks for it.
step "the client has claimed its files and locks" await reclaimed
step "the client has got its lock back" try_lock /srv/lock locked
step "the client may open files again" end_grace
turn 8
turn 9
step "the client still has its lock" try_lock /srv/lock locked
step "the RDMA device goes under nfsd, and comes again" reload
turn 10
turn 11
step "nfsd stops at the end" stop_nfs
step "no queue pair is left" await queue_pairs 0
step "the RDMA device goes" rmmod unetmm_ib
