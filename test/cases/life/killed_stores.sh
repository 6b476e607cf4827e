# What a program stored through a mapping under an exclusive lock is at the server when the lock is given up: it survives
# the kill of the node's daemon.  So does a commit of SQLite with a write-ahead log, whose index is such a mapping.
# timeout: 90
. "$TOP/test/lib.sh"
maps_written || skip "this kernel maps no file that is open for writing"
up 2
started() { until_ok 10 "$2" grep -qs "$1" "$3"; }
# kill_node PID: kills node 1's daemon, then its program.
kill_node() {
	mount_kill 1
	kill -KILL $(cat "/proc/$1/task"/*/children) "$1" 2>/dev/null
	wait "$1" 2>/dev/null
	mount_start 1
}
note "stores under locks"
head -c 8192 /dev/zero >"$EXPORT/file"
cat >"$WORK/store.py" <<'EOF'
import fcntl, mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
pages = mmap.mmap(fd, 8192)
lock = {'fcntl': fcntl.lockf, 'flock': fcntl.flock}[sys.argv[2]]
for page in range(2):
    lock(fd, fcntl.LOCK_EX)
    pages[page * 4096:page * 4096 + 5] = sys.argv[2].encode()
    lock(fd, fcntl.LOCK_SH if page else fcntl.LOCK_UN)
print('stored', flush=True)
time.sleep(100)
EOF
for kind in fcntl flock; do
	rm -f "$WORK/said"
	on node1 python3 "$WORK/store.py" "$(mnt 1)/file" "$kind" >"$WORK/said" &
	program=$!
	started stored "$kind: stores" "$WORK/said"
	kill_node "$program"
	for page in 0 1; do
		found=$(on node2 dd if="$(mnt 2)/file" bs=4096 skip="$page" count=1 status=none | head -c 5)
		[ "$found" = "$kind" ] || fail "$kind: page $page has '$found'"
	done
done
note "SQLite"
cat >"$WORK/keep.py" <<'EOF'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute('pragma journal_mode=wal')
db.execute('create table rows(v)')
print('up', flush=True)
sys.stdin.readline()
db.execute("insert into rows values('kept')")
print([row[0] for row in db.execute('select v from rows')], db.execute('pragma integrity_check').fetchone()[0])
EOF
cat >"$WORK/commit.py" <<'EOF'
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute('pragma synchronous=full')
db.execute("insert into rows values('killed')")
print('committed', flush=True)
time.sleep(100)
EOF
mkfifo "$WORK/go"
on node2 python3 "$WORK/keep.py" "$(mnt 2)/db" <"$WORK/go" >"$WORK/kept" &
keeper=$!
exec 7>"$WORK/go"
started up "the database" "$WORK/kept"
on node1 python3 "$WORK/commit.py" "$(mnt 1)/db" >"$WORK/said" 7>&- &
program=$!
started committed "the commit" "$WORK/said"
kill_node "$program" 7>&-
echo >&7
exec 7>&-
wait "$keeper"
grep -qxF "['killed', 'kept'] ok" "$WORK/kept" || fail "SQLite: $(cat "$WORK/kept")"
finish
