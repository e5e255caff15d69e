# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# iSER, for the steps of disk_server.sh and disk_client.sh.

target=iqn.2026-01.unetmm:disk
load_target() { load crc32c_generic ib_isert target_core_file; }
# serve_disk: to all initiators, without a password.
serve_disk() {
    local group=/sys/kernel/config/target/iscsi/$target/tpgt_1
    local portal=$group/np/10.7.0.1:3260
    mkdir -p /sys/kernel/config/target/iscsi && mkdir -p "$group/lun/lun_0" "$portal" &&
        echo 1 >"$portal/iser" && ln -s "$disk" "$group/lun/lun_0/disk" || return
    echo 30 >"$group/attrib/login_timeout" && echo 0 >"$group/attrib/authentication" &&
        echo 1 >"$group/attrib/generate_node_acls" &&
        echo 0 >"$group/attrib/demo_mode_write_protect" && echo 1 >"$group/enable"
}

portal=10.7.0.1:3260
# load_initiator: the modules, Debian's daemon and a record of the target.  The initiator waits long for a
# guest that a busy host stops.
load_initiator() {
    load ib_iser sd_mod || return
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
# forget: Linux logs in again until a log out.
forget() { log_out; }
