# kairan envelope: what it measures is the link's and what was done, it leaves nothing behind, also when it is interrupted; two envelopes beside each other; and what one says of a trace.
# timeout: 300
. "$TOP/test/lib.sh"
K=$B/tools/kairan
cluster 1 200mbit
server_start
mounts_start
M=$(mnt 1)
bare() { [ -z "$(ls -A -I .kairan "$EXPORT")" ]; }

note "a link of 200 Mbit/s"
before=$(sent_by server)
kairan 1 envelope --processes 2 --max-size 1 --rounds 2 --json "$WORK/json" --html "$WORK/html" "$M" >"$WORK/said" 2>&1 || fail "$(cat "$WORK/said")"
cat "$WORK/said"
python3 - "$WORK/json" $(($(sent_by server) - before)) <<'P' || fail "see above"
import json, sys
said, sent = json.load(open(sys.argv[1])), int(sys.argv[2])
assert said["machine"]["processors"] >= 1 and said["machine"]["memory_bytes"] > 1 << 20 and said["machine"]["node"] == "node1", said["machine"]
points = {(point["what"], point["processes"], point["size"]): point for point in said["points"]}
sizes = {"create": [0], "stat": [0], "open": [0], "remove": [0]}
sizes.update({what: [1 << 10, 1 << 14, 1 << 18] for what in ("write", "read from the server", "read from the cache")})
sizes["read and write"] = [1 << 18]
assert set(points) == {(what, processes, size) for what in sizes for processes in (1, 2) for size in sizes[what]}, sorted(points)
for point in points.values():
    assert 0 < point["lowest"] <= point["per_s"] <= point["highest"], point
link = 25e6  # bytes per second
for processes in (1, 2):
    for what in "write", "read from the server":
        assert points[what, processes, 1 << 18]["per_s"] * (1 << 18) < link * 1.2, (what, processes)
    # What the link carries at most bounds the one, and not the other.
    assert points["read from the cache", processes, 1 << 18]["per_s"] > 1.5 * points["read from the server", processes, 1 << 18]["per_s"]
assert sent > 3 << 18, sent
P
bare || fail "it leaves $(ls -A "$EXPORT")"
[ "$(grep -c '<svg' "$WORK/html")" = 5 ] && [ "$(tail -1 "$WORK/html")" = "</body></html>" ] || fail "$(cat "$WORK/html")"
"$K" envelope --html "$WORK/again" "$WORK/json" | diff - "$WORK/said" && same "$WORK/html" "$WORK/again" || fail "an earlier result is shown otherwise"

note "two beside each other, and what is none"
"$K" envelope --html "$WORK/both" --compare "$WORK/json" "$WORK/json" >"$WORK/said" 2>&1 || fail "$(cat "$WORK/said")"
[ "$(grep -c ' 1\.00$' "$WORK/said")" = 28 ] || fail "$(cat "$WORK/said")"
echo '{}' >"$WORK/other"
"$K" envelope --compare "$WORK/json" "$WORK/other" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "is not an envelope of this version" "$WORK/said" || fail "$(cat "$WORK/said")"
"$K" envelope --compare "$WORK/json" "$WORK/none" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "unable to open $WORK/none: No such file" "$WORK/said" || fail "$(cat "$WORK/said")"
for wrong in "--processes 0" "--processes 65" "--max-size x"; do
	# shellcheck disable=SC2086
	kairan 1 envelope $wrong "$M" >"$WORK/said" 2>&1
	[ $? = 64 ] && grep -q "is not a number from 1 to" "$WORK/said" || fail "$wrong: $(cat "$WORK/said")"
done
kairan 1 envelope "$WORK" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "does not lie on a mount" "$WORK/said" || fail "$(cat "$WORK/said")"

grep -q "First: " "$WORK/both" && grep -q "stroke-dasharray" "$WORK/both" || fail "no page of two"

note "interrupted"
nsenter -t "${KEEPER[node1]}" -n -u -m -- env --default-signal=INT "$K" envelope --processes 2 "$M" >"$WORK/said" 2>&1 &
envelope=$!
has_begun() { [ -n "$(ls "$EXPORT"/.kairan-bench-*/ 2>/dev/null)" ]; }
until_ok 30 "it works" has_begun
kill -INT $envelope
wait $envelope
[ $? = 130 ] && bare || fail "interrupted, it leaves $(ls -A "$EXPORT"): $(cat "$WORK/said")"

