# The node's disk dies under the mount: writes fail with EIO, the daemon and everything else lives on, and what the server had is right.
# Then: the local directory is removed while the mount runs.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='the journal cannot be written: '
cluster 1
truncate -s 64M "$WORK/local.img"
mkfs.ext4 -q -m0 "$WORK/local.img" 2>/dev/null || skip "no mkfs.ext4"
on node1 mount -o loop "$WORK/local.img" "$WORK/node1/local" || skip "no loop device"
server_start
head -c 2000000 /dev/urandom >"$EXPORT/there"
mount_start 1
m=$(mnt 1)
on node1 sh -c "echo synced >$m/a && sync $m/a" || fail "before"
on node1 timeout -s KILL 100 python3 - "$m" "$WORK/node1/local" "$TOP/test/programs/shutdown.py" <<'P'
import errno, os, subprocess, sys
mount, local, shutdown = sys.argv[1:4]
fd = os.open(mount + "/big", os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, b"1" * 100000)
os.fsync(fd)
r = subprocess.run([sys.executable, shutdown, local])
if r.returncode:
    sys.exit(77)
try:
    for n in range(100):
        os.pwrite(fd, b"2" * 100000, n * 100000)
    sys.exit("a dead disk takes 10 MB")
except OSError as error:
    assert error.errno == errno.EIO, error
try:
    os.close(fd)
except OSError as error:
    assert error.errno == errno.EIO, error
assert len(os.listdir(mount)) >= 3          # names go on
os.mkdir(mount + "/dir")
assert os.path.getsize(mount + "/there") == 2000000
P
status=$?
[ $status != 77 ] || skip "ext4 cannot be shut down here"
[ $status = 0 ] || fail "the broken disk"
alive "${DAEMON[node1]}" || fail "kairanfs died with its disk"
kairan 1 status "$m" | grep -q "JOURNAL *cannot be written" || fail "status is silent: $(kairan 1 status "$m")"
[ "$(cat "$EXPORT/a")" = synced ] && [ -d "$EXPORT/dir" ] || fail "the server's files"
[ "$(head -c 100000 "$EXPORT/big" | tr -d 12 | wc -c)" = 0 ] || fail "bytes that nobody wrote"
mount_kill 1
on node1 umount -l "$WORK/node1/local"

note "the local directory is removed"
mount_start 1 flush_age=600
on node1 sh -c "echo one >$m/b" || fail "before the removal"
rm -rf "$WORK/node1/local"
on node1 sh -c "echo two >$m/c" || true   # the segment is open: this may still work
on node1 timeout -s KILL 60 sh -c "ls $m >/dev/null && cat $m/b" >"$WORK/b" || fail "the mount is dead"
[ "$(cat "$WORK/b")" = one ] || fail "wrong bytes"
# What the open segments cannot hold is refused, and what they took is there.
on node1 timeout -s KILL 60 python3 - "$m" <<'P' || fail "without a directory"
import errno, os, sys
fd = os.open(sys.argv[1] + "/d", os.O_RDWR | os.O_CREAT, 0o644)
taken = 0
try:
    for n in range(200):
        taken += os.pwrite(fd, b"3" * 1000000, taken)
    sys.exit("a journal without a directory takes 200 MB")
except OSError as error:
    assert error.errno == errno.EIO, error
print("taken: %d bytes" % taken)
while taken:
    piece = min(taken, 1000000)
    taken -= piece
    assert os.pread(fd, piece, taken) == b"3" * piece, taken
os._exit(0)
P
grep -q "the journal cannot be written: No such file" "$WORK/node1/log" || fail "the log is silent" # status has its socket in that directory
alive "${DAEMON[node1]}" || fail "kairanfs died without its directory"
kairan 1 status "$m" >"$WORK/said" 2>&1 && fail "status without the daemon's socket"
grep -q "has removed its local directory.*kairan umount $m flushes" "$WORK/said" ||
	fail "what to do: $(cat "$WORK/said")"
kairan 1 umount "$m" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "is unmounted, but somebody has removed its local directory" "$WORK/said" ||
	fail "umount: $(cat "$WORK/said")"
wait "${DAEMON[node1]}" || fail "the unmount without a directory: $?"
[ "$(cat "$EXPORT/b")" = one ] || fail "what the open segments held is not flushed"
server_stop || fail "kairand: $?"
check_logs
