# What is installed works from where it lies: the service's readiness, mount -t fuse.kairanfs, prologue and epilogue of jobs.
# timeout: 240
. "$TOP/test/lib.sh"
cluster 1
DESTDIR=$WORK/root meson install -C "$B" --no-rebuild >"$WORK/install.log" 2>&1 || fail "install: $(tail -3 "$WORK/install.log")"
PREFIX=$WORK/root$(meson introspect --buildoptions "$B" | python3 -c 'import json, sys; print(*[o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"])')
export PATH=$PREFIX/bin:$PATH
M=$(mnt 1)
for page in kairan.1 kairan-mpiio.7 kairand.8 kairanfs.8 kairan-setup.8; do
	[ -s "$PREFIX/share/man/man${page##*.}/$page" ] || fail "no $page"
done
for program in kairan kairand kairanfs kairan-setup; do
	bash -c ". '$PREFIX/share/bash-completion/completions/$program' && complete -p $program" >/dev/null || fail "bash cannot complete $program"
done

for file in share/doc/kairan/SECURITY.md share/doc/kairan/README.md share/doc/kairan/docs/operations.md share/kairan/kairan.json share/kairan/fstab share/kairan/job.conf share/kairan/grafana-dashboard.json; do
	[ -s "$PREFIX/$file" ] && [ "$(stat -c %a "$PREFIX/$file")" = 644 ] || fail "$file is not installed for all to read"
done
echo '#include <kairan/kairan_ioctl.h>' >"$WORK/uses.c"
cc -fsyntax-only -Wall -Wextra -Werror -I "$PREFIX/include" "$WORK/uses.c" || fail "the header for programs does not stand alone"

if [ -e "$B/mpiio/libkairan-mpiio.so" ]; then
	library=$(sed -n 's/^prepend-path LD_PRELOAD //p' "$PREFIX/share/kairan-mpiio/modulefile")
	[ -s "$WORK/root$library" ] &&
		[ "$(find "$WORK/root" -name 'libkairan-mpiio-*.so' -printf '%h\n' | sort -u)" = "$WORK/root${library%/*}" ] ||
		fail "the module file names $library, but there lies not all"
fi

note "exit status of wrong options, and versions"
for expected in kairan=64 kairand=64 kairanfs=1; do
	program=${expected%=*}
	env "$program" --nonsense >"$WORK/said" 2>&1
	[ $? = "${expected#*=}" ] && grep -q nonsense "$WORK/said" || fail "$program --nonsense does not end with ${expected#*=}: $(cat "$WORK/said")"
	[[ $(env "$program" --version) == "$program "[0-9]* ]] || fail "$program --version"
done
note "the service"
unit=$PREFIX/lib/systemd/system/kairand@.service
kept=$(sed -n '/^static const struct kr_capability kept/,/^}/s/.*{\(CAP_[A-Z_]*\),.*/\1/p' "$TOP/server/export/cred.c")
[ "$(wc -w <<<"$kept")" -gt 5 ] || fail "no list of capabilities in server/export/cred.c"
for capability in $kept; do
	grep -q "^CapabilityBoundingSet=.*\b$capability\b" "$unit" || fail "the unit lacks $capability"
done
[ "$(sed -n 's/^EnvironmentFile=-//p' "$unit" | tail -1)" = /etc/default/kairand-%i ] || fail "no file for the options of one instance"
if command -v systemd-tmpfiles >/dev/null; then
	mkdir -p "$WORK/aged/usr/lib/tmpfiles.d" "$WORK/aged/var/tmp/kairan-0/mount"
	echo 'q /var/tmp 1777 - - 0' >"$WORK/aged/usr/lib/tmpfiles.d/all.conf"
	cp "$PREFIX/lib/tmpfiles.d/kairan.conf" "$WORK/aged/usr/lib/tmpfiles.d/"
	touch "$WORK/aged/var/tmp/kairan-0/mount/journal" "$WORK/aged/var/tmp/other"
	systemd-tmpfiles --root="$WORK/aged" --clean >"$WORK/said" 2>&1
	[ -e "$WORK/aged/var/tmp/kairan-0/mount/journal" ] || fail "systemd-tmpfiles removes journals: $(cat "$WORK/said")"
	[ ! -e "$WORK/aged/var/tmp/other" ] || note "systemd-tmpfiles removes nothing here"
