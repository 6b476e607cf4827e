# An ordinary user asks a mount of root about his own files: status and flush. He learns no path of others, flushes nothing of theirs, and does not hold
# up the daemon or other users by asking all the time.
. "$TOP/test/lib.sh"
cluster 1
server_start
mount_start 1 close=async,flush_age=600
M=$(mnt 1)
chmod 755 "$WORK" "$WORK/node1" "$WORK/node1/mnt"
mkdir "$EXPORT/all" && chmod 1777 "$EXPORT/all"
mkdir -m 700 "$EXPORT/all/secret"
as() { local user=$1; shift; on node1 setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
own() { local user=$1; shift; as "$user" "$B/tools/kairan" "$@"; }
write_out() { as "$1" sh -c "umask $3; echo text >$M/all/$2" || fail "$2 is not written"; }
write_out 1001 mine 077
write_out 1002 theirs 077
on node1 sh -c "echo text >$M/all/secret/roots" || fail "not written"

note "status"
own 1001 status "$M" >"$WORK/said" 2>&1 || fail "status: $(cat "$WORK/said")"
grep -q "^$M: .*of files, those of user 1001 alone" "$WORK/said" && grep -q "unflushed   all/mine: 5 bytes" "$WORK/said" || fail "status: $(cat "$WORK/said")"
grep -q "15 bytes of 3 files not on the server" "$WORK/said" || fail "no backlog: $(cat "$WORK/said")"
own 1001 status --json >"$WORK/json" || fail "status of all"
! grep -E "theirs|roots|secret|$WORK/node1/local" "$WORK/said" "$WORK/json" || fail "paths of others"
python3 - "$WORK/json" <<'P' || fail "$(cat "$WORK/json")"
import json, sys
mount, = json.load(open(sys.argv[1]))
assert mount["user"] == 1001 and [file["path"] for file in mount["files"]] == ["all/mine"], mount
assert not set(mount) & {"local", "damage", "conflicts"}, mount.keys()
P
own 1001 top -b -n 1 -d 0.1 "$M" >"$WORK/said" 2>&1 || fail "top: $(cat "$WORK/said")"

note "all else is the owner's"
for command in "flush --discard $M/all/theirs" "umount $M" "umount --force $M"; do
	# shellcheck disable=SC2086
	own 1001 $command >"$WORK/said" 2>&1 && fail "$command: $(cat "$WORK/said")"
	grep -q "only root and who has mounted it may" "$WORK/said" || fail "$command: $(cat "$WORK/said")"
done
alive "${DAEMON[node1]}" && on node1 grep -q " $M " /proc/mounts || fail "unmounted"
kairan 1 status "$M" | grep -q "unflushed   all/theirs: 5 bytes" || fail "their bytes are gone"

note "flush"
own 1001 flush "$M" >"$WORK/said" 2>&1 || fail "flush: $(cat "$WORK/said")"
[ ! -s "$WORK/said" ] || fail "flush says: $(cat "$WORK/said")"
grep -q text "$EXPORT/all/mine" || fail "not flushed"
kairan 1 status "$M" >"$WORK/said"
! grep -q "unflushed   all/mine" "$WORK/said" && grep -q "unflushed   all/theirs: 5 bytes" "$WORK/said" && grep -q "unflushed   all/secret/roots: 5 bytes" "$WORK/said" ||
	fail "other files: $(cat "$WORK/said")"
own 1001 flush "$M/all/theirs" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "not on the server: $M/all/theirs: Permission denied" "$WORK/said" || fail "a file that he may not open: $(cat "$WORK/said")"
own 1001 flush "$M/all/secret/roots" >"$WORK/said" 2>&1 && fail "a file that he cannot reach"
kairan 1 status "$M" | grep -q "unflushed   all/theirs: 5 bytes" || fail "others' files are flushed"
write_out 1002 shared 022
write_out 1001 sub 077
own 1001 flush "$M/all/shared" || fail "a file that he may read"
grep -q text "$EXPORT/all/shared" || fail "not flushed"
kairan 1 status "$M" | grep -q "unflushed   all/sub: 5 bytes" || fail "what was not named is flushed"
own 1001 flush "$M/all" && grep -q text "$EXPORT/all/sub" || fail "a directory"
own 1001 flush "$M/none" >"$WORK/said" 2>&1
[ $? = 2 ] && grep -q "none: No such file" "$WORK/said" || fail "a name that is not there: $(cat "$WORK/said")"
write_out 1001 late 077
kill -STOP "${DAEMON[server]}"
own 1001 flush --timeout 3 "$M" >"$WORK/said" 2>&1
status=$?
own 1001 flush --timeout 1 "$M/all/late" >"$WORK/said.file" 2>&1
file_status=$?
kill -CONT "${DAEMON[server]}"
[ $file_status = 1 ] && grep -q "not within the time" "$WORK/said.file" || fail "a file without a server: $file_status, $(cat "$WORK/said.file")"
[ $status = 1 ] && grep -q "not on the server: $M/all/late: not within the time" "$WORK/said" || fail "without a server: $status, $(cat "$WORK/said")"
grep -qE "^kairan: $M after [0-9.]+ s: 0 bytes of 5 bytes sent, nothing moves$" "$WORK/said" ||
	fail "no progress: $(cat "$WORK/said")"

note "the extended attribute"
write_out 1001 mine 077
on node1 python3 - "$M/all" "$B/tools/kairan" <<'P' || fail "the attribute"
import errno, os, subprocess, sys
os.setgroups([])
os.setgid(1001)
os.setuid(1001)
mine, theirs, name = sys.argv[1] + "/mine", sys.argv[1] + "/theirs", "user.kairan.unflushed"

def error_of(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

assert os.getxattr(mine, name) == b"5", os.getxattr(mine, name)
assert error_of(os.getxattr, theirs, name) == "EACCES"
assert error_of(os.getxattr, mine, "user.kairan.other") == "ENODATA"
assert os.listxattr(mine) == []
assert error_of(os.setxattr, mine, name, b"7") == "EPERM"
assert error_of(os.setxattr, mine, "user.kairan.other", b"7") == "EPERM"
assert error_of(os.removexattr, mine, name) == "EPERM"
os.setxattr(mine, "user.kairan", b"7") # not of that prefix
assert os.listxattr(mine) == ["user.kairan"]
subprocess.run(["cp", "-a", mine, sys.argv[1] + "/copy"], check=True)
assert os.listxattr(sys.argv[1] + "/copy") == ["user.kairan"]
fd = os.open(mine, os.O_RDONLY)
os.fsync(fd)
assert os.getxattr(mine, name) == b"0"
P

note "a mount of another user is none of his"
mknod -m 666 "$WORK/fuse" c 10 229 && on node1 mount --bind "$WORK/fuse" /dev/fuse || fail "no /dev/fuse for all"
mkdir "$WORK/theirs" "$WORK/theirs/run" "$WORK/theirs/mnt" && chown -R daemon: "$WORK/theirs" || fail "directories"
as daemon env XDG_RUNTIME_DIR="$WORK/theirs/run" "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/theirs/mnt" -o "local=$WORK/theirs/local" >"$WORK/said" 2>&1 ||
	fail "a user's mount: $(cat "$WORK/said")"
for command in status "status --check" flush doctor "top -b -n 1 -d 0.1"; do
	# shellcheck disable=SC2086
	own 1001 $command >"$WORK/said" 2>&1
	status=$?
	[ $status = 0 ] && ! grep -qE "^$WORK/theirs/mnt|theirs/mnt: no daemon" "$WORK/said" || fail "$command: $status, $(cat "$WORK/said")"
done
[ "$(as daemon env XDG_RUNTIME_DIR="$WORK/theirs/run" "$B/tools/kairan" status | grep -c "^$WORK/")" = 2 ] || fail "his own, and root's"
on node1 umount "$WORK/theirs/mnt"

note "who asks all the time"
socket=/run/kairan/users-$(on node1 awk -v at="$M" '$5 == at { print $3 }' /proc/self/mountinfo)
[ -S "$socket" ] || fail "no $socket"
on node1 python3 - "$socket" <<'P' &
import os, socket, struct, sys, time
os.setgroups([])
os.setgid(1002)
os.setuid(1002)

def text(value):
    return struct.pack(">H", len(value)) + value + b"\0"

def request(number, what):
    fields = text(what) + text(b"all/theirs")
    return struct.pack(">IHHQIII", 0x4b52414e, 6, 0, number, 0, len(fields), 0) + fields

def status_of(what):
    """With which status the daemon answers."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect(sys.argv[1])
        s.sendall(request(1, what))
        return struct.unpack(">IHHQIII", s.recv(28, socket.MSG_WAITALL))[4]

for what in b"flush", b"discard", b"drain", b"end", b"nonsense":
    assert status_of(what) == 1, what # EPERM
assert status_of(b"status") in (0, 7) # or EAGAIN

ends, held, answers = time.monotonic() + 6, [], 0
while time.monotonic() < ends:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(0.2)
    try:
        s.connect(sys.argv[1])
        s.sendall(os.urandom(64) if len(held) % 3 == 0 else b"" if len(held) % 3 == 1 else b"".join(request(n, b"status") for n in range(1, 200)))
    except OSError:
        pass
    held.append(s) # nothing is read
    if len(held) > 50:
        held.pop(0).close()
P
flood=$!
while :; do own 1002 status "$M" >/dev/null 2>&1; done &
loop=$!
for _ in 1 2 3 4 5; do
	timeout 5 nsenter -t "${KEEPER[node1]}" -n -u -m -- setpriv --reuid 1001 --regid 1001 --clear-groups "$B/tools/kairan" status "$M" >"$WORK/said" 2>&1 ||
		fail "another user is kept out: $(cat "$WORK/said")"
	timeout 5 nsenter -t "${KEEPER[node1]}" -n -u -m -- "$B/tools/kairan" status "$M" >/dev/null || fail "root is kept out"
	sleep 0.5
done
kill $loop
wait $loop 2>/dev/null
wait $flood || fail "the hostile user's program: $?"
mount_stop 1 || fail "unmount"
[ ! -e "$socket" ] || fail "the socket stays"
finish
