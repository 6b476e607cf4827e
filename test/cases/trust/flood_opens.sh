# Opens without end, nothing is ever closed, by who has a node's key and by who has a user's: the server stays small, and the honest node is served.
# FLOOD_FILES=300000 test/run trust/flood_opens (some minutes): as many files as a session may have open, and more.
# timeout: 600
. "$TOP/test/lib.sh"
cluster 1
for who in node daemon; do
	"$B/tools/kairan" key $([ $who = node ] || echo "--user $who") "$WORK/key-$who" >/dev/null || fail "no key of $who"
done
chmod 1777 "$EXPORT"
server_start --no-insecure --security auth --key "$WORK/key-node" --key "$WORK/key-daemon"
mount_start 1 "key=$WORK/key-node"
for who in node daemon; do
	nsenter -t "${KEEPER[server]}" -n -- timeout -s KILL 420 python3 "$TOP/test/programs/flood_opens.py" 127.0.0.1 $PORT "${DAEMON[server]}" \
		"$(seen_from_here 1)/word" "$WORK/key-$who" "$([ $who = node ] && echo 0 || id -u $who)" >"$WORK/flood" 2>&1 || fail "$who: $(tail -3 "$WORK/flood")"
	while read -r line; do note "$who: $line"; done <"$WORK/flood"
done
[ "$(cat "$EXPORT/word")" = word ] || fail "what the honest node wrote is not there"
finish
