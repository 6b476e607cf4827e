# A file is cut while its node's kernel is just being told how long it was.
# tags: sanitizer faults
. "$TOP/test/lib.sh"
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
cluster 2
server_start
KR_FAULT="@$WORK/fault" mount_start 1
mount_start 2
timeout -s KILL $((100 * SLOW)) python3 "$TOP/test/programs/cut.py" "$WORK/fault" "$(seen_from_here 1)/file" "$(seen_from_here 2)/file" || fail "an end"
finish
