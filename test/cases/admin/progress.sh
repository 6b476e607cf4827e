# kairan flush and umount tell how far they are within one file: bytes, rate and time left, on a terminal and as plain lines; with -q nothing.
# timeout: 300
. "$TOP/test/lib.sh"
cluster 1 24mbit
server_start
mount_start 1 close=async,flush_age=600,flush_backlog=1G
M=$(mnt 1)
write_out() { on node1 dd if=/dev/urandom of="$M/$1" bs=1M count="$2" status=none || fail "not written"; }
# grows FILE TIMES: the bytes sent, as FILE has them, take so many values, and the rate and the time left are there.
grows() {
	python3 - "$1" "$2" <<'P' || fail "$(cat -v "$1")"
import re, sys
unit = {"bytes": 1 / 1024, "KiB": 1, "MiB": 1024}
text = open(sys.argv[1], errors="replace").read()
found = re.findall(r"([0-9.]+) (bytes|KiB|MiB) of 16\.0 MiB sent", text)
sent = [float(number) * unit[word] for number, word in found]
assert all(after >= before - 110 for before, after in zip(sent, sent[1:])), sent # of 0.1 MiB
assert len(set(sent)) >= int(sys.argv[2]), sent
between = [s for s in sent if 1024 < s < 14 * 1024]
assert between, sent
assert re.search(r"sent, [0-9.]+ (KiB|MiB)/s, [0-9.]+ s left", text)
P
}
note "plain lines"
write_out a 16
kairan 1 flush "$M" >"$WORK/said" 2>&1 || fail "flush"
grows "$WORK/said" 2
note "on a terminal"
write_out b 16
on node1 script -qec "'$B/tools/kairan' flush '$M'" /dev/null </dev/null >"$WORK/said" 2>&1 || fail "flush on a terminal"
grows "$WORK/said" 10
grep -q '^.\[#*\.*\] ' "$WORK/said" || fail "no bar: $(cat -v "$WORK/said")"
note "without a word"
write_out c 8
kairan 1 flush -q "$M" >"$WORK/said" 2>&1 || fail "flush"
[ ! -s "$WORK/said" ] || fail "flush -q: $(cat "$WORK/said")"
on node1 cmp "$M/c" "$EXPORT/c" || fail "the bytes"
note "umount"
write_out d 16
kairan 1 umount "$M" >"$WORK/said" 2>&1 || fail "umount"
grows "$WORK/said" 2
wait "${DAEMON[node1]}" || fail "exit status $?"
mount_start 1 close=async,flush_age=600,flush_backlog=1G
write_out e 8
kairan 1 umount --quiet "$M" >"$WORK/said" 2>&1 || fail "umount"
[ ! -s "$WORK/said" ] || fail "umount -q: $(cat "$WORK/said")"
wait "${DAEMON[node1]}" || fail "exit status $?"
finish
