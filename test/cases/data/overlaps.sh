# Two nodes write the same bytes with nothing between: each byte is one writer's, the same for all; where one round decided it, it is the
# later node's in ring order, and the server's status counts it, by file.  Where an fsync lies between nothing is counted.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
cluster 2
server_start
mounts_start flush_age=600
M=1048576
cat >"$WORK/writer" <<'P'
import os, sys, time
path, letter, offset, length, go = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
os.pwrite(fd, letter * length, offset)
print("written", flush=True)
while not os.path.exists(go):
    time.sleep(0.01)
os.fsync(fd)
P
# counted: bytes in all, and of which file.
counted() {
	kairan 1 status --json $SERVER_ADDRESS | python3 -c '
import json, sys
data = json.load(sys.stdin)["data"]
print(data["overlapped_bytes"], *["%d:%d" % (each["ino"], each["bytes"]) for each in data["overlapped_files"]])'
}
# write NODE FILE LETTER OFFSET: 2 MiB, unflushed until "go".
write() {
	: >"$WORK/said$1"
	on "node$1" timeout -s KILL 100 python3 "$WORK/writer" "$(mnt "$1")/$2" "$3" "$4" $((2 * M)) "$WORK/go" >"$WORK/said$1" 2>&1 &
	WRITERS="$WRITERS $!"
	until_ok 60 "bytes of node $1" grep -q written "$WORK/said$1" || fail "node $1 does not write: $(cat "$WORK/said$1")"
}
go() {
	local writer
	touch "$WORK/go"
	for writer in $WRITERS; do wait "$writer" || fail "a writer: $(cat "$WORK/said1" "$WORK/said2")"; done
	rm "$WORK/go"
	WRITERS=
}
is_made_of() { # FILE LETTER*MIB...
	python3 -c '
import sys
expected = b"".join(part[0].encode() * (int(part[1:]) << 20) for part in sys.argv[2:])
sys.exit(open(sys.argv[1], "rb").read() != expected)' "$@"
}
WRITERS=
for node in 1 2 1; do
	write $node ordered $node 0
	go
done
[ "$(counted)" = 0 ] || fail "what fsync has ordered is counted: $(counted)"
is_made_of "$EXPORT/ordered" 12 || fail "the last writer's bytes are not in the file"

# Usually the first time: the server waits a moment for the file's other writers.
overlapped() {
	write 1 file a 0
	write 2 file b $M
	go
	[ "$(counted)" != 0 ]
}
for try in $(seq 50); do
	overlapped && break
	[ "$try" != 50 ] || fail "the nodes never flush in one round"
done
[ "$(counted)" = "$M $(stat -c %i "$EXPORT/file"):$M" ] || fail "counted: $(counted)"
for file in "$EXPORT" "$(seen_from_here 1)" "$(seen_from_here 2)"; do
	is_made_of "$file/file" a1 b2 || fail "$file/file is not one writer's, byte by byte"
done
kairan 1 status $SERVER_ADDRESS | grep -A1 "overlaps *1.0 MiB" | grep -q "inode $(stat -c %i "$EXPORT/file"): 1.0 MiB" || fail "not told: $(kairan 1 status $SERVER_ADDRESS)"
finish
