# Renames of every kind, made on two nodes while both list and look: each node knows at once what stands for which name.
# tags: faults
# timeout: 200
. "$TOP/test/lib.sh"
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
cluster 2
server_start
run() {
	timeout -s KILL $((60 * SLOW)) python3 "$TOP/test/programs/renames.py" --seed "${RENAMES_SEED:-1}" --seconds "${RENAMES_SECONDS:-4}" \
		"$@" "$(seen_from_here 1)" "$(seen_from_here 2)" || fail "renames"
}
mounts_start
note "one node renames, so that it keeps what its replies say, and its kernel has names on loan"
run --alone one
note "both rename"
run both
mount_stop 1 && mount_stop 2 || fail "the mounts do not end"
note "both rename, and the kernels get names on loan also where they change"
KR_FAULT=names.eager:eio mounts_start
run eager
finish
