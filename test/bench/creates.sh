# The measurements of test/bench/creates, inside a cluster of test/cluster.
RESULTS=$WORK/results
PROGRAM=$TOP/test/bench/creates.py
SYSTEMS="kairan sshfs${MOOSEFS:+ moosefs}"
declare -A PIDS
enter() { nsenter -t "${KEEPER[$1]}" -n -u -m -- "${@:2}"; }

start_sshfs() {
	local i
	on server socat TCP-LISTEN:7022,fork,reuseaddr,nodelay EXEC:/usr/lib/openssh/sftp-server >"$WORK/socat" 2>&1 &
	until_ok 20 "sftp" on server sh -c 'ss -Hltn | grep -q :7022' || return 1
	mkdir "$EXPORT/sshfs"
	for i in $(seq "$NODES"); do
		mkdir "$WORK/node$i/sshfs"
		enter "node$i" sshfs -f -o directport=7022 "$SERVER_ADDRESS:$EXPORT/sshfs" "$WORK/node$i/sshfs" &
		PIDS[sshfs]+=" $!"
	done
	for i in $(seq "$NODES"); do until_ok 20 "sshfs" on "node$i" grep -q " $WORK/node$i/sshfs fuse.sshfs" /proc/mounts || return 1; done
	PIDS[sshfs]+=" $(pgrep -x sftp-server | tr '\n' ' ')"
}

start_moosefs() {
	local i at=$WORK/moosefs
	mkdir -p "$at/master" "$at/chunks" "$at/data" && cp "$MOOSEFS/var/lib/mfs/metadata.mfs.empty" "$at/master/metadata.mfs"
	echo '* / rw,alldirs,maproot=0' >"$at/exports"
	: >"$at/topology"
	echo "$at/data" >"$at/disks"
	printf '%s\n' WORKING_USER=root WORKING_GROUP=root "DATA_PATH=$at/master" "EXPORTS_FILENAME=$at/exports" "TOPOLOGY_FILENAME=$at/topology" >"$at/master.cfg"
	printf '%s\n' WORKING_USER=root WORKING_GROUP=root "DATA_PATH=$at/chunks" "HDD_CONF_FILENAME=$at/disks" "MASTER_HOST=$SERVER_ADDRESS" >"$at/chunks.cfg"
	enter server "$MOOSEFS/usr/sbin/mfsmaster" -c "$at/master.cfg" -f start >"$at/log" 2>&1 &
	until_ok 20 "mfsmaster" on server sh -c 'ss -Hltn | grep -q :9421' || return 1
	enter server "$MOOSEFS/usr/sbin/mfschunkserver" -c "$at/chunks.cfg" -f start >"$at/log.chunks" 2>&1 &
	until_ok 20 "mfschunkserver" on server sh -c 'ss -Hltn | grep -q :9422' || return 1
	for i in $(seq "$NODES"); do
		mkdir "$WORK/node$i/moosefs"
		enter "node$i" "$MOOSEFS/usr/bin/mfsmount" -f -H $SERVER_ADDRESS "$WORK/node$i/moosefs" >"$at/log.node$i" 2>&1 &
	done
	for i in $(seq "$NODES"); do until_ok 30 "mfsmount" on "node$i" grep -q " $WORK/node$i/moosefs fuse" /proc/mounts || return 1; done
	PIDS[moosefs]=$(pgrep -x 'mfsmaster|mfschunkserver|mfsmount' | tr '\n' ' ') # they fork at their start
	until_ok 30 "room on the chunk server" on node1 sh -c "echo x >$WORK/node1/moosefs/first"
}

place() { [ "$1" = kairan ] && mnt "$2" || echo "$WORK/node$2/$1"; } # SYSTEM NODE

# run SYSTEM ROUND COUNT WHAT: COUNT nodes at once; one line of results.
run() {
	local system=$1 round=$2 count=$3 what=$4 i cpu start programs=()
	# shellcheck disable=SC2086
	cpu=$(python3 "$TOP/test/bench/small.py" cpu ${PIDS[$system]})
	start=$(python3 -c "import time; print(time.monotonic() + 0.5 + 0.05 * $count)")
	for i in $(seq "$count"); do
		on "node$i" python3 "$PROGRAM" "$what" "$(place "$system" "$i")/$round.$count.$i" "$FILES" "$start" >"$WORK/times.$i" &
		programs+=($!)
	done
	for i in "${programs[@]}"; do wait "$i" || fail "$what on $system"; done
	# shellcheck disable=SC2046,SC2086
	echo "$system $round $count $what $(cat $(seq -f "$WORK/times.%g" "$count") | tr '\n' ' ') $(($(python3 "$TOP/test/bench/small.py" cpu ${PIDS[$system]}) - cpu))" >>"$RESULTS"
}

PIDS[kairan]="${DAEMON[*]}" PIDS[sshfs]="" PIDS[moosefs]=""
start_sshfs || exit 1
[ -z "$MOOSEFS" ] || start_moosefs || { tail -n 5 "$WORK"/moosefs/log* >&2; exit 1; }
for round in $(seq "$ROUNDS"); do
	for count in $([ "$NODES" = 1 ] || echo 1) $NODES; do
		for what in empty 4KiB unlink; do
			for system in $SYSTEMS; do run "$system" "$round" "$count" $what; done
		done
	done
done
python3 "$PROGRAM" table "$RESULTS" "$FILES"
# shellcheck disable=SC2086
kill ${PIDS[sshfs]} ${PIDS[moosefs]} 2>/dev/null
