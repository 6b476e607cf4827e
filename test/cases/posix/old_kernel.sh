# A kernel before 6.6 maps no file that is direct_io: with shared_mmap handles for reading and writing go through its pages there
# (op_write.c).  The same on this kernel: mappings, and readers and writers whose writes hold pages while leases go: nothing hangs.
# tags: faults
# timeout: 300
. "$TOP/test/lib.sh"
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
cluster 3
server_start
KR_FAULT=shim.old_kernel:eio,attrs.old_kernel:eio mounts_start stripe_size=2M,shared_mmap
note "mappings"
python3 "$TOP/test/programs/mappings.py" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "mappings"
note "batches"
python3 "$TOP/test/programs/batch.py" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "batch"
note "history"
python3 "$TOP/test/programs/history.py" --ends --seed "${HISTORY_SEED:-$RANDOM}" --seconds "${HISTORY_SECONDS:-10}" "$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" || fail "history"
finish
