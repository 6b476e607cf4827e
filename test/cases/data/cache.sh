# What was staged serves the next mount without the server; a changed file is never served from an old copy; own bytes are kept.
. "$TOP/test/lib.sh"
up 1 200mbit
head -c 20000000 /dev/urandom >"$EXPORT/big"
sleep 0.2
on node1 sha256sum "$(mnt 1)/big" | cut -c1-64 >"$WORK/one"
[ "$(cat "$WORK/one")" = "$(sha256sum <"$EXPORT/big" | cut -c1-64)" ] || fail "first read"
mount_stop 1
mount_start 1
before=$(sent_by server)
[ "$before" -gt 20000000 ] || fail "the first read cannot have come from the server: $before bytes"
on node1 sha256sum "$(mnt 1)/big" | cut -c1-64 >"$WORK/two"
same "$WORK/one" "$WORK/two"
[ $(($(sent_by server) - before)) -lt 2000000 ] || fail "the next mount fetched $(($(sent_by server) - before)) bytes again"
mount_kill 1
printf changed | dd of="$EXPORT/big" bs=1 seek=5000000 conv=notrunc 2>/dev/null
mount_start 1
[ "$(on node1 sha256sum "$(mnt 1)/big" | cut -c1-64)" = "$(sha256sum <"$EXPORT/big" | cut -c1-64)" ] || fail "an old copy was served"
mount_kill 1
note "a damaged copy is noticed"
files=0
for file in $(find "$WORK/node1/local" -size +1M -path '*cache*'); do
	printf 'damage' | dd of="$file" bs=1 seek=1000000 conv=notrunc 2>/dev/null && files=$((files + 1))
done
[ $files -ge 1 ] || fail "no copy is left to damage"
bad_blocks() { kairan 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; print(json.load(sys.stdin)["cache"]["bad_blocks"])'; }
mount_start 1
[ "$(bad_blocks)" = 0 ] || fail "damage before anything is read: $(bad_blocks)"
[ "$(on node1 sha256sum "$(mnt 1)/big" | cut -c1-64)" = "$(sha256sum <"$EXPORT/big" | cut -c1-64)" ] || fail "damaged blocks were served"
[ "$(bad_blocks)" -ge 1 ] || fail "the damage was not met: the file did not come from the cache"
kairan 1 status "$(mnt 1)" | grep -q "cache.* damaged block" || fail "status does not tell people: $(kairan 1 status "$(mnt 1)")"
note "what a node has written, in many rounds, it reads back from its own disk"
head -c 60000000 /dev/urandom >"$WORK/own"
on node1 python3 - "$WORK/own" "$(mnt 1)/own" <<'P' || fail "writing"
import os, sys, threading
source, fd = open(sys.argv[1], "rb"), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
syncs = []
while piece := source.read(1000003):
    os.write(fd, piece)
    syncs.append(threading.Thread(target=os.fsync, args=(fd,)))
    syncs[-1].start()
for sync in syncs:
    sync.join()
os.close(fd)
P
before=$(sent_by server)
on node1 dd if="$(mnt 1)/own" of="$WORK/back" iflag=direct bs=1M status=none || fail "reading"
same "$WORK/own" "$WORK/back"
[ $(($(sent_by server) - before)) -lt 2000000 ] || fail "its own bytes came from the server: $(($(sent_by server) - before))"
finish
