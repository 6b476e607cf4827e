# flock and byte-range locks: they exclude across nodes, wait, end with whoever held them, and survive the server.
# tags: sanitizer long
# timeout: 400
LEASE=4
. "$TOP/test/lib.sh"
cat >"$WORK/lk.py" <<'END'
"""lk.py PATH KIND(flock|posix) MODE(sh|ex) ACTION...: try = exit 1 if refused; hold = lock, say so, stay; wait = wait for it"""
import fcntl, os, signal, sys
path, kind, mode, action = sys.argv[1:5]
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
how = {"sh": fcntl.LOCK_SH, "ex": fcntl.LOCK_EX}[mode] | (fcntl.LOCK_NB if action == "try" else 0)
lock = fcntl.flock if kind == "flock" else fcntl.lockf
if action == "interrupted":
    def stop(*a):
        raise InterruptedError
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        lock(fd, how)
    except InterruptedError:
        sys.exit(0)
    sys.exit(1)
try:
    lock(fd, how)
except BlockingIOError:
    sys.exit(1)
print("locked", flush=True)
if action == "hold":
    sys.stdin.read()
    signal.pause()
END
lk() { local node=$1; shift; on "node$node" timeout -s KILL 60 python3 "$WORK/lk.py" "$(mnt "$node")/$1" "${@:2}" </dev/null; }
# hold NODE FILE KIND MODE: in the background; HELD is the pid of the program itself.
hold() {
	: >"$WORK/held"
	nsenter -t "${KEEPER[node$1]}" -n -u -m -- python3 "$WORK/lk.py" "$(mnt "$1")/$2" "$3" "$4" hold </dev/null >"$WORK/held" 2>&1 &
	HELD=$!
	until_ok 20 "lock on node$1" grep -q locked "$WORK/held" || { cat "$WORK/held" >&2; fail "node$1 does not get $3 $4"; }
}
# wait_for NODE FILE KIND MODE: a program that waits, in the background.
wait_for() {
	: >"$WORK/waited"
	nsenter -t "${KEEPER[node$1]}" -n -u -m -- python3 "$WORK/lk.py" "$(mnt "$1")/$2" "$3" "$4" wait </dev/null >"$WORK/waited" 2>&1 &
	WAITER=$!
}
drop() { kill -KILL "$HELD"; wait "$HELD" 2>/dev/null; true; }
refused() { lk "$@" try >/dev/null 2>&1 && fail "granted: $*"; true; }
granted() { until_ok 20 "granted: $*" lk "$@" try || fail "not granted: $*"; }

up 3
for kind in flock posix; do
	note "$kind: exclusion, on one node and across; end of the holder"
	hold 1 f $kind ex
	refused 1 f $kind ex; refused 2 f $kind sh; refused 3 f $kind ex
	other=$([ $kind = flock ] && echo posix || echo flock)
	granted 2 f "$other" ex
	wait_for 2 f $kind ex
	sleep 1
	alive $WAITER || fail "the waiter did not wait"
	drop
	wait $WAITER || fail "the waiter was not woken"
	grep -q locked "$WORK/waited" || fail "the waiter has no lock"
	granted 3 f $kind ex
	hold 1 f $kind sh
	granted 2 f $kind sh
	refused 3 f $kind ex
	note "$kind: a wait is interrupted, and leaves nothing behind"
	lk 2 f $kind ex interrupted || fail "not interrupted"
	drop
	granted 3 f $kind ex
	hold 1 f $kind ex
	wait_for 2 f $kind ex
	sleep 0.5
	kill -KILL $WAITER
	until_ok 10 "a killed waiter ends" gone $WAITER || fail "a killed waiter hangs"
	wait $WAITER 2>/dev/null
	drop
	granted 3 f $kind ex
done

note "the server is killed while locks are held"
hold 1 f posix ex; first=$HELD
hold 2 g posix ex; second=$HELD
hold 2 h flock ex; third=$HELD
wait_for 3 f posix ex; killed=$WAITER
wait_for 2 f posix ex
sleep 0.5
server_kill
kill -KILL $killed $second
until_ok 10 "a killed waiter ends without a server" gone $killed || fail "a killed waiter hangs without a server"
until_ok 10 "a killed holder ends without a server" gone $second || fail "a killed holder hangs without a server"
wait $killed $second 2>/dev/null
server_start
refused 2 f posix sh; refused 3 h flock sh
granted 3 g posix ex
alive $WAITER || fail "a lock was given away"
HELD=$third; drop; granted 3 h flock ex
HELD=$first; drop
wait $WAITER || fail "a waiter was not woken after the restart"
granted 2 f posix ex

note "a server that is stopped gives nothing away"
hold 1 f posix ex
wait_for 2 f posix ex
sleep 0.5
server_stop || fail "the server's end"
server_start
refused 3 f posix ex
alive $WAITER || fail "a lock was given away"
drop
wait $WAITER || fail "a waiter was not woken"

