# kill -9 of each daemon at each named fault point, then restart; a checker that knows what was promised reads the export.
# tags: faults long
# timeout: 600
. "$TOP/test/lib.sh"
LEASE=4
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
mount_start 2
# POINT, where the third pass kills, or POINT:PASS.
points_mount="write.before write.after journal.append journal.index journal.mark journal.stable recall.flushed recall.answer flush.round:1 chain.end:1
	cache.write:1 cache.map:1 cache.rekey:1 cut.heard:1"
points_server="apply.before apply.middle apply.after stable.before stable.after flush.reply"
head -c 300000 /dev/urandom >"$EXPORT/patched"
chmod 666 "$EXPORT/patched"
number=0
# Node 1 changes what it has in its cache, once the writer has been promised something.
patch() {
	until_ok 20 "a promise" test -s "$WORK/promises"
	on node1 timeout -s KILL 5 sh -c 'for i in 1 2 3; do cat "$1" >/dev/null; echo $i | dd of="$1" conv=notrunc,fsync; done' sh "$(mnt 1)/patched" >/dev/null 2>&1
}
# Node 2 cuts what node 1 has open.
cut() {
	until_ok 20 "a promise" test -s "$WORK/promises"
	on node1 timeout -s KILL 5 sh -c 'exec 3<"$1"; cat <&3; sleep 5' sh "$(mnt 1)/patched" >"$WORK/read" 2>/dev/null &
	local reader=$!
	until_ok 5 "node 1 has it open" test -s "$WORK/read"
	on node2 timeout -s KILL 5 truncate -s 0 "$(mnt 2)/patched" 2>/dev/null
	kill -KILL $reader 2>/dev/null
	wait $reader 2>/dev/null
}
# writer on node 1: each line it prints is a promise ("wrote N", "synced N", "closed N"); node 2 reads in between. A point that is
# not reached fails the case, and so does one that is not in the code.
try() {
	local daemon=$1 host=node1 point=${2%%:*} pass=3
	[ "$daemon" = mount ] || host=server
	case $2 in *:*) pass=${2#*:} ;; esac
	number=$((number + 1))
	local name=file$number
	note "$daemon dies at $point"
	if [ "$daemon" = mount ]; then
		KR_FAULT=$point:kill:$pass mount_start 1
	else
		mount_start 1   # before: what an earlier round left may bring the server to its point at once
		server_stop
		KR_FAULT=$point:kill:$pass server_start
	fi
	rm -f "$WORK/promises"
	on node1 timeout -s KILL $((60 * SLOW)) python3 "$TOP/test/programs/promises.py" write "$(mnt 1)/$name" "0.0$SLOW" >"$WORK/promises" 2>/dev/null &
	local writer=$!
	rm -f "$WORK/read"
	case $point in cache.rekey) patch ;; cut.heard) cut ;; esac &
	local other=$!
	while alive $writer && alive "${DAEMON[$host]}"; do
		# Recalls the writer's lease, while all live; flushes are small then, and go inline.
		case $point in flush.round | chain.end) ;; *) timeout -s KILL $SLOW head -c 100 "$(seen_from_here 2)/$name" >/dev/null 2>&1 ;; esac
		sleep 0.1
	done
	if [ "$daemon" = server ]; then
		until_ok 20 "the server dies at $point" gone "${DAEMON[server]}" || fail "$point is not reached"
		wait "${DAEMON[server]}" 2>/dev/null
		server_start
		wait $writer || fail "$point: the program noticed the server's death: $(tail -2 "$WORK/promises")"
	else
		wait $writer 2>/dev/null
		until_ok 5 "the mount dies at $point" gone "${DAEMON[node1]}" || fail "$point is not reached"
	fi
	wait $other 2>/dev/null
	mount_kill 1
	mount_start 1
	until_ok 30 "replay" on node1 "$B/tools/kairan" flush "$(mnt 1)" || fail "$point: not drained: $(kairan 1 status "$(mnt 1)")"
	python3 "$TOP/test/programs/promises.py" check "$EXPORT/$name" <"$WORK/promises" || fail "$point: a promise is broken"
	timeout -s KILL 20 cmp "$EXPORT/$name" "$(seen_from_here 2)/$name" || fail "$point: node 2 reads other bytes"
	mount_kill 1
}
for point in ${POINTS_MOUNT-$points_mount}; do try mount "$point"; done
for point in ${POINTS_SERVER-$points_server}; do try server "$point"; done
finish