note "kairan predict: what this and a trace say of a workflow, and what is scarce"
for i in $(seq 40); do head -c 250000 /dev/urandom >"$EXPORT/in$i"; done
cat >"$WORK/work.py" <<'P'
import os, sys, time
name, what, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.chdir(name)
def meet(where):
    """Returns when both makers are there."""
    place = os.path.join(os.path.dirname(sys.argv[0]), where)
    os.makedirs(place, exist_ok=True)
    open(os.path.join(place, str(first)), "w").close()
    while len(os.listdir(place)) < 2:
        time.sleep(0.01)
if what == "make":
    meet("begin")
for i in range(first, last + 1):
    data = open("in%d" % i, "rb").read() if what == "use" else os.urandom(20000)
    if what == "make":
        with open("out%d" % i, "wb") as out:
            out.write(data)
if what == "make":
    meet("end")
    open("out%d" % last).close() # so each is at it until both are
P
for program in use make; do ln -s "$(python3 -c "import sys; print(sys.executable)")" "$WORK/$program"; done
run() { on node1 "$WORK/$1" "$WORK/work.py" "$M" "$@"; }
kairan 1 trace start "$M" || fail "trace"
run use 1 40
run make 1 30 & run make 31 60
wait $! || fail "the programs"
trace=$(kairan 1 trace stop "$M") || fail "trace"
"$K" predict --envelope "$WORK/json" "$trace" || fail "predict"
"$K" predict --envelope "$WORK/json" --json "$trace" >"$WORK/plain" && "$K" predict --envelope "$WORK/json" --json --warm "$trace" >"$WORK/warm" &&
	"$K" predict --envelope "$WORK/json" --json --processes 2 "$trace" >"$WORK/two" || fail "predict"
python3 - "$WORK" <<'P' || fail "see above"
import json, sys
plain, warm, two = ({one["program"]: one for one in json.load(open(sys.argv[1] + "/" + name))} for name in ("plain", "warm", "two"))
use, make = plain["use"], plain["make"]
for one in use, make:
    print("%s: predicted %.2f s (%.2f to %.2f), took %.2f s: %+.0f %%" % (one["program"], one["predicted_s"], one["lowest_s"], one["highest_s"], one["traced_s"],
        100 * (one["predicted_s"] / one["traced_s"] - 1)))
    assert one["lowest_s"] <= one["predicted_s"] <= one["highest_s"], one
assert use["processes"] == 1 and make["processes"] == 2 and make["at_a_time"] > 1.2, plain
assert use["server"] > 0.9 * use["predicted_s"] > 0.3, use      # 10 MB over 25 MB/s
assert make["writes"] > 0.9 * make["predicted_s"] > 0, make
assert warm["use"]["server"] == 0 and warm["use"]["predicted_s"] < 0.5 * use["predicted_s"], warm
points = {(point["processes"], point["size"]): point["per_s"] for point in json.load(open(sys.argv[1] + "/json"))["points"] if point["what"] == "read from the server"}
small, large = 1 << 14, 1 << 18
def file_s(n):
    "What a file of 250,000 bytes takes one of so many processes."
    return n / points[n, small] + (n / points[n, large] - n / points[n, small]) * (250000 - small) / (large - small)
# Not less; and a little more if the kernel drops a page before its program has it, which is read again then.
assert -1e-4 < use["server"] / (40 * file_s(1)) - 1 < 0.01, (use, file_s(1))
there = (two["use"]["server"] / 40 - file_s(1)) / (file_s(2) - file_s(1)) # for this share of its time the other one reads, too
assert 0.05 < there < 1.0001, (two["use"], file_s(1), file_s(2), there)
P
echo '{"kairan envelope": 1, "points": []}' >"$WORK/empty"
"$K" predict --envelope "$WORK/empty" "$trace" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "lacks points" "$WORK/said" || fail "$(cat "$WORK/said")"
"$K" predict "$trace" >/dev/null 2>&1
[ $? = 64 ] || fail "no envelope"
finish
