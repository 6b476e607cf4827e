# Times of change that tick, as all are before Linux 6.13: a node keeps what it has written, and misses no change by others.
. "$TOP/test/lib.sh"
BYTES=8000000 ROUNDS=40
truncate -s 300M "$WORK/export.img"
mkdir -p "$EXPORT"
mkfs.ext3 -q -F -I 256 "$WORK/export.img" && mount -t ext3 -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device, or no ext3"
python3 - "$EXPORT/probe" <<'P' || skip "times are exact on ext3, too"
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
times = {os.pwrite(fd, b"x", 0) and os.fstat(fd).st_ctime_ns for _ in range(2000)}
sys.exit(len(times) > 1000)
P
cluster 2
server_start
mounts_start
kairan 1 status --json $SERVER_ADDRESS | grep '"mechanism": "events"' >/dev/null || skip "the kernel does not tell of changes in the export"
# nothing_comes WHAT COMMAND: COMMAND reads what is on the nodes' disks already.
nothing_comes() {
	local before
	before=$(sent_by server)
	eval "$2" || fail "$1: node1 reads other bytes"
	[ $(($(sent_by server) - before)) -lt $((BYTES / 4)) ] || fail "$1: $(($(sent_by server) - before)) bytes came"
}

note "what a node has written stays there, also when its time of change is no longer young"
on node1 sh -c "head -c $BYTES /dev/urandom >'$(mnt 1)/new'" || fail "cannot write"
nothing_comes "at once" 'on node1 cmp "$(mnt 1)/new" "$EXPORT/new"'
sleep 0.2
nothing_comes "later" 'on node1 cmp "$(mnt 1)/new" "$EXPORT/new"'
on node1 sh -c "printf changed | dd of='$(mnt 1)/new' bs=1 seek=5000000 conv=notrunc status=none && touch -d 2002-03-04 '$(mnt 1)/new' && chmod 444 '$(mnt 1)/new'" || fail "cannot write"
nothing_comes "changed" 'on node1 cmp "$(mnt 1)/new" "$EXPORT/new"'
on node2 cmp "$(mnt 2)/new" "$EXPORT/new" || fail "node2 reads other bytes"
nothing_comes "read by another" 'on node1 cmp "$(mnt 1)/new" "$EXPORT/new" && on node2 cmp "$(mnt 2)/new" "$EXPORT/new"'

note "what a program on the server writes in the same tick is seen"
python3 - "$EXPORT" "$(seen_from_here 1)" "$(seen_from_here 2)" $ROUNDS <<'P' || fail "old bytes"
import os, sys, time
export, writer, reader, rounds = *sys.argv[1:4], int(sys.argv[4])
same_tick = 0
for number in range(rounds):
    name = f"file{number}"
    fd = os.open(f"{writer}/{name}", os.O_RDWR | os.O_CREAT)
    local = os.open(f"{export}/{name}", os.O_WRONLY)
    os.pwrite(fd, b"node%06d" % number, 0)
    os.fsync(fd)
    flushed = os.fstat(local).st_ctime_ns
    os.pwrite(local, b"SERV%06d" % number, 0)
    same_tick += os.fstat(local).st_ctime_ns == flushed
    os.close(local)
    other = os.open(f"{reader}/{name}", os.O_RDONLY)
    seen = os.pread(other, 10, 0)
    time.sleep(0.2)  # an event takes 20 ms at most, and the time of change is no longer young
    for mount, opened in ((writer, fd), (reader, other)):
        with open(f"{mount}/{name}", "rb") as again:
            got = {os.pread(opened, 10, 0), again.read()}
        assert got == {b"SERV%06d" % number}, (number, mount, got, seen)
    os.close(fd)
    os.close(other)
print(f"{same_tick} of {rounds} in the same tick")
assert same_tick > 0, "no write came in the same tick"
P
