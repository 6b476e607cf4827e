# Wrong arguments and surroundings: a clear message, a non-zero exit, nothing left behind.
. "$TOP/test/lib.sh"
cluster 1
server_start
M=$(mnt 1)
# refused PROGRAM-OUTPUT-PATTERN COMMAND...: fails within a bound and says so
refused() {
	local pattern=$1
	shift
	timeout -s KILL $((30 * SLOW)) nsenter -t "${KEEPER[node1]}" -n -u -m -- "$@" >"$WORK/said" 2>&1 </dev/null
	local status=$?
	[ $status != 0 ] && [ $status != 137 ] || fail "$*: status $status: $(cat "$WORK/said")"
	grep -qiE "$pattern" "$WORK/said" || fail "$*: said: $(cat "$WORK/said")"
	! on node1 grep -q "$WORK.*fuse.kairanfs" /proc/mounts || fail "$*: left a mount"
}
fs="$B/fuse/kairanfs" d="$B/server/kairand" L=local=$WORK/node1/local
refused 'usage' "$fs"
refused 'usage|mount point' "$fs" $SERVER_ADDRESS:/
refused 'HOST' "$fs" nonsense "$M" -o $L
refused 'unknown|nonsense' "$fs" $SERVER_ADDRESS:/ "$M" -o $L,nonsense=1
refused 'journal_max' "$fs" $SERVER_ADDRESS:/ "$M" -o $L,journal_max=banana
refused 'refused.*kairand' "$fs" $SERVER_ADDRESS:1:/ "$M" -o $L
refused 'resolve|not known|name' "$fs" no.such.host.invalid:/ "$M" -o $L
refused 'mount point|no such' "$fs" $SERVER_ADDRESS:/ "$WORK/none" -o $L
touch "$WORK/file"
refused 'not a directory' "$fs" $SERVER_ADDRESS:/ "$WORK/file" -o $L
mkdir "$WORK/full"; touch "$WORK/full/x"
refused 'not empty' "$fs" $SERVER_ADDRESS:/ "$WORK/full" -o $L
mkdir "$WORK/theirs" && chown 1001 "$WORK/theirs"
refused 'belongs to user 1001' "$fs" $SERVER_ADDRESS:/ "$M" -o local="$WORK/theirs"
refused 'local|not a directory' "$fs" $SERVER_ADDRESS:/ "$M" -o local="$WORK/file"
echo '{}' >"$WORK/theirs/identity"
refused 'replay it as that user' "$B/tools/kairan" journal "$WORK/theirs" --replay $SERVER_ADDRESS
mkdir "$WORK/shared" && chmod 1777 "$WORK/shared" && ln -s "$WORK/other" "$WORK/shared/link" && chown -h 1001 "$WORK/shared/link"
refused 'can be written to by others' "$fs" $SERVER_ADDRESS:/ "$M" -o local="$WORK/shared"
echo '{}' >"$WORK/shared/identity"
refused 'can hold unflushed bytes' "$fs" $SERVER_ADDRESS:/ "$M" -o local="$WORK/shared"
refused 'symbolic link of user 1001' "$fs" $SERVER_ADDRESS:/ "$M" -o local="$WORK/shared/link"
for name in journal cache; do
	mkdir -p "$WORK/once/$name" && chown 1001 "$WORK/once/$name"
	refused "$name is not this user's alone" "$fs" $SERVER_ADDRESS:/ "$M" -o local="$WORK/once"
	rm -r "$WORK/once"
	mkdir -p "$WORK/once/$name" && chmod 777 "$WORK/once/$name"
	refused "$name is not this user's alone" "$fs" $SERVER_ADDRESS:/ "$M" -o local="$WORK/once"
	rm -r "$WORK/once"
