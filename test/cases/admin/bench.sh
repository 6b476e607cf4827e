# kairan bench: its figures are those of the link and of what is done, it leaves nothing behind, also when interrupted, and refuses a small disk.
# tags: long
# timeout: 300
. "$TOP/test/lib.sh"
K=$B/tools/kairan
cluster 1 200mbit
server_start
mounts_start
M=$(mnt 1)
bare() { [ -z "$(ls -A -I .kairan "$EXPORT")" ] && ! compgen -G "$WORK/node1/local/.kairan-bench-*" >/dev/null; }

note "a link of 200 Mbit/s"
before=$(sent_by server)
start=$SECONDS
kairan 1 bench --json "$M" >"$WORK/said" 2>&1 || fail "$(cat "$WORK/said")"
took=$((SECONDS - start))
cat "$WORK/said"
[ $took -le $((60 * SLOW)) ] || fail "it took $took s"
python3 - "$WORK/said" "$M" "$WORK/node1/local" $(($(sent_by server) - before)) "$SLOW" <<'P' || fail "see above"
import json, sys
said, mount, local, sent, slow = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
assert said["mount"]["directory"] == mount and said["local"]["directory"] == local, said
assert said["mount"]["filesystem"] == "fuse.kairanfs" and 8 << 20 <= said["file_bytes"] <= 256 << 20, said
assert sent >= said["file_bytes"], "what is called cold did not come over the link: %d" % sent
link = 25e6 # bytes per second
rates = said["mount"]
for name in "write_close", "write_fsync", "read_cold":
    assert link / 2 / slow < rates[name + "_bytes_per_s"] < link * 1.1, (name, rates)
assert rates["read_warm_bytes_per_s"] > link * 2, rates
for name in "create", "stat", "read", "remove":
    assert rates[name + "_files_per_s"] > 1 and said["local"][name + "_files_per_s"] > 1, name
assert 0 < said["link"]["connect_ms"] < 1000 and said["link"]["interface"] == "eth0", said["link"]
P
bare || fail "it leaves $(ls -A "$EXPORT" "$WORK/node1/local")"

note "a table for people; an ordinary user"
mkdir -m 777 "$EXPORT/open"
until_ok 20 "a directory" on node1 test -d "$M/open"
on node1 setpriv --reuid 7 --regid 7 --clear-groups "$K" bench "$M/open" >"$WORK/said" 2>&1 || fail "$(cat "$WORK/said")"
cat "$WORK/said"
grep -qx "local  /var/tmp (.*)" "$WORK/said" && grep -q '^  read, cold  *[0-9.]*  *[0-9.]*$' "$WORK/said" || fail "no table"
! compgen -G "/var/tmp/.kairan-bench-*" || fail "it leaves files in /var/tmp"
on node1 setpriv --reuid 7 --regid 7 --clear-groups "$K" bench "$M" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q "cannot make a directory in $M: Permission denied" "$WORK/said" || fail "$(cat "$WORK/said")"
rmdir "$EXPORT/open"

note "interrupted, with progress on a terminal"
on node1 python3 - "$K" "$M" <<'P' || fail "in a terminal"
import os, pty, signal, sys, time
for number in signal.SIGINT, signal.SIGTERM:
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], ["kairan", "bench", sys.argv[2]])
    heard = b""
    while b"mount: write and fsync" not in heard:
        heard += os.read(fd, 4096)
    os.kill(pid, number)
    try:
        while os.read(fd, 4096):
            pass
    except OSError: # the terminal is closed
        pass
    assert os.waitpid(pid, 0)[1] & 0x7f == number, number
P
bare || fail "it leaves $(ls -A "$EXPORT" "$WORK/node1/local")"

note "too little space; wrong arguments"
for arguments in '' 'a b' '-x'; do
	# shellcheck disable=SC2086
	kairan 1 bench $arguments >"$WORK/said" 2>&1
	[ $? = 64 ] && [ -s "$WORK/said" ] || fail "$arguments: $(cat "$WORK/said")"
done
kairan 1 bench /usr >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q 'does not lie on a mount' "$WORK/said" || fail "$(cat "$WORK/said")"
mount_stop 1 || fail "unmount"
on node1 mount -t tmpfs -o mode=700,size=48M none "$WORK/node1/local"
mount_start 1
kairan 1 bench "$M" >"$WORK/said" 2>&1
[ $? = 1 ] && grep -q 'too little space: .* are free, and 64.0 MiB are wanted' "$WORK/said" || fail "$(cat "$WORK/said")"
bare || fail "it leaves $(ls -A "$EXPORT" "$WORK/node1/local")"
finish
