# The server loses power: its disk is as the last syncs left it, and two nodes are away meanwhile: one that was never
# told that its round and a later one of another node are synced, and one whose rounds are gone from the disk.  Nothing that fsync or close
# returned for is lost, and nothing older covers newer, whether they are back in time or late.
# tags: faults
# timeout: 300
LEASE=4
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='cannot sync the export: Input/output error|not all that was applied is known to be on'
cluster 3
. "$TOP/test/lib-power.sh"
# somewhere NAME TEXT: the file, or its conflict file, has it.
somewhere() {
	local place
	for place in "$E/$1" "$E/$1".conflict-* "$E/.kairan/conflicts/$1".conflict-*; do
		[ ! -e "$place" ] || ! tr -d '\0' <"$place" | grep -q "$2" || return 0
	done
	fail "$2 of $1 is lost: $(ls -lR "$E")"
}
drained() { kairan "$1" flush --timeout $((60 * SLOW)) "$(mnt "$1")" >"$WORK/said" || fail "node $1 keeps something: $(cat "$WORK/said")"; }

boot
KR_FAULT="@$WORK/fault" server_start
mounts_start flush_age=600
# What is in no journal is on the disk when it returns: a cut, before bytes are written to what is left, and a copy.
put 1 rewritten original-------- fsync
on node1 python3 - "$(mnt 1)" "$WORK/order" "$WORK/fault" <<'P' || fail "node 1 cannot write"
import os, sys
mount, order, fault = sys.argv[1:]
source, copy = os.open(mount + "/rewritten", os.O_RDONLY), os.open(mount + "/copied", os.O_WRONLY | os.O_CREAT)
assert os.copy_file_range(source, copy, 99) == 16
os.close(copy)
rewritten = os.open(mount + "/rewritten", os.O_WRONLY | os.O_TRUNC)
open(order, "w").write("stable.before:hold")
os.rename(order, fault) # nothing is synced any more
os.write(rewritten, b"new")
os.close(rewritten)
P
cp --sparse=always "$WORK/disk" "$WORK/disk.synced"
power_loss
rm "$WORK/fault"
KR_FAULT="@$WORK/fault" server_start
for node in 1 2 3; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
drained 1
[ "$(cat "$E/rewritten")" = new ] || fail "old bytes are in what was rewritten: $(cat "$E/rewritten")"
[ "$(cat "$E/copied")" = original-------- ] || fail "a copy is lost"

# renames: node 1 renames temporary to name, and syncs the directory twice when the server is back; what it is told is in $WORK/told.
renames() {
	rm -f "$WORK/renamed" "$WORK/back"
	on node1 timeout $((120 * SLOW)) python3 - "$(mnt 1)" "$WORK" <<'P' >"$WORK/told" &
import errno, os, sys, time
mount, work = sys.argv[1:]
directory = os.open(mount, os.O_RDONLY)
os.rename(mount + "/temporary", mount + "/name")
open(work + "/renamed", "w")
while not os.path.exists(work + "/back"): time.sleep(0.05)
for _ in range(2):
    try: os.fsync(directory); print("synced")
    except OSError as error: print(errno.errorcode[error.errno])
P
	renamer=$!
	until_ok 60 "a rename" test -e "$WORK/renamed" || fail "no rename"
}
# is_back SAID: the server has been started anew on another boot of its machine; the renamer is told SAID.
is_back() {
	KR_FAULT="@$WORK/fault" server_start
	for node in 1 2 3; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
	touch "$WORK/back"
	wait $renamer
	[ "$(tr '\n' ' ' <"$WORK/told")" = "$1 " ] || fail "the fsyncs of the directory: $(cat "$WORK/told")"
}
note "a rename is lost, and who asks for it only then is told"
put 1 name old fsync
put 1 temporary new fsync
snapshot
renames
power_loss
is_back "EIO synced"
begins name old
first=$(cat "$WORK/boot_id")

note "the server's machine boots after a clean shutdown: nobody hears of a loss, and nothing is replayed"
put 1 temporary new fsync
renames
put 2 closed closed2
server_stop || fail "a clean shutdown ends with status $?"
boot
is_back "synced synced"
begins name new
begins closed closed2

note "the export moves to another machine, which loses its power, and back to the first, which was up all the time"
put 1 temporary newer fsync
server_stop
boot
KR_FAULT="@$WORK/fault" server_start
for node in 1 2 3; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
snapshot
renames
power_loss
echo "$first" >"$WORK/boot_id"
is_back "EIO synced"
begins name new

note "a sync fails that a later one knows nothing of: that was no clean shutdown"
put 1 temporary newest fsync
renames
echo state.sync:eio:1 >"$WORK/order" && mv "$WORK/order" "$WORK/fault"
! server_stop || fail "a shutdown whose sync failed passes for a clean one"
[ ! -e "$WORK/fault" ] || fail "no sync has failed"
boot
is_back "EIO synced"
begins name newest

for when in in-time late; do
	note "the nodes are back $when"
	for name in order quiet taken; do put 1 $when-$name original-------- fsync; done
	syncs off
	put 2 $when-order $when-older
	cut_link node2
	syncs on
	put 1 $when-order $when-newer fsync # covers it, and is let go of by node 1
	snapshot
	syncs off # from here on nothing is synced
	put 3 $when-quiet $when-closed3 # nobody else touches it
	put 3 $when-taken $when-early3 # node 1 will, while node 3 is late
	put 3 $when-new $when-made3
	put 1 $when-mine $when-closed1
	cut_link node3
	power_loss
	rm "$WORK/fault"
	for name in quiet taken; do begins $when-$name original; done
	[ ! -e "$E/$when-new" ] && [ ! -e "$E/$when-mine" ] || fail "the loss of power loses nothing"
	begins $when-order $when-newer
	if [ $when = late ]; then
		KR_FAULT="@$WORK/fault" server_start
		until_ok 60 "node 1 is served" serves 1 || fail "node 1 is not served without the others"
		put 1 $when-taken $when-later1 fsync
		for node in 2 3; do heal_link node$node; done
	else
		for node in 2 3; do heal_link node$node; done
		KR_FAULT="@$WORK/fault" server_start
	fi
	for node in 1 2 3; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
	for node in 1 2 3; do drained $node; done
	begins $when-order $when-newer
	somewhere $when-mine $when-closed1
	if [ $when = in-time ]; then
		begins $when-quiet $when-closed3
	else # for two minutes after a boot a time may be from before the clock was set back
		somewhere $when-quiet $when-closed3
	fi
	somewhere $when-new $when-made3
	somewhere $when-taken $when-early3
	[ $when = in-time ] || begins $when-taken $when-later1
	for node in 1 2 3; do cmp "$E/$when-taken" "$(seen_from_here $node)/$when-taken" || fail "node $node sees another file"; done
done
finish