done
refused 'no such|subdirectory|not found' "$fs" $SERVER_ADDRESS:/missing "$M" -o $L
mkdir "$WORK/no-journal"
refused 'holds no journal' "$B/tools/kairan" journal "$WORK/no-journal"
K=$B/tools/kairan
refused 'no directory is given' "$K" journal
refused '^kairan: --dump and --replay' "$K" journal "$WORK/full" --replay a --dump
refused '^kairan: --key and --munge' "$K" journal "$WORK/full" --replay a --key b --munge
refused '^kairan: .* are for --replay' "$K" journal "$WORK/full" --timeout 5
refused 'at most 86400 seconds' "$K" journal "$WORK/full" --replay a --timeout 86401
refused 'not a number of seconds' "$K" journal "$WORK/full" --replay a --timeout 5m
refused '^kairan: --key and --munge' "$K" status --key b --munge a
refused 'a server is named HOST' "$K" status $SERVER_ADDRESS:/
refused 'cannot write to standard output' sh -c "'$K' status --json >/dev/full"
mkdir -p "$WORK/closed/journal" && chmod 700 "$WORK/closed/journal" && chmod 755 "$WORK" "$WORK/closed"
refused 'journal|closed: permission denied' setpriv --reuid 1 --regid 1 --clear-groups "$K" journal "$WORK/closed"
! grep -q 'holds no journal' "$WORK/said" || fail "a journal that cannot be read: $(cat "$WORK/said")"
for name in '' ' ' 'two words' "$(printf 'a\nb')" a/b "$(printf '%065d' 0)"; do
	refused 'is not a name of 1 to 64 bytes' "$fs" $SERVER_ADDRESS:/ "$M" -o "$L,node=$name"
done
refused 'cpus=1023: kairanfs can run on none of these processors; it runs on [0-9]' "$fs" $SERVER_ADDRESS:/ "$M" -o "$L,cpus=1023"
refused 'no such option; did you mean journal_max' "$fs" $SERVER_ADDRESS:/ "$M" -o $L,jurnal_max=1G
refused 'no such option; did you mean --journal-max' "$fs" $SERVER_ADDRESS:/ "$M" --jounral-max=1G
refused 'no such option; did you mean --listen' "$d" --lisen=0.0.0.0 "$EXPORT"
refused 'no such command; did you mean flush' "$K" flsh
refused 'did you mean --json' "$K" status --jsno
refused 'did you mean --refused-ok' "$K" umount --refusd_ok "$M"
echo '{"mount": {"cach_max": "1G"}}' >"$WORK/misspelled.json"
refused 'no such option; did you mean cache_max' "$fs" --config "$WORK/misspelled.json" $SERVER_ADDRESS:/ "$M" -o $L
# What a replay is told counts, not what the mounts' section of the file says.
cp -a /etc "$WORK/etc" && mkdir -p "$WORK/etc/kairan" && on node1 mount --bind "$WORK/etc" /etc || fail "no /etc"
on node1 "$fs" $SERVER_ADDRESS:/ "$M" -o "local=$WORK/mine" && kairan 1 umount "$M" || fail "a mount"
"$K" key "$WORK/key" >/dev/null || fail "no key"
echo '{"mount": {"munge": true}}' >"$WORK/etc/kairan/kairan.json"
refused 'start kairand with --key' "$K" journal "$WORK/mine" --replay $SERVER_ADDRESS --key "$WORK/key"
echo '{"mount": {"key": "/none"}}' >"$WORK/etc/kairan/kairan.json"
refused 'key file /none' "$K" journal "$WORK/mine" --replay $SERVER_ADDRESS
refused 'munge' "$K" journal "$WORK/mine" --replay $SERVER_ADDRESS --munge --munge-socket /none
! grep -q 'choose one' "$WORK/said" || fail "the file's key is in the way: $(cat "$WORK/said")"
on node1 umount /etc
on node1 python3 -c "
import socket,threading
s=socket.create_server(('127.0.0.1',9999)); print('up',flush=True)
while True:
    c,_=s.accept(); c.sendall(b'HTTP/1.0 400 Bad Request\r\n\r\n'*10); c.close()" >"$WORK/http" 2>&1 &
until_ok 10 "the wrong server" grep -q up "$WORK/http"
refused 'not a kairan|kairan server|garbage|magic|frame' "$fs" 127.0.0.1:9999:/ "$M" -o $L
refused 'usage|EXPORT' "$d"
refused "for a kairand with --gateway" "$d" --localflock "$EXPORT"
refused "choose one" "$d" --gateway --watch none "$EXPORT"
mkdir -p "$WORK/exported/below"
for place in state below/state .; do
	refused 'lies in the export' "$d" --state "$WORK/exported/$place" "$WORK/exported"
