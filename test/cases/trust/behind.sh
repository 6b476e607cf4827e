# What is changed directly in the export is noticed by nodes that have it open, cached and mapped.
# tags: sanitizer long
# timeout: 240
. "$TOP/test/lib.sh"
sum_of() { if [[ $1 = */quiet ]]; then head -c 50000 "$1"; else cat "$1"; fi | md5sum | cut -d' ' -f1; }
# seen NODE LINE: what NODE's program sees through the descriptor and the mapping that it has had all the time.
seen() { sed -n "$2p" "$WORK/seen$1"; }
# noticed FILE LINE: both nodes come to see what FILE holds, in open files and in new ones.
noticed() {
	local node started=$EPOCHREALTIME
	for node in 1 2; do
		until_ok 60 "node$node sees $1 as it is" eval "[ \"\$(seen $node $2)\" = \"\$(sum_of '$EXPORT/$1') True\" ]" || fail "$3: node$node still sees the old $1"
		until_ok 60 "node$node opens $1 as it is" eval "on node$node cmp -s '$(mnt $node)/$1' '$EXPORT/$1'" || fail "$3: node$node opens the old $1"
	done
	note "  $3: $(python3 -c "print('%.2f s' % ($EPOCHREALTIME - $started))")"
}
fresh() { head -c "$1" /dev/urandom; }

# see WHAT COMMAND...: at once where nodes ask each time, else soon.
see() {
	local what=$1
	shift
	if [ "$mechanism" = looking ]; then
		"$@" || fail "not seen at once: $what"
	else
		until_ok 60 "$what is seen" "$@" || fail "not seen: $what"
	fi
}

# A write has the ctime of its beginning: who reads before its bytes are there has old ones under the file's last ctime.  The writer's source is a
# mapping on node 2, which stands still: so it stays in the midst of its write, while node 1 reads the file and closes it again.
# With "killed" the server is, when the write has ended, before it has given the file another ctime.
in_the_midst() {
	local ctime began writer
	fresh 1000000 >"$EXPORT/long"
	fresh 1000000 >"$EXPORT/source"
	cp "$EXPORT/long" "$WORK/before"
	rm -f "$WORK"/{mapped,written,enough}
	python3 - "$(seen_from_here 2)/source" "$EXPORT/long" "$WORK" <<-'WRITER' &
		import mmap, os, sys, time
		def await_(name):
		    while not os.path.exists(sys.argv[3] + "/" + name):
		        time.sleep(0.005)
		fd, out = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_RDWR)
		source = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
		open(sys.argv[3] + "/mapped", "w")
		await_("stopped")
		assert os.pwrite(out, source, 0) == 1000000
		open(sys.argv[3] + "/written", "w")
		await_("enough")
	WRITER
	writer=$!
	until_ok 30 "the mapping" test -e "$WORK/mapped" || fail "cannot map"
	on node1 cmp "$(mnt 1)/long" "$WORK/before" || fail "node1 does not see the file as it is"
	ctime=$(stat -c %z "$EXPORT/long")
	kill -STOP "${DAEMON[node2]}"
	began=$EPOCHREALTIME
	touch "$WORK/stopped"
	until_ok 30 "the write" eval "[ \"\$(stat -c %z '$EXPORT/long')\" != '$ctime' ]" || fail "no write begins"
	on node1 cmp "$(mnt 1)/long" "$WORK/before" || fail "node1 sees what is not written"
	[ "${1:-}" != killed ] || echo watch.touch:hold >"$WORK/fault"
	kill -CONT "${DAEMON[node2]}"
	until_ok 30 "the write's end" test -e "$WORK/written" || fail "the write does not end"
	if [ "${1:-}" = killed ]; then
		server_kill
		rm "$WORK/fault"
		KR_FAULT="@$WORK/fault" server_start --watch auto
	fi
	rm "$WORK/stopped"
	if [ "$mechanism" = looking ] && python3 -c "exit($EPOCHREALTIME - $began < 1.9)"; then
		touch "$WORK/enough"
		wait $writer
		return 1 # beyond what looking promises
	fi
	until_ok 60 "node1 sees what was written" on node1 cmp -s "$(mnt 1)/long" "$EXPORT/source" || fail "node1 still sees the file as it was in the midst of a write"
	note "  a write that was seen in its midst: $(python3 -c "print('%.2f s' % ($EPOCHREALTIME - $began))")"
	touch "$WORK/enough"
	wait $writer || fail "the writer"
}

