# Bytes that the server refuses for good: status names the file, only the explicit command drops them, then nothing is left.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space|space left|ENOSPC|discard'
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 1
mkdir "$EXPORT/dir"
head -c $(($(stat -f -c '%a*%S' "$EXPORT") - 2000000)) /dev/zero >"$EXPORT/ballast"
on node1 python3 - "$(mnt 1)/dir/refused" <<'P' || fail "no error for the program"
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, bytes(6000000))
try:
    os.fsync(fd)
    sys.exit("fsync found space")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
os._exit(0)
P
kairan 1 status "$(mnt 1)" | grep -q "dir/refused" || fail "status does not name the file: $(kairan 1 status "$(mnt 1)")"
kairan 1 flush --timeout 2 "$(mnt 1)/dir" >"$WORK/flush"
[ $? = 1 ] || fail "flush: exit code: $(cat "$WORK/flush")"
kairan 1 flush --discard "$(mnt 1)/none" >"$WORK/said" 2>&1
[ $? = 2 ] || fail "discarded a file that is not there: $(cat "$WORK/said")"
kairan 1 flush --discard "$(mnt 1)/dir/refused" || fail "discard"
kairan 1 flush "$(mnt 1)" || fail "something is left: $(kairan 1 status "$(mnt 1)")"
rm "$EXPORT/ballast"
echo fine >"$(seen_from_here 1)/dir/after" && [ "$(cat "$EXPORT/dir/after")" = fine ] || fail "not usable after discarding"
finish
