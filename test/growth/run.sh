# The measurements of test/growth/run, inside a cluster of test/cluster; each adds a line of words to $GROWTH_MEASURED.
HERE=$TOP/test/growth
RECORD=131001
SIZE=$((GROWTH_SIZE << 20))
tell() { echo "$*" >>"$GROWTH_MEASURED"; }
server() { kairan 1 status --json $SERVER_ADDRESS:$PORT | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }
crc() { python3 -c 'import sys, zlib; print(zlib.crc32(open(sys.argv[1], "rb").read()))' "$1"; }

# together N MODE FILE [ARGUMENT...]: nodes 1 to N run node.py at once, %i is the node's number less one; prints the seconds from the
# first beginning to the last end, and their CRCs.
together() {
	local n=$1 i command pids=()
	shift
	rm -f "$WORK/go"
	for i in $(seq "$n"); do
		command="$1 $WORK/node$i/mnt/$2 $WORK/go ${*:3}"
		# shellcheck disable=SC2086
		on "node$i" python3 "$HERE/node.py" ${command//%i/$((i - 1))} >"$WORK/told$i" 2>"$WORK/ready$i" & pids+=($!)
	done
	for i in $(seq "$n"); do until_ok 60 "node$i" grep -q ready "$WORK/ready$i" || { cat "$WORK/ready$i" >&2; return 1; }; done
	sleep 0.5
	touch "$WORK/go"
	for i in "${pids[@]}"; do wait "$i" || { cat "$WORK"/ready* >&2; return 1; }; done
	for i in $(seq "$n"); do cat "$WORK/told$i"; done |
		awk 'NR == 1 || $1 < first {first = $1} $2 > last {last = $2} {crcs = crcs " " $3} END {printf "%.4f%s\n", last - first, crcs}'
}

# By itself a node would flush before all have written.
for i in $(seq "$NODES"); do mount_stop "$i"; mount_start "$i" flush_age=3600,flush_backlog=64G; done

on server python3 "$TOP/test/programs/stream.py" serve 9000 $((64 << 20)) >"$WORK/stream" 2>&1 &
until_ok 10 "stream" grep -q listening "$WORK/stream" || exit 1

mkdir "$EXPORT/many"
(cd "$EXPORT/many" && seq 3000 | xargs touch)
requests=$(server requests_served) cpu=$(python3 "$TOP/test/bench/small.py" cpu "${DAEMON[server]}")
on node1 python3 "$HERE/node.py" open "$(mnt 1)/many" >/dev/null || exit 1
tell message $(($(server requests_served) - requests)) $(($(python3 "$TOP/test/bench/small.py" cpu "${DAEMON[server]}") - cpu))

for run in $(seq "$GROWTH_RUNS"); do
	tell link $(on node1 python3 "$TOP/test/programs/stream.py" fetch $SERVER_ADDRESS 9000 120)
	for n in $GROWTH_NODES; do
		head -c $SIZE /dev/urandom >"$EXPORT/read$n.$run"
		sleep 0.5
		before=$(sent_by server)
		told=$(together "$n" read "read$n.$run") || exit 1
		set -- $told
		tell read "$n" "$1" $(($(sent_by server) - before))
		for one in "${@:2}"; do [ "$one" = "$(crc "$EXPORT/read$n.$run")" ] || fail "a node has read other bytes"; done
		rm "$EXPORT/read$n.$run"

		count=$((SIZE / RECORD / n))
		told=$(together "$n" flush "flush$n.$run" %i "$n" $RECORD $count) || exit 1
		set -- $told
		tell flush "$n" "$1" $((count * n * RECORD))
		python3 "$TOP/test/programs/strided.py" check "$EXPORT/flush$n.$run" 0 "$n" $RECORD $count || exit 1
		rm "$EXPORT/flush$n.$run"
		sleep 0.5
	done
done