note "the holder's kairanfs is killed: free after the lease time"
hold 3 f posix ex
killed=$SECONDS
mount_kill 3
# A slow machine may need so long for this that the lease has ended.
! lk 1 f posix ex try >/dev/null 2>&1 || [ $((SECONDS - killed)) -ge $((LEASE / 2)) ] || fail "granted before the lease has ended"
drop
granted 1 f posix ex
mount_start 3

note "a node that was cut off for too long has lost its lock, and what waits to be written under it is not"
hold 3 f posix ex
cat >"$WORK/locked_writes.py" <<'END'
"""locked_writes.py PATH DOOR: locks a file; at a line on stdin writes to it, as a batch and plainly; both must fail"""
import ctypes, errno, fcntl, mmap, os, struct, sys, threading
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
fcntl.lockf(fd, fcntl.LOCK_EX)
token = fcntl.ioctl(fd, 0x80106B72, bytes(16))
door = os.open(sys.argv[2], os.O_WRONLY)
batch = struct.pack("=II16sQQQ", 0x6B726231, 1, token, 4, 10, 4) + b"late"
page = mmap.mmap(-1, 4096)
page[:len(batch)] = batch
libc = ctypes.CDLL(None, use_errno=True)
libc.write.restype = ctypes.c_ssize_t
said = {}
def write_batch():
    got = libc.write(door, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page))), ctypes.c_size_t(len(batch)))
    said["batch"] = ctypes.get_errno() if got < 0 else 0
def write_plainly():
    try:
        os.pwrite(fd, b"late", 20)
        said["plain"] = 0
    except OSError as error:
        said["plain"] = error.errno
print("locked", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=write_batch), threading.Thread(target=write_plainly)]
for thread in threads: thread.start()
print("writing", flush=True)
for thread in threads: thread.join()
assert said == {"batch": errno.EBADF, "plain": errno.EIO}, said
print("refused", flush=True)
END
mkfifo "$WORK/go"
nsenter -t "${KEEPER[node3]}" -n -u -m -- timeout -s KILL 120 python3 "$WORK/locked_writes.py" "$(mnt 3)/g" "$(mnt 3)/.kairan" <"$WORK/go" >"$WORK/writes" 2>&1 &
writer=$!
exec 7>"$WORK/go"
until_ok 30 "the second lock" grep -q locked "$WORK/writes" || { cat "$WORK/writes" >&2; fail "no lock on g"; }
cut_link node3
granted 1 f posix ex
granted 1 g posix ex
echo >&7
until_ok 30 "writes that wait" grep -q writing "$WORK/writes" || fail "nothing is written"
heal_link node3
until_ok 30 "the loss in the log" grep -q "has lost its byte-range lock on f:" "$WORK/node3/log" || fail "the loss is not in the log"
wait $writer || { cat "$WORK/writes" >&2; fail "written under a lock that was lost"; }
exec 7>&-
drop
[ ! -s "$EXPORT/g" ] || fail "g has bytes that were written under a lock that was lost"
until_ok 30 "node 3 is back" lk 3 f posix ex try || fail "node 3 gets no lock any more"

note "an open file description's locks, circles, and ranges as on a local file system"
cat >"$WORK/ranges.py" <<'END'
import errno, fcntl, os, random, struct, sys
OFD_SETLK = 37
def pack(kind, start, length): return struct.pack("hhqqi4x", kind, 0, start, length, 0)
def set(fd, kind, start, length, cmd=fcntl.F_SETLK):
    try:
        fcntl.fcntl(fd, cmd, pack(kind, start, length)); return 0
    except OSError as e: return e.errno
def get(fd, kind, start, length):
    r = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, pack(kind, start, length)))
    return (r[0],) + (r[2:4] if r[0] != fcntl.F_UNLCK else ())
class Process: # answers commands on two descriptors: local file, mounted file
    def __init__(self, paths):
        self.r, w = os.pipe(); r, self.w = os.pipe()
        if os.fork() == 0:
            os.close(self.w); os.close(self.r)
            fds = [os.open(p, os.O_RDWR | os.O_CREAT, 0o644) for p in paths]
            for line in os.fdopen(r):
                c = eval(line)
                if c[0] == "reopen":
                    for p in paths: os.close(os.open(p, os.O_RDONLY))
                    out = [0, 0]
                elif c[0] == "get": out = [get(fd, *c[1:]) for fd in fds]
                else: out = [set(fd, *c[1:]) for fd in fds]
                os.write(w, (repr(out) + "\n").encode())
            os._exit(0)
        os.close(r); os.close(w); self.f = os.fdopen(self.r)
    def do(self, *c):
        os.write(self.w, (repr(c) + "\n").encode()); return eval(self.f.readline())
