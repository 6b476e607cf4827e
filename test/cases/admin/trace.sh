# kairan trace: programs of two nodes with their files, bytes and processes; what is scarce on purpose is what a program has waited for; several forms;
# a daemon that is killed, and one that unmounts.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
cluster 2 20mbit
server_start
mounts_start
trace() { kairan "$1" trace "${@:2}" >"$WORK/said" 2>&1; }
# program NAME: a program of that name, from standard input.
mkdir "$WORK/bin"
python=$(python3 -c 'import sys; print(sys.executable)') # which need not be what is found first
program() { { echo "#!$python"; cat; } >"$WORK/bin/$1" && chmod +x "$WORK/bin/$1"; }
program make_parts <<'P'
import os, sys
for i in range(5):
    with open(f"{sys.argv[1]}/part{i}", "wb", buffering=0) as file:
        for j in range(8):
            file.write(os.urandom(65536))
os.rename(f"{sys.argv[1]}/part4", f"{sys.argv[1]}/last")
P
program join_parts <<'P'
import os, sys
with open(f"{sys.argv[1]}/all", "wb", buffering=0) as out:
    for name in ("part0", "part1", "part2", "part3", "last"):
        with open(f"{sys.argv[1]}/{name}", "rb", buffering=0) as file:
            out.write(file.read())
P
program back_and_forth <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for i in range(40):
    os.pwrite(fd, b"x" * 1000, (i * 7 % 40) * 1000)
os.close(fd)
P
program wait_request <<'P'
import os, sys
open(sys.argv[2], "w").close()
os.mkdir(sys.argv[1])
P
program wait_lease <<'P'
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    open(sys.argv[2], "w").close()
    fcntl.lockf(file, fcntl.LOCK_EX)
P
program wait_server <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
while os.read(fd, 1 << 20):
    pass
P
cp "$WORK/bin/wait_server" "$WORK/bin/wait_node"
program wait_flush <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, os.urandom(8 << 20))
os.close(fd)
P

note "what is off"
trace 1 show "$(mnt 1)" && fail "an untraced mount is shown"
grep -q "has not been traced" "$WORK/said" || fail "$(cat "$WORK/said")"
trace 1 stop "$(mnt 1)" && fail "stopped what is off"
grep -q "is not being traced" "$WORK/said" || fail "$(cat "$WORK/said")"
for i in 1 2; do trace $i start "$(mnt $i)" || fail "start: $(cat "$WORK/said")"; done
trace 1 start "$(mnt 1)" && fail "started twice"
grep -q "is being traced already" "$WORK/said" || fail "$(cat "$WORK/said")"
chmod 755 "$WORK" "$WORK/node1" "$(seen_from_here 1)"
on node1 setpriv --reuid 1001 --regid 1001 --clear-groups "$B/tools/kairan" trace start "$(mnt 1)" >"$WORK/said" 2>&1 && fail "another user"

note "a workflow"
on node1 "$WORK/bin/make_parts" "$(mnt 1)" || fail "make_parts"
on node2 "$WORK/bin/join_parts" "$(mnt 2)" || fail "join_parts"
on node1 "$WORK/bin/back_and_forth" "$(mnt 1)/odd" || fail "back_and_forth"
on node1 cp "$(mnt 1)/all" "$(mnt 1)/copy"

note "one thing is scarce at a time"
head -c 4000000 /dev/urandom >"$EXPORT/large"
on node1 "$WORK/bin/wait_server" "$(mnt 1)/large" || fail "wait_server"
on node2 "$WORK/bin/wait_node" "$(mnt 2)/large" || fail "wait_node"
on node2 "$WORK/bin/wait_flush" "$(mnt 2)/flushed" || fail "wait_flush"
kill -STOP "${DAEMON[server]}"
on node1 "$WORK/bin/wait_request" "$(mnt 1)/late" "$WORK/asks" &
late=$!
until_ok 20 "a request" test -e "$WORK/asks"
sleep 1 # the time that the request takes
kill -CONT "${DAEMON[server]}"
wait $late || fail "wait_request"
on node2 python3 - "$(mnt 2)/odd" "$WORK" <<'P' &
import fcntl, os, sys, time
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    open(sys.argv[2] + "/locked", "w").close()
    while not os.path.exists(sys.argv[2] + "/waits"):
        time.sleep(0.02)
    time.sleep(1)  # so long the other program waits