try() {
	local mechanism=$3
	note "mechanism: $1"
	KR_FAULT="@$WORK/fault" server_start --watch "$2"
	mounts_start
	kairan 1 status --json $SERVER_ADDRESS | grep "\"mechanism\": \"$3\"" >/dev/null || fail "status does not say $3: $(kairan 1 status $SERVER_ADDRESS)"
	fresh 1500000 >"$EXPORT/big"
	fresh 3000 >"$EXPORT/small"
	fresh 300000 >"$EXPORT/quiet"
	rm -f "$WORK"/seen*
	local node readers=()
	for node in 1 2; do
		on node$node python3 "$TOP/test/programs/behind.py" "$WORK/seen$node" "$(mnt $node)/big" "$(mnt $node)/small" "$(mnt $node)/quiet" &
		readers+=($!)
		until_ok 30 "node$node's reader" test -s "$WORK/seen$node" || fail "no reader"
	done
	noticed big 1 "before any change"
	noticed small 2 "before any change"

	noticed quiet 3 "before any change"
	fresh 10 | dd of="$EXPORT/quiet" bs=10 seek=100 conv=notrunc status=none
	noticed quiet 3 "a write that nobody asks for"
	fresh 5000 | dd of="$EXPORT/big" bs=1000 seek=700 conv=notrunc status=none
	noticed big 1 "a write"
	touch -r "$EXPORT/small" "$WORK/times"
	fresh 100 | dd of="$EXPORT/small" bs=100 seek=3 conv=notrunc status=none
	touch -r "$WORK/times" "$EXPORT/small"
	noticed small 2 "a write with the old mtime and size"
	fresh 10 >>"$EXPORT/small"
	noticed small 2 "an append"
	truncate -s 1200000 "$EXPORT/big"
	noticed big 1 "a cut"
	fallocate -p -o 4096 -l 65536 "$EXPORT/big"
	noticed big 1 "a hole"
	python3 - "$EXPORT/big" <<-'STORE' || fail "cannot map"
		import mmap, os, sys
		fd = os.open(sys.argv[1], os.O_RDWR)
		with mmap.mmap(fd, 0) as m:
		    m[300000:300010] = b"0123456789"
	STORE
	noticed big 1 "a store through a mapping"

	for _ in {1..15}; do in_the_midst && break; done || fail "each time too slow"

	# New names and attributes: without the kernel's word they are asked for each time and seen without any waiting, else when it
	# has come. What is to be seen has been noted before.
	! on node2 stat "$(mnt 2)/new" 2>/dev/null || fail "there is a file that nobody made"
	chmod 640 "$EXPORT/small"
	see "a chmod" eval "[ \"\$(on node1 stat -c %a '$(mnt 1)/small')\" = 640 ]"
	fresh 2000 >"$EXPORT/new"
	see "a new file" on node2 cmp -s "$(mnt 2)/new" "$EXPORT/new"
	setfacl -m u:1000:r "$EXPORT/new"
	see "an ACL" eval "on node2 getfacl -nc '$(mnt 2)/new' 2>/dev/null | grep -q 1000"
	fresh 2500 >"$EXPORT/.replacement"
	ln -f "$EXPORT/small" "$EXPORT/small.old" # gone, it would end readers that look at their mapping (SIGBUS) if that comes after their pread
	mv "$EXPORT/.replacement" "$EXPORT/small"
	for node in 1 2; do
		see "a replaced file" on node$node cmp -s "$(mnt $node)/small" "$EXPORT/small"
	done
	rm "$EXPORT/new"
	see "that a file was removed" eval "! on node2 stat '$(mnt 2)/new' 2>/dev/null"

	kairan 1 status --json $SERVER_ADDRESS | python3 -c 'import json, sys
notes = json.load(sys.stdin)["notes"]
sys.exit(not (notes["told"] > 0 if sys.argv[1] == "events" else notes["granted"] == 0))' "$3" || fail "notes are not taken and told of as they should"

	note "while a node has unflushed bytes"
	fresh 4000 >"$EXPORT/mixed"
	# What is seen of a later change is known of this one: its event does not come in the midst, and make the node flush too early.
	fresh 10 | dd of="$EXPORT/big" bs=10 seek=100 conv=notrunc status=none
	noticed big 1 "a write after the file's making"
	on node1 python3 - "$(mnt 1)/mixed" "$EXPORT/mixed" <<-'MIX' || fail "a node's bytes or the others' are lost"
		import os, sys
		fd = os.open(sys.argv[1], os.O_RDWR)
		os.pwrite(fd, b"node" * 25, 1000)
		local = os.open(sys.argv[2], os.O_RDWR)
		want = bytearray(os.pread(local, 4000, 0))
		os.pwrite(local, b"here" * 25, 1050)
		os.pwrite(local, b"here" * 25, 3000)
		want[3000:3100] = b"here" * 25
		want[1050:1150] = b"here" * 25
		want[1000:1100] = b"node" * 25
		os.fsync(fd)
		assert os.pread(local, 4000, 0) == bytes(want), os.pread(local, 4000, 0)
	MIX
	until_ok 60 "node1 sees both" on node1 cmp -s "$(mnt 1)/mixed" "$EXPORT/mixed" || fail "node1 does not see both"
	on node2 cmp "$(mnt 2)/mixed" "$EXPORT/mixed" || fail "node2 does not see both"
	[ "$3" != events ] || only_with_events
	touch "$WORK/seen1.stop" "$WORK/seen2.stop"
	wait "${readers[@]}" || fail "a reader failed"
	rm "$WORK"/seen*.stop
	for node in 1 2; do mount_stop $node || fail "unmount"; done
	server_stop || fail "the server's end"
	rm -rf "$WORK/node1/local/"* "$WORK/node2/local/"*
}

