# Ring connections over verbs, with a stand-in for the libraries: a shared read with a member that is killed, writes of several nodes, garbage
# at the port for callers; sealed; and TCP with a node that has no device.
. "$TOP/test/lib.sh"
FAKE=$B/test/fake/libfakeverbs.so
case $B in *asan* | *tsan*) skip "a preloaded library is none for a sanitizer" ;; esac
[ -e "$FAKE" ] || skip "built without RDMA"
SIZE=20000001
"$B/tools/kairan" key "$WORK/key" >/dev/null || fail "no key"
cluster 3 200mbit
head -c $SIZE /dev/urandom >"$EXPORT/big"
head -c $SIZE /dev/urandom >"$EXPORT/other"
with_device() { LD_PRELOAD=$FAKE "$@"; }
read_all() { on "node$1" sha256sum "$(mnt "$1")/$2" 2>&1 | cut -c1-64 >"$WORK/sum$1"; }
# read_in_order FILE: all nodes; the first to come is the first in the pipeline, so node 2 pulls from node 1.
read_in_order() {
	local i
	for i in 1 2 3; do
		read_all $i "$1" &
		readers[i]=$!
		[ $i != 1 ] || sleep 0.2
	done
}
all_read() { # FILE NODE...
	local sum i file=$1
	shift
	sum=$(sha256sum <"$EXPORT/$file")
	for i in "$@"; do [ "$(cat "$WORK/sum$i")" = "${sum%% *}" ] || fail "node $i read $(cat "$WORK/sum$i") in $file"; done
}
# hops NODE TRANSPORT: "NUMBER BYTES" of its connections of that kind.
hops() {
	kairan "$1" status --json "$(mnt "$1")" | python3 -c 'import json, sys
hops = [hop for hop in json.load(sys.stdin)["ring"]["hops"] if hop["transport"] == sys.argv[1]]
print(len(hops), sum(hop["verbs_bytes"] for hop in hops))' "$2"
}
hops_of_server() {
	kairan 1 status --json --key "$WORK/key" $SERVER_ADDRESS | python3 -c 'import json, sys
hops = [hop for hop in json.load(sys.stdin)["data"]["hops"] if hop["transport"] == sys.argv[1]]
print(len(hops), sum(hop["verbs_bytes"] for hop in hops))' "$1"
}
by_verbs() { # NODE BYTES: it has connections by verbs that have moved so much, and none by TCP
	local count bytes
	read -r count bytes <<<"$(hops "$1" verbs)"
	[ "$count" -gt 0 ] && [ "$bytes" -ge "$2" ] && [ "$(hops "$1" tcp)" = "0 0" ]
}

note "a shared read, whose member in the middle is killed"
with_device server_start --no-insecure --key "$WORK/key" --transport verbs --verbose
for i in 1 2 3; do with_device mount_start $i "key=$WORK/key,debug"; done
read_in_order big
sleep 0.4
mount_kill 2
for i in 1 3; do wait "${readers[i]}"; done
all_read big 1 3
wait "${readers[2]}" 2>/dev/null
by_verbs 1 $((SIZE * 9 / 10)) || fail "node 1: by verbs $(hops 1 verbs), by TCP $(hops 1 tcp)"
# What came by a connection that has ended, as that of the killed member, no hop shows.
received=$(kairan 3 status --json "$(mnt 3)" | python3 -c 'import json, sys; print(json.load(sys.stdin)["ring"]["received_bytes"])')
by_verbs 3 1 && [ "$received" -ge $((SIZE * 9 / 10)) ] ||
	fail "node 3: by verbs $(hops 3 verbs), by TCP $(hops 3 tcp), by all $received"
! grep -q "ring connections .*use TCP" "$WORK/node3/log" || fail "node 3 had a connection by TCP"
[ "$(hops_of_server verbs | cut -d' ' -f1)" -ge 1 ] || fail "the server has no connection by verbs"
kairan 3 status "$(mnt 3)" | grep -q '  ring .* by verbs' || fail "status does not tell of verbs"
with_device mount_start 2 "key=$WORK/key,debug"

note "garbage at the ports, and a caller without a token"
ports=$(nsenter -t "${KEEPER[node1]}" -n ss -Hltn | awk '{sub(".*:", "", $4); print $4}')
[ "$(echo "$ports" | wc -l)" -ge 2 ] || fail "node 1 listens for no caller: $ports"
for port in $ports; do
	on node3 python3 - 10.77.1.1 "$port" <<-'P' || fail "port $port"
		import os, socket, struct, sys
		def say(text):
		    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as peer:
		        peer.sendall(text)
		        peer.settimeout(5)
		        try:
		            return peer.recv(100)
		        except ConnectionResetError:
		            return b""
		say(b"GET / HTTP/1.0\r\n\r\n" + os.urandom(1000))
		# As the stand-in sends a request to connect, with private data that has no token of this node.
		answer = say(struct.pack("=III", 0xfa4e, 3, 44) + struct.pack(">III", 0x4b52564d, 1, 16) + os.urandom(32))
		assert answer == b"" or struct.unpack("=III", answer)[1] == 5 or answer[:4] == b"NARK", answer
	P
done

note "writes of two nodes into one file, and a read of what they wrote"
for i in 1 3; do
	on "node$i" python3 "$TOP/test/programs/strided.py" write "$(mnt "$i")/strided" $((i / 2)) 2 131072 40 >"$WORK/write$i" 2>&1 &
	writers[i]=$!
done
for i in 1 3; do wait "${writers[i]}" || fail "writer $i: $(cat "$WORK/write$i")"; done
python3 "$TOP/test/programs/strided.py" check "$EXPORT/strided" 0 2 131072 40 || fail "bytes on the server"
python3 "$TOP/test/programs/strided.py" check "$(seen_from_here 2)/strided" 0 2 131072 40 || fail "bytes on node 2"
by_verbs 1 1 && by_verbs 2 1 && by_verbs 3 1 || fail "by TCP: $(hops 1 tcp), $(hops 2 tcp), $(hops 3 tcp)"

note "a node without a device"
mount_stop 1 || fail "node 1 does not end well"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -f -o "local=$WORK/node1/local,key=$WORK/key,transport=verbs" >"$WORK/refused" 2>&1 &&
	fail "a mount by verbs without a device"
grep -q "transport=verbs needs an RDMA device" "$WORK/refused" || fail "it says $(cat "$WORK/refused")"
mount_start 1 "key=$WORK/key"
read_in_order other
for i in 1 2 3; do wait "${readers[i]}"; done
all_read other 1 2 3
[ "$(hops 1 verbs)" = "0 0" ] || fail "node 1 has verbs"
grep -qE "ring connections with 10.77.1.1 use TCP, not verbs: the peer uses TCP only" "$WORK"/node[23]/log || fail "no line tells of TCP"
finish
