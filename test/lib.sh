# Shell functions of the test cluster: a server and N nodes on one machine, each with its own network, host name and mounts.
#
# Sourced by the cases in test/cases and by test/cluster, inside the namespaces that test/run or test/cluster made: the
# process and network names are private, so whatever a case leaves behind dies with it.  A host is a keeper process in
# namespaces of its own; commands enter it through /proc/PID/ns.  All hosts hang on one bridge in the case's network
# namespace; links are limited by tbf in both directions with a queue deep enough never to drop.
#
# Set by the runner: B (build directory), WORK (an empty directory, removed after success).

set -u -o pipefail
: "${B:?the build directory}" "${WORK:?a scratch directory}"
TOP=${TOP:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
EXPORT=$WORK/export
PORT=7440
SERVER_ADDRESS=10.77.0.1
LEASE=${LEASE:-}          # seconds; empty = the default
KAIRAND_OPTIONS=${KAIRAND_OPTIONS:-}
DISKLESS=${DISKLESS:-}    # 1: no node has a disk; a host of its own lends them one
EXPECTED_ERRORS='$^'      # extended regular expression of log lines that this case provokes (bugs are never expected: see test/run)
declare -A KEEPER DAEMON LONG_LINK
NODES=0
export ASAN_OPTIONS="log_path=$WORK/sanitizer:detect_leaks=1:abort_on_error=0:exitcode=99:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="log_path=$WORK/sanitizer:print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="suppressions=$TOP/test/tsan.supp:log_path=$WORK/sanitizer:halt_on_error=0:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
SLOW=1; case $B in *asan*|*tsan*) SLOW=4;; esac   # deadlines stretch under sanitizers

# What the machine's administrator has set counts for no case.
[ ! -d /etc/kairan ] || mount -t tmpfs -o mode=755 kairan /etc/kairan || exit 1

fail() { echo "FAILED: $*" >&2; exit 1; }
skip() { echo "SKIPPED: $*"; exit 77; }
note() { echo "-- $*"; }

# pause SECONDS: waits, and starts no process for it as sleep(1) would; nothing writes to the fifo.
pause() {
	[ -p "$WORK/.nothing" ] || mkfifo "$WORK/.nothing" || fail "no fifo"
	read -r -t "$1" <>"$WORK/.nothing" || :
}

# until_ok SECONDS WHAT COMMAND...: repeats a check until it holds, ever less often.
until_ok() {
	local limit=$(($1 * SLOW)) what=$2 start=$SECONDS checks=0 pauses=(0.05 0.2 0.4)
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $((SECONDS - start)) -lt "$limit" ] || { echo "not within $limit s: $what" >&2; return 1; }
		pause "${pauses[checks < 10 ? 0 : checks < 30 ? 1 : 2]}"
		checks=$((checks + 1))
	done
}

