# A node that breaks every rule: nobody else notices, and no daemon falls over.
# tags: sanitizer
# timeout: 240
LEASE=4
. "$TOP/test/lib.sh"
SEED=${HOSTILE_SEED:-1} SECONDS_EACH=${HOSTILE_SECONDS:-7}
EXPECTED_ERRORS='answers a recall with an error'
rss() { awk '/VmRSS/ { print $2 }' "/proc/${DAEMON[$1]}/status"; }

cluster 3
mkdir -m 700 "$EXPORT/private"
mkdir "$EXPORT/public"
chmod 777 "$EXPORT" "$EXPORT/public"
for name in a b c d; do
	head -c 600000 /dev/urandom >"$EXPORT/public/$name"
	cp "$EXPORT/public/$name" "$EXPORT/$name"
	chown 1000:1000 "$EXPORT/$name" "$EXPORT/public/$name"
done
server_start
mount_start 1
mount_start 2
note "a malicious node, seed $SEED, beside an honest history"
python3 "$TOP/test/programs/history.py" --seed "$SEED" --seconds "$SECONDS_EACH" "$(seen_from_here 1)/private" "$(seen_from_here 2)/private" \
	>"$WORK/history" 2>&1 &
history=$!
# Its files are anybody's: whoever uses them gets what he gets, but gets it in time. They may have terabytes, so each read is timed:
# every one may meet a holder that lets go only when the lease time is over.
nsenter -t "${KEEPER[node1]}" -m python3 "$TOP/test/programs/starved.py" "$WORK/enough" $((15 * LEASE * SLOW)) \
	"$(mnt 1)"/public/{a,b,c,d} "$(mnt 1)"/{a,b,c,d} >"$WORK/reads" 2>&1 &
reader=$!
on node3 "$B/test/fuzz/fuzz_peer" $SERVER_ADDRESS $PORT "$SEED" "$SECONDS_EACH" >"$WORK/peer" 2>&1 || fail "the peer: $(cat "$WORK/peer")"
note "$(cat "$WORK/peer"); the server takes $(rss server) kB"
wait $history || fail "the honest history is broken: $(tail -5 "$WORK/history")"
touch "$WORK/enough"
wait $reader || fail "an honest reader is starved: $(tail -3 "$WORK/reads")"
note "$(cat "$WORK/reads")"
alive "${DAEMON[server]}" || fail "the server has died"
alive "${DAEMON[node1]}" && alive "${DAEMON[node2]}" || fail "a mount has died"
nm -D "$B/server/kairand" 2>/dev/null | grep -q __asan_init || [ "$(rss server)" -lt 400000 ] || fail "the server takes $(rss server) kB"
echo fine >"$EXPORT/private/word"
[ "$(on node2 cat "$(mnt 2)/private/word")" = fine ] || fail "a mount does not work any more"

finish
