# Clocks that are set while a node is away for longer than the lease time: its late bytes neither cover what others wrote, nor go to a conflict
# file for the clock's sake alone.  STOPPED=180 test/run life/late_clocks: the daemon stands still for so many seconds more.
# timeout: 240
LEASE=3
. "$TOP/test/lib.sh"
. "$TOP/test/lib-late.sh"
case $B in *asan* | *tsan*) skip "a preloaded library is none for a sanitizer" ;; esac
cluster 2
# set_clock HOST HOURS: CLOCK_REALTIME is so far ahead.
set_clock() { python3 -c 'import struct, sys; open(sys.argv[1], "r+b").write(struct.pack("<qq", int(sys.argv[2]) * 3600, 0))' "$WORK/clocks-$1" "$2"; }
for host in server node1 node2; do
	: >"$WORK/clocks-$host"
	set_clock $host 0
done
serve() { LD_PRELOAD=$B/test/libclocks.so KR_CLOCKS=$WORK/clocks-server server_start; }
serve
for i in 1 2; do LD_PRELOAD=$B/test/libclocks.so KR_CLOCKS=$WORK/clocks-node$i mount_start $i flush_age=600; done

note "the daemon stands still, and its clock is set"
make stopped
hold stopped 2 LATE
on node1 cat "$D/stopped" >"$WORK/read"
is "$WORK/read" orLATEal--
away kill -STOP "${DAEMON[node1]}"
set_clock node1 5
node2 "printf other >stopped"
sleep "${STOPPED:-0}"
kill -CONT "${DAEMON[node1]}"
is "$(seen_from_here 1)/stopped" other
told stopped 116
conflict stopped ..LATE
is "$EXPORT/stopped" other
set_clock node1 -5
clean

# away_while_set NAME FROM TO COMMAND [LATER]: node 1 has late bytes of it, written when the server's clock was FROM hours ahead; then it is TO, node 2 does
# this, and a new server, at LATER, knows of others' changes by their times only.
away_while_set() {
	set_clock server "$2"
	make "$1"
	# What is known of the clock comes with the next PING.
	dated() { on node1 sh -c "echo x >>'$D/dates' && sync '$D/dates'" && [ $(($(stat -c %Y "$EXPORT/dates") - $(date +%s) - $2 * 3600)) -ge -60 ] && [ $(($(stat -c %Y "$EXPORT/dates") - $(date +%s) - $2 * 3600)) -le 60 ]; }
	until_ok 60 "dates of the server's clock" dated "$@" || fail "the server's clock is $2 h ahead, the file is of $(stat -c %y "$EXPORT/dates")"
	hold "$1" 2 LATE
	away cut_link node1
	backs=$(grep -c "^back " "$WORK/state/clock")
	set_clock server "$3"
	node2 "$4"
	noticed() { [ "$(grep -c "^back " "$WORK/state/clock")" -gt "$backs" ]; }
	[ "$2" -le "$3" ] || until_ok 60 "the server notices" noticed || fail "the server has not noticed"
	server_kill
	set_clock server "${5:-$3}"
	serve
	back
}
# The times of files in the export are the machine's.
note "the server's clock is set forward, and it starts anew: nobody has written"
away_while_set quiet 0 5 true
told quiet 0
is "$EXPORT/quiet" orLATEal--
[ -z "$(conflict_of quiet)" ] || fail "a conflict without any"
clean
note "... forward, back, or back and forward again (LATER), and others have"
for hours in "0 5 5" "5 0 0" "5 0 6"; do
	name=busy${hours// /}
	away_while_set "$name" ${hours% *} "printf other >$name && sync $name" "${hours##* }"
	told "$name" 116
	conflict "$name" ..LATE
	is "$EXPORT/$name" other
done
clean
finish
