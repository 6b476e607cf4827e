# The server's disk is full: close or fsync says so, the bytes stay in the journal and in status, and they drain when there is space.
. "$TOP/test/lib.sh"
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 2
free=$(stat -f -c '%a*%S' "$EXPORT")
head -c $((free - 3000000)) /dev/zero >"$EXPORT/ballast"
on node1 python3 - "$(mnt 1)/file" <<'P' || fail "no error for the program"
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
for n in range(100):
    os.pwrite(fd, b"s" * 65536, n * 65536)
try:
    os.fsync(fd)
    sys.exit("fsync found space")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
try:
    os.close(fd)
except OSError as error:
    assert error.errno == errno.ENOSPC, error
P
kairan 1 status "$(mnt 1)" >"$WORK/status" || true
grep -qi "no space" "$WORK/status" || fail "status does not show it: $(cat "$WORK/status")"
[ "$(kairan 1 status --json "$(mnt 1)" | python3 -c 'import json,sys; d=json.load(sys.stdin); print(d["backlog"]["bytes"] > 0)')" = True ] || fail "backlog in status: $(kairan 1 status --json "$(mnt 1)")"
shown() { kairan 2 status $SERVER_ADDRESS | grep -q "$1"; }
until_ok 60 "the server's status names who has unflushed bytes" shown "node  *node1 .*, [0-9.]* [KM]iB unflushed ([0-9.]* [KM]iB REFUSED), " ||
	fail "$(kairan 2 status $SERVER_ADDRESS)"
! shown "node  *node2 .*unflushed" || fail "node 2 has nothing: $(kairan 2 status $SERVER_ADDRESS)"
! kairan 1 flush "$(mnt 1)" >"$WORK/flush" 2>&1 || fail "flush claims success: $(cat "$WORK/flush")"
grep -q "file" "$WORK/flush" || fail "flush does not name the file: $(cat "$WORK/flush")"
rm "$EXPORT/ballast"
until_ok 30 "everything drained" on node1 "$B/tools/kairan" flush "$(mnt 1)" || fail "nothing drains after space was freed: $(kairan 1 status "$(mnt 1)")"
until_ok 60 "the server's status forgets it" sh -c "! nsenter -t ${KEEPER[node2]} -n '$B/tools/kairan' status $SERVER_ADDRESS | grep unflushed" ||
	fail "$(kairan 2 status $SERVER_ADDRESS)"
[ "$(stat -c %s "$EXPORT/file")" = 6553600 ] && [ "$(tr -d s <"$EXPORT/file" | wc -c)" = 0 ] || fail "the drained bytes differ"
finish
