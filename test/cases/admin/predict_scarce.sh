# kairan predict names what bounds a program: the link, the server's disk, the server's processors, or the delay of messages, each made scarce on
# purpose. Where nothing is scarce, work for processors is all that is left, and none of the others is named.
# timeout: 240
. "$TOP/test/lib.sh"
. "$TOP/test/lib-predict.sh"
[ -n "${PREDICT_SCARCE:-}" ] || skip "it measures, so the machine must not be busy: PREDICT_SCARCE=1 test/run admin/predict_scarce (the rule itself is unit predict_bound's)"
CGROUPS=/sys/fs/cgroup
[ -f $CGROUPS/cpu/cpu.cfs_quota_us ] && [ -f $CGROUPS/blkio/blkio.throttle.read_bps_device ] ||
	skip "no control groups of version 1 that limit processors and disks"
# The server's export lies on a device of its own.
mkdir -p "$EXPORT"
truncate -s 1500M "$WORK/image" && mkfs.ext4 -q "$WORK/image" && mount -o loop "$WORK/image" "$EXPORT" || skip "no loop device"
DEVICE=$(mountpoint -d "$EXPORT")
cluster 2
server_start
GROUP=kairan-predict-$RANDOM$RANDOM
ungroup() {
	kill -KILL "${DAEMON[server]}" 2>/dev/null
	wait "${DAEMON[server]}" 2>/dev/null
	rmdir $CGROUPS/{cpu,blkio}/$GROUP
}
trap ungroup EXIT
for controller in cpu blkio; do
	mkdir "$CGROUPS/$controller/$GROUP" && echo "${DAEMON[server]}" >"$CGROUPS/$controller/$GROUP/cgroup.procs" || fail "no control group"
done
long_link 2 1000 20 0
mounts_start

# Reads COUNT files, with pauses of SECONDS; writes COUNT files of 4 MB; writes COUNT files of 1 MB and syncs each; or makes COUNT files, or as
# many as it can within SECONDS.
cat >"$WORK/work.py" <<'P'
import os, sys, time
what, name, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
end = time.monotonic() + seconds
for i in range(count):
    if what == "read":
        with open(name + str(i), "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
        time.sleep(seconds)
    elif what == "write":
        with open(name + str(i), "wb", buffering=0) as file:
            file.write(os.urandom(4000000))
    elif what == "sync":
        with open(name + str(i), "wb", buffering=0) as file:
            file.write(os.urandom(1000000))
            os.fsync(file.fileno())
    elif time.monotonic() < end:
        os.close(os.open(name + str(i), os.O_WRONLY | os.O_CREAT, 0o600))
P
ln -s "$(python3 -c "import sys; print(sys.executable)")" "$WORK/program"
# input NAME COUNT BYTES: files that the server has in memory.
input() { for i in $(seq 0 $(($2 - 1))); do head -c "$3" /dev/urandom >"$EXPORT/$1$i"; done; }
# traced NODE NAME read|write|sync|make COUNT SECONDS: NAME.trace.
traced() {
	kairan "$1" trace start "$(mnt "$1")" || fail "trace"
	on "node$1" "$WORK/program" "$WORK/work.py" "$3" "$(mnt "$1")/$2" "$4" "$5" || fail "the program"
	kairan "$1" trace stop "$(mnt "$1")" >/dev/null && cp "$WORK/node$1/local/trace" "$WORK/$2.trace" || fail "trace"
}
envelope() {
	kairan 1 envelope --processes 1 --max-size 1 --rounds 1 --json "$WORK/$1.json" "$(mnt 1)" >"$WORK/said" 2>&1 || fail "$(cat "$WORK/said")"
}
# says ENVELOPE NAME TEXT JSON: what bounds the program.
says() {
	"$K" predict --envelope "$WORK/$1.json" "$WORK/$2.trace" | tee "$WORK/said"
	grep -q "^program .*  $3\$" "$WORK/said" || fail "$2: $3 is not named: $(grep '"S"' "$WORK/$2.trace")"
	"$K" predict --envelope "$WORK/$1.json" --json "$WORK/$2.trace" | python3 -c 'import json, sys
said = [one for one in json.load(sys.stdin) if one["program"] == "program"][0]
assert said["bound_by"] == sys.argv[1] and said["shares"][sys.argv[1]] == max(said["shares"].values()), said' "$4" || fail "$2: see above"
}
# says_no NAME BOUND...: what bounds it is none of these, though there are shares of it.
says_no() {
	"$K" predict --envelope "$WORK/plain.json" "$WORK/$1.trace"
	"$K" predict --envelope "$WORK/plain.json" --json "$WORK/$1.trace" | python3 -c 'import json, sys
said = [one for one in json.load(sys.stdin) if one["program"] == "program"][0]
assert sum(said["shares"].values()) > 0 and said["bound_by"] not in sys.argv[1:], said' "${@:2}" || fail "$1: see above"
}

note "nothing is scarce"
input pauses 8 4000000
envelope plain
traced 1 pauses read 8 0.3
says_no pauses link server_disk delay
traced 1 names make 1000000 2
says_no names link server_disk delay

note "the link"
input bytes 1 3000000
limit node1 12mbit
envelope narrow
traced 1 bytes read 1 0
says narrow bytes "the link" link
traced 1 written write 1 0 # larger than what goes with a request
says narrow written "the link" link
limit node1 10gbit

note "the server's disk"
input cold 2 2000000
python3 -c 'import os, sys
for path in sys.argv[1:]:
    file = os.open(path, os.O_RDWR)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)' "$EXPORT"/cold[01]
echo "$DEVICE 1500000" >$CGROUPS/blkio/$GROUP/blkio.throttle.read_bps_device
traced 1 cold read 2 0
echo "$DEVICE 0" >$CGROUPS/blkio/$GROUP/blkio.throttle.read_bps_device
says plain cold "the server's disk" server_disk
echo "$DEVICE 1000000" >$CGROUPS/blkio/$GROUP/blkio.throttle.write_bps_device
traced 1 synced sync 3 0
echo "$DEVICE 0" >$CGROUPS/blkio/$GROUP/blkio.throttle.write_bps_device
says plain synced "the server's disk" server_disk

note "the server's processors"
echo 2000 >$CGROUPS/cpu/$GROUP/cpu.cfs_quota_us # of 100 ms: scarcer than those of a busy machine are for the node
traced 1 slow make 1000000 3
echo -1 >$CGROUPS/cpu/$GROUP/cpu.cfs_quota_us
says plain slow "the server's processors" server_cpu

note "the delay of messages"
traced 2 far make 1000000 2
says plain far "the delay of messages" delay
finish
