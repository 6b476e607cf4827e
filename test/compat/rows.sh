# One row of test/compat/run: rows.sh ROW [ARGUMENT...], in namespaces of its own. OLD and NEW are the two builds, OLD_FORMATS and
# NEW_FORMATS their "PROTOCOL JOURNAL CACHE". What a row has found out is in $WORK/found when it ends with 0.
. "$TOP/test/lib.sh"
here=$TOP/test/compat
declare -A BUILD=([old]=$OLD [new]=$NEW)
found() { echo "$*" >"$WORK/found"; }
number() { local formats; formats=$1_FORMATS; set -- "$2" ${!formats}; case $1 in protocol) echo "$2" ;; journal) echo "$3" ;; cache) echo "$4" ;; esac; }
# What nodes log while their server has another protocol.
EXPECTED_ERRORS='(version of the|another|it speaks) protocol'
differ() { [ "$(number OLD "$1")" != "$(number NEW "$1")" ]; }
server_of() { B=${BUILD[$1]} server_start --no-insecure --key "$WORK/key"; }
node_of() { B=${BUILD[$2]} mount_start "$1" "key=$WORK/key${3:+,$3}"; }
kairan_of() { local version=$1; shift; B=${BUILD[$version]} kairan "$@"; }
cluster_with_key() {
	cluster "$@"
	"$NEW/tools/kairan" key "$WORK/key" >"$WORK/said" || fail "no key: $(cat "$WORK/said")"
}
# fed_by VERSION: what the server, which has that version, has given to readers, in bytes.
fed_by() {
	kairan_of "$1" 1 status --json --key "$WORK/key" $SERVER_ADDRESS |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["feed"]["bytes"])'
}

# refuses NODE VERSION LOG-WORDS...: the mount of that version fails, and its words match.
refuses() {
	local node=$1 version=$2 words=$3
	if on "node$node" timeout 60 "${BUILD[$version]}/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt "$node")" \
		-o "local=$WORK/node$node/local,key=$WORK/key" >"$WORK/said" 2>&1; then
		fail "node $node is mounted"
	fi
	grep -qE "$words" "$WORK/said" || fail "the mount says: $(cat "$WORK/said")"
}

# together SERVER NODE1 NODE2: these versions; keys are on.
together() {
	local server=$1 size=$((24 << 20)) fed i
	cluster_with_key 2
	head -c $size /dev/urandom >"$EXPORT/big"
	server_of "$server"
	if differ protocol; then
		for node in 1 2; do
			shift
			[ "$1" = "$server" ] || break
		done
		# What an old node says is its own affair.
		local words=version
		[ "$1" = old ] || words="it speaks protocol .* kairan .* here protocol $(number NEW protocol)\b"
		refuses $node "$1" "$words"
		[ "$server" = old ] || grep -qE "protocol $(number OLD protocol)\b.* protocol $(number NEW protocol)\b" "$WORK/kairand.log" ||
			fail "the server's log: $(tail -n 3 "$WORK/kairand.log")"
		found "refused: $(tail -n 1 "$WORK/said")"
		return
	fi
	node_of 1 "$2"
	node_of 2 "$3"
	# From outside of the nodes' namespaces: one process asks both mounts.
	python3 "$here/check.py" "$(seen_from_here 1)" "$(seen_from_here 2)" "$EXPORT" || fail "the nodes do not agree"
	fed=$(fed_by "$server")
	for i in 1 2; do on "node$i" sha256sum "$(mnt $i)/big" >"$WORK/sum$i" & readers[i]=$!; done
	for i in 1 2; do wait "${readers[i]}" || fail "node $i cannot read"; done
	for i in 1 2; do [ "$(cut -c-64 "$WORK/sum$i")" = "$(sha256sum <"$EXPORT/big" | cut -c-64)" ] || fail "node $i reads other bytes"; done
	fed=$(($(fed_by "$server") - fed))
	[ $fed -ge $size ] && [ $fed -lt $((size * 3 / 2)) ] || fail "no ring: the server gave $fed bytes for a file of $size"
	found "works; one ring: the server gave $((100 * fed / size)) % of what each node read"
	finish
}

