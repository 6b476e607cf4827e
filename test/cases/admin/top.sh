# kairan top: in batch mode its figures are those of what is done; in a terminal it ends with q and by signals, and leaves the terminal as it was.
. "$TOP/test/lib.sh"
cluster 2
server_start
mounts_start
M=$(mnt 1)
on node1 python3 - "$M" <<'P' &
import os, sys, time
while True:
    with open(sys.argv[1] + "/file", "wb") as file:
        file.write(bytes(1 << 20))
    os.stat(sys.argv[1] + "/file")
    time.sleep(0.05)
P
writer=$!
until_ok 20 "a file" test -e "$EXPORT/file" || fail "no file is written"
kairan 1 top -b -n 2 -d 0.8 "$M" >"$WORK/top" || fail "top of a mount: $?"
kairan 1 top --batch "$M" >/dev/null 2>&1 && fail "--batch is no option"
[ "$(grep -c '^kairan top - ' "$WORK/top")" = 2 ] || fail "not two pictures: $(cat "$WORK/top")"
python3 - "$WORK/top" "$M" <<'P' || fail "$(cat "$WORK/top")"
import re, sys
pictures = open(sys.argv[1]).read().split("kairan top - ")[1:]
for picture in pictures:
    lines = picture.split("\n")
    head = lines[1].split("%")[0].split() # "99 %" is one column
    row = dict(zip(head, re.sub(r"(?<=\d) (?=[KMGT]?i?B)", "", lines[2]).split()))
    assert row["MOUNT"] == sys.argv[2] and row["NODE"] == "node1" and row["STATE"] == "ok", row
    assert row["WRITTEN/s"][-3:] in ("KiB", "MiB") and 0.1 < float(row["WRITTEN/s"][:-3]) < 1024, row
    assert float(row["OPS/s"]) > 1 and row["MEDIAN"].endswith(("us", "ms")), row
    kinds = dict((line.split()[0], float(line.split()[1])) for line in picture.split("OPERATION")[1].split("\n")[1:] if line)
    assert kinds["write"] > 0 and kinds["flush"] > 0, kinds
P
on server "$B/tools/kairan" top -b -n 1 127.0.0.1:$PORT >"$WORK/top" || fail "top of a server: $?"
grep -q '^127.0.0.1:[0-9]*: export .*, 2 mounts$' "$WORK/top" || fail "$(cat "$WORK/top")"
grep -q '^node1  *ok ' "$WORK/top" && grep -q '^FLUSH  *[0-9.]* ' "$WORK/top" || fail "$(cat "$WORK/top")"
kairan 1 top -b -n 1 -d 0.1 >"$WORK/top" && grep -q ' node1  *ok ' "$WORK/top" || fail "all mounts: $(cat "$WORK/top")"

kill $writer
wait $writer 2>/dev/null

note "wrong arguments"
for arguments in '-n 0' '-n x' '-d x' '-d -1' '-x' 'a b'; do
	# shellcheck disable=SC2086
	kairan 1 top $arguments >/dev/null 2>"$WORK/said"
	[ $? = 64 ] && [ -s "$WORK/said" ] || fail "$arguments: $(cat "$WORK/said")"
done
kairan 1 top -b /nowhere >/dev/null 2>"$WORK/said"
[ $? = 2 ] && grep -q 'kairan: .*/nowhere' "$WORK/said" || fail "/nowhere: $(cat "$WORK/said")"
kairan 1 top </dev/null >"$WORK/said" 2>&1
[ $? = 2 ] && grep -q 'use -b' "$WORK/said" || fail "no terminal: $(cat "$WORK/said")"

note "a terminal"
on node1 python3 - "$B/tools/kairan" "$M" <<'P' || fail "in a terminal"
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

def size(fd, lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

def hear(fd, until, seconds=20):
    """What comes until the text does."""
    heard, ends = b"", time.monotonic() + seconds
    while until not in heard:
        assert time.monotonic() < ends, (until, heard[-2000:])
        if select.select([fd], [], [], 0.2)[0]:
            heard += os.read(fd, 65536)
    return heard.decode()

def live(end, resize=False):
    """Runs it until END is done; the terminal must be as before."""
    ours, theirs = pty.openpty()
    size(ours, 24, 80)
    before = termios.tcgetattr(theirs)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        for fd in range(3):
            os.dup2(theirs, fd)
        os.execv(sys.argv[1], ["kairan", "top", "-d", "0.3", sys.argv[2]])
    hear(ours, b"OPERATION")
    assert not termios.tcgetattr(theirs)[3] & termios.ECHO
    if resize:
        size(ours, 10, 40)
        os.kill(pid, signal.SIGWINCH)
        for i in range(3): # one may be of the former size
            hear(ours, b"\x1b[H")
        picture = hear(ours, b"\x1b[H")
        # After a character in the last column the cursor stays on it.
        assert not re.search(r"\x1b\[0m\x1b\[[KJ]", picture), picture
        lines = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", picture).replace("\r", "").split("\n")
        assert len(lines) <= 10 and max(map(len, lines)) <= 40, lines
        shown = [line.split()[0] for line in lines if line.startswith("<")]
        assert len(shown) == 1 and len(shown[0]) > 4 and sys.argv[2].endswith(shown[0][1:]), lines # the end of the path
    end(ours, pid)
    hear(ours, b"\x1b[?1049l")
    status = os.waitpid(pid, 0)[1]
    assert termios.tcgetattr(theirs) == before, "the terminal is not as before"
    return status

assert live(lambda fd, pid: os.write(fd, b"q"), resize=True) == 0
for number in signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV:
    assert live(lambda fd, pid: os.kill(pid, number)) & 0x7f == number
assert live(lambda fd, pid: os.write(fd, b"\x03")) == signal.SIGINT # Ctrl-C
P
finish
