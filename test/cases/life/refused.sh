# The server loses its power, and has no room for what a node sends again.  When there is room it goes in by itself; meanwhile no other node gets
# the file, or reads what is older.
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
snapshot
syncs off
put 1 file newer---
power_loss
begins file original
echo apply.before:enospc >"$WORK/order" && mv "$WORK/order" "$WORK/fault"
KR_FAULT="@$WORK/fault" server_start
refused() { kairan 1 status "$(mnt 1)" | grep -q refused; }
until_ok 60 "node 1 is refused" refused || fail "node 1 is not refused: $(tail -5 "$WORK/node1/log")"
begins file original
rm "$WORK/fault"
drained() { kairan $node flush --timeout 5 "$(mnt $node)" >"$WORK/said" 2>&1; }
for node in 1 2; do
	until_ok 60 "node $node drains" drained || fail "node $node keeps something: $(cat "$WORK/said")"
done
begins file newer---
for node in 1 2; do [ "$(cat "$(seen_from_here $node)/file")" = newer--- ] || fail "node $node sees $(cat "$(seen_from_here $node)/file")"; done
! ls "$E" | grep -q conflict || fail "there is a conflict file: $(ls "$E")"
finish
