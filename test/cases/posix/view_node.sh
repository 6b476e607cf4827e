# A file system of the node alone (-o view=node): as a local disk, in each way to do its I/O; its limit; its end, also by kill -9; two side by side.
# tags: sanitizer faults
# timeout: 300
. "$TOP/test/lib.sh"
cluster 1
M=$(mnt 1) LOCAL=$WORK/node1/view
rmdir "$WORK/node1/local"
M2=$WORK/node1/mnt2 && mkdir "$M2"

# view MOUNTPOINT LOCAL [OPTION,...]: in the background, so that its pid is known.
view() {
	nsenter -t "${KEEPER[node1]}" -n -u -m -- ${LIMITED:-} "$B/fuse/kairanfs" none "$1" -f -o "view=node,local=$2${3:+,$3}" </dev/null >>"$WORK/node1/log" 2>&1 &
	DAEMON[$1]=$!
	until_ok 30 "mount on $1" on node1 grep -q " $1 fuse.kairanfs" /proc/mounts || { tail -5 "$WORK/node1/log" >&2; fail "no mount on $1"; }
}
# ended MOUNTPOINT LOCAL: unmounted; its daemon ends well, and nothing of it is left on the disk.
ended() {
	kairan 1 umount "$1" || fail "kairan umount $1: $?"
	wait "${DAEMON[$1]}" || fail "the daemon of $1: exit status $?"
	[ ! -e "$2" ] || fail "left on the disk: $(find "$2" | head -5)"
}
field() { kairan 1 status --json "$1" | python3 -c "import json, sys; print(json.load(sys.stdin)['view']['$2'])"; }

note "as a local disk"
mkdir "$WORK/reference"
timeout -s KILL $((100 * SLOW)) python3 "$TOP/test/programs/survey.py" "$WORK/reference" >"$WORK/expected" 2>&1
[ "$(wc -l <"$WORK/expected")" -gt 150 ] && ! grep -q Traceback "$WORK/expected" || fail "the survey: $(tail -5 "$WORK/expected")"
# alike WAY: not alike are temporary files without a name (libfuse 3.14 has none).
alike() {
	on node1 mkdir "$M/survey" "$M/random" && mkdir "$WORK/random-$1"
	on node1 timeout -s KILL $((100 * SLOW)) python3 "$TOP/test/programs/survey.py" "$M/survey" >"$WORK/got" 2>&1
	local without='^$'
	grep -q '^ended by Operation not supported' "$WORK/got" && without='^O_TMPFILE|^linked|^read: b.temporary|^O_EXCL cannot|^ended by Operation not supported'
	diff <(grep -vE "$without" "$WORK/expected") <(grep -vE "$without" "$WORK/got") >"$WORK/diff" ||
		fail "$1: a local disk (<) and the view (>): $(head -20 "$WORK/diff")"
	# Without the right to keep set-user-ID bits at writes: here they go at root's, too.
	on node1 setpriv --bounding-set=-fsetid python3 "$TOP/test/programs/differential.py" --seed "${DIFFERENTIAL_SEED:-$RANDOM}" --ops 2000 "$WORK/random-$1" "$M/random" || fail "$1: differential"
}
view "$M" "$LOCAL"
ways=$(field "$M" passthrough)
alike unlimited
ended "$M" "$LOCAL"
view "$M" "$LOCAL" size=1T
alike counted
ended "$M" "$LOCAL"
old=
if grep -q KR_FAULT "$B/fuse/kairanfs"; then
	old=nothing
	KR_FAULT=shim.old_kernel:eio view "$M" "$LOCAL" size=1T
	alike old
	on node1 python3 "$TOP/test/programs/mappings.py" "$M" "$M" || fail "mappings"
	[ "$(field "$M" passthrough)" = nothing ] || fail "passthrough on an old kernel"
	ended "$M" "$LOCAL"
fi

note "the limit"
view "$M" "$LOCAL" size=32M
for what in start stop show; do
	kairan 1 trace $what "$M" 2>"$WORK/said" && fail "traced: $what"
	grep -q "cannot be traced" "$WORK/said" || fail "trace $what: $(cat "$WORK/said")"
