# kill -9 of the server at each step of a conflict: late bytes go into one conflict file, whole, and never into the original.
# tags: faults
# timeout: 300
LEASE=3
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='.'
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
mounts_start flush_age=600
chmod 1777 "$EXPORT"
D=$(mnt 1)
is_lost() { [ "$(grep -c "node1 is lost" "$WORK/kairand.log")" -gt "$LOST" ]; }
conflicts_of() { compgen -G "$EXPORT/$1.conflict-node1-*"; }
has_conflict() { [ "$(conflicts_of "$1" | wc -l)" = 1 ] && [ "$(tr '\0' '.' <"$(conflicts_of "$1")")" = ..LATE ]; }
has_said() { [ -s "$WORK/$1.said" ]; }
for point in conflict.declared conflict.recorded conflict.made; do
	note "the server dies at $point"
	server_stop
	KR_FAULT=$point:kill:1 server_start
	until_ok 60 "node 1 is back" on node1 timeout -s KILL 5 stat "$D/." || fail "node 1 does not come back"
	printf 'original--' >"$EXPORT/$point"
	chmod 666 "$EXPORT/$point"
	on node1 python3 - "$D/$point" "$WORK/$point.go" >"$WORK/$point.said" 2>&1 <<'P' &
import os, sys, time
path, go = sys.argv[1:]
fd = os.open(path, os.O_WRONLY)
os.pwrite(fd, b"LATE", 2)
print("written", flush=True)
while not os.path.exists(go):
    time.sleep(0.05)
try:
    os.fsync(fd)
    print("fsync 0", flush=True)
except OSError as error:
    print("fsync", error.errno, flush=True)
os._exit(0)
P
	until_ok 60 "bytes of $point" has_said "$point" || fail "node 1 did not write"
	LOST=$(grep -c "node1 is lost" "$WORK/kairand.log")
	cut_link node1
	until_ok 60 "node 1 is lost" is_lost || fail "not lost"
	on node2 sh -c "cd '$(mnt 2)' && printf NEW | dd of=$point bs=1 seek=7 conv=notrunc,fsync status=none" || fail "node 2 cannot write"
	heal_link node1
	until_ok 60 "the server dies at $point" gone "${DAEMON[server]}" || fail "$point is not reached"
	wait "${DAEMON[server]}" 2>/dev/null
	server_start
	touch "$WORK/$point.go"
	until_ok 60 "the conflict file" has_conflict "$point" || fail "$point: $(ls -l "$EXPORT"; tail -5 "$WORK/node1/log")"
	until_ok 60 "end of fsync" grep -q fsync "$WORK/$point.said"
	grep -qx "fsync 116" "$WORK/$point.said" || fail "$point: fsync says $(cat "$WORK/$point.said")"
	kairan 1 flush --timeout 60 "$D" >"$WORK/said" || fail "node 1 keeps something: $(cat "$WORK/said")"
	has_conflict "$point" || fail "$point: $(ls -l "$EXPORT")"
	[ "$(cat "$EXPORT/$point")" = originaNEW ] || fail "$point: the original is $(cat "$EXPORT/$point")"
done
finish
