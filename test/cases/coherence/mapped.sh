# Stores through a mapping of which msync or close has returned are seen by everybody, although others had the pages cached, and are slow to
# drop them.
# tags: sanitizer faults
. "$TOP/test/lib.sh"
cluster 3
server_start
for i in 1 3; do mount_start $i; done
KR_FAULT="@$WORK/fault" mount_start 2
slow=
! grep -q KR_FAULT "$B/fuse/kairanfs" || slow=$WORK/fault # else without that part
python3 "$TOP/test/programs/mapped.py" "$EXPORT" "$slow" "$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" || fail "mapped"
finish
