# Thousands of connections that say nothing, half a handshake, or open sessions: the server stays small, and the honest node is served.
# timeout: 180
. "$TOP/test/lib.sh"
up 1
nsenter -t "${KEEPER[server]}" -n -- timeout -s KILL 150 python3 "$TOP/test/programs/flood.py" 127.0.0.1 $PORT "${DAEMON[server]}" "$(seen_from_here 1)/word" >"$WORK/flood" 2>&1 ||
	fail "$(tail -3 "$WORK/flood")"
while read -r line; do note "$line"; done <"$WORK/flood"
[ "$(cat "$EXPORT/word")" = sessions ] || fail "what the honest node wrote is not there"
finish
