# As on a local disk no call on a file fails with EINTR because a timer ticks or a child ends; what kills a program ends its wait, and so
# does, after a moment, a SIGINT that it catches.
. "$TOP/test/lib.sh"
cluster 1
server_start
mount_start 1
M=$(mnt 1)

note "calls under a timer"
cat >"$WORK/ticking.py" <<'P'
import os, signal, sys
ticks = 0
def tick(number, frame):
    global ticks
    ticks += 1
os.chdir(sys.argv[1])
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
rounds = 0
while rounds < 300 or ticks < 300: # calls that Python does not repeat by itself
    name = "f%d" % rounds
    os.mkdir(name)
    os.chmod(name, 0o700)
    os.stat(name)
    os.rename(name, "g")
    os.utime("g")
    os.symlink("x", name)
    os.readlink(name)
    os.unlink(name)
    os.listdir(".")
    os.rmdir("g")
    rounds += 1
signal.setitimer(signal.ITIMER_REAL, 0)
P
on node1 timeout -s KILL $((120 * SLOW)) python3 "$WORK/ticking.py" "$M" || fail "a call was interrupted"

note "waits for a server that does not answer"
cat >"$WORK/waiting.py" <<'P'
import os, signal, sys
signal.signal(signal.SIGALRM, lambda number, frame: None)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    open(sys.argv[2], "w").close()
    # No name: the node may know that there is none, and who waits for another's look-up cannot be killed.
    os.statvfs(sys.argv[1])
    os._exit(11)
except (InterruptedError, KeyboardInterrupt):
    os._exit(12)
P
# wait_in KIND: a program that waits in a request, under a timer; its pid in WAITING.
wait_in() {
	rm -f "$WORK/$1"
	nsenter -t "${KEEPER[node1]}" -n -u -m python3 "$WORK/waiting.py" "$M" "$WORK/$1" &
	WAITING=$!
	until_ok 60 "the program begins" test -e "$WORK/$1" || fail "no program"
}
kill -STOP "${DAEMON[server]}"
wait_in timer
timer=$WAITING
wait_in int
int=$WAITING
wait_in kill
kill -KILL "$WAITING"
until_ok 60 "SIGKILL ends a wait" gone "$WAITING" || fail "unkillable"
kill -INT $int
wait $int
[ $? = 12 ] || fail "SIGINT did not end a wait"
alive $timer || { wait $timer; fail "a timer ended a wait: $?"; }
kill -CONT "${DAEMON[server]}"
wait $timer
[ $? = 11 ] || fail "a timer ended a wait"
finish
