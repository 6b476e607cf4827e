# kairan doctor: it finds each kind of trouble that is made here, says what it costs and what to do, and finds none where all is well.
# tags: sanitizer
# timeout: 300
. "$TOP/test/lib.sh"
EXPECTED_ERRORS='key file .* can be read or written by others'
K=$B/tools/kairan
cluster 2
server_start
mounts_start
M=$(mnt 1)
# doctor HOST COMMAND...: its output in $WORK/said, its exit code in $CODE.
doctor() { on "$@" >"$WORK/said" 2>&1; CODE=$?; }
# finds RESULT CHECK PATTERN: a line of that result, and advice behind all but ok.
finds() {
	grep -A 1 -E -- "^  $1 +$2: .*$3" "$WORK/said" >"$WORK/found" || fail "no $1 of $2 with \"$3\": $(cat "$WORK/said")"
	[ "$1" = ok ] || grep -q '^           -> ' "$WORK/found" || fail "no advice: $(cat "$WORK/found")"
}
# trouble CODE RESULT CHECK PATTERN HOST COMMAND...
trouble() {
	local code=$1 result=$2 check=$3 pattern=$4
	shift 4
	doctor "$@"
	[ $CODE = "$code" ] || fail "exit code $CODE for $check: $(cat "$WORK/said")"
	finds "$result" "$check" "$pattern"
}
well() {
	doctor "$@"
	[ $CODE = 0 ] && ! grep -qE '^  (warning|PROBLEM)' "$WORK/said" && grep -qx 'nothing to do' "$WORK/said" || fail "exit code $CODE: $(cat "$WORK/said")"
}

note "all is well"
case $(uname -r) in [1-5].* | 6.[0-9].* | 6.1[0-3].*) ;; *) well node1 "$K" doctor "$M" ;; esac
doctor node1 "$K" doctor "$M"
for check in 'local directory' room packets server clock ring; do finds ok "$check" .; done
finds ok packets 'in both directions'
finds ok ring 'all 1 ring ports'
doctor server "$K" doctor 127.0.0.1
[ $CODE = 0 ] || fail "$(cat "$WORK/said")"
finds ok ring 'all 2 ring ports'
finds ok export 'are free'
finds ok 'state directory' 'are free'
doctor node1 "$K" doctor --json
python3 - "$WORK/said" "$M" <<'P' || fail "json: $(cat "$WORK/said")"
import json, sys
findings = json.load(open(sys.argv[1]))
assert {f["about"] for f in findings} == {"this machine", sys.argv[2]}, findings
assert all(f["result"] in ("ok", "warning", "problem") and f["text"] and (f["result"] == "ok") == (not f["advice"]) for f in findings)
P

note "wrong arguments"
for arguments in '-x' 'a b' '--key a --munge b'; do
	# shellcheck disable=SC2086
	doctor node1 "$K" doctor $arguments
	[ $CODE = 64 ] && [ -s "$WORK/said" ] || fail "$arguments: $CODE, $(cat "$WORK/said")"
done
trouble 1 PROBLEM mount 'does not lie on a mount' node1 "$K" doctor /usr

note "this machine"
trouble 0 warning kernel 'Linux 2\.6\..*before 6\.14' node1 setarch --uname-2.6 "$K" doctor "$M"
trouble 1 PROBLEM fuse 'nothing can be mounted: .*No such file' node2 unshare -m sh -c 'mount -t tmpfs none /dev && exec "$0" doctor' "$K"
trouble 1 PROBLEM fuse 'nothing can be mounted: .*Permission denied' node2 unshare -m sh -c 'mount --bind -o ro,nodev /dev /dev && mount -o remount,bind,nodev /dev && exec "$0" doctor' "$K"
trouble 0 warning fusermount3 'not in PATH' node1 env PATH=/nowhere "$K" doctor "$M"
mkdir "$WORK/bin"
cp "$(command -v fusermount3)" "$WORK/bin"
trouble 0 warning fusermount3 'does not run as root \(mode 0755\)' node1 env PATH="$WORK/bin" "$K" doctor "$M"

