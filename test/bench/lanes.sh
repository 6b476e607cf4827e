# The measurements of test/bench/lanes, inside a cluster of test/cluster.
mount_stop 1 && server_stop || fail "the daemons do not end"
PROGRAM=$TOP/test/bench/lanes.py RECORD=$WORK/record ORDERS=$WORK/orders1 FAULT=4
# long LOSS: node 1's link is a long one from now on.
long() { long_link 1 "$MBIT" "$DELAY" "$1"; }
share() { python3 "$PROGRAM" rate "$RECORD" "$MBIT" "$@"; }
status() { kairan 1 status --json "$(mnt 1)" | python3 -c "import json, sys; ring = json.load(sys.stdin)['ring']; print(ring['lanes'] + 1, ring['reassigned_blocks'])"; }
# start LANES: a mount without anything in its cache.
start() { rm -rf --one-file-system "$WORK/node1/local" "$RECORD"; mkdir "$WORK/node1/local"; mount_start 1 "lanes=$1"; }
stop() { mount_stop 1 || fail "the mount does not end"; }
reading() { on node1 python3 "$PROGRAM" read "$1" "$2" "$(mnt 1)/file" "$3" "$RECORD"; }
# row LANES MODE STREAMS SECONDS WHAT [STEADY]: which is so from that second on.
row() {
	local steady=${6:-2}
	start "$1"
	reading "$2" "$3" "$4" || fail "no reading"
	set -- "${@:1:5}" $(status) $(share) $(share "$steady")
	printf '  at most %2d lanes, %-36s %.3f, steady %.3f; %d lanes, %d blocks reassigned\n' "$1" "$5" "$8" "${10}" "$6" "$7"
	stop
}
# port: of the connection that has brought the most.
port() {
	on node1 ss -tinH "dport = :$PORT" | paste - - | sed -nE 's/.* [0-9.]+:([0-9]+) +[0-9.]+:[0-9]+[[:space:]].*bytes_received:([0-9]+).*/\2 \1/p' |
		sort -n | tail -1 | cut -d' ' -f2
}
# fault LANES ORDER WHAT: while one program reads.
fault() {
	local before during
	start "$1"
	reading sequential 1 12 & local reader=$!
	sleep $FAULT
	set -- "$@" "$(port)"
	[ -n "$4" ] || fail "no connection"
	echo "${2/PORT/$4}" >"$ORDERS"
	wait $reader || fail "no reading"
	before=$(share 2 $FAULT) during=$(share $FAULT)
	printf '  at most %2d lanes, %-36s %.3f before, %.3f with it; %.2f s at most without a byte\n' "$1" "$3" "${before% *}" $during
	echo heal >"$ORDERS"
	stop
}

server_start
head -c $((SIZE << 20)) /dev/urandom >"$EXPORT/file"
sleep 0.3
on server python3 "$TOP/test/programs/stream.py" serve 9000 $((SIZE << 19)) >"$WORK/stream" 2>&1 &
until_ok 10 "stream" grep -q listening "$WORK/stream"
plain() { on node1 timeout 100 python3 "$TOP/test/programs/stream.py" fetch $SERVER_ADDRESS 9000 90 | python3 -c "print('%.3f' % (eval(input().replace(' ', '/')) / ($MBIT * 1e6 / 8 * 1448 / 1514)))"; }

long 0
echo "a link of $MBIT Mbit/s with $DELAY ms each way, congestion control $(cat /proc/sys/net/ipv4/tcp_congestion_control)" \
	"; a plain TCP stream: $(plain); load $(cut -d' ' -f1 /proc/loadavg)"
for lanes in $LANES; do
	row "$lanes" sequential 1 60 "1 program"
	row "$lanes" sequential 24 60 "24 programs"
	row "$lanes" single 24 60 "24 programs, one block at a time"
done
row 1 single 1 10 "1 program, one block at a time"
on server sh -c 'was=$(cat /proc/sys/net/ipv4/tcp_wmem); echo "4096 131072 33554432" >/proc/sys/net/ipv4/tcp_wmem; echo "$was"' >"$WORK/wmem"
row 1 sequential 24 60 "24 programs, tcp_wmem of 32 MiB"
on server sh -c "echo '$(cat "$WORK/wmem")' >/proc/sys/net/ipv4/tcp_wmem"
for lanes in $LANES; do
	[ "$lanes" = 1 ] || fault "$lanes" "throttle PORT $((MBIT / lanes / 10))" "one at a tenth of its share"
	fault "$lanes" "cut PORT" "one without packets"
done
long 1
for control in $(cat /proc/sys/net/ipv4/tcp_congestion_control) reno; do
	[ $control != reno ] || congestion_reno server
	echo "one packet of a hundred is lost, congestion control $control; load $(cut -d' ' -f1 /proc/loadavg)"
	for lanes in $LANES; do row "$lanes" sequential 24 30 "24 programs" 20; done
done
