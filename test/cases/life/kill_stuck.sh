# kill -9 of a kairanfs whose thread waits for a page that a program is reading: the kernel keeps the process, and the mount hangs;
# kairan umount ends that by itself, and so does umount -f. And a daemon that hangs: kairan umount --force.
# tags: faults
# timeout: 200
. "$TOP/test/lib.sh"
cluster 2
grep -q KR_FAULT "$B/fuse/kairanfs" || skip "built without fault points (meson -Dfaults=true)"
server_start
mount_start 2
head -c 4000000 /dev/urandom >"$EXPORT/read"
M=$(mnt 1)
trap 'on node1 umount -f "$M" 2>/dev/null' EXIT # else the kernel keeps this case's namespaces as well

# waits PID: its thread that drops pages waits in the kernel.
waits() {
	local task
	for task in /proc/"$1"/task/*; do
		[ "$(cat "$task/comm" 2>/dev/null)" = kr-notify ] && grep -q '^State:.*D' "$task/status" 2>/dev/null && return
	done
	return 1
}
# ended PID: no thread of it is left but the first, which waits for its parent.
ended() { [ "$(ls "/proc/$1/task" 2>/dev/null | wc -l)" -le 1 ] && ! alive "$1"; }
# is_stuck PID: nothing else is left of it but that thread: nobody will end what it waits for.
is_stuck() {
	local task
	for task in /proc/"$1"/task/*; do
		[ "${task##*/}" = "$1" ] || [ "$(cat "$task/comm" 2>/dev/null)" = kr-notify ] || return 1
	done
	waits "$1"
}
ended_or_stuck() { ended "$1" || is_stuck "$1"; }
# change: something else is in the file; the daemon of node 1, which cannot answer, is waited for in vain.
change() { on node2 timeout -s KILL 1 sh -c "printf $1 | dd of=$(mnt 2)/read bs=1 seek=$(($1 * 4096)) conv=notrunc status=none" 2>/dev/null; }
# stick: the daemon of node 1 is killed, and stays.  Before it drops pages it waits for the program to read some of them again.  The
# program may do so too late: then once more.  The server takes the node after a recall without an answer when the lease time is over:
# so mounts wait longer than that (connect_timeout).
stick() {
	local attempt number
	for attempt in 1 2 3 4 5 6 7 8; do
		[ $SECONDS -lt 120 ] || break # the whole suite waits for this case
		KR_FAULT=notify.tell:delay-500,recall.through:delay-20000:1 mount_start 1 close=async,flush_age=600,connect_timeout=60
		echo kept >"$(seen_from_here 1)/kept"
		on node1 python3 "$TOP/test/programs/pages.py" "$M/read" >/dev/null 2>&1 &
		for number in 1 2 3 4 5 6 7 8 9 10; do
			waits "${DAEMON[node1]}" && break
			change "$number"
		done
		waits "${DAEMON[node1]}" && kill -KILL "${DAEMON[node1]}"
		kill -KILL "${DAEMON[node1]}" 2>/dev/null
		until_ok 60 "its end" ended_or_stuck "${DAEMON[node1]}" || fail "neither its end nor what keeps it"
		is_stuck "${DAEMON[node1]}" && return
		on node1 umount -l "$M"
	done
	skip "no daemon could be made to wait for a page: there is nothing to end"
}
# unstuck: it has gone, its local directory is free, and no byte is lost.
unstuck() {
	until_ok 60 "its end" ended "${DAEMON[node1]}" || fail "$1 does not end what is left of the daemon"
	! on node1 grep -q " $M fuse" /proc/mounts || fail "$1 leaves the mount"
	mount_start 1 connect_timeout=60
	until_ok 60 "what was written" grep -qx kept "$EXPORT/kept" || fail "kept: $(cat "$EXPORT/kept")"
	mount_stop 1 || fail "exit status of the daemon"
	rm "$EXPORT/kept"
}
note "the daemon hangs"
mount_start 1 close=async,flush_age=600
on node1 sh -c "echo kept >'$M/kept'; exec python3 '$TOP/test/programs/pages.py' '$M/read'" >/dev/null 2>&1 &
until_ok 60 "what is to be kept" grep -qx kept "$(seen_from_here 1)/kept" || fail "not written"
kill -STOP "${DAEMON[node1]}"
kairan 1 umount --force "$M" >"$WORK/said" 2>&1
[ $? = 1 ] || fail "kairan umount --force: $(cat "$WORK/said")"
grep -q "process ${DAEMON[node1]}) still runs" "$WORK/said" || fail "kairan umount --force does not tell: $(cat "$WORK/said")"
! on node1 grep -q " $M fuse" /proc/mounts || fail "kairan umount --force leaves the mount"
kill -KILL "${DAEMON[node1]}"
wait "${DAEMON[node1]}" 2>/dev/null
unstuck "kairan umount --force"

note "kairan umount"
stick
kairan 1 umount "$M" >"$WORK/said"
[ $? = 1 ] || fail "kairan umount: $(cat "$WORK/said")"
grep -q "is gone" "$WORK/said" || fail "kairan umount does not tell: $(cat "$WORK/said")"
unstuck "kairan umount"

note "umount -f"
stick
on node1 timeout -s KILL 60 umount -f "$M" || on node1 umount -l "$M" # the programs had it open until it was aborted
unstuck "umount -f"
finish
