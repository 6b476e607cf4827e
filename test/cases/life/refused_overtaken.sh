# The server's disk is full when node 1 writes; then others read the file, and one writes to it.  What the server refused does not go over
# that when there is room: it goes to a conflict file; where nobody has written it goes in.
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space|space left|conflict|Stale'
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 2
for name in quiet busy; do head -c 8192 /dev/zero | tr '\0' o >"$EXPORT/$name"; done
free=$(stat -f -c '%a*%S' "$EXPORT")
head -c $((free - 1000000)) /dev/zero >"$EXPORT/ballast"
# Some of the two, where no room is needed, and too much behind it.
for name in quiet busy; do
	on node1 python3 - "$(mnt 1)/$name" <<'P' || fail "no error for the program"
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
os.pwrite(fd, b"1" * 8192, 0)
for n in range(48):
    os.pwrite(fd, b"s" * 65536, 8192 + n * 65536)
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
done
on node2 head -c 1 "$(mnt 2)/quiet" >/dev/null || fail "node 2 cannot read"
on node2 sh -c "printf 2222 | dd of='$(mnt 2)/busy' bs=4 conv=notrunc,fsync status=none" || fail "node 2 cannot write"
on node2 head -c 1 "$(mnt 2)/busy" >/dev/null || fail "node 2 cannot read"
kairan 1 status "$(mnt 1)" | grep -qi "no space" || fail "status does not show it: $(kairan 1 status "$(mnt 1)")"
rm "$EXPORT/ballast"
drained() { kairan 1 flush --timeout 5 "$(mnt 1)" >"$WORK/said" 2>&1; }
until_ok 60 "node 1 drains" drained || fail "node 1 keeps something: $(cat "$WORK/said")"
[ "$(head -c 8 "$EXPORT/busy" | tr -c 2 .)" = 2222.... ] || fail "node 2's bytes are covered: $(head -c 8 "$EXPORT/busy")"
[ "$(stat -c %s "$EXPORT/quiet")" = 3153920 ] && [ "$(tr -d 1s <"$EXPORT/quiet" | wc -c)" = 0 ] || fail "the drained bytes differ"
set -- "$EXPORT"/*.conflict-node1-*
[ $# = 1 ] && [ "$(stat -c %s "$1")" = 3153920 ] && [ "$(tr -d 1s <"$1" | wc -c)" = 0 ] || fail "the conflict file: $(ls -l "$EXPORT")"
case $1 in */busy.conflict-node1-*) ;; *) fail "it is of $1" ;; esac
finish
