# Keys: who has one gets in, nobody else does, everybody is told why; keys are changed while files are written.
# tags: sanitizer
# timeout: 180
. "$TOP/test/lib.sh"
KAIRAN=$B/tools/kairan
keys=$WORK/keys
# Users of our own, in this case's mount namespace.
printf 'root:x:0:0::/:/bin/sh\nalice:x:1:1::/:/bin/sh\nbob:x:2:2::/:/bin/sh\n' >"$WORK/passwd"
printf 'root:x:0:\nalice:x:1:\nbob:x:2:\nteam:x:77:alice\n' >"$WORK/group"
mount --bind "$WORK/passwd" /etc/passwd && mount --bind "$WORK/group" /etc/group || fail "no users"
mkdir -m 755 "$keys"
make_key() { "$KAIRAN" key "$@" >>"$WORK/keys.out" 2>&1 || { tail -2 "$WORK/keys.out" >&2; fail "kairan key $*"; }; }
make_key "$keys/one"
make_key "$keys/two"
make_key "$keys/stranger"
make_key --user alice "$keys/alice"
make_key --user 4294967 "$keys/unknown_user"
make_key --expires 1 "$keys/expiring"
cp -p "$keys/one" "$keys/readable" && chmod 644 "$keys/readable"
cp -p "$keys/one" "$keys/foreign" && chown 1 "$keys/foreign"
sed 's/^secret ......../secret 00000000/' "$keys/one" >"$keys/edited" && chmod 600 "$keys/edited"

note "the tool"
[ "$(stat -c %a "$keys/one")" = 600 ] || fail "a key file is not private"
"$KAIRAN" key "$keys/one" 2>"$WORK/err" && fail "a key file was overwritten"
grep -q "not overwritten" "$WORK/err" || fail "no word of overwriting: $(cat "$WORK/err")"
"$KAIRAN" key --show "$keys/alice" | grep -q "of user alice (1)" || fail "--show does not tell the user"
! "$KAIRAN" key --show "$keys/one" | grep -qF "$(sed -n 's/^secret //p' "$keys/one")" || fail "--show shows the secret"
! grep -qE '[0-9a-f]{64}' "$WORK/keys.out" || fail "the tool prints a secret"

# refused PROGRAM-OUTPUT-PATTERN COMMAND...: fails at once, with this reason.
refused() {
	local pattern=$1
	shift
	! "$@" </dev/null >"$WORK/err" 2>&1 || fail "not refused: $*"
	grep -q -- "$pattern" "$WORK/err" || fail "'$pattern' expected from $*, not: $(cat "$WORK/err")"
}
try_mount() { on node2 timeout 60 "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$(mnt 2)" -o "local=$WORK/node2/local${1:+,key=$1}"; }

cluster 2
note "a server that cannot start"
serve() { on server timeout 30 "$B/server/kairand" --listen "0.0.0.0:$PORT" --state "$WORK/state" "$@" "$EXPORT"; }
refused "make a key with" serve
refused "choose one" serve --insecure --key "$keys/one"
refused "can be read or written by others (mode 0644)" serve --key "$keys/readable"
refused "belongs to user 1," serve --key "$keys/foreign"
refused "damaged or edited" serve --key "$keys/edited"
refused "No such file" serve --key "$keys/none"
refused "holds the same key" serve --key "$keys/one" --key "$keys/one"

note "a server without keys cannot prove who it is"
server_start
refused "start kairand with --key" try_mount "$keys/one"
server_stop || fail "the server's end"

cp -p "$keys/two" "$keys/slot"
start() { server_start --no-insecure --key "$keys/one" --key "$keys/slot" --key "$keys/alice" --key "$keys/unknown_user" --key "$keys/expiring"; }
start
cp -p "$keys/one" "$keys/node1_key"
mount_start 1 "key=$keys/node1_key"
echo hello >"$EXPORT/hello"
[ "$(on node1 cat "$(mnt 1)/hello")" = hello ] || fail "nothing to read with the right key"
on node1 cp -r "$TOP/common" "$(mnt 1)/tree" || fail "nothing to write with the right key"
same_tree "$TOP/common" "$EXPORT/tree"
if [ "$SLOW" = 1 ]; then # a sanitizer's memory is endless
	for daemon in server node1; do
		python3 "$TOP/test/programs/secrets.py" "$keys/one" "${DAEMON[$daemon]}" >"$WORK/places" || fail "$daemon: the secret lies open: $(cat "$WORK/places")"
	done
fi

