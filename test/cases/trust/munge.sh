# MUNGE: with a munged of our own, root is a node and others are themselves; a munged that is not there, that has another key, and
# credentials of others are refused with a reason.
# tags: sanitizer
# timeout: 180
. "$TOP/test/lib.sh"
EXPECTED_ERRORS="munged on this machine does not answer" # of a node whose munged is stopped
"$B/server/kairand" --munge --print-config 2>"$WORK/err" >/dev/null
! "$B/server/kairand" --munge --insecure "$WORK" 2>"$WORK/err" || fail "munge and insecure together"
! grep -q "built without MUNGE" "$WORK/err" || skip "built without MUNGE"
printf 'root:x:0:0::/:/bin/sh\nalice:x:1:1::/:/bin/sh\n' >"$WORK/passwd"
mount --bind "$WORK/passwd" /etc/passwd || fail "no users"
chmod 711 "$WORK" "$(dirname "$WORK")"

# munged_start NAME KEY: one more munged, at $WORK/NAME/socket.
munged_start() {
	local dir=$WORK/$1
	mkdir -p "$dir" && chmod 755 "$dir"
	(umask 077; head -c 1024 /dev/urandom >"$dir/key")
	[ -z "${2:-}" ] || cp -p "$2" "$dir/key"
	munged -F --force --socket="$dir/socket" --key-file="$dir/key" --pid-file="$dir/pid" --log-file="$dir/log" --seed-file="$dir/seed" \
		--num-threads=2 >"$dir/out" 2>&1 &
	until_ok 30 "munged $1" test -S "$dir/socket" || { cat "$dir/out" "$dir/log"; fail "no munged"; }
	MUNGED=$!
}
munged_start ours
OURS=$MUNGED
munged_start strange
cluster 2
start() { server_start --no-insecure --munge --munge-socket "$WORK/ours/socket" --verbose "$@"; }
try() { # OPTIONS [PREFIX...]
	local options=$1
	shift
	on node2 timeout 60 "$@" "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$(mnt 2)" -o "local=$WORK/node2/try,connect_timeout=20,$options"
}
refused() { # PATTERN TRY-ARGUMENTS...
	local pattern=$1
	shift
	! try "$@" >"$WORK/err" 2>&1 || fail "not refused: $*"
	grep -q -- "$pattern" "$WORK/err" || fail "'$pattern' expected from $*, not: $(cat "$WORK/err"); $(tail -2 "$WORK/kairand.log")"
}

note "root is a node"
start
echo hello >"$EXPORT/hello"
mount_start 1 "munge,munge_socket=$WORK/ours/socket"
[ "$(cat "$(seen_from_here 1)/hello")" = hello ] || fail "nothing to read"
mkdir -m 777 "$(seen_from_here 1)/open" && [ -d "$EXPORT/open" ] || fail "nothing to write"
on node1 setpriv --reuid 7 --regid 8 --clear-groups touch "$(mnt 1)/open/sevens" || fail "a node cannot act for others"
[ "$(stat -c %u:%g "$EXPORT/open/sevens")" = 7:8 ] || fail "made as $(stat -c %u:%g "$EXPORT/open/sevens")"

note "the tool says who it is, too"
status() { kairan 2 status "$@" $SERVER_ADDRESS >"$WORK/status" 2>&1; }
! status && grep -q -- "--munge" "$WORK/status" || fail "no word of MUNGE: $(cat "$WORK/status")"
! status --munge --munge-socket "$WORK/strange/socket" && grep -q "the same munge.key" "$WORK/status" || fail "a strange munged: $(cat "$WORK/status")"
! status --munge --munge-socket "$WORK/ours/socket" --munge-uid 12 && grep -q "does not accept our MUNGE credential" "$WORK/status" ||
	fail "another user's server: $(cat "$WORK/status")"
status --munge --munge-socket "$WORK/ours/socket" && grep -q "1 node\b" "$WORK/status" || fail "no status: $(cat "$WORK/status")"

note "a second mount, and the ring between both"
mount_start 2 "munge,munge_socket=$WORK/ours/socket,security=privacy"
head -c 3000000 /dev/urandom >"$EXPORT/big"
same "$(seen_from_here 1)/big" "$EXPORT/big"
same "$(seen_from_here 2)/big" "$EXPORT/big"
mount_stop 2 || fail "unmount"

note "what a killed mount has left is brought by who proves by MUNGE who he is"
mount_start 2 "munge,munge_socket=$WORK/ours/socket,flush_age=600"
sleep 1.1 # what was written within a second of the server's start may be of before it, as far as a replay knows (server/recovery/late.c)
mount_kill_with 2 "$(mnt 2)/open/left" bytes
replay() { on node2 timeout 100 "$B/tools/kairan" journal "$WORK/node2/local" --replay $SERVER_ADDRESS "$@" >"$WORK/replayed" 2>&1; }
! replay --munge --munge-socket "$WORK/strange/socket" && grep -q "the same munge.key" "$WORK/replayed" || fail "a strange munged: $(cat "$WORK/replayed")"
! replay --munge --munge-socket "$WORK/ours/socket" --munge-uid 12 && grep -q "does not accept our MUNGE credential" "$WORK/replayed" ||
	fail "another user's server: $(cat "$WORK/replayed")"
