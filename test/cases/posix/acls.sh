# POSIX ACLs: whom one lets in is let in, as on a local disk; a change on another node counts at once, also for what the
# kernel keeps.
# tags: sanitizer
# timeout: 300
. "$TOP/test/lib.sh"
PROGRAM=$TOP/test/programs/acls.py
up 2
LOCAL=$WORK/local
mkdir "$LOCAL"

note "as in a local directory"
for where in "$LOCAL" "$(mnt 1)"; do
	on node1 python3 "$PROGRAM" answers "$where" >"$WORK/answers" 2>"$WORK/err" ||
		fail "answers in $where: $(tail -3 "$WORK/err")"
	mv "$WORK/answers" "$WORK/answers.$([ "$where" = "$LOCAL" ] && echo local || echo mount)"
done
[ "$(grep -c done "$WORK/answers.local")" -gt 100 ] || fail "nobody is let in: $(head -3 "$WORK/answers.local")"
diff "$WORK/answers.local" "$WORK/answers.mount" >"$WORK/differences" ||
	fail "$(grep -c '^<' "$WORK/differences") answers differ: $(head -20 "$WORK/differences")"

seed=${ACLS_SEED:-$RANDOM}
# changes TEXT ROUNDS: on node 2, seen on node 1.
changes() {
	local top=$(mnt 2)/changes.$((made++))
	note "$1 (seed $seed)"
	on node2 mkdir "$top"
	python3 "$PROGRAM" changes "$2" "$seed" "$(seen_from_here 2)/${top##*/}" "$(seen_from_here 1)/${top##*/}" ||
		fail "$1"
}
made=0
changes "changes on another node" 70

says() {
	kairan 1 status --json "$(mnt 1)" |
		python3 -c 'import json, sys; print(int(json.load(sys.stdin)["kernel_attributes"][sys.argv[1]]))' "$1"
}
if [ "$(says allowed)" = 1 ]; then
	note "the kernel keeps no ACL for long"
	taken=$(says taken_back) # nothing changes any more: from here on only time takes an ACL back
	on node1 getfacl "$(mnt 1)/changes.0/file" >/dev/null 2>&1
	is_taken() { [ "$(says taken_back)" -gt "$taken" ]; }
	until_ok 40 "an ACL taken back" is_taken || fail "$taken taken back, as before"
fi

note "noacl: kept out"
mount_stop 1 && mount_start 1 noacl || fail "noacl"
! python3 "$PROGRAM" changes 20 "$seed" "$(seen_from_here 2)" "$(seen_from_here 1)" 2>/dev/null || fail "an ACL lets in"

if grep -q KR_FAULT "$B/fuse/kairanfs"; then
	mount_stop 1
	KR_FAULT=attrs.old_kernel:eio mount_start 1
	changes "on a kernel that keeps no attributes" 25
	note "and where the kernel is told of no change this fails"
	mount_stop 1
	KR_FAULT=attrs.keep:eio mount_start 1
	mkdir "$EXPORT/kept"
	! python3 "$PROGRAM" changes 100 "$seed" "$(seen_from_here 2)/kept" "$(seen_from_here 1)/kept" 2>/dev/null ||
		fail "it does not"
fi

note "an export without ACLs"
mount_stop 1 && mount_stop 2 && server_stop || fail "stopping"
on server mount -t ramfs ramfs "$EXPORT" || fail "ramfs"
rm -rf "$WORK/state" "$WORK/node1/local" && mkdir "$WORK/node1/local"
server_start
mount_start 1
on node1 sh -c "mkdir -m 755 $(mnt 1)/d && echo text >$(mnt 1)/d/file" || fail "making"
as_user() { on node1 setpriv --reuid 1001 --regid 1001 --clear-groups "$@"; }
[ "$(as_user cat "$(mnt 1)/d/file")" = text ] || fail "another user's read"
! as_user touch "$(mnt 1)/d/new" 2>/dev/null || fail "another user makes a file"
! on node1 setfacl -m u:1001:rw "$(mnt 1)/d/file" 2>"$WORK/err" && grep -q "not supported" "$WORK/err" ||
	fail "setfacl: $(cat "$WORK/err")"
finish
