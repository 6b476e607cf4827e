# Nodes that read the same small files at once over a slow link pass them on to each other; a node that dies meanwhile holds up none.
. "$TOP/test/lib.sh"
FILES=40 SIZE=30000
python3 - "$EXPORT" $FILES $SIZE <<'P'
import os, sys
for tree in "one", "two":
    os.makedirs(f"{sys.argv[1]}/{tree}")
    for number in range(int(sys.argv[2])):
        with open(f"{sys.argv[1]}/{tree}/{number}", "wb") as file:
            file.write(os.urandom(int(sys.argv[3])))
P
up 8 10mbit
READERS=()
# start_reading TREE: all nodes compare it with the export at once.  same_on NODE...: these found no difference.
start_reading() {
	local node
	for node in $(seq "$NODES"); do
		on "node$node" diff -r "$EXPORT/$1" "$(mnt "$node")/$1" >"$WORK/diff$node" 2>&1 &
		READERS[node]=$!
	done
}
same_on() { local node; for node; do wait "${READERS[node]}" || fail "node$node reads other bytes: $(head -3 "$WORK/diff$node")"; done; }

note "the server sends a few copies of each file"
before=$(sent_by server)
start_reading one
same_on 1 2 3 4 5 6 7 8
copies=$(((($(sent_by server) - before) * 10) / (FILES * SIZE)))
echo "copies: $copies tenths"
[ $copies -ge 10 ] && [ $copies -lt 50 ] || fail "the server sent $copies tenths of what there is to read to 8 nodes"

note "who reads what another node has just changed gets no old bytes"
for node in $(seq "$NODES"); do mounts[node]=$(seen_from_here "$node"); done
python3 "$TOP/test/programs/small_files.py" "${SMALL_FILES_SEED:-$RANDOM}" "${SMALL_FILES_SECONDS:-8}" "${mounts[@]}" || fail "old bytes"

note "one node is killed, and another one cut off"
before=$(sent_by server)
sent_enough() { [ $(($(sent_by server) - before)) -gt $((FILES * SIZE / 2)) ]; }
start_reading two
until_ok 30 "some files" sent_enough || fail "nothing is read"
mount_kill 2
cut_link node3
same_on 1 4 5 6 7 8
heal_link node3
same_on 3
wait "${READERS[2]}"
finish
