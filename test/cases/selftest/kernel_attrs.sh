# The checker of coherence/kernel_attrs notices a mount that leaves old attributes in the kernel.
# tags: faults
. "$TOP/test/lib.sh"
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
KR_FAULT=attrs.keep:eio mounts_start
kairan 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; sys.exit(not json.load(sys.stdin)["kernel_attributes"]["allowed"])' || skip "an old kernel"
! python3 "$TOP/test/programs/kernel_attrs.py" --seed 1 --seconds 10 things "$(seen_from_here 1)" "$(seen_from_here 2)" >"$WORK/said" 2>&1 ||
	fail "old attributes are not noticed: $(cat "$WORK/said")"
note "noticed: $(tail -n 1 "$WORK/said")"
finish