# alive PID: it runs; one that has ended and was not waited for does not count.
alive() {
	local stat
	{ read -r stat <"/proc/${1:-0}/stat"; } 2>/dev/null && case ${stat##*) } in Z* | X*) return 1 ;; esac # its name may hold blanks
}
gone() { ! alive "$1"; }

# host NAME ADDRESS: one more host on the bridge.
host() {
	local name=$1 address=$2 up said
	exec {up}< <(exec unshare --net --uts --mount --propagation private \
		sh -c "hostname $name && echo up && exec sleep 1000000" </dev/null 2>/dev/null)
	KEEPER[$name]=$!
	read -r said <&"$up" && [ "$said" = up ] || fail "no host $name"
	exec {up}<&-
	ip -batch - <<-END || fail "no link of $name"
		link add v-$name type veth peer name eth0 netns ${KEEPER[$name]}
		link set v-$name master br0 up
	END
	nsenter -t "${KEEPER[$name]}" -n ip -batch - <<-END || fail "no address of $name"
		link set lo up
		addr add $address/16 dev eth0
		link set eth0 up
	END
	[ "$RATE" = none ] || limit "$name" "$RATE"
}

# limit NAME RATE: both directions of a host's link, e.g. 200mbit.
limit() {
	tc qdisc replace dev "v-$1" root tbf rate "$2" burst 128kb limit 16mb
	on "$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 128kb limit 16mb
}

# long_link NODE MBIT DELAY_MS LOSS: node NODE's link is such a one from now on (test/programs/long_link.c), which takes orders at
# $WORK/orders$NODE.
long_link() {
	local device=long-$1 orders=$WORK/orders$1 said=$WORK/long_link$1
	[ -z "${LONG_LINK[$1]:-}" ] || { kill "${LONG_LINK[$1]}"; wait "${LONG_LINK[$1]}" 2>/dev/null; }
	ip link del "v-node$1" 2>/dev/null
	rm -f "$orders" "$said"
	mkfifo "$orders" || fail "no $orders"
	"$B/test/long_link" "$device" "${KEEPER[node$1]}" "$2" "$3" "$4" "$orders" >"$said" &
	LONG_LINK[$1]=$!
	until_ok 10 "a long link" grep -q ready "$said" || fail "no long link"
	ip link set "$device" master br0 up
	on "node$1" sh -c "ip addr add 10.77.1.$1/16 dev eth0; ip link set eth0 up"
}
# congestion_reno NAME: this host takes lost packets for congestion, as most systems do; a namespace may always choose this control.
congestion_reno() { on "$1" sh -c "echo reno >/proc/sys/net/ipv4/tcp_congestion_control" || fail "no reno"; }

on() { local name=$1; shift; nsenter -t "${KEEPER[$name]}" -n -u -m -- "$@"; }
# sent_by NAME: bytes that a host has sent so far, headers included (the bridge's side of its link; sysfs shows other namespaces).
sent_by() { ip -j -s link show dev "v-$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["bytes"])'; }
cut_link() { ip link set "v-$1" down; }
heal_link() { ip link set "v-$1" up; }

# cluster N [RATE]: bridge, server host and N nodes; nothing is started.
cluster() {
	RATE=${2:-none}
	NODES=$1
	ip -batch - <<-END || fail "no bridge"
		link set lo up
		link add br0 type bridge
		link set br0 up
	END
	mkdir -p "$EXPORT" /run/kairan
	# What is written down there goes by devices' numbers, which the kernel gives to mounts of other cases, too.
	mount -t tmpfs -o mode=755 kairan /run/kairan || fail "no /run/kairan of its own"
	host server $SERVER_ADDRESS
	local i places=()
	for ((i = 1; i <= NODES; i++)); do
		host "node$i" "10.77.1.$i"
		places+=("$WORK/node$i/mnt" "$WORK/node$i/local")
	done
	[ "$NODES" = 0 ] || mkdir -p "${places[@]}"
}

# ready_again LOG COUNT: a daemon has said more than COUNT times that it is ready.
ready_again() { [ "$(grep -sc ': ready' "$1")" -gt "$2" ]; }
# server_start [OPTION...]: kairand on the server host, returns when it is ready.
server_start() {
	local before
	before=$(grep -sc ': ready' "$WORK/kairand.log")
	# shellcheck disable=SC2086
	nsenter -t "${KEEPER[server]}" -n -u -m -- "$B/server/kairand" --listen 0.0.0.0:$PORT --insecure --state "$WORK/state" \
		${LEASE:+--lease "${LEASE}s"} $KAIRAND_OPTIONS "$@" "$EXPORT" </dev/null >>"$WORK/kairand.log" 2>&1 &
	DAEMON[server]=$!
	until_ok 30 "kairand ready" ready_again "$WORK/kairand.log" "${before:-0}" ||
		{ tail -5 "$WORK/kairand.log" >&2; fail "kairand did not start"; }
}
# killed NAME: kill -9, of a daemon that has not crashed before (by a signal of its own, or as sanitizers end it).
killed() {
	kill -KILL "${DAEMON[$1]}"
	wait "${DAEMON[$1]}" 2>/dev/null
	case $? in 99 | 13[2-6] | 139) fail "the daemon on $1 had crashed before it was killed" ;; esac
}
server_kill() { killed server; }
server_stop() { kill -TERM "${DAEMON[server]}"; wait "${DAEMON[server]}"; }

# Before Linux 6.6 no file is mapped shared that is open for reading and writing (docs/limits.md).
maps_written() { printf '6.6\n%s\n' "$(uname -r)" | sort -CV; }

mnt() { echo "$WORK/node$1/mnt"; }
# seen_from_here I: node I's mount as a path outside its namespaces.
seen_from_here() { echo "/proc/${KEEPER[node$1]}/root$WORK/node$1/mnt"; }

# lender_start NAME [OPTION...]: a host lends disk space, in $WORK/NAME/lent.
lender_start() {
	local name=$1 log=$WORK/$1/lender.log before
	before=$(grep -sc ': ready' "$log") # of a former lender
	shift
	mkdir -p -m 700 "$WORK/$name" "$WORK/$name/lent"
	nsenter -t "${KEEPER[$name]}" -n -u -m -- "$B/fuse/kairanfs" --lend "$WORK/$name/lent" --listen 0.0.0.0 "$@" </dev/null >>"$log" 2>&1 &
	DAEMON[lender]=$!
	until_ok 30 "the lender" ready_again "$log" "${before:-0}" || { tail -5 "$log" >&2; fail "no lender on $name"; }
}
lender_stop() { kill -TERM "${DAEMON[lender]}"; wait "${DAEMON[lender]}"; }

mounted_or_gone() {
	local mounts at
	gone "${DAEMON[node$1]}" && return
	at=$(mnt "$1")
	mapfile mounts <"/proc/${KEEPER[node$1]}/mounts"
	[[ ${mounts[*]} == *" $at fuse.kairanfs"* ]] && on "node$1" timeout -s KILL 5 stat "$at/."
}
# mount_start I [OPTION,...]: kairanfs on node I, in the foreground of a background job so that its pid is known.
mount_start() {
	local i=$1 options=${2:-} log=$WORK/node$1/log
	if [ -n "$DISKLESS" ]; then
		[ -n "${DAEMON[lender]:-}" ] || { host lender 10.77.1.250; lender_start lender; }
		options=${options:+$options,}local=@10.77.1.250
	fi
	nsenter -t "${KEEPER[node$i]}" -n -u -m -- "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$(mnt "$i")" -f \
		-o "local=$WORK/node$i/local${options:+,$options}" </dev/null >>"$log" 2>&1 &
	DAEMON[node$i]=$!
	until_ok 30 "mount of node$i" mounted_or_gone "$i" || { tail -5 "$log" >&2; fail "node$i did not mount"; }
	alive "${DAEMON[node$i]}" || { tail -5 "$log" >&2; fail "kairanfs on node$i ended"; }
}
mounts_start() { local i; for ((i = 1; i <= NODES; i++)); do mount_start "$i" "${1:-}"; done; }

# mount_kill I: kill -9 and clean the dead mount up, as an epilogue would.
mount_kill() {
	killed "node$1"
	on "node$1" umount -l "$(mnt "$1")" 2>/dev/null
	true
}
# mount_kill_with N FILE TEXT [UID]: killed while a program (of that user) holds FILE open, to which it has written TEXT; with
# flush_age=600 the bytes are then in the journal only.
mount_kill_with() {
	rm -f "$WORK/held"
	# No shell's redirection: it closes a descriptor, and so flushes.
	on "node$1" python3 -c 'import os, sys, time
uid = int(sys.argv[3])
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), sys.argv[2].encode())
print("held", flush=True)
time.sleep(1000)' "$2" "$3" "${4:-0}" >"$WORK/held" &
	local holder=$!
	until_ok 60 "a program that writes $2" grep -q held "$WORK/held" || fail "$2 is not written"
	mount_kill "$1"
	kill $holder
	wait $holder 2>/dev/null
}
# mount_stop I: fusermount3 -u, and the daemon's exit status.
mount_stop() {
	# Programs that have just been killed may hold it a moment longer.
	until_ok 5 "unmounting node$1" on "node$1" fusermount3 -u "$(mnt "$1")" || return 1
	wait "${DAEMON[node$1]}"
}

