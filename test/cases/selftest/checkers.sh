# The checkers can fail: two directories that are not the same filesystem must be told apart.
. "$TOP/test/lib.sh"
mkdir "$WORK"/{a,b,c}
touch "$WORK"/{a,b}/file{0,1,2}
! python3 "$TOP/test/programs/history.py" --seed 1 --seconds 1 "$WORK/a" "$WORK/b" >"$WORK/history" || fail "history saw nothing"
grep -q "stale read\|do not agree" "$WORK/history" || fail "history failed for another reason"
mkdir "$WORK/d"
! python3 "$TOP/test/programs/history.py" --seed 1 --seconds 0 "$WORK/d" "$WORK/d/." >"$WORK/history" || fail "history is content without reads"
grep -q "too little was read" "$WORK/history" || fail "history failed for another reason than missing reads: $(cat "$WORK/history")"
python3 "$TOP/test/programs/history.py" --seed 1 --seconds 1 "$WORK/d" "$WORK/d/." >"$WORK/history" || fail "history fails on one directory: $(cat "$WORK/history")"
python3 "$TOP/test/load/judge_selftest.py" "$WORK/judged" || fail "the judge of load tests"
mkdir "$WORK/c/d0"
! python3 "$TOP/test/programs/differential.py" --seed 1 --ops 500 "$WORK/c" "$WORK/b" >"$WORK/differential" || fail "differential saw nothing"