done
refused 'lies in the export' "$d" --state "$WORK/new/../exported/state" "$WORK/exported"
refused 'lies in the export' "$d" --state "$WORK/exported/new/../../state" "$WORK/exported"
[ "$(cd "$WORK/exported" && find . | sort | paste -sd' ')" = ". ./below" ] || fail "made in the export: $(find "$WORK/exported")"
refused 'no such|does not exist' "$d" "$WORK/none"
refused 'not a directory' "$d" "$WORK/file"
refused 'unknown|option' "$d" --nonsense "$EXPORT"
mkdir "$WORK/other"
nsenter -t "${KEEPER[server]}" -n -u -m -- timeout 20 "$d" --listen 0.0.0.0:$PORT --insecure --state "$WORK/state2" "$WORK/other" >"$WORK/said" 2>&1 && fail "port in use"
grep -qi "in use" "$WORK/said" || fail "port in use: $(cat "$WORK/said")"
nsenter -t "${KEEPER[server]}" -n -u -m -- timeout 20 "$d" --listen 0.0.0.0:7500 --insecure --state "$WORK/state3" "$EXPORT" >"$WORK/said" 2>&1 && fail "two servers on one export"
grep -qi "another kairand\|already" "$WORK/said" || fail "two servers: $(cat "$WORK/said")"
nsenter -t "${KEEPER[server]}" -n -u -m -- timeout 20 "$d" --listen 0.0.0.0:7501 --state "$WORK/state4" "$WORK/other" >"$WORK/said" 2>&1
[ $? = 64 ] || fail "open to everybody without a key, or started again and again: $(cat "$WORK/said")"
grep -qi "insecure\|loopback\|key" "$WORK/said" || fail "no key: $(cat "$WORK/said")"
for state in state2 state3 state4; do
	[ ! -e "$WORK/$state" ] || fail "$state is left by a server that could not start"
done

note "a type of its own choice"
! timeout 30 "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$(mnt 1)" -o "subtype=other,local=$WORK/node1/local" 2>"$WORK/said" || fail "takes subtype="
grep -q "subtype" "$WORK/said" || fail "subtype: $(cat "$WORK/said")"
! grep -q "$(mnt 1)" /proc/mounts || fail "a mount that failed is there"
note "two mounts on one local directory, and a journal of another export"
mount_start 1
mkdir "$WORK/second"
nsenter -t "${KEEPER[node1]}" -n -u -m -- "$fs" $SERVER_ADDRESS:/ "$WORK/second" -o $L >"$WORK/said" 2>&1 && fail "two mounts share a local directory"
grep -qi "in use\|another" "$WORK/said" || fail "shared local directory: $(cat "$WORK/said")"
echo data >"$(seen_from_here 1)/f" || fail "the first mount was disturbed"
mount_stop 1
nsenter -t "${KEEPER[server]}" -n -u -m -- "$d" --listen 0.0.0.0:7502 --insecure --state "$WORK/state5" "$WORK/other" >"$WORK/other.log" 2>&1 &
until_ok 20 "the other server" grep -q ready "$WORK/other.log"
refused 'another export|other export|belongs' "$fs" $SERVER_ADDRESS:7502:/ "$M" -o $L

note "garbage on the server's port"
mount_start 1
on node1 python3 - $SERVER_ADDRESS $PORT <<'P' || fail "garbage"
import os, random, socket, struct, sys
random.seed(5)
for n in range(60):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)
    kind = n % 4
    try:
        if kind == 0: s.sendall(random.randbytes(random.randrange(1, 5000)))
        elif kind == 1: s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        elif kind == 2: s.sendall(struct.pack(">IHHQIII", 0x4b52414e, random.randrange(120), 0, n, 0, random.randrange(100), 0) + bytes(100))
        else: s.sendall(struct.pack(">IHHQIII", 0x4b52414e, 1, 0, n, 0, 0xffffffff, 0xffffffff))
        s.settimeout(0.2)
        s.recv(100)
    except OSError: pass
    s.close()
P
echo more >"$(seen_from_here 1)/f" && [ "$(cat "$EXPORT/f")" = more ] || fail "garbage disturbed the server"
alive "${DAEMON[server]}" || fail "garbage killed the server"
finish
