# Errors of the disks in the middle of things, at fault points of daemons that run: the program that wrote hears of it, and once; others
# hear nothing; nothing that was acknowledged is lost; the mount stays usable; what the server refused goes there by itself.
# tags: faults
# timeout: 300
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='syncing a file failed: Input/output error|failed to write what it had taken to its disk: Input/output error|its bytes are not at the server and stay in the journal: Input/output error|the journal cannot be written: (Input/output error|No space left on device)|No space left on device; its unflushed bytes wait in the journal until'
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
cluster 2
KR_FAULT="@$WORK/at-server" server_start
KR_FAULT="@$WORK/at-node" mount_start 1
m=$(mnt 1)
# A server that cannot write down who its nodes are takes them later: the mount waits for it.
order() { echo "$2" >"$WORK/order" && mv "$WORK/order" "$1"; }
order "$WORK/at-server" hello.record:eio
(until_ok 60 "refused twice" sh -c "[ \$(grep -c 'its record cannot be written' '$WORK/kairand.log') -ge 2 ]" && rm "$WORK/at-server") &
refuser=$!
mount_start 2
wait $refuser || fail "node 2 was not refused: $(tail -3 "$WORK/kairand.log")"
! grep "error:" "$WORK/node2/log" || fail "what passes is no error"
# heard FILE [NODE]: writes it, and prints what write, fsync, fsync and close said.
heard() {
	on "node${2:-1}" timeout -s KILL $((60 * SLOW)) python3 - "$(mnt "${2:-1}")/$1" <<'P'
import errno, os, sys
def name(call):
    try:
        call()
        return "0"
    except OSError as error:
        return errno.errorcode[error.errno]
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
said = {name(lambda: os.pwrite(fd, bytes([65 + n]) * 50000, n * 50000)) for n in range(8)} - {"0"}
print(*said or "0", name(lambda: os.fsync(fd)), name(lambda: os.fsync(fd)), name(lambda: os.close(fd)))
P
}
# one FILE: it is what heard wrote.
one() { python3 -c 'import sys; d = open(sys.argv[1], "rb").read(); sys.exit(d != b"".join(bytes([65 + n]) * 50000 for n in range(8)))' "$EXPORT/$1"; }
drained() { until_ok 60 "drained after $1" on node1 "$B/tools/kairan" flush "$m" || fail "$1: nothing drains: $(kairan 1 status "$m")"; }

