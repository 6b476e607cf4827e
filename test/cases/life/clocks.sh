# Clocks that are set, and a machine that sleeps: times of files are the server's, leases and locks go by clocks that nobody sets, and a
# node that slept for longer than the lease time serves nothing that it had before.
. "$TOP/test/lib.sh"
case $B in *asan* | *tsan*) skip "a preloaded library is none for a sanitizer" ;; esac
LEASE=15
cluster 2
# set_clocks HOST REALTIME BOOTTIME: seconds ahead.
set_clocks() { python3 -c 'import struct, sys; open(sys.argv[1], "r+b").write(struct.pack("<qq", int(sys.argv[2]), int(sys.argv[3])))' "$WORK/clocks-$1" "$2" "$3"; }
for host in server node1 node2; do
	: >"$WORK/clocks-$host"
	set_clocks $host 0 0
done
export LD_PRELOAD=$B/test/libclocks.so
KR_CLOCKS=$WORK/clocks-server server_start
for i in 1 2; do KR_CLOCKS=$WORK/clocks-node$i mount_start $i; done
unset LD_PRELOAD
hours() { echo $(($1 * 3600)); }
# stamped FILE AHEAD: its mtime is what a clock says that is so many seconds ahead; a test that is slow is no error.
stamped() {
	local before=$2 mtime
	mtime=$(stat -c %Y "$EXPORT/$1")
	[ $((mtime - before)) -ge -2 ] && [ $((mtime - before)) -le $((SECONDS_ALLOWED)) ] || fail "$1: $(date -u -d "@$mtime"), not $(date -u -d "@$before")"
}
SECONDS_ALLOWED=120
write() { on "node$1" sh -c "echo $2 >>'$(mnt "$1")/$3' && sync '$(mnt "$1")/$3'" || fail "node $1 writes $3"; }
follows() { on node2 tail -1 "$(mnt 2)/$1" | grep -qx "$2" || fail "node 2 reads $(on node2 tail -1 "$(mnt 2)/$1") in $1, not $2"; }
# A lock that is held all the time.
on node1 sh -c "echo \$\$ >'$WORK/holder' && exec 9>>'$(mnt 1)/lock' && flock 9 && exec sleep 1000" &
until_ok 60 "the lock" sh -c "! nsenter -t ${KEEPER[node2]} -n -u -m -- flock -n '$(mnt 2)/lock' true" || fail "no lock"

# The clock of a node: its files are dated by the server's.
for ahead in "$(hours 5)" "$(hours -5)" 0; do
	set_clocks node1 "$ahead" 0
	now=$(date +%s)
	write 1 "node $ahead" "node$ahead"
	stamped "node$ahead" "$now"
	follows "node$ahead" "node $ahead"
done
# The clock of the server: all follow it, forward and back, with the next answer to a PING at the latest.
for ahead in "$(hours 5)" 0 "$(hours -5)" 0; do
	set_clocks server "$ahead" 0
	now=$(($(date +%s) + ahead))
	dated() { write 1 "server $ahead" file && [ $(($(stat -c %Y "$EXPORT/file") - now)) -ge -2 ] && [ $(($(stat -c %Y "$EXPORT/file") - now)) -le $SECONDS_ALLOWED ]; }
	until_ok 60 "dates of the server's clock" dated || fail "the server's clock is $ahead s ahead, the file is of $(stat -c %y "$EXPORT/file")"
	follows file "server $ahead"
done
! on node2 flock -n "$(mnt 2)/lock" true || fail "the lock is gone"
! grep -q "is lost\|does not know our session" "$WORK/kairand.log" "$WORK"/node?/log || fail "somebody was lost: $(cat "$WORK/kairand.log")"

# Node 1 sleeps for an hour, as far as it knows, and its link is down when it wakes up: what it had cached is nothing any more.
write 2 old kept
direct='import mmap, os, sys; b = mmap.mmap(-1, 4096); fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT); n = os.preadv(fd, [b], 0); print(b[:n].decode().strip())'
[ "$(on node1 python3 -c "$direct" "$(mnt 1)/kept")" = old ] || fail "node 1 cannot read"
cat >"$WORK/reader" <<P
import mmap, os, sys, time
b = mmap.mmap(-1, 4096)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
while not os.path.exists(sys.argv[2]):
    n = os.preadv(fd, [b], 0)
    print(b[:n].decode().split()[-1], flush=True) # one line for each read that was served
    time.sleep(0.02)
P
on node1 python3 "$WORK/reader" "$(mnt 1)/kept" "$WORK/awake" >"$WORK/read" 2>&1 &
reader=$!
served() { wc -l <"$WORK/read"; }
until_ok 60 "reads" sh -c "[ \$(wc -l <$WORK/read) -gt 5 ]" || fail "nothing is served: $(cat "$WORK/read")"
cut_link node1
set_clocks node1 0 "$(hours 1)"
sleep 0.5
count=$(served)
sleep 1 # dozens of reads, if one is served
[ "$(served)" -le $((count + 1)) ] || fail "$(($(served) - count)) reads were served after a sleep"
touch "$WORK/awake"
heal_link node1
wait $reader || fail "the reader: $(cat "$WORK/read")"
[ "$(tail -1 "$WORK/read")" = old ] || fail "read after the sleep: $(tail -1 "$WORK/read")"
write 2 new kept
[ "$(on node1 python3 -c "$direct" "$(mnt 1)/kept" | tail -1)" = new ] || fail "node 1 reads old bytes"
kill "$(cat "$WORK/holder")"
finish
