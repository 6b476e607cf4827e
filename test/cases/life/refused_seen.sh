# The export is full.  A program has written, and another node knows the new size when the server refuses the bytes: a read
# there ends where the file does at the server, or fails.  It shows no zeros.
# timeout: 60
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='No space left on device'
truncate -s 24M "$WORK/export.img"
mkfs.ext4 -q -m0 "$WORK/export.img" 2>/dev/null || skip "no mkfs.ext4"
mkdir -p "$EXPORT"
mount -o loop "$WORK/export.img" "$EXPORT" || skip "no loop device"
up 2
mount_stop 1
mount_start 1 close=async
dd if=/dev/zero of="$EXPORT/filler" bs=64k 2>/dev/null
dd if=/dev/zero of="$EXPORT/filler2" bs=512 2>/dev/null
cat >"$WORK/read.py" <<'EOF'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
if sys.argv[2] == 'random':
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
known = os.fstat(fd).st_size
seen = b''
while True:
    try:
        piece = os.pread(fd, 4096, len(seen))
    except OSError as error:
        print('a read failed:', error, file=sys.stderr)
        break
    if not piece:
        break
    seen += piece
print(known, len(seen), seen.strip(b'A').hex()[:20])
EOF
for round in 1 2 3; do for size in 5 1000000; do for how in seq random; do
	name=$how.$size.$round
	on node1 sh -c 'head -c "$2" /dev/zero | tr "\0" A >"$1"' sh "$(mnt 1)/$name" "$size" || fail "$name: the writer failed"
	on node2 python3 "$WORK/read.py" "$(mnt 2)/$name" "$how" >"$WORK/seen" || fail "$name: the reader failed"
	read -r known length rest <"$WORK/seen"
	[ -z "$rest" ] || fail "$name: node 2 read $length bytes of $known, with others than were written: $rest"
done; done; done
note "the log names some of many refused files"
on node1 sh -c 'for i in $(seq 30); do echo A >"$1/seq.more$i"; done' sh "$(mnt 1)"
is_said() { grep -q "more files are refused; the log does not name them for a minute" "$WORK/node1/log"; }
until_ok 10 "many are refused" is_said || fail "the log: $(tail -3 "$WORK/node1/log")"
named=$(grep -c "its bytes are not at the server" "$WORK/node1/log")
[ "$named" -eq 20 ] || fail "the log names $named files"
on node1 sh -c 'rm -f "$1"/seq* "$1"/random*' sh "$(mnt 1)"
rm "$EXPORT/filler"
until_ok 20 "node 1 drains" kairan 1 flush --timeout 5 "$(mnt 1)" >"$WORK/said" 2>&1 || fail "$(cat "$WORK/said")"
finish
