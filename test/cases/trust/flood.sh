# Thousands of connections that say nothing, half a handshake, or open sessions; sessions that ask for as much as they may, and as it hurts most:
# the server stays small, and the honest node is served.
# timeout: 900
. "$TOP/test/lib.sh"
up 1
flood() { # PROGRAM
	nsenter -t "${KEEPER[server]}" -n -- timeout -s KILL 420 python3 "$TOP/test/programs/$1" 127.0.0.1 $PORT "${DAEMON[server]}" "$(seen_from_here 1)/word" >"$WORK/flood" 2>&1 ||
		fail "$(tail -3 "$WORK/flood")"
	while read -r line; do note "$line"; done <"$WORK/flood"
}
flood flood.py
[ "$(cat "$EXPORT/word")" = sessions ] || fail "what the honest node wrote is not there"
flood flood_requests.py
[ "$(cat "$EXPORT/word")" = word ] || fail "what the honest node wrote is not there"
finish
