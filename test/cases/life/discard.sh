# Bytes that the server refuses for good: status names the file, only the explicit command drops them, then nothing is left.
. "$TOP/test/lib.sh"
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 1
mkdir "$EXPORT/dir" "$EXPORT/other"
echo fine >"$EXPORT/other/file"
head -c $(($(stat -f -c '%a*%S' "$EXPORT") - 2000000)) /dev/zero >"$EXPORT/ballast"
on node1 python3 - "$(mnt 1)/dir/refused" "$WORK" <<'P' &
import errno, os, sys, time
def wait_for(name):
    while not os.path.exists(f"{sys.argv[2]}/{name}"):
        time.sleep(0.1)
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, bytes(6000000))
try:
    os.fsync(fd)
    sys.exit("fsync found space")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
open(f"{sys.argv[2]}/failed", "w").close()
wait_for("space")
os.pwrite(fd, b"later", 0)
wait_for("enough")
os._exit(0)
P
writer=$!
until_ok 60 "the program's fsync fails" test -e "$WORK/failed" || fail "no error for the program"
kairan 1 status --check "$(mnt 1)" >/dev/null && fail "status --check sees nothing wrong with refused bytes"
kairan 1 status "$(mnt 1)" | grep -q "dir/refused" || fail "status does not name the file: $(kairan 1 status "$(mnt 1)")"
kairan 1 flush --timeout 2 "$(mnt 1)/dir" >"$WORK/flush"
[ $? = 1 ] || fail "flush: exit code: $(cat "$WORK/flush")"
# leaves STATUS PATH: what flushing PATH says.
leaves() {
	local got
	kairan 1 flush --timeout $((5 * SLOW)) "$2" >"$WORK/flush" 2>&1
	got=$?
	[ $got = "$1" ] || fail "flush $2: exit code $got, not $1: $(cat "$WORK/flush")"
}
note "whatever name it has now, and whatever leads to it"
m=$(mnt 1)
ln -s "$m" "$m-by_link"
on node1 ln -s dir "$m/to_dir"
leaves 1 "$m/dir/refused"
kairan 1 flush --refused-ok --timeout $((5 * SLOW)) "$m" >"$WORK/flush" && grep -q "dir/refused" "$WORK/flush" || fail "flush --refused-ok: $(cat "$WORK/flush")"
leaves 0 "$m/other"
leaves 0 "$m/other/file"
leaves 2 "$m/none"
leaves 1 "$m-by_link"
leaves 1 "$m-by_link/dir"
leaves 0 "$m-by_link/other"
leaves 1 "$m/to_dir"
leaves 1 "$m/other/../dir"
on node1 mv "$m/dir" "$m/moved" || fail "rename of the directory"
leaves 1 "$m/moved"
leaves 1 "$m/moved/refused"
on node1 mv "$m/moved" "$m/dir" || fail "rename of the directory"
on node1 ln "$m/dir/refused" "$m/other/second" || fail "second name"
leaves 1 "$m/other/second"
leaves 1 "$m/other"
on node1 rm "$m/other/second" || fail "rm"
leaves 0 "$m/other"
kill -STOP "${DAEMON[server]}" # where nothing can be looked up
leaves 1 "$m/dir"
kill -CONT "${DAEMON[server]}"
kairan 1 flush --timeout "" "$m" >"$WORK/said" 2>&1
[ $? = 64 ] || fail "an empty time: $(cat "$WORK/said")"
kairan 1 umount "$m/dir" >"$WORK/said" 2>&1
[ $? = 2 ] || fail "unmounted by a path on it: $(cat "$WORK/said")"
kairan 1 flush --discard "$(mnt 1)/none" >"$WORK/said" 2>&1
[ $? = 2 ] || fail "discarded a file that is not there: $(cat "$WORK/said")"
for nothing in dir other/file; do
	kairan 1 flush --discard "$m/$nothing" >"$WORK/said" 2>&1
	[ $? = 2 ] && grep -q "no file of this name has unflushed bytes" "$WORK/said" || fail "discarded $nothing: $(cat "$WORK/said")"
done
kairan 1 flush --discard "$m" >"$WORK/said" 2>&1 || fail "what is damaged: $(cat "$WORK/said")"
! grep -q "discarded the unflushed bytes" "$WORK/said" || fail "a mount point's damage is taken for its files: $(cat "$WORK/said")"
leaves 1 "$m/dir/refused"
kairan 1 flush --discard "$m/dir/refused" || fail "discard"
kairan 1 flush "$(mnt 1)" || fail "something is left: $(kairan 1 status "$(mnt 1)")"
for what in "$(mnt 1)" $SERVER_ADDRESS; do
	until_ok 30 "$what to be well" on node1 "$B/tools/kairan" status --check "$what" || fail "not well after discarding: $(kairan 1 status "$what")"
done
rm "$EXPORT/ballast"
echo fine >"$(seen_from_here 1)/dir/after" && [ "$(cat "$EXPORT/dir/after")" = fine ] || fail "not usable after discarding"
# Through the handle that had written what was discarded; nobody closes it or asks for a flush.
touch "$WORK/space"
until_ok 60 "what is written after discarding goes by its age" grep -q later "$EXPORT/dir/refused" || fail "$(kairan 1 status "$(mnt 1)")"
touch "$WORK/enough"
wait $writer || fail "the program ended with $?"
finish