[ ! -s "$EXPORT/open/left" ] || fail "bytes came without a credential"
replay --munge --munge-socket "$WORK/ours/socket" || fail "not replayed: $(cat "$WORK/replayed")"
[ "$(cat "$EXPORT/open/left")" = bytes ] || fail "replayed: $(cat "$WORK/replayed")"

note "who is refused, and why"
refused "munged on this machine does not answer" "munge,munge_socket=$WORK/none"
refused "the same munge.key" "munge,munge_socket=$WORK/strange/socket"
grep -q "does not fit our MUNGE key" "$WORK/kairand.log" || fail "no word of the key in the server's log"
refused "does not accept our MUNGE credential" "munge,munge_socket=$WORK/ours/socket,munge_uid=12"
grep -q "not for the user that this daemon runs as" "$WORK/kairand.log" || fail "no word of the user in the server's log"
refused "key=FILE" "debug"

note "credentials that were used before, are too old, or were made for something else"
credential() { munge --socket="$WORK/ours/socket" --restrict-uid=0 "$@"; }
# show CREDENTIAL: a stranger shows it to the server; prints the status.
show() {
	on node2 python3 - $SERVER_ADDRESS $PORT "$1" <<'END'
import socket, struct, sys
def ask(s, type, fields):
    s.sendall(struct.pack(">IHHQIII", 0x4b52414e, type, 0, 1, 0, len(fields), 0) + fields)
    header = b""
    while len(header) < 28:
        header += s.recv(28 - len(header))
    status, fields, _ = struct.unpack(">III", header[16:])
    s.recv(fields)
    return status
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as s:
    assert ask(s, 10, struct.pack(">II", 1, 1000) + bytes(32) + bytes([9] * 32) + bytes([1, 1])) == 0
    print(ask(s, 11, struct.pack(">H", len(sys.argv[3])) + sys.argv[3].encode() + b"\0"))
END
}
once=$(credential --string=something-else)
[ "$(show "$once")" = 44 ] && grep -q "was made for something else" "$WORK/kairand.log" || fail "a credential for something else"
[ "$(show "$once")" = 44 ] && grep -q "has been used before" "$WORK/kairand.log" || fail "a replayed credential"
[ "$(show "$(credential --string="$(head -c 64 /dev/zero | tr '\0' x)")")" = 44 ] && grep -q "is not for this connection" "$WORK/kairand.log" ||
	fail "a credential without our proof"
[ "$(show nonsense)" = 44 ] || fail "no credential at all"
old=$(credential --ttl=1 --string=old)
sleep 3
[ "$(show "$old")" = 47 ] && grep -q "has expired" "$WORK/kairand.log" || fail "an old credential"

note "a server without munged says so; when it is there again, nodes go on"
kairan 1 doctor "$(mnt 1)" >"$WORK/said"; grep -q "^  ok  *munge: munged answers" "$WORK/said" || fail "munged runs: $(cat "$WORK/said")"
kill "$OURS"; wait "$OURS" 2>/dev/null
kairan 1 doctor "$(mnt 1)" >"$WORK/said"
[ $? = 1 ] && grep -q "^  PROBLEM  munge: nothing can connect anew: munged on this machine does not answer" "$WORK/said" || fail "no munged: $(cat "$WORK/said")"
! grep -q "no node that comes by MUNGE is let in" "$WORK/kairand.log" || fail "kairand misses a munged that answers"
server_kill
start
until_ok 30 "a word of munged at the start" grep -q "warning: --munge: munged on this machine does not answer: .*; no node that comes by MUNGE is let in" "$WORK/kairand.log" ||
	fail "$(cat "$WORK/kairand.log")"
munged_start other "$WORK/ours/key"
refused "munged does not answer on the server's machine" "munge,munge_socket=$WORK/other/socket"
rm -f "$WORK/ours/socket"
cp -p "$WORK/ours/key" "$WORK/key"
munged_start ours "$WORK/key"
server_kill
start
until_ok 60 "node1 again" timeout -s KILL 5 cat "$(seen_from_here 1)/hello" || fail "waited too long"

note "munged stands still, and a connection ends before it has made the credential"
kill -STOP "$MUNGED"
server_kill
start
asks() { on node1 ss -xnpH | awk '/kairanfs/ && $4 > 0 { waits = 1 } END { exit !waits }'; } # bytes that nobody has read
until_ok 60 "node1 asks munged" asks || fail "node1 does not ask: $(on node1 ss -xnpH)"
server_kill
kill -CONT "$MUNGED"
start
until_ok 60 "node1 once more" timeout -s KILL 5 cat "$(seen_from_here 1)/hello" || fail "waited too long"

! grep -hE "MUNGE:[A-Za-z0-9+/]{8}" "$WORK"/kairand.log "$WORK"/node*/log || fail "a credential in a log"
mount_stop 1
finish
