# For cases in which the server loses its power: its disk is an image in a file, which is put back to how it was, and its machine
# gets another boot id.  Sourced after test/lib.sh and `cluster`.
grep -q KR_FAULT "$B/server/kairand" || skip "built without fault points (meson -Dfaults=true)"
truncate -s 64M "$WORK/disk"
mkfs.ext4 -q -m0 -E lazy_itable_init=0 "$WORK/disk" 2>/dev/null || skip "no mkfs.ext4"
on server mount -o loop "$WORK/disk" "$EXPORT" || skip "no loop device"
E=/proc/${KEEPER[server]}/root$EXPORT
chmod 777 "$E"

# boot: from now on the server's machine has another boot id.
boot() {
	cat /proc/sys/kernel/random/uuid >"$WORK/boot_id"
	on server mount --bind "$WORK/boot_id" /proc/sys/kernel/random/boot_id || fail "no boot id of our own"
}
# snapshot: all that was written is on the disk, and this is how it looks.
snapshot() { on server sync -f "$EXPORT" && cp --sparse=always "$WORK/disk" "$WORK/disk.synced" || fail "no snapshot"; }
# power_loss: what came after the snapshot had not been written back.
power_loss() {
	server_kill
	on server umount "$EXPORT" || fail "the export is in use"
	mv "$WORK/disk.synced" "$WORK/disk"
	on server mount -o loop "$WORK/disk" "$EXPORT" || fail "the disk cannot be mounted after the loss of power"
	boot
}
# syncs off|on: what is applied does not get to the disk, as if the server were always too late; or it does.
syncs() {
	case $1 in
	off) echo stable.before:hold >"$WORK/order" && mv "$WORK/order" "$WORK/fault" ;;
	on) rm "$WORK/fault" ;;
	esac
}
# put NODE FILE TEXT [fsync]: writes at the beginning, and closes; returned means promised.
put() {
	on "node$1" timeout $((60 * SLOW)) python3 - "$(mnt "$1")/$2" "$3" "${4:-}" <<-'P' || fail "node $1 cannot write $2"
		import os, sys
		path, text, sync = sys.argv[1:]
		fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
		os.pwrite(fd, text.encode(), 0)
		if sync:
		    os.fsync(fd)
		os.close(fd)
	P
}
# begins NAME TEXT: in the export.
begins() { [ "$(head -c ${#2} "$E/$1" 2>/dev/null | tr '\0' .)" = "$2" ] || fail "$1 is '$(head -c 99 "$E/$1" | tr '\0' .)', not '$2'"; }
serves() { on "node$1" timeout -s KILL 5 stat "$(mnt "$1")/."; }
