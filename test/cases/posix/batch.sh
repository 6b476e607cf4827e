# Batched writes and reads through the door, relaxed handles, and what a mount says of itself; batches are flushed when the burst
# is over.
# tags: sanitizer
. "$TOP/test/lib.sh"
cluster 2
server_start
mount_start 1 stripe_size=2M
mount_start 2
python3 "$TOP/test/programs/batch.py" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "batch"
[ ! -e "$EXPORT/.kairan/linked" ] && [ ! -e "$EXPORT/renamed" ] || fail "the door has become a file"
on node1 ls -l "$(mnt 1)/.kairan" >"$WORK/said" 2>&1 && ! grep -i stale "$WORK/said" || fail "ls of the door: $(cat "$WORK/said")"
on node1 chmod 600 "$(mnt 1)/.kairan" 2>"$WORK/said" && fail "the door's mode changes"
grep -q "not permitted" "$WORK/said" || fail "chmod of the door: $(cat "$WORK/said")"
[ "$(on node1 find "$(mnt 1)" -name .kairan)" = "" ] || fail "the door is listed"
mount_stop 2
mount_start 2 flush_age=3600,flush_backlog=64K
python3 "$TOP/test/programs/burst.py" "$(seen_from_here 2)" "$EXPORT" || fail "burst"
mount_stop 1
mount_start 1 coherence=relaxed
on node1 sh -c "echo relaxed >$(mnt 1)/r && cat $(mnt 1)/r" | grep -q relaxed || fail "coherence=relaxed"
[ "$(cat "$EXPORT/r")" = relaxed ] || fail "coherence=relaxed: not at the server"
finish