up() { cluster "$@"; server_start; mounts_start; }
kairan() { local node=$1; shift; on "node$node" "$B/tools/kairan" "$@"; }

# finish: every daemon ends in peace; the logs have no error that was not expected.
finish() {
	local i status=0
	for i in $(seq "$NODES"); do
		[ -n "${DAEMON[node$i]:-}" ] && alive "${DAEMON[node$i]}" || continue
		mount_stop "$i" || { echo "kairanfs on node$i: exit status $?" >&2; status=1; }
	done
	if [ -n "${DAEMON[lender]:-}" ] && alive "${DAEMON[lender]}"; then
		lender_stop || { echo "kairanfs --lend: exit status $?" >&2; status=1; }
	fi
	if [ -n "${DAEMON[server]:-}" ] && alive "${DAEMON[server]}"; then
		server_stop || { echo "kairand: exit status $?" >&2; status=1; }
	fi
	check_logs || status=1
	[ $status = 0 ] || fail "the daemons did not end well"
}
# check_logs [LOG...]: these, else all, have no error that was not expected; sanitizers have said nothing.
check_logs() {
	local bad
	[ $# -gt 0 ] || set -- "$WORK"/kairand.log "$WORK"/node*/log "$WORK"/*/lender.log
	# Without the path, which has the case's name.
	bad=$(sed "s|$WORK||g" "$@" 2>/dev/null | grep -E '(error|assert|Assertion)' | grep -vE "$EXPECTED_ERRORS" | head -5)
	[ -z "$bad" ] || { printf 'unexpected in the logs:\n%s\n' "$bad" >&2; return 1; }
	if compgen -G "$WORK/sanitizer.*" >/dev/null; then
		head -40 "$WORK"/sanitizer.* >&2
		return 1
	fi
}

# fill_journal I FILE PIECES [COMMAND...]: node I writes PIECES of 65536 k's to FILE; after the first one (the lease is here then) the server stands still,
# and COMMAND runs.  When writes wait for room, as they must, the server goes on, and all of them, fsync and close succeed.
fill_journal() {
	local node=$1 file=$2
	shift
	on "node$node" python3 - "${DAEMON[server]}" "$WORK/node$node/log" "$@" <<-'P' || return 1
		import os, signal, subprocess, sys, threading, time
		server, log, path, count, command = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]
		fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
		piece, failed = b"k" * 65536, []
		def write():
		    try:
		        for n in range(1, count):
		            assert os.pwrite(fd, piece, n * 65536) == 65536
		    except BaseException as met:
		        failed.append(met)
		def waits(): # status would ask the server
		    return open(log).read().count("writes wait until")
		before = waits()
		os.pwrite(fd, piece, 0)
		if command:
		    subprocess.run(command, check=True)
		os.kill(server, signal.SIGSTOP)
		writer = threading.Thread(target=write)
		writer.start()
		try:
		    while waits() == before:
		        assert writer.is_alive(), "all fitted, or failed: %s" % failed
		        time.sleep(0.02)
		finally:
		    os.kill(server, signal.SIGCONT)
		writer.join()
		assert not failed, failed
		os.fsync(fd)
		os.close(fd)
	P
	is_full_of_k "$EXPORT/${file##*/}"
}
is_full_of_k() { [ "$(tr -d k <"$1" | wc -c)" = 0 ] || { echo "$1 has other bytes" >&2; return 1; }; }

same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }
same_tree() { diff -r --no-dereference "$1" "$2" >/dev/null || fail "trees $1 and $2 differ: $(diff -rq --no-dereference "$1" "$2" | head -3)"; }
