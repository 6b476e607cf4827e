# A mount is unmounted, and another mount namespace holds it: its daemon flushes at once, also what is written from then on, says so in its log,
# and a mount with the same local directory is told the cause.
. "$TOP/test/lib.sh"
cluster 1
server_start
mount_start 1 close=async,flush_age=600
M=$(mnt 1)
K=${KEEPER[node1]}
# A container, say: a copy of the mount in a namespace to which no unmount propagates.
nsenter -t "$K" -n -u -m -- unshare --mount --propagation private sleep 1000000 &
holder=$!
until_ok 10 "another namespace" sh -c "[ \$(readlink /proc/$holder/ns/mnt) != \$(readlink /proc/$K/ns/mnt) ] && grep -q ' $M ' /proc/$holder/mounts" || fail "no namespace"
elsewhere() { nsenter -t "$holder" -m -- "$@"; }
on node1 sh -c "echo one >$M/a" || fail "not written"
kairan 1 status "$M" | grep -q "unflushed   a: 4 bytes" || fail "it is not left to its age: $(kairan 1 status "$M")"
on node1 fusermount3 -u "$M" || fail "not unmounted"
until_ok 20 "the bytes" grep -q one "$EXPORT/a" || fail "not flushed"
until_ok 20 "a line in the log" grep -q "$M is no longer mounted here, but in use: .*flush" "$WORK/node1/log" || fail "the log: $(tail -3 "$WORK/node1/log")"
elsewhere sh -c "echo two >$M/b" || fail "it cannot be used elsewhere"
until_ok 20 "what was written after that" grep -q two "$EXPORT/b" || fail "left to its age"
! on node1 "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$M" -o "local=$WORK/node1/local" 2>"$WORK/said" || fail "two daemons with one local directory"
grep -q "unmounted here but held by another mount namespace" "$WORK/said" || fail "does not name the cause: $(cat "$WORK/said")"
kill "$holder"
wait "${DAEMON[node1]}" || fail "exit status $?"
[ "$(grep -c "no longer mounted here" "$WORK/node1/log")" = 1 ] || fail "said more than once"

note "an unmount that nobody holds up says nothing of it"
mount_start 1
mount_stop 1 || fail "unmount"
[ "$(grep -c "no longer mounted here" "$WORK/node1/log")" = 1 ] || fail "it does"
finish
