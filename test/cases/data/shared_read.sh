# A shared read while nodes join late, leave and are killed; every byte right, and the server's link carries the file about once.
# timeout: 180
. "$TOP/test/lib.sh"
cluster 6 200mbit
head -c 50000001 /dev/urandom >"$EXPORT/big"
sum=$(sha256sum <"$EXPORT/big")
server_start
mounts_start
read_all() { on "node$1" sha256sum "$(mnt "$1")/big" 2>&1 | cut -c1-64 >"$WORK/sum$1"; }
before=$(sent_by server)
for i in 1 2 3 4; do read_all $i & readers[i]=$!; done
sleep 0.7
on node5 sh -c "head -c 3000000 $(mnt 5)/big >/dev/null"     # joins and leaves
read_all 6 & readers[6]=$!                                   # joins late
sleep 0.3
mount_kill 2                                                 # a member of the middle dies
for i in 1 3 4 6; do
	wait "${readers[i]}"
	[ "$(cat "$WORK/sum$i")" = "${sum%% *}" ] || fail "node $i read $(cat "$WORK/sum$i")"
done
after=$(sent_by server)
note "the server sent $(((after - before) * 100 / 50000001)) % of the file for 6 readers"
# Without the ring it would be more than 450 %; the killed member's successor may ask for its window again.
[ $((after - before)) -lt $((50000001 * 22 / 10)) ] || fail "the server sent the file more than twice"
wait "${readers[2]}" 2>/dev/null
mount_start 2
read_all 2
[ "$(cat "$WORK/sum2")" = "${sum%% *}" ] || fail "after its restart node 2 read other bytes"
finish
