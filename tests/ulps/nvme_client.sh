# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

nvme=/sys/class/nvme/nvme0
# join SECONDS: the time without an answer after which Linux takes the target for lost.  It connects
# anew each second.
join() {
    echo "transport=rdma,traddr=10.7.0.1,trsvcid=4420,nqn=disk,queue_size=32,nr_io_queues=2,reconnect_delay=1,ctrl_loss_tmo=600,keep_alive_tmo=$1" \
        >/dev/nvme-fabrics && await test -b /dev/nvme0n1
}
leave() { echo 1 >$nvme/delete_controller && await test ! -e $nvme; }
state() { [ "$(cat $nvme/state)" = "$1" ]; }
# verified NAME OPTION...: fio writes blocks of many lengths, each with its sum, and reads them.
verified() {
    local name=$1
    shift
    fio --name="$name" --filename=/dev/nvme0n1 --direct=1 --ioengine=libaio --iodepth=16 \
        --rw=randwrite --bsrange=4k-64k --verify=crc32c --verify_fatal=1 --randseed=1 "$@"
}
# resets: the controller, each time while fio has requests under way.
resets() {
    verified resets --size=32m --loops=3 >/tmp/fio 2>&1 &
    fio=$!
    for _ in 1 2 3; do
        busy && echo 1 >$nvme/reset_controller && await state live || return
    done
    wait $fio
    status=$?
    cat /tmp/fio
    return $status
}
# busy: fio's requests are under way; those of a path to the disk count, not of the disk of all paths.
under_way() { [ "$(awk '{ n += $9 } END { print n }' /sys/block/nvme0*n1/stat)" -gt 0 ] || ! kill -0 $fio; }
busy() { await under_way && kill -0 $fio; }
# lost: the test stops the target's guest, in which nothing answers then, and lets it go on.
lost() {
    verified lost --size=16m --loops=3 >/tmp/fio 2>&1 &
    fio=$!
    busy && echo "# stop the target" >&3 && await state connecting &&
        echo "# the target may go on" >&3 && await state live && wait $fio
    status=$?
    cat /tmp/fio
    return $status
}

# The test reads the lines of this one.
exec 3>&1
step "modules" kernel_modules
turn 1
step "connect" join 600
step "fio verifies" verified first --size=16m
step "fio verifies through resets of the controller" resets
step "disconnect" leave
step "no queue pair is left" await queue_pairs 0
step "connect with a short keep-alive time" join 2
step "a target that is silent for a while is found, and comes back" lost
step "disconnect again" leave
turn 2
turn 3
step "no queue pair is left at the end" await queue_pairs 0
step "the RDMA device goes" rmmod unetmm_ib
