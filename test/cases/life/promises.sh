# Writers on three nodes note what they are promised while daemons are killed at random and started again; then the export is read.
# PROMISES_KILLS: how many (8); PROMISES_SEED. At length: CASE_TIMEOUT=3600 PROMISES_KILLS=1000 test/run life/promises
# timeout: 300
. "$TOP/test/lib.sh"
LEASE=5
KILLS=${PROMISES_KILLS:-8}
seed=${PROMISES_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
echo "PROMISES_SEED=$seed"
up 3
RANDOM=$seed
touch "$EXPORT/here"
for i in 1 2 3; do
	on node$i python3 "$TOP/test/programs/keeper.py" write "$(mnt $i)" "$EXPORT" $((i - 1)) 3 "$seed" "$WORK/notes$i" "$WORK/stop" \
		>"$WORK/keeper$i" 2>&1 &
	writer[i]=$!
done
killed_servers=0 killed_mounts=0
kill_node() { mount_kill "$1"; killed_mounts=$((killed_mounts + 1)); }
while [ $((killed_servers + killed_mounts)) -lt "$KILLS" ]; do
	sleep "0.$((RANDOM % 9 + 1))"
	node=$((RANDOM % 3 + 1))
	case $((RANDOM % 6)) in
	0 | 1) server_kill; server_start; killed_servers=$((killed_servers + 1)) ;;
	2) # at once, and the server comes back first or last
		server_kill; killed_servers=$((killed_servers + 1))
		kill_node $node
		server_start
		mount_start $node ;;
	*) kill_node $node; mount_start $node ;;
	esac
	for i in 1 2 3; do alive "${writer[i]}" || fail "the writer on node $i: $(tail -5 "$WORK/keeper$i")"; done
done
touch "$WORK/stop"
for i in 1 2 3; do wait "${writer[i]}" || fail "the writer on node $i: $(tail -5 "$WORK/keeper$i")"; done
for i in 1 2 3; do until_ok 120 "node $i has flushed" on node$i "$B/tools/kairan" flush "$(mnt $i)" || fail "node $i: $(kairan $i status "$(mnt $i)")"; done
python3 "$TOP/test/programs/keeper.py" check "$EXPORT" 3 "$WORK"/notes? || fail "PROMISES_SEED=$seed"
echo "kills: $killed_servers of kairand, $killed_mounts of kairanfs"
finish
