# The checker of coherence/kernel_names notices a mount that does not wait until the kernel has given names back.
# tags: faults
. "$TOP/test/lib.sh"
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
KR_FAULT=names.eager:eio,names.long:eio,names.keep:eio mounts_start
noticed() {
	python3 "$TOP/test/programs/kernel_names.py" --seed "$1" --seconds 5 --things 6 "things$1" "$(seen_from_here 1)" "$(seen_from_here 2)" >"$WORK/said" 2>&1
	grep -q "a look found a name of before a change" "$WORK/said"
}
for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do # a slow build makes few changes
	noticed $seed && break
done
grep -q "a look found a name of before a change" "$WORK/said" || fail "names that are gone are not noticed: $(cat "$WORK/said")"
note "noticed: $(tail -n 1 "$WORK/said")"
finish
