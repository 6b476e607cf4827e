# Batched writes through the door, and relaxed handles.
# tags: sanitizer
. "$TOP/test/lib.sh"
up 2
python3 "$TOP/test/programs/batch.py" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "batch"
[ ! -e "$EXPORT/.kairan/linked" ] && [ ! -e "$EXPORT/renamed" ] || fail "the door has become a file"
mount_stop 1
mount_start 1 coherence=relaxed
on node1 sh -c "echo relaxed >$(mnt 1)/r && cat $(mnt 1)/r" | grep -q relaxed || fail "coherence=relaxed"
[ "$(cat "$EXPORT/r")" = relaxed ] || fail "coherence=relaxed: not at the server"
finish
