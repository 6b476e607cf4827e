# kairan envelope --nodes: what several nodes get at the same time, from the server, from each other, and of the same files; one that cannot be
# reached, one that ends, and an interrupted measurement leave nothing behind.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
cluster 2 100mbit
server_start
mounts_start
mkdir "$WORK/all" # the same place on both nodes
for i in 1 2; do on node$i mount --bind "$(mnt $i)" "$WORK/all" || fail "bind"; done
bare() { [ -z "$(ls -A -I .kairan "$EXPORT")" ]; }
# rsh OPTION NODE COMMAND...: as a remote shell would.
{ echo '#!/bin/bash'; declare -p KEEPER
	cat <<-P
	[ "\$1" = -x ] && [ "\$3" = kairan ] || exit 9
	exec nsenter -t "\${KEEPER[\$2]}" -n -u -m -- "$B/tools/kairan" "\${@:4}"
	P
} >"$WORK/rsh" && chmod +x "$WORK/rsh"
envelope() { kairan 1 envelope --rsh "$WORK/rsh -x" "$@" >"$WORK/said" 2>&1; }

note "two nodes"
for i in 1 2; do kairan $i trace start "$(mnt $i)" || fail "trace"; done
envelope --nodes node1,node2 --processes 1 --max-size 1 --rounds 1 --json "$WORK/json" --html "$WORK/html" "$WORK/all" || fail "$(cat "$WORK/said")"
cat "$WORK/said"
for i in 1 2; do kairan $i trace stop "$(mnt $i)" && cp "$WORK/node$i/local/trace" "$WORK/trace$i" || fail "trace"; done
python3 - "$WORK/json" "$WORK" <<'P' || fail "see above"
import json, sys
said = json.load(open(sys.argv[1]))
assert said["nodes"] == ["node1", "node2"], said
points = {(point["what"], point["nodes"], point["size"]): point for point in said["points"]}
names, files, several = ["create", "stat", "open", "remove"], ["write", "read from the server"], ["read from another node", "read by all nodes"]
sizes = [1 << 10, 1 << 14, 1 << 18]
assert set(points) == {(what, nodes, 0) for what in names for nodes in (1, 2)} | {(what, nodes, size) for what in files for nodes in (1, 2) for size in sizes} | {
    ("read from the cache", 1, size) for size in sizes} | {("read and write", nodes, 1 << 18) for nodes in (1, 2)} | {(what, 2, size) for what in several for size in sizes}, sorted(points)
assert all(point["processes"] == 1 and point["per_s"] > 0 for point in points.values())
for nodes in 1, 2:
    assert points["read from the server", nodes, 1 << 18]["per_s"] * (1 << 18) < 12.5e6 * 1.3, "the link carries less"
# By whose files a process has read: bytes from another node, and from the server. (A node that waits for another one for long asks the server, too.)
came = {}
for node in 1, 2:
    for line in open("%s/trace%d" % (sys.argv[2], node)):
        line = json.loads(line)
        if isinstance(line, list) and line[0] == "F" and "/" in line[2] and line[6]:
            name = line[2].split("/")[1].split(".")[0]
            sums = came.setdefault((node, name), [0, 0])
            sums[0] += line[8]
            sums[1] += line[9]
print(came)
assert came[1, "c0"][1] > 0 and came[2, "c1"][1] > 0 and came[1, "c0"][0] == came[2, "c1"][0] == 0, "their own copies are the server's"
assert came[1, "c1"][0] > came[1, "c1"][1] and came[2, "c0"][0] > came[2, "c0"][1], "what the other one has read comes from there"
assert came[1, "s0"][1] + came[2, "s0"][1] > 0, "none has read the same files"
P
grep -q "read by all nodes on 2 nodes" "$WORK/html" || fail "no page of nodes"
bare || fail "it leaves $(ls -A "$EXPORT")"

note "nodes that cannot be reached, or do not have the mount"
for wrong in "-o" "" "a,,b"; do
	envelope --nodes "$wrong" "$WORK/all"
	[ $? = 1 ] && grep -q "cannot be reached by" "$WORK/said" || fail "$wrong: $(cat "$WORK/said")"
done
envelope --nodes node1,server "$WORK/all"
[ $? = 1 ] && grep -q "server: .*No such file or directory" "$WORK/said" || fail "$(cat "$WORK/said")"
kairan 1 envelope --nodes node1 --rsh /nowhere "$WORK/all" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "cannot run /nowhere" "$WORK/said" || fail "$(cat "$WORK/said")"
kairan 1 envelope --nodes node1 --rsh false "$WORK/all" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "node1: kairan envelope --worker has ended there" "$WORK/said" || fail "$(cat "$WORK/said")"
bare || fail "it leaves $(ls -A "$EXPORT")"

note "interrupted"
nsenter -t "${KEEPER[node1]}" -n -u -m -- env --default-signal=INT "$B/tools/kairan" envelope --rsh "$WORK/rsh -x" --nodes node1,node2 --processes 2 "$WORK/all" >"$WORK/said" 2>&1 &
envelope=$!
has_begun() { [ -n "$(ls "$EXPORT"/.kairan-bench-*/ 2>/dev/null)" ]; }
until_ok 30 "it works" has_begun
kill -INT $envelope
wait $envelope
[ $? = 130 ] && bare || fail "interrupted, it leaves $(ls -A "$EXPORT"): $(cat "$WORK/said")"
for i in 1 2; do on node$i umount "$WORK/all"; done
finish