# journal FROM TO: a node is killed with bytes in its journal, and the other version mounts.
journal() {
	local from=$1 to=$2
	cluster_with_key 1
	server_of "$to"
	if differ protocol; then
		server_stop
		server_of "$from"
	fi
	node_of 1 "$from" flush_age=600,flush_backlog=1G,close=async
	on node1 dd if=/dev/urandom of="$(mnt 1)/closed" bs=1M count=8 status=none || fail "not written"
	on node1 sha256sum "$(mnt 1)/closed" | cut -c-64 >"$WORK/sum"
	mount_kill_with 1 "$(mnt 1)/open" "written before the end"
	[ ! -s "$EXPORT/open" ] || fail "the bytes were not in the journal only"
	if differ protocol; then
		# Nobody has the file any more. The server is upgraded before the node.
		server_stop
		server_of "$to"
	fi
	if differ journal; then
		refuses 1 "$to" "is a journal of version"
		found "refused: $(tail -n 1 "$WORK/said")"
		grep -q 'written before the end' -r "$WORK/node1/local" || fail "the journal was not left alone"
		if differ protocol; then server_stop; server_of "$from"; fi
		node_of 1 "$from"
		mount_stop 1 || fail "the version that wrote it does not send it"
		if differ protocol; then server_stop; server_of "$to"; fi
	fi
	node_of 1 "$to"
	kairan_of "$to" 1 flush "$(mnt 1)" >"$WORK/said" 2>&1 || fail "flush: $(cat "$WORK/said")"
	[ "$(cat "$EXPORT/open")" = "written before the end" ] && [ "$(sha256sum <"$EXPORT/closed" | cut -c-64)" = "$(cat "$WORK/sum")" ] ||
		fail "bytes are lost"
	! compgen -G "$EXPORT/*conflict*" >/dev/null || fail "there is a conflict file"
	[ -f "$WORK/found" ] || found "replayed"
	finish
}

# cache FROM TO: what one version has cached, the other one reads, or reads again.
cache() {
	local from=$1 to=$2 size=$((16 << 20)) server=$1 before fed
	cluster_with_key 1
	head -c $size /dev/urandom >"$EXPORT/big"
	server_of "$from"
	node_of 1 "$from"
	on node1 cmp "$(mnt 1)/big" "$EXPORT/big" || fail "it reads other bytes"
	mount_stop 1 || fail "unmounting"
	if differ protocol; then
		server_stop
		server_of "$to"
		server=$to
	fi
	before=$(fed_by $server)
	node_of 1 "$to"
	on node1 cmp "$(mnt 1)/big" "$EXPORT/big" || fail "it reads other bytes"
	fed=$(($(fed_by $server) - before))
	found "the server gave $((100 * fed / size)) % again"
	# Another protocol may give a file's bytes another version.
	differ cache || differ protocol || [ $fed -lt $((size / 10)) ] || fail "the cache is not used: the server gave $fed bytes again"
	finish
}

# tools MOUNT TOOL: the tool of one version and the mount of the other on one node, as after an installation.
tools() {
	local mount=$1 tool=$2
	cluster_with_key 1
	server_of "$mount"
	node_of 1 "$mount" flush_age=600,flush_backlog=1G,close=async
	echo staged >"$EXPORT/staged"
	on node1 dd if=/dev/urandom of="$(mnt 1)/a" bs=1M count=4 status=none || fail "not written"
	kairan_of "$tool" 1 status "$(mnt 1)" >"$WORK/said" 2>&1 || fail "status: $(cat "$WORK/said")"
	kairan_of "$tool" 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; json.load(sys.stdin)' || fail "status --json"
	kairan_of "$tool" 1 stage --wait "$(mnt 1)/staged" >"$WORK/said" 2>&1 || fail "stage: $(cat "$WORK/said")"
	kairan_of "$tool" 1 flush "$(mnt 1)" >"$WORK/said" 2>&1 || fail "flush: $(cat "$WORK/said")"
	on node1 cmp "$(mnt 1)/a" "$EXPORT/a" || fail "it is not flushed"
	if differ protocol; then
		! kairan_of "$tool" 1 status --key "$WORK/key" $SERVER_ADDRESS >"$WORK/said" 2>&1 && grep -qE "version|it speaks protocol" "$WORK/said" ||
			fail "status of the server: $(cat "$WORK/said")"
	else
		kairan_of "$tool" 1 status --key "$WORK/key" $SERVER_ADDRESS >"$WORK/said" 2>&1 || fail "status of the server: $(cat "$WORK/said")"
		grep -q node1 "$WORK/said" || fail "status of the server: $(cat "$WORK/said")"
	fi
	on node1 dd if=/dev/urandom of="$(mnt 1)/b" bs=1M count=4 status=none || fail "not written"
	kairan_of "$tool" 1 umount "$(mnt 1)" >"$WORK/said" 2>&1 || fail "umount: $(cat "$WORK/said")"
	wait "${DAEMON[node1]}" || fail "kairanfs: exit status $?"
	[ "$(stat -c %s "$EXPORT/b")" = $((4 << 20)) ] || fail "b is not flushed"
	found "status, stage, flush, umount work$(differ protocol && echo '; status of the server is refused')"
	finish
}

