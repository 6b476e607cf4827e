# A mount whose daemon has died comes back: by the same command again, and by the service kairanfs@.
. "$TOP/test/lib.sh"
cluster 1
server_start
M=$(mnt 1)
mount_again() { on node1 "$B/fuse/kairanfs" "${2:-$SERVER_ADDRESS:/}" "$M" -o "local=$WORK/node1/$1,flush_age=600,close=async" >"$WORK/said" 2>&1; }
daemon() { kairan 1 status --json "$M" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])'; }

note "the same command again"
mount_again local || fail "mount: $(cat "$WORK/said")"
on node1 sh -c "echo unflushed >$M/notes; exec sleep 1000 <$M/notes" &
reader=$!
until_ok 10 "the file" on node1 test -s "$M/notes" || fail "no file"
kill -KILL "$(daemon)"
until_ok 20 "the end" sh -c "! nsenter -t ${KEEPER[node1]} -m ls $M" || fail "the mount outlives its daemon"
! mount_again local2 $SERVER_ADDRESS:/elsewhere || fail "another source takes the place of a dead mount"
grep -q "is mounted there already" "$WORK/said" || fail "another source: $(cat "$WORK/said")"
mount_again local || fail "the dead mount is in the way: $(cat "$WORK/said")"
grep -q "the daemon of the mount on $M is gone" "$WORK/said" || fail "nothing is said: $(cat "$WORK/said")"
[ "$(on node1 cat "$M/notes")" = unflushed ] || fail "the journal was not replayed"
kill $reader
[ "$(on node1 grep -c " $M " /proc/self/mounts)" = 1 ] || fail "more than one mount: $(on node1 grep " $M " /proc/self/mounts)"
! mount_again local2 || fail "a living mount is replaced"
on node1 "$B/tools/kairan" umount "$M" || fail "umount"
[ "$(cat "$EXPORT/notes")" = unflushed ] || fail "the server has something else"

note "the service"
printf 'SOURCE=%s\nOPTIONS=-o local=%s,flush_age=600,close=async\n' $SERVER_ADDRESS:/ "$WORK/node1/local" >"$WORK/kairanfs-mnt"
on node1 "$TOP/test/programs/service.py" "$B/conf/kairanfs@.service" "$M" "$WORK/kairanfs-mnt" "$B/fuse" "$B/tools" >"$WORK/service" 2>"$WORK/node1/log" &
service=$!
until_ok 30 "a start" grep -q "^ready" "$WORK/service" || fail "not ready: $(cat "$WORK/node1/log")"
for life in 1 2; do
	on node1 sh -c "echo $life >$M/life$life" || fail "write in life $life"
	kill -KILL "$(sed -n 's/^ready //p' "$WORK/service" | tail -1)"
	until_ok 30 "life $((life + 1))" sh -c "[ \$(grep -c ^ready $WORK/service) = $((life + 1)) ]" || fail "not started again: $(cat "$WORK/node1/log")"
	[ "$(on node1 cat "$M/life$life")" = $life ] || fail "what was written in life $life"
done
kill -TERM "$(sed -n 's/^service //p' "$WORK/service")"
wait $service || fail "the service fails to stop: $(cat "$WORK/node1/log")"
[ "$(grep ^ended "$WORK/service" | tr '\n' ' ')" = "ended -9 ended -9 ended 0 " ] || fail "it ended as $(cat "$WORK/service")"
! on node1 grep -q " $M " /proc/self/mounts || fail "still mounted"
[ "$(cat "$EXPORT/life2")" = 2 ] || fail "the server has something else"
finish