done
# no COMMAND... EXPRESSION: what is so is said, and the exit code is 2.
no() {
	timeout -s KILL $((20 * SLOW)) nsenter -t "${KEEPER[node1]}" -n -u -m -- \
		"$B/tools/kairan" "${@:1:$#-1}" >"$WORK/said" 2>&1
	[ $? = 2 ] && grep -qE "${!#}" "$WORK/said" && [ "$(wc -l <"$WORK/said")" = 1 ] ||
		fail "kairan $*: $(cat "$WORK/said")"
}
for what in where stage; do no $what "$M" "none of it is on a server or on other nodes"; done
no log "$M" "has no log: its view is node"
no top -b -n 1 -d 0.1 "$M" "is scratch of this node .* has no rates: kairan status $M"
kairan 1 top -b -n 1 -d 0.1 | grep -q "^no mounts of a server here" || fail "kairan top"
[ "$(field "$M" size_bytes)" = $((32 << 20)) ] || fail "size_bytes"
on node1 sh -c "echo x >$M/x; cat $M/x; rm $M/x" # the first open tells
on node1 python3 "$TOP/test/programs/view_limit.py" "$M" "$(field "$M" passthrough)" || fail "the limit"
on node1 python3 - "$M" <<'P' || fail "holes of a full view"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(sys.argv[1] + "/full", os.O_RDWR | os.O_CREAT)
size = 0
try:
    while True:
        size += os.pwrite(fd, b"x" * 65536, size)
except OSError as error:
    assert error.errno == errno.ENOSPC, error
for blocks in [(100,), (100, 101), (100, 200, 300), tuple(range(100, 300, 10))]:
    for block in blocks:
        assert libc.fallocate(fd, 3, ctypes.c_int64(block * 4096), ctypes.c_int64(4096)) == 0
    for block in blocks:
        assert os.pwrite(fd, b"y" * 4096, block * 4096) == 4096
assert libc.fallocate(fd, 3, ctypes.c_int64(1 << 20), ctypes.c_int64(8 << 20)) == 0
assert libc.fallocate(fd, 3, ctypes.c_int64(12 << 20), ctypes.c_int64(8 << 20)) == 0
written = 0
while written < 8 << 20:
    written += os.pwrite(fd, b"z" * (min(1 << 20, (8 << 20) - written)), (1 << 20) + written)
other = os.open(sys.argv[1] + "/other", os.O_RDWR | os.O_CREAT)
room = 8 << 20
os.pwrite(other, b"o" * 4096, 0)
part = os.pwrite(fd, b"z" * (8 << 20), 12 << 20)  # all but a block
more = 0
try:
    while part + more < room: # beyond that there is no hole
        more += os.pwrite(fd, b"z" * min(65536, room - part - more), (12 << 20) + part + more)
except OSError as error:
    assert error.errno == errno.ENOSPC, error
assert room - 4 * 4096 < part + more <= room, (part, more) # blocks of the file's map count, too, and may be given back
taken = 512 * (os.fstat(fd).st_blocks + os.fstat(other).st_blocks)
assert taken <= 32 << 20, taken
os.unlink(sys.argv[1] + "/full")
os.unlink(sys.argv[1] + "/other")
P
ended "$M" "$LOCAL"
if [ "$old" ]; then
	KR_FAULT=shim.old_kernel:eio view "$M" "$LOCAL" size=32M
	on node1 python3 "$TOP/test/programs/view_limit.py" "$M" nothing || fail "the limit on an old kernel"
	ended "$M" "$LOCAL"
fi
note "without a limit the kernel passes $ways through"

note "a limit that the disk keeps"
# with_quota NAME MKFS...: a disk in a file, which counts projects; false: this kernel or machine has none.
with_quota() {
	local disk=$WORK/node1/$1
	shift
	truncate -s 400M "$disk.image" && mkdir "$disk" && "$@" "$disk.image" >/dev/null 2>&1 || return 1
	on node1 mount -o loop,prjquota "$disk.image" "$disk" 2>"$WORK/said"
}
disk_keeps_it() { # NAME
	local disk=$WORK/node1/$1 written
	view "$M" "$disk/view" size=32M
	[ "$(field "$M" limited_by)" = quota ] || fail "$1: limited by $(field "$M" limited_by)"
	[ "$(on node1 df --output=size -B1M "$M" | tail -1)" -eq 32 ] || fail "$1: df: $(on node1 df "$M")"
	on node1 dd if=/dev/zero of="$M/full" bs=64K 2>"$WORK/said" && fail "$1: no limit"
	grep -qE "No space left|quota exceeded" "$WORK/said" || fail "$1: $(cat "$WORK/said")"
	written=$(on node1 stat -c %s "$M/full")
	[ "$written" -le $((32 << 20)) ] && [ "$written" -gt $((31 << 20)) ] || fail "$1: $written bytes were written"
	[ "$(field "$M" used_bytes)" -gt $((31 << 20)) ] || fail "$1: used: $(field "$M" used_bytes)"
	on node1 rm "$M/full"
	on node1 python3 - "$M" >"$WORK/said" <<'P' || fail "$1: inodes"
import errno, os, sys
made = 0
try:
    while True:
        os.mknod("%s/n%d" % (sys.argv[1], made))
        made += 1
except OSError as error:
    assert error.errno == errno.ENOSPC, error
print(made)
P
	[ "$(cat "$WORK/said")" -gt 2000 ] && [ "$(cat "$WORK/said")" -le 2048 ] || fail "$1: $(cat "$WORK/said") inodes"
	note "$1: passthrough of $(field "$M" passthrough)"
	kill -KILL "${DAEMON[$M]}"
	wait "${DAEMON[$M]}" 2>/dev/null
	on node1 umount -l "$M"
	view "$M" "$disk/view" size=64M
	[ "$(on node1 df --output=used -B1M "$M" | tail -1)" -le 1 ] || fail "$1: what a killed mount held counts"
	ended "$M" "$disk/view"
	! command -v repquota >/dev/null || [ "$(on node1 repquota -P "$disk" 2>/dev/null | grep -c '^#[1-9]')" = 0 ] || fail "$1: projects are left: $(on node1 repquota -P "$disk")"
	on node1 umount "$disk"
}
if with_quota ext4 mkfs.ext4 -q -F -O quota,project; then disk_keeps_it ext4; else note "no project quota of ext4 here: $(cat "$WORK/said")"; fi
if command -v mkfs.xfs >/dev/null; then
	if with_quota xfs mkfs.xfs -q -f; then disk_keeps_it xfs; else note "no project quota of XFS here: $(cat "$WORK/said")"; fi
