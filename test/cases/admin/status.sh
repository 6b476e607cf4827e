# kairan status and top of a server: nodes of one name are told apart, times have units, and the key is that of the machine's mounts.
. "$TOP/test/lib.sh"
cluster 1
"$B/tools/kairan" key "$WORK/key" >/dev/null || fail "no key"
mkdir -p "$WORK/etc" && cp -a /etc/. "$WORK/etc" && mkdir -p "$WORK/etc/kairan" && on node1 mount --bind "$WORK/etc" /etc || fail "no /etc"
server_start --no-insecure --key "$WORK/key"
asks() { kairan 1 status "$@" $SERVER_ADDRESS >"$WORK/said" 2>&1; }
note "the key of the machine's mounts"
asks && fail "without a key: $(cat "$WORK/said")"
grep -q "wants a key (--key FILE" "$WORK/said" || fail "no word of a key: $(cat "$WORK/said")"
echo "{\"mount\": {\"key\": \"$WORK/key\"}}" >"$WORK/etc/kairan/kairan.json"
asks || fail "with the key of the mounts: $(cat "$WORK/said")"
kairan 1 top -b -n 1 $SERVER_ADDRESS >"$WORK/said" 2>&1 || fail "top: $(cat "$WORK/said")"
"$B/tools/kairan" key "$WORK/other" >/dev/null || fail "no key"
asks --key "$WORK/other" && fail "a key that is given does not count"
chmod 755 "$WORK" "$WORK/etc" "$WORK/etc/kairan"
on node1 setpriv --reuid 1001 --regid 1001 --clear-groups "$B/tools/kairan" status $SERVER_ADDRESS >"$WORK/said" 2>&1 && fail "a user who may not read the key"
grep -q "wants a key (--key FILE" "$WORK/said" || fail "such a user reads: $(cat "$WORK/said")"

note "two mounts of one name"
mount_start 1
mkdir "$WORK/second"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/second" -o "local=$WORK/second-local" || fail "a second mount"
number() { kairan 1 status --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["server"]["node"])'; }
for mount in "$(mnt 1)" "$WORK/second"; do
	name=node1#$(number "$mount")
	asks && grep -q "^  node        $name (.*connected" "$WORK/said" || fail "no $name in status: $(cat "$WORK/said")"
	kairan 1 top -b -n 1 $SERVER_ADDRESS >"$WORK/said" && grep -q "^$name  *ok " "$WORK/said" || fail "no $name in top: $(cat "$WORK/said")"
done
asks --json && ! grep '#' "$WORK/said" || fail "another name in JSON"
kairan 1 umount "$WORK/second" || fail "umount"
until_ok 10 "one node" sh -c "nsenter -t ${KEEPER[node1]} -n -m '$B/tools/kairan' status $SERVER_ADDRESS | grep -q '^  node        node1 ('" || fail "the name of one node"

note "times"
asks && grep -qE "^$SERVER_ADDRESS: export .*, up [0-9.]+ (s|min), 1 node\b" "$WORK/said" || fail "up: $(cat "$WORK/said")"
kairan 1 status "$(mnt 1)" | grep -qE "heard [0-9.]+ s ago" || fail "heard"
cut_link node1
until_ok 60 "a silent node" sh -c "nsenter -t ${KEEPER[server]} -n -m '$B/tools/kairan' status --key '$WORK/key' 127.0.0.1 | grep -qE 'node1.*silent for [0-9.]+ s \(lost after 20\.0 s\)'" ||
	fail "silent: $(on server "$B/tools/kairan" status --key "$WORK/key" 127.0.0.1)"
heal_link node1

note "why a mount has no connection"
no_server() { kairan 1 status "$(mnt 1)" | grep -E "^  server  +NOT CONNECTED, silent for [0-9.]+ [a-z]+: $1; operations wait$"; }
until_ok 30 "the session again" sh -c "nsenter -t ${KEEPER[node1]} -n -m '$B/tools/kairan' status '$(mnt 1)' | grep -q '^  server *connected'" || fail "no session"
server_stop || fail "the server does not end"
until_ok 10 "no server" no_server "connection refused" || fail "$(kairan 1 status "$(mnt 1)")"
server_start --no-insecure --key "$WORK/other"
EXPECTED_ERRORS='server does not accept node key'
until_ok 10 "a server with another key" no_server "the server does not accept node key .*" || fail "$(kairan 1 status "$(mnt 1)")"
server_stop || fail "the server does not end"
server_start --no-insecure --key "$WORK/key"
finish
