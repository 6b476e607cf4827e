# The measurements of test/bench/share, inside a cluster of test/cluster: "MEASURE RUN" on standard input, one a line, is answered by
# lines of figures and "done SYNCS SECONDS CPU_NS" or "failed".
HERE=$TOP/test/bench
syncs() { kairan 1 status --json $SERVER_ADDRESS:$PORT | python3 "$HERE/share.py" syncs; }
cpu() { python3 "$HERE/small.py" cpu "${DAEMON[@]}"; }
resident() { awk '/VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/${DAEMON[$1]}/status"; }

mounts=()
for i in $(seq "$NODES"); do mounts+=("$(seen_from_here "$i")"); done
echo ready
while read -r measure run; do
	syncs=$(syncs) cpu=$(cpu) began=$(date +%s%N)
	if [ "$measure" = memory ]; then
		for name in server node1 node2; do printf 'memory of %s\tMiB\t%s\n' "$name" "$(resident $name)"; done
	elif ! timeout -k 5 90 python3 "$HERE/share.py" measure "$measure" "$run" "$EXPORT" "${mounts[@]}" </dev/null 2>"$WORK/errors"; then
		tail -3 "$WORK/errors" >&2
		echo failed
		continue
	fi
	seconds=$(($(date +%s%N) - began))
	sleep 0.6 # what is synced in the background belongs to this measurement, and disturbs no other
	echo "done $(($(syncs) - syncs)) $(python3 -c "print($seconds / 1e9)") $(($(cpu) - cpu))"
done
finish
