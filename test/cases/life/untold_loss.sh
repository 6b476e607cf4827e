# A sync fails while a node's link is cut, and the server's process ends before the node has heard of that: it sends again what was lost.
# tags: faults
LEASE=120
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='syncing a file failed: Input/output error'
cluster 1
. "$TOP/test/lib-power.sh"
boot
KR_FAULT="@$WORK/fault" server_start
mount_start 1 flush_age=600
put 1 file original fsync
syncs off
put 1 file closed--
cut_link node1
echo stable.before:eio >"$WORK/order" && mv "$WORK/order" "$WORK/fault"
until_ok 60 "a sync fails" grep -q "syncing a file failed" "$WORK/kairand.log" || fail "no sync has failed"
until_ok 10 "that is written down" test -s "$WORK/state/failed" || fail "the state directory does not say so"
on server sysctl -q -w net.ipv4.tcp_orphan_retries=1
server_kill
until_ok 60 "what the server had sent is not on its way any more" sh -c "! nsenter -t ${KEEPER[server]} -n ss -Htan 'sport = :$PORT' | grep -q ." || fail "a connection outlives the server"
printf original >"$E/file" # the page was not written, and is not in memory any more
rm "$WORK/fault"
server_start
heal_link node1
until_ok 60 "the node is served" serves 1 || fail "the node is not served"
kairan 1 flush --timeout $((60 * SLOW)) "$(mnt 1)" >"$WORK/said" || fail "the node keeps something: $(cat "$WORK/said")"
begins file closed--
! ls "$E" | grep -q conflict || fail "there is a conflict file: $(ls "$E")"
finish