note "mounts that are refused"
refused "it wants a key (mount with -o key=FILE" try_mount
refused "does not accept node key" try_mount "$keys/stranger"
grep -q "which is not among ours" "$WORK/kairand.log" || fail "the server's log has no reason"
refused "can be read or written by others (mode 0644)" try_mount "$keys/readable"
refused "belongs to user 1," try_mount "$keys/foreign"
refused "damaged or edited" try_mount "$keys/edited"
refused "it does not know the user of this key" try_mount "$keys/unknown_user"
grep -q "user 4294967 (4294967), whom this machine does not know" "$WORK/kairand.log" || fail "the server's log does not name the user"

note "an expired key"
make_expired() { # a key of the past, as kairan key would have made it then
	python3 - "$1" <<'END'
import hashlib, os, struct, sys
created, expires, secret = 1000000000, 1000086400, os.urandom(32)
label = b"kairan-key-id-1".ljust(16, b"\0")
name = hashlib.blake2b(label + struct.pack(">BIQQ", 1, 0, created, expires), digest_size=16, key=secret).hexdigest()
with open(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
    f.write(f"kairan-key 1\nid {name}\nidentity node\ncreated 2001-09-09T01:46:40Z\nexpires 2001-09-10T01:46:40Z\nsecret {secret.hex()}\n")
END
}
make_expired "$keys/expired"
refused "expired at 2001-09-10T01:46:40Z, and this machine's clock says" try_mount "$keys/expired"

note "the tool at a server"
refused "the server wants a key" kairan 2 status $SERVER_ADDRESS
refused "does not accept" kairan 2 status --key "$keys/stranger" $SERVER_ADDRESS
kairan 2 status --json --key "$keys/one" $SERVER_ADDRESS >"$WORK/status" || fail "no status with a key"
grep -q '"key": "node key' "$WORK/status" || fail "status does not name the session's key"

note "a user key acts for its user only"
mount_start 2 "key=$keys/alice,allow_other"
kairan 2 doctor "$(mnt 2)" >"$WORK/doctor" 2>&1 || fail "doctor: $(cat "$WORK/doctor")"
grep -q "key: .*of user alice" "$WORK/doctor" && ! grep -q "ring port" "$WORK/doctor" || fail "doctor of a mount in no ring: $(cat "$WORK/doctor")"
mkdir -m 777 "$EXPORT/open"
on node2 setpriv --reuid 1 --regid 1 --clear-groups touch "$(mnt 2)/open/mine" || fail "its own user cannot create"
[ "$(stat -c %u:%g "$EXPORT/open/mine")" = 1:1 ] || fail "made as $(stat -c %u:%g "$EXPORT/open/mine")"
refused "Operation not permitted" on node2 touch "$(mnt 2)/open/roots"
refused "Operation not permitted" on node2 setpriv --reuid 2 --regid 2 --clear-groups touch "$(mnt 2)/open/others"
refused "Operation not permitted" on node2 setpriv --reuid 1 --regid 0 --clear-groups touch "$(mnt 2)/open/roots_group"
on node2 setpriv --reuid 1 --regid 77 --clear-groups touch "$(mnt 2)/open/teams" || fail "a group of the user's is refused"
[ "$(stat -c %u:%g "$EXPORT/open/teams")" = 1:77 ] || fail "made as $(stat -c %u:%g "$EXPORT/open/teams")"
[ "$(ls "$EXPORT/open" | paste -sd' ')" = "mine teams" ] || fail "somebody else's files were made: $(ls "$EXPORT/open")"
mount_stop 2 || fail "unmount"

note "what her mount has left is brought with her key, by whoever has it"
mount_start 2 "key=$keys/alice,allow_other,flush_age=600"
sleep 1.1 # what was written within a second of the server's start may be of before it, as far as a replay knows (server/recovery/late.c)
mount_kill_with 2 "$(mnt 2)/open/left" bytes 1
replay() { on node2 timeout 100 "$KAIRAN" journal "$WORK/node2/local" --replay $SERVER_ADDRESS "$@"; }
refused "it wants a key" replay
refused "does not accept" replay --key "$keys/stranger"
refused "security=privacy needs a key" replay --security privacy
refused "is none of auth|integrity|privacy" replay --key "$keys/alice" --security none
[ ! -s "$EXPORT/open/left" ] || fail "bytes came without a key"
replay --key "$keys/alice" --security privacy >"$WORK/replayed" || fail "not replayed: $(cat "$WORK/replayed")"
grep -q "open/left: 5 bytes applied in place" "$WORK/replayed" && [ "$(cat "$EXPORT/open/left")" = bytes ] || fail "replayed: $(cat "$WORK/replayed")"

note "garbage instead of a handshake"
on node2 python3 - $SERVER_ADDRESS $PORT <<'END' || fail "the server does not bear garbage"
import random, socket, struct, sys
random.seed(7)
PROTONOSUPPORT = 43 # common/rpc/status.def
def frame(type, fields, flags=0, id=1, status=0, length=None):
    return struct.pack(">IHHQIII", 0x4b52414e, type, flags, id, status, len(fields) if length is None else length, 0) + fields
auth = struct.pack(">II", 1, 1) + bytes(48)
noise = lambda n: bytes(random.randrange(256) for _ in range(n))
inputs = [b"", b"GET / HTTP/1.0\r\n\r\n", noise(4096), frame(8, b""), frame(8, auth), frame(8, auth + b"x"), frame(8, auth[:-1]), frame(9, bytes(32)),
    frame(9, bytes(31)), frame(8, auth, length=1 << 31), frame(8, auth, flags=8), frame(8, auth, flags=1), frame(8, auth) + frame(9, bytes(32), id=2),
    frame(8, auth) + frame(8, auth, id=2), frame(1, noise(80)), frame(6, b"\0\6status\0\0\0\0"), frame(16, noise(40)), frame(40, b"")]
for data in inputs + [frame(random.choice([8, 9]), noise(random.randrange(80))) for _ in range(300)]:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while piece := s.recv(4096):
                got += piece
        except ConnectionError:
            pass
        while got: # replies with a status and nothing else, but for the version that the server speaks
            magic, type, flags, id, status, fields, size = struct.unpack(">IHHQIII", got[:28])
            assert magic == 0x4b52414e and flags == 1 and status and fields == (4 if status == PROTONOSUPPORT else 0) and not size, got
            got = got[28 + fields:]
END
[ "$(on node1 cat "$(mnt 1)/hello")" = hello ] || fail "garbage disturbed a mount"

note "keys are changed without downtime"
cp -p "$keys/one" "$keys/node2_key"
mount_start 2 "key=$keys/node2_key"
on node2 sh -c "cd '$(mnt 2)' && i=0; while [ ! -e '$WORK/enough' ]; do i=\$((i + 1)); echo \$i >>counted || exit 1; done; echo \$i >'$WORK/last'" &
writer=$!
until_ok 20 "the writer's first lines" test -s "$EXPORT/counted" || fail "waited too long"
make_key "$keys/three"
mv "$keys/three" "$keys/slot"                      # the server: two -> three
kill -HUP "${DAEMON[server]}"
until_ok 20 "the new key" sh -c "grep -c 'accepting' '$WORK/kairand.log' | grep -qx 10" || fail "waited too long"
cp -p "$keys/slot" "$keys/new" && mv "$keys/new" "$keys/node2_key"
cp -p "$keys/one" "$keys/old"
cp -p "$keys/two" "$keys/new" && mv "$keys/new" "$keys/one" # the server: one -> two, so node1 is out, node2 comes back with three
kill -HUP "${DAEMON[server]}"
until_ok 20 "node2 with its new key" sh -c "grep -q 'node node2 .* goes on' '$WORK/kairand.log'" || fail "waited too long"
sleep 0.2
touch "$WORK/enough"
wait "$writer" || fail "the writer saw the change of keys"
until_ok 20 "node2's lines" sh -c "[ \"\$(tail -1 '$EXPORT/counted')\" = \"\$(cat '$WORK/last')\" ]" || fail "waited too long"
[ "$(wc -l <"$EXPORT/counted")" = "$(cat "$WORK/last")" ] || fail "lines are missing"
until_ok 20 "node1's word of its refused key" grep -q "does not accept node key" "$WORK/node1/log" || fail "waited too long"

note "a file that cannot be used changes nothing"
chmod 644 "$keys/slot"
kill -HUP "${DAEMON[server]}"
until_ok 20 "the server's word" grep -q "the keys stay as they were" "$WORK/kairand.log" || fail "waited too long"
kairan 2 status --key "$keys/two" $SERVER_ADDRESS >/dev/null || fail "the keys are gone"
chmod 600 "$keys/slot"

note "node1 gets a key again, in the place of its old one"
cp -p "$keys/two" "$keys/new" && mv "$keys/new" "$keys/node1_key"
until_ok 30 "node1 again" timeout -s KILL 5 nsenter -t "${KEEPER[node1]}" -m cat "$(mnt 1)/hello" || fail "waited too long"

! grep -hE "$(sed -n 's/^secret //p' "$keys"/* | sort -u | paste -sd'|')" "$WORK"/kairand.log "$WORK"/node*/log "$WORK/keys.out" || fail "a secret in a log"
EXPECTED_ERRORS='the keys stay as they were: key file /keys/slot can be read or written by others|does not accept node key'
finish
