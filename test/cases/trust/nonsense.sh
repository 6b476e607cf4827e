# A server, or somebody on the way to it, that says nonsense to a node: its mount lives through it, works when the way is honest
# again, and disturbs nobody; where frames are sealed not one byte that it acknowledged is lost or changed.
# tags: sanitizer long
# timeout: 240
LEASE=4
. "$TOP/test/lib.sh"
SEED=${NONSENSE_SEED:-1} ROUNDS=${NONSENSE_ROUNDS:-2}
note "seed $SEED (NONSENSE_SEED)"
cluster 2
mkdir -m 777 "$EXPORT/public"
chmod 777 "$EXPORT"
for name in a b c d; do head -c 600000 /dev/urandom >"$EXPORT/public/$name"; done
"$B/tools/kairan" key "$WORK/key" >/dev/null || fail "no key"
M=$(mnt 1)/public
try() { on node1 timeout -s KILL 5 sh -c "$1" >/dev/null 2>&1; }
# Not the daemon's pid: `timeout` is waited for, not what it leaves behind.
running() { alive "${DAEMON[node1]}" || fail "the mount's daemon has died: $(tail -3 "$WORK/node1/log")"; }
idle() { kairan 1 status --json "$(mnt 1)" | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["operations"]["count"] != 0)'; }
proxy_start() { # RATE
	[ ! -e "$WORK/mutate" ] || mv "$WORK/mutate" "$WORK/mutate-before" # until_ok looks at what this one says
	nsenter -t "${KEEPER[server]}" -n -u -m -- python3 "$TOP/test/programs/mutate.py" 7555 127.0.0.1 $PORT "$SEED" "$1" "$WORK/honest" >"$WORK/mutate" 2>&1 &
	proxy=$!
	until_ok 30 "the proxy" grep -q listening "$WORK/mutate" || fail "no proxy: $(cat "$WORK/mutate")"
}
mount_through_proxy() { # OPTIONS
	nsenter -t "${KEEPER[node1]}" -n -u -m -- "$B/fuse/kairanfs" "$SERVER_ADDRESS:7555:/" "$(mnt 1)" -f -o "local=$WORK/node1/local${1:+,$1}" \
		</dev/null >>"$WORK/node1/log" 2>&1 &
	DAEMON[node1]=$!
	until_ok 30 "a mount through the proxy" mounted_or_gone 1 && alive "${DAEMON[node1]}" || fail "no mount: $(tail -3 "$WORK/node1/log")"
}
needs_more() { [ "$1" = sealed ] && [ ! -s "$WORK/acknowledged-sealed" ]; }
# use NAME: what a user does; acknowledged files are listed. On a slow machine with bad luck it takes more rounds until there is one.
use() {
	local number
	for number in $(seq $((10 * ROUNDS))); do
		[ "$number" -le "$ROUNDS" ] || needs_more "$1" || break
		try "ls -l '$M'"
		try "cmp '$M/a' '$M/b'; stat '$(mnt 1)'"
		try "seq 20000 >'$M/$1-$number' && sync '$M/$1-$number'" && echo "$1-$number" >>"$WORK/acknowledged-$1"
		try "mv '$M/$1-$number' '$M/old'; chmod 600 '$M/old'; rm '$M/old'; seq 20000 >'$M/$1-$number' && sync '$M/$1-$number'" ||
			sed -i "/^$1-$number\$/d" "$WORK/acknowledged-$1" 2>/dev/null
		running
	done
}
# nonsense NAME RATE SERVER_OPTIONS MOUNT_OPTIONS
nonsense() {
	touch "$WORK/honest"
	# shellcheck disable=SC2086
	server_start $3
	mount_start 2 "$4"
	proxy_start "$2"
	mount_through_proxy "$4"
	timeout -s KILL 60 cmp "$(seen_from_here 1)/public/c" "$EXPORT/public/c" || fail "no way to the server but the address that it knows of itself"
	rm "$WORK/honest"
	use "$1"
	touch "$WORK/honest"
	until_ok 60 "the proxy's honesty" grep -q "frames damaged" "$WORK/mutate" || fail "the proxy stays what it is"
	note "$1: $(grep 'frames damaged' "$WORK/mutate"); $(cat "$WORK/acknowledged-$1" 2>/dev/null | wc -l) files acknowledged"
	until_ok 60 "writing and reading" try "echo well >'$M/after-$1' && [ \"\$(cat '$M/after-$1')\" = well ]" || fail "the mount does not recover"
	[ "$(cat "$EXPORT/public/after-$1")" = well ] || fail "what was written after it is not there"
	until_ok 60 "the last operation's end" idle || { kairan 1 status "$(mnt 1)"; fail "something waits for ever"; }
	running
	same "$(seen_from_here 1)/public/d" "$EXPORT/public/d"
	echo fine >"$(seen_from_here 2)/public/word-$1"
	[ "$(on node1 cat "$M/word-$1")" = fine ] || fail "$1: not seen from the node that was lied to"
}
# Where an identity was changed on its way, what was written to it is nobody's.  Where a STABLE was, the node does not hear that its bytes are durable.
# It says so and keeps them.
says_it_has_kept_something() {
	[ "$1" = plain ] && grep -qE "its bytes are not at the server and stay in the journal: Stale file handle|[1-9][0-9]* are not known to be on its disk" "$WORK/node1/log"
}
# What the node that is lied to says of the server's answers may be anything, but its own disk and memory are well: it says nothing of these.
# Where frames are sealed it believes no lie: all that it can be told in the open is that its key is not taken.
judged=0
judge() { # NAME
	tail -n +$((judged + 1)) "$WORK/node1/log" >"$WORK/said-$1"
	judged=$(wc -l <"$WORK/node1/log")
	case $1 in
	plain) ! grep -E "the journal cannot be written|out of memory" "$WORK/said-$1" ;;
	sealed) EXPECTED_ERRORS='; trying on$' check_logs "$WORK/said-$1" ;;
	esac || fail "$1: what the node says, seed $SEED"
}
end() { # NAME
	mount_stop 1 || says_it_has_kept_something "$1" || fail "the end of the node that was lied to"
	mount_stop 2 && server_stop || fail "the daemons' ends"
	kill $proxy; wait $proxy 2>/dev/null
	rm -rf "$WORK"/node*/local/*
	judge "$1"
}

# Beside the rest: a server that takes connections and says nothing.
nsenter -t "${KEEPER[server]}" -n -- python3 -c 'import socket, time; s = socket.create_server(("0.0.0.0", 7556)); time.sleep(1000)' &
silent=$!
until_ok 30 "the silent server" on server bash -c ': </dev/tcp/127.0.0.1/7556' || fail "no silent server"
mkdir "$WORK/silent"
on node2 timeout 100 "$B/fuse/kairanfs" "$SERVER_ADDRESS:7556:/" "$WORK/silent" -o "local=$WORK/node2/silent" 2>"$WORK/silent.err" &
given_up=$!

note "anything may be changed: nobody who is not asked to believe it falls over it"
nonsense plain 5 "" ""
end plain

note "frames are sealed: what is acknowledged is there"
nonsense sealed 20 "--no-insecure --key $WORK/key" "key=$WORK/key"
seq 20000 >"$WORK/numbers"
while read -r name; do same "$WORK/numbers" "$EXPORT/public/$name"; done <"$WORK/acknowledged-sealed"
[ -s "$WORK/acknowledged-sealed" ] || fail "nothing was acknowledged at all"
end sealed
wait $given_up
[ $? = 1 ] && grep -q "no answer" "$WORK/silent.err" || fail "mounting from a silent server: $(cat "$WORK/silent.err")"
kill $silent
# Nobody has lied to the others.  The server says so when node1 answers a recall that was damaged on its way.
EXPECTED_ERRORS='node node1 answers a recall with an error'
check_logs "$WORK/kairand.log" "$WORK/node2/log" || fail "a daemon's log, seed $SEED"
