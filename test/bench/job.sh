# The measurements of test/bench/job, in namespaces of its own.  Arguments: the mount options of each column of kairan.
. "$TOP/test/lib.sh"
PROGRAM=$TOP/test/bench/job.py
RESULTS=$WORK/results
STARTED=8 # nodes whose scratch is started and removed
PATH=$PATH:$B/server:/usr/sbin:/sbin

disk() { echo "$WORK/node$1/disk"; }
in_view() { echo "/proc/${KEEPER[$1]}/root$2"; } # of KEEPER's namespace, PATH
# at_once COUNT FUNCTION [ARGUMENT...]: FUNCTION NODE [ARGUMENT...] for the first COUNT nodes; fails if one fails.
at_once() {
	local count=$1 function=$2 i status=0 pids=()
	shift 2
	for i in $(seq "$count"); do
		"$function" "$i" "$@" >"$WORK/said.$i" 2>&1 </dev/null &
		pids+=($!)
	done
	for i in $(seq "$count"); do wait "${pids[i - 1]}" || { status=1; sed "s/^/node$i: /" "$WORK/said.$i" >&2; }; done
	return $status
}

make_disk() { # NODE
	local device
	truncate -s 8G "$IMAGES/$1" && mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 "$IMAGES/$1" &&
		mkdir "$(disk "$1")" && on "node$1" mount -o loop "$IMAGES/$1" "$(disk "$1")" &&
		device=$(on "node$1" mountpoint -d "$(disk "$1")") || return 1
	echo "$device" >>"$WORK/limited"
	echo "$device $((MIB_PER_SECOND << 20))" >"$THROTTLE.read_bps_device" &&
		echo "$device $((MIB_PER_SECOND << 20))" >"$THROTTLE.write_bps_device"
}
start_server() {
	"$B/tools/kairan" key "$WORK/key" >/dev/null || return 1
	on server "$B/server/kairand" --listen "0.0.0.0:$PORT" --key "$WORK/key" --state "$WORK/state" "$EXPORT" \
		</dev/null >"$WORK/kairand.log" 2>&1 &
	until_ok 30 "kairand" grep -q ready "$WORK/kairand.log"
}

kairan_view() { echo "node$1 $(mnt "$1")"; } # namespace and mount of NODE
kairan_mount() { # NODE JOB OPTIONS
	on "node$1" "$B/fuse/kairanfs" "$SERVER_ADDRESS:/" "$(mnt "$1")" \
		-o "view=job,job=$2,key=$WORK/key,local=$(disk "$1")/kairan${3:+,$3}"
}
kairan_start() { at_once "$1" kairan_mount "$((++jobs))" "$2"; } # COUNT OPTIONS
kairan_mounted() { on "node$1" grep -q " $(mnt "$1") fuse.kairanfs" /proc/mounts; }
kairan_left() {
	! kairan_mounted "$1" || kairan "$1" umount "$(mnt "$1")" || return 1
	on "node$1" test ! -e "$(disk "$1")/kairan"
}
# All at once, as at the end of a job: a node whose head leaves in the middle of that is told so, and asks again.
kairan_umount() { until_ok 60 "the end on node$1" kairan_left "$1"; }
kairan_stop() { at_once "$1" kairan_umount; }

