# A node comes back late: nothing that others wrote since is overwritten, nothing of its own is lost in silence.
# tags: sanitizer long
# timeout: 400
LEASE=3
. "$TOP/test/lib.sh"
. "$TOP/test/lib-late.sh"
cluster 2
server_start
chmod 777 "$EXPORT"
mounts_start flush_age=600
note "cut off: untouched, changed, renamed, removed, its directory removed; several names"
for name in quiet busy moved removed gone/file linked; do make $name; hold $name 2 LATE; done
setfacl -m u:4321:rw "$EXPORT/busy" 2>/dev/null; acl=$(getfacl -cp "$EXPORT/busy" 2>/dev/null)
away cut_link node1
node2 "printf NEW | dd of=busy bs=1 seek=7 conv=notrunc,fsync status=none"
node2 "cat quiet >/dev/null"
node2 "mkdir new && mv moved new/name && printf + >>new/name"
node2 "rm removed && rm -r gone"
node2 "ln linked other && rm linked && printf + >>other"
back
told quiet 0
for name in busy moved removed gone/file linked; do told $name 116; done
is "$EXPORT/quiet" orLATEal--
[ -z "$(conflict_of quiet)" ] || fail "a conflict without any"
conflict busy ..LATE
is "$EXPORT/busy" originaNEW
is "$(seen_from_here 1)/busy" originaNEW
[ "$(stat -c '%u:%g %a' "$(conflict_of busy)")" = "$(stat -c '%u:%g %a' "$EXPORT/busy")" ] || fail "owner or mode: $(ls -l "$EXPORT")"
[ "$(getfacl -cp "$(conflict_of busy)" 2>/dev/null)" = "$acl" ] || fail "ACL: $(getfacl -p "$(conflict_of busy)")"
conflict new/name ..LATE
is "$EXPORT/new/name" original--+
conflict removed ..LATE
[ ! -e "$EXPORT/removed" ] || fail "the removed file is there again"
conflict other ..LATE
conflict .kairan/conflicts/file ..LATE
clean
grep -q "node1 comes back late" "$WORK/kairand.log" || fail "the server's log does not tell"
grep -q "late bytes of busy are in busy.conflict-node1-" "$WORK/node1/log" || fail "the node's log does not tell"
kairan 1 status "$D" | grep -q "CONFLICT.*busy.conflict-node1-" || fail "status of the mount: $(kairan 1 status "$D")"
kairan 1 status $SERVER_ADDRESS | grep -q "CONFLICT *busy .*node node1 .*busy.conflict-node1-" || fail "status of the server"
for of in "$D" $SERVER_ADDRESS; do
	kairan 1 status --json $of | python3 -c '
import json, sys
status = json.load(sys.stdin)
assert status["conflict_files"] == 5, status
assert sum("new/name.conflict-node1-" in each["conflict_file"] for each in status["conflicts"]) == 1, status' || fail "JSON of $of"
done
on node1 sh -c "printf again >'$D/busy'" && clean
is "$EXPORT/busy" again

if kairan 1 status --json $SERVER_ADDRESS | grep '"mechanism": "events"' >/dev/null; then
	note "others have changed attributes and names, and looked, but have written nothing; or that as well, or have cut it to the same size"
	ATTRS="mode owned touched xattr named renamed both"
	for name in $ATTRS wrote same; do make $name; hold $name 2 LATE; done
	away cut_link node1
	node2 "chmod 606 mode && cat mode"
	node2 "chown 77:88 owned && cat owned"
	node2 "touch -d 2001-02-03 touched && cat touched"
	node2 "python3 -c 'import os; os.setxattr(\"xattr\", \"user.some\", b\"thing\")' && cat xattr"
	node2 "ln named named.too && cat named"
	node2 "mv renamed renamed.now && cat renamed.now"
	node2 "chmod 606 both && cat both && ln both both.too && touch both && cat both.too && rm both.too"
	node2 "chmod 606 wrote && printf NEW | dd of=wrote bs=1 seek=7 conv=notrunc status=none && ln wrote wrote.too && cat wrote"
	node2 "ln same same.too && truncate -s 0 same && truncate -s 10 same && chmod 606 same && cat same"
	back
	for name in $ATTRS; do told $name 0; done
	for name in wrote same; do told $name 116; done
	for name in $ATTRS; do
		[ $name != renamed ] || name=renamed.now
		is "$EXPORT/$name" orLATEal--
		[ -z "$(conflict_of $name)" ] || fail "$name: a conflict without any"
	done
	conflict wrote ..LATE
	is "$EXPORT/wrote" originaNEW
	conflict same ..LATE
	clean
fi

