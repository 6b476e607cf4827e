# Six nodes read a file at once, and one in the middle is slow, stops, or is cut off: the others keep their rate, none of their reads
# waits long, and the server sends each byte about once.  MB=100 MBIT=40 CASE_TIMEOUT=900 test/run -k data/slow_member:
# a larger file, other links.
# timeout: 180
. "$TOP/test/lib.sh"
MB=${MB:-16} MBIT=${MBIT:-60}
cluster 6 ${MBIT}mbit
server_start
mounts_start

# start_readers FILE: all nodes read FILE; $WORK/read.NODE says when (monotonic) each began and ended, and its longest wait for a read.
start_readers() {
	local i
	head -c $((MB << 20)) /dev/urandom >"$EXPORT/$1"
	sent=$(sent_by server)
	for i in 1 2 3 4 5 6; do
		on "node$i" python3 - "$(mnt "$i")/$1" "$WORK/read.$i" <<-'P' &
			import os, sys, time
			fd, longest, start = os.open(sys.argv[1], os.O_RDONLY), 0, time.monotonic()
			last = start
			while os.read(fd, 131072):
			    now = time.monotonic()
			    longest, last = max(longest, now - last), now
			with open(sys.argv[2], "w") as file:
			    file.write("%.2f %.2f\n" % (last - start, longest))
		P
		reader[i]=$!
		# The first to join is the first of the pipeline.
		[ $i != 1 ] || sleep 0.3
	done
}
# readers_end WHAT NODE...: "WHAT: SECONDS LONGEST_WAIT PERCENT", of the slowest and of what the server has sent.
readers_end() {
	local what=$1 i
	shift
	for i in "$@"; do wait "${reader[i]}" || fail "$what: node $i did not read"; done
	sent=$((($(sent_by server) - sent) * 100 / (MB << 20)))
	read -r seconds longest < <(for i in "$@"; do cat "$WORK/read.$i"; done |
		awk '{ if ($1 > s) s = $1; if ($2 > l) l = $2 } END { print s, l }')
	note "$what: $seconds s, longest wait $longest s, the server sent $sent %"
}
# at_most WHAT VALUE LIMIT: machines under load are allowed for in the limits.
at_most() { awk "BEGIN { exit !($2 <= $3) }" || fail "$1: $2, more than $3"; }
others="1 2 4 5 6"

start_readers well
readers_end well 1 2 3 4 5 6
well=$seconds
at_most "sent to nodes that are all well" "$sent" 130

limit node3 $((MBIT / 10))mbit
start_readers slow
# shellcheck disable=SC2086
readers_end slow $others
# Behind the slow node they would take ten times as long.
at_most "seconds with a slow node" "$seconds" "$well * 2 + 2 * $SLOW"
at_most "sent with a slow node" "$sent" 140
kill "${reader[3]}"
wait "${reader[3]}" 2>/dev/null
limit node3 ${MBIT}mbit

for what in stopped cut; do
	start_readers $what
	sleep 1
	if [ $what = stopped ]; then kill -STOP "${DAEMON[node3]}"; else cut_link node3; fi
	# shellcheck disable=SC2086
	readers_end $what $others
	# A connection that sends nothing is given up after 5 s.
	at_most "longest wait with a node that is $what" "$longest" "3 * $SLOW"
	at_most "sent with a node that is $what" "$sent" 140
	if [ $what = stopped ]; then kill -CONT "${DAEMON[node3]}"; else heal_link node3; fi
	wait "${reader[3]}" || fail "node 3 does not read on after it was $what"
	cmp "$EXPORT/$what" "$(seen_from_here 3)/$what" || fail "node 3 reads other bytes"
done
cmp "$EXPORT/slow" "$(seen_from_here 6)/slow" || fail "node 6 reads other bytes"
finish
