# What a caller creates is the caller's; set-group-id directories, umask, sticky bits, suid clearing, default ACLs.
. "$TOP/test/lib.sh"
up 2
M=$(mnt 1)
on node1 chmod 777 "$M"
as() { local uid=$1 gid=$2; shift 2; on node1 setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"; }
stat_of() { stat -c '%u:%g:%a' "$EXPORT/$1"; }
as 1001 1002 sh -c "umask 027; echo x >$M/mine; mkdir $M/dir; ln -s x $M/link; mkfifo $M/pipe" || fail "creating as 1001"
[ "$(stat_of mine)" = 1001:1002:640 ] || fail "file: $(stat_of mine)"
[ "$(stat_of dir)" = 1001:1002:750 ] || fail "directory: $(stat_of dir)"
[ "$(stat -c %u:%g "$EXPORT/link")" = 1001:1002 ] || fail "symbolic link"
! as 1003 1003 cat "$M/mine" 2>/dev/null || fail "another user reads a 0640 file"
! as 1003 1003 touch "$M/dir/x" 2>/dev/null || fail "another user creates in a 0750 directory"
mkdir "$EXPORT/shared"; chown 0:2000 "$EXPORT/shared"; chmod 2777 "$EXPORT/shared"
as 1001 1002 sh -c "umask 022; echo x >$M/shared/file; mkdir $M/shared/sub"
[ "$(stat_of shared/file)" = 1001:2000:644 ] || fail "setgid directory, file: $(stat_of shared/file)"
[ "$(stat_of shared/sub)" = 1001:2000:2755 ] || fail "setgid directory, directory: $(stat_of shared/sub)"
mkdir "$EXPORT/sticky"; chmod 1777 "$EXPORT/sticky"
as 1001 1002 touch "$M/sticky/file"
! as 1003 1003 rm -f "$M/sticky/file" 2>/dev/null || fail "sticky directory: another user removed a file"
as 1001 1002 rm "$M/sticky/file" || fail "sticky directory: the owner cannot remove"
cp /bin/true "$EXPORT/suid"; chown 1001 "$EXPORT/suid"; chmod 6777 "$EXPORT/suid"
as 1003 1003 sh -c "echo x >>$M/suid" || fail "append to a 0777 file"
[ "$(stat -c %a "$EXPORT/suid")" = 777 ] || fail "suid survives a write: $(stat -c %a "$EXPORT/suid")"
chmod 4777 "$EXPORT/suid"
python3 - "$(seen_from_here 1)/suid" "$(seen_from_here 2)/suid" "$EXPORT/suid" <<'END' || fail "suid while the bytes are unflushed"
import os, sys
here, there, served = sys.argv[1:]
fd = os.open(here, os.O_WRONLY)
for setter in here, there:
	os.chmod(setter, 0o6777)
	assert os.stat(served).st_mode & 0o7777 == 0o6777, setter
	os.seteuid(1003)
	os.write(fd, b'y')
	os.seteuid(0)
	assert os.stat(served).st_mode & 0o7777 == 0o777, setter
	assert os.stat(there).st_mode & 0o7777 == 0o777, setter
END
# Somebody else who may write a program takes its capabilities away, and is not refused for having none to do that with.
setcapability() { python3 -c 'import os, sys; os.setxattr(sys.argv[1], "security.capability", bytes([1, 0, 0, 2, 0, 0x20] + [0] * 14))' "$1"; }
has_capability() { python3 -c 'import os, sys; sys.exit("security.capability" not in os.listxattr(sys.argv[1]))' "$1"; }
for how in ": >" "truncate -s 100" "fallocate -l 99999" "echo x >>"; do
	rm -f "$EXPORT/capable"
	cp /bin/true "$EXPORT/capable"; chown 1001 "$EXPORT/capable"; chmod 757 "$EXPORT/capable"
	setcapability "$EXPORT/capable" || fail "no capabilities here"
	has_capability "$(seen_from_here 1)/capable" || fail "node 1 does not show the capability"
	as 1003 1003 sh -c "$how $M/capable" || fail "$how a program with capabilities that others may write"
	! has_capability "$EXPORT/capable" || fail "capabilities survive $how"
done
acls=
if setfacl -d -m u:1005:rwx,g::rx,o::- "$EXPORT/shared"; then
	acls=1
	as 1001 1002 sh -c "umask 077; echo x >$M/shared/acl" || fail "creating below a default ACL"
	getfacl -cn "$EXPORT/shared/acl" | grep -q "user:1005" || fail "default ACL not inherited: $(getfacl -cn "$EXPORT/shared/acl")"
fi
[ "$(on node2 stat -c '%u:%g:%a' "$(mnt 2)/mine")" = 1001:1002:640 ] || fail "node 2 sees other attributes"
finish
[ "$acls" ] || skip "no default ACLs in $WORK; the rest passed"