# at WHERE POINT:ERROR EXPECTED: once, in the middle of what a program does.
at() {
	local where=$1 what=$2 expected=$3 name=${2//[^a-z]/-} said
	order "$WORK/at-$where" "$what:1"
	said=$(heard "$name") || fail "$what: $said"
	until_ok 60 "$what is met" test ! -e "$WORK/at-$where" || fail "$what: it was not met"
	[[ $said =~ ^($expected)$ ]] || fail "$what: the program heard '$said', not '$expected'"
	drained "$what"
	note "$what: write, fsync, fsync, close: $said"
}
# The node's first segment cannot be made.
at node journal.segment:eio "EIO 0 0 0"
[ "$(tr -d '\0A-H' <"$EXPORT/journal-segment-eio" | wc -c)" = 0 ] || fail "journal.segment: bytes that nobody wrote"

# A bystander: a program with a file open all the time, which must never hear of anything.
on node1 python3 - "$m" "$WORK/begun" "$WORK/stop" >"$WORK/bystander" 2>&1 <<'P' &
import os, sys, time
held = os.open(sys.argv[1] + "/held", os.O_RDWR | os.O_CREAT, 0o644)
os.write(held, b"held")
os.fsync(held)
open(sys.argv[2], "w")
while not os.path.exists(sys.argv[3]):
    assert os.pread(held, 4, 0) == b"held"
    os.stat(sys.argv[1])
    time.sleep(0.05)
os.write(held, b" on")
os.fsync(held)
os.close(held)
P
bystander=$!
until_ok 60 "the bystander" test -e "$WORK/begun" || fail "$(cat "$WORK/bystander")"

# The server. One failure: a fsync meets it, or a flush that nobody waits for, and then it is said at the next fsync or close. Once.
for error in eio enospc edquot; do
	E=${error^^}
	for point in apply.before apply.middle round.end; do
		at server $point:$error "0 ($E 0 0|0 $E 0|0 0 $E)"
		one "${point//./-}-$error" || fail "$point:$error: the bytes"
	done
done
for point in stable.before stable.after; do # the sync fails after all was written: what was applied is written and synced anew
	at server $point:eio "0 (EIO 0 0|0 EIO 0|0 0 EIO|0 0 0)"
	one "${point//./-}-eio" || fail "$point: the bytes"
done
[[ $(grep -c "syncing a file failed" "$WORK/kairand.log") = 2 ]] || fail "syncs that failed: $(grep -c "syncing a file failed" "$WORK/kairand.log")"
# The sync fails behind a close, while the node stands still, and another node cuts the file: what is sent again does not go into
# what was cut.
failed_syncs() { grep -c "syncing a file failed" "$WORK/kairand.log"; }
late=late before=$(failed_syncs)
order "$WORK/at-server" stable.before:hold
on node1 sh -c 'head -c 50000 /dev/zero | tr "\0" A >"$1" && chmod 666 "$1"' sh "$m/$late" || fail "cannot write $late"
kill -STOP "${DAEMON[node1]}"
order "$WORK/at-server" stable.before:eio:1
until_ok 60 "the sync behind the close" test ! -e "$WORK/at-server" || fail "no sync has failed"
on node2 truncate -s 0 "$(mnt 2)/$late" >"$WORK/cut" 2>&1 &
cutter=$!
sleep 0.3 # what did not wait for the node would be done by then
kill -CONT "${DAEMON[node1]}"
size=50000
wait $cutter && size=0
drained $late
note "a cut that a failed sync precedes: $(cat "$WORK/cut")"
[ "$(stat -c %s "$EXPORT/$late")" = $size ] || fail "cut to $size, and then it has $(stat -c %s "$EXPORT/$late") bytes: $(cat "$WORK/cut")"
grep -q "Input/output error" "$WORK/cut" || [ $size = 0 ] || fail "$(cat "$WORK/cut")"
on node2 truncate -s 0 "$(mnt 2)/$late" || fail "what was sent again cannot be cut"
drained $late
[ ! -s "$EXPORT/$late" ] || fail "what was cut is there again"
# In a round of two writers, and for good until there is space: both are told, then both drain by themselves.
order "$WORK/at-server" apply.middle:enospc
for i in 1 2; do
	on node$i timeout -s KILL $((60 * SLOW)) python3 - "$(mnt $i)/both" $i >"$WORK/both$i" 2>&1 <<'P' &
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
me = int(sys.argv[2])
for n in range(40):
    os.pwrite(fd, bytes([96 + me]) * 30000, (2 * n + me - 1) * 30000)
for call in os.fsync, os.close:
    try:
        call(fd)
        print("0")
    except OSError as error:
        print(errno.errorcode[error.errno])
P
	both[i]=$!
done
for i in 1 2; do
	wait "${both[i]}"
	[ "$(tr '\n' ' ' <"$WORK/both$i")" = "ENOSPC ENOSPC " ] || fail "two writers, disk full: node $i heard $(cat "$WORK/both$i")"
	kairan $i status "$(mnt $i)" | grep -qi "no space" || fail "node $i: status says nothing: $(kairan $i status "$(mnt $i)")"
done
rm "$WORK/at-server"
backlog_is_empty() { kairan "$1" status --json "$(mnt "$1")" | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["backlog"]["bytes"] > 0)'; }
for i in 1 2; do # nobody asks: the timer does
	until_ok 60 "node $i drains by itself" backlog_is_empty $i || fail "node $i: $(kairan $i status "$(mnt $i)")"
done
python3 -c 'import sys; d = open(sys.argv[1], "rb").read(); sys.exit(d != b"".join(bytes([97 + n % 2]) * 30000 for n in range(80)))' "$EXPORT/both" || fail "two writers: the bytes"

# The node: what could not be journaled has failed at once, and is nowhere; the rest is there.
for point in journal.append:eio journal.index:eio journal.append:edquot; do
	E=${point#*:}
	case $point in *edquot) E="0|EDQUOT" ;; *) E=EIO ;; esac # a full disk is tried again after making room
	at node $point "(${E^^}) 0 0 0"
	[ "$(tr -d '\0A-H' <"$EXPORT/${point//[^a-z]/-}" | wc -c)" = 0 ] || fail "$point: bytes that nobody wrote"
done
# Marks that the disk does not take change nothing for programs.
for point in journal.mark:eio journal.stable:eio; do
	at node $point "0 0 0 0"
	one "${point//[^a-z]/-}" || fail "$point: the bytes"
done
# The disk full for a while: writes fail with it, what was written is kept and flushed, and it works again.
order "$WORK/at-node" journal.append:enospc
[ "$(heard full)" = "ENOSPC 0 0 0" ] || fail "the node's disk full: $(heard full)"
kairan 1 status "$m" | grep -q "cannot be written" || fail "status says nothing of the node's disk"
rm "$WORK/at-node"
[ "$(heard full)" = "0 0 0 0" ] && one full || fail "after the node's disk was full"
touch "$WORK/stop"
wait $bystander || fail "the bystander: $(cat "$WORK/bystander")"
finish
