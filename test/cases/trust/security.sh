# Security of connections: with integrity nobody on the way changes anything unnoticed, with privacy nobody reads anything, less than
# either side wants is never given, and secrets stay out of logs.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
KAIRAN=$B/tools/kairan
PROXY=$TOP/test/programs/meddler.py
cluster 2
"$KAIRAN" key "$WORK/key" >/dev/null || fail "no key"
words=The-quick-brown-fox-jumps-over-the-lazy-dog
for i in $(seq 2000); do echo "$words $i"; done >"$EXPORT/text-for-everybody"
remount() { # SERVER-OPTION MOUNT-OPTION
	server_start --no-insecure --key "$WORK/key" ${1:+--security $1} --verbose
	mount_start 1 "key=$WORK/key,debug${2:+,security=$2}"
	mount_start 2 "key=$WORK/key,debug${2:+,security=$2}"
}
unmount() { mount_stop 1 && mount_stop 2 && server_stop || fail "the daemons' ends"; }
use() { # both nodes read (one from the other) and write
	same "$(seen_from_here 1)/text-for-everybody" "$EXPORT/text-for-everybody"
	same "$(seen_from_here 2)/text-for-everybody" "$EXPORT/text-for-everybody"
	seq 100000 >"$WORK/numbers-$1"
	cp "$WORK/numbers-$1" "$(seen_from_here 2)/numbers-$1" || fail "no writing"
	same "$WORK/numbers-$1" "$EXPORT/numbers-$1"
	same "$(seen_from_here 1)/numbers-$1" "$EXPORT/numbers-$1"
}
# listen N: what passes the server's link goes to $WORK/wire-N.
listen() {
	nsenter -t "${KEEPER[server]}" -n -u -m -- python3 "$TOP/test/programs/listener.py" eth0 "$WORK/wire-$1" &
	LISTENER=$!
	until_ok 20 "the listener" test -e "$WORK/wire-$1"
}
heard() { grep -caF "$2" "$WORK/wire-$1"; }

note "integrity is the default, privacy hides"
for level in "" privacy; do
	listen "${level:-integrity}"
	remount "$level" ""
	kairan 1 status --json --key "$WORK/key" $SERVER_ADDRESS | grep "\"security\": \"${level:-integrity}\"" >/dev/null || fail "the status does not say ${level:-integrity}"
	use "${level:-integrity}"
	kill "$LISTENER"; wait "$LISTENER" 2>/dev/null
	unmount
	rm -rf "$WORK"/node*/local/*
done
[ "$(heard integrity "$words")" -gt 0 ] && [ "$(heard integrity text-for-everybody)" -gt 0 ] || fail "the listener is deaf"
[ "$(heard privacy "$words")" = 0 ] && [ "$(heard privacy text-for-everybody)" = 0 ] || fail "with privacy one can listen"

note "a mount gets more than the server gives by itself, and never less"
listen asked
remount auth privacy
use asked
kill "$LISTENER"; wait "$LISTENER" 2>/dev/null
[ "$(heard asked "$words")" = 0 ] || fail "what the mount asked for is not done"
unmount
server_start --no-insecure --key "$WORK/key"
! on node1 timeout 60 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt 1)" -o "local=$WORK/node1/local,security=privacy" 2>"$WORK/err" || fail "privacy without a key"
grep -q "security=privacy needs a key" "$WORK/err" || fail "no word of the missing key: $(cat "$WORK/err")"

note "somebody on the way"
# meddle HOW: a mount through him.
meddle() {
	nsenter -t "${KEEPER[server]}" -n -u -m -- python3 "$PROXY" 7999 $SERVER_ADDRESS $PORT "$1" "$WORK/meddler" &
	MEDDLER=$!
	until_ok 20 "the meddler" test -e "$WORK/meddler"
	rm -f "$WORK/meddler"
}
tries=0
try_through() { tries=$((tries + 1)); on node1 timeout 90 "$B/fuse/kairanfs" $SERVER_ADDRESS:7999:/ "$(mnt 1)" -o "local=$WORK/node1/try-$tries,key=$WORK/key,connect_timeout=5$1" 2>"$WORK/err"; }
meddle honest
try_through "" || fail "an honest middle man disturbs: $(cat "$WORK/err")"
on node1 fusermount3 -u "$(mnt 1)"
kill $MEDDLER; wait $MEDDLER 2>/dev/null
for how in downgrade cipher public; do
	meddle $how
	! try_through ",security=privacy" || fail "$how is not noticed"
	grep -q "somebody changes what it says\|security=integrity only" "$WORK/err" || fail "$how: $(cat "$WORK/err")"
	kill $MEDDLER; wait $MEDDLER 2>/dev/null
done
broken() { grep -c "does not carry the seal of this connection" "$WORK/kairand.log"; }
meddle flip
! try_through "" || fail "a flipped bit is not noticed"
kill $MEDDLER; wait $MEDDLER 2>/dev/null
before=$(broken)
[ "$before" -gt 0 ] || fail "the server's log says nothing: $(tail -3 "$WORK/kairand.log")"
meddle repeat
nsenter -t "${KEEPER[node1]}" -n -u -m -- "$B/fuse/kairanfs" $SERVER_ADDRESS:7999:/ "$(mnt 1)" -f -o "local=$WORK/node1/try-repeat,key=$WORK/key" </dev/null 2>"$WORK/err" &
mount=$!
until_ok 60 "the server's word of the repeated frame" sh -c "[ \$(grep -c 'does not carry the seal of this connection' '$WORK/kairand.log') -gt $before ]" || fail "a repeated frame is not noticed"
kill -KILL $mount; wait $mount 2>/dev/null
on node1 umount -l "$(mnt 1)" 2>/dev/null
kill $MEDDLER; wait $MEDDLER 2>/dev/null
mount_start 1 "key=$WORK/key"
same "$(seen_from_here 1)/text-for-everybody" "$EXPORT/text-for-everybody"

note "an older client is told what is wrong"
on node1 python3 - $SERVER_ADDRESS $PORT <<'END' || fail "no clear answer to an older client"
import socket, struct, sys
def ask(type, fields):
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as s:
        s.sendall(struct.pack(">IHHQIII", 0x4b52414e, type, 0, 1, 0, len(fields), 0) + fields)
        return struct.unpack(">IHHQIII", s.recv(28))[4]
assert ask(8, struct.pack(">II", 1, 1) + bytes(48)) == 43, "AUTH of version 1"
END
grep -q "it speaks protocol 1, and kairan .* here protocol [0-9]* (upgrade kairan there" "$WORK/kairand.log" || fail "nothing in the log of the older client"

seen() { ! python3 "$TOP/test/programs/secret_in_files.py" "$(sed -n "s/^$1 //p" "$WORK/key")" "${@:2}"; }
for wire in "$WORK"/wire-*; do seen id "$wire" >"$WORK/said" || fail "who listens has not heard a handshake: $wire"; done
! seen secret "$WORK"/kairand.log "$WORK"/node*/log "$WORK"/wire-* || fail "the secret was seen"
! grep -hE "(ring_key|ticket|secret|proof)=[0-9a-f]" "$WORK"/kairand.log "$WORK"/node*/log || fail "a secret in a log"
finish
