# O_APPEND from two programs on each of three nodes to one file, while the server is killed, then stopped, and started again: every record is
# whole, none is lost or there twice, each program's order holds, and who locks the file finds each record where the file ended.
# tags: sanitizer
# timeout: 300
LEASE=4
. "$TOP/test/lib.sh"
COUNT=40
up 3
beyond() { [ "$(stat -c %s "$EXPORT/$1")" -gt "$2" ]; }
for how in write locked; do
	jobs=
	for writer in 0 1 2 3 4 5; do
		node=$((writer % 3 + 1))
		on node$node timeout -s KILL 200 python3 "$TOP/test/programs/appends.py" $how "$(mnt $node)/$how" $writer $COUNT 2>>"$WORK/said" & jobs="$jobs $!"
	done
	# All are at it: the records of all are 4 MB.
	until_ok 60 "the first records" beyond $how 600000 || fail "nothing is appended: $(cat "$WORK/said")"
	server_kill
	server_start
	until_ok 60 "half of the records" beyond $how 2000000 || fail "nothing more is appended: $(cat "$WORK/said")"
	server_stop || fail "the server's end"
	server_start
	for job in $jobs; do wait "$job" || fail "$how: $(cat "$WORK/said")"; done
	for file in "$(seen_from_here 1)" "$(seen_from_here 2)" "$(seen_from_here 3)" "$EXPORT"; do
		python3 "$TOP/test/programs/appends.py" check "$file/$how" 6 $COUNT >"$WORK/said" 2>&1 || fail "$how, $file: $(cat "$WORK/said")"
	done
	note "$how: $(cat "$WORK/said")"
done
finish
