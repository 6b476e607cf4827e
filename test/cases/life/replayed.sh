# The server loses its power, a node replays what it had, and is killed before it has heard so; then the server's process is killed,
# too.  What the node replays once more does not cover what another node wrote later, which has been answered.  Then a sync fails when only the older
# of a node's rounds has been replayed, and the server's process is killed before the newer one has: that is not covered either.  At last a node's
# replay is refused in its turn (no room), another's later one goes in, and the server's process is killed: what was refused is older than that.
# tags: faults
LEASE=120
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='syncing a file failed: Input/output error|failed to write what it had taken to its disk: Input/output error|No space left on device; its unflushed bytes wait in the journal until'
cluster 2
. "$TOP/test/lib-power.sh"
boot
KR_FAULT="@$WORK/fault" server_start
KR_FAULT="@$WORK/death" mount_start 1 flush_age=600
mount_start 2 flush_age=600
put 1 file original fsync
snapshot
syncs off
put 1 file older---
put 2 file newer---
power_loss
begins file original
KR_FAULT=replayed.write:kill:1 server_start # it is killed before it can remember what has been replayed
until_ok 60 "the server dies of the first replay" gone "${DAEMON[server]}" || fail "replayed.write is not reached"
server_kill
echo journal.applied:kill >"$WORK/order" && mv "$WORK/order" "$WORK/death"
KR_FAULT="@$WORK/fault" server_start
until_ok 60 "node 1 dies of the answer" gone "${DAEMON[node1]}" || fail "node 1 has not replayed anything"
mount_kill 1
until_ok 60 "node 2 is served" serves 2 || fail "node 2 has not replayed all"
begins file newer---
server_kill # nothing has been synced
syncs on
rm "$WORK/death"
server_start
mount_start 1 # the grace period waits for it
for node in 1 2; do
	kairan $node flush --timeout $((60 * SLOW)) "$(mnt $node)" >"$WORK/said" || fail "node $node keeps something: $(cat "$WORK/said")"
	[ "$(cat "$(seen_from_here $node)/file")" = newer--- ] || fail "node $node sees $(cat "$(seen_from_here $node)/file")"
done
begins file newer---
[ "$(ls "$E")" = file ] || [ "$(ls "$E")" = "$(printf 'file\nlost+found')" ] || fail "there is a conflict file: $(ls "$E")"

server_kill
KR_FAULT="@$WORK/fault" server_start
until_ok 60 "node 1 is served" serves 1 || fail "node 1 is not served"
put 1 twice original fsync
snapshot
syncs off
put 1 twice older---
put 1 twice newer---
power_loss
rm "$WORK/fault"
begins twice original
KR_FAULT="stable.before:eio:1,apply.before:delay-2000:2,apply.before:kill:3" server_start
until_ok 60 "the server dies of the second replay" gone "${DAEMON[server]}" || fail "nothing has been replayed again"
server_kill
server_start
for node in 1 2; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
kairan 1 flush --timeout $((60 * SLOW)) "$(mnt 1)" >"$WORK/said" || fail "node 1 keeps something: $(cat "$WORK/said")"
begins twice newer---
for node in 1 2; do [ "$(cat "$(seen_from_here $node)/twice")" = newer--- ] || fail "node $node sees $(cat "$(seen_from_here $node)/twice")"; done
! ls "$E" | grep -q conflict || fail "there is a conflict file: $(ls "$E")"
grep -q "failed to write what it had taken" "$WORK/node1/log" || fail "no sync has failed"

server_kill
KR_FAULT="@$WORK/fault" server_start
for node in 1 2; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
put 1 refused original fsync
snapshot
syncs off
put 1 refused older---
put 2 refused newer---
power_loss
rm "$WORK/fault"
begins refused original
KR_FAULT="apply.before:enospc:1,flush.reply:kill:1" server_start
until_ok 60 "the server dies of the second replay" gone "${DAEMON[server]}" || fail "nothing has been replayed the third time"
server_kill
server_start
for node in 1 2; do
	until_ok 60 "node $node is served" serves $node || fail "node $node is not served"
	kairan $node flush --timeout $((60 * SLOW)) "$(mnt $node)" >"$WORK/said" || fail "node $node keeps something: $(cat "$WORK/said")"
done
begins refused newer---
[ "$(cat "$E"/refused.conflict-node1-*)" = older--- ] || fail "what was refused is nowhere: $(ls "$E")"
finish