note "Slurm (as scontrol of Slurm 22.05 prints it)"
printf 'TIMEOUT=200\n' >"$WORK/job.conf"
slurm() { printf '#!/bin/sh\necho "PrologEpilogTimeout     = %s"\n' "$1" >"$WORK/bin/scontrol"; chmod 755 "$WORK/bin/scontrol"; }
WITH_SLURM=(env "PATH=$WORK/bin:$PATH" "KAIRAN_JOB_CONF=$WORK/job.conf")
slurm 300
trouble 0 warning slurm 'after 300 s, which may take twice its TIMEOUT of 200 s' node1 "${WITH_SLURM[@]}" "$K" doctor "$M"
slurm 500
trouble 0 ok slurm '500 s' node1 "${WITH_SLURM[@]}" "$K" doctor "$M"
slurm 65534
doctor node1 "${WITH_SLURM[@]}" "$K" doctor "$M"
! grep -q slurm: "$WORK/said" || fail "no limit is no trouble: $(cat "$WORK/said")"

if [ "$(nproc)" -gt 1 ]; then
	note "processors that are left to programs"
	mount_stop 1
	mount_start 1 cpus=0
	left=1$([ "$(nproc)" = 2 ] || echo "-$(($(nproc) - 1))")
	mkdir -p "$WORK/irq/24/eth0-rx" "$WORK/irq/25/disk" "$WORK/irq/26"
	as_told() { # INTERRUPT's-PROCESSOR MASK: what the kernel would say
		echo "$1" | tee "$WORK/irq/24/effective_affinity_list" >"$WORK/irq/26/effective_affinity_list" # nobody uses the last
		echo 0 >"$WORK/irq/25/effective_affinity_list"
		echo "$2" >"$WORK/mask"
		doctor node1 unshare -m sh -c 'mount --bind "$1/irq" /proc/irq && mount --bind "$1/mask" /sys/devices/virtual/workqueue/cpumask &&
			mount --bind "$1/mask" /sys/devices/virtual/workqueue/writeback/cpumask && exec "$2" doctor "$3"' sh "$WORK" "$K" "$M"
		[ $CODE = 0 ] || fail "$(cat "$WORK/said")"
		finds ok processors "the daemon keeps to 0, and off $left"
	}
	as_told 1 3
	finds warning interrupts "1 go to processors $left, which are left to programs: 24 \(eth0-rx\)"
	finds warning 'kernel workers' "may run on processors $left"
	finds warning isolation "processors $left are left to programs"
	as_told 0 1
	finds ok interrupts "none goes to processors $left"
	finds ok 'kernel workers' "none may run on processors $left"
	mount_stop 1
	mount_start 1
	doctor node1 "$K" doctor "$M"
	! grep -qE 'processors|interrupts|isolation' "$WORK/said" || fail "without cpus=: $(cat "$WORK/said")"
fi

note "clocks"
python3 -c 'import struct, sys; open(sys.argv[1], "wb").write(struct.pack("<qq", 90, 0))' "$WORK/clock"
trouble 0 warning clock '(89|9[0-9])\.[0-9] s behind' node1 env "ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0" KR_CLOCKS="$WORK/clock" LD_PRELOAD="$B/test/libclocks.so" "$K" doctor "$M"