# gluster_prepare NODE: a namespace for the volume's programs and its mount, beside that of the node.  What they would
# leave in /var and /run is in memory.
gluster_prepare() {
	local root=$GLUSTER usr=$WORK/usr etc=$WORK/etc
	nsenter -t "${KEEPER[node$1]}" -n -u -m -- unshare --mount --propagation private sh -c "
		mount -t overlay -o lowerdir=$usr${root:+:$root/usr}:/usr kairan /usr &&
		mount -t overlay -o lowerdir=$etc${root:+:$root/etc}:/etc kairan /etc &&
		for place in /run /var/lib /var/log; do mount -t tmpfs kairan \$place || exit 1; done &&
		mkdir /var/lib/glusterd /var/log/glusterfs /run/gluster && touch '$WORK/gluster$1' && exec sleep 1000000" \
		>"$WORK/gluster$1.log" 2>&1 &
	KEEPER[gluster$1]=$!
	until_ok 10 "a namespace for GlusterFS" test -e "$WORK/gluster$1" || fail "node$1: $(cat "$WORK/gluster$1.log")"
}
gluster_find() {
	local i geo
	[ "$GLUSTER" != none ] || return 1
	if [ -n "$GLUSTER" ]; then
		GLUSTER=$(realpath "$GLUSTER")
		[ -x "$GLUSTER/usr/sbin/glusterd" ] || fail "no usr/sbin/glusterd in $GLUSTER"
	else
		command -v glusterd >/dev/null && command -v glusterfs >/dev/null || return 1
	fi
	mkdir "$WORK/etc" && echo "hosts: files" >"$WORK/etc/nsswitch.conf" || return 1 # there is no network to ask
	# Without geo-replication, for which each glusterd would start Python dozens of times.
	mkdir "$WORK/usr"
	for geo in "$GLUSTER"/usr/lib/*/glusterfs/gsyncd "$GLUSTER"/usr/libexec/glusterfs/gsyncd; do
		[ -e "$geo" ] || continue
		geo=$WORK${geo#"$GLUSTER"}
		mkdir -p "${geo%/*}" && mknod "$geo" c 0 0 || return 1 # as overlayfs says that a file is not there
	done
	echo "127.0.0.1 localhost" >"$WORK/etc/hosts"
	for i in $(seq "$NODES"); do
		echo "10.77.1.$i node$i" >>"$WORK/etc/hosts"
		mkdir "$WORK/node$i/gluster"
	done
	for i in $(seq "$NODES"); do gluster_prepare "$i"; done
}
gluster_view() { echo "gluster$1 $WORK/node$1/gluster"; }
gluster() {
	on gluster1 gluster --mode=script "$@" >"$WORK/said" 2>&1 || { echo "gluster $*: $(cat "$WORK/said")" >&2; return 1; }
}
gluster_daemon() { mkdir "$(in_view "node$1" "$(disk "$1")")/brick" && on "gluster$1" glusterd -p /run/glusterd.pid; }
# gluster_peers COUNT: each knows all others.
gluster_peers() {
	local i found
	for i in $(seq "$1"); do
		found=$(on "gluster$i" gluster peer status | grep -c "Peer in Cluster (Connected)")
		[ "$found" = $(($1 - 1)) ] || return 1
	done
}
gluster_mount() {
	on "gluster$1" glusterfs --volfile-server="10.77.1.$1" --volfile-id=/job "$WORK/node$1/gluster" &&
		on "gluster$1" stat "$WORK/node$1/gluster/."
}
gluster_start() { # COUNT
	local i bricks=()
	at_once "$1" gluster_daemon || return 1
	for i in $(seq "$1"); do bricks+=("10.77.1.$i:$(disk "$i")/brick"); done
	for i in $(seq 2 "$1"); do gluster peer probe "10.77.1.$i" || return 1; done
	until_ok 30 "peers of GlusterFS" gluster_peers "$1" || return 1
	gluster volume create job transport tcp "${bricks[@]}" force && gluster volume start job && at_once "$1" gluster_mount
}
gluster_umount() { on "gluster$1" umount "$WORK/node$1/gluster"; }
gluster_end() {
	local daemon
	daemon=$(on "gluster$1" cat /run/glusterd.pid) && kill "$daemon" && until_ok 20 "the end of glusterd" gone "$daemon" &&
		on "gluster$1" sh -c "rm -rf /var/lib/glusterd/* '$(disk "$1")/brick'"
}
gluster_stop() {
	at_once "$1" gluster_umount && gluster volume stop job force && gluster volume delete job && at_once "$1" gluster_end
}

# timed FIGURE COLUMN ROUND COMMAND...: its seconds are a result.
timed() {
	local figure=$1 column=$2 round=$3 began
	shift 3
	began=$(date +%s%N)
	"$@" || return 1
	python3 "$PROGRAM" seconds "$RESULTS" "$column" "$round" "$figure" $(($(date +%s%N) - began))
}
# measure SYSTEM COLUMN ROUND [OPTIONS]
measure() {
	local system=$1 column=$2 round=$3 options=${4:-} i keeper path places=()
	"${system}_start" "$MEASURED" "$options" || return 1
	for i in $(seq "$MEASURED"); do
		read -r keeper path <<<"$("${system}_view" "$i")"
		places+=("$(in_view "$keeper" "$path")" "$(in_view "node$i" "$(disk "$i")")")
	done
	python3 "$PROGRAM" measure "$RESULTS" "$column" "$round" "$MIB" "$FILES" "${places[@]}" &&
		"${system}_stop" "$MEASURED" &&
		timed start "$column" "$round" "${system}_start" $STARTED "$options" &&
		timed stop "$column" "$round" "${system}_stop" $STARTED
}

jobs=0
trap '[ ! -f "$RESULTS" ] || python3 "$PROGRAM" table "$RESULTS"' EXIT
cluster "$((MEASURED > STARTED ? MEASURED : STARTED))"
disks=()
for i in $(seq "$NODES"); do
	make_disk "$i" || fail "no disk for node$i"
	disks+=("$(in_view "node$i" "$(disk "$i")")")
done
start_server || fail "no server: $(cat "$WORK/kairand.log")"
gluster_is_here=yes
gluster_find || { gluster_is_here=; echo "no GlusterFS here: its columns are left out"; }
python3 "$PROGRAM" disks "$MIB_PER_SECOND" "${disks[@]}" || exit 1
for round in $(seq "$ROUNDS"); do
	python3 "$PROGRAM" bare "$RESULTS" "$round" "$MIB" "$FILES" "${disks[0]}" || fail "round $round on the bare disk"
	for column in $(seq $#); do
		measure kairan "kairan ${!column:--}" "$round" "${!column}" || fail "round $round with kairan ${!column}"
	done
	[ -z "$gluster_is_here" ] || measure gluster GlusterFS "$round" || fail "round $round with GlusterFS"
done
