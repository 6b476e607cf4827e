# The server decides as the caller: a mount whose kernel does not check answers as a local directory does, errno for errno;
# squashed identities, exports that are read-only, networks.
# tags: sanitizer
# timeout: 480
. "$TOP/test/lib.sh"
up 2
M=$(mnt 1)
mount_stop 1 || fail "node1's first mount"
mount_start 1 no_default_permissions
LOCAL=$WORK/local
mkdir "$LOCAL"

note "operations, callers and modes: as in a local directory"
case $B in *asan*) every=4 ;; *) every=1 ;; esac
for root in "$LOCAL" "$M"; do
	on node1 python3 "$TOP/test/programs/permissions.py" "$root" $every >"$WORK/answers" 2>"$WORK/err" ||
		fail "permissions.py in $root: $(tail -3 "$WORK/err")"
	mv "$WORK/answers" "$WORK/answers.$([ "$root" = "$LOCAL" ] && echo local || echo mount)"
done
[ "$(wc -l <"$WORK/answers.local")" -ge $((1000 / every)) ] || fail "only $(wc -l <"$WORK/answers.local") answers"
diff "$WORK/answers.local" "$WORK/answers.mount" >"$WORK/differences" ||
	fail "$(grep -c '^<' "$WORK/differences") of $(wc -l <"$WORK/answers.local") answers differ: $(head -20 "$WORK/differences")"
note "$(wc -l <"$WORK/answers.local") answers"

