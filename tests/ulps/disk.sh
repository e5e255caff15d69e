# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# A disk of LIO at the target's guest, /tmp/disk, and of SCSI at the initiator's: data of 8 MiB, and
# their sum behind them.

BLOCKS=128
# make_disk: LIO's folder of it is $disk.
make_disk() {
    truncate -s 32M /tmp/disk && mount -t configfs none /sys/kernel/config || return
    disk=/sys/kernel/config/target/core/fileio_0/disk
    mkdir -p "$disk" && echo "fd_dev_name=/tmp/disk,fd_dev_size=33554432" >"$disk/control" &&
        echo 1 >"$disk/enable"
}
# compare_sum: the bytes of the target's disk have the sum behind them.
compare_sum() {
    local sum said
    sum=$(dd if=/tmp/disk bs=64k count=$BLOCKS 2>/dev/null | md5sum)
    said=$(dd if=/tmp/disk bs=64k skip=$BLOCKS count=1 2>/dev/null | tr -d '\0')
    echo "$sum; the initiator has $said"
    [ "$sum" = "$said" ]
}
# sized FILE: Linux has told the disk's size.
sized() { [ -b /dev/sda ] && [ "$(cat /sys/block/sda/size)" = 65536 ]; }
make_data() { dd if=/dev/urandom of="$1" bs=64k count=$BLOCKS; }
# write_disk FILE: past the cache.
write_disk() {
    dd if="$1" of=/dev/sda bs=64k oflag=direct &&
        md5sum <"$1" | dd of=/dev/sda bs=64k conv=sync seek=$BLOCKS oflag=direct
}
# same_disk FILE
same_disk() { dd if=/dev/sda bs=64k count=$BLOCKS iflag=direct | cmp - "$1"; }
# begin_writer: a process that writes until the disk has gone; it opens the disk once.
begin_writer() {
    python3 /tmp/writer.py /dev/sda >/tmp/writing 2>&1 &
    writer=$!
    await grep -qE '^(written|error)' /tmp/writing && goes_on
}
# goes_on: no write has failed.
goes_on() { kill -0 "$writer" && ! grep -q '^error' /tmp/writing; }
end_writer() {
    wait "$writer"
    cat /tmp/writing
    grep -q '^error' /tmp/writing
}
no_disk() { [ ! -e /sys/block/sda ]; }
