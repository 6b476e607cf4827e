# A node without work sleeps: its daemon looks at clocks and lists only while it waits for something.
# tags: long
. "$TOP/test/lib.sh"
PER_S=3 # the session's ping, and a look at each connection every 2 s
cluster 2
server_start
mount_start 1
mount_start 2
note "work: bytes to flush, blocks from the other node, a program that waits for a lock"
on node1 sh -c "head -c 3000000 /dev/urandom >$(mnt 1)/file"
on node2 cmp "$(mnt 2)/file" "$EXPORT/file" || fail "node 2 reads something else"
on node1 flock "$(mnt 1)/file" sleep 1 &
on node2 flock "$(mnt 2)/file" true
wait $!
note "and then none"
# switches NODE: how often its threads have gone to sleep so far.
switches() { awk '/^voluntary/ { sum += $2 } END { print sum }' /proc/"${DAEMON[$1]}"/task/*/status; }
quiet() {
	local before after
	before=$(switches "$1")
	sleep 10
	after=$(switches "$1")
	echo "$1: $((after - before)) in 10 s"
	[ $((after - before)) -le $((10 * PER_S)) ]
}
for node in node1 node2; do
	until_ok 60 "$node sleeps" quiet $node || fail "$node: $(quiet $node)"
done
finish
