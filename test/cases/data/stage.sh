# kairan stage: files and trees come to the caches of all nodes through the ring, before anybody reads them.
# tags: sanitizer long
# timeout: 240
. "$TOP/test/lib.sh"
up 3 200mbit
mkdir -p "$EXPORT/tree/deep/er"
head -c 24000000 /dev/urandom >"$EXPORT/tree/large"
head -c 300000 /dev/urandom >"$EXPORT/tree/deep/medium"
for i in $(seq 40); do head -c $((i * 700)) /dev/urandom >"$EXPORT/tree/deep/er/small $i"; done
: >"$EXPORT/tree/empty"
head -c 9000000 /dev/urandom >"$EXPORT/later"
ln -s large "$EXPORT/tree/link"
bytes=$(find "$EXPORT/tree" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')
said() { kairan "$@" >"$WORK/said" 2>&1; }
# counted COMMAND...: runs it, and $sent is what the server has sent meanwhile.
counted() { local before; before=$(sent_by server); "$@"; local result=$?; sent=$(($(sent_by server) - before)); return $result; }
read_everywhere() {
	local i pids=()
	for i in 1 2 3; do
		on "node$i" sh -c "cd $(mnt "$i")/tree && find . -type f -print0 | sort -z | xargs -0 cat | sha256sum" >"$WORK/sum$i" & pids+=($!)
	done
	wait "${pids[@]}"
}

note "each byte leaves the server once"
counted said 1 stage --wait "$(mnt 1)/tree" || fail "stage: $(cat "$WORK/said")"
note "sent $sent of $bytes"
grep -q '^staged 43 files, .* on 3 nodes$' "$WORK/said" || fail "said: $(cat "$WORK/said")"
[ "$sent" -gt "$bytes" ] && [ "$sent" -lt $((bytes * 18 / 10)) ] || fail "the server sent $sent bytes of $bytes"
in_memory() { kairan "$1" status --json "$(mnt "$1")" | python3 -c 'import json, sys; print(json.load(sys.stdin)["cache"]["memory_bytes"])'; }
on_disk() { [ "$(in_memory "$1")" = 0 ]; }
for i in 1 2 3; do until_ok 30 "node $i's disk has it" on_disk "$i" || fail "node $i has $(in_memory "$i") bytes in memory only"; done
counted read_everywhere
[ "$sent" -lt 2000000 ] || fail "the server sent $sent bytes of what had been staged"
(cd "$EXPORT/tree" && find . -type f -print0 | sort -z | xargs -0 cat | sha256sum) >"$WORK/sum"
for i in 1 2 3; do same "$WORK/sum" "$WORK/sum$i"; done

note "it goes on without being waited for"
before=$(sent_by server)
said 2 stage "$(mnt 2)/later" || fail "stage without --wait: $(cat "$WORK/said")"
grep -q '^begun to stage 1 file,' "$WORK/said" || fail "said: $(cat "$WORK/said")"
has_been_sent() { [ $(($(sent_by server) - before)) -gt 9000000 ]; }
until_ok 60 "the server sends the file" has_been_sent || fail "it does not go on by itself"
said 1 stage --wait "$(mnt 1)/later" || fail "the rest: $(cat "$WORK/said")"
[ $(($(sent_by server) - before)) -lt 16000000 ] || fail "the server sent $(($(sent_by server) - before)) bytes of 9000000"

note "what a node has written and not flushed yet"
on node2 python3 - "$(mnt 2)/written" "$B/tools/kairan" "$(mnt 2)" <<'P' || fail "staging an unflushed file"
import os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
os.pwrite(fd, b"w" * 3000000, 0)
subprocess.run([sys.argv[2], "stage", "--wait", sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
os.close(fd)
P
[ "$(on node3 sh -c "tr -d w <$(mnt 3)/written | wc -c; stat -c %s $(mnt 3)/written" | tr '\n' ' ')" = "0 3000000 " ] || fail "the unflushed file on another node"

note "what is removed leaves the caches, when nobody has it open any more"
cached() { kairan "$1" status --json "$(mnt "$1")" | python3 -c 'import json, sys; print(json.load(sys.stdin)["cache"]["bytes"])'; }
# staged NAME: a file of 9 MB in all caches; $with are the bytes in each without it.
staged() {
	local i
	for i in 1 2 3; do with[i]=$(cached $i); done
	head -c 9000000 /dev/urandom >"$EXPORT/$1"
	said 1 stage --wait "$(mnt 1)/$1" || fail "stage $1: $(cat "$WORK/said")"
	for i in 1 2 3; do [ "$(cached $i)" -ge $((with[i] + 9000000)) ] || fail "node $i has not cached $1: $(cached $i) bytes after ${with[i]}"; done
}
has_left() { [ "$(cached "$1")" -lt $((with[$1] + 1000000)) ]; }
leaves() { local i; for i in "$@"; do until_ok 30 "node $i lets it go" has_left "$i" || fail "node $i keeps $(cached "$i") bytes, before ${with[i]}"; done; }
declare -a with
staged removed
on node2 rm "$(mnt 2)/removed" || fail "rm"
leaves 1 2 3
staged replaced
on node1 sh -c "echo new >$(mnt 1)/new && mv $(mnt 1)/new $(mnt 1)/replaced" || fail "mv"
leaves 1 2 3
staged removed_behind
rm "$EXPORT/removed_behind"
leaves 1 2 3
staged opened
sum=$(sha256sum <"$EXPORT/opened")
mkfifo "$WORK/fifo" && exec 8<>"$WORK/fifo" || fail "fifo"
on node3 sh -c "exec 7<$(mnt 3)/opened; echo opened >$WORK/opened; read -r word <&8; sha256sum <&7" >"$WORK/read" & reader=$!
until_ok 30 "a program has it open" test -s "$WORK/opened" || fail "no reader"
on node1 rm "$(mnt 1)/opened" || fail "rm of what is open"
echo go >&8
wait $reader && [ "$(cat "$WORK/read")" = "$sum" ] || fail "read of what is open: $(cat "$WORK/read")"
exec 8>&-
leaves 1 2 3
staged earlier
mount_stop 1 || fail "unmount"
mount_start 1
on node1 rm "$(mnt 1)/earlier" || fail "rm of what an earlier mount has cached"
leaves 1

note "bytes of small files do not come again with their opens, also when all leases have gone; what has changed since does"
mkdir "$EXPORT/small"
for i in $(seq 50); do head -c 20000 /dev/urandom >"$EXPORT/small/$i"; done
said 1 stage --wait "$(mnt 1)/small" || fail "stage: $(cat "$WORK/said")"
small_is_right() { diff -r "$EXPORT/small" "$(seen_from_here 2)/small"; }
counted small_is_right || fail "small files on node 2 after staging"
note "sent $sent"
[ "$sent" -lt 200000 ] || fail "the server sent $sent bytes of small files that had been staged"
mount_stop 2 && mount_start 2 || fail "remount"
counted small_is_right || fail "small files on node 2 after it was mounted again"
note "sent $sent"
[ "$sent" -lt 200000 ] || fail "the server sent $sent bytes of small files in the cache of a new mount"
for i in 1 2 3; do head -c 20000 /dev/urandom | dd of="$(seen_from_here 1)/small/$i" conv=notrunc status=none || fail "write"; done
head -c 20000 /dev/urandom >"$EXPORT/small/behind" && mv "$EXPORT/small/behind" "$EXPORT/small/4"
counted small_is_right || fail "small files on node 2 after changes"
[ "$sent" -gt 80000 ] && [ "$sent" -lt 300000 ] || fail "the server sent $sent bytes of 4 changed files"

note "what cannot be staged is named"
said 1 stage --wait "$(mnt 1)/tree/empty" "$(mnt 1)/missing"; [ $? = 1 ] || fail "exit status with a missing file"
grep -q 'missing: No such file' "$WORK/said" || fail "said: $(cat "$WORK/said")"
said 1 stage "$WORK/sum"; [ $? = 2 ] || fail "exit status outside of a mount"
grep -q 'sum does not lie on a mount' "$WORK/said" || fail "said: $(cat "$WORK/said")"
said 1 stage; [ $? = 64 ] || fail "exit status without arguments"
mount_stop 3 || fail "unmount"
mount_start 3 cache_max=8M
said 1 stage --wait "$(mnt 1)/tree/large"; [ $? = 1 ] || fail "exit status with a cache that is too small: $(cat "$WORK/said")"
grep -q 'smallest cache of a node has room for 8.0 MiB' "$WORK/said" || fail "said: $(cat "$WORK/said")"
said 1 stage --wait "$(mnt 1)/tree/deep" || fail "what fits: $(cat "$WORK/said")"
finish
