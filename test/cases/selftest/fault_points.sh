# Each fault point of the code is passed by a test, and each that a test names is in the code: else a test of it passes by doing nothing.
. "$TOP/test/lib.sh"
cd "$TOP" || exit
grep -rhoE 'KR_FAULT\("[^"]+"\)' common ring fuse server tools mpiio --include=*.c | cut -d'"' -f 2 | sort -u >"$WORK/points"
[ "$(wc -l <"$WORK/points")" -gt 20 ] || fail "too few fault points: $(cat "$WORK/points")"
grep -rhE --include=*.sh --include=*.c --include=*.py . test >"$WORK/tests"
while read -r point; do
	grep -qE "(^|[^a-z._])${point//./\\.}([^a-z._]|\$)" "$WORK/tests" || fail "no test passes the fault point $point"
done <"$WORK/points"
# What stands before an action.
grep -oE '\b[a-z_]+(\.[a-z_]+)+:(kill|stop|eio|enospc|edquot|hold|delay-[0-9]+)' "$WORK/tests" | cut -d: -f 1 | sort -u >"$WORK/named"
# The crash matrix appends the action itself.
sed -n '/^points_/,/"$/p' test/cases/life/crash_matrix.sh | grep -oE '\b[a-z_]+(\.[a-z_]+)+' >>"$WORK/named"
[ "$(wc -l <"$WORK/named")" -gt 20 ] || fail "too few names of fault points: $(cat "$WORK/named")"
while read -r point; do
	grep -qx "$point" "$WORK/points" || fail "a test names the fault point $point, which is not in the code"
done <"$WORK/named"
