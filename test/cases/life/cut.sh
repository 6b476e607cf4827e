# A link cut and healed: operations wait, programs notice nothing; a signal ends a waiting one; soft mounts give up.  A connection that
# is given up is reset.
. "$TOP/test/lib.sh"
cluster 2
server_start
mount_start 1
mount_start 2 soft,timeo=3
echo hello >"$EXPORT/file"
on node1 cat "$(mnt 1)/file" >/dev/null
python3 "$TOP/test/programs/steady.py" "$(seen_from_here 1)/a" 150 "$WORK/stop" >"$WORK/steady" 2>&1 & steady=$!
until_ok 30 "the program's first round" test -s "$(seen_from_here 1)/a.log" || fail "$(tail -3 "$WORK/steady")"
sleep 0.3
cut_link node1
sleep 4
alive $steady || fail "the program ended while the link was cut: $(tail -3 "$WORK/steady")"
heal_link node1
touch "$WORK/stop"
wait $steady || fail "the program noticed: $(tail -3 "$WORK/steady")"
cut_link node1
on node1 stat -f "$(mnt 1)" >/dev/null 2>&1 & waiting=$! # what no node has cached
sleep 1
alive $waiting || fail "the operation did not wait"
kill -INT $waiting; kill -TERM $waiting
until_ok 10 "a signal ends a waiting operation" gone $waiting || fail "unkillable"
heal_link node1
until_ok 30 "node 1 goes on" on node1 stat "$(mnt 1)/file" || fail "node 1 does not go on"
cut_link node2
start=$SECONDS
on node2 stat -f "$(mnt 2)" 2>"$WORK/soft" && fail "soft mount answered without a server"
grep -qi "timed out" "$WORK/soft" || fail "soft mount: $(cat "$WORK/soft")"
[ $((SECONDS - start)) -lt $((20 * SLOW)) ] || fail "soft mount waited $((SECONDS - start)) s"
heal_link node2
until_ok 30 "node 2 goes on" on node2 stat "$(mnt 2)/file" || fail "node 2 does not go on"
cut_link node1
gives_up() { grep -q "lost: the server is silent" "$WORK/node1/log"; }
until_ok 60 "node 1 gives its connection up" gives_up || fail "it does not: $(tail -3 "$WORK/node1/log")"
# What the kernel sent on, when the link is back, could arrive behind the next connection's HELLO. State 04 is FIN_WAIT1.
sends_on=$(on node1 awk '$4 == "04" && $5 !~ /^00000000:/' /proc/net/tcp)
[ -z "$sends_on" ] || fail "the kernel goes on to send on it: $sends_on"
heal_link node1
until_ok 30 "node 1 goes on" on node1 stat "$(mnt 1)/file" || fail "node 1 does not go on after its lease time"
finish
