# A node opens again what it has open at the server without asking; permission, removal and the end of the server are as ever.
. "$TOP/test/lib.sh"
up 2
file=$EXPORT/d/file
mkdir "$EXPORT/d"
head -c 4000 /dev/urandom >"$file"
cp "$file" "$WORK/bytes"
chmod 644 "$file"
opens() { kairan 2 status --json $SERVER_ADDRESS | python3 -c 'import json, sys; r = json.load(sys.stdin)["requests"]; print(r.get("OPEN", 0))'; }
orphans() { find "$EXPORT/.kairan/orphans" -type f 2>/dev/null | wc -l; }
no_orphans() { [ "$(orphans)" = 0 ]; }
as() { local node=$1 user=$2; shift 2; on "node$node" setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
read_it() { on node1 cat "$(mnt 1)/d/$1" | cmp - "$WORK/bytes"; }
# An answer falls out of the notes after a minute: the node asks once more then.
quiet() {
	read_it file
	before=$(opens)
	for _ in 1 2 3 4 5; do read_it file || return 1; done
	[ "$(opens)" = "$before" ]
}

note "a file that is read again and again is opened at the server once"
until_ok 20 "opens without questions" quiet || fail "each open asks"

note "who may open it is the server's decision, for each user, and at once"
as 1 1001 cat "$(mnt 1)/d/file" >/dev/null || fail "others may read it"
as 1 1001 cat "$(mnt 1)/d/file" >/dev/null || fail "again"
on node2 chmod 640 "$(mnt 2)/d/file"
as 1 1001 cat "$(mnt 1)/d/file" 2>/dev/null && fail "opened after chmod took it away"
on node1 chmod 644 "$(mnt 1)/d/file"
as 1 1001 cat "$(mnt 1)/d/file" >/dev/null || fail "given back"
on node2 setfacl -m u:1001:--- "$(mnt 2)/d/file"
as 1 1001 cat "$(mnt 1)/d/file" 2>/dev/null && fail "opened after an ACL took it away"
as 1 1002 cat "$(mnt 1)/d/file" >/dev/null || fail "the ACL is about one user"
on node2 chmod 600 "$(mnt 2)/d/file"
read_it file || fail "root reads"
as 1 1002 cat "$(mnt 1)/d/file" 2>/dev/null && fail "opened because another user has it open"

note "what is written elsewhere is read"
read_it file && read_it file || fail "before"
on node2 sh -c "printf changed | dd of=$(mnt 2)/d/file bs=1 seek=100 conv=notrunc 2>/dev/null"
cp "$file" "$WORK/bytes"
read_it file || fail "an old version was read"

note "a removed file that no program has open goes at once"
read_it file && read_it file
on node2 rm "$(mnt 2)/d/file"
on node1 cat "$(mnt 1)/d/file" 2>/dev/null && fail "it is removed"
until_ok 5 "the removed file is gone" no_orphans || fail "a node keeps it"

note "one that a program has opened meanwhile stays for it"
for end in remove replace; do
	cp "$WORK/bytes" "$EXPORT/d/$end"
	read_it $end && read_it $end || fail "read"
	on node1 sh -c "exec 3<$(mnt 1)/d/$end; touch $WORK/opened.$end; while [ ! -e $WORK/removed.$end ]; do sleep 0.05; done
		echo 1 >/proc/sys/vm/drop_caches; cat <&3 >$WORK/got.$end" &
	reader=$!
	until_ok 10 "opened" test -e "$WORK/opened.$end"
	if [ $end = remove ]; then on node2 rm "$(mnt 2)/d/$end"; else
		on node2 sh -c "echo other >$(mnt 2)/d/new && mv $(mnt 2)/d/new $(mnt 2)/d/$end"; fi
	sleep 2.5
	touch "$WORK/removed.$end"
	wait $reader || fail "reading what was removed ($end)"
	same "$WORK/got.$end" "$WORK/bytes"
	until_ok 5 "gone after its last close" no_orphans || fail "it stays after the last close ($end)"
done

note "the same when the server ends in between"
cp "$WORK/bytes" "$EXPORT/d/crash"
read_it crash && read_it crash || fail "read"
on node1 sh -c "exec 3<$(mnt 1)/d/crash; touch $WORK/opened.crash; while [ ! -e $WORK/removed.crash ]; do sleep 0.05; done
	echo 1 >/proc/sys/vm/drop_caches; cat <&3 >$WORK/got.crash" &
reader=$!
until_ok 10 "opened" test -e "$WORK/opened.crash"
server_kill
server_start
on node2 rm "$(mnt 2)/d/crash"
sleep 2.5
touch "$WORK/removed.crash"
wait $reader || fail "reading what was removed after the server's end"
same "$WORK/got.crash" "$WORK/bytes"
until_ok 10 "gone after its last close" no_orphans || fail "it stays after the last close"

note "a file with another name is no orphan, before it loses that one, too"
cp "$WORK/bytes" "$EXPORT/d/first"
on node1 sh -c "exec 3<$(mnt 1)/d/first; ln $(mnt 1)/d/first $(mnt 1)/d/second; rm $(mnt 1)/d/first
	stat -c %h $EXPORT/d/second >$WORK/links; rm $(mnt 1)/d/second; cat <&3 >$WORK/got.second" || fail "two names"
[ "$(cat "$WORK/links")" = 1 ] || fail "the file has $(cat "$WORK/links") links in the export, with one name"
same "$WORK/got.second" "$WORK/bytes"
until_ok 10 "gone after its last close" no_orphans || fail "it stays after the last close"

note "removed in the export itself: no node keeps its bytes on the disk"
cp "$WORK/bytes" "$EXPORT/d/local"
read_it local && read_it local || fail "read"
rm "$EXPORT/d/local"
on node1 cat "$(mnt 1)/d/local" 2>/dev/null && fail "opened after it was removed behind the server's back"
finish
