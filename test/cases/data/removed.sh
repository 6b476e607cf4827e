# What is removed before it was flushed goes nowhere, unless a program of another node has it open.
. "$TOP/test/lib.sh"
cluster 2
server_start
mounts_start close=async,flush_age=600,flush_backlog=1G
M=$(mnt 1)
# What node 1 has not flushed of all files, and what the server has written, in bytes.
unflushed() { kairan 1 status --json "$M" | python3 -c 'import json, sys; print(sum(f["dirty"] for f in json.load(sys.stdin)["files"]))'; }
written() { kairan 1 status --json "$SERVER_ADDRESS:$PORT" | python3 -c 'import json, sys; print(json.load(sys.stdin)["export"]["write_bytes"])'; }
is_unflushed() { [ "$(unflushed)" = "$1" ]; }
# make FILE MIB: flushed by nobody yet.
make() {
	on node1 dd if="$WORK/random" of="$M/$1" bs=1M count="$2" iflag=fullblock 2>/dev/null || fail "writing $1"
	is_unflushed $(($2 << 20)) || fail "$(unflushed) bytes of $1 are unflushed, not $2 MiB"
}
head -c 20M /dev/urandom >"$WORK/random"

note "nobody else has it open"
for how in unlink replace unlink_open; do
	[ $how = unlink_open ] || make "$how" 20
	case $how in
	unlink) on node1 rm "$M/$how" ;;
	replace) on node1 sh -c "mkdir -p $M/other && : >$M/other/new && mv $M/other/new $M/$how" ;;
	unlink_open) on node1 bash -c "exec 3>$M/$how && rm $M/$how && dd if=$WORK/random bs=1M count=20 >&3" 2>/dev/null ;;
	esac || fail "$how"
	until_ok 30 "nothing unflushed after $how" is_unflushed 0 || fail "$how leaves $(unflushed) bytes"
done
[ "$(written)" = 0 ] || fail "$(written) bytes went to the server"

note "it is just being flushed"
limit node1 30mbit
make flushed 20
kairan 1 flush "$M/flushed" &
flush=$!
until_ok 30 "a flush under way" sh -c "[ \$(stat -c %s '$EXPORT/flushed') -gt 0 ]" || fail "nothing is flushed"
on node2 rm "$(mnt 2)/flushed" || fail "rm during the flush"
wait $flush || fail "kairan flush: $?"
until_ok 30 "nothing unflushed" is_unflushed 0 || fail "$(unflushed) bytes of a file removed during its flush"
[ "$(written)" -lt $((20 << 20)) ] || fail "the flush had ended"
! grep "is run again" "$WORK/kairand.log" || fail "the server takes a removal for a broken connection"

note "another node has it open"
make held 8
on node2 bash -c "exec 3<$(mnt 2)/held; echo open; until [ -e '$WORK/go' ]; do sleep 0.05; done; cksum <&3" >"$WORK/read" &
reader=$!
until_ok 30 "the file open on node 2" grep -q open "$WORK/read" || fail "node 2 does not open it"
on node1 rm "$M/held"
on node1 sh -c ": >$M/later && cat $M/later" || fail "a later file"
: >"$WORK/go"
wait $reader || fail "node 2 cannot read it"
[ "$(tail -n 1 "$WORK/read")" = "$(head -c 8M "$WORK/random" | cksum)" ] || fail "node 2 reads something else: $(cat "$WORK/read")"

note "another node removes it"
make theirs 8
on node2 rm "$(mnt 2)/theirs" || fail "rm on node 2"
until_ok 30 "nothing unflushed" is_unflushed 0 || fail "$(unflushed) bytes of a file that node 2 has removed"
finish
