# What another node has read, listed, opened or got a lock for is on the server's disk by then: no loss of the server's power undoes
# it.  A hand-over waits for the sync, also for one that fails; with --commit=never it does not.
# SHARE_SEED=7 test/run life/commit_on_share repeats a run.
# tags: faults
# timeout: 200
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='syncing a file failed: Input/output error|failed to write what it had taken to its disk: Input/output error|No space left on device'
cluster 2
. "$TOP/test/lib-power.sh"
SHARE_SEED=${SHARE_SEED:-$RANDOM}
RANDOM=$SHARE_SEED
note "seed $SHARE_SEED (SHARE_SEED)"
mkdir "$WORK/lost"
order() { echo "$1" >"$WORK/order" && mv "$WORK/order" "$WORK/fault"; }
# if_power_went FILE: prints how FILE would begin if the server lost its power now.
if_power_went() {
	cp --sparse=always "$WORK/disk" "$WORK/disk.lost" && mount -o loop "$WORK/disk.lost" "$WORK/lost" || fail "no copy of the disk"
	head -c 99 "$WORK/lost/$1" 2>/dev/null
	umount "$WORK/lost"
}
on_disk() { [ "$(if_power_went "$1")" = "$2" ] || fail "$1 would be '$(if_power_went "$1")', not '$2', without the server's power"; }

KR_FAULT="@$WORK/fault" server_start
mounts_start flush_age=600
for number in $(seq 10 25); do
	writer=$((RANDOM % 2 + 1)) file=file$((RANDOM % 3)) text=text-$number how=$((RANDOM % 4))
	other=$((3 - writer))
	if [ $how = 3 ]; then # bytes of another file than the one that is locked
		on node$writer flock "$(mnt $writer)/locked" sh -c "printf $text >'$(mnt $writer)/$file'" || fail "node $writer cannot lock"
	else
		put $writer $file $text
	fi
	case $how in
	0) [ "$(on node$other head -c ${#text} "$(mnt $other)/$file")" = $text ] || fail "node $other reads something else" ;;
	1) on node$other sh -c "ls -l '$(mnt $other)' | grep -q $file && cat '$(mnt $other)/$file' >/dev/null" || fail "node $other cannot list" ;;
	2) on node$other python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR)' "$(mnt $other)/$file" || fail "node $other cannot open" ;;
	3) on node$other flock "$(mnt $other)/locked" true || fail "node $other cannot lock" ;;
	esac
	seen=$(if_power_went $file)
	[ "$seen" = $text ] || fail "round $number, way $how: $file would be '$seen' without the server's power, and node $other has acted on '$text'"
done

note "nothing is synced: nobody else gets the file"
put 1 held before fsync
order stable.before:hold
put 1 held after-
on node2 cat "$(mnt 2)/held" >"$WORK/read" &
reader=$!
sleep 1 # what did not wait would be read by then
alive $reader || fail "read before it is on the disk: $(cat "$WORK/read")"
on_disk held before
rm "$WORK/fault"
wait $reader || fail "node 2 cannot read"
[ "$(cat "$WORK/read")" = after- ] || fail "node 2 reads $(cat "$WORK/read")"
on_disk held after-

note "the sync fails: the writer hears of it, once; the reader waits for the next one"
order stable.before:hold
on node1 python3 - "$(mnt 1)/failing" "$WORK/written" >"$WORK/heard" <<'P' &
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o666)
os.write(fd, b"failing")
open(sys.argv[2], "w").close()
for _ in range(3):
    try:
        os.fsync(fd)
        print(0)
    except OSError as error:
        print(errno.errorcode[error.errno])
os.close(fd)
P
writer=$!
until_ok 60 "the writer" test -e "$WORK/written" || fail "nothing is written"
on node2 cat "$(mnt 2)/failing" >"$WORK/read" &
reader=$!
sleep 1
alive $reader || fail "read before it is on the disk: $(cat "$WORK/read")"
order stable.before:eio:1
wait $writer || fail "the writer"
wait $reader || fail "node 2 cannot read"
[ "$(tr '\n' ' ' <"$WORK/heard")" = "EIO 0 0 " ] || fail "the writer heard $(tr '\n' ' ' <"$WORK/heard")"
[ "$(cat "$WORK/read")" = failing ] || fail "node 2 reads $(cat "$WORK/read")"
on_disk failing failing

note "the server's disk is full: what others read is on it"
put 1 full before fsync
head -c 100M /dev/zero >"$E/ballast" 2>/dev/null
on node1 python3 - "$(mnt 1)/full" <<'P' || fail "a full disk"
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
os.write(fd, b"x" * 1000000)
try:
    os.fsync(fd)
    sys.exit("fsync succeeds")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
os._exit(0)
P
on node2 timeout -s KILL 60 head -c 99 "$(mnt 2)/full" >"$WORK/read" || fail "node 2 cannot read while the disk is full"
on_disk full "$(cat "$WORK/read")"
rm "$E/ballast"
until_ok 60 "node 1 drains" kairan 1 flush --timeout 5 "$(mnt 1)" || fail "node 1 keeps something"
[ "$(cat "$E"/full* | tr -dc x | wc -c)" -ge 1000000 ] || fail "bytes are lost: $(ls -l "$E")"

note "--commit=never: others get it at once, and the same loss of power undoes it"
server_stop
rm -f "$WORK/fault"
KR_FAULT="@$WORK/fault" server_start --commit=never
for node in 1 2; do until_ok 60 "node $node is served" serves $node || fail "node $node is not served"; done
put 1 never before fsync
order stable.before:hold
put 1 never after-
[ "$(on node2 timeout -s KILL 30 cat "$(mnt 2)/never")" = after- ] || fail "node 2 does not read at once"
on_disk never before
rm "$WORK/fault"
finish
