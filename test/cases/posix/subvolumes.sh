# An export with btrfs subvolumes in it: what is open or was just read can be removed and replaced there, and is read on.
. "$TOP/test/lib.sh"
truncate -s 200M "$WORK/export.img"
mkdir -p "$EXPORT"
command -v mkfs.btrfs >/dev/null && grep -q btrfs /proc/filesystems || skip "no btrfs"
mkfs.btrfs -q -M "$WORK/export.img" >/dev/null && mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
for name in one two; do btrfs -q subvolume create "$EXPORT/$name" && echo "of $name" >"$EXPORT/$name/file" || fail "no subvolume"; done
cluster 2
server_start
mounts_start
m=$(mnt 1)

note "no number twice"
python3 - "$(seen_from_here 1)" "$(seen_from_here 2)" <<'P' || fail "inode numbers"
import os, sys
def numbers(mount):
    yield "", os.stat(mount).st_ino
    for directory, names, files in os.walk(mount):
        listed = {entry.name: entry.inode() for entry in os.scandir(directory)}
        for name in names + files:
            path = os.path.join(directory, name)
            number = os.lstat(path).st_ino
            assert directory == mount or listed[name] == number, (path, listed[name], number)
            yield path[len(mount):], number
here, there = dict(numbers(sys.argv[1])), dict(numbers(sys.argv[2]))
assert here == there and len(here) == 5 and len(set(here.values())) == 5, (here, there)
P
numbers=$(on node1 find "$m" -printf '%P %i\n' 2>&1 | sort)
server_stop || fail "the server does not end"
server_start
[ "$(on node1 find "$m" -printf '%P %i\n' 2>&1 | sort)" = "$numbers" ] || fail "other numbers: $(on node1 find "$m" -printf '%P %i\n' 2>&1), before: $numbers"

note "removed and replaced while it is open, here and on another node"
on node2 python3 - "$(mnt 2)/one/file" "$WORK/removed" <<'P' &
import os, sys, time
file = open(sys.argv[1], "r+b", buffering=0)
assert file.read() == b"of one\n"
open(sys.argv[2] + ".open", "w")
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
assert os.fstat(file.fileno()).st_nlink == 0, os.fstat(file.fileno())
file.write(b"and more\n")
os.fsync(file.fileno())
file.seek(0)
assert file.read() == b"of one\nand more\n"
P
reader=$!
until_ok 30 "node 2's open" test -e "$WORK/removed.open" || fail "node 2 does not open the file"
on node1 sh -c "cat $m/one/file; rm $m/one/file" || fail "a file that is open elsewhere is not removed"
touch "$WORK/removed"
wait $reader || fail "the removed file is not what it was"
on node1 python3 - "$m/two" <<'P' || fail "a file that is open is not replaced"
import os, sys
os.chdir(sys.argv[1])
old = open("file", "rb", buffering=0)
open("new", "wb").write(b"new")
os.rename("new", "file")
assert old.read() == b"of two\n" and open("file", "rb").read() == b"new"
old.close()
P
[ "$(ls "$EXPORT/one" "$EXPORT/two" | xargs)" = "$EXPORT/one: $EXPORT/two: file" ] || fail "left there: $(ls "$EXPORT/one" "$EXPORT/two")"

note "from one to the other"
on node1 sh -c "cd $m && echo moved >one/moved && mv one/moved two/moved && [ \"\$(cat two/moved)\" = moved ] && ! [ -e one/moved ]" || fail "mv"
! on node1 ln "$m/two/moved" "$m/one/linked" 2>/dev/null || fail "a hard link between subvolumes"
on node1 sh -c "cd $m/one && git init -q r && cd r && seq 1000 >a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && [ -z \"\$(git status --short)\" ]" ||
	fail "git"

note "what is kept open ends with its users"
until_ok 30 "the end of what was kept" sh -c "! ls -l /proc/${DAEMON[server]}/fd | grep -q '(deleted)'" || fail "kept: $(ls -l "/proc/${DAEMON[server]}/fd" | grep deleted)"
finish
