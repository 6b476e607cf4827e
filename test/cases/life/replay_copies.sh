# A copy of a node's local directory is replayed, after that node has flushed, and written what is newer: no old byte comes back, whatever the server
# still knows of it.
LEASE=5
. "$TOP/test/lib.sh"
. "$TOP/test/lib-late.sh"
cluster 2
server_start
mounts_start flush_age=600
make file
hold file 0 OLD
cp -a "$WORK/node1/local" "$WORK/copy"
replay() { on node2 timeout -s KILL 120 "$B/tools/kairan" journal "$WORK/copy" --replay $SERVER_ADDRESS "$@" >"$WORK/replayed" 2>&1; }
said() { grep -q -- "$1" "$WORK/replayed" || fail "'$1' expected, not: $(cat "$WORK/replayed")"; }
told file 0
on node1 sh -c "printf newer---- >'$D/file' && sync '$D/file'"
clean

note "the server restarts, and the node comes back while it waits with the replay"
server_kill
kill -STOP "${DAEMON[node1]}"
LEASE=60 server_start
python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<qq", 3600, 0))' >"$WORK/clocks" # it gives up in time by any clock
LD_PRELOAD=$B/test/libclocks.so KR_CLOCKS=$WORK/clocks replay --timeout 1 && fail "replayed while the server waits for the node: $(cat "$WORK/replayed")"
! grep "grace period is over" "$WORK/kairand.log" || fail "it has not given up: $(cat "$WORK/replayed")"
replay &
again() { [ "$(grep -c "node1 .* somebody replays its journal" "$WORK/kairand.log")" = 2 ]; }
until_ok 60 "a replay" again || fail "it is not tried"
kill -CONT "${DAEMON[node1]}"
until_ok 60 "node 1 is back" is_back || fail "node 1 does not come back"
wait $! && fail "replayed beside the mount: $(cat "$WORK/replayed")"
said "is connected, .*stays in this journal"
is "$EXPORT/file" newer----

note "the node is there"
replay && fail "replayed beside the mount: $(cat "$WORK/replayed")"
said "is connected, "

note "it was there just now"
mount_kill 1
replay --timeout 1 && fail "replayed before the end of its session: $(cat "$WORK/replayed")"
said "has to end first.*trying again for 1 s (--timeout)"
said "gave up after 1 s (--timeout)"
is "$EXPORT/file" newer----
mount_start 1 flush_age=600

note "it has left: the server knows what was applied, or goes by the times"
mount_stop 1
cp -a "$WORK/copy" "$WORK/second"
replay || fail "the first copy: $(cat "$WORK/replayed")"
is "$EXPORT/file" newer----
conflict file OLD
server_kill
server_start
rm -r "$WORK/copy" && mv "$WORK/second" "$WORK/copy"
rm "$EXPORT"/file.conflict-*
replay || fail "the second copy: $(cat "$WORK/replayed")"
is "$EXPORT/file" newer----
conflict file OLD

note "the node comes back with nothing"
mount_start 1 flush_age=600,flush_backlog=100M
clean
is "$(seen_from_here 1)/file" newer----

note "its disk, at a server that has restarted; the replay is killed halfway, and goes on where it was"
head -c 30000000 /dev/urandom >"$WORK/bytes" # more than lies in sockets while kairand does not run
make big
sleep 1.1 # what was changed in the second before a write may have been changed after it, as far as the replay of a copy knows
hold big 0 "@$WORK/bytes"
kill -KILL "$HOLDER"
mount_kill 1
server_kill
server_start
limit node2 20mbit
python3 - "$EXPORT/big" nsenter -t "${KEEPER[node2]}" -n -- "$B/tools/kairan" journal "$WORK/node1/local" --replay $SERVER_ADDRESS <<-'HALF' || fail "it ended before it was killed halfway"
	import os, subprocess, sys, time
	replay = subprocess.Popen(sys.argv[2:])
	while os.stat(sys.argv[1]).st_size < 1000000 and replay.poll() is None:
	    time.sleep(0.002)
	replay.kill()
	sys.exit(replay.wait() != -9)
HALF
limit node2 1gbit
cmp -s "$WORK/bytes" "$EXPORT/big" && fail "it was too fast to be killed halfway"
on node2 "$B/tools/kairan" journal "$WORK/node1/local" --replay $SERVER_ADDRESS >"$WORK/replayed" || fail "$(cat "$WORK/replayed")"
said "^big: .* applied in place"
same "$WORK/bytes" "$EXPORT/big"
finish
