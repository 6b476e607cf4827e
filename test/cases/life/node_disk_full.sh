# The node's disk is full: the error comes out of write, what was written before is kept, and the mount stays usable.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space|space left'
cluster 1
on node1 mount -t tmpfs -o size=12m none "$WORK/node1/local" || skip "no tmpfs"
server_start
mount_start 1 journal_max=1G
# A file that others cannot drain: the writes are faster than any flush of a stopped server.
on node1 sh -c "echo x >$(mnt 1)/open" || fail "first write"
on node1 python3 - "$(mnt 1)/big" "$WORK/count" "${DAEMON[server]}" <<'P' || fail "the full disk"
import errno, os, signal, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
piece, written = b"k" * 65536, 0
os.pwrite(fd, piece, 0)                      # the lease is here now
os.kill(int(sys.argv[3]), signal.SIGSTOP)    # and nothing can be flushed
try:
    for n in range(1, 400):
        assert os.pwrite(fd, piece, n * 65536) == 65536
        written = n
    sys.exit("25 MB fit into 12")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
finally:
    os.kill(int(sys.argv[3]), signal.SIGCONT)
open(sys.argv[2], "w").write(str(written + 1))
os.fsync(fd)
os.close(fd)
P
count=$(cat "$WORK/count")
[ "$count" -gt 50 ] || fail "only $count writes fitted"
[ "$(head -c $((count * 65536)) "$EXPORT/big" | tr -d k | wc -c)" = 0 ] || fail "bytes differ"
[ "$(stat -c %s "$EXPORT/big")" = $((count * 65536)) ] || fail "size $(stat -c %s "$EXPORT/big") instead of $((count * 65536))"
# The space is there once the server has said that all is stable, which may be a moment after fsync.
until_ok 10 "space in the journal" on node1 sh -c "head -c 3000000 /dev/zero >$(mnt 1)/after && sync $(mnt 1)/after" || fail "not usable after the disk was full"
[ "$(stat -c %s "$EXPORT/after")" = 3000000 ] || fail "the write after"
finish
