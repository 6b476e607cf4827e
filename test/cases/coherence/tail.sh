# A log followed on another node, and a file written by one node and polled by stat on another.
. "$TOP/test/lib.sh"
up 2
on node1 sh -c ": >$(mnt 1)/log"
on node1 bash -c "exec 5>>$(mnt 1)/log; for i in \$(seq 200); do echo line \$i >&5; done; until [ -e $WORK/enough ]; do sleep 0.05; done" &
writer=$!
on node2 tail --pid=$writer -n +1 -s 0.05 -f "$(mnt 2)/log" >"$WORK/followed" 2>/dev/null &
follower=$!
until_ok 40 "all lines followed" sh -c "[ \$(wc -l <$WORK/followed) = 200 ]" || fail "tail -f saw $(wc -l <"$WORK/followed") lines"
[ "$(cat "$WORK/followed")" = "$(seq -f 'line %g' 200)" ] || fail "tail -f saw other lines"
touch "$WORK/enough"
wait $writer $follower
for i in $(seq 30); do
	head -c $((i * 1000)) /dev/zero >"$(seen_from_here 1)/grows"
	[ "$(stat -c %s "$(seen_from_here 2)/grows")" = $((i * 1000)) ] || fail "stat on the other node at $i"
done
finish
