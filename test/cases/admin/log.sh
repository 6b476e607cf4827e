# kairan log: the operations of a program as they were, and no others with a filter; slow ones; a reader that does not read stops nothing and is told
# how many lines it lost; readers are few, other users are none; the unmount ends it.
. "$TOP/test/lib.sh"
cluster 1
server_start
mounts_start
M=$(mnt 1)
chmod 755 "$WORK" "$WORK/node1" "$M"
mkdir "$EXPORT/all" && chmod 1777 "$EXPORT/all"
declare -A READER
# read_log NAME [OPTION...]: lines of what happens from now on go to $WORK/NAME.
read_log() {
	local name=$1
	shift
	# Jobs of a script ignore SIGINT otherwise.
	nsenter -t "${KEEPER[node1]}" -n -u -m -- env --default-signal=INT "$B/tools/kairan" log "$@" "$M" >"$WORK/$name" 2>"$WORK/$name.said" 9>&- &
	READER[$name]=$!
}
# until_line NAME PATTERN COMMAND...: until the command's operation has its line.
until_line() {
	local name=$1 pattern=$2
	shift 2
	seen() {
		"$@" >/dev/null 2>&1
		grep -qE -- "$pattern" "$WORK/$name"
	}
	until_ok 20 "$pattern in $name" seen "$@" || fail "$(tail -n 20 "$WORK/$name" "$WORK/$name.said")"
}
end_log() {
	kill -INT "${READER[$1]}" 2>/dev/null || fail "reader $1 has ended: $(cat "$WORK/$1.said")"
	wait "${READER[$1]}"
	[ $? = 130 ] && [ ! -s "$WORK/$1.said" ] || fail "Ctrl-C: $(cat "$WORK/$1.said")"
}