note "a link that drops large packets: of both directions, and of one"
segments_only() { for host in server node1; do on $host ip link set eth0 gso_max_segs "$1"; done; ip link set v-node1 gso_max_segs "$1"; ip link set v-server gso_max_segs "$1"; }
segments_only 1
drop_on() { on "$1" nft "add table ip t; add chain ip t c { type filter hook $2 priority 0; }; add rule ip t c tcp $3 7440 ip length > 1300 drop"; }
ip link set v-node1 mtu 1300
trouble 1 PROBLEM packets 'segments of 1200 bytes pass, full-sized ones do not' node1 "$K" doctor "$M"
ip link set v-node1 mtu 1500
for direction in dport sport; do
	drop_on node1 "$([ $direction = dport ] && echo output || echo input)" $direction
	trouble 1 PROBLEM packets 'segments of 1200 bytes pass, full-sized ones do not' node1 "$K" doctor $SERVER_ADDRESS
	on node1 nft delete table ip t
done
doctor node1 "$K" doctor $SERVER_ADDRESS
finds ok packets 'in both directions'

note "ring ports behind a firewall"
on node2 nft 'add table ip t; add chain ip t c { type filter hook input priority 0; }; add rule ip t c tcp flags & (syn|ack) == syn drop'
trouble 0 warning ring 'of 1 nodes 1 cannot be reached .*node2 \(10.77.1.2:[0-9]+: Connection timed out\)' node1 "$K" doctor "$M"
on node2 nft delete table ip t

note "mounts of the same directory, and copies in other namespaces"
mkdir "$WORK/second" "$WORK/local2"
on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/second" -o "local=$WORK/local2,node=node1b" || fail "no second mount"
trouble 0 warning 'other mounts' "mounted on $WORK/second, too" node1 "$K" doctor "$M"
kairan 1 umount "$WORK/second" || fail "the second mount stays"
on node1 mount --make-shared "$M"
# keep PROPAGATION: a process in a mount namespace of its own, $KEPT.
keep() {
	rm -f "$WORK/kept"
	on node1 unshare -m --propagation "$1" sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000' "$WORK/kept" &
	KEPT_JOB=$!
	until_ok 10 "a namespace" test -e "$WORK/kept" || fail "no namespace"
	KEPT=$(cat "$WORK/kept")
}
keep slave
doctor node1 "$K" doctor "$M"
! grep -q namespaces: "$WORK/said" || fail "a slave unmounts with its master: $(cat "$WORK/said")"
kill "$KEPT"; wait $KEPT_JOB 2>/dev/null
keep private
trouble 0 warning namespaces "process $KEPT \(s[a-z]*\) .*the daemon goes on" node1 "$K" doctor "$M"
kill "$KEPT"; wait $KEPT_JOB 2>/dev/null

note "an ordinary user"
doctor node1 setpriv --reuid 1 --regid 1 --clear-groups "$K" doctor "$M" # who may not open /dev/fuse on some machines
finds warning daemon 'only root and who has mounted'

note "where local= lies"
mount_stop 2 || fail "unmount"
L=$WORK/node2/local
remount() { # MOUNT-ARGUMENTS... -- OPTIONS
	local arguments=()
	while [ "$1" != -- ]; do arguments+=("$1"); shift; done
	on node2 mount "${arguments[@]}" || fail "mount ${arguments[*]}"
	mount_start 2 "$2"
}
again() { mount_stop 2 || fail "unmount"; on node2 umount "$L" || fail "umount $L"; }
remount -t tmpfs -o mode=700,size=256M none "$L" -- journal_max=64M,cache_max=64M
grep -q "warning: local directory $L lies in memory (tmpfs)" "$WORK/node2/log" || fail "the mount says nothing: $(tail -3 "$WORK/node2/log")"
trouble 0 warning 'local directory' 'lies in memory \(tmpfs\)' node2 "$K" doctor "$(mnt 2)"
finds ok room 'are free'
again
remount -t tmpfs -o mode=700,size=128M none "$L" -- journal_max=64M,cache_max=1G
trouble 0 warning room 'compete for the rest' node2 "$K" doctor "$(mnt 2)"
again
remount -t tmpfs -o mode=700,size=32M none "$L" -- journal_max=64M
trouble 0 warning room 'before it reaches journal_max' node2 "$K" doctor "$(mnt 2)"
head -c 28M /dev/zero | on node2 tee "$L/filler" >/dev/null
trouble 1 PROBLEM room 'writes wait for the server' node2 "$K" doctor "$(mnt 2)"
again
mkdir "$WORK/lower" "$WORK/layers"
on node2 mount -t tmpfs none "$WORK/layers"
on node2 mkdir "$WORK/layers/upper" "$WORK/layers/work"
on node2 chmod 700 "$WORK/layers/upper"
remount -t overlay -o "lowerdir=$WORK/lower,upperdir=$WORK/layers/upper,workdir=$WORK/layers/work" none "$L" -- journal_max=64M
trouble 0 warning 'local directory' 'lies on an overlay' node2 "$K" doctor "$(mnt 2)"
again
! on node1 "$B/fuse/kairanfs" $SERVER_ADDRESS:/ "$WORK/second" -o "local=$M/local,node=node1b" 2>"$WORK/err" || fail "a kairan mount below local="
grep -q 'lies on a mount of kairanfs: name one on a local disk' "$WORK/err" || fail "$(cat "$WORK/err")"
[ ! -e "$EXPORT/local" ] || fail "it left $EXPORT/local"

