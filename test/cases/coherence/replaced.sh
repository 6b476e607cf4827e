# A file that is replaced by renames all the time: each open finds one of its versions, on the node that renames and on others; and one that is
# removed and made anew is there or not.
. "$TOP/test/lib.sh"
up 2
on node1 mkdir "$(mnt 1)/d"
cat >"$WORK/reader.py" <<'P'
import os, sys
name, enough, fewest = sys.argv[1], sys.argv[2], 300
reads = 0
while reads < fewest or not os.path.exists(enough):
    with open(name) as file:
        text = file.read()
    assert text[:1] == "v" and text[-1:] == "\n", text
    reads += 1
P
echo v0 >"$(seen_from_here 1)/d/status"
readers=
for i in 1 1 2; do
	on node$i timeout -s KILL $((200 * SLOW)) python3 "$WORK/reader.py" "$(mnt $i)/d/status" "$WORK/enough" &
	readers+=" $!"
done
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
cat >"$WORK/looker.py" <<'P'
import os, sys
name, enough, fewest = sys.argv[1], sys.argv[2], 300
found = {True: 0, False: 0}
while sum(found.values()) < fewest or not os.path.exists(enough):
    try:
        with open(name) as file:
            text = file.read()
        assert text == "" or text[:1] == "v", text
        found[True] += 1
    except FileNotFoundError:
        found[False] += 1
P
readers=
for i in 1 1 2; do
	on node$i timeout -s KILL $((200 * SLOW)) python3 "$WORK/looker.py" "$(mnt $i)/d/lock" "$WORK/enough" &
	readers+=" $!"
done
on node1 timeout -s KILL $((200 * SLOW)) python3 - "$(mnt 1)/d/lock" <<'P' || fail "removals"
import os, sys
for k in range(400):
    with open(sys.argv[1], "x") as file:
        file.write("v%d" % k)
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