fi
if command -v systemd-analyze >/dev/null; then
	mkdir -p "$WORK/units"
	sed "s|^ExecStart=[^ ]*|ExecStart=$PREFIX/bin/kairand|" "$unit" >"$WORK/units/kairand@.service"
	sed "s|=[^ ]*/bin/|=$PREFIX/bin/|" "$PREFIX/lib/systemd/system/kairanfs@.service" >"$WORK/units/kairanfs@.service"
	for name in kairand@srv-data kairanfs@mnt-data; do
		systemd-analyze verify --man=no "$WORK/units/$name.service" >"$WORK/said" 2>&1 || fail "unit: $(cat "$WORK/said")"
	done
fi
kairand --config "$TOP/conf/kairan.json" --print-config "$EXPORT" >/dev/null || fail "kairan.json of the server"
kairanfs --config "$TOP/conf/kairan.json" --print-config fs1:/ "$M" >/dev/null || fail "kairan.json of a mount"
python3 - "$WORK/notify" >"$WORK/notified" <<'P' &
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as said:
    said.bind(sys.argv[1])
    said.settimeout(60)
    print(said.recv(100).decode(), flush=True)
P
until_ok 30 "a service manager" test -S "$WORK/notify" || fail "no socket"
NOTIFY_SOCKET=$WORK/notify server_start
until_ok 30 "READY" grep -qx "READY=1" "$WORK/notified" || fail "said: $(cat "$WORK/notified")"

note "mount(8)"
on node1 mount --bind "$PREFIX/bin" /usr/local/bin || fail "bind" # mount.fuse3 has a PATH of its own
line=$(grep -v '^#' "$PREFIX/share/kairan/fstab")
[ "$(wc -w <<<"$line")" = 6 ] && grep -q ',local=/scratch/kairan ' <<<"$line" || fail "fstab: $line"
printf '%s\n' "$line" | sed "s|^fs1:|$SERVER_ADDRESS:|; s| /mnt/data | $M |; s|/scratch/kairan|$WORK/node1/local|" >"$WORK/fstab"
on node1 mount --bind "$WORK/fstab" /etc/fstab && on node1 mount "$M" || fail "mount by fstab: $(cat "$WORK/fstab")"
on node1 sh -c "echo by mount >'$M/file'" || fail "write"
on node1 mount -o remount,ro "$M" >"$WORK/said" 2>&1 || fail "remount read-only: $(cat "$WORK/said")"
[ ! -s "$WORK/said" ] || fail "remount says: $(cat "$WORK/said")"
! on node1 touch "$M/other" 2>/dev/null || fail "writes to what was remounted read-only"
on node1 mount -o remount,rw "$M" 2>/dev/null && on node1 touch "$M/other" || fail "remount read-write"
on node1 umount "$M" || fail "umount"

note "the helpers of mount(8) and umount(8)"
sbin=$(realpath /sbin)
mkdir "$WORK/sbin" "$WORK/sbin.was"
on node1 mount --bind "$sbin" "$WORK/sbin.was" || fail "bind"
for program in "$sbin"/*; do ln -s "$WORK/sbin.was/${program##*/}" "$WORK/sbin/"; done
ln -s "$PREFIX/share/kairan/mount.kairanfs" "$PREFIX/share/kairan/umount.fuse.kairanfs" "$WORK/sbin/"
on node1 mount --bind "$WORK/sbin" "$sbin" || fail "bind"
on node1 mount -t kairanfs -o "_netdev,nofail,local=$WORK/node1/local" "$SERVER_ADDRESS:/" "$M" || fail "mount -t kairanfs"
on node1 grep -qF "$SERVER_ADDRESS:/ $M fuse.kairanfs " /proc/mounts || fail "the mount's type: $(on node1 grep -F " $M " /proc/mounts)"
on node1 umount "$M" || fail "umount"
! on node1 mount -t kairanfs -o "no_such_option,local=$WORK/node1/local" "$SERVER_ADDRESS:/" "$M" 2>"$WORK/said" || fail "mounts with an unknown option"
grep -q no_such_option "$WORK/said" || fail "mount -t kairanfs says: $(cat "$WORK/said")"
for how in away back; do
	on node1 kairanfs $SERVER_ADDRESS:/ "$M" -o "local=$WORK/node1/local,close=async,flush_age=1000,drain_timeout=2" || fail "mount"
	on node1 sh -c "echo '$how' >'$M/$how'" || fail "write"
	[ $how = back ] || kill -STOP "${DAEMON[server]}"
	# -c as systemd: else umount looks at the mount point first, which waits for the server.
	timeout 60 nsenter -t "${KEEPER[node1]}" -n -u -m -- umount -c "$M" >"$WORK/said" 2>&1
	status=$?
	kill -CONT "${DAEMON[server]}"
	! on node1 grep -qF " $M " /proc/mounts || fail "not unmounted: $(cat "$WORK/said")"
	if [ $how = away ]; then
		[ $status != 0 ] && grep -q "away: 5 bytes" "$WORK/said" || fail "what is left is not told ($status): $(cat "$WORK/said")"
	else
		[ $status = 0 ] && [ "$(cat "$EXPORT/away" "$EXPORT/back")" = "$(printf "away\nback")" ] || fail "umount did not flush ($status): $(cat "$WORK/said")"
	fi
