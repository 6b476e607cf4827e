# Concurrent readers and writers on three nodes, while syncs fail at the server: fsync and close say so, and what is sent again changes nothing that
# anybody has seen.  Then all drains.
# tags: faults
# timeout: 120
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='syncing a file failed: Input/output error|failed to write what it had taken to its disk: Input/output error'
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
seconds=${HISTORY_SECONDS:-8}
cluster 3
KR_FAULT="@$WORK/at-server" server_start
mounts_start
(for ((until = SECONDS + seconds - 2; SECONDS < until; )); do
	echo stable.before:eio:1 >"$WORK/order" && mv "$WORK/order" "$WORK/at-server"
	sleep 0.$((RANDOM % 400 + 100))
done) &
breaker=$!
python3 "$TOP/test/programs/history.py" --failing --seed "${HISTORY_SEED:-1}" --seconds "$seconds" \
	"$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" || fail "history"
wait $breaker
rm -f "$WORK/at-server"
failed=$(grep -c "syncing a file failed" "$WORK/kairand.log")
[ "$failed" -ge 3 ] || fail "only $failed syncs failed"
for i in 1 2 3; do
	until_ok 60 "drained at node $i" on node$i "$B/tools/kairan" flush "$(mnt $i)" || fail "node $i does not drain: $(kairan $i status "$(mnt $i)")"
done
for file in "$EXPORT"/file*; do
	for i in 1 2 3; do cmp "$file" "$(seen_from_here $i)/${file##*/}" || fail "node $i sees other bytes"; done
done
finish
