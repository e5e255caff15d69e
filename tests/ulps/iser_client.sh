# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

portal=10.7.0.1:3260
# begin_iscsi: Debian's daemon and a record of the target.  A guest that a busy host stops for a while is
# not lost.
begin_iscsi() {
    # A guest's /run is this script.
    mv /run /tmp/script && mkdir -p /etc/iscsi /run/lock/iscsi || return
    echo InitiatorName=iqn.2026-01.unetmm:b >/etc/iscsi/initiatorname.iscsi
    cat >/etc/iscsi/iscsid.conf <<'END'
node.conn[0].timeo.noop_out_interval = 0
node.conn[0].timeo.noop_out_timeout = 0
node.conn[0].timeo.login_timeout = 120
END
    iscsid && iscsiadm -m node -o new -T "$target" -p $portal &&
        iscsiadm -m node -T "$target" -p $portal -o update -n iface.transport_name -v iser
}
# log_in: the session is not one of TCP, which the portal serves as well.
log_in() {
    iscsiadm -m node -T "$target" -p $portal -l && iscsiadm -m session | grep '^iser: ' && await sized
}
log_out() { iscsiadm -m node -T "$target" -p $portal -u && await no_disk; }
# no_patience: a lost connection ends the disk after a second, and not after two minutes.
no_patience() { for session in /sys/class/iscsi_session/*; do echo 1 >"$session/recovery_tmo"; done; }

step "modules" load ib_iser sd_mod
step "data" make_data /tmp/first
step "other data" make_data /tmp/second
step "begin" begin_iscsi
turn 1
step "log in" log_in
step "write" write_disk /tmp/first
step "compare" same_disk /tmp/first
turn 2
turn 3
step "log out" log_out
step "no queue pair is left" await queue_pairs 0
step "log in again" log_in
step "the data are there" same_disk /tmp/first
step "write other data" write_disk /tmp/second
step "compare other data" same_disk /tmp/second
turn 4
step "no patience" no_patience
step "begin a transfer" begin_writer
step "the transfer goes on" goes_on
turn 5
step "the transfer ends with an error" end_writer
step "log out" log_out
step "no queue pair is left" await queue_pairs 0
step "the RDMA device goes" rmmod unetmm_ib
turn 6