P
locker=$!
until_ok 20 "a lock" test -e "$WORK/locked"
on node1 "$WORK/bin/wait_lease" "$(mnt 1)/odd" "$WORK/waits" || fail "wait_lease"
wait $locker

note "while it is on, and of both nodes"
kairan 1 trace show "$(mnt 1)" >"$WORK/table" 2>"$WORK/said" && [ ! -s "$WORK/said" ] || fail "show: $(cat "$WORK/said")"
grep -q "^make_parts .*2.5 MiB" "$WORK/table" && ! grep -q join_parts "$WORK/table" || fail "$(cat "$WORK/table")"
for i in 1 2; do
	trace $i stop "$(mnt $i)" || fail "stop: $(cat "$WORK/said")"
	[ "$(cat "$WORK/said")" = "$WORK/node$i/local/trace" ] || fail "stop says $(cat "$WORK/said")"
	cp "$WORK/node$i/local/trace" "$WORK/trace$i"
done
for form in "" "--by node" "--by process" "--by job"; do
	# shellcheck disable=SC2086
	"$B/tools/kairan" trace show $form "$WORK/trace1" "$WORK/trace2" >"$WORK/table" 2>"$WORK/said" && [ ! -s "$WORK/said" ] || fail "show $form: $(cat "$WORK/said")"
	cat "$WORK/table"
done
"$B/tools/kairan" trace show --json --html "$WORK/html" --perfetto "$WORK/perfetto" --dot "$WORK/dot" "$WORK/trace1" "$WORK/trace2" >"$WORK/json" || fail "show --json"
cat >"$WORK/check.py" <<'P'
import json, sys
work = sys.argv[1]
shown = json.load(open(work + "/json"))
programs = {program["name"]: program for program in shown["program"]}
def expect(name, **figures):
    for figure, value in figures.items():
        assert programs[name][figure] == value, (name, figure, programs[name][figure], value)
expect("make_parts", processes=1, files_written=5, files_read=0, written_bytes=5 * 8 * 65536, written_sequential_bytes=5 * 8 * 65536, creates=5, writes=40)
expect("join_parts", processes=1, files_read=5, files_written=1, read_bytes=5 * 8 * 65536, written_bytes=5 * 8 * 65536)
expect("back_and_forth", written_bytes=40000, files_written=1)
assert programs["back_and_forth"]["written_sequential_bytes"] < 4000, programs["back_and_forth"]
expect("cp", copied_from_bytes=5 * 8 * 65536, copied_to_bytes=5 * 8 * 65536, read_bytes=0)
assert 1000000 < programs["wait_server"]["from_server_bytes"] <= 4000000 and programs["wait_server"]["from_node_bytes"] == 0, programs["wait_server"]
assert programs["wait_node"]["from_node_bytes"] > 0 and programs["wait_node"]["from_server_bytes"] == 0, programs["wait_node"]
for name in ("request", "lease", "server", "node", "flush"):
    waits = programs["wait_" + name]["waits_us"]
    assert max(waits, key=waits.get) == name and waits[name] > sum(waits.values()) / 2, (name, waits)
assert programs["wait_lease"]["waits_us"]["lease"] > 500000 and programs["wait_request"]["waits_us"]["request"] > 500000
for name, program in programs.items():
    assert abs(sum(program["waits_us"].values()) - program["us"]) <= 0.01 * program["us"] + 100, (name, program)
assert {file["path"]: file["nodes"] for file in shown["shared_files"]}["large"] == 2, shown["shared_files"]

events = json.load(open(work + "/perfetto"))["traceEvents"]
nodes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
assert sorted(nodes.values()) == ["node1", "node2"], nodes
joins = [event for event in events if event.get("cat") == "file" and threads[event["pid"], event["tid"]] == "join_parts"]
assert {event["name"] for event in joins} == {"part0", "part1", "part2", "part3", "last", "all"}, joins
begin = {event["id"]: event["ts"] for event in joins if event["ph"] == "b"}
end = {event["id"]: event["ts"] for event in joins if event["ph"] == "e"}
assert len(begin) == 6 and all(end[number] >= begin[number] >= 0 for number in begin)
order = {threads[event["pid"], event["tid"]]: event["ts"] for event in events if event["ph"] == "X"}
assert order["make_parts"] < order["join_parts"] < order["back_and_forth"] < order["cp"] < order["wait_server"], order