done
mount_start 1
on node1 umount -l "$M" && ! on node1 grep -qF " $M " /proc/mounts || fail "umount -l"
until_ok 60 "an end of the daemon" sh -c "! kill -0 ${DAEMON[node1]} 2>/dev/null" || fail "umount -l: the daemon stays"
on node1 umount -l "$sbin"
on node1 umount -l /usr/local/bin
[ "$(cat "$EXPORT/file")" = "by mount" ] || fail "the file's content"

note "jobs"
cat >"$WORK/job.conf" <<C
SOURCE=$SERVER_ADDRESS:/
MOUNTPOINT=$(dirname "$M")/.//a place/
OPTIONS=local=$WORK/node1/local
TIMEOUT=3
C
M=$(dirname "$M")/"a place"
ln -s "$M" "$WORK/link"
sed "s|^MOUNTPOINT=.*|MOUNTPOINT='$WORK/link/'|" "$WORK/job.conf" >"$WORK/link.conf"
sed -i "s|^MOUNTPOINT=\(.*\)|MOUNTPOINT='\1'|" "$WORK/job.conf"
for script in prologue epilogue; do
	! on node1 env KAIRAN_JOB_CONF="$WORK/link.conf" KAIRAN_JOBS="$WORK/jobs" SLURM_JOB_ID=9 "$PREFIX/share/kairan/job-$script" 2>"$WORK/said" ||
		fail "$script takes a link for a mount point"
	grep -q link "$WORK/said" || fail "$script: $(cat "$WORK/said")"
done
# job SCRIPT ID: runs it as a batch system does on node 1.
job() { on node1 env KAIRAN_JOB_CONF="$WORK/job.conf" KAIRAN_JOBS="$WORK/jobs" SLURM_JOB_ID="$2" "$PREFIX/share/kairan/job-$1"; }
is_mounted() { on node1 grep -qF " ${M/ /\\040} fuse.kairanfs " /proc/mounts; }
job prologue 1 || fail "prologue"
on node1 sh -c "echo first >'$M/first'" || fail "write of the first job"
job prologue 2 || fail "second prologue"
job epilogue 1 || fail "epilogue of the first"
is_mounted || fail "unmounted under the second job"
[ "$(cat "$EXPORT/first")" = first ] || fail "what the first job wrote"
note "its daemon is killed"
on node1 sh -c "echo second >'$M/second'" || fail "write of the second job"
kill -KILL "$(on node1 pgrep -f "kairanfs $SERVER_ADDRESS:/ $M")" || fail "no daemon"
until_ok 30 "no daemon" sh -c "! '$PREFIX/bin/kairan' status '$M'" || fail "still there"
job prologue 3 || fail "prologue after the daemon's death"
[ "$(on node1 cat "$M/second")" = second ] || fail "what the second job wrote"
job epilogue 2 && job epilogue 3 || fail "epilogue"
! is_mounted || fail "still mounted after the last job"
note "scratch of jobs"
cat >>"$WORK/job.conf" <<C
NODE_MOUNTPOINT=$WORK/node1/scratch
NODE_LOCAL=$WORK/node1/disk
NODE_SIZE_MAX=32M
C
# asks ID COMMENT: the prologue of a job of user 1.
asks() { on node1 env SLURM_JOB_COMMENT="$2" SLURM_JOB_USER=daemon KAIRAN_JOB_CONF="$WORK/job.conf" KAIRAN_JOBS="$WORK/jobs" SLURM_JOB_ID="$1" "$PREFIX/share/kairan/job-prologue" 2>"$WORK/said" || fail "prologue: $(cat "$WORK/said")"; }
tells() { on node1 env KAIRAN_JOB_CONF="$WORK/job.conf" SLURM_JOB_ID="$1" "$PREFIX/share/kairan/job-task-prologue"; }
scratch() { echo "$WORK/node1/scratch/$1"; }
nothing_left() { [ ! -e "$(scratch "$1")" ] && [ ! -e "$WORK/node1/disk/$1" ] || fail "left of job $1: $(find "$(scratch "$1")" "$WORK/node1/disk/$1" 2>&1)"; }
asks 11 "my simulation"
[ -z "$(tells 11)" ] && [ ! -e "$(scratch 11)" ] || fail "scratch for a job that asks for none"
asks 12 "my simulation,kairan-node=16M"
asks 13 "kairan-node=999999T"
grep -q "has 32M" "$WORK/said" || fail "more than the most: $(cat "$WORK/said")"
for comment in 'kairan-node=$(touch /tmp/x)M' kairan-node=1 kairan-node=0M kairan-node=99999999999999999999T kairan-node=-1G; do
	asks 14 "$comment"
	[ -z "$(tells 14)" ] || fail "scratch for $comment"
