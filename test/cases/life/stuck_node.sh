# A node that stops (SIGSTOP) with leases: others wait no longer than the lease time, nobody else is disturbed, and what the node had
# before is not served when it goes on.  STOPPED_SECONDS=300 CASE_TIMEOUT=600 test/run life/stuck_node: it stops for longer.
. "$TOP/test/lib.sh"
LEASE=4
up 3
echo one >"$(seen_from_here 1)/file"
on node1 sh -c "exec 5>>$(mnt 1)/file; echo two >&5; until [ -e $WORK/enough ]; do sleep 0.1; done" &
holder=$!
until_ok 20 "node 1 writes" grep -q two "$(seen_from_here 2)/file" || fail "node 2 does not see node 1's write"
echo mine >"$(seen_from_here 3)/other"
# A program on node 1 that reads without the kernel's pages, one line for each read.
echo old >"$EXPORT/read"
on node1 python3 - "$(mnt 1)/read" "$WORK/enough" >"$WORK/read" 2>&1 <<'P' &
import mmap, os, sys, time
page = mmap.mmap(-1, 4096)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
while not os.path.exists(sys.argv[2]):
    print(page[:os.preadv(fd, [page], 0)].decode().strip(), flush=True)
    time.sleep(0.01)
P
reader=$!
until_ok 20 "node 1 reads" grep -q old "$WORK/read" || fail "node 1 does not read: $(cat "$WORK/read")"
kill -STOP "${DAEMON[node1]}"
start=$SECONDS
timeout -s KILL 60 sh -c "echo three >>$(seen_from_here 3)/file" || fail "node 3 hangs behind a stopped node"
[ $((SECONDS - start)) -le $((LEASE * 4 * SLOW)) ] || fail "waited $((SECONDS - start)) s"
[ "$(tail -1 "$(seen_from_here 2)/file")" = three ] || fail "node 2 reads $(cat "$(seen_from_here 2)/file")"
timeout -s KILL 60 sh -c "echo new >$(seen_from_here 2)/read" || fail "node 2 hangs behind a stopped node"
sleep "${STOPPED_SECONDS:-0}"
before=$(wc -l <"$WORK/read")
kill -CONT "${DAEMON[node1]}"
until_ok 30 "node 1 reads what is new" sh -c "tail -1 '$WORK/read' | grep -q new" || fail "node 1 reads $(tail -1 "$WORK/read")"
# But for one read, which may have begun before the write.
[ "$(tail -n +$((before + 1)) "$WORK/read" | grep -c old)" -le 1 ] || fail "old bytes were served: $(tail -n +$((before + 1)) "$WORK/read" | uniq -c)"
until_ok 30 "node 1 is back" sh -c "[ \"\$(timeout -s KILL 10 tail -1 $(seen_from_here 1)/file)\" = three ]" || fail "node 1 is not back"
touch "$WORK/enough"
wait $holder
wait $reader || fail "the reader: $(tail -3 "$WORK/read")"
finish