fi

note "two side by side"
mkdir -m 755 "$LOCAL"
view "$M" "$LOCAL" size=16M
[ "$(stat -c %a "$LOCAL")" = 700 ] || fail "others reach the files past the mount"
view "$M2" "$LOCAL.2" size=16M
on node1 dd if=/dev/zero of="$M/full" bs=1M 2>/dev/null && fail "no limit"
[ "$(on node1 stat -c %s "$M/full")" = $((16 << 20)) ] || fail "the limit was not used up"
[ -z "$(on node1 ls -A "$M2")" ] || fail "one sees the other's files"
on node1 dd if=/dev/zero of="$M2/mine" bs=1M count=15 2>/dev/null || fail "one fills the other"
[ "$(du -s --block-size=1M "$LOCAL" | cut -f1)" -le 17 ] || fail "more on the disk than the limit"
mkdir "$WORK/other"
"$B/fuse/kairanfs" none "$WORK/other" -o "view=node,local=$LOCAL" 2>"$WORK/said" && fail "two mounts with one local directory"
grep -q "is in use by another mount" "$WORK/said" || fail "$(cat "$WORK/said")"

note "few descriptors, many files, deep and closed directories, an unmount under a program"
ended "$M2" "$LOCAL.2"

LIMITED="prlimit --nofile=160" view "$M2" "$LOCAL.2"
on node1 python3 - "$M2" <<'P' || fail "many files"
import os, sys
os.chdir(sys.argv[1])
for directory in range(20):
    os.makedirs("d%d/e" % directory)
    for number in range(150):
        with open("d%d/e/%d" % (directory, number), "w") as file:
            file.write("%d %d" % (directory, number))
held = [os.open("d%d/e/%d" % (k, k), os.O_RDWR) for k in range(20)]
os.rename("d0", "moved")
os.rename("moved/e", "d1/f")
for k in range(20):
    os.unlink("%s/%d" % ("d1/f" if k == 0 else "d%d/e" % k, k))
    assert os.pread(held[k], 100, 0) == b"%d %d" % (k, k)
for k in range(2, 20):
    os.link("d%d/e/100" % k, "link%d" % k)
    os.unlink("d%d/e/100" % k)
    os.stat("link%d" % k)
for directory in range(20):
    for number in range(150):
        where = "d1/f" if directory == 0 else "d%d/e" % directory
        if number not in (directory, 100):
            with open("%s/%d" % (where, number)) as file:
                assert file.read() == "%d %d" % (directory, number)
for k in range(2, 20):
    with open("link%d" % k) as file:
        assert file.read() == "%d 100" % k
for level in range(1200):
    os.mkdir("deep")
    os.chdir("deep")
open("bottom", "w").close()
os.chmod("bottom", 0)
for fd in held:
    os.close(fd)
P
nsenter -t "${KEEPER[node1]}" -m -- sh -c "exec 3>$M2/held; echo held >&3; exec sleep 1000" &
holder=$!
until_ok 5 "a program" on node1 grep -q held "$M2/held" || fail "no program"
kairan 1 umount "$M2" 2>/dev/null && fail "unmounted under a program"
kairan 1 umount --force "$M2" >"$WORK/said" 2>&1 && [ ! -s "$WORK/said" ] || fail "forced umount: $? $(cat "$WORK/said")"
until_ok 20 "its daemon's end" gone "${DAEMON[$M2]}" || fail "the daemon goes on"
[ ! -e "$LOCAL.2" ] || fail "left on the disk: $(find "$LOCAL.2" | head -5)"
kill $holder 2>/dev/null

