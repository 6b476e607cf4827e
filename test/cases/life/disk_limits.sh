# Disks without inodes and over quota, of the node and of the server: the error comes out of the call that met it, what was taken before
# is kept, the rest works on, and when there is room again everything drains by itself.
# timeout: 300
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space|space left|quota'
# All disks are mounted before the hosts get namespaces of their own.
truncate -s 16M "$WORK/export.img"
mkfs.ext4 -q -m0 -N 48 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
head -c 700000 /dev/urandom >"$EXPORT/read"
quotas= # of the filesystems here btrfs has quotas that the kernel enforces
if command -v mkfs.btrfs >/dev/null && grep -q btrfs /proc/filesystems; then
	quotas=1
	for where in server node; do
		truncate -s 120M "$WORK/$where.img"
		mkfs.btrfs -q -M "$WORK/$where.img" >/dev/null 2>&1 || fail "mkfs.btrfs"
		mkdir -p "$WORK/$where-disk"
		mount -o loop "$WORK/$where.img" "$WORK/$where-disk" && btrfs -q quota enable "$WORK/$where-disk" &&
			btrfs -q subvolume create "$WORK/$where-disk/kept" >/dev/null || fail "btrfs for the $where"
	done
fi
cluster 1
on node1 mount -t tmpfs -o size=48m,nr_inodes=150 none "$WORK/node1/local" || skip "no tmpfs"
server_start
mount_start 1
m=$(mnt 1)

# The node has no inode left: no new segment of the journal, no new file in the cache.
on node1 python3 - "$WORK/node1/local" "$m" "$EXPORT" "${DAEMON[server]}" <<'P' || fail "the node without inodes"
import errno, os, signal, sys
local, mount, export, server = *sys.argv[1:4], int(sys.argv[4])
fd = os.open(mount + "/big", os.O_RDWR | os.O_CREAT, 0o644)
piece, written = b"k" * 65536, 0
os.pwrite(fd, piece, 0)  # the lease and the first segment are here
ballast = []
try:
    while True:
        ballast.append("%s/ballast%d" % (local, len(ballast)))
        os.close(os.open(ballast[-1], os.O_CREAT))
except OSError as error:
    assert error.errno == errno.ENOSPC, error
    ballast.pop()
os.kill(server, signal.SIGSTOP)  # nothing can be flushed
try:
    for n in range(1, 400):
        assert os.pwrite(fd, piece, n * 65536) == 65536
        written = n
    sys.exit("25 MB fit into segments that could not be made")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
finally:
    os.kill(server, signal.SIGCONT)
assert written > 2, written
os.fsync(fd)
os.close(fd)
assert open(export + "/big", "rb").read() == piece * (written + 1)
assert open(mount + "/read", "rb").read() == open(export + "/read", "rb").read()  # what cannot be cached is read
for path in ballast:
    os.unlink(path)
with open(mount + "/after", "wb") as file:
    for n in range(100):
        file.write(piece)
    file.flush()
    os.fsync(file.fileno())
assert os.path.getsize(export + "/after") == 100 * 65536
os.unlink(mount + "/after")
P

# The server has none: no new name, but files are written, names change, open files are removed and go on.
on node1 python3 - "$m" <<'P' || fail "the server without inodes"
import errno, os, sys
mount, made = sys.argv[1], 0
held = os.open(mount + "/held", os.O_RDWR | os.O_CREAT, 0o644)
try:
    for made in range(200):
        os.close(os.open("%s/new%d" % (mount, made), os.O_CREAT | os.O_WRONLY, 0o644))
    sys.exit("200 files fit into 48 inodes")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
assert made > 5, made
for call in (os.mkdir, lambda path: os.symlink("x", path), lambda path: os.mknod(path)):
    try:
        call(mount + "/another")
        sys.exit("one more inode")
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
os.pwrite(held, b"held" * 50000, 0)
os.fsync(held)
os.rename(mount + "/new0", mount + "/new1")  # frees one
os.close(os.open(mount + "/new0", os.O_CREAT | os.O_WRONLY, 0o644))
os.unlink(mount + "/held")  # open: it has to be kept somewhere
os.pwrite(held, b"more", 200000)
os.fsync(held)
assert os.pread(held, 300000, 0) == b"held" * 50000 + b"more"
os.close(held)
os.close(os.open(mount + "/in its place", os.O_CREAT | os.O_WRONLY, 0o644))
P
mount_stop 1 || fail "kairanfs: $?"
server_stop || fail "kairand: $?"

# Over quota.
[ "$quotas" ] || { note "no btrfs: quotas are not tried"; finish; exit 0; }
on node1 umount "$WORK/node1/local"
limit_of() { btrfs -q qgroup limit "$2" "$WORK/$1-disk/kept" && sync -f "$WORK/$1-disk"; }
EXPORT=$WORK/server-disk/kept
rm -rf "$WORK/state"
rmdir "$WORK/node1/local" && ln -s "$WORK/node-disk/kept" "$WORK/node1/local"
server_start
mount_start 1 journal_max=1G
limit_of server 4M || fail "no limit on the server"
on node1 python3 - "$m/file" <<'P' || fail "the server over quota"
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
for n in range(100):
    os.pwrite(fd, b"q" * 65536, n * 65536)
for call in os.fsync, os.close:
    try:
        call(fd)
        sys.exit("within the quota")
    except OSError as error:
        assert error.errno == errno.EDQUOT, error
P
kairan 1 status "$m" | grep -qi quota || fail "status says nothing: $(kairan 1 status "$m")"
limit_of server none || fail "the limit stays"
backlog_is_empty() { kairan 1 status --json "$m" | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["backlog"]["bytes"] > 0)'; }
until_ok 60 "it drains by itself" backlog_is_empty || fail "nothing drains: $(kairan 1 status "$m")"
[ "$(stat -c %s "$EXPORT/file")" = 6553600 ] && [ "$(tr -d q <"$EXPORT/file" | wc -c)" = 0 ] || fail "the drained bytes"

limit_of node 24M || fail "no limit on the node"
on node1 python3 - "$m/big" "$EXPORT/big" "${DAEMON[server]}" <<'P' || fail "the node over quota"
import errno, os, signal, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
os.pwrite(fd, b"n" * 65536, 0)
os.kill(int(sys.argv[3]), signal.SIGSTOP)
written = 0
try:
    for n in range(1, 800):
        os.pwrite(fd, b"n" * 65536, n * 65536)
        written = n
    sys.exit("50 MB within a quota of 24")
except OSError as error:
    assert error.errno == errno.EDQUOT, error
finally:
    os.kill(int(sys.argv[3]), signal.SIGCONT)
os.fsync(fd)
os.close(fd)
assert open(sys.argv[2], "rb").read() == b"n" * 65536 * (written + 1)
P
limit_of node none || fail "the limit stays"
until_ok 60 "room in the journal" on node1 sh -c "head -c 3000000 /dev/zero >$m/after && sync $m/after" || fail "not usable after the quota was raised"
[ "$(stat -c %s "$EXPORT/after")" = 3000000 ] || fail "the write after"
mount_stop 1 || fail "kairanfs: $?"
server_stop || fail "kairand: $?"
finish
