# Several connections to one upstream: one on a short link, more where packets are lost; one that is cut costs no bytes and little time; a node
# on such links that is killed in the middle of a shared read.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
[ -c /dev/net/tun ] || skip "no /dev/net/tun"
SIZE=$((40 << 20))
cluster 3 200mbit
for name in a b c d; do head -c $SIZE /dev/urandom >"$EXPORT/$name"; done
congestion_reno server
server_start
# ring NODE FIELD: of its status.
ring() { kairan "$1" status --json "$(mnt "$1")" | python3 -c 'import json, sys; print(json.load(sys.stdin)["ring"][sys.argv[1]])' "$2"; }
reads() { on "node$1" cmp "$(mnt "$1")/$2" "$EXPORT/$2" 2>&1 || fail "node $1 does not read what is in $2"; }
has_more() { [ "$(ring "$1" lanes)" -ge "$2" ]; }
has_received() { [ "$(ring "$1" received_bytes)" -gt 5000000 ]; }
# port NODE: of its ring connection that has brought the most.
port() {
	on "node$1" ss -tinH "dport = :$PORT" | paste - - | sed -nE 's/.* [0-9.]+:([0-9]+) +[0-9.]+:[0-9]+[[:space:]].*bytes_received:([0-9]+).*/\2 \1/p' |
		sort -n | tail -1 | cut -d' ' -f2
}

note "a short link"
mount_start 1
reads 1 a
[ "$(ring 1 lanes) $(ring 1 reassigned_blocks)" = "0 0" ] || fail "more than one connection: $(ring 1 lanes), $(ring 1 reassigned_blocks) blocks asked twice"
mount_stop 1

note "its only connection is cut"
long_link 1 60 0.5 0
for attempt in 1 2 3 4 5; do # on a busy machine the cut may come when all has been read
	rm -rf "$WORK/node1/local/cache"
	mount_start 1
	reads 1 b & reader=$!
	until_ok 20 "some bytes" has_received 1 || fail "nothing comes"
	cut=$(port 1)
	[ -n "$cut" ] || fail "no connection"
	start=$(date +%s%N)
	echo "cut $cut" >"$WORK/orders1"
	wait $reader || exit 1
	took=$((($(date +%s%N) - start) / 1000000))
	again=$(ring 1 reassigned_blocks)
	mount_stop 1
	[ "$again" = 0 ] || break
done
[ "$again" -gt 0 ] || fail "no block was asked again"
[ $took -lt $((12000 * SLOW)) ] || fail "that took $took ms"

note "lost packets, and one of the connections cut"
long_link 1 200 3 1
mount_start 1
reads 1 c & reader=$!
until_ok 30 "three more connections" has_more 1 3 || fail "there are $(ring 1 lanes) more"
cut=$(port 1)
echo "cut $cut" >"$WORK/orders1"
wait $reader || exit 1
mount_stop 1

note "kill -9 of the node in the middle"
for i in 1 2 3; do
	long_link $i 200 3 1
	congestion_reno node$i
	mount_start $i
done
for i in 1 2 3; do reads $i d & readers[i]=$!; sleep 0.2; done
until_ok 20 "a second connection" has_more 2 1 || fail "there is one connection only"
mount_kill 2
for i in 1 3; do wait "${readers[i]}" || exit 1; done
wait "${readers[2]}" 2>/dev/null
finish