note "kill -9"
kill -KILL "${DAEMON[$M]}"
wait "${DAEMON[$M]}" 2>/dev/null
[ -e "$LOCAL/kairan-view/full" ] || fail "a killed daemon has removed files"
kairan 1 umount "$M" >"$WORK/said"
[ $? = 1 ] && grep -q "the next mount with the same local directory removes" "$WORK/said" || fail "umount of a dead mount: $(cat "$WORK/said")"
view "$M" "$LOCAL" size=16M
[ -z "$(on node1 ls -A "$M")" ] || fail "a former mount's files are there"
on node1 dd if=/dev/zero of="$M/full" bs=1M count=15 2>/dev/null || fail "a former mount's files count"
kill -TERM "${DAEMON[$M]}"
wait "${DAEMON[$M]}" || fail "SIGTERM: exit status $?"
[ ! -e "$LOCAL" ] || fail "left on the disk after SIGTERM: $(find "$LOCAL" | head -5)"

note "an ordinary user"
mkdir "$WORK/user" "$WORK/user/mnt" && chown -R daemon: "$WORK/user" && chmod a+x "$WORK" "$WORK/.."
mknod -m 666 "$WORK/fuse" c 10 229 && on node1 mount --bind "$WORK/fuse" /dev/fuse || fail "no /dev/fuse for all"
as() { on node1 setpriv --reuid daemon --regid daemon --clear-groups "$@"; }
view "$M" "$LOCAL"
as "$B/tools/kairan" status "$M" >"$WORK/said" && head -1 "$WORK/said" | grep -qE "process [0-9]+$" ||
	fail "status of root's: $(cat "$WORK/said")"
as "$B/tools/kairan" umount --force "$M" >"$WORK/said" 2>&1
[ $? = 2 ] && grep -q "only root and who has mounted it may" "$WORK/said" && ! grep -q "removes what this one held" "$WORK/said" ||
	fail "umount --force: $(cat "$WORK/said")"
ended "$M" "$LOCAL"
mkdir "$WORK/user/run" && chown daemon: "$WORK/user/run"
if as env XDG_RUNTIME_DIR="$WORK/user/run" "$B/fuse/kairanfs" none "$WORK/user/mnt" -o "view=node,local=$WORK/user/local,size=16M" 2>"$WORK/said"; then
	as sh -c "cd $WORK/user/mnt && mkdir -p a/b/c && echo mine >a/b/c/file && chmod 0 a/b && cp /bin/true . && ./true && ls -l" >/dev/null || fail "a user's view"
	as dd if=/dev/zero of="$WORK/user/mnt/full" bs=1M 2>/dev/null && fail "no limit for a user"
	as env XDG_RUNTIME_DIR="$WORK/user/run" "$B/tools/kairan" status --check "$WORK/user/mnt" >/dev/null || fail "a user's status"
	on node1 umount "$WORK/user/mnt" || fail "umount of a user's" # fusermount3 wants /etc/mtab
	until_ok 10 "the end of a user's view" test ! -e "$WORK/user/local" || fail "left of a user's: $(find "$WORK/user/local" | head -5)"
	as "$B/fuse/kairanfs" none "$WORK/user/mnt" -o "view=node,allow_other" 2>"$WORK/said" && fail "allow_other for a user"
	grep -q "allow_other" "$WORK/said" || fail "$(cat "$WORK/said")"
else
	note "left out: $(cat "$WORK/said")"
fi

note "what makes no sense"
refused() { # EXPRESSION ARGUMENT...
	local expected=$1
	shift
	on node1 "$B/fuse/kairanfs" "$@" 2>"$WORK/said" && fail "accepted: $*"
	grep -qE "$expected" "$WORK/said" || fail "$*: $(cat "$WORK/said")"
}
refused 'close: not with view=node' none "$M" -o view=node,close=async
refused 'key: not with view=node' none "$M" --key=/x -o view=node
refused 'write none' fs1:/ "$M" -o view=node
refused 'none: what to mount' none "$M"
refused '"jobs" is none of cache.node.job' none "$M" -o view=jobs
refused 'size: the limit of a view=node or view=job' fs1:/ "$M" -o size=1G
refused 'size: at least 1M' none "$M" -o view=node,size=4K
for name in identity view; do
	mkdir -p -m 700 "$WORK/node1/used" && : >"$WORK/node1/used/$name"
	refused "holds $name: name an empty one" none "$M" -o "view=node,local=$WORK/node1/used"
	[ -e "$WORK/node1/used/$name" ] && rm "$WORK/node1/used/$name" || fail "$name is gone"
done
echo mine >"$WORK/node1/used/log"
refused "is not empty" none "$M" -o "view=node,local=$WORK/node1/used"
[ "$(cat "$WORK/node1/used/log")" = mine ] || fail "a file that is not the mount's is gone"
check_logs || fail "the logs"
