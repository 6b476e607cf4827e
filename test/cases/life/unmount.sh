# Unmounting drains; SIGTERM drains; what cannot be drained is said and replayed by the next mount; status and umount tell.
# tags: sanitizer long
. "$TOP/test/lib.sh"
up 2
M=$(mnt 1)
write_out() { on node1 python3 "$TOP/test/programs/strided.py" write "$M/$1" 0 1 70001 100 >/dev/null || fail "$1 is not written"; }
is_there() { python3 "$TOP/test/programs/strided.py" check "$EXPORT/$1" 0 1 70001 100; }
# hold NAME [TEXT [MORE]]: a program has it open and has written TEXT, until let_go, when it writes MORE.
hold() {
	rm -f "$WORK/held" "$WORK/gone"
	on node1 python3 - "$M/$1" "$WORK/held" "$WORK/gone" "${2:-}" "${3:-}" <<-'P' &
		import os, sys, time
		path, held, gone, *texts = sys.argv[1:]
		fd = os.open(path, os.O_WRONLY | os.O_CREAT)
		os.write(fd, texts[0].encode())
		open(held, "w").close()
		while not os.path.exists(gone):
		    time.sleep(0.05)
		os.write(fd, texts[1].encode())
		os.close(fd)
	P
	program=$!
	until_ok 30 "$1 is open" test -e "$WORK/held" || fail "$1 is not open"
}
let_go() { : >"$WORK/gone"; wait $program || fail "the program"; }
note "fusermount3 -u"
write_out a
mount_stop 1 || fail "exit status of the daemon"
is_there a || fail "not drained"
note "SIGTERM"
mount_start 1 close=async
write_out b
kill -TERM "${DAEMON[node1]}"
wait "${DAEMON[node1]}" || fail "exit status after SIGTERM: $?"
is_there b || fail "SIGTERM did not drain"
! on node1 grep -q "$M" /proc/mounts || fail "SIGTERM left the mount"
note "kairan umount"
mount_start 1 close=async
write_out c
kairan 1 umount "$M" || fail "kairan umount: $?"
is_there c || fail "umount did not drain"
wait "${DAEMON[node1]}" || fail "exit status after umount"
note "kairan umount --force with nothing unflushed, and with something"
mount_start 1
write_out d
kairan 1 flush "$M" || fail "flush: $?"
kairan 1 umount --force "$M" >"$WORK/said" 2>&1 || fail "kairan umount --force: $? $(cat "$WORK/said")"
[ ! -s "$WORK/said" ] || fail "kairan umount --force says $(cat "$WORK/said")"
wait "${DAEMON[node1]}" || fail "exit status after umount --force"
mount_start 1 flush_age=600
hold forced abc
kairan 1 umount --force "$M" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "what is not on the server stays in the journal" "$WORK/said" || fail "kairan umount --force: $(cat "$WORK/said")"
wait "${DAEMON[node1]}"
: >"$WORK/gone"
! wait $program || fail "a program wrote to a mount that was gone"
rm "$WORK/held"
note "names that are no text, and what a terminal would obey"
mount_start 1 flush_age=600
on node1 python3 - "$M" "$WORK/held" "$WORK/seen" <<'P' &
import os, sys, time
held = [os.open(os.path.join(sys.argv[1].encode(), name), os.O_WRONLY | os.O_CREAT) for name in (b"new\nline", b"red\x1b[31m", b"latin\xe9")]
for fd in held:
    os.write(fd, b"abc")
open(sys.argv[2], "w").close()
while not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
P
program=$!
until_ok 30 "three files with unflushed bytes" test -e "$WORK/held" || fail "not written"
kairan 1 status "$M" >"$WORK/said" || fail "status"
for name in 'new\012line' 'red\033[31m' 'latin\351'; do
	grep -qF "  unflushed   $name: 3 bytes" "$WORK/said" || fail "status does not name $name: $(cat -v "$WORK/said")"
done
kairan 1 status --json "$M" | python3 -c '
import json, sys
paths = {file["path"] for file in json.load(sys.stdin)["files"]}
assert paths == {"new\nline", "red\x1b[31m", "latin\\351"}, paths' || fail "status --json"
: >"$WORK/seen"
wait $program || fail "the program"
kairan 1 umount "$M" || fail "kairan umount: $?"
wait "${DAEMON[node1]}" || fail "exit status after umount"
note "a flush waits for what was written before it, not for a program that goes on"
mount_start 1 close=async,flush_age=600
on node1 python3 - "$M/steady" "$WORK/begun" "$WORK/enough" <<'P' &
import os, sys, time
fd, count = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 0
os.pwrite(fd, b"first", 5000000)
while not os.path.exists(sys.argv[3]):
    os.pwrite(fd, b"y" * 4000, count % 500 * 4000)
    other = os.open(sys.argv[1] + "%d" % (count % 50), os.O_WRONLY | os.O_CREAT)
    os.write(other, b"z" * 1000)
    os.close(other)
    count += 1
    if count == 200:
        open(sys.argv[2], "w").close()
    time.sleep(0.005)
P
program=$!
until_ok 60 "a program that writes" test -e "$WORK/begun" || fail "not begun"
for path in "$M" "$M/steady"; do
	kairan 1 flush --timeout $((20 * SLOW)) "$path" >"$WORK/said" 2>&1 || fail "a flush of $path, exit code $?: $(cat "$WORK/said")"
