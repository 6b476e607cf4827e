# A journal full of bytes of one file that the server refuses: its writer hears why; who writes to other files hears that there is no room, not the
# other's error, and log and status say whose bytes they are and what to do.
# tags: faults
. "$TOP/test/lib.sh"
grep -q KR_FAULT "$B/server/kairand" || skip "built without fault points (meson -Dfaults=true)"
cluster 1
echo apply.before:edquot >"$WORK/fault"
KR_FAULT="@$WORK/fault" server_start
mount_start 1 journal_max=8M
m=$(mnt 1)
status() { kairan 1 status "$m"; }
# fill NAME: writes 1 MiB after the other until that fails; with what.
fill() {
	on node1 python3 - "$m/$1" <<'P'
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
try:
    for n in range(100):
        os.pwrite(fd, b"x" * (1 << 20), n << 20)
    print("none", flush=True)
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
os._exit(0)
P
}
said=$(fill over_quota); [ "$said" = EDQUOT ] || fail "the writer of what is refused hears $said: $(status)"
[ "$(fill innocent)" = ENOSPC ] || fail "the writer of another file: $(status)"
said='over_quota.*Disk quota exceeded'
grep -q "journal is full.*$said.*kairan flush --discard" "$WORK/node1/log" || fail "the log does not say whose: $(cat "$WORK/node1/log")"
names() { status | grep -q "JOURNAL  *full.*over_quota"; }
until_ok 30 "status says whose bytes they are" names || fail "$(status)"
kairan 1 flush --discard "$m/over_quota" >/dev/null || fail "discard"
rm "$WORK/fault"
[ "$(fill innocent)" = none ] || fail "a write after the discard: $(status)"
! status | grep -q JOURNAL || fail "$(status)"
[ "$(stat -c %s "$EXPORT/innocent")" -gt 90000000 ] || fail "size $(stat -c %s "$EXPORT/innocent")"
finish
