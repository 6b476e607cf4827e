# The measurements of test/bench/figures, inside a cluster of test/cluster.
P=$TOP/test/programs
SIZE=$((FIGURE_SIZE << 20))
calc() { python3 -c "print($1)"; }
now() { date +%s.%N; }
sent() { sent_by server; }
sent_by_nodes() { local i sum=0; for i in $(seq "$NODES"); do sum=$((sum + $(sent_by "node$i"))); done; echo $sum; }
drop() { sync; echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true; }
# timed N COMMAND-WITH-%i: runs it on nodes 1..N at once; seconds until the last is done.
timed() {
	local n=$1 command=$2 i pids=() start
	start=$(now)
	for i in $(seq "$n"); do on "node$i" bash -c "${command//%i/$i}" >"$WORK/timed$i" 2>&1 & pids+=($!); done
	for i in "${pids[@]}"; do wait "$i" || { echo "a command failed: $(cat "$WORK"/timed*)" >&2; return 1; }; done
	calc "$(now) - $start"
}

on server python3 "$P/stream.py" serve 9000 $((64 << 20)) >"$WORK/stream" 2>&1 &
until_ok 10 "stream" grep -q listening "$WORK/stream"
set -- $(on node1 python3 "$P/stream.py" fetch $SERVER_ADDRESS 9000 120)
LINK=$(calc "$1 / $2")
printf 'link: one plain TCP stream carries %.1f MB/s\n\n' "$(calc "$LINK / 1e6")"

echo "shared read of one file of $FIGURE_SIZE MiB"
for n in $FIGURE_NODES; do
	head -c $SIZE /dev/urandom >"$EXPORT/shared$n"
	sleep 0.3
	before=$(sent)
	seconds=$(timed "$n" "cat $WORK/node%i/mnt/shared$n | cmp - $EXPORT/shared$n") || exit 1
	printf '  %d nodes: %6.1f s, %6.1f MB/s in all = %.3f of %d links; the server sent %.3f x the file\n' "$n" "$seconds" \
		"$(calc "$n * $SIZE / $seconds / 1e6")" "$(calc "$n * $SIZE / $seconds / ($n * $LINK)")" "$n" "$(calc "($(sent) - $before) / $SIZE")"
	rm -f "$EXPORT/shared$n"
done

echo "private read, each of $NODES nodes its own file of 16 MiB"
for i in $(seq "$NODES"); do head -c $((16 << 20)) /dev/urandom >"$EXPORT/private$i"; done
sleep 0.3
others=$(sent_by_nodes)
seconds=$(timed "$NODES" "cat $WORK/node%i/mnt/private%i | cmp - $EXPORT/private%i") || exit 1
others=$(($(sent_by_nodes) - others))
printf '  %.3f of the server'\''s link; the nodes sent %.3f x the bytes (requests and acknowledgements only)\n' \
	"$(calc "$NODES * (16 << 20) / $seconds / $LINK")" "$(calc "$others / ($NODES * (16 << 20))")"

echo "strided unaligned records of 131,001 bytes, one file"
writes() { kairan 1 status --json $SERVER_ADDRESS:$PORT | python3 -c 'import json,sys; d=json.load(sys.stdin)["data"]["writes"]; print(d["number"], d["bytes"])'; }
for n in $FIGURE_NODES; do
	[ "$n" -ge 4 ] || continue
	count=$(($SIZE / 131001 / n))
	total=$((count * n * 131001))
	set -- $(writes)
	timed "$n" "mkdir -p $WORK/node%i/plain && rm -f $WORK/node%i/plain/f && python3 $P/strided.py write $WORK/node%i/plain/f 0 1 131001 $count" >/dev/null || exit 1
	plain=$(cat "$WORK"/timed* | sort -g | tail -1 | cut -d' ' -f1)
	start=$(now)
	timed "$n" "python3 $P/strided.py write $WORK/node%i/mnt/strided$n \$((%i - 1)) $n 131001 $count" >"$WORK/whole" || exit 1
	phase=$(cut -d' ' -f1 "$WORK"/timed* | sort -g | tail -1)
	python3 "$P/strided.py" check "$EXPORT/strided$n" 0 "$n" 131001 "$count" || exit 1
	first=$1 bytes=$2
	set -- $(writes)
	printf '  %d nodes: write phase %.2f of the same records to local files; write+close %.3f of the link, every byte right; %d writes at the server, %.2f MiB each\n' \
		"$n" "$(calc "$plain / $phase")" "$(calc "$total / $(cat "$WORK/whole") / $LINK")" "$(($1 - first))" \
		"$(calc "($2 - $bytes) / max(1, $1 - $first) / (1 << 20)")"
	rm -f "$EXPORT/strided$n"
done

echo "latency"
head -c 4096 /dev/urandom >"$EXPORT/small"
on server python3 "$P/latency.py" echo >"$WORK/echo" 2>&1 &
until_ok 10 "echo" grep -q listening "$WORK/echo"
on node1 python3 "$P/latency.py" "$WORK/node1/mnt" $SERVER_ADDRESS | sed 's/^/  /'

if [ "$FIGURE_MEMORY" != 0 ]; then
	echo "memory (resident MiB) before and after $FIGURE_MEMORY GiB written on node 1 and read on node 2, links unlimited"
	for name in server node1 node2; do tc qdisc del dev "v-$name" root; on "$name" tc qdisc del dev eth0 root; done
	resident() { awk '/VmRSS/ {print int($2 / 1024)}' "/proc/${DAEMON[$1]}/status"; }
	printf '  before: kairand %d, writer %d, reader %d\n' "$(resident server)" "$(resident node1)" "$(resident node2)"
	for g in $(seq "$FIGURE_MEMORY"); do
		on node1 dd if=/dev/zero of="$(mnt 1)/huge" bs=1M count=1024 conv=fsync 2>/dev/null || exit 1
		on node2 dd if="$(mnt 2)/huge" of=/dev/null bs=1M 2>/dev/null || exit 1
		[ "$g" = "$FIGURE_MEMORY" ] || [ "$g" = 1 ] || continue
		printf '  after %d GiB: kairand %d, writer %d, reader %d\n' "$g" "$(resident server)" "$(resident node1)" "$(resident node2)"
	done
fi
