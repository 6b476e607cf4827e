# The node's directory cannot say, or the node is killed before or after it says, that refused bytes have become older than others' (UNCOVERED in
# journal_format.h): they never cover what another node has written since, and go to a conflict file.
# tags: faults
# timeout: 200
LEASE=4
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space left on device; its unflushed bytes wait in the journal until|cannot write uncovered: Input/output error: .* is known only as long as'
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
KR_FAULT="@$WORK/fault" server_start
mount_start 2
drained() { kairan 1 flush --timeout 5 "$(mnt 1)" >"$WORK/said" 2>&1; }
# refused NAME: node 1 has bytes of it that the server has no room for.
refused() {
	echo original >"$EXPORT/$1"
	chmod 666 "$EXPORT/$1"
	echo apply.before:enospc >"$WORK/order" && mv "$WORK/order" "$WORK/fault"
	! on node1 sh -c 'printf 1111 | dd of="$1" conv=notrunc,fsync status=none' sh "$(mnt 1)/$1" 2>"$WORK/said" || fail "$1: the server had room"
	grep -q "No space left" "$WORK/said" || fail "$1: $(cat "$WORK/said")"
}
# overtake NAME: node 2 reads it, so that node 1 is asked for its lease, and writes to it.
overtake() {
	on node2 head -c 1 "$(mnt 2)/$1" >/dev/null || fail "$1: node 2 cannot read"
	rm "$WORK/fault"
	on node2 sh -c 'printf 22 | dd of="$1" conv=notrunc,fsync status=none' sh "$(mnt 2)/$1" || fail "$1: node 2 cannot write"
}
judge() {
	until_ok 60 "node 1 drains" drained || fail "$1: node 1 keeps something: $(cat "$WORK/said")"
	[ "$(cat "$EXPORT/$1")" = 22iginal ] || fail "$1: there is $(cat "$EXPORT/$1")"
	[ "$(cat "$EXPORT/$1".conflict-node1-*)" = 1111 ] || fail "$1: what was refused is not beside it: $(ls "$EXPORT")"
}
for point in journal.uncovered journal.uncovered.written; do
	note "node 1 dies at $point"
	KR_FAULT=$point:kill:1 mount_start 1
	refused $point
	overtake $point
	until_ok 20 "node 1 dies at $point" gone "${DAEMON[node1]}" || fail "$point is not reached"
	mount_kill 1
	mount_start 1
	judge $point
	mount_stop 1 || fail "$point: exit status of the daemon"
done
note "the disk takes no such word"
KR_FAULT=journal.uncovered:eio mount_start 1
refused untold
overtake untold
judge untold
grep -q "is known only as long as" "$WORK/node1/log" || fail "nothing in the log: journal.uncovered is not reached"
finish