note "a server without a node; none"
mount_start 2
mount_kill 2
until_ok 30 "node2 lost" sh -c "! nsenter -t ${KEEPER[server]} -n $K status --check 127.0.0.1 >/dev/null"
trouble 1 PROBLEM server 'a node is missing' node1 "$K" doctor $SERVER_ADDRESS
server_kill
trouble 1 PROBLEM server 'cannot reach server .*refused' node1 "$K" doctor $SERVER_ADDRESS
mount_kill 1
mount -t tmpfs -o size=4M none "$EXPORT"
mkdir -p "$WORK/memory"
on server mount -t tmpfs none "$WORK/memory"
on server mount -t tmpfs -o size=4M none "$EXPORT"
server_start --state "$WORK/memory/state"
trouble 1 PROBLEM export 'MiB are free .*refused' server "$K" doctor 127.0.0.1
finds PROBLEM 'state directory' 'lies in memory'
server_stop
on server umount "$EXPORT"
umount "$EXPORT"

note "keys"
"$K" key --expires 3 "$WORK/key" || fail "no key"
server_start --no-insecure --key "$WORK/key" --state "$WORK/state2"
trouble 1 PROBLEM server 'wants a key' server "$K" doctor 127.0.0.1
grep -q -- '-> name a key that it takes with --key FILE' "$WORK/said" || fail "$(cat "$WORK/said")"
rm -rf "$WORK/node1/local"
mount_start 1 "key=$WORK/key"
trouble 0 warning key "expires at .*all operations wait" node1 "$K" doctor "$M"
finds ok packets 'in both directions'
chmod 644 "$WORK/key"
trouble 1 PROBLEM key 'can be read or written by others' node1 "$K" doctor "$M"
chmod 600 "$WORK/key"
trouble 1 PROBLEM server 'wants a key' node1 "$K" doctor $SERVER_ADDRESS
doctor node1 "$K" doctor --key "$WORK/key" $SERVER_ADDRESS
[ $CODE = 0 ] || fail "$(cat "$WORK/said")"

if [ -c /dev/net/tun ]; then
	note "a link with a long round trip"
	long_link 1 1000 20 0
	trouble 0 warning 'round trip' '4[0-9] ms to the server: .* [45][0-9].* MiB/s' node1 "$K" doctor --key "$WORK/key" $SERVER_ADDRESS
	on node1 sh -c 'echo 4096 131072 33554432 >/proc/sys/net/ipv4/tcp_wmem' || fail "no larger send buffers"
	doctor node1 "$K" doctor --key "$WORK/key" $SERVER_ADDRESS
	! grep -q 'round trip' "$WORK/said" || fail "send buffers for 400 MB/s: $(cat "$WORK/said")"
fi
finish
