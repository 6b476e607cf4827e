# The connection breaks in the middle of a recovery, with hundreds of files to claim, again and again: of the same server, and with
# its end.  No lease, no open file and no byte is lost.
# tags: faults long
# timeout: 200
. "$TOP/test/lib.sh"
cluster 2
grep -q KR_FAULT "$B/server/kairand" || skip "built without fault points (meson -Dfaults=true)"
COUNT=400
mkdir -p "$EXPORT"
chmod 777 "$EXPORT"
cuts() { grep -c 'node1: connection closed' "$WORK/kairand.log"; }
is_cut() { [ "$(cuts)" -ge "$1" ]; }
is_lost() { grep -q "node1 is lost" "$WORK/kairand.log"; }
dirty() { kairan 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; print(sum(f["dirty"] > 0 for f in json.load(sys.stdin)["files"]))'; }
serves() { on node1 timeout -s KILL 5 stat "$(mnt 1)/$1/0"; }
# write DIRECTORY [removed]: a program of node 1 has written there, unflushed, and waits.
write() {
	mkdir -m 777 "$EXPORT/$1"
	on node1 python3 "$TOP/test/programs/many.py" "$(mnt 1)/$1" $COUNT "$WORK/$1.go" ${2:-} >"$WORK/$1.said" 2>&1 &
	until_ok 60 "the files" grep -q written "$WORK/$1.said" || fail "not written: $(cat "$WORK/$1.said")"
	before=$(dirty)
	[ "$before" -gt $((COUNT / 2)) ] || fail "only $before files have unflushed bytes"
}
# judge DIRECTORY [removed]: nothing is lost.
judge() {
	until_ok 60 "node 1 serves" serves "$1" || fail "node 1 does not come back"
	[ "$(dirty)" = "$before" ] || fail "$(dirty) files have unflushed bytes, not $before"
	on node2 timeout -s KILL $((60 * SLOW)) python3 "$TOP/test/programs/many.py" --check "$(mnt 2)/$1" $COUNT ${2:-} ||
		fail "node 2 does not see what node 1 wrote"
	touch "$WORK/$1.go"
	until_ok 60 "node 1's program" grep -Eq 'good|Error' "$WORK/$1.said"
	grep -qx good "$WORK/$1.said" || fail "node 1's program: $(tail -3 "$WORK/$1.said")"
	kairan 1 flush --timeout 60 "$(mnt 1)" || fail "something is left"
	python3 "$TOP/test/programs/many.py" --check "$EXPORT/$1" $COUNT ${2:-} || fail "the export's files differ"
}

note "a node that was away longer than the lease time: the connection breaks at the 30th, 150th and 380th claim"
LEASE=5
KR_FAULT=reclaim.cut:eio:30,reclaim.cut:eio:150,reclaim.cut:eio:380 server_start
mounts_start flush_age=600,close=async
write late
cut_link node1
until_ok 60 "node 1 is lost" is_lost || fail "not lost"
count=$(cuts)
heal_link node1
until_ok 60 "three breaks" is_cut $((count + 3)) || fail "the recovery was broken $(($(cuts) - count)) times only"
judge late

note "a server that was killed: the connection breaks at the 30th, 150th, 380th and 700th claim"
server_kill
LEASE=
lost=$(grep -c "node1 is lost" "$WORK/kairand.log")
server_start
until_ok 60 "node 1 serves" serves late || fail "node 1 does not come back"
write awaited removed
server_kill
count=$(cuts)
KR_FAULT=reclaim.cut:eio:30,reclaim.cut:eio:150,reclaim.cut:eio:380,reclaim.cut:eio:700 server_start
until_ok 60 "three breaks" is_cut $((count + 3)) || fail "the recovery was broken $(($(cuts) - count)) times only"
note "the server dies at the 100th and 300th claim"
for claim in 100 300; do
	server_kill
	KR_FAULT=reclaim.cut:kill:$claim server_start
	until_ok 60 "the server dies" gone "${DAEMON[server]}" || fail "it does not die at claim $claim"
	wait "${DAEMON[server]}" 2>/dev/null
	server_start
	server_kill
done
server_start
judge awaited removed
[ "$(grep -c "node1 is lost" "$WORK/kairand.log")" = "$lost" ] || fail "the session was lost"
finish