dot = open(work + "/dot").read().splitlines()
assert dot[0] == "digraph kairan {" and dot[-1] == "}"
def nodes_of(*ends):
    "The files of an edge."
    return {line.split()[ends[0]].rstrip(";") for line in dot if ends[1] in line and "->" in line}
parts = nodes_of(2, '"make_parts" -> ') & nodes_of(0, ' -> "join_parts"')
assert len(parts) == 1, dot  # the renamed part, too
label, = [line for line in dot if line.startswith(f"\t{min(parts)} [")]
assert "and 4 more" in label and "2.5 MiB" in label, label
assert nodes_of(2, '"join_parts" -> ') & nodes_of(0, ' -> "cp"'), dot

import re, shutil, xml.etree.ElementTree
page = open(work + "/html").read()
drawings = [xml.etree.ElementTree.fromstring(drawing) for drawing in re.findall("<svg.*?</svg>", page, re.DOTALL)]
assert len(drawings) == (3 if shutil.which("dot") else 2), page
texts = [{text.text.strip() for text in drawing.iter("{http://www.w3.org/2000/svg}text")} for drawing in drawings]
assert {"make_parts", "flushes", "not in I/O"} <= texts[0] and {"make_parts on node1", "join_parts on node2"} <= texts[1], texts
assert len(drawings) == 2 or {"make_parts", "join_parts", "and 4 more", "2.5 MiB"} <= texts[2], texts
P
python3 "$WORK/check.py" "$WORK" 2>"$WORK/said" || fail "$(cat "$WORK/json" "$WORK/dot" "$WORK/said")"

note "another file, a killed daemon, and an unmount"
trace 1 show "$WORK/bin/make_parts" && fail "a file of another kind"
grep -q "is not a trace of kairan" "$WORK/said" || fail "$(cat "$WORK/said")"
# Where there is no Graphviz, something that takes a graph and gives a drawing for one; and where that fails.
printf '#!/bin/sh\n[ "$*" = -Tsvg ] && grep -q make_parts && printf "<?xml?>\\n<svg>by dot</svg>\\n"\n' >"$WORK/bin/dot" && chmod +x "$WORK/bin/dot"
PATH=$WORK/bin:$PATH "$B/tools/kairan" trace show --html "$WORK/html" "$WORK/trace1" && grep -q "^<svg>by dot</svg>" "$WORK/html" && ! grep -q "<?xml" "$WORK/html" || fail "$(cat "$WORK/html")"
printf '#!/bin/sh\nexit 1\n' >"$WORK/bin/dot"
PATH=$WORK/bin:$PATH "$B/tools/kairan" trace show --html "$WORK/html" "$WORK/trace1" && grep -q "could not draw" "$WORK/html" || fail "$(cat "$WORK/html")"
trace 2 start "$(mnt 2)" && on node2 "$WORK/bin/back_and_forth" "$(mnt 2)/again" && trace 2 show "$(mnt 2)" || fail "a second trace: $(cat "$WORK/said")"
mount_kill 2
trace 1 show "$WORK/node2/local/trace"
grep -q "has no end" "$WORK/said" && grep -q back_and_forth "$WORK/said" && ! grep -q join_parts "$WORK/said" || fail "of a killed daemon: $(cat "$WORK/said")"
trace 1 start "$(mnt 1)" && on node1 "$WORK/bin/back_and_forth" "$(mnt 1)/again" && kairan 1 umount "$(mnt 1)" || fail "umount: $(cat "$WORK/said")"
"$B/tools/kairan" trace show "$WORK/node1/local/trace" >"$WORK/said" 2>&1
! grep -q "has no end" "$WORK/said" && grep -q back_and_forth "$WORK/said" || fail "after the unmount: $(cat "$WORK/said")"

note "a program that executes another one closes a file meanwhile"
mkdir "$EXPORT/made"
printf 'LIST := $(shell seq 3)\nall: $(LIST:%%=o%%)\no%%:\n\techo x >$@\n' >"$EXPORT/made/Makefile"
mount_start 1
trace 1 start "$(mnt 1)" || fail "$(cat "$WORK/said")"
on node1 timeout -s KILL $((20 * SLOW)) make -s -C "$(mnt 1)/made" || fail "make hangs"
trace 1 stop "$(mnt 1)" || fail "$(cat "$WORK/said")"
[ "$(cat "$EXPORT"/made/o? | wc -l)" = 3 ] || fail "make has made $(ls "$EXPORT/made")"
finish
