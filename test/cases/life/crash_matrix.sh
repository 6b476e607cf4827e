# kill -9 of each daemon at each named fault point, then restart; a checker that knows what was promised reads the export.
# tags: faults
# timeout: 600
. "$TOP/test/lib.sh"
LEASE=4
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
mount_start 2
points_mount="write.before write.after journal.append journal.index journal.applied journal.stable recall.flushed recall.answer flush.sent cache.write cache.map"
points_server="apply.before apply.middle apply.after stable.before stable.after flush.reply"
number=0
one_gone() { gone "$1" || gone "$2"; }
# writer on node 1: each line it prints is a promise ("wrote N", "synced N", "closed N"); node 2 reads in between.
try() {
	local daemon=$1 point=$2
	number=$((number + 1))
	local name=file$number
	note "$daemon dies at $point"
	if [ "$daemon" = mount ]; then
		KR_FAULT=$point:kill:3 mount_start 1
	else
		mount_start 1   # before: what an earlier round left may bring the server to its point at once
		server_stop
		KR_FAULT=$point:kill:3 server_start
	fi
	on node1 timeout -s KILL $((60 * SLOW)) python3 "$TOP/test/programs/promises.py" write "$(mnt 1)/$name" >"$WORK/promises" 2>/dev/null &
	local writer=$! i
	for i in 1 2 3 4 5 6; do
		timeout -s KILL 1 head -c 100 "$(seen_from_here 2)/$name" >/dev/null 2>&1   # recalls the writer's lease, while all live
		sleep 0.1
	done
	if [ "$daemon" = server ]; then
		until_ok 20 "the server dies at $point" gone "${DAEMON[server]}" || { note "not reached: $point"; kill -KILL "${DAEMON[server]}"; }
		wait "${DAEMON[server]}" 2>/dev/null
		server_start
		wait $writer || fail "$point: the program noticed the server's death: $(tail -2 "$WORK/promises")"
	else
		until_ok 20 "the mount dies at $point or the writer ends" one_gone "${DAEMON[node1]}" $writer || fail "$point: nothing happens"
		wait $writer 2>/dev/null
	fi
	mount_kill 1
	mount_start 1
	until_ok 30 "replay" on node1 "$B/tools/kairan" flush "$(mnt 1)" || fail "$point: not drained: $(kairan 1 status "$(mnt 1)")"
	python3 "$TOP/test/programs/promises.py" check "$EXPORT/$name" <"$WORK/promises" || fail "$point: a promise is broken"
	timeout -s KILL 20 cmp "$EXPORT/$name" "$(seen_from_here 2)/$name" || fail "$point: node 2 reads other bytes"
	mount_kill 1
}
for point in $points_mount; do try mount "$point"; done
for point in $points_server; do try server "$point"; done
finish
