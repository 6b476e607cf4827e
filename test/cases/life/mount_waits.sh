# A mount that begins before its server is there, as after a power cut: it says what it waits for, and is there when the server is; what
# refuses it ends the wait at once, as signals do, whatever it waits for.
# tags: sanitizer
# timeout: 240
. "$TOP/test/lib.sh"
cluster 1
M=$(mnt 1)
local_options=local=$WORK/node1/local
# begin SOURCE [OPTIONS]: a mount in the background, whose words go to $WORK/said.
begin() {
	: >"$WORK/said"
	# A shell's background commands ignore SIGINT.
	nsenter -t "${KEEPER[node1]}" -n -u -m -- env --default-signal=INT "$B/fuse/kairanfs" "$1" "$M" -o "$local_options,connect_timeout=${3:-1h}${2:+,$2}" >"$WORK/said" 2>&1 &
	MOUNT=$!
}
said() { until_ok 60 "'$1'" grep -q -- "$1" "$WORK/said" || fail "'$1' is not said: $(cat "$WORK/said")"; }
none_left() { ! nsenter -t "${KEEPER[node1]}" -n pgrep -f "kairanfs.*$local_options" >/dev/null; }
unmount() { on node1 fusermount3 -u "$M" && until_ok 60 "the end of the daemon" none_left || fail "its daemon goes on after the unmount"; }
ended() { until_ok 60 "the end of the mount" gone "$MOUNT" && until_ok 60 "no daemon" none_left || fail "$1: it goes on"; }

note "nobody listens, then the machine cannot be reached, then the server is there"
begin $SERVER_ADDRESS:/
said "cannot reach server $SERVER_ADDRESS:7440: connection refused (is kairand running there?); trying again for 3600 s"
gone $MOUNT && fail "it does not wait: $(cat "$WORK/said")"
daemon=$(pgrep -P $MOUNT)
[ "$(ps -o pgid= -p "$daemon")" = "$(ps -o pgid= -p $MOUNT)" ] || fail "autofs lets in the process group that is to mount, and the daemon has left it"
server_start
wait $MOUNT || fail "not mounted: $(cat "$WORK/said")"
[ "$(ps -o sid= -p "$daemon" | tr -d ' ')" = "$daemon" ] || fail "the daemon stays in the session of who has mounted"
[ "$(grep -c . "$WORK/said")" = 1 ] || fail "said more than once: $(cat "$WORK/said")"
on node1 touch "$M/file" && [ -e "$EXPORT/file" ] || fail "it does not serve"
unmount
server_stop || fail "server"
on node1 ip addr del 10.77.1.1/16 dev eth0
begin $SERVER_ADDRESS:/
said "is the network up, and that machine?"
on node1 ip addr add 10.77.1.1/16 dev eth0
server_start
wait $MOUNT || fail "not mounted after the network came: $(cat "$WORK/said")"
unmount

note "a dead mount stays until the new one is there: no program writes below"
begin $SERVER_ADDRESS:/
wait $MOUNT || fail "not mounted: $(cat "$WORK/said")"
kill -KILL "$(on node1 pgrep -f "kairanfs.*$local_options")"
until_ok 10 "the end of the daemon" none_left || fail "it is not killed"
kill -STOP "${DAEMON[server]}"
begin $SERVER_ADDRESS:/
said "the daemon of the mount on $M is gone: this mount takes its place"
said "no answer from server"
on node1 touch "$M/below" 2>"$WORK/error" && fail "a program writes below the mount point"
grep -q "endpoint is not connected" "$WORK/error" && [ -z "$(ls -A "$M")" ] || fail "a dead mount: $(cat "$WORK/error"; ls -A "$M")" # M is bare here
kill -CONT "${DAEMON[server]}"
wait $MOUNT || fail "not mounted over a dead mount: $(cat "$WORK/said")"
[ "$(on node1 grep -c " $M fuse" /proc/mounts)" = 1 ] && on node1 ls "$M/file" >/dev/null || fail "the dead mount is still there"
unmount

note "a name that nobody knows yet"
cp /etc/hosts "$WORK/hosts"
on node1 mount --bind "$WORK/hosts" /etc/hosts || fail "no hosts"
begin the-file-server:/
said "the-file-server:7440: "
echo "$SERVER_ADDRESS the-file-server" >>"$WORK/hosts"
wait $MOUNT || fail "not mounted after the name came: $(cat "$WORK/said")"
unmount

note "what refuses the mount ends it at once"
begin $SERVER_ADDRESS:/none-of-its-directories
ended "no such subdirectory" && grep -q "the export has no such subdirectory" "$WORK/said" || fail "subdirectory: $(cat "$WORK/said")"
on server python3 -c 'import socket
s = socket.create_server(("", 7442))
print("listens", flush=True)
while True:
    s.accept()[0].sendall(b"SSH-2.0-and this is no kairand, as everybody sees who reads it\r\n")' >"$WORK/other" &
until_ok 60 "another server" grep -q listens "$WORK/other"
begin $SERVER_ADDRESS:7442:/
ended "not a kairand" && grep -q "is it kairand that listens there?" "$WORK/said" || fail "not a kairand: $(cat "$WORK/said")"

note "what closes the connection, or says nothing, may be kairand again later"
on server python3 -c 'import socket
closes, silent = socket.create_server(("", 7443)), socket.create_server(("", 7444))
print("listens", flush=True)
while True:
    closes.accept()[0].close()' >"$WORK/more" &
until_ok 60 "more servers" grep -q listens "$WORK/more"
begin $SERVER_ADDRESS:7443:/
said "cannot reach server $SERVER_ADDRESS:7443: .*by.* peer (kairand's log there may say why); trying again for 3600 s"
kill -TERM $MOUNT
ended "closed"
begin $SERVER_ADDRESS:7444:/ "" 12
said "no answer from server $SERVER_ADDRESS:7444 (is the address right, and is a firewall between?); trying again for 12 s"
wait $MOUNT && fail "mounted without an answer"
grep -q "cannot reach server $SERVER_ADDRESS:7444: no answer .*; gave up after 12 s" "$WORK/said" || fail "$(cat "$WORK/said")"

note "signals end the wait, in the background and in the foreground, whatever it waits for"
server_stop || fail "server"
for signal in INT TERM KILL; do
	begin $SERVER_ADDRESS:/
	said "trying again"
	kill -$signal $MOUNT
	ended "SIG$signal"
done
# A name service that takes what it is asked and never answers.
on server python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 53))
print("listens", flush=True)
time.sleep(100000)' >"$WORK/names" &
until_ok 60 "a name service" grep -q listens "$WORK/names"
printf 'nameserver %s\noptions timeout:30 attempts:5\n' $SERVER_ADDRESS >"$WORK/resolv.conf"
printf 'hosts: files dns\n' >"$WORK/nsswitch"
on node1 mount --bind "$WORK/resolv.conf" /etc/resolv.conf && on node1 mount --bind "$WORK/nsswitch" /etc/nsswitch.conf || fail "no resolv.conf"
begin another-file-server:/ foreground
said "no answer from server another-file-server:7440"
kill -TERM $MOUNT
ended "a name service that does not answer"
grep -q "interrupted by a signal" "$WORK/said" || fail "no word of the signal: $(cat "$WORK/said")"

note "the wait has an end"
begin $SERVER_ADDRESS:/ "" 0.3
wait $MOUNT && fail "mounted without a server"
grep -q "connection refused (is kairand running there?); gave up after 0.3 s (connect_timeout)" "$WORK/said" || fail "$(cat "$WORK/said")"
finish