# Stores to a page that is dirty already have no time of their own; and more changes than the kernel counts.
only_with_events() {
	mkfifo "$WORK/go"
	python3 - "$EXPORT/big" "$WORK/go" <<-'STORE' &
		import mmap, os, sys
		fd = os.open(sys.argv[1], os.O_RDWR)
		with mmap.mmap(fd, 0) as m:
		    m[500000:500010] = b"9876543210"
		    open(sys.argv[2]).read() # nodes have seen this
		    m[500000:500010] = b"abcdefghij"
	STORE
	local mapper=$!
	noticed big 1 "a store through a mapping that goes on"
	echo >"$WORK/go"
	wait $mapper || fail "cannot map"
	noticed big 1 "a later store to the same page"

	# Without fault points the file may have its other ctime before the server is killed.
	! grep -q KR_FAULT "$B/server/kairand" || in_the_midst killed

	local most count
	most=$(cat /proc/sys/fs/fanotify/max_queued_events)
	count=$((most + 500))
	[ "$most" -le 20000 ] || { note "a queue of $most events: not filled"; return; }
	mkdir "$EXPORT/many"
	kill -STOP "${DAEMON[server]}"
	python3 - "$EXPORT" "$count" <<-'MANY'
		import os, sys
		os.chdir(sys.argv[1])
		for i in range(int(sys.argv[2])):
		    with open("many/%d" % i, "w") as f:
		        f.write("x")
		fd = os.open("big", os.O_RDWR) # when no more is counted
		os.pwrite(fd, b"lost in the crowd", 900000)
	MANY
	kill -CONT "${DAEMON[server]}"
	noticed big 1 "a change among more than the kernel counts"
	kairan 1 status --json $SERVER_ADDRESS | grep '"overflows": 1' >/dev/null || fail "no overflow happened"
	rm -rf "$EXPORT/many"
}

cluster 2
try "the kernel's word" auto events
try "looking" sweep looking
finish
