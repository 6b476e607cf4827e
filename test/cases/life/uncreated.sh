# The server loses its power before the names of new files are on its disk: their node makes them anew, each under its present name, and
# the programs that have them open go on.  What was removed stays removed, and what can have been removed comes back as a conflict file.
# tags: faults
# timeout: 200
. "$TOP/test/lib.sh"
cluster 2
. "$TOP/test/lib-power.sh"

KR_FAULT="@$WORK/fault" server_start
mounts_start flush_age=600
M=$(mnt 1)
on node1 mkdir "$M/old" "$M/shared"
put 1 old/durable durable fsync
# Made before the snapshot, and removed on the server.
on node1 python3 - "$M/shared/removed" "$WORK" <<'P' &
import os, sys, time
path, work = sys.argv[1:]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
open(work + "/made", "w").close()
while not os.path.exists(work + "/again"): time.sleep(0.05)
try: os.pwrite(fd, b"removed", 0); os.fsync(fd)
except OSError as error: print(error)
P
remover=$!
until_ok 60 "a file in shared" test -e "$WORK/made" || fail "no file is made"
rm "$E/shared/removed" || fail "no file to remove"
snapshot
syncs off # the node hears of nothing that is durable
cat >"$WORK/program" <<'P'
import errno, fcntl, os, sys, time
mount, work = sys.argv[1:]
os.chdir(mount)
files = {}
def make(path, text, keep=True, mode=0o640):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    os.write(fd, text.encode())
    if keep: files[path] = fd
    else: os.close(fd)
    return fd
def wait(name):
    open(f"{work}/{name}.asked", "w").close()
    while not os.path.exists(f"{work}/{name}"): time.sleep(0.05)
make("plain", "plain1")
make("closed", "closed1", keep=False)
make("old/in-old", "in-old1")
os.mkdir("new"), os.mkdir("new/deep"), os.chmod("new/deep", 0o2750)
make("new/deep/in-new", "in-new1")
make("before", "renamed1"); os.rename("before", "new/after")
make("temporary", "replaced1"), make("replacing", "replacing1")
os.rename("replacing", "temporary"); os.link("temporary", "temporary2"); os.unlink("temporary")
os.mkdir("moved"); make("moved/child", "child1"); os.rename("moved", "old/moved-to")
make("linked", "linked1"); os.link("linked", "new/second")
make("removed", "removed1"); os.unlink("removed")
make("gone", "gone1", keep=False); os.unlink("gone")
make("changed", "changed1"); os.chmod("changed", 0o604)
make("empty", "")
try:
    files["nameless"] = os.open(".", os.O_RDWR | os.O_TMPFILE, 0o600)
    os.write(files["nameless"], b"nameless1")
except OSError as error: assert error.errno == errno.EOPNOTSUPP, error # before Linux 6.6
fcntl.lockf(files["plain"], fcntl.LOCK_EX)
wait("back")
for text in "2", "3":
    for path, fd in files.items():
        had = os.fstat(fd).st_size
        os.pwrite(fd, text.encode(), had)
        assert os.fstat(fd).st_size == had + 1, path
        name = {"before": "renamed", "temporary": "replaced", "new/deep/in-new": "in-new", "old/in-old": "in-old",
            "moved/child": "child", "empty": ""}.get(path, path)
        want = "23"[:int(text) - 1] if path == "empty" else name + "123"[:int(text)]
        assert os.pread(fd, 99, 0).decode() == want, (path, os.pread(fd, 99, 0), want)
        os.fsync(fd)
    wait("again" if text == "2" else "end")
assert os.stat("plain").st_ino == os.fstat(files["plain"]).st_ino
P
on node1 python3 "$WORK/program" "$M" "$WORK" &
program=$!
until_ok 60 "the program" sh -c "[ -e '$WORK/back.asked' ] || ! kill -0 $program" && alive $program || fail "the program has made nothing"
power_loss
[ ! -e "$E/plain" ] && [ ! -e "$E/new" ] && [ ! -e "$E/old/in-old" ] || fail "the loss of power loses nothing"
rm "$WORK/fault"
KR_FAULT="@$WORK/fault" server_start
for node in 1 2; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
# seen DIR N: what node 1 has made is there, and nothing else.
seen() {
	(cd "$1" && find . -mindepth 1 -path ./.kairan -prune -o -path ./lost+found -prune -o -path ./shared -prune -o -type f -printf '%p %n %m ' \
		-exec head -c 99 '{}' \; -exec echo \; -o -printf '%p %m\n' | sort) >"$WORK/seen"
	cat >"$WORK/wanted" <<-W
		./changed 1 604 changed1$2
		./closed 1 640 closed1
		./empty 1 640 $2
		./linked 2 640 linked1$2
		./new 755
		./new/after 1 640 renamed1$2
		./new/deep 2750
		./new/deep/in-new 1 640 in-new1$2
		./new/second 2 640 linked1$2
		./old 755
		./old/durable 1 644 durable
		./old/in-old 1 640 in-old1$2
		./old/moved-to 755
		./old/moved-to/child 1 640 child1$2
		./plain 1 640 plain1$2
		./temporary2 1 640 replacing1$2
	W
	diff "$WORK/wanted" "$WORK/seen" || fail "this is in $1"
}
touch "$WORK/back"
until_ok 60 "the program goes on" sh -c "[ -e '$WORK/again.asked' ] || ! kill -0 $program" && alive $program || fail "the program does not go on"
seen "$(seen_from_here 2)" 2
seen "$E" 2
! on node2 python3 -c "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)" "$(mnt 2)/plain" 2>/dev/null || fail "a lock is lost"
[ "$(ls "$E/.kairan/orphans" | wc -l)" -ge 2 ] || fail "what is open without a name: $(ls "$E/.kairan/orphans")"

note "the server is killed: the identities stay"
server_kill
KR_FAULT="@$WORK/fault" server_start
for node in 1 2; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
touch "$WORK/again"
until_ok 60 "the program goes on" sh -c "[ -e '$WORK/end.asked' ] || ! kill -0 $program" && alive $program || fail "the program does not go on"
wait $remover
[ ! -e "$E/shared/removed" ] || fail "what was removed has come back"
touch "$WORK/end"
wait $program || fail "the program fails"
seen "$(seen_from_here 2)" 23
seen "$E" 23

note "the mount is killed: its journal goes on, too"
mount_kill_with 1 "$M/plain" PLAIN
mount_start 1 flush_age=600
until_ok 60 "node 1 drains" kairan 1 flush --timeout 5 "$M" || fail "node 1 keeps something"
begins plain PLAIN
! find "$E" -name '*.conflict-*' ! -path "$E/shared/*" | grep . || fail "there are conflict files"
finish
