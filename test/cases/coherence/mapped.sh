# Stores through a mapping of which msync or close has returned are seen by everybody, although others had the pages cached, and are slow to
# drop them.  Programs on two nodes store into the same pages, with and without locks, write one file while they have locked another, and use one
# SQLite database in WAL mode.
# tags: sanitizer faults
. "$TOP/test/lib.sh"
maps_written || skip "this kernel maps no file that is open for writing"
cluster 3
server_start
for i in 1 3; do mount_start $i; done
KR_FAULT="@$WORK/fault" mount_start 2
slow=
! grep -q KR_FAULT "$B/fuse/kairanfs" || slow=$WORK/fault # else without that part
python3 "$TOP/test/programs/mapped.py" "$EXPORT" "$slow" "$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" || fail "mapped"
PAIR="$(seen_from_here 1) $(seen_from_here 3)"
for what in seen apart count crowd sizes grown locked wal; do
	note "$what"
	python3 "$TOP/test/programs/mapped_pair.py" $what $PAIR || fail "$what"
done
finish
