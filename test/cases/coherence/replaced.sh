# A file that is replaced by renames all the time: each open finds one of its versions, on the node that renames and on others; and one that is
# removed and made anew is there or not.
# tags: faults
. "$TOP/test/lib.sh"
# With fault points the server takes long for an open, so that the file often loses its last name meanwhile.
KR_FAULT=open.opened:delay-30 up 2
on node1 mkdir "$(mnt 1)/d"
cat >"$WORK/reader.py" <<'P'
"""reader.py FILE ENOUGH sometimes|always: reads until ENOUGH is there, 300 times at least; the file is there sometimes, or always"""
import os, sys
name, enough, there = sys.argv[1:4]
fewest = 300
reads = 0
while reads < fewest or not os.path.exists(enough):
    reads += 1
    try:
        with open(name) as file:
            text = file.read()
    except FileNotFoundError:
        assert there == "sometimes", "it is not there"
        continue
    assert text[:1] == "v" and text[-1:] == "\n" or there == "sometimes" and text == "", text
P
# readers FILE WHEN: two on node 1, one on node 2, in the background.
readers() {
	readers=
	for i in 1 1 2; do
		on node$i timeout -s KILL $((200 * SLOW)) python3 "$WORK/reader.py" "$(mnt $i)/d/$1" "$WORK/enough" "$2" &
		readers+=" $!"
	done
}
echo v0 >"$(seen_from_here 1)/d/status"
readers status always
on node1 timeout -s KILL $((200 * SLOW)) python3 - "$(mnt 1)/d" <<'P' || fail "renames"
import os, sys
os.chdir(sys.argv[1])
for k in range(400):
    with open("new", "w") as file:
        file.write("v%d\n" % k)
    os.rename("new", "status")
P
touch "$WORK/enough"
for pid in $readers; do
	wait "$pid" || fail "a reader met an error"
done
note "removed and made anew"
rm "$WORK/enough"
readers lock sometimes
on node1 timeout -s KILL $((200 * SLOW)) python3 - "$(mnt 1)/d/lock" <<'P' || fail "removals"
import os, sys
for k in range(400):
    with open(sys.argv[1], "x") as file:
        file.write("v%d\n" % k)
    os.unlink(sys.argv[1])
P
touch "$WORK/enough"
for pid in $readers; do
	wait "$pid" || fail "a reader met an error"
done
[ "$(on node2 cat "$(mnt 2)/d/status")" = v399 ] || fail "the last version"
[ "$(ls "$EXPORT/d")" = status ] || fail "left over: $(ls "$EXPORT/d")"
no_orphans() { [ -z "$(ls "$EXPORT/.kairan/orphans")" ]; }
until_ok 60 "what was replaced goes" no_orphans || fail "it stays: $(ls "$EXPORT/.kairan/orphans")"
finish
