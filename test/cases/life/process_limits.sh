# Limits of a process: where pids.max of a job's cgroup is reached, a daemon does not begin, and says why, or goes on with the threads that it
# has; beyond ulimit -f there is EFBIG, and no daemon dies; within ulimit -n a server with many files opens what it needs.
. "$TOP/test/lib.sh"
GROUP=/sys/fs/cgroup/pids/kairan-test.$PPID.$RANDOM
[ -d /sys/fs/cgroup/pids ] && mkdir "$GROUP" || skip "no controller pids of cgroup v1 at /sys/fs/cgroup/pids"
# Takes what is left out of the group: the case's processes end with its PID namespace, after this.
ungroup() { while read -r pid; do echo "$pid" >"${GROUP%/*}/cgroup.procs"; done <"$GROUP/cgroup.procs"; rmdir "$GROUP"; }
trap ungroup EXIT
cluster 1
IN_GROUP=(bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP")
SAID="cannot start [0-9]* threads .*ulimit -u, and pids.max"

note "a server"
echo 6 >"$GROUP/pids.max"
on server "${IN_GROUP[@]}" "$B/server/kairand" --state "$WORK/state1" "$EXPORT" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "$SAID" "$WORK/said" || fail "kairand within a limit: $(cat "$WORK/said")"
echo max >"$GROUP/pids.max"
nsenter -t "${KEEPER[server]}" -n -u -m -- "${IN_GROUP[@]}" "$B/server/kairand" --listen "0.0.0.0:$PORT" --insecure --state "$WORK/state" "$EXPORT" \
	</dev/null >"$WORK/kairand.log" 2>&1 &
DAEMON[server]=$!
until_ok 20 "kairand" grep -q ready "$WORK/kairand.log" || fail "kairand: $(cat "$WORK/kairand.log")"
cat "$GROUP/pids.current" >"$GROUP/pids.max"
mount_start 1
on node1 sh -c "mkdir $(mnt 1)/d && echo here >$(mnt 1)/d/file && ls $(mnt 1)/d" >/dev/null || fail "a server that gets no more threads"
mount_stop 1
server_stop

note "a mount"
server_start
echo 6 >"$GROUP/pids.max"
on node1 "${IN_GROUP[@]}" "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -o "local=$WORK/node1/local" >"$WORK/said" 2>&1 && fail "mounted"
grep -q "$SAID" "$WORK/said" && ! on node1 grep -q "$(mnt 1)" /proc/mounts || fail "kairanfs within a limit: $(cat "$WORK/said")"
echo max >"$GROUP/pids.max"
nsenter -t "${KEEPER[node1]}" -n -u -m -- "${IN_GROUP[@]}" "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -f -o "local=$WORK/node1/local" \
	</dev/null >>"$WORK/node1/log" 2>&1 &
DAEMON[node1]=$!
is_mounted() { tail -1 "$WORK/node1/log" | grep -q "is mounted on"; }
until_ok 20 "the mount" is_mounted || fail "no mount: $(tail -3 "$WORK/node1/log")"
cat "$GROUP/pids.current" >"$GROUP/pids.max"
head -c 3000000 /dev/urandom >"$EXPORT/read"
same "$(seen_from_here 1)/read" "$EXPORT/read"
dd if="$EXPORT/read" of="$(seen_from_here 1)/written" bs=1M conv=fsync 2>/dev/null || fail "a mount that gets no more threads"
same "$EXPORT/written" "$EXPORT/read"
kairan 1 stage --wait "$(mnt 1)/read" >"$WORK/said" || fail "kairan stage: $(cat "$WORK/said")"
mount_stop 1
server_stop
in_limit() { # HOST ULIMIT-OPTION DAEMON...
	nsenter -t "${KEEPER[$1]}" -n -u -m -- bash -c "ulimit $2 && exec \"\$@\"" limited "${@:3}" </dev/null >>"$WORK/${LOG:-kairand.log}" 2>&1 &
	DAEMON[$1]=$!
}
KAIRAND=("$B/server/kairand" --listen "0.0.0.0:$PORT" --insecure --state "$WORK/state" "$EXPORT")
ready() { [ "$(grep -c ready "$WORK/kairand.log")" -gt "$1" ]; }
limited_server() {
	local before
	before=$(grep -c ready "$WORK/kairand.log")
	in_limit server "$1" "${KAIRAND[@]}"
	until_ok 20 "kairand" ready "$before" || fail "kairand: $(tail -3 "$WORK/kairand.log")"
}

note "files beyond the server's limit of their size"
EXPECTED_ERRORS='File too large'
limited_server "-f 4000"
mount_start 1
dd if=/dev/zero of="$(seen_from_here 1)/big" bs=1M count=8 2>"$WORK/said" && fail "8 MiB in a file of at most 4"
grep -q "File too large" "$WORK/said" || fail "dd: $(cat "$WORK/said")"
gone "${DAEMON[server]}" && fail "kairand died of it"
kairan 1 status "$(mnt 1)" | grep -q "big: .*, refused: File too large" || fail "$(kairan 1 status "$(mnt 1)")"
[ "$(on node1 ls "$(mnt 1)" | wc -l)" = 4 ] || fail "ls: $(on node1 ls "$(mnt 1)")"
rm "$(seen_from_here 1)/big"
kairan 1 flush "$(mnt 1)" >/dev/null || fail "the bytes of a file that was removed"
mount_stop 1

note "a journal beyond the node's limit of a file's size"
LOG=node1/log in_limit node1 "-f 1000" "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -f -o "local=$WORK/node1/local"
until_ok 20 "the mount" is_mounted || fail "no mount: $(tail -3 "$WORK/node1/log")"
dd if=/dev/zero of="$(seen_from_here 1)/refused" bs=1M count=3 2>"$WORK/said" && fail "where was that written?"
same "$(seen_from_here 1)/read" "$EXPORT/read"
gone "${DAEMON[node1]}" && fail "kairanfs died of it"
kairan 1 umount "$(mnt 1)" >/dev/null || fail "umount"
server_stop

note "more files than the server may have open"
limited_server "-n 128"
mount_start 1
mkdir "$WORK/many" && for i in $(seq 400); do echo "$i" >"$WORK/many/$i"; done
on node1 cp -r "$WORK/many" "$(mnt 1)/many" 2>"$WORK/said" || fail "cp: $(head -3 "$WORK/said")"
diff -r "$WORK/many" "$EXPORT/many" || fail "other files"
# The syncs of the copies may come just then.
EXPECTED_ERRORS+='|(syncing a (directory|file) failed|cannot write .* a (failed )?sync .*): Too many open files'
prlimit --pid "${DAEMON[server]}" --nofile=3: || fail "prlimit"
on node1 touch "$(mnt 1)/new" 2>"$WORK/said" && fail "made without a descriptor"
grep -q "Too many open files in system" "$WORK/said" || fail "the server's limit, told as the program's: $(cat "$WORK/said")"
prlimit --pid "${DAEMON[server]}" --nofile=128: || fail "prlimit"
on node1 touch "$(mnt 1)/new" || fail "with descriptors again"
mount_stop 1
finish
