# The server loses its power, and has no room for what the nodes send again.  When there is room it goes in by itself.
# tags: faults
LEASE=120
. "$TOP/test/lib.sh"
cluster 2
. "$TOP/test/lib-power.sh"
boot
KR_FAULT="@$WORK/fault" server_start
mounts_start flush_age=600
for node in 1 2; do put $node file$node original fsync; done
snapshot
syncs off
for node in 1 2; do put $node file$node closed-$node; done
power_loss
for node in 1 2; do begins file$node original; done
echo apply.before:enospc >"$WORK/order" && mv "$WORK/order" "$WORK/fault"
KR_FAULT="@$WORK/fault" server_start
refused() { grep -q "stay in the journal: No space left on device" "$WORK/node$1/log"; }
for node in 1 2; do until_ok 60 "node $node is refused" refused $node || fail "node $node is not refused: $(tail -5 "$WORK/node$node/log")"; done
kairan 1 status "$(mnt 1)" | grep -q refused || fail "status says nothing: $(kairan 1 status "$(mnt 1)")"
for node in 1 2; do begins file$node original; done
rm "$WORK/fault"
drained() { kairan $node flush --timeout 5 "$(mnt $node)" >"$WORK/said" 2>&1; }
for node in 1 2; do
	until_ok 60 "node $node drains" drained || fail "node $node keeps something: $(cat "$WORK/said")"
done
for node in 1 2; do begins file$node closed-$node; done
! ls "$E" | grep conflict || fail "there is a conflict file"
finish
