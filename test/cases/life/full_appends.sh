# Three nodes append to one log while the export is full.  Nobody waits for ever for another one's refused bytes: when
# there is room again, all writers end, everything drains, and each record is in the log or in a conflict file.
# timeout: 150
LEASE=5
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space left on device; its unflushed bytes wait in the journal until'
truncate -s 60M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 3
free=$(stat -f -c '%a*%S' "$EXPORT")
head -c $((free - 2000000)) /dev/zero >"$EXPORT/ballast"
cat >"$WORK/append.py" <<'P'
"""append.py LOG NODE END: appends records of 4,000 bytes until END exists; the last number."""
import errno, os, sys, time
path, node, end = sys.argv[1:]
fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
number, refused = 0, 0
while not (os.path.exists(end) and refused):
    number += 1
    record = b"<%s %06d>" % (node.encode(), number)
    os.write(fd, record + b"." * (3999 - len(record)) + b"\n")
    if number % 50 == 0:
        try:
            os.fsync(fd)
        except OSError as error:
            assert error.errno in (errno.ENOSPC, errno.ESTALE), error
            refused += 1
            time.sleep(0.05)
    time.sleep(0.008)
print(number)
P
for i in 1 2 3; do
	nsenter -t "${KEEPER[node$i]}" -n -u -m -- python3 "$WORK/append.py" "$(mnt $i)/log" "node$i" "$WORK/end" >"$WORK/last$i" 2>"$WORK/said$i" & pid[i]=$!
done
is_refused() { for i in 1 2 3; do kairan "$i" status "$(mnt "$i")" | grep -q "No space left" || return 1; done; }
until_ok 60 "the server refuses bytes of each node" is_refused || fail "the disk was not full: $(df "$EXPORT")"
sleep 3 # refusals, judgements and recalls meet
rm "$EXPORT/ballast"
touch "$WORK/end"
ended() { ! kill -0 "${pid[@]}" 2>/dev/null; }
until_ok 20 "the writers end" ended || fail "a writer waits for ever: $(for i in 1 2 3; do kairan "$i" status "$(mnt "$i")"; done)"
for i in 1 2 3; do wait "${pid[i]}" || fail "node $i: $(cat "$WORK/said$i")"; done
for i in 1 2 3; do
	until_ok 30 "node $i drains" sh -c "nsenter -t ${KEEPER[node$i]} -n -u -m -- '$B/tools/kairan' flush --timeout 5 '$(mnt $i)' >/dev/null 2>&1" || fail "node $i: $(kairan "$i" status "$(mnt $i)")"
done
python3 - "$EXPORT" "$WORK"/last? <<'P' || fail "see above"
import glob, re, sys
export, *lasts = sys.argv[1:]
found = set()
for path in glob.glob(export + "/log*"):
    with open(path, "rb") as f:
        found |= set(re.findall(rb"<node(\d) (\d{6})>\.{3985}\n", f.read()))
for path in lasts:
    node, last = path[-1], int(open(path).read())
    missing = [n for n in range(1, last + 1) if (node.encode(), b"%06d" % n) not in found]
    print("node", node, "has written", last, "records, and", len(missing), "are missing", missing[:10])
    if missing:
        sys.exit(1)
P
finish
