# What waits for long is named: the requests that are not answered, the file that is not flushed, who is waited for; in the logs once, and
# in both statuses; and the end of it.
# tags: faults
. "$TOP/test/lib.sh"
LEASE=3
grep -q KR_FAULT "$B/server/kairand" || skip "built without fault points (meson -Dfaults=true)"
cluster 2
KR_FAULT=@$WORK/fault server_start
mounts_start flush_age=1s
echo before >"$(seen_from_here 1)/file"
echo apply.before:hold >"$WORK/fault"
on node1 sh -c "exec 5>>$(mnt 1)/file; echo after >&5; until [ -e $WORK/enough ]; do sleep 0.1; done" &
writer=$!
said() { grep -q "$2" "$WORK/$1"; }
shown() { local what=$1; shift; kairan 1 status "$@" | grep -q "$what"; }
until_ok 60 "node 1 says that FLUSH is not answered" said node1/log "file: the server has not answered FLUSH for" || fail "$(cat "$WORK/node1/log")"
timeout -s KILL $((100 * SLOW)) cat "$(seen_from_here 2)/file" >"$WORK/read" &
reader=$!
until_ok 60 "node 2 says that LEASE is not answered" said node2/log "the server has not answered LEASE for" || fail "$(cat "$WORK/node2/log")"
until_ok 60 "the server says who is waited for" said kairand.log "node node2: its LEASE has waited for .* not been given back by node node1" ||
	fail "$(cat "$WORK/kairand.log")"
until_ok 60 "status of the mount" shown "LATE: unflushed for .* the server has not answered the flush yet" "$(mnt 1)" || fail "$(kairan 1 status "$(mnt 1)")"
shown "PARKED  *[0-9]* requests of nodes wait for long, the oldest, FLUSH of node1" $SERVER_ADDRESS || fail "$(kairan 1 status $SERVER_ADDRESS)"
rm "$WORK/fault"
wait $reader || fail "node 2 cannot read"
[ "$(cat "$WORK/read")" = "$(printf 'before\nafter')" ] || fail "node 2 reads $(cat "$WORK/read")"
until_ok 60 "node 1 says that it is over" said node1/log "file: the server has answered FLUSH after" || fail "$(cat "$WORK/node1/log")"
until_ok 60 "node 2 says that it is over" said node2/log "the server has answered LEASE after" || fail "$(cat "$WORK/node2/log")"
until_ok 60 "the server says that it is over" said kairand.log "node node2: its LEASE has ended after" || fail "$(cat "$WORK/kairand.log")"
shown LATE "$(mnt 1)" && fail "$(kairan 1 status "$(mnt 1)")"
shown PARKED $SERVER_ADDRESS && fail "$(kairan 1 status $SERVER_ADDRESS)"
[ "$(grep -c "has not answered FLUSH" "$WORK/node1/log")" = 1 ] || fail "said more than once: $(cat "$WORK/node1/log")"
touch "$WORK/enough"
wait $writer
finish
