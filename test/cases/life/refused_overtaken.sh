# The server's disk is full when node 1 writes; then others read the file, and one writes to it.  What the server refused does not go over
# that when there is room: it goes to a conflict file; where nobody has written it goes in. So it is, too, when all that knew of it were killed.
LEASE=5
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space left on device; its unflushed bytes wait in the journal until'
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 2
for name in quiet busy; do head -c 8192 /dev/zero | tr '\0' o >"$EXPORT/$name"; done
free=$(stat -f -c '%a*%S' "$EXPORT")
head -c $((free - 1000000)) /dev/zero >"$EXPORT/ballast"
# Some of the file, where no room is needed, and too much behind it.
write_too_much() { # NAME
	on node1 python3 - "$(mnt 1)/$1" <<'P' || fail "no error for the program"
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
}
write_too_much quiet
write_too_much busy
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
kairan 1 status "$(mnt 1)" | grep -q "CONFLICT *busy was changed by others before 3.0 MiB that were written here were on the server" ||
	fail "status of the mount: $(kairan 1 status "$(mnt 1)")"
uncovered=$WORK/node1/local/journal/uncovered
forgotten() { [ ! -e "$uncovered" ]; }
until_ok 10 "the journal forgets it" forgotten || fail "it says still: $(cat "$uncovered")"

note "both daemons are killed before there is room"
head -c 8192 /dev/zero | tr '\0' o >"$EXPORT/killed"
free=$(stat -f -c '%a*%S' "$EXPORT")
head -c $((free - 1000000)) /dev/zero >"$EXPORT/ballast"
write_too_much killed
on node2 sh -c "printf 2222 | dd of='$(mnt 2)/killed' bs=4 conv=notrunc,fsync status=none" || fail "node 2 cannot write"
[ "$(wc -l <"$uncovered")" = 2 ] || fail "the journal says: $(cat "$uncovered")"
mount_kill 1
server_kill
server_start
mount_start 1
rm "$EXPORT/ballast"
until_ok 60 "node 1 drains" drained || fail "node 1 keeps something: $(cat "$WORK/said")"
[ "$(head -c 8 "$EXPORT/killed" | tr -c 2 .)" = 2222.... ] || fail "node 2's bytes are covered: $(head -c 8 "$EXPORT/killed")"
set -- "$EXPORT"/killed.conflict-node1-*
[ $# = 1 ] && [ "$(stat -c %s "$1")" = 3153920 ] && [ "$(tr -d 1s <"$1" | wc -c)" = 0 ] || fail "the conflict file: $(ls -l "$EXPORT")"
until_ok 10 "the journal forgets it" forgotten || fail "it says still: $(cat "$uncovered")"

note "the next mount takes them home, although it is ended at once"
head -c 8192 /dev/zero | tr '\0' o >"$EXPORT/home"
free=$(stat -f -c '%a*%S' "$EXPORT")
head -c $((free - 1000000)) /dev/zero >"$EXPORT/ballast"
write_too_much home
on node2 head -c 1 "$(mnt 2)/home" >/dev/null || fail "node 2 cannot read"
[ "$(wc -l <"$uncovered")" = 2 ] || fail "the journal says: $(cat "$uncovered")"
mount_kill 1
rm "$EXPORT/ballast"
mount_start 1
mount_stop 1 || fail "exit status of the daemon"
[ "$(stat -c %s "$EXPORT/home")" = 3153920 ] && [ "$(tr -d 1s <"$EXPORT/home" | wc -c)" = 0 ] || fail "not all is there: $(ls -l "$EXPORT")"
finish
