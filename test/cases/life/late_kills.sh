# kill -9 of the server, and of the node, at each step of a conflict: late bytes go into one conflict file, whole, the latest of
# each, and never into the original.
# tags: faults
# timeout: 300
LEASE=3
. "$TOP/test/lib.sh"
. "$TOP/test/lib-late.sh"
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
chmod 777 "$EXPORT"
mounts_start flush_age=600

# Node 1 is cut off with late bytes of $1, the later of two writes within the earlier; others change it meanwhile.
be_late() {
	make "$1"
	hold "$1" 2 EARLIER- 4 LATE
	away cut_link node1
	node2 "printf NEW | dd of=$1 bs=1 seek=7 conv=notrunc,fsync status=none"
}
# All is where it belongs.
judge() {
	conflict "$1" ..EALATER- || fail "$1"
	clean
	has_conflict "$1" ..EALATER- || fail "$1: $(ls -l "$EXPORT")"
	is "$EXPORT/$1" originaNEW
}
for point in conflict.declared conflict.recorded conflict.made; do
	note "the server dies at $point"
	server_stop
	KR_FAULT=$point:kill:1 server_start
	until_ok 60 "node 1 is back" is_back || fail "node 1 does not come back"
	be_late $point
	heal_link node1
	until_ok 60 "the server dies at $point" gone "${DAEMON[server]}" || fail "$point is not reached"
	wait "${DAEMON[server]}" 2>/dev/null
	server_start
	told $point 116
	judge $point
done

# mount_dies FAULT: node 1 is mounted, and killed there; a mount that was there dies first.
mount_dies() {
	nsenter -t "${KEEPER[node1]}" -n -u -m -- env "KR_FAULT=$1" "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$D" -f \
		-o "local=$WORK/node1/local,flush_age=600" </dev/null >>"$WORK/node1/log" 2>&1 &
	DAEMON[node1]=$!
	until_ok 60 "node 1 dies at $1" gone "${DAEMON[node1]}" || fail "$1 is not reached: $(tail -5 "$WORK/node1/log")"
	mount_kill 1
}
note "the node dies while it takes its late bytes, and again at each step of the next mounts"
mount_stop 1 || fail "node 1 does not unmount"
KR_FAULT=late.taken:kill:1 mount_start 1 flush_age=600
be_late node
heal_link node1
until_ok 60 "node 1 dies at late.taken" gone "${DAEMON[node1]}" || fail "late.taken is not reached"
mount_kill 1
for point in late.taken:kill:1 late.named:kill:1 late.moved:kill:1 journal.stable:kill:1; do
	note "... at $point"
	mount_dies $point
done
mount_start 1 flush_age=600
judge node

note "whoever replays its journal is killed when the conflict file has got the bytes"
be_late replay
mount_kill 1
heal_link node1
server_stop # what was written before its start goes by the times of files
server_start
replay() { on node1 timeout -s KILL 60 env "$@" "$B/tools/kairan" journal "$WORK/node1/local" --replay $SERVER_ADDRESS >>"$WORK/replayed" 2>&1; }
replay KR_FAULT=late.moved:kill:1 && fail "late.moved is not reached: $(cat "$WORK/replayed")"
replay KR_FAULT= || fail "it is not replayed: $(cat "$WORK/replayed")"
has_conflict replay ..EALATER- || fail "replay: $(ls -l "$EXPORT")"
! compgen -G "$EXPORT/*.conflict-*.conflict-*" >/dev/null || fail "conflict files of conflict files: $(ls -l "$EXPORT")"
is "$EXPORT/replay" originaNEW
finish
