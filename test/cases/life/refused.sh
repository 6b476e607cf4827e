# The server loses its power, and has no room for replays when their turn comes.  When there is room they go in by themselves; but where two
# nodes have some of one file, whose order is not kept any more, the first do, and the other's to a conflict file.
# tags: faults
LEASE=120
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space left on device; its unflushed bytes wait in the journal until'
cluster 2
. "$TOP/test/lib-power.sh"
boot
KR_FAULT="@$WORK/fault" server_start
mounts_start flush_age=600
put 1 file original fsync
put 1 own yours fsync
snapshot
syncs off
put 1 file older---
put 2 file newer---
put 1 own mine-
power_loss
begins file original
echo apply.before:enospc >"$WORK/order" && mv "$WORK/order" "$WORK/fault"
KR_FAULT="@$WORK/fault" server_start
refused() { grep -q "No space left on device; its unflushed bytes wait" "$WORK/node$1/log"; }
for node in 1 2; do until_ok 60 "node $node is refused" refused $node || fail "node $node is not refused: $(tail -5 "$WORK/node$node/log")"; done
kairan 1 status "$(mnt 1)" | grep -q refused || fail "status says nothing: $(kairan 1 status "$(mnt 1)")"
begins file original
rm "$WORK/fault"
drained() { kairan $node flush --timeout 5 "$(mnt $node)" >"$WORK/said" 2>&1; }
for node in 1 2; do
	until_ok 60 "node $node drains" drained || fail "node $node keeps something: $(cat "$WORK/said")"
done
begins own mine-
# Whoever asked first: the other's go beside it.
set -- "$(cat "$E/file")" "$(cat "$E"/file.conflict-node?-*)"
case "$*" in 'older--- newer---' | 'newer--- older---') ;; *) fail "there are $(tail -n +1 "$E"/*)" ;; esac
finish
