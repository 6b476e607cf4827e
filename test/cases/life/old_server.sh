# A server that is older than what the nodes have seen: a copy of its state directory that was put back, and a state directory from before
# another one was used.  Nodes do not send to it what they hold, and both sides say why.
LEASE=2
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='the server is an older copy|a kairand with another state directory has served|the server now serves another export'
cluster 2
server_start
mounts_start flush_age=600
m=$(mnt 1)
on node1 sh -c "echo first >$m/file; sync $m/file"

note "a copy of the state directory is put back"
cp -a "$WORK/state" "$WORK/copy"
for start in 2 3; do server_stop && server_start; done
on node1 python3 - "$m/file" "$WORK" <<'P' &
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b"FIRST", 0)
open(sys.argv[2] + "/written", "w")
while not os.path.exists(sys.argv[2] + "/end"):
    time.sleep(0.05)
os.close(fd)
P
writer=$!
until_ok 30 "a write" test -e "$WORK/written" || fail "no write"
server_stop
mv "$WORK/state" "$WORK/latest" && mv "$WORK/copy" "$WORK/state"
server_start
said() { grep -q "$1" "$WORK/$2"; }
for node in 1 2; do until_ok 30 "node $node's refusal" said "the server is an older copy: this is its start number 2, and number 3 was here before" node$node/log || fail "node $node goes on"; done
[ "$(cat "$EXPORT/file")" = first ] || fail "unflushed bytes went to an old server: $(cat "$EXPORT/file")"
server_stop
mv "$WORK/state" "$WORK/copy" && mv "$WORK/latest" "$WORK/state"
server_start
until_ok 30 "the latest server" timeout -s KILL 5 stat "$(seen_from_here 1)/file" >/dev/null || fail "node 1 does not go on with the latest"

note "another state directory is used meanwhile"
server_stop
server_start --state "$WORK/other"
until_ok 30 "another export" said "the server now serves another export" node1/log || fail "node 1 takes it for the same"
server_stop
! nsenter -t "${KEEPER[server]}" -n -u -m -- "$B/server/kairand" --listen 0.0.0.0:$PORT --insecure --state "$WORK/state" "$EXPORT" 2>"$WORK/said" ||
	fail "it starts with a state directory from before"
said "a kairand with another state directory has served $EXPORT since this one did" said || fail "$(cat "$WORK/said")"
grep -q "remove $EXPORT/.kairan/server" "$WORK/said" && rm "$EXPORT/.kairan/server" || fail "no way out: $(cat "$WORK/said")"
server_start
touch "$WORK/end"
wait $writer || fail "node 1's close"
[ "$(cat "$EXPORT/file")" = FIRST ] || fail "what node 1 had is $(cat "$EXPORT/file")"
finish
