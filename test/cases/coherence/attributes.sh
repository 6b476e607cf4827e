# What a mount changes of a file's attributes and names leaves its bytes cached on all nodes, and counts as no change of them.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
cluster 2
BYTES=8000000
head -c $BYTES /dev/urandom >"$EXPORT/file" # before the server starts: a change by others that is just over may count with ours
server_start
mounts_start
kairan 1 status --json $SERVER_ADDRESS | grep '"mechanism": "events"' >/dev/null || skip "the kernel does not tell of changes in the export"
changes() { kairan 1 status --json $SERVER_ADDRESS | python3 -c 'import json, sys; print(json.load(sys.stdin)["watch"]["changes"])'; }
read_all() { local node; for node in 1 2; do on node$node cmp "$(mnt $node)/$1" "$EXPORT/$1" || fail "node$node reads other bytes"; done; }
# kept NAME COMMAND: node 1 does COMMAND in the mount; then both nodes have the bytes of NAME still.
kept() {
	local name=$1 before changes
	read_all "$last"
	before=$(sent_by server) changes=$(changes)
	on node1 sh -c "cd '$(mnt 1)' && $2" || fail "cannot: $2"
	read_all "$name"
	read_all "$name"
	[ $(($(sent_by server) - before)) -lt $((BYTES / 4)) ] || fail "$2: $(($(sent_by server) - before)) bytes came again"
	[ "$(changes)" = "$changes" ] || fail "$2: counts as a change by others"
	last=$name
}
last=file
kept file "chmod 600 file"
kept file "chown 1234:2345 file"
kept file "touch file"
kept file "touch -d 2001-02-03 file"
kept file "python3 -c 'import os; os.setxattr(\"file\", \"user.some\", b\"thing\")'"
kept file "python3 -c 'import os; os.removexattr(\"file\", \"user.some\")'"
kept file "ln file other"
kept file "rm other"
kept moved "mv file moved"
kept moved "ln moved other && rm other"
kept file "mv moved file"
kept file "chmod 640 file && ln file other && touch file && mv other third && rm third && chmod 600 file"

note "written through the mount, then touched as cp -p does"
on node1 sh -c "head -c $BYTES /dev/urandom >'$(mnt 1)/copied' && touch -d 2002-03-04 '$(mnt 1)/copied' && chmod 444 '$(mnt 1)/copied'" || fail "cannot write"
before=$(sent_by server)
on node1 cmp "$(mnt 1)/copied" "$EXPORT/copied" || fail "node1 reads other bytes than it wrote"
[ $(($(sent_by server) - before)) -lt $((BYTES / 4)) ] || fail "what node1 wrote came back: $(($(sent_by server) - before)) bytes"
last=copied
kept copied "chmod 644 copied"

note "changed directly at the server right after, with the old size and mtime"
for what in "chmod 600" "chmod 644" "touch -d 2003-04-05" "ln -f"; do
	[ "$what" != "ln -f" ] || set -- other
	on node1 sh -c "cd '$(mnt 1)' && $what copied ${1:-}" || fail "cannot: $what"
	python3 - "$EXPORT/copied" <<-'WRITE'
		import os, sys
		fd = os.open(sys.argv[1], os.O_WRONLY)
		before = os.fstat(fd)
		os.pwrite(fd, os.urandom(100), 4000000)
		os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))
	WRITE
	for node in 1 2; do
		until_ok 60 "node$node sees what was written after $what" on node$node cmp -s "$(mnt $node)/copied" "$EXPORT/copied" ||
			fail "node$node still sees the old bytes after $what"
	done
done
note "at the same time"
on node1 sh -c "cd '$(mnt 1)' && for i in \$(seq 300); do chmod 6\$((i % 2))0 copied; done" &
changing=$!
python3 - "$EXPORT/copied" <<-'WRITE'
	import os, sys, time
	fd = os.open(sys.argv[1], os.O_WRONLY)
	for i in range(300):
	    before = os.fstat(fd)
	    os.pwrite(fd, os.urandom(100), 100000 * (i % 70))
	    os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))
	    time.sleep(0.003)
WRITE
wait $changing || fail "cannot change the mode"
for node in 1 2; do
	until_ok 60 "node$node sees what was written" on node$node cmp -s "$(mnt $node)/copied" "$EXPORT/copied" || fail "node$node still sees old bytes"
done
note "another node's unflushed bytes count as blocks: GNU tar --sparse takes a file of 0 blocks for one hole"
nsenter -t "${KEEPER[node1]}" -n -u -m -- python3 -c 'import os, sys, time
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"u" * 10000)
print("held", flush=True)
time.sleep(1000)' "$(mnt 1)/held" >"$WORK/held" &
holder=$!
until_ok 60 "a program that writes" grep -q held "$WORK/held" || fail "nothing is written"
on node2 tar -C "$(mnt 2)" -cSf "$WORK/held.tar" held || [ $? = 1 ] || fail "tar" # 1: the flush that reading asks for changes the ctime
kill $holder
wait $holder 2>/dev/null
[ "$(tar -xOf "$WORK/held.tar" | wc -c)" = 10000 ] && [ "$(tar -xOf "$WORK/held.tar" | tr -d u | wc -c)" = 0 ] || fail "tar has other bytes"
finish
