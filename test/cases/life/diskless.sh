# Nodes without a disk (local=@NODE): coherent with others; cuts lose and repeat nothing; kill -9 of each part loses no write that returned; unmounting leaves nothing.
# timeout: 300
LEASE=60 # a node that is cut off for longer loses what it has open
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='error: .*(daemon at .* has ended|has ended the daemon|has not answered for).*is lost'
cluster 2
server_start
mount_start 1
lender_start node1
mount_start 2 local=@10.77.1.1
M=$(mnt 2) OTHER=$(seen_from_here 1) MINE=$(seen_from_here 2)
as() { local uid=$1 groups=$2; shift 2; on node2 setpriv --reuid "$uid" --regid "$uid" --groups "$groups" "$@"; }
child() { pgrep -P "${DAEMON[lender]}"; }
is_lost() { { on node2 timeout -s KILL 5 stat "$M" 2>&1; true; } | grep -q 'not connected'; }
# again [OPTION,...]: the mount on node 2 has ended without an unmount, or never was.
again() {
	wait "${DAEMON[node2]}" 2>/dev/null
	on node2 umount -l "$M" 2>/dev/null
	mount_start 2 "local=@10.77.1.1${1:+,$1}"
}
# hold NAME: a program on node 2 has written and holds the file open.
hold() {
	rm -f "$WORK/told"
	python3 "$TOP/test/programs/hold.py" "$MINE/$1" 3000017 "$WORK/told" &
	HOLDER=$!
	until_ok 30 "the writer of $1" test -s "$WORK/told" || fail "$1 is not written"
}
unhold() { kill -KILL $HOLDER 2>/dev/null; wait $HOLDER 2>/dev/null; }
check_held() { python3 "$TOP/test/programs/hold.py" --check "$1" 3000017; }

note "programs, on both nodes"
mkdir "$WORK/tree"
for i in $(seq 60); do mkdir -p "$WORK/tree/$((i % 7))"; head -c $((i * 3700)) /dev/urandom >"$WORK/tree/$((i % 7))/$i"; done
head -c 9000000 /dev/urandom >"$WORK/tree/big"
ln -s big "$WORK/tree/link"
on node2 cp -a "$WORK/tree" "$M/tree" || fail "copying a tree"
same_tree "$WORK/tree" "$OTHER/tree"
on node1 cp -a "$WORK/tree" "$(mnt 1)/tree1" || fail "copying a tree on node 1"
same_tree "$WORK/tree" "$MINE/tree1"
for i in $(seq 20); do # what each sees of the other is never old
	on node1 sh -c "echo $i >$(mnt 1)/turn" && [ "$(cat "$MINE/turn")" = "$i" ] || fail "node 2 sees an old file"
	on node2 sh -c "echo $i >$M/back" && [ "$(cat "$OTHER/back")" = "$i" ] || fail "node 1 sees an old file"
done

note "groups"
echo secret >"$EXPORT/grouped"; chgrp 3000 "$EXPORT/grouped"; chmod 640 "$EXPORT/grouped"
mkdir "$EXPORT/team"; chgrp 3001 "$EXPORT/team"; chmod 2770 "$EXPORT/team"
as 1001 3000,3001 cat "$M/grouped" >/dev/null || fail "a member of the group cannot read"
! as 1001 3001 cat "$M/grouped" 2>/dev/null || fail "a stranger to the group reads"
as 1001 3000,3001 touch "$M/team/file" || fail "a member of the group cannot create"
! as 1001 3000 touch "$M/team/other" 2>/dev/null || fail "a stranger to the group creates"
[ "$(stat -c %u:%g "$EXPORT/team/file")" = 1001:3001 ] || fail "made by $(stat -c %u:%g "$EXPORT/team/file")"

note "the kairan command, on both"
kairan 2 status "$M" | grep -q "node node2 has no disk: process and local directory are on node1" || fail "$(kairan 2 status "$M")"
kairan 2 flush "$M" >/dev/null || fail "kairan flush"
kairan 1 status | grep -q "node node2 has no disk" || fail "the lender does not show it: $(kairan 1 status)"
kairan 2 status --check "$M" >/dev/null || fail "not healthy"
kairan 2 doctor "$M" >"$WORK/said" 2>&1
grep -q "local directory: .* is at node node1" "$WORK/said" || fail "doctor: $(cat "$WORK/said")"

note "broken connections"
python3 "$TOP/test/programs/appends.py" write "$MINE/appends" 0 300 & appends=$!
python3 "$TOP/test/programs/steady.py" "$MINE/a" 100 "$WORK/stop" >"$WORK/steady" 2>&1 & steady=$!
connections() { grep -c 'connected to .* again' "$WORK/node2/log"; }
more_than() { [ "$(connections)" -gt "$1" ]; }
breaks() { on node2 ss -K dport = 7441 >/dev/null 2>&1; until_ok 20 "a new connection" more_than "$1"; }
for i in $(seq 0 7); do
	breaks "$i" || { [ "$i" = 0 ] || fail "node 2 does not connect again"; note "ss cannot break connections here"; break; }
	sleep 0.2
done
note "a link that is cut until both ends have noticed"
before=$(connections)
losses() { grep -c 'connection .*is lost' "$1"; }
lost=$(losses "$WORK/node2/log") lender_lost=$(losses "$WORK/node1/lender.log")
noticed() { [ "$(losses "$WORK/node2/log")" -gt "$lost" ] && [ "$(losses "$WORK/node1/lender.log")" -gt "$lender_lost" ]; }
cut_link node2
until_ok 40 "the cut noticed" noticed || fail "nobody notices the cut"
alive $steady || fail "the program ended while the link was cut: $(tail -3 "$WORK/steady")"
heal_link node2
until_ok 30 "a new connection" more_than "$before" || fail "node 2 does not connect again"
touch "$WORK/stop"
wait $steady || fail "the program noticed: $(tail -3 "$WORK/steady")"
wait $appends || fail "appending"
python3 "$TOP/test/programs/appends.py" check "$OTHER/appends" 1 300 || fail "appends are lost or come twice"

