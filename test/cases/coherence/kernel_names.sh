# The kernel walks names by itself for a moment, and none that another node has taken away.
# tags: faults
# timeout: 300
. "$TOP/test/lib.sh"
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
KR_FAULT=names.eager:eio mounts_start
# What the daemon of node 1 says of names in the kernel.
says() { kairan 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; print(json.load(sys.stdin)["kernel_names"][sys.argv[1]])' "$1"; }
seed=${KERNEL_NAMES_SEED:-1}
for round in 1 2 3 4 5; do # on a busy machine few changes meet a name on loan
	python3 "$TOP/test/programs/kernel_names.py" --seed $((seed + 1000 * round)) --seconds "${KERNEL_NAMES_SECONDS:-5}" "things$round" \
		"$(seen_from_here 1)" "$(seen_from_here 2)" || fail "names of before"
	[ "$(says delayed)" -le 3 ] || break
done
[ "$(says lent)" -gt 100 ] && [ "$(says delayed)" -gt 3 ] || fail "the kernel was lent no names, or nobody waited for them"
finish
