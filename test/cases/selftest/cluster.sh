# The cluster itself: hosts have their own names and networks, limits limit, cuts cut and heal.
. "$TOP/test/lib.sh"
cluster 2 80mbit
[ "$(on node1 hostname)" = node1 ] || fail "host name"
on node2 python3 "$TOP/test/programs/stream.py" serve 9000 10000000 >"$WORK/serve" 2>&1 &
until_ok 10 "listener" grep -q listening "$WORK/serve"
fetch() { on node1 python3 "$TOP/test/programs/stream.py" fetch 10.77.1.2 9000 1; }
set -- $(fetch)
[ "$1" = 10000000 ] || fail "the stream was cut: $1"
# 10 MB over 10 MB/s less the burst: never below 0.8 s, however slow the machine is.
python3 -c "import sys; sys.exit(float('$2') < 0.8)" || fail "the limit does not limit: $2 s"
cut_link node2
! fetch 2>/dev/null || fail "a cut link carries bytes"
heal_link node2
until_ok 10 "healed link" fetch || fail "the link does not heal"