done
[ "$(tells 12)" = "export KAIRAN_NODE=$(scratch 12)" ] || fail "KAIRAN_NODE: $(tells 12)"
[ "$(on node1 stat -c '%U %a' "$(scratch 12)")" = "daemon 700" ] || fail "whose scratch: $(on node1 stat -c '%U %a' "$(scratch 12)")"
[ "$(on node1 df --output=size -B1M "$(scratch 12)" | tail -1)" -eq 16 ] && [ "$(on node1 df --output=size -B1M "$(scratch 13)" | tail -1)" -eq 32 ] || fail "sizes"
as_daemon() { on node1 setpriv --reuid daemon --regid daemon --clear-groups "$@"; }
as_daemon sh -c "echo hers >$(scratch 12)/file" || fail "the user cannot write"
[ -z "$(on node1 ls -A "$(scratch 13)")" ] || fail "a job sees another's scratch"
job epilogue 11 && job epilogue 12 && job epilogue 14 || fail "epilogue"
nothing_left 12
note "a process of the job is left, and its daemon is killed"
as_daemon sh -c "cd $(scratch 13) && echo \$\$ >$WORK/shell13 2>/dev/null; exec sleep 600" &
until_ok 10 "the process" on node1 sh -c "ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q '$(scratch 13)'" || fail "no process"
job epilogue 13 2>"$WORK/said" || fail "epilogue: $(cat "$WORK/said")"
nothing_left 13
kill $! 2>/dev/null
asks 15 kairan-node=16M
on node1 sh -c "echo left >$(scratch 15)/file"
kill -KILL "$(on node1 pgrep -f "kairanfs none $(scratch 15)")" || fail "no daemon"
job epilogue 15 >"$WORK/said" 2>&1 || fail "epilogue after the daemon's death: $(cat "$WORK/said")"
nothing_left 15
mkdir -p "$WORK/node1/disk/7/kairan-view/deep" && : >"$WORK/node1/disk/7/kairan-view/deep/file" # the node was reset under job 7
asks 16 kairan-node=16M
nothing_left 7
on node1 sh -c "echo left >$(scratch 16)/file"
asks 16 kairan-node=16M # it is queued again, and there was no epilogue
[ -z "$(on node1 ls -A "$(scratch 16)")" ] || fail "a job that runs again finds the files of its former run"
job epilogue 16 || fail "epilogue"
[ -z "$(ls -A "$WORK/node1/disk" "$WORK/node1/scratch" | grep -v :)" ] || fail "left: $(find "$WORK/node1/disk" "$WORK/node1/scratch")"
note "scratch that the nodes of a job share"
cat >>"$WORK/job.conf" <<C
JOB_MOUNTPOINT=$WORK/node1/shared
JOB_LOCAL=$WORK/node1/shared-disk
C
shared() { echo "$WORK/node1/shared/$1"; }
no_shared_left() { [ ! -e "$(shared "$1")" ] && [ ! -e "$WORK/node1/shared-disk/$1" ] || fail "left of job $1: $(find "$(shared "$1")" "$WORK/node1/shared-disk/$1" 2>&1 | head -5)"; }
for comment in kairan-jobs xkairan-job kairan-node=16M; do
	asks 20 "$comment"
	[ ! -e "$(shared 20)" ] || fail "shared scratch for $comment"