load() {
	rm -f "$WORK/stop-node$1"
	on "node$1" python3 "$here/load.py" "$(mnt "$1")" "node$1" "$WORK" >>"$WORK/load$1" 2>&1 &
	LOAD[$1]=$!
}
load_end() { : >"$WORK/stop-node$1"; wait "${LOAD[$1]}" || fail "the program on node $1: $(tail -n 5 "$WORK/load$1")"; }
# goes_on N: the program on node N writes and syncs 100 records more.
goes_on() {
	local now
	now=$(stat -c %s "$EXPORT/records-node$1")
	until_ok 120 "the program on node $1" sh -c "[ \"\$(stat -c %s '$EXPORT/records-node$1')\" -gt $((now + 6400)) ]" ||
		fail "the program on node $1 stands: $(cat "$WORK/load$1")"
	alive "${LOAD[$1]}" || fail "the program on node $1: $(tail -n 5 "$WORK/load$1")"
}

# upgrade FROM TO [kill]: the server, then one node after the other, are replaced under programs with open files and locks.
upgrade() {
	local from=$1 to=$2 how=${3:-} i
	declare -gA LOAD
	cluster_with_key 2
	server_of "$from"
	for i in 1 2; do node_of $i "$from"; done
	for i in 1 2; do load $i; until_ok 60 "the program on node $i begins" test -s "$EXPORT/records-node$i" || fail "$(cat "$WORK/load$i")"; done
	for i in 1 2; do goes_on $i; done
	if [ "$how" = kill ]; then server_kill; else server_stop || fail "kairand: exit status $?"; fi
	sleep 2 # as long as an installation may take: all programs wait
	server_of "$to"
	if differ protocol; then
		sleep 3
		server_stop
		server_of "$from"
		for i in 1 2; do goes_on $i; done
		for i in 1 2; do load_end $i; done
		found "the nodes wait for a server of their version, and lose nothing; $(longest)"
	else
		for i in 1 2; do goes_on $i; done
		for i in 1 2; do
			load_end $i
			mount_stop $i || fail "unmounting node $i"
			node_of $i "$to"
			load $i
			for j in 1 2; do goes_on $j; done
		done
		for i in 1 2; do load_end $i; done
		found "no operation failed, nothing is lost; $(longest)"
	fi
	for i in 1 2; do mount_stop $i || fail "unmounting node $i"; done
	all_there || fail "the export has not what was written"
	! compgen -G "$EXPORT/*conflict*" >/dev/null || fail "there is a conflict file"
	finish
}
longest() { echo "the longest operation took $(sed -n 's/.*longest took //p' "$WORK"/load[12] | sort -n | tail -n 1)"; }
# all_there: compares the export with what the programs have noted.
all_there() {
	python3 - "$EXPORT" "$WORK" <<'P'
import json, sys
export, scratch = sys.argv[1:]
shared = open(f"{export}/shared", "rb").read()
wanted = []
for node in ("node1", "node2"):
    model = json.load(open(f"{scratch}/model-{node}.json"))
    record = lambda number: f"{node} {number}".encode().ljust(63) + b"\n"
    assert open(f"{export}/records-{node}", "rb").read() == b"".join(map(record, range(model["records"]))), node
    assert open(f"{export}/random-{node}", "rb").read() == open(f"{scratch}/random-{node}", "rb").read(), node
    assert model["records"] > 50 and model["appends"] > 20, model
    wanted += map(record, range(model["appends"]))
    for name in model["names"]:
        assert open(f"{export}/{name}").read() == name
assert sorted(shared[i : i + 64] for i in range(0, len(shared), 64)) == sorted(wanted), "appends"
P
}

"$@"