local, mounted = sys.argv[1:3]
a = Process([local, mounted]); b = Process([local, mounted])
rnd = random.Random(7)
refused = 0
for i in range(1500):
    p = rnd.choice([a, b])
    kind = rnd.choice([fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK])
    start = rnd.randrange(40)
    length = rnd.choice([0, 1, 2, 5, 10, -3]) if start >= 3 else rnd.choice([0, 1, 4])
    c = ("set", kind, start, length)
    if rnd.random() < 0.05: c = ("reopen",)
    elif rnd.random() < 0.2 and kind != fcntl.F_UNLCK: c = ("get", kind, start, length)
    x, y = p.do(*c)
    refused += x in (errno.EAGAIN, errno.EACCES)
    assert x == y, (i, c, "local", x, "mounted", y)
assert refused > 100, refused
# OFD locks: two descriptions of one process exclude each other; the last close frees
f1, f2 = os.open(mounted + "2", os.O_RDWR | os.O_CREAT, 0o644), os.open(mounted + "2", os.O_RDWR)
assert set(f1, fcntl.F_WRLCK, 0, 0, OFD_SETLK) == 0
assert set(f2, fcntl.F_RDLCK, 5, 1, OFD_SETLK) == errno.EAGAIN
os.close(os.open(mounted + "2", os.O_RDONLY)) # frees nothing
assert set(f2, fcntl.F_RDLCK, 5, 1, OFD_SETLK) == errno.EAGAIN
os.close(f1)
import time
limit = time.time() + 20
while set(f2, fcntl.F_RDLCK, 5, 1, OFD_SETLK): assert time.time() < limit, "an OFD lock outlives its description"
# a circle
fd = os.open(mounted + "3", os.O_RDWR | os.O_CREAT, 0o644)
fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
r, w = os.pipe()
if os.fork() == 0:
    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 1)
    os.write(w, b"x")
    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
    os._exit(0)
os.read(r, 1)
end = time.time() + 20
while get(fd, fcntl.F_WRLCK, 1, 1)[0] == fcntl.F_UNLCK: assert time.time() < end
time.sleep(1)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 1)
    sys.exit("a circle is not refused")
except OSError as e: assert e.errno == errno.EDEADLK, e
fcntl.lockf(fd, fcntl.LOCK_UN, 1, 0)
os.wait()
END
on node1 timeout -s KILL 120 python3 "$WORK/ranges.py" "$WORK/local-file" "$(mnt 1)/ranges" || fail "ranges differ from a local file system's"

note "counters: lock, read, write, unlock, from three nodes"
cat >"$WORK/count.py" <<'END'
import fcntl, os, sys
path, kind, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
lock, un = (fcntl.flock, fcntl.LOCK_UN) if kind == "flock" else (fcntl.lockf, fcntl.LOCK_UN)
for i in range(times):
    lock(fd, fcntl.LOCK_EX)
    os.pwrite(fd, b"%08d" % (int(os.pread(fd, 8, 0) or b"0") + 1), 0)
    lock(fd, un)
END
for kind in flock posix; do
	jobs=
	for i in 1 2 3; do
		on "node$i" timeout -s KILL 100 python3 "$WORK/count.py" "$(mnt "$i")/count-$kind" $kind 60 & jobs="$jobs $!"
		on "node$i" timeout -s KILL 100 python3 "$WORK/count.py" "$(mnt "$i")/count-$kind" $kind 60 & jobs="$jobs $!"
	done
	for job in $jobs; do wait "$job" || fail "a counter ended badly"; done
	[ "$(on node2 cat "$(mnt 2)/count-$kind")" = 00000360 ] || fail "$kind: increments were lost: $(on node2 cat "$(mnt 2)/count-$kind")"
done

note "SQLite from two nodes at once"
cat >"$WORK/sql.py" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=100, isolation_level=None)
for i in range(30):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO t(node, i, filler) VALUES(?, ?, ?)", (sys.argv[2], i, "x" * 500))
    db.execute("UPDATE s SET n = n + 1")
    db.execute("COMMIT")
END
on node1 python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
db.executescript("CREATE TABLE t(node, i, filler); CREATE INDEX x ON t(node, i); CREATE TABLE s(n); INSERT INTO s VALUES(0);")' "$(mnt 1)/db" || fail "no database"
on node1 timeout -s KILL 120 python3 "$WORK/sql.py" "$(mnt 1)/db" a & one=$!
on node2 timeout -s KILL 120 python3 "$WORK/sql.py" "$(mnt 2)/db" b & two=$!
wait $one && wait $two || fail "SQLite ended badly"
found=$(on node3 python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("PRAGMA integrity_check").fetchone()[0], db.execute("SELECT count(*) FROM t").fetchone()[0], db.execute("SELECT n FROM s").fetchone()[0])' "$(mnt 3)/db")
[ "$found" = "ok 60 60" ] || fail "SQLite: $found"
finish
