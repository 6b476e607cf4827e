# soft: when the server is silent every wait ends: reads, stat, fsync and close; what is journaled is kept and goes when it can.
. "$TOP/test/lib.sh"
cluster 1
server_start
mount_start 1 soft,timeo=2s
head -c 3000000 /dev/urandom >"$WORK/before"
cp "$WORK/before" "$EXPORT/file"
on node1 sh -c "echo x >$(mnt 1)/open" || fail "first write"
on node1 timeout -s KILL 100 python3 - "$(mnt 1)" "${DAEMON[server]}" <<'P' || fail "a wait did not end as it should"
import errno, os, signal, sys
mount, server = sys.argv[1], int(sys.argv[2])
fd = os.open(mount + "/written", os.O_RDWR | os.O_CREAT, 0o644)
other = os.open(mount + "/file", os.O_RDWR)
os.pwrite(fd, b"a", 0)                        # the lease is here now
os.kill(server, signal.SIGSTOP)
def times_out(what, call):
    try:
        call()
        sys.exit(what + " succeeded without a server")
    except OSError as error:
        if error.errno != errno.ETIMEDOUT:
            sys.exit("%s: %s" % (what, error))
try:
    assert os.pwrite(fd, b"kept", 0) == 4
    times_out("fsync", lambda: os.fsync(fd))
    times_out("read", lambda: os.pread(other, 10, 2000000))
    times_out("stat", lambda: os.stat(mount + "/none"))
    times_out("close", lambda: os.close(fd))
finally:
    os.kill(server, signal.SIGCONT)
P
until_ok 60 "all is flushed" on node1 "$B/tools/kairan" flush "$(mnt 1)" || fail "not drained: $(kairan 1 status "$(mnt 1)")"
[ "$(cat "$EXPORT/written")" = kept ] || fail "the bytes of a write whose close timed out: $(cat "$EXPORT/written")"
cmp "$WORK/before" "$EXPORT/file" || fail "what failed came through"
finish
