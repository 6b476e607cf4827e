# A copy of a node's local directory is replayed, after that node has flushed, and written what is newer: no old byte comes back, whatever the server
# still knows of it.
LEASE=5
. "$TOP/test/lib.sh"
. "$TOP/test/lib-late.sh"
EXPECTED_ERRORS='conflict|Stale|late|connection|cannot reach|timed out|no answer|lost|in use'
cluster 2
server_start
mounts_start flush_age=600
make file
hold file 0 OLD
cp -a "$WORK/node1/local" "$WORK/copy"
replay() { on node2 timeout -s KILL 120 "$B/tools/kairan" journal "$WORK/copy" --replay $SERVER_ADDRESS >"$WORK/replayed" 2>&1; }
told file 0
on node1 sh -c "printf newer---- >'$D/file' && sync '$D/file'"
clean

note "the node is there, with a server that has restarted"
server_kill
server_start
until_ok 60 "node 1 is back" is_back || fail "node 1 does not come back"
replay && fail "replayed beside the mount: $(cat "$WORK/replayed")"
grep -q "in use elsewhere" "$WORK/replayed" || fail "not told why: $(cat "$WORK/replayed")"
is "$EXPORT/file" newer----

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
mount_start 1 flush_age=600
clean
is "$(seen_from_here 1)/file" newer----
finish