note "server killed meanwhile; much was written, and one file twice late"
head -c 3000000 /dev/urandom >"$WORK/bytes"
make much
hold much 0 "@$WORK/bytes"
hold busy 0 TWICE
first=$(conflict_of busy)
away cut_link node1
node2 "printf other >much; printf 3rd >busy"
node2 "sync much busy" # the server's memory of them goes
server_kill
server_start
back
told much 116
told busy 116
clean
same "$WORK/bytes" "$(conflict_of much)"
is "$EXPORT/much" other
is "$EXPORT/busy" 3rd
is "$(conflict_of busy | grep -vxF "$first")" TWICE
[ "$(tr '\0' '.' <"$first")" = ..LATE ] || fail "an older conflict file was touched"

note "daemon killed while it was cut off"
make killed
hold killed 2 LATE
away cut_link node1
kill -KILL "$HOLDER"
mount_kill 1
node2 "printf other >killed"
healed
mount_start 1 flush_age=600
conflict killed ..LATE
is "$EXPORT/killed" other
clean

note "node 1 is dead, and its disk in node 2: replayed there, also after a kill"
HOLDERS=
for name in quiet2 busy2 removed2; do make $name; hold $name 2 DEAD; HOLDERS="$HOLDERS $HOLDER"; done
away cut_link node1
kill -KILL $HOLDERS
mount_kill 1
node2 "printf other >busy2; rm removed2"
replay() { on node2 timeout -s KILL "$1" "$B/tools/kairan" journal "$WORK/node1/local" --replay $SERVER_ADDRESS >"$WORK/replayed" 2>&1; }
replay 0.05
"$B/tools/kairan" journal "$WORK/node1/local" >"$WORK/left"
replay 120 || fail "replay: $(cat "$WORK/replayed")"
is "$EXPORT/quiet2" orDEADal--
is "$EXPORT/busy2" other
conflict busy2 ..DEAD
conflict removed2 ..DEAD
"$B/tools/kairan" journal --dump-all "$WORK/state" >"$WORK/said" || fail "the state directory is damaged: $(cat "$WORK/said")"
grep -q '^member: [0-9a-f]* .*node2' "$WORK/said" && grep -q '^conflicts: .*"original":"busy2"' "$WORK/said" &&
	grep -q '^executed: .* done' "$WORK/said" || fail "the state directory does not say it: $(head -c 2000 "$WORK/said")"
! grep -q quiet2 "$WORK/left" || grep -q "^quiet2: 4 bytes applied" "$WORK/replayed" || fail "not told: $(cat "$WORK/replayed")"
! grep -q busy2 "$WORK/left" || grep -Eq "^busy2: .* in busy2.conflict-node1|^busy2.conflict-node1.* applied" "$WORK/replayed" ||
	fail "not told: $(cat "$WORK/replayed")"
node2 "printf later >quiet2 && sync quiet2"
replay 120 || fail "nothing to replay: $(cat "$WORK/replayed")"
grep -q "^nothing is left" "$WORK/replayed" || fail "replayed twice: $(cat "$WORK/replayed")"
healed
mount_start 1 flush_age=600
replay 120 && fail "the journal of a mount in use was replayed"
grep -q "in use.*; that mount sends its journal itself" "$WORK/replayed" || fail "not told why: $(cat "$WORK/replayed")"
clean
is "$EXPORT/quiet2" later

note "a lock is lost: who held it is told"
make locked
on node1 python3 - "$D/locked" "$WORK/held/lock.go" >"$WORK/held/lock" 2>&1 <<'P' &
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX)
print("locked", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
def tell(name, call):
    try:
        print(name, call() and 0 or 0, flush=True)
    except OSError as error:
        print(name, error.errno, flush=True)
tell("write", lambda: os.pwrite(fd, b"!", 0))
tell("read", lambda: os.pread(fd, 1, 0))
tell("fsync", lambda: os.fsync(fd))
tell("lock", lambda: fcntl.lockf(fd, fcntl.LOCK_EX))
os.close(fd)
again = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(again, fcntl.LOCK_EX)
print("again", os.pwrite(again, b"O", 0), flush=True)
P
until_ok 60 "lock" grep -q locked "$WORK/held/lock" || fail "no lock: $(cat "$WORK/held/lock")"
away cut_link node1
node2 "python3 -c 'import fcntl; fcntl.lockf(open(\"locked\", \"r+\"), fcntl.LOCK_EX | fcntl.LOCK_NB)'"
back
touch "$WORK/held/lock.go"
until_ok 60 "end of the locker" grep -q again "$WORK/held/lock" || fail "locker: $(cat "$WORK/held/lock")"
[ "$(tail -n +2 "$WORK/held/lock" | tr '\n' ' ')" = "write 5 read 5 fsync 5 lock 5 again 1 " ] || fail "locker: $(cat "$WORK/held/lock")"
clean
is "$EXPORT/locked" Original--

note "daemon stopped: no old byte is read, no late byte covers another's"
make stopped
hold stopped 2 LATE
on node1 cat "$D/stopped" >/dev/null
away kill -STOP "${DAEMON[node1]}"
node2 "printf other >stopped"
kill -CONT "${DAEMON[node1]}"
is "$(seen_from_here 1)/stopped" other
told stopped 116
conflict stopped ..LATE
is "$EXPORT/stopped" other
clean
finish
