# The state directory is removed, or cannot be written, under a server that runs: new mounts are refused, and both sides say why, once.
# Mounts that are there go on, also over new connections.
. "$TOP/test/lib.sh"
LEASE=2
EXPECTED_ERRORS='refuses this node: its state directory was removed'
cluster 2
server_start
mount_start 1
# refused: a mount on node 2 fails at once, and says what matches.
refused() {
	on node2 timeout -s KILL $((20 * SLOW)) "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 2)" -o "local=$WORK/node2/local" >"$WORK/said" 2>&1
	[ $? = 1 ] || fail "a mount without a state directory: $(head -5 "$WORK/said")"
	grep -q "refuses this node: its state directory was removed or cannot be written" "$WORK/said" || fail "does not say why: $(cat "$WORK/said")"
	[ "$(wc -l <"$WORK/said")" = 1 ] || fail "says more than once: $(head -5 "$WORK/said")"
	grep -q "node node2 .*refused: the state directory $WORK/state $1" "$WORK/kairand.log" || fail "the server says: $(tail -3 "$WORK/kairand.log")"
	! on node2 grep -q "$(mnt 2)" /proc/mounts || fail "it left a mount"
}
note "on a disk that takes nothing more"
server_stop
cp -a "$WORK/state" "$WORK/copy"
on server mount -t tmpfs -o mode=700,nr_inodes=64 state "$WORK/state" && on server cp -a "$WORK/copy/." "$WORK/state" || fail "no tmpfs"
server_start
on node1 sh -c "echo one >$(mnt 1)/file" || fail "the mount does not come back"
! on server sh -c 'for n in $(seq 64); do : >"$0/full$n" || exit 1; done' "$WORK/state" 2>/dev/null || fail "it is not full"
refused "cannot be written: No space left on device"
on server sh -c 'rm "$0"/full*' "$WORK/state" || fail "still full"
mount_start 2
mount_stop 2 || fail "a mount after that"

note "removed"
on server rm -rf "$WORK/state/nodes" || fail "not removed"
refused "was removed (restore it from a backup, then start kairand again)"
on node1 sh -c "echo two >$(mnt 1)/file" || fail "a mount that was there stands still"
[ "$(cat "$EXPORT/file")" = two ] || fail "the file holds $(cat "$EXPORT/file")"

note "a node that has lost its session waits, says so once, and goes on when the directory is back"
cut_link node1
until_ok 30 "an end of the session" grep -q "node node1.* lost" "$WORK/kairand.log" || fail "the session does not end"
heal_link node1
until_ok 30 "a refusal" grep -q "refuses this node: its state directory" "$WORK/node1/log" || fail "it is not refused"
on node1 timeout -s KILL $((60 * SLOW)) sh -c "echo three >$(mnt 1)/file" &
program=$!
sleep 3 # in which it tries again
lines=$(grep -c "refuses this node" "$WORK/node1/log")
[ "$lines" = 1 ] || fail "$lines lines of it: $(tail -5 "$WORK/node1/log")"
server_stop
on server umount "$WORK/state" || fail "in use"
server_start
wait $program || fail "it does not go on: $(tail -3 "$WORK/node1/log")"
kairan 1 flush "$(mnt 1)" || fail "flush"
[ "$(cat "$EXPORT/file")" = three ] || fail "the file holds $(cat "$EXPORT/file")"
finish
