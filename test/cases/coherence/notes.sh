# Names and attributes that nodes have noted: what one node changes, all others see at once; and nodes do take notes.
# tags: long
# timeout: 480
. "$TOP/test/lib.sh"
up 3
python3 "$TOP/test/programs/notes.py" --seed "${NOTES_SEED:-1}" --seconds "${NOTES_SECONDS:-4}" "$WORK/reference" \
	"$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" || fail "notes"

note "a second look asks for nothing"
requests() { kairan 2 status --json $SERVER_ADDRESS | python3 -c 'import json, sys; r = json.load(sys.stdin)["requests"]; print(sum(r.get(k, 0) for k in ("LOOKUP", "GETATTR", "GETXATTR", "READDIR")))'; }
seq 200 | (mkdir "$EXPORT/flat" && cd "$EXPORT/flat" && xargs touch)
# One that falls into the moment when notes grow too old, or that something else was changed next to, is no fault: it is repeated.
quiet_look() {
	on node1 ls -l "$(mnt 1)/flat" >/dev/null
	local before
	before=$(requests)
	on node1 ls -l "$(mnt 1)/flat" >/dev/null
	[ $(($(requests) - before)) -le 20 ]
}
until_ok 60 "ls -l of 200 known files without questions" quiet_look || fail "nothing is noted"

note "a node that does not answer holds others up for a while only, and what it knew is gone then"
look_at_all() { on node3 ls -l "$(mnt 3)/flat" >/dev/null; }
look_at_all
on node1 stat "$(mnt 1)/flat/7" >/dev/null
kill -STOP "${DAEMON[node1]}"
began=$SECONDS
on node2 timeout 60 chmod 600 "$(mnt 2)/flat/7" || fail "a stopped node holds up a chmod"
took=$((SECONDS - began))
kill -CONT "${DAEMON[node1]}"
[ "$(on node1 stat -c %a "$(mnt 1)/flat/7")" = 600 ] || fail "a node that was stopped says what was"

note "the others' notes are as good as before"
[ "$took" -ge 12 ] || fail "the server did not wait for the stopped node: $took s"
before=$(requests)
look_at_all
[ $(($(requests) - before)) -le 20 ] || [ "$took" -gt 50 ] || fail "after $took s: $(($(requests) - before)) requests"

note "a node without a link says nothing when others have made a change"
on node1 stat "$(mnt 1)/flat/9" >/dev/null
cut_link node1
on node2 timeout 60 chmod 600 "$(mnt 2)/flat/9" || fail "a node without a link holds up a chmod"
said=$(on node1 timeout 3 stat -c %a "$(mnt 1)/flat/9" 2>/dev/null)
[ -z "$said" ] || fail "it says $said"
heal_link node1
[ "$(on node1 timeout 60 stat -c %a "$(mnt 1)/flat/9")" = 600 ] || fail "it says what was"

note "the connection's end is the notes' end"
on node1 stat "$(mnt 1)/flat/8" >/dev/null
server_kill
chmod 604 "$EXPORT/flat/8"
server_start
[ "$(on node1 stat -c %a "$(mnt 1)/flat/8")" = 604 ] || fail "notes outlived the server"
finish