note "what a program does"
cat >"$WORK/work.py" <<'P'
import os, sys, threading
top = sys.argv[1] + "/all/"
fd = os.open(top + "file", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
os.pwrite(fd, b"x" * 5000, 100)
os.fdatasync(fd)
os.close(fd)
fd = os.open(top + "file", os.O_RDONLY)
assert len(os.pread(fd, 100000, 0)) == 5100
os.close(fd)
os.mkdir(top + "dir \x01\udcff\"")
os.rename(top + "file", top + "dir \x01\udcff\"/moved")
os.truncate(top + "dir \x01\udcff\"/moved", 7)
for call in (lambda: os.stat(top + "none"), lambda: os.rmdir(top + "dir \x01\udcff\"")):
    try:
        call()
        sys.exit("no error")
    except OSError:
        pass
thread = threading.Thread(target=lambda: os.mkdir(top + "of a thread"))
thread.start()
thread.join()
fd = os.open(top + "stable", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
os.write(fd, b"12345678")
os.close(fd)
os.unlink(top + "dir \x01\udcff\"/moved")
print(os.getpid())
P
read_log text
read_log json --json
until_line text ' lookup /all/begin' on node1 stat "$M/all/begin"
until_line json '/all/begin"' on node1 stat "$M/all/begin"
on node1 python3 "$WORK/work.py" "$M" >"$WORK/pid" || fail "the program"
until_line text ' lookup /all/end ' on node1 stat "$M/all/end"
until_line json '/all/end"' on node1 stat "$M/all/end"
end_log text
end_log json
cat >"$WORK/check.py" <<'P'
import json, re, sys, time
pid = int(open(sys.argv[1] + "/pid").read())
own = [line for line in map(json.loads, open(sys.argv[1] + "/json")) if line["pid"] == pid]
odd = "/all/dir \x01\\377\""
def find(operation, **what):
    found = [line for line in own if line["operation"] == operation and all(line.get(name) == value for name, value in what.items())]
    assert found, (operation, what, [line for line in own if line["operation"] == operation])
    return found[0]
order = [find("create", path="/all/file", errno=None),
    find("write", path="/all/file", offset=100, bytes=5000),
    find("fsync", path="/all/file"),
    find("flush", path="/all/file"),
    find("open", path="/all/file"),
    find("mkdir", path=odd, errno=None),
    find("rename", path="/all/file", to=odd + "/moved", errno=None),
    find("setattr", path=odd + "/moved", errno=None),
    find("lookup", path="/all/none", errno="ENOENT"),
    find("rmdir", path=odd, errno="ENOTEMPTY"),
    find("mkdir", path="/all/of a thread", errno=None),
    find("write", path="/all/stable", offset=0, bytes=8),
    find("unlink", path=odd + "/moved", errno=None)]
assert [own.index(line) for line in order] == sorted(own.index(line) for line in order), order
assert sum(line["operation"] == "write" for line in own) == 2
reads = [line for line in own if line["operation"] == "read"]
assert sum(line["bytes"] for line in reads) >= 5100 and {line["path"] for line in reads} == {"/all/file"}, reads
for line in own:
    assert line["uid"] == 0 and abs(line["time"] - time.time()) < 120 and 0 <= line["us"] < 60e6, line
# The same in the other form, without what would move a cursor.
text = [line for line in open(sys.argv[1] + "/text").read().split("\n") if f" pid={pid} uid=0 " in line]
assert len(text) == len(own), (len(text), len(own))
for line, other in zip(text, own):
    assert re.match(r"\d\d:\d\d:\d\d\.\d{6} pid=", line) and f" {other['operation']} " in line and f", {other['us']} us" in line, (line, other)
    assert re.search(r" us( \((request|lease|server|node|flush|space) \d+(, [a-z]+ \d+)*\))?$", line), line
joined = "\n".join(text)
assert "\x01" not in joined
for part in (" create /all/file -> OK, ", " write /all/file offset=100 bytes=5000 -> OK, ", " lookup /all/none -> ENOENT, ",
    " rename /all/file to /all/dir \\001\\377\"/moved -> OK, "):
    assert part in joined, (part, joined)
P
python3 "$WORK/check.py" "$WORK" || fail "$(cat "$WORK/json" "$WORK/text")"

note "filters"
cat >"$WORK/begun.py" <<'P'
import os, select, sys, threading
print(os.getpid(), flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    os.path.exists(sys.argv[1] + "/all/waits")
def make():
    for i in range(200):
        open(f"{sys.argv[1]}/all/of_pid.{i}", "w").close()
thread = threading.Thread(target=make)
thread.start()
thread.join()
P
mkfifo "$WORK/go"
on node1 python3 "$WORK/begun.py" "$M" <"$WORK/go" >"$WORK/begun" &
begun=$!
exec 9>"$WORK/go"
until_ok 10 "a pid" test -s "$WORK/begun"
on node1 mkdir "$M/all/a" "$M/all/ab"
as() { on node1 setpriv --reuid 1001 --regid 1001 --clear-groups "$@"; }
read_log path --path "$M/all/a"
read_log user --user 1001
read_log slow --slower 500 --json
until_line path ' lookup /all/a/x ' on node1 stat "$M/all/a/x"
until_line user ' lookup /all/theirs ' as stat "$M/all/theirs"
on node1 stat "$M/all/ab/x" 2>/dev/null
on node1 mkdir "$M/all/roots"
until_line path ' rename /all/a/1 to /all/2 ' on node1 sh -c "> $M/all/a/1 && mv $M/all/a/1 $M/all/2"
until_line user ' create /all/mine ' as sh -c "rm -f $M/all/mine && > $M/all/mine"
# slow_mkdir: an operation that takes 1.5 s, unless the machine gave its program no processor for as long.
slow_mkdir() {
	kill -STOP "${DAEMON[server]}"
	LATE=$((LATE + 1))
	on node1 mkdir "$M/all/late$LATE" &
	local mkdir=$!
	sleep 1.5
	kill -CONT "${DAEMON[server]}"
	wait $mkdir || fail "mkdir"
}
LATE=0
until_line slow '"operation"' slow_mkdir
end_log slow
read_log pid --pid "$(cat "$WORK/begun")" --json
until_line pid 'waits"' true

note "a fifth reader, and another user"
read_log fourth
until_line fourth lookup on node1 stat "$M/all/nothing"
kairan 1 log "$M" >"$WORK/said" 2>&1 && fail "a fifth reader"
grep -q "4 programs read its log already" "$WORK/said" || fail "a fifth reader: $(cat "$WORK/said")"
as "$B/tools/kairan" log "$M" >"$WORK/said" 2>&1 && fail "a user reads the log"
grep -q "only root and who has mounted it may ask" "$WORK/said" || fail "a user: $(cat "$WORK/said")"
echo >&9
wait $begun || fail "the program"
until_line pid 'of_pid.199"' true
end_log pid
end_log path
end_log user
end_log fourth
python3 - "$WORK" "$M" <<'P' || fail "filters: $(tail -n 20 "$WORK"/{pid,path,user,slow})"
import json, sys
def lines(name):
    return open(f"{sys.argv[1]}/{name}").read().splitlines()
own = int(open(f"{sys.argv[1]}/begun").read())
of_pid = [json.loads(line) for line in lines("pid")]
assert {line["pid"] for line in of_pid} == {own}, of_pid
assert {line["path"] for line in of_pid if line["operation"] == "create"} == {f"/all/of_pid.{i}" for i in range(200)}
assert all(" /all/a " in line or " /all/a/" in line for line in lines("path"))
assert all(" uid=1001 " in line for line in lines("user"))
slow = [json.loads(line) for line in lines("slow")]
assert slow and all(line["us"] >= 500000 and line["operation"] in ("getattr", "lookup", "mkdir") for line in slow), slow
assert all(line["waits"]["request"] > 0.9 * line["us"] for line in slow if line["operation"] == "mkdir"), slow
P
for wrong in "--pid x" "--pid 0" "--user nobody-of-that-name" "--slower x" "--path /" "--path /nowhere/else"; do
	# shellcheck disable=SC2086
	kairan 1 log $wrong "$M" >"$WORK/said" 2>&1 && fail "$wrong is taken"
	grep -q -- "${wrong% *}: " "$WORK/said" || fail "$wrong: $(cat "$WORK/said")"
done

note "a reader that does not read"
read_log stuck --json
until_line stuck 'nothing"' on node1 stat "$M/all/nothing"
kill -STOP "${READER[stuck]}"
cat >"$WORK/many.py" <<'P'
import os, sys
for i in range(40000):
    try:
        os.stat(f"{sys.argv[1]}/all/{i:0200}")
    except FileNotFoundError:
        pass
print(os.getpid())
P
requests() { kairan 1 status --json "$M" | python3 -c 'import json, sys; print(sum(each["count"] for each in json.load(sys.stdin)["counters"]["requests"].values()))'; }
before=$(requests)
timeout $((60 * SLOW)) nsenter -t "${KEEPER[node1]}" -n -u -m -- python3 "$WORK/many.py" "$M" >"$WORK/pid" || fail "operations wait for a reader"
served=$(($(requests) - before))
kill -CONT "${READER[stuck]}"
until_line stuck 'all/last"' on node1 stat "$M/all/last"
end_log stuck
python3 - "$WORK" $served <<'P' || fail "lost lines"
import json, sys
pid = int(open(f"{sys.argv[1]}/pid").read())
lines = [json.loads(line) for line in open(f"{sys.argv[1]}/stuck")]
had = sum(line.get("pid") == pid for line in lines)
lost = sum(line.get("lost", 0) for line in lines)
# This script's stats are the difference.
assert lost > 0 and abs(had + lost - int(sys.argv[2])) < 1000, (had, lost, sys.argv[2])
P

note "the end"
read_log rest
until_line rest lookup on node1 stat "$M/all/nothing"
kairan 1 umount "$M" || fail "umount"
wait "${READER[rest]}" || fail "the unmount: exit code $?"
[ ! -s "$WORK/rest.said" ] || fail "the unmount: $(cat "$WORK/rest.said")"
finish
