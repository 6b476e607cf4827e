# Two gateways export their mounts of one server, each to its own nodes: what holds between these, also when a gateway or its mount is
# killed.
. "$TOP/test/lib.sh"
. "$TOP/test/lib-gateways.sh"
EXPECTED_ERRORS="no conflict file for gone[123] can be had: No space left on device"
truncate -s 64M "$WORK/export.img"
mkfs.ext4 -q -m0 -N 1600 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
cluster 4
nsenter -t "${KEEPER[server]}" -m -- mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
server_start
network_fs_back() { mount_start "$1"; }
network_fs_lost() { mount_kill "$1"; }
use_up_inodes() { nsenter -t "${KEEPER[server]}" -m -- sh -c "mkdir '$EXPORT/full' && i=0; while : 2>/dev/null >'$EXPORT/full/'\$i; do i=\$((i + 1)); done"; true; }
give_back_inodes() { nsenter -t "${KEEPER[server]}" -m -- rm -r "$EXPORT/full"; }
is_open_still() { false; }
is_used_again() { [ "$1" = "$2" ]; }
for i in 1 2; do network_fs_back $i; done
gateways_hold
for i in 1 2; do mount_stop $i || fail "node$i: $?"; done
finish
