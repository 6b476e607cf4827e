# The page at the port of metrics, and the dashboard for Grafana: what they name exists; a Chromium, if one is here, shows trouble, and names as text.
# tags: long
. "$TOP/test/lib.sh"
LEASE=60
cluster 3
help=$("$B/server/kairand" --metrics 127.0.0.1:1 "$EXPORT/none" 2>&1)
! grep -q 'built without metrics' <<<"$help" || skip "built without libmicrohttpd"
page() { on server python3 "$TOP/test/programs/page.py" "$@"; }
SERVER=http://127.0.0.1:9440/ NODE1=http://10.77.1.1:9441/ NODE2=http://10.77.1.2:9441/
ODD=$'<b>\xe2\x80\xa8node2' # with a line separator

server_start --metrics 127.0.0.1:9440
mount_start 1 metrics=10.77.1.1:9441
mount_start 2 "metrics=10.77.1.2:9441,close=async,flush_age=600,node=$ODD"
mount_start 3
on node1 sh -c "dd if=/dev/zero of='$(mnt 1)/file' bs=1M count=8 status=none && sync '$(mnt 1)/file'" || fail "writing"
on node3 cmp "$(mnt 3)/file" "$EXPORT/file" || fail "reading"
on node2 dd if=/dev/zero of="$(mnt 2)/backlog" bs=1M count=5 status=none || fail "writing"
on node1 sh -c "echo more >>'$(mnt 1)/file' && sync '$(mnt 1)/file'" || fail "appending"
node_figure() { on server python3 "$TOP/test/programs/metrics.py" scrape "${SERVER}metrics" | grep -F "kairan_server_node_$1{name=\"$2\"" | awk '{ print $NF }'; }
told() { [ "$(node_figure unflushed_bytes "$ODD")" = $((5 << 20)) ]; }
until_ok 60 "the server knows the backlog" told || fail "node_unflushed_bytes: $(node_figure unflushed_bytes "$ODD")"

note "figures of nodes"
[ "$(node_figure flushed_bytes_total node1)" = $(((8 << 20) + 5)) ] || fail "flushed by node1: $(node_figure flushed_bytes_total node1)"
[ "$(node_figure flushed_bytes_total "$ODD")" = 0 ] || fail "flushed by node2: $(node_figure flushed_bytes_total "$ODD")"
[ "$(node_figure served_bytes_total node3)" = $((8 << 20)) ] || fail "served to node3: $(node_figure served_bytes_total node3)"

note "answers and names"
for url in $SERVER $NODE1; do
	said=$(page answers $url 2>&1) || fail "$url: $said"
done
said=$(page names "$TOP/common/metrics/page.html" "$TOP/docs/metrics.md" ${SERVER}metrics ${NODE1}metrics 2>&1) || fail "page: $said"
said=$(page dashboard "$TOP/conf/grafana-dashboard.json" ${SERVER}metrics ${NODE1}metrics 2>&1) || fail "dashboard: $said"

BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { note "no Chromium: nothing is rendered"; finish; exit 0; }
note "$BROWSER"
export WORK
mount_kill 3
away() { [ "$(node_figure connected node3)" = 0 ]; }
until_ok 20 "node3 is away" away || fail "node3 is not away"
# show URL WIDTH SCHEME [PICTURE [PID]]: prints what it shows to $WORK/shown.
show() { page render "$BROWSER" "$@" >"$WORK/shown" 2>&1 || fail "$*: $(cat "$WORK/shown")"; }
shows() { grep -qF -- "$1" "$WORK/shown" || fail "no \"$1\" in: $(cat "$WORK/shown")"; }
show $SERVER 400 light "$WORK/server-400.png" "${DAEMON[server]}"
shows "kairan server 127.0.0.1:9440"
shows "$ODD"
shows "Not connected: node3."
shows "5.0 MiB"
shows "does not answer (it takes too long). The figures below are of"
show $SERVER 1100 dark "$WORK/server-1100.png"
show $NODE1 400 dark "$WORK/mount-400.png"
shows "kairan mount 10.77.1.1:9441"
shows "No trouble"
show $NODE2 1100 light "$WORK/mount-1100.png"
shows "5.0 MiB"
finish
