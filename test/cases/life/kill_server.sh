# kill -9 and restart of kairand with mounts live and files open: operations wait and go on.
# tags: sanitizer
# timeout: 300
. "$TOP/test/lib.sh"
LEASE=5
up 2
python3 "$TOP/test/programs/steady.py" "$(seen_from_here 1)/a" 200 "$WORK/stop" >"$WORK/steady1" 2>&1 & one=$!
python3 "$TOP/test/programs/steady.py" "$(seen_from_here 2)/b" 200 "$WORK/stop" >"$WORK/steady2" 2>&1 & two=$!
for round in 1 2 3; do
	sleep 0.5
	alive $one && alive $two || fail "no writer to kill the server under: $(tail -n 3 "$WORK"/steady?)"
	server_kill
	sleep 0.3
	server_start
done
touch "$WORK/stop"
wait $one || fail "node 1: $(tail -3 "$WORK/steady1")"
wait $two || fail "node 2: $(tail -3 "$WORK/steady2")"
finish
