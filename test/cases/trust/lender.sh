# A lender gives disk space to holders of a node's key alone, and survives those who break the rules.
# timeout: 120
. "$TOP/test/lib.sh"
keys=$WORK/keys
mkdir -m 755 "$keys"
for key in node stranger; do "$B/tools/kairan" key "$keys/$key" >/dev/null 2>&1 || fail "no key"; done
"$B/tools/kairan" key --user root "$keys/user" >/dev/null 2>&1 || fail "no user's key"
cluster 2
server_start --no-insecure --key "$keys/node" --key "$keys/user"
lender_start node1 --key "$keys/node" --security privacy
LOG=$WORK/node1/lender.log
# refused PATTERN OPTIONS...: the mount fails with a reason like this.
refused() {
	local pattern=$1 options=$2
	! on node2 timeout 60 "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$(mnt 2)" -o "local=@10.77.1.1,$options" </dev/null >"$WORK/said" 2>&1 || fail "not refused: $options"
	grep -qi -- "$pattern" "$WORK/said" || fail "'$pattern' expected, not: $(cat "$WORK/said")"
	! on node2 grep -q "fuse.kairanfs" /proc/mounts || fail "mounted after: $options"
}
! on node1 timeout 20 "$B/fuse/kairanfs" --lend "$WORK/node1/lent" --key "$keys/user" 2>"$WORK/said" || fail "a user's key lends"
grep -q "not a user's" "$WORK/said" || fail "$(cat "$WORK/said")"
note "who is refused"
refused "refuses" connect_timeout=5
grep -q "has not shown a key" "$LOG" || fail "the lender does not say why: $(tail -3 "$LOG")"
refused "does not accept" "key=$keys/stranger"
refused "does not accept" "key=$keys/user"
refused "no such file" "key=$keys/none"
refused "cannot reach .*--lend" "key=$keys/node,local=@10.77.1.1:7999,connect_timeout=2"
refused "only with view=cache" "key=$keys/node,view=job,job=1"
[ -z "$(ls -A "$WORK/node1/lent")" ] || fail "something was made for those: $(ls "$WORK/node1/lent")"
note "who gets in"
mount_start 2 "local=@10.77.1.1,key=$keys/node"
on node2 sh -c "echo sealed >$(mnt 2)/file" || fail "writing"
[ "$(cat "$EXPORT/file")" = sealed ] || fail "another file"

note "garbage"
garbage() { on node2 python3 "$TOP/test/programs/lend_garbage.py" 10.77.1.1 7441 "${SEED:-$RANDOM}" 200 "$@" || fail "garbage"; }
garbage
on node2 sh -c "echo more >>$(mnt 2)/file" || fail "the honest node is served no more"
mount_stop 2 || fail "exit status $?"
[ "$(ls "$WORK/node1/lent")" = node2 ] || fail "garbage has made: $(ls "$WORK/node1/lent")"
lender_stop || fail "exit status $?"
note "garbage for a lender without a key"
lender_start node1
garbage accepted
[ "$(ls "$WORK/node1")" = "$(printf 'lender.log\nlent\nlocal\nmnt')" ] || fail "garbage has made: $(ls "$WORK/node1")"
[ "$(ls "$WORK/node1/lent")" = "$(printf 'n9\nnode2')" ] || fail "garbage has made: $(ls "$WORK/node1/lent")"
alive "${DAEMON[lender]}" || fail "the lender is gone"
finish
