# fsync and O_DSYNC mean it: each of several threads hears that a flush failed, a synced write is at the server when it returns, and
# what can never get there fails at fsync and close instead of waiting.
. "$TOP/test/lib.sh"
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 1

on node1 timeout 60 python3 - "$(mnt 1)/dsync" "$EXPORT/dsync" <<'P' || fail "O_DSYNC"
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o644)
for n in range(5):
    assert os.pwrite(fd, b"d" * 1000, n * 1000) == 1000
    assert os.path.getsize(sys.argv[2]) == (n + 1) * 1000, "not at the server"
os.close(fd)
P

head -c $(($(stat -f -c '%a*%S' "$EXPORT") - 2000000)) /dev/zero >"$EXPORT/ballast"
on node1 timeout 60 python3 - "$(mnt 1)/full" <<'P' || fail "several threads"
import errno, os, sys, threading
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, bytes(6000000))
heard = []
def sync():
    try:
        os.fsync(fd)
        heard.append(0)
    except OSError as error:
        heard.append(error.errno)
threads = [threading.Thread(target=sync) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert heard == [errno.ENOSPC] * 8, heard
os._exit(0)
P
kairan 1 flush --discard "$(mnt 1)/full" || fail "discard"
rm "$EXPORT/ballast"

mkfifo "$WORK/go"
on node1 timeout 60 python3 - "$(mnt 1)/gone" "$WORK/written" "$WORK/go" <<'P' &
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, b"never to arrive")
open(sys.argv[2], "w").close()
open(sys.argv[3]).read()
try:
    os.fsync(fd)
    sys.exit("fsync succeeds")
except OSError as error:
    assert error.errno == errno.ESTALE, error
os._exit(0)
P
program=$!
until_ok 10 "the file is written" test -e "$WORK/written" || fail "nothing is written" # a creation without an answer is repeated
server_kill
rm "$EXPORT/gone"
server_start
echo >"$WORK/go"
wait $program || fail "a file that is gone"
kairan 1 flush --timeout 60 "$(mnt 1)" || fail "the late bytes stay at the node"
[ "$(cat "$EXPORT"/gone.conflict-node1-*)" = "never to arrive" ] || fail "the late bytes are nowhere: $(ls "$EXPORT")"
echo fine >"$(seen_from_here 1)/after" && [ "$(cat "$EXPORT/after")" = fine ] || fail "not usable afterwards"
finish
