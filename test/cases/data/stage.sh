# kairan stage: files and trees come to the caches of all nodes through the ring, before anybody reads them.
# tags: sanitizer
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
counted read_everywhere
[ "$sent" -lt 2000000 ] || fail "the server sent $sent bytes of what had been staged"
(cd "$EXPORT/tree" && find . -type f -print0 | sort -z | xargs -0 cat | sha256sum) >"$WORK/sum"
for i in 1 2 3; do same "$WORK/sum" "$WORK/sum$i"; done

note "it goes on without being waited for"
before=$(sent_by server)
said 2 stage "$(mnt 2)/later" || fail "stage without --wait: $(cat "$WORK/said")"
grep -q '^begun to stage 1 files' "$WORK/said" || fail "said: $(cat "$WORK/said")"
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
