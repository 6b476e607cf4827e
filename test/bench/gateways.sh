# The measurements of test/bench/gateways, inside a cluster of test/cluster: nodes 1 and 2 are gateways, the others read.
. "$TOP/test/lib-gateways.sh"
now() { date +%s%N; }
# all_read NAME: how long until all have read it, in milliseconds.
all_read() {
	local began pids=() i
	began=$(now)
	for i in $(seq 3 "$NODES"); do
		nsenter -t "${KEEPER[node$i]}" -n -u -m -- dd "if=$(mnt "$i")/$1" of=/dev/null bs=1M 2>/dev/null &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || return 1; done
	echo $((($(now) - began) / 1000000))
}
# Of a file that changed in the last 50 ms nodes may not pass blocks on, where the clock of ctimes is coarse.
new_file() { dd if=/dev/urandom of="$EXPORT/$1" bs=1M count="$MIB" 2>/dev/null && sleep 0.2; }
# measured WHAT: RUNS files, each read once.
measured() {
	local what=$1 run took=() server gateway
	server=$(sent_by server) gateway=$(sent_by node1)
	for run in $(seq "$RUNS"); do
		new_file "$what$run"
		took+=("$(all_read "$what$run")") || fail "reading"
	done
	python3 - "$what" "$COUNT" $((($(sent_by server) - server))) $((($(sent_by node1) - gateway))) $((MIB << 20)) "${took[@]}" <<'P'
import statistics, sys
what, count, server, gateway, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
took = [int(x) / 1000 for x in sys.argv[6:]]
print(f"nodes {count}, {what}: {statistics.median(took):.2f} s ({min(took):.2f}-{max(took):.2f}); "
      f"the server sent {server / size / len(took):.2f} files, a gateway {gateway / size / len(took):.2f}")
P
}
mount_stop 1 && mount_stop 2 || fail "unmounting"
measured "of the server"
for i in $(seq 3 "$NODES"); do mount_stop "$i" && rm -r "$WORK/node$i/local" && mkdir "$WORK/node$i/local" || fail "unmounting"; done
for i in 1 2; do
	mount_start $i
	gateway_start $i
done
for i in $(seq 3 "$NODES"); do SERVER_ADDRESS=10.77.1.$((i % 2 + 1)) mount_start "$i"; done
measured "behind two gateways"
for i in $(seq 3 "$NODES"); do mount_stop "$i"; done
for i in 1 2; do
	gateway_stop $i
	mount_stop $i
done
