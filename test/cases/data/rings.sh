# ring=NAME: nodes of one ring feed each other and nobody else, and all see one filesystem.
# timeout: 180
. "$TOP/test/lib.sh"
cluster 4
bytes=20000000
head -c $bytes /dev/urandom >"$EXPORT/big"
head -c $bytes /dev/urandom >"$EXPORT/staged"
server_start
for i in 1 2; do mount_start $i "ring=red,ring_port=$((7450 + i))"; done
for i in 3 4; do mount_start $i ring=blue; done
# fed: what the server itself has given to readers, in bytes.
fed() { kairan 1 status --json $SERVER_ADDRESS | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["feed"]["bytes"])'; }
read_on() { [ "$(on "node$1" cat "$(mnt "$1")/$2" | sha256sum)" = "$(sha256sum <"$EXPORT/$2")" ] || fail "node $1 reads other bytes of $2"; }
# Once per ring: who comes second pulls from the first (but for what that one owes for seconds, on a busy machine).
for i in 1 2 3 4; do read_on $i big; done
[ "$(fed)" -ge $((2 * bytes)) ] && [ "$(fed)" -lt $((bytes * 35 / 10)) ] || fail "the server gave $(fed) bytes to two rings for a file of $bytes"

note "kairan stage brings it to its own ring"
kairan 1 stage --wait "$(mnt 1)/staged" >"$WORK/said" 2>&1 || fail "stage: $(cat "$WORK/said")"
grep -q 'on 2 nodes$' "$WORK/said" || fail "said: $(cat "$WORK/said")"
before=$(fed)
read_on 2 staged
[ "$(fed)" -lt $((before + bytes / 2)) ] || fail "it was not on node 2"
before=$(fed)
read_on 3 staged
[ "$(fed)" -ge $((before + bytes)) ] || fail "node 3 did not ask the server"

note "writers of both rings, and what one writes the other sees"
for i in 1 2 3 4; do
	on "node$i" sh -c "yes $i | dd of=$(mnt "$i")/out bs=100000 seek=$((10 * (i - 1))) conv=notrunc iflag=fullblock count=30 2>/dev/null" & writers[i]=$!
done
for i in 1 2 3 4; do wait "${writers[i]}" || fail "writer $i"; done
[ "$(stat -c %s "$EXPORT/out")" = 6000000 ] || fail "what all wrote has $(stat -c %s "$EXPORT/out") bytes"
for i in 1 2 3 4; do
	[ "$(on "node$i" sh -c "sha256sum <$(mnt "$i")/out")" = "$(sha256sum <"$EXPORT/out")" ] || fail "node $i reads other bytes of what all wrote"
done
on node1 sh -c "echo seen >$(mnt 1)/note"
[ "$(on node3 cat "$(mnt 3)/note")" = seen ] || fail "node 3 does not see what node 1 has written"
kairan 1 status --json $SERVER_ADDRESS | grep '"ring": "blue"' >/dev/null || fail "status does not name the rings"

note "the port that a firewall knows"
for i in 1 2; do
	on "node$i" ss -Hltn | grep -q ":$((7450 + i)) " || fail "node $i does not listen there: $(on "node$i" ss -Hltn)"
done
kairan 1 status --json "$(mnt 1)" | grep '"port": 7451' >/dev/null || fail "status does not say the port"
mkdir "$WORK/node1/second" "$WORK/node1/third"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/node1/second" -o "local=$WORK/node1/local2,ring_port=7451" >"$WORK/said" 2>&1 || fail "second mount: $(cat "$WORK/said")"
grep -q "ring port 7451 of 10.* is in use" "$WORK/said" || fail "a port that is taken: $(cat "$WORK/said")"
kairan 1 status "$WORK/node1/second" | grep -q "RING  *no port" || fail "status does not say that there is no port"
on node1 cmp "$WORK/node1/second/big" "$(mnt 1)/big" || fail "without a port it reads other bytes"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/node1/third" -o "local=$WORK/node1/local3,ring_port=7451-7459" >"$WORK/said" 2>&1 || fail "third mount: $(cat "$WORK/said")"
[ ! -s "$WORK/said" ] && on node1 ss -Hltn | grep -q ":7452 " || fail "a range: $(cat "$WORK/said")"
for place in second third; do on node1 "$B/tools/kairan" umount "$WORK/node1/$place" >"$WORK/said" || fail "umount: $(cat "$WORK/said")"; done

note "a name that is too long"
if on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/node1/mnt" -o "local=$WORK/node1/other,ring=$(printf 'r%.0s' $(seq 64))" >"$WORK/said" 2>&1; then
	fail "it is taken"
fi
grep -q 'at most 63' "$WORK/said" || fail "said: $(cat "$WORK/said")"
finish
