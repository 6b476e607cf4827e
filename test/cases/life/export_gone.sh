# The export's filesystem goes read-only, or is unmounted, under the server: programs hear of it, nothing is written to the empty mount
# point, nothing is lost, and when it is back everything drains by itself.  A server started on an empty mount point refuses.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='syncing a file failed: Input/output error|failed to write what it had taken to its disk: Input/output error|its bytes are not at the server and stay in the journal: Input/output error|the export /export has vanished: programs on nodes get EIO until it is back'
truncate -s 48M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
cluster 1
S="nsenter -t ${KEEPER[server]} -m --"
$S mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
exported="/proc/${KEEPER[server]}/root$EXPORT"
server_start
mount_start 1
m=$(mnt 1)
on node1 sh -c "echo first >$m/file && sync $m/file" || fail "before"
kairan 1 flush "$m" || fail "not flushed before"
# Busy as long as the server has a file open that it has written.
$S timeout 60 sh -c "until mount -o remount,ro '$EXPORT' 2>/dev/null; do sleep 0.1; done" || fail "the export cannot be made read-only"
$S grep -q " $EXPORT ext4 ro" /proc/mounts || fail "not read-only: $($S grep " $EXPORT " /proc/mounts)"
on node1 timeout -s KILL 60 cat "$m/file" >/dev/null || fail "a read-only export cannot be read"
on node1 sh -c "echo x >$m/new" 2>"$WORK/told" && fail "created in a read-only export"
grep -q "Read-only" "$WORK/told" || fail "creating in a read-only export: $(cat "$WORK/told")"
$S mount -o remount,rw "$EXPORT" || fail "remount"

note "unmounted"
on node1 timeout -s KILL 60 python3 - "$m/file" "$WORK/go" "$WORK/heard" <<'P' &
import errno, os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY)
os.pwrite(fd, b"second\n", 0)
os.fsync(fd)
open(sys.argv[3] + ".ready", "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
os.pwrite(fd, b"third!\n", 0)
try:
    os.fsync(fd)
    heard = "nothing"
except OSError as error:
    heard = errno.errorcode[error.errno]
open(sys.argv[3], "w").write(heard)
os._exit(0)
P
writer=$!
until_ok 60 "the writer is ready" test -e "$WORK/heard.ready" || fail "writer"
$S umount -l "$EXPORT"
until_ok 30 "the server notices" sh -c "! timeout -s KILL 10 stat '$(seen_from_here 1)/file'" || fail "stat goes on without the export"
touch "$WORK/go"
wait $writer || fail "the writer"
[ "$(cat "$WORK/heard")" = EIO ] || fail "fsync without an export: $(cat "$WORK/heard")"
[ -z "$($S ls -A "$EXPORT")" ] || fail "written into the mount point: $($S ls -A "$EXPORT")"
kairan 1 status "$m" | grep -q "unflushed.*Input/output" || fail "status does not show it: $(kairan 1 status "$m")"
server_kill
nsenter -t "${KEEPER[server]}" -n -u -m -- timeout 20 "$B/server/kairand" --listen 0.0.0.0:$PORT --insecure --state "$WORK/state" "$EXPORT" >"$WORK/refusal" 2>&1
[ $? = 1 ] && grep -q "is its filesystem mounted" "$WORK/refusal" || fail "a server on an empty mount point: $(cat "$WORK/refusal")"
[ -z "$($S ls -A "$EXPORT")" ] || fail "written into the mount point by the start"
$S mount -o loop "$WORK/export.img" "$EXPORT" || fail "mounting again"
server_start
until_ok 60 "everything drained" on node1 "$B/tools/kairan" flush "$m" || fail "nothing drains: $(kairan 1 status "$m")"
[ "$(cat "$exported/file")" = "third!" ] || fail "the bytes: $(cat "$exported/file")"
finish