done
asks 21 "mine,kairan-job=yes,more"
asks 22 kairan-job
[ "$(tells 21)" = "export KAIRAN_JOB=$(shared 21)" ] || fail "KAIRAN_JOB: $(tells 21)"
[ "$(on node1 stat -c '%U %a' "$(shared 21)")" = "daemon 700" ] || fail "whose scratch: $(on node1 stat -c '%U %a' "$(shared 21)")"
as_daemon sh -c "echo hers >$(shared 21)/file" && [ -z "$(on node1 ls -A "$(shared 22)")" ] || fail "two jobs"
job epilogue 20 && job epilogue 21 || fail "epilogue"
no_shared_left 21
kill -KILL "$(on node1 pgrep -of "kairanfs $SERVER_ADDRESS:/ $(shared 22)")" || fail "no daemon"
job epilogue 22 >"$WORK/said" 2>&1 || fail "epilogue after the daemon's death: $(cat "$WORK/said")"
no_shared_left 22
asks 23 kairan-job
kill -KILL "$(on node1 pgrep -of "kairand --config options")" || fail "no kairand of a job"
until_ok 10 "the end of job 23" test ! -e "$WORK/node1/shared-disk/23" || fail "a job without kairand lives"
rm "$WORK/jobs/23" # its epilogue never runs
asks 24 "" && no_shared_left 23 && job epilogue 24 || fail "what a dead head has left"
! on node1 pgrep -f shared-disk || fail "a process of a job is left"
sed -i '/^JOB_/d' "$WORK/job.conf"
note "somebody's shell is left on the mount"
job prologue 3 || fail "prologue"
on node1 sh -c "echo \$\$ >'$WORK/shell'; cd '$M' && echo third >third && exec sleep 600" &
until_ok 30 "the file" test -e "$EXPORT/third" || fail "no file"
job epilogue 3 >"$WORK/said" 2>&1 || fail "the epilogue fails for a shell: $(cat "$WORK/said")"
grep -q "programs use it" "$WORK/said" && is_mounted || fail "who uses the mount is not told of: $(cat "$WORK/said")"
[ "$(cat "$EXPORT/third")" = third ] || fail "what the third job wrote"
kill "$(cat "$WORK/shell")" && wait $! 2>/dev/null
job prologue 3 && job epilogue 3 || fail "epilogue after that"
! is_mounted || fail "still mounted when nobody uses it"
note "a job ends while the server is away"
sed -i 's|^OPTIONS=.*|&,close=async|' "$WORK/job.conf"
job prologue 4 || fail "prologue"
# writes_while_away NAME: a program of a job writes NAME when the server has gone.
writes_while_away() {
	rm -f "$WORK/opened" "$WORK/gone"
	on node1 python3 - "$M/$1" "$WORK/opened" "$WORK/gone" <<'P' &
import os, sys, time
out = open(sys.argv[1], "w")
open(sys.argv[2], "w").close()
while not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
out.write("left\n")
P
	program=$!
	until_ok 30 "the file" test -e "$WORK/opened" || fail "no file"
	server_stop
	: >"$WORK/gone"
	wait $program || fail "the job's program"
}
writes_while_away left
! job epilogue 4 >"$WORK/said" 2>&1 || fail "the epilogue does not tell that something is left"
grep -q "left: 5 bytes" "$WORK/said" && grep -q "job 4: .*$M" "$WORK/said" || fail "what is left is not named: $(cat "$WORK/said")"
server_start
job prologue 5 || fail "prologue after that"
[ "$(on node1 cat "$M/left")" = left ] || fail "what the job before had left"
job epilogue 5 || fail "epilogue"
[ "$(cat "$EXPORT/left")" = left ] || fail "what was left is not on the server"
for refused in fail pass; do
	note "what the server refuses, because the file is immutable there: $refused"
	echo "REFUSED=$refused" >>"$WORK/job.conf"
	job prologue "$refused" || fail "prologue"
	writes_while_away "lost_$refused"
	chattr +i "$EXPORT/lost_$refused" || skip "no immutable files here"
	server_start
	job epilogue "$refused" >"$WORK/said" 2>&1
	status=$?
	grep -q "lost_$refused: 5 bytes" "$WORK/said" && ! is_mounted || fail "what is refused is not named: $(cat "$WORK/said")"
	[ $status = $([ $refused = fail ] && echo 1 || echo 0) ] || fail "exit status of the epilogue: $status"
	chattr -i "$EXPORT/lost_$refused"
done
finish