note "a node that is cut off does not read what others have replaced"
server_stop || fail "kairand: $?"
LEASE=6
server_start
on node2 stat -f "$M" >/dev/null || fail "node 2 does not go on"
on node1 sh -c "echo old >$(mnt 1)/replaced"
python3 -u - "$MINE/replaced" "$WORK/go" >"$WORK/read" <<-'P' & reader=$!
	import os, sys, time
	fd = os.open(sys.argv[1], os.O_RDONLY)
	print(os.pread(fd, 4, 0).decode().strip()) # all of it: for more the kernel would ask for the size
	while not os.path.exists(sys.argv[2]):
	    time.sleep(0.05)
	print(os.pread(fd, 4, 0).decode().strip()) # all of it: for more the kernel would ask for the size
P
until_ok 20 "a program that reads" grep -q old "$WORK/read" || fail "nothing is read"
cut_link node2
on node1 timeout 60 sh -c "echo new >$(mnt 1)/replaced" || fail "node 1 cannot write while node 2 is cut off"
touch "$WORK/go"
sleep 1
[ "$(tail -1 "$WORK/read")" = old ] && [ "$(wc -l <"$WORK/read")" = 1 ] || fail "read while cut off: $(cat "$WORK/read")"
alive $reader || fail "the reader ended"
heal_link node2
wait $reader || fail "the reader failed"
[ "$(tail -1 "$WORK/read")" = new ] || fail "node 2 reads $(tail -1 "$WORK/read")"

note "signals end waits"
python3 -c 'import fcntl, sys, time; f = open(sys.argv[1], "w"); fcntl.lockf(f, fcntl.LOCK_EX); print("locked", flush=True); time.sleep(1000)' "$MINE/lock" >"$WORK/locked" & locker=$!
until_ok 20 "a lock" grep -q locked "$WORK/locked" || fail "no lock"
python3 -c 'import fcntl, sys; fcntl.lockf(open(sys.argv[1], "w"), fcntl.LOCK_EX)' "$OTHER/lock" & on1=$!
python3 -c 'import fcntl, sys; fcntl.lockf(open(sys.argv[1], "w"), fcntl.LOCK_EX)' "$MINE/lock" & waiting=$!
sleep 1
alive $waiting || fail "the lock was not waited for"
kill -TERM $waiting
until_ok 10 "a signal ends the wait for a lock" gone $waiting || fail "it waits on"
kill $locker
wait $on1 || fail "the lock does not come free"

note "SIGTERM drains"
on node2 sh -c "echo last >$M/last"
kill -TERM "${DAEMON[node2]}"
wait "${DAEMON[node2]}" || fail "exit status $?"
[ "$(cat "$EXPORT/last")" = last ] || fail "the last file is not at the server"
! on node2 grep -q " $M " /proc/mounts || fail "it is mounted after SIGTERM"
until_ok 10 "no child" sh -c "! pgrep -P ${DAEMON[lender]}" || fail "a child is left"

note "kill -9 of the lender's child: the next mount replays"
again flush_age=600
hold kept1
kill -KILL "$(child)"
until_ok 20 "the end of the mount" is_lost || fail "the mount does not end"
unhold
again flush_age=600
check_held "$MINE/kept1" && check_held "$OTHER/kept1" || fail "written bytes are lost with the child"

note "kill -9 of the borrower: the child brings all home"
hold kept2
killed node2
unhold
again flush_age=600
check_held "$MINE/kept2" && check_held "$OTHER/kept2" || fail "written bytes are lost with the borrower"

note "kill -9 of the lender"
hold kept3
killed lender
until_ok 30 "the bytes at the server" check_held "$OTHER/kept3" || fail "written bytes are lost with the lender"
lender_start node1 --timeo 4s
until_ok 20 "the end of the mount" is_lost || fail "the mount does not end"
unhold

note "a borrower that does not come back"
again flush_age=600
hold kept4
cut_link node2
until_ok 30 "the bytes at the server" check_held "$OTHER/kept4" || fail "written bytes are not brought home"
until_ok 30 "the end of the mount" is_lost || fail "the mount does not end"
heal_link node2
unhold

note "unmounting by force"
again
on node2 sh -c "echo forced >$M/forced"
kairan 2 flush "$M" || fail "flush"
kairan 2 umount --force "$M" >/dev/null || fail "kairan umount --force: $?"
until_ok 20 "the end of the borrower" gone "${DAEMON[node2]}" || fail "the borrower stays"
until_ok 20 "the end of the child" sh -c "! pgrep -P ${DAEMON[lender]}" || fail "a child is left"

note "unmounting leaves nothing"
again
on node2 sh -c "echo end >$M/end"
device=$(on node2 mountpoint -d "$M")
[ -S "/run/kairan/owner-$device" ] || fail "no control socket: $(ls /run/kairan)"
kairan 2 umount "$M" >/dev/null || fail "kairan umount: $?"
wait "${DAEMON[node2]}" || fail "exit status $?"
[ "$(cat "$EXPORT/end")" = end ] || fail "the last file is not at the server"
[ -z "$(child)" ] || fail "a child is left"
[ ! -e "/run/kairan/owner-$device" ] || fail "the control socket is left"
finish
