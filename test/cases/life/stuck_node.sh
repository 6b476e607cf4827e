# A node that stops (SIGSTOP) with leases: others wait no longer than the lease time, and nobody else is disturbed.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='lease|lost|no answer|session|expired'
LEASE=4
up 3
echo one >"$(seen_from_here 1)/file"
on node1 sh -c "exec 5>>$(mnt 1)/file; echo two >&5; until [ -e $WORK/enough ]; do sleep 0.1; done" &
holder=$!
until_ok 20 "node 1 writes" grep -q two "$(seen_from_here 2)/file" || fail "node 2 does not see node 1's write"
echo mine >"$(seen_from_here 3)/other"
kill -STOP "${DAEMON[node1]}"
start=$SECONDS
timeout -s KILL 60 sh -c "echo three >>$(seen_from_here 3)/file" || fail "node 3 hangs behind a stopped node"
[ $((SECONDS - start)) -le $((LEASE * 4 * SLOW)) ] || fail "waited $((SECONDS - start)) s"
[ "$(tail -1 "$(seen_from_here 2)/file")" = three ] || fail "node 2 reads $(cat "$(seen_from_here 2)/file")"
kill -CONT "${DAEMON[node1]}"
until_ok 30 "node 1 is back" sh -c "[ \"\$(timeout -s KILL 10 tail -1 $(seen_from_here 1)/file)\" = three ]" || fail "node 1 is not back"
touch "$WORK/enough"
wait $holder
finish
