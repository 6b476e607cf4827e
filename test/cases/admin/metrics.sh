# Metrics over HTTP of a server and of mounts: strictly OpenMetrics, equal to what was done, as documented; hostile clients stop nothing.
# tags: sanitizer
. "$TOP/test/lib.sh"
cluster 2
M1=$(mnt 1) M2=$(mnt 2)
SIZE=4194304
EXPECTED_ERRORS='metrics: '
help=$("$B/server/kairand" --metrics 127.0.0.1:1 "$EXPORT/none" 2>&1)
! grep -q 'built without metrics' <<<"$help" || skip "built without libmicrohttpd"

# The text is made anew five times a second at most.
scrape() { sleep 0.25; on "$1" python3 "$TOP/test/programs/metrics.py" scrape "$2" >"$WORK/figures" || fail "$2"; }
# figure NAME{LABELS}: of the latest scrape.
figure() { awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' "$WORK/figures" || fail "no $1"; }
# check NAME{LABELS} OPERATOR NUMBER
check() { local is; is=$(figure "$1") || exit 1; awk "BEGIN { exit !($is $2 $3) }" || fail "$1 is $is, not $2 $3"; }
server() { scrape server http://127.0.0.1:9440/metrics; }
node1() { scrape node1 'http://[::1]:9441/metrics'; }
node2() { scrape node2 http://127.0.0.1:9442/metrics; }

note "bad addresses"
for address in 9440 localhost:9440 127.0.0.1 127.0.0.1:x '[::1]' '*:9440'; do
	said=$(on server "$B/server/kairand" --metrics "$address" "$EXPORT" 2>&1) && fail "kairand takes $address"
	grep -q "metrics: .*$(printf %s "$address" | sed 's/[][*.]/\\&/g')" <<<"$said" || fail "kairand of $address: $said"
done
said=$(on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$M1" -o "metrics=9441" 2>&1) && fail "kairanfs takes 9441"
grep -q '"9441" is not ADDR:PORT' <<<"$said" || fail "kairanfs: $said"
said=$(on server "$B/server/kairand" --listen 127.0.0.1:7555 --state "$WORK/other" --metrics 192.0.2.1:9440 "$EXPORT" 2>&1) && fail "an address of another machine"
grep -q 'metrics: cannot listen on 192.0.2.1:9440: Cannot assign' <<<"$said" || fail "another machine's: $said"

server_start --metrics 0.0.0.0:9440
mount_start 1 'metrics=[::1]:9441,close=async,flush_age=600'
mount_start 2 metrics=127.0.0.1:9442
grep -q 'metrics: http://0.0.0.0:9440/metrics; everybody who reaches' "$WORK/kairand.log" || fail "the server does not say that others can read it"
grep -q 'metrics: http://\[::1\]:9441/metrics$' "$WORK/node1/log" || fail "the mount does not say where"
mkdir "$WORK/node1/second"
said=$(on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/node1/second" -o "local=$WORK/node1/other,metrics=[::1]:9441" 2>&1) && fail "one port for two mounts"
grep -q 'metrics: \[::1\]:9441 is in use' <<<"$said" || fail "a port in use: $said"

note "written"
on node1 dd if=/dev/zero of="$M1/file" bs=128K count=32 status=none || fail "writing"
node1
check kairan_node_written_bytes_total == $SIZE
check kairan_node_backlog_bytes == $SIZE
check kairan_node_backlog_files == 1
check kairan_node_journal_used_bytes '>' $SIZE
check 'kairan_node_operation_duration_seconds_count{operation="write"}' == 32
check 'kairan_node_operation_duration_seconds_count{operation="create"}' == 1
check 'kairan_node_operation_duration_seconds_sum{operation="write"}' '<' 60
check kairan_node_server_connected == 1
sleep 0.3
node1
check kairan_node_backlog_age_seconds '>=' 0.2
on node1 sync "$M1/file" || fail "fsync"
node1
check kairan_node_backlog_bytes == 0
check kairan_node_backlog_age_seconds == 0
check kairan_node_flushed_bytes_total == $SIZE
check kairan_node_flushes_total '>=' 1
check 'kairan_node_operation_duration_seconds_count{operation="fsync"}' == 1
server
check kairan_server_export_written_bytes_total == $SIZE
check kairan_server_flushed_bytes_total == $SIZE
check kairan_server_syncs_total '>=' 1
check kairan_server_sync_errors_total == 0
check 'kairan_server_sessions{state="connected"}' == 2
check 'kairan_server_requests_total{type="FLUSH"}' '>=' 1
check 'kairan_server_request_duration_seconds_count{type="FLUSH"}' '>=' 1
check kairan_server_leases_granted_total '>=' 1
check kairan_server_export_present == 1
check process_resident_memory_bytes '>' 1000000
memory=$(figure process_resident_memory_bytes)

note "read"
on node2 cmp "$M2/file" "$EXPORT/file" || fail "reading"
node2
check kairan_node_read_bytes_total '>=' $SIZE
check 'kairan_node_cache_reads_total{result="miss"}' '>=' 1
check kairan_node_ring_received_bytes_total '>=' $SIZE
hits=$(figure 'kairan_node_cache_reads_total{result="hit"}') misses=$(figure 'kairan_node_cache_reads_total{result="miss"}')
on node2 dd if="$M2/file" of=/dev/null bs=1M iflag=direct status=none || fail "reading again"
node2
check 'kairan_node_cache_reads_total{result="hit"}' '>=' $((hits + 4))
check 'kairan_node_cache_reads_total{result="miss"}' == "$misses"
check kairan_node_cache_bytes '>=' $SIZE
on node1 sh -c "echo more >>'$M1/file' && sync '$M1/file'" || fail "appending"
node2
check kairan_node_lease_recalls_total '>=' 1 # of READ
server
check kairan_server_lease_recalls_total '>=' 1
check kairan_server_served_bytes_total '>=' 131072

note "names"
on server python3 "$TOP/test/programs/metrics.py" documented "$TOP/docs/metrics.md" http://127.0.0.1:9440/metrics >"$WORK/names"
on node1 python3 "$TOP/test/programs/metrics.py" documented "$TOP/docs/metrics.md" 'http://[::1]:9441/metrics' >>"$WORK/names"
# What only one of both has, is documented, and has its name.
! grep -v 'only in .*docs/metrics.md' "$WORK/names" || fail "not as documented"
! sort "$WORK/names" | uniq -d | grep . || fail "only documented"

note "hostile clients"
on node2 python3 "$TOP/test/programs/metrics.py" hostile $SERVER_ADDRESS 9440 2 >"$WORK/hostile" 2>&1 &
hostile=$!
for number in 1 2 3; do
	scrape node1 "http://$SERVER_ADDRESS:9440/metrics"
	on node1 timeout $((5 * SLOW)) sh -c "echo $number >'$M1/small-$number' && sync '$M1/small-$number'" || fail "the server does not serve"
	sleep 0.1
done
wait $hostile || fail "hostile: $(cat "$WORK/hostile")"
note "$(cat "$WORK/hostile")"
until_ok 15 "a connection after the hostile ones" on node2 python3 "$TOP/test/programs/metrics.py" scrape "http://$SERVER_ADDRESS:9440/metrics" || fail "hostile connections stay"
server
check process_resident_memory_bytes '<' "($memory + $((SLOW * 16 << 20)))"

note "without a server"
server_stop || fail "kairand: $?"
node1
check kairan_node_server_connected == 0
server_start
finish
