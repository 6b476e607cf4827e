# kairanfs in the background: returns when the mount answers, fails with a reason otherwise, works through mount(8), logs to its file.
. "$TOP/test/lib.sh"
cluster 1
server_start
M=$(mnt 1)
echo hello >"$EXPORT/file"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$M" -o "local=$WORK/node1/local" >"$WORK/said" 2>&1 || fail "mount: $(cat "$WORK/said")"
[ "$(on node1 cat "$M/file")" = hello ] || fail "the mount does not serve when kairanfs returns"
note "SIGHUP ends neither daemon"
kill -HUP "$(kairan 1 status --json "$M" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')" "${DAEMON[server]}"
until_ok 20 "the server's word" grep -q "SIGHUP: there are no key files" "$WORK/kairand.log" || fail "kairand does not take SIGHUP"
until_ok 20 "the mount's word" grep -q "SIGHUP: there is nothing" "$WORK/node1/local/log" || fail "kairanfs does not take SIGHUP"
[ "$(on node1 cat "$M/file")" = hello ] || fail "after SIGHUP"
! on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$M" -o "local=$WORK/node1/local2" >"$WORK/said" 2>&1 || fail "mounted twice"
grep -qi "busy\|already\|mounted" "$WORK/said" || fail "mounted twice: $(cat "$WORK/said")"
note "the same where the mount hangs: said at once, whatever the path looks like"
stopped=$(on node1 pgrep -f "kairanfs $SERVER_ADDRESS:/ $M") || fail "no daemon"
kill -STOP "$stopped"
for path in "$M" "$M/" "$WORK/node1/./mnt" mnt; do
	on node1 timeout -s KILL $((60 * SLOW)) sh -c "cd $WORK/node1 && exec '$B/fuse/kairanfs' $SERVER_ADDRESS:/ '$path' -o 'local=$WORK/node1/local2'" >"$WORK/said" 2>&1
	[ $? = 1 ] && grep -q "busy: .* is mounted there already" "$WORK/said" || { kill -CONT "$stopped"; fail "$path: $(cat "$WORK/said")"; }
done
kill -CONT "$stopped"
mkdir "$WORK/node1/other"
for place in other other/below; do
	! on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/node1/other" -o "local=$WORK/node1/$place" >"$WORK/said" 2>&1 || fail "the mount hides its local directory"
	grep -q "lies at or below the mount point" "$WORK/said" || fail "local directory: $(cat "$WORK/said")"
done
[ -z "$(ls -A "$WORK/node1/other")" ] || fail "left behind: $(ls -A "$WORK/node1/other")"
on node1 "$B/tools/kairan" umount "$M" || fail "umount"
until_ok 20 "no mount" sh -c "! nsenter -t ${KEEPER[node1]} -m grep -q $M /proc/mounts" || fail "still mounted"
tail -1 "$WORK/node1/local/log" | grep -q "the mount on $M has ended; the server has all" || fail "no closing line: $(tail -1 "$WORK/node1/local/log")"
cpu=$(sed -n 's/^Cpus_allowed_list:\t\([0-9]*\).*/\1/p' /proc/self/status)
mkdir "$EXPORT/sub"; echo deep >"$EXPORT/sub/inner"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/sub "$M" -o "ro,local=$WORK/node1/local,cpus=$cpu" || fail "subdirectory"
[ "$(on node1 cat "$M/inner")" = deep ] || fail "subdirectory: other content"
daemon=$(kairan 1 status --json "$M" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')
[ "$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/"$daemon"/task/*/status | sort -u)" = "$cpu" ] || fail "not all threads run on processor $cpu"
! on node1 touch "$M/new" 2>/dev/null || fail "read-only mount writes"
on node1 fusermount3 -u "$M" || fail "fusermount3 -u"
note "mounted again at once, while the mount before still flushes"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$M" -o "close=async,local=$WORK/node1/local" || fail "mount"
on node1 sh -c "head -c 20000000 /dev/urandom >'$M/large'"
limit node1 100mbit
on node1 fusermount3 -u "$M" || fail "fusermount3 -u"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$M" -o "local=$WORK/node1/local" || fail "mount after unmount"
[ "$(on node1 cat "$M/large" | md5sum)" = "$(md5sum <"$EXPORT/large")" ] && [ "$(stat -c %s "$EXPORT/large")" = 20000000 ] || fail "content"
on node1 fusermount3 -u "$M" || fail "fusermount3 -u"
note "in the foreground it is the terminal's end, unless nohup is before it"
mount_start 1
kill -HUP "${DAEMON[node1]}"
wait "${DAEMON[node1]}" && ! on node1 grep -q " $M " /proc/mounts || fail "SIGHUP does not unmount in the foreground"
(trap '' HUP; exec nsenter -t "${KEEPER[node1]}" -n -u -m -- "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$M" -f -o "local=$WORK/node1/local") >>"$WORK/node1/log" 2>&1 &
DAEMON[node1]=$!
until_ok 30 "a mount" mounted_or_gone 1
kill -HUP "${DAEMON[node1]}"
[ "$(on node1 cat "$M/file")" = hello ] && mount_stop 1 || fail "nohup does not hold SIGHUP off"
note "started without standard descriptors"
on node1 sh -c "exec $B/fuse/kairanfs $SERVER_ADDRESS:/ $M -o local=$WORK/node1/local <&- >&- 2>&-" || fail "mount without standard descriptors"
[ "$(on node1 cat "$M/file")" = hello ] || fail "that mount does not serve"
on node1 sh -c "exec $B/tools/kairan umount $M <&- >&- 2>&-" || fail "umount without standard descriptors"
server_stop || fail "server"
on server sh -c "exec $B/server/kairand --listen 0.0.0.0:$PORT --insecure --state $WORK/state $EXPORT <&- >&- 2>&-" &
DAEMON[server]=$!
until_ok 10 "kairand without standard descriptors" on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$M" -o "local=$WORK/node1/local" || fail "kairand without standard descriptors"
[ "$(on node1 cat "$M/file")" = hello ] || fail "that server does not serve"
on node1 fusermount3 -u "$M" || fail "fusermount3 -u"
kill -TERM $(pgrep -P "${DAEMON[server]}" kairand || echo "${DAEMON[server]}")
wait "${DAEMON[server]}"
finish
