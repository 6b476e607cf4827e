# A lock that has been given up, and that another node has been given already, when the server dies before it has said so: the first
# node does not claim it again, and the other one keeps it.
# tags: faults
LEASE=10
. "$TOP/test/lib.sh"
grep -q KR_FAULT "$B/server/kairand" || skip "built without fault points (meson -Dfaults=true)"
cat >"$WORK/lock.py" <<'END'
"""lock.py PATH KIND WORK: locks, says so, and writes under the lock when WORK/write is there; unlocks when WORK/unlock is"""
import fcntl, os, sys, time
path, kind, work = sys.argv[1:4]
fd = os.open(path, os.O_RDWR)
lock = fcntl.flock if kind == "flock" else fcntl.lockf
def until(name):
    while not os.path.exists(os.path.join(work, name)):
        time.sleep(0.02)
lock(fd, fcntl.LOCK_EX)
print("locked", flush=True)
if "first" in sys.argv:
    until("unlock")
    lock(fd, fcntl.LOCK_UN)
else:
    until("write")
    assert os.pwrite(fd, b"under the lock", 0) == 14
    os.fsync(fd)
print("done", flush=True)
END
cluster 2
KR_FAULT="@$WORK/fault" server_start
mounts_start
asks() { kairan "$1" status "$(mnt "$1")" | grep -q 'waiting: lock '; }
given_up_unsaid() {
	local kind=$1 first second seen
	rm -f "$WORK"/{unlock,write,first,second}
	echo before >"$EXPORT/$kind"
	on node1 timeout -s KILL $((100 * SLOW)) python3 "$WORK/lock.py" "$(mnt 1)/$kind" $kind "$WORK" first >"$WORK/first" 2>&1 & first=$!
	until_ok 60 "node1 has the lock" grep -q locked "$WORK/first" || fail "$(cat "$WORK/first")"
	on node2 timeout -s KILL $((100 * SLOW)) python3 "$WORK/lock.py" "$(mnt 2)/$kind" $kind "$WORK" >"$WORK/second" 2>&1 & second=$!
	until_ok 60 "node2 asks for the lock" asks 2 || fail "$(cat "$WORK/second")"
	echo unlock.reply:eio:1 >"$WORK/fault"
	touch "$WORK/unlock"
	until_ok 60 "node2 has the lock" grep -q locked "$WORK/second" || fail "$(cat "$WORK/second")"
	! grep -q done "$WORK/first" || fail "node1 has heard that it has unlocked"
	server_kill
	# Node1 comes back first.
	kill -STOP "${DAEMON[node2]}"
	seen=$(wc -l <"$WORK/kairand.log")
	KR_FAULT="@$WORK/fault" server_start
	until_ok 60 "node1 is back" sh -c "tail -n +$((seen + 1)) '$WORK/kairand.log' | grep -q 'node1 .*has a session'" || fail "$(cat "$WORK/kairand.log")"
	kill -CONT "${DAEMON[node2]}"
	touch "$WORK/write"
	wait $first || fail "$kind: $(cat "$WORK/first")"
	wait $second || fail "$kind: $(cat "$WORK/second")"
	[ "$(cat "$EXPORT/$kind")" = "under the lock" ] || fail "$kind: $(cat "$EXPORT/$kind")"
}

for kind in flock posix; do
	given_up_unsaid $kind
	note "$kind: kept"
done
finish