note "bytes of an open file outlive a chmod"
mkdir -m 777 "$EXPORT/late"
as() { local uid=$1 gid=$2; shift 2; on node1 setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"; }
as 1001 1001 sh -c "exec 3>$M/late/file; echo one >&3; chmod 0 $M/late/file; echo two >&3" || fail "writing after chmod 0"
until_ok 20 "both lines" sh -c "[ \"\$(tr '\n' ' ' <'$EXPORT/late/file')\" = 'one two ' ]" || fail "$(cat "$EXPORT/late/file")"
! as 1002 1002 sh -c "cat $M/late/file" 2>/dev/null || fail "read by another user"

again() { mount_stop 1 && server_stop || fail "stopping"; server_start "$@"; }
note "squashed: root"
mkdir -m 700 "$EXPORT/private"; echo secret >"$EXPORT/private/file"; mkdir -m 777 "$EXPORT/open"
mount_stop 2 || fail "node2"
again --squash root
mount_start 1 no_default_permissions
! on node1 cat "$M/private/file" 2>/dev/null || fail "root reads what is root's only"
! on node1 chown 1 "$M/open" 2>/dev/null || fail "root changes an owner"
on node1 sh -c "echo x >$M/open/root" && [ "$(stat -c %u:%g "$EXPORT/open/root")" = 65534:65534 ] || fail "root's file"
as 1001 1001 sh -c "echo x >$M/open/user" && [ "$(stat -c %u:%g "$EXPORT/open/user")" = 1001:1001 ] || fail "a user's file"
as 1001 0 sh -c "echo x >$M/open/group" && [ "$(stat -c %u:%g "$EXPORT/open/group")" = 1001:65534 ] || fail "root's group"
cp /bin/true "$EXPORT/open/suid"; chown 0 "$EXPORT/open/suid"; chmod 4777 "$EXPORT/open/suid"
on node1 sh -c "echo x >>$M/open/suid" || fail "append by root"
until_ok 20 "suid gone" sh -c "[ \$(stat -c %a '$EXPORT/open/suid') = 777 ]" || fail "suid after a write: $(stat -c %a "$EXPORT/open/suid")"
server_kill; server_start --squash root
on node1 sh -c "echo y >>$M/open/root" || fail "after a restart of the server"

note "squashed: all"
again --squash all --anon-uid 4321 --anon-gid 1234
mount_start 1 no_default_permissions
as 1001 1001 sh -c "echo x >$M/open/all" && [ "$(stat -c %u:%g "$EXPORT/open/all")" = 4321:1234 ] || fail "not squashed"
! as 1001 1001 sh -c "chmod 600 $M/open/user" 2>/dev/null || fail "a user keeps his rights"

note "read-only"
again --read-only
mount_start 1 no_default_permissions
[ "$(on node1 cat "$M/open/all")" = x ] || fail "reading"
on node1 timeout 60 python3 - "$M/open" <<'END' || fail "changes of a read-only export"
import errno, os, sys
os.chdir(sys.argv[1])
for name, call in {
	'create': lambda: os.open('new', os.O_CREAT | os.O_WRONLY), 'write': lambda: os.open('all', os.O_WRONLY),
	'truncate': lambda: os.truncate('all', 0), 'open and truncate': lambda: os.open('all', os.O_RDONLY | os.O_TRUNC),
	'mkdir': lambda: os.mkdir('d'), 'unlink': lambda: os.unlink('all'), 'rename': lambda: os.rename('all', 'b'),
	'link': lambda: os.link('all', 'b'), 'symlink': lambda: os.symlink('a', 'b'), 'chmod': lambda: os.chmod('all', 0),
	'chown': lambda: os.chown('all', 1, 1), 'utime': lambda: os.utime('all'), 'mkfifo': lambda: os.mkfifo('f'),
	'setxattr': lambda: os.setxattr('all', 'user.a', b'b'), 'create what exists': lambda: os.open('all', os.O_CREAT | os.O_RDWR),
}.items():
	try:
		call()
	except OSError as error:
		assert error.errno == errno.EROFS, (name, error)
	else:
		raise AssertionError(name)
os.close(os.open('all', os.O_CREAT | os.O_RDONLY))
assert os.access('all', os.R_OK) and not os.access('all', os.W_OK)
END
[ "$(cat "$EXPORT/open/all")" = x ] && [ "$(ls -A "$EXPORT/open" | wc -l)" = 5 ] || fail "changed: $(ls "$EXPORT/open")"

note "networks"
again --allow 10.77.1.1 --allow fd00::/8
mount_start 1
[ "$(on node1 cat "$M/open/all")" = x ] || fail "an allowed node"
! on node2 timeout 60 "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$(mnt 2)" -o "local=$WORK/node2/local,connect_timeout=2" 2>"$WORK/err" ||
	fail "a node of another network mounts"
grep -q "connection from 10.77.1.2 refused: it is in no network that is allowed" "$WORK/kairand.log" || fail "no line in the log"
! "$B/server/kairand" --allow 10.1.0.0/33 "$EXPORT" 2>"$WORK/err" || fail "a network of 33 bits"
grep -q "is not a network" "$WORK/err" || fail "$(cat "$WORK/err")"

note "a user's key: what other users protect stays so"
"$B/tools/kairan" key --user 1001 "$WORK/user.key" >/dev/null && "$B/tools/kairan" key "$WORK/node.key" >/dev/null || fail "keys"
printf 'root:x:0:0::/:/bin/sh\nuser:x:1001:1001::/:/bin/sh\n' >"$WORK/passwd"
mount_stop 1 && server_stop || fail "stopping"
on server mount --bind "$WORK/passwd" /etc/passwd || fail "no users"
server_start --no-insecure --key "$WORK/user.key" --key "$WORK/node.key"
chown 1001 "$WORK/node1/mnt"
mount_start 1 "no_default_permissions,key=$WORK/user.key"
mount_start 2 "key=$WORK/node.key"
mkdir -m 755 "$EXPORT/people"; echo public >"$EXPORT/people/public"; echo secret >"$EXPORT/people/secret"; chmod 600 "$EXPORT/people/secret"
[ "$(as 1001 1001 cat "$M/people/public")" = public ] || fail "reading what is public"
! as 1001 1001 cat "$M/people/secret" 2>/dev/null || fail "reading root's secret"
as 1001 1001 sh -c "echo mine >$M/open/mine; echo more >>$M/open/mine" || fail "writing"
[ "$(on node2 cat "$(mnt 2)/open/mine" | tr '\n' ' ')" = "mine more " ] || fail "the other node reads something else"
as 1001 1001 dd if=/dev/zero of="$M/open/large" bs=1M count=8 2>/dev/null || fail "a large file"
[ "$(on node2 cksum <"$(seen_from_here 2)/open/large")" = "$(cksum <"$EXPORT/open/large")" ] || fail "the large file"
on node2 dd if=/dev/urandom of="$(mnt 2)/open/shared" bs=1M count=8 2>/dev/null || fail "the other node's file"
[ "$(as 1001 1001 cat "$M/open/shared" | cksum)" = "$(cksum <"$EXPORT/open/shared")" ] || fail "the other node's file"
server_kill; server_start --no-insecure --key "$WORK/user.key" --key "$WORK/node.key"
as 1001 1001 sh -c "echo again >>$M/open/mine" || fail "after a restart of the server"
finish
