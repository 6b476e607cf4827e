# Two machines with copies of one local directory, as of one disk image: the server says so, whichever came first, and a node that
# only comes back is not taken for one.  What each writes is there.
. "$TOP/test/lib.sh"
cluster 2
server_start
told() { grep -c "have copies of one local directory" "$WORK/kairand.log"; }
mount_start 1
mount_stop 1
mount_start 1
mount_kill 1
mount_start 1
cut_link node1 # the answer to a HELLO may be lost
sleep 0.3
heal_link node1
on node1 sh -c "echo one >$(mnt 1)/one" || fail "writing"
[ "$(told)" = 0 ] || fail "a node is taken for a copy of itself: $(grep copies "$WORK/kairand.log")"
mount_stop 1
for starts in 0 1; do # of the original, after the copy was taken
	server_stop
	server_start
	rm -rf "$WORK/node2/local" && cp -a "$WORK/node1/local" "$WORK/node2/local" || fail "copying"
	before=$(told)
	for i in $(seq $starts); do
		mount_start 1
		mount_stop 1
	done
	mount_start 1
	nsenter -t "${KEEPER[node2]}" -n -u -m -- "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 2)" -f -o "local=$WORK/node2/local" \
		</dev/null >>"$WORK/node2/log" 2>&1 &
	DAEMON[node2]=$!
	until_ok 15 "a warning, $starts" sh -c "[ \$(grep -c 'have copies of one local directory' '$WORK/kairand.log') -gt $before ]" || fail "nobody is told"
	grep -E "nodes node[12] \(10.77.1.[12]\) and node[12] \(10.77.1.[12]\) have copies" "$WORK/kairand.log" >/dev/null || fail "$(grep copies "$WORK/kairand.log")"
	[ "$(told)" = $((before + 1)) ] || fail "told $(told) times"
	for node in 1 2; do on node$node sh -c "echo $starts$node >$(mnt $node)/of$node" || fail "writing"; done
	[ "$(on node2 cat "$(mnt 2)/of1")" = ${starts}1 ] && [ "$(on node1 cat "$(mnt 1)/of2")" = ${starts}2 ] || fail "reading"
	killed node2
	on node2 umount -l "$(mnt 2)"
	mount_stop 1 || fail "the unmount: $?"
done
finish