done
[ "$(tail -c +5000001 "$EXPORT/steady")" = first ] || fail "what was written before is not there"
kill -STOP "${DAEMON[server]}"
kairan 1 flush --timeout 2 "$M" >"$WORK/said" 2>&1
status=$?
kill -CONT "${DAEMON[server]}"
[ $status = 1 ] || fail "a flush without a server: exit code $status: $(cat "$WORK/said")"
alive $program || fail "the program"
touch "$WORK/enough"
wait $program || fail "the program"
kairan 1 umount "$M" || fail "kairan umount: $?"
wait "${DAEMON[node1]}" || fail "exit status after umount"
note "without the server"
mount_start 1 close=async
on node1 sh -c "exec 5>$M/d; echo one >&5; kill -STOP ${DAEMON[server]}; echo two >&5; timeout -s KILL 60 $B/tools/kairan umount --timeout 5 $M" >"$WORK/said" 2>&1
status=$?
kill -CONT "${DAEMON[server]}"
[ $status != 0 ] || fail "umount without a server claims success: $(cat "$WORK/said")"
grep -qE "^kairan: $M after [0-9.]+ s: 0 bytes of 8 bytes sent, nothing moves$" "$WORK/said" ||
	fail "no word of the progress: $(cat "$WORK/said")"
[ -z "$(sort "$WORK/said" | uniq -d)" ] || fail "a line stands there twice: $(cat "$WORK/said")"
alive "${DAEMON[node1]}" && { mount_stop 1 || true; }
mount_start 1
until_ok 30 "the rest" sh -c "[ \"\$(cat $EXPORT/d | tr '\n' ' ')\" = 'one two ' ]" || fail "d: $(cat "$EXPORT/d")"
note "an unmount that found the mount in use does not shorten the next one"
mount_stop 1 || fail "unmount"
mount_start 1 close=async,drain_timeout=600
hold e 0
kill -STOP "${DAEMON[server]}"
on node1 timeout -s KILL 60 "$B/tools/kairan" umount --timeout 1 "$M" >"$WORK/said" 2>&1
[ $? = 2 ] || fail "not in use: $(cat "$WORK/said")"
let_go
on node1 fusermount3 -u "$M" || fail "unmount"
! until_ok 5 "an end of the daemon" gone "${DAEMON[node1]}" || fail "the daemon does not wait for the server: $(tail -3 "$WORK/node1/log")"
kill -CONT "${DAEMON[server]}"
wait "${DAEMON[node1]}" || fail "exit status $?"
[ "$(cat "$EXPORT/e")" = 0 ] || fail "the byte"
note "a lazy unmount under a program"
mount_start 1
hold g "" 2
on node1 umount -l "$M" || fail "umount -l"
! on node1 "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$M" -o "local=$WORK/node1/local" 2>"$WORK/said" || fail "two daemons with one local directory"
kairan 1 status >"$WORK/status" || fail "status of what is not to be seen"
grep -A1 "^$M: .*process ${DAEMON[node1]}" "$WORK/status" | grep -q "DETACHED.*kill ${DAEMON[node1]} " || fail "status: $(cat "$WORK/status")"
kairan 1 status --json | python3 -c '
import json, sys
sys.exit([m.get("detached") for m in json.load(sys.stdin) if m["mount_point"] == sys.argv[1]] != [True])' "$M" || fail "JSON"
grep -q "lazily.*fuser $WORK/node1/local/lock" "$WORK/said" || fail "does not tell why: $(cat "$WORK/said")"
let_go
wait "${DAEMON[node1]}" || fail "exit status $?"
[ "$(cat "$EXPORT/g")" = 2 ] || fail "what was written after the unmount"
! kairan 1 status | grep "^$M: " || fail "status of what has ended: $(kairan 1 status)"
note "another mount has the device's number before the daemon has ended"
mount_start 1 close=async
device=$(on node1 awk -v at="$M" '$5 == at { print $3 }' /proc/self/mountinfo)
[ -s "/run/kairan/$device" ] || fail "nothing is written down of $device"
on node1 python3 - "$M/f" "${DAEMON[server]}" <<'P' || fail "write"
import os, signal, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.kill(int(sys.argv[2]), signal.SIGSTOP)
os.write(fd, b"1")
os.close(fd)
P
(
	until_ok 60 "unmounted" on node1 sh -c "! grep -q ' $M ' /proc/self/mountinfo" || exit 1
	sed "s|/node1/|/node2/|" "/run/kairan/$device" >/run/kairan/new && mv /run/kairan/new "/run/kairan/$device"
) &
other=$!
on node1 timeout -s KILL 100 "$B/tools/kairan" umount --timeout 1 "$M" >"$WORK/said" 2>&1
[ $? = 1 ] || fail "what is left is not told: $(cat "$WORK/said")"
wait $other || fail "it is mounted still"
kill -CONT "${DAEMON[server]}"
wait "${DAEMON[node1]}"
alive "${DAEMON[node2]}" && ! grep "signal 15" "$WORK/node2/log" || fail "another mount was told to end"
mount_start 1
[ "$(on node1 cat "$M/f")" = 1 ] || fail "what was left"
note "what a killed daemon has left, with and without fusectl"
for fusectl in mounted hidden; do
	[ $fusectl = mounted ] || on node1 mount -t tmpfs none /sys/fs/fuse/connections || fail "fusectl is not hidden"
	kill -KILL "${DAEMON[node1]}"
	wait "${DAEMON[node1]}"
	kairan 1 umount "$M" >"$WORK/said" 2>&1
	[ $? = 1 ] && grep -q "is gone" "$WORK/said" && ! on node1 grep -q "$M" /proc/mounts || fail "kairan umount: $(cat "$WORK/said")"
	mount_start 1
done
finish
